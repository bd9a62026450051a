//! Parts of values: GETRANGE (and SUBSTR), SETRANGE, APPEND. A part of a large value is sent from where it lies; a large part that was
//! received in place is put into the value in slices, in a copy that shares memory with it.

use super::super::ctx::{Args, Budget, Ctx, Failure, Outcome, Task};
use super::super::event::Event;
use super::super::options::parse_int;
use crate::base::int;
use crate::cmd::held::HeldName;
use crate::db::hold::Mode;
use crate::db::item::Value;
use crate::db::marks::Marking;
use crate::db::view::Deadline;
use crate::db::{Db, DbError, Key, NewValue};
use crate::proto::errors;
use dolmen_slab::{BlobId, BlobRef, SEGMENT_BYTES};
use std::ops::Range;

/// Shorter parts of a blob are copied into the reply, which is cheaper.
const SHARED_MIN_BYTES: usize = 16 << 10;
/// Bytes that are copied between two looks at the clock.
const PIECE_BYTES: usize = 64 << 10;

/// `GETRANGE key start end`, also known as SUBSTR.
pub fn getrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let (start, end) = (parse_int(args[2])?, parse_int(args[3])?);
        let mut digits = [0; 20];
        let bytes = match ctx.db.read_string(key)? {
            None => &[],
            Some(Value::Raw(bytes)) => bytes,
            Some(Value::Int(i)) => int::write_i64(&mut digits, i),
            Some(Value::Blob(id)) => {
                let blob = ctx.db.blob_ref(id);
                let part = part(start, end, blob.len());
                reply_part(ctx, blob, part);
                return Ok(());
            }
        };
        ctx.reply.bulk(&bytes[part(start, end, bytes.len())]);
        Ok(())
    })
}

/// The bytes from `start` to `end`, inclusive; negative ones count from the end of `len` bytes. What lies before the first byte is taken for
/// the first one, unless both count from the end in the wrong order.
fn part(start: i64, end: i64, len: usize) -> Range<usize> {
    if len == 0 || (start < 0 && end < 0 && start > end) {
        return 0..0;
    }
    let place = |index: i64| match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => len.saturating_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let (start, end) = (place(start), place(end).min(len - 1));
    if start > end { 0..0 } else { start..end + 1 }
}

fn reply_part(ctx: &mut Ctx<'_>, blob: BlobRef, part: Range<usize>) {
    if part.len() > SHARED_MIN_BYTES {
        return ctx.reply.bulk_shared_range(blob, part);
    }
    ctx.reply.bulk_header(part.len());
    let mut at = part.start;
    while at < part.end {
        let segment = &blob.segment(at / SEGMENT_BYTES)[at % SEGMENT_BYTES..];
        let piece = &segment[..segment.len().min(part.end - at)];
        ctx.out().extend(piece);
        at += piece.len();
    }
    ctx.reply.bulk_end();
}

/// `SETRANGE key offset value`
pub fn setrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let offset = match parse_int(args[2]) {
        Ok(offset) => offset,
        Err(failure) => return ctx.fail(failure),
    };
    // (Offsets that are too large for memory are above the limit as well.)
    let Ok(offset) = usize::try_from(offset) else { return ctx.fail(errors::OFFSET_OUT_OF_RANGE) };
    if let Some(id) = ctx.blob.take() {
        return put_received(ctx, key, Place::At(offset), id);
    }
    ctx.attempt(|ctx| {
        let old_len = ctx.db.len_for_write(key)?;
        if args[3].is_empty() {
            ctx.reply.count(old_len.unwrap_or(0));
            return Ok(());
        }
        check_len(ctx, offset, args[3].len())?;
        let len = ctx.db.set_range(key, offset, args[3])?;
        ctx.db.mark_modified(key);
        ctx.report(key, Event::SetRange);
        ctx.reply.count(len);
        Ok(())
    })
}

fn max_bytes(ctx: &Ctx<'_>) -> usize {
    usize::try_from(ctx.config.proto_max_bulk_bytes).unwrap_or(usize::MAX)
}

fn check_len(ctx: &Ctx<'_>, offset: usize, bytes: usize) -> Result<(), Failure> {
    let end = offset.checked_add(bytes).ok_or(DbError::TooLong)?;
    if end > max_bytes(ctx) { Err(DbError::TooLong.into()) } else { Ok(()) }
}

/// `APPEND key value`
pub fn append(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    if let Some(id) = ctx.blob.take() {
        return put_received(ctx, key, Place::End, id);
    }
    ctx.attempt(|ctx| {
        let max_bytes = max_bytes(ctx);
        let len = ctx.db.append(key, args[2], max_bytes)?;
        ctx.report(key, Event::Append);
        ctx.reply.count(len);
        Ok(())
    })
}

/// Where a part goes.
#[derive(Clone, Copy)]
enum Place {
    At(usize),
    End,
}

impl Place {
    fn event(self) -> Event {
        match self {
            Place::At(_) => Event::SetRange,
            Place::End => Event::Append,
        }
    }
}

/// Puts a large part, received in place, into the string at a key.
fn put_received(ctx: &mut Ctx<'_>, key: Key<'_>, place: Place, id: BlobId) -> Outcome {
    let source = ctx.db.blob_ref(id);
    let at = ctx.db.len_for_write(key).map_err(Failure::from).and_then(|len| {
        let len = len.unwrap_or(0);
        let at = if let Place::At(at) = place { at } else { len };
        check_len(ctx, at, source.len()).map(|()| (len, at))
    });
    match at {
        Ok((len, 0)) if source.len() >= len => {
            // It is the whole of the new value.
            drop(source);
            return ctx.attempt(|ctx| {
                ctx.db.set_marked(key, NewValue::Blob(id), Deadline::Keep, Marking::Keep)?;
                let len = ctx.db.len_for_write(key)?;
                ctx.db.mark_modified(key);
                ctx.report(key, place.event());
                ctx.reply.count(len.unwrap_or(0));
                Ok(())
            });
        }
        Ok((_, at)) => {
            // The reference keeps the bytes.
            ctx.db.blob_drop(key, id);
            if source.segments() == 1 {
                return ctx.attempt(|ctx| {
                    let len = ctx.db.set_range(key, at, source.segment(0))?;
                    ctx.db.mark_modified(key);
                    ctx.report(key, place.event());
                    ctx.reply.count(len);
                    Ok(())
                });
            }
        }
        Err(failure) => {
            ctx.db.blob_drop(key, id);
            return ctx.fail(failure);
        }
    }
    let task = PutTask { name: HeldName::new(key.bytes, Mode::Exclusive), place, source, copied: 0, patched: None };
    ctx.suspend(Box::new(task))
}

/// Puts a part of more than a segment into a value.
struct PutTask {
    name: HeldName,
    place: Place,
    source: BlobRef,
    /// Bytes of the source that are in place.
    copied: usize,
    patched: Option<Patched>,
}

/// The value that is to be.
#[derive(Clone, Copy)]
struct Patched {
    id: BlobId,
    /// Where the part begins.
    at: usize,
    /// There was a value before.
    existed: bool,
}

impl PutTask {
    /// Prepares the new value, now that nobody can change the old one.
    fn begin(&self, ctx: &mut Ctx<'_>) -> Result<Patched, Failure> {
        let key = ctx.key(&self.name.name);
        let len = ctx.db.len_for_write(key)?;
        let at = if let Place::At(at) = self.place { at } else { len.unwrap_or(0) };
        check_len(ctx, at, self.source.len())?;
        Ok(Patched { id: ctx.db.patch_new(key)?, at, existed: len.is_some() })
    }

    /// False: there is more to copy.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let patched = match self.patched {
            Some(patched) => patched,
            None => *self.patched.insert(self.begin(ctx)?),
        };
        let key = ctx.key(&self.name.name);
        while self.copied < self.source.len() {
            let segment = &self.source.segment(self.copied / SEGMENT_BYTES)[self.copied % SEGMENT_BYTES..];
            let piece = &segment[..segment.len().min(PIECE_BYTES)];
            ctx.db.patch(key, patched.id, patched.at + self.copied, piece)?;
            self.copied += piece.len();
            if budget.is_spent(1) && self.copied < self.source.len() {
                return Ok(false);
            }
        }
        self.patched = None;
        let len = ctx.db.blob_len(key, patched.id);
        if patched.existed && ctx.db.len_for_write(key)?.is_none() {
            // Its deadline has passed meanwhile: after the change, as it were.
            ctx.db.blob_drop(key, patched.id);
        } else {
            ctx.db.set_marked(key, NewValue::Blob(patched.id), Deadline::Keep, Marking::Keep)?;
            ctx.db.mark_modified(key);
            ctx.report(key, self.place.event());
        }
        ctx.reply.count(len);
        Ok(true)
    }
}

impl Task for PutTask {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if !self.name.acquire(ctx) {
            return false;
        }
        match self.go_on(ctx, budget) {
            Ok(false) => return false,
            Ok(true) => {}
            Err(failure) => {
                ctx.fail(failure);
            }
        }
        self.abandon(&mut ctx.db);
        true
    }

    fn bytes(&self) -> usize {
        size_of::<PutTask>() + self.name.name.capacity() + self.source.len()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Some(patched) = self.patched.take() {
            let key = db.key(&self.name.name);
            db.blob_drop(key, patched.id);
        }
        self.name.release(db);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As redis-server 7.0.15 answers GETRANGE of "abcdef".
    #[test]
    fn parts() {
        for (start, end, expected) in [
            (0, -1, 0..6),
            (0, 0, 0..1),
            (-3, -2, 3..5),
            (-100, 100, 0..6),
            (-2, -3, 0..0),
            (4, 2, 0..0),
            (6, 7, 0..0),
            (0, -100, 0..1),
            (-100, -50, 0..1),
            (i64::MIN, i64::MAX, 0..6),
            (i64::MAX, i64::MIN, 0..0),
        ] {
            assert_eq!(part(start, end, 6), expected, "{start} {end}");
        }
        assert_eq!(part(0, -1, 0), 0..0);
    }
}
