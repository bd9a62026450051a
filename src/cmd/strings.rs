//! String commands.

use super::ctx::{Args, Ctx, Failure, Outcome};
use super::event::Event;
use super::options::{ExpireUnit, deadline_from, parse_int};
use crate::base::int;
use crate::db::item::Value;
use crate::db::view::Deadline;
use crate::db::{DbError, Key, NewValue};
use crate::proto::errors;

/// Writes the string at a key as a bulk string; a large one is sent from where it lies. On an error nothing is written.
#[inline(always)]
fn reply_value(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<(), DbError> {
    // `db` and `reply` are separate fields, so the value is copied straight from the item into the output.
    match ctx.db.read_string(key)? {
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

/// `SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
#[inline]
pub fn set(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 3 {
        return ctx.attempt(|ctx| set_with_options(ctx, args));
    }
    let key = ctx.first_key(args[1]);
    if ctx.blob.is_none() && ctx.db.overwrite_alike(key, args[2]) {
        ctx.report(key, Event::Set);
        ctx.out().ok();
        return Outcome::Done;
    }
    set_plain(ctx, key, args[2])
}

#[inline(never)]
fn set_plain(ctx: &mut Ctx<'_>, key: Key<'_>, argument: &[u8]) -> Outcome {
    let value = ctx.take_value(argument);
    if let Err(e) = ctx.db.set_string(key, value, Deadline::None) {
        return ctx.fail(e);
    }
    ctx.report(key, Event::Set);
    ctx.out().ok();
    Outcome::Done
}

#[inline(never)]
fn set_with_options(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), Failure> {
    let key = ctx.first_key(args[1]);
    let mut condition = Condition::Always;
    let mut get = false;
    let mut deadline: Option<Deadline> = None;
    let mut time: Option<(ExpireUnit, &[u8])> = None;
    let mut rest = args[3..].iter();
    while let Some(option) = rest.next() {
        let word = option.to_ascii_lowercase();
        match &*word {
            b"nx" if condition == Condition::Always => condition = Condition::IfAbsent,
            b"xx" if condition == Condition::Always => condition = Condition::IfPresent,
            b"nx" if condition == Condition::IfAbsent => {}
            b"xx" if condition == Condition::IfPresent => {}
            b"get" => get = true,
            b"keepttl" if time.is_none() => deadline = Some(Deadline::Keep),
            b"ex" | b"px" | b"exat" | b"pxat" if deadline.is_none() => {
                let unit = match &*word {
                    b"ex" => ExpireUnit::Seconds,
                    b"px" => ExpireUnit::Milliseconds,
                    b"exat" => ExpireUnit::UnixSeconds,
                    _ => ExpireUnit::UnixMilliseconds,
                };
                // Twice the same is no error: the last one counts.
                if time.is_some_and(|(other, _)| other != unit) {
                    return Err(errors::SYNTAX.into());
                }
                time = Some((unit, rest.next().ok_or(errors::SYNTAX)?));
            }
            _ => return Err(errors::SYNTAX.into()),
        }
    }
    let deadline = match time {
        Some((unit, number)) => Deadline::At(positive_deadline(ctx, "set", unit, number)?),
        None => deadline.unwrap_or(Deadline::None),
    };
    let present = ctx.db.string_for_write(key);
    let present = if get { present?.is_some() } else { !matches!(present, Ok(None)) };
    let refused = match condition {
        Condition::Always => false,
        Condition::IfAbsent => present,
        Condition::IfPresent => !present,
    };
    if refused {
        if get {
            reply_value(ctx, key)?;
        } else {
            ctx.reply.null();
        }
        return Ok(());
    }
    if get {
        store_and_return(ctx, key, args[2], deadline)?;
    } else {
        let value = ctx.take_value(args[2]);
        ctx.db.set_string(key, value, deadline)?;
        ctx.out().ok();
    }
    ctx.report(key, Event::Set);
    if matches!(deadline, Deadline::At(_)) {
        ctx.also(key, Event::Expire);
    }
    Ok(())
}

/// A deadline given with a value: must lie in the representable future of the epoch.
fn positive_deadline(ctx: &Ctx<'_>, command: &str, unit: ExpireUnit, number: &[u8]) -> Result<u64, Failure> {
    let number = parse_int(number)?;
    if number <= 0 {
        return Err(errors::invalid_expire_time(command).into());
    }
    let deadline_ms =
        deadline_from(ctx.db.now_ms(), unit, number).ok_or_else(|| errors::invalid_expire_time(command))?;
    Ok(u64::try_from(deadline_ms).unwrap_or(0))
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

pub fn append(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let max_bytes = usize::try_from(ctx.config.proto_max_bulk_bytes).unwrap_or(usize::MAX);
        let len = ctx.db.append(key, args[2], max_bytes)?;
        ctx.report(key, Event::Append);
        ctx.reply.count(len);
        Ok(())
    })
}

#[inline(always)]
fn add(ctx: &mut Ctx<'_>, key: &[u8], by: i64) -> Outcome {
    let key = ctx.first_key(key);
    match ctx.db.add_int(key, by) {
        Ok(sum) => {
            ctx.report(key, Event::IncrBy);
            ctx.reply.int(sum);
            Outcome::Done
        }
        Err(e) => ctx.fail(e),
    }
}

pub fn incr(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    add(ctx, args[1], 1)
}

pub fn decr(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    add(ctx, args[1], -1)
}

pub fn incrby(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match parse_int(args[2]) {
        Ok(by) => add(ctx, args[1], by),
        Err(failure) => ctx.fail(failure),
    }
}

pub fn decrby(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match parse_int(args[2]) {
        Ok(i64::MIN) => ctx.fail(errors::DECREMENT_OVERFLOW),
        Ok(by) => add(ctx, args[1], -by),
        Err(failure) => ctx.fail(failure),
    }
}

// ---- many keys: the same steps serve the plain and the sliced form (see `super::many`) ----

pub fn mset_start(_ctx: &mut Ctx<'_>, arguments: usize) -> Result<(), Failure> {
    if arguments.is_multiple_of(2) {
        return Err(errors::wrong_number_of_arguments("mset").into());
    }
    Ok(())
}

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

pub fn mget_each(ctx: &mut Ctx<'_>, group: Args<'_>) -> Result<u64, Failure> {
    let key = ctx.first_key(group[0]);
    if reply_value(ctx, key).is_err() {
        ctx.reply.null();
    }
    Ok(1)
}

pub fn mget_finish(_ctx: &mut Ctx<'_>, _count: u64) {}
