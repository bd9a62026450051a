//! An AF_XDP socket: its memory, and the four rings by which frames change hands. No policy, nothing of packets.
//!
//! ```text
//! memory (UMEM)   | RX_FRAMES frames, of the receiving half | TX_FRAMES frames, of the sending half |
//!
//! a received frame:   free ─ fill ring ─▶ kernel ─ rx ring ─▶ lent for one call ─ fill ring ─▶ ...
//! a frame to send:    free ─ written, tx ring ─▶ kernel ─ completion ring ─▶ free
//! ```
//!
//! # Invariants
//! - A frame has one owner: the half that its place belongs to, or the kernel, from the publication in `fill` or `tx` to the descriptor in `rx` or
//!   `completion`. Each half reads and writes only frames that it owns. No frame belongs to both halves.
//! - `fill` has room for all frames of its half, `completion` for all of the other: giving a frame back never waits.
//! - What the kernel says of a frame is checked to lie in the half's part before it is used.
#![allow(unsafe_code)]
use nix::errno::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a frame: a page, as native mode wants.
pub(super) const FRAME_BYTES: usize = 4096;
/// Frames to receive into; also the entries of `fill` and `rx`.
const RX_FRAMES: u32 = 4096;
/// Frames to send from; also the entries of `tx` and `completion`.
const TX_FRAMES: u32 = 2048;
const _: () = assert!(RX_FRAMES.is_power_of_two() && TX_FRAMES.is_power_of_two());
/// Calls for the kernel to send in a flush; each takes 32 frames or so.
const KICKS_MAX: u32 = 256;

/// Mapped memory.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}
// SAFETY: memory is not bound to a thread; who may use which part is told by the module's invariants.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn make(bytes: usize, flags: i32, fd: i32, offset: i64) -> Result<Mapping, Errno> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a mapping of its own at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        NonNull::new(start.cast()).map(|start| Mapping { start, bytes }).ok_or(Errno::ENOMEM)
    }

    /// The place `offset` bytes behind the start, at which a `T` lies.
    fn at<T>(&self, offset: u64) -> Result<NonNull<T>, Errno> {
        let offset = usize::try_from(offset).map_err(|_| Errno::EINVAL)?;
        if offset + size_of::<T>() > self.bytes || !offset.is_multiple_of(align_of::<T>()) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: it lies within the mapping.
        Ok(unsafe { self.start.add(offset) }.cast())
    }
}
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A ring that is shared with the kernel: we are at one end, it is at the other.
struct Ring<T> {
    _map: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Our own end, ahead of what was published.
    own: u32,
}
// SAFETY: as of `Mapping`; both ends are atomics.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(fd: &OwnedFd, page: i64, offsets: &libc::xdp_ring_offset, size: u32) -> Result<Ring<T>, Errno> {
        let bytes = usize::try_from(offsets.desc).map_err(|_| Errno::EINVAL)? + size as usize * size_of::<T>();
        let map = Mapping::make(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), page)?;
        Ok(Ring {
            producer: map.at(offsets.producer)?,
            consumer: map.at(offsets.consumer)?,
            entries: map.at(offsets.desc)?,
            _map: map,
            size,
            own: 0,
        })
    }

    fn kernel_end(&self, end: NonNull<AtomicU32>) -> u32 {
        // SAFETY: it lies in the mapping, which lives as long as this, and is only ever used as an atomic.
        unsafe { end.as_ref() }.load(Ordering::Acquire)
    }

    fn publish(&self, end: NonNull<AtomicU32>) {
        // SAFETY: as above.
        unsafe { end.as_ref() }.store(self.own, Ordering::Release);
    }

    /// Entries that we produced and the kernel has not taken.
    fn taken_not(&self) -> u32 {
        self.own.wrapping_sub(self.kernel_end(self.consumer))
    }

    /// Puts an entry in, to be published later.
    fn push(&mut self, entry: T) {
        assert!(self.taken_not() < self.size, "a ring has room for all frames of its half");
        // SAFETY: the place lies within the `size` entries of the mapping, and is ours, as the kernel has taken what was there.
        unsafe { self.entries.add((self.own & (self.size - 1)) as usize).write(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// Entries that the kernel has produced for us.
    fn there(&self) -> u32 {
        self.kernel_end(self.producer).wrapping_sub(self.own).min(self.size)
    }

    /// Takes an entry out, of those that are there.
    fn pop(&mut self) -> T {
        debug_assert!(self.there() > 0);
        // SAFETY: the place lies within the entries; the kernel has written it and will not again before we publish.
        let entry = unsafe { self.entries.add((self.own & (self.size - 1)) as usize).read() };
        self.own = self.own.wrapping_add(1);
        entry
    }
}

/// The receiving half.
pub(super) struct Receiver {
    memory: Arc<Mapping>,
    rx: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
}

/// The sending half.
pub(super) struct Sender {
    memory: Arc<Mapping>,
    tx: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    free: Vec<u64>,
    fd: Arc<OwnedFd>,
}

fn option<T>(fd: &OwnedFd, name: i32, value: &T) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the value is borrowed for the call and has the length that is told.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, std::ptr::from_ref(value).cast(), length) };
    Errno::result(result).map(drop)
}

/// A socket with memory and rings, not bound yet.
pub(super) fn open() -> Result<(Arc<OwnedFd>, Receiver, Sender), Errno> {
    // SAFETY: no memory is passed.
    let fd = Errno::result(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just made it for us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let bytes = (RX_FRAMES + TX_FRAMES) as usize * FRAME_BYTES;
    let memory = Arc::new(Mapping::make(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?);
    // SAFETY: a plain C struct for which all-zero is a value.
    let mut umem: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    umem.addr = memory.start.as_ptr().addr() as u64;
    umem.len = bytes as u64;
    umem.chunk_size = u32::try_from(FRAME_BYTES).unwrap_or(0);
    option(&fd, libc::XDP_UMEM_REG, &umem)?;
    option(&fd, libc::XDP_UMEM_FILL_RING, &RX_FRAMES)?;
    option(&fd, libc::XDP_RX_RING, &RX_FRAMES)?;
    option(&fd, libc::XDP_UMEM_COMPLETION_RING, &TX_FRAMES)?;
    option(&fd, libc::XDP_TX_RING, &TX_FRAMES)?;
    // SAFETY: a plain C struct for which all-zero is a value.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::xdp_mmap_offsets>()).unwrap_or(0);
    // SAFETY: both outlive the call, and the length is that of the struct.
    Errno::result(unsafe {
        let offsets = (&raw mut offsets).cast();
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, offsets, &raw mut length)
    })?;
    let page = |page: u64| i64::try_from(page).unwrap_or(0);
    let mut receiver = Receiver {
        memory: Arc::clone(&memory),
        rx: Ring::map(&fd, libc::XDP_PGOFF_RX_RING, &offsets.rx, RX_FRAMES)?,
        fill: Ring::map(&fd, page(libc::XDP_UMEM_PGOFF_FILL_RING), &offsets.fr, RX_FRAMES)?,
    };
    for frame in 0..u64::from(RX_FRAMES) {
        receiver.fill.push(frame * FRAME_BYTES as u64);
    }
    receiver.fill.publish(receiver.fill.producer);
    let fd = Arc::new(fd);
    let sender = Sender {
        memory,
        tx: Ring::map(&fd, libc::XDP_PGOFF_TX_RING, &offsets.tx, TX_FRAMES)?,
        completion: Ring::map(&fd, page(libc::XDP_UMEM_PGOFF_COMPLETION_RING), &offsets.cr, TX_FRAMES)?,
        free: (RX_FRAMES..RX_FRAMES + TX_FRAMES).map(|frame| u64::from(frame) * FRAME_BYTES as u64).collect(),
        fd: Arc::clone(&fd),
    };
    Ok((fd, receiver, sender))
}

/// Binds the socket to a queue of an interface.
pub(super) fn bind(fd: &OwnedFd, interface: u32, queue: u32, flags: u16) -> Result<(), Errno> {
    // SAFETY: a plain C struct for which all-zero is a value.
    let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
    address.sxdp_family = libc::sa_family_t::try_from(libc::AF_XDP).unwrap_or(0);
    address.sxdp_flags = flags;
    address.sxdp_ifindex = interface;
    address.sxdp_queue_id = queue;
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_xdp>()).unwrap_or(0);
    // SAFETY: the address is a local of the length that is told.
    Errno::result(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) }).map(drop)
}

impl Receiver {
    /// Lends at most `max` frames that have come, one after the other; returns how many it were.
    pub(super) fn receive(&mut self, max: usize, mut each: impl FnMut(&[u8])) -> usize {
        let number = self.rx.there().min(u32::try_from(max).unwrap_or(u32::MAX));
        for _ in 0..number {
            let frame = self.rx.pop();
            let start = usize::try_from(frame.addr).unwrap_or(usize::MAX);
            let base = start & !(FRAME_BYTES - 1);
            let end = start.saturating_add(frame.len as usize);
            assert!(
                base < RX_FRAMES as usize * FRAME_BYTES && end <= base + FRAME_BYTES,
                "the kernel gave a frame that is not of this half"
            );
            // SAFETY: it lies within a frame of this half, which the kernel has given us with this descriptor and does not touch before
            // it stands in `fill` again.
            each(unsafe { std::slice::from_raw_parts(self.memory.start.add(start).as_ptr(), frame.len as usize) });
            self.fill.push(base as u64);
        }
        if number > 0 {
            self.rx.publish(self.rx.consumer);
            self.fill.publish(self.fill.producer);
        }
        number as usize
    }
}

impl Sender {
    /// Frames that can be written now.
    pub(super) fn room(&self) -> usize {
        self.free.len() + self.completion.there() as usize
    }

    /// Takes back what was sent.
    fn reap(&mut self) {
        let number = self.completion.there();
        for _ in 0..number {
            let frame = self.completion.pop();
            debug_assert!(!self.free.contains(&frame), "a frame came back twice");
            self.free.push(frame);
        }
        if number > 0 {
            self.completion.publish(self.completion.consumer);
        }
    }

    /// Has `fill` write a frame of `len` bytes. `None`: no frame is free.
    pub(super) fn send<R>(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, impl FnOnce(&mut [u8]) -> R> {
        if self.free.is_empty() {
            self.reap();
        }
        if len > FRAME_BYTES {
            return Err(fill);
        }
        let Some(frame) = self.free.pop() else { return Err(fill) };
        let start = usize::try_from(frame).unwrap_or(usize::MAX);
        assert!(
            start.is_multiple_of(FRAME_BYTES)
                && (RX_FRAMES as usize..(RX_FRAMES + TX_FRAMES) as usize).contains(&(start / FRAME_BYTES)),
            "the kernel gave back a frame that is not of this half"
        );
        // SAFETY: a frame of this half that is free, so nobody else has it, and `len` is within it.
        let result = fill(unsafe { std::slice::from_raw_parts_mut(self.memory.start.add(start).as_ptr(), len) });
        self.tx.push(libc::xdp_desc { addr: frame, len: u32::try_from(len).unwrap_or(0), options: 0 });
        Ok(result)
    }

    /// Has the kernel send what was written.
    pub(super) fn flush(&mut self) {
        if self.tx.taken_not() == 0 {
            return;
        }
        self.tx.publish(self.tx.producer);
        for _ in 0..KICKS_MAX {
            // SAFETY: no memory is passed.
            let result = unsafe {
                libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            };
            let again = result >= 0 || matches!(Errno::last(), Errno::EAGAIN | Errno::EBUSY | Errno::EINTR);
            if self.tx.taken_not() == 0 || !again {
                break;
            }
        }
        self.reap();
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
