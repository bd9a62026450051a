//! The table of directives: names, ranges, defaults, help, and how each reads and writes its field of [`Config`].
//!
//! Names, ranges, defaults and printed forms are those of Redis 7.2. Adding a setting is one row here and one field there.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::kept::KEPT;
use super::log::LOG;
use super::memory::MEMORY;
use super::operator::OPERATOR;
use super::process::PROCESS;
use super::texts::{
    bind_addrs, bind_text, optional_path, output_limits, output_limits_text, path_text, save_points_text, set_cpu_list,
    set_dbfilename, set_dir, set_locale_collate, set_save_points,
};
use super::value::{self, ValueError};
use super::{Config, Net};
use crate::base::cpu;
use crate::base::log::LogLevel;
use crate::base::notify::Classes;

/// One setting.
pub struct Directive {
    /// In lower case.
    pub name: &'static str,
    /// Other names with the same meaning.
    pub aliases: &'static [&'static str],
    pub group: Group,
    /// As it would stand in `redis.conf`; the words of a list separated by blanks.
    pub default: &'static str,
    pub mutability: Mutability,
    /// One line for `--help`.
    pub summary: &'static str,
    pub(super) kind: Kind,
}

/// Heading under which `--help` lists a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Network,
    Clients,
    General,
    Workers,
    Memory,
    Data,
    Persistence,
    /// Of what is not here yet.
    Later,
    /// Of what is done in another way.
    Fixed,
}

impl Group {
    pub const ALL: [Group; 9] = [
        Group::Network,
        Group::Clients,
        Group::General,
        Group::Workers,
        Group::Memory,
        Group::Data,
        Group::Persistence,
        Group::Later,
        Group::Fixed,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Group::Network => "Network",
            Group::Clients => "Clients and limits",
            Group::General => "General",
            Group::Workers => "Workers",
            Group::Memory => "Memory",
            Group::Data => "Encodings as OBJECT tells them",
            Group::Persistence => "Persistence",
            Group::Later => "Accepted with a warning: of what is not here yet",
            Group::Fixed => "Accepted with a warning: of what is done in another way here",
        }
    }
}

/// Whether CONFIG SET may change a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutability {
    Mutable,
    Immutable,
    /// Could be changed, but a client must not: it names a place in the file system.
    Protected,
}

/// What a value is, and its way into and out of [`Config`].
pub(super) enum Kind {
    Integer {
        min: i64,
        max: i64,
        get: fn(&Config) -> i64,
        set: fn(&mut Config, i64),
    },
    Octal {
        max: u32,
        get: fn(&Config) -> u32,
        set: fn(&mut Config, u32),
    },
    Memory {
        min: i64,
        get: fn(&Config) -> u64,
        set: fn(&mut Config, u64),
    },
    Bool {
        get: fn(&Config) -> bool,
        set: fn(&mut Config, bool) -> Result<(), ValueError>,
    },
    /// Position in `names`.
    Enum {
        names: &'static [&'static str],
        get: fn(&Config) -> usize,
        set: fn(&mut Config, usize),
    },
    /// One word, `what` names it in `--help`.
    Text {
        what: &'static str,
        get: fn(&Config) -> Vec<u8>,
        set: fn(&mut Config, &[u8]) -> Result<(), ValueError>,
    },
    /// Any number of words; a single one is split at its blanks.
    List {
        what: &'static str,
        get: fn(&Config) -> Vec<u8>,
        set: fn(&mut Config, &[&[u8]]) -> Result<(), ValueError>,
    },
}

const FOREGROUND: &str = "the server stays in the foreground: only 'daemonize no' is accepted";
const UNSUPERVISED: &str = "the server reports to no supervisor: only 'supervised no' is accepted";
/// Upper end of Redis's `int` settings.
pub(super) const INT_MAX: i64 = i32::MAX as i64;
/// Upper end of Redis's memory settings, in bytes.
const MEMORY_BYTES_MAX: i64 = i64::MAX;
const WORKERS_MAX: i64 = 1024;
const HZ_MIN: i64 = 1;
const HZ_MAX: i64 = 500;

/// Every directive, in the order of `--help` and CONFIG GET.
pub static DIRECTIVES: LazyLock<Vec<&'static Directive>> =
    LazyLock::new(|| ROWS.iter().chain(MEMORY).chain(LOG).chain(OPERATOR).chain(PROCESS).chain(KEPT).collect());

static ROWS: &[Directive] = &[
    Directive {
        name: "port",
        aliases: &[],
        group: Group::Network,
        default: "6379",
        mutability: Mutability::Immutable,
        summary: "TCP port to listen on, 0 = no TCP",
        kind: Kind::Integer { min: 0, max: 65535, get: |c| c.port.into(), set: |c, v| c.port = narrow(v) },
    },
    Directive {
        name: "bind",
        aliases: &[],
        group: Group::Network,
        default: "127.0.0.1 -::1",
        mutability: Mutability::Immutable,
        summary: "Addresses to listen on; '-' before one: no error if this machine lacks it; * and ::* = all",
        kind: Kind::List {
            what: "<address>...",
            get: |c| bind_text(&c.bind),
            set: |c, words| {
                c.bind = bind_addrs(words)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "protected-mode",
        aliases: &[],
        group: Group::Network,
        default: "yes",
        mutability: Mutability::Mutable,
        summary: "While there is no password, serve only clients of this machine",
        kind: Kind::Bool {
            get: |c| c.protected_mode,
            set: |c, on| {
                c.protected_mode = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "unixsocket",
        aliases: &[],
        group: Group::Network,
        default: "",
        mutability: Mutability::Immutable,
        summary: "Unix socket to listen on",
        kind: Kind::Text {
            what: "<path>",
            get: |c| path_text(c.unixsocket.as_deref()),
            set: |c, v| {
                c.unixsocket = optional_path(v)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "unixsocketperm",
        aliases: &[],
        group: Group::Network,
        default: "0",
        mutability: Mutability::Immutable,
        summary: "Mode of the Unix socket, 0 = as the umask leaves it",
        kind: Kind::Octal { max: 0o777, get: |c| c.unixsocketperm, set: |c, v| c.unixsocketperm = v },
    },
    Directive {
        name: "memcached-port",
        aliases: &[],
        group: Group::Network,
        default: "0",
        mutability: Mutability::Immutable,
        summary: "TCP port of memcached's protocol, on the addresses of bind, 0 = none",
        kind: Kind::Integer {
            min: 0,
            max: 65535,
            get: |c| c.memcached_port.into(),
            set: |c, v| c.memcached_port = narrow(v),
        },
    },
    Directive {
        name: "memcached-unixsocket",
        aliases: &[],
        group: Group::Network,
        default: "",
        mutability: Mutability::Immutable,
        summary: "Unix socket of memcached's protocol",
        kind: Kind::Text {
            what: "<path>",
            get: |c| path_text(c.memcached_unixsocket.as_deref()),
            set: |c, v| {
                c.memcached_unixsocket = optional_path(v)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "memcached-unixsocketperm",
        aliases: &[],
        group: Group::Network,
        default: "0",
        mutability: Mutability::Immutable,
        summary: "Mode of that socket, 0 = as the umask leaves it",
        kind: Kind::Octal {
            max: 0o777,
            get: |c| c.memcached_unixsocketperm,
            set: |c, v| c.memcached_unixsocketperm = v,
        },
    },
    Directive {
        name: "memcached-database",
        aliases: &[],
        group: Group::Network,
        default: "0",
        mutability: Mutability::Immutable,
        summary: "The database that clients of memcached see",
        kind: Kind::Integer {
            min: 0,
            max: INT_MAX,
            get: |c| c.memcached_database.into(),
            set: |c, v| c.memcached_database = narrow(v),
        },
    },
    Directive {
        name: "memcached-max-item-size",
        aliases: &[],
        group: Group::Network,
        default: "1mb",
        mutability: Mutability::Mutable,
        summary: "Largest item that clients of memcached may store: key, value and some 60 bytes",
        kind: Kind::Memory {
            min: 1024,
            get: |c| c.memcached_item_bytes_max,
            set: |c, v| c.memcached_item_bytes_max = v,
        },
    },
    Directive {
        name: "memcached-flush-all",
        aliases: &[],
        group: Group::Network,
        default: "yes",
        mutability: Mutability::Mutable,
        summary: "Clients of memcached may use flush_all",
        kind: Kind::Bool {
            get: |c| c.memcached_flush_all,
            set: |c, on| {
                c.memcached_flush_all = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "memcached-shutdown",
        aliases: &[],
        group: Group::Network,
        default: "no",
        mutability: Mutability::Immutable,
        summary: "Clients of memcached may end the server by shutdown",
        kind: Kind::Bool {
            get: |c| c.memcached_shutdown,
            set: |c, on| {
                c.memcached_shutdown = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "tcp-backlog",
        aliases: &[],
        group: Group::Network,
        default: "511",
        mutability: Mutability::Immutable,
        summary: "Connections that may wait to be accepted",
        kind: Kind::Integer {
            min: 0,
            max: INT_MAX,
            get: |c| c.tcp_backlog.into(),
            set: |c, v| c.tcp_backlog = narrow(v),
        },
    },
    Directive {
        name: "tcp-keepalive",
        aliases: &[],
        group: Group::Network,
        default: "300",
        mutability: Mutability::Mutable,
        summary: "Seconds between keep-alive probes, 0 = none",
        kind: Kind::Integer {
            min: 0,
            max: INT_MAX,
            get: |c| c.tcp_keepalive_s.into(),
            set: |c, v| c.tcp_keepalive_s = narrow(v),
        },
    },
    Directive {
        name: "requirepass",
        aliases: &[],
        group: Group::Clients,
        default: "",
        mutability: Mutability::Mutable,
        summary: "Password that clients must give (AUTH)",
        kind: Kind::Text {
            what: "<password>",
            get: |c| c.requirepass.clone(),
            set: |c, v| {
                c.requirepass = v.to_vec();
                Ok(())
            },
        },
    },
    Directive {
        name: "maxclients",
        aliases: &[],
        group: Group::Clients,
        default: "10000",
        mutability: Mutability::Mutable,
        summary: "Clients served at a time",
        kind: Kind::Integer {
            min: 1,
            max: u32::MAX as i64,
            get: |c| c.maxclients.into(),
            set: |c, v| c.maxclients = narrow(v),
        },
    },
    Directive {
        name: "timeout",
        aliases: &[],
        group: Group::Clients,
        default: "0",
        mutability: Mutability::Mutable,
        summary: "Seconds after which an idle client is closed, 0 = never",
        kind: Kind::Integer { min: 0, max: INT_MAX, get: |c| c.timeout_s.into(), set: |c, v| c.timeout_s = narrow(v) },
    },
    Directive {
        name: "proto-max-bulk-len",
        aliases: &[],
        group: Group::Clients,
        default: "512mb",
        mutability: Mutability::Mutable,
        summary: "Largest argument of a request, at least 1mb",
        kind: Kind::Memory { min: 1 << 20, get: |c| c.proto_max_bulk_bytes, set: |c, v| c.proto_max_bulk_bytes = v },
    },
    Directive {
        name: "client-query-buffer-limit",
        aliases: &[],
        group: Group::Clients,
        default: "1gb",
        mutability: Mutability::Mutable,
        summary: "Largest incomplete request of a client, at least 1mb",
        kind: Kind::Memory {
            min: 1 << 20,
            get: |c| c.client_query_buffer_bytes_max,
            set: |c, v| c.client_query_buffer_bytes_max = v,
        },
    },
    Directive {
        name: "client-output-buffer-limit",
        aliases: &[],
        group: Group::Clients,
        default: "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60",
        mutability: Mutability::Mutable,
        summary: "Replies that may wait: class normal, replica or pubsub, hard limit, soft limit, its seconds; 0 = no limit",
        kind: Kind::List {
            what: "<class hard soft seconds>...",
            get: |c| output_limits_text(&c.client_output_buffer_limits),
            set: |c, words| {
                c.client_output_buffer_limits = output_limits(c.client_output_buffer_limits, words)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "databases",
        aliases: &[],
        group: Group::General,
        default: "16",
        mutability: Mutability::Immutable,
        summary: "Number of databases that SELECT may name",
        kind: Kind::Integer { min: 1, max: INT_MAX, get: |c| c.databases.into(), set: |c, v| c.databases = narrow(v) },
    },
    Directive {
        name: "dir",
        aliases: &[],
        group: Group::General,
        default: "./",
        mutability: Mutability::Protected,
        summary: "Directory to change to at start",
        kind: Kind::Text { what: "<path>", get: |c| path_text(Some(&c.dir)), set: set_dir },
    },
    Directive {
        name: "loglevel",
        aliases: &[],
        group: Group::General,
        default: "notice",
        mutability: Mutability::Mutable,
        summary: "Least important kind of message to log",
        kind: Kind::Enum {
            names: &LogLevel::NAMES,
            get: |c| c.loglevel as usize,
            set: |c, position| c.loglevel = LogLevel::ALL[position],
        },
    },
    Directive {
        name: "logfile",
        aliases: &[],
        group: Group::General,
        default: "",
        mutability: Mutability::Immutable,
        summary: "File to append the log to, \"\" = standard output",
        kind: Kind::Text {
            what: "<path>",
            get: |c| path_text(c.logfile.as_deref()),
            set: |c, v| {
                c.logfile = optional_path(v)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "hz",
        aliases: &[],
        group: Group::General,
        default: "10",
        mutability: Mutability::Mutable,
        summary: "Runs of background work per second, kept within 1 and 500",
        kind: Kind::Integer {
            min: 0,
            max: INT_MAX,
            get: |c| c.hz.into(),
            set: |c, v| c.hz = narrow(v.clamp(HZ_MIN, HZ_MAX)),
        },
    },
    Directive {
        name: "daemonize",
        aliases: &[],
        group: Group::General,
        default: "no",
        mutability: Mutability::Immutable,
        summary: "Run in the background; only no is accepted",
        kind: Kind::Bool {
            get: |_| false,
            set: |_, on| if on { Err(ValueError::Refused(FOREGROUND.into())) } else { Ok(()) },
        },
    },
    Directive {
        name: "supervised",
        aliases: &[],
        group: Group::General,
        default: "no",
        mutability: Mutability::Immutable,
        summary: "Report to a supervisor; only no is accepted",
        kind: Kind::Text {
            what: "no",
            get: |_| b"no".into(),
            set: |_, word| match &*word.to_ascii_lowercase() {
                b"no" => Ok(()),
                b"upstart" | b"systemd" | b"auto" => Err(ValueError::Refused(UNSUPERVISED.into())),
                _ => Err(ValueError::NotOneOf(&["upstart", "systemd", "auto", "no"])),
            },
        },
    },
    Directive {
        name: "tracking-table-max-keys",
        aliases: &[],
        group: Group::General,
        default: "1000000",
        mutability: Mutability::Mutable,
        summary: "Most keys remembered for client-side caching, 0 = any number",
        kind: Kind::Integer {
            min: 0,
            max: i64::MAX,
            get: |c| c.tracking_table_keys_max.cast_signed(),
            set: |c, v| c.tracking_table_keys_max = narrow(v),
        },
    },
    Directive {
        name: "notify-keyspace-events",
        aliases: &[],
        group: Group::General,
        default: "",
        mutability: Mutability::Mutable,
        summary: "Changes of keys to publish, by letters: K E, and of g$lshzxetdmn or A",
        kind: Kind::Text {
            what: "<letters>",
            get: |c| c.notify.text(),
            set: |c, v| {
                let refused = || ValueError::Refused("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
                c.notify = Classes::parse(v).ok_or_else(refused)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "workers",
        aliases: &[],
        group: Group::Workers,
        default: "0",
        mutability: Mutability::Immutable,
        summary: "Threads that serve, 0 = one a CPU of cpu-list, else of the affinity mask, within the cgroup's quota",
        kind: Kind::Integer { min: 0, max: WORKERS_MAX, get: |c| c.workers.into(), set: |c, v| c.workers = narrow(v) },
    },
    Directive {
        name: "cpu-list",
        aliases: &[],
        group: Group::Workers,
        default: "",
        mutability: Mutability::Immutable,
        summary: "CPUs that workers are pinned to, the first worker to the first: 0,2-5 or 0-6:2; \"\" = not pinned",
        kind: Kind::Text { what: "<cpus>", get: |c| cpu::cpu_list_text(&c.cpu_list).into_bytes(), set: set_cpu_list },
    },
    Directive {
        name: "io-threads",
        aliases: &[],
        group: Group::Workers,
        default: "1",
        mutability: Mutability::Immutable,
        summary: "Of Redis, accepted without effect: see workers",
        kind: Kind::Integer { min: 1, max: 128, get: |c| c.io_threads.into(), set: |c, v| c.io_threads = narrow(v) },
    },
    Directive {
        name: "io-threads-do-reads",
        aliases: &[],
        group: Group::Workers,
        default: "no",
        mutability: Mutability::Immutable,
        summary: "Of Redis, accepted without effect: see workers",
        kind: Kind::Bool {
            get: |c| c.io_threads_do_reads,
            set: |c, on| {
                c.io_threads_do_reads = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "spin-us",
        aliases: &[],
        group: Group::Workers,
        default: "0",
        mutability: Mutability::Mutable,
        summary: "Microseconds a worker polls before it sleeps: lower latency for more CPU",
        kind: Kind::Integer { min: 0, max: 1000, get: |c| c.spin_us.into(), set: |c, v| c.spin_us = narrow(v) },
    },
    Directive {
        name: "net",
        aliases: &[],
        group: Group::Workers,
        default: "epoll",
        mutability: Mutability::Immutable,
        summary: "Interface of the kernel for connections, input and output",
        kind: Kind::Text {
            what: "epoll|uring|xdp:<interface>[:queue]|tun:<name>[:addresses]",
            get: |c| c.net.to_string().into_bytes(),
            set: |c, v| {
                c.net = Net::parse(v)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "hash-max-listpack-entries",
        aliases: &["hash-max-ziplist-entries"],
        group: Group::Data,
        default: "128",
        mutability: Mutability::Mutable,
        summary: "Hashes of more fields are told to be hashtable",
        kind: Kind::Integer {
            min: 0,
            max: i64::MAX,
            get: |c| c.limits.hash_max_listpack_entries.cast_signed() as i64,
            set: |c, v| c.limits.hash_max_listpack_entries = narrow(v),
        },
    },
    Directive {
        name: "hash-max-listpack-value",
        aliases: &["hash-max-ziplist-value"],
        group: Group::Data,
        default: "64",
        mutability: Mutability::Mutable,
        summary: "The same for hashes with a longer field or value, in bytes",
        kind: Kind::Integer {
            min: 0,
            max: i64::MAX,
            get: |c| c.limits.hash_max_listpack_value.cast_signed() as i64,
            set: |c, v| c.limits.hash_max_listpack_value = narrow(v),
        },
    },
    Directive {
        name: "list-max-listpack-size",
        aliases: &["list-max-ziplist-size"],
        group: Group::Data,
        default: "-2",
        mutability: Mutability::Mutable,
        summary: "Larger lists are told to be quicklist: elements, or -1 to -5 for 4 to 64 KB",
        kind: Kind::Integer {
            min: -INT_MAX - 1,
            max: INT_MAX,
            get: |c| c.limits.list_max_listpack_size,
            set: |c, v| c.limits.list_max_listpack_size = v,
        },
    },
    Directive {
        name: "set-max-intset-entries",
        aliases: &[],
        group: Group::Data,
        default: "512",
        mutability: Mutability::Mutable,
        summary: "Sets of more integers are told to be hashtable",
        kind: Kind::Integer {
            min: 0,
            max: i64::MAX,
            get: |c| c.limits.set_max_intset_entries.cast_signed() as i64,
            set: |c, v| c.limits.set_max_intset_entries = narrow(v),
        },
    },
    Directive {
        name: "set-max-listpack-entries",
        aliases: &[],
        group: Group::Data,
        default: "128",
        mutability: Mutability::Mutable,
        summary: "Sets of more members, not all integers, are told to be hashtable",
        kind: Kind::Integer {
            min: 0,
            max: i64::MAX,
            get: |c| c.limits.set_max_listpack_entries.cast_signed() as i64,
            set: |c, v| c.limits.set_max_listpack_entries = narrow(v),
        },
    },
    Directive {
        name: "set-max-listpack-value",
        aliases: &[],
        group: Group::Data,
        default: "64",
        mutability: Mutability::Mutable,
        summary: "The same for sets with a longer member, in bytes",
        kind: Kind::Integer {
            min: 0,
            max: i64::MAX,
            get: |c| c.limits.set_max_listpack_value.cast_signed() as i64,
            set: |c, v| c.limits.set_max_listpack_value = narrow(v),
        },
    },
    Directive {
        name: "zset-max-listpack-entries",
        aliases: &["zset-max-ziplist-entries"],
        group: Group::Data,
        default: "128",
        mutability: Mutability::Mutable,
        summary: "Sorted sets of more members are told to be skiplist",
        kind: Kind::Integer {
            min: 0,
            max: i64::MAX,
            get: |c| c.limits.zset_max_listpack_entries.cast_signed() as i64,
            set: |c, v| c.limits.zset_max_listpack_entries = narrow(v),
        },
    },
    Directive {
        name: "zset-max-listpack-value",
        aliases: &["zset-max-ziplist-value"],
        group: Group::Data,
        default: "64",
        mutability: Mutability::Mutable,
        summary: "The same for sorted sets with a longer member, in bytes",
        kind: Kind::Integer {
            min: 0,
            max: i64::MAX,
            get: |c| c.limits.zset_max_listpack_value.cast_signed() as i64,
            set: |c, v| c.limits.zset_max_listpack_value = narrow(v),
        },
    },
    Directive {
        name: "locale-collate",
        aliases: &[],
        group: Group::Data,
        default: "",
        mutability: Mutability::Mutable,
        summary: "Locale by whose rules SORT with ALPHA compares texts; '' = LC_COLLATE of the environment",
        kind: Kind::Text {
            what: "<locale>",
            get: |c| c.locale_collate.name().as_bytes().to_vec(),
            set: set_locale_collate,
        },
    },
    Directive {
        name: "list-compress-depth",
        aliases: &[],
        group: Group::Data,
        default: "0",
        mutability: Mutability::Mutable,
        summary: "Kept for CONFIG GET only: lists are not compressed",
        kind: Kind::Integer {
            min: 0,
            max: INT_MAX,
            get: |c| c.list_compress_depth.into(),
            set: |c, v| c.list_compress_depth = narrow(v),
        },
    },
    Directive {
        name: "save",
        aliases: &[],
        group: Group::Persistence,
        default: "3600 1 300 100 60 10000",
        mutability: Mutability::Mutable,
        summary: "Save a snapshot when so many seconds have passed and so many changes come; several pairs; \"\" = never",
        kind: Kind::List { what: "<seconds changes ...>", get: save_points_text, set: set_save_points },
    },
    Directive {
        name: "dbfilename",
        aliases: &[],
        group: Group::Persistence,
        default: "dump.rdb",
        mutability: Mutability::Protected,
        summary: "Name of the snapshot in dir, which is loaded at start",
        kind: Kind::Text { what: "<name>", get: |c| c.dbfilename.clone().into_bytes(), set: set_dbfilename },
    },
    Directive {
        name: "rdbcompression",
        aliases: &[],
        group: Group::Persistence,
        default: "yes",
        mutability: Mutability::Mutable,
        summary: "Pack strings in the snapshot where that makes them shorter",
        kind: Kind::Bool {
            get: |c| c.rdbcompression,
            set: |c, on| {
                c.rdbcompression = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "rdbchecksum",
        aliases: &[],
        group: Group::Persistence,
        default: "yes",
        mutability: Mutability::Immutable,
        summary: "Write a checksum into the snapshot",
        kind: Kind::Bool {
            get: |c| c.rdbchecksum,
            set: |c, on| {
                c.rdbchecksum = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "stop-writes-on-bgsave-error",
        aliases: &[],
        group: Group::Persistence,
        default: "yes",
        mutability: Mutability::Mutable,
        summary: "Refuse writes when the last snapshot could not be saved and there are save points",
        kind: Kind::Bool {
            get: |c| c.stop_writes_on_bgsave_error,
            set: |c, on| {
                c.stop_writes_on_bgsave_error = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "snapshot-buffer-percent",
        aliases: &[],
        group: Group::Persistence,
        default: "3",
        mutability: Mutability::Mutable,
        summary: "Memory for what changes while a snapshot is saved, of that in use; beyond it those who write wait",
        kind: Kind::Integer {
            min: 1,
            max: 100,
            get: |c| c.snapshot_buffer_percent.into(),
            set: |c, v| c.snapshot_buffer_percent = narrow(v),
        },
    },
];

/// The directive called `name`, in either case.
pub fn find(name: &[u8]) -> Option<&'static Directive> {
    DIRECTIVES
        .iter()
        .copied()
        .find(|directive| directive.names().any(|known| name.eq_ignore_ascii_case(known.as_bytes())))
}

impl Directive {
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The value as CONFIG GET prints it.
    pub fn get(&self, config: &Config) -> Vec<u8> {
        match self.kind {
            Kind::Integer { get, .. } => get(config).to_string().into_bytes(),
            Kind::Octal { get, .. } => format!("{:o}", get(config)).into_bytes(),
            Kind::Memory { get, .. } => get(config).to_string().into_bytes(),
            Kind::Bool { get, .. } => (if get(config) { "yes" } else { "no" }).into(),
            Kind::Enum { names, get, .. } => names[get(config)].into(),
            Kind::Text { get, .. } | Kind::List { get, .. } => get(config),
        }
    }

    /// Checks `words` and stores their value. `config` is unchanged on error.
    pub(super) fn apply(&self, config: &mut Config, words: &[&[u8]]) -> Result<(), ValueError> {
        if let Kind::List { set, .. } = self.kind {
            return match words {
                [word] => set(config, &word.split(|&b| b == b' ').filter(|part| !part.is_empty()).collect::<Vec<_>>()),
                words => set(config, words),
            };
        }
        let &[word] = words else { return Err(ValueError::Arity) };
        match self.kind {
            Kind::Integer { min, max, set, .. } => {
                let number = value::integer(word)?;
                if !(min..=max).contains(&number) {
                    return Err(ValueError::Range { min, max });
                }
                set(config, number);
                Ok(())
            }
            Kind::Octal { max, set, .. } => {
                let number = value::octal(word)?;
                if number > max {
                    return Err(ValueError::RangeOctal { max });
                }
                set(config, number);
                Ok(())
            }
            Kind::Memory { min, set, .. } => {
                let bytes = value::memory(word)?;
                if i64::try_from(bytes).map_or(true, |bytes| bytes < min) {
                    return Err(ValueError::Range { min, max: MEMORY_BYTES_MAX });
                }
                set(config, bytes);
                Ok(())
            }
            Kind::Bool { set, .. } => set(config, value::boolean(word)?),
            Kind::Enum { names, set, .. } => {
                set(config, value::one_of(word, names)?);
                Ok(())
            }
            Kind::Text { set, .. } => set(config, word),
            Kind::List { .. } => unreachable!("handled above"),
        }
    }

    /// What to write after the name, for `--help`.
    pub(super) fn value_form(&self) -> Cow<'static, str> {
        match self.kind {
            Kind::Integer { .. } => "<number>".into(),
            Kind::Octal { .. } => "<mode>".into(),
            Kind::Memory { .. } => "<bytes>".into(),
            Kind::Bool { .. } => "<yes|no>".into(),
            Kind::Enum { names, .. } => format!("<{}>", names.join("|")).into(),
            Kind::Text { what, .. } | Kind::List { what, .. } => what.into(),
        }
    }
}

/// A number into the type of its field, which holds the whole range of its row.
pub(super) fn narrow<T: TryFrom<i64>>(number: i64) -> T {
    T::try_from(number).ok().expect("the range of a directive fits its field")
}
