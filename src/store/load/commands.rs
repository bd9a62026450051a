//! Reading a log: snapshots as ever, commands whole and in order.
//!
//! ```text
//!  file ─▶ begins with a snapshot? ─▶ its records to all workers; wait until they are inserted
//!       ─▶ scanner ─▶ whole commands and transactions ─▶ commands, bounded ─▶ the first worker runs them
//! ```

use super::intake::finish;
use super::{Loading, LogPlan, PIECES_BYTES, PROGRESS_EVERY, Stop, lock};
use crate::persist::aof::command::{Flagged, Scanner};
use crate::store::state::Store;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Whole commands to be run, and what keys have besides behind some of them.
pub struct Commands {
    pub bytes: Vec<u8>,
    pub flagged: VecDeque<Flagged>,
}

/// Those that nobody has taken yet.
#[derive(Default)]
pub(super) struct Waiting {
    waiting: VecDeque<Commands>,
    bytes: usize,
}

/// A worker runs what comes of so much in one go.
const READ_BYTES: usize = 64 << 10;

impl Loading {
    /// Is it a log that is loaded?
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.plan.log.is_some()
    }

    /// Bytes of all files, as far as they are good.
    pub(super) fn read_log(&self, log: &LogPlan) -> Result<(), Stop> {
        let mut before = 0;
        for (index, path) in log.files.iter().enumerate() {
            // An increment is named before the one before it has ended, and written when that lasts as a whole: until then it is empty.
            let is_empty = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|of| of.len() == 0);
            let is_last = log.files[index + 1..].iter().all(is_empty);
            before += self.read_file(path, log, before, is_last)?;
        }
        Ok(())
    }

    fn read_file(&self, path: &Path, log: &LogPlan, before: u64, is_last: bool) -> Result<u64, Stop> {
        let told = |why: String| Stop::Failed(format!("{}: {why}", path.display()));
        let opened = File::open(path);
        let mut file = opened.map_err(|error| Stop::Failed(format!("{} cannot be opened: {error}", path.display())))?;
        let mut magic = [0; 6];
        let mut have = 0;
        while have < magic.len() {
            match file.read(&mut magic[have..])? {
                0 => break,
                read => have += read,
            }
        }
        file.seek(SeekFrom::Start(0))?;
        let magic = &magic[..have];
        let mut behind = Vec::new();
        let mut start = 0;
        if magic.starts_with(b"REDIS") || magic.starts_with(b"VALKEY") {
            log::info!("Reading the snapshot of {}", path.display());
            let handle = file.try_clone()?;
            start = self.read(handle, path, before, &mut behind)?;
            self.wait_until_inserted()?;
        }
        let mut scanner = Scanner::new(self.plan.max_bytes);
        let mut read_bytes = start + behind.len() as u64;
        scanner.feed(&behind);
        let (mut buffer, mut progress) = (vec![0; READ_BYTES], Instant::now());
        loop {
            let mut whole = Vec::new();
            let scanned = scanner.take(&mut whole, log.known);
            self.hand_commands(whole, scanner.take_flagged().collect())?;
            scanned.map_err(|bad| told(format!("{} (at byte {})", bad.why, start + bad.offset)))?;
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            scanner.feed(&buffer[..read]);
            read_bytes += read as u64;
            self.read_bytes.store(before + read_bytes, Ordering::Relaxed);
            if progress.elapsed() >= PROGRESS_EVERY {
                progress = Instant::now();
                log::info!("Loading: {} of {} bytes", before + read_bytes, self.total_bytes);
            }
        }
        if scanner.is_cut() {
            let whole = start + scanner.whole();
            let what =
                if scanner.is_in_multi() { "in the midst of a transaction" } else { "in the midst of a command" };
            if !is_last || !log.cuts_off {
                return Err(told(format!(
                    "Unexpected end of file reading the append only file: it ends {what} (whole up to byte {whole} of {read_bytes}); {}",
                    if is_last { "with aof-load-truncated yes that would be cut off" } else { "and others follow" }
                )));
            }
            log::warn!("{} ends {what}: it is cut off behind byte {whole} of {read_bytes}", path.display());
            let file = OpenOptions::new().write(true).open(path)?;
            file.set_len(whole)?;
            file.sync_all()?;
            read_bytes = whole;
        }
        Ok(read_bytes)
    }

    fn wait_until_inserted(&self) -> Result<(), Stop> {
        while self.outstanding.load(Ordering::Acquire) > 0 {
            if self.given_up.load(Ordering::Acquire) {
                return Err(Stop::GivenUp);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn hand_commands(&self, bytes: Vec<u8>, flagged: VecDeque<Flagged>) -> Result<(), Stop> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut commands = lock(&self.commands);
        while commands.bytes > PIECES_BYTES {
            if self.given_up.load(Ordering::Acquire) {
                return Err(Stop::GivenUp);
            }
            let wait = Duration::from_millis(100);
            commands = self.commands_room.wait_timeout(commands, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        commands.bytes += bytes.len();
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        commands.waiting.push_back(Commands { bytes, flagged });
        Ok(())
    }

    /// The next commands. They are to be told of by `ran` when they have run.
    #[must_use]
    pub fn take_commands(&self) -> Option<Commands> {
        let mut commands = lock(&self.commands);
        let taken = commands.waiting.pop_front()?;
        commands.bytes -= taken.bytes.len();
        self.commands_room.notify_one();
        Some(taken)
    }

    pub fn ran(&self) {
        self.outstanding.fetch_sub(1, Ordering::AcqRel);
    }

    /// Commands cannot be run: the load ends.
    pub fn give_up(&self, why: String) {
        self.fail(why);
    }

    /// Is all of the log in, or was it given up?
    #[must_use]
    pub fn is_log_done(&self) -> bool {
        self.is_log() && self.is_done()
    }

    /// All of the log is in, or it was given up, and what follows was begun.
    pub fn end_log(&self, store: &Store) {
        if !self.is_over.swap(true, Ordering::AcqRel) {
            finish(store, self);
        }
    }
}
