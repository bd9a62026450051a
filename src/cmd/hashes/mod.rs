//! Hash commands: here those that read and write fields by name; `whole` those that read all of a hash, `counter` numbers, `random` HRANDFIELD,
//! `deadlines` those of fields, `values` what reads or writes values and deadlines at once.
//!
//! A field whose deadline has come is not there. Commands that name fields see that themselves; those that tell of the hash as a whole first
//! have such fields removed ([`settle`]), in slices if there are many.

mod counter;
mod deadlines;
mod many;
mod many_timed;
mod random;
mod settle;
mod values;
mod whole;

pub use counter::{hincrby, hincrbyfloat};
use deadlines::{hexpire, hexpireat, hexpiretime, hpersist, hpexpire, hpexpireat, hpexpiretime, hpttl, httl};
pub use many::{MANY_HDEL, MANY_HMGET, MANY_HMSET, MANY_HSET};
pub use many_timed::{
    MANY_HEXPIRE, MANY_HEXPIREAT, MANY_HEXPIRETIME, MANY_HGETDEL, MANY_HGETEX, MANY_HPERSIST, MANY_HPEXPIRE,
    MANY_HPEXPIREAT, MANY_HPEXPIRETIME, MANY_HPTTL, MANY_HSETEX, MANY_HTTL,
};
pub use random::hrandfield;
use values::{hgetdel, hgetex, hsetex};
pub use whole::{hgetall, hkeys, hlen, hvals};

use super::ctx::{Args, Ctx, Failure, Outcome};
use super::event::Event;
use crate::db::collections::Missing;
use crate::db::{DbError, Key};
use crate::proto::errors;
use crate::proto::reply::Reply;
use crate::types::hash::{Hash, Lifetime, Text};
use crate::types::{Edit, Look};
use dolmen_slab::Slab;

/// Fields that are removed on the way of a command that writes, when their deadlines have come.
const EXPIRE_AT_ONCE: usize = 64;

/// Writes a field or a value; a large one is sent from where it lies.
#[inline]
fn reply_text(reply: &mut Reply<'_>, slab: &Slab, text: Text<'_>) {
    match text {
        Text::Entry(entry) => reply.entry(entry),
        Text::Blob(id) => reply.bulk_shared(slab.blob_ref(id)),
    }
}

/// Writes the value of a field, or null.
#[inline]
fn reply_value(reply: &mut Reply<'_>, look: Option<Look<'_, Hash>>, field: &[u8], now_ms: u64) {
    match look.and_then(|look| Some((look.slab, look.field(field, now_ms)?))) {
        Some((slab, field)) => reply_text(reply, slab, field.value),
        None => reply.null(),
    }
}

/// What came of a change.
struct Changed<T> {
    value: T,
    /// Nothing is left of the hash.
    emptied: bool,
    /// Fields whose deadlines had come went before.
    expired: bool,
}

impl<T> Changed<T> {
    /// Tells of the change, and of the end of the hash if it was that.
    fn report(&self, ctx: &mut Ctx<'_>, key: Key<'_>, event: Event, fields: u64) {
        ctx.report(key, event);
        ctx.change(fields - 1);
        if self.emptied {
            ctx.also(key, Event::Del);
        }
    }

    /// The same where it may be that no field was changed.
    fn settle(self, ctx: &mut Ctx<'_>, key: Key<'_>, event: Event, fields: u64) -> T {
        if fields > 0 {
            self.report(ctx, key, event, fields);
        } else if self.emptied && self.expired {
            ctx.also(key, Event::Del);
        }
        self.value
    }
}

/// Changes the hash at a key; the function is told the instant. Fields whose deadlines have come are removed before, unless they are many.
#[inline]
fn change<T>(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    missing: Missing,
    change: impl FnOnce(&mut Edit<'_, Hash>, u64) -> Result<T, DbError>,
) -> Result<Option<Changed<T>>, Failure> {
    let now_ms = ctx.db.now_ms();
    let (mut expired, mut gone) = (0, None);
    let logs = ctx.is_recorded();
    let done = ctx.db.edit::<Hash, _>(key, missing, |edit| {
        if edit.look().earliest_ms() <= now_ms {
            gone = logs.then(Vec::new);
            expired = edit.expire_noting(now_ms, EXPIRE_AT_ONCE, gone.as_mut());
        }
        let value = change(edit, now_ms)?;
        Ok(Changed { value, emptied: edit.look().is_empty(), expired: expired > 0 })
    })?;
    if expired > 0 {
        ctx.db.count_expired_fields(expired);
        ctx.db.note_fields_gone(key, gone.unwrap_or_default());
        ctx.report(key, Event::HExpired);
    }
    Ok(done)
}

/// `HSET key field value [field value ...]`
pub fn hset(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match set_all(ctx, args, "hset") {
        Ok(created) => {
            ctx.reply.count(created);
            Outcome::Done
        }
        Err(failure) => ctx.fail(failure),
    }
}

pub fn hmset(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match set_all(ctx, args, "hmset") {
        Ok(_) => {
            ctx.out().ok();
            Outcome::Done
        }
        Err(failure) => ctx.fail(failure),
    }
}

/// Sets fields; the number of those that are new.
#[inline]
fn set_all(ctx: &mut Ctx<'_>, args: Args<'_>, command: &str) -> Result<usize, Failure> {
    if !args.len().is_multiple_of(2) {
        return Err(errors::wrong_number_of_arguments(command).into());
    }
    let key = ctx.first_key(args[1]);
    let pairs = &args[2..];
    let done = change(ctx, key, Missing::Create, |edit, now_ms| {
        let mut created = 0;
        for pair in pairs.chunks_exact(2) {
            created += usize::from(edit.set(pair[0], pair[1], Lifetime::Forever, now_ms)?);
        }
        Ok(created)
    })?;
    let Some(done) = done else { return Ok(0) };
    done.report(ctx, key, Event::HSet, (pairs.len() / 2) as u64);
    Ok(done.value)
}

/// `HSETNX key field value`
pub fn hsetnx(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let done = change(ctx, key, Missing::Create, |edit, now_ms| {
            let absent = edit.look().field(args[2], now_ms).is_none();
            if absent {
                edit.set(args[2], args[3], Lifetime::Forever, now_ms)?;
            }
            Ok(absent)
        })?;
        let set = done.filter(|done| done.value);
        if let Some(done) = &set {
            done.report(ctx, key, Event::HSet, 1);
        }
        ctx.reply.int(i64::from(set.is_some()));
        Ok(())
    })
}

pub fn hget(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, now_ms) = (ctx.first_key(args[1]), ctx.db.now_ms());
    match ctx.db.read::<Hash>(key) {
        Ok(look) => {
            reply_value(&mut ctx.reply, look, args[2], now_ms);
            Outcome::Done
        }
        Err(error) => ctx.fail(error),
    }
}

pub fn hmget(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, now_ms) = (ctx.first_key(args[1]), ctx.db.now_ms());
    match ctx.db.read::<Hash>(key) {
        Ok(look) => {
            ctx.reply.array(args.len() - 2);
            for field in &args[2..] {
                reply_value(&mut ctx.reply, look, field, now_ms);
            }
            Outcome::Done
        }
        Err(error) => ctx.fail(error),
    }
}

pub fn hexists(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, now_ms) = (ctx.first_key(args[1]), ctx.db.now_ms());
    ctx.attempt(|ctx| {
        let found = ctx.db.read::<Hash>(key)?.and_then(|look| look.field(args[2], now_ms));
        ctx.reply.int(i64::from(found.is_some()));
        Ok(())
    })
}

pub fn hstrlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, now_ms) = (ctx.first_key(args[1]), ctx.db.now_ms());
    ctx.attempt(|ctx| {
        let look = ctx.db.read::<Hash>(key)?;
        let len = look.and_then(|look| Some(look.field(args[2], now_ms)?.value.len(look.slab)));
        ctx.reply.count(len.unwrap_or(0));
        Ok(())
    })
}

/// `HDEL key field [field ...]`
pub fn hdel(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let done = change(ctx, key, Missing::Skip, |edit, now_ms| {
            Ok(args[2..].iter().filter(|field| edit.remove(field, now_ms)).count())
        })?;
        let removed = done.as_ref().map_or(0, |done| done.value);
        if let Some(done) = done {
            done.settle(ctx, key, Event::HDel, removed as u64);
        }
        ctx.reply.count(removed);
        Ok(())
    })
}
