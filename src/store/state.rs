//! What all workers share of saving and loading: what is going on, how the last one ended, and what follows from it for clients.

use super::load::Loading;
use super::log::Log;
use super::outbox::Outbox;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What each worker looks at once a turn.
pub mod flag {
    /// The keyspace is not complete yet.
    pub const LOADING: u16 = 1;
    /// The last save has failed.
    pub const FAILED: u16 = 2;
    /// Commands that write wait: what is kept for the save takes too much memory.
    pub const CROWDED: u16 = 4;
    /// Commands that write wait: the server is about to end.
    pub const ENDING: u16 = 8;
    /// All commands wait: the keyspace is taken from a file anew.
    pub const RELOADING: u16 = 16;
    /// Commands that write wait: more is to be logged than the disk takes.
    pub const LAGGING: u16 = 32;
    /// Changes cannot be logged at the moment.
    pub const UNLOGGED: u16 = 64;
    /// It is to be looked whether changes are logged.
    pub const LOGGED: u16 = 128;
}

/// Saves whose end is remembered for those who wait for it.
const ENDED_MAX: usize = 16;

/// What a save is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    /// BGSAVE, a save point.
    Background,
    /// Somebody waits for it: SAVE, DEBUG RELOAD, the end of the server.
    Waited,
    /// It is the base file of the log (BGREWRITEAOF).
    Base,
}

/// What has to be known of the server and its settings for a save.
pub struct Facts {
    pub job: Job,
    /// In which the file is replaced.
    pub path: PathBuf,
    pub checksum: bool,
    pub packs: bool,
    /// It is written as commands (`aof-use-rdb-preamble no`).
    pub as_commands: bool,
    pub version: &'static str,
    pub used_bytes: u64,
    /// What a rewrite has replaced stays (`aof-disable-auto-gc`).
    pub keeps_history: bool,
    pub now_s: u64,
    /// Changes so far.
    pub dirty: u64,
    /// What may be kept at most before those who write wait.
    pub kept_max_bytes: u64,
}

/// Why a save was not begun.
#[derive(Debug)]
pub enum Refused {
    Busy,
    Loading,
    NoThread(std::io::Error),
}

/// How a save ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    Done,
    Cancelled,
    Failed(String),
}

/// The save that is going on.
#[derive(Clone)]
struct Save {
    job: Job,
    began: Instant,
    dirty: u64,
    kept_max_bytes: u64,
    keys: u64,
    keeps_history: bool,
    /// Why it was given up.
    given_up: Option<Ended>,
}

/// What INFO tells of saves.
#[derive(Clone, Debug)]
pub struct SaveStats {
    /// Since when one goes on.
    pub current: Option<Duration>,
    pub in_background: bool,
    pub keys_total: u64,
    pub keys_done: u64,
    /// What is kept for it, and the most that was.
    pub kept_bytes: u64,
    pub kept_max_bytes: u64,
    pub scheduled: bool,
    /// Unix seconds.
    pub last_s: u64,
    pub last_failed: bool,
    pub last_time: Option<Duration>,
    pub last_kept_bytes: u64,
    pub saves: u64,
    /// Changes that were counted at the cut of the last save.
    pub dirty: u64,
    /// Of the last one that was tried.
    pub tried_s: u64,
}

struct State {
    save: Option<Save>,
    /// How the last few ended, by number.
    ended: Vec<(u64, Ended)>,
    stats: SaveStats,
    /// Who waits for the end of a save or load: worker and client.
    waiters: Vec<(usize, u64)>,
}

/// See the module.
pub struct Store {
    flags: AtomicU16,
    /// The number of the save that goes on, or of the last one.
    number: AtomicU64,
    saving: AtomicBool,
    given_up: AtomicBool,
    /// So many saves and loads have ended.
    endings: AtomicU64,
    keys_done: AtomicU64,
    /// By worker, what its shards keep.
    kept_bytes: Box<[AtomicU64]>,
    /// By worker, the flags as it has seen them.
    seen: Box<[AtomicU16]>,
    pub(super) outbox: Outbox,
    state: Mutex<State>,
    loading: Mutex<Option<Arc<Loading>>>,
    is_loading: AtomicBool,
    /// The append-only file.
    pub log: Arc<Log>,
    /// Why the server cannot go on.
    fatal: Mutex<Option<String>>,
}

impl Store {
    /// For so many workers; it is Unix second `now_s`.
    #[must_use]
    pub fn new(workers: usize, now_s: u64) -> Store {
        let stats = SaveStats {
            current: None,
            in_background: false,
            keys_total: 0,
            keys_done: 0,
            kept_bytes: 0,
            kept_max_bytes: 0,
            scheduled: false,
            last_s: now_s,
            last_failed: false,
            last_time: None,
            last_kept_bytes: 0,
            saves: 0,
            dirty: 0,
            tried_s: 0,
        };
        Store {
            flags: AtomicU16::new(0),
            number: AtomicU64::new(0),
            saving: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            endings: AtomicU64::new(0),
            keys_done: AtomicU64::new(0),
            seen: (0..workers).map(|_| AtomicU16::new(0)).collect(),
            kept_bytes: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            outbox: Outbox::default(),
            state: Mutex::new(State { save: None, ended: Vec::new(), stats, waiters: Vec::new() }),
            loading: Mutex::new(None),
            is_loading: AtomicBool::new(false),
            log: Arc::default(),
            fatal: Mutex::new(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn workers(&self) -> usize {
        self.kept_bytes.len()
    }

    // ---- what workers look at ----

    /// Of [`flag`].
    #[inline(always)]
    #[must_use]
    pub fn flags(&self) -> u16 {
        self.flags.load(Ordering::Relaxed)
    }

    /// A worker has seen these flags: what it runs from now on follows them.
    pub fn saw(&self, worker: usize, flags: u16) {
        self.seen[worker].store(flags, Ordering::Release);
    }

    /// Have all workers seen a flag?
    #[must_use]
    pub fn have_all_seen(&self, flag: u16) -> bool {
        self.seen.iter().all(|seen| seen.load(Ordering::Acquire) & flag != 0)
    }

    pub fn set_flag(&self, flag: u16, on: bool) {
        if on {
            self.flags.fetch_or(flag, Ordering::Release);
        } else {
            self.flags.fetch_and(!flag, Ordering::Release);
        }
    }

    /// Is a save going on?
    #[inline(always)]
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Acquire)
    }

    /// Is a file being loaded?
    #[inline(always)]
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Acquire)
    }

    /// How many saves and loads have ended.
    #[inline(always)]
    #[must_use]
    pub fn endings(&self) -> u64 {
        self.endings.load(Ordering::Acquire)
    }

    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    // ---- saves ----

    /// A save of so many keys begins, in which all workers take part. Its number.
    pub(super) fn begin(&self, facts: &Facts, keys: u64) -> Result<u64, Refused> {
        if self.is_loading() {
            return Err(Refused::Loading);
        }
        let mut state = self.state();
        if state.save.is_some() {
            return Err(Refused::Busy);
        }
        let Facts { job, dirty, kept_max_bytes, now_s, .. } = *facts;
        let keeps_history = facts.keeps_history;
        let began = Instant::now();
        state.save = Some(Save { job, began, dirty, kept_max_bytes, keys, keeps_history, given_up: None });
        state.stats.kept_max_bytes = 0;
        if job != Job::Base {
            state.stats.scheduled = false;
            state.stats.tried_s = now_s;
        }
        self.outbox.open(self.workers());
        self.keys_done.store(0, Ordering::Relaxed);
        self.given_up.store(false, Ordering::Release);
        let number = self.number.fetch_add(1, Ordering::AcqRel) + 1;
        Ok(number)
    }

    /// All shards have made the cut.
    pub(super) fn cut(&self) {
        self.saving.store(true, Ordering::Release);
    }

    /// The save that goes on is given up; true: there is one.
    pub fn give_up(&self, why: Ended) -> bool {
        let mut state = self.state();
        let Some(save) = &mut state.save else { return false };
        if save.given_up.is_none() {
            save.given_up = Some(why);
            self.given_up.store(true, Ordering::Release);
            self.outbox.give_up();
        }
        true
    }

    /// A save has ended: the writer has come to its end, and no worker goes on with it.
    pub(super) fn end(&self, written: Result<(), String>, now_s: u64) {
        let mut state = self.state();
        // It is over for others only when `close` says how it ended.
        let Some(save) = state.save.clone() else { return };
        let ended = match (save.given_up, written) {
            (Some(why), _) => why,
            (None, Ok(())) => Ended::Done,
            (None, Err(why)) => Ended::Failed(why),
        };
        let took = save.began.elapsed();
        if save.job == Job::Base {
            let written = match &ended {
                Ended::Done => Ok(()),
                Ended::Cancelled => Err(super::log::GIVEN_UP.to_owned()),
                Ended::Failed(why) => Err(why.clone()),
            };
            let kept_bytes = state.stats.kept_max_bytes;
            drop(state);
            self.log.rewritten(&written, kept_bytes, save.keeps_history);
            let ended = if self.log.status().last_rewrite_failed && ended == Ended::Done {
                Ended::Failed("the manifest could not be written".into())
            } else {
                ended
            };
            self.set_flag(flag::CROWDED, false);
            return self.close(ended);
        }
        let stats = &mut state.stats;
        stats.last_kept_bytes = stats.kept_max_bytes;
        match &ended {
            Ended::Done => {
                (stats.last_s, stats.last_failed, stats.dirty) = (now_s, false, save.dirty);
                stats.last_time = Some(took);
                stats.saves += 1;
                log::info!("DB saved on disk: {} keys, {:.3} seconds", save.keys, took.as_secs_f64());
            }
            Ended::Failed(why) => {
                stats.last_failed = true;
                stats.last_time = Some(took);
                log::warn!("Saving failed, the file that was there stays: {why}");
            }
            Ended::Cancelled => log::warn!("Saving was given up"),
        }
        self.set_flag(flag::FAILED, stats.last_failed);
        self.set_flag(flag::CROWDED, false);
        drop(state);
        self.close(ended);
    }

    /// The save is over, and who waits for it can know.
    fn close(&self, ended: Ended) {
        let mut state = self.state();
        state.save = None;
        if state.ended.len() == ENDED_MAX {
            state.ended.remove(0);
        }
        let number = self.number();
        state.ended.push((number, ended));
        self.kept_bytes.iter().for_each(|kept| kept.store(0, Ordering::Relaxed));
        self.saving.store(false, Ordering::Release);
        self.endings.fetch_add(1, Ordering::AcqRel);
    }

    /// Could not begin after all.
    pub(super) fn take_back(&self) {
        self.state().save = None;
    }

    /// How save `number` ended; `None`: it goes on.
    #[must_use]
    pub fn ended(&self, number: u64) -> Option<Ended> {
        let state = self.state();
        let known = state.ended.iter().find(|(of, _)| *of == number).map(|(_, ended)| ended.clone());
        // Whoever asks so late that it is forgotten cannot rely on it.
        known.or_else(|| (self.number() != number || state.save.is_none()).then_some(Ended::Cancelled))
    }

    /// What a worker's shards keep for the save. Those who write wait while it is too much altogether.
    pub(super) fn keeps(&self, worker: usize, bytes: u64) {
        self.kept_bytes[worker].store(bytes, Ordering::Relaxed);
        let all: u64 = self.kept_bytes.iter().map(|kept| kept.load(Ordering::Relaxed)).sum();
        let mut state = self.state();
        state.stats.kept_max_bytes = state.stats.kept_max_bytes.max(all);
        let Some(save) = &state.save else { return };
        let crowded = self.flags() & flag::CROWDED != 0;
        if all > save.kept_max_bytes && !crowded {
            self.set_flag(flag::CROWDED, true);
        } else if all < save.kept_max_bytes / 8 * 7 && crowded {
            self.set_flag(flag::CROWDED, false);
        }
    }

    pub(super) fn saved(&self, keys: u64) {
        self.keys_done.fetch_add(keys, Ordering::Relaxed);
    }

    /// A save is wanted when it is possible.
    pub fn schedule(&self, wanted: bool) -> bool {
        std::mem::replace(&mut self.state().stats.scheduled, wanted)
    }

    #[must_use]
    pub fn stats(&self) -> SaveStats {
        let state = self.state();
        let mut stats = state.stats.clone();
        stats.kept_bytes = self.kept_bytes.iter().map(|kept| kept.load(Ordering::Relaxed)).sum();
        if let Some(save) = &state.save {
            stats.current = Some(save.began.elapsed());
            stats.in_background = save.job == Job::Background;
            stats.keys_total = save.keys;
            stats.keys_done = self.keys_done.load(Ordering::Relaxed);
        }
        stats
    }

    /// What is in memory is what the file has: it was loaded, so many changes having been counted by now.
    pub fn loaded_at(&self, dirty: u64) {
        self.state().stats.dirty = dirty;
    }

    // ---- loads ----

    pub(super) fn begin_load(&self, loading: Arc<Loading>) {
        *self.loading.lock().unwrap_or_else(PoisonError::into_inner) = Some(loading);
        self.is_loading.store(true, Ordering::Release);
    }

    /// The load that goes on, or the last one.
    #[must_use]
    pub fn load(&self) -> Option<Arc<Loading>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn end_load(&self) {
        self.is_loading.store(false, Ordering::Release);
        self.endings.fetch_add(1, Ordering::AcqRel);
    }

    /// The server cannot go on.
    pub fn fail(&self, why: String) {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    /// Why the server cannot go on.
    #[must_use]
    pub fn fatal(&self) -> Option<String> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    // ---- who waits ----

    /// Has a client woken when what goes on ends.
    pub fn wait(&self, worker: usize, client: u64) {
        self.state().waiters.push((worker, client));
    }

    /// Clients of a worker that waited for what has ended.
    #[must_use]
    pub fn woken(&self, worker: usize) -> Vec<u64> {
        let mut state = self.state();
        let mine = state.waiters.iter().filter(|(of, _)| *of == worker).map(|(_, client)| *client).collect();
        state.waiters.retain(|(of, _)| *of != worker);
        mine
    }
}
