//! DUMP and RESTORE, also between this server and `redis-server`.

use crate::harness::{Reply, Server, eventually, script, skip};

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

fn error(reply: &Reply) -> &str {
    match reply {
        Reply::Error(text) => text,
        other => panic!("expected an error, got {other}"),
    }
}

const BAD_PAYLOAD: &str = "ERR DUMP payload version or checksum are wrong";

/// As redis-server 7.0.15 dumped `v`, `12345`, fifty times `a`.
const PAYLOADS: [(&[u8], &[u8]); 3] = [
    (b"v", b"\x00\x01v\x0a\x00\x91\x08\xce\xb2\x19\x38\x8a\xce"),
    (b"12345", b"\x00\xc1\x39\x30\x0a\x00\x9d\x94\xea\x27\x93\xfc\x08\xb9"),
    (
        b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        b"\x00\xc3\x09\x32\x01aa\xe0\x25\x00\x01aa\x0a\x00\x09\xac\x48\xb9\xab\x15\xfb\xc9",
    ),
];

#[test]
fn payloads_of_redis() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("DUMP nosuch", "nil");
    server.client3().expect("DUMP nosuch", "null");
    for (value, payload) in PAYLOADS {
        assert_eq!(c.call(&[&b"RESTORE"[..], b"k", b"0", payload, b"REPLACE"]), ok());
        assert_eq!(c.run("GET k"), Reply::bulk(value));
        assert_eq!(c.run("TTL k"), Reply::Int(-1));
    }
    for (value, payload) in &PAYLOADS[..2] {
        assert_eq!(c.call(&[&b"SET"[..], b"k", value]), ok());
        assert_eq!(c.run("DUMP k"), Reply::bulk(payload));
    }
    c.expect("SET n 12344", "+OK");
    c.expect("INCR n", ":12345");
    assert_eq!(c.run("DUMP n"), Reply::bulk(PAYLOADS[1].1));
}

#[test]
fn restore_options_and_errors() {
    let server = Server::start();
    let mut c = server.client();
    let payload = PAYLOADS[0].1;
    let mut restore = |arguments: &[&str]| {
        let mut words: Vec<&[u8]> = vec![b"RESTORE", b"k"];
        words.extend(arguments.iter().map(|word| if *word == "P" { payload } else { word.as_bytes() }));
        c.call(&words)
    };
    assert_eq!(restore(&["0", "P"]), ok());
    // The order of checks: options, the key, the time, the payload.
    for (arguments, want) in [
        (&["x", "P"][..], "BUSYKEY Target key name already exists."),
        (&["-1", "x"], "BUSYKEY Target key name already exists."),
        (&["x", "P", "REPLACE"], "ERR value is not an integer or out of range"),
        (&["-1", "P", "REPLACE"], "ERR Invalid TTL value, must be >= 0"),
        (&["-1", "x", "REPLACE"], "ERR Invalid TTL value, must be >= 0"),
        (&["0", "x", "REPLACE"], BAD_PAYLOAD),
        (&["0", "", "REPLACE"], BAD_PAYLOAD),
        (&["0", "P", "NOSUCH"], "ERR syntax error"),
        (&["0", "P", "REPLACE", "IDLETIME"], "ERR syntax error"),
        (&["0", "P", "REPLACE", "FREQ"], "ERR syntax error"),
        (&["0", "P", "IDLETIME", "x"], "ERR value is not an integer or out of range"),
        (&["0", "P", "IDLETIME", "-1"], "ERR Invalid IDLETIME value, must be >= 0"),
        (&["0", "P", "FREQ", "256"], "ERR Invalid FREQ value, must be >= 0 and <= 255"),
        (&["0", "P", "FREQ", "-1"], "ERR Invalid FREQ value, must be >= 0 and <= 255"),
        (&["0", "P", "FREQ", "1", "IDLETIME", "1"], "ERR syntax error"),
        (&["0", "P", "IDLETIME", "1", "FREQ", "1"], "ERR syntax error"),
        (&["0"], "ERR wrong number of arguments for 'restore' command"),
    ] {
        assert_eq!(error(&restore(arguments)), want, "{arguments:?}");
    }
    assert_eq!(restore(&["100000", "P", "replace"]), ok());
    assert!((90_000..=100_000).contains(&server.client().run("PTTL k").int()));
    assert_eq!(restore(&["4102444800000", "P", "REPLACE", "absttl"]), ok());
    assert_eq!(server.client().run("PEXPIRETIME k"), Reply::Int(4_102_444_800_000));
    assert_eq!(restore(&["0", "P", "REPLACE", "IDLETIME", "1000"]), ok());
    assert!((1000..=1010).contains(&server.client().run("OBJECT IDLETIME k").int()));
    assert_eq!(restore(&["0", "P", "REPLACE", "FREQ", "255", "FREQ", "0"]), ok());
    assert_eq!(server.client().run("TTL k"), Reply::Int(-1));
    // A time that is over: what was there goes, nothing comes.
    assert_eq!(restore(&["1", "P", "REPLACE", "ABSTTL"]), ok());
    assert_eq!(server.client().run("EXISTS k"), Reply::Int(0));
    assert_eq!(restore(&["1", "P", "ABSTTL"]), ok());
    assert_eq!(server.client().run("DBSIZE"), Reply::Int(0));
    // Milliseconds to live.
    assert_eq!(restore(&["30", "P"]), ok());
    eventually("it expires", || server.client().run("DBSIZE") == Reply::Int(0));
}

#[test]
fn damaged_payloads() {
    let server = Server::start();
    let mut c = server.client();
    for (_, payload) in PAYLOADS {
        for at in 0..payload.len() {
            let mut damaged = payload.to_vec();
            damaged[at] ^= 1;
            let reply = c.call(&[&b"RESTORE"[..], b"k", b"0", &damaged]);
            assert_eq!(error(&reply), BAD_PAYLOAD, "byte {at}");
            let reply = c.call(&[&b"RESTORE"[..], b"k", b"0", &payload[..at]]);
            assert_eq!(error(&reply), BAD_PAYLOAD, "cut at {at}");
        }
    }
    // With a checksum that is right: nothing in it, a type that does not exist, an integer without its bytes.
    for payload in [&b"\x0a\x00\xda\x45\xd8\xe1\x6b\x2c\x5e\x9f"[..], b"\xfe\x0a\x00\x01\x02\x03\x04\x05\x06\x07\x08"] {
        let reply = c.call(&[&b"RESTORE"[..], b"k", b"0", payload]);
        assert!(reply.is_error());
    }
    c.expect("DBSIZE", ":0");
}

fn text(seed: u32, len: usize) -> Vec<u8> {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x
    };
    (0..len).map(|_| next().to_le_bytes()[0]).collect()
}

/// What this server dumps Redis restores, and the reverse, whatever the length, packed or not.
#[test]
fn to_redis_and_back() {
    let Some(oracle) = Server::oracle() else { return skip("to_redis_and_back", "there is no redis-server") };
    let server = Server::start();
    let (mut ours, mut theirs) = (server.client(), oracle.client());
    let mut values: Vec<Vec<u8>> = [
        "",
        "0",
        "-1",
        "127",
        "128",
        "-129",
        "32767",
        "32768",
        "2147483647",
        "2147483648",
        "-2147483649",
        "1e5",
        "007",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    for len in [1, 20, 21, 63, 64, 300, 16_383, 16_384, 70_000, 300_000, 3_000_000] {
        values.push(text(len, len as usize));
        values.push(vec![b'a'; len as usize]);
        values.push(b"some words that come again, some words ".iter().copied().cycle().take(len as usize).collect());
        values.push(text(len, len as usize).iter().map(|byte| byte & 3).collect());
    }
    for value in values {
        assert_eq!(theirs.call(&[&b"SET"[..], b"k", &value]), ok());
        let payload = theirs.run("DUMP k");
        assert_eq!(
            ours.call(&[&b"RESTORE"[..], b"k", b"0", payload.bytes(), b"REPLACE"]),
            ok(),
            "{} bytes",
            value.len()
        );
        assert!(ours.run("GET k") == Reply::Bulk(value.clone()), "{} bytes", value.len());
        let payload = ours.run("DUMP k");
        assert_eq!(
            theirs.call(&[&b"RESTORE"[..], b"l", b"0", payload.bytes(), b"REPLACE"]),
            ok(),
            "{} bytes",
            value.len()
        );
        assert!(theirs.run("GET l") == Reply::Bulk(value.clone()), "{} bytes", value.len());
        assert_eq!(ours.run("OBJECT ENCODING k"), theirs.run("OBJECT ENCODING l"), "{} bytes", value.len());
        let mut damaged = payload.bytes().to_vec();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 64;
        assert_eq!(error(&ours.call(&[&b"RESTORE"[..], b"d", b"0", &damaged])), BAD_PAYLOAD);
    }
    ours.expect("EXISTS d", ":0");
}

/// A large payload is worked on in slices; meanwhile another client writes the key.
#[test]
fn a_large_restore_while_others_work() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    let value = text(7, 30 << 20);
    assert_eq!(c.call(&[&b"SET"[..], b"k", &value]), ok());
    let payload = c.run("DUMP k").bytes().to_vec();
    for round in 0..3 {
        let key = format!("k{round}");
        c.send(&crate::harness::request(&[&b"RESTORE"[..], key.as_bytes(), b"0", &payload]));
        let set = other.run(&format!("SET {key} v NX"));
        let reply = c.read();
        if set == ok() {
            assert_eq!(error(&reply), "BUSYKEY Target key name already exists.");
            other.expect(&format!("GET {key}"), "'v'");
        } else {
            assert_eq!(reply, ok());
            assert!(other.run(&format!("GET {key}")) == Reply::Bulk(value.clone()));
        }
    }
    script(&server, &mut c, "FLUSHALL SYNC => +OK");
    if !server.is_redis() {
        eventually("the memory is free", || c.info_number("used_memory") < 20_000_000);
    }
}
