//! The verbs of memcached, over the same keys as the commands of Redis: a family of their own, with rows of their own (`rows`), which the
//! pipeline runs as it runs all others.
//!
//! A value is a string of the database `memcached-database`. What is no string cannot be seen: it reads as a miss, is not added to, and is
//! overwritten by `set`. Texts and numbers of replies are those of memcached 1.6.
mod arithmetic;
mod binary;
mod concat;
mod connection;
mod get;
mod meta;
mod rows;
mod stats;
mod store;
mod text;

pub use rows::{AUTH, UNAUTHENTICATED, row};
pub use stats::Counters;

use super::ctx::{Args, Ctx, Outcome};
use super::event::Event;
use crate::db::view::Deadline;
use crate::db::{DbError, Key};
use crate::proto::errors;

/// The version of memcached whose behaviour this is; clients decide by it what they may use.
pub const COMPATIBLE_VERSION: &str = "1.6.18";

pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object";
const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache";
const NOT_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value";

/// A time up to which a value is relative, in seconds: 30 days.
const RELATIVE_MAX_S: i64 = 30 * 24 * 3600;

/// When a value goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    Never,
    /// Unix milliseconds.
    At(u64),
    /// At once.
    Past,
}

impl Due {
    /// Of a time as clients give it: 0 is never, what is negative has passed, up to 30 days it is from now on, else a Unix time.
    #[inline]
    fn of(seconds: i64, now_ms: u64) -> Due {
        match seconds {
            0 => Due::Never,
            ..0 => Due::Past,
            1..=RELATIVE_MAX_S => Due::At(now_ms + seconds.unsigned_abs() * 1000),
            _ => {
                let at = seconds.unsigned_abs().saturating_mul(1000).min(crate::db::item::DEADLINE_MAX_MS);
                if at <= now_ms { Due::Past } else { Due::At(at) }
            }
        }
    }

    fn deadline(self) -> Deadline {
        match self {
            Due::At(at) => Deadline::At(at),
            Due::Never | Due::Past => Deadline::None,
        }
    }
}

/// Seconds that are left of a time to live, to the nearest, as TTL tells them; `None`: it has no end.
fn seconds_left(deadline_ms: Option<u64>, now_ms: u64) -> Option<u64> {
    Some(deadline_ms?.saturating_sub(now_ms).saturating_add(500) / 1000)
}

/// Writes a line, if a reply is wanted.
#[inline]
fn say(ctx: &mut Ctx<'_>, noreply: &[u8], line: &[u8]) -> Outcome {
    if noreply.is_empty() {
        ctx.out().extend(line);
    }
    Outcome::Done
}

/// Writes an error.
#[cold]
#[inline(never)]
fn fail(ctx: &mut Ctx<'_>, text: &[u8]) -> Outcome {
    ctx.stats.error_replies += 1;
    ctx.out().extend(text);
    ctx.out().extend(b"\r\n");
    Outcome::Done
}

/// Answers a request that is not run, for a reason that Redis's protocol would tell as `why`: there is no memory, or the server does not take it now.
#[cold]
pub fn not_run(ctx: &mut Ctx<'_>, args: Args<'_>, why: &str) {
    ctx.stats.commands = ctx.stats.commands.saturating_sub(1);
    ctx.stats.rejected_commands += 1;
    let no_memory = why == errors::OOM;
    ctx.stats.memcache.store_no_memory += u64::from(no_memory);
    if args[0].first() == Some(&crate::proto::memcache::binary::MAGIC) {
        // Of its errors the one that says to come again later is this one, too.
        binary::refuse(ctx, args[0], DbError::OutOfMemory);
    } else if args.last() != Some(&&b"noreply"[..]) {
        let text = if no_memory { OUT_OF_MEMORY.to_vec() } else { format!("SERVER_ERROR {why}").into_bytes() };
        fail(ctx, &text);
    }
}

/// Refuses a request of which `head` came in front of a value that is of no use: by a text, or in the binary protocol by its error.
pub fn refuse_value(ctx: &mut Ctx<'_>, head: &[u8], text: &[u8], error: DbError) {
    ctx.stats.memcache.store_no_memory += u64::from(text == OUT_OF_MEMORY);
    if head.first() == Some(&crate::proto::memcache::binary::MAGIC) {
        binary::refuse(ctx, head, error);
    } else {
        fail(ctx, text);
    }
}

/// The text of what went wrong in the keyspace.
fn text_of(error: DbError) -> &'static [u8] {
    match error {
        DbError::OutOfMemory => OUT_OF_MEMORY,
        DbError::TooLong => TOO_LARGE,
        DbError::WrongType | DbError::NotAnInteger | DbError::Overflow => NOT_NUMERIC,
    }
}

/// Takes a key away, whatever it holds. False: it was not there.
fn remove(ctx: &mut Ctx<'_>, key: Key<'_>) -> bool {
    let removed = ctx.db.remove(key);
    if removed {
        ctx.report(key, Event::Del);
    }
    removed
}

/// Gives the string at a key another time to live. It is there.
fn touch(ctx: &mut Ctx<'_>, key: Key<'_>, due: Due) -> Result<(), DbError> {
    match due {
        Due::Past => {
            remove(ctx, key);
        }
        Due::At(at) => {
            ctx.db.set_deadline(key, Some(at))?;
            ctx.report(key, Event::Expire);
        }
        Due::Never if ctx.db.deadline_for_write(key) != Some(None) => {
            ctx.db.set_deadline(key, None)?;
            ctx.report(key, Event::Persist);
        }
        Due::Never => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        const NOW_MS: u64 = 1_800_000_000_123;
        for (seconds, due) in [
            (0, Due::Never),
            (-1, Due::Past),
            (i64::MIN, Due::Past),
            (1, Due::At(NOW_MS + 1000)),
            (RELATIVE_MAX_S, Due::At(NOW_MS + 2_592_000_000)),
            (RELATIVE_MAX_S + 1, Due::Past),
            (1_800_000_000, Due::Past),
            (1_800_000_001, Due::At(1_800_000_001_000)),
            (i64::MAX, Due::At(crate::db::item::DEADLINE_MAX_MS)),
        ] {
            assert_eq!(Due::of(seconds, NOW_MS), due, "{seconds}");
        }
        assert_eq!(seconds_left(Some(NOW_MS + 499), NOW_MS), Some(0));
        assert_eq!(seconds_left(Some(NOW_MS + 501), NOW_MS), Some(1));
        assert_eq!(seconds_left(Some(NOW_MS + 1000), NOW_MS), Some(1));
        assert_eq!(seconds_left(None, NOW_MS), None);
    }
}
