//! `append` and `prepend`: at once, or for what is large in slices, with the name held meanwhile. Flags and deadline stay.

use super::super::ctx::{Budget, Ctx, Outcome, Task};
use super::super::event::Event;
use super::super::pieces::{AT_ONCE_BYTES, PIECE_BYTES, Reader};
use super::store::{Mode, Order, Stored};
use crate::cmd::held::HeldName;
use crate::db::hold;
use crate::db::item::Value;
use crate::db::marks::Marking;
use crate::db::view::Deadline;
use crate::db::{Db, DbError, Key, NewValue};
use crate::proto::memcache::Limits;
use dolmen_slab::{BlobId, BlobRef, SEGMENT_BYTES};

/// Writes the reply to what became of a value, in the form of its protocol.
pub(super) struct Finish {
    write: fn(&mut Ctx<'_>, Key<'_>, Result<Stored, DbError>, &[u8]),
    /// What the form takes of the request.
    about: Vec<u8>,
}

impl Finish {
    /// `about` is copied only if it is needed later.
    pub fn new(write: fn(&mut Ctx<'_>, Key<'_>, Result<Stored, DbError>, &[u8]), about: &[u8]) -> Finish {
        Finish { write, about: about.to_vec() }
    }

    pub fn call(&self, ctx: &mut Ctx<'_>, key: Key<'_>, stored: Result<Stored, DbError>) {
        (self.write)(ctx, key, stored, &self.about);
    }
}

/// Puts a value in front of what is there, or behind it, and has `finish` answer.
pub(super) fn run(ctx: &mut Ctx<'_>, key: Key<'_>, order: Order<'_>, finish: Finish) -> Outcome {
    match begin(ctx, key, order) {
        Ok(Begun::Done(stored)) => {
            finish.call(ctx, key, Ok(stored));
            Outcome::Done
        }
        Ok(Begun::Large(source, front)) => ctx.suspend(Box::new(Concat {
            name: HeldName::new(key.bytes, hold::Mode::Exclusive),
            source,
            front,
            cas: order.cas,
            finish,
            work: None,
        })),
        Err(error) => {
            finish.call(ctx, key, Err(error));
            Outcome::Done
        }
    }
}

enum Begun {
    Done(Stored),
    /// To be put in front, or behind.
    Large(BlobRef, bool),
}

fn begin(ctx: &mut Ctx<'_>, key: Key<'_>, order: Order<'_>) -> Result<Begun, DbError> {
    let given = ctx.blob.map(|id| ctx.db.blob_ref(id));
    let given_bytes = given.as_ref().map_or(order.value.len(), BlobRef::len);
    let Some(old_bytes) = may_grow(ctx, key, given_bytes)? else {
        let Some(due) = order.vivify.filter(|_| !ctx.db.is_there(key)) else {
            return Ok(Begun::Done(Stored::Refused));
        };
        let order = Order { mode: Mode::Set, due, vivify: None, cas: None, ..order };
        return super::store::store_now(ctx, key, order).map(Begun::Done);
    };
    if !is_wanted(ctx, key, order.cas) {
        return Ok(Begun::Done(Stored::Exists));
    }
    let front = order.mode == Mode::Prepend;
    let copied = given_bytes + if front { old_bytes } else { 0 };
    if copied > AT_ONCE_BYTES
        && let Some(blob) = given.or_else(|| copied_blob(ctx, key, order.value))
    {
        return Ok(Begun::Large(blob, front));
    }
    let given = ctx.blob.map(|id| ctx.db.copy_value(&Value::Blob(id)));
    let bytes = given.as_deref().unwrap_or(order.value);
    if front {
        ctx.db.prepend(key, bytes)?;
        ctx.report(key, Event::SetRange);
    } else {
        ctx.db.append(key, bytes, usize::MAX)?;
        ctx.report(key, Event::Append);
    }
    Ok(Begun::Done(Stored::Done))
}

/// A few bytes as a blob that nobody else has; `None`: no memory, so they are put in place at once.
fn copied_blob(ctx: &mut Ctx<'_>, key: Key<'_>, bytes: &[u8]) -> Option<BlobRef> {
    let id = ctx.db.blob_new(key, bytes.len()).ok()?;
    let appended = ctx.db.blob_append(key, id, bytes);
    let blob = ctx.db.blob_ref(id);
    ctx.db.blob_drop(key, id);
    appended.is_ok().then_some(blob)
}

/// The length of the string at a key; `None`: there is none, or it would become too long.
fn may_grow(ctx: &mut Ctx<'_>, key: Key<'_>, more_bytes: usize) -> Result<Option<usize>, DbError> {
    let Some(has_flags) = ctx.db.look_at_string(key).map(|item| super::get::flags_of(&item) != 0) else {
        return Ok(None);
    };
    let old_bytes = ctx.db.len_for_write(key)?.unwrap_or(0);
    let limits = Limits { item_bytes_max: ctx.config.memcached_item_bytes_max, authenticated: true };
    Ok(limits.takes(key.bytes.len(), has_flags, (old_bytes + more_bytes) as u64).then_some(old_bytes))
}

/// Has the string at a key the number that a client has given?
fn is_wanted(ctx: &mut Ctx<'_>, key: Key<'_>, cas: Option<u64>) -> bool {
    let Some(wanted) = cas.filter(|cas| *cas != 0) else { return true };
    ctx.db.look_at_string(key).and_then(|item| item.marks()).is_some_and(|marks| marks.cas == wanted)
}

/// Puts much together.
struct Concat {
    name: HeldName,
    /// What is put in front or behind.
    source: BlobRef,
    front: bool,
    cas: Option<u64>,
    finish: Finish,
    work: Option<Work>,
}

/// The value that is to be.
struct Work {
    id: BlobId,
    /// What is still to be copied, one after the other.
    readers: Vec<Reader>,
    /// Bytes of it that are there.
    at: usize,
}

impl Concat {
    /// Prepares the new value, now that nobody can change the old one. `None`: it is not to be.
    fn prepare(&self, ctx: &mut Ctx<'_>) -> Result<Result<Work, Stored>, DbError> {
        let key = ctx.key(&self.name.name);
        let Some(old_bytes) = may_grow(ctx, key, self.source.len())? else { return Ok(Err(Stored::Refused)) };
        if !is_wanted(ctx, key, self.cas) {
            return Ok(Err(Stored::Exists));
        }
        let source = Reader::new(self.source.clone(), 0, self.source.len());
        let old = ctx.db.look_at_string(key).map(|item| item.value());
        let large = if let Some(Value::Blob(id)) = old { Some(ctx.db.blob_ref(id)) } else { None };
        if !self.front {
            // What was there is shared, not copied.
            return Ok(Ok(Work { id: ctx.db.patch_new(key)?, readers: vec![source], at: old_bytes }));
        }
        let mut readers = vec![source];
        let id = ctx.db.blob_new(key, self.source.len() + old_bytes)?;
        match large {
            Some(blob) => readers.insert(0, Reader::new(blob, 0, old_bytes)),
            None => {
                // Short, so it is at its place at the end.
                let short = ctx.db.patch_new(key)?;
                readers.insert(0, Reader::new(ctx.db.blob_ref(short), 0, old_bytes));
                ctx.db.blob_drop(key, short);
            }
        }
        Ok(Ok(Work { id, readers, at: 0 }))
    }

    /// `None`: there is more to copy.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<Option<Stored>, DbError> {
        if self.work.is_none() {
            match self.prepare(ctx)? {
                Ok(work) => self.work = Some(work),
                Err(stored) => return Ok(Some(stored)),
            }
        }
        let key = ctx.key(&self.name.name);
        let Some(work) = &mut self.work else { return Ok(None) };
        while let Some(reader) = work.readers.last_mut() {
            match reader.next(PIECE_BYTES.min(SEGMENT_BYTES)) {
                Some(piece) => {
                    ctx.db.patch(key, work.id, work.at, piece)?;
                    work.at += piece.len();
                }
                None => {
                    work.readers.pop();
                }
            }
            if budget.is_spent(1) && !work.readers.is_empty() {
                return Ok(None);
            }
        }
        let id = work.id;
        self.work = None;
        if ctx.db.look_at_string(key).is_none() {
            // Its deadline has passed meanwhile: after the change, as it were.
            ctx.db.blob_drop(key, id);
        } else {
            ctx.db.set_marked(key, NewValue::Blob(id), Deadline::Keep, Marking::Keep)?;
            ctx.db.mark_modified(key);
            ctx.report(key, if self.front { Event::SetRange } else { Event::Append });
        }
        Ok(Some(Stored::Done))
    }
}

impl Task for Concat {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if !self.name.acquire(ctx) {
            return false;
        }
        let stored = match self.go_on(ctx, budget) {
            Ok(None) => return false,
            Ok(Some(stored)) => Ok(stored),
            Err(error) => Err(error),
        };
        self.abandon(&mut ctx.db);
        let key = ctx.key(&self.name.name);
        self.finish.call(ctx, key, stored);
        true
    }

    fn bytes(&self) -> usize {
        size_of::<Concat>() + self.name.name.capacity() + self.source.len()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Some(work) = self.work.take() {
            let key = db.key(&self.name.name);
            db.blob_drop(key, work.id);
        }
        self.name.release(db);
    }
}
