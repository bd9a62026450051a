//! SET with options: `SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET]
//! [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`. IFEQ is Valkey's and Redis's, the others of its kind are Redis's.

use super::super::ctx::{Args, Ctx, Failure, Outcome};
use super::super::event::Event;
use super::compare::{Then, Verdict, judge};
use super::options::{Command, Condition, Options};
use super::{reply_value, store_and_return};
use crate::db::Key;
use crate::db::view::Deadline;

#[inline(never)]
pub(super) fn with_options(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match run(ctx, args) {
        Ok(outcome) => outcome,
        Err(failure) => ctx.fail(failure),
    }
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Outcome, Failure> {
    let key = ctx.first_key(args[1]);
    let options = Options::parse(&args[3..], Command::Set)?;
    let deadline = options.deadline(ctx, "set")?;
    let present = ctx.db.string_for_write(key);
    let checks_type = options.get || matches!(options.condition, Condition::Match(_));
    let present = if checks_type { present?.is_some() } else { !matches!(present, Ok(None)) };
    let allowed = match options.condition {
        Condition::Always => true,
        Condition::IfAbsent => !present,
        Condition::IfPresent => present,
        Condition::Match(condition) if !present => condition.negated,
        Condition::Match(condition) => match judge(ctx, key, condition)? {
            Verdict::Holds(holds) => holds,
            Verdict::Long(test) => {
                let value = ctx.take_value(args[2]);
                return Ok(test.suspend(ctx, key, Then::set(value, deadline, options.get)));
            }
        },
    };
    if allowed {
        store(ctx, key, args[2], deadline, options.get)?;
    } else if options.get {
        reply_value(ctx, key)?;
    } else {
        ctx.reply.null();
    }
    Ok(Outcome::Done)
}

/// Writes the value (or the one that was received in place) and the reply.
pub(super) fn store(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    value: &[u8],
    deadline: Deadline,
    get: bool,
) -> Result<(), Failure> {
    if get {
        store_and_return(ctx, key, value, deadline)?;
    } else {
        let value = ctx.take_value(value);
        ctx.db.set_string(key, value, deadline)?;
        ctx.out().ok();
    }
    ctx.report(key, Event::Set);
    if matches!(deadline, Deadline::At(_)) {
        ctx.also(key, Event::Expire);
    }
    Ok(())
}
