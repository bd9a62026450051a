//! String commands: here those that read or write whole values; `set` is SET with options and the conditions on what is there, `range` parts
//! of values, `counter` numbers, `pairs` MSETNX and MSETEX, `lcs` LCS.
mod compare;
mod counter;
mod lcs;
mod options;
mod pairs;
mod range;
mod set;

pub use compare::{delex, delifeq, digest};
pub use counter::{decr, decrby, incr, incrby, incrbyfloat};
pub use lcs::lcs;
pub use pairs::{PAIRS_MSETEX, PAIRS_MSETNX, msetex, msetnx};
pub use range::{append, getrange, setrange};

use super::ctx::{Args, Ctx, Failure, Outcome};
use super::event::Event;
use super::options::ExpireUnit;
use crate::base::int;
use crate::db::item::Value;
use crate::db::view::Deadline;
use crate::db::{DbError, Key, NewValue, Plain};
use crate::proto::errors;
use crate::table::Site;
use options::{Command, Options, positive_deadline};

/// Writes the string at a key as a bulk string; a large one is sent from where it lies. On an error nothing is written.
#[inline(always)]
fn reply_value(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<(), DbError> {
    match ctx.db.read_plain(key) {
        Plain::Value(bytes) => ctx.reply.bulk(bytes),
        Plain::Absent => ctx.reply.null(),
        // By parts, as all of it would be put into memory for the call, whether it is made or not.
        Plain::Seldom => return reply_seldom(ctx, key.bytes, (key.hash, key.site)),
    }
    Ok(())
}

#[inline(never)]
fn reply_seldom(ctx: &mut Ctx<'_>, bytes: &[u8], (hash, site): (u64, Site)) -> Result<(), DbError> {
    reply_value_counted::<true>(ctx, Key { bytes, hash, site })
}

/// The same for a key that was read before, which is not counted twice.
fn reply_value_again(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<(), Failure> {
    Ok(reply_value_counted::<false>(ctx, key)?)
}

#[inline(always)]
fn reply_value_counted<const COUNTED: bool>(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<(), DbError> {
    let value = if COUNTED { ctx.db.read_string(key)? } else { ctx.db.string_for_write(key)? };
    // `db` and `reply` are separate fields, so the value is copied straight from the item into the output.
    match value {
        Some(Value::Raw(bytes)) => ctx.reply.bulk(bytes),
        Some(Value::Int(i)) => ctx.reply.bulk_int(i),
        Some(Value::Blob(id)) => {
            let blob = ctx.db.blob_ref(id);
            ctx.reply.bulk_shared(blob);
        }
        None => ctx.reply.null(),
    }
    Ok(())
}

#[inline(always)]
pub fn get(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match reply_value(ctx, ctx.first_key(args[1])) {
        Ok(()) => Outcome::Done,
        Err(e) => ctx.fail(e),
    }
}

pub fn getdel(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        reply_value(ctx, key)?;
        if ctx.db.remove(key) {
            ctx.report(key, Event::Del);
        }
        Ok(())
    })
}

/// `GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]`
pub fn getex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let options = Options::parse(&args[2..], Command::GetEx)?;
        if ctx.db.read_string(key)?.is_none() {
            ctx.reply.null();
            return Ok(());
        }
        let deadline = options.deadline(ctx, "getex")?;
        match deadline {
            Deadline::At(deadline_ms) if options.is_absolute() && deadline_ms <= ctx.db.now_ms() => {
                reply_value_again(ctx, key)?;
                ctx.db.remove(key);
                ctx.report(key, Event::Del);
                return Ok(());
            }
            // Before the reply, as it may fail.
            Deadline::At(deadline_ms) => {
                ctx.db.set_deadline(key, Some(deadline_ms))?;
                ctx.report(key, Event::Expire);
            }
            _ if options.persist && ctx.db.deadline_for_write(key) != Some(None) => {
                ctx.db.set_deadline(key, None)?;
                ctx.report(key, Event::Persist);
            }
            _ => {}
        }
        reply_value_again(ctx, key)
    })
}

pub fn getset(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        store_and_return(ctx, key, args[2], Deadline::None)?;
        ctx.report(key, Event::Set);
        Ok(())
    })
}

/// Replies the old value, then writes the new one; nothing is replied or changed on an error.
fn store_and_return(ctx: &mut Ctx<'_>, key: Key<'_>, argument: &[u8], deadline: Deadline) -> Result<(), Failure> {
    let old = match ctx.db.read_string(key)? {
        None => None,
        Some(Value::Blob(id)) => Some(Err(ctx.db.blob_ref(id))),
        Some(value) => {
            let mut digits = [0; 20];
            let bytes = match value {
                Value::Raw(bytes) => bytes,
                Value::Int(i) => int::write_i64(&mut digits, i),
                Value::Blob(_) => unreachable!("matched above"),
            };
            Some(Ok(bytes.to_vec()))
        }
    };
    let value = ctx.take_value(argument);
    ctx.db.set_string(key, value, deadline)?;
    match old {
        None => ctx.reply.null(),
        Some(Ok(bytes)) => ctx.reply.bulk(&bytes),
        Some(Err(blob)) => ctx.reply.bulk_shared(blob),
    }
    Ok(())
}

/// `SET key value [options]`, see `set`.
#[inline(always)]
pub fn set(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 3 {
        return set::with_options(ctx, args);
    }
    let key = ctx.first_key(args[1]);
    // (Not by `take_value`: what is known to be an argument need not be asked what it is.)
    let set = match ctx.blob {
        None => ctx.db.set_string(key, NewValue::Raw(args[2]), Deadline::None),
        Some(blob) => {
            ctx.blob = None;
            ctx.db.set_string(key, NewValue::Blob(blob), Deadline::None)
        }
    };
    if let Err(e) = set {
        return ctx.fail(e);
    }
    ctx.report(key, Event::Set);
    ctx.out().ok();
    Outcome::Done
}

pub fn setnx(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let absent = matches!(ctx.db.string_for_write(key), Ok(None));
        if absent {
            let value = ctx.take_value(args[2]);
            ctx.db.set_string(key, value, Deadline::None)?;
            ctx.report(key, Event::Set);
        }
        ctx.reply.int(i64::from(absent));
        Ok(())
    })
}

pub fn setex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    set_for(ctx, args, "setex", ExpireUnit::Seconds)
}

pub fn psetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    set_for(ctx, args, "psetex", ExpireUnit::Milliseconds)
}

fn set_for(ctx: &mut Ctx<'_>, args: Args<'_>, command: &'static str, unit: ExpireUnit) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let deadline_ms = positive_deadline(ctx, command, unit, args[2])?;
        let value = ctx.take_value(args[3]);
        ctx.db.set_string(key, value, Deadline::At(deadline_ms))?;
        ctx.report(key, Event::Set);
        ctx.also(key, Event::Expire);
        ctx.out().ok();
        Ok(())
    })
}

pub fn strlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let len = match ctx.db.read_string(key)? {
            None => 0,
            Some(Value::Raw(bytes)) => bytes.len(),
            Some(Value::Int(i)) => int::write_i64(&mut [0; 20], i).len(),
            Some(Value::Blob(id)) => ctx.db.slab().blob_len(id),
        };
        ctx.reply.count(len);
        Ok(())
    })
}

// ---- many keys: the same steps serve the plain and the sliced form (see `super::many`) ----

pub fn mset_start(_ctx: &mut Ctx<'_>, arguments: usize) -> Result<(), Failure> {
    if arguments.is_multiple_of(2) {
        return Err(errors::wrong_number_of_arguments("mset").into());
    }
    Ok(())
}

#[inline(always)]
pub fn mset_each(ctx: &mut Ctx<'_>, group: Args<'_>) -> Result<u64, Failure> {
    let key = ctx.first_key(group[0]);
    ctx.db.set_string(key, NewValue::Raw(group[1]), Deadline::None)?;
    ctx.report(key, Event::Set);
    Ok(1)
}

pub fn mset_finish(ctx: &mut Ctx<'_>, _count: u64) {
    ctx.out().ok();
}

pub fn mget_start(ctx: &mut Ctx<'_>, arguments: usize) -> Result<(), Failure> {
    ctx.reply.array(arguments - 1);
    Ok(())
}

#[inline(always)]
pub fn mget_each(ctx: &mut Ctx<'_>, group: Args<'_>) -> Result<u64, Failure> {
    let key = ctx.first_key(group[0]);
    if reply_value(ctx, key).is_err() {
        ctx.reply.null();
    }
    Ok(1)
}

pub fn mget_finish(_ctx: &mut Ctx<'_>, _count: u64) {}
