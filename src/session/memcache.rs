//! The session of a client that speaks memcached's protocol: as that of one of Redis's it turns windows into batches, which go the same way
//! (`exec`), keeps what a window cut, and receives large values in place.
//!
//! ```text
//!   window ──parse──► batch ──run──► replies
//!      │
//!      └► cut: `Kept::Memcache` ─ its bytes until it can be parsed ─► a window of its own
//!                             └─ or, of a large value, a blob
//! ```
//! Between two windows the rest of a line of keys, or of a value that is passed over, is a `Mode`.

use super::parse::{self, Lot, Parsed, Reader, Stop};
use super::{Kept, Session, Sink, State};
use crate::base::out::Out;
use crate::cmd::ctx::Exec;
use crate::cmd::memcache as verbs;
use crate::cmd::spec::{Command, Flags};
use crate::db::{Access, DbError, Locate};
use crate::exec::{Batch, End, Engine, Request, Share};
use crate::net::Flow;
use crate::proto::memcache::carry::Carry;
use crate::proto::memcache::{self, Keys, Limits, Mode, Verb, Wanted, text};
use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use dolmen_slab::CHUNK_BYTES_MAX;

/// What is kept of a client's input between two windows.
#[derive(Default)]
pub(super) struct Cut {
    carry: Carry,
    sink: Option<Sink>,
    /// What has come behind the value that was received in place, and how much there will be: a line's end, or a frame's last byte.
    end: Vec<u8>,
    end_bytes: usize,
}

impl Cut {
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Cut>() + self.carry.held_bytes()
    }

    pub(super) fn sink(&mut self) -> Option<&mut Sink> {
        self.sink.as_mut()
    }

    pub(super) fn into_sink(self) -> Option<Sink> {
        self.sink
    }

    /// A value was received in place, and what follows it has come.
    fn is_whole(&self) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.left_bytes == 0) && self.end.len() == self.end_bytes
    }
}

/// The row of a verb, for a client that may have to log in first.
#[inline]
fn row_of(verb: Verb, authenticated: bool) -> &'static Command<Exec> {
    if authenticated { verbs::row(verb) } else { locked_row(verb) }
}

#[cold]
fn locked_row(verb: Verb) -> &'static Command<Exec> {
    match verb {
        Verb::Set => &verbs::AUTH,
        // Errors of form come first, as of Redis's protocol; so do these two of the binary one.
        Verb::Fail | Verb::FailKeys | Verb::FailClose | Verb::Quit | Verb::BinaryInvalid | Verb::BinaryUnframed => {
            verbs::row(verb)
        }
        Verb::BinarySasl => verbs::row(verb),
        _ => &verbs::UNAUTHENTICATED[usize::from(verb as u8 >= Verb::BinaryGet as u8)],
    }
}

impl Reader {
    fn memcache_limits<A>(self, engine: &Engine<A>) -> Limits {
        Limits { item_bytes_max: engine.config.memcached_item_bytes_max, authenticated: self.authenticated }
    }
}

/// What the next byte belongs to when request `i` of a share was the last that was begun, if it was not the last of all.
fn mode_behind(batch: &Batch<'_>, share: &Share, i: usize) -> Mode {
    let request = &batch.share(share)[i];
    let is = |verb| request.row.is_some_and(|row| std::ptr::eq(row, verbs::row(verb)));
    let deadline =
        || batch.args_of(request).get(2).and_then(|arg| arg.first_chunk()).map_or(0, |b| i64::from_le_bytes(*b));
    for (verb, keys) in [
        (Verb::Get, Keys::Get),
        (Verb::Gets, Keys::Gets),
        (Verb::Gat, Keys::Gat(deadline())),
        (Verb::Gats, Keys::Gats(deadline())),
    ] {
        if is(verb) {
            return Mode::Keys(keys);
        }
    }
    Mode::Request
}

/// Parses requests of a window from `from` on, until it is used up, a batch is full, or something else must happen first. `begin`: the place of
/// the window's first request in the lot.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "what the window and its batch are; bundling them would only hide it")]
fn window<'a: 'b, 'b, A: Access>(
    engine: &Engine<A>,
    reader: Reader,
    bytes: &'b [u8],
    from: usize,
    begin: usize,
    mode: &mut Mode,
    wanted: &mut Wanted,
    lot: &mut Lot<'a, 'b>,
) -> Parsed {
    let limits = reader.memcache_limits(engine);
    let locator = engine.keyspace.locator(reader.database as usize);
    let most = begin + parse::BATCH_MAX;
    let mut at = from;
    let stop = loop {
        if at >= bytes.len() {
            break Stop::WindowEmpty;
        }
        if lot.requests.len() == most {
            break Stop::BatchFull;
        }
        let first = lot.args.len();
        match memcache::parse(bytes, at, mode, &limits, &mut lot.args) {
            memcache::Parsed::Request { verb, end } => {
                at = end;
                let row = row_of(verb, reader.authenticated);
                if verb == Verb::FailKeys {
                    retract(begin, lot);
                }
                let request = match lot.args.get(first + row.first_key).filter(|_| row.first_key > 0) {
                    Some(key) => Request::of_key(row, locator.key(key), first, lot.args.len() - first, end),
                    None => engine.request(locator, Some(row), &lot.args[first..], first, end),
                };
                lot.requests.push(request);
                if row.flags.contains(Flags::ENDS_BATCH) || !matches!(*mode, Mode::Request | Mode::Keys(_)) {
                    break Stop::BatchFull;
                }
            }
            memcache::Parsed::Nothing { end } => at = end,
            memcache::Parsed::Incomplete(more) => {
                *wanted = more;
                break Stop::Cut;
            }
        }
    };
    Parsed { share: Share { requests: begin..lot.requests.len(), epoch: locator.epoch() }, end: at, stop }
}

/// Takes the requests for the other keys of a line back.
#[cold]
fn retract(begin: usize, lot: &mut Lot<'_, '_>) {
    let open = [Verb::Get, Verb::Gets, Verb::Gat, Verb::Gats].map(verbs::row);
    while lot.requests.len() > begin
        && lot
            .requests
            .last()
            .and_then(|last| last.row)
            .is_some_and(|row| open.iter().any(|open| std::ptr::eq(row, *open)))
    {
        lot.requests.pop();
    }
}

impl Session {
    /// As `parse_ahead`, for a client that speaks memcached's protocol.
    #[inline]
    pub(super) fn memcache_ahead<'a: 'b, 'b, A: Access>(
        engine: &Engine<A>,
        reader: Reader,
        bytes: &'b [u8],
        lot: &mut Lot<'a, 'b>,
    ) -> Result<Share, Parsed> {
        let (mut mode, mut wanted) = (Mode::Request, Wanted::default());
        let begin = lot.requests.len();
        let parsed = window(engine, reader, bytes, 0, begin, &mut mode, &mut wanted, lot);
        if parsed.is_all() && mode == Mode::Request { Ok(parsed.share) } else { Err(parsed) }
    }

    /// As `after_ahead`. What was not a whole window is parsed again from where its requests end, which says what follows.
    #[expect(clippy::too_many_arguments, reason = "as those of `after_ahead`")]
    pub(super) fn memcache_after_ahead<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        bytes: &[u8],
        (parsed, end): (Parsed, End),
        batch: &Batch<'_>,
        out: &mut Out,
    ) -> Flow {
        let count = parsed.share.requests.len();
        if !matches!(end, End::All) {
            let mode = match &end {
                End::Held(0, _) => Mode::Request,
                End::Held(i, _) => mode_behind(batch, &parsed.share, i - 1),
                End::Suspended(i, _) | End::Full(i) if i + 1 < count => mode_behind(batch, &parsed.share, *i),
                _ => self.mode_at_end(engine, me, arena, bytes, &parsed, batch),
            };
            let requests = batch.share(&parsed.share);
            self.keep_mode(mode);
            if let Some(flow) = self.after_batch(engine, end, 0, requests, bytes) {
                return flow;
            }
        }
        let mode = self.mode_at_end(engine, me, arena, bytes, &parsed, batch);
        let at = parsed.end;
        self.memcache_window(engine, me, arena, (bytes, at), mode, out)
    }

    /// The mode behind the last request of a share.
    fn mode_at_end<A: Access>(
        &self,
        engine: &Engine<A>,
        me: u32,
        arena: &Bump,
        bytes: &[u8],
        parsed: &Parsed,
        batch: &Batch<'_>,
    ) -> Mode {
        // The last request does not tell it all (a value that is passed over), nor that nothing was asked for; so that is parsed again.
        let requests = batch.share(&parsed.share);
        let (mut at, mut mode) = match requests.len().checked_sub(2) {
            Some(i) => (requests[i].end as usize, mode_behind(batch, &parsed.share, i)),
            None => (0, Mode::Request),
        };
        let limits = Reader::of(engine.clients.get(me)).memcache_limits(engine);
        while at < parsed.end.min(bytes.len()) {
            let mut args = ArenaVec::new_in(arena);
            match memcache::parse(bytes, at, &mut mode, &limits, &mut args) {
                memcache::Parsed::Request { end, .. } | memcache::Parsed::Nothing { end } => at = end,
                memcache::Parsed::Incomplete(_) => break,
            }
        }
        mode
    }

    /// What the next input begins with.
    fn keep_mode(&mut self, mode: Mode) {
        self.kept = (mode != Mode::Request).then(|| {
            let carry = Carry::new(mode, b"", Wanted::default());
            Box::new(Kept::Memcache(Cut { carry, ..Cut::default() }))
        });
    }

    /// As `consume`.
    pub(super) fn memcache<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        bytes: &[u8],
        out: &mut Out,
    ) -> Flow {
        let mut at = 0;
        while let Some(kept) = self.kept.take() {
            let Kept::Memcache(mut cut) = *kept else { return Flow::Abort };
            if let Some(sink) = &mut cut.sink {
                // What a backend had in hand when the session was paused comes this way.
                let piece = &bytes[at..at + sink.left_bytes.min(bytes.len() - at)];
                let appended = engine.keyspace.with_shard(sink.hash, |shard| shard.blob_append(sink.blob, piece));
                sink.failed |= appended.is_err();
                sink.left_bytes -= piece.len();
                at += piece.len();
                if sink.left_bytes > 0 {
                    self.kept = Some(Box::new(Kept::Memcache(cut)));
                    return Flow::Sink;
                }
                let missing = (cut.end_bytes - cut.end.len()).min(bytes.len() - at);
                cut.end.extend_from_slice(&bytes[at..at + missing]);
                at += missing;
                if !cut.is_whole() {
                    self.kept = Some(Box::new(Kept::Memcache(cut)));
                    return Flow::Read;
                }
                if let Some(flow) = self.run_received(engine, me, arena, cut, &bytes[at..], out) {
                    return flow;
                }
                continue;
            }
            if cut.carry.bytes().is_empty() {
                // Nothing but a mode.
                return self.memcache_window(engine, me, arena, (bytes, at), cut.carry.mode, out);
            }
            let (taken, whole) = cut.carry.feed(&bytes[at..]);
            at += taken;
            if !whole {
                self.kept = Some(Box::new(Kept::Memcache(cut)));
                return Flow::Read;
            }
            let (mode, request) = (cut.carry.mode, cut.carry.take());
            let flow = self.memcache_window(engine, me, arena, (&request, 0), mode, out);
            if flow == Flow::Pause {
                // What follows waits with what was left of it.
                if let Some(backlog) = &mut self.backlog {
                    backlog.extend_from_slice(&bytes[at..]);
                }
            }
            // (A value that is received in place from here on may lie in the rest of this window.)
            if !matches!(flow, Flow::Read | Flow::Sink) || at == bytes.len() {
                return flow;
            }
        }
        self.memcache_window(engine, me, arena, (bytes, at), Mode::Request, out)
    }

    /// Runs what a window holds from a place on, and keeps what it cuts.
    fn memcache_window<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        (bytes, mut at): (&[u8], usize),
        mut mode: Mode,
        out: &mut Out,
    ) -> Flow {
        let mut wanted = Wanted::default();
        loop {
            let (start, before) = (at, mode);
            let mut lot = Lot::of_window(arena, bytes.len() - at);
            let reader = Reader::of(engine.clients.get(me));
            let parsed = window(engine, reader, bytes, at, 0, &mut mode, &mut wanted, &mut lot);
            at = parsed.end;
            let mut batch = lot.batch();
            let end = engine.run(me, &mut batch, &parsed.share, out);
            if !matches!(end, End::All) {
                let mode = match &end {
                    End::Held(0, _) => before,
                    End::Held(i, _) => mode_behind(&batch, &parsed.share, i - 1),
                    End::Suspended(i, _) | End::Full(i) if i + 1 < parsed.share.requests.len() => {
                        mode_behind(&batch, &parsed.share, *i)
                    }
                    _ => mode,
                };
                self.keep_mode(mode);
                let requests = batch.share(&parsed.share);
                if let Some(flow) = self.after_batch(engine, end, start, requests, bytes) {
                    return flow;
                }
            }
            match parsed.stop {
                Stop::BatchFull => {}
                Stop::WindowEmpty => {
                    self.keep_mode(mode);
                    return Flow::Read;
                }
                Stop::Cut => return self.keep(engine, me, arena, &bytes[at..], mode, wanted),
                Stop::Error(_) => return Flow::Abort,
            }
        }
    }

    /// Keeps the beginning of a request. A large value is received in place from here on.
    #[inline(never)]
    fn keep<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        rest: &[u8],
        mode: Mode,
        wanted: Wanted,
    ) -> Flow {
        let mut cut = Cut { carry: Carry::new(mode, rest, wanted), ..Cut::default() };
        let large = wanted.value.filter(|(_, value_bytes)| *value_bytes > CHUNK_BYTES_MAX);
        let Some((value_at, value_bytes)) = large else {
            self.kept = Some(Box::new(Kept::Memcache(cut)));
            return Flow::Read;
        };
        let database = engine.clients.get(me).database as usize;
        let mut args = ArenaVec::new_in(arena);
        let limits = Reader::of(engine.clients.get(me)).memcache_limits(engine);
        let key = memcache::parse_head(&rest[..value_at], &limits, &mut args).and_then(|_| args.get(1).copied());
        let hash = key.map(|key| engine.keyspace.locator(database).key_outlined(key).hash);
        let blob = hash.and_then(|hash| engine.keyspace.with_shard(hash, |shard| shard.blob_new(value_bytes)).ok());
        if let (Some(hash), Some(blob)) = (hash, blob) {
            let have = cut.carry.divert(value_at);
            let have = &have[..have.len().min(value_bytes)];
            let failed = engine.keyspace.with_shard(hash, |shard| shard.blob_append(blob, have)).is_err();
            // What has come of the line's end.
            cut.end.extend_from_slice(&rest[value_at + have.len()..]);
            cut.end_bytes = wanted.bytes - value_at - value_bytes;
            let mut left_bytes = value_bytes - have.len();
            if cut.end_bytes == 0 {
                // (A frame ends with its value, and the request is run when something comes behind what was received in place.)
                cut.end_bytes = 1;
                left_bytes -= 1;
            }
            cut.sink = Some(Sink { hash, blob, left_bytes, failed });
        }
        let flow = if cut.sink.as_ref().is_some_and(|sink| sink.left_bytes > 0) { Flow::Sink } else { Flow::Read };
        self.kept = Some(Box::new(Kept::Memcache(cut)));
        flow
    }

    /// Runs the request whose value was received in place; `rest`: what follows it. `Some`: no more is read.
    #[inline(never)]
    fn run_received<A: Access>(
        &mut self,
        engine: &mut Engine<A>,
        me: u32,
        arena: &Bump,
        mut cut: Cut,
        rest: &[u8],
        out: &mut Out,
    ) -> Option<Flow> {
        let Some(sink) = cut.sink.take() else { return Some(Flow::Abort) };
        let head = cut.carry.bytes();
        let is_frame = head.first() == Some(&memcache::binary::MAGIC);
        let wrong = !is_frame && cut.end != b"\r\n";
        let last = if is_frame { std::mem::take(&mut cut.end) } else { Vec::new() };
        let appended = engine.keyspace.with_shard(sink.hash, |shard| shard.blob_append(sink.blob, &last));
        if sink.failed || wrong || appended.is_err() {
            engine.keyspace.with_shard(sink.hash, |shard| shard.blob_release(sink.blob));
            let text = if wrong { text::bad_chunk(head) } else { Some(verbs::OUT_OF_MEMORY) };
            if let Some(text) = text {
                verbs::refuse_value(&mut engine.ctx(me, out), head, text, DbError::OutOfMemory);
            }
            return None;
        }
        let mut args = ArenaVec::new_in(arena);
        let reader = Reader::of(engine.clients.get(me));
        let limits = reader.memcache_limits(engine);
        let Some(verb) = memcache::parse_head(head, &limits, &mut args) else { return Some(Flow::Abort) };
        let end = engine.run_received(me, row_of(verb, reader.authenticated), &args, sink.blob, out);
        drop(args);
        match end {
            End::All => return None,
            End::Close => {
                self.state = State::Over;
                return Some(Flow::Finish);
            }
            End::Held(_, waits) => {
                engine.stats.commands = engine.stats.commands.saturating_sub(1);
                cut.sink = Some(sink);
                cut.end_bytes = cut.end.len();
                self.kept = Some(Box::new(Kept::Memcache(cut)));
                self.state = State::Held(waits);
            }
            End::Suspended(_, task) => self.state = State::Task(task),
            End::Full(_) => self.state = State::Full,
        }
        self.backlog = Some(Box::new(rest.to_vec()));
        Some(Flow::Pause)
    }

    /// Is there a request that is whole, and waits?
    pub(super) fn has_whole_request(&self) -> bool {
        match self.kept.as_deref() {
            Some(Kept::Memcache(cut)) => cut.is_whole(),
            Some(Kept::Http(_)) => true,
            Some(Kept::Sink(_)) | None => false,
        }
    }
}
