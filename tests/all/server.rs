//! INFO COMMAND CONFIG TIME DEBUG SHUTDOWN, the command line, the configuration file, signals, and the limits of connections.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;

use crate::harness::{
    Client, Folder, PATIENCE, Reply, Server, eventually, request, run_to_end, script, skip, under_test, words,
};

/// Every command that Redis has as well.
const COMMANDS: [&str; 47] = [
    "append",
    "auth",
    "client",
    "command",
    "config",
    "dbsize",
    "debug",
    "decr",
    "decrby",
    "del",
    "echo",
    "exists",
    "expire",
    "expireat",
    "expiretime",
    "flushall",
    "flushdb",
    "get",
    "getdel",
    "getset",
    "hello",
    "incr",
    "incrby",
    "info",
    "keys",
    "mget",
    "mset",
    "persist",
    "pexpire",
    "pexpireat",
    "pexpiretime",
    "ping",
    "psetex",
    "pttl",
    "quit",
    "randomkey",
    "scan",
    "select",
    "set",
    "setex",
    "setnx",
    "shutdown",
    "strlen",
    "time",
    "ttl",
    "type",
    "unlink",
];

/// The sections of INFO and their fields.
fn info(c: &mut Client, line: &str) -> HashMap<String, HashMap<String, String>> {
    let text = c.run(line).text();
    let (mut sections, mut current): (HashMap<String, HashMap<String, String>>, _) = (HashMap::new(), String::new());
    for line in text.split("\r\n").filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("# ") {
            current = name.to_lowercase();
            sections.entry(current.clone()).or_default();
        } else {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("name:value, not {line:?}"));
            sections.get_mut(&current).expect("a header first").insert(name.to_string(), value.to_string());
        }
    }
    sections
}

#[test]
fn info_sections() {
    let server = Server::start();
    let mut c = server.client();
    let all = info(&mut c, "INFO");
    for (section, fields) in [
        (
            "server",
            "redis_version redis_mode os arch_bits multiplexing_api process_id run_id tcp_port server_time_usec uptime_in_seconds \
             uptime_in_days hz configured_hz executable config_file",
        ),
        ("clients", "connected_clients maxclients blocked_clients"),
        (
            "memory",
            "used_memory used_memory_human used_memory_rss used_memory_rss_human used_memory_peak used_memory_peak_human \
             total_system_memory total_system_memory_human maxmemory maxmemory_human maxmemory_policy mem_fragmentation_ratio \
             mem_clients_normal mem_allocator",
        ),
        (
            "stats",
            "total_connections_received total_commands_processed instantaneous_ops_per_sec total_net_input_bytes \
             total_net_output_bytes rejected_connections expired_keys evicted_keys keyspace_hits keyspace_misses total_error_replies",
        ),
    ] {
        for field in fields.split_whitespace() {
            assert!(
                all[section].contains_key(field),
                "INFO {section} tells {field}; it tells {:?}",
                all[section].keys()
            );
        }
        assert_eq!(info(&mut c, &format!("INFO {section}")).into_keys().collect::<Vec<_>>(), [section]);
    }
    assert!(all["keyspace"].is_empty(), "no keys, no databases");
    let two = info(&mut c, "INFO ClientS STATS");
    assert_eq!(two.into_keys().collect::<BTreeSet<_>>(), BTreeSet::from(["clients".to_string(), "stats".to_string()]));
    c.expect("INFO nosuch", "''");
    for everything in ["INFO all", "INFO default", "INFO everything"] {
        assert!(info(&mut c, everything).contains_key("memory"), "{everything}");
    }
    let mut c3 = server.client3();
    assert!(matches!(c3.run("INFO"), Reply::Verbatim(format, _) if format == "txt"));
}

/// Fields of Redis's INFO that ours does not tell, and why.
const UNTOLD: [(&str, &str); 14] = [
    ("redis_git_sha1", "of how Redis was built"),
    ("redis_git_dirty", "of how Redis was built"),
    ("redis_build_id", "of how Redis was built"),
    ("gcc_version", "of how Redis was built"),
    ("atomicvar_api", "of how Redis was built"),
    ("monotonic_clock", "of how Redis was built"),
    ("clients_in_timeout_table", "there is no such table: who waits has an entry among all deadlines"),
    ("expired_stale_perc", "expiry does not look at samples: what is due is known"),
    ("expired_time_cap_reached_count", "the same"),
    (
        "expire_cycle_cpu_milliseconds",
        "there are no cycles: expiry is done with other work in the background of each turn",
    ),
    ("total_eviction_exceeded_time", "how long memory was above its limit is not measured"),
    ("current_eviction_exceeded_time", "the same"),
    ("dump_payload_sanitizations", "every payload is checked in full"),
    ("reply_buffer_*, total_*s_processed", "buffers are pooled; system calls are not counted by kind"),
];

/// Every other field of redis-server's INFO is there, in the same section, and sections come in the same order.
#[test]
fn info_has_the_fields_of_redis() {
    let Some(oracle) = Server::oracle() else {
        return skip("info_has_the_fields_of_redis", "there is no redis-server");
    };
    for workers in ["1", "2"] {
        let server = Server::with(&["--workers", workers, "--enable-debug-command", "yes"]);
        if server.is_redis() {
            return;
        }
        let told = |server: &Server| {
            let mut c = server.client();
            for line in ["SET k v", "LPUSH k v", "SUBSCRIBE news", "UNSUBSCRIBE news"] {
                c.run(line);
            }
            let headers = |c: &mut Client, line: &str| -> Vec<String> {
                c.run(line).text().lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect()
            };
            let sections =
                ["INFO", "INFO all", "INFO everything", "INFO modules cluster"].map(|line| headers(&mut c, line));
            (sections, info(&mut c, "INFO everything"))
        };
        let ((our_sections, ours), (sections, theirs)) = (told(&server), told(&oracle));
        assert_eq!(our_sections, sections);
        let excepted = |field: &str| {
            field.starts_with("reply_buffer_")
                || matches!(field, "total_reads_processed" | "total_writes_processed")
                || UNTOLD.iter().any(|(name, _)| *name == field)
        };
        for (section, fields) in &theirs {
            for (field, value) in fields {
                assert_eq!(ours[section].contains_key(field), !excepted(field), "{section}: {field}:{value}");
                // What counts by command or error has the same form.
                if let Some(our_value) =
                    ours[section].get(field).filter(|_| section.ends_with("stats") && value.contains('='))
                {
                    let names = |value: &str| -> Vec<String> {
                        value.split(',').map(|part| part.split('=').next().expect("a name").to_owned()).collect()
                    };
                    assert_eq!(names(our_value), names(value), "{section}: {field}");
                }
            }
        }
        for (field, value) in &theirs["replication"] {
            if field != "master_replid" {
                assert_eq!(&ours["replication"][field], value, "{field}");
            }
        }
        assert_eq!(ours["replication"]["master_replid"].len(), 40);
    }
}

/// What is listened to, over all workers.
#[test]
fn info_counts_subscriptions() {
    let server = Server::with(&["--workers", "2"]);
    let (mut c, mut others) = (server.client(), (0..6).map(|_| server.client()).collect::<Vec<_>>());
    for other in &mut others {
        for line in ["SUBSCRIBE a", "PSUBSCRIBE p*", "PSUBSCRIBE q*", "SSUBSCRIBE s"] {
            other.run(line);
        }
    }
    others[0].run("SUBSCRIBE b");
    let counts = |c: &mut Client| {
        ["pubsub_channels", "pubsub_patterns", "pubsubshard_channels"].map(|field| c.info_number(field))
    };
    assert_eq!(counts(&mut c), [2, 2, 1]);
    drop(others);
    eventually("they have left", || counts(&mut c) == [0, 0, 0]);
}

#[test]
fn info_tells_the_truth() {
    let server = Server::with(&["--maxclients", "77", "--hz", "13"]);
    let mut c = server.client();
    let before = info(&mut c, "INFO");
    assert_eq!(before["server"]["process_id"], server.pid().to_string());
    assert_eq!(before["server"]["tcp_port"], server.port.to_string());
    assert_eq!(before["server"]["redis_mode"], "standalone");
    assert_eq!(before["server"]["configured_hz"], "13");
    assert_eq!(before["server"]["run_id"].len(), 40);
    assert_eq!(before["clients"]["connected_clients"], "1");
    assert_eq!(before["clients"]["maxclients"], "77");
    let number = |all: &HashMap<String, HashMap<String, String>>, section: &str, field: &str| -> u64 {
        all[section][field].parse().unwrap_or_else(|_| panic!("{field} is a number"))
    };

    script(
        &server,
        &mut c,
        r"
        SET hit v         => +OK
        SET t v EX 1000   => +OK
        GET hit           => 'v'
        GET hit           => 'v'
        GET miss          => nil
        MGET hit m1 m2    => ['v', nil, nil]
        EXISTS hit        => :1
        SELECT 4          => +OK
        SET k v           => +OK
        NOSUCH            => -ERR unknown command
        GET               => -ERR wrong number
        INCR k            => -ERR value is not an integer
        ",
    );
    let _second = server.client3();
    let after = info(&mut c, "INFO");
    let grown = |section: &str, field: &str| number(&after, section, field) - number(&before, section, field);
    assert_eq!(number(&after, "clients", "connected_clients"), 2);
    assert_eq!(grown("stats", "total_connections_received"), 1);
    // Hits: GET twice, MGET once, EXISTS once. Misses: GET once, MGET twice. INCR reads to write, and writes are not counted.
    assert_eq!(grown("stats", "keyspace_hits"), 4);
    assert_eq!(grown("stats", "keyspace_misses"), 3);
    assert_eq!(grown("stats", "total_error_replies"), 3);
    // What was refused before it ran does not count as processed: 12 - 2, HELLO, and the INFO before.
    assert_eq!(grown("stats", "total_commands_processed"), 12);
    assert!(grown("stats", "total_net_input_bytes") > 200);
    assert!(grown("stats", "total_net_output_bytes") > 200);
    assert!(after["keyspace"]["db0"].starts_with("keys=2,expires=1,avg_ttl="), "{}", after["keyspace"]["db0"]);
    assert!(after["keyspace"]["db4"].starts_with("keys=1,expires=0,avg_ttl=0"), "{}", after["keyspace"]["db4"]);
    assert_eq!(after["keyspace"].len(), 2);

    // Memory: a value is counted while it is there.
    let value = vec![b'v'; 8 << 20];
    let empty = c.info_number("used_memory");
    assert_eq!(c.call(&[b"SET", b"big".as_slice(), &value]), Reply::Simple("OK".into()));
    let full = c.info_number("used_memory");
    assert!(full - empty >= 8 << 20, "8 MB more, not {}", full - empty);
    // What the connection needed for the request may be counted for a while.
    eventually("only the value is counted", || c.info_number("used_memory") < empty + (10 << 20));
    assert!(c.info_number("used_memory_rss") > 8 << 20);
    assert!(c.info_number("used_memory_peak") >= full);
    c.expect("DEL big", ":1");
    eventually("the memory is free", || c.info_number("used_memory") < empty + (1 << 20));
    assert!(c.info_number("used_memory_peak") >= full);
}

#[test]
fn command_count_and_rows() {
    let server = Server::start();
    let mut c = server.client();
    let count = usize::try_from(c.run("COMMAND COUNT").int()).expect("a count");
    assert!(count >= COMMANDS.len());
    assert_eq!(c.run("COMMAND").items().len(), count);
    assert_eq!(c.run("COMMAND INFO").items().len(), count);
    let names: BTreeSet<String> = c.run("COMMAND").items().iter().map(|row| row.items()[0].text()).collect();
    for name in COMMANDS {
        assert!(names.contains(name), "COMMAND tells {name}");
    }
    script(
        &server,
        &mut c,
        r"
        COMMAND INFO nosuch     => [nil]
        COMMAND COUNT x         => -ERR wrong number of arguments for 'command|count' command
        COMMAND NOSUCH          => -ERR unknown subcommand 'NOSUCH'. Try COMMAND HELP.
        ",
    );
    let rows = c.run("COMMAND INFO GET nosuch set");
    let [get, nosuch, set] = rows.items() else { panic!("three rows, not {rows}") };
    assert_eq!((get.items()[0].text(), set.items()[0].text()), ("get".into(), "set".into()));
    assert_eq!(*nosuch, Reply::NilBulk);
    let mut c3 = server.client3();
    let row = c3.run("COMMAND INFO get").items()[0].clone();
    assert!(
        matches!((&row.items()[2], &row.items()[6]), (Reply::Set(_), Reply::Set(_))),
        "flags are sets in RESP3: {row}"
    );
    c3.expect("COMMAND INFO nosuch", "[null]");
}

/// Name, arity, flags, keys and ACL categories of every command are those that clients know from Redis.
#[test]
fn command_rows_are_those_of_redis() {
    let Some(oracle) = Server::oracle() else {
        return skip("command_rows_are_those_of_redis", "there is no redis-server");
    };
    let server = Server::start();
    let (mut ours, mut theirs) = (server.client(), oracle.client());
    let set = |reply: &Reply| reply.items().iter().map(Reply::text).collect::<BTreeSet<_>>();
    let mut wrong = String::new();
    for name in COMMANDS {
        let [a, b] = [&mut ours, &mut theirs].map(|c| c.run(&format!("COMMAND INFO {name}")).items()[0].clone());
        let (a, b) = (a.items(), b.items());
        for (what, column) in [("name", 0), ("arity", 1), ("first key", 3), ("last key", 4), ("step", 5)] {
            if a[column] != b[column] {
                wrong += &format!("{name}: {what} is {}, not {}\n", b[column], a[column]);
            }
        }
        for (what, column) in [("flags", 2), ("categories", 6)] {
            if set(&a[column]) != set(&b[column]) {
                wrong += &format!("{name}: {what} are {:?}, not {:?}\n", set(&b[column]), set(&a[column]));
            }
        }
        // As many elements as the newest Redis: tips, key specifications, subcommands.
        assert_eq!(a.len(), 10, "{name}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn command_list_and_getkeys() {
    let server = Server::start();
    let mut c = server.client();
    let names = |reply: Reply| reply.items().iter().map(Reply::text).collect::<BTreeSet<_>>();
    let all = names(c.run("COMMAND LIST"));
    for name in COMMANDS {
        assert!(all.contains(name), "COMMAND LIST tells {name}");
    }
    // It tells subcommands as well, the count does not.
    let whole = all.iter().filter(|name| !name.contains('|')).count();
    assert_eq!(i64::try_from(whole).expect("a count"), c.run("COMMAND COUNT").int());
    assert_eq!(names(c.run("COMMAND LIST FILTERBY PATTERN [is]etex")), BTreeSet::from(["setex".to_string()]));
    let connection = names(c.run("command list filterby aclcat connection"));
    assert!(
        connection.contains("ping") && connection.contains("client|id") && !connection.contains("get"),
        "{connection:?}"
    );
    script(
        &server,
        &mut c,
        r"
        COMMAND LIST FILTERBY ACLCAT nosuch     => []
        COMMAND LIST FILTERBY MODULE nosuch     => []
        COMMAND LIST FILTERBY PATTERN nosuch*   => []
        COMMAND LIST FILTERBY                   => -ERR syntax error
        COMMAND LIST FILTERBY NOSUCH x          => -ERR syntax error
        COMMAND LIST NOSUCH                     => -ERR syntax error
        COMMAND GETKEYS SET k v EX 10           => ['k']
        COMMAND GETKEYS mset a 1 b 2            => ['a', 'b']
        COMMAND GETKEYS DEL a b c               => ['a', 'b', 'c']
        COMMAND GETKEYS PING x                  => -ERR The command has no key arguments
        COMMAND GETKEYS NOSUCH x                => -ERR Invalid command specified
        COMMAND GETKEYS GET                     => -ERR wrong number of arguments for 'command|getkeys' command
        COMMAND GETKEYS GET a b                 => -ERR Invalid number of arguments specified for command
        COMMAND GETKEYS                         => -ERR wrong number of arguments for 'command|getkeys' command
        COMMAND GETKEYSANDFLAGS GET k           => [['k', [+RO, +access]]]
        COMMAND GETKEYSANDFLAGS MSET a 1 b 2    => [['a', [+OW, +update]], ['b', [+OW, +update]]]
        COMMAND GETKEYSANDFLAGS NOSUCH x        => -ERR Invalid command specified
        ",
    );
    server.client3().expect("COMMAND GETKEYSANDFLAGS GET k", "[['k', ~[+RO, +access]]]");
}

#[test]
fn help_of_containers() {
    let server = Server::start();
    let mut c = server.client();
    for name in ["CLIENT", "COMMAND", "CONFIG", "DEBUG"] {
        let help = c.run(&format!("{name} HELP"));
        let lines: Vec<String> = help.items().iter().map(Reply::text).collect();
        assert!(
            lines[0].starts_with(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")),
            "{help}"
        );
        assert!(lines.iter().any(|line| line == "HELP"), "{help}");
        if name != "DEBUG" {
            let told = format!("-ERR wrong number of arguments for '{}|help' command", name.to_lowercase());
            c.expect(&format!("{name} HELP x"), &told);
        }
    }
}

/// What the project promises of itself: no verb without its tests.
#[test]
fn every_command_is_tested() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a source of these tests");
    let files = fs::read_dir(&folder).expect("the folder of these tests");
    let names = files
        .map(|file| file.expect("a file").file_name().into_string().expect("text"))
        .filter(|name| Path::new(name).extension().is_some());
    let families: String = names
        .filter(|name| !["differential.rs", "harness.rs"].contains(&name.as_str()))
        .map(|name| read(&name))
        .collect();
    // Random programs cannot end the connection or the server, stop it for a while, or compare what the time is; some Redis 7 does not have.
    // What is told to others, and when, is no reply that could be compared.
    let told = [
        "subscribe",
        "unsubscribe",
        "psubscribe",
        "punsubscribe",
        "ssubscribe",
        "sunsubscribe",
        "publish",
        "spublish",
        "pubsub",
    ];
    // Nor is it compared what took how long, or how much memory.
    let not_random = [
        "monitor",
        "lolwut",
        "slowlog",
        "latency",
        "memory",
        "quit",
        "reset",
        "shutdown",
        "debug",
        "time",
        "flush",
        "msetex",
        "digest",
        "delex",
        "delifeq", // What they do is in files.
        "save",
        "bgsave",
        "lastsave",
        "bgrewriteaof",
        "wait",
        "waitaof",
    ];
    let beyond_redis_7 = [
        "hexpire",
        "hpexpire",
        "hexpireat",
        "hpexpireat",
        "httl",
        "hpttl",
        "hexpiretime",
        "hpexpiretime",
        "hpersist",
        "hgetex",
        "hsetex",
        "hgetdel",
    ];
    let mut random = read("differential.rs");
    for file in fs::read_dir(folder.join("differential")).expect("the generators") {
        random.push_str(&fs::read_to_string(file.expect("a file").path()).expect("a generator"));
    }
    // The name in capitals or as a row of a script, not as a part of another word.
    let mentions = |text: &str, name: &str| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        text.match_indices(name)
            .any(|(at, _)| !letter(text[..at].chars().next_back()) && !letter(text[at + name.len()..].chars().next()))
    };
    let mut c = server.client();
    for name in c.run("COMMAND").items().iter().map(|row| row.items()[0].text()) {
        let upper = name.to_uppercase();
        assert!(mentions(&families, &upper), "{name} has no end-to-end test");
        assert!(
            not_random.contains(&name.as_str())
                || told.contains(&name.as_str())
                || beyond_redis_7.contains(&name.as_str())
                || mentions(&random, &upper),
            "{name} is not in the random programs"
        );
        for row in c.run(&format!("COMMAND INFO {name}")).items()[0].items()[9].items() {
            let subcommand = row.items()[0].text().replace('|', " ").to_uppercase();
            let told = subcommand.replace(" HELP", "");
            assert!(
                mentions(&families, &subcommand) || subcommand.ends_with("HELP") && mentions(&families, &told),
                "{subcommand} has no end-to-end test"
            );
        }
    }
}

/// The table of the README is that of the server.
#[test]
fn the_readme_knows_every_directive() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("a README");
    let (_, table) = readme.split_once("<!-- directives").expect("the mark before the table");
    let rows: BTreeSet<String> = table
        .lines()
        .skip(2)
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        // The first cell, which may name several.
        .flat_map(|line| {
            line.split('|')
                .nth(1)
                .expect("a cell")
                .split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_string)
                .collect::<Vec<_>>()
        })
        .collect();
    let told: BTreeSet<String> =
        server.client().run("CONFIG GET *").pairs().iter().map(|(name, _)| name.text()).collect();
    assert_eq!(rows, told);
}

#[test]
fn command_docs() {
    let server = Server::start();
    let mut c = server.client();
    let documented = |reply: &Reply| -> HashMap<String, HashMap<String, Reply>> {
        let fields = |value: &Reply| value.pairs().into_iter().map(|(n, v)| (n.text(), v)).collect();
        reply.pairs().iter().map(|(name, value)| (name.text(), fields(value))).collect()
    };
    let docs = documented(&c.run("COMMAND DOCS get SET nosuch"));
    assert_eq!(docs.keys().cloned().collect::<BTreeSet<_>>(), BTreeSet::from(["get".to_string(), "set".to_string()]));
    assert_eq!(docs["get"]["since"], Reply::bulk("1.0.0"));
    assert_eq!(docs["get"]["group"], Reply::bulk("string"));
    assert_eq!(docs["get"]["complexity"], Reply::bulk("O(1)"));
    assert!(!docs["set"]["summary"].text().is_empty());
    c.expect("COMMAND DOCS nosuch", "[]");
    let all = documented(&c.run("COMMAND DOCS"));
    for name in COMMANDS {
        assert!(!all[name]["summary"].text().is_empty(), "{name} has a summary");
        assert!(!all[name]["since"].text().is_empty(), "{name} has a version");
        assert!(!all[name]["group"].text().is_empty(), "{name} has a group");
    }
    let mut c3 = server.client3();
    assert!(matches!(c3.run("COMMAND DOCS get"), Reply::Map(pairs) if matches!(pairs[0].1, Reply::Map(_))));
    c3.expect("COMMAND DOCS nosuch", "{}");
}

#[test]
fn config_get() {
    let server =
        Server::with(&["--maxclients", "123", "--timeout", "300", "--tcp-keepalive", "60", "--databases", "7"]);
    let mut c = server.client();
    let get = |c: &mut Client, line: &str| -> HashMap<String, String> {
        c.run(line).pairs().iter().map(|(name, value)| (name.text(), value.text())).collect()
    };
    let all = get(&mut c, "CONFIG GET *");
    for (name, value) in [
        ("port", server.port.to_string().as_str()),
        ("bind", "127.0.0.1"),
        ("unixsocket", ""),
        ("tcp-backlog", "511"),
        ("tcp-keepalive", "60"),
        ("timeout", "300"),
        ("maxclients", "123"),
        ("databases", "7"),
        ("requirepass", ""),
        ("proto-max-bulk-len", "536870912"),
        ("client-query-buffer-limit", "1073741824"),
        ("client-output-buffer-limit", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
        ("loglevel", "notice"),
        ("logfile", ""),
        ("dir", server.folder().canonicalize().expect("the folder").to_str().expect("text")),
        ("hz", "10"),
    ] {
        assert_eq!(all.get(name).map(String::as_str), Some(value), "CONFIG GET * tells {name}");
        assert_eq!(get(&mut c, &format!("CONFIG GET {name}")), HashMap::from([(name.to_string(), value.to_string())]));
    }
    script(
        &server,
        &mut c,
        r"
        CONFIG GET nosuch        => []
        config get maxc*         => ['maxclients', '123']
        CONFIG GET               => -ERR wrong number of arguments for 'config|get' command
        CONFIG                   => -ERR wrong number of arguments for 'config' command
        CONFIG NOSUCH            => -ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.
        ",
    );
    let several = get(&mut c, "CONFIG GET maxclients time[o]ut nosuch max?lients");
    assert_eq!(several, HashMap::from([("maxclients".into(), "123".into()), ("timeout".into(), "300".into())]));
    let mut c3 = server.client3();
    c3.expect("CONFIG GET maxclients", "{'maxclients': '123'}");
    c3.expect("CONFIG GET nosuch", "{}");
}

#[test]
fn configuration_file() {
    let text = "# a comment\n\n  timeout 17  \nTCP-Keepalive 99\nrequirepass \"two \\x77ords\"\nmaxclients 50\ndatabases 'a' \n";
    let server =
        Server::configured(&text.replace("databases 'a'", "databases '9'"), &["--maxclients", "60", "--hz", "20"]);
    let mut c = server.client();
    c.expect("AUTH 'two words'", "+OK");
    for (name, value) in
        [("timeout", "17"), ("tcp-keepalive", "99"), ("maxclients", "60"), ("databases", "9"), ("hz", "20")]
    {
        // The command line comes after the file.
        c.expect(&format!("CONFIG GET {name}"), &format!("['{name}', '{value}']"));
    }
}

#[test]
fn bad_configuration() {
    let folder = Folder::new();
    let path = folder.path().join("bad.conf");
    let path = path.to_str().expect("text");
    for (text, line, word) in [
        ("port 0\n\nnosuch-directive 1\n", "3", "nosuch-directive"),
        ("port abc\n", "1", "abc"),
        ("port 65536\n", "1", "65536"),
        ("port\n", "1", "port"),
        ("timeout 1 2\n", "1", "timeout"),
        ("# fine\nrequirepass \"open\n", "2", "requirepass"),
        ("loglevel nosuch\n", "1", "nosuch"),
        ("maxclients 0\n", "1", "maxclients"),
    ] {
        fs::write(path, text).expect("a configuration file");
        let (status, output) = run_to_end(&[path]);
        assert!(!status.success(), "{text:?} was accepted:\n{output}");
        assert!(
            output.contains(line) && output.contains(word),
            "{text:?}: line {line} and {word} are named:\n{output}"
        );
        if !matches!(under_test().1, crate::harness::Kind::Redis) {
            assert!(output.contains("bad.conf"), "{text:?}: the file is named:\n{output}");
        }
    }
    let (status, output) = run_to_end(&["--nosuch-directive", "1"]);
    assert!(!status.success() && output.contains("nosuch-directive"), "{output}");
    let missing = folder.path().join("missing.conf");
    let (status, output) = run_to_end(&[missing.to_str().expect("text")]);
    assert!(!status.success() && output.contains("missing.conf"), "{output}");
}

#[test]
fn help_and_version() {
    for flag in ["--version", "-v"] {
        let (status, output) = run_to_end(&[flag]);
        assert!(
            status.success() && output.contains("v=") || output.contains(env!("CARGO_PKG_VERSION")),
            "{flag}: {output}"
        );
    }
    let (_, output) = run_to_end(&["--help"]);
    assert!(output.contains("port"), "{output}");
    if under_test().1 == crate::harness::Kind::Dolmen {
        for directive in ["port", "bind", "maxclients", "requirepass", "workers"] {
            assert!(output.contains(directive), "--help tells {directive}:\n{output}");
        }
    }
}

#[test]
fn it_says_where_it_listens() {
    let server = Server::start();
    server.assert_alive();
    eventually("the log names the port", || server.output().contains(&server.port.to_string()));
    if !server.is_redis() {
        assert!(server.output().contains(env!("CARGO_PKG_VERSION")), "{}", server.output());
        assert!(server.output().contains("worker"), "{}", server.output());
    }
}

#[test]
fn a_port_in_use_is_an_error() {
    let server = Server::start();
    let (status, output) = run_to_end(&["--port", &server.port.to_string(), "--bind", "127.0.0.1"]);
    assert!(!status.success());
    assert!(output.to_lowercase().contains("in use"), "{output}");
    server.assert_alive();
}

#[test]
fn logfile() {
    let folder = Folder::new();
    let log = folder.path().join("the.log");
    let server = Server::with(&["--logfile", log.to_str().expect("text"), "--loglevel", "debug"]);
    server.assert_alive();
    eventually("the log is written", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains(&server.port.to_string()))
    });
}

#[test]
fn unix_socket() {
    let folder = Folder::new();
    let path = folder.path().join("sock");
    let mut server = Server::with(&["--unixsocket", path.to_str().expect("text")]);
    eventually("the socket is there", || path.exists());
    let mut stream = UnixStream::connect(&path).expect("it accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&[request(&["SET", "k", "v"]), request(&["GET", "k"])].concat()).expect("it reads");
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).expect("it answers");
    assert_eq!(&reply, b"+OK\r\n$1\r\nv\r\n");
    let mut c = server.client();
    c.expect("GET k", "'v'");
    let list = c.run("CLIENT LIST").text();
    assert!(list.contains(&format!("addr={}:0", path.display())), "{list}");
    server.signal(Signal::SIGTERM);
    assert!(server.wait_exit().success());
    assert!(!path.exists(), "the socket goes with the server");
}

#[test]
fn time() {
    let server = Server::start();
    let mut c = server.client();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
    let before = now();
    let reply = c.run("TIME");
    let after = now();
    let [seconds, micros] = reply.items() else { panic!("two strings, not {reply}") };
    let [seconds, micros] = [seconds, micros].map(|text| text.text().parse::<u128>().expect("a number"));
    assert!(micros < 1_000_000);
    let told = seconds * 1_000_000 + micros;
    // The server may use the time at which its turn began.
    assert!((before.saturating_sub(1_000_000)..=after).contains(&told), "{before} <= {told} <= {after}");
    c.expect("TIME x", "-ERR wrong number of arguments for 'time' command");
}

#[test]
fn debug_sleep() {
    let server = Server::start();
    let mut c = server.client();
    let began = Instant::now();
    c.expect("DEBUG SLEEP 0.05", "+OK");
    assert!(began.elapsed() >= Duration::from_millis(50));
    c.expect("debug sleep 0", "+OK");
    c.expect("DEBUG", "-ERR wrong number of arguments for 'debug' command");
    c.expect("DEBUG SLEEP", "-ERR ");
    c.expect("DEBUG NOSUCH-COMMAND", "-ERR ");
}

#[test]
fn shutdown() {
    for line in ["SHUTDOWN", "SHUTDOWN NOSAVE", "shutdown nosave now force"] {
        let mut server = Server::start();
        let mut c = server.client();
        c.expect("SET k v", "+OK");
        c.expect("SHUTDOWN NOSUCH", "-ERR syntax error");
        c.expect("SHUTDOWN SAVE NOSAVE", "-ERR syntax error");
        c.expect("SHUTDOWN ABORT NOW", "-ERR syntax error");
        c.expect("SHUTDOWN ABORT", "-ERR No shutdown in progress.");
        c.expect("PING", "+PONG");
        c.send(&request(&words(line)));
        c.expect_closed();
        assert!(server.wait_exit().success(), "{line}");
    }
}

#[test]
fn signals_end_it_cleanly() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start();
        let mut c = server.client();
        c.expect("SET k v", "+OK");
        server.signal(signal);
        assert!(server.wait_exit().success(), "{signal}");
        c.expect_closed();
    }
}

/// What was read is answered before the server goes.
#[test]
fn a_signal_does_not_swallow_answers() {
    let mut server = Server::start();
    let mut c = server.client();
    let (pings, value) = (1000, vec![b'v'; 1000]);
    assert_eq!(c.call(&[b"SET", b"k".as_slice(), &value]), Reply::Simple("OK".into()));
    c.send(&request(&["GET", "k"]).repeat(pings));
    server.client().expect("PING", "+PONG");
    server.signal(Signal::SIGTERM);
    for i in 0..pings {
        assert!(c.read().bytes() == value, "answer {i}");
    }
    c.expect_closed();
    assert!(server.wait_exit().success());
}

#[test]
fn maxclients() {
    let server = Server::with(&["--maxclients", "5"]);
    let mut clients: Vec<Client> = (0..5).map(|_| server.client()).collect();
    for c in &mut clients {
        c.expect("PING", "+PONG");
    }
    for refused in 1..=3 {
        let mut c = server.client();
        assert_eq!(c.read(), Reply::Error("ERR max number of clients reached".into()));
        c.expect_closed();
        assert_eq!(clients[0].info_number("rejected_connections"), refused);
    }
    assert_eq!(clients[0].info_number("connected_clients"), 5);
    clients.pop();
    eventually("there is room again", || server.client().try_read_pong());
}

/// Replies that were made before the signal reach a client that is late to fetch them, also when it has sent more than was read.
#[test]
fn a_signal_loses_no_reply_that_was_made() {
    let mut server = Server::start();
    let mut c = server.client();
    let value = vec![b'x'; 3_000_000];
    c.call(&[&b"SET"[..], b"big", &value]);
    let mut late = server.client();
    let mut requests = Vec::new();
    for _ in 0..20 {
        requests.extend(request(&["GET", "big"]));
    }
    for _ in 0..1000 {
        requests.extend(request(&["INCR", "n"]));
    }
    late.send(&requests);
    eventually("the first replies are made", || c.info_number("total_net_output_bytes") > 3_000_000);
    server.signal(Signal::SIGTERM);
    for _ in 0..20 {
        assert_eq!(late.read().bytes().len(), value.len());
    }
    // Of those behind, some may not have been read by the server: they are not answered, but the connection ends, and is not reset.
    let mut answered = 0;
    loop {
        match late.try_read() {
            Ok(reply) => answered += i64::from(reply == Reply::Int(answered + 1)),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "after {answered}");
                break;
            }
        }
    }
    assert!(answered > 100, "{answered} of what was read with the first requests");
    assert!(server.wait_exit().success());
}

/// A server that nobody could reach does not start.
#[test]
fn nowhere_to_listen() {
    if matches!(under_test().1, crate::harness::Kind::Redis) {
        return;
    }
    let (status, output) = run_to_end(&["--port", "0"]);
    assert!(!status.success());
    assert!(output.contains("not listen anywhere"), "{output}");
}

/// A value that is received in place counts against the limit of the query buffer as any other request does.
#[test]
fn the_query_buffer_limit_holds_for_large_values() {
    let server = Server::with(&["--client-query-buffer-limit", "1mb"]);
    let mut c = server.client();
    // What is above the limit is never answered; how the connection ends depends on what was under way.
    let mut cut = server.client();
    let value = vec![b'x'; 8 << 20];
    let _ = cut.stream().write_all(&request(&[&b"SET"[..], b"big", &value]));
    assert!(cut.try_read().is_err(), "a value above the limit was taken");
    c.expect("EXISTS big", ":0");
    c.expect("PING", "+PONG");
}

/// `cpu-list` and Redis's `io-threads`.
#[test]
fn workers_are_pinned_and_io_threads_are_noted() {
    if matches!(under_test().1, crate::harness::Kind::Redis) {
        return;
    }
    let allowed = |status: &Path| {
        let status = fs::read_to_string(status).unwrap_or_default();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.unwrap_or_default().trim().to_owned()
    };
    // The last of the CPUs that this test may use.
    let mine = allowed(Path::new("/proc/self/status"));
    let cpu = mine.rsplit([',', '-']).next().expect("a CPU");
    let server = Server::with(&["--workers", "1", "--cpu-list", cpu, "--io-threads", "4"]);
    let mut c = server.client();
    c.expect("PING", "+PONG");
    assert_eq!(c.run("CONFIG GET cpu-list").items()[1].text(), cpu);
    assert_eq!(c.run("CONFIG GET io-threads").items()[1].text(), "4");
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server's threads");
    let pinned = threads.filter_map(Result::ok).filter(|thread| allowed(&thread.path().join("status")) == cpu).count();
    assert!(pinned >= 1, "no thread has CPU {cpu} for itself");
    assert!(server.output().contains("io-threads has no effect"), "{}", server.output());
    let (status, output) = run_to_end(&["--cpu-list", "1023-0"]);
    assert!(!status.success() && output.contains("cpu-list: '1023-0' is not a range of CPUs"), "{output}");
}
