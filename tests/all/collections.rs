//! What all collection types have in common: copies, renames, moves, being overwritten and freed; small and large, with one worker and several.

use crate::control::servers;
use crate::harness::{Client, Reply, Server, eventually, under_test};

/// A way to make a collection of `n` elements, and to read all of it in an order of its own.
struct Kind {
    name: &'static str,
    add: fn(&str, usize) -> Vec<String>,
    read: &'static [&'static str],
    /// Of 10, and of 5000 elements, as Redis 7.2 names it.
    encodings: [&'static str; 2],
}

const KINDS: &[Kind] = &[
    Kind {
        name: "list",
        add: |key, i| vec!["RPUSH".into(), key.into(), format!("element:{i}")],
        read: &["LRANGE", "0", "-1"],
        encodings: ["listpack", "quicklist"],
    },
    Kind {
        name: "set",
        add: |key, i| vec!["SADD".into(), key.into(), format!("member:{i}")],
        read: &["SMEMBERS"],
        encodings: ["listpack", "hashtable"],
    },
    Kind {
        name: "hash",
        add: |key, i| vec!["HSET".into(), key.into(), format!("field:{i}"), format!("value:{i}")],
        read: &["HGETALL"],
        encodings: ["listpack", "hashtable"],
    },
    Kind {
        name: "zset",
        add: |key, i| vec!["ZADD".into(), key.into(), format!("{}.5", i * 7 % 5000), format!("member:{i}")],
        read: &["ZRANGE", "0", "-1", "WITHSCORES"],
        encodings: ["listpack", "skiplist"],
    },
];

impl Kind {
    fn make(&self, client: &mut Client, key: &str, elements: usize) -> Vec<String> {
        let mut bytes = Vec::new();
        for i in 0..elements {
            bytes.extend(crate::harness::request(&(self.add)(key, i)));
        }
        client.send(&bytes);
        for _ in 0..elements {
            assert!(client.read().int() > 0);
        }
        self.content(client, key)
    }

    /// All elements, sorted: sets and hashes have no order.
    fn content(&self, client: &mut Client, key: &str) -> Vec<String> {
        let mut command = vec![self.read[0], key];
        command.extend(&self.read[1..]);
        let reply = client.call(&command);
        let mut items: Vec<String> = reply.items().iter().map(Reply::to_string).collect();
        if self.name != "list" && self.name != "zset" {
            items.sort_unstable();
        }
        items
    }
}

#[test]
fn copies_renames_and_moves() {
    for server in servers(&[]) {
        let mut client = server.client();
        for kind in KINDS {
            for (elements, encoding) in [10, 5000].into_iter().zip(kind.encodings) {
                client.expect("FLUSHALL", "+OK");
                let content = kind.make(&mut client, "a", elements);
                assert!(content.len() >= elements, "{}: {}", kind.name, content.len());
                if under_test().1 == crate::harness::Kind::Dolmen {
                    assert_eq!(client.run("OBJECT ENCODING a").text(), encoding, "{} of {elements}", kind.name);
                }
                client.expect("PEXPIRE a 1000000", ":1");
                // Over a string, and to names of every shard.
                client.expect("SET b string", "+OK");
                client.expect("COPY a b", ":0");
                client.expect("COPY a b REPLACE", ":1");
                for i in 0..20 {
                    client.expect(&format!("RENAME b b{i}"), "+OK");
                    client.expect(&format!("RENAME b{i} b"), "+OK");
                }
                client.expect("COPY b b DB 3", ":1");
                client.expect("MOVE b 2", ":1");
                for database in [2, 3] {
                    client.expect(&format!("SELECT {database}"), "+OK");
                    client.expect("TYPE b", &format!("+{}", kind.name));
                    assert!(client.run("PTTL b").int() > 900_000);
                    assert_eq!(kind.content(&mut client, "b"), content, "{}", kind.name);
                    client.call(&(kind.add)("b", elements));
                    client.expect("SELECT 0", "+OK");
                }
                // The copies are their own.
                assert_eq!(kind.content(&mut client, "a"), content, "{}", kind.name);
                assert!(
                    client.run("GET a").is_error()
                        && client.run("INCR a").is_error()
                        && client.run("APPEND a x").is_error()
                );
                client.expect("SET a string", "+OK");
                client.expect("GET a", "'string'");
            }
        }
    }
}

/// What was freed is accounted as free, whichever way it went.
#[test]
fn memory_comes_back() {
    for server in servers(&[]) {
        let mut client = server.client();
        client.expect("SET warm up", "+OK");
        client.expect("FLUSHALL", "+OK");
        // Not used_memory: a worker keeps buffers of requests and replies for the next ones.
        let used = |client: &mut Client| client.info_number("used_memory_dataset");
        let before = used(&mut client);
        for kind in KINDS {
            for gone in ["DEL k", "UNLINK k", "SET k x", "FLUSHALL ASYNC", "PEXPIRE k 0", "RENAME other k"] {
                kind.make(&mut client, "k", 3000);
                assert!(used(&mut client) > before + 20_000, "{}", kind.name);
                client.expect("SET other x", "+OK");
                client.run(gone);
                client.run("DEL k other");
                eventually(&format!("{} is freed by {gone}", kind.name), || used(&mut client) < before + 1000);
            }
        }
    }
}

/// A reply that is read slowly shows one state, though the key is changed, renamed and deleted meanwhile.
#[test]
fn a_slow_reader_sees_one_state() {
    for server in servers(&[]) {
        for kind in KINDS {
            let (mut reader, mut writer) = (server.client(), server.client());
            writer.expect("FLUSHALL", "+OK");
            let content = kind.make(&mut writer, "k", 60_000);
            let mut command = vec![kind.read[0], "k"];
            command.extend(&kind.read[1..]);
            // Many times over, so that it does not fit what kernel and server buffer.
            let request = crate::harness::request(&command);
            reader.send(&request.repeat(6));
            eventually("the first of them has run", || server_suspended(&mut writer));
            let mut bytes = Vec::new();
            for i in 0..2000 {
                bytes.extend(crate::harness::request(&(kind.add)("k", 100_000 + i)));
            }
            writer.send(&bytes);
            (0..2000).for_each(|_| assert!(!writer.read().is_error()));
            writer.expect("DEL k", ":1");
            let mut seen = 0;
            for _ in 0..6 {
                let reply = reader.read();
                let mut items: Vec<String> = reply.items().iter().map(Reply::to_string).collect();
                if kind.name != "list" && kind.name != "zset" {
                    items.sort_unstable();
                }
                if items == content {
                    seen += 1;
                } else {
                    // Begun later: with some of the writes, or after the deletion.
                    assert!(items.is_empty() || items.len() > content.len(), "{}: {} items", kind.name, items.len());
                }
            }
            assert!(seen > 0, "{}", kind.name);
        }
    }
}

fn server_suspended(client: &mut Client) -> bool {
    client.run("CLIENT LIST").text().lines().any(|line| {
        let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap_or("0").to_owned();
        field("omem=").parse::<u64>().unwrap_or(0) + field("obl=").parse::<u64>().unwrap_or(0) > 0
            || line.contains(" flags=b ")
    })
}

#[test]
fn other_types_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    for kind in KINDS {
        client.expect("FLUSHALL", "+OK");
        kind.make(&mut client, "k", 3);
        client.expect("SET s x", "+OK");
        for other in KINDS {
            let wrong = client.call(&(other.add)("s", 1));
            assert!(wrong.to_string().starts_with("-WRONGTYPE"), "{}: {wrong}", other.name);
            if other.name != kind.name {
                let wrong = client.call(&(other.add)("k", 1));
                assert!(wrong.to_string().starts_with("-WRONGTYPE"), "{} on {}: {wrong}", other.name, kind.name);
            }
        }
        for command in [
            "GET k",
            "STRLEN k",
            "GETRANGE k 0 1",
            "SETRANGE k 0 x",
            "GETSET k x",
            "INCR k",
            "SETBIT k 0 1",
            "BITCOUNT k",
        ] {
            assert!(client.run(command).to_string().starts_with("-WRONGTYPE"), "{command} on {}", kind.name);
        }
        client.expect("SET s y", "+OK");
        client.expect(&format!("SCAN 0 COUNT 100 TYPE {}", kind.name), "['0', ['k']]");
    }
}
