//! The raw system calls of the network layer that no safe wrapper offers as we need them, and nothing else: no policy, no state.
//!
//! Every descriptor comes in as `BorrowedFd` and goes out as `OwnedFd`, so nothing here can use or close a number that is not its own.
#![allow(unsafe_code)]
use nix::errno::Errno;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Slices in one send; the kernel takes at most 1024 (`UIO_MAXIOV`), and beyond some dozens nothing is gained.
pub(super) const SEND_SLICES_MAX: usize = 64;

/// The result of a call that returns a count or -1.
#[inline]
fn count(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::last())
}

/// Receives into `buffer`; 0 is the end of the stream (`buffer` must not be empty, else it would be ambiguous).
#[inline]
pub(super) fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    debug_assert!(!buffer.is_empty());
    // SAFETY: the pointer and the length are those of an exclusively borrowed slice, which outlives the call; the kernel writes
    // initialised bytes only within it.
    count(unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) })
}

/// Sends the slices in order, as much as the kernel takes; never raises SIGPIPE.
#[inline]
pub(super) fn send(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    if let [slice] = slices { send_bytes(fd, slice) } else { send_many(fd, slices) }
}

/// Sends what the kernel takes of `bytes`.
#[inline]
pub(super) fn send_bytes(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the pointer and the length are those of a slice that is borrowed for the call; the kernel only reads it.
    count(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) })
}

#[cold]
#[inline(never)]
fn send_many(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    debug_assert!(slices.len() <= 1024);
    // SAFETY: `msghdr` is a plain C struct for which all-zero means "no address, no control data, no flags".
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices.as_ptr().cast::<libc::iovec>().cast_mut();
    message.msg_iovlen = slices.len();
    // SAFETY: `IoSlice` is guaranteed to have the layout of `iovec`; the array and what it points to are borrowed for the call, and
    // `sendmsg` only reads them (the pointer is `*mut` because `recvmsg` shares the struct).
    count(unsafe { libc::sendmsg(fd.as_raw_fd(), &message, libc::MSG_NOSIGNAL) })
}

/// Accepts one connection (non-blocking, close-on-exec) and says who it is, in one call.
pub(super) fn accept(listener: BorrowedFd<'_>) -> Result<(OwnedFd, Option<SockaddrStorage>), Errno> {
    // SAFETY: `sockaddr_storage` is a plain C struct for which all-zero (family AF_UNSPEC) is a value.
    let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::sockaddr_storage>()).unwrap_or(0);
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: both pointers are to locals that outlive the call, and `length` is the size of `address`.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), (&raw mut address).cast(), &raw mut length, flags) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: `address` holds `length` initialised bytes (all of it is, by the zeroing) of the family it names.
    let address = unsafe { SockaddrStorage::from_raw((&raw const address).cast(), Some(length)) };
    Ok((fd, address))
}

/// Nothing more will be sent.
pub(super) fn half_close(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    nix::sys::socket::shutdown(fd.as_raw_fd(), nix::sys::socket::Shutdown::Write)
}

/// `listen` with any backlog (the kernel cuts it to `somaxconn`).
pub(super) fn listen(fd: BorrowedFd<'_>, backlog: i32) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    Errno::result(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// Makes `fd`, of `/dev/net/tun`, the program's end of the interface `name`: packets of IP, nothing in front of them.
pub(super) fn attach_tun(fd: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    // SAFETY: `ifreq` is a plain C struct for which all-zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(Errno::ENAMETOOLONG);
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = libc::c_char::from_le_bytes([byte]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_TUN | libc::IFF_NO_PI).unwrap_or(0);
    // SAFETY: the request outlives the call, and the kernel reads and writes it only.
    Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) }).map(drop)
}

/// An emptied vector of slices for borrows of another lifetime, with the allocation it had.
#[inline]
pub(super) fn recycle<'new>(mut slices: Vec<IoSlice<'_>>) -> Vec<IoSlice<'new>> {
    slices.clear();
    let mut slices = std::mem::ManuallyDrop::new(slices);
    // SAFETY: pointer and capacity are those of a vector that `ManuallyDrop` gave up; the element types differ in their lifetime only,
    // so size and alignment are the same; the length is 0, so no slice of the old lifetime survives.
    unsafe { Vec::from_raw_parts(slices.as_mut_ptr().cast(), 0, slices.capacity()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn several_slices_arrive_in_order() {
        let (a, mut b) = UnixStream::pair().unwrap();
        let parts: Vec<IoSlice> = [&b"one"[..], b"", b"two"].into_iter().map(IoSlice::new).collect();
        assert_eq!(send(a.as_fd(), &parts), Ok(6));
        drop(a);
        let mut got = Vec::new();
        b.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"onetwo");
    }

    #[test]
    fn end_of_stream_and_broken_pipe() {
        let (a, b) = UnixStream::pair().unwrap();
        drop(b);
        assert_eq!(recv(a.as_fd(), &mut [0; 4]), Ok(0));
        assert_eq!(send(a.as_fd(), &[IoSlice::new(b"x")]), Err(Errno::EPIPE));
    }

    #[test]
    fn receives_what_was_sent() {
        let (a, mut b) = UnixStream::pair().unwrap();
        b.write_all(b"hello").unwrap();
        let mut window = [0; 8];
        assert_eq!(recv(a.as_fd(), &mut window), Ok(5));
        assert_eq!(&window[..5], b"hello");
    }

    #[test]
    fn recycling_keeps_the_allocation() {
        let text = String::from("x");
        let mut slices = Vec::with_capacity(SEND_SLICES_MAX);
        slices.push(IoSlice::new(text.as_bytes()));
        let place = slices.as_ptr() as usize;
        let again: Vec<IoSlice<'static>> = recycle(slices);
        drop(text);
        assert!(again.is_empty());
        assert_eq!((again.as_ptr() as usize, again.capacity()), (place, SEND_SLICES_MAX));
    }
}
