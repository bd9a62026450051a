//! HINCRBY and HINCRBYFLOAT. The deadline of the field stays.

use super::super::ctx::{Args, Ctx, Outcome};
use super::super::event::Event;
use super::super::options::parse_int;
use super::change;
use crate::base::entry::Entry;
use crate::base::float::Extended;
use crate::base::int;
use crate::db::collections::Missing;
use crate::proto::errors;
use crate::types::hash::{Lifetime, Text};

/// `HINCRBY key field increment`
pub fn hincrby(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let increment = parse_int(args[3])?;
        let done = change(ctx, key, Missing::Create, |edit, now_ms| {
            let sum = match edit.look().field(args[2], now_ms).map(|field| field.value) {
                None => Ok(increment),
                Some(Text::Entry(Entry::Int(old))) => old.checked_add(increment).ok_or(errors::OVERFLOW),
                Some(_) => Err(errors::HASH_NOT_AN_INTEGER),
            };
            if let Ok(sum) = sum {
                edit.set(args[2], int::write_i64(&mut [0; int::MAX_DIGITS], sum), Lifetime::Keep, now_ms)?;
            }
            Ok(sum)
        })?;
        let Some(done) = done else { return Ok(()) };
        let sum = done.value?;
        done.report(ctx, key, Event::HIncrBy, 1);
        ctx.reply.int(sum);
        Ok(())
    })
}

/// `HINCRBYFLOAT key field increment`. Computes with 80 bits, as INCRBYFLOAT does.
pub fn hincrbyfloat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let increment = Extended::parse(args[3]).ok_or(errors::NOT_A_FLOAT)?;
        if Extended::ZERO.plus(increment).is_none() {
            return Err(errors::VALUE_NAN_OR_INFINITY.into());
        }
        let mut text = Vec::new();
        let done = change(ctx, key, Missing::Create, |edit, now_ms| {
            let old = match edit.look().field(args[2], now_ms).map(|field| field.value) {
                None => Some(Extended::ZERO),
                Some(Text::Entry(entry)) => Extended::parse(entry.text(&mut [0; int::MAX_DIGITS])),
                // Longer than any number may be.
                Some(Text::Blob(_)) => None,
            };
            let Some(old) = old else { return Ok(Err(errors::HASH_NOT_A_FLOAT)) };
            let Some(sum) = old.plus(increment) else { return Ok(Err(errors::NAN_OR_INFINITY)) };
            sum.write(&mut text);
            edit.set(args[2], &text, Lifetime::Keep, now_ms)?;
            Ok(Ok(()))
        })?;
        let Some(done) = done else { return Ok(()) };
        done.value?;
        done.report(ctx, key, Event::HIncrByFloat, 1);
        ctx.reply.bulk(&text);
        Ok(())
    })
}
