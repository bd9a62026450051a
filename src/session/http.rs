//! The session of a client that asks for figures by HTTP: one request after the other, each answered before the next is looked at.

use super::{Kept, Session, State};
use crate::base::out::Out;
use crate::cmd::ctx::Outcome;
use crate::cmd::many::OUT_HIGH_BYTES;
use crate::cmd::metrics::{self, Asked};
use crate::db::Access;
use crate::exec::Engine;
use crate::net::Flow;
use crate::proto::http::{self, Parsed};

/// What is kept between two windows.
#[derive(Default)]
pub(super) struct Http {
    /// The beginning of a request.
    head: Vec<u8>,
    /// When it began to come, in Unix milliseconds.
    since_ms: u64,
    /// The connection ends behind the answer that is under way.
    ends: bool,
}

impl Http {
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Http>() + self.head.capacity()
    }
}

impl Session {
    /// One that speaks HTTP.
    #[must_use]
    pub fn http() -> Session {
        Session { kept: Some(Box::new(Kept::Http(Http::default()))), ..Session::default() }
    }

    /// Since when half a request waits for its rest, in Unix milliseconds.
    #[must_use]
    pub fn half_since_ms(&self) -> Option<u64> {
        match self.kept.as_deref() {
            Some(Kept::Http(http)) if !http.head.is_empty() => Some(http.since_ms),
            _ => None,
        }
    }

    pub(super) fn is_http(&self) -> bool {
        matches!(self.kept.as_deref(), Some(Kept::Http(_)))
    }

    /// Bytes arrived, or what waited goes on. All are consumed.
    pub(super) fn serve_http<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        bytes: &[u8],
        out: &mut Out,
    ) -> Flow {
        let Some(Kept::Http(http)) = self.kept.as_deref_mut() else { return Flow::Abort };
        if http.ends {
            self.state = State::Over;
            return Flow::Finish;
        }
        if http.head.is_empty() {
            http.since_ms = engine.clock.unix_ms();
        }
        http.head.extend_from_slice(bytes);
        loop {
            let Some(Kept::Http(http)) = self.kept.as_deref_mut() else { return Flow::Abort };
            if http.head.is_empty() {
                http.head = Vec::new();
                return Flow::Read;
            }
            let (request, end) = match http::parse(&http.head) {
                Parsed::Incomplete => return Flow::Read,
                Parsed::Refused(status) => {
                    metrics::answer(out, status, metrics::PLAIN, status.text().as_bytes(), &Asked::NOTHING_MORE);
                    self.state = State::Over;
                    return Flow::Finish;
                }
                Parsed::Request(request, end) => (request, end),
            };
            http.head.drain(..end);
            http.since_ms = engine.clock.unix_ms();
            http.ends = !request.keeps_alive;
            let ends = http.ends;
            engine.stats.commands += 1;
            let mut ctx = engine.ctx(me, out);
            let outcome = metrics::serve(&mut ctx, request);
            let task = ctx.task.take();
            drop(ctx);
            if outcome == Outcome::Suspended
                && let Some(task) = task
            {
                self.state = State::Task(task);
                return Flow::Pause;
            }
            if ends {
                self.state = State::Over;
                return Flow::Finish;
            }
            if out.queued() > OUT_HIGH_BYTES {
                self.state = State::Full;
                return Flow::Pause;
            }
        }
    }
}
