//! MEMORY USAGE.

use crate::harness::{Client, Kind, Server, eventually, script, under_test};

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
