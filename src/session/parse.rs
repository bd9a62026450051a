//! A window's requests become a batch: parsed, joined to their commands, and their keys' buckets on the way to the cache.

use super::Session;
use crate::cmd::ctx::Exec;
use crate::cmd::spec::{Command, Flags};
use crate::db::Locator;
use crate::exec::{Engine, Request};
use crate::proto::resp::{self, Limits, Opening, Parsed, ProtocolError};
use bumpalo::collections::Vec as ArenaVec;

/// Requests of one batch: their buckets must still be cached when they run.
const BATCH_MAX: usize = 128;
/// Shortest request but for inline ones, for sizing.
const REQUEST_MIN_BYTES: usize = 14;

/// An argument of usual length with its header, for sizing, and the arguments of a batch of usual requests.
const ARG_BYTES: usize = 10;
const ARGS_MAX: usize = 3 * BATCH_MAX;

/// Why parsing of a window stopped.
pub(super) enum Stop {
    WindowEmpty,
    BatchFull,
    Cut,
    Error(ProtocolError),
}

/// Room for the requests of `bytes` bytes, within one batch.
pub(super) fn batch_capacity(bytes: usize) -> usize {
    BATCH_MAX.min(bytes / REQUEST_MIN_BYTES + 1)
}

/// Room for the arguments of `bytes` bytes of usual requests.
pub(super) fn args_capacity(bytes: usize) -> usize {
    ARGS_MAX.min(bytes / ARG_BYTES + 2)
}

/// Parses requests of a window until it is used up, a batch is full, or something else must happen first. `from` moves behind the last one.
#[inline(never)]
pub(super) fn batch<'a: 'b, 'b>(
    engine: &Engine,
    me: u32,
    bytes: &'b [u8],
    from: &mut usize,
    args: &mut ArenaVec<'a, &'b [u8]>,
    requests: &mut ArenaVec<'a, Request>,
) -> Stop {
    let limits = Session::limits(engine, me);
    let locator = engine.shard.locator(engine.clients.get(me).database as usize);
    while *from < bytes.len() {
        if requests.len() == BATCH_MAX {
            return Stop::BatchFull;
        }
        let (at, first) = (*from, args.len());
        let end = match resp::parse(bytes, at, &limits, args) {
            Ok(Parsed::Request { end }) => end,
            Ok(Parsed::Incomplete) => return Stop::Cut,
            Err(error) => return Stop::Error(error),
        };
        *from = end;
        let Some(name) = args.get(first) else { continue };
        let row = engine.commands.find(name);
        let opening = Opening::of(bytes, at, name, args.len() - first);
        requests.push(engine.request(locator, row, &args[first..], first, end));
        let Some(row) = row else { continue };
        if row.flags.contains(Flags::ENDS_BATCH) {
            return Stop::BatchFull;
        }
        // (A request that lacks its key is refused when it runs.)
        if (1..opening.count()).contains(&row.first_key) && end < bytes.len() {
            *from = alike(row, opening, locator, &limits, bytes, end, args, requests);
        }
    }
    Stop::WindowEmpty
}

/// The requests from `from` on that begin as the one before them: same command, same number of arguments. In a pipeline that is most of them,
/// so these loops have nothing in them that those do not need; two small ones, as one that does both would live on the stack. Returns where
/// the first other one begins, or one that is not whole or not right.
#[expect(clippy::too_many_arguments, reason = "what the batch and its window are; bundling them would only hide it")]
#[inline(never)]
fn alike<'a: 'b, 'b>(
    row: &'static Command<Exec>,
    opening: Opening,
    locator: Locator<'_>,
    limits: &Limits,
    bytes: &'b [u8],
    from: usize,
    args: &mut ArenaVec<'a, &'b [u8]>,
    requests: &mut ArenaVec<'a, Request>,
) -> usize {
    let mut ends = [0; BATCH_MAX];
    let first = args.len();
    let room = BATCH_MAX - requests.len();
    let (mut n, mut at) = (0, from);
    while n < room {
        let Some(Ok(Parsed::Request { end })) = resp::parse_alike(bytes, at, &opening, limits, args) else { break };
        ends[n] = end;
        n += 1;
        at = end;
    }
    let argc = opening.count();
    requests.extend(
        args[first..].chunks_exact(argc).zip(&ends[..n]).enumerate().map(|(i, (argv, end))| {
            Request::of_key(row, locator.key(argv[row.first_key]), first + i * argc, argc, *end)
        }),
    );
    at
}
