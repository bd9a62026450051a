//! One connection's side of the server: turns windows of bytes into batches of requests, keeps what a window cut, and what must wait.
//! Knows no descriptors; the backend's flow is told by the return values.
//!
//! ```text
//!              window ──parse──► batch ──run──► replies
//!                 │                 │
//!   cut request ► carry             └► suspended, held, full ► state, the rest of the window ► backlog
//!   body of a large value ► sink (a blob)
//! ```
//! With the windows of several connections at hand (`Handler::batch`) the first batch of each is parsed before any is run: `parse_ahead`,
//! then `run_ahead`. What a window holds beyond it goes on as above.
//!
//! Invariant: `backlog` is not empty only while `state` is not `Ready`; input comes only while it is.

mod http;
mod memcache;
mod parse;

use crate::base::out::Out;
use crate::cmd::client::{Replies, mark};
use crate::cmd::ctx::{Budget, Task};
use crate::db::{Access, Locate};
use crate::exec::{Batch, End, Engine, Request, Share, Waits};
use crate::net::Flow;
use crate::proto::carry::Carry;
use crate::proto::resp::{Limits, ProtocolError};
use bumpalo::Bump;
use dolmen_slab::BlobId;
use parse::Stop;
pub use parse::{Lot, Parsed, Reader};

/// A value longer than this is received in place: it is too long for any item, and for a receive window.
const SINK_MIN_BYTES: usize = 16 * 1024;

/// What a connection is doing.
#[derive(Default)]
enum State {
    #[default]
    Ready,
    /// A command goes on in slices.
    Task(Box<dyn Task>),
    /// The next command waits until names are free, or for the end of a pause.
    Held(Waits),
    /// The next command waits until the client takes its output.
    Full,
    /// The next command waits for the next turn.
    Late,
    /// Nothing more is read.
    Over,
}

/// A large value on its way in.
struct Sink {
    /// Of the key that it will be a value of: says in which shard it lies.
    hash: u64,
    blob: BlobId,
    left_bytes: usize,
    /// There was no memory for all of it: the rest is swallowed, and the command fails.
    failed: bool,
}

/// What few sessions have.
enum Kept {
    /// A large value of the request in the carry.
    Sink(Sink),
    /// All that a client of memcached has sent in part.
    Memcache(memcache::Cut),
    /// Of a session of HTTP, always.
    Http(http::Http),
}

/// The state of a connection.
#[derive(Default)]
pub struct Session {
    carry: Carry,
    state: State,
    /// Boxed, as few sessions have any.
    #[expect(clippy::box_collection, reason = "8 bytes of every idle connection instead of 24")]
    backlog: Option<Box<Vec<u8>>>,
    kept: Option<Box<Kept>>,
}

/// What became of a session that was given time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It goes on when it is given time again.
    Again,
    /// It waits for its client to take output, or for a name.
    Parked,
    /// It is ready for input, or over: as `Flow` says.
    Flow(Flow),
}

impl Session {
    /// Bytes of input that wait here.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        let kept = match self.kept.as_deref() {
            Some(Kept::Memcache(cut)) => cut.held_bytes(),
            Some(Kept::Http(http)) => http.held_bytes(),
            Some(Kept::Sink(_)) | None => 0,
        };
        self.carry.bytes() + self.backlog.as_ref().map_or(0, |b| b.capacity()) + kept
    }

    /// All memory held on behalf of the client, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.input_bytes() + if let State::Task(task) = &self.state { task.bytes() } else { 0 }
    }

    /// A command goes on in slices.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        matches!(self.state, State::Task(_))
    }

    /// Its command waits for others, and there is nobody to wait for when the client closes its side.
    #[must_use]
    pub fn ends_with_client(&self) -> bool {
        matches!(&self.state, State::Task(task) if task.ends_with_client())
    }

    /// A reply may be written in part: nothing else may come before its end.
    #[must_use]
    pub fn is_mid_reply(&self) -> bool {
        matches!(&self.state, State::Task(task) if task.is_mid_reply())
    }

    /// The next command waits for names.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.state, State::Held(Waits::Name))
    }

    /// The next command waits for the end of CLIENT PAUSE.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        matches!(self.state, State::Held(Waits::Pause))
    }

    /// It waits for the client to take output.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self.state, State::Full)
    }

    /// It waits for the next turn.
    #[must_use]
    pub fn is_late(&self) -> bool {
        matches!(self.state, State::Late | State::Held(Waits::Memory))
    }

    /// Input was read and will be answered, and not at some time that an operator has set.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !matches!(self.state, State::Ready | State::Over | State::Held(Waits::Pause)) && !self.ends_with_client()
    }

    /// Nothing is under way, nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Ready) && self.carry.is_empty() && self.kept.is_none()
    }

    /// The large value that is being received.
    fn sink_mut(&mut self) -> Option<&mut Sink> {
        match self.kept.as_deref_mut()? {
            Kept::Sink(sink) => Some(sink),
            Kept::Memcache(cut) => cut.sink(),
            Kept::Http(_) => None,
        }
    }

    /// Bytes arrived. All are consumed.
    #[inline]
    pub fn data<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        bytes: &[u8],
        out: &mut Out,
    ) -> Flow {
        debug_assert!(matches!(self.state, State::Ready), "input comes only to a session that is ready");
        let flow = self.consume(engine, me, arena, bytes, out);
        if flow == Flow::Read && !self.carry.is_empty() {
            return self.after_cut(engine, me);
        }
        flow
    }

    /// Bytes arrived, and others' will be parsed before they are handled: parses the first batch, to be run by `Engine::run` and then told of
    /// by `after_ahead`. `Ok`: that can be left out if all went well, as there is nothing else in the bytes. For a session that has no cut
    /// request ([`Session::is_idle`]).
    #[inline]
    pub fn parse_ahead<'a: 'b, 'b, A: Access>(
        engine: &Engine<A>,
        reader: Reader,
        bytes: &'b [u8],
        lot: &mut Lot<'a, 'b>,
    ) -> Result<Share, Parsed> {
        if reader.is_foreign() {
            return Session::memcache_ahead(engine, reader, bytes, lot);
        }
        parse::window_alike(engine, reader, bytes, lot)
    }

    /// What `parse_ahead` found in the bytes has run, as far as `end` says: handles what is left of them.
    #[expect(clippy::too_many_arguments, reason = "those of `data`, and what was made of the bytes")]
    pub fn after_ahead<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        bytes: &[u8],
        (parsed, end): (Parsed, End),
        batch: &Batch<'_>,
        out: &mut Out,
    ) -> Flow {
        if Reader::of(engine.clients.get(me)).is_foreign() {
            return self.memcache_after_ahead(engine, me, arena, bytes, (parsed, end), batch, out);
        }
        let at = parsed.end;
        let flow = match self.after_run(engine, me, bytes, 0, (parsed, end), batch, out) {
            Some(flow) => flow,
            None => self.consume(engine, me, arena, &bytes[at..], out),
        };
        if flow == Flow::Read && !self.carry.is_empty() {
            return self.after_cut(engine, me);
        }
        flow
    }

    /// Bytes arrived, but the turn is over: they are handled when the session is given time.
    pub fn postpone(&mut self, bytes: &[u8]) -> Flow {
        self.state = State::Late;
        self.backlog = Some(Box::new(bytes.to_vec()));
        Flow::Pause
    }

    fn limits<A: Access>(engine: &Engine<A>, me: u32) -> Limits {
        Reader::of(engine.clients.get(me)).limits(engine)
    }

    fn consume<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        bytes: &[u8],
        out: &mut Out,
    ) -> Flow {
        let mut at = 0;
        loop {
            let reader = Reader::of(engine.clients.get(me));
            if reader.is_foreign() {
                if self.is_http() {
                    return self.serve_http(engine, me, &bytes[at..], out);
                }
                return self.memcache(engine, me, arena, &bytes[at..], out);
            }
            if !self.carry.is_empty() {
                match self.carry.feed(&bytes[at..], &Self::limits(engine, me)) {
                    Err(error) => return self.refuse(engine, error, out),
                    Ok((taken, complete)) => {
                        at += taken;
                        if !complete {
                            debug_assert_eq!(at, bytes.len());
                            return Flow::Read;
                        }
                    }
                }
                if let Some(flow) = self.run_carried(engine, me, arena, &bytes[at..], out) {
                    return flow;
                }
                continue;
            }
            let start = at;
            let mut lot = Lot::of_window(arena, bytes.len() - at);
            let parsed = parse::window(engine, reader, bytes, at, 0, &mut lot);
            at = parsed.end;
            let mut batch = lot.batch();
            batch.window = bytes;
            let end = engine.run(me, &mut batch, &parsed.share, out);
            // The common case.
            if matches!(end, End::All) && parsed.is_all() {
                return Flow::Read;
            }
            if let Some(flow) = self.after_run(engine, me, bytes, start, (parsed, end), &batch, out) {
                return flow;
            }
        }
    }

    /// What was parsed of a window from `start` on has run, as far as `end` says. `Some`: the window is not read on.
    #[inline(never)]
    #[expect(
        clippy::too_many_arguments,
        reason = "what the window and its batch are; bundling them would only hide it"
    )]
    fn after_run<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        bytes: &[u8],
        start: usize,
        (parsed, end): (Parsed, End),
        batch: &Batch<'_>,
        out: &mut Out,
    ) -> Option<Flow> {
        if !matches!(end, End::All)
            && let Some(flow) = self.after_batch(engine, end, start, batch.share(&parsed.share), bytes)
        {
            return Some(flow);
        }
        match parsed.stop {
            Stop::WindowEmpty => Some(Flow::Read),
            Stop::BatchFull => None,
            // Feeding an empty carry makes it non-empty, whatever the bytes are.
            Stop::Cut => match self.carry.feed(&bytes[parsed.end..], &Self::limits(engine, me)) {
                Err(error) => Some(self.refuse(engine, error, out)),
                Ok(_) => Some(Flow::Read),
            },
            Stop::Error(ProtocolError::Memcache) if engine.turn_to_memcache(me) => None,
            Stop::Error(error) => Some(self.refuse(engine, error, out)),
        }
    }

    /// The state after a batch; `Some`: the window is not read on.
    #[inline(never)]
    fn after_batch<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        end: End,
        start: usize,
        requests: &[Request],
        bytes: &[u8],
    ) -> Option<Flow> {
        let behind = |i: usize| requests[i].end as usize;
        // What was not begun is parsed and counted again. CONFIG RESETSTAT may have come in between.
        let mut begun =
            |n: usize| engine.stats.commands = engine.stats.commands.saturating_sub((requests.len() - n) as u64);
        let from = match end {
            End::All => return None,
            End::Close => {
                self.state = State::Over;
                return Some(Flow::Finish);
            }
            End::Suspended(i, task) => {
                self.state = State::Task(task);
                begun(i + 1);
                behind(i)
            }
            End::Held(i, waits) => {
                self.state = State::Held(waits);
                begun(i);
                if i == 0 { start } else { behind(i - 1) }
            }
            End::Full(i) => {
                self.state = State::Full;
                begun(i + 1);
                behind(i)
            }
        };
        self.backlog = Some(Box::new(bytes[from..].to_vec()));
        Some(Flow::Pause)
    }

    /// Runs the complete request in the carry; `rest`: what follows it in the window.
    #[inline(never)]
    fn run_carried<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        rest: &[u8],
        out: &mut Out,
    ) -> Option<Flow> {
        let sink = match self.kept.take().map(|kept| *kept) {
            Some(Kept::Sink(sink)) => Some(sink),
            Some(Kept::Memcache(_) | Kept::Http(_)) | None => None,
        };
        if let Some(sink) = &sink
            && sink.failed
        {
            engine.keyspace.with_shard(sink.hash, |shard| shard.blob_release(sink.blob));
            self.carry.clear();
            engine.ctx(me, out).fail(crate::db::DbError::OutOfMemory);
            return None;
        }
        let blob = sink.as_ref().map(|s| s.blob);
        let end = engine.run_carried(me, &mut self.carry, blob, arena, out);
        match end {
            End::Held(_, waits) => {
                engine.stats.commands = engine.stats.commands.saturating_sub(1);
                self.kept = sink.map(|sink| Box::new(Kept::Sink(sink)));
                self.state = State::Held(waits);
            }
            End::Suspended(_, task) => {
                self.carry.clear();
                self.state = State::Task(task);
            }
            End::Full(_) => {
                self.carry.clear();
                self.state = State::Full;
            }
            End::Close => {
                self.carry.clear();
                self.state = State::Over;
                return Some(Flow::Finish);
            }
            End::All => {
                self.carry.clear();
                return None;
            }
        }
        self.backlog = Some(Box::new(rest.to_vec()));
        Some(Flow::Pause)
    }

    /// A request is under way: checks how much it may hold, and whether its value can be received in place.
    fn after_cut<A: Access>(&mut self, engine: &mut Engine<A>, me: u32) -> Flow {
        if self.carry.bytes() as u64 > engine.config.client_query_buffer_bytes_max {
            let client = engine.clients.get(me);
            log::warn!("Closing client id={} that reached the limit of its query buffer", client.id);
            self.state = State::Over;
            return Flow::Abort;
        }
        let Some(bulk) = self.carry.pending_bulk().filter(|b| b.bulk_bytes > SINK_MIN_BYTES) else { return Flow::Read };
        let row = self.carry.arg(0).and_then(|name| engine.commands.find(name));
        if row.is_none_or(|row| usize::from(row.run.value_arg) != bulk.arg_index) || self.kept.is_some() {
            return Flow::Read;
        }
        // An item of a short key might take the value itself; a blob must hold what no item can.
        if bulk.bulk_bytes <= dolmen_slab::CHUNK_BYTES_MAX || bulk.body_have == bulk.bulk_bytes {
            return Flow::Read;
        }
        // A value above the limit of the query buffer goes the way of all requests, and is cut off on it.
        if bulk.bulk_bytes as u64 > engine.config.client_query_buffer_bytes_max {
            return Flow::Read;
        }
        let Some(key) = row.and_then(|row| self.carry.arg(row.first_key)) else { return Flow::Read };
        let database = engine.clients.get(me).database as usize;
        let hash = engine.keyspace.locator(database).key_outlined(key).hash;
        let Ok(blob) = engine.keyspace.with_shard(hash, |shard| shard.blob_new(bulk.bulk_bytes)) else {
            return Flow::Read;
        };
        let have = self.carry.divert();
        let failed = engine.keyspace.with_shard(hash, |shard| shard.blob_append(blob, &have)).is_err();
        let sink = Sink { hash, blob, left_bytes: bulk.bulk_bytes - have.len(), failed };
        self.kept = Some(Box::new(Kept::Sink(sink)));
        Flow::Sink
    }

    /// Where the next bytes of the value belong; `discard` takes them if there is no memory.
    pub fn sink<'s, A: Access>(&mut self, engine: &'s mut Engine<A>, discard: &'s mut [u8]) -> &'s mut [u8] {
        let Some(sink) = self.sink_mut() else { return discard };
        let left = sink.left_bytes;
        if !sink.failed && engine.keyspace.blob_room(sink.hash, sink.blob).is_none() {
            sink.failed = true;
        }
        let room = match engine.keyspace.blob_room(sink.hash, sink.blob) {
            Some(room) if !sink.failed => room,
            _ => discard,
        };
        let n = room.len().min(left);
        &mut room[..n]
    }

    /// `bytes` of the value have arrived in place.
    pub fn sunk<A: Access>(&mut self, engine: &mut Engine<A>, bytes: usize) -> Flow {
        let Some(sink) = self.sink_mut() else { return Flow::Read };
        if !sink.failed {
            engine.keyspace.with_shard(sink.hash, |shard| shard.blob_advance(sink.blob, bytes));
        }
        sink.left_bytes -= bytes;
        if sink.left_bytes > 0 {
            return Flow::Sink;
        }
        self.carry.diverted_done();
        Flow::Read
    }

    /// A session with a task, or one that waited, goes on.
    pub fn go_on<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        out: &mut Out,
        budget: &mut Budget,
    ) -> Turn {
        match &mut self.state {
            State::Task(task) => {
                let replies = engine.clients.get(me).replies();
                let mut unsent = Out::new();
                let to = if replies == Replies::All { &mut *out } else { &mut unsent };
                let mut ctx = engine.ctx(me, to);
                let done = task.step(&mut ctx, budget);
                crate::exec::apply_effects(&mut ctx);
                drop(ctx);
                if !done {
                    let full = task.waits_for_room() && out.queued() > crate::cmd::many::OUT_HIGH_BYTES;
                    return if full || task.waits_for_others() { Turn::Parked } else { Turn::Again };
                }
                // What follows may be CLIENT LIST.
                let client = engine.clients.get_mut(me);
                engine.stats.suspended_clients -= u64::from(client.is(mark::SUSPENDED));
                client.set_mark(mark::SUSPENDED, false);
                if replies == Replies::Skip {
                    client.set_replies(Replies::All);
                }
                if let Some(later) = engine.pubsub.take_postponed(me) {
                    out.append(later);
                }
                if client.is_killed() {
                    self.state = State::Over;
                    return Turn::Flow(Flow::Finish);
                }
            }
            State::Held(Waits::Name) if engine.keyspace.is_holding() => return Turn::Parked,
            State::Held(Waits::Pause) if engine.pause.is_on() => return Turn::Parked,
            State::Held(_) | State::Full | State::Late => {}
            State::Ready | State::Over => return Turn::Flow(Flow::Read),
        }
        self.state = State::Ready;
        let backlog = self.backlog.take().map_or(Vec::new(), |b| *b);
        let flow = if self.carry.is_empty() && backlog.is_empty() && !self.has_whole_request() {
            Flow::Read
        } else {
            self.consume(engine, me, arena, &backlog, out)
        };
        match (&self.state, flow) {
            (State::Task(_) | State::Held(Waits::Memory), _) => Turn::Again,
            (State::Held(_) | State::Full, _) => Turn::Parked,
            (_, flow) => Turn::Flow(flow),
        }
    }

    /// Answers a protocol error; the connection closes behind it.
    #[cold]
    fn refuse<A: Access>(&mut self, engine: &mut Engine<A>, error: ProtocolError, out: &mut Out) -> Flow {
        engine.stats.error_replies += 1;
        crate::proto::reply::Reply::new(out, false).error_bytes(&error.text());
        self.carry.clear();
        self.state = State::Over;
        Flow::Finish
    }

    /// The connection has gone: gives back what lies in the keyspace. Returns a task that must go on nevertheless.
    pub fn close<A: Access>(self, engine: &mut Engine<A>, database: usize) -> Option<Box<dyn Task>> {
        let sink = match self.kept.map(|kept| *kept) {
            Some(Kept::Sink(sink)) => Some(sink),
            Some(Kept::Memcache(cut)) => cut.into_sink(),
            Some(Kept::Http(_)) | None => None,
        };
        if let Some(sink) = sink {
            engine.keyspace.with_shard(sink.hash, |shard| shard.blob_release(sink.blob));
        }
        let State::Task(mut task) = self.state else { return None };
        if task.must_finish() {
            return Some(task);
        }
        let mut db = engine.keyspace.db(database, engine.clock.unix_ms());
        task.abandon(&mut db);
        db.unlock();
        None
    }
}
