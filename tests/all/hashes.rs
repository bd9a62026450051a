//! Hashes: fields by name, all of a hash, counters, random fields, HSCAN.

use crate::harness::{Reply, Server, script};
use std::collections::BTreeSet;

#[test]
fn fields_by_name() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        HGET h f                   => nil
        HSET h f v                 => :1
        HSET h f w g 1 f x         => :1
        HGET h f                   => 'x'
        HGET h g                   => '1'
        HGET h none                => nil
        HSET h f                   => -ERR wrong number of arguments for 'hset' command
        HSET h f v g               => -ERR wrong number of arguments for 'hset' command
        HMSET h f v g              => -ERR wrong number of arguments for 'hmset' command
        HMSET h a 1 b 2            => +OK
        HMGET h a none b f         => ['1', nil, '2', 'x']
        HMGET none a b             => [nil, nil]
        HLEN h                     => :4
        HLEN none                  => :0
        HEXISTS h a                => :1
        HEXISTS h c                => :0
        HSTRLEN h f                => :1
        HSTRLEN h c                => :0
        HSTRLEN none c             => :0
        HSETNX h a 9               => :0
        HSETNX h c 9               => :1
        HGET h a                   => '1'
        HGET h c                   => '9'
        HSET h '' ''               => :1
        HGET h ''                  => ''
        HSET h '\x00\r\n' '\xff\r\n\x00'  => :1
        HGET h '\x00\r\n'          => '\xff\r\n\x00'
        TYPE h                     => +hash
        HDEL h a none b            => :2
        HDEL h a                   => :0
        HDEL none a                => :0
        HDEL h f g c '' '\x00\r\n' => :5
        EXISTS h                   => :0
        ",
    );
}

#[test]
fn other_types_are_refused() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("SET s v", "+OK");
    c.expect("HSET h a b", ":1");
    // rd#8116
    for line in ["SET x 2", "SET x 2 GET"] {
        assert!(!c.run(line).is_error());
    }
    c.expect("SET h 2 GET", "-WRONGTYPE");
    c.expect("TYPE h", "+hash");
    for line in [
        "HSET s f v",
        "HMSET s f v",
        "HSETNX s f v",
        "HGET s f",
        "HMGET s f",
        "HGETALL s",
        "HKEYS s",
        "HVALS s",
        "HLEN s",
        "HDEL s f",
        "HEXISTS s f",
        "HSTRLEN s f",
        "HINCRBY s f 1",
        "HINCRBYFLOAT s f 1",
        "HRANDFIELD s",
        "HRANDFIELD s 2",
        "HSCAN s 0",
        "GET h",
        "INCR h",
        "APPEND h x",
    ] {
        c.expect(line, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    c.expect("GET s", "'v'");
    c.expect("HGETALL h", "['a', 'b']");
    c.expect("SET h v", "+OK");
    c.expect("GET h", "'v'");
}

#[test]
fn counters() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        HINCRBY h n 5                      => :5
        HINCRBY h n -7                     => :-2
        HGET h n                           => '-2'
        HINCRBY h n x                      => -ERR value is not an integer or out of range
        HINCRBY h n 1.5                    => -ERR value is not an integer or out of range
        HSET h t ' 1' max 9223372036854775807 min -9223372036854775808  => :3
        HINCRBY h t 1                      => -ERR hash value is not an integer
        HINCRBY h max 1                    => -ERR increment or decrement would overflow
        HINCRBY h max -1                   => :9223372036854775806
        HINCRBY h min -1                   => -ERR increment or decrement would overflow
        HINCRBY none f x                   => -ERR value is not an integer or out of range
        EXISTS none                        => :0
        HINCRBYFLOAT h f 10.5              => '10.5'
        HINCRBYFLOAT h f 0.1               => '10.6'
        HINCRBYFLOAT h f 5.0e3             => '5010.60000000000000009'
        HINCRBYFLOAT h n 0.5               => '-1.5'
        HINCRBY h n 1                      => -ERR hash value is not an integer
        HINCRBYFLOAT h t 1                 => -ERR hash value is not a float
        HINCRBYFLOAT h f x                 => -ERR value is not a valid float
        HINCRBYFLOAT h f inf               => -ERR value is NaN or Infinity
        HSET h huge 1e4932                 => :1
        HINCRBYFLOAT h huge 1e4932         => -ERR increment would produce NaN or Infinity
        HINCRBYFLOAT none f inf            => -ERR value is NaN or Infinity
        EXISTS none                        => :0
        HINCRBYFLOAT new f 3.0             => '3'
        ",
    );
}

#[test]
fn whole_hashes() {
    let server = Server::start();
    for mut c in [server.client(), server.client3()] {
        script(
            &server,
            &mut c,
            r"
            DEL h                  => :0..1
            HSET h a 1 b 2 c three => :3
            HKEYS h                => ['a', 'b', 'c']
            HVALS h                => ['1', '2', 'three']
            HKEYS none             => []
            HVALS none             => []
            ",
        );
    }
    server.client().expect("HGETALL h", "['a', '1', 'b', '2', 'c', 'three']");
    server.client().expect("HGETALL none", "[]");
    server.client3().expect("HGETALL h", "{'a': '1', 'b': '2', 'c': 'three'}");
    server.client3().expect("HGETALL none", "{}");
}

/// Fields and values of a hash by number.
fn field(n: usize) -> String {
    format!("field:{n}")
}

fn fill(c: &mut crate::harness::Client, key: &str, fields: usize) {
    for first in (0..fields).step_by(500) {
        let mut arguments = vec!["HSET".to_string(), key.to_string()];
        for n in first..fields.min(first + 500) {
            arguments.extend([field(n), n.to_string()]);
        }
        assert!(!c.call(&arguments).is_error());
    }
}

#[test]
fn hashes_of_every_size_are_whole() {
    let server = Server::start();
    let mut c = server.client();
    for fields in [1, 5, 127, 128, 129, 130, 1000, 20_000] {
        fill(&mut c, "h", fields);
        c.expect("HLEN h", &format!(":{fields}"));
        let all: BTreeSet<(String, String)> =
            c.run("HGETALL h").pairs().iter().map(|(field, value)| (field.text(), value.text())).collect();
        let expected: BTreeSet<_> = (0..fields).map(|n| (field(n), n.to_string())).collect();
        assert!(all == expected, "{fields} fields");
        let keys: BTreeSet<String> = c.run("HKEYS h").items().iter().map(Reply::text).collect();
        assert_eq!(keys.len(), fields);
        let values: BTreeSet<String> = c.run("HVALS h").items().iter().map(Reply::text).collect();
        assert_eq!(values, (0..fields).map(|n| n.to_string()).collect());
        let (mut cursor, mut seen) = ("0".to_string(), BTreeSet::new());
        loop {
            let reply = c.run(&format!("HSCAN h {cursor} COUNT 100"));
            for (field, value) in reply.items()[1].pairs() {
                seen.insert((field.text(), value.text()));
            }
            cursor = reply.items()[0].text();
            if cursor == "0" {
                break;
            }
        }
        assert!(seen == expected, "{fields} fields by HSCAN");
        c.expect(&format!("HGET h {}", field(fields - 1)), &format!("'{}'", fields - 1));
        c.expect(&format!("HINCRBY h {} 1", field(0)), ":1");
        c.expect("DEL h", ":1");
    }
}

#[test]
fn long_values_and_fields() {
    let server = Server::start();
    let mut c = server.client();
    for len in [191, 192, 1000, 2100, 8_200, 16_300, 16_400, 100_000, 1_500_000] {
        let (value, other) = ("v".repeat(len), "w".repeat(len));
        assert_eq!(c.call(&["HSET", "h", "f", &value]).int(), 1, "{len}");
        assert_eq!(c.call(&["HGET", "h", "f"]).text(), value);
        assert_eq!(c.call(&["HSTRLEN", "h", "f"]).int(), i64::try_from(len).unwrap());
        // A reply under way is not touched by what is written behind it.
        let replies = c.pipeline(&["HGET h f", &format!("HSET h f {other}"), "HGET h f", "HSET h f short", "HGET h f"]);
        assert_eq!([0, 2, 4].map(|i| replies[i].text()), [value, other.clone(), "short".to_string()]);
        let name = "n".repeat(len.min(40_000));
        assert_eq!(c.call(&["HSET", "h", &name, &other]).int(), 1);
        assert_eq!(c.call(&["HGET", "h", &name]).text(), other);
        assert_eq!(c.call(&["HGETALL", "h"]).items().len(), 4);
        assert_eq!(c.call(&["HDEL", "h", &name, "f"]).int(), 2);
        c.expect("EXISTS h", ":0");
    }
}

#[test]
fn random_fields() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        HRANDFIELD none                  => nil
        HRANDFIELD none 5                => []
        HRANDFIELD none -5 WITHVALUES    => []
        HSET h f v                       => :1
        HRANDFIELD h                     => 'f'
        HRANDFIELD h 5                   => ['f']
        HRANDFIELD h 5 withvalues        => ['f', 'v']
        HRANDFIELD h -3                  => ['f', 'f', 'f']
        HRANDFIELD h -2 WITHVALUES       => ['f', 'v', 'f', 'v']
        HRANDFIELD h 0                   => []
        HRANDFIELD h x                   => -ERR value is not an integer or out of range
        HRANDFIELD h 1 NOSUCH            => -ERR syntax error
        HRANDFIELD h 1 WITHVALUES x      => -ERR syntax error
        HRANDFIELD h -9223372036854775808             => -ERR value is out of range
        HRANDFIELD h -9223372036854775807 WITHVALUES  => -ERR value is out of range
        ",
    );
    server.client3().expect("HRANDFIELD h -2 WITHVALUES", "[['f', 'v'], ['f', 'v']]");
    fill(&mut c, "big", 3000);
    for count in [1, 10, 500, 600, 999, 1001, 2999, 3000, 5000] {
        let reply = c.run(&format!("HRANDFIELD big {count} WITHVALUES"));
        let drawn: BTreeSet<String> = reply.pairs().iter().map(|(field, _)| field.text()).collect();
        assert_eq!(drawn.len(), count.min(3000), "all are different");
        assert!(reply.pairs().iter().all(|(field, value)| field.text() == format!("field:{}", value.text())));
    }
    for fields in [3, 3000] {
        fill(&mut c, "drawn", fields);
        let reply = c.run("HRANDFIELD drawn -20000");
        assert_eq!(reply.items().len(), 20_000);
        let drawn: BTreeSet<String> = reply.items().iter().map(Reply::text).collect();
        // Chance leaves out e^(-20000/3000) of them: four in 3,000.
        assert!(drawn.len() > fields - fields / 100 - 1 && drawn.len() <= fields, "{} of {fields}", drawn.len());
    }
}

#[test]
fn scanning() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        HSCAN none 0                     => ['0', []]
        HSCAN none 0 NOSUCH              => ['0', []]
        HSCAN none x                     => -ERR invalid cursor
        HSET h a 1 b 2                   => :2
        HSCAN h 0                        => ['0', ['a', '1', 'b', '2']]
        HSCAN h 0 MATCH b*               => ['0', ['b', '2']]
        HSCAN h 0 COUNT 1                => ['0', ['a', '1', 'b', '2']]
        HSCAN h 0 COUNT 0                => -ERR syntax error
        HSCAN h 0 COUNT x                => -ERR value is not an integer or out of range
        HSCAN h 0 MATCH                  => -ERR syntax error
        HSCAN h 0 NOSUCH                 => -ERR syntax error
        dolmen> HSCAN h 0 NOVALUES       => ['0', ['a', 'b']]
        dolmen> HSCAN h 0 novalues COUNT 5 MATCH a   => ['0', ['a']]
        ",
    );
}

/// HGETALL of a large hash to a reader that takes nothing until others have changed it: one state.
#[test]
fn a_slow_reader_sees_one_state() {
    let server = Server::start();
    let (mut c, mut slow) = (server.client(), server.client());
    // More than the output that is queued for a client at most, and its socket.
    let (fields, value) = (12_000, "x".repeat(2_000));
    let names: Vec<String> = (0..fields).map(field).collect();
    for some in names.chunks(100) {
        let pairs = some.iter().flat_map(|name| [name.as_str(), &value]);
        assert!(!c.call(&["HSET", "h"].into_iter().chain(pairs).collect::<Vec<_>>()).is_error());
    }
    slow.send(b"HGETALL h\r\n");
    slow.stream().peek(&mut [0]).expect("the reply has begun");
    for some in names.chunks(100) {
        let (gone, changed) = some.split_at(30);
        let gone = gone.iter().map(String::as_str);
        assert_eq!(c.call(&["HDEL", "h"].into_iter().chain(gone).collect::<Vec<_>>()).int(), 30);
        let pairs = changed.iter().flat_map(|name| [name.as_str(), "y"]);
        assert_eq!(c.call(&["HSET", "h"].into_iter().chain(pairs).collect::<Vec<_>>()).int(), 0);
    }
    let reply = slow.read();
    let seen: BTreeSet<String> = reply.pairs().iter().map(|(name, _)| name.text()).collect();
    assert_eq!(seen, names.into_iter().collect());
    assert!(reply.pairs().iter().all(|(_, seen)| seen.bytes() == value.as_bytes()), "values as they were");
    c.expect("HLEN h", &format!(":{}", fields - fields * 3 / 10));
}
