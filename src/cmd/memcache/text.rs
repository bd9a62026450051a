//! The verbs of the text protocol but for reading.

use super::super::ctx::{Args, Ctx, Outcome};
use super::arithmetic::{self, Sum};
use super::concat::Finish;
use super::store::{Mode, Order, Stored, store, store_now};
use super::{Due, NOT_NUMERIC, TOO_LARGE, fail, remove, say, text_of, touch};
use crate::base::int::{self, MAX_DIGITS};
use crate::db::{DbError, Key};
use crate::proto::memcache::number;

const STORED: &[u8] = b"STORED\r\n";
const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";

/// The order of a line: name, key, flags, deadline, value.
#[inline(always)]
fn order<'v>(ctx: &Ctx<'_>, mode: Mode, args: Args<'v>) -> Order<'v> {
    let due = Due::of(number::signed(args[3]).unwrap_or(0), ctx.db.now_ms());
    Order { flags: number::flags(args[2]).unwrap_or(0), due, ..Order::new(mode, args[4]) }
}

#[inline]
pub fn set(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let order = order(ctx, Mode::Set, args);
    ctx.stats.memcache.set_commands += 1;
    match store_now(ctx, key, order) {
        Ok(_) => say(ctx, args[5], STORED),
        Err(error) => stored_badly(ctx, error, args[5]),
    }
}

pub fn add(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    store_as(ctx, args, Mode::Add)
}

pub fn replace(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    store_as(ctx, args, Mode::Replace)
}

pub fn append(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    store_as(ctx, args, Mode::Append)
}

pub fn prepend(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    store_as(ctx, args, Mode::Prepend)
}

pub fn cas(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let order = Order { cas: Some(number::unsigned(args[6]).unwrap_or(0)), ..order(ctx, Mode::Set, args) };
    store(ctx, key, order, Finish::new(finish, args[5]))
}

fn store_as(ctx: &mut Ctx<'_>, args: Args<'_>, mode: Mode) -> Outcome {
    let key = ctx.first_key(args[1]);
    let order = order(ctx, mode, args);
    store(ctx, key, order, Finish::new(finish, args[5]))
}

/// The reply to a value that was to be stored.
fn finish(ctx: &mut Ctx<'_>, _key: Key<'_>, stored: Result<Stored, DbError>, noreply: &[u8]) {
    let line: &[u8] = match stored {
        Ok(Stored::Done) => STORED,
        Ok(Stored::Refused) => b"NOT_STORED\r\n",
        Ok(Stored::Exists) => b"EXISTS\r\n",
        Ok(Stored::NotFound) => NOT_FOUND,
        Err(error) => {
            stored_badly(ctx, error, noreply);
            return;
        }
    };
    say(ctx, noreply, line);
}

#[cold]
fn stored_badly(ctx: &mut Ctx<'_>, error: DbError, noreply: &[u8]) -> Outcome {
    ctx.stats.memcache.store_no_memory += 1;
    if noreply.is_empty() { fail(ctx, text_of(error)) } else { Outcome::Done }
}

/// A value that was passed over: name, key, noreply (or `ms`), and perhaps that the old one stays. Otherwise it goes, as it would be out of date.
pub fn too_large(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.stats.memcache.store_too_large += 1;
    if args.len() < 4 {
        remove(ctx, key);
    }
    if args[2] == b"noreply" { Outcome::Done } else { fail(ctx, TOO_LARGE) }
}

pub fn incr(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    add_to(ctx, args, true)
}

pub fn decr(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    add_to(ctx, args, false)
}

fn add_to(ctx: &mut Ctx<'_>, args: Args<'_>, grows: bool) -> Outcome {
    let (key, noreply) = (ctx.first_key(args[1]), args[3]);
    let Some(delta) = number::unsigned(args[2]) else {
        return quietly(ctx, noreply, b"CLIENT_ERROR invalid numeric delta argument");
    };
    match arithmetic::add(ctx, key, delta, grows, None) {
        Ok(Sum::Is(sum)) => {
            if noreply.is_empty() {
                ctx.out().extend(int::write_u64(&mut [0; MAX_DIGITS], sum));
                ctx.out().extend(b"\r\n");
            }
            Outcome::Done
        }
        Ok(Sum::NotFound | Sum::Exists) => say(ctx, noreply, NOT_FOUND),
        Ok(Sum::NotANumber) => quietly(ctx, noreply, NOT_NUMERIC),
        Err(_) => quietly(ctx, noreply, b"SERVER_ERROR out of memory"),
    }
}

/// An error that is not told either if no reply is wanted.
fn quietly(ctx: &mut Ctx<'_>, noreply: &[u8], text: &[u8]) -> Outcome {
    if noreply.is_empty() { fail(ctx, text) } else { Outcome::Done }
}

pub fn delete(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    if remove(ctx, key) {
        ctx.stats.memcache.delete_hits += 1;
        return say(ctx, args[2], b"DELETED\r\n");
    }
    ctx.stats.memcache.delete_misses += 1;
    say(ctx, args[2], NOT_FOUND)
}

pub fn touch_key(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (key, noreply) = (ctx.first_key(args[1]), args[3]);
    let Some(seconds) = number::signed(args[2]) else {
        return quietly(ctx, noreply, b"CLIENT_ERROR invalid exptime argument");
    };
    let due = Due::of(seconds, ctx.db.now_ms());
    ctx.stats.memcache.touch_commands += 1;
    if ctx.db.fetch(key).is_none() {
        ctx.stats.memcache.touch_misses += 1;
        return say(ctx, noreply, NOT_FOUND);
    }
    match touch(ctx, key, due) {
        Ok(()) => say(ctx, noreply, b"TOUCHED\r\n"),
        Err(error) => quietly(ctx, noreply, text_of(error)),
    }
}
