//! A TUN interface: packets by read(2) and write(2), one each. It needs nothing but `/dev/net/tun`, and is the slowest way.
use super::device::{Device, Hop, Transmit};
use crate::net::sys;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Longer ones than any interface carries.
const PACKET_BYTES: usize = 64 << 10;

/// See the module.
pub struct Tun {
    file: File,
    mtu: usize,
    buffer: Box<[u8]>,
    tx: TunSender,
}

/// The sending half.
pub struct TunSender {
    file: File,
    buffer: Box<[u8]>,
}

impl Tun {
    /// Takes the interface `name`, which must exist.
    ///
    /// # Errors
    /// If it does not, or is another's, or the system refuses; the text says what to do.
    pub fn open(name: &str) -> io::Result<Tun> {
        let told = |error: io::Error, text: &str| io::Error::new(error.kind(), format!("{text}: {error}"));
        let mtu = mtu(name).map_err(|error| {
            let make = format!("'ip tuntap add dev {name} mode tun; ip link set {name} up' makes it");
            told(error, &format!("there is no interface {name} ({make})"))
        })?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open("/dev/net/tun").map_err(|error| told(error, "cannot open /dev/net/tun"))?;
        sys::attach_tun(file.as_fd(), name).map_err(|error| told(error.into(), &format!("cannot attach to {name}")))?;
        let tx = TunSender { file: file.try_clone()?, buffer: vec![0; PACKET_BYTES].into() };
        Ok(Tun { file, mtu, buffer: vec![0; PACKET_BYTES].into(), tx })
    }

    /// The other ends of a point-to-point interface: what is ours, if nothing else is said.
    ///
    /// # Errors
    /// If the system refuses to list addresses.
    pub fn peers(name: &str) -> io::Result<Vec<IpAddr>> {
        let addresses = getifaddrs()?.filter(|address| address.interface_name == name);
        Ok(addresses.filter_map(|address| address.destination.as_ref().and_then(ip)).collect())
    }
}

/// The longest packet of an interface, in bytes.
pub(super) fn mtu(name: &str) -> io::Result<usize> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/mtu"))?;
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The IP address in a socket address.
pub(super) fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::from(*SocketAddrV4::from(*address).ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::from(*SocketAddrV6::from(*address).ip())))
}

impl Transmit for TunSender {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn send<R>(&mut self, _hop: Hop, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let packet = &mut self.buffer[..len];
        let result = fill(packet);
        // What does not go is lost on the way, and sent once more.
        let _ = self.file.write(packet);
        result
    }

    fn flush(&mut self) {}
}

impl Device for Tun {
    type Tx = TunSender;
    const NAME: &'static str = "tun";

    fn receive(&mut self, max: usize, mut each: impl FnMut(&mut TunSender, &[u8], Hop)) -> usize {
        for number in 0..max {
            match self.file.read(&mut self.buffer) {
                Ok(n) if n > 0 => each(&mut self.tx, &self.buffer[..n], Hop::default()),
                _ => return number,
            }
        }
        max
    }

    fn tx(&mut self) -> &mut TunSender {
        &mut self.tx
    }

    fn mtu(&self) -> usize {
        self.mtu.min(PACKET_BYTES)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    /// The kernel's end makes whole sums, as none of the offloads of the device was asked for.
    fn partial_sums(&self) -> bool {
        false
    }
}
