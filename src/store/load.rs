//! Loading a file: a thread reads and decodes it, the workers insert what comes out of it, in slices.
//!
//! ```text
//!  file ─▶ loader thread ─▶ inbox, bounded ─┬▶ records, some tens of KiB ─▶ whichever worker comes first
//!                                           └▶ a large value ─▶ one worker, to which its pieces come one after the other
//! ```
//! Nobody reads or writes the keyspace meanwhile (`flag::LOADING`), so the order in which keys come into it does not matter. All that waits is
//! bounded; the loader waits for room, a worker that finds nothing does something else.

mod commands;
mod intake;

use super::records::{self, Record, Value};
use super::state::{Store, flag};
use crate::base::{int, rng};
use crate::db::Type;
use crate::persist::rdb::Kind;
use crate::persist::rdb::file::{CLIENT_FLAGS, Content, Error, Event, Head, Part, Reader, Skipped};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use commands::Commands;
pub use intake::{Intake, Progress};

/// Records that are handed over together.
const BATCH_BYTES: usize = 64 << 10;
/// Records that wait for workers, at most, and pieces of a large value.
const INBOX_BYTES: usize = 4 << 20;
const PIECES_BYTES: usize = 1 << 20;
/// How often the log tells how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// What has to be known of the settings.
#[derive(Clone)]
pub struct Plan {
    /// The snapshot; of a log, what it is called.
    pub path: PathBuf,
    /// A log instead: its files, in order.
    pub log: Option<LogPlan>,
    pub databases: u32,
    /// Longest string.
    pub max_bytes: u64,
    /// The keyspace was empty: a key that comes twice is noticed.
    pub into_empty: bool,
    /// Unix seconds.
    pub now_s: u64,
}

/// What has to be known to load a log.
#[derive(Clone)]
pub struct LogPlan {
    pub files: Vec<PathBuf>,
    /// The last file may end in the midst of a command: that is cut off (`aof-load-truncated`).
    pub cuts_off: bool,
    /// Is there a command of this name?
    pub known: fn(&[u8]) -> bool,
}

/// Something to insert.
enum Work {
    Records(Vec<u8>),
    Large(Arc<Large>),
}

/// A large value on its way: its record without the value, then pieces.
struct Large {
    head: Vec<u8>,
    pieces: Mutex<Pieces>,
    room: Condvar,
}

#[derive(Default)]
struct Pieces {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    complete: bool,
}

#[derive(Default)]
struct Inbox {
    waiting: VecDeque<Work>,
    bytes: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A load that goes on, or has ended.
pub struct Loading {
    plan: Plan,
    began: Instant,
    total_bytes: u64,
    read_bytes: AtomicU64,
    inbox: Mutex<Inbox>,
    room: Condvar,
    /// Handed over and not inserted yet.
    outstanding: AtomicUsize,
    /// The loader has come to its end.
    is_read: AtomicBool,
    /// Somebody has seen to the end.
    is_over: AtomicBool,
    given_up: AtomicBool,
    /// Commands of a log, for the first worker, in order; those behind them were not read yet.
    commands: Mutex<commands::Waiting>,
    commands_room: Condvar,
    keys: AtomicU64,
    expired: AtomicU64,
    /// Memory that the data took where the file was written, as it says.
    used_there_bytes: AtomicU64,
    failure: Mutex<Option<String>>,
}

/// Why a load ends early.
enum Stop {
    Failed(String),
    /// Nobody takes what is read any more.
    GivenUp,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error.to_string())
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        Stop::Failed(error.to_string())
    }
}

impl Loading {
    /// Begins to load a file. `None`: there is none.
    ///
    /// # Errors
    /// If it cannot be opened, or the thread not be started; says so.
    pub fn start(store: &Arc<Store>, plan: Plan) -> Result<Option<Arc<Loading>>, String> {
        let told = |error: std::io::Error| format!("cannot load {}: {error}", plan.path.display());
        let (mut file, mut total_bytes) = (None, 0);
        match &plan.log {
            None => match File::open(&plan.path) {
                Ok(opened) => {
                    total_bytes = opened.metadata().map_err(told)?.len();
                    file = Some(opened);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(told(error)),
            },
            Some(log) => {
                for path in &log.files {
                    let told = |error: std::io::Error| format!("cannot load {}: {error}", path.display());
                    total_bytes += std::fs::metadata(path).map_err(told)?.len();
                }
            }
        }
        let loading = Arc::new(Loading {
            began: Instant::now(),
            total_bytes,
            read_bytes: AtomicU64::new(0),
            inbox: Mutex::default(),
            room: Condvar::new(),
            outstanding: AtomicUsize::new(0),
            is_read: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            commands: Mutex::default(),
            commands_room: Condvar::new(),
            keys: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            used_there_bytes: AtomicU64::new(0),
            failure: Mutex::new(None),
            plan: plan.clone(),
        });
        log::info!("Loading {}, {total_bytes} bytes", plan.path.display());
        store.begin_load(Arc::clone(&loading));
        let shared = Arc::clone(&loading);
        let run = move || {
            let read = match (file, &shared.plan.log) {
                (Some(file), _) => {
                    let read = shared.read(file, &shared.plan.path, 0, &mut Vec::new());
                    read.map(|_| ())
                }
                (None, Some(log)) => shared.read_log(log),
                (None, None) => Ok(()),
            };
            if let Err(Stop::Failed(why)) = read {
                shared.fail(why);
            }
            shared.is_read.store(true, Ordering::Release);
        };
        std::thread::Builder::new().name("rdb loader".into()).spawn(run).map_err(|error| {
            store.end_load();
            format!("cannot start a thread to load: {error}")
        })?;
        Ok(Some(loading))
    }

    #[must_use]
    pub fn began_s(&self) -> u64 {
        self.plan.now_s
    }

    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn used_there_bytes(&self) -> u64 {
        self.used_there_bytes.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn time(&self) -> Duration {
        self.began.elapsed()
    }

    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// Keys that were left out, as their deadlines had passed.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Has all of it been inserted, or was it given up?
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    fn fail(&self, why: String) {
        lock(&self.failure).get_or_insert(why);
        self.given_up.store(true, Ordering::Release);
        self.room.notify_all();
    }

    // ---- the loader's side ----

    /// Reads a snapshot, of which `before` bytes of other files are counted already; where it ends. What of `file` was read and does not belong to
    /// it is left in `behind`.
    fn read(&self, mut file: File, path: &Path, before: u64, behind: &mut Vec<u8>) -> Result<u64, Stop> {
        self.read_snapshot(&mut file, before, behind).map_err(|stop| match stop {
            Stop::Failed(why) => Stop::Failed(format!("{}: {why}", path.display())),
            Stop::GivenUp => Stop::GivenUp,
        })
    }

    fn read_snapshot(&self, file: &mut File, before: u64, behind: &mut Vec<u8>) -> Result<u64, Stop> {
        let mut reader = Reader::new(self.plan.max_bytes, rng::entropy());
        let mut batch = Vec::with_capacity(2 * BATCH_BYTES);
        let (mut database, mut client_flags, mut told) = (0, 0, Instant::now());
        let mut large: Option<Arc<Large>> = None;
        loop {
            let event = reader.next();
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    return Err(Stop::Failed(format!("{error} (at byte {})", reader.offset())));
                }
            };
            match event {
                Event::Hungry => {
                    let read = file.read(reader.room())?;
                    reader.filled(read);
                    let bytes = reader.offset() + reader.behind().len() as u64;
                    self.read_bytes.store(before + bytes, Ordering::Relaxed);
                    if told.elapsed() >= PROGRESS_EVERY {
                        told = Instant::now();
                        log::info!("Loading: {} of {} bytes, {} keys", reader.offset(), self.total_bytes, self.keys());
                    }
                }
                Event::Aux { name: CLIENT_FLAGS, value } => {
                    let flags = int::parse_u64(value).and_then(|flags| u32::try_from(flags).ok());
                    client_flags = flags.ok_or(Error::Malformed)?;
                }
                Event::Aux { name, value } => {
                    if name == b"used-mem" {
                        self.used_there_bytes.store(int::parse_u64(value).unwrap_or(0), Ordering::Relaxed);
                    }
                    tell_aux(name, value);
                }
                Event::Database(number) => {
                    database = u32::try_from(number).ok().filter(|n| *n < self.plan.databases).ok_or_else(|| {
                        Stop::Failed(format!("it has a database {number}, and there are {} here", self.plan.databases))
                    })?;
                }
                Event::Sizes { .. } => {}
                Event::Skipped(what) => tell_skipped(what),
                Event::Empty(head) => {
                    client_flags = 0;
                    log::warn!("Empty key skipped: {}", quoted(head.key));
                }
                Event::Value(head, content, Part::Last) => {
                    let client_flags = std::mem::take(&mut client_flags);
                    records::put(&Record { client_flags, ..record(database, &head, content) }, &mut batch);
                    if batch.len() >= BATCH_BYTES {
                        self.hand_over(Work::Records(std::mem::replace(
                            &mut batch,
                            Vec::with_capacity(2 * BATCH_BYTES),
                        )))?;
                    }
                }
                Event::Value(head, content, Part::Unfinished) => {
                    let client_flags = std::mem::take(&mut client_flags);
                    let mut record_of = Record { client_flags, ..record(database, &head, content) };
                    let piece = bytes_of(content);
                    match &mut record_of.value {
                        Value::Raw(bytes) => *bytes = b"",
                        Value::Run { run, .. } => *run = b"",
                        Value::Int(_) => {}
                    }
                    let mut of = Vec::new();
                    records::put(&record_of, &mut of);
                    let begun = Arc::new(Large { head: of, pieces: Mutex::default(), room: Condvar::new() });
                    self.hand_over(Work::Large(Arc::clone(&begun)))?;
                    self.hand_piece(&begun, piece, false)?;
                    large = Some(begun);
                }
                Event::More(content, part) => {
                    if let Some(begun) = &large {
                        self.hand_piece(begun, bytes_of(content), part == Part::Last)?;
                    }
                }
                Event::End => {
                    self.hand_over(Work::Records(batch))?;
                    behind.extend_from_slice(reader.behind());
                    return Ok(reader.offset());
                }
            }
        }
    }

    fn hand_over(&self, work: Work) -> Result<(), Stop> {
        let bytes = if let Work::Records(bytes) = &work { bytes.len() } else { 0 };
        let mut inbox = lock(&self.inbox);
        while inbox.bytes > INBOX_BYTES {
            if self.given_up.load(Ordering::Acquire) {
                return Err(Stop::GivenUp);
            }
            inbox = self.room.wait_timeout(inbox, Duration::from_millis(100)).unwrap_or_else(PoisonError::into_inner).0;
        }
        inbox.bytes += bytes;
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        inbox.waiting.push_back(work);
        Ok(())
    }

    fn hand_piece(&self, large: &Large, piece: &[u8], last: bool) -> Result<(), Stop> {
        let mut pieces = lock(&large.pieces);
        while pieces.bytes > PIECES_BYTES {
            if self.given_up.load(Ordering::Acquire) {
                return Err(Stop::GivenUp);
            }
            pieces =
                large.room.wait_timeout(pieces, Duration::from_millis(100)).unwrap_or_else(PoisonError::into_inner).0;
        }
        pieces.bytes += piece.len();
        pieces.waiting.push_back(piece.to_vec());
        pieces.complete = last;
        Ok(())
    }

    // ---- the workers' side ----

    fn take(&self) -> Option<Work> {
        let mut inbox = lock(&self.inbox);
        let work = inbox.waiting.pop_front()?;
        if let Work::Records(bytes) = &work {
            inbox.bytes -= bytes.len();
        }
        self.room.notify_one();
        Some(work)
    }

    fn is_done(&self) -> bool {
        self.is_read.load(Ordering::Acquire)
            && (self.outstanding.load(Ordering::Acquire) == 0 || self.given_up.load(Ordering::Acquire))
    }
}

fn bytes_of(content: Content<'_>) -> &[u8] {
    match content {
        Content::Int(_) => b"",
        Content::Bytes(bytes) | Content::Run(_, bytes) => bytes,
    }
}

fn record<'a>(database: u32, head: &Head<'a>, content: Content<'a>) -> Record<'a> {
    let value = match content {
        Content::Int(number) => Value::Int(number),
        Content::Bytes(bytes) => Value::Raw(bytes),
        Content::Run(kind, run) => {
            let kind = match kind {
                Kind::List => Type::List,
                Kind::Set => Type::Set,
                Kind::Zset => Type::Zset,
                Kind::Hash => Type::Hash,
            };
            Value::Run { kind, timed: false, count: 0, run }
        }
    };
    Record {
        database,
        key: head.key,
        deadline_ms: head.deadline_ms,
        idle_seconds: head.idle_seconds,
        client_flags: 0,
        value,
    }
}

fn quoted(key: &[u8]) -> String {
    String::from_utf8_lossy(&crate::base::quote::quote(key)).into_owned()
}

fn tell_aux(name: &[u8], value: &[u8]) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
    match name {
        b"redis-ver" | b"valkey-ver" | b"dolmen-ver" => {
            log::info!("The file was written by {} {}", text(&name[..name.len() - 4]), text(value));
        }
        b"ctime" => log::debug!("It was written at Unix time {}", text(value)),
        b"used-mem" => log::info!("Its data took {} bytes of memory there", text(value)),
        b"lua" => log::warn!("A script of the file was skipped"),
        _ => log::debug!("Field of the file: {} = {}", text(name), text(value)),
    }
}

fn tell_skipped(what: Skipped) {
    match what {
        Skipped::Functions => log::warn!("A library of functions was skipped: there are none here"),
        Skipped::ModuleAux(_) => log::warn!("Data of a module was skipped: there are none here"),
        Skipped::SlotImport => log::warn!("The import of a slot was skipped: this is no cluster"),
    }
}

/// Begins to load the file that a server starts with; others get an error until it is there.
///
/// # Errors
/// As of [`Loading::start`].
pub fn at_start(store: &Arc<Store>, plan: Plan) -> Result<(), String> {
    store.set_flag(flag::LOADING, true);
    if Loading::start(store, plan)?.is_none() {
        store.set_flag(flag::LOADING, false);
    }
    Ok(())
}
