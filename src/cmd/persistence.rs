//! Saving: SAVE, BGSAVE, LASTSAVE, what SHUTDOWN and DEBUG RELOAD do with files, and the save points. How it is done is `store`'s.

use super::ctx::{Args, Budget, Ctx, Outcome, Stats, Task};
use super::server::COMPATIBLE_VERSION;
use crate::config::Config;
use crate::db::Db;
use crate::proto::errors;
use crate::store::load::{Loading, LogPlan, Plan};
use crate::store::log::files::Files;
use crate::store::{Ended, Facts, Job, Refused, Store, flag, save};
use std::path::PathBuf;
use std::sync::Arc;

/// What is kept for a save may take so much in any case.
const KEPT_MIN_BYTES: u64 = 1 << 20;
/// After a save that failed, the next save point is not looked at before so many seconds.
const RETRY_S: u64 = 5;

/// Where the snapshot is.
#[must_use]
pub fn rdb_path(config: &Config) -> PathBuf {
    config.dir.join(&config.dbfilename)
}

/// What a loader has to know.
#[must_use]
pub fn load_plan(config: &Config, now_ms: u64, into_empty: bool) -> Plan {
    Plan {
        path: rdb_path(config),
        log: None,
        databases: config.databases,
        max_bytes: config.proto_max_bulk_bytes,
        into_empty,
        now_s: now_ms / 1000,
    }
}

/// The same for the log.
#[must_use]
pub fn log_plan(config: &Config, now_ms: u64, files: &Files) -> Plan {
    let log = LogPlan { files: files.paths(), cuts_off: config.log.cuts_off, known: super::table::is_known };
    Plan { path: files.folder().to_owned(), log: Some(log), ..load_plan(config, now_ms, true) }
}

/// Why a save was not begun.
pub enum NotBegun {
    Refused(Refused),
    /// A command in slices has changed half of what it will: not now.
    Held,
}

/// Makes the cut of a save and has it written. `dirty`, `held_bytes`: changes counted so far, and memory that is not the shards'.
///
/// # Errors
/// If it cannot be begun.
pub fn begin(
    db: &mut Db<'_>,
    store: &Arc<Store>,
    config: &Config,
    job: Job,
    (dirty, held_bytes): (u64, u64),
) -> Result<u64, NotBegun> {
    db.lock_all();
    if db.is_anything_held(true) {
        return Err(NotBegun::Held);
    }
    let facts = facts_of(db, config, job, rdb_path(config), (dirty, held_bytes));
    save::begin(db, store, facts).map_err(NotBegun::Refused)
}

fn facts_of(db: &mut Db<'_>, config: &Config, job: Job, path: PathBuf, (dirty, held_bytes): (u64, u64)) -> Facts {
    let mut used_bytes = held_bytes;
    db.each_shard(|shard| used_bytes += shard.used_bytes());
    Facts {
        job,
        path,
        keeps_history: config.log.keeps_history,
        checksum: config.rdbchecksum,
        packs: config.rdbcompression,
        as_commands: job == Job::Base && !config.log.snapshot_base,
        version: COMPATIBLE_VERSION,
        used_bytes,
        now_s: db.now_ms() / 1000,
        dirty,
        kept_max_bytes: (used_bytes / 100 * u64::from(config.snapshot_buffer_percent)).max(KEPT_MIN_BYTES),
    }
}

/// Makes the cut of a rewrite of the log, if that can be now; its next file was prepared.
pub fn begin_rewrite(db: &mut Db<'_>, store: &Arc<Store>, config: &Config, counted: (u64, u64)) {
    db.lock_all();
    if db.is_anything_held(true) || !store.log.is_on() {
        return;
    }
    let position = db.position();
    match store.log.cut(position, config.log.snapshot_base) {
        Ok(path) => {
            log::info!("Background append only file rewriting started");
            begin_base(db, store, config, path, counted);
        }
        Err(error) => log::warn!("Cannot rewrite the append-only file: {error}"),
    }
}

/// Begins to write the base file of the log. Called with all shards locked.
pub fn begin_base(db: &mut Db<'_>, store: &Arc<Store>, config: &Config, path: PathBuf, counted: (u64, u64)) {
    let facts = facts_of(db, config, Job::Base, path, counted);
    if let Err(refused) = save::begin(db, store, facts) {
        store.log.rewritten(&Err(format!("{refused:?}")), 0, true);
    }
}

fn begin_for(ctx: &mut Ctx<'_>, job: Job) -> Result<u64, NotBegun> {
    let counted = (ctx.fleet.sum(ctx.stats, |stats| stats.dirty), ctx.fleet.sum(ctx.stats, Stats::held_bytes));
    begin(&mut ctx.db, ctx.store, ctx.config, job, counted)
}

/// Is a save due, by the save points or because it was put off?
#[must_use]
pub fn is_due(store: &Store, config: &Config, dirty: u64, now_s: u64) -> bool {
    if store.is_saving() || store.is_loading() || store.flags() & flag::RELOADING != 0 {
        return false;
    }
    let stats = store.stats();
    if stats.scheduled {
        return true;
    }
    if stats.last_failed && now_s < stats.tried_s + RETRY_S {
        return false;
    }
    let (changes, seconds) = (dirty.saturating_sub(stats.dirty), now_s.saturating_sub(stats.last_s));
    let Some(point) = config.save_points.are_due(changes, seconds) else { return false };
    log::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
    true
}

// ---- commands ----

/// `LASTSAVE`
pub fn lastsave(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let last_s = ctx.store.stats().last_s;
    ctx.reply.int(last_s.cast_signed());
    Outcome::Done
}

/// `BGSAVE [SCHEDULE | CANCEL]`
pub fn bgsave(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match args.get(1).map(|option| option.to_ascii_lowercase()).as_deref() {
        None | Some(b"schedule") if args.len() <= 2 => {}
        Some(b"cancel") if args.len() == 2 => {
            if ctx.store.schedule(false) {
                ctx.reply.simple("Scheduled background saving cancelled");
            } else if ctx.store.stats().in_background && ctx.store.give_up(Ended::Cancelled) {
                ctx.reply.simple("Background saving cancelled");
            } else {
                return ctx.fail(errors::NO_BGSAVE);
            }
            return Outcome::Done;
        }
        _ => return ctx.fail(errors::SYNTAX),
    }
    match begin_for(ctx, Job::Background) {
        Ok(_) => ctx.reply.simple("Background saving started"),
        // It begins when it can, which is soon.
        Err(NotBegun::Held) => {
            ctx.store.schedule(true);
            ctx.reply.simple("Background saving started");
        }
        Err(NotBegun::Refused(Refused::NoThread(error))) => {
            log::warn!("Can't save in background: {error}");
            return ctx.fail(errors::save_failed(&error));
        }
        Err(NotBegun::Refused(Refused::Busy)) if ctx.store.log.status().rewrite_began.is_some() => {
            if args.len() == 1 {
                return ctx.fail(errors::BGSAVE_DURING_REWRITE);
            }
            ctx.store.schedule(true);
            ctx.reply.simple("Background saving scheduled");
        }
        Err(NotBegun::Refused(_)) => return ctx.fail(errors::BGSAVE_IN_PROGRESS),
    }
    Outcome::Done
}

/// `SAVE`: answered when it is done. Others are served meanwhile, unlike with Redis.
pub fn save(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    if ctx.store.is_saving() {
        return ctx.fail(errors::BGSAVE_IN_PROGRESS);
    }
    let mut task = Saving { number: None };
    if task.step(ctx, &mut Budget::endless(ctx.clock)) { Outcome::Done } else { ctx.suspend(Box::new(task)) }
}

/// SAVE, until it is done.
struct Saving {
    /// Of the save, when it was begun.
    number: Option<u64>,
}

/// Has the client of a task woken when the save or load that goes on has ended.
fn wake_at_end(ctx: &mut Ctx<'_>) {
    let (me, client) = (ctx.fleet.me(), ctx.client_id());
    ctx.store.wait(me, client);
}

impl Task for Saving {
    fn step(&mut self, ctx: &mut Ctx<'_>, _budget: &mut Budget) -> bool {
        let number = match self.number {
            Some(number) => number,
            None => match begin_for(ctx, Job::Waited) {
                Ok(number) => {
                    wake_at_end(ctx);
                    *self.number.insert(number)
                }
                Err(NotBegun::Held) => return false,
                Err(NotBegun::Refused(Refused::Busy)) => {
                    ctx.fail(errors::BGSAVE_IN_PROGRESS);
                    return true;
                }
                Err(NotBegun::Refused(_)) => {
                    ctx.fail(errors::SAVE_FAILED);
                    return true;
                }
            },
        };
        match ctx.store.ended(number) {
            None => return false,
            Some(Ended::Done) => ctx.out().ok(),
            Some(_) => {
                ctx.fail(errors::SAVE_FAILED);
            }
        }
        true
    }

    fn bytes(&self) -> usize {
        0
    }

    fn waits_for_others(&self) -> bool {
        self.number.is_some()
    }
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`: ends the server without a reply.
pub fn shutdown(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (mut save, mut nosave, mut now, mut force, mut abort) = (false, false, false, false, false);
    for option in &args[1..] {
        match &*option.to_ascii_lowercase() {
            b"save" if !nosave => save = true,
            b"nosave" if !save => nosave = true,
            b"now" => now = true,
            b"force" => force = true,
            b"abort" => abort = true,
            _ => return ctx.fail(errors::SYNTAX),
        }
    }
    if abort && (save || nosave || now || force) {
        return ctx.fail(errors::SYNTAX);
    }
    if abort {
        if ctx.store.flags() & flag::ENDING == 0 {
            return ctx.fail(errors::NO_SHUTDOWN);
        }
        ctx.store.set_flag(flag::ENDING, false);
        ctx.store.give_up(Ended::Cancelled);
        ctx.out().ok();
        return Outcome::Done;
    }
    log::warn!("User requested shutdown...");
    if nosave || (!save && ctx.config.save_points.is_empty()) || ctx.store.is_loading() {
        ctx.asks.shutdown = Some(now);
        return Outcome::Close;
    }
    let mut task = Ending::new(now, force);
    if task.step(ctx, &mut Budget::endless(ctx.clock)) { Outcome::Close } else { ctx.suspend(Box::new(task)) }
}

/// The end of the server, when a last snapshot is saved. Those who write wait meanwhile, so that nothing is answered and not saved.
pub struct Ending {
    at_once: bool,
    force: bool,
    begun: bool,
    number: Option<u64>,
}

impl Ending {
    #[must_use]
    pub fn new(at_once: bool, force: bool) -> Ending {
        Ending { at_once, force, begun: false, number: None }
    }

    fn end(&self, ctx: &mut Ctx<'_>, saved: bool) -> bool {
        if saved || self.force {
            if !saved {
                log::warn!("Error trying to save the DB, but a shutdown is forced.");
            }
            ctx.asks.shutdown = Some(self.at_once);
        } else {
            log::warn!("Error trying to save the DB, can't exit.");
            ctx.store.set_flag(flag::ENDING, false);
            ctx.fleet.tell_others(|| Box::new(|_, _| true));
            ctx.fail(errors::SHUTDOWN_FAILED);
        }
        true
    }
}

impl Task for Ending {
    fn step(&mut self, ctx: &mut Ctx<'_>, _budget: &mut Budget) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            log::info!("Saving the final RDB snapshot before exiting.");
            ctx.store.set_flag(flag::ENDING, true);
        } else if ctx.store.flags() & flag::ENDING == 0 {
            // SHUTDOWN ABORT.
            ctx.fail(errors::SHUTDOWN_FAILED);
            return true;
        }
        let Some(number) = self.number else {
            match begin_for(ctx, Job::Waited) {
                Ok(number) => {
                    wake_at_end(ctx);
                    self.number = Some(number);
                }
                // The one that goes on will not have what was written since.
                Err(NotBegun::Refused(Refused::Busy)) => {
                    ctx.store.give_up(Ended::Cancelled);
                }
                Err(NotBegun::Held) => {}
                Err(NotBegun::Refused(_)) => return self.end(ctx, false),
            }
            return false;
        };
        match ctx.store.ended(number) {
            None => false,
            Some(ended) => self.end(ctx, ended == Ended::Done),
        }
    }

    fn bytes(&self) -> usize {
        0
    }

    fn must_finish(&self) -> bool {
        true
    }

    fn waits_for_others(&self) -> bool {
        self.number.is_some()
    }
}

// ---- DEBUG RELOAD ----

/// How far a reload is.
enum Stage {
    /// Other workers have still to see that their commands wait.
    Stopping,
    Saving(Option<u64>),
    Loading(Option<Arc<Loading>>),
}

/// `DEBUG RELOAD [MERGE] [NOFLUSH] [NOSAVE]`: what the file has takes the place of what is in memory.
struct Reload {
    saves: bool,
    flushes: bool,
    stage: Stage,
}

pub fn reload(ctx: &mut Ctx<'_>, options: Args<'_>) -> Outcome {
    let (mut saves, mut flushes) = (true, true);
    for option in options {
        match &*option.to_ascii_lowercase() {
            b"nosave" => saves = false,
            b"noflush" => flushes = false,
            b"merge" => {}
            _ => return ctx.fail(errors::DEBUG_RELOAD_OPTIONS),
        }
    }
    if ctx.in_multi() {
        return ctx.fail(errors::NOT_IN_MULTI);
    }
    if ctx.store.is_saving() || ctx.store.flags() & (flag::RELOADING | flag::ENDING) != 0 {
        return ctx.fail(errors::BGSAVE_IN_PROGRESS);
    }
    ctx.store.set_flag(flag::RELOADING, true);
    // So that they see it.
    ctx.fleet.tell_others(|| Box::new(|_, _| true));
    ctx.suspend(Box::new(Reload { saves, flushes, stage: Stage::Stopping }))
}

impl Reload {
    fn end(ctx: &mut Ctx<'_>, failed: Option<&'static str>) -> bool {
        ctx.store.set_flag(flag::RELOADING, false);
        // Their clients go on.
        ctx.fleet.tell_others(|| Box::new(|_, _| true));
        match failed {
            None => ctx.out().ok(),
            Some(why) => {
                ctx.fail(why);
            }
        }
        true
    }
}

impl Task for Reload {
    fn step(&mut self, ctx: &mut Ctx<'_>, _budget: &mut Budget) -> bool {
        loop {
            self.stage = match &mut self.stage {
                Stage::Stopping if !ctx.store.have_all_seen(flag::RELOADING) => return false,
                Stage::Stopping if self.saves => Stage::Saving(None),
                Stage::Stopping => Stage::Loading(None),
                Stage::Saving(None) => match begin_for(ctx, Job::Waited) {
                    Ok(number) => {
                        wake_at_end(ctx);
                        Stage::Saving(Some(number))
                    }
                    Err(NotBegun::Held) => return false,
                    Err(NotBegun::Refused(_)) => return Reload::end(ctx, Some(errors::SAVE_FAILED)),
                },
                Stage::Saving(Some(number)) => match ctx.store.ended(*number) {
                    None => return false,
                    Some(Ended::Done) => Stage::Loading(None),
                    Some(_) => return Reload::end(ctx, Some(errors::SAVE_FAILED)),
                },
                Stage::Loading(None) => {
                    if self.flushes {
                        ctx.db.lock_all();
                        ctx.db.flush_all();
                        ctx.db.lock_none();
                    }
                    let plan = load_plan(ctx.config, ctx.db.now_ms(), false);
                    match Loading::start(ctx.store, plan) {
                        Ok(Some(loading)) => {
                            wake_at_end(ctx);
                            Stage::Loading(Some(loading))
                        }
                        Ok(None) => return Reload::end(ctx, Some(errors::RELOAD_FAILED)),
                        Err(why) => {
                            log::warn!("{why}");
                            return Reload::end(ctx, Some(errors::RELOAD_FAILED));
                        }
                    }
                }
                Stage::Loading(Some(loading)) => {
                    if !loading.is_over() {
                        return false;
                    }
                    let failed = loading.failure().is_some();
                    let dirty = ctx.fleet.sum(ctx.stats, |stats| stats.dirty);
                    ctx.store.loaded_at(dirty);
                    return Reload::end(ctx, failed.then_some(errors::RELOAD_FAILED));
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        0
    }

    fn must_finish(&self) -> bool {
        true
    }

    fn waits_for_others(&self) -> bool {
        matches!(self.stage, Stage::Saving(Some(_)) | Stage::Loading(Some(_)))
    }
}

/// FLUSHALL: what a save has still to show is wanted no more, and what was saved is not to come back.
pub fn before_flush_all(ctx: &mut Ctx<'_>) {
    if ctx.store.is_saving() {
        save::abandon(&mut ctx.db, ctx.store);
    }
    if !ctx.config.save_points.is_empty() {
        ctx.store.schedule(true);
    }
}
