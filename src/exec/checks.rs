//! What is asked before a command runs: may it, must it wait, is there room, and the locks it needs.

use super::pipeline::{Waits, reject};
use crate::cmd::acl::allow;
use crate::cmd::client::gate;
use crate::cmd::control::reason;
use crate::cmd::ctx::{Args, Ctx, Exec};
use crate::cmd::memcache;
use crate::cmd::monitor::show;
use crate::cmd::room::Made;
use crate::cmd::spec::{Command, Flags, KeyFlags, Located, Locking, SHORT};
use crate::proto::errors;

/// Reasons to look twice, beside those of `client::gate`, of `control::reason`, and [`SHORT`].
pub(super) const HOLDS: u16 = 1 << 15;
pub(super) const WATCHED: u16 = 1 << 10;

pub(super) enum Verdict {
    Run,
    Refused,
    /// It is to be queued until EXEC.
    Queue,
    /// It is EXEC: what was queued is to run.
    Execute,
    Wait(Waits),
    Close,
}

#[cold]
#[inline(never)]
pub(super) fn look_twice(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>, reasons: u16) -> Verdict {
    if reasons & gate::KILLED != 0 {
        return Verdict::Close;
    }
    if reasons & gate::UNAUTHENTICATED != 0 && !row.flags.contains(Flags::NO_AUTH) {
        reject(ctx, Some(row), errors::NOAUTH);
        return Verdict::Refused;
    }
    let queues = reasons & gate::MULTI != 0;
    if queues && row.flags.contains(Flags::NO_MULTI) {
        reject(ctx, Some(row), errors::NOT_IN_MULTI);
        return Verdict::Refused;
    }
    // What a client of memcached may do was decided by its session.
    if reasons & gate::RESTRICTED != 0
        && !ctx.client().is_memcache()
        && let Err(refusal) = allow(ctx, row, args)
    {
        reject(ctx, Some(row), refusal.text());
        return Verdict::Refused;
    }
    if let Some(why) = ctx.pause.refuses(row.flags) {
        return deny(ctx, row, args, why);
    }
    if reasons & gate::LISTENS != 0 && !row.flags.contains(Flags::SUBSCRIBED) {
        reject(ctx, Some(row), errors::not_while_subscribed(row.name));
        return Verdict::Refused;
    }
    if reasons & reason::PAUSE != 0 && ctx.pause.stops(row.flags) {
        return Verdict::Wait(Waits::Pause);
    }
    let mut reasons = reasons;
    if reasons & SHORT != 0 && needs_memory(ctx, row, queues) {
        ctx.db.lock_none();
        match ctx.room.make(&mut ctx.db, ctx.clock) {
            Made::Enough => {}
            Made::Working => return Verdict::Wait(Waits::Memory),
            Made::Nothing => {
                return deny(ctx, row, args, errors::OOM);
            }
        }
        if ctx.db.is_shared() {
            let hash = ctx.hash;
            lock(ctx, row, args, hash);
            if ctx.db.is_holding() {
                reasons |= HOLDS;
            }
        }
    }
    if queues && row.flags.contains(Flags::RUNS_QUEUE) {
        return Verdict::Execute;
    }
    if queues && !row.flags.contains(Flags::NOT_QUEUED) {
        // It counts when it runs.
        ctx.stats.commands = ctx.stats.commands.saturating_sub(1);
        return Verdict::Queue;
    }
    if reasons & HOLDS != 0 && must_wait(ctx, row, args) {
        return Verdict::Wait(Waits::Name);
    }
    ctx.db.set_untouching(reasons & gate::NO_TOUCH != 0);
    if reasons & gate::TRACKS != 0 {
        ctx.track(row, keys_of(row, args));
    }
    if reasons & WATCHED != 0 {
        show(ctx, row, args);
    }
    Verdict::Run
}

/// Refuses a command for what the server is like at the moment, in the client's protocol.
fn deny(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>, why: &'static str) -> Verdict {
    if ctx.client().is_memcache() {
        memcache::not_run(ctx, args, why);
    } else {
        reject(ctx, Some(row), why);
    }
    Verdict::Refused
}

/// May a command need memory? With MULTI also what is queued for EXEC, so that the queue does not grow; EXEC, if one of its commands does.
fn needs_memory(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, queues: bool) -> bool {
    if queues && row.flags.contains(Flags::RUNS_QUEUE) {
        return ctx.client().transaction().is_some_and(|transaction| transaction.flags().contains(Flags::DENYOOM));
    }
    row.flags.contains(Flags::DENYOOM) || queues && !row.flags.contains(Flags::NOT_QUEUED)
}

/// Does a command name a key that a sliced command of another client holds?
pub(super) fn must_wait(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>) -> bool {
    let writes = row.flags.contains(Flags::WRITE);
    if row.locking == Locking::None || row.locking == Locking::All {
        let touches = writes || row.flags.contains(Flags::READONLY);
        return touches && ctx.db.is_anything_held(writes);
    }
    keys_of(row, args).any(|key| {
        let hash = ctx.key(key).hash;
        ctx.db.is_held(hash, writes)
    })
}

/// The keys that the arguments of a command name.
pub(super) fn keys_of<'k>(row: &'static Command<Exec>, args: Args<'k>) -> impl Iterator<Item = &'k [u8]> {
    let positions = |spec: &crate::cmd::spec::KeySpec| match spec.locate(args) {
        Located::At { first, last, step } => (first..last + 1).step_by(step),
        // It names no key here, or is refused for its form.
        Located::Absent | Located::Invalid => (0..0).step_by(1),
    };
    let keys = row.key_specs.iter().filter(|spec| !spec.flags.contains(KeyFlags::NOT_KEY));
    keys.flat_map(positions).map(|at| args[at])
}

/// Answers a request that cannot run: no such command, or not this number of arguments. As in Redis that comes before NOAUTH.
#[cold]
#[inline(never)]
pub(super) fn refuse(ctx: &mut Ctx<'_>, row: Option<&'static Command<Exec>>, args: Args<'_>) {
    let why = match row {
        None => match ctx.commands.find(args[0]) {
            Some(container) => errors::unknown_subcommand(container.name, args[1]),
            None => errors::unknown_command(args),
        },
        Some(row) => errors::wrong_number_of_arguments(row.name).into_bytes(),
    };
    reject(ctx, row, why);
}

/// Locks the shards that a command needs as a whole.
#[inline(always)]
pub(super) fn lock(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>, hash: u64) {
    match row.locking {
        Locking::One => ctx.db.lock_key(hash),
        _ => lock_otherwise(ctx, row, args),
    }
}

#[inline(never)]
fn lock_otherwise(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>) {
    match row.locking {
        Locking::None => ctx.db.lock_none(),
        Locking::All => ctx.db.lock_all(),
        Locking::One | Locking::Many => ctx.db.lock_keys(keys_of(row, args)),
    }
}
