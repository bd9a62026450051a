//! The thread of the log: the only one that writes its increments, and waits for the disk.

use super::disk::Appended;
use super::merge::{Merge, Piece};
use super::{Batch, Fsync, Log, Order, SPARE_MAX, Settings, lock};
use crate::store::state::{Store, flag};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes that are written together at least, if there are so many: what a worker hands over at once is not copied then.
const WRITE_BYTES: usize = 32 << 10;
/// How often what was written is made to last.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// After an error it is tried again after so long.
const RETRY: Duration = Duration::from_secs(1);
/// Without anybody who waits for it, what comes within so long is written together.
const COLLECT: Duration = Duration::from_millis(1);

pub(super) struct Writer {
    log: Arc<Log>,
    store: Arc<Store>,
    file: Box<dyn Appended>,
    folder: PathBuf,
    merge: Merge,
    /// Of a write that did not come to its end.
    piece: Piece,
    /// Bytes of the piece, and of its value, that were written.
    done: usize,
    value_done: usize,
    /// Was something written since the last fsync, and when was that?
    dirty: bool,
    synced: Instant,
    stamp_s: u64,
    failed: bool,
}

impl Writer {
    pub fn new(log: Arc<Log>, store: Arc<Store>, file: Box<dyn Appended>, folder: PathBuf, position: u64) -> Writer {
        let merge = Merge::new(store.workers(), position);
        Writer {
            log,
            store,
            file,
            folder,
            merge,
            piece: Piece::default(),
            done: 0,
            value_done: 0,
            dirty: false,
            synced: Instant::now(),
            stamp_s: 0,
            failed: false,
        }
    }

    pub fn run(mut self) {
        loop {
            let (order_at, wants_sync) = self.wait();
            let settings = self.log.settings();
            match self.write_all(order_at.unwrap_or(u64::MAX), &settings) {
                Ok(()) => self.recovered(),
                Err(error) => {
                    if self.give_up(&settings, false, &error) {
                        return;
                    }
                    std::thread::sleep(RETRY);
                    continue;
                }
            }
            let arrived = order_at == Some(self.merge.next);
            let always = settings.fsync == Fsync::Always;
            let lazy = settings.lazy_while_saving && self.store.is_saving();
            let due = settings.fsync == Fsync::EverySecond && self.synced.elapsed() >= SYNC_EVERY;
            if self.dirty && (wants_sync || arrived || (always || due) && !lazy) {
                if let Err(error) = self.sync() {
                    if self.give_up(&settings, true, &error) {
                        return;
                    }
                    std::thread::sleep(RETRY);
                    continue;
                }
                self.log.with_status(|status| status.fsync_failed = false);
            }
            if !self.dirty || always && lazy {
                self.log.durable.store(self.merge.next, Ordering::Release);
            }
            if always || arrived || self.log.has_waiters() {
                self.log.ring();
            }
            if arrived && self.obey() {
                return;
            }
            if !always {
                std::thread::sleep(COLLECT);
            }
        }
    }

    /// Waits for something to do. The position of the first order, and whether somebody waits for an fsync.
    fn wait(&mut self) -> (Option<u64>, bool) {
        let mut queues = lock(&self.log.queues);
        let most = SPARE_MAX * queues.of.len();
        let mut spare = self.merge.used_up.drain(..).filter_map(Batch::emptied);
        while queues.spare.len() < most
            && let Some(batch) = spare.next()
        {
            queues.spare.push(batch);
        }
        drop(spare);
        loop {
            // What was taken before an order, or could not be written.
            let mut any = self.merge.is_ready() || self.failed;
            for (worker, batches) in queues.of.iter_mut().enumerate() {
                any |= !batches.is_empty();
                self.merge.add(worker, batches);
            }
            let order = queues.orders.front().map(|(position, _)| *position);
            let sync = std::mem::take(&mut queues.sync);
            let fsync = self.log.settings().fsync;
            let due = self.dirty && fsync == Fsync::EverySecond && self.synced.elapsed() >= SYNC_EVERY;
            let lazy = self.log.settings().lazy_while_saving && self.store.is_saving();
            let late = self.dirty && fsync == Fsync::Always && !lazy;
            if any || sync || due || late || order == Some(self.merge.next) {
                return (order, sync);
            }
            let wait = if self.dirty { SYNC_EVERY.saturating_sub(self.synced.elapsed()) } else { SYNC_EVERY };
            let wait = wait.max(COLLECT);
            queues.waits = true;
            queues = self.log.changed.wait_timeout(queues, wait).unwrap_or_else(PoisonError::into_inner).0;
            queues.waits = false;
        }
    }

    /// Writes all that there is before a position.
    fn write_all(&mut self, until: u64, settings: &Settings) -> io::Result<()> {
        loop {
            self.write_piece()?;
            if settings.timestamps && self.merge.next < until {
                self.stamp();
            }
            let stamped = self.piece.bytes.len();
            if !self.merge.piece(&mut self.piece, until, WRITE_BYTES) {
                if stamped > 0 {
                    // Nothing came behind it.
                    self.piece = Piece::default();
                    self.stamp_s = 0;
                }
                self.log.written.store(self.merge.next, Ordering::Release);
                return Ok(());
            }
        }
    }

    /// The second, if it is another one than before.
    fn stamp(&mut self) {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        if now_s != self.stamp_s {
            self.stamp_s = now_s;
            self.piece.bytes.extend_from_slice(format!("#TS:{now_s}\r\n").as_bytes());
        }
    }

    fn write_piece(&mut self) -> io::Result<()> {
        let Writer { file, piece, done, value_done, dirty, .. } = self;
        let mut write = |bytes: &[u8], at: &mut usize, from: usize| {
            while *at < from + bytes.len() {
                match file.append(&bytes[*at - from..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        *dirty = true;
                        *at += written;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        write(&piece.bytes, done, 0)?;
        if let Some(value) = &piece.value {
            let mut from = 0;
            for index in 0..value.segments() {
                let segment = value.segment(index);
                if *value_done < from + segment.len() {
                    write(segment, value_done, from)?;
                }
                from += segment.len();
            }
        }
        let (bytes, used) = ((self.done + self.value_done) as u64, self.piece.used);
        let mut buffer = std::mem::take(&mut self.piece.bytes);
        buffer.clear();
        self.piece = Piece { bytes: buffer, ..Piece::default() };
        (self.done, self.value_done) = (0, 0);
        if used > 0 {
            self.log.pending_bytes.fetch_sub(used, Ordering::AcqRel);
            self.log.unlag(&self.store);
        }
        if bytes > 0 {
            self.log.with_status(|status| status.size += bytes);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let began = Instant::now();
        self.file.sync()?;
        self.dirty = false;
        self.synced = Instant::now();
        if began.elapsed() > SYNC_EVERY {
            self.log.with_status(|status| status.delayed_fsyncs += 1);
        }
        Ok(())
    }

    /// An error. True: the thread ends, and the server with it, as what was promised cannot be kept.
    fn give_up(&mut self, settings: &Settings, at_fsync: bool, error: &io::Error) -> bool {
        let (what, folder) = (if at_fsync { "fsync" } else { "write to" }, self.folder.display());
        if !std::mem::replace(&mut self.failed, true) {
            log::warn!("Cannot {what} the append-only file in {folder}: {error}");
        }
        self.log.with_status(|status| {
            status.last_write_failed |= !at_fsync;
            status.fsync_failed |= at_fsync;
        });
        if settings.fsync == Fsync::Always {
            self.store.fail(format!(
                "cannot {what} the append-only file in {folder} ({error}), and with appendfsync always nothing may be answered then"
            ));
            self.store.set_flag(flag::UNLOGGED, true);
            self.log.ring();
            *lock(&self.log.closed) = true;
            self.log.ended.notify_all();
            return true;
        }
        self.store.set_flag(flag::UNLOGGED, true);
        self.log.ring();
        false
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.failed) {
            log::warn!("The append-only file is written again");
            self.log.with_status(|status| (status.last_write_failed, status.fsync_failed) = (false, false));
            self.store.set_flag(flag::UNLOGGED, false);
            self.log.ring();
        }
    }

    /// Does what is to be done at this position. True: that is the end.
    fn obey(&mut self) -> bool {
        let Some((_, order)) = lock(&self.log.queues).orders.pop_front() else { return false };
        match order {
            Order::Switch(file) => {
                self.file = file;
                self.merge.new_file();
                self.stamp_s = 0;
                false
            }
            Order::Close => {
                *lock(&self.log.closed) = true;
                self.log.ended.notify_all();
                self.log.ring();
                true
            }
        }
    }
}
