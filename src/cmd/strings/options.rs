//! The options that SET, GETEX and MSETEX share: conditions and deadlines.

use super::super::ctx::{Ctx, Failure};
use super::super::options::{ExpireUnit, deadline_from, parse_int};
use crate::db::view::Deadline;
use crate::proto::errors;

/// Whose options they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Set,
    GetEx,
    MSetEx,
}

/// On what is at the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Condition<'a> {
    Always,
    IfAbsent,
    IfPresent,
    /// Against its value.
    Match(Match<'a>),
}

/// A comparison with the value at a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Match<'a> {
    /// The operand is a digest, as DIGEST tells it.
    pub by_digest: bool,
    /// It must be another.
    pub negated: bool,
    pub operand: &'a [u8],
}

impl<'a> Match<'a> {
    /// IFEQ, IFNE, IFDEQ, IFDNE in any case.
    pub fn named(word: &[u8], operand: &'a [u8]) -> Option<Match<'a>> {
        let names =
            [(&b"ifeq"[..], false, false), (b"ifne", false, true), (b"ifdeq", true, false), (b"ifdne", true, true)];
        let (_, by_digest, negated) = names.into_iter().find(|(name, ..)| word.eq_ignore_ascii_case(name))?;
        Some(Match { by_digest, negated, operand })
    }
}

pub(super) struct Options<'a> {
    pub condition: Condition<'a>,
    /// The reply is the old value.
    pub get: bool,
    /// The deadline is taken away.
    pub persist: bool,
    keep: bool,
    time: Option<(ExpireUnit, &'a [u8])>,
}

impl<'a> Options<'a> {
    /// Parses the words behind the other arguments. Each may come again, the last one counts; those that exclude each other may not.
    ///
    /// # Errors
    /// A syntax error.
    pub fn parse(words: &[&'a [u8]], command: Command) -> Result<Options<'a>, Failure> {
        let mut options = Options { condition: Condition::Always, get: false, persist: false, keep: false, time: None };
        let mut rest = words.iter();
        let is_set = command == Command::Set;
        let writes = command != Command::GetEx;
        while let Some(&word) = rest.next() {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            if is(b"nx") && writes && matches!(options.condition, Condition::Always | Condition::IfAbsent) {
                options.condition = Condition::IfAbsent;
            } else if is(b"xx") && writes && matches!(options.condition, Condition::Always | Condition::IfPresent) {
                options.condition = Condition::IfPresent;
            } else if is(b"get") && is_set {
                options.get = true;
            } else if is(b"keepttl") && writes && options.time.is_none() {
                options.keep = true;
            } else if is(b"persist") && !writes && options.time.is_none() {
                options.persist = true;
            } else if let Some(unit) = unit(word).filter(|_| !options.keep && !options.persist) {
                if options.time.is_some_and(|(other, _)| other != unit) {
                    return Err(errors::SYNTAX.into());
                }
                options.time = Some((unit, rest.next().ok_or(errors::SYNTAX)?));
            } else if let Some(new) = Match::named(word, b"").filter(|_| is_set) {
                let new = Match { operand: rest.next().ok_or(errors::SYNTAX)?, ..new };
                match options.condition {
                    Condition::Always => {}
                    Condition::Match(old) if (old.by_digest, old.negated) == (new.by_digest, new.negated) => {}
                    _ => return Err(errors::SYNTAX.into()),
                }
                options.condition = Condition::Match(new);
            } else {
                return Err(errors::SYNTAX.into());
            }
        }
        Ok(options)
    }

    /// Does the deadline tell a time since 1970?
    pub fn is_absolute(&self) -> bool {
        matches!(self.time, Some((ExpireUnit::UnixSeconds | ExpireUnit::UnixMilliseconds, _)))
    }

    /// What becomes of the deadline; `command` for the error's text.
    ///
    /// # Errors
    /// A time that is no number, not positive, or out of range.
    pub fn deadline(&self, ctx: &Ctx<'_>, command: &str) -> Result<Deadline, Failure> {
        match self.time {
            Some((unit, number)) => Ok(Deadline::At(positive_deadline(ctx, command, unit, number)?)),
            None if self.keep => Ok(Deadline::Keep),
            None => Ok(Deadline::None),
        }
    }
}

fn unit(word: &[u8]) -> Option<ExpireUnit> {
    let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
    match word.len() {
        2 if is(b"ex") => Some(ExpireUnit::Seconds),
        2 if is(b"px") => Some(ExpireUnit::Milliseconds),
        4 if is(b"exat") => Some(ExpireUnit::UnixSeconds),
        4 if is(b"pxat") => Some(ExpireUnit::UnixMilliseconds),
        _ => None,
    }
}

/// A deadline given with a value: must lie in the representable future of the epoch.
pub(super) fn positive_deadline(ctx: &Ctx<'_>, command: &str, unit: ExpireUnit, number: &[u8]) -> Result<u64, Failure> {
    let number = parse_int(number)?;
    if number <= 0 {
        return Err(errors::invalid_expire_time(command).into());
    }
    let deadline_ms =
        deadline_from(ctx.db.clock_ms(), unit, number).ok_or_else(|| errors::invalid_expire_time(command))?;
    Ok(u64::try_from(deadline_ms).unwrap_or(0))
}
