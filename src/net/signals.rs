//! The signals that end the server, as events: blocked, so that no thread is interrupted by them, and read by one worker.
use nix::sys::signal::{SigSet, Signal};
use std::io;

/// Blocks SIGTERM and SIGINT in the calling thread and in those that it starts from now on.
///
/// A signal to the process goes to any thread that has it unblocked, and ends the process there. So a program with several threads calls
/// this before it starts the first; then one backend of its choice gets them (`Sockets::enable_signals`).
///
/// # Errors
/// As the system tells; there is no reason known to it.
pub fn block_signals() -> io::Result<()> {
    Ok(terminating().thread_block()?)
}

pub(super) fn terminating() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    set
}
