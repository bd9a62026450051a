//! The server's log: a backend of the `log` crate that writes Redis's line format, so that existing log tools read it.
//!
//! ```text
//! 4711:M 30 Nov 2026 09:46:37.362 * Ready to accept connections
//! pid  role      local time       mark  message
//! ```
//!
//! On demand (`syslog-enabled`) the messages go to the system's log as well.
//!
//! Owns the levels, the sinks and the limit on warnings that could repeat. Never blocks on a lock, never fails: a line that cannot be
//! written (full disk, closed pipe) is dropped.
//!
//! Invariants: a record is one line (control characters are escaped) of at most [`LINE_BYTES_MAX`] bytes and one `write(2)`, so lines
//! of several threads or processes do not mix, neither in a file opened for appending nor in a pipe.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use jiff::ZonedDateTime;
use log::{Level, LevelFilter, Log, Metadata, Record};
use nix::errno::Errno;

/// Longest line, in bytes with its line end: what a pipe takes whole (`PIPE_BUF` of Linux).
pub const LINE_BYTES_MAX: usize = 4096;

/// Redis's `loglevel`: the least important message that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Verbose,
    Notice,
    Warning,
    Nothing,
}

impl LogLevel {
    /// By discriminant.
    pub const ALL: [LogLevel; 5] =
        [LogLevel::Debug, LogLevel::Verbose, LogLevel::Notice, LogLevel::Warning, LogLevel::Nothing];
    /// As `redis.conf` names them, in the order of [`LogLevel::ALL`].
    pub const NAMES: [&'static str; 5] = ["debug", "verbose", "notice", "warning", "nothing"];

    /// Redis's four levels are the upper four of the `log` crate: `warn!` is a warning, `info!` a notice, `debug!` verbose and
    /// `trace!` debug; `error!` is a warning too.
    pub fn filter(self) -> LevelFilter {
        match self {
            LogLevel::Debug => LevelFilter::Trace,
            LogLevel::Verbose => LevelFilter::Debug,
            LogLevel::Notice => LevelFilter::Info,
            LogLevel::Warning => LevelFilter::Warn,
            LogLevel::Nothing => LevelFilter::Off,
        }
    }
}

/// Names of facilities of the system's log, in the order of [`Facility::position`].
pub const FACILITIES: [&str; 9] =
    ["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"];

/// A facility of the system's log, by its number there (RFC 5424, 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facility(u8);

const FACILITY_USER: u8 = 1;
const FACILITY_LOCAL0: u8 = 16;

impl Facility {
    /// The one whose name is at `position` in [`FACILITIES`].
    #[must_use]
    pub fn at(position: usize) -> Facility {
        match u8::try_from(position) {
            Ok(position @ 1..=8) => Facility(FACILITY_LOCAL0 + position - 1),
            _ => Facility(FACILITY_USER),
        }
    }

    #[must_use]
    pub fn position(self) -> usize {
        if self.0 == FACILITY_USER { 0 } else { usize::from(self.0 - FACILITY_LOCAL0) + 1 }
    }
}

impl Default for Facility {
    fn default() -> Facility {
        Facility(FACILITY_LOCAL0)
    }
}

/// Where the system's log takes messages, a datagram each.
const SYSTEM_LOG: &str = "/dev/log";

/// The way to the system's log.
pub struct SystemLog {
    /// `None`: the system gives us no socket.
    socket: Option<UnixDatagram>,
    path: PathBuf,
    ident: String,
    facility: Facility,
}

impl SystemLog {
    #[must_use]
    pub fn new(ident: &[u8], facility: Facility) -> SystemLog {
        SystemLog::at(SYSTEM_LOG.into(), ident, facility)
    }

    fn at(path: PathBuf, ident: &[u8], facility: Facility) -> SystemLog {
        // Who reads the log may be slow or not there yet: the message is lost then, and the server goes on.
        let socket = UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)).ok();
        SystemLog { socket, path, ident: String::from_utf8_lossy(ident).into_owned(), facility }
    }

    fn write(&self, pid: u32, level: Level, message: &str) {
        let severity = match level {
            Level::Error | Level::Warn => 4,
            Level::Info => 5,
            Level::Debug => 6,
            Level::Trace => 7,
        };
        if let Some(socket) = &self.socket {
            let priority = u32::from(self.facility.0) << 3 | severity;
            let _ = socket.send_to(format!("<{priority}>{}[{pid}]: {message}", self.ident).as_bytes(), &self.path);
        }
    }
}

/// Redis's mark of a level.
fn mark(level: Level) -> char {
    match level {
        Level::Error | Level::Warn => '#',
        Level::Info => '*',
        Level::Debug => '-',
        Level::Trace => '.',
    }
}

/// Starts logging, once a process: to `logfile` (appended to, created if missing), else to standard output.
///
/// Call after the change to `dir`: a relative `logfile` is meant relative to it.
pub fn init(level: LogLevel, logfile: Option<&Path>, system: Option<SystemLog>) -> io::Result<()> {
    let sink = Sink { system, ..Sink::open(logfile)? };
    log::set_boxed_logger(Box::new(sink)).map_err(io::Error::other)?;
    set_level(level);
    Ok(())
}

/// Changes the level at run time.
pub fn set_level(level: LogLevel) {
    log::set_max_level(level.filter());
}

struct Sink {
    /// `None` = standard output.
    file: Option<File>,
    system: Option<SystemLog>,
    pid: u32,
}

impl Sink {
    fn open(logfile: Option<&Path>) -> io::Result<Sink> {
        let file = match logfile {
            Some(path) => Some(OpenOptions::new().append(true).create(true).open(path)?),
            None => None,
        };
        Ok(Sink { file, system: None, pid: std::process::id() })
    }

    /// One `write(2)`; tried again only if a signal came before the first byte.
    fn write(&self, line: &[u8]) {
        loop {
            let wrote = match &self.file {
                Some(file) => nix::unistd::write(file, line),
                None => nix::unistd::write(io::stdout(), line),
            };
            if wrote != Err(Errno::EINTR) {
                return;
            }
        }
    }
}

impl Log for Sink {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let message = record.args().to_string();
            self.write(line(self.pid, &ZonedDateTime::now(), record.level(), &message).as_bytes());
            if let Some(system) = &self.system {
                system.write(self.pid, record.level(), &message);
            }
        }
    }

    fn flush(&self) {}
}

/// One line with its end, at most [`LINE_BYTES_MAX`] bytes.
fn line(pid: u32, now: &ZonedDateTime, level: Level, message: &str) -> String {
    let mut line = String::with_capacity(64 + message.len().min(LINE_BYTES_MAX));
    let time = now.strftime("%d %b %Y %H:%M:%S.%3f");
    // Writing to a String fails only if a Display does; a time that cannot be printed leaves a gap, not a panic.
    let _ = write!(line, "{pid}:M {time} {} ", mark(level));
    for c in message.chars() {
        if line.len() + ESCAPED_BYTES_MAX >= LINE_BYTES_MAX {
            break;
        }
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    line
}

/// Longest form of one character in a line: `\u{9f}`, the last control character, is 6.
const ESCAPED_BYTES_MAX: usize = 6;

/// Lets one event a second through, and counts what it held back. For one call site: see [`warn_limited!`](crate::warn_limited).
pub struct RateLimit {
    /// Earliest moment of the next event, in ms since [`uptime_ms`] began.
    open_at_ms: AtomicU64,
    held_back: AtomicU32,
}

/// Least distance between two events of one [`RateLimit`].
const INTERVAL_MS: u64 = 1000;

impl RateLimit {
    #[expect(clippy::new_without_default, reason = "made for statics, which need a const fn")]
    pub const fn new() -> RateLimit {
        RateLimit { open_at_ms: AtomicU64::new(0), held_back: AtomicU32::new(0) }
    }

    /// Asks for one event now: `Some(number held back since the last)` if it may happen.
    pub fn admit(&self) -> Option<u32> {
        self.admit_at(uptime_ms())
    }

    /// Relaxed order is enough: one winner of the exchange per interval, and a count that may be short by a race is still honest to
    /// within the events of that race.
    fn admit_at(&self, now_ms: u64) -> Option<u32> {
        let open_at_ms = self.open_at_ms.load(Ordering::Relaxed);
        let won = now_ms >= open_at_ms
            && self
                .open_at_ms
                .compare_exchange(open_at_ms, now_ms + INTERVAL_MS, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if won {
            return Some(self.held_back.swap(0, Ordering::Relaxed));
        }
        self.held_back.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Milliseconds since the first call.
fn uptime_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX - INTERVAL_MS)
}

/// Like `log::warn!`, but at most once a second per call site; the next line tells how many were left out.
#[macro_export]
macro_rules! warn_limited {
    ($($arg:tt)+) => {{
        static LIMIT: $crate::base::log::RateLimit = $crate::base::log::RateLimit::new();
        match LIMIT.admit() {
            Some(0) => ::log::warn!($($arg)+),
            Some(held_back) => ::log::warn!("{} ({held_back} more like this were not logged)", format_args!($($arg)+)),
            None => {}
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    fn at(tz: &str, ms: i64) -> ZonedDateTime {
        Timestamp::from_millisecond(ms).unwrap().to_zoned_datetime(TimeZone::posix(tz).unwrap())
    }

    #[test]
    fn the_systems_log_gets_what_we_log() {
        let path = std::env::temp_dir().join(format!("dolmen-log-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let early = SystemLog::at(path.clone(), b"early", Facility::default());
        // Nobody reads yet: the message is lost.
        early.write(7, Level::Warn, "lost");
        let reader = UnixDatagram::bind(&path).unwrap();
        early.write(7, Level::Warn, "the first");
        SystemLog::at(path.clone(), b"dolmen", Facility::at(0)).write(4711, Level::Trace, "two\nlines");
        for (position, level, priority) in [(1, Level::Error, 132), (8, Level::Info, 189), (3, Level::Debug, 150)] {
            let log = SystemLog::at(path.clone(), b"x", Facility::at(position));
            log.write(1, level, &priority.to_string());
        }
        let read = || {
            let mut bytes = [0; 100];
            let length = reader.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..length].to_vec()).unwrap()
        };
        assert_eq!(read(), "<132>early[7]: the first");
        assert_eq!(read(), "<15>dolmen[4711]: two\nlines");
        for priority in [132, 189, 150] {
            assert_eq!(read(), format!("<{priority}>x[1]: {priority}"));
        }
        std::fs::remove_file(&path).unwrap();
        for position in 0..FACILITIES.len() {
            assert_eq!(Facility::at(position).position(), position);
        }
    }

    #[test]
    fn lines_are_those_of_redis() {
        // What redis-server 7.0.15 printed at this moment: "10341:M 30 Nov 2026 09:46:37.362 # User requested shutdown..."
        let now = at("UTC0", 1_796_031_997_362);
        assert_eq!(
            line(10341, &now, Level::Warn, "User requested shutdown..."),
            "10341:M 30 Nov 2026 09:46:37.362 # User requested shutdown...\n"
        );
        let berlin = at("CET-1CEST,M3.5.0,M10.5.0/3", 1_783_000_000_007);
        assert_eq!(line(1, &berlin, Level::Info, "x"), "1:M 02 Jul 2026 15:46:40.007 * x\n");
        assert_eq!(line(1, &berlin, Level::Debug, ""), "1:M 02 Jul 2026 15:46:40.007 - \n");
        assert_eq!(line(1, &berlin, Level::Trace, "é"), "1:M 02 Jul 2026 15:46:40.007 . é\n");
        assert!(line(1, &berlin, Level::Error, "x").ends_with(" # x\n"));
    }

    #[test]
    fn a_record_is_one_line_of_bounded_length() {
        let now = at("UTC0", 0);
        assert!(line(1, &now, Level::Warn, "a\r\nb\x1b[2J\u{9f}").ends_with(" # a\\r\\nb\\u{1b}[2J\\u{9f}\n"));
        for message in ["\u{9f}".repeat(9000), "\n".repeat(9000), "🗿".repeat(9000), "x".repeat(LINE_BYTES_MAX)] {
            let line = line(u32::MAX, &now, Level::Warn, &message);
            assert!(
                line.len() <= LINE_BYTES_MAX && line.len() > LINE_BYTES_MAX - 2 * ESCAPED_BYTES_MAX,
                "{}",
                line.len()
            );
            assert_eq!(line.matches('\n').count(), 1);
            assert!(line.ends_with('\n'));
        }
    }

    /// A directory of its own, removed at the end.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("dolmen-log-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn appends_to_the_file() {
        let scratch = Scratch::new("append");
        let path = scratch.0.join("log");
        std::fs::write(&path, "before\n").unwrap();
        for text in ["one\n", "two\n"] {
            Sink::open(Some(&path)).unwrap().write(text.as_bytes());
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\none\ntwo\n");
        let error = Sink::open(Some(&scratch.0.join("missing/log"))).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn records_pass_the_level_filter() {
        // The only test that touches the level of the process.
        let scratch = Scratch::new("level");
        let path = scratch.0.join("log");
        let sink = Sink::open(Some(&path)).unwrap();
        let levels = [Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];
        for (level, want) in LogLevel::ALL.into_iter().zip(["##*-.", "##*-", "##*", "##", ""]) {
            set_level(level);
            std::fs::write(&path, "").unwrap();
            for level in levels {
                sink.log(&Record::builder().level(level).args(format_args!("x")).build());
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let marks: String = text.lines().map(|line| line.chars().rev().nth(2).unwrap()).collect();
            assert_eq!(marks, want, "{level:?}");
        }
        set_level(LogLevel::Nothing);
    }

    #[test]
    fn a_full_disk_is_survived() {
        let sink = Sink::open(Some(Path::new("/dev/full"))).unwrap();
        assert_eq!(nix::unistd::write(sink.file.as_ref().unwrap(), b"x"), Err(Errno::ENOSPC));
        sink.write(b"lost\n");
    }

    #[test]
    fn one_event_a_second() {
        let limit = RateLimit::new();
        assert_eq!(limit.admit_at(5_000), Some(0));
        for _ in 0..3 {
            assert_eq!(limit.admit_at(5_000), None);
        }
        assert_eq!(limit.admit_at(5_999), None);
        assert_eq!(limit.admit_at(6_000), Some(4));
        assert_eq!(limit.admit_at(6_000), None);
        assert_eq!(limit.admit_at(60_000), Some(1));
        assert_eq!(limit.admit_at(61_000), Some(0));
    }

    #[test]
    fn every_call_site_has_its_own_limit() {
        for _ in 0..3 {
            warn_limited!("no logger is set in this process: {}", 1);
            warn_limited!("x");
        }
    }

    #[test]
    fn threads_share_one_admission() {
        let limit = RateLimit::new();
        let admitted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..1000).filter(|_| limit.admit_at(7).is_some()).count())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(admitted, 1);
        assert_eq!(limit.held_back.load(Ordering::Relaxed), 3999);
    }

    #[test]
    fn level_names_follow_the_discriminants() {
        for (position, level) in LogLevel::ALL.into_iter().enumerate() {
            assert_eq!(level as usize, position);
            assert_eq!(LogLevel::NAMES[position], format!("{level:?}").to_lowercase());
        }
    }
}
