//! Commands about the server: COMMAND, TIME, SHUTDOWN, and what containers share.

use super::ctx::{Args, Ctx, Exec, Outcome};
use super::introspect::{self, Sink};
use super::spec::Commands;
use crate::base::glob::glob_matches;
use crate::proto::errors;
use crate::proto::reply::Reply;
use std::time::Duration;

/// The version of Redis whose behaviour and replies this server follows; clients decide by it what they may use (redis-py: caching, from 7.4 on).
pub const COMPATIBLE_VERSION: &str = "7.4.0";
/// Longest DEBUG SLEEP.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 3600);

impl Sink for Reply<'_> {
    fn array(&mut self, len: usize) {
        Reply::array(self, len);
    }
    fn set(&mut self, len: usize) {
        Reply::set(self, len);
    }
    fn map(&mut self, pairs: usize) {
        Reply::map(self, pairs);
    }
    fn simple(&mut self, text: &str) {
        Reply::simple(self, text);
    }
    fn bulk(&mut self, bytes: &[u8]) {
        Reply::bulk(self, bytes);
    }
    fn int(&mut self, value: i64) {
        Reply::int(self, value);
    }
    fn null(&mut self) {
        Reply::null(self);
    }
    fn error(&mut self, text: &str) {
        Reply::error(self, text);
    }
}

/// A container called with something that is none of its subcommands.
pub fn unknown_subcommand(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let container = ctx.commands.find(args[0]).map_or("", |row| row.name);
    ctx.fail(errors::unknown_subcommand(container, args[1]))
}

/// HELP of any container, made from its rows.
pub fn help(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    if let Some(container) = ctx.commands.find(args[0]) {
        introspect::help(container, &mut ctx.reply);
    }
    Outcome::Done
}

fn commands(ctx: &mut Ctx<'_>, answer: impl FnOnce(&Commands<Exec>, &mut Reply<'_>)) -> Outcome {
    answer(ctx.commands, &mut ctx.reply);
    Outcome::Done
}

/// COMMAND without a subcommand.
pub fn command(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    if args.len() > 1 {
        return unknown_subcommand(ctx, args);
    }
    commands(ctx, |table, reply| introspect::all(table, reply))
}

pub fn command_count(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    commands(ctx, |table, reply| introspect::count(table, reply))
}

pub fn command_info(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    commands(ctx, |table, reply| introspect::info(table, &args[2..], reply))
}

pub fn command_docs(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    commands(ctx, |table, reply| introspect::docs(table, &args[2..], reply))
}

pub fn command_list(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    commands(ctx, |table, reply| {
        introspect::list(table, &args[2..], |pattern, name| glob_matches(pattern, name, true), reply);
    })
}

pub fn command_getkeys(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    commands(ctx, |table, reply| introspect::get_keys(table, &args[2..], reply))
}

pub fn command_getkeysandflags(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    commands(ctx, |table, reply| introspect::get_keys_and_flags(table, &args[2..], reply))
}

/// TIME: seconds and microseconds of the wall clock, exact rather than the turn's.
pub fn time(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    ctx.reply.array(2);
    ctx.reply.bulk(now.as_secs().to_string().as_bytes());
    ctx.reply.bulk(now.subsec_micros().to_string().as_bytes());
    Outcome::Done
}

/// `DEBUG SLEEP seconds`
pub fn sleep(ctx: &mut Ctx<'_>, seconds: &[u8]) -> Outcome {
    // As strtod does in Redis, what is no number counts as 0.
    let seconds = std::str::from_utf8(seconds).ok().and_then(|s| s.parse::<f64>().ok()).unwrap_or(0.0);
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).map_or(SLEEP_MAX, |t| t.min(SLEEP_MAX));
    // The server stands still, not this worker only.
    ctx.fleet.tell_others(|| {
        Box::new(move |local, _| {
            local.asks.sleep = Some(local.asks.sleep.unwrap_or_default() + time);
            true
        })
    });
    ctx.asks.sleep = Some(ctx.asks.sleep.unwrap_or_default() + time);
    ctx.suspend(Box::new(Awake { since: ctx.profile.ticker.now(), ticks: 0 }))
}

/// The reply to DEBUG SLEEP, which comes when the server wakes.
struct Awake {
    since: u64,
    /// That the server slept.
    ticks: u64,
}

impl super::ctx::Task for Awake {
    fn step(&mut self, ctx: &mut Ctx<'_>, _budget: &mut super::ctx::Budget) -> bool {
        if ctx.asks.sleep.is_some() {
            return false;
        }
        self.ticks = ctx.profile.ticker.now().saturating_sub(self.since);
        ctx.out().ok();
        true
    }

    fn bytes(&self) -> usize {
        0
    }

    fn ticks_besides(&self) -> u64 {
        self.ticks
    }

    fn has_taken_effect(&self) -> bool {
        true
    }
}
