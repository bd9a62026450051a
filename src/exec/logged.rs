//! Requests that are alike, while changes are logged: what came is what is logged, in one piece for all of them.
//!
//! ```text
//!   window  ... | *3 $3 SET $1 a $1 x | *3 $3 SET $1 b $1 y | *3 $3 SET $1 c $1 z | ...
//!                ╰────────────────── one entry, one copy ────────────────────────╯
//! ```
//! Only of commands whose row says so (`Exec::plain`), which have changed something and concern nobody else, and whose bytes are those that
//! the log would have written itself. With several workers each is an entry of its own, as its position is taken under its lock.

use super::batch::Batch;
use super::checks::lock;
use super::pipeline::KEYS;
use crate::base::int;
use crate::cmd::alike::Request;
use crate::cmd::ctx::{AWAITED, Args, Ctx, Exec, FAILED, Outcome};
use crate::cmd::spec::Command;
use crate::db::Access;
use std::ops::Range;

/// Bytes of `*3\r\n`, and with `$3\r\n` behind it, in front of the name of a command.
const COUNT_BYTES: usize = 4;
const NAME_AT: usize = 8;

/// How long such a request is if it has no needless digits.
fn plain_bytes(args: Args<'_>) -> usize {
    COUNT_BYTES + args.iter().map(|arg| 5 + int::digits(arg.len() as u64) + arg.len()).sum::<usize>()
}

/// The same of a request that follows one that is as it came, with as many arguments: it begins where that ends.
fn follows_as_it_came(window: &[u8], before: &Range<usize>, args: Args<'_>, end: usize) -> bool {
    let head = |at: usize| window.get(at..)?.first_chunk::<NAME_AT>();
    head(before.start).is_some_and(|first| head(before.end) == Some(first)) && before.end + plain_bytes(args) == end
}

/// The bytes of a request in its window, if they are what the log writes: its headers have no needless digits, and it is not an inline one.
fn as_it_came(window: &[u8], args: Args<'_>, end: usize) -> Option<Range<usize>> {
    let name = *args.first()?;
    let start = name.as_ptr().addr().checked_sub(window.as_ptr().addr() + NAME_AT)?;
    let bytes = window.get(start..end)?;
    let mark = [b'*', b'0'.wrapping_add(u8::try_from(args.len()).ok()?), b'\r', b'\n', b'$'];
    let behind = NAME_AT + name.len();
    // There is a `*` only where a request begins. The end of a line behind the name: all on one line would be an inline request. Nothing that
    // means the same is shorter; so of this length there is one text.
    let is_plain = args.len() < 10
        && name.len() < 10
        && bytes.starts_with(&mark)
        && bytes.get(behind..behind + 2) == Some(b"\r\n")
        && bytes.len() == plain_bytes(args);
    is_plain.then_some(start..end)
}

/// Has it run so that nothing but its words in the log follows?
fn is_plain(ctx: &Ctx<'_>, outcome: Outcome) -> bool {
    outcome == Outcome::Done
        && ctx.changed != 0
        && ctx.changed & (FAILED | AWAITED) == 0
        && !ctx.blocking.has_ready()
        && ctx.has_said_nothing()
}

/// The first of some requests that are alike has run, and something is to be done behind it. If it is to be logged as it came, runs those behind it as
/// long as they are too. How many of these have run, and what came of the last. What it has changed is not logged yet if `Ctx::changed` says that it has changed something.
#[cold]
#[inline(never)]
pub(super) fn go_on<A: Access>(
    ctx: &mut Ctx<'_>,
    row: &'static Command<Exec>,
    batch: &Batch<'_>,
    alike: &[Request],
    mut outcome: Outcome,
) -> (usize, Outcome) {
    let Some((first, rest)) = alike.split_first() else { return (0, outcome) };
    let window = batch.window;
    let first_args = batch.args_of(first);
    if !ctx.logs_as_it_came(row, first_args.len()) || !is_plain(ctx, outcome) {
        return (0, outcome);
    }
    let Some(mut whole) = as_it_came(window, first_args, first.end as usize) else { return (0, outcome) };
    ctx.stats.dirty += std::mem::take(&mut ctx.changed) & KEYS;
    if A::SHARED {
        ctx.record_as_came(&window[whole.clone()]);
    }
    let mut ran = 0;
    for (request, args) in rest.iter().zip(batch.args_of_all(rest).chunks_exact(first_args.len())) {
        if A::SHARED {
            lock(ctx, row, args, request.hash);
            if ctx.db.is_holding() {
                break;
            }
        }
        ctx.hash = request.hash;
        ctx.site = request.site;
        outcome = (row.run.run)(ctx, args);
        ran += 1;
        if !is_plain(ctx, outcome) {
            break;
        }
        let end = request.end as usize;
        if !follows_as_it_came(window, &whole, args, end) {
            break;
        }
        ctx.stats.dirty += std::mem::take(&mut ctx.changed) & KEYS;
        if A::SHARED {
            ctx.record_as_came(&window[whole.end..end]);
        }
        whole.end = end;
    }
    if !A::SHARED {
        // What the last has changed comes behind it.
        ctx.record_as_came(&window[whole]);
    }
    (ran, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::resp::{self, Limits};
    use bumpalo::Bump;
    use bumpalo::collections::Vec as ArenaVec;
    use proptest::prelude::*;

    const PIECES: &[&[u8]] = &[
        b"*3\r\n",
        b"*2\r\n",
        b"*03\r\n",
        b"*0\r\n",
        b"$3\r\n",
        b"$03\r\n",
        b"$1\r\n",
        b"$0\r\n",
        b"SET\r\n",
        b"set",
        b"k\r\n",
        b"v\r\n",
        b"k",
        b" ",
        b"   ",
        b"\r\n",
        b"\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
        b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n",
        b"SET k v\r\n",
        b"SET k           v\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$22\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n\r\n",
    ];

    fn limits() -> Limits {
        Limits { max_bulk_bytes: 1 << 20, authenticated: true }
    }

    proptest! {
        /// What is said to be as it came is just the text that the log would write; and what came so is told.
        #[test]
        fn what_is_as_the_log_writes_it(pieces in prop::collection::vec(prop::sample::select(PIECES), 1..10)) {
            let bytes = pieces.concat();
            let arena = Bump::new();
            let (mut at, mut before) = (0, None::<(Range<usize>, usize)>);
            loop {
                let mut args = ArenaVec::new_in(&arena);
                let Ok(resp::Parsed::Request { end }) = resp::parse(&bytes, at, &limits(), &mut args) else { break };
                if end == at {
                    break;
                }
                let mut wanted = Vec::new();
                crate::persist::aof::command::put(&mut wanted, &args);
                let came = as_it_came(&bytes, &args, end);
                if let Some((before, argc)) = before
                    && argc == args.len()
                    && follows_as_it_came(&bytes, &before, &args, end)
                {
                    prop_assert_eq!(came.clone(), Some(before.end..end));
                }
                before = came.clone().map(|range| (range, args.len()));
                match came {
                    Some(range) => prop_assert_eq!((range.start, &bytes[range]), (at, &wanted[..])),
                    None => prop_assert!(args.is_empty() || bytes[at..end] != wanted[..]),
                }
                at = end;
            }
        }
    }

    #[test]
    fn outside_of_the_window() {
        let window = b"*1\r\n$4\r\nPING\r\n";
        assert_eq!(as_it_came(window, &[&window[8..12]], window.len()), Some(0..14));
        assert_eq!(as_it_came(b"", &[&window[8..12]], 0), None);
        assert_eq!(as_it_came(window, &[b"PING"], window.len()), None);
        assert_eq!(as_it_came(window, &[], window.len()), None);
    }
}
