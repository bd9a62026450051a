//! What concerns the connection and the server: logging in, `version`, `verbosity`, `quit`, `shutdown`, `flush_all`.

use super::super::acl::log_in;
use super::super::ctx::{Args, Ctx, Flush, Outcome};
use super::super::fleet::{Local, everywhere};
use super::{COMPATIBLE_VERSION, fail, say};
use crate::proto::memcache::number;

const OK: &[u8] = b"OK\r\n";

/// `set <any> <any> <any> <length>` and `user password` as its value: logs in, where a password is needed.
pub fn auth(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.stats.memcache.auth_commands += 1;
    let mut words = args[4].split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (Some(user), Some(password)) = (words.next(), words.next()) else {
        return fail(ctx, b"CLIENT_ERROR bad authentication token format");
    };
    if log_in(ctx, b"auth", user, password).is_err() {
        ctx.stats.memcache.auth_errors += 1;
        return fail(ctx, b"CLIENT_ERROR authentication failure");
    }
    say(ctx, b"", b"STORED\r\n")
}

pub fn unauthenticated(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    ctx.stats.commands = ctx.stats.commands.saturating_sub(1);
    ctx.stats.rejected_commands += 1;
    fail(ctx, b"CLIENT_ERROR unauthenticated")
}

pub fn version(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    ctx.out().extend(b"VERSION ");
    ctx.out().extend(COMPATIBLE_VERSION.as_bytes());
    ctx.out().extend(b"\r\n");
    Outcome::Done
}

/// `verbosity <level>`: accepted; what is logged is the business of `loglevel`.
pub fn verbosity(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match number::flags(args[1]) {
        Some(_) => say(ctx, args[2], OK),
        None if args[2].is_empty() => fail(ctx, b"CLIENT_ERROR bad command line format"),
        None => Outcome::Done,
    }
}

pub fn quit(_ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    Outcome::Close
}

/// `shutdown [graceful]`, where the configuration allows it.
pub fn shutdown(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    if !ctx.config.memcached_shutdown {
        return fail(ctx, b"ERROR: shutdown not enabled");
    }
    match args {
        [_] | [_, b"graceful"] => {
            log::warn!("User requested shutdown...");
            ctx.asks.shutdown = Some(false);
            Outcome::Close
        }
        _ => fail(ctx, b"CLIENT_ERROR invalid shutdown mode"),
    }
}

/// Forgets all values of the database, or has them forgotten later. `finish` answers when every worker knows.
pub(super) fn flush(ctx: &mut Ctx<'_>, delay_s: i64, finish: impl FnOnce(&mut Ctx<'_>) + 'static) -> Outcome {
    ctx.stats.memcache.flush_commands += 1;
    let now_ms = ctx.db.now_ms();
    let database = ctx.db.index();
    let later = match super::Due::of(delay_s, now_ms) {
        super::Due::At(at_ms) => Some(Flush { at_ms, database }),
        super::Due::Never | super::Due::Past => None,
    };
    if later.is_none() {
        let removed = ctx.db.flush();
        ctx.change(removed as u64);
    }
    // One takes the place of the one before, on all workers.
    everywhere(ctx, move |local: &mut Local<'_>| local.asks.flush = later, move |ctx, _| finish(ctx))
}

/// `flush_all [delay] [noreply]`
pub fn flush_all(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let quiet = !args[2].is_empty();
    if !ctx.config.memcached_flush_all {
        return if quiet { Outcome::Done } else { fail(ctx, b"CLIENT_ERROR flush_all not allowed") };
    }
    let delay = if args[1].is_empty() { Some(0) } else { number::signed(args[1]) };
    let Some(delay_s) = delay else {
        return if quiet { Outcome::Done } else { fail(ctx, b"CLIENT_ERROR invalid exptime argument") };
    };
    flush(ctx, delay_s, move |ctx| {
        if !quiet {
            ctx.out().extend(OK);
        }
    })
}
