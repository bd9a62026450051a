//! Commands that wait until a key has something for them: BLPOP, BLMOVE, BZPOPMIN and their kin. Owns how a client waits, and how it is
//! served; what an element is, is the types' affair.
//!
//! ```text
//!  a blocking command   a key has something ─▶ like the command that does not wait
//!                       else, under the locks of all its keys: into their lists (`db::waiters`), a Blocked task ─▶ the client is parked
//!  a command that changes a key somebody waits for   reports it ─▶ `Blocking::ready` ─▶ `serve_ready`, before anybody else can come by:
//!                       the longest waiter of the type is claimed, its elements are taken, its worker is told
//! ```
//! So a client is served in the order of arrival, in the same instant as the change, whichever worker it is on. A time-out, CLIENT UNBLOCK and the
//! end of the connection claim it likewise: one of all has it (`base::sync::claim`).
//!
//! Who asks for very many elements at once, and is served with them, takes them itself, in slices: the name of the key is held for it from the instant
//! on at which it was served, so that it has what was there then.
//!
//! Where an element goes to another key (BLMOVE), the shards of both are locked, and it is looked again. If the destination's name is held by a
//! command in slices, the client looks for itself when it is free.

use super::ctx::{Budget, Ctx, Failure, NOBODY, Outcome, Task};
use super::{lists, zsets};
use crate::base::float;
use crate::base::sync::claim::{By, Stage};
use crate::db::hold::Mode;
use crate::db::item::{Key, Type};
use crate::db::waiters::{End, Served, Take, Waiting};
use crate::db::{Db, DbError};
use crate::proto::errors;
use crate::proto::reply::Reply;
use crate::types::list::List;
use crate::types::zset::Zset;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Elements that a client is served with at once.
const AT_ONCE: usize = 512;

/// The blocked clients of a worker, and the keys that its present command has made ready for those of all workers.
#[derive(Default)]
pub struct Blocking {
    /// By client. One waits for one thing at a time.
    clients: HashMap<u64, (Option<u64>, Arc<Waiting>)>,
    /// When they give up, in monotonic nanoseconds, with the client.
    by_deadline: BTreeSet<(u64, u64)>,
    /// Databases and names of keys that were changed, and are waited for.
    ready: VecDeque<(usize, Box<[u8]>)>,
    /// There may be something to do behind a change: somebody to serve, or something to log.
    follows: bool,
    /// Changes are logged.
    logs: bool,
    /// The name of this hash is held for a client that has taken what was reserved for it, and may be held for the next.
    passes: Option<u64>,
}

impl Blocking {
    /// Clients that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    fn add(&mut self, deadline_ns: Option<u64>, waiting: &Arc<Waiting>) {
        self.clients.insert(waiting.client, (deadline_ns, Arc::clone(waiting)));
        self.by_deadline.extend(deadline_ns.map(|at| (at, waiting.client)));
    }

    /// The client waits no more, or has gone.
    pub fn remove(&mut self, client: u64) {
        if let Some((Some(at), _)) = self.clients.remove(&client) {
            self.by_deadline.remove(&(at, client));
        }
    }

    /// The next time at which somebody gives up, in monotonic nanoseconds.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.by_deadline.first().map(|due| due.0)
    }

    /// A client whose time is up; it is told once.
    pub fn take_due(&mut self, now_ns: u64) -> Option<u64> {
        let due = self.by_deadline.first().filter(|due| due.0 <= now_ns).copied()?;
        self.by_deadline.remove(&due);
        Some(due.1)
    }

    /// A key that somebody waits for was changed.
    #[cold]
    pub fn make_ready(&mut self, database: usize, name: &[u8]) {
        self.ready.push_back((database, name.into()));
        self.follows = true;
    }

    /// Is there something to do behind a change?
    #[inline(always)]
    #[must_use]
    pub fn has_follow_up(&self) -> bool {
        self.follows
    }

    /// What was to be done was; from now on changes are logged, or not.
    pub fn settle(&mut self, logs: bool) {
        self.logs = logs;
        self.follows = logs || self.has_ready();
    }

    #[inline(always)]
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Are changes logged?
    #[inline(always)]
    #[must_use]
    pub fn logs(&self) -> bool {
        self.logs
    }

    /// CLIENT UNBLOCK: ends the waiting of a client, as if its time were up or with an error; it is to be woken. False: it does not wait here, or
    /// not any more.
    pub fn unblock(&mut self, client: u64, error: bool) -> bool {
        let Some((_, waiting)) = self.clients.get(&client) else { return false };
        if waiting.claim.claim(By::Unblock).is_none() {
            return false;
        }
        if error {
            *waiting.served() = Some(Served::Unblocked);
        }
        waiting.claim.finish();
        true
    }
}

/// What a blocking command waits for.
pub struct Ask<'a> {
    pub kind: Type,
    pub keys: &'a [&'a [u8]],
    pub take: Take,
    /// How long; `None`: for ever.
    pub timeout_ns: Option<u64>,
    pub answer: Answer,
}

/// How it is answered.
#[derive(Clone, Copy)]
pub struct Answer {
    /// With a run of elements of a key.
    pub full: fn(&mut Reply<'_>, key: &[u8], run: &[u8]),
    /// When the time is up.
    pub nothing: fn(&mut Reply<'_>),
}

/// A time-out in seconds, with fractions; 0 is for ever.
///
/// # Errors
/// The texts that Redis answers.
pub fn parse_timeout_ns(argument: &[u8]) -> Result<Option<u64>, Failure> {
    let seconds = float::parse(argument).filter(|s| !s.is_nan()).ok_or(errors::TIMEOUT_NOT_A_FLOAT)?;
    if seconds < 0.0 {
        return Err(errors::TIMEOUT_NEGATIVE.into());
    }
    // In whole milliseconds, rounded up, as in Redis: the least wait is one.
    let ms = (seconds * 1000.0).ceil();
    if ms >= MS_MAX {
        return Err(errors::TIMEOUT_OUT_OF_RANGE.into());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and MS_MAX")]
    let ms = ms as u64;
    Ok(Some(ms.saturating_mul(1_000_000)).filter(|ns| *ns > 0))
}

/// 2^63 ms: from there on Redis refuses.
const MS_MAX: f64 = 9_223_372_036_854_775_808.0;

/// Takes what is asked for from the first key that has it, or waits for it.
pub fn take_or_wait(ctx: &mut Ctx<'_>, ask: &Ask<'_>) -> Outcome {
    for name in ask.keys {
        let key = ctx.key(name);
        match take(ctx, ask.kind, key, &ask.take) {
            Ok(Some(run)) => {
                with_words(ask.kind, name, &ask.take, |words| ctx.log_as(words));
                (ask.answer.full)(&mut ctx.reply, name, &run);
                return Outcome::Done;
            }
            Ok(None) => {}
            Err(error) => return ctx.fail(error),
        }
    }
    if ctx.may_not_wait() {
        (ask.answer.nothing)(&mut ctx.reply);
        return Outcome::Done;
    }
    let (client, home) = (ctx.client().id, ctx.fleet.me());
    let waiting = Arc::new(Waiting::new(client, home, ctx.db.index(), ask.kind, ask.take.clone()));
    let mut keys: Vec<(Box<[u8]>, u64)> = Vec::with_capacity(ask.keys.len());
    for name in ask.keys {
        let key = ctx.key(name);
        if !keys.iter().any(|(known, _)| **known == *key.bytes) {
            ctx.db.wait_for(key, &waiting);
            keys.push((key.bytes.into(), key.hash));
        }
    }
    let deadline_ns = ask.timeout_ns.map(|ns| ctx.clock.mono_ns().saturating_add(ns));
    ctx.blocking.add(deadline_ns, &waiting);
    count(ctx);
    ctx.suspend(Box::new(Blocked {
        then: None,
        holds: None,
        waiting,
        keys,
        deadline_ns,
        answer: ask.answer,
        over: false,
    }))
}

/// What INFO tells is true when the next reply is sent.
fn count(ctx: &mut Ctx<'_>) {
    ctx.stats.blocked_clients = ctx.blocking.len() as u64;
}

/// Takes elements from a key, as `take` does, for another client, and logs that.
fn take_for_other(ctx: &mut Ctx<'_>, kind: Type, key: Key<'_>, what: &Take) -> Result<Option<Vec<u8>>, DbError> {
    let run = take(ctx, kind, key, what)?;
    if run.is_some() {
        with_words(kind, key.bytes, what, |words| ctx.log_for_other(words));
    }
    Ok(run)
}

/// What taking elements is without waiting: `LPOP key`, `LMOVE source destination LEFT RIGHT`.
fn with_words<T>(kind: Type, key: &[u8], what: &Take, then: impl FnOnce(&[&[u8]]) -> T) -> T {
    let end = |end: End| -> &[u8] { if end == End::First { b"LEFT" } else { b"RIGHT" } };
    match what {
        Take::Move { from, to, destination } => then(&[b"LMOVE", key, destination, end(*from), end(*to)]),
        Take::Pop { from, count } => {
            let name: &[u8] = match (kind, from) {
                (Type::List, End::First) => b"LPOP",
                (Type::List, End::Last) => b"RPOP",
                (_, End::First) => b"ZPOPMIN",
                (_, End::Last) => b"ZPOPMAX",
            };
            match count {
                1 => then(&[name, key]),
                count => then(&[name, key, count.to_string().as_bytes()]),
            }
        }
    }
}

/// Takes elements from a key, if it has some. `None`: there is no such key.
fn take(ctx: &mut Ctx<'_>, kind: Type, key: Key<'_>, take: &Take) -> Result<Option<Vec<u8>>, DbError> {
    match (kind, take) {
        (Type::List, Take::Pop { from, count }) => lists::take(ctx, key, *from, *count),
        (Type::List, Take::Move { from, to, destination }) => {
            let destination = ctx.key(destination);
            lists::transfer(ctx, key, destination, *from, *to)
        }
        (_, Take::Pop { from, count }) => zsets::take(ctx, key, *from, *count),
        (_, Take::Move { .. }) => unreachable!("elements move between lists"),
    }
}

/// Serves those who wait for the keys that the present command has changed. Called when the command is through, with its locks; those of others
/// may be had afterwards.
#[cold]
#[inline(never)]
pub fn serve_ready(ctx: &mut Ctx<'_>) {
    let own = ctx.db.index();
    while let Some((database, name)) = ctx.blocking.ready.pop_front() {
        ctx.db.switch_database(database);
        while serve_one(ctx, &name) {}
    }
    ctx.db.switch_database(own);
}

/// A command in slices, which has held one name for writing, is through: those who wait for the key are served before anybody else can come by, then the
/// name is free, or held for one of them. Called in a step of a task.
pub fn end_hold(ctx: &mut Ctx<'_>, hash: u64) {
    // What a first slice has changed is not logged yet: they are served behind it.
    let later = ctx.is_recorded() && !ctx.recorder.stepping;
    if ctx.blocking.has_ready() && !ctx.in_multi() && !later {
        ctx.blocking.passes = Some(hash);
        serve_ready(ctx);
        ctx.db.lock_none();
        if ctx.blocking.passes.take().is_none() {
            return;
        }
    }
    ctx.db.hold_end();
}

/// Serves the longest waiter of a key. False: there is nobody, or nothing for them.
fn serve_one(ctx: &mut Ctx<'_>, name: &[u8]) -> bool {
    lock_too(ctx, &[name]);
    let key = ctx.key(name);
    let Some(mut waiting) = ctx.db.first_waiter(key) else { return false };
    if let Take::Move { destination, .. } = &waiting.take {
        let names = [name, &destination[..]];
        if lock_too(ctx, &names) {
            // Others may have come by.
            match ctx.db.first_waiter(key) {
                Some(first) if Arc::ptr_eq(&first, &waiting) => {}
                Some(first) if !matches!(first.take, Take::Move { .. }) => waiting = first,
                Some(_) => return true,
                None => return false,
            }
        }
    }
    if let Take::Move { destination, .. } = &waiting.take {
        let destination = ctx.key(destination);
        if ctx.db.is_held(destination.hash, true) {
            waiting.retry.store(true, Ordering::Release);
            wake(ctx, &waiting);
            ctx.db.wait_no_more(waiting.database, key.hash, &waiting);
            return true;
        }
    }
    if is_much(ctx, key, &waiting) {
        waiting.reserves.store(true, Ordering::Release);
    }
    let on = waiting.claim.claim(By::Key).is_none() || serve(ctx, key, &waiting);
    // It is taken out of this list at once, so that the next look finds the next; of others by itself.
    ctx.db.wait_no_more(waiting.database, key.hash, &waiting);
    on
}

/// Serves a client that was claimed. False: others must wait until it has taken what is reserved for it.
fn serve(ctx: &mut Ctx<'_>, key: Key<'_>, waiting: &Arc<Waiting>) -> bool {
    let wants = waiting.reserves.load(Ordering::Relaxed);
    let passed = wants && ctx.blocking.passes == Some(key.hash);
    let reserves = passed || wants && ctx.db.hold_begin(1, Mode::Exclusive);
    let served = if reserves {
        if passed {
            ctx.blocking.passes = None;
        } else {
            ctx.db.hold(key.hash);
        }
        Served::Reserved { key: key.bytes.into() }
    } else {
        match take_for_other(ctx, waiting.kind, key, &waiting.take) {
            Ok(Some(run)) => Served::Elements { key: key.bytes.into(), run },
            Ok(None) => unreachable!("the key has something, under its lock"),
            Err(error) => Served::Failed(error),
        }
    };
    *waiting.served() = Some(served);
    waiting.claim.finish();
    wake(ctx, waiting);
    !reserves
}

/// Would a client be served with very many elements of the key?
fn is_much(ctx: &mut Ctx<'_>, key: Key<'_>, waiting: &Waiting) -> bool {
    let Take::Pop { count, .. } = waiting.take else { return false };
    let len = match waiting.kind {
        _ if count <= AT_ONCE => 0,
        Type::List => ctx.db.look::<List>(key).ok().flatten().map_or(0, |look| look.len()),
        _ => ctx.db.look::<Zset>(key).ok().flatten().map_or(0, |look| look.len()),
    };
    count.min(len) > AT_ONCE
}

fn wake(ctx: &mut Ctx<'_>, waiting: &Waiting) {
    let client = waiting.client;
    if waiting.home == ctx.fleet.me() {
        ctx.asks.wake.push(client);
    } else {
        ctx.fleet.tell(
            waiting.home,
            Box::new(move |local, _| {
                local.asks.wake.push(client);
                true
            }),
        );
    }
}

/// Has the shards of these keys locked. True: others were given back for that, so that what was seen before may have changed.
fn lock_too(ctx: &mut Ctx<'_>, names: &[&[u8]]) -> bool {
    let covered = ctx.db.covers(names);
    if !covered {
        ctx.db.lock_keys(names.iter().copied());
    }
    !covered
}

/// A client that waits.
struct Blocked {
    /// What goes on when it takes very much.
    then: Option<Box<dyn Task>>,
    /// The name of this key is held for it.
    holds: Option<Box<[u8]>>,
    waiting: Arc<Waiting>,
    /// Names and hashes of what it waits for.
    keys: Vec<(Box<[u8]>, u64)>,
    deadline_ns: Option<u64>,
    answer: Answer,
    over: bool,
}

impl Blocked {
    /// Takes it out of all lists.
    fn leave(&mut self, db: &mut Db<'_>) {
        if !std::mem::replace(&mut self.over, true) {
            for (_, hash) in &self.keys {
                db.wait_no_more(self.waiting.database, *hash, &self.waiting);
            }
        }
    }

    /// Looks for itself, as who came by could not serve it.
    fn try_again(&mut self, ctx: &mut Ctx<'_>) {
        let Take::Move { destination, .. } = &self.waiting.take else { return };
        let waiting = Arc::clone(&self.waiting);
        let destination = ctx.key(destination);
        for (name, hash) in &self.keys {
            ctx.db.lock_keys([&name[..], destination.bytes].into_iter());
            let key = ctx.key(name);
            if ctx.db.is_held(destination.hash, true) || ctx.db.is_held(*hash, true) {
                return ctx.db.lock_none();
            }
            if ctx.db.kind_of(key) != Some(waiting.kind) {
                // It has lost its place in the list when it was passed over; it is the first to look, so the place is the last.
                waiting.retry.store(false, Ordering::Release);
                ctx.db.wait_for(key, &waiting);
            } else if waiting.claim.claim(By::Key).is_some() {
                serve(ctx, key, &waiting);
            }
            ctx.db.lock_none();
        }
    }
}

impl Blocked {
    /// Takes the elements that are reserved for it. True: the reply is complete.
    fn take_reserved(&mut self, ctx: &mut Ctx<'_>, name: Box<[u8]>) -> bool {
        let key = ctx.key(&name);
        let Take::Pop { from, count } = self.waiting.take else { unreachable!("of one element there are not many") };
        // Nobody else comes to the key until it is done.
        with_words(self.waiting.kind, &name, &self.waiting.take, |words| ctx.log_as(words));
        let outcome = match self.waiting.kind {
            Type::List => lists::take_reserved(ctx, key, from, count),
            _ => zsets::take_reserved(ctx, key, from, count),
        };
        self.then = ctx.task.take();
        self.holds = Some(name);
        self.pass_on(ctx, outcome != Outcome::Suspended);
        outcome != Outcome::Suspended
    }

    /// When all that it gets is taken, the next who wait for the key are served, before anybody else comes by: then the name is free, or held for one
    /// of them.
    fn pass_on(&mut self, ctx: &mut Ctx<'_>, done: bool) {
        // What is left to do is to write.
        let is_taken = done || self.waits_for_room();
        let Some(name) = self.holds.take_if(|_| is_taken) else { return };
        let hash = ctx.key(&name).hash;
        ctx.blocking.make_ready(self.waiting.database, &name);
        end_hold(ctx, hash);
    }
}

impl Task for Blocked {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if let Some(task) = &mut self.then {
            let done = task.step(ctx, budget);
            self.pass_on(ctx, done);
            return done;
        }
        if self.waiting.retry.load(Ordering::Acquire) && self.waiting.claim.is_waiting() {
            self.try_again(ctx);
        }
        if self.deadline_ns.is_some_and(|at| at <= ctx.clock.mono_ns())
            && self.waiting.claim.claim(By::TimeOut).is_some()
        {
            self.waiting.claim.finish();
        }
        let Stage::Done(_) = self.waiting.claim.stage() else { return false };
        self.leave(&mut ctx.db);
        ctx.blocking.remove(self.waiting.client);
        count(ctx);
        let served = self.waiting.served().take();
        match served {
            Some(Served::Reserved { key }) if ctx.me == NOBODY => {
                self.holds = Some(key);
                self.pass_on(ctx, true);
            }
            Some(Served::Reserved { key }) => return self.take_reserved(ctx, key),
            Some(Served::Elements { key, run }) => (self.answer.full)(&mut ctx.reply, &key, &run),
            Some(Served::Failed(error)) => {
                ctx.fail(error);
            }
            Some(Served::Unblocked) => {
                ctx.fail(errors::UNBLOCKED);
            }
            None => (self.answer.nothing)(&mut ctx.reply),
        }
        true
    }

    fn bytes(&self) -> usize {
        // In its own lists, and in those of the keys.
        let names: usize = self.keys.iter().map(|(name, _)| 2 * name.len() + 64).sum();
        size_of::<Blocked>() + size_of::<Waiting>() + names + self.then.as_ref().map_or(0, |task| task.bytes())
    }

    fn waits_for_others(&self) -> bool {
        self.then.is_none() && !self.waiting.retry.load(Ordering::Acquire)
    }

    fn waits_for_room(&self) -> bool {
        self.then.as_ref().is_some_and(|task| task.waits_for_room())
    }

    fn must_finish(&self) -> bool {
        match &self.then {
            Some(task) => self.holds.is_some() || task.must_finish(),
            // What is reserved for it is to be given back.
            None => !self.over && self.waiting.reserves.load(Ordering::Acquire),
        }
    }

    fn ends_with_client(&self) -> bool {
        self.then.is_none()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Some(task) = &mut self.then {
            return task.abandon(db);
        }
        if self.waiting.claim.claim(By::Disconnect).is_some() {
            self.waiting.claim.finish();
        }
        self.leave(db);
    }
}
