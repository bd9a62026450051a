//! Listening sockets: addresses as Redis writes them, the options that accepted sockets inherit, and the life of a Unix socket's file.
//! It knows nothing of connections or events.
//!
//! Linux copies `TCP_NODELAY` and the keep-alive options from the listener to what it accepts: set once here, an accept costs no further
//! system call (a test checks it).
use super::{Peer, sys};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, SockaddrLike, SockaddrStorage, UnixAddr, bind,
    getsockname, setsockopt, socket, sockopt,
};
use std::fmt;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Addresses or names; `*` is every IPv4, `::*` every IPv6 address; one that begins with `-` may be missing on this machine.
    pub bind: Vec<String>,
    /// TCP port; 0 lets the kernel choose (one for each address), `None` is no TCP at all.
    pub port: Option<u16>,
    /// Connections that may wait to be accepted; the kernel cuts it to `somaxconn`.
    pub backlog: u32,
    /// Seconds of silence after which the kernel probes a TCP peer; 0 switches that off.
    pub tcp_keepalive_s: u32,
    pub unix_path: Option<PathBuf>,
    /// Mode of the Unix socket's file.
    pub unix_perm: Option<u32>,
    /// What is served here: a number that the handler knows, and gets with each connection ([`Peer::service`]).
    pub service: u8,
}
impl Default for Listen {
    fn default() -> Listen {
        Listen {
            bind: vec!["127.0.0.1".into(), "-::1".into()],
            port: Some(6379),
            backlog: 511,
            tcp_keepalive_s: 300,
            unix_path: None,
            unix_perm: None,
            service: 0,
        }
    }
}

/// Where a listener really listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddr {
    Tcp(SocketAddr),
    Unix(PathBuf),
}
impl fmt::Display for LocalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalAddr::Tcp(address) => address.fmt(f),
            LocalAddr::Unix(path) => path.display().fmt(f),
        }
    }
}

/// One listening socket. Dropping it closes it, and removes the file of a Unix socket if that is still the one it made.
pub(super) struct Listener {
    fd: OwnedFd,
    address: LocalAddr,
    /// Device and inode of the Unix socket's file.
    file: Option<(u64, u64)>,
    service: u8,
}

impl Listener {
    pub(super) fn address(&self) -> &LocalAddr {
        &self.address
    }

    pub(super) fn service(&self) -> u8 {
        self.service
    }

    pub(super) fn accept(&self) -> Result<(OwnedFd, Peer), Errno> {
        let (fd, remote) = sys::accept(self.fd.as_fd())?;
        let raw = fd.as_raw_fd();
        let peer = match &self.address {
            LocalAddr::Unix(path) => {
                let name = format!("{}:0", path.display());
                Peer { remote: name.clone(), local: name, fd: raw, unix: true, service: self.service }
            }
            LocalAddr::Tcp(listening) => {
                // A wildcard listener does not know which of the machine's addresses the peer used.
                let local = if listening.ip().is_unspecified() {
                    getsockname::<SockaddrStorage>(raw).ok().and_then(socket_addr).unwrap_or(*listening)
                } else {
                    *listening
                };
                let remote = remote.and_then(socket_addr).map_or_else(|| "?:0".into(), |address| address.to_string());
                Peer { remote, local: local.to_string(), fd: raw, unix: false, service: self.service }
            }
        };
        Ok((fd, peer))
    }

    /// Sets the keep-alive interval that connections accepted from now on inherit.
    pub(super) fn set_keepalive(&self, seconds: u32) -> io::Result<()> {
        match self.address {
            LocalAddr::Tcp(_) => keepalive(&self.fd, seconds),
            LocalAddr::Unix(_) => Ok(()),
        }
    }
}
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
impl Drop for Listener {
    fn drop(&mut self) {
        if let (LocalAddr::Unix(path), Some(file)) = (&self.address, self.file)
            && identity(path).is_ok_and(|now| now == file)
        {
            // Nothing sensible can be done about a failure here.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens everything that `listen` names, or nothing.
pub(super) fn open(listen: &Listen) -> io::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    if let Some(port) = listen.port {
        for spec in &listen.bind {
            let (name, optional) = spec.strip_prefix('-').map_or((spec.as_str(), false), |name| (name, true));
            match tcp(name, port, listen) {
                Ok(listener) => listeners.push(listener),
                Err(error) if optional && is_missing(&error) => {}
                Err(error) => {
                    return Err(io::Error::new(error.kind(), format!("cannot listen on {name} port {port}: {error}")));
                }
            }
        }
    }
    if let Some(path) = &listen.unix_path {
        let listener = unix(path, listen)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display())))?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Opens a listener of its own at each TCP address where `first` listens; the kernel spreads the connections over them. `listen` says the
/// rest. A Unix socket has one listener only.
///
/// `first` was bound without `SO_REUSEPORT` and gets it here, when it listens already: so a port on which another process listens is
/// refused to it, whatever the options of that one. Bound with the option from the beginning, two servers of one user would share the
/// port, and each would see some of the connections.
pub(super) fn open_beside(first: &[Listener], listen: &Listen) -> io::Result<Vec<Listener>> {
    let beside = |listener: &Listener, address: SocketAddr| {
        setsockopt(&listener.fd, sockopt::ReusePort, &true)?;
        tcp_at(address, &Listen { service: listener.service, ..listen.clone() }, true)
    };
    let mut listeners = Vec::new();
    for listener in first {
        if let LocalAddr::Tcp(address) = listener.address {
            let opened = beside(listener, address);
            listeners.push(opened.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {address} with several workers: {error}"))
            })?);
        }
    }
    Ok(listeners)
}

/// The machine has no such address, or not its family.
fn is_missing(error: &io::Error) -> bool {
    let missing = [Errno::EADDRNOTAVAIL, Errno::EAFNOSUPPORT, Errno::EPROTONOSUPPORT];
    error.raw_os_error().is_some_and(|code| missing.contains(&Errno::from_raw(code)))
}

fn tcp(name: &str, port: u16, listen: &Listen) -> io::Result<Listener> {
    let name = match name {
        "*" => "0.0.0.0",
        "::*" => "::",
        name => name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(name),
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (name, port).to_socket_addrs()? {
        match tcp_at(address, listen, false) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn tcp_at(address: SocketAddr, listen: &Listen, shared: bool) -> io::Result<Listener> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = stream_socket(family)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    if shared {
        setsockopt(&fd, sockopt::ReusePort, &true)?;
    }
    setsockopt(&fd, sockopt::TcpNoDelay, &true)?;
    keepalive(&fd, listen.tcp_keepalive_s)?;
    match address {
        SocketAddr::V4(v4) => bind(fd.as_raw_fd(), &SockaddrIn::from(v4))?,
        SocketAddr::V6(v6) => {
            // Else `::` would take the IPv4 port as well, and a second bind of it would fail.
            setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
            bind(fd.as_raw_fd(), &SockaddrIn6::from(v6))?;
        }
    }
    sys::listen(fd.as_fd(), backlog(listen))?;
    let bound = getsockname::<SockaddrStorage>(fd.as_raw_fd())?;
    let address = socket_addr(bound).unwrap_or(address);
    Ok(Listener { fd, address: LocalAddr::Tcp(address), file: None, service: listen.service })
}

fn unix(path: &Path, listen: &Listen) -> io::Result<Listener> {
    let fd = stream_socket(AddressFamily::Unix)?;
    let name = UnixAddr::new(path)?;
    match bind(fd.as_raw_fd(), &name) {
        Err(Errno::EADDRINUSE) if is_stale(path) => {
            std::fs::remove_file(path)?;
            bind(fd.as_raw_fd(), &name)?;
        }
        result => result?,
    }
    let file = identity(path).ok();
    // From here on a failure removes the file again. Before `listen` nobody can connect, so the mode is never wider than asked for.
    let listener = Listener { fd, address: LocalAddr::Unix(path.to_owned()), file, service: listen.service };
    if let Some(mode) = listen.unix_perm {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    sys::listen(listener.fd.as_fd(), backlog(listen))?;
    Ok(listener)
}

/// A socket's file that nobody listens on any more, left behind by a server that was killed.
fn is_stale(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?)
}

fn backlog(listen: &Listen) -> i32 {
    i32::try_from(listen.backlog).unwrap_or(i32::MAX)
}

/// Three probes, a third of the interval apart, as Redis sends them.
fn keepalive(fd: &OwnedFd, seconds: u32) -> io::Result<()> {
    setsockopt(fd, sockopt::KeepAlive, &(seconds > 0))?;
    if seconds > 0 {
        // The kernel refuses more than 32767 seconds.
        let seconds = seconds.min(32_767);
        setsockopt(fd, sockopt::TcpKeepIdle, &seconds)?;
        setsockopt(fd, sockopt::TcpKeepInterval, &(seconds / 3).max(1))?;
        setsockopt(fd, sockopt::TcpKeepCount, &3)?;
    }
    Ok(())
}

fn socket_addr(address: SockaddrStorage) -> Option<SocketAddr> {
    match address.family()? {
        AddressFamily::Inet => address.as_sockaddr_in().map(|a| SocketAddr::V4(SocketAddrV4::from(*a))),
        AddressFamily::Inet6 => address.as_sockaddr_in6().map(|a| SocketAddr::V6(SocketAddrV6::from(*a))),
        _ => None,
    }
}
