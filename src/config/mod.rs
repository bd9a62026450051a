//! Configuration of the server: one declarative table of directives, read from `redis.conf` syntax and from Redis's command line.
//!
//! Owns the names, ranges, defaults, texts and the typed [`Config`]. Does not know who uses a setting: whoever changes one at run
//! time applies it. Paths are checked here (`dir`), nothing is opened, bound or changed.
//!
//! Invariant: a [`Config`] holds only values inside the ranges of [`table::DIRECTIVES`]; every field is written through the table.

mod cli;
mod file;
mod kept;
mod log;
mod memcached;
mod memory;
mod network;
mod operator;
mod process;
mod rewrite;
mod spelling;
mod table;
mod texts;
mod value;
mod words;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

pub use log::LogConfig;
pub use network::Net;

pub use cli::{Start, StartError, parse_command_line};
pub use process::Farewell;
pub use rewrite::{replace_file, rewrite};
pub use table::{DIRECTIVES, Directive, Group, Mutability, find};
pub use value::ValueError;

use crate::base::collate::Collation;
use crate::base::cpu;
use crate::base::defrag::Defrag;
use crate::base::eviction::Settings;
use crate::base::limits::Limits;
use crate::base::log::{Facility, LogLevel};
use crate::base::notify::Classes;
use crate::base::oom;

/// Every setting, in the type its user needs. Defaults come from the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// TCP port, 0 = no TCP.
    pub port: u16,
    /// Addresses to listen on; empty = no TCP.
    pub bind: Vec<BindAddr>,
    /// Without a password, only peers on the loopback interface are served.
    pub protected_mode: bool,
    pub unixsocket: Option<PathBuf>,
    /// Mode bits of the Unix socket, 0 = as the umask leaves them.
    pub unixsocketperm: u32,
    /// TCP port of memcached's protocol, 0 = none.
    pub memcached_port: u16,
    pub memcached_unixsocket: Option<PathBuf>,
    pub memcached_unixsocketperm: u32,
    /// The database that its clients see.
    pub memcached_database: u32,
    /// Largest item as memcached counts it.
    pub memcached_item_bytes_max: u64,
    /// Its clients may `flush_all`.
    pub memcached_flush_all: bool,
    /// Its clients may end the server.
    pub memcached_shutdown: bool,
    pub tcp_backlog: u32,
    /// Seconds between keep-alive probes, 0 = off.
    pub tcp_keepalive_s: u32,
    /// Seconds after which an idle client is closed, 0 = never.
    pub timeout_s: u32,
    pub maxclients: u32,
    pub databases: u32,
    /// Empty = no password.
    pub requirepass: Vec<u8>,
    /// Old and new names of commands, in the order in which they are to be renamed; an empty new one: it is not there.
    pub renames: Vec<[Vec<u8>; 2]>,
    /// Users, each as the words behind `user`.
    pub users: Vec<Vec<Vec<u8>>>,
    /// The file of the users, if they have one.
    pub aclfile: Option<PathBuf>,
    /// Whether a new user may listen to any channel.
    pub acl_pubsub_default: bool,
    /// Most entries of ACL LOG.
    pub acl_log_len_max: u32,
    pub proto_max_bulk_bytes: u64,
    pub client_query_buffer_bytes_max: u64,
    pub client_output_buffer_limits: OutputLimits,
    pub loglevel: LogLevel,
    /// `None` = standard output.
    pub logfile: Option<PathBuf>,
    /// Absolute; the process changes to it after start.
    pub dir: PathBuf,
    /// Runs of the cron per second: time-outs, rates, the wall clock, the search for memory worth evacuating. Work that is due waits for none.
    pub hz: u32,
    /// 0 = as many as there are CPUs; see [`Config::worker_count`].
    pub workers: u32,
    /// The CPU of each worker; empty = not pinned. All of them exist.
    pub cpu_list: Vec<usize>,
    /// Redis's, kept for CONFIG GET only.
    pub io_threads: u32,
    pub io_threads_do_reads: bool,
    /// Where encodings change.
    pub limits: Limits,
    /// The order of texts for SORT with ALPHA.
    pub locale_collate: Collation,
    /// Redis's, kept for CONFIG GET only.
    pub list_compress_depth: u32,
    /// The most keys remembered for client-side caching, 0 = any number.
    pub tracking_table_keys_max: u64,
    /// Keyspace notifications.
    pub notify: Classes,
    /// Where figures are told by HTTP; port 0: nowhere.
    pub metrics_port: u16,
    pub metrics_bind: Vec<BindAddr>,
    /// The most memory to use, 0 = any.
    pub maxmemory_bytes: u64,
    /// The most that clients may hold together.
    pub maxmemory_clients: ClientsLimit,
    /// When memory is moved to give some back.
    pub defrag: Defrag,
    /// Which keys go at that limit.
    pub eviction: Settings,
    /// Redis's, kept for CONFIG GET only: a sample is what lies in a bucket of the table, and slices of work are of fixed length.
    pub maxmemory_samples: u32,
    pub maxmemory_eviction_tenacity: u32,
    /// Microseconds from which on a command is slow, negative: none is.
    pub slowlog_slower_us: i64,
    pub slowlog_len_max: u32,
    /// Milliseconds from which on LATENCY notes what has taken so long, 0 = nothing.
    pub latency_monitor_ms: u64,
    /// Whether it is kept how the times of the calls of each command are spread.
    pub latency_tracking: bool,
    /// Those that INFO tells.
    pub latency_percentiles: Vec<f64>,
    /// How the two signals end the server.
    pub on_sigint: Farewell,
    pub on_sigterm: Farewell,
    /// Whom the kernel kills first; the values are of a master, a replica, a child that saves.
    pub oom_score_adj: oom::Adjust,
    pub oom_score_values: [i32; 3],
    /// The system's log, beside ours.
    pub syslog_enabled: bool,
    pub syslog_ident: Vec<u8>,
    pub syslog_facility: Facility,
    pub pidfile: Option<PathBuf>,
    pub debug_command: Allowed,
    pub protected_configs: Allowed,
    /// How deep in included files it is being read.
    pub included: u32,
    /// Directives without effect that differ from their defaults.
    pub kept: BTreeMap<&'static str, Vec<u8>>,
    /// Microseconds a worker polls before it blocks.
    pub spin_us: u32,
    pub net: Net,
    /// Whom to become, if started as root (`dolmen memcached -u`).
    pub user: Option<String>,
    /// When a snapshot is saved by itself.
    pub save_points: SavePoints,
    /// Name of the RDB file, in `dir`.
    pub dbfilename: String,
    pub rdbcompression: bool,
    pub rdbchecksum: bool,
    pub stop_writes_on_bgsave_error: bool,
    /// Of the memory in use, what a snapshot may keep beside it before those who write wait.
    pub snapshot_buffer_percent: u32,
    /// The append-only file.
    pub log: LogConfig,
    /// Absolute path of the file this was read from.
    pub config_file: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Config {
        let mut config = Config {
            port: 0,
            bind: Vec::new(),
            protected_mode: false,
            unixsocket: None,
            unixsocketperm: 0,
            memcached_port: 0,
            memcached_unixsocket: None,
            memcached_unixsocketperm: 0,
            memcached_database: 0,
            memcached_item_bytes_max: 0,
            memcached_flush_all: false,
            memcached_shutdown: false,
            tcp_backlog: 0,
            tcp_keepalive_s: 0,
            timeout_s: 0,
            maxclients: 0,
            databases: 0,
            requirepass: Vec::new(),
            renames: Vec::new(),
            users: Vec::new(),
            aclfile: None,
            acl_pubsub_default: false,
            acl_log_len_max: 0,
            proto_max_bulk_bytes: 0,
            client_query_buffer_bytes_max: 0,
            client_output_buffer_limits: OutputLimits::default(),
            loglevel: LogLevel::Notice,
            logfile: None,
            dir: PathBuf::from("."),
            hz: 0,
            workers: 0,
            cpu_list: Vec::new(),
            io_threads: 0,
            io_threads_do_reads: false,
            limits: Limits::default(),
            locale_collate: Collation::default(),
            list_compress_depth: 0,
            tracking_table_keys_max: 0,
            notify: Classes::default(),
            metrics_port: 0,
            metrics_bind: Vec::new(),
            maxmemory_bytes: 0,
            maxmemory_clients: ClientsLimit::default(),
            defrag: Defrag::default(),
            eviction: Settings::default(),
            maxmemory_samples: 0,
            maxmemory_eviction_tenacity: 0,
            slowlog_slower_us: 0,
            slowlog_len_max: 0,
            latency_monitor_ms: 0,
            latency_tracking: false,
            latency_percentiles: Vec::new(),
            on_sigint: Farewell::default(),
            on_sigterm: Farewell::default(),
            oom_score_adj: oom::Adjust::No,
            oom_score_values: [0, 200, 800],
            syslog_enabled: false,
            syslog_ident: b"redis".to_vec(),
            syslog_facility: Facility::default(),
            pidfile: None,
            debug_command: Allowed::No,
            protected_configs: Allowed::No,
            included: 0,
            kept: BTreeMap::new(),
            spin_us: 0,
            net: Net::Epoll,
            user: None,
            save_points: SavePoints::default(),
            dbfilename: String::new(),
            rdbcompression: false,
            rdbchecksum: false,
            stop_writes_on_bgsave_error: false,
            snapshot_buffer_percent: 0,
            log: LogConfig::default(),
            config_file: None,
        };
        for directive in DIRECTIVES.iter() {
            let fits = directive.apply(&mut config, &[directive.default.as_bytes()]);
            // `dir` fails when the directory we were started in was removed meanwhile: it stays ".".
            assert!(fits.is_ok() || directive.name == "dir", "default of '{}': {fits:?}", directive.name);
        }
        config.save_points.close();
        config
    }
}

impl Config {
    /// CONFIG GET: name and value of every directive that one of `patterns` names, each once.
    ///
    /// As Redis: a pattern without `*`, `?` or `[` is looked up and answered in the spelling of the request; others are matched
    /// against names and aliases by `glob(pattern, text, nocase)`.
    pub fn get(&self, patterns: &[&[u8]], glob: fn(&[u8], &[u8], bool) -> bool) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<(String, Vec<u8>)> = Vec::new();
        let mut add = |name: &str, directive: &Directive| {
            if !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                found.push((name.to_owned(), directive.get(self)));
            }
        };
        for pattern in patterns {
            if memchr::memchr3(b'*', b'?', b'[', pattern).is_none() {
                if let (Some(directive), Ok(name)) = (find(pattern), std::str::from_utf8(pattern)) {
                    add(name, directive);
                }
                continue;
            }
            for directive in DIRECTIVES.iter() {
                for name in directive.names().filter(|name| glob(pattern, name.as_bytes(), true)) {
                    add(name, directive);
                }
            }
        }
        found
    }

    /// CONFIG SET of one directive. On success the caller applies what the returned directive governs.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<&'static Directive, SetError> {
        self.set_by(false, name, value)
    }

    fn set_by(&mut self, privileged: bool, name: &[u8], value: &[u8]) -> Result<&'static Directive, SetError> {
        let directive = settable(name, privileged)?;
        self.save_points.close();
        let applied = directive.apply(self, &[value]);
        self.save_points.close();
        applied.map_err(SetError::Value)?;
        Ok(directive)
    }

    /// CONFIG SET of several, all or none: names and values in turn. On failure says which name it is about, by its position.
    pub fn set_all(&mut self, pairs: &[[&[u8]; 2]]) -> Result<(), (usize, SetError)> {
        self.set_all_by(false, pairs)
    }

    /// The same for somebody who may, or may not, change those that are protected.
    pub fn set_all_by(&mut self, privileged: bool, pairs: &[[&[u8]; 2]]) -> Result<(), (usize, SetError)> {
        // As in Redis, all names are looked at before any value.
        let mut seen = Vec::with_capacity(pairs.len());
        for (i, [name, _]) in pairs.iter().enumerate() {
            let directive = settable(name, privileged).map_err(|error| (i, error))?;
            if seen.contains(&directive.name) {
                return Err((i, SetError::Duplicate));
            }
            seen.push(directive.name);
        }
        let mut next = self.clone();
        for (i, [name, value]) in pairs.iter().enumerate() {
            next.set_by(privileged, name, value).map_err(|error| (i, error))?;
        }
        *self = next;
        Ok(())
    }

    /// Workers to start: as configured; else as many as CPUs are listed, or in the affinity mask of the calling thread, but no more than the
    /// quota of the cgroup is worth.
    pub fn worker_count(&self) -> usize {
        match (self.workers, self.cpu_list.len()) {
            (0, 0) => cpu::usable_cpus(),
            (0, listed) => cpu::within_quota(listed),
            (workers, _) => usize::try_from(workers).unwrap_or(usize::MAX),
        }
    }

    /// The CPU of each of `workers` workers, in their order; empty if they are not to be pinned. It was tried that this process may use them.
    ///
    /// # Errors
    /// If `cpu-list` has fewer CPUs than there are workers, or one that the system refuses; says so.
    pub fn worker_cpus(&self, workers: usize) -> Result<Vec<usize>, String> {
        let listed = self.cpu_list.len();
        if listed == 0 {
            return Ok(Vec::new());
        }
        let Some(cpus) = self.cpu_list.get(..workers) else {
            let (listed_s, workers_s) = (if listed == 1 { "" } else { "s" }, if workers == 1 { "" } else { "s" });
            return Err(format!("cpu-list has {listed} CPU{listed_s} for {workers} worker{workers_s}"));
        };
        cpu::can_pin(cpus).map_err(|(cpu, error)| format!("cpu-list: this process may not use CPU {cpu}: {error}"))?;
        Ok(cpus.to_vec())
    }

    /// What a user should be told at start: settings that are accepted and do nothing here.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.io_threads > 1 || self.io_threads_do_reads {
            notes.push(
                "io-threads has no effect: all workers read, execute and write, see the directive 'workers'".into(),
            );
        }
        notes.extend(self.notes_on_kept());
        notes
    }
}

/// The directive `name`, if CONFIG SET may change it.
fn settable(name: &[u8], privileged: bool) -> Result<&'static Directive, SetError> {
    let directive = find(name).ok_or(SetError::Unknown)?;
    match directive.mutability {
        Mutability::Mutable => Ok(directive),
        Mutability::Protected if privileged => Ok(directive),
        Mutability::Protected => Err(SetError::Protected),
        Mutability::Immutable => Err(SetError::Immutable),
    }
}

/// Why CONFIG SET refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    Unknown,
    Immutable,
    /// Given twice.
    Duplicate,
    /// Redis's `enable-protected-configs no`: only a local operator may change it, at start.
    Protected,
    Value(ValueError),
}

impl SetError {
    /// Redis's error reply for `CONFIG SET name value`, without the leading `-` and line end.
    pub fn reply(&self, name: &[u8]) -> Vec<u8> {
        let (before, after) = match self {
            SetError::Unknown => ("ERR Unknown option or number of arguments for CONFIG SET - '", "'".to_owned()),
            SetError::Immutable => (REFUSED, "') - can't set immutable config".to_owned()),
            SetError::Duplicate => (REFUSED, "') - duplicate parameter".to_owned()),
            SetError::Protected => (REFUSED, "') - can't set protected config".to_owned()),
            SetError::Value(error) => (REFUSED, format!("') - {error}")),
        };
        // An error reply is one line, whatever the client sent as a name.
        let name = name.iter().map(|&b| if b == b'\r' || b == b'\n' { b' ' } else { b });
        before.bytes().chain(name).chain(after.into_bytes()).collect()
    }
}

const REFUSED: &str = "ERR CONFIG SET failed (possibly related to argument '";

/// A size in bytes as directives have it: `10mb`.
#[must_use]
pub fn memory_bytes(text: &[u8]) -> Option<u64> {
    value::memory(text).ok()
}

/// How much clients may hold together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientsLimit {
    /// 0 = any.
    Bytes(u64),
    /// Of `maxmemory`.
    Percent(u8),
}

impl Default for ClientsLimit {
    fn default() -> ClientsLimit {
        ClientsLimit::Bytes(0)
    }
}

impl Config {
    /// The most that clients may hold together, in bytes; 0 = any.
    #[must_use]
    pub fn maxmemory_clients_bytes(&self) -> u64 {
        match self.maxmemory_clients {
            ClientsLimit::Bytes(bytes) => bytes,
            ClientsLimit::Percent(percent) => {
                let bytes = u128::from(self.maxmemory_bytes) * u128::from(percent) / 100;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

/// To whom something is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowed {
    No,
    Yes,
    /// To clients of this machine.
    Local,
}

impl Allowed {
    /// Is it to a client that is of this machine, or is not?
    #[must_use]
    pub fn to(self, local: bool) -> bool {
        self == Allowed::Yes || self == Allowed::Local && local
    }
}

/// One address of `bind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindAddr {
    /// Written with a leading `-`: its absence on this machine is no error.
    pub optional: bool,
    /// An address, a name, `*` (all of IPv4) or `::*` (all of IPv6).
    pub host: String,
}

impl BindAddr {
    /// The socket address for `port`. As in Redis only a host with a colon is IPv6, a name resolves to IPv4.
    pub fn resolve(&self, port: u16) -> io::Result<SocketAddr> {
        let host = match self.host.as_str() {
            "*" => "0.0.0.0",
            "::*" => "::",
            host => host,
        };
        let is_v6 = host.contains(':');
        (host, port)
            .to_socket_addrs()?
            .find(|address| address.is_ipv6() == is_v6)
            .ok_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, format!("no address for '{host}'")))
    }
}

/// What a client of one class may have waiting for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Closed at once above this, 0 = no limit.
    pub hard_bytes: u64,
    /// Closed when above this for `soft_s` seconds, 0 = no limit.
    pub soft_bytes: u64,
    pub soft_s: u64,
}

/// A snapshot is due when so many changes have come since the last one, and so much time has gone by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    pub seconds: u64,
    pub changes: u64,
}

/// `save`: lines of a configuration add to each other, the first one replaces the default.
#[derive(Clone, Debug, Default)]
pub struct SavePoints {
    points: Vec<SavePoint>,
    /// The next line adds.
    open: bool,
}

impl PartialEq for SavePoints {
    fn eq(&self, other: &SavePoints) -> bool {
        self.points == other.points
    }
}

impl SavePoints {
    #[must_use]
    pub fn points(&self) -> &[SavePoint] {
        &self.points
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Is one of them due?
    #[must_use]
    pub fn are_due(&self, changes: u64, seconds: u64) -> Option<SavePoint> {
        self.points.iter().copied().find(|point| changes >= point.changes.max(1) && seconds > point.seconds)
    }

    /// Those of a line.
    fn add(&mut self, points: Vec<SavePoint>) {
        if !std::mem::replace(&mut self.open, true) || points.is_empty() {
            self.points.clear();
        }
        self.points.extend(points);
    }

    /// What comes next replaces them.
    fn close(&mut self) {
        self.open = false;
    }
}

/// `client-output-buffer-limit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimits {
    pub normal: OutputLimit,
    pub replica: OutputLimit,
    pub pubsub: OutputLimit,
}

#[cfg(test)]
mod tests;
