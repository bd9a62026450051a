//! The directive `net`: which network the server works over.
use super::value::ValueError;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// How connections, input and output come and go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Net {
    #[default]
    Epoll,
    Uring,
    /// An interface of IP packets and TCP of our own: its name, and our addresses (none: the interface's peers).
    Tun {
        interface: String,
        addresses: Vec<IpAddr>,
    },
    /// Frames of an interface by AF_XDP: its name, and the queue of the first worker.
    Xdp {
        interface: String,
        queue: u32,
    },
}

/// Of an interface's name, in Linux.
const NAME_BYTES_MAX: usize = 15;
const QUEUE_MAX: u32 = 1023;

impl Net {
    /// # Errors
    /// If it is none of the four, or a part of it is missing or wrong.
    pub(super) fn parse(value: &[u8]) -> Result<Net, ValueError> {
        let text = std::str::from_utf8(value).map_err(|_| WRONG)?;
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let (interface, place) = match rest {
            None => (None, None),
            Some(rest) => rest.split_once(':').map_or((Some(rest), None), |(name, place)| (Some(name), Some(place))),
        };
        let named = |name: &str| {
            let ok = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(['/', ' ']) && name != "..";
            ok.then(|| name.to_owned()).ok_or(WRONG)
        };
        match (kind.to_ascii_lowercase().as_str(), interface, place) {
            ("epoll", None, None) => Ok(Net::Epoll),
            ("uring", None, None) => Ok(Net::Uring),
            ("tun", Some(name), None) => Ok(Net::Tun { interface: named(name)?, addresses: Vec::new() }),
            ("tun", Some(name), Some(list)) => {
                let addresses = list.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| WRONG)?;
                Ok(Net::Tun { interface: named(name)?, addresses })
            }
            ("xdp", Some(name), queue) => {
                let queue = queue.map_or(Ok(0), str::parse).map_err(|_| WRONG)?;
                if queue > QUEUE_MAX {
                    return Err(WRONG);
                }
                Ok(Net::Xdp { interface: named(name)?, queue })
            }
            _ => Err(WRONG),
        }
    }
}

const WRONG: ValueError = ValueError::Refused(Cow::Borrowed(
    "argument must be epoll, uring, xdp:<interface>[:queue] or tun:<name>[:addresses]",
));

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Net::Epoll => f.write_str("epoll"),
            Net::Uring => f.write_str("uring"),
            Net::Tun { interface, addresses } => {
                write!(f, "tun:{interface}")?;
                for (number, address) in addresses.iter().enumerate() {
                    write!(f, "{}{address}", if number == 0 { ':' } else { ',' })?;
                }
                Ok(())
            }
            Net::Xdp { interface, queue: 0 } => write!(f, "xdp:{interface}"),
            Net::Xdp { interface, queue } => write!(f, "xdp:{interface}:{queue}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written() {
        for text in [
            "epoll",
            "uring",
            "tun:t0",
            "tun:t0:10.7.0.2",
            "tun:t0:10.7.0.2,fd00::2",
            "tun:t0:fd00::2",
            "xdp:eth0",
            "xdp:eth0:3",
        ] {
            assert_eq!(Net::parse(text.as_bytes()).unwrap().to_string(), text);
        }
        assert_eq!(Net::parse(b"EPOLL").unwrap(), Net::Epoll);
        assert_eq!(Net::parse(b"xdp:eth0:0").unwrap().to_string(), "xdp:eth0");
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for text in [
            "",
            "poll",
            "epoll:eth0",
            "uring:0",
            "xdp",
            "xdp:",
            "xdp::1",
            "xdp:eth0:",
            "xdp:eth0:x",
            "xdp:eth0:1024",
            "xdp:../etc",
            "tun",
            "tun:",
            "tun:t0:",
            "tun:t0:10.7.0",
            "tun:t0:10.7.0.1,",
            "xdp:sixteen-letters-",
        ] {
            assert!(Net::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
