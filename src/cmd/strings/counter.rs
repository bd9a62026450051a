//! Numbers: INCR DECR INCRBY DECRBY, and INCRBYFLOAT.

use super::super::ctx::{Args, Ctx, Outcome};
use super::super::event::Event;
use super::super::options::parse_int;
use crate::base::float::Extended;
use crate::base::int;
use crate::db::NewValue;
use crate::db::item::Value;
use crate::db::marks::Marking;
use crate::db::view::Deadline;
use crate::proto::errors;

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

#[inline(always)]
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

/// `INCRBYFLOAT key increment`. Computes with 80 bits, as Redis does on x86, so that results are the same to the last digit.
pub fn incrbyfloat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let value = match ctx.db.string_for_write(key)? {
            None => Some(Extended::ZERO),
            Some(Value::Raw(bytes)) => Extended::parse(bytes),
            Some(Value::Int(i)) => Extended::parse(int::write_i64(&mut [0; 20], i)),
            // Longer than any number may be.
            Some(Value::Blob(_)) => None,
        };
        let (value, increment) = value.zip(Extended::parse(args[2])).ok_or(errors::NOT_A_FLOAT)?;
        let sum = value.plus(increment).ok_or(errors::NAN_OR_INFINITY)?;
        let mut text = Vec::new();
        sum.write(&mut text);
        ctx.db.set_marked(key, NewValue::Raw(&text), Deadline::Keep, Marking::Keep)?;
        ctx.report(key, Event::IncrByFloat);
        ctx.reply.bulk(&text);
        Ok(())
    })
}
