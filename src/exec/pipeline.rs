//! A batch of requests: of one client, or of several, one after the other.
//!
//! ```text
//! while parsing   hash of the first key → its site, whose bucket is fetched
//! then            items of the first dozen → prefetch (the buckets have arrived meanwhile)
//! every dozen     items of the next dozen → prefetch, whosever they are
//! each            checks → run → effects
//! ```
//! Prefetches are hints. A command's lookup begins at its request's site as long as no segment of the table was rewritten since the client's
//! requests were parsed (`Table::epoch`), and anew otherwise.

use super::Engine;
use super::batch::{Batch, Share};
use super::checks::{HOLDS, Verdict, WATCHED, lock, look_twice, refuse};
use super::logged;
use super::timed::Timed;
use super::transaction::{Executed, execute};
use crate::base::out::Out;
use crate::cmd::acl::allow;
use crate::cmd::alike::{Request, narrow};
use crate::cmd::blocking::serve_ready;
use crate::cmd::client::gate;
use crate::cmd::ctx::{AWAITED, Args, Ctx, Exec, FAILED, Failure, Outcome, Task};
use crate::cmd::many::{OUT_HIGH_BYTES, SLICED_MIN_ARGS};
use crate::cmd::monitor::show;
use crate::cmd::profile::Stretch;
use crate::cmd::room::Made;
use crate::cmd::slowlog;
use crate::cmd::spec::{Command, Flags, SHORT};
use crate::cmd::transactions::Value;
use crate::db::{Access, Locate};
use crate::proto::carry::Carry;
use crate::proto::errors;
use crate::table::Site;

/// What of `Ctx::changed` counts keys.
pub(super) const KEYS: u64 = !(FAILED | AWAITED);

/// Requests whose items are fetched together.
const AHEAD: usize = 12;

/// What a request waits for that was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// A name that another client's sliced command holds.
    Name,
    /// The end of CLIENT PAUSE.
    Pause,
    /// Room: memory is over its limit, and keys are going.
    Memory,
}

/// How far a client's share of a batch came.
pub enum End {
    /// All requests are answered.
    All,
    /// Request `.0` goes on in slices.
    Suspended(usize, Box<dyn Task>),
    /// Request `.0` was not begun.
    Held(usize, Waits),
    /// Request `.0` was answered, but the client must take its replies before more are made.
    Full(usize),
    /// The connection closes behind the reply to the last request that was answered.
    Close,
}

impl<A: Access> Engine<A> {
    /// A request of the command `row`; has the bucket of its first key fetched.
    #[inline(always)]
    #[must_use]
    pub fn request(
        &self,
        locator: impl Locate,
        row: Option<&'static Command<Exec>>,
        args: &[&[u8]],
        at: usize,
        end: usize,
    ) -> Request {
        let mut request =
            Request { row, hash: 0, site: Site::NONE, args: narrow(at), argc: narrow(args.len()), end: narrow(end) };
        if let Some(row) = row {
            if row.first_key > 0 {
                if let Some(key) = args.get(row.first_key) {
                    let key = locator.key_outlined(key);
                    request.hash = key.hash;
                    request.site = key.site;
                }
            } else if !row.subcommands.is_empty() {
                request.row = self.commands.resolve(args);
                let key_at = request.row.map_or(0, |subcommand| subcommand.first_key);
                if let Some(key) = args.get(key_at).filter(|_| key_at > 0) {
                    let key = locator.key_outlined(key);
                    request.hash = key.hash;
                    request.site = key.site;
                }
            }
        }
        request
    }

    /// Runs the requests of client `me` in order, until one of them ends the share.
    pub fn run(&mut self, me: u32, batch: &mut Batch<'_>, share: &Share, out: &mut Out) -> End {
        self.run_as::<false>(me, batch, share, out)
    }

    /// `ALOUD`: `out` takes all replies.
    #[inline(always)]
    pub(super) fn run_as<const ALOUD: bool>(
        &mut self,
        me: u32,
        batch: &mut Batch<'_>,
        share: &Share,
        out: &mut Out,
    ) -> End {
        let requests = batch.share(share);
        let client = self.clients.get_mut(me);
        if let Some(row) = requests.last().and_then(|r| r.row) {
            client.last_command = &row.name;
        }
        let (mut gate, database, resp3) = (client.gate, client.database as usize, client.resp3);
        if !ALOUD && gate & gate::SILENT != 0 {
            return self.run_silent(me, batch, share, out);
        }
        gate |= self.pause.reasons();
        if self.pubsub.is_watched() {
            gate |= WATCHED;
        }
        if !A::SHARED && self.keyspace.is_holding() {
            gate |= HOLDS;
        }
        self.stats.commands += requests.len() as u64;
        let mut ctx = self.ctx_of(me, database, resp3, out);
        ctx.db.located_at(share.epoch);
        let mut stretch = Stretch::new(ctx.profile.ticker.now());
        let quick_mask = ctx.profile.quick_mask;
        let mut begun = 0;
        while begun < requests.len() {
            let dozen = &requests[begun..requests.len().min(begun + AHEAD)];
            batch.fetch(share.requests.start + begun + 2 * AHEAD, A::fetch(&ctx.db));
            if A::SHARED {
                ctx.db.unlock();
            }
            gate = if ctx.room.is_near(&ctx.db) { gate | SHORT } else { gate & !SHORT };
            // Seldom is often enough: what a dozen requests can add is bounded.
            if begun > 0 && ctx.out().queued() > OUT_HIGH_BYTES {
                return End::Full(begun - 1);
            }
            let mut i = 0;
            while let Some(request) = dozen.get(i) {
                let mut argv = batch.args_of(request);
                let Some(row) = request.row.filter(|row| row.takes(argv.len())) else {
                    refuse(&mut ctx, request.row, argv);
                    i += 1;
                    continue;
                };
                if A::SHARED {
                    lock(&mut ctx, row, argv, request.hash);
                }
                ctx.hash = request.hash;
                ctx.site = request.site;
                let reasons = if A::SHARED && ctx.db.is_holding() { gate | HOLDS } else { gate };
                let heeded = reasons & row.heeds != 0;
                if heeded {
                    match look_twice(&mut ctx, row, argv, reasons) {
                        Verdict::Run => {}
                        Verdict::Refused => {
                            i += 1;
                            continue;
                        }
                        verdict => {
                            settle(&mut ctx, &mut stretch, row, argv);
                            if let Some(end) = instead(&mut ctx, row, argv, verdict, begun + i) {
                                return end;
                            }
                            stretch.since = ctx.profile.ticker.now();
                            i += 1;
                            continue;
                        }
                    }
                }
                let alone = argv.len() > row.quick_argc & quick_mask;
                if alone && !stretch.is_empty() {
                    settle(&mut ctx, &mut stretch, row, argv);
                }
                let first = i;
                // What was found of a request holds of those behind it that are alike: they run one after the other.
                let mut alike: &[Request] = &[];
                if !alone && !heeded && i + 1 < dozen.len() {
                    let begin = share.requests.start + begun;
                    alike = batch.alike(begin + i, begin + dozen.len());
                }
                let mut outcome;
                if let Some(run_alike) = row.run.run_alike
                    && !A::SHARED
                    && !alike.is_empty()
                    && !ctx.blocking.has_follow_up()
                {
                    let ran;
                    (ran, outcome) = run_alike(&mut ctx, alike, batch.args_of_all(alike));
                    i += ran;
                    argv = batch.args_of(&dozen[i - 1]);
                } else {
                    outcome = (row.run.run)(&mut ctx, argv);
                    i += 1;
                    if alike.len() > 1 && !goes_on(&ctx, outcome) {
                        let ran;
                        (ran, outcome) = logged::go_on::<A>(&mut ctx, row, batch, alike, outcome);
                        i += ran;
                        argv = batch.args_of(&dozen[i - 1]);
                    }
                }
                if i - first < alike.len() && goes_on(&ctx, outcome) {
                    let alike = &alike[i - first..];
                    for (request, each) in alike.iter().zip(batch.args_of_all(alike).chunks_exact(argv.len())) {
                        if A::SHARED {
                            lock(&mut ctx, row, each, request.hash);
                            if ctx.db.is_holding() {
                                break;
                            }
                        }
                        argv = each;
                        ctx.hash = request.hash;
                        ctx.site = request.site;
                        outcome = (row.run.run)(&mut ctx, argv);
                        i += 1;
                        if !goes_on(&ctx, outcome) {
                            break;
                        }
                    }
                }
                stretch.add(row.short_number(), i - first);
                if ctx.changed != 0 {
                    if ctx.changed & FAILED != 0 {
                        ctx.profile.failed(row.number());
                    }
                    apply_effects_of(&mut ctx, row, argv);
                }
                if outcome != Outcome::Done {
                    return broken_off(&mut ctx, row, argv, outcome, begun + i - 1, stretch);
                }
                if alone {
                    settle(&mut ctx, &mut stretch, row, argv);
                }
            }
            if let Some(last) = dozen.last()
                && !stretch.is_empty()
            {
                settle_dozen(&mut ctx, &mut stretch, last, batch);
            }
            begun += dozen.len();
        }
        End::All
    }

    /// Runs a request that arrived in pieces. `blob`: the value that was received in place. A request of very many keys takes the carry
    /// along into its task; otherwise the caller clears it.
    #[inline(never)]
    pub fn run_carried(
        &mut self,
        me: u32,
        carry: &mut Carry,
        blob: Option<dolmen_slab::BlobId>,
        arena: &bumpalo::Bump,
        out: &mut Out,
    ) -> End {
        if self.clients.get(me).gate & gate::SILENT != 0 {
            return self.silenced(me, out, |engine, out| engine.run_carried_aloud(me, carry, blob, arena, out));
        }
        self.run_carried_aloud(me, carry, blob, arena, out)
    }

    fn run_carried_aloud(
        &mut self,
        me: u32,
        carry: &mut Carry,
        blob: Option<dolmen_slab::BlobId>,
        arena: &bumpalo::Bump,
        out: &mut Out,
    ) -> End {
        let row = carry.arg(0).and_then(|name| self.commands.find(name));
        let argc = carry.arg_counts().0;
        if let Some(row) = row
            && (row.run.sliced.is_some() || row.run.whole.is_some())
            && argc > SLICED_MIN_ARGS
            && row.takes(argc)
            && self.clients.get(me).gate & !(gate::HARMLESS | gate::SILENT | gate::RESTRICTED) == 0
            && self.pause.reasons() == 0
        {
            self.stats.commands += 1;
            let mut ctx = self.ctx(me, out);
            if row.heeds & SHORT != 0 && ctx.room.is_near(&ctx.db) {
                match ctx.room.make(&mut ctx.db, ctx.clock) {
                    Made::Enough => {}
                    Made::Working => {
                        ctx.stats.commands = ctx.stats.commands.saturating_sub(1);
                        return End::Held(0, Waits::Memory);
                    }
                    Made::Nothing => {
                        reject(&mut ctx, Some(row), errors::OOM);
                        return End::All;
                    }
                }
            }
            ctx.client().last_command = &row.name;
            if ctx.client().gate & gate::RESTRICTED != 0 {
                let mut args = bumpalo::collections::Vec::new_in(arena);
                carry.args(&mut args);
                if let Err(refusal) = allow(&mut ctx, row, &args) {
                    reject(&mut ctx, Some(row), refusal.text());
                    return End::All;
                }
            }
            let mut args = bumpalo::collections::Vec::new_in(arena);
            carry.args(&mut args);
            if ctx.pubsub.is_watched() {
                show(&mut ctx, row, &args);
            }
            // What the slow log would keep; the request itself goes with the task.
            let kept = slowlog::kept(row, &args);
            let told = ctx.keep_command(row, &args);
            drop(args);
            let kept: Vec<&[u8]> = kept.iter().map(Vec::as_slice).collect();
            let request = std::mem::take(carry);
            match (row.run.sliced, row.run.whole) {
                (Some(sliced), _) => crate::cmd::many::suspend(&mut ctx, request, sliced, row),
                (None, Some(suspend)) => suspend(&mut ctx, request),
                (None, None) => unreachable!("one of them was there"),
            };
            return match ctx.task.take() {
                Some(task) => {
                    ctx.stats.suspended += 1;
                    End::Suspended(0, Box::new(Timed::new(task, row, &kept, 0).telling(told)))
                }
                None => End::All,
            };
        }
        let mut args = bumpalo::collections::Vec::new_in(arena);
        carry.args(&mut args);
        if args.is_empty() {
            return End::All;
        }
        let client = self.clients.get(me);
        let (database, queues) = (client.database as usize, client.gate & gate::MULTI != 0);
        let locator = self.keyspace.locator(database);
        let share = Share { requests: 0..1, epoch: locator.epoch() };
        let request = self.request(locator, self.commands.find(args[0]), &args, 0, 0);
        if blob.is_none() && !queues {
            return self.run_as::<true>(me, &mut Batch::new(&[request], &args, &[]), &share, out);
        }
        let ran = self.run_kept(me, request, &args, blob, out);
        drop(args);
        match ran {
            Ok(end) => end,
            Err(row) => {
                let value = blob.map(|blob| {
                    let len_bytes = self.keyspace.with_shard(request.hash, |shard| shard.slab().blob_len(blob));
                    Value { hash: request.hash, blob, len_bytes }
                });
                let request = std::mem::take(carry);
                if self.ctx(me, out).queue_kept(row, request, value) { End::All } else { End::Close }
            }
        }
    }

    /// Runs a request that is kept, and has a value that was received in place or comes in MULTI. `Err`: the command is to be queued.
    pub(super) fn run_kept(
        &mut self,
        me: u32,
        request: Request,
        args: Args<'_>,
        blob: Option<dolmen_slab::BlobId>,
        out: &mut Out,
    ) -> Result<End, &'static Command<Exec>> {
        let mut gate = self.clients.get(me).gate;
        gate |= self.pause.reasons();
        if self.pubsub.is_watched() {
            gate |= WATCHED;
        }
        if !A::SHARED && self.keyspace.is_holding() {
            gate |= HOLDS;
        }
        self.stats.commands += 1;
        let mut ctx = self.ctx(me, out);
        ctx.blob = blob;
        ctx.hash = request.hash;
        ctx.site = request.site;
        let end = match request.row.filter(|row| row.takes(args.len())) {
            None => {
                refuse(&mut ctx, request.row, args);
                End::All
            }
            Some(row) => {
                if A::SHARED {
                    lock(&mut ctx, row, args, request.hash);
                }
                if ctx.room.is_near(&ctx.db) {
                    gate |= SHORT;
                }
                let reasons = if A::SHARED && ctx.db.is_holding() { gate | HOLDS } else { gate };
                match if reasons & row.heeds == 0 { Verdict::Run } else { look_twice(&mut ctx, row, args, reasons) } {
                    Verdict::Run => {
                        let mut stretch = Stretch::new(ctx.profile.ticker.now());
                        ctx.keep_value(row);
                        let outcome = (row.run.run)(&mut ctx, args);
                        stretch.add(row.short_number(), 1);
                        if ctx.changed & FAILED != 0 {
                            ctx.profile.failed(row.number());
                        }
                        apply_effects_of(&mut ctx, row, args);
                        ctx.client().last_command = &row.name;
                        let end = if outcome == Outcome::Done {
                            settle(&mut ctx, &mut stretch, row, args);
                            End::All
                        } else {
                            broken_off(&mut ctx, row, args, outcome, 0, stretch)
                        };
                        ctx.recorder.value = None;
                        end
                    }
                    Verdict::Refused => End::All,
                    Verdict::Queue => {
                        ctx.blob = None;
                        return Err(row);
                    }
                    Verdict::Wait(waits) => {
                        ctx.blob = None;
                        return Ok(End::Held(0, waits));
                    }
                    verdict => instead(&mut ctx, row, args, verdict, 0).unwrap_or(End::All),
                }
            }
        };
        if let Some(unused) = ctx.blob.take() {
            ctx.db.lock_none();
            let key = ctx.first_key(b"");
            ctx.db.blob_drop(key, unused);
        }
        Ok(end)
    }
}

/// Has a command ended so that nothing but the next one follows? What must be done behind each one by itself makes this false.
#[inline(always)]
fn goes_on(ctx: &Ctx<'_>, outcome: Outcome) -> bool {
    outcome == Outcome::Done
        && (ctx.changed == 0 || ctx.changed & (FAILED | AWAITED) == 0 && !ctx.blocking.has_follow_up())
}

/// The commands since the last look at the clock have run, the last of them with these arguments.
#[inline(always)]
fn settle(ctx: &mut Ctx<'_>, stretch: &mut Stretch, row: &'static Command<Exec>, args: Args<'_>) {
    let any = !stretch.is_empty();
    let ticks = ctx.profile.settle(stretch);
    if any && ticks >= ctx.profile.notable_ticks {
        slowlog::note(ctx, row, || slowlog::kept(row, args), ticks);
    }
}

/// The same at the end of a dozen.
#[inline(always)]
fn settle_dozen(ctx: &mut Ctx<'_>, stretch: &mut Stretch, last: &Request, batch: &Batch<'_>) {
    let ticks = ctx.profile.settle(stretch);
    if ticks >= ctx.profile.notable_ticks
        && let Some(row) = last.row
    {
        let args = &batch.args[last.args as usize..][..last.argc as usize];
        slowlog::note(ctx, row, || slowlog::kept(row, args), ticks);
    }
}

/// Request `i` of a batch, the last of `stretch`, did not end in its reply.
#[cold]
#[inline(never)]
fn broken_off(
    ctx: &mut Ctx<'_>,
    row: &'static Command<Exec>,
    args: Args<'_>,
    outcome: Outcome,
    i: usize,
    mut stretch: Stretch,
) -> End {
    ctx.client().last_command = &row.name;
    match (outcome, ctx.task.take()) {
        (Outcome::Suspended, Some(task)) => {
            ctx.stats.suspended += 1;
            // What came before it is told apart no more; itself it is counted when it is done.
            let ticks = ctx.profile.ticker.now().saturating_sub(stretch.since);
            stretch.take_back(row.short_number());
            ctx.profile.settle(&mut stretch);
            End::Suspended(i, Box::new(Timed::new(task, row, args, ticks).told(ctx, args)))
        }
        _ => {
            settle(ctx, &mut stretch, row, args);
            End::Close
        }
    }
}

/// What a command has changed becomes visible to the rest of the server here (what the later steps of a task have changed, where they are
/// called: `Session::go_on`, `Engine::step_orphan`).
#[inline(always)]
pub fn apply_effects(ctx: &mut Ctx<'_>) {
    effects(ctx, None);
}

/// The same behind the run of a command, which is not said yet in the log.
#[inline(always)]
fn apply_effects_of(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>) {
    effects(ctx, Some((row, args)));
}

#[inline(always)]
fn effects(ctx: &mut Ctx<'_>, command: Option<(&'static Command<Exec>, Args<'_>)>) {
    if ctx.changed & KEYS != 0 {
        if ctx.blocking.has_follow_up() {
            follow_up(ctx, command);
        }
        ctx.stats.dirty += ctx.changed & KEYS;
    }
    ctx.changed = 0;
}

/// Logs what was changed, and then serves those who have waited for it.
#[cold]
#[inline(never)]
fn follow_up(ctx: &mut Ctx<'_>, command: Option<(&'static Command<Exec>, Args<'_>)>) {
    if let Some((row, args)) = command {
        ctx.record(row, args);
    }
    ctx.commit_record();
    if ctx.blocking.has_ready() {
        serve_ready(ctx);
    }
    ctx.settle_follow_up();
}

/// Answers a request that does not run. Only what runs counts as processed.
pub(super) fn reject(ctx: &mut Ctx<'_>, row: Option<&'static Command<Exec>>, why: impl Into<Failure>) {
    ctx.stats.commands = ctx.stats.commands.saturating_sub(1);
    ctx.stats.rejected_commands += 1;
    if row.is_some_and(|row| row.flags.contains(Flags::RUNS_QUEUE)) {
        ctx.end_transaction();
        ctx.fail(errors::exec_refused(why.into().text()));
    } else {
        ctx.abort_transaction();
        ctx.fail(why);
    }
    ctx.changed &= !FAILED;
    if let Some(row) = row {
        ctx.profile.rejected(row.number());
    }
}

/// Does what a verdict says in place of running the command. `None`: the request was answered.
#[cold]
#[inline(never)]
fn instead(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>, verdict: Verdict, i: usize) -> Option<End> {
    match verdict {
        Verdict::Run | Verdict::Refused => None,
        Verdict::Queue => (!ctx.queue(row, args)).then_some(End::Close),
        Verdict::Execute => match timed_execute(ctx, row, args) {
            Executed::Done => None,
            Executed::Wait(waits) => Some(End::Held(i, waits)),
            Executed::Suspended(task) => {
                ctx.stats.suspended += 1;
                Some(End::Suspended(i, Box::new(Timed::new(task, row, args, 0))))
            }
            Executed::Close => Some(End::Close),
        },
        Verdict::Wait(waits) => Some(End::Held(i, waits)),
        Verdict::Close => Some(End::Close),
    }
}

/// EXEC: what it runs is counted by itself too.
fn timed_execute(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>) -> Executed {
    let mut stretch = Stretch::new(ctx.profile.ticker.now());
    let executed = execute(ctx, row);
    if !matches!(executed, Executed::Wait(_)) && ctx.pubsub.is_watched() {
        show(ctx, row, args);
    }
    if matches!(executed, Executed::Done | Executed::Close) {
        stretch.add(row.short_number(), 1);
        settle(ctx, &mut stretch, row, args);
    }
    // What it refused is its own failure; that of a command that it ran was counted there.
    if ctx.changed & FAILED != 0 {
        ctx.profile.failed(row.number());
        ctx.changed &= !FAILED;
    }
    executed
}
