//! Directives of Redis 7 that are known, checked for their form and told again, and do nothing: those of what is not here yet, and those of what
//! is done in another way here. Each that is set to something else than its default is named in a warning at the start.

use super::table::{Directive, Group, Kind, Mutability};
use super::value::{self, ValueError};
use super::{Config, memory_bytes};

/// What a value may be.
#[derive(Clone, Copy)]
enum Form {
    Switch,
    Number,
    /// A size in bytes.
    Memory,
    Word,
    /// Any number of words.
    Words,
}

impl Config {
    fn kept(&self, name: &'static str, default: &str) -> Vec<u8> {
        self.kept.get(name).cloned().unwrap_or_else(|| default.into())
    }

    fn keep(&mut self, name: &'static str, default: &str, form: Form, words: &[&[u8]]) -> Result<(), ValueError> {
        let value = match (form, words) {
            (Form::Words, words) => words.join(&b' '),
            (Form::Switch, [word]) => {
                if value::boolean(word)? {
                    b"yes".to_vec()
                } else {
                    b"no".to_vec()
                }
            }
            (Form::Number, [word]) => value::integer(word)?.to_string().into_bytes(),
            (Form::Memory, [word]) => value::memory(word)?.to_string().into_bytes(),
            (Form::Word, [word]) => word.to_vec(),
            (Form::Word, []) => Vec::new(),
            _ => return Err(ValueError::Arity),
        };
        if value == default.as_bytes() {
            self.kept.remove(name);
        } else {
            self.kept.insert(name, value);
        }
        Ok(())
    }

    /// What a replica's buffer would be.
    pub fn repl_backlog_bytes(&self) -> u64 {
        self.kept.get("repl-backlog-size").and_then(|text| memory_bytes(text)).unwrap_or(1 << 20)
    }

    /// What a user should be told of those that differ from their defaults.
    pub(super) fn notes_on_kept(&self) -> Vec<String> {
        let of = |group: Group, what: &str| {
            let names = KEPT.iter().filter(|row| row.group == group && self.kept.contains_key(row.name));
            let names: Vec<&str> = names.map(|row| row.name).collect();
            (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
        };
        let later = of(Group::Later, "without effect, as what they are about is not here yet");
        let fixed = of(Group::Fixed, "without effect, as this server does in its own way what they are about");
        later.into_iter().chain(fixed).collect()
    }
}

macro_rules! kept {
    ($($group:ident $form:ident $name:literal [$($alias:literal),*] = $default:literal;)*) => {
        pub(super) static KEPT: &[Directive] = &[$(Directive {
            name: $name,
            aliases: &[$($alias),*],
            group: Group::$group,
            default: $default,
            mutability: Mutability::Mutable,
            summary: "Of Redis, without effect",
            kind: Kind::List {
                what: "<value>",
                get: |config| config.kept($name, $default),
                set: |config, words| config.keep($name, $default, Form::$form, words),
            },
        },)*];
    };
}

kept! {
Fixed Word "aof_rewrite_cpulist" [] = "";
Fixed Word "bgsave_cpulist" [] = "";
Later Number "busy-reply-threshold" ["lua-time-limit"] = "5000";
Later Switch "cluster-allow-pubsubshard-when-down" [] = "yes";
Later Switch "cluster-allow-reads-when-down" [] = "no";
Later Switch "cluster-allow-replica-migration" [] = "yes";
Later Number "cluster-announce-bus-port" [] = "0";
Later Word "cluster-announce-hostname" [] = "";
Later Word "cluster-announce-ip" [] = "";
Later Number "cluster-announce-port" [] = "0";
Later Number "cluster-announce-tls-port" [] = "0";
Later Word "cluster-config-file" [] = "nodes.conf";
Later Switch "cluster-enabled" [] = "no";
Later Memory "cluster-link-sendbuf-limit" [] = "0";
Later Number "cluster-migration-barrier" [] = "1";
Later Number "cluster-node-timeout" [] = "15000";
Later Number "cluster-port" [] = "0";
Later Word "cluster-preferred-endpoint-type" [] = "ip";
Later Switch "cluster-replica-no-failover" ["cluster-slave-no-failover"] = "no";
Later Number "cluster-replica-validity-factor" ["cluster-slave-validity-factor"] = "10";
Later Switch "cluster-require-full-coverage" [] = "yes";
Later Word "enable-module-command" [] = "no";
Later Memory "hll-sparse-max-bytes" [] = "3000";
Later Word "masterauth" [] = "";
Later Word "masteruser" [] = "";
Later Number "min-replicas-max-lag" ["min-slaves-max-lag"] = "10";
Later Number "min-replicas-to-write" ["min-slaves-to-write"] = "0";
Later Word "propagation-error-behavior" [] = "ignore";
Later Switch "rdb-del-sync-files" [] = "no";
Later Memory "repl-backlog-size" [] = "1048576";
Later Number "repl-backlog-ttl" [] = "3600";
Later Switch "repl-disable-tcp-nodelay" [] = "no";
Later Word "repl-diskless-load" [] = "disabled";
Later Switch "repl-diskless-sync" [] = "yes";
Later Number "repl-diskless-sync-delay" [] = "5";
Later Number "repl-diskless-sync-max-replicas" [] = "0";
Later Number "repl-ping-replica-period" ["repl-ping-slave-period"] = "10";
Later Number "repl-timeout" [] = "60";
Later Word "replica-announce-ip" ["slave-announce-ip"] = "";
Later Number "replica-announce-port" ["slave-announce-port"] = "0";
Later Switch "replica-announced" [] = "yes";
Later Switch "replica-ignore-disk-write-errors" [] = "no";
Later Switch "replica-ignore-maxmemory" ["slave-ignore-maxmemory"] = "yes";
Later Switch "replica-lazy-flush" ["slave-lazy-flush"] = "no";
Later Number "replica-priority" ["slave-priority"] = "100";
Later Switch "replica-read-only" ["slave-read-only"] = "yes";
Later Switch "replica-serve-stale-data" ["slave-serve-stale-data"] = "yes";
Later Words "replicaof" ["slaveof"] = "";
Later Memory "stream-node-max-bytes" [] = "4096";
Later Number "stream-node-max-entries" [] = "100";
Later Word "tls-auth-clients" [] = "yes";
Later Word "tls-ca-cert-dir" [] = "";
Later Word "tls-ca-cert-file" [] = "";
Later Word "tls-cert-file" [] = "";
Later Word "tls-ciphers" [] = "";
Later Word "tls-ciphersuites" [] = "";
Later Word "tls-client-cert-file" [] = "";
Later Word "tls-client-key-file" [] = "";
Later Word "tls-client-key-file-pass" [] = "";
Later Switch "tls-cluster" [] = "no";
Later Word "tls-dh-params-file" [] = "";
Later Word "tls-key-file" [] = "";
Later Word "tls-key-file-pass" [] = "";
Later Number "tls-port" [] = "0";
Later Switch "tls-prefer-server-ciphers" [] = "no";
Later Words "tls-protocols" [] = "";
Later Switch "tls-replication" [] = "no";
Later Number "tls-session-cache-size" [] = "20480";
Later Number "tls-session-cache-timeout" [] = "300";
Later Switch "tls-session-caching" [] = "yes";
Fixed Number "active-defrag-cycle-max" [] = "25";
Fixed Number "active-defrag-cycle-min" [] = "1";
Fixed Number "active-defrag-max-scan-fields" [] = "1000";
Fixed Number "active-defrag-threshold-upper" [] = "100";
Fixed Number "active-expire-effort" [] = "1";
Fixed Switch "activerehashing" [] = "yes";
Fixed Switch "always-show-logo" [] = "no";
Fixed Switch "aof-rewrite-incremental-fsync" [] = "yes";
Later Words "bind-source-addr" [] = "";
Fixed Word "bio_cpulist" [] = "";
Fixed Switch "crash-log-enabled" [] = "yes";
Fixed Switch "crash-memcheck-enabled" [] = "yes";
Fixed Switch "disable-thp" [] = "yes";
Fixed Switch "dynamic-hz" [] = "yes";
Fixed Word "ignore-warnings" [] = "";
Fixed Switch "jemalloc-bg-thread" [] = "yes";
Fixed Switch "lazyfree-lazy-eviction" [] = "no";
Fixed Switch "lazyfree-lazy-expire" [] = "no";
Fixed Switch "lazyfree-lazy-server-del" [] = "no";
Fixed Switch "lazyfree-lazy-user-del" [] = "no";
Fixed Switch "lazyfree-lazy-user-flush" [] = "no";
Fixed Words "proc-title-template" [] = "{title} {listen-addr} {server-mode}";
Fixed Switch "rdb-save-incremental-fsync" [] = "yes";
Fixed Word "sanitize-dump-payload" [] = "no";
Fixed Word "server_cpulist" [] = "";
Fixed Switch "set-proc-title" [] = "yes";
Later Number "shutdown-timeout" [] = "10";
Later Number "socket-mark-id" [] = "0";
}
