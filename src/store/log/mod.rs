//! The append-only file: changes on their way from the workers to the disk.
//!
//! ```text
//!  worker   its batch of entries, each with its position ─ once a turn ─▶ queue ─┐
//!  worker   ...                                                                  ├─▶ log thread: merges by position ─▶ write ─▶ fsync
//!  worker   ...                                                                  ┘                                       │
//!  workers  send replies that wait for a position  ◀── durable ──────────────────────────────────────────────────────────┘
//! ```
//! Positions are without gaps (`db::journal`), so what comes next is at the front of one of the queues, or will be. No worker waits for the disk: one
//! that has written more than the thread could get rid of ([`LAG_BYTES`]) has those who write wait (`flag::LAGGING`).
//!
//! **Cut.** A rewrite begins a new increment at a position, with all shards locked ([`Log::cut`]); its base file has all that came before.

pub mod disk;
pub mod files;
mod merge;
#[cfg(test)]
mod tests;
mod thread;

use super::state::{Store, flag};
pub use crate::base::fsync::Fsync;
use crate::persist::aof::manifest::Entry as File;
use disk::Appended;
use dolmen_slab::BlobRef;
use files::Files;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that wait for the log thread, from which on those who write wait; they go on below half of it.
pub const LAG_BYTES: u64 = 64 << 20;

/// One change, or those of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub position: u64,
    /// The database that its first command is for, and that which is selected behind it; [`Entry::NOTHING`]: it has no commands.
    pub from: u32,
    pub to: u32,
    /// Where it ends in the bytes of its batch; it begins where the one before it ends.
    pub end: usize,
}

impl Entry {
    pub const NOTHING: u32 = u32::MAX;
}

/// What a worker has to log, in the order of the positions.
#[derive(Default)]
pub struct Batch {
    pub bytes: Vec<u8>,
    pub entries: Vec<Entry>,
    /// Large values that stand before a byte of `bytes`.
    pub values: VecDeque<(usize, BlobRef)>,
}

/// Spare batches that are kept have no more memory than this, and there are so many for each worker.
const SPARE_BYTES: usize = 1 << 20;
const SPARE_MAX: usize = 2;

impl Batch {
    /// The same memory without what is in it, unless it is very much.
    fn emptied(mut self) -> Option<Batch> {
        self.bytes.clear();
        self.entries.clear();
        self.values.clear();
        (self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>() <= SPARE_BYTES).then_some(self)
    }

    fn weight(&self) -> u64 {
        let values: usize = self.values.iter().map(|(_, value)| value.len()).sum();
        (self.bytes.len() + values) as u64
    }
}

/// What the settings say of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    pub fsync: Fsync,
    /// `no-appendfsync-on-rewrite`.
    pub lazy_while_saving: bool,
    /// `aof-timestamp-enabled`.
    pub timestamps: bool,
}

/// To be done between two positions.
enum Order {
    /// From here on entries go to this file.
    Switch(Box<dyn Appended>),
    /// That was all.
    Close,
}

#[derive(Default)]
struct Queues {
    /// By worker.
    of: Vec<VecDeque<Batch>>,
    orders: VecDeque<(u64, Order)>,
    /// Somebody waits for what was written to last.
    sync: bool,
    /// The thread waits for something to do.
    waits: bool,
    /// Batches that were written, for their memory.
    spare: Vec<Batch>,
}

/// What INFO tells, and the rewrite that goes on.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Bytes of the files, and of those at the end of the last rewrite, or at the start.
    pub size: u64,
    pub base_size: u64,
    pub last_write_failed: bool,
    pub fsync_failed: bool,
    pub delayed_fsyncs: u64,
    pub rewrites: u64,
    pub rewrite_failures: u64,
    pub last_rewrite_failed: bool,
    pub last_rewrite_time: Option<Duration>,
    pub rewrite_began: Option<Instant>,
    pub scheduled: bool,
    pub last_kept_bytes: u64,
    /// The files are not complete until a first rewrite has ended (CONFIG SET appendonly yes).
    pub unfinished: bool,
    /// When a rewrite was tried last.
    pub tried: Option<Instant>,
}

/// The rewrite that goes on.
struct Rewrite {
    base: File,
    /// The first increment behind it.
    first: File,
}

/// See the module.
#[derive(Default)]
pub struct Log {
    /// Changes are logged. Changes under the locks of all shards.
    on: AtomicBool,
    settings: [AtomicU8; 3],
    queues: Mutex<Queues>,
    changed: Condvar,
    pending_bytes: AtomicU64,
    /// All positions before this one were handed over, or will be.
    handed: AtomicU64,
    /// All before this position was handed to the system, and lasts.
    written: AtomicU64,
    durable: AtomicU64,
    closed: Mutex<bool>,
    ended: Condvar,
    files: Mutex<Option<Files>>,
    rewrite: Mutex<Option<Rewrite>>,
    /// The next increment, made for a rewrite that will begin.
    prepared: Mutex<Option<(Box<dyn Appended>, File)>>,
    is_prepared: AtomicBool,
    prepares: AtomicBool,
    /// Clients that wait until something lasts: positions, workers, clients.
    waiters: Mutex<Vec<(u64, usize, u64)>>,
    status: Mutex<Status>,
    ring: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Why a rewrite ended that FLUSHALL, or the end of the server, has stopped.
pub(super) const GIVEN_UP: &str = "it was given up";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    // ---- what workers look at ----

    /// Are changes logged?
    #[inline(always)]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Do replies wait until what they tell of lasts?
    #[inline]
    #[must_use]
    pub fn is_always(&self) -> bool {
        self.settings().fsync == Fsync::Always
    }

    #[must_use]
    pub fn settings(&self) -> Settings {
        let of = |place: usize| self.settings[place].load(Ordering::Acquire);
        Settings { fsync: Fsync::of(of(0)), lazy_while_saving: of(1) != 0, timestamps: of(2) != 0 }
    }

    pub fn set(&self, settings: Settings) {
        self.settings[0].store(settings.fsync as u8, Ordering::Release);
        self.settings[1].store(u8::from(settings.lazy_while_saving), Ordering::Release);
        self.settings[2].store(u8::from(settings.timestamps), Ordering::Release);
        self.changed.notify_one();
    }

    /// All before this position lasts.
    #[inline]
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// All before this position was handed to the system.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Bytes that wait for the log thread.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    pub fn with_status<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        change(&mut lock(&self.status))
    }

    /// `ring` wakes all workers.
    pub fn on_progress(&self, ring: impl Fn() + Send + Sync + 'static) {
        let _ = self.ring.set(Box::new(ring));
    }

    fn ring(&self) {
        if let Some(ring) = self.ring.get() {
            ring();
        }
    }

    // ---- what workers do ----

    /// Hands over what a worker has logged; an empty batch for what it logs next.
    #[must_use]
    pub fn push(&self, store: &Store, worker: usize, batch: Batch) -> Batch {
        if batch.entries.is_empty() {
            return batch;
        }
        let weight = batch.weight();
        let behind = batch.entries.last().map_or(0, |entry| entry.position + 1);
        self.handed.fetch_max(behind, Ordering::AcqRel);
        let pending = self.pending_bytes.fetch_add(weight, Ordering::AcqRel) + weight;
        let mut queues = lock(&self.queues);
        queues.of[worker].push_back(batch);
        let (waits, spare) = (queues.waits, queues.spare.pop());
        drop(queues);
        if waits {
            self.changed.notify_one();
        }
        if pending > LAG_BYTES {
            store.set_flag(flag::LAGGING, true);
            // It may have got rid of all of it meanwhile.
            self.unlag(store);
        }
        spare.unwrap_or_default()
    }

    fn unlag(&self, store: &Store) {
        if self.pending_bytes() < LAG_BYTES / 2 && store.flags() & flag::LAGGING != 0 {
            store.set_flag(flag::LAGGING, false);
            self.ring();
        }
    }

    /// Has all that was written so far last soon, whatever the settings say.
    pub fn ask_sync(&self) {
        lock(&self.queues).sync = true;
        self.changed.notify_one();
    }

    // ---- beginning and ending ----

    /// These are its files.
    pub fn set_files(&self, files: Files) {
        *lock(&self.files) = Some(files);
    }

    /// Works on its files.
    ///
    /// # Errors
    /// If there are none, and what the work says.
    pub fn with_files<T>(&self, work: impl FnOnce(&mut Files) -> std::io::Result<T>) -> std::io::Result<T> {
        work(lock(&self.files).as_mut().ok_or(std::io::ErrorKind::NotFound)?)
    }

    /// The log begins at a position, in this file. Called with all shards locked, or while nobody else may change anything.
    ///
    /// # Errors
    /// If the thread cannot be started, or there are no files.
    pub fn begin(self: &Arc<Self>, store: &Arc<Store>, file: Box<dyn Appended>, position: u64) -> std::io::Result<()> {
        let folder = self.with_files(|files| Ok(files.folder().to_owned()))?;
        *lock(&self.queues) =
            Queues { of: (0..store.workers()).map(|_| VecDeque::new()).collect(), ..Queues::default() };
        *lock(&self.closed) = false;
        self.pending_bytes.store(0, Ordering::Release);
        self.handed.store(position, Ordering::Release);
        self.written.store(position, Ordering::Release);
        self.durable.store(position, Ordering::Release);
        let (log, store) = (Arc::clone(self), Arc::clone(store));
        let writer = thread::Writer::new(log, store, file, folder, position);
        std::thread::Builder::new().name("aof".into()).spawn(move || writer.run())?;
        self.on.store(true, Ordering::Release);
        Ok(())
    }

    /// The log ends at this position. Called with all shards locked.
    pub fn end(&self, position: u64) {
        self.on.store(false, Ordering::Release);
        lock(&self.queues).orders.push_back((position, Order::Close));
        *lock(&self.rewrite) = None;
        self.discard_prepared();
        self.changed.notify_one();
    }

    /// Has its thread come to its end? All that was logged lasts then.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *lock(&self.closed)
    }

    /// Waits until all that was logged was written and lasts, or until `most` has passed; for the end of the server, when no worker runs any more.
    pub fn finish(&self, most: Duration) -> bool {
        if !self.is_on() {
            return true;
        }
        self.end(self.handed.load(Ordering::Acquire));
        let until = Instant::now() + most;
        let mut closed = lock(&self.closed);
        while !*closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            closed = self.ended.wait_timeout(closed, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    // ---- rewriting ----

    /// Has the next increment made by another thread, for a rewrite. `named`: the manifest names it from then on.
    pub fn prepare(self: &Arc<Self>, named: bool) {
        if self.prepares.swap(true, Ordering::AcqRel) {
            return;
        }
        let log = Arc::clone(self);
        let run = move || match log.with_files(|files| files.begin_increment(named)) {
            Ok(made) => {
                *lock(&log.prepared) = Some(made);
                log.is_prepared.store(true, Ordering::Release);
                log.ring();
            }
            Err(error) => {
                log::warn!("Cannot make the next file of the append-only file: {error}");
                log.with_status(|status| {
                    (status.last_rewrite_failed, status.scheduled) = (true, false);
                    status.rewrite_failures += 1;
                    status.tried = Some(Instant::now());
                });
                log.prepares.store(false, Ordering::Release);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("aof prepare".into()).spawn(run) {
            log::warn!("Cannot start a thread for the append-only file: {error}");
            self.prepares.store(false, Ordering::Release);
        }
    }

    /// Is it made?
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.is_prepared.load(Ordering::Acquire)
    }

    /// Is it being made?
    #[must_use]
    pub fn is_preparing(&self) -> bool {
        self.prepares.load(Ordering::Acquire) && !self.is_prepared()
    }

    /// Does a rewrite begin, or go on?
    #[must_use]
    pub fn is_rewriting(&self) -> bool {
        // What was prepared for a log that is off now is none.
        self.is_on() && self.prepares.load(Ordering::Acquire) || lock(&self.status).rewrite_began.is_some()
    }

    /// What was prepared is not wanted.
    pub fn discard_prepared(&self) {
        if self.is_prepared() {
            let _ = self.take_prepared();
            self.prepares.store(false, Ordering::Release);
        }
    }

    fn take_prepared(&self) -> std::io::Result<(Box<dyn Appended>, File)> {
        self.is_prepared.store(false, Ordering::Release);
        Ok(lock(&self.prepared).take().ok_or(std::io::ErrorKind::NotFound)?)
    }

    /// A rewrite begins: from this position on entries go to the increment that was prepared. Called with all shards locked. The path of the base
    /// file to be written, `snapshot`: which is one.
    ///
    /// # Errors
    /// If none was prepared.
    pub fn cut(&self, position: u64, snapshot: bool) -> std::io::Result<std::path::PathBuf> {
        self.take_prepared()
            .and_then(|(file, first)| {
                lock(&self.queues).orders.push_back((position, Order::Switch(file)));
                self.changed.notify_one();
                self.first_base(first, snapshot)
            })
            .inspect_err(|_| self.prepares.store(false, Ordering::Release))
    }

    /// The log begins with the increment that was prepared, and a rewrite. Called with all shards locked.
    ///
    /// # Errors
    /// If none was prepared, or the thread cannot be started.
    pub fn begin_prepared(
        self: &Arc<Self>,
        store: &Arc<Store>,
        position: u64,
        snapshot: bool,
    ) -> std::io::Result<std::path::PathBuf> {
        self.take_prepared()
            .and_then(|(file, first)| {
                self.begin(store, file, position)?;
                self.first_base(first, snapshot)
            })
            .inspect_err(|_| self.prepares.store(false, Ordering::Release))
    }

    fn first_base(&self, first: File, snapshot: bool) -> std::io::Result<std::path::PathBuf> {
        let base = self.with_files(|files| {
            let base = files.next_base(snapshot);
            Ok((files.path(&base), base))
        })?;
        *lock(&self.rewrite) = Some(Rewrite { base: base.1, first });
        let mut status = lock(&self.status);
        status.rewrite_began = Some(Instant::now());
        status.tried = status.rewrite_began;
        status.scheduled = false;
        // From here on it has begun.
        self.prepares.store(false, Ordering::Release);
        Ok(base.0)
    }

    /// Reckons the sizes of its files.
    pub fn measure(&self) {
        let sizes = self.with_files(|files| {
            let paths = files.paths();
            Ok(paths.iter().filter_map(|path| Some(std::fs::metadata(path).ok()?.len())).sum())
        });
        let size = sizes.unwrap_or(0);
        self.with_status(|status| (status.size, status.base_size) = (size, size));
    }

    // ---- who waits ----

    /// Has a client woken when all before a position lasts.
    pub fn wait(&self, position: u64, worker: usize, client: u64) {
        lock(&self.waiters).push((position, worker, client));
    }

    fn has_waiters(&self) -> bool {
        !lock(&self.waiters).is_empty()
    }

    /// Clients of a worker whose position lasts, or all that wait.
    #[must_use]
    pub fn woken(&self, worker: usize, all: bool) -> Vec<u64> {
        let durable = self.durable();
        let mut waiters = lock(&self.waiters);
        let is_due = |(position, of, _): &(u64, usize, u64)| *of == worker && (all || *position <= durable);
        let woken = waiters.iter().filter(|waiter| is_due(waiter)).map(|(_, _, client)| *client).collect();
        waiters.retain(|waiter| !is_due(waiter));
        woken
    }

    /// The base file was written, or not.
    pub fn rewritten(&self, written: &Result<(), String>, kept_bytes: u64, keeps_history: bool) {
        let rewrite = lock(&self.rewrite).take();
        let mut files = lock(&self.files);
        let done = match (rewrite, files.as_mut(), written) {
            (Some(rewrite), Some(files), Ok(())) => {
                let base_path = files.path(&rewrite.base);
                files.rebase(rewrite.base, rewrite.first).map(|()| base_path).map_err(|error| error.to_string())
            }
            (_, _, Err(why)) => Err(why.clone()),
            _ => Err("the log has ended meanwhile".into()),
        };
        let mut status = lock(&self.status);
        status.last_rewrite_time = status.rewrite_began.take().map(|began| began.elapsed());
        status.last_kept_bytes = kept_bytes;
        status.last_rewrite_failed = done.is_err();
        match done {
            Ok(base_path) => {
                status.rewrites += 1;
                status.rewrite_failures = 0;
                status.unfinished = false;
                let base = std::fs::metadata(base_path).map_or(0, |of| of.len());
                let increments = files.as_ref().map_or(0, |files| {
                    let paths = files.manifest.increments.iter().map(|entry| files.path(entry));
                    paths.filter_map(|path| Some(std::fs::metadata(path).ok()?.len())).sum()
                });
                (status.size, status.base_size) = (base + increments, base + increments);
                drop(status);
                log::info!("Background AOF rewrite finished successfully");
                if !keeps_history
                    && let Some(files) = files.as_mut()
                    && let Err(error) = files.delete_history()
                {
                    log::warn!("Cannot delete what the rewrite has replaced: {error}");
                }
            }
            Err(why) => {
                status.rewrite_failures += 1;
                // What has to be, or was asked for, is tried again.
                status.scheduled |= why == GIVEN_UP && self.is_on();
                drop(status);
                log::warn!("The append-only file was not rewritten, what was there stays: {why}");
            }
        }
    }
}
