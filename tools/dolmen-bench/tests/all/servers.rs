//! Against real servers: that they got what was counted, and agree with other clients about it.

use std::process::Command;

use super::support::*;

#[test]
fn redis_counts_what_the_tool_counts() {
    let Some(redis) = redis("") else { return };
    let port = redis.port;
    let run = run(&format!("-p {port} -n 20000 -P 10 --ratio 4:3:2:1 -r 1000 --threads 2"));
    for (name, command) in [("get", "get"), ("set", "set"), ("del", "del"), ("incr", "incr")] {
        assert_eq!(calls(port, command), requests_of(&run, name), "{name}");
    }
    assert!(run["server"].as_str().is_some_and(|server| server.starts_with("redis ")), "{}", run["server"]);
}

#[test]
fn a_fill_writes_every_key_once() {
    let Some(redis) = redis("") else { return };
    let port = redis.port;
    let run = run(&format!("-p {port} -t get -n 5000 -r 12345 --threads 3 -c 7 -d 5-50 --fill"));
    assert_eq!((number(port, "DBSIZE"), calls(port, "set")), (12_345, 12_345));
    assert_eq!(run["commands"][0]["misses"], 0, "so every GET hits");
    assert_eq!(run["fill"]["requests"], 12_345);
}

#[test]
fn the_same_options_do_what_they_do_in_redis_benchmark() {
    let Some(redis) = redis("") else { return };
    if !installed("redis-benchmark") {
        return;
    }
    let port = redis.port;
    let tests = "ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,mset";
    let commands = [
        "ping", "set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd", "zpopmin",
        "mset",
    ];
    let options = format!("-p {port} -n 3000 -c 10 -P 4 -r 50 -d 8");
    let counts = || commands.map(|command| calls(port, command));
    let theirs =
        Command::new("redis-benchmark").args(options.split(' ')).args(["-q", "-t", tests]).output().expect("it runs");
    assert!(theirs.status.success());
    let (after_theirs, keys) = (counts(), number(port, "DBSIZE"));
    let value = ask(port, "STRLEN key:000000000007");
    let ours = runs(&format!("{options} -t {tests}"));
    assert_eq!(ours.len(), 15);
    // Both say PING when they connect, or CONFIG GET; so of that no more than twenty beyond.
    for ((command, before), after) in commands.iter().zip(after_theirs).zip(counts()) {
        let asked = if *command == "ping" { 6000 } else { 3000 };
        let theirs = before.abs_diff(asked);
        let ours = (after - before).abs_diff(asked);
        let connecting = if *command == "ping" { 15 * 12 } else { 0 };
        assert!(
            theirs == 0 && ours <= connecting,
            "{command}: {before} by redis-benchmark, {} by this tool",
            after - before
        );
    }
    // The same names of keys: no new ones came.
    assert_eq!(number(port, "DBSIZE"), keys);
    assert_eq!(ask(port, "STRLEN key:000000000007"), value);
}

#[test]
fn every_workload_runs_on_redis_in_both_protocols() {
    let Some(redis) = redis("") else { return };
    let port = redis.port;
    let listed = call("list");
    let names: Vec<&str> = listed.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 25 && names.contains(&"ycsb-e"), "{names:?}");
    for name in names {
        for more in ["", "-3 -P 7 --threads 2", "--rate 20000 --poisson"] {
            ask(port, "FLUSHALL");
            let run =
                run(&format!("-p {port} -t {name} -n 400 -c 5 -r 100 --fill --subscribers 6 --channels 2 {more}"));
            assert_eq!(count(&run, "requests"), 400, "{name} {more}");
        }
    }
}

#[test]
fn messages_reach_all_subscribers() {
    let Some(redis) = redis("") else { return };
    for more in ["", "-3 --threads 3", "-P 10"] {
        let run = run(&format!("-p {} -t pubsub -n 1000 -c 6 --subscribers 12 --channels 3 {more}", redis.port));
        // Each channel has four of the twelve.
        assert_eq!((count(&run["messages"], "sent"), count(&run["messages"], "received")), (4000, 4000), "{more}");
        assert_eq!(requests_of(&run, "deliver"), 4000);
    }
}

#[test]
fn values_keys_and_deadlines_are_as_asked() {
    let Some(redis) = redis("") else { return };
    let port = redis.port;
    run(&format!("-p {port} -t set -n 2000 -r 100 -d 10-20 --ttl 1000-2000 --key-prefix p: --key-bytes 9"));
    assert_eq!(number(port, "DBSIZE"), 100);
    for key in ["p:0000000", "p:0000099"] {
        assert!((10..=20).contains(&number(port, &format!("STRLEN {key}"))), "{key}");
        assert!((900..=2000).contains(&number(port, &format!("TTL {key}"))), "{key}");
    }
    ask(port, "FLUSHALL");
    let trace = scratch("trace");
    std::fs::write(&trace, "apple\npear\n\nfig\n").expect("a file");
    run(&format!("-p {port} -t set -n 30 --keys-by file:{}", trace.display()));
    std::fs::remove_file(&trace).expect("it was there");
    assert_eq!(number(port, "DBSIZE"), 3);
    assert_eq!(number(port, "EXISTS apple pear fig"), 3);
    ask(port, "FLUSHALL");
    let mut own = bench(&format!("-p {port} -n 300 -r 10 --json"));
    let own = own.args(["--command", "2*HSET h:{key} f{rand:1-3} '{value} x'", "--command", "HLEN h:{key}"]);
    let own = called(own.output().expect("the tool runs"));
    assert_eq!(own.code, Some(0), "{}{}", own.out, own.err);
    assert_eq!(calls(port, "hset") + calls(port, "hlen"), 300);
    assert!((1..=3).contains(&number(port, "HLEN h:key:000000000003")));
}

#[test]
fn verification_is_content_with_honest_servers() {
    if let Some(redis) = redis("") {
        for more in [
            "",
            "-3 --threads 2",
            "-d 300k -r 60 -n 300",
            "--rate 50000 -P 4",
            "--keys-by zipf -d lognormal:100,1",
            "--keys-by sequential",
        ] {
            ask(redis.port, "FLUSHALL");
            let run = run(&format!(
                "-p {} -n 10000 -c 20 -P 8 -r 500 -d 1-100 --ratio 5:4:1:1 --fill --verify {more}",
                redis.port
            )
            .replace("-d 1-100", if more.contains("-d") { "" } else { "-d 1-100" })
            .replacen("-r 500", if more.contains("-r ") { "" } else { "-r 500" }, 1)
            .replacen("-P 8", if more.contains("-P") { "" } else { "-P 8" }, 1)
            .replacen("-n 10000", if more.contains("-n ") { "" } else { "-n 10000" }, 1));
            let verification = &run["verification"];
            assert_eq!(verification["wrong"], 0, "{more}: {verification}");
            assert!(count(verification, "checked") > count(&run, "requests") / 3, "{more}: {verification}");
        }
        // A server that deletes some keys behind the back of the tool is found out, unless it may.
        ask(redis.port, "CONFIG SET maxmemory 3mb");
        ask(redis.port, "CONFIG SET maxmemory-policy allkeys-random");
        let options = format!("-p {} -n 20000 -r 5000 -P 8 -d 1000 --ratio 1:1 --verify", redis.port);
        let called = call(&format!("{options} --json"));
        assert_eq!(called.code, Some(1), "{}", called.err);
        assert!(count(&json(&called)["runs"][0]["verification"], "wrong") > 0);
        run(&format!("{options} --allow-misses"));
    }
    if let Some(memcached) = memcached() {
        let options = "--protocol memcached -n 10000 -c 20 -P 8 -r 500 -d 1-100 --ratio 5:4:1:1 --fill --verify";
        let run = run(&format!("-p {} {options}", memcached.port));
        assert_eq!(run["verification"]["wrong"], 0, "{}", run["verification"]);
        assert!(count(&run["verification"], "checked") > 3000);
    }
}

#[test]
fn memcached_runs_what_it_can() {
    let Some(memcached) = memcached() else { return };
    let port = memcached.port;
    for name in ["set", "get", "del", "incr", "cache", "mixed", "ycsb-a", "ycsb-d", "ycsb-f"] {
        let run = run(&format!("--protocol memcached -p {port} -t {name} -n 2000 -P 4 -r 100 --fill --ttl 100"));
        assert_eq!(count(&run, "requests"), 2000, "{name}");
        assert!(run["server"].as_str().is_some_and(|server| server.starts_with("memcached 1")), "{}", run["server"]);
    }
    for (options, reason) in [
        (format!("-p {port}"), "memcached? --protocol memcached"),
        (format!("-p {port} --protocol memcached -t lpush"), "memcached has no command like LPUSH"),
    ] {
        let called = call(&options);
        assert!(called.code == Some(1) && called.err.contains(reason), "{options}: {}", called.err);
    }
    if let Some(redis) = redis("") {
        let called = call(&format!("-p {} --protocol memcached", redis.port));
        assert!(called.code == Some(1) && called.err.contains("Redis? --protocol resp2"), "{}", called.err);
    }
}

#[test]
fn passwords_users_and_databases() {
    let Some(redis) = redis("--requirepass secret") else { return };
    let port = redis.port;
    let called = call(&format!("-p {port}"));
    assert!(called.code == Some(1) && called.err.contains("wants a password"), "{}", called.err);
    let called = call(&format!("-p {port} -a wrong"));
    assert!(called.code == Some(1) && called.err.contains("WRONGPASS"), "{}", called.err);
    run(&format!("-p {port} -a secret --user default -3 --db 3 -t set -n 100 -r 10"));
    let mut from_variable = bench(&format!("-p {port} -t get -n 10 --json"));
    let from_variable = called_with(&mut from_variable, "secret");
    assert_eq!(from_variable.code, Some(0), "{}", from_variable.err);
}

fn called_with(command: &mut Command, password: &str) -> Called {
    called(command.env("DOLMEN_BENCH_PASSWORD", password).output().expect("the tool runs"))
}
