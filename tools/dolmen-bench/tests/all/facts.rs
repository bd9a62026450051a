//! Counts, mixes, schedules and formats of results: what holds on any machine, against the null server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::support::*;

#[test]
fn as_many_requests_as_asked_for() {
    let null = null_server("");
    for (options, requests) in [
        ("-n 5000", 5000),
        ("-n 4999 -P 16", 4999),
        ("-n 1 -c 1", 1),
        ("-n 10001 -c 7 -P 100 --threads 3", 10_001),
        ("-n 999 -c 1 -P 1000", 999),
        ("-n 3000 -c 5 --threads 2 --keys-by sequential -r 1000", 3000),
        ("-n 2000 -c 10 --rate 1M -P 4", 2000),
        ("-n 500 -d 100k -P 4", 500),
        ("-n 500 -3", 500),
    ] {
        let run = run(&format!("-t set -p {} {options}", null.port));
        assert_eq!(count(&run, "requests"), requests, "{options}");
    }
}

#[test]
fn a_mix_has_its_shares() {
    let null = null_server("");
    let run = run(&format!("-p {} -n 100000 -P 50 --ratio 70:20:5:5", null.port));
    for (command, share) in [("get", 0.7), ("set", 0.2), ("del", 0.05), ("incr", 0.05)] {
        let seen = requests_of(&run, command) as f64;
        let deviation = (1e5 * share * (1.0f64 - share)).sqrt();
        assert!((seen - 1e5 * share).abs() < 4.0 * deviation, "{command}: {seen}");
    }
}

#[test]
fn followers_follow() {
    let null = null_server("");
    let run = run(&format!("-p {} -n 20000 -t ycsb-f -P 8 --threads 2", null.port));
    let (reads, writes) = (requests_of(&run, "rmw-read"), requests_of(&run, "rmw-write"));
    // At the end some reads have no write yet: at most one a connection.
    assert!(reads >= writes && reads - writes <= 50, "{reads} reads, {writes} writes");
    assert!(requests_of(&run, "read") > 5000);
}

#[test]
fn the_open_loop_sends_what_is_due() {
    let null = null_server("");
    for more in ["", "--threads 2", "-P 8"] {
        let run = run(&format!("-p {} -t get --rate 4000 --duration 1s -c 8 {more}", null.port));
        let due = count(&run, "requests") + count(&run, "unsent");
        assert!((3998..=4002).contains(&due), "{more}: {due}");
    }
    // At random, a thousand with a deviation of 32.
    let run = run(&format!("-p {} -t get --rate 1000 --duration 1s --poisson", null.port));
    let due = count(&run, "requests") + count(&run, "unsent");
    assert!((870..=1130).contains(&due), "{due}");
}

/// A server that stands still for 400 ms keeps all waiting that is due meanwhile; a closed loop would show but one slow request.
#[test]
fn the_open_loop_charges_a_standstill_to_all_that_wait() {
    let stood = AtomicBool::new(false);
    let port = fake(move |arguments| {
        if arguments[0] == b"GET" && !stood.swap(true, Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(400));
        }
        Some(b"+OK\r\n".to_vec())
    });
    let run = run(&format!("-p {port} -t get -c 1 --rate 1000 -n 1000"));
    assert_eq!(count(&run, "requests"), 1000);
    let curve = run["commands"][0]["curve"].as_array().expect("a curve");
    let at = |percentile: f64| {
        let found = curve.iter().find(|point| point[0].as_f64().expect("a number") >= percentile);
        found.expect("a point")[1].as_f64().expect("a number")
    };
    // 400 of 1000 were due meanwhile, the first of them waited for 400 ms, the 200th for 200.
    assert!(at(99.0) > 350.0, "{}", at(99.0));
    assert!(at(82.0) > 180.0, "{}", at(82.0));
}

#[test]
fn what_is_measured_ends_up_in_all_formats() {
    let null = null_server("");
    let (json, csv, svg, png) = (scratch("a.json"), scratch("a.csv"), scratch("a.svg"), scratch("a.png"));
    let shown = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let files = format!("--json={} --csv={} --plot {}", shown(&json), shown(&csv), shown(&svg));
    let table = call(&format!("-p {} -t set,get -n 20000 -P 10 --interval 20ms {files}", null.port));
    assert_eq!(table.code, Some(0), "{}", table.err);
    for word in ["set: 20,000 requests", "get: 20,000 requests", "p99.99", "closed loop", "pipeline 10"] {
        assert!(table.out.contains(word), "{word} in {}", table.out);
    }
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("JSON")).expect("good JSON");
    for run in document["runs"].as_array().expect("runs") {
        let over_time = run["over_time"].as_array().expect("intervals");
        let counted: u64 = over_time.iter().map(|interval| count(&interval["all"], "count")).sum();
        assert_eq!(counted, 20_000, "intervals add up");
        let latency = &run["latency"];
        let order = ["min_ms", "p50_ms", "p90_ms", "p99_ms", "p99_9_ms", "p99_99_ms", "max_ms"];
        let values: Vec<f64> = order.iter().map(|name| latency[name].as_f64().expect("a number")).collect();
        assert!(values.is_sorted() && values[0] > 0.0, "{values:?}");
    }
    let csv_text = std::fs::read_to_string(&csv).expect("CSV");
    let columns: Vec<usize> = csv_text.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [14, 14, 14], "{csv_text}");
    let picture = std::fs::read_to_string(&svg).expect("an SVG");
    for label in ["Latency by percentile", "milliseconds", "requests a second", "seconds", "p99", "set", "get"] {
        assert!(picture.contains(label), "{label} in the picture");
    }
    let drawn = call(&format!("-p {} -t get -n 2000 -q --plot {}", null.port, shown(&png)));
    assert!(drawn.out.starts_with("get: ") && drawn.out.lines().count() == 1, "{}", drawn.out);
    assert!(std::fs::read(&png).expect("a PNG").starts_with(b"\x89PNG"));
    [json, csv, svg, png].iter().for_each(|path| std::fs::remove_file(path).expect("it was written"));
}

#[test]
fn warm_up_is_not_counted() {
    let null = null_server("");
    let run = run(&format!("-p {} -t get -n 1000 --warmup 300ms", null.port));
    // What is in flight when the measurement begins may be counted with it: one a connection.
    assert!((1000..=1050).contains(&count(&run, "requests")), "{}", run["requests"]);
}

#[test]
fn wrong_options_are_refused_with_a_reason() {
    for (options, reason) in [
        ("-t nonsense", "no workload nonsense"),
        ("-t lpush --verify", "--verify knows"),
        ("--ratio 1:1 --verify -r 10 -c 50", "a key of its own"),
        ("-r 1000000 --key-bytes 8", "--key-bytes of 11"),
        ("-n 5 --duration 5s", "not both"),
        ("-c 0", "at least 1"),
        ("--keys-by zip", "zipf[:EXPONENT]"),
        ("--command", "--command"),
        ("--command GET{", "brace"),
        ("-t ycsb-e --protocol memcached", "needs --records hash"),
        ("--keys-by file:no/such/file", "no/such/file"),
        ("compare --rows nonsense", "no row nonsense"),
        ("compare --server-cpus 0 --client-cpus 0", "CPUs of their own"),
        ("memory --rows 5", "KEY+VALUE"),
        ("stalls --rows nap", "there is no row nap"),
    ] {
        let null = null_server("");
        let port = if options.starts_with(['c', 'm', 's']) { String::new() } else { format!("-p {}", null.port) };
        let called = call(&format!("{options} {port}"));
        assert!(called.code != Some(0) && called.err.contains(reason), "{options}: {}{}", called.out, called.err);
    }
}
