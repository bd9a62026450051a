//! MEMORY: what keys take, and where memory is.

use crate::harness::{Client, Kind, Reply, Server, eventually, script, under_test};
use std::collections::BTreeMap;

#[test]
fn usage_of_a_key() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        MEMORY USAGE none         => nil
        SET s v                   => +OK
        MEMORY USAGE s            => :16..200
        MEMORY USAGE s SAMPLES 0  => :16..200
        memory usage s samples 5 SAMPLES 7 => :16..200
        MEMORY USAGE s SAMPLES    => -ERR syntax error
        MEMORY USAGE s SAMPLES -1 => -ERR syntax error
        MEMORY USAGE s SAMPLES x  => -ERR value is not an integer
        MEMORY USAGE none SAMPLES x => -ERR value is not an integer
        MEMORY USAGE s NOSUCH 1   => -ERR syntax error
        MEMORY USAGE              => -ERR wrong number of arguments for 'memory|usage' command
        MEMORY NOSUCH             => -ERR unknown subcommand
        MULTI                     => +OK
        MEMORY USAGE s            => +QUEUED
        EXEC                      => [:16..200]
        ",
    );
    let help = c.run("MEMORY HELP");
    assert!(help.items().iter().any(|line| line.text().starts_with("USAGE <key> [SAMPLES <count>]")), "{help}");
}

/// Commands that make a value of `count` elements at `k`, each of `size` bytes and a number.
fn fill(c: &mut Client, kind: &str, count: usize, size: usize) {
    let element = |n: usize| format!("{n}{}", "x".repeat(size.saturating_sub(4)));
    match kind {
        "string" => {
            c.call(&["SET", "k", &element(count)]);
        }
        _ => {
            for from in (0..count).step_by(500) {
                let mut words = match kind {
                    "list" => vec!["RPUSH".to_owned()],
                    "set" | "ints" => vec!["SADD".to_owned()],
                    "hash" => vec!["HSET".to_owned()],
                    _ => vec!["ZADD".to_owned()],
                };
                words.push("k".to_owned());
                for n in from..count.min(from + 500) {
                    match kind {
                        "hash" => words.extend([element(n), element(n)]),
                        "zset" => words.extend([(n * 7919 % count).to_string(), element(n)]),
                        "ints" => words.push(n.to_string()),
                        _ => words.push(element(n)),
                    }
                }
                assert!(!c.call(&words).is_error());
            }
        }
    }
}

/// What is told of a key is what the server's memory grows by.
#[test]
fn usage_is_what_memory_grows_by() {
    if under_test().1 == Kind::Redis {
        return;
    }
    let server = Server::with(&["--workers", "1"]);
    let mut c = server.client();
    // Whatever is made once is there.
    fill(&mut c, "string", 1, 8);
    c.run("DEL k");
    for kind in ["string", "list", "set", "ints", "hash", "zset"] {
        for (count, size) in
            [(1, 1), (1, 100), (20, 8), (1, 40_000), (3, 1_000_000), (3000, 8), (3000, 300), (20_000, 16)]
        {
            let before = c.info_number("used_memory");
            fill(&mut c, kind, count, size);
            // Growth that is due happens behind the command, and a request's buffers go back.
            let told = loop {
                let told = c.run("MEMORY USAGE k").int();
                if c.run("MEMORY USAGE k").int() == told {
                    break told;
                }
            };
            let grown = i64::try_from(c.info_number("used_memory")).unwrap() - i64::try_from(before).unwrap();
            let slack = 2048 + told / 50;
            assert!((grown - told).abs() <= slack, "{kind} of {count} x {size}: told {told}, grown by {grown}");
            c.run("DEL k");
            eventually("its memory is free", || c.info_number("used_memory") <= before + 1024);
        }
    }
    c.expect("MEMORY USAGE k", "nil");
}

/// The fields of MEMORY STATS, by name.
fn stats(c: &mut Client) -> BTreeMap<String, Reply> {
    c.run("MEMORY STATS").pairs().into_iter().map(|(name, value)| (name.text(), value)).collect()
}

#[test]
fn stats_have_redis_s_fields() {
    let server = Server::start();
    for mut c in [server.client(), server.client3()] {
        c.call(&["MSET", "a", "1", "b", "2", "c", "3"]);
        c.run("EXPIRE a 1000");
        let stats = stats(&mut c);
        for name in [
            "peak.allocated",
            "total.allocated",
            "startup.allocated",
            "replication.backlog",
            "clients.slaves",
            "clients.normal",
            "cluster.links",
            "aof.buffer",
            "lua.caches",
            "functions.caches",
            "overhead.total",
            "keys.count",
            "keys.bytes-per-key",
            "dataset.bytes",
            "allocator.allocated",
            "allocator.active",
            "allocator.resident",
            "allocator-fragmentation.bytes",
            "allocator-rss.bytes",
            "rss-overhead.bytes",
            "fragmentation.bytes",
        ] {
            assert!(
                matches!(stats.get(name), Some(Reply::Int(_))),
                "{name}: {:?}",
                stats.get(name).map(Reply::to_string)
            );
        }
        for name in [
            "dataset.percentage",
            "peak.percentage",
            "allocator-fragmentation.ratio",
            "allocator-rss.ratio",
            "rss-overhead.ratio",
            "fragmentation",
        ] {
            let number = match stats.get(name) {
                Some(Reply::Double(number)) => number.clone(),
                Some(Reply::Bulk(text)) => String::from_utf8(text.clone()).expect("text"),
                other => panic!("{name}: {:?}", other.map(Reply::to_string)),
            };
            assert!(number.parse::<f64>().is_ok_and(|number| number > 0.0), "{name}: {number}");
        }
        assert_eq!(stats["keys.count"].int(), 3);
        let of_0: BTreeMap<String, i64> =
            stats["db.0"].pairs().iter().map(|(name, value)| (name.text(), value.int())).collect();
        assert!(of_0["overhead.hashtable.main"] > 0 && of_0["overhead.hashtable.expires"] > 0, "{of_0:?}");
        assert!(!stats.contains_key("db.1"));
        let total = stats["total.allocated"].int();
        assert_eq!(stats["overhead.total"].int() + stats["dataset.bytes"].int(), total);
        assert!(stats["peak.allocated"].int() >= total);
    }
}

/// What is told of each class adds up to what is told of all, and follows what is stored.
#[test]
fn stats_are_true_for_each_class() {
    if under_test().1 == Kind::Redis {
        return;
    }
    for workers in ["1", "2"] {
        let server = Server::with(&["--workers", workers]);
        let mut c = server.client();
        let numbers = |map: &Reply| -> BTreeMap<String, i64> {
            map.pairs().iter().map(|(name, value)| (name.text(), value.int())).collect()
        };
        let count = 5000;
        for from in (0..count).step_by(500) {
            let pairs = (from..from + 500).flat_map(|n| [format!("key:{n:04}"), "x".repeat(984)]);
            let words: Vec<String> = std::iter::once("MSET".to_owned()).chain(pairs).collect();
            c.call(&words);
        }
        let all = stats(&mut c);
        let told: BTreeMap<String, BTreeMap<String, i64>> =
            all["slab.classes"].pairs().iter().map(|(name, class)| (name.text(), numbers(class))).collect();
        let mut of_the_items =
            told.iter().filter(|(name, class)| name.starts_with("item.") && class["chunks.live"] == count);
        let (name, class) = of_the_items.next_back().expect("a class with as many chunks as there are keys");
        let size: i64 = name["item.".len()..].parse().expect("a size");
        // A header of 8 bytes, the key, the value; and no more than an eighth is lost.
        assert!((1000..1125).contains(&size), "{name}");
        let capacity = class["chunks.live"] + class["chunks.free"];
        assert!(capacity <= class["spans"] * 65536 / size && class["chunks.resident"] >= count, "{class:?}");
        let chunks: i64 = told
            .iter()
            .map(|(name, class)| {
                let bytes: i64 = name.split_once('.').expect("kind and size").1.parse().expect("a size");
                class["chunks.live"] * bytes
            })
            .sum();
        let blobs = numbers(&all["slab.blobs"]);
        assert_eq!(chunks + blobs["bytes"], all["allocator.allocated"].int(), "with {workers} workers");
        c.call(&["SET", "blob", &"x".repeat(3_000_000)]);
        let stats = stats(&mut c);
        let blobs = &stats["slab.blobs"].pairs();
        assert!(blobs[0].1.int() == 1 && (3_000_000..3_500_000).contains(&blobs[1].1.int()), "{blobs:?}");
        assert!(stats["allocator.active"].int() >= stats["allocator.allocated"].int());
        // As a table, with the same figures.
        let table = c.run("MEMORY MALLOC-STATS").text();
        let row = table.lines().find(|line| line.trim_start().starts_with(&format!("{size} item")));
        let row: Vec<&str> = row.expect("a row of the class").split_whitespace().collect();
        assert_eq!(row[3], count.to_string(), "{row:?}");
    }
}

#[test]
fn purging_gives_back_what_was_freed() {
    if under_test().1 == Kind::Redis {
        return;
    }
    for workers in ["1", "2"] {
        let server = Server::with(&["--workers", workers]);
        let mut c = server.client();
        for n in 0..64 {
            c.call(&["SET", &format!("blob:{n}"), &"x".repeat(1_000_000)]);
        }
        c.run("FLUSHALL SYNC");
        // Its decay is a second; whether that has passed by now or not, nothing is left.
        c.expect("MEMORY PURGE", "+OK");
        let stats = stats(&mut c);
        let blobs = stats["slab.blobs"].pairs();
        assert_eq!(blobs[3].1.int(), 0, "{workers} workers: {blobs:?}");
        assert_eq!(stats["slab.classes"].pairs().iter().filter(|(name, _)| name.text() == "item.1024").count(), 0);
        assert_eq!(c.info_number("lazyfree_pending_objects"), 0);
        assert_eq!(c.info_number("lazyfreed_objects"), 64);
        c.expect("CONFIG RESETSTAT", "+OK");
        assert_eq!(c.info_number("lazyfreed_objects"), 0);
        c.expect("MULTI", "+OK");
        c.expect("MEMORY PURGE", "+QUEUED");
        c.expect("EXEC", "[+OK]");
    }
}

#[test]
fn the_doctor_tells_what_is_unusual() {
    let server = Server::start();
    let mut c = server.client();
    let little = c.run("MEMORY DOCTOR").text();
    assert!(!little.is_empty());
    if server.is_redis() {
        return;
    }
    assert!(little.starts_with("There is very little"), "{little}");
    for n in 0..40 {
        c.call(&["SET", &format!("k{n}"), &"x".repeat(1_000_000)]);
    }
    // Looked at by who asks; by itself it is some times a second only.
    assert!(c.info_number("used_memory_peak") > 40_000_000);
    for n in 0..32 {
        c.call(&["DEL", &format!("k{n}")]);
    }
    eventually("the peak is noticed", || c.run("MEMORY DOCTOR").text().contains("Peak: "));
    // A client that sends half of a large request.
    let mut slow = server.client();
    slow.send(b"*2\r\n$4\r\nECHO\r\n$2000000\r\n");
    slow.send(&vec![b'x'; 1_500_000]);
    eventually("the client is noticed", || c.run("MEMORY DOCTOR").text().contains("Clients: each holds"));
}

/// Fields of INFO that tools read, and how they hang together.
#[test]
fn info_memory_hangs_together() {
    let server = Server::start();
    let mut c = server.client();
    for n in 0..1000 {
        c.call(&["SET", &format!("k{n}"), &"x".repeat(1000)]);
    }
    let text = c.run("INFO memory").text();
    let fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(':')).collect();
    let number = |name: &str| fields[name].parse::<f64>().unwrap_or_else(|_| panic!("{name}: {}", fields[name]));
    for name in [
        "used_memory_peak",
        "used_memory_startup",
        "total_system_memory",
        "used_memory_lua",
        "used_memory_scripts",
        "number_of_functions",
        "maxmemory",
        "mem_not_counted_for_evict",
        "mem_clients_normal",
        "mem_aof_buffer",
        "active_defrag_running",
        "lazyfree_pending_objects",
        "lazyfreed_objects",
    ] {
        assert!(number(name) >= 0.0, "{name}");
    }
    // On a server that nobody else uses, but for what it does itself between readings: within a hundredth.
    let close = |a: f64, b: f64| (a - b).abs() <= 0.011 * b.abs().max(1.0);
    assert!(close(number("mem_fragmentation_ratio"), number("used_memory_rss") / number("used_memory")), "{text}");
    assert!(
        close(number("allocator_frag_ratio"), number("allocator_active") / number("allocator_allocated")),
        "{text}"
    );
    assert!(close(number("allocator_rss_ratio"), number("allocator_resident") / number("allocator_active")), "{text}");
    assert!(close(number("rss_overhead_ratio"), number("used_memory_rss") / number("allocator_resident")), "{text}");
    assert_eq!(number("allocator_frag_bytes"), number("allocator_active") - number("allocator_allocated"));
    assert!(
        number("used_memory_dataset") >= 1_000_000.0 && number("used_memory_peak") >= number("used_memory"),
        "{text}"
    );
}

/// Output that nobody reads counts as what its buffer takes, once.
#[test]
fn output_that_waits_counts_once() {
    if under_test().1 == Kind::Redis {
        return;
    }
    for workers in ["1", "2"] {
        let server = Server::with(&["--workers", workers]);
        let mut c = server.client();
        for _ in 0..20 {
            c.call(&[&["RPUSH".to_owned(), "list".to_owned()], &*vec!["x".repeat(1000); 100]].concat());
        }
        let before = c.info_number("used_memory");
        let mut greedy = server.client();
        greedy.expect("CLIENT SETNAME greedy", "+OK");
        greedy.send(&b"LRANGE list 0 -1\r\n".repeat(20));
        let omem = |c: &mut Client| -> u64 {
            let list = c.run("CLIENT LIST").text();
            let line = list.lines().find(|line| line.contains(" name=greedy ")).expect("it is there");
            let omem = line.split(' ').find_map(|word| word.strip_prefix("omem="));
            omem.expect("such a field").parse().expect("a number")
        };
        eventually("its output waits", || omem(&mut c) > 500_000);
        let least = omem(&mut c);
        let grown = c.info_number("used_memory") - before;
        let most = omem(&mut c);
        // Buffers double. With its view of the list, and what is made for another connection.
        assert!(
            grown + 50_000 >= least && grown <= 2 * most + 300_000,
            "{least} to {most} bytes wait, memory has grown by {grown}"
        );
    }
}
