//! The subcommands that start servers: that they measure all rows, tell what fails, and leave nothing behind.

use super::support::*;

/// They pin servers and clients to CPUs of their own.
fn two_cpus() -> bool {
    let two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2);
    if !two {
        eprintln!("SKIPPED: one CPU is not enough for a server and a client");
    }
    two
}

fn left_behind() -> usize {
    let entries = std::fs::read_dir(std::env::temp_dir()).expect("a folder");
    let own = format!("dolmen-bench-{}-", std::process::id());
    entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
}

#[test]
fn compare_measures_all_rows_and_tells_what_fails() {
    if !two_cpus() {
        return;
    }
    let (svg, record) = (scratch("compare.svg"), scratch("compare.txt"));
    let mut command = bench("compare floor --rounds 2");
    command.args(["--row", "get=-t get -n 2000 -c 5 -P 4 -r 100 --fill", "--row", "push=-t lpush -n 1000 -c 5"]);
    command.arg("--plot").arg(&svg).arg("--record").arg(&record).arg("--json");
    let redis = installed("redis-server");
    if redis {
        command.arg("redis-server");
    }
    command.arg("broken=false {port}");
    let called = called(command.output().expect("the tool runs"));
    assert_eq!(called.code, Some(0), "{}", called.err);
    let document = json(&called);
    for row in document["rows"].as_array().expect("rows") {
        let servers = row["servers"].as_array().expect("servers");
        assert_eq!(servers.len(), 2 + usize::from(redis));
        for server in servers {
            let broken = server["name"] == "broken";
            assert_eq!(server["failed"].is_string(), broken, "{server}");
            let rounds = server["rounds"].as_array().expect("rounds");
            assert_eq!(rounds.len(), if broken { 0 } else { 2 });
            for round in rounds {
                for field in ["requests_per_s", "p50_ms", "server_cpu_ns", "resident_bytes"] {
                    assert!(round[field].as_f64().is_some_and(|value| value > 0.0), "{field} in {round}");
                }
            }
        }
    }
    let text = std::fs::read_to_string(&record).expect("a record");
    for part in ["floor", "1.00 (1.00 to 1.00)", "failed: ", "did not start", "push: -t lpush"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let picture = std::fs::read_to_string(&svg).expect("a picture");
    for label in ["Server CPU time a request", "relative to floor", "Throughput", "get", "push"] {
        assert!(picture.contains(label), "{label} in the picture");
    }
    [svg, record].iter().for_each(|path| std::fs::remove_file(path).expect("it was written"));
    assert_eq!(left_behind(), 0);
}

#[test]
fn memory_grows_with_what_is_kept() {
    if !two_cpus() || !installed("redis-server") {
        return;
    }
    let options =
        "memory redis-server --rows idle,16+8,16+1000+ttl --keys 5000,20000 --connections 50 --settle 50ms --json";
    let called = call(options);
    assert_eq!(called.code, Some(0), "{}", called.err);
    let document = json(&called);
    let found = |row: usize| document["rows"][row]["servers"][0][1]["Ok"].clone();
    assert_eq!(count(&found(0)["Idle"], "connections"), 50);
    for (row, payload) in [(1, 24.0), (2, 1016.0)] {
        let stages = found(row)["Keys"]["stages"].as_array().expect("stages").clone();
        assert_eq!((stages.len(), &stages[1][0]), (2, &serde_json::json!(20_000)));
        // At least what it keeps, at most ten times as much.
        let bytes = stages[1][1].as_f64().expect("a number");
        assert!(bytes > payload * 0.9 && bytes < payload * 10.0, "{bytes} for {payload}");
    }
}

#[test]
fn stalls_are_measured_while_something_happens() {
    if !two_cpus() || !installed("redis-server") {
        return;
    }
    let called = call(
        "stalls redis-server --keys 20000 --members 5100 --rows grow,keys,smembers,del_zset,bgsave,flushall --json",
    );
    assert_eq!(called.code, Some(0), "{}", called.err);
    let document = json(&called);
    let rows = document["servers"][0]["rows"].as_array().expect("rows").clone();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let row = &row["Ok"];
        assert!(row["latency"]["max_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{row}");
        assert!(row["took_s"].as_f64().is_some_and(|s| s > 0.0), "{row}");
    }
}
