//! Numbers: what `incr` and `decr` do, whichever protocol asks for it. A number is a string of digits below 2^64; it wraps when it grows,
//! and ends at 0 when it shrinks. INCR and its kin see the same.

use super::super::ctx::Ctx;
use super::super::event::Event;
use crate::base::int::{self, MAX_DIGITS};
use crate::db::item::Value;
use crate::db::marks::Marking;
use crate::db::view::Deadline;
use crate::db::{DbError, Key, NewValue};
use crate::proto::memcache::number;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sum {
    Is(u64),
    NotFound,
    NotANumber,
    /// There is another value than the one with the number that was given.
    Exists,
}

/// Adds to the number at a key, or takes from it.
pub(super) fn add(ctx: &mut Ctx<'_>, key: Key<'_>, delta: u64, grows: bool, cas: Option<u64>) -> Result<Sum, DbError> {
    let counters = &mut ctx.stats.memcache;
    let Some(item) = ctx.db.look_at_string(key) else {
        if ctx.db.is_there(key) {
            return Ok(Sum::NotANumber);
        }
        *(if grows { &mut counters.incr_misses } else { &mut counters.decr_misses }) += 1;
        return Ok(Sum::NotFound);
    };
    if cas.is_some_and(|cas| cas != 0 && item.marks().is_none_or(|marks| marks.cas != cas)) {
        return Ok(Sum::Exists);
    }
    let old = match item.value() {
        Value::Int(i) => u64::try_from(i).ok(),
        Value::Raw(text) => number::of_value(text),
        Value::Blob(_) => None,
    };
    let Some(old) = old else { return Ok(Sum::NotANumber) };
    let sum = if grows { old.wrapping_add(delta) } else { old.saturating_sub(delta) };
    *(if grows { &mut counters.incr_hits } else { &mut counters.decr_hits }) += 1;
    write(ctx, key, sum, Deadline::Keep, Marking::Keep)?;
    ctx.report(key, Event::IncrBy);
    Ok(Sum::Is(sum))
}

/// Writes a number as a value.
pub(super) fn write(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    number: u64,
    deadline: Deadline,
    marking: Marking,
) -> Result<(), DbError> {
    let mut digits = [0; MAX_DIGITS];
    let value = match i64::try_from(number) {
        Ok(number) => NewValue::Int(number),
        Err(_) => NewValue::Raw(int::write_u64(&mut digits, number)),
    };
    ctx.db.set_marked(key, value, deadline, marking)
}
