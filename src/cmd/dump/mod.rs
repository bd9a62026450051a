//! DUMP and RESTORE: a value as Redis's RDB format has it, with version and checksum. Large values are checked, unpacked and copied in
//! slices; to others RESTORE happens in its last one.

mod collections;

use super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::event::Event;
use super::options::parse_int;
use super::pieces::{AT_ONCE_BYTES, Draft, PIECE_BYTES, Reader};
use crate::db::access::Uses;
use crate::db::item::{DEADLINE_MAX_MS, value_inline_max};
use crate::db::transfer::Content;
use crate::db::view::Deadline;
use crate::db::{Db, DbError, Key, NewValue};
use crate::persist::rdb::lzf::Unpacker;
use crate::persist::rdb::payload::{self, CHECKSUM_BYTES, Checksum, FOOTER_BYTES};
use crate::persist::rdb::string::{self, Head, Text};
use crate::persist::rdb::{self, value_type};
use crate::proto::errors;
use dolmen_slab::BlobRef;

/// Packed bytes that are unpacked between two looks at the clock.
const PACKED_PIECE_BYTES: usize = 1024;

// ---- DUMP ----

pub fn dump(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let Some(copied) = ctx.db.copied(key) else {
        ctx.reply.null();
        return Outcome::Done;
    };
    let mut head = vec![value_type::STRING];
    match &copied.content {
        Content::Raw(bytes) => string::write(bytes, &mut head),
        Content::Int(number) => string::write_int(*number, &mut head),
        Content::Blob(blob) => {
            string::write_length(blob.len() as u64, &mut head);
            let mut checksum = Checksum::default();
            checksum.update(&head);
            let reader = Reader::new(blob.clone(), 0, blob.len());
            let mut task = DumpTask { head, reader, checksum, blob: Some(blob.clone()) };
            if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
                return Outcome::Done;
            }
            return ctx.suspend(Box::new(task));
        }
        Content::Packed(kind, packed) => {
            let payload = collections::packed_payload(*kind, packed);
            ctx.reply.bulk(&payload);
            return Outcome::Done;
        }
        Content::Container(_) => {
            let timed = ctx.db.has_timed_fields(key);
            let Content::Container(view) = copied.content else { unreachable!("looked at above") };
            return collections::dump(ctx, key, view, timed);
        }
    }
    payload::seal(&mut head);
    ctx.reply.bulk(&head);
    Outcome::Done
}

/// Sums up a large value, then sends it from where it lies.
struct DumpTask {
    /// What comes before its bytes.
    head: Vec<u8>,
    reader: Reader,
    checksum: Checksum,
    blob: Option<BlobRef>,
}

impl Task for DumpTask {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        while let Some(piece) = self.reader.next(PIECE_BYTES) {
            self.checksum.update(piece);
            if budget.is_spent(1) {
                return false;
            }
        }
        let Some(blob) = self.blob.take() else { return true };
        ctx.reply.bulk_header(self.head.len() + blob.len() + FOOTER_BYTES);
        ctx.out().extend(&self.head);
        ctx.out().shared(blob);
        let footer = std::mem::take(&mut self.checksum).footer();
        ctx.out().extend(&footer);
        ctx.reply.bulk_end();
        true
    }

    fn bytes(&self) -> usize {
        self.head.capacity()
    }
}

// ---- RESTORE ----

/// What to do with the value when it is there.
#[derive(Clone, Copy, Default)]
struct Terms {
    replace: bool,
    ttl_ms: u64,
    /// `ttl_ms` is a Unix time.
    absolute: bool,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

/// `RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
pub fn restore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let terms = match parse_terms(ctx, args) {
        Ok(terms) => terms,
        Err(failure) => return ctx.fail(failure),
    };
    let key = ctx.first_key(args[1]);
    let blob = match ctx.blob.take() {
        Some(blob) => blob,
        None if rdb::kind_of(args[3].first().copied().unwrap_or(0)).is_some() && args[3].len() <= AT_ONCE_BYTES => {
            return restore_short_collection(ctx, key, terms, args[3]);
        }
        None if !is_large(args[3]) => {
            return ctx.attempt(|ctx| {
                let text = read_whole(args[3], ctx.config.proto_max_bulk_bytes)?;
                let value = match &text {
                    Text::Int(number) => NewValue::Int(*number),
                    Text::Plain(bytes) => NewValue::Raw(bytes),
                    Text::Unpacked(bytes) => NewValue::Raw(bytes),
                };
                store(ctx, key, terms, value)
            });
        }
        // It was not received in place: it is short and unpacks to much, or there was no memory then.
        None => match ctx.db.blob_new(key, args[3].len()).and_then(|blob| {
            let filled = ctx.db.blob_append(key, blob, args[3]);
            filled.map(|()| blob).inspect_err(|_| ctx.db.blob_drop(key, blob))
        }) {
            Ok(blob) => blob,
            Err(e) => return ctx.fail(e),
        },
    };
    let payload = ctx.db.blob_ref(blob);
    // The reference keeps it alive, and lets go of it whatever becomes of the task.
    ctx.db.blob_drop(key, blob);
    let checking = Reader::new(payload.clone(), 0, payload.len().saturating_sub(CHECKSUM_BYTES));
    let stage = Stage::Checking { reader: checking, checksum: Checksum::default() };
    let mut task = RestoreTask { key: args[1].to_vec(), terms, payload, stage, draft: Draft::default() };
    if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(task))
}

/// Is a payload, or what it unpacks to, too much for one go?
fn is_large(payload: &[u8]) -> bool {
    let unpacked = |mut value| match string::read_head(&mut value) {
        Ok(Head::Packed { bytes, .. }) => bytes,
        _ => 0,
    };
    payload.len() > AT_ONCE_BYTES || payload.get(1..).map_or(0, unpacked) > AT_ONCE_BYTES as u64
}

fn parse_terms(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Terms, Failure> {
    let mut terms = Terms::default();
    let mut rest = args[4..].iter();
    while let Some(option) = rest.next() {
        match (&*option.to_ascii_lowercase(), rest.len()) {
            (b"replace", _) => terms.replace = true,
            (b"absttl", _) => terms.absolute = true,
            (b"idletime", 1..) if terms.frequency.is_none() => {
                let seconds = rest.next().map_or(Ok(0), |seconds| parse_int(seconds))?;
                terms.idle_seconds = Some(u64::try_from(seconds).map_err(|_| errors::INVALID_IDLETIME)?);
            }
            (b"freq", 1..) if terms.idle_seconds.is_none() => {
                let times = rest.next().map_or(Ok(0), |times| parse_int(times))?;
                terms.frequency = Some(u8::try_from(times).map_err(|_| errors::INVALID_FREQ)?);
            }
            _ => return Err(errors::SYNTAX.into()),
        }
    }
    if !terms.replace && ctx.db.is_there(ctx.first_key(args[1])) {
        return Err(errors::BUSYKEY.into());
    }
    terms.ttl_ms = u64::try_from(parse_int(args[2])?).map_err(|_| errors::INVALID_TTL)?;
    Ok(terms)
}

fn restore_short_collection(ctx: &mut Ctx<'_>, key: Key<'_>, terms: Terms, payload: &[u8]) -> Outcome {
    let Ok(value) = payload::open(payload) else { return ctx.fail(errors::BAD_PAYLOAD) };
    let about = (value[0], value.len());
    let payload = collections::Payload::Short { bytes: value.to_vec(), at: 0 };
    match collections::restore(ctx, key, terms, payload, about) {
        Err(failure) => ctx.fail(failure),
        Ok(mut task) => {
            if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
                return Outcome::Done;
            }
            ctx.suspend(Box::new(task))
        }
    }
}

fn read_whole(payload: &[u8], max_bytes: u64) -> Result<Text<'_>, Failure> {
    let value = payload::open(payload).map_err(|_| errors::BAD_PAYLOAD)?;
    let Some((&value_type::STRING, mut value)) = value.split_first() else { return Err(errors::BAD_DATA.into()) };
    string::read(&mut value, max_bytes).map_err(|_| errors::BAD_DATA.into())
}

/// Writes the value and the reply.
fn store(ctx: &mut Ctx<'_>, key: Key<'_>, terms: Terms, value: NewValue<'_>) -> Result<(), Failure> {
    let give_up = |db: &mut Db<'_>, value| {
        if let NewValue::Blob(blob) = value {
            db.blob_drop(key, blob);
        }
    };
    store_with(ctx, key, terms, value, give_up, |db, value, deadline| db.set_string(key, value, deadline))
}

/// The same for any value: how it is given up, and how it is stored.
fn store_with<V>(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    terms: Terms,
    value: V,
    give_up: impl FnOnce(&mut Db<'_>, V),
    put: impl FnOnce(&mut Db<'_>, V, Deadline) -> Result<(), DbError>,
) -> Result<(), Failure> {
    let there = ctx.db.is_there(key);
    let deadline_ms = match (terms.ttl_ms, terms.absolute) {
        (0, _) => None,
        (at, true) => Some(at.min(DEADLINE_MAX_MS)),
        (ms, false) => Some(ctx.db.clock_ms().saturating_add(ms).min(DEADLINE_MAX_MS)),
    };
    let refused = there && !terms.replace;
    if refused || deadline_ms.is_some_and(|at| at <= ctx.db.now_ms()) {
        give_up(&mut ctx.db, value);
        if refused {
            return Err(errors::BUSYKEY.into());
        }
        if there {
            ctx.db.remove(key);
            ctx.report(key, Event::Del);
        }
        ctx.out().ok();
        return Ok(());
    }
    put(&mut ctx.db, value, deadline_ms.map_or(Deadline::None, Deadline::At))?;
    // Of the two that is kept which the policy goes by, as in Redis.
    match (ctx.db.uses(), terms) {
        (Uses::Clocked, Terms { idle_seconds: Some(seconds), .. }) => ctx.db.set_idle_seconds(key, seconds),
        (Uses::Counted, Terms { frequency: Some(times), .. }) => ctx.db.set_count_of_uses(key, times.into()),
        _ => {}
    }
    if there {
        ctx.db.tell_new(ctx.db.index(), key);
    }
    ctx.report(key, Event::Restore);
    ctx.out().ok();
    Ok(())
}

enum Stage {
    Checking {
        reader: Reader,
        checksum: Checksum,
    },
    Plain {
        reader: Reader,
        bytes: usize,
    },
    Packed {
        reader: Reader,
        unpacker: Unpacker,
        bytes: usize,
    },
    Number(i64),
    /// A collection, which makes itself.
    Elements(Box<collections::Restore>),
    /// The value is complete.
    Made {
        bytes: usize,
    },
}

/// RESTORE of a large payload.
struct RestoreTask {
    key: Vec<u8>,
    terms: Terms,
    payload: BlobRef,
    stage: Stage,
    draft: Draft,
}

impl RestoreTask {
    /// The last bytes of the payload.
    fn footer(&self) -> Option<[u8; FOOTER_BYTES]> {
        let from = self.payload.len().checked_sub(FOOTER_BYTES)?;
        let mut reader = Reader::new(self.payload.clone(), from, self.payload.len());
        let mut footer = [0; FOOTER_BYTES];
        let mut at = 0;
        while let Some(piece) = reader.next(FOOTER_BYTES) {
            footer[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        Some(footer)
    }

    /// How the value goes on from its head.
    fn open(&self, ctx: &mut Ctx<'_>) -> Result<Stage, Failure> {
        let max_bytes = ctx.config.proto_max_bulk_bytes;
        let end = self.payload.len() - FOOTER_BYTES;
        // The head is far shorter than a segment.
        let start = self.payload.segment(0);
        let start = &start[..start.len().min(end)];
        if let Some(first) = start.first().filter(|first| rdb::kind_of(**first).is_some()) {
            let about = (*first, end);
            let key = ctx.key(&self.key);
            let payload = collections::Payload::long(&self.payload);
            return Ok(Stage::Elements(Box::new(collections::restore(ctx, key, self.terms, payload, about)?)));
        }
        let Some((&value_type::STRING, mut rest)) = start.split_first() else { return Err(errors::BAD_DATA.into()) };
        let head = string::read_head(&mut rest).map_err(|_| errors::BAD_DATA)?;
        let from = start.len() - rest.len();
        let part = |bytes: u64| {
            let to = usize::try_from(bytes).ok().and_then(|bytes| from.checked_add(bytes)).filter(|to| *to <= end);
            to.map(|to| Reader::new(self.payload.clone(), from, to)).ok_or(errors::BAD_DATA)
        };
        let narrow = |bytes: u64| {
            if bytes > max_bytes { Err(errors::BAD_DATA) } else { usize::try_from(bytes).map_err(|_| errors::BAD_DATA) }
        };
        Ok(match head {
            Head::Int(number) => Stage::Number(number),
            Head::Plain { bytes } => Stage::Plain { reader: part(bytes)?, bytes: narrow(bytes)? },
            Head::Packed { packed_bytes, bytes } => {
                Stage::Packed { reader: part(packed_bytes)?, unpacker: Unpacker::new(bytes), bytes: narrow(bytes)? }
            }
        })
    }

    /// True: the reply is written.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let key = ctx.key(&self.key);
        loop {
            let next = match &mut self.stage {
                Stage::Checking { reader, checksum } => {
                    while let Some(piece) = reader.next(PIECE_BYTES) {
                        checksum.update(piece);
                        if budget.is_spent(1) {
                            return Ok(false);
                        }
                    }
                    let checksum = std::mem::take(checksum);
                    let footer = self.footer().ok_or(errors::BAD_PAYLOAD)?;
                    if payload::check_version(&footer).is_err() || !checksum.is_of(&footer) {
                        return Err(errors::BAD_PAYLOAD.into());
                    }
                    self.open(ctx)?
                }
                Stage::Elements(restore) => return Ok(restore.step(ctx, budget)),
                Stage::Plain { reader, bytes } => {
                    while let Some(piece) = reader.next(PIECE_BYTES) {
                        self.draft.append(&mut ctx.db, key, *bytes, piece)?;
                        if budget.is_spent(1) {
                            return Ok(false);
                        }
                    }
                    Stage::Made { bytes: *bytes }
                }
                Stage::Packed { reader, unpacker, bytes } => {
                    while let Some(piece) = reader.next(PACKED_PIECE_BYTES) {
                        unpacker.feed(piece).map_err(|_| errors::BAD_DATA)?;
                        // What was claimed of the length is not believed before it comes true.
                        let hint = (*bytes).min(AT_ONCE_BYTES);
                        unpacker.take(|made| self.draft.append(&mut ctx.db, key, hint, made))?;
                        if budget.is_spent(1) {
                            return Ok(false);
                        }
                    }
                    unpacker.finish().map_err(|_| errors::BAD_DATA)?;
                    Stage::Made { bytes: *bytes }
                }
                Stage::Number(_) | Stage::Made { .. } if ctx.db.is_held(key.hash, true) => return Ok(false),
                Stage::Number(number) => {
                    store(ctx, key, self.terms, NewValue::Int(*number))?;
                    return Ok(true);
                }
                Stage::Made { bytes } => {
                    let bytes = *bytes;
                    return self.finish(ctx, bytes).map(|()| true);
                }
            };
            self.stage = next;
        }
    }

    fn finish(&mut self, ctx: &mut Ctx<'_>, bytes: usize) -> Result<(), Failure> {
        let key = ctx.key(&self.key);
        match self.draft.take() {
            None => store(ctx, key, self.terms, NewValue::Raw(b"")),
            // Only a value that its item cannot hold is a blob.
            Some(blob) if bytes <= value_inline_max(key.bytes.len()) => {
                let short = ctx.db.copy_value(&crate::db::Value::Blob(blob));
                ctx.db.blob_drop(key, blob);
                store(ctx, key, self.terms, NewValue::Raw(&short))
            }
            Some(blob) => store(ctx, key, self.terms, NewValue::Blob(blob)),
        }
    }
}

impl Task for RestoreTask {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        match self.go_on(ctx, budget) {
            Ok(done) => done,
            Err(failure) => {
                ctx.fail(failure);
                self.abandon(&mut ctx.db);
                true
            }
        }
    }

    fn bytes(&self) -> usize {
        // The payload came from the client and is nobody else's.
        let elements = if let Stage::Elements(restore) = &self.stage { restore.bytes() } else { 0 };
        elements + self.key.capacity() + self.payload.len()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        let key = db.key(&self.key);
        self.draft.release(db, key);
        if let Stage::Elements(restore) = &mut self.stage {
            restore.abandon(db);
        }
    }
}
