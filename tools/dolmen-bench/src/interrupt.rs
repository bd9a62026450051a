//! Ctrl-C and SIGTERM: they end a measurement, and what was measured is told. A second one ends the tool.

use std::cell::Cell;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Signals that wait to be looked at.
pub struct Interrupt {
    signals: Option<SignalFd>,
    happened: Cell<bool>,
}

impl Interrupt {
    /// Takes SIGINT and SIGTERM from now on; to be called before there are other threads. (Programs that are started get them as usual.)
    pub fn install() -> Interrupt {
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        let signals = set
            .thread_block()
            .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC));
        // Without it they end the tool at once.
        Interrupt { signals: signals.ok(), happened: Cell::new(false) }
    }

    pub fn happened(&self) -> bool {
        while let Some(Ok(Some(_))) = self.signals.as_ref().map(SignalFd::read_signal) {
            if self.happened.replace(true) {
                std::process::exit(130);
            }
        }
        self.happened.get()
    }
}
