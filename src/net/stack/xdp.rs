//! An interface by AF_XDP: frames of one of its queues, past the kernel's network stack. The program on the interface ([`program`]) gives us TCP to
//! what we serve and nothing else, so ARP, neighbour discovery, ping and everything else stay the kernel's. Link addresses are learned from what comes.
mod bpf;
mod program;
mod rings;

use super::device::{Device, Hop, Transmit};
use super::{Service, tun};
use bpf::Mode;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use rings::{FRAME_BYTES, Receiver, Sender};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ETHERNET: usize = 14;
/// What a frame holds beside the room that the kernel keeps in front (256 bytes) and the header.
const MTU_MAX: usize = FRAME_BYTES - 256 - ETHERNET;
/// How long a server that has just ended may still hold the interface.
const BUSY_MAX: Duration = Duration::from_secs(5);
const BUSY_RETRY: Duration = Duration::from_millis(20);

/// The program on an interface; it goes when the last queue of it goes, or the process.
pub struct Attached {
    index: u32,
    name: String,
    map: OwnedFd,
    mode: Mode,
    _link: OwnedFd,
}

/// See the module.
pub struct Xdp {
    receiver: Receiver,
    tx: XdpSender,
    mtu: usize,
    partial_sums: bool,
    attached: Arc<Attached>,
}

/// The sending half.
pub struct XdpSender(Sender);

fn explained(error: Errno, what: &str) -> io::Error {
    let why = match error {
        Errno::EPERM | Errno::EACCES => ": CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF are needed",
        Errno::EAFNOSUPPORT => ": this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)",
        Errno::EBUSY => ": somebody else uses it",
        Errno::ENOBUFS | Errno::ENOMEM => ": there is too little memory that may be locked (ulimit -l)",
        _ => "",
    };
    io::Error::new(io::Error::from(error).kind(), format!("cannot {what}: {error}{why}"))
}

/// What is busy may be that of a server that is just ending.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let end = Instant::now() + BUSY_MAX;
    loop {
        match attempt() {
            Err(Errno::EBUSY) if Instant::now() < end => std::thread::sleep(BUSY_RETRY),
            result => return result,
        }
    }
}

impl Attached {
    /// Puts the program for `services` on the interface `name`; in its driver, if that can.
    ///
    /// # Errors
    /// If there is no such interface, or the system refuses.
    pub fn new(name: &str, services: &[Service]) -> io::Result<Attached> {
        let index = if_nametoindex(name).map_err(|error| explained(error, &format!("find the interface {name}")))?;
        let map = bpf::make_map(queues(name).max(1)).map_err(|error| explained(error, "make a map of sockets"))?;
        let code = program::assemble(services, std::os::fd::AsRawFd::as_raw_fd(&map));
        let program = bpf::load(&code).map_err(|error| explained(error, "load the XDP program"))?;
        let hang = |mode| patiently(|| bpf::link(program.as_fd(), index, mode));
        let what = format!("attach an XDP program to {name}");
        let (link, mode) = match hang(Mode::Native) {
            Ok(link) => (link, Mode::Native),
            Err(error @ (Errno::EBUSY | Errno::EPERM)) => return Err(explained(error, &what)),
            Err(_) => (hang(Mode::Generic).map_err(|error| explained(error, &what))?, Mode::Generic),
        };
        Ok(Attached { index, name: name.to_owned(), map, mode, _link: link })
    }
}

/// Receive queues of an interface.
#[must_use]
pub fn queues(name: &str) -> u32 {
    let entries = std::fs::read_dir(format!("/sys/class/net/{name}/queues")).into_iter().flatten().flatten();
    u32::try_from(entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-")).count()).unwrap_or(0)
}

/// What is served on an interface, of what the kernel listens on: `(address, number)`.
///
/// # Errors
/// If the system refuses to list addresses.
pub fn services(name: &str, listening: &[(SocketAddr, u8)]) -> io::Result<Vec<Service>> {
    let own: Vec<IpAddr> = getifaddrs()?
        .filter(|address| address.interface_name == name)
        .filter_map(|address| address.address.as_ref().and_then(tun::ip))
        .collect();
    let mut services = Vec::new();
    for (listener, number) in listening {
        for address in &own {
            let wild = listener.ip().is_unspecified() && listener.is_ipv4() == address.is_ipv4();
            if wild || listener.ip() == *address {
                services.push(Service { address: SocketAddr::new(*address, listener.port()), number: *number });
            }
        }
    }
    Ok(services)
}

impl Xdp {
    /// Takes the queue `queue` of the interface that the program is on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open(attached: &Arc<Attached>, queue: u32) -> io::Result<Xdp> {
        let name = &attached.name;
        let (fd, receiver, sender) = rings::open().map_err(|error| explained(error, "make an AF_XDP socket"))?;
        let bind = |flags| patiently(|| rings::bind(&fd, attached.index, queue, flags));
        let bound = match attached.mode {
            Mode::Native => match bind(libc::XDP_ZEROCOPY) {
                Err(Errno::EBUSY) => Err(Errno::EBUSY),
                Err(_) => bind(libc::XDP_COPY),
                bound => bound,
            },
            Mode::Generic => bind(libc::XDP_COPY),
        };
        bound.map_err(|error| explained(error, &format!("bind to queue {queue} of {name}")))?;
        bpf::set(attached.map.as_fd(), queue, fd.as_fd())
            .map_err(|error| explained(error, "enter a socket in the map"))?;
        Ok(Xdp {
            receiver,
            tx: XdpSender(sender),
            mtu: tun::mtu(name)?.min(MTU_MAX),
            partial_sums: !Path::new(&format!("/sys/class/net/{name}/device")).exists(),
            attached: Arc::clone(attached),
        })
    }

    /// For the log: how the interface gives us frames.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        match self.attached.mode {
            Mode::Native => "native",
            Mode::Generic => "generic",
        }
    }
}

impl Transmit for XdpSender {
    fn room(&self) -> usize {
        self.0.room()
    }

    fn send<R>(&mut self, hop: Hop, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let sent = self.0.send(ETHERNET + len, |frame| {
            let (header, packet) = frame.split_at_mut(ETHERNET);
            let result = fill(packet);
            header[..6].copy_from_slice(&hop.peer);
            header[6..12].copy_from_slice(&hop.own);
            let v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
            header[12..].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
            result
        });
        // No frame is free: it is lost, and sent once more.
        sent.unwrap_or_else(|fill| fill(&mut vec![0; ETHERNET + len]))
    }

    fn flush(&mut self) {
        self.0.flush();
    }
}

impl Device for Xdp {
    type Tx = XdpSender;
    const NAME: &'static str = "xdp";

    fn receive(&mut self, max: usize, mut each: impl FnMut(&mut XdpSender, &[u8], Hop)) -> usize {
        let tx = &mut self.tx;
        self.receiver.receive(max, |frame| {
            if let Some((header, packet)) = frame.split_first_chunk::<ETHERNET>() {
                let mut hop = Hop::default();
                hop.own.copy_from_slice(&header[..6]);
                hop.peer.copy_from_slice(&header[6..12]);
                each(tx, packet, hop);
            }
        })
    }

    fn tx(&mut self) -> &mut XdpSender {
        &mut self.tx
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.tx.0.descriptor())
    }

    fn partial_sums(&self) -> bool {
        self.partial_sums
    }
}
