//! An io_uring instance with its ring of receive buffers, as safe calls. It knows nothing of connections: what an operation belongs to is a
//! word that comes back with its completion.
//!
//! ```text
//! push ──▶ submission queue ──▶ enter ──▶ kernel ──▶ completion queue ──▶ take
//!                                           │ writes what it receives
//! area    | buffer 0 | 1 | 2 | ...          ▼        each `stride` long, of which `bytes` are received into
//! entries | those that the kernel may use, in order |  give_back
//! ```
//!
//! # Invariants
//! - The ring is set up with `DEFER_TASKRUN`: the kernel works on its operations within [`Ring::enter`] only, which takes the ring
//!   exclusively. So nothing changes in `area` while a slice of it is borrowed.
//! - Memory of others is named by sends only. They are told not to wait, so each is complete when the submission that carries it is, and
//!   [`Ring::send_all`] does not return before it has seen all of their completions.
//! - `SINGLE_ISSUER`: the thread that enters first is the only one that may. The ring is made disabled, so that may be another one than that
//!   which made it.
#![allow(unsafe_code)]
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use nix::errno::Errno;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Entries of the submission queue.
const SUBMISSIONS: u32 = 1024;
/// Entries of the completion queue; what does not fit waits in the kernel, at some cost.
const COMPLETIONS: u32 = 8192;
/// Receive buffers; a power of two.
pub(super) const BUFFERS: u16 = 256;
/// Room between buffers, so that their beginnings do not all share the same sets of the caches.
const STAGGER_BYTES: usize = 192;
const GROUP: u16 = 0;

// Of <linux/io_uring.h>.
const IORING_ENTER_GETEVENTS: u32 = 1;
const IORING_ENTER_EXT_ARG: u32 = 1 << 3;
const IORING_ENTER_REGISTERED_RING: u32 = 1 << 4;
const IORING_REGISTER_RING_FDS: u32 = 20;
const IORING_UNREGISTER_RING_FDS: u32 = 21;

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct WaitArgument {
    sigmask: u64,
    sigmask_bytes: u32,
    min_wait_us: u32,
    timeout: u64,
}
const _: () = assert!(size_of::<WaitArgument>() == 24);

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct Registration {
    offset: u32,
    reserved: u32,
    data: u64,
}
const _: () = assert!(size_of::<Registration>() == 16);

/// What became of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) word: u64,
    pub(super) result: i32,
    flags: u32,
}
impl Completion {
    /// The operation goes on: there will be more completions of it.
    #[inline]
    pub(super) fn more(&self) -> bool {
        cqueue::more(self.flags)
    }
    /// The receive buffer that was used.
    #[inline]
    pub(super) fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}

pub(super) struct Ring {
    uring: IoUring,
    /// How `enter` names the ring: the index of the registered descriptor, or the descriptor.
    name: u32,
    /// Flags that go with the name.
    name_flags: u32,
    enabled: bool,
    area: NonNull<u8>,
    area_bytes: usize,
    stride: usize,
    bytes: usize,
    entries: NonNull<BufRingEntry>,
    tail: u16,
}

// SAFETY: `area` and `entries` point to allocations that the ring owns alone, beside the kernel.
unsafe impl Send for Ring {}

fn entries_layout() -> Layout {
    // The kernel wants whole pages.
    Layout::from_size_align(usize::from(BUFFERS) * size_of::<BufRingEntry>(), 4096).unwrap_or(Layout::new::<u8>())
}

fn area_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 4096).unwrap_or(Layout::new::<u8>())
}

/// Zeroed memory.
fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 1, "a layout of some size");
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Ring {
    /// With receive buffers of so many bytes.
    pub(super) fn new(bytes: usize) -> io::Result<Ring> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_no_sqarray()
            .setup_submit_all()
            .setup_r_disabled()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let stride = bytes.next_multiple_of(64) + STAGGER_BYTES;
        let area_bytes = stride * usize::from(BUFFERS);
        let area = allocate(area_layout(area_bytes));
        let entries = allocate(entries_layout()).cast();
        let name = u32::try_from(uring.as_raw_fd()).unwrap_or(u32::MAX);
        let mut ring =
            Ring { uring, name, name_flags: 0, enabled: false, area, area_bytes, stride, bytes, entries, tail: 0 };
        // SAFETY: the entries are zeroed pages that live as long as the ring, and are not used otherwise.
        let registered = unsafe {
            let address = ring.entries.as_ptr() as u64;
            ring.uring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)
        };
        registered?;
        (0..BUFFERS).for_each(|buffer| ring.give_back(buffer));
        ring.publish();
        Ok(ring)
    }

    // --- operations ------------------------------------------------------------------------------------------------------------------

    /// Receives again and again, until the end, an error, a lack of buffers, or `cancel`.
    #[inline]
    pub(super) fn recv(&mut self, fd: BorrowedFd<'_>, word: u64) {
        // SAFETY: it names no memory but the group of buffers.
        unsafe { self.push(opcode::RecvMulti::new(Fd(fd.as_raw_fd()), GROUP).build().user_data(word)) };
    }

    /// Tells of events (the bits of poll(2)) of a descriptor: of those that there are, then of each that comes.
    pub(super) fn poll(&mut self, fd: RawFd, mask: u32, word: u64) {
        // SAFETY: it names no memory.
        unsafe { self.push(opcode::PollAdd::new(Fd(fd), mask).multi(true).build().user_data(word)) };
    }

    /// Ends the operation that has `word`, if there is one still; its own completion has `own`.
    pub(super) fn cancel(&mut self, word: u64, own: u64) {
        // SAFETY: it names no memory.
        unsafe { self.push(opcode::AsyncCancel::new(word).build().user_data(own)) };
    }

    /// Sends the bytes of each on its descriptor, as much as the kernel takes at once, and returns when all is done. `done` gets the results,
    /// `others` the completions of other operations that come between.
    pub(super) fn send_all<'b>(
        &mut self,
        sends: impl Iterator<Item = (u64, BorrowedFd<'b>, &'b [u8])>,
        mut done: impl FnMut(u64, i32),
        others: &mut Vec<Completion>,
    ) {
        let mut pushed = 0;
        let mut words = sends.peekable();
        while words.peek().is_some() {
            // What was pushed before goes with it.
            let room = self.room();
            for (word, fd, bytes) in words.by_ref().take(room) {
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
                let send = opcode::Send::new(Fd(fd.as_raw_fd()), bytes.as_ptr(), length).flags(flags);
                // SAFETY: the bytes are borrowed longer than this call, which ends after the completion of the send.
                unsafe { self.push(send.build().user_data(word)) };
                pushed += 1;
            }
            let mut flags = 0;
            while pushed > 0 {
                self.enter_with(flags, 0, None).expect("io_uring takes what is submitted");
                let completions = self.uring.completion();
                for entry in completions {
                    let completion =
                        Completion { word: entry.user_data(), result: entry.result(), flags: entry.flags() };
                    if super::kind(completion.word) == super::SEND {
                        pushed -= 1;
                        done(completion.word, completion.result);
                    } else {
                        others.push(completion);
                    }
                }
                // Only completions that did not fit the queue are left: this fetches them.
                flags = IORING_ENTER_GETEVENTS;
            }
        }
    }

    /// # Safety
    /// What memory the operation names is valid until it is complete.
    #[inline]
    unsafe fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: as this function demands.
        while unsafe { self.uring.submission().push(&entry) }.is_err() {
            // Full: what is in it goes first.
            self.enter_with(0, 0, None).expect("io_uring takes what is submitted");
        }
    }

    /// Entries that the submission queue has room for; at least one.
    fn room(&mut self) -> usize {
        let queue = self.uring.submission();
        (queue.capacity() - queue.len()).max(1)
    }

    // --- the kernel ------------------------------------------------------------------------------------------------------------------

    /// Submits, and runs what the kernel has to do for the ring; with `wait`, until there is a completion, or so long.
    pub(super) fn enter(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        self.publish();
        self.enter_with(IORING_ENTER_GETEVENTS, u32::from(wait), if wait { timeout } else { None })
    }

    /// Whether `enter` without a wait would do anything.
    #[inline]
    pub(super) fn has_work(&mut self) -> bool {
        let queue = self.uring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Whether completions can be taken.
    #[inline]
    pub(super) fn has_completions(&mut self) -> bool {
        !self.uring.completion().is_empty()
    }

    /// Takes completions, until `into` has `most`.
    #[inline]
    pub(super) fn take(&mut self, into: &mut Vec<Completion>, most: usize) {
        let room = most.saturating_sub(into.len());
        let completions = self.uring.completion();
        into.extend(completions.take(room).map(|entry| Completion {
            word: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
        }));
    }

    #[inline]
    fn enter_with(&mut self, flags: u32, complete_min: u32, timeout: Option<Duration>) -> io::Result<()> {
        if !self.enabled {
            self.enable()?;
        }
        let submissions = self.uring.submission().len();
        let time = timeout.map(Timespec::from);
        let argument = WaitArgument {
            sigmask: 0,
            sigmask_bytes: 0,
            min_wait_us: 0,
            timeout: time.as_ref().map_or(0, |time| std::ptr::from_ref(time) as u64),
        };
        // SAFETY: the arguments are as io_uring_enter(2) has them: `argument`, and the time that it points to, are locals that outlive the
        // call. What memory the submitted operations name is valid, see `push`.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.name,
                submissions,
                complete_min,
                flags | self.name_flags | IORING_ENTER_EXT_ARG,
                &raw const argument,
                size_of::<WaitArgument>(),
            )
        };
        if result >= 0 {
            return Ok(());
        }
        match Errno::last() {
            // A signal, the end of the time; or there are so many completions that they must be taken first.
            Errno::EINTR | Errno::ETIME | Errno::EBUSY | Errno::EAGAIN => Ok(()),
            error => Err(error.into()),
        }
    }

    /// Makes the calling thread the one that may enter.
    #[cold]
    fn enable(&mut self) -> io::Result<()> {
        self.uring.submitter().register_enable_rings()?;
        self.enabled = true;
        let mut registration = Registration { offset: u32::MAX, reserved: 0, data: self.name.into() };
        if self.register(IORING_REGISTER_RING_FDS, &mut registration) {
            self.name = registration.offset;
            self.name_flags = IORING_ENTER_REGISTERED_RING;
        }
        // A thread may register 16; beyond that the descriptor does.
        Ok(())
    }

    /// Whether the kernel has registered, or given up, the descriptor of the ring for this thread.
    fn register(&self, operation: u32, registration: &mut Registration) -> bool {
        // SAFETY: the argument is one `io_uring_rsrc_update`, borrowed for the call, as the operation demands.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_register,
                self.uring.as_raw_fd(),
                operation,
                std::ptr::from_mut(registration),
                1u32,
            )
        };
        result == 1
    }

    // --- buffers ---------------------------------------------------------------------------------------------------------------------

    /// All receive buffers, with what lies between them.
    #[inline]
    pub(super) fn area(&self) -> &[u8] {
        // SAFETY: the allocation has so many initialised bytes (it was zeroed), and the kernel writes to it within `enter_with` only, which
        // takes the ring exclusively.
        unsafe { std::slice::from_raw_parts(self.area.as_ptr(), self.area_bytes) }
    }

    /// Where in the area a buffer begins.
    #[inline]
    pub(super) fn start(&self, buffer: u16) -> usize {
        usize::from(buffer) * self.stride
    }

    /// A buffer that a completion has told of was used, and may be used again from the next `publish` on.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: u16) {
        debug_assert!(buffer < BUFFERS);
        let at = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: `at` is less than BUFFERS, so within the allocation; the kernel reads the entries up to the tail that was published, and
        // there are never more than BUFFERS of them.
        let entry = unsafe { &mut *self.entries.as_ptr().add(at) };
        // SAFETY: within the area, as `buffer` is one of BUFFERS.
        let address = unsafe { self.area.as_ptr().add(usize::from(buffer) * self.stride) };
        entry.set_addr(address as u64);
        entry.set_len(u32::try_from(self.bytes).unwrap_or(u32::MAX));
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Lets the kernel have the buffers that were given back.
    #[inline]
    fn publish(&mut self) {
        // SAFETY: the first entry is initialised; its field that is the tail is two aligned bytes, which only this call writes.
        let tail = unsafe { &*BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.enabled {
            // On another thread than the one that entered nothing of this is possible: then the kernel cancels when the thread ends.
            let second = Timespec::new().sec(1);
            let _ = self.uring.submitter().register_sync_cancel(Some(second), CancelBuilder::any());
            if self.name_flags != 0 {
                let _ = self.register(
                    IORING_UNREGISTER_RING_FDS,
                    &mut Registration { offset: self.name, reserved: 0, data: 0 },
                );
            }
        }
        // SAFETY: both were allocated with these layouts. The kernel uses them within `enter` only, and there will be none.
        unsafe {
            dealloc(self.area.as_ptr(), area_layout(self.area_bytes));
            dealloc(self.entries.as_ptr().cast(), entries_layout());
        }
    }
}
