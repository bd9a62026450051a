//! The append-only file: BGREWRITEAOF, WAITAOF, WAIT, and turning it on and off (CONFIG SET appendonly). How it is done is `store::log`'s.

use super::ctx::{Args, Budget, Ctx, Outcome, Stats, Task};
use super::options::parse_int;
use super::persistence;
use crate::config::{Config, LogConfig};
use crate::proto::errors;
use crate::store::log::Settings;
use crate::store::log::disk::Machine;
use crate::store::log::files::Files;
use crate::store::{Ended, flag};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the thread of the log has to know of the settings.
#[must_use]
pub fn log_settings(config: &Config) -> Settings {
    let LogConfig { fsync, lazy_while_saving, timestamps, .. } = config.log;
    Settings { fsync, lazy_while_saving, timestamps }
}

/// The files of the log as they are on the disk; those of a version before 7 are taken over.
///
/// # Errors
/// If they cannot be read, or their folder not be made; says so.
pub fn find_files(config: &Config) -> Result<Files, String> {
    let folder = config.dir.join(&config.log.folder);
    let told = |error: std::io::Error| format!("cannot make {}: {error}", folder.display());
    if !folder.is_dir() {
        std::fs::create_dir(&folder).map_err(told)?;
        std::fs::File::open(&config.dir).and_then(|dir| dir.sync_all()).map_err(told)?;
    }
    let mut files = Files::find(Arc::new(Machine), folder, &config.log.stem)?;
    let old = config.dir.join(&config.log.stem);
    let is_named = |files: &Files| {
        files.manifest.increments.is_empty()
            && files.manifest.base.as_ref().is_some_and(|base| base.name == config.log.stem.as_bytes())
    };
    // Named already: a run before was interrupted behind that.
    if old.is_file() && (files.is_empty() || is_named(&files) && !files.paths()[0].exists()) {
        log::info!("Taking over {}, a file of an earlier version", old.display());
        files.adopt(&old).map_err(|error| format!("cannot take over {}: {error}", old.display()))?;
    }
    Ok(files)
}

/// Is a rewrite due: by the size of the files, or because it was put off?
#[must_use]
pub fn rewrite_is_due(store: &crate::store::Store, config: &Config) -> bool {
    let log = &store.log;
    if !log.is_on() || store.is_saving() || store.is_loading() || store.flags() & (flag::RELOADING | flag::ENDING) != 0
    {
        return false;
    }
    let status = log.status();
    if status.scheduled {
        return true;
    }
    // After some failures in a row it is tried less and less often, as in Redis.
    let wait = match status.rewrite_failures {
        0 => Duration::ZERO,
        1..3 => Duration::from_secs(1),
        more => Duration::from_secs(60 << (more - 3).min(6)).min(Duration::from_secs(3600)),
    };
    if status.tried.is_some_and(|tried| tried.elapsed() < wait) {
        return false;
    }
    if status.unfinished {
        return true;
    }
    let percent = u64::from(config.log.rewrite_percent);
    let grown = status.size.saturating_mul(100) / status.base_size.max(1);
    let due = percent > 0 && status.size > config.log.rewrite_bytes_min && grown >= 100 + percent;
    if due {
        log::info!("Starting automatic rewriting of AOF on {}% growth", grown - 100);
    }
    due
}

/// `BGREWRITEAOF`
pub fn bgrewriteaof(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    if !ctx.store.log.is_on() {
        return ctx.fail(errors::AOF_IS_OFF);
    }
    if ctx.store.log.is_rewriting() {
        return ctx.fail(errors::REWRITE_IN_PROGRESS);
    }
    ctx.store.log.with_status(|status| status.scheduled = true);
    if ctx.store.is_saving() {
        ctx.reply.simple("Background append only file rewriting scheduled");
    } else {
        // It begins when its next file is made.
        let named = !ctx.store.log.status().unfinished;
        ctx.store.log.prepare(named);
        ctx.reply.simple("Background append only file rewriting started");
    }
    Outcome::Done
}

// ---- WAIT, WAITAOF ----

/// `WAIT numreplicas timeout`
pub fn wait(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (replicas, timeout) = match (parse_int(args[1]), parse_timeout(args[2])) {
        (Err(failure), _) | (_, Err(failure)) => return ctx.fail(failure),
        (Ok(replicas), Ok(timeout)) => (replicas, timeout),
    };
    begin(ctx, Waiting { local: None, replicas, until: until(timeout), waits: false, pair: false })
}

/// `WAITAOF numlocal numreplicas timeout`
pub fn waitaof(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let local = match parse_int(args[1]) {
        Ok(local @ 0..=1) => local == 1,
        Ok(_) => return ctx.fail(errors::OUT_OF_RANGE),
        Err(failure) => return ctx.fail(failure),
    };
    let replicas = match parse_int(args[2]) {
        Ok(replicas) if replicas >= 0 => replicas,
        Ok(_) => return ctx.fail(errors::NOT_POSITIVE),
        Err(failure) => return ctx.fail(failure),
    };
    let timeout = match parse_timeout(args[3]) {
        Ok(timeout) => timeout,
        Err(failure) => return ctx.fail(failure),
    };
    if local && !ctx.store.log.is_on() {
        return ctx.fail(errors::WAITAOF_WITHOUT_AOF);
    }
    // What this client has written, and whatever others have by now.
    let position = ctx.db.position();
    let waiting = Waiting { local: Some((local, position)), replicas, until: until(timeout), waits: false, pair: true };
    begin(ctx, waiting)
}

fn parse_timeout(argument: &[u8]) -> Result<u64, super::ctx::Failure> {
    let ms = parse_int(argument).map_err(|_| errors::TIMEOUT_NOT_AN_INTEGER)?;
    u64::try_from(ms).map_err(|_| errors::TIMEOUT_NEGATIVE.into())
}

/// 0: for ever.
fn until(timeout_ms: u64) -> Option<Instant> {
    (timeout_ms > 0).then(|| Instant::now() + Duration::from_millis(timeout_ms))
}

fn begin(ctx: &mut Ctx<'_>, mut waiting: Waiting) -> Outcome {
    if waiting.is_served(ctx) || ctx.may_not_wait() {
        waiting.answer(ctx);
        return Outcome::Done;
    }
    waiting.wait(ctx);
    ctx.suspend(Box::new(waiting))
}

/// A client that waits for replicas, of which there are none, or for what was written to last.
struct Waiting {
    /// Of WAITAOF: whether it waits for this machine, and for what.
    local: Option<(bool, u64)>,
    replicas: i64,
    until: Option<Instant>,
    waits: bool,
    pair: bool,
}

impl Waiting {
    fn lasts(&self, ctx: &Ctx<'_>) -> bool {
        self.local.is_some_and(|(_, position)| ctx.store.log.is_on() && ctx.store.log.durable() >= position)
    }

    fn is_served(&self, ctx: &Ctx<'_>) -> bool {
        let waits_here = self.local.is_some_and(|(wanted, _)| wanted) && !self.lasts(ctx);
        !waits_here && self.replicas <= 0
    }

    fn answer(&self, ctx: &mut Ctx<'_>) {
        if self.pair {
            let lasts = self.lasts(ctx);
            ctx.reply.array(2);
            ctx.reply.int(i64::from(lasts));
        }
        ctx.reply.int(0);
    }

    fn wait(&mut self, ctx: &mut Ctx<'_>) {
        // It is looked at again when that lasts, and some times a second.
        let position = self.local.map_or(u64::MAX, |(_, position)| position);
        let (me, client) = (ctx.fleet.me(), ctx.client_id());
        ctx.store.log.wait(position, me, client);
        self.waits = true;
    }
}

impl Task for Waiting {
    fn step(&mut self, ctx: &mut Ctx<'_>, _budget: &mut Budget) -> bool {
        if self.is_served(ctx) || self.until.is_some_and(|until| Instant::now() >= until) {
            self.answer(ctx);
            return true;
        }
        self.wait(ctx);
        false
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn waits_for_others(&self) -> bool {
        self.waits
    }

    fn ends_with_client(&self) -> bool {
        true
    }
}

// ---- CONFIG SET appendonly ----

/// What follows when it was turned on or off.
pub type Then = fn(&mut Ctx<'_>, Args<'_>) -> Outcome;

enum Stage {
    /// Other workers have still to see that changes may be logged.
    Arming,
    /// Its files are looked for.
    Finding(JoinHandle<Result<Files, String>>),
    /// Its next file is made, and a save that goes on ends.
    Preparing,
    /// Its thread comes to its end.
    Closing,
    Then(Box<dyn Task>),
}

struct Switch {
    stage: Stage,
    args: Vec<Vec<u8>>,
    then: Then,
    failures: u64,
}

/// Turns the log on or off, and does the rest of the command then.
pub fn switch(ctx: &mut Ctx<'_>, on: bool, args: Args<'_>, then: Then) -> Outcome {
    if ctx.in_multi() {
        return ctx.fail(errors::NOT_IN_MULTI);
    }
    let stage = if on {
        ctx.store.set_flag(flag::LOGGED, true);
        ctx.fleet.tell_others(|| Box::new(|_, _| true));
        Stage::Arming
    } else {
        turn_off(ctx);
        Stage::Closing
    };
    let args = args.iter().map(|arg| arg.to_vec()).collect();
    ctx.suspend(Box::new(Switch { stage, args, then, failures: 0 }))
}

fn turn_off(ctx: &mut Ctx<'_>) {
    ctx.db.lock_all();
    if ctx.store.log.is_on() {
        let position = ctx.db.position();
        ctx.store.log.end(position);
        ctx.db.each_shard(|shard| shard.listeners.set_logged(false));
        log::info!("The append-only file is turned off");
    }
    ctx.db.lock_none();
    if ctx.store.log.status().rewrite_began.is_some() {
        ctx.store.give_up(Ended::Cancelled);
    }
}

impl Switch {
    fn fail(ctx: &mut Ctx<'_>, why: &str) -> bool {
        log::warn!("Cannot turn on the append-only file: {why}");
        ctx.store.set_flag(flag::LOGGED, false);
        ctx.fail(errors::AOF_NOT_TURNED_ON);
        true
    }

    /// Its next file is made: begins. `None`: not now.
    fn begin(ctx: &mut Ctx<'_>) -> Option<Result<(), String>> {
        if ctx.store.is_saving() || ctx.store.is_loading() {
            return None;
        }
        let counted = (ctx.fleet.sum(ctx.stats, |stats| stats.dirty), ctx.fleet.sum(ctx.stats, Stats::held_bytes));
        ctx.db.lock_all();
        let begun = if ctx.db.is_anything_held(true) {
            None
        } else {
            let position = ctx.db.position();
            Some(
                ctx.store
                    .log
                    .begin_prepared(ctx.store, position, ctx.config.log.snapshot_base)
                    .map_err(|error| error.to_string())
                    .map(|path| {
                        ctx.db.each_shard(|shard| shard.listeners.set_logged(true));
                        persistence::begin_base(&mut ctx.db, ctx.store, ctx.config, path, counted);
                    }),
            )
        };
        ctx.db.lock_none();
        begun
    }

    fn finish(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        (self.then)(ctx, &args);
        match ctx.task.take() {
            Some(task) => {
                self.stage = Stage::Then(task);
                false
            }
            None => true,
        }
    }
}

impl Task for Switch {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        loop {
            match &mut self.stage {
                Stage::Then(task) => return task.step(ctx, budget),
                Stage::Arming => {
                    // What was made for a log before this one must not be taken for its own.
                    if !ctx.store.have_all_seen(flag::LOGGED) || ctx.store.log.is_preparing() {
                        return false;
                    }
                    ctx.store.log.discard_prepared();
                    let config = ctx.config.clone();
                    let found = std::thread::Builder::new().name("aof files".into()).spawn(move || find_files(&config));
                    match found {
                        Ok(thread) => self.stage = Stage::Finding(thread),
                        Err(error) => return Switch::fail(ctx, &error.to_string()),
                    }
                }
                Stage::Finding(thread) => {
                    if !thread.is_finished() {
                        return false;
                    }
                    let Stage::Finding(thread) = std::mem::replace(&mut self.stage, Stage::Preparing) else {
                        return false;
                    };
                    match thread.join() {
                        Ok(Ok(files)) => ctx.store.log.set_files(files),
                        Ok(Err(why)) => return Switch::fail(ctx, &why),
                        Err(_) => return Switch::fail(ctx, "the thread that looked for its files has panicked"),
                    }
                    self.failures = ctx.store.log.with_status(|status| {
                        (status.unfinished, status.scheduled) = (true, false);
                        status.rewrite_failures
                    });
                    ctx.store.log.prepare(false);
                }
                Stage::Preparing => {
                    if ctx.store.log.status().rewrite_failures > self.failures {
                        return Switch::fail(ctx, "its next file cannot be made");
                    }
                    if !ctx.store.log.is_prepared() {
                        return false;
                    }
                    return match Switch::begin(ctx) {
                        None => false,
                        Some(Ok(())) => self.finish(ctx),
                        Some(Err(why)) => Switch::fail(ctx, &why),
                    };
                }
                Stage::Closing => {
                    if !ctx.store.log.is_closed() {
                        return false;
                    }
                    ctx.store.set_flag(flag::LOGGED, false);
                    ctx.store.set_flag(flag::LAGGING, false);
                    return self.finish(ctx);
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        self.args.iter().map(Vec::capacity).sum()
    }

    fn must_finish(&self) -> bool {
        true
    }

    fn waits_for_others(&self) -> bool {
        matches!(&self.stage, Stage::Then(task) if task.waits_for_others())
    }

    fn has_taken_effect(&self) -> bool {
        matches!(&self.stage, Stage::Then(task) if task.has_taken_effect())
    }
}
