//! Deadlines of keys: EXPIRE and its kin, TTL and its kin, PERSIST.

use super::ctx::{Args, Ctx, Failure, Outcome};
use super::event::Event;
use super::options::{ExpireUnit, deadline_from, parse_int};
use crate::proto::errors;

#[derive(Clone, Copy, Default)]
struct When {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

fn parse_when(options: Args<'_>) -> Result<When, Failure> {
    let mut when = When::default();
    for option in options {
        match &*option.to_ascii_lowercase() {
            b"nx" => when.nx = true,
            b"xx" => when.xx = true,
            b"gt" => when.gt = true,
            b"lt" => when.lt = true,
            _ => return Err(errors::unsupported_option(option).into()),
        }
    }
    if when.nx && (when.xx || when.gt || when.lt) {
        return Err(errors::EXPIRE_NX_AND_OTHERS.into());
    }
    if when.gt && when.lt {
        return Err(errors::EXPIRE_GT_AND_LT.into());
    }
    Ok(when)
}

fn expire_by(ctx: &mut Ctx<'_>, args: Args<'_>, command: &'static str, unit: ExpireUnit) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let when = parse_when(&args[3..])?;
        let number = parse_int(args[2])?;
        let at = deadline_from(ctx.db.clock_ms(), unit, number).ok_or_else(|| errors::invalid_expire_time(command))?;
        let Some(current) = ctx.db.deadline_for_write(key) else {
            ctx.reply.int(0);
            return Ok(());
        };
        // A key without a deadline counts as one that lives for ever.
        let later = current.is_some_and(|current| at > current.cast_signed());
        let earlier = current.is_none_or(|current| at < current.cast_signed());
        let refused = (when.nx && current.is_some())
            || (when.xx && current.is_none())
            || (when.gt && !later)
            || (when.lt && !earlier);
        if refused {
            ctx.reply.int(0);
            return Ok(());
        }
        match u64::try_from(at) {
            Ok(at) if at > ctx.db.now_ms() => {
                ctx.db.set_deadline(key, Some(at))?;
                ctx.report(key, Event::Expire);
            }
            _ => {
                ctx.db.remove(key);
                ctx.report(key, Event::Del);
            }
        }
        ctx.reply.int(1);
        Ok(())
    })
}

pub fn expire(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    expire_by(ctx, args, "expire", ExpireUnit::Seconds)
}

pub fn pexpire(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    expire_by(ctx, args, "pexpire", ExpireUnit::Milliseconds)
}

pub fn expireat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    expire_by(ctx, args, "expireat", ExpireUnit::UnixSeconds)
}

pub fn pexpireat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    expire_by(ctx, args, "pexpireat", ExpireUnit::UnixMilliseconds)
}

/// -2: no such key, -1: no deadline, else what `show` makes of the deadline and the time of now, both in Unix milliseconds.
fn tell(ctx: &mut Ctx<'_>, args: Args<'_>, show: fn(deadline_ms: u64, now_ms: u64) -> u64) -> Outcome {
    let key = ctx.first_key(args[1]);
    let now_ms = ctx.db.now_ms();
    let answer = match ctx.db.deadline_ms(key) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline_ms)) => show(deadline_ms, now_ms).cast_signed(),
    };
    ctx.reply.int(answer);
    Outcome::Done
}

pub fn ttl(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    tell(ctx, args, |deadline, now| (deadline.saturating_sub(now) + 500) / 1000)
}

pub fn pttl(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    tell(ctx, args, u64::saturating_sub)
}

pub fn expiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    tell(ctx, args, |deadline, _| (deadline + 500) / 1000)
}

pub fn pexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    tell(ctx, args, |deadline, _| deadline)
}

pub fn persist(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let had = matches!(ctx.db.deadline_for_write(key), Some(Some(_)));
        if had {
            ctx.db.set_deadline(key, None)?;
            ctx.report(key, Event::Persist);
        }
        ctx.reply.int(i64::from(had));
        Ok(())
    })
}
