//! Pipelines of requests that are alike, while changes are logged: they are logged in one piece as they came, but for those that must not be.

use crate::aof::{check, loaded, log_path, logged, redis_in, server_in};
use crate::harness::{Folder, eventually, request, skip};
use crate::persistence::{assert_same, fill, state};
use std::fs;

/// A cheap generator, as what matters is only that neighbours are often alike.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn index(&mut self, n: u64) -> usize {
        usize::try_from(self.below(n)).expect("it is small")
    }
}

/// A request as a client might write it: mostly as usual, seldom inline, or behind an empty one.
fn written(words: &[String], random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => format!("{}\r\n", words.join(" ")).into_bytes(),
        1 => format!("{}\r\n", words.join("      ")).into_bytes(),
        2 => [b"*0\r\n".to_vec(), request(words)].concat(),
        _ => request(words),
    }
}

fn command(kind: u64, random: &mut Random) -> Vec<String> {
    let key = |random: &mut Random| format!("k{}", random.below(12));
    let value = |random: &mut Random| {
        "*3\r\n$3\r\nSET".chars().cycle().filter(|c| !c.is_whitespace()).take(1 + random.index(30)).collect()
    };
    let words: Vec<String> = match kind {
        0 => vec!["SET".into(), key(random), value(random)],
        1 => vec!["set".into(), key(random), random.below(1000).to_string()],
        2 => vec!["INCR".into(), key(random)],
        3 => vec!["RPUSH".into(), format!("l{}", random.below(5)), value(random)],
        4 => vec!["LPOP".into(), format!("l{}", random.below(5))],
        5 => vec!["SADD".into(), format!("s{}", random.below(5)), random.below(20).to_string()],
        6 => vec!["HSET".into(), format!("h{}", random.below(5)), random.below(20).to_string(), value(random)],
        7 => vec!["ZADD".into(), format!("z{}", random.below(5)), random.below(20).to_string(), value(random)],
        8 => vec!["DEL".into(), key(random)],
        9 => vec!["APPEND".into(), key(random), value(random)],
        10 => vec!["RPUSH".into(), key(random), value(random)],
        11 => vec!["PEXPIRE".into(), key(random), (random.below(2) * 100_000).to_string()],
        12 => vec!["SREM".into(), format!("s{}", random.below(5)), random.below(20).to_string()],
        _ => vec!["SELECT".into(), random.below(2).to_string()],
    };
    words
}

#[test]
fn random_pipelines_come_back() {
    for (workers, fsync, seed) in [("1", "always", 1), ("1", "everysec", 2), ("2", "always", 3)] {
        let folder = Folder::new();
        let server = server_in(&folder, &["--workers", workers, "--appendfsync", fsync]);
        let mut c = loaded(&server);
        let mut other = server.client();
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        for round in 0..60 {
            // Somebody waits for a list of which many get elements.
            other.send(&request(&["BLPOP", "l0", "l1", "0"]));
            let (mut bytes, mut count) = (Vec::new(), 0);
            while count < 300 {
                let kind = random.below(14);
                for _ in 0..=random.below(20) {
                    bytes.extend(written(&command(kind, &mut random), &mut random));
                    count += 1;
                }
            }
            // So that whoever waits gets something at the end.
            bytes.extend([request(&["SELECT", "0"]), request(&["RPUSH", "l0", "x"])].concat());
            for piece in bytes.chunks(1 + random.index(20_000)) {
                c.send(piece);
            }
            for _ in 0..count + 2 {
                c.read();
            }
            assert!(!other.read().is_error(), "round {round}");
        }
        c.expect("WAITAOF 1 0 0", "[:1, :0]");
        let want = state(&mut c);
        // By SIGKILL.
        drop(server);
        let server = server_in(&folder, &["--workers", "2"]);
        assert_same(&state(&mut loaded(&server)), &want, &format!("{workers} workers, {fsync}"));
    }
}

#[test]
fn what_is_logged_of_a_pipeline() {
    for workers in ["1", "2"] {
        let folder = Folder::new();
        let server = server_in(&folder, &["--workers", workers, "--appendfsync", "always"]);
        let mut c = loaded(&server);
        c.expect("SET soon x PX 1", "+OK");
        eventually("it is gone", || c.run("GET soon").to_string() == "(nil)" || c.run("EXISTS soon").int() == 0);
        let before = logged(&folder).len();
        let mut bytes = Vec::new();
        for line in [
            "SET a 1",
            "SET b 2",
            "set c 3",
            "SET d 4 EX 1000",
            "SET e 5",
            "INCR a",
            "INCR text",
            "INCR b",
            "DEL nothing",
            "DEL a",
            "DEL b",
            "SADD s 1",
            "SADD s 1",
            "SADD s 2",
            "SADD s 3",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            bytes.extend(request(&words));
            if line == "SET e 5" {
                bytes.extend(b"SET text  x\r\n\r\nSET f 6\r\n");
            }
        }
        c.send(&bytes);
        for _ in 0..17 {
            c.read();
        }
        let lines: Vec<String> = logged(&folder)[before..]
            .iter()
            .map(|line| match line.split_once(" pxat ") {
                Some((line, _)) => line.to_string(),
                None => line.clone(),
            })
            .collect();
        let want = [
            "set a 1",
            "set b 2",
            "set c 3",
            "set d 4",
            "set e 5",
            "set text x",
            "set f 6",
            "incr a",
            "incr b",
            "del a",
            "del b",
            "sadd s 1",
            "sadd s 2",
            "sadd s 3",
        ];
        assert_eq!(lines, want, "{workers} workers");
    }
}

#[test]
fn rewritten_as_commands() {
    for workers in ["1", "3"] {
        let folder = Folder::new();
        let arguments = ["--workers", workers, "--aof-use-rdb-preamble", "no"];
        let server = server_in(&folder, &arguments);
        let mut c = loaded(&server);
        let first = fs::read(log_path(&folder, "appendonly.aof.1.base.aof")).expect("a base file");
        assert!(first.is_empty(), "nothing was there");
        fill(&mut c);
        for n in 0..300 {
            let (key, field) = (format!("deadline:{}", n % 3), format!("field {n}"));
            assert_eq!(c.call(&["ZADD", &key, "1.5", &field]).int(), 1);
            assert_eq!(c.call(&["HSET", "hash:timed", &field, "x"]).int(), 1);
        }
        c.expect("PEXPIREAT deadline:1 4000000000000", ":1");
        c.expect("PEXPIREAT deadline:2 4000000000001", ":1");
        let c3 = c.run("HPEXPIREAT hash:timed 4000000000002 FIELDS 1 'field 7'");
        assert_eq!(c3.items().len(), 1);
        c.expect("BGREWRITEAOF", "+Background append only file rewriting started");
        eventually("it is rewritten", || c.info("aof_rewrites") == "1");
        c.expect("SET later x", "+OK");
        let want = state(&mut c);
        let times = c.run("HPEXPIRETIME hash:timed FIELDS 2 'field 7' 'field 8'").to_string();
        c.send(&request(&["SHUTDOWN"]));
        c.expect_closed();
        drop(server);
        let base = fs::read(log_path(&folder, "appendonly.aof.2.base.aof")).expect("a base file");
        assert!(base.starts_with(b"*2\r\n$6\r\nSELECT\r\n"), "it has commands");
        assert!(fs::metadata(log_path(&folder, "appendonly.aof.1.base.aof")).is_err(), "the old one has gone");
        check(&folder, true);
        let server = server_in(&folder, &arguments);
        let mut c = loaded(&server);
        assert_same(&state(&mut c), &want, &format!("{workers} workers"));
        assert_eq!(c.run("HPEXPIRETIME hash:timed FIELDS 2 'field 7' 'field 8'").to_string(), times);
        // Deadlines of fields came after Redis 7.0.
        c.expect("DEL hash:timed", ":1");
        c.expect("BGREWRITEAOF", "+Background append only file rewriting started");
        eventually("it is rewritten", || c.info("aof_rewrites") == "1");
        let want = state(&mut c);
        c.send(&request(&["SHUTDOWN"]));
        c.expect_closed();
        drop(server);
        match redis_in(&folder, &["--databases", "16"]) {
            None => skip("rewritten_as_commands", "there is no redis-server"),
            Some(redis) => assert_same(&state(&mut loaded(&redis)), &want, "loaded by redis-server"),
        }
    }
}
