//! The network seam: a backend owns descriptors, receive buffers and output; a handler sees connections, bytes and events. Nothing
//! above this module sees a file descriptor.
//!
//! A turn of a worker is `poll` (inputs are handed to the handler, which appends replies) and then `flush` (one send for every connection
//! that has output). The order of events of a connection, which [`Checked`] verifies in tests of every backend:
//!
//! ```text
//! opened ─ (data | sink, sunk | sent | hung_up)* ─ closed
//!
//! batch                             is as `data` of several connections, of each once
//! after Flow::Pause                 no data, sink, sunk until `resume`
//! after Flow::Finish, Flow::Abort   no data, sink, sunk, hung_up; `out` is `None`
//! more than `out_high_bytes` queued no data, sink, sunk until less than `out_low_bytes` are
//! ```
//!
//! A peer that half-closes has everything it sent before answered, and is then told of as `closed(Why::Peer)`.
mod balance;
pub mod check;
#[cfg(test)]
mod conformance;
mod doorbell;
pub mod epoll;
mod listen;
mod pool;
mod signals;
pub mod sim;
mod slots;
pub mod sockets;
pub mod stack;
mod sys;
pub mod uring;

pub use balance::{Balance, Seat};
pub use check::Checked;
pub use doorbell::Doorbell;
pub use epoll::{Epoll, EpollDriver};
pub use listen::{Listen, LocalAddr};
pub use signals::block_signals;
pub use sim::{Sim, SimConfig};
pub use sockets::{Driver, SocketConfig, Sockets};
pub use stack::{Service, StackDriver, Stacked, Tun, Xdp, xdp};
pub use uring::{Uring, UringDriver};

use crate::base::out::Out;
use std::time::Duration;

/// A connection: an index that is used again, and a generation that is not. A stale id is recognised and ignored by every call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConnId {
    pub index: u32,
    pub generation: u32,
}
impl ConnId {
    /// As a word for the kernel to hand back.
    ///
    /// ```text
    /// 63          32 31          0
    /// | generation  |    index   |
    /// ```
    #[inline]
    pub(self) const fn pack(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "each half of the word is 32 bits")]
    pub(self) const fn unpack(word: u64) -> ConnId {
        ConnId { index: word as u32, generation: (word >> 32) as u32 }
    }
}

/// What the handler wants of a connection after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Go on reading.
    Read,
    /// Go on reading, but the next bytes belong into `Handler::sink`. To be said again after each `sunk` that wants more.
    Sink,
    /// Stop reading until `Backend::resume`; then bytes come as `data`, also when a sink was left unfilled.
    Pause,
    /// Read no more; send what is queued, then close, so that the peer can read all of it. `sent` is still called meanwhile.
    Finish,
    /// Close at once, queued output is dropped.
    Abort,
}

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The peer closed or half-closed, and everything queued was sent or could not be.
    Peer,
    /// Reset, or another error of the transport.
    Error,
    /// The handler asked for it.
    Handler,
}

/// Who connected. `fd` is a number for `CLIENT LIST` only.
#[derive(Clone, Debug)]
pub struct Peer {
    /// As Redis prints it: `127.0.0.1:4711`, `[::1]:4711`, or `/path/to.sock:0`.
    pub remote: String,
    pub local: String,
    pub fd: i32,
    pub unix: bool,
    /// What its listener is for ([`Listen::service`]).
    pub service: u8,
}

/// What one connection has sent, among the inputs of others: a part of the bytes that come along, in which parts lie in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Input {
    pub conn: ConnId,
    start: u32,
    end: u32,
}
impl Input {
    /// The bytes from `start` to `end`. `None`: they lie beyond 4 GiB, which no backend receives at once.
    #[inline]
    #[must_use]
    pub fn new(conn: ConnId, start: usize, end: usize) -> Option<Input> {
        Some(Input { conn, start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? })
    }

    /// Its part of the batch's bytes.
    #[inline]
    #[must_use]
    pub fn of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    /// How many bytes that is; at least one.
    #[expect(clippy::len_without_is_empty, reason = "an input has bytes")]
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// The way back to the connections of a batch.
pub trait Answers {
    /// Has `answer` write to the output of `conn` and say what is wanted of it next. To be called once for each input, in their order.
    fn answer(&mut self, conn: ConnId, answer: impl FnOnce(&mut Out) -> Flow);
}

/// The server's side of the seam. For one connection: `opened` first, `closed` exactly once and last, nothing in between after that.
pub trait Handler {
    /// The wait for events has ended: a turn begins.
    fn woken(&mut self) {}
    fn opened(&mut self, conn: ConnId, peer: Peer, out: &mut Out) -> Flow;
    /// `bytes` arrived; all are consumed (an incomplete request is kept by the handler). Valid during the call only.
    fn data(&mut self, conn: ConnId, bytes: &[u8], out: &mut Out) -> Flow;
    /// The inputs of several connections, two at least, each connection once: all were received and none was answered, so that what one
    /// needs can be fetched while another is served. Each is as an input of `data`. Of what is to be closed `closed` tells afterwards.
    #[inline]
    fn batch(&mut self, inputs: &[Input], bytes: &[u8], answers: &mut impl Answers) {
        for input in inputs {
            answers.answer(input.conn, |out| self.data(input.conn, input.of(bytes), out));
        }
    }
    /// Where the next bytes shall land; asked only after `Flow::Sink`. An empty slice is not allowed.
    fn sink(&mut self, conn: ConnId) -> &mut [u8];
    /// `bytes` bytes landed in the sink.
    fn sunk(&mut self, conn: ConnId, bytes: usize, out: &mut Out) -> Flow;
    /// The kernel took some of what had been queued beyond one wake-up; `queued` bytes are left. More may be written to `out`.
    fn sent(&mut self, conn: ConnId, queued: usize, out: &mut Out);
    /// The peer closed its sending side (or altogether) while the connection is paused: end it now, giving up what it waits for (`true`),
    /// or finish that and see the end of the input after `resume` (`false`)? Asked once. A blocked pop ends, a sliced reply goes on.
    fn hung_up(&mut self, _conn: ConnId) -> bool {
        false
    }
    /// The connection is over; its id is dead. Called in `poll` or `flush`.
    fn closed(&mut self, conn: ConnId, why: Why);
    /// A signal of `signalfd` (SIGTERM, SIGINT).
    fn signal(&mut self, signo: i32);
    /// Somebody rang this backend's eventfd.
    fn mail(&mut self) {}
    /// Asked between connections: end this turn's dispatch now (its time is used up)? What is left goes first in the next turn.
    fn turn_over(&mut self) -> bool {
        false
    }
}

/// Limits of a backend.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Size of the receive window.
    pub window_bytes: usize,
    /// Above this much queued output a connection is not read.
    pub out_high_bytes: usize,
    /// Below this much it is read again.
    pub out_low_bytes: usize,
}
impl Default for NetConfig {
    fn default() -> NetConfig {
        NetConfig { window_bytes: 16 * 1024, out_high_bytes: 1 << 20, out_low_bytes: 256 << 10 }
    }
}

/// Settings of a backend that may change while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Of connections that are accepted from now on, 0 = none.
    pub tcp_keepalive_s: u32,
    pub spin_us: u32,
}

/// A network: the kernel's sockets by epoll or io_uring, or simulated.
pub trait Backend {
    /// Waits up to `timeout` (`None`: for ever) and hands what happened to `handler`. Output written meanwhile is not sent before `flush`.
    /// With unfinished work of the last turn it does not wait.
    fn poll<H: Handler>(&mut self, handler: &mut H, timeout: Option<Duration>) -> std::io::Result<()>;
    /// One send for every connection with new output; calls `sent` and `closed` where due.
    fn flush<H: Handler>(&mut self, handler: &mut H);
    /// Before a flush: what was written since the last one is not sent before `number` is released (for replies that tell of what must be on the
    /// disk first). Numbers do not fall. A backend that cannot wait (the simulation) sends at once.
    fn hold(&mut self, _number: u64) {}
    /// Before a flush: what is held for `number`, or one before it, may be sent.
    fn release(&mut self, _number: u64) {}
    /// The output of a connection, outside of an event; marks it for the next `flush`. `None`: the connection is gone, or finishing, or its
    /// peer has ended the input and everything was answered.
    fn out(&mut self, conn: ConnId) -> Option<&mut Out>;
    /// Bytes queued and not taken by the kernel; 0 for a connection that is gone.
    fn queued(&self, conn: ConnId) -> usize;
    /// Undoes `Flow::Pause`: what has arrived meanwhile is delivered in the next turn.
    fn resume(&mut self, conn: ConnId);
    /// `Flow::Finish` or `Flow::Abort` from outside of an event. `closed` is called in the next `flush` or later, not inside this call.
    fn close(&mut self, conn: ConnId, flow: Flow);
    /// Shares connections with the backends of other workers from now on ([`Balance`]): what is accepted here may be opened there, and the
    /// other way round; an adopted connection is like an accepted one. A backend that has nothing to hand over (the simulation) stays alone.
    fn join(&mut self, _seat: Seat) {}
    /// Takes other settings; one without them (the simulation) has none to change.
    fn tune(&mut self, _tuning: &Tuning) {}
    /// Stops accepting and adopting, and closes the listeners.
    fn stop_listening(&mut self);
    /// Bytes that the kernel has taken, of all connections there ever were.
    fn sent_bytes(&self) -> u64;
    /// Connections that exist, with those that were finished and wait for their peer to close.
    fn connections(&self) -> usize;
    /// Memory held for connections and their output, in bytes.
    fn memory_bytes(&self) -> usize;
}
