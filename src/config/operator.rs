//! Directives for whoever operates the server: users, what is noted of what it does, what of it is protected, when it moves memory.

use super::table::{Directive, Group, INT_MAX, Kind, Mutability, narrow};
use super::texts::{bind_addrs, bind_text, optional_path, path_text};
use super::value::{self, ValueError};
use super::{Allowed, ClientsLimit};

pub(super) static OPERATOR: &[Directive] = &[
    Directive {
        name: "aclfile",
        aliases: &[],
        group: Group::Clients,
        default: "",
        mutability: Mutability::Immutable,
        summary: "File with the users, a line each (ACL LOAD, ACL SAVE)",
        kind: Kind::Text {
            what: "<path>",
            get: |c| path_text(c.aclfile.as_deref()),
            set: |c, v| {
                c.aclfile = optional_path(v)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "acl-pubsub-default",
        aliases: &[],
        group: Group::Clients,
        default: "resetchannels",
        mutability: Mutability::Mutable,
        summary: "Channels that a new user may use: allchannels, or none",
        kind: Kind::Enum {
            names: &["allchannels", "resetchannels"],
            get: |c| usize::from(!c.acl_pubsub_default),
            set: |c, position| c.acl_pubsub_default = position == 0,
        },
    },
    Directive {
        name: "acllog-max-len",
        aliases: &[],
        group: Group::Clients,
        default: "128",
        mutability: Mutability::Mutable,
        summary: "Most entries of ACL LOG",
        kind: Kind::Integer {
            min: 0,
            max: INT_MAX,
            get: |c| c.acl_log_len_max.into(),
            set: |c, v| c.acl_log_len_max = narrow(v),
        },
    },
    Directive {
        name: "metrics-port",
        aliases: &[],
        group: Group::Network,
        default: "0",
        mutability: Mutability::Immutable,
        summary: "TCP port of /metrics (for Prometheus) and /healthz by HTTP, 0 = none",
        kind: Kind::Integer {
            min: 0,
            max: 65535,
            get: |c| c.metrics_port.into(),
            set: |c, v| c.metrics_port = narrow(v),
        },
    },
    Directive {
        name: "metrics-bind",
        aliases: &[],
        group: Group::Network,
        default: "127.0.0.1",
        mutability: Mutability::Immutable,
        summary: "Addresses for it, as those of bind",
        kind: Kind::List {
            what: "<address>...",
            get: |c| bind_text(&c.metrics_bind),
            set: |c, words| {
                c.metrics_bind = bind_addrs(words)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "maxmemory-clients",
        aliases: &[],
        group: Group::Memory,
        default: "0",
        mutability: Mutability::Mutable,
        summary: "Most memory of all clients together, also as a part of maxmemory (5%), 0 = any; who holds most is disconnected",
        kind: Kind::Text {
            what: "<bytes>",
            get: |c| match c.maxmemory_clients {
                ClientsLimit::Bytes(bytes) => bytes.to_string().into_bytes(),
                ClientsLimit::Percent(percent) => format!("{percent}%").into_bytes(),
            },
            set: |c, v| {
                c.maxmemory_clients = clients_limit(v)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "slowlog-log-slower-than",
        aliases: &[],
        group: Group::General,
        default: "10000",
        mutability: Mutability::Mutable,
        summary: "Microseconds from which on a command is in SLOWLOG, -1 = none",
        kind: Kind::Integer {
            min: -1,
            max: i64::MAX,
            get: |c| c.slowlog_slower_us,
            set: |c, v| c.slowlog_slower_us = v,
        },
    },
    Directive {
        name: "slowlog-max-len",
        aliases: &[],
        group: Group::General,
        default: "128",
        mutability: Mutability::Mutable,
        summary: "Most entries of SLOWLOG",
        kind: Kind::Integer {
            min: 0,
            max: u32::MAX as i64,
            get: |c| c.slowlog_len_max.into(),
            set: |c, v| c.slowlog_len_max = narrow(v),
        },
    },
    Directive {
        name: "latency-monitor-threshold",
        aliases: &[],
        group: Group::General,
        default: "0",
        mutability: Mutability::Mutable,
        summary: "Milliseconds from which on LATENCY notes what took so long, 0 = nothing",
        kind: Kind::Integer {
            min: 0,
            max: i64::MAX,
            get: |c| c.latency_monitor_ms.cast_signed(),
            set: |c, v| c.latency_monitor_ms = narrow(v),
        },
    },
    Directive {
        name: "latency-tracking",
        aliases: &[],
        group: Group::General,
        default: "yes",
        mutability: Mutability::Mutable,
        summary: "Keep how long the calls of each command take",
        kind: Kind::Bool {
            get: |c| c.latency_tracking,
            set: |c, on| {
                c.latency_tracking = on;
                Ok(())
            },
        },
    },
    Directive {
        name: "latency-tracking-info-percentiles",
        aliases: &[],
        group: Group::General,
        default: "50 99 99.9",
        mutability: Mutability::Mutable,
        summary: "Percentiles of these times that INFO latencystats tells",
        kind: Kind::List {
            what: "<percentile>...",
            get: |c| c.latency_percentiles.iter().map(f64::to_string).collect::<Vec<_>>().join(" ").into_bytes(),
            set: |c, words| {
                c.latency_percentiles = percentiles(words)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "pidfile",
        aliases: &[],
        group: Group::General,
        default: "",
        mutability: Mutability::Immutable,
        summary: "File to write the process id to; it goes when the server ends",
        kind: Kind::Text {
            what: "<path>",
            get: |c| path_text(c.pidfile.as_deref()),
            set: |c, v| {
                c.pidfile = optional_path(v)?;
                Ok(())
            },
        },
    },
    Directive {
        name: "enable-debug-command",
        aliases: &[],
        group: Group::General,
        default: "no",
        mutability: Mutability::Immutable,
        summary: "Who may use DEBUG: nobody, clients of this machine, all",
        kind: Kind::Enum {
            names: &["no", "yes", "local"],
            get: |c| c.debug_command as usize,
            set: |c, position| c.debug_command = [Allowed::No, Allowed::Yes, Allowed::Local][position],
        },
    },
    Directive {
        name: "enable-protected-configs",
        aliases: &[],
        group: Group::General,
        default: "no",
        mutability: Mutability::Immutable,
        summary: "Who may change directives that name places in the file system: nobody, clients of this machine, all",
        kind: Kind::Enum {
            names: &["no", "yes", "local"],
            get: |c| c.protected_configs as usize,
            set: |c, position| c.protected_configs = [Allowed::No, Allowed::Yes, Allowed::Local][position],
        },
    },
];

fn clients_limit(word: &[u8]) -> Result<ClientsLimit, ValueError> {
    let refused = |why: &'static str| ValueError::Refused(why.into());
    let no_number = || refused("argument must be a memory or percent value");
    let Some(percent) = word.strip_suffix(b"%") else {
        return value::memory(word).map(ClientsLimit::Bytes).map_err(|_| no_number());
    };
    match value::integer(percent).map_err(|_| no_number())? {
        percent @ 0..=100 => Ok(ClientsLimit::Percent(narrow(percent))),
        ..0 => Err(no_number()),
        _ => Err(refused("percentage argument must be less or equal to 100")),
    }
}

/// Percentages of calls.
fn percentiles(words: &[&[u8]]) -> Result<Vec<f64>, ValueError> {
    let percentile = |word: &&[u8]| {
        let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
        number.filter(|number| (0.0..=100.0).contains(number)).ok_or_else(|| {
            ValueError::Refused("latency-tracking-info-percentiles should contain a float between 0.0 and 100.0".into())
        })
    };
    words.iter().filter(|word| !word.is_empty()).map(percentile).collect()
}
