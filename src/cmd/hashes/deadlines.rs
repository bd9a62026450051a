//! Deadlines of fields: HEXPIRE and its kin, HTTL and its kin, HPERSIST.

use super::super::ctx::{Args, Ctx, Failure, Outcome};
use super::super::event::Event;
use super::super::options::{ExpireUnit, parse_int};
use super::change;
use crate::db::collections::Missing;
use crate::proto::errors;
use crate::types::hash::{DEADLINE_MAX_MS, Hash};
use crate::types::{Edit, Look};
use dolmen_slab::AllocError;
use static_assertions::const_assert;

/// The latest deadline that commands take, in Unix milliseconds (the year 4199); Redis's.
const LATEST_MS: i64 = (1 << 46) - 1;
const_assert!(LATEST_MS.cast_unsigned() <= DEADLINE_MAX_MS);

/// What is told of a field that is not there, and of one without a deadline.
pub(super) const NO_FIELD: i64 = -2;
const NO_DEADLINE: i64 = -1;

/// What came of giving a field a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Given {
    NoField,
    /// The condition does not hold.
    Refused,
    Set,
    /// The deadline has passed already, and the field went.
    Deleted,
}

impl Given {
    pub(super) fn answer(self) -> i64 {
        match self {
            Given::NoField => NO_FIELD,
            Given::Refused => 0,
            Given::Set => 1,
            Given::Deleted => 2,
        }
    }
}

/// On the deadline that a field has. One without lives for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    Always,
    IfNone,
    IfSome,
    IfLater,
    IfEarlier,
}

impl Condition {
    pub(super) fn parse(word: &[u8]) -> Condition {
        match &*word.to_ascii_lowercase() {
            b"nx" => Condition::IfNone,
            b"xx" => Condition::IfSome,
            b"gt" => Condition::IfLater,
            b"lt" => Condition::IfEarlier,
            _ => Condition::Always,
        }
    }

    /// `old_ms` is 0 without a deadline.
    fn allows(self, old_ms: u64, new_ms: u64) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfNone => old_ms == 0,
            Condition::IfSome => old_ms != 0,
            Condition::IfLater => old_ms != 0 && new_ms > old_ms,
            Condition::IfEarlier => old_ms == 0 || new_ms < old_ms,
        }
    }
}

/// Gives a field a deadline.
pub(super) fn give(
    edit: &mut Edit<'_, Hash>,
    name: &[u8],
    deadline_ms: u64,
    condition: Condition,
    now_ms: u64,
) -> Result<Given, AllocError> {
    let Some(field) = edit.look().field(name, now_ms) else { return Ok(Given::NoField) };
    if !condition.allows(field.deadline_ms, deadline_ms) {
        return Ok(Given::Refused);
    }
    if deadline_ms <= now_ms {
        edit.remove(name, now_ms);
        return Ok(Given::Deleted);
    }
    edit.set_deadline(name, deadline_ms, now_ms)?;
    Ok(Given::Set)
}

/// The deadline that an argument means, in Unix milliseconds; `command` for the error's text.
pub(super) fn parse_deadline(number: &[u8], unit: ExpireUnit, now_ms: u64, command: &str) -> Result<u64, Failure> {
    let number = parse_int(number)?;
    let number = u64::try_from(number).map_err(|_| errors::FIELD_TIME_NEGATIVE)?;
    let (factor, from_ms) = match unit {
        ExpireUnit::Seconds => (1000, now_ms),
        ExpireUnit::Milliseconds => (1, now_ms),
        ExpireUnit::UnixSeconds => (1000, 0),
        ExpireUnit::UnixMilliseconds => (1, 0),
    };
    let deadline_ms = number.checked_mul(factor).and_then(|ms| ms.checked_add(from_ms));
    deadline_ms
        .filter(|deadline_ms| *deadline_ms <= LATEST_MS.cast_unsigned())
        .ok_or_else(|| errors::invalid_expire_time(command).into())
}

/// The fields behind `FIELDS numfields`, which are the last arguments; `no_number` is the error of a number that is none.
pub(super) fn parse_fields<'a, 'b>(
    words: &'a [&'b [u8]],
    no_number: &'static str,
    command: &str,
) -> Result<&'a [&'b [u8]], Failure> {
    let (head, fields) = words.split_at(words.len().min(2));
    check_fields(head, fields.len(), no_number, command)?;
    Ok(fields)
}

/// Are `FIELDS numfields` in order, if so many fields follow?
pub(super) fn check_fields(
    head: Args<'_>,
    count: usize,
    no_number: &'static str,
    command: &str,
) -> Result<(), Failure> {
    let Some((word, rest)) = head.split_first() else { return Err(errors::wrong_number_of_arguments(command).into()) };
    if !word.eq_ignore_ascii_case(b"fields") {
        return Err(errors::NO_FIELDS.into());
    }
    let Some(number) = rest.first() else { return Err(errors::wrong_number_of_arguments(command).into()) };
    let number = parse_int(number).ok().and_then(|number| usize::try_from(number).ok()).filter(|number| *number > 0);
    if number.ok_or(no_number)? != count {
        return Err(errors::NUMFIELDS_MISMATCH.into());
    }
    Ok(())
}

fn expire_by(ctx: &mut Ctx<'_>, args: Args<'_>, command: &'static str, unit: ExpireUnit) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        ctx.db.look::<Hash>(key)?;
        let deadline_ms = parse_deadline(args[2], unit, ctx.db.clock_ms(), command)?;
        let condition = Condition::parse(args[3]);
        let words = if condition == Condition::Always { &args[3..] } else { &args[4..] };
        let fields = parse_fields(words, errors::NUMFIELDS_POSITIVE, command)?;
        let (mut set, mut deleted) = (0, 0);
        let done = change(ctx, key, Missing::Skip, |edit, now_ms| {
            let mut answers = Vec::with_capacity(fields.len());
            for field in fields {
                let given = give(edit, field, deadline_ms, condition, now_ms)?;
                set += u64::from(given == Given::Set);
                deleted += u64::from(given == Given::Deleted);
                answers.push(given);
            }
            Ok(answers)
        })?;
        ctx.reply.array(fields.len());
        match done {
            Some(done) => {
                let event = if deleted > 0 { Event::HDel } else { Event::HExpire };
                let answers = done.settle(ctx, key, event, set + deleted);
                answers.iter().for_each(|given| ctx.reply.int(given.answer()));
            }
            None => fields.iter().for_each(|_| ctx.reply.int(NO_FIELD)),
        }
        Ok(())
    })
}

pub fn hexpire(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    expire_by(ctx, args, "hexpire", ExpireUnit::Seconds)
}

pub fn hpexpire(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    expire_by(ctx, args, "hpexpire", ExpireUnit::Milliseconds)
}

pub fn hexpireat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    expire_by(ctx, args, "hexpireat", ExpireUnit::UnixSeconds)
}

pub fn hpexpireat(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    expire_by(ctx, args, "hpexpireat", ExpireUnit::UnixMilliseconds)
}

/// What is told of a deadline, from it and the time of now, both in Unix milliseconds.
pub(super) type Show = fn(deadline_ms: u64, now_ms: u64) -> u64;

pub(super) const SECONDS_LEFT: Show = |deadline, now| (deadline - now).div_ceil(1000);
pub(super) const MILLISECONDS_LEFT: Show = |deadline, now| deadline - now;
pub(super) const UNIX_SECONDS: Show = |deadline, _| deadline.div_ceil(1000);
pub(super) const UNIX_MILLISECONDS: Show = |deadline, _| deadline;

/// What is told of a field.
pub(super) fn told(look: Option<Look<'_, Hash>>, field: &[u8], now_ms: u64, show: Show) -> i64 {
    match look.and_then(|look| look.field(field, now_ms)) {
        None => NO_FIELD,
        Some(field) if field.deadline_ms == 0 => NO_DEADLINE,
        Some(field) => show(field.deadline_ms, now_ms).cast_signed(),
    }
}

/// Takes the deadline of a field away: what is told of it.
pub(super) fn persist(edit: &mut Edit<'_, Hash>, field: &[u8], now_ms: u64) -> Result<i64, AllocError> {
    Ok(match edit.look().field(field, now_ms).map(|field| field.deadline_ms) {
        None => NO_FIELD,
        Some(0) => NO_DEADLINE,
        Some(_) => {
            edit.set_deadline(field, 0, now_ms)?;
            1
        }
    })
}

fn tell(ctx: &mut Ctx<'_>, args: Args<'_>, command: &str, show: Show) -> Outcome {
    let (key, now_ms) = (ctx.first_key(args[1]), ctx.db.now_ms());
    ctx.attempt(|ctx| {
        let look = ctx.db.read::<Hash>(key)?;
        let fields = parse_fields(&args[2..], errors::NUMFIELDS_NOT_POSITIVE, command)?;
        ctx.reply.array(fields.len());
        for field in fields {
            ctx.reply.int(told(look, field, now_ms, show));
        }
        Ok(())
    })
}

pub fn httl(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    tell(ctx, args, "httl", SECONDS_LEFT)
}

pub fn hpttl(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    tell(ctx, args, "hpttl", MILLISECONDS_LEFT)
}

pub fn hexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    tell(ctx, args, "hexpiretime", UNIX_SECONDS)
}

pub fn hpexpiretime(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    tell(ctx, args, "hpexpiretime", UNIX_MILLISECONDS)
}

/// `HPERSIST key FIELDS numfields field [field ...]`
pub fn hpersist(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        ctx.db.look::<Hash>(key)?;
        let fields = parse_fields(&args[2..], errors::NUMFIELDS_NOT_POSITIVE, "hpersist")?;
        let mut persisted = 0;
        let done = change(ctx, key, Missing::Skip, |edit, now_ms| {
            let mut answers = Vec::with_capacity(fields.len());
            for field in fields {
                answers.push(persist(edit, field, now_ms)?);
            }
            persisted = answers.iter().filter(|answer| **answer == 1).count();
            Ok(answers)
        })?;
        ctx.reply.array(fields.len());
        match done {
            Some(done) => {
                let answers = done.settle(ctx, key, Event::HPersist, u64::from(persisted > 0));
                answers.iter().for_each(|answer| ctx.reply.int(*answer));
            }
            None => fields.iter().for_each(|_| ctx.reply.int(NO_FIELD)),
        }
        Ok(())
    })
}
