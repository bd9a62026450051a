//! One connection of a load: what is to be sent, what is in flight, what was received of a reply that is incomplete.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};

use crate::verify::Expectation;
use crate::wire::Protocol;
use crate::wire::reply::Reader;

/// Requests of one kind, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    pub kind: u16,
    pub count: u32,
    /// Open loop: when it was due. (In the closed loop all that is in flight was sent at `Connection::sent_ns`.)
    pub due_ns: u64,
}

/// What the next request of a connection has to be.
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    pub kind: usize,
    pub key: u64,
    pub left: u32,
}

pub struct Connection {
    /// Gone when the connection is lost.
    pub fd: Option<OwnedFd>,
    /// Requests, of which so many bytes are sent. They stay when all are sent, as those of a frame are used again.
    pub out: Vec<u8>,
    pub out_sent: usize,
    /// How many requests `out` consists of, if all are of the same frame.
    pub framed: u32,
    pub flights: VecDeque<Flight>,
    pub outstanding: u32,
    pub sent_ns: u64,
    pub reader: Reader,
    /// Received and not yet understood.
    pub carry: Vec<u8>,
    pub follow: Option<Follow>,
    pub expectations: VecDeque<Expectation>,
    /// Receives messages, sends nothing.
    pub subscriber: bool,
    /// It waits for a turn to send: in the list of those.
    pub queued: bool,
}

impl Connection {
    pub fn new(fd: OwnedFd, protocol: Protocol, subscriber: bool, carry: Vec<u8>) -> Connection {
        Connection {
            fd: Some(fd),
            out: Vec::new(),
            out_sent: 0,
            framed: 0,
            flights: VecDeque::new(),
            outstanding: 0,
            sent_ns: 0,
            reader: Reader::new(protocol),
            carry,
            follow: None,
            expectations: VecDeque::new(),
            subscriber,
            queued: false,
        }
    }

    /// Notes that `count` requests of a kind were appended to the output.
    #[inline]
    pub fn issued(&mut self, kind: usize, count: u32, due_ns: u64) {
        self.outstanding += count;
        match self.flights.back_mut() {
            Some(last) if usize::from(last.kind) == kind && last.due_ns == due_ns => last.count += count,
            _ => self.flights.push_back(Flight { kind: kind as u16, count, due_ns }),
        }
    }

    /// Room for other requests, if all that were there are sent.
    pub fn reuse(&mut self) {
        if self.out_sent == self.out.len() {
            self.out.clear();
            (self.out_sent, self.framed) = (0, 0);
        }
    }

    /// Sends what the kernel takes; the rest goes when there is room again.
    pub fn flush(&mut self) -> Result<(), Errno> {
        let Some(fd) = &self.fd else { return Ok(()) };
        while self.out_sent < self.out.len() {
            match send(fd.as_raw_fd(), &self.out[self.out_sent..], MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => self.out_sent += sent,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
