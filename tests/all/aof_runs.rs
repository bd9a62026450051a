//! Pipelines of requests that are alike, while changes are logged: they are logged in one piece as they came, but for those that must not be.

use crate::aof::{loaded, logged, server_in};
use crate::harness::{Folder, eventually, request};
use crate::persistence::{assert_same, state};

/// A cheap generator, as what matters is only that neighbours are often alike.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
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
        "*3\r\n$3\r\nSET".chars().cycle().filter(|c| !c.is_whitespace()).take(random.below(30) as usize + 1).collect()
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
            for piece in bytes.chunks(1 + random.below(20_000) as usize) {
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
