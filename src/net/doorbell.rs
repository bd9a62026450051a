//! The bell by which another thread wakes a backend that waits. It carries nothing but the ring; what to do is in a mailbox elsewhere.
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Wakes one backend, whose handler is then told `mail`. Rings before that count once or more often; none is lost.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<EventFd>);

impl Doorbell {
    pub(super) fn new() -> io::Result<Doorbell> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Doorbell(Arc::new(EventFd::from_flags(flags)?)))
    }

    /// Rings; from any thread, without waiting.
    pub fn ring(&self) {
        // The counter would be full after 2^64 rings, the only way to fail.
        let _ = self.0.write(1);
    }

    /// Whether it rang since the last call. For backends that do not wait in the kernel.
    pub(super) fn answer(&self) -> bool {
        self.0.read().is_ok()
    }
}
impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
