//! DEL UNLINK EXISTS TYPE, KEYS SCAN RANDOMKEY DBSIZE FLUSHDB FLUSHALL FLUSH.

use std::collections::{BTreeSet, HashMap};

use crate::harness::{Client, Reply, Server, eventually, request, script};

/// Stores `v` under `prefix0`.. up to `count`.
pub fn fill(c: &mut Client, prefix: &str, count: usize) {
    for start in (0..count).step_by(5000) {
        let keys = start..count.min(start + 5000);
        c.send(&keys.clone().flat_map(|i| request(&["SET", &format!("{prefix}{i}"), "v"])).collect::<Vec<u8>>());
        for _ in keys {
            assert_eq!(c.read(), Reply::Simple("OK".into()));
        }
    }
}

/// A whole SCAN: the keys in the order of their arrival, with repetitions.
pub fn scan(c: &mut Client, options: &str) -> Vec<String> {
    let (mut cursor, mut keys) = ("0".to_string(), Vec::new());
    loop {
        let reply = c.run(&format!("SCAN {cursor} {options}"));
        let [next, found] = reply.items() else { panic!("a cursor and keys, not {reply}") };
        keys.extend(found.items().iter().map(Reply::text));
        cursor = next.text();
        if cursor == "0" {
            return keys;
        }
    }
}

fn sorted(keys: &Reply) -> Vec<String> {
    let mut keys: Vec<String> = keys.items().iter().map(Reply::text).collect();
    keys.sort();
    keys
}

#[test]
fn del_unlink_exists_type() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        MSET a 1 b 2 c 3 d 4   => +OK
        EXISTS a               => :1
        EXISTS none            => :0
        # Every mention counts.
        EXISTS a a b none a    => :4
        TYPE a                 => +string
        TYPE none              => +none
        DEL a                  => :1
        DEL a                  => :0
        DEL b b none c         => :2
        UNLINK d none d        => :1
        UNLINK d               => :0
        DBSIZE                 => :0
        DEL                    => -ERR wrong number of arguments for 'del' command
        UNLINK                 => -ERR wrong number of arguments for 'unlink' command
        EXISTS                 => -ERR wrong number of arguments for 'exists' command
        TYPE                   => -ERR wrong number of arguments for 'type' command
        TYPE a b               => -ERR wrong number of arguments for 'type' command
        ",
    );
}

#[test]
fn keys_matches_globs() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        KEYS *                 => []
        MSET hello 1 hallo 2 hxllo 3 hllo 4 heeeello 5 h*llo 6 h[llo 7 'h^llo' 8 'h\\llo' 9 '' 10  => +OK
        KEYS hello             => ['hello']
        KEYS h[e]llo           => ['hello']
        KEYS h\*llo            => ['h*llo']
        KEYS h\[llo            => ['h[llo']
        KEYS h[*]llo           => ['h*llo']
        KEYS h[\]^]llo         => ['h^llo']
        KEYS 'h\\\\llo'        => ['h\\llo']
        KEYS h[x-z]llo         => ['hxllo']
        KEYS h[z-x]llo         => ['hxllo']
        KEYS HELLO             => []
        KEYS ''                => ['']
        KEYS he*o?             => []
        KEYS h*********xll*o   => ['hxllo']
        KEYS                   => -ERR wrong number of arguments for 'keys' command
        KEYS a b               => -ERR wrong number of arguments for 'keys' command
        ",
    );
    let mut matching = |pattern: &str| sorted(&c.call(&["KEYS", pattern]));
    assert_eq!(matching("*").len(), 10);
    assert_eq!(matching("h?llo"), ["h*llo", "h[llo", "h\\llo", "h^llo", "hallo", "hello", "hxllo"]);
    assert_eq!(matching("h*llo"), ["h*llo", "h[llo", "h\\llo", "h^llo", "hallo", "heeeello", "hello", "hllo", "hxllo"]);
    assert_eq!(matching("h[a-e]llo"), ["hallo", "hello"]);
    assert_eq!(matching("h[^a-e]llo"), ["h*llo", "h[llo", "h\\llo", "h^llo", "hxllo"]);
    // An open bracket at the end reaches to the end.
    assert_eq!(matching("h[ae"), [""; 0]);

    // Only the selected database.
    c.expect("SELECT 1", "+OK");
    c.expect("KEYS *", "[]");
}

#[test]
fn a_pattern_of_many_stars_is_not_exponential() {
    let server = Server::start();
    let mut c = server.client();
    assert_eq!(c.call(&["SET", &"a".repeat(5000), "v"]), Reply::Simple("OK".into()));
    // Backtracking over every star would take longer than the universe has.
    let pattern = format!("{}b", "a*".repeat(if server.is_redis() { 2 } else { 500 }));
    assert_eq!(c.call(&["KEYS", &pattern]), Reply::Array(vec![]));
    assert_eq!(c.call(&["SCAN", "0", "MATCH", &pattern, "COUNT", "100"]).items()[1], Reply::Array(vec![]));
}

#[test]
fn scan_finds_everything() {
    let server = Server::start();
    let mut c = server.client();
    fill(&mut c, "key:", 20_000);
    c.expect("SET other v", "+OK");
    let all: BTreeSet<String> = (0..20_000).map(|i| format!("key:{i}")).chain(["other".to_string()]).collect();
    for options in ["", "COUNT 1000", "COUNT 100000", "count 77 type string", "MATCH *"] {
        let keys = scan(&mut c, options);
        assert_eq!(keys.iter().cloned().collect::<BTreeSet<_>>(), all, "SCAN {options}");
        // Nothing has changed meanwhile, so nothing needs to be told twice.
        assert_eq!(keys.len(), all.len(), "SCAN {options}");
    }
    assert_eq!(scan(&mut c, "MATCH oth*"), ["other"]);
    assert_eq!(scan(&mut c, "MATCH key:1999?").len(), 10);
    assert_eq!(scan(&mut c, "MATCH nosuch COUNT 500").len(), 0);
    assert_eq!(scan(&mut c, "TYPE list").len(), 0);
    assert_eq!(scan(&mut c, "MATCH key:1999? COUNT 50 TYPE string").len(), 10);

    // A bigger COUNT takes fewer steps, a step of 10 is not the whole.
    let first = c.run("SCAN 0");
    assert!((1..200).contains(&first.items()[1].items().len()), "about 10 keys in the first step, not {first}");
    script(
        &server,
        &mut c,
        r"
        SCAN                      => -ERR wrong number of arguments for 'scan' command
        SCAN x                    => -ERR invalid cursor
        SCAN 1.5                  => -ERR invalid cursor
        SCAN ' 0'                 => -ERR invalid cursor
        SCAN 99999999999999999999 => -ERR invalid cursor
        SCAN 0 COUNT              => -ERR syntax error
        SCAN 0 COUNT 0            => -ERR syntax error
        SCAN 0 COUNT -5           => -ERR syntax error
        SCAN 0 COUNT x            => -ERR value is not an integer or out of range
        SCAN 0 MATCH              => -ERR syntax error
        SCAN 0 TYPE               => -ERR syntax error
        SCAN 0 NOSUCH             => -ERR syntax error
        SCAN 0 NOSUCH x           => -ERR syntax error
        FLUSHALL                  => +OK
        SCAN 0                    => ['0', []]
        SCAN 0 COUNT 9223372036854775807 => ['0', []]
        ",
    );
    // Any number is a cursor: from wherever, it comes to an end.
    fill(&mut c, "key:", 1000);
    for cursor in ["1", "12345", "18446744073709551615", "9223372036854775808"] {
        let mut next = cursor.to_string();
        eventually("SCAN ends", || {
            next = c.run(&format!("SCAN {next} COUNT 1000")).items()[0].text();
            next == "0"
        });
    }
}

#[test]
fn scan_while_the_table_grows_and_shrinks() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    fill(&mut c, "stay:", 3000);
    let (mut cursor, mut found, mut steps) = ("0".to_string(), BTreeSet::new(), 0);
    loop {
        let reply = c.run(&format!("SCAN {cursor} COUNT 40"));
        found.extend(reply.items()[1].items().iter().map(Reply::text).filter(|key| key.starts_with("stay:")));
        cursor = reply.items()[0].text();
        if cursor == "0" {
            break;
        }
        steps += 1;
        match steps % 10 {
            2 => fill(&mut other, "churn:", 20_000),
            7 => {
                let keys: Vec<String> =
                    ["UNLINK".into()].into_iter().chain((0..20_000).map(|i| format!("churn:{i}"))).collect();
                assert!(other.call(&keys).int() > 0);
            }
            _ => {}
        }
        assert!(steps < 100_000, "SCAN does not end");
    }
    assert!(steps > 10, "the churn took place: {steps} steps");
    assert_eq!(found.len(), 3000, "everything that was there all the time was told");
}

#[test]
fn randomkey_and_dbsize() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        RANDOMKEY     => nil
        DBSIZE        => :0
        SET k v       => +OK
        RANDOMKEY     => 'k'
        DBSIZE        => :1
        RANDOMKEY x   => -ERR wrong number of arguments for 'randomkey' command
        DBSIZE x      => -ERR wrong number of arguments for 'dbsize' command
        SELECT 1      => +OK
        RANDOMKEY     => nil
        DBSIZE        => :0
        SELECT 0      => +OK
        DEL k         => :1
        ",
    );
    fill(&mut c, "k", 10);
    let mut seen: HashMap<String, u32> = HashMap::new();
    for _ in 0..2000 {
        *seen.entry(c.run("RANDOMKEY").text()).or_default() += 1;
    }
    assert_eq!(seen.len(), 10, "every key can be drawn");
    if !server.is_redis() {
        // Uniform: 200 expected each, standard deviation 13; ten of them below 100 happens to nobody. Redis promises less.
        assert!(seen.values().all(|&count| (100..300).contains(&count)), "uniform draws: {seen:?}");
    }
}

#[test]
fn flushdb_flushall_flush() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET k zero        => +OK
        SELECT 1          => +OK
        SET k one         => +OK
        SET l one EX 100  => +OK
        FLUSHDB           => +OK
        DBSIZE            => :0
        SELECT 0          => +OK
        GET k             => 'zero'
        FLUSHDB ASYNC     => +OK
        DBSIZE            => :0
        SET k v           => +OK
        FLUSHDB sync      => +OK
        EXISTS k          => :0
        SET k v           => +OK
        SELECT 5          => +OK
        SET k v           => +OK
        FLUSHALL          => +OK
        DBSIZE            => :0
        SELECT 0          => +OK
        DBSIZE            => :0
        SET k v           => +OK
        FLUSHALL ASYNC    => +OK
        EXISTS k          => :0
        SET k v           => +OK
        FLUSHALL SYNC     => +OK
        EXISTS k          => :0
        SET k v           => +OK
        FLUSHALL NOSUCH   => -ERR syntax error
        FLUSHDB NOSUCH    => -ERR syntax error
        FLUSHALL SYNC ASYNC  => -ERR syntax error
        GET k             => 'v'
        # An alias of FLUSHALL that Redis does not have.
        dolmen> FLUSH     => +OK
        dolmen> EXISTS k  => :0
        dolmen> FLUSH NOSUCH => -ERR syntax error
        ",
    );
}

#[test]
fn flushall_of_many_keys_gives_the_memory_back() {
    let server = Server::start();
    let mut c = server.client();
    let empty = c.info_number("used_memory");
    fill(&mut c, "some:rather:longer:key:", 200_000);
    assert!(c.info_number("used_memory") > empty + 200_000 * 16, "the keys are counted");
    let replies = c.pipeline(&["FLUSHALL", "DBSIZE", "SET k v", "DBSIZE"]);
    let ok = || Reply::Simple("OK".into());
    assert_eq!(replies, [ok(), Reply::Int(0), ok(), Reply::Int(1)]);
    eventually("the memory is free", || c.info_number("used_memory") < empty + 4_000_000);
    c.expect("GET k", "'v'");
}

#[test]
fn keys_of_a_large_table_while_others_work() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    fill(&mut c, "key:", 300_000);
    // Everything that is there from the beginning to the end is told exactly once, whatever comes and goes meanwhile; a pipeline waits.
    c.send(&[request(&["KEYS", "key:*"]), request(&["DBSIZE"])].concat());
    for i in 0..200 {
        other.expect(&format!("SET more:{i} v"), "+OK");
        other.expect(&format!("DEL more:{}", i / 2), ":0..1");
    }
    let reply = c.read();
    assert_eq!(reply.items().len(), 300_000);
    let unique: BTreeSet<&[u8]> = reply.items().iter().map(Reply::bytes).collect();
    assert_eq!(unique.len(), 300_000);
    assert!(c.read().int() >= 300_000);
}
