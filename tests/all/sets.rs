//! SADD SREM SCARD SISMEMBER SMISMEMBER SMEMBERS SMOVE SPOP SRANDMEMBER SSCAN, SINTER SUNION SDIFF and their kin.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::{Client, Reply, Server, eventually, request, script};

/// The members of a reply, in order.
fn members(reply: &Reply) -> Vec<String> {
    let mut members: Vec<String> = reply.items().iter().map(Reply::text).collect();
    members.sort();
    members
}

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("member:{n}")).collect()
}

/// SADD of many members, a thousand a command.
fn add(c: &mut Client, key: &str, members: &[String]) {
    let mut bytes = Vec::new();
    for chunk in members.chunks(1000) {
        let words: Vec<&str> = ["SADD", key].into_iter().chain(chunk.iter().map(String::as_str)).collect();
        bytes.extend(request(&words));
    }
    c.send(&bytes);
    for chunk in members.chunks(1000) {
        assert_eq!(c.read(), Reply::Int(i64::try_from(chunk.len()).unwrap()));
    }
}

fn sorted(mut members: Vec<String>) -> Vec<String> {
    members.sort();
    members
}

#[test]
fn members_come_and_go() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SADD s 3 1 2             => :3
        SADD s 3 4               => :1
        SADD s 4                 => :0
        SCARD s                  => :4
        SCARD none               => :0
        SMEMBERS s               => ['1', '2', '3', '4']
        SMEMBERS none            => []
        TYPE s                   => +set
        SISMEMBER s 3            => :1
        SISMEMBER s 5            => :0
        SISMEMBER s 03           => :0
        SISMEMBER none 3         => :0
        SMISMEMBER s 1 x 4 01    => [:1, :0, :1, :0]
        SMISMEMBER none 1 2      => [:0, :0]
        SREM s 1 9 3 1           => :2
        SMEMBERS s               => ['2', '4']
        SREM none 1              => :0
        SREM s 2 4               => :2
        EXISTS s                 => :0
        TYPE s                   => +none
        SADD e ''                => :1
        SMEMBERS e               => ['']
        SISMEMBER e ''           => :1
        SREM e '' ''             => :1
        EXISTS e                 => :0
        SADD b 'a\x00\r\nb'      => :1
        SMEMBERS b               => ['a\x00\r\nb']
        SADD i -1 -9223372036854775808 9223372036854775807 0 => :4
        SMEMBERS i               => ['-9223372036854775808', '-1', '0', '9223372036854775807']
        SADD i -9223372036854775809 => :1
        SET string v             => +OK
        SADD string a            => -WRONGTYPE
        SREM string a            => -WRONGTYPE
        SCARD string             => -WRONGTYPE
        SISMEMBER string a       => -WRONGTYPE
        SMISMEMBER string a      => -WRONGTYPE
        SMEMBERS string          => -WRONGTYPE
        GET i                    => -WRONGTYPE
        APPEND i x               => -WRONGTYPE
        SET i v                  => +OK
        TYPE i                   => +string
        SADD s                   => -ERR wrong number of arguments for 'sadd' command
        SCARD                    => -ERR wrong number of arguments for 'scard' command
        SMEMBERS s t             => -ERR wrong number of arguments for 'smembers' command
        SISMEMBER s              => -ERR wrong number of arguments for 'sismember' command
        SMISMEMBER s             => -ERR wrong number of arguments for 'smismember' command
        ",
    );
    let mut c3 = server.client3();
    script(
        &server,
        &mut c3,
        r"
        SADD three 3 1 2         => :3
        SMEMBERS three           => ~['1', '2', '3']
        SMEMBERS none            => ~[]
        SMISMEMBER three 1 5     => [:1, :0]
        SINTER three three       => ~['1', '2', '3']
        SUNION none              => ~[]
        SDIFF none               => ~[]
        SPOP three 5             => ~['1', '2', '3']
        SPOP three 5             => ~[]
        SPOP three               => null
        SRANDMEMBER three        => null
        SRANDMEMBER three 5      => []
        SADD three 1             => :1
        SRANDMEMBER three        => '1'
        SRANDMEMBER three 5      => ['1']
        SRANDMEMBER three -2     => ['1', '1']
        ",
    );
}

#[test]
fn sets_keep_their_deadline_and_go_with_it() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SADD s a b c             => :3
        EXPIRE s 1000            => :1
        SADD s d                 => :1
        SREM s a                 => :1
        TTL s                    => :990..1000
        SADD d x                 => :1
        EXPIRE d 1000            => :1
        SUNIONSTORE d s          => :3
        TTL d                    => :-1
        PEXPIRE s 1              => :1
        ",
    );
    eventually("the set is gone", || c.run("EXISTS s") == Reply::Int(0));
    c.expect("SADD s new", ":1");
    c.expect("TTL s", ":-1");
}

#[test]
fn moves() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SADD a 1 2               => :2
        SMOVE a b 1              => :1
        SMEMBERS a               => ['2']
        SMEMBERS b               => ['1']
        SMOVE a b 9              => :0
        SMOVE none b 1           => :0
        SADD b 2                 => :1
        SMOVE a b 2              => :1
        EXISTS a                 => :0
        SMEMBERS b               => ['1', '2']
        SMOVE b b 1              => :1
        SMOVE b b 9              => :0
        SET s v                  => +OK
        SMOVE b s 1              => -WRONGTYPE
        SMOVE b s 9              => -WRONGTYPE
        SMOVE s b 1              => -WRONGTYPE
        SMOVE none s 1           => :0
        SMOVE b none             => -ERR wrong number of arguments for 'smove' command
        ",
    );
}

#[test]
fn combinations() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SADD a 1 2 3 4           => :4
        SADD b 3 4 5             => :3
        SADD c 4 6               => :2
        SET s v                  => +OK
        SINTER a                 => ['1', '2', '3', '4']
        SINTER a b               => ['3', '4']
        SINTER a b c             => ['4']
        SINTER a none            => []
        SINTER none s            => -WRONGTYPE
        SINTER a s               => -WRONGTYPE
        SUNION a b c             => ['1', '2', '3', '4', '5', '6']
        SUNION none a none       => ['1', '2', '3', '4']
        SUNION none              => []
        SUNION none s            => -WRONGTYPE
        SDIFF a b                => ['1', '2']
        SDIFF a                  => ['1', '2', '3', '4']
        SDIFF a a                => []
        SDIFF none a             => []
        SDIFF a none             => ['1', '2', '3', '4']
        SDIFF none s             => -WRONGTYPE
        SINTERSTORE d a b        => :2
        SMEMBERS d               => ['3', '4']
        SUNIONSTORE d a b        => :5
        SMEMBERS d               => ['1', '2', '3', '4', '5']
        SDIFFSTORE d a c         => :3
        SMEMBERS d               => ['1', '2', '3']
        # A source may be the destination.
        SUNIONSTORE a a b        => :5
        SDIFFSTORE a a c         => :4
        SMEMBERS a               => ['1', '2', '3', '5']
        SINTERSTORE d a none     => :0
        EXISTS d                 => :0
        SINTERSTORE d none       => :0
        SET d v                  => +OK
        SINTERSTORE d b c        => :1
        TYPE d                   => +set
        SET d v                  => +OK
        SDIFFSTORE d none        => :0
        EXISTS d                 => :0
        SUNIONSTORE d s a        => -WRONGTYPE
        SINTERSTORE d            => -ERR wrong number of arguments for 'sinterstore' command
        SINTER                   => -ERR wrong number of arguments for 'sinter' command
        SINTERCARD 2 b c         => :1
        SINTERCARD 1 b           => :3
        SINTERCARD 1 b LIMIT 2   => :2
        SINTERCARD 1 b limit 0   => :3
        SINTERCARD 1 b LIMIT 7   => :3
        SINTERCARD 1 b LIMIT 1 LIMIT 2 => :2
        SINTERCARD 2 b none      => :0
        SINTERCARD 2 none s      => -WRONGTYPE
        SINTERCARD 0 b           => -ERR numkeys should be greater than 0
        SINTERCARD x b           => -ERR numkeys should be greater than 0
        SINTERCARD 2 b           => -ERR Number of keys can't be greater than number of args
        SINTERCARD 1 b LIMIT     => -ERR syntax error
        SINTERCARD 1 b LIMIT -1  => -ERR LIMIT can't be negative
        SINTERCARD 1 b LIMIT x   => -ERR LIMIT can't be negative
        SINTERCARD 1 b c         => -ERR syntax error
        SINTERCARD 1             => -ERR wrong number of arguments for 'sintercard' command
        ",
    );
}

/// Case 27 of the bug reports, and the counts around the bounds.
#[test]
fn random_members() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SADD s a                 => :1
        SRANDMEMBER s            => 'a'
        SRANDMEMBER s -3         => ['a', 'a', 'a']
        SRANDMEMBER s 3          => ['a']
        SRANDMEMBER s 0          => []
        SRANDMEMBER none         => nil
        SRANDMEMBER none 3       => []
        SRANDMEMBER none -3      => []
        SRANDMEMBER s x          => -ERR value is not an integer or out of range
        SRANDMEMBER s -9223372036854775808 => -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        SRANDMEMBER s 1 2        => -ERR syntax error
        SPOP none                => nil
        SPOP none 3              => []
        SPOP s 0                 => []
        SPOP s -1                => -ERR value is out of range, must be positive
        SPOP s x                 => -ERR value is out of range, must be positive
        SPOP s 1 2               => -ERR syntax error
        SPOP s                   => 'a'
        EXISTS s                 => :0
        SADD s a                 => :1
        SPOP s 5                 => ['a']
        EXISTS s                 => :0
        SET t v                  => +OK
        SPOP t                   => -WRONGTYPE
        SPOP t 0                 => -WRONGTYPE
        SRANDMEMBER t            => -WRONGTYPE
        SRANDMEMBER t 1          => -WRONGTYPE
        ",
    );
    // Every size has its own way of drawing.
    for size in [5, 100, 400, 5000] {
        let all: BTreeSet<String> = numbered(0..size).into_iter().collect();
        c.run("DEL s");
        add(&mut c, "s", &numbered(0..size));
        for count in [1, 3, 200, 300, 900, 4000, 10_000] {
            let drawn = members(&c.run(&format!("SRANDMEMBER s {count}")));
            assert_eq!(drawn.len(), size.min(count));
            assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), drawn.len(), "{count} of {size} are distinct");
            assert!(drawn.iter().all(|member| all.contains(member)));
            let drawn = members(&c.run(&format!("SRANDMEMBER s -{count}")));
            assert_eq!(drawn.len(), count);
            assert!(drawn.iter().all(|member| all.contains(member)));
        }
        let mut left = all.clone();
        for count in [1, 2, 300, 1000, 10_000] {
            let popped = members(&c.run(&format!("SPOP s {count}")));
            assert_eq!(popped.len(), left.len().min(count));
            assert!(popped.iter().all(|member| left.remove(member)), "what is popped was there");
            assert_eq!(c.run("SCARD s"), Reply::Int(i64::try_from(left.len()).unwrap()));
        }
        assert_eq!(c.run("EXISTS s"), Reply::Int(0));
    }
}

/// Each member is drawn about as often as each other.
#[test]
fn draws_are_uniform() {
    let server = Server::start();
    let mut c = server.client();
    for (size, ways) in
        [(20, ["SRANDMEMBER s -4000", "SRANDMEMBER s 4"]), (1000, ["SRANDMEMBER s -200000", "SRANDMEMBER s 200"])]
    {
        c.run("DEL s");
        add(&mut c, "s", &numbered(0..size));
        for way in ways {
            let mut counts: BTreeMap<String, i64> = BTreeMap::new();
            while counts.values().sum::<i64>() < i64::try_from(200 * size).unwrap() {
                for member in members(&c.run(way)) {
                    *counts.entry(member).or_default() += 1;
                }
            }
            assert_eq!(counts.len(), size);
            // Ten standard deviations: one run in 10^20 fails by chance.
            assert!(counts.values().all(|drawn| (drawn - 200).abs() < 142), "{way} of {size}");
        }
    }
}

#[test]
fn scans() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SSCAN none 0             => ['0', []]
        SSCAN none 0 NOSUCH      => ['0', []]
        SADD s 1 2 3             => :3
        SSCAN s 0                => ['0', ['1', '2', '3']]
        SSCAN s 0 COUNT 1        => ['0', ['1', '2', '3']]
        SSCAN s 17               => ['0', ['1', '2', '3']]
        SSCAN s 0 MATCH [13]     => ['0', ['1', '3']]
        SSCAN s 0 match * count 5 => ['0', ['1', '2', '3']]
        SSCAN s 0 COUNT 0        => -ERR syntax error
        SSCAN s 0 COUNT x        => -ERR value is not an integer or out of range
        SSCAN s 0 MATCH          => -ERR syntax error
        SSCAN s 0 TYPE set       => -ERR syntax error
        SSCAN s x                => -ERR invalid cursor
        SET t v                  => +OK
        SSCAN t 0                => -WRONGTYPE
        SSCAN t x                => -ERR invalid cursor
        ",
    );
    add(&mut c, "big", &numbered(0..20_000));
    for count in [10, 1000, 100_000] {
        let (mut cursor, mut seen, mut calls) = ("0".to_string(), BTreeSet::new(), 0);
        loop {
            let reply = c.run(&format!("SSCAN big {cursor} COUNT {count}"));
            cursor = reply.items()[0].text();
            seen.extend(members(&reply.items()[1]));
            calls += 1;
            // What comes and goes meanwhile is nobody's affair.
            c.run(&format!("SADD big other:{calls}"));
            c.run(&format!("SREM big other:{}", calls - 1));
            if cursor == "0" {
                break;
            }
        }
        assert!(numbered(0..20_000).iter().all(|member| seen.contains(member)), "COUNT {count}");
        assert!(calls >= 20_000 / count / 10, "{calls} calls of COUNT {count}");
    }
}

/// The encodings of Redis 7.2 (7.0 has no listpacks for sets).
#[test]
fn encodings() {
    let server = Server::start();
    let mut c = server.client();
    let numbers = |range: std::ops::Range<usize>| range.map(|n| n.to_string()).collect::<Vec<_>>();
    add(&mut c, "i", &numbers(0..512));
    c.expect("OBJECT ENCODING i", "'intset'");
    c.run("SADD i 512");
    c.expect("OBJECT ENCODING i", "'hashtable'");
    c.run("SREM i 512");
    c.expect("OBJECT ENCODING i", "'hashtable'");
    add(&mut c, "mixed", &numbers(0..200));
    c.expect("SADD mixed x", ":1");
    c.expect("OBJECT ENCODING mixed", "'hashtable'");
    if server.is_redis() {
        return;
    }
    add(&mut c, "l", &numbered(0..128));
    c.expect("OBJECT ENCODING l", "'listpack'");
    c.run("SADD l one-more");
    c.expect("OBJECT ENCODING l", "'hashtable'");
    c.expect(&format!("SADD long {}", "x".repeat(64)), ":1");
    c.expect("OBJECT ENCODING long", "'listpack'");
    c.expect(&format!("SADD long {}", "x".repeat(65)), ":1");
    c.expect("OBJECT ENCODING long", "'hashtable'");
    script(
        &server,
        &mut c,
        r"
        CONFIG SET set-max-intset-entries 2 set-max-listpack-entries 3 set-max-listpack-value 4 => +OK
        SADD a 1 2               => :2
        OBJECT ENCODING a        => 'intset'
        SADD a 3                 => :1
        OBJECT ENCODING a        => 'hashtable'
        SADD b 1 2 3             => :3
        OBJECT ENCODING b        => 'listpack'
        SADD c 1 xyzw            => :2
        OBJECT ENCODING c        => 'listpack'
        SADD c vwxyz             => :1
        OBJECT ENCODING c        => 'hashtable'
        SADD d 12345             => :1
        SADD d x                 => :1
        OBJECT ENCODING d        => 'hashtable'
        ",
    );
}

/// Large sets are combined in slices, to the same results.
#[test]
fn combinations_of_large_sets() {
    let server = Server::start();
    let mut c = server.client();
    let (a, b) = (numbered(0..30_000), numbered(20_000..45_000));
    add(&mut c, "a", &a);
    add(&mut c, "b", &b);
    add(&mut c, "few", &numbered(29_990..30_010));
    add(&mut c, "some", &numbered(100..900));
    let both = sorted(numbered(20_000..30_000));
    let all = sorted(numbered(0..45_000));
    let rest = sorted(numbered(0..20_000));
    assert_eq!(members(&c.run("SINTER a b")), both);
    assert_eq!(members(&c.run("SINTER b a b a")), both);
    assert_eq!(members(&c.run("SINTER a few b")), sorted(numbered(29_990..30_000)));
    assert_eq!(members(&c.run("SUNION a b few none")), all);
    assert_eq!(members(&c.run("SDIFF a b")), rest);
    assert_eq!(members(&c.run("SDIFF a few some none")), sorted([numbered(0..100), numbered(900..29_990)].concat()));
    assert_eq!(members(&c.run("SDIFF some a")), Vec::<String>::new());
    for (line, want) in [("SINTERSTORE d a b", &both), ("SUNIONSTORE d a b", &all), ("SDIFFSTORE d a b", &rest)] {
        assert_eq!(c.run(line), Reply::Int(i64::try_from(want.len()).unwrap()));
        assert_eq!(&members(&c.run("SMEMBERS d")), want, "{line}");
    }
    c.expect("SINTERCARD 2 a b", ":10000");
    c.expect("SINTERCARD 2 a b LIMIT 2500", ":2500");
    c.expect("SINTERSTORE d a b none", ":0");
    c.expect("EXISTS d", ":0");
    c.expect("SUNIONSTORE a a b", ":45000");
    assert_eq!(members(&c.run("SMEMBERS a")), all);
    c.run("SET s v");
    c.expect("SUNION a s", "-WRONGTYPE");
    c.expect("SINTER a b s", "-WRONGTYPE");
}

/// What writers do meanwhile is not seen: neither in a long reply nor in a stored result, and the name of neither is free before it is complete.
#[test]
fn large_operations_see_one_instant() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    let (a, b) = (numbered(0..60_000), numbered(30_000..90_000));
    add(&mut c, "a", &a);
    add(&mut c, "b", &b);
    c.send(&request(&["SMEMBERS", "a"]));
    c.send(&request(&["SUNION", "a", "b"]));
    c.send(&request(&["SINTERSTORE", "d", "a", "b"]));
    // None of this is read before the writer is through.
    let first = c.read();
    other.expect("SADD a new", ":1");
    for n in (0..60_000).step_by(7) {
        other.run(&format!("SREM a member:{n}"));
        if n % 21 == 0 {
            other.run(&format!("SREM b member:{n}"));
        }
    }
    assert_eq!(members(&first), sorted(a));
    let union = members(&c.read());
    let told = c.read().int();
    let stored = members(&c.run("SMEMBERS d"));
    assert_eq!(usize::try_from(told).unwrap(), stored.len());
    // Each is what an order of the commands explains: all of what was there, or without what had gone by then, in the order of its going.
    for (name, seen, first) in [("union", &union, 0..60_000), ("stored", &stored, 30_000..60_000)] {
        let gone: Vec<bool> = first
            .step_by(1)
            .filter(|n| n % 7 == 0)
            .map(|n| seen.binary_search(&format!("member:{n}")).is_err())
            .collect();
        let going = gone.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        assert!(going == 0, "{name}: something went later than what came before it");
    }
}

/// A slow reader of a large set costs neither memory nor anybody's time.
#[test]
fn a_reader_that_stops_gets_what_was_there() {
    let server = Server::start();
    let (mut slow, mut c) = (server.client(), server.client());
    let all = numbered(0..200_000);
    add(&mut c, "s", &all);
    slow.send(&request(&["SMEMBERS", "s"]));
    eventually("the reply has begun", || c.info_number("total_net_output_bytes") > 500_000);
    c.expect("DEL s", ":1");
    c.expect("SADD s other", ":1");
    assert_eq!(members(&slow.read()), sorted(all));
    c.expect("SMEMBERS s", "['other']");
}

#[test]
fn members_of_any_length() {
    let server = Server::start();
    let mut c = server.client();
    let sizes = [0, 1, 15, 16, 191, 192, 512, 2000, 16_000, 16_378, 16_379, 16_380, 65_535, 65_536, 300_000, 2_000_000];
    for (nth, size) in sizes.iter().enumerate() {
        let member = "m".repeat(*size);
        assert_eq!(c.call(&["SADD", "s", &member]), Reply::Int(1));
        assert_eq!(c.call(&["SADD", "s", &member]), Reply::Int(0));
        assert_eq!(c.call(&["SISMEMBER", "s", &member]), Reply::Int(1));
        assert_eq!(c.run("SCARD s"), Reply::Int(i64::try_from(nth + 1).unwrap()));
    }
    let lengths = |reply: &Reply| {
        let mut lengths: Vec<usize> = reply.items().iter().map(|member| member.bytes().len()).collect();
        lengths.sort_unstable();
        lengths
    };
    assert_eq!(lengths(&c.run("SMEMBERS s")), sizes);
    assert_eq!(lengths(&c.run("SINTER s s")), sizes);
    assert_eq!(c.run("SUNIONSTORE d s"), Reply::Int(16));
    assert_eq!(lengths(&c.run("SMEMBERS d")), sizes);
    for size in sizes {
        assert_eq!(c.call(&["SREM", "s", &"m".repeat(size)]), Reply::Int(1));
    }
    assert_eq!(c.run("EXISTS s"), Reply::Int(0));
}
