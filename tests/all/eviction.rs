//! `maxmemory`: memory stays within the limit, by each policy, with one worker and several; what is refused, and what is told.

use crate::control::servers;
use crate::harness::{Client, Reply, eventually, request, under_test};

const MB: u64 = 1 << 20;

/// Writes `keys` keys of `bytes` bytes, with `extra` arguments, and returns how many were refused.
fn fill(client: &mut Client, prefix: &str, keys: usize, bytes: usize, extra: &[&str]) -> usize {
    let value = "v".repeat(bytes);
    let mut refused = 0;
    for from in (0..keys).step_by(500) {
        let mut text = Vec::new();
        let chunk = from..keys.min(from + 500);
        for i in chunk.clone() {
            let key = format!("{prefix}:{i}");
            text.extend(request(&[&["SET", &key, &value], extra].concat()));
        }
        client.send(&text);
        for _ in chunk {
            match client.read() {
                Reply::Error(text) => {
                    assert_eq!(text, "OOM command not allowed when used memory > 'maxmemory'.");
                    refused += 1;
                }
                reply => assert_eq!(reply.to_string(), "+OK"),
            }
        }
    }
    refused
}

fn is_dolmen() -> bool {
    under_test().1 == crate::harness::Kind::Dolmen
}

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

/// Those that the server has.
fn policies() -> impl Iterator<Item = &'static str> {
    let ours = if is_dolmen() { Some("allkeys-smart") } else { None };
    let redis_s = [
        "noeviction",
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ];
    redis_s.into_iter().chain(ours)
}

#[test]
fn memory_stays_within_the_limit_by_every_policy() {
    for server in servers(&["--maxmemory", "6mb"]) {
        let mut client = server.client();
        for policy in policies().filter(|policy| *policy != "noeviction") {
            client.expect("FLUSHALL SYNC", "+OK");
            client.expect("CONFIG RESETSTAT", "+OK");
            client.expect(&format!("CONFIG SET maxmemory-policy {policy}"), "+OK");
            assert_eq!(client.info("maxmemory_policy"), policy);
            client.expect("SET stays here", "+OK");
            let extra: &[&str] = if policy.starts_with("volatile") { &["EX", "1000"] } else { &[] };
            for bytes in [10, 200, 3000, 40_000] {
                let refused = fill(&mut client, &format!("k{bytes}"), 8_000_000 / (bytes + 60), bytes, extra);
                assert_eq!(refused, 0, "{policy}, {bytes}");
                let used = client.info_number("used_memory");
                assert!(used <= 6 * MB + MB / 4, "{policy}, {bytes}: {used}");
                // It is used, too.
                assert!(used >= 4 * MB, "{policy}, {bytes}: {used}");
            }
            assert!(client.info_number("evicted_keys") > 30_000, "{policy}");
            if policy.starts_with("volatile") {
                client.expect("GET stays", "'here'");
                assert_eq!(client.info_number("expired_keys"), 0);
            }
        }
    }
}

#[test]
fn without_a_policy_what_needs_memory_is_refused() {
    for server in servers(&["--maxmemory", "8mb"]) {
        let mut client = server.client();
        assert!(fill(&mut client, "k", 12_000, 1000, &[]) > 2000);
        // Buffers of the replies have gone since.
        let mut pads = 0..;
        eventually("the rest is full, too", || {
            client.run(&format!("SET pad:{} x", pads.next().unwrap_or(0))).is_error()
        });
        // Whatever buffers go from now on.
        client.expect("CONFIG SET maxmemory 7mb", "+OK");
        for command in ["SET a b", "LPUSH l x", "APPEND k:1 x", "SETRANGE k:1 0 x", "HSET h a b", "MSET a b c d"] {
            client.expect(command, "-OOM command not allowed when used memory > 'maxmemory'.");
        }
        assert_eq!(client.info_number("evicted_keys"), 0);
        assert_eq!(client.run("GET k:1").bytes().len(), 1000);
        client.expect("EXISTS a l h", ":0");
        // Queueing is refused, too, and EXEC of what was queued before.
        client.expect("MULTI", "+OK");
        client.expect("SET a b", "-OOM command not allowed when used memory > 'maxmemory'.");
        client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
        let mut other = server.client();
        client.expect("CONFIG SET maxmemory 100mb", "+OK");
        eventually("every worker knows the limit", || {
            !client.run("SET probe x").is_error() && !other.run("SET probe x").is_error()
        });
        other.expect("MULTI", "+OK");
        other.expect("SET a b", "+QUEUED");
        client.expect("CONFIG SET maxmemory 7mb", "+OK");
        eventually("the limit holds", || client.run("SET probe x").is_error());
        let reply = other.run("EXEC").to_string();
        assert!(reply.starts_with("-EXECABORT") || reply.starts_with("-OOM"), "{reply}");
        // What gives memory back works, and then the rest does.
        let keys: Vec<String> = (0..6000).map(|i| format!("k:{i}")).collect();
        client.call(&[&["DEL".to_owned()], &*keys].concat());
        eventually("there is room", || !client.run("SET a b").is_error());
    }
}

#[test]
fn with_a_volatile_policy_and_nothing_volatile_it_is_refused() {
    for server in servers(&["--maxmemory", "8mb", "--maxmemory-policy", "volatile-lru"]) {
        let mut client = server.client();
        assert!(fill(&mut client, "k", 12_000, 1000, &[]) > 2000);
        assert_eq!(client.info_number("evicted_keys"), 0);
        // Some that may go make room for the next.
        for i in 0..300 {
            client.expect(&format!("PEXPIRE k:{i} 10000000"), ":1");
        }
        eventually("there is room for a small one", || !client.run("SET small x").is_error());
        // It goes on in the background.
        eventually("those that are gone are counted", || {
            let left = (0..300).filter(|i| client.run(&format!("EXISTS k:{i}")).int() == 1).count() as u64;
            let evicted = client.info_number("evicted_keys");
            evicted > 0 && left + evicted == 300
        });
    }
}

#[test]
fn a_lower_limit_is_worked_down_to() {
    for server in servers(&["--maxmemory-policy", "allkeys-lru"]) {
        let mut client = server.client();
        assert_eq!(fill(&mut client, "k", 30_000, 1000, &[]), 0);
        client.run("SADD big a");
        assert_eq!(client.info_number("evicted_keys"), 0);
        client.expect("CONFIG SET maxmemory 10mb", "+OK");
        // Redis does it within the command.
        eventually("memory is within the limit", || client.info_number("used_memory") <= 10 * MB + MB / 4);
        let keys = client.run("DBSIZE").int();
        assert!((3_000..11_000).contains(&keys), "{keys} keys are left");
    }
}

#[test]
fn one_large_value_may_use_it_all_and_a_larger_one_is_survived() {
    for server in servers(&["--maxmemory", "20mb", "--maxmemory-policy", "allkeys-lru"]) {
        let mut client = server.client();
        assert_eq!(fill(&mut client, "k", 30_000, 1000, &[]), 0);
        // Into one shard, whose own keys are not enough.
        let large = "x".repeat(9_000_000);
        // Of keys that were used in the same second any may go, this one too.
        eventually("it is there, and memory within the limit", || {
            assert_eq!(client.call(&["SET", "large", &large]).to_string(), "+OK");
            eventually("memory is within the limit", || client.info_number("used_memory") <= 21 * MB);
            client.run("STRLEN large").int() == 9_000_000
        });
        let huge = "x".repeat(40_000_000);
        let reply = client.call(&["SET", "huge", &huge]).to_string();
        assert!(reply == "+OK" || reply.starts_with("-OOM"), "{reply}");
        eventually("memory is within the limit again", || client.info_number("used_memory") <= 21 * MB);
        client.expect("SET a b", "+OK");
        client.expect("GET a", "'b'");
        // A list that grows in one shard takes from the others.
        assert_eq!(fill(&mut client, "again", 15_000, 1000, &[]), 0);
        let element = "e".repeat(1000);
        let push = request(&["RPUSH", "list", &element]).repeat(100);
        for _ in 0..80 {
            client.send(&push);
            for _ in 0..100 {
                assert!(client.read().int() > 0);
            }
        }
        assert!(client.info_number("used_memory") <= 21 * MB);
    }
}

/// A limit that the server alone is over leaves no room for data, whatever may be evicted.
#[test]
fn a_limit_below_what_the_server_itself_takes() {
    for server in servers(&["--maxmemory", "1"]) {
        let mut client = server.client();
        for policy in policies() {
            client.expect(&format!("CONFIG SET maxmemory-policy {policy}"), "+OK");
            for command in ["SET a b", "LPUSH l x", "HSET h f v", "SETRANGE r 10 x", "MSET a b c d"] {
                client.expect(command, OOM);
            }
            client.expect("GET a", "nil");
            client.expect("DEL a l h r", ":0");
            client.expect("DBSIZE", ":0");
            client.expect("MULTI", "+OK");
            client.expect("SET a b", OOM);
            client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
            // What is there when the limit comes goes, if it may.
            client.expect("CONFIG SET maxmemory 0", "+OK");
            eventually("there is no limit", || !client.run("SET a b").is_error());
            client.expect("SET b c EX 1000", "+OK");
            client.expect("CONFIG SET maxmemory 1", "+OK");
            eventually("the limit holds", || client.run("SET c d").is_error());
            let left = match policy.split('-').next() {
                Some("allkeys") => 0,
                Some("volatile") => 1,
                _ => 2,
            };
            eventually("what may go has gone", || client.run("EXISTS a b").int() == left);
            client.run("DEL a b c");
        }
    }
}

/// Values of more than the limit, and of most of it, by every policy: refused or there, and the server goes on.
#[test]
fn huge_values_by_every_policy() {
    for server in servers(&["--maxmemory", "10mb"]) {
        let mut client = server.client();
        let (huge, most) = ("x".repeat(40_000_000), "y".repeat(6_000_000));
        for policy in policies() {
            client.expect("FLUSHALL", "+OK");
            client.expect(&format!("CONFIG SET maxmemory-policy {policy}"), "+OK");
            assert_eq!(client.call(&["SET", "huge", &huge]).to_string(), OOM, "{policy}");
            client.expect("EXISTS huge", ":0");
            eventually("small ones are taken again", || !client.run("SET small x").is_error());
            let set = client.call(&["SET", "most", &most]).to_string();
            if is_dolmen() {
                // Redis counts it twice, as a request and as a value.
                assert_eq!(set, "+OK", "{policy}");
            }
            let append = client.call(&["APPEND", "most", &most]).to_string();
            let volatile = !policy.starts_with("allkeys");
            assert!(append == OOM || !volatile && append.starts_with(':'), "{policy}: {append}");
            // In a transaction, which is queued first.
            client.expect("MULTI", "+OK");
            client.call(&["SET", "most", &most]);
            client.call(&["APPEND", "most", &most]);
            client.run("EXEC");
            if volatile {
                // Nothing goes by itself.
                client.run("DEL most");
            }
            eventually(&format!("{policy}: memory is within the limit, and used"), || {
                client.info_number("used_memory") <= 10 * MB + MB / 4 && !client.run("SET small y").is_error()
            });
        }
    }
}

/// Clients that do not read what they are told of evicted keys: the messages take no room from data, or for each key that goes several more would
/// have to. (In Redis they do.)
#[test]
fn messages_about_evictions_evict_nothing() {
    if !is_dolmen() {
        return;
    }
    for server in servers(&["--maxmemory-policy", "allkeys-random"]) {
        let mut client = server.client();
        let name = "n".repeat(8000);
        for n in 0..2000 {
            assert_eq!(client.call(&["SET", &format!("{n}:{name}"), "x"]).to_string(), "+OK");
        }
        let mut listeners: Vec<Client> = (0..10).map(|_| server.client3()).collect();
        for listener in &mut listeners {
            listener.expect("CLIENT TRACKING ON BCAST", "+OK");
        }
        let limit = client.info_number("used_memory") - 8_000_000;
        client.expect(&format!("CONFIG SET maxmemory {limit}"), "+OK");
        eventually("there is room", || {
            client.info_number("used_memory") <= limit + 100_000 + client.info_number("mem_not_counted_for_evict")
        });
        assert!(client.info_number("mem_not_counted_for_evict") > 0, "they do not read, and there is much to be told");
        for n in 0..500 {
            client.expect(&format!("SET more:{n} x"), "+OK");
        }
        let (keys, evicted) = (client.run("DBSIZE").int(), client.info_number("evicted_keys"));
        assert!(keys > 500, "{keys} are left, {evicted} evicted");
        // Whoever reads gets them all, and then they take nothing.
        drop(listeners);
        eventually("they are gone", || client.info_number("mem_not_counted_for_evict") == 0);
    }
}

/// EXEC runs whole: what its commands need is looked at before it begins, and what it has written beyond the limit goes afterwards.
#[test]
fn a_transaction_may_grow() {
    for server in servers(&["--maxmemory", "20mb", "--maxmemory-policy", "allkeys-lru"]) {
        let mut client = server.client();
        assert_eq!(fill(&mut client, "k", 30_000, 1000, &[]), 0);
        // What is queued is memory, too: it is made room for.
        let value = "t".repeat(100_000);
        client.expect("MULTI", "+OK");
        for i in 0..40 {
            assert_eq!(client.call(&["SET", &format!("t:{i}"), &value]).to_string(), "+QUEUED");
        }
        let reply = client.run("EXEC");
        assert!(reply.items().len() == 40 && reply.items().iter().all(|reply| !reply.is_error()), "{reply}");
        eventually("memory is within the limit again", || client.info_number("used_memory") <= 21 * MB);
        // Short commands that write more than the limit.
        let members: Vec<String> = (0..2000).map(|n| format!("{n:050}")).collect();
        client.call(&[&["SADD".to_owned(), "source".to_owned()], &*members].concat());
        client.expect("MULTI", "+OK");
        for i in 0..300 {
            client.expect(&format!("SUNIONSTORE copy:{i} source"), "+QUEUED");
        }
        let reply = client.run("EXEC");
        assert!(reply.items().len() == 300 && reply.items().iter().all(|reply| !reply.is_error()), "{reply}");
        eventually("memory is within the limit at last", || client.info_number("used_memory") <= 21 * MB);
        client.expect("SET a b", "+OK");
        client.expect("GET a", "'b'");
    }
}

/// At the limit replies may be as long as they are: they are not refused, and no data goes for them but what they exceed the limit by.
#[test]
fn replies_at_the_limit_are_whole() {
    for server in servers(&["--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru"]) {
        let mut client = server.client();
        let element = "e".repeat(500);
        client.send(&request(&["RPUSH", "list", &element]).repeat(4000));
        (0..4000).for_each(|_| assert!(client.read().int() > 0));
        assert_eq!(fill(&mut client, "k", 30_000, 1000, &[]), 0);
        let keys = client.run("DBSIZE").int();
        for _ in 0..5 {
            // It may have gone, as any key, and never in part.
            let all = client.run("LRANGE list 0 -1");
            assert!(all.items().is_empty() || all.items().len() == 4000);
            assert!(all.items().iter().all(|item| item.bytes() == element.as_bytes()));
            let names: Vec<String> = (0..2000).map(|i| format!("k:{}", 29_999 - i)).collect();
            let values = client.call(&[&["MGET".to_owned()], &*names].concat());
            assert_eq!(values.items().len(), 2000);
        }
        eventually("memory is within the limit", || client.info_number("used_memory") <= 25 * MB);
        let left = client.run("DBSIZE").int();
        assert!(left > keys / 2, "replies have swept data away: {left} of {keys} keys are left");
    }
}

#[test]
fn evictions_are_told_and_counted() {
    for server in
        servers(&["--maxmemory", "8mb", "--maxmemory-policy", "allkeys-random", "--notify-keyspace-events", "Ee"])
    {
        let (mut client, mut listener) = (server.client(), server.client());
        listener.run("SUBSCRIBE __keyevent@0__:evicted");
        let mut watcher = server.client();
        watcher.expect("SET watched x", "+OK");
        watcher.expect("WATCH watched", "+OK");
        assert_eq!(fill(&mut client, "k", 30_000, 1000, &[]), 0);
        // What waits to be sent to the listener takes room, too, so for a while more may go.
        let mut evicted = 0;
        eventually("the count of keys fits", || {
            evicted = client.info_number("evicted_keys");
            client.run("DBSIZE").int() + i64::try_from(evicted).expect("few") == 30_001
        });
        assert!(evicted > 15_000, "{evicted}");
        let mut names = std::collections::HashSet::new();
        for _ in 0..evicted {
            let message = listener.read();
            names.insert(message.items()[2].text());
        }
        assert_eq!(names.len() as u64, evicted, "each key once");
        if names.contains("watched") {
            watcher.expect("MULTI", "+OK");
            watcher.expect("PING", "+QUEUED");
            watcher.expect("EXEC", "nil*");
        }
    }
}

/// Who watches a key that is evicted, or has cached it, is told.
#[test]
fn a_watched_and_cached_key_is_evicted() {
    for server in servers(&["--maxmemory-policy", "volatile-random"]) {
        let (mut client, mut watcher, mut reader) = (server.client(), server.client(), server.client3());
        client.expect("SET volatile x EX 10000", "+OK");
        client.expect("SET other x", "+OK");
        reader.expect("CLIENT TRACKING ON", "+OK");
        reader.expect("MGET volatile other", "['x', 'x']");
        watcher.expect("WATCH volatile", "+OK");
        let limit = client.info_number("used_memory") + 500_000;
        client.expect(&format!("CONFIG SET maxmemory {limit}"), "+OK");
        // Nothing but that one key may go, so then it is full.
        let refused = fill(&mut client, "k", 2_000, 1000, &[]);
        assert!(refused > 500, "{refused}");
        assert_eq!(reader.read().to_string(), ">['invalidate', ['volatile']]");
        client.expect("EXISTS volatile other", ":1");
        watcher.expect("MULTI", "+OK");
        // Nothing can be queued now.
        watcher.expect("EXEC", "nil*");
    }
}

/// What is used often stays: the point of it all.
#[test]
fn what_is_used_stays() {
    for server in servers(&["--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lfu"]) {
        let mut client = server.client();
        assert_eq!(fill(&mut client, "hot", 500, 1000, &[]), 0);
        let read: Vec<u8> = (0..500).flat_map(|i| request(&["GET", &format!("hot:{i}")])).collect();
        let mut hits = 0;
        for round in 0..30 {
            client.send(&read.repeat(3));
            hits = (0..1500).filter(|_| matches!(client.read(), Reply::Bulk(_))).count();
            assert_eq!(fill(&mut client, &format!("cold{round}"), 2000, 1000, &[]), 0);
        }
        assert!(client.info_number("evicted_keys") > 40_000);
        assert!(hits >= 1350, "{hits} of 1500");
    }
}

#[test]
fn uses_are_counted_under_an_lfu_policy_only() {
    for server in servers(&["--maxmemory-policy", "allkeys-lfu"]) {
        let mut client = server.client();
        client.expect("SET k v", "+OK");
        let fresh = client.run("OBJECT FREQ k").int();
        assert!((4..=6).contains(&fresh), "{fresh}");
        for _ in 0..200 {
            client.expect("GET k", "'v'");
        }
        let used = client.run("OBJECT FREQ k").int();
        assert!((8..=25).contains(&used), "{used}");
        // It stays with what is written over it.
        client.expect("SET k another", "+OK");
        assert!(client.run("OBJECT FREQ k").int() >= used);
        client.expect(
            "OBJECT IDLETIME k",
            "-ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at \
             runtime LRU and LFU data will take some time to adjust.",
        );
        let payload = client.run("DUMP k").bytes().to_vec();
        let restore: [&[u8]; 6] = [b"RESTORE", b"r", b"0", &payload, b"FREQ", b"77"];
        assert_eq!(client.call(&restore).to_string(), "+OK");
        client.expect("OBJECT FREQ r", ":77");
        client.expect("OBJECT FREQ nosuch", "nil");
        client.expect("CONFIG SET maxmemory-policy allkeys-lru", "+OK");
        assert!(client.run("OBJECT FREQ k").is_error());
        assert!(client.run("OBJECT IDLETIME k").int() >= 0);
    }
}

/// Commands behind CONFIG SET in one pipeline find the new limit: those that need memory are refused, or not any more.
#[test]
fn a_new_limit_holds_for_what_is_behind_it() {
    for server in servers(&[]) {
        for mut client in (0..4).map(|_| server.client()) {
            let (lower, higher) =
                (request(&["CONFIG", "SET", "maxmemory", "1"]), request(&["CONFIG", "SET", "maxmemory", "0"]));
            let set = request(&["SET", "a", "b"]);
            for _ in 0..5 {
                client.send(&[&*lower, &*set, &*set, &*higher, &*set, &*lower, &*set].concat());
                let replies: Vec<String> = (0..7).map(|_| client.read().to_string()).collect();
                let oom = "-OOM command not allowed when used memory > 'maxmemory'.";
                assert_eq!(replies, ["+OK", oom, oom, "+OK", "+OK", "+OK", oom]);
            }
            client.expect("CONFIG SET maxmemory 0", "+OK");
        }
    }
}

#[test]
fn settings_are_checked() {
    for server in servers(&[]) {
        let mut client = server.client();
        client.expect("CONFIG GET maxmemory", "['maxmemory', '0']");
        for (value, bytes) in [("100mb", "104857600"), ("1k", "1000"), ("0", "0")] {
            client.expect(&format!("CONFIG SET maxmemory {value}"), "+OK");
            client.expect("CONFIG GET maxmemory", &format!("['maxmemory', '{bytes}']"));
        }
        assert!(client.run("CONFIG SET maxmemory -1").is_error());
        assert!(client.run("CONFIG SET maxmemory-policy nosuch").is_error());
        assert!(client.run("CONFIG SET maxmemory-samples 0").is_error());
        client.expect("CONFIG SET maxmemory-samples 10", "+OK");
        client.expect("CONFIG SET lfu-log-factor 20 lfu-decay-time 0", "+OK");
        if is_dolmen() {
            client.expect("CONFIG SET maxmemory 50%", "+OK");
            let bytes: u64 = client.run("CONFIG GET maxmemory").items()[1].text().parse().expect("a number");
            assert!(bytes > 64 * MB, "half of the machine: {bytes}");
            assert!(client.run("CONFIG SET maxmemory 101%").is_error());
        }
    }
}

/// The sizes of values shift while memory is at the limit: what is resident follows what is used.
#[test]
fn resident_memory_follows_when_sizes_shift() {
    for server in servers(&["--maxmemory", "32mb", "--maxmemory-policy", "allkeys-lru"]) {
        // Each shard, of which several workers have many, may keep a span or two of 64 KiB of every class: too much beside so little.
        if server.is_redis() || server.client().info_number("workers") > 1 {
            continue;
        }
        let mut client = server.client();
        client.expect("PING", "+PONG");
        // The code of a debug build alone takes some megabytes.
        let code = server.resident_bytes();
        for (round, bytes) in [24, 700, 90, 2500, 260].into_iter().enumerate() {
            let refused = fill(&mut client, &format!("r{round}"), 42_000_000 / (bytes + 48), bytes, &[]);
            assert_eq!(refused, 0);
            eventually(&format!("pages go back after values of {bytes} bytes"), || {
                let used = client.info_number("used_memory");
                assert!(used <= 33 * MB, "{used}");
                server.resident_bytes() <= code + 32 * MB * 105 / 100 + 10 * MB
            });
        }
    }
}
