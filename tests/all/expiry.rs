//! EXPIRE PEXPIRE EXPIREAT PEXPIREAT TTL PTTL EXPIRETIME PEXPIRETIME PERSIST, and that what has expired goes by itself.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::harness::{Reply, Server, eventually, request, script};

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis()
}

#[test]
fn expire_and_ttl() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        TTL none                      => :-2
        PTTL none                     => :-2
        EXPIRETIME none               => :-2
        PEXPIRETIME none              => :-2
        EXPIRE none 10                => :0
        PEXPIRE none 10               => :0
        EXPIREAT none 33177117420     => :0
        PEXPIREAT none 33177117420000 => :0
        EXISTS none                   => :0

        SET k v                       => +OK
        TTL k                         => :-1
        PTTL k                        => :-1
        EXPIRETIME k                  => :-1
        PEXPIRETIME k                 => :-1

        EXPIRE k 100                  => :1
        TTL k                         => :99..100
        PTTL k                        => :90000..100000
        PEXPIRE k 200000              => :1
        TTL k                         => :199..200
        EXPIREAT k 33177117420        => :1
        EXPIRETIME k                  => :33177117420
        PEXPIRETIME k                 => :33177117420000
        PEXPIREAT k 33177117420999    => :1
        PEXPIRETIME k                 => :33177117420999
        # Rounded to the nearest second.
        EXPIRETIME k                  => :33177117421
        GET k                         => 'v'
        ",
    );
    // TTL rounds to the nearest second as well.
    c.expect("PEXPIRE k 1600", ":1");
    c.expect("TTL k", ":1..2");
}

#[test]
fn conditions() {
    let server = Server::start();
    let mut c = server.client();
    for (command, unit) in [("EXPIRE", 1_i64), ("PEXPIRE", 1000)] {
        script(
            &server,
            &mut c,
            &r"
            SET k v                      => +OK
            COMMAND none 100 NX          => :0
            # Without a deadline: NX and LT may, XX and GT may not (no deadline counts as never).
            COMMAND k 100 XX             => :0
            COMMAND k 100 GT             => :0
            TTL k                        => :-1
            COMMAND k 100 NX             => :1
            COMMAND k 200 nx             => :0
            TTL k                        => :99..100
            COMMAND k 200 XX             => :1
            TTL k                        => :199..200
            COMMAND k 100 GT             => :0
            COMMAND k 300 GT             => :1
            TTL k                        => :299..300
            COMMAND k 400 LT             => :0
            COMMAND k 100 LT             => :1
            TTL k                        => :99..100
            PERSIST k                    => :1
            COMMAND k 50 LT              => :1
            TTL k                        => :49..50
            # XX goes with GT and LT.
            COMMAND k 100 XX GT          => :1
            COMMAND k 50 LT XX           => :1
            COMMAND k 50 XX XX           => :1
            COMMAND k 100 NX XX          => -ERR NX and XX, GT or LT options at the same time are not compatible
            COMMAND k 100 NX GT          => -ERR NX and XX, GT or LT options at the same time are not compatible
            COMMAND k 100 LT NX          => -ERR NX and XX, GT or LT options at the same time are not compatible
            COMMAND k 100 GT LT          => -ERR GT and LT options at the same time are not compatible
            COMMAND k 100 NOSUCH         => -ERR Unsupported option NOSUCH
            COMMAND k 100 ''             => -ERR Unsupported option
            # Options are looked at before the key is.
            COMMAND none 100 NOSUCH      => -ERR Unsupported option NOSUCH
            TTL k                        => :49..50
            # A past deadline with a condition that holds deletes, else nothing happens.
            COMMAND k -1 NX              => :0
            EXISTS k                     => :1
            COMMAND k -1 XX              => :1
            EXISTS k                     => :0
            "
            .lines()
            .map(|line| scaled(line, command, unit))
            .collect::<Vec<_>>()
            .join("\n"),
        );
    }
    let base = now_ms() / 1000 + 1000;
    for (command, unit) in [("EXPIREAT", 1), ("PEXPIREAT", 1000)] {
        let at = |offset: u128| (base + offset) * unit;
        c.expect("SET k v", "+OK");
        c.expect(&format!("{command} k {} XX", at(0)), ":0");
        c.expect(&format!("{command} k {} NX", at(0)), ":1");
        c.expect(&format!("{command} k {} NX", at(1)), ":0");
        c.expect(&format!("{command} k {} GT", at(0)), ":0");
        c.expect(&format!("{command} k {} GT", at(1)), ":1");
        c.expect(&format!("{command} k {} LT", at(1)), ":0");
        c.expect(&format!("{command} k {} LT", at(0)), ":1");
        c.expect("EXPIRETIME k", &format!(":{base}"));
        c.expect(&format!("{command} k {} GT LT", at(0)), "-ERR GT and LT options");
        c.expect(&format!("{command} k 1"), ":1");
        c.expect("EXISTS k", ":0");
    }
}

/// A line of a script for `command`, whose third word counts seconds, in the unit of `command`.
fn scaled(line: &str, command: &str, per_second: i64) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
    if let Some(at) = words.iter().position(|word| word == "COMMAND") {
        words[at] = command.to_string();
        let seconds: i64 = words[at + 2].parse().expect("a number of seconds");
        words[at + 2] = (seconds * per_second).to_string();
    }
    words.join(" ")
}

#[test]
fn bad_times() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET k v                             => +OK
        EXPIRE k                            => -ERR wrong number of arguments for 'expire' command
        EXPIRE                              => -ERR wrong number of arguments for 'expire' command
        PEXPIRE k                           => -ERR wrong number of arguments for 'pexpire' command
        EXPIREAT k                          => -ERR wrong number of arguments for 'expireat' command
        PEXPIREAT k                         => -ERR wrong number of arguments for 'pexpireat' command
        TTL                                 => -ERR wrong number of arguments for 'ttl' command
        TTL a b                             => -ERR wrong number of arguments for 'ttl' command
        PTTL                                => -ERR wrong number of arguments for 'pttl' command
        EXPIRETIME                          => -ERR wrong number of arguments for 'expiretime' command
        PEXPIRETIME a b                     => -ERR wrong number of arguments for 'pexpiretime' command
        PERSIST                             => -ERR wrong number of arguments for 'persist' command
        PERSIST a b                         => -ERR wrong number of arguments for 'persist' command
        EXPIRE k abc                        => -ERR value is not an integer or out of range
        EXPIRE k ''                         => -ERR value is not an integer or out of range
        EXPIRE k 1.5                        => -ERR value is not an integer or out of range
        EXPIRE k 9223372036854775808        => -ERR value is not an integer or out of range
        EXPIRE none abc                     => -ERR value is not an integer or out of range
        EXPIRE k 9223372036854775807        => -ERR invalid expire time in 'expire' command
        EXPIRE k 9223372036854776           => -ERR invalid expire time in 'expire' command
        EXPIRE k -9223372036854775808       => -ERR invalid expire time in 'expire' command
        PEXPIRE k 9223372036854775807       => -ERR invalid expire time in 'pexpire' command
        EXPIREAT k 9223372036854775807      => -ERR invalid expire time in 'expireat' command
        EXPIREAT k -9223372036854775808     => -ERR invalid expire time in 'expireat' command
        EXPIRE none 9223372036854775807     => -ERR invalid expire time in 'expire' command
        TTL k                               => :-1
        GET k                               => 'v'
        ",
    );
}

#[test]
fn the_past_deletes() {
    let server = Server::start();
    let mut c = server.client();
    for line in
        ["EXPIRE k 0", "EXPIRE k -1", "PEXPIRE k 0", "PEXPIRE k -1000", "EXPIREAT k 0", "EXPIREAT k 1", "EXPIREAT k -1"]
    {
        c.expect("SET k v", "+OK");
        c.expect(line, ":1");
        assert_eq!(c.run("EXISTS k"), Reply::Int(0), "{line}");
        c.expect("DBSIZE", ":0");
        c.expect(line, ":0");
    }
    for line in ["PEXPIREAT k 0", "PEXPIREAT k 1", "PEXPIREAT k -1"] {
        c.expect("SET k v", "+OK");
        c.expect(line, ":1");
        c.expect("GET k", "nil");
    }
}

#[test]
fn persist() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        PERSIST none    => :0
        SET k v         => +OK
        PERSIST k       => :0
        EXPIRE k 100    => :1
        PERSIST k       => :1
        TTL k           => :-1
        PERSIST k       => :0
        GET k           => 'v'
        ",
    );
    c.expect("SET k v PX 30", "+OK");
    c.expect("PERSIST k", ":1");
    c.expect("SET marker v PX 60", "+OK");
    eventually("a later deadline passes", || c.run("EXISTS marker") == Reply::Int(0));
    c.expect("GET k", "'v'");
}

/// Every command that names a key treats one whose time is over as absent, before anything has deleted it.
#[test]
fn an_expired_key_is_absent_for_every_command() {
    let server = Server::start();
    let mut c = server.client();
    let rows = [
        ("GET k", "nil"),
        ("GETDEL k", "nil"),
        ("GETSET k x", "nil"),
        ("MGET k", "[nil]"),
        ("STRLEN k", ":0"),
        ("APPEND k x", ":1"),
        ("INCR k", ":1"),
        ("DECRBY k 5", ":-5"),
        ("SETNX k x", ":1"),
        ("SET k x XX", "nil"),
        ("SET k x NX", "+OK"),
        ("SET k x GET", "nil"),
        ("SET k x KEEPTTL", "+OK"),
        ("DEL k", ":0"),
        ("UNLINK k", ":0"),
        ("EXISTS k", ":0"),
        ("TYPE k", "+none"),
        ("EXPIRE k 10", ":0"),
        ("PERSIST k", ":0"),
        ("TTL k", ":-2"),
        ("PTTL k", ":-2"),
        ("EXPIRETIME k", ":-2"),
        ("KEYS *", "[]"),
        ("SCAN 0", "['0', []]"),
        ("RANDOMKEY", "nil"),
    ];
    for (line, expected) in rows {
        // Both in one write and the deadline already over at the first look: nothing can have run in between.
        let deadline = now_ms() + 3;
        c.expect("FLUSHALL", "+OK");
        c.expect(&format!("SET k 7 PXAT {deadline}"), "+OK");
        while now_ms() <= deadline + 1 {
            std::hint::spin_loop();
        }
        let reply = c.run(line);
        assert_eq!(reply.to_string(), expected, "{line} on an expired key");
        if line.ends_with("KEEPTTL") {
            c.expect("TTL k", ":-1");
        }
    }
}

#[test]
fn what_nobody_touches_expires_too() {
    let server = Server::start();
    let mut c = server.client();
    let value = "v".repeat(1000);
    let empty = c.info_number("used_memory");
    let set = |i: usize| request(&["SET", &format!("k{i}"), &value, "PX", "300"]);
    c.send(&(0..20_000).flat_map(set).collect::<Vec<u8>>());
    for _ in 0..20_000 {
        assert_eq!(c.read(), Reply::Simple("OK".into()));
    }
    c.expect("SET stays v", "+OK");
    // DBSIZE looks at no key, so only the server's own clock can make it shrink.
    eventually("all keys with a deadline have gone", || c.run("DBSIZE") == Reply::Int(1));
    eventually("their memory is free", || c.info_number("used_memory") < empty + 8_000_000);
    assert_eq!(c.info_number("expired_keys"), 20_000);
    c.expect("GET stays", "'v'");
}
