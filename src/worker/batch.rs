//! The inputs of several connections that one wake-up brought, handled together: memory that one client's requests need is fetched while
//! another's are parsed or run, as with few requests in a window there is nothing else to do meanwhile.
//!
//! ```text
//! 1  parse   the first batch of every window, into one lot: hash, site, bucket fetched
//! 2  fetch   the items of the dozen requests that follow, whosever they are (`exec::Batch`)
//! 3  run     connection by connection, in order: its share of the lot, then what else its window holds (`Session::after_ahead`)
//! ```
//! 1 is done for as many windows as `ROUND_REQUESTS` allows, then 2 and 3 go through these hand in hand.
use super::state::{ACCOUNT_MIN_BYTES, DISPATCH_MAX_NS, State};
use crate::base::clock::Stopwatch;
use crate::base::out::Out;
use crate::db::Access;
use crate::exec::{Batch, End, Share};
use crate::net::{Answers, Flow, Input};
use crate::session::{Lot, Parsed, Reader, Session};
use bumpalo::Bump;
use bumpalo::collections::Vec as ArenaVec;

/// Requests that are parsed before the first of them runs: their buckets and arguments must still be cached then.
const ROUND_REQUESTS: usize = 512;
/// Time for inputs that were received until dispatch had to end. Those that are not handled by then wait for the next turn.
const BATCH_MAX_NS: u64 = 100_000;
/// Requests between two looks at the clock for that.
const BATCH_LOOK: usize = 32;

/// What became of an input in phase 1.
enum Window {
    /// All of it is parsed, and nothing else is to be done than to run it.
    Whole(Share),
    /// There may be more in it, or its session has something to look after: the next of the parts.
    Part,
    /// It ends a request that was cut, or it is too late for it.
    Unparsed,
}

/// How far an input came that is not of the common case.
enum Run {
    /// Its share of the batch has run.
    Begun(Parsed, End),
    /// It goes the way of an input by itself.
    Anew,
    /// It waits for the next turn.
    Late,
}

/// How long a batch may go on.
struct Limit {
    until_ns: u64,
    /// Requests since the last look.
    unseen: usize,
    late: bool,
}

impl Limit {
    /// Is it too late for so many requests more?
    #[inline]
    fn is_over(&mut self, watch: &Stopwatch, requests: usize) -> bool {
        self.unseen += requests;
        if self.unseen >= BATCH_LOOK {
            self.unseen = 0;
            self.late = self.late || watch.now_ns() > self.until_ns;
        }
        self.late
    }
}

impl<A: Access> State<A> {
    /// See the module.
    pub(super) fn run_batch(&mut self, inputs: &[Input], bytes: &[u8], answers: &mut impl Answers) {
        self.wake();
        let until_ns = self.woken_ns + DISPATCH_MAX_NS + BATCH_MAX_NS;
        let mut limit = Limit { until_ns, unseen: 0, late: false };
        let mut arena = std::mem::take(&mut self.arena);
        let mut rest = inputs;
        while !rest.is_empty() {
            arena.reset();
            let begun = self.round(rest, bytes, &mut limit, &arena, answers);
            rest = &rest[begun..];
        }
        self.arena = arena;
    }

    /// Handles as many inputs as go into a round, and says how many.
    fn round(
        &mut self,
        inputs: &[Input],
        bytes: &[u8],
        limit: &mut Limit,
        arena: &Bump,
        answers: &mut impl Answers,
    ) -> usize {
        let total = inputs.iter().map(Input::len).sum();
        let mut lot = Lot::of_windows(arena, inputs.len(), total);
        let mut windows = ArenaVec::with_capacity_in(inputs.len(), arena);
        let mut parts = ArenaVec::new_in(arena);
        for input in inputs {
            if lot.requests() >= ROUND_REQUESTS {
                break;
            }
            windows.push(self.parse_ahead(input, bytes, limit, &mut lot, &mut parts));
        }
        let count = windows.len();
        let mut batch = lot.batch();
        let mut parts = parts.into_iter();
        for (input, window) in inputs.iter().zip(windows) {
            answers.answer(input.conn, |out| {
                let me = input.conn.index;
                let part = if matches!(window, Window::Part) { parts.next() } else { None };
                let requests = match (&window, &part) {
                    (Window::Whole(share), _) => share.requests.len(),
                    (_, Some(parsed)) => parsed.share.requests.len(),
                    (_, None) => BATCH_LOOK,
                };
                let run = if limit.is_over(&self.watch, requests) {
                    Run::Late
                } else {
                    batch.window = input.of(bytes);
                    match (window, part) {
                        (Window::Whole(share), _) => match self.engine.run(me, &mut batch, &share, out) {
                            // The common case: the session is not even looked at.
                            End::All if out.queued() < ACCOUNT_MIN_BYTES => return Flow::Read,
                            end => Run::Begun(Parsed::all(share, input.len()), end),
                        },
                        (_, Some(parsed)) => {
                            let end = self.engine.run(me, &mut batch, &parsed.share, out);
                            Run::Begun(parsed, end)
                        }
                        (_, None) => Run::Anew,
                    }
                };
                self.go_through(input, bytes, run, &batch, arena, out)
            });
        }
        count
    }

    /// Phase 1 for one input.
    #[inline]
    fn parse_ahead<'a: 'b, 'b>(
        &mut self,
        input: &Input,
        bytes: &'b [u8],
        limit: &Limit,
        lot: &mut Lot<'a, 'b>,
        parts: &mut ArenaVec<'a, Parsed>,
    ) -> Window {
        let (engine, me) = (&mut self.engine, input.conn.index);
        engine.stats.input_bytes += input.len() as u64;
        let client = engine.clients.get_mut(me);
        client.last_input_unix_ms = engine.clock.unix_ms();
        let reader = Reader::of(client);
        let Some(slot) = self.sessions.get(me).filter(|slot| slot.session.is_idle() && !limit.late) else {
            return Window::Unparsed;
        };
        let parsed = match Session::parse_ahead(engine, reader, input.of(bytes), lot) {
            Ok(share) if !slot.accounted => return Window::Whole(share),
            Ok(share) => Parsed::all(share, input.len()),
            Err(parsed) => parsed,
        };
        parts.push(parsed);
        Window::Part
    }

    /// All but the common case of an input.
    #[inline(never)]
    fn go_through(
        &mut self,
        input: &Input,
        bytes: &[u8],
        run: Run,
        batch: &Batch<'_>,
        arena: &Bump,
        out: &mut Out,
    ) -> Flow {
        let (me, bytes) = (input.conn.index, input.of(bytes));
        let Some(slot) = self.sessions.get_mut(me) else { return Flow::Abort };
        let (engine, session) = (&mut self.engine, &mut slot.session);
        let flow = match run {
            Run::Begun(parsed, end) => session.after_ahead(engine, me, arena, bytes, (parsed, end), batch, out),
            Run::Anew => session.data(engine, me, arena, bytes, out),
            Run::Late => session.postpone(bytes),
        };
        if slot.is_quiet(flow, out) { flow } else { self.after_input(input.conn, flow, out) }
    }
}
