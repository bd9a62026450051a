//! OBJECT: what Redis would tell of how a value is kept.
//!
//! Encodings are named as Redis names them, for the tools that ask: a text that is a number is `int`, one of up to 44 bytes `embstr`, any
//! other, and one that was changed in part, `raw`. How a value really lies here is `db::item`'s affair.

use super::ctx::{Args, Ctx, Outcome};
use crate::base::int;
use crate::db::access::{Uses, count_of, heat_of, idle_seconds};
use crate::db::item::{Item, Value, flag};
use crate::proto::errors;

/// Longest string that Redis keeps in one piece with its object.
const EMBSTR_BYTES_MAX: usize = 44;
/// Longest text that Redis tries as a number.
const INT_TEXT_MAX: usize = 20;

/// Replies null for a key that is not there, else what `tell` writes.
fn about(ctx: &mut Ctx<'_>, args: Args<'_>, tell: impl FnOnce(&Item<'_>) -> Answer) -> Outcome {
    let key = ctx.first_key(args[2]);
    match ctx.db.look_at(key).map(|item| tell(&item)) {
        None => ctx.reply.null(),
        Some(Answer::Int(number)) => ctx.reply.int(number),
        Some(Answer::Text(text)) => ctx.reply.bulk(text.as_bytes()),
        Some(Answer::Error(text)) => return ctx.fail(text),
    }
    Outcome::Done
}

enum Answer {
    Int(i64),
    Text(&'static str),
    Error(&'static str),
}

pub fn encoding(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[2]);
    if let Some(name) = ctx.db.container_encoding(key) {
        ctx.reply.bulk(name.as_bytes());
        return Outcome::Done;
    }
    about(ctx, args, |item| Answer::Text(encoding_name(item)))
}

pub(super) fn encoding_name(item: &Item<'_>) -> &'static str {
    match item.value() {
        Value::Int(_) => "int",
        Value::Raw(_) if item.header().flags & flag::MODIFIED != 0 => "raw",
        Value::Raw(bytes) if bytes.len() <= INT_TEXT_MAX && int::parse_i64(bytes).is_some() => "int",
        Value::Raw(bytes) if bytes.len() <= EMBSTR_BYTES_MAX => "embstr",
        Value::Raw(_) | Value::Blob(_) => "raw",
    }
}

/// A value belongs to its key alone. (Redis shares small numbers, and tells 2147483647 for them.)
pub fn refcount(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    about(ctx, args, |_| Answer::Int(1))
}

pub fn idletime(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (now_ms, clocked) = (ctx.db.now_ms(), ctx.db.uses() == Uses::Clocked);
    about(ctx, args, |item| match clocked {
        true => Answer::Int(idle_seconds(item, now_ms).cast_signed()),
        false => Answer::Error(errors::NO_IDLE_TIME),
    })
}

/// How often keys are used is counted under an LFU policy only.
pub fn freq(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (now_ms, uses) = (ctx.db.now_ms(), ctx.db.uses());
    let decay_minutes = ctx.config.eviction.lfu_decay_minutes;
    about(ctx, args, |item| match uses {
        Uses::Counted => Answer::Int(count_of(item.clock(), now_ms, decay_minutes).cast_signed()),
        Uses::Learned => Answer::Int(heat_of(item.clock()).cast_signed()),
        Uses::Clocked => Answer::Error(errors::NO_LFU),
    })
}
