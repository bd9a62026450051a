//! SLOWLOG, LATENCY, and what INFO tells of the calls of commands. With one worker and with several, as what all have counted is told together.

use std::collections::HashMap;

use crate::control::servers;
use crate::harness::{Client, Reply, Server, request, script};

/// A section of INFO as a map.
fn section(client: &mut Client, name: &str) -> HashMap<String, String> {
    let text = client.run(&format!("INFO {name}")).text();
    let pair = |line: &str| line.split_once(':').map(|(field, value)| (field.to_owned(), value.to_owned()));
    text.lines().filter_map(pair).collect()
}

/// A number within a value, as `calls=3`.
fn number(value: &str, name: &str) -> u64 {
    let part = value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    part.unwrap_or_else(|| panic!("{name} in {value}")).parse().expect("a number")
}

fn crowd(server: &Server) -> Vec<Client> {
    (0..6).map(|_| server.client()).collect()
}

#[test]
fn calls_are_counted_on_all_workers() {
    for server in servers(&[]) {
        let mut clients = crowd(&server);
        clients[0].expect("CONFIG RESETSTAT", "+OK");
        for client in &mut clients {
            client.expect("SET k v", "+OK");
            client.expect("GET k", "'v'");
            client.expect("LPUSH k x", "-WRONGTYPE Operation against a key holding the wrong kind of value");
            client.expect("GET", "-ERR wrong number of arguments for 'get' command");
            client.expect("NOSUCH", "-ERR unknown command 'NOSUCH'");
            // Of each kind, in one pipeline.
            let mut batch = Vec::new();
            for n in 0..100 {
                batch.extend(request(&["GET", "k"]));
                batch.extend(request(&[if n % 2 == 0 { "STRLEN" } else { "TYPE" }, "k"]));
            }
            client.send(&batch);
            (0..200).for_each(|_| assert!(!client.read().is_error()));
            client.expect("MULTI", "+OK");
            client.expect("INCR n", "+QUEUED");
            client.expect("HSET k f v", "+QUEUED");
            assert_eq!(client.run("EXEC").items().len(), 2);
            client.expect("CLIENT GETNAME", "nil");
        }
        let told = section(&mut clients[3], "commandstats");
        for (name, calls, failed, rejected) in [
            ("set", 6, 0, 0),
            ("get", 606, 0, 6),
            ("strlen", 300, 0, 0),
            ("type", 300, 0, 0),
            ("lpush", 6, 6, 0),
            ("multi", 6, 0, 0),
            ("exec", 6, 0, 0),
            ("incr", 6, 0, 0),
            ("hset", 6, 6, 0),
            ("client|getname", 6, 0, 0),
        ] {
            let value = told.get(&format!("cmdstat_{name}")).unwrap_or_else(|| panic!("{name} in {told:?}"));
            assert_eq!(number(value, "calls"), calls, "{name}: {value}");
            assert_eq!(number(value, "failed_calls"), failed, "{name}: {value}");
            assert_eq!(number(value, "rejected_calls"), rejected, "{name}: {value}");
        }
        assert!(!told.contains_key("cmdstat_hget"), "{told:?}");
        let errors = section(&mut clients[1], "errorstats");
        assert_eq!(errors["errorstat_WRONGTYPE"], "count=12");
        assert_eq!(errors["errorstat_ERR"], "count=12");
        let times = section(&mut clients[2], "latencystats");
        let get = &times["latency_percentiles_usec_get"];
        assert!(get.starts_with("p50=") && get.contains(",p99=") && get.contains(",p99.9="), "{get}");
        clients[4].expect("CONFIG SET latency-tracking-info-percentiles '25 100'", "+OK");
        let get = section(&mut clients[2], "latencystats").remove("latency_percentiles_usec_get").expect("its times");
        assert!(get.starts_with("p25=") && get.contains(",p100="), "{get}");
        let usual = clients[0].run("INFO").text();
        assert!(usual.contains("# Errorstats") && !usual.contains("cmdstat_") && !usual.contains("latency_perc"));
        let all = clients[0].run("INFO all").text();
        assert!(all.contains("cmdstat_get:") && all.contains("latency_percentiles_usec_get:"));
        clients[5].expect("CONFIG RESETSTAT", "+OK");
        assert!(!section(&mut clients[0], "commandstats").contains_key("cmdstat_get"));
        assert!(section(&mut clients[0], "errorstats").is_empty());
    }
}

#[test]
fn histograms() {
    for server in servers(&[]) {
        let mut clients = crowd(&server);
        clients[0].expect("CONFIG RESETSTAT", "+OK");
        for client in &mut clients {
            (0..50).for_each(|_| client.expect("SET k v", "+OK"));
            client.expect("CLIENT GETNAME", "nil");
        }
        let told = clients[2].run("LATENCY HISTOGRAM set client nosuch");
        let told: HashMap<String, Vec<(Reply, Reply)>> =
            told.pairs().iter().map(|(name, value)| (name.text(), value.pairs())).collect();
        let set = &told["set"];
        assert_eq!(set[0], (Reply::bulk("calls"), Reply::Int(300)));
        let powers: Vec<(i64, i64)> =
            set[1].1.pairs().iter().map(|(bound, calls)| (bound.int(), calls.int())).collect();
        assert!(powers.is_sorted() && powers.iter().map(|power| power.1).is_sorted(), "{powers:?}");
        assert_eq!(powers.last().expect("a power").1, 300);
        assert_eq!(told["client|getname"][0].1, Reply::Int(6));
        let mut names: Vec<_> = told.keys().collect();
        names.sort();
        assert_eq!(names, ["client|getname", "set"]);
        let mut all = server.client3();
        let Reply::Map(all) = all.run("LATENCY HISTOGRAM") else { panic!("a map") };
        assert!(all.iter().any(|(name, _)| name.text() == "set"));
        clients[1].expect("CONFIG SET latency-tracking no", "+OK");
        clients[1].expect("CONFIG RESETSTAT", "+OK");
        clients[1].expect("SET k v", "+OK");
        clients[1].expect("LATENCY HISTOGRAM set", "[]");
    }
}

#[test]
fn the_slow_log() {
    for server in servers(&[]) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            SLOWLOG                     => -ERR wrong number of arguments for 'slowlog' command
            SLOWLOG NOSUCH              => -ERR unknown subcommand 'NOSUCH'. Try SLOWLOG HELP.
            SLOWLOG GET -2              => -ERR count should be greater than or equal to -1
            SLOWLOG GET x               => -ERR count should be greater than or equal to -1
            SLOWLOG GET 1 2             => -ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.
            SLOWLOG RESET               => +OK
            SLOWLOG LEN                 => :0
            SLOWLOG GET                 => []
            CLIENT SETNAME slow         => +OK
            CONFIG SET slowlog-max-len 4 slowlog-log-slower-than 0 => +OK
            SLOWLOG RESET               => +OK
            PING                        => +PONG
            AUTH default secret         => +OK
            ACL SETUSER u >secret       => +OK
            CONFIG SET timeout 0 requirepass '' => +OK
            ",
        );
        let log = c.run("SLOWLOG GET 3");
        let entries: Vec<Vec<String>> =
            log.items().iter().map(|entry| entry.items()[3].items().iter().map(Reply::text).collect()).collect();
        assert_eq!(
            entries,
            [
                vec!["CONFIG", "SET", "timeout", "0", "requirepass", "(redacted)"],
                vec!["ACL", "SETUSER", "(redacted)", "(redacted)"],
                vec!["AUTH", "(redacted)", "(redacted)"],
            ]
        );
        let latest = log.items()[0].items();
        let address = c.stream().local_addr().expect("an address").to_string();
        assert_eq!((latest.len(), latest[4].text(), latest[5].text()), (6, address, "slow".into()));
        assert!(latest[1].int() > 1_600_000_000 && latest[2].int() >= 0);
        assert!(latest[0].int() > log.items()[1].items()[0].int());
        c.expect("SLOWLOG LEN", ":4");
        // Long ones are cut.
        let mut words = vec!["SADD".to_owned(), "set".into(), "x".repeat(200)];
        words.extend((0..37).map(|n| n.to_string()));
        assert_eq!(c.call(&words), Reply::Int(38));
        let kept: Vec<String> = c.run("SLOWLOG GET 1").items()[0].items()[3].items().iter().map(Reply::text).collect();
        assert_eq!(kept.len(), 32);
        assert_eq!(kept[2], format!("{}... (72 more bytes)", "x".repeat(128)));
        assert_eq!(kept[31], "... (9 more arguments)");
        // EXEC is not in it, what it runs is.
        c.expect("SLOWLOG RESET", "+OK");
        c.expect("MULTI", "+OK");
        c.expect("ECHO a", "+QUEUED");
        c.expect("EXEC", "['a']");
        let names: Vec<String> =
            c.run("SLOWLOG GET -1").items().iter().map(|entry| entry.items()[3].items()[0].text()).collect();
        assert_eq!(names, ["ECHO", "MULTI", "SLOWLOG"]);
        c.expect("CONFIG SET slowlog-log-slower-than -1", "+OK");
        c.expect("SLOWLOG RESET", "+OK");
        c.expect("PING", "+PONG");
        c.expect("SLOWLOG LEN", ":0");
        // By default what takes long is in it, also if it waits meanwhile or is in a pipeline of others.
        c.expect("CONFIG SET slowlog-log-slower-than 20000", "+OK");
        c.send(&[request(&["PING"]), request(&["DEBUG", "SLEEP", "0.1"]), request(&["PING"])].concat());
        (0..3).for_each(|_| assert!(!c.read().is_error()));
        let sleeper = |entry: &Reply| entry.items()[3].items().get(1).is_some_and(|word| word.text() == "SLEEP");
        assert!(c.run("SLOWLOG GET").items().iter().any(|entry| sleeper(entry) && entry.items()[2].int() >= 100_000));
    }
}

#[test]
fn the_latency_monitor() {
    for server in servers(&[]) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            LATENCY                     => -ERR wrong number of arguments for 'latency' command
            LATENCY NOSUCH              => -ERR unknown subcommand 'NOSUCH'. Try LATENCY HELP.
            LATENCY LATEST              => []
            LATENCY HISTORY nosuch      => []
            LATENCY GRAPH nosuch        => -ERR No samples available for event 'nosuch'
            LATENCY RESET               => :0
            LATENCY RESET nosuch        => :0
            ",
        );
        assert!(c.run("LATENCY DOCTOR").text().contains("disabled"));
    }
}

/// What one worker has noted every client is told.
#[test]
fn what_took_long_is_told_everywhere() {
    for server in servers(&["--latency-monitor-threshold", "1"]).into_iter().filter(|server| !server.is_redis()) {
        let mut clients = crowd(&server);
        let mut words = vec!["SADD".to_owned(), "a".into()];
        words.extend((0..60_000).map(|n| n.to_string()));
        assert_eq!(clients[0].call(&words), Reply::Int(60_000));
        words[1] = "b".into();
        assert_eq!(clients[0].call(&words), Reply::Int(60_000));
        for n in 0..20 {
            let at = n % clients.len();
            assert_eq!(clients[at].run("SINTERSTORE c a b"), Reply::Int(60_000));
        }
        for client in &mut clients {
            let latest = client.run("LATENCY LATEST");
            let names: Vec<String> = latest.items().iter().map(|event| event.items()[0].text()).collect();
            assert!(names.contains(&"command".into()), "{latest}");
            assert!(!client.run("LATENCY HISTORY command").items().is_empty());
            assert!(client.run("LATENCY GRAPH command").text().starts_with("command - high "));
            assert!(client.run("LATENCY DOCTOR").text().contains("command: in "));
        }
        clients[3].expect("LATENCY RESET command", ":1");
        clients[4].expect("LATENCY HISTORY command", "[]");
    }
}
