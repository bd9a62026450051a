//! A window's requests become a batch, or a share of one: parsed, joined to their commands, and their keys' buckets on the way to the cache.

use crate::cmd::client::{Client, gate};
use crate::cmd::ctx::Exec;
use crate::cmd::spec::{Command, Flags};
use crate::db::{Access, Locate};
use crate::exec::{Batch, Engine, Request, Share};
use crate::proto::resp::{self, Limits, Opening, ProtocolError};
use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;
use std::ops::Range;

/// Requests of one batch: their buckets must still be cached when they run.
pub(super) const BATCH_MAX: usize = 128;
/// Shortest request but for inline ones, for sizing.
const REQUEST_MIN_BYTES: usize = 14;

/// An argument of usual length with its header, for sizing, and the arguments of a batch of usual requests.
const ARG_BYTES: usize = 10;
const ARGS_MAX: usize = 3 * BATCH_MAX;

/// Requests of windows, as they are parsed.
pub struct Lot<'a, 'b> {
    pub(super) args: ArenaVec<'a, &'b [u8]>,
    pub(super) requests: ArenaVec<'a, Request>,
    /// Those of them that are alike ([`Request::alike`]), as far as that is known.
    runs: ArenaVec<'a, Range<usize>>,
    /// How the first request of the last window began; that of the next, of whichever client, mostly begins alike.
    habit: Option<(&'static Command<Exec>, Opening)>,
}

impl<'a: 'b, 'b> Lot<'a, 'b> {
    /// Room for what one window makes of its `bytes` bytes.
    #[inline]
    pub(super) fn of_window(arena: &'a Bump, bytes: usize) -> Lot<'a, 'b> {
        Lot {
            args: ArenaVec::with_capacity_in(ARGS_MAX.min(bytes / ARG_BYTES + 2), arena),
            requests: ArenaVec::with_capacity_in(BATCH_MAX.min(bytes / REQUEST_MIN_BYTES + 1), arena),
            runs: ArenaVec::new_in(arena),
            habit: None,
        }
    }

    /// Room for what `windows` windows make of `bytes` bytes together.
    #[must_use]
    pub fn of_windows(arena: &'a Bump, windows: usize, bytes: usize) -> Lot<'a, 'b> {
        Lot {
            args: ArenaVec::with_capacity_in(bytes / ARG_BYTES + 2 * windows, arena),
            requests: ArenaVec::with_capacity_in(bytes / REQUEST_MIN_BYTES + windows, arena),
            runs: ArenaVec::new_in(arena),
            habit: None,
        }
    }

    /// Requests so far.
    #[inline]
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// All of them, ready to run.
    #[inline]
    #[must_use]
    pub fn batch(&'b self) -> Batch<'b> {
        Batch::new(&self.requests, &self.args, &self.runs)
    }
}

/// What parsing needs to know of a client.
#[derive(Clone, Copy)]
pub struct Reader {
    pub(super) database: u32,
    pub(super) authenticated: bool,
    /// It speaks something else than Redis's protocol.
    foreign: bool,
}

impl Reader {
    #[inline]
    #[must_use]
    pub fn of(client: &Client) -> Reader {
        let foreign = client.is_foreign();
        // The rules of a user are about Redis's commands: memcached's are for those who may do all.
        let locks = if foreign { gate::UNAUTHENTICATED | gate::RESTRICTED } else { gate::UNAUTHENTICATED };
        Reader { database: client.database, authenticated: client.gate & locks == 0, foreign }
    }

    #[inline]
    pub(super) fn is_foreign(self) -> bool {
        self.foreign
    }

    #[inline]
    pub(super) fn limits<A>(self, engine: &Engine<A>) -> Limits {
        Limits { max_bulk_bytes: engine.config.proto_max_bulk_bytes, authenticated: self.authenticated }
    }
}

/// The parsed part of a window.
pub struct Parsed {
    pub share: Share,
    /// Where it ends.
    pub(super) end: usize,
    pub(super) stop: Stop,
}

impl Parsed {
    /// There is no more in its window.
    #[inline]
    pub(super) fn is_all(&self) -> bool {
        matches!(self.stop, Stop::WindowEmpty)
    }

    /// A whole window of `bytes` bytes.
    #[must_use]
    pub fn all(share: Share, bytes: usize) -> Parsed {
        Parsed { share, end: bytes, stop: Stop::WindowEmpty }
    }
}

/// Why parsing of a window stopped.
pub(super) enum Stop {
    WindowEmpty,
    BatchFull,
    Cut,
    Error(ProtocolError),
}

/// Parses requests of a window from `from` on, until it is used up, a batch is full, or something else must happen first. `begin`: the place
/// of the window's first request in the lot.
#[inline(never)]
pub(super) fn window<'a: 'b, 'b, A: Access>(
    engine: &Engine<A>,
    reader: Reader,
    bytes: &'b [u8],
    from: usize,
    begin: usize,
    lot: &mut Lot<'a, 'b>,
) -> Parsed {
    let limits = reader.limits(engine);
    let locator = engine.keyspace.locator(reader.database as usize);
    let mut end = from;
    let stop = unlike(engine, locator, &limits, bytes, &mut end, begin + BATCH_MAX, lot);
    Parsed { share: Share { requests: begin..lot.requests.len(), epoch: locator.epoch() }, end, stop }
}

/// The same for a whole window that comes among those of others. `Ok`: it began as the last one did, and there is nothing else in it than
/// requests like the first.
#[inline]
pub(super) fn window_alike<'a: 'b, 'b, A: Access>(
    engine: &Engine<A>,
    reader: Reader,
    bytes: &'b [u8],
    lot: &mut Lot<'a, 'b>,
) -> Result<Share, Parsed> {
    let (begin, first) = (lot.requests.len(), lot.args.len());
    let Some((row, opening)) = &lot.habit else { return Err(window(engine, reader, bytes, 0, begin, lot)) };
    let (row, opening) = (*row, *opening);
    let limits = reader.limits(engine);
    let Some(Ok(resp::Parsed::Request { mut end })) = resp::parse_alike(bytes, 0, &opening, &limits, &mut lot.args)
    else {
        return Err(window(engine, reader, bytes, 0, begin, lot));
    };
    let locator = engine.keyspace.locator(reader.database as usize);
    let key = locator.key_outlined(lot.args[first + row.first_key]);
    lot.requests.push(Request::of_key(row, key, first, opening.count(), end));
    if end < bytes.len() {
        end = alike(row, &opening, locator, &limits, bytes, end, BATCH_MAX - 1, lot);
        if end < bytes.len() {
            return Err(window(engine, reader, bytes, end, begin, lot));
        }
    }
    Ok(Share { requests: begin..lot.requests.len(), epoch: locator.epoch() })
}

/// The loop of `window`: parses requests of any kind, until the lot has `most`. `from` moves behind the last one.
#[inline(always)]
fn unlike<'a: 'b, 'b, A: Access>(
    engine: &Engine<A>,
    locator: impl Locate,
    limits: &Limits,
    bytes: &'b [u8],
    from: &mut usize,
    most: usize,
    lot: &mut Lot<'a, 'b>,
) -> Stop {
    while *from < bytes.len() {
        if lot.requests.len() == most {
            return Stop::BatchFull;
        }
        let (at, first) = (*from, lot.args.len());
        let end = match resp::parse(bytes, at, limits, &mut lot.args) {
            Ok(resp::Parsed::Request { end }) => end,
            Ok(resp::Parsed::Incomplete) => return Stop::Cut,
            Err(error) => return Stop::Error(error),
        };
        *from = end;
        let Some(name) = lot.args.get(first) else { continue };
        let row = engine.commands.find(name);
        let opening = Opening::of(bytes, at, name, lot.args.len() - first);
        lot.requests.push(engine.request(locator, row, &lot.args[first..], first, end));
        let Some(row) = row else { continue };
        if row.flags.contains(Flags::ENDS_BATCH) {
            return Stop::BatchFull;
        }
        // (A request that lacks its key is refused when it runs.)
        if (1..opening.count()).contains(&row.first_key) {
            lot.habit = Some((row, opening));
            if end < bytes.len() {
                *from = alike(row, &opening, locator, limits, bytes, end, most - lot.requests.len(), lot);
            }
        }
    }
    Stop::WindowEmpty
}

/// Up to `room` requests from `from` on that begin as the one before them: same command, same number of arguments. In a pipeline that is most of them,
/// so these loops have nothing in them that those do not need; two small ones, as one that does both would live on the stack. Returns where
/// the first other one begins, or one that is not whole or not right.
#[expect(clippy::too_many_arguments, reason = "what the batch and its window are; bundling them would only hide it")]
#[inline(never)]
fn alike<'a: 'b, 'b>(
    row: &'static Command<Exec>,
    opening: &Opening,
    locator: impl Locate,
    limits: &Limits,
    bytes: &'b [u8],
    from: usize,
    room: usize,
    lot: &mut Lot<'a, 'b>,
) -> usize {
    let Lot { args, requests, runs, .. } = lot;
    let mut ends = [0; BATCH_MAX];
    let first = args.len();
    let n = resp::parse_run(bytes, from, opening, limits, args, &mut ends[..room]);
    let argc = opening.count();
    let begin = requests.len();
    requests.resize(begin + n, Request::NONE);
    let mut at = first;
    for (request, (argv, end)) in requests[begin..].iter_mut().zip(args[first..].chunks_exact(argc).zip(&ends[..n])) {
        *request = Request::of_key(row, locator.key(argv[row.first_key]), at, argc, *end);
        at += argc;
    }
    if n > 0 {
        // With the one before them.
        runs.push(begin - 1..begin + n);
    }
    ends[..n].last().copied().unwrap_or(from)
}
