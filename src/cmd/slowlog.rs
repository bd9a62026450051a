//! SLOWLOG: which commands took long. The log is shared by all workers; only what is slow takes its lock.

use super::ctx::{Args, Ctx, Exec, Outcome};
use super::options::parse_int;
use super::spec::{Command, Flags};
use crate::proto::errors;
use std::collections::VecDeque;
use std::time::Duration;

/// So many arguments of a command are kept, and so much of each.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;
/// What stands in the place of a password.
pub const REDACTED: &[u8] = b"(redacted)";

#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    at_s: u64,
    micros: u64,
    args: Vec<Vec<u8>>,
    address: String,
    name: Vec<u8>,
}

/// The latest first.
#[derive(Default, Debug)]
pub struct SlowLog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl SlowLog {
    #[expect(clippy::len_without_is_empty, reason = "nobody asks that")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn add(&mut self, mut entry: Entry, len_max: usize) {
        entry.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(entry);
        self.entries.truncate(len_max);
    }
}

/// The arguments as the log keeps them: not all of them, not all of each, and no passwords.
#[must_use]
pub fn kept(row: &Command<Exec>, args: Args<'_>) -> Vec<Vec<u8>> {
    let secrets = row.run.secrets.map_or(Vec::new(), |secrets| secrets(args));
    let whole = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let keep = |(at, arg): (usize, &&[u8])| {
        if secrets.contains(&at) {
            REDACTED.to_vec()
        } else if arg.len() > ARG_BYTES_MAX {
            let more = format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX);
            [&arg[..ARG_BYTES_MAX], more.as_bytes()].concat()
        } else {
            arg.to_vec()
        }
    };
    let mut kept: Vec<Vec<u8>> = args[..whole].iter().enumerate().map(keep).collect();
    if whole < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - whole).into_bytes());
    }
    kept
}

/// A command took so many ticks, which may be long: notes it where it belongs.
#[cold]
#[inline(never)]
pub fn note(ctx: &mut Ctx<'_>, row: &Command<Exec>, kept: impl FnOnce() -> Vec<Vec<u8>>, ticks: u64) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "not negative; 15 digits are kept"
    )]
    let micros = (ticks as f64 * ctx.profile.ticker.ns_per_tick() / 1000.0) as u64;
    let is_slow = u64::try_from(ctx.config.slowlog_slower_us).is_ok_and(|limit| micros >= limit);
    if is_slow && !row.flags.contains(Flags::SKIP_SLOWLOG) && ctx.me != super::ctx::NOBODY {
        let client = ctx.clients.get(ctx.me);
        let entry = Entry {
            id: 0,
            at_s: ctx.db.now_ms() / 1000,
            micros,
            args: kept(),
            address: client.remote(),
            name: client.name().to_vec(),
        };
        ctx.fleet.journal().slow().add(entry, ctx.config.slowlog_len_max as usize);
    }
    let event = if row.flags.contains(Flags::FAST) { "fast-command" } else { "command" };
    super::latency::note(ctx, event, Duration::from_micros(micros));
}

/// `SLOWLOG GET [count]`
pub fn get(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    const COUNT: usize = 10;
    let count = match args {
        [_, _] => COUNT,
        [_, _, count] => match parse_int(count) {
            Ok(-1) => usize::MAX,
            Ok(count) => match usize::try_from(count) {
                Ok(count) => count,
                Err(_) => return ctx.fail(errors::SLOWLOG_COUNT),
            },
            Err(_) => return ctx.fail(errors::SLOWLOG_COUNT),
        },
        _ => return ctx.fail(errors::subcommand_syntax("slowlog", args[1])),
    };
    let entries: Vec<Entry> = ctx.fleet.journal().slow().entries.iter().take(count).cloned().collect();
    let reply = &mut ctx.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        for number in [entry.id, entry.at_s, entry.micros] {
            reply.int(number.cast_signed());
        }
        reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| reply.bulk(arg));
        reply.bulk(entry.address.as_bytes());
        reply.bulk(&entry.name);
    }
    Outcome::Done
}

pub fn len(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let len = ctx.fleet.journal().slow().len();
    ctx.reply.count(len);
    Outcome::Done
}

pub fn reset(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    ctx.fleet.journal().slow().entries.clear();
    ctx.out().ok();
    Outcome::Done
}

// ---- which arguments are passwords ----

/// All of them, behind the name.
#[must_use]
pub fn all_secret(args: Args<'_>) -> Vec<usize> {
    (1..args.len()).collect()
}

/// All of them, behind the subcommand.
#[must_use]
pub fn rest_secret(args: Args<'_>) -> Vec<usize> {
    (2..args.len()).collect()
}

/// HELLO: the two behind AUTH.
#[must_use]
pub fn login_secret(args: Args<'_>) -> Vec<usize> {
    let at = args.iter().position(|arg| arg.eq_ignore_ascii_case(b"auth"));
    at.map_or(Vec::new(), |at| (at + 1..args.len().min(at + 3)).collect())
}

/// CONFIG SET: the values of settings that are passwords.
#[must_use]
pub fn setting_secret(args: Args<'_>) -> Vec<usize> {
    let names = [b"requirepass".as_slice(), b"masterauth", b"masteruser"];
    let is_secret = |at: &usize| names.iter().any(|name| args[at - 1].eq_ignore_ascii_case(name));
    (3..args.len()).step_by(2).filter(is_secret).collect()
}
