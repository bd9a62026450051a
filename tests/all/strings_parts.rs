//! Parts of strings (GETRANGE SUBSTR SETRANGE APPEND), fractions (INCRBYFLOAT), LCS.

use crate::harness::{Client, Reply, Server, eventually, script};

#[test]
fn getrange_substr() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET k 'Hello World'      => +OK
        GETRANGE k 0 4           => 'Hello'
        GETRANGE k 0 -1          => 'Hello World'
        GETRANGE k -5 -1         => 'World'
        GETRANGE k -5 -7         => ''
        GETRANGE k 5 3           => ''
        GETRANGE k 11 20         => ''
        GETRANGE k 10 20         => 'd'
        GETRANGE k -100 4        => 'Hello'
        GETRANGE k 0 -100        => 'H'
        GETRANGE k -9223372036854775808 9223372036854775807  => 'Hello World'
        GETRANGE none 0 -1       => ''
        SET empty ''             => +OK
        GETRANGE empty 0 -1      => ''
        SET n 123456             => +OK
        INCR n                   => :123457
        GETRANGE n 1 3           => '234'
        SUBSTR n -3 -1           => '457'
        GETRANGE k a 1           => -ERR value is not an integer or out of range
        GETRANGE k 1 a           => -ERR value is not an integer or out of range
        GETRANGE k 0             => -ERR wrong number of arguments for 'getrange' command
        SUBSTR k 0               => -ERR wrong number of arguments for 'substr' command
        SUBSTR k 0 1 2           => -ERR wrong number of arguments for 'substr' command
        ",
    );
    // A large value: parts that are copied and parts that are sent from where they lie, around the ends of segments.
    let value = pattern(3, 1_300_000);
    assert_eq!(c.call(&[b"SET", b"big".as_slice(), &value]), Reply::Simple("OK".into()));
    for (start, end) in [
        (0, 0),
        (0, 1_299_999),
        (262_143, 262_144),
        (262_144, 262_144 + 16_383),
        (262_143, 262_144 + 16_384),
        (262_000, 900_000),
        (1_299_999, 1_299_999),
        (524_288, 524_288 + 262_143),
    ] {
        let got = c.run(&format!("GETRANGE big {start} {end}"));
        assert!(got.bytes() == &value[start..=end], "{start} to {end}");
    }
    // What was asked for is what is sent, whatever becomes of the value meanwhile.
    let replies = c.pipeline(&["GETRANGE big 100 700000", "SETRANGE big 200 xyz", "DEL big", "GETRANGE big 0 -1"]);
    assert!(replies[0].bytes() == &value[100..=700_000]);
    assert_eq!(replies[1..], [Reply::Int(1_300_000), Reply::Int(1), Reply::bulk("")]);
}

#[test]
fn setrange() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SETRANGE k 0 ''          => :0
        EXISTS k                 => :0
        SETRANGE k 5 hello       => :10
        GET k                    => '\x00\x00\x00\x00\x00hello'
        SETRANGE k 0 world       => :10
        GET k                    => 'worldhello'
        SETRANGE k 8 LONGER      => :14
        GET k                    => 'worldhelLONGER'
        SETRANGE k 3 ''          => :14
        EXPIRE k 100             => :1
        SETRANGE k 1 O           => :14
        TTL k                    => :99..100
        SET n 12345              => +OK
        SETRANGE n 2 x           => :5
        GET n                    => '12x45'
        INCR m                   => :1
        SETRANGE m 3 4           => :4
        GET m                    => '1\x00\x004'
        SETRANGE k -1 x          => -ERR offset is out of range
        SETRANGE k a x           => -ERR value is not an integer or out of range
        SETRANGE k 536870912 x   => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETRANGE k 536870908 xyzzy  => -ERR string exceeds maximum allowed size
        SETRANGE k 9223372036854775807 x  => -ERR string exceeds maximum allowed size
        SETRANGE none 9223372036854775807 x  => -ERR string exceeds maximum allowed size
        EXISTS none              => :0
        SETRANGE k 0             => -ERR wrong number of arguments for 'setrange' command
        GET k                    => 'wOrldhelLONGER'
        ",
    );
    // Around every size at which a representation changes.
    let mut model: Vec<u8> = Vec::new();
    for (i, (offset, bytes)) in [
        (10, 5),
        (16_300, 40),
        (16_400, 10),
        (0, 16_000),
        (262_100, 100),
        (262_140, 9),
        (400_000, 20_000),
        (100, 15_000),
        (1_048_576, 1),
        (600_000, 14_000),
    ]
    .into_iter()
    .enumerate()
    {
        put(&mut c, &mut model, "big", offset, &pattern(i, bytes));
    }
}

/// A part of more than a segment is put in place in slices: the same result, and nobody sees half of it.
#[test]
fn large_parts() {
    let server = Server::start();
    let mut c = server.client();
    let mut model: Vec<u8> = Vec::new();
    for (i, (offset, bytes)) in [
        (0, 400_000),
        (100_000, 300_000),
        (399_999, 2_000_000),
        (5_000_000, 700_000),
        (1, 6_000_000),
        (0, 3_000_000),
        (0, 6_500_000),
        (262_144, 524_288),
    ]
    .into_iter()
    .enumerate()
    {
        put(&mut c, &mut model, "big", offset, &pattern(i, bytes));
    }
    // Appending to what is absent, short, a number, and large.
    for (start, key) in [(None, "absent"), (Some("0123456789"), "short"), (Some("42"), "number")] {
        let mut model = start.map_or(Vec::new(), |text| text.as_bytes().to_vec());
        if let Some(text) = start {
            c.expect(&format!("SET {key} {text} EX 1000"), "+OK");
        }
        for i in 0..4 {
            let piece = pattern(i, 20_000 + i * 400_000);
            model.extend(&piece);
            let length = i64::try_from(model.len()).expect("a length");
            assert_eq!(c.call(&[b"APPEND", key.as_bytes(), &piece]), Reply::Int(length));
            assert!(c.run(&format!("GET {key}")).bytes() == model, "{key} {i}");
        }
        let ttl = c.run(&format!("TTL {key}")).int();
        assert!(if start.is_some() { (900..=1000).contains(&ttl) } else { ttl == -1 }, "{key}: {ttl}");
    }
    // Two clients at once: each part whole.
    let mut other = server.client();
    let (a, b) = (vec![b'a'; 3_000_000], vec![b'b'; 3_000_000]);
    c.expect("SET both -", "+OK");
    for round in 1..=5 {
        other.send(&crate::harness::request(&[b"APPEND", b"both".as_slice(), &b]));
        c.send(&crate::harness::request(&[b"APPEND", b"both".as_slice(), &a]));
        let lengths = [c.read().int(), other.read().int()];
        assert_eq!(lengths.into_iter().max(), Some(1 + round * 6_000_000));
        let all = c.run("GET both");
        let changes =
            all.bytes()[1..].chunks(3_000_000).filter(|part| part.iter().any(|byte| *byte != part[0])).count();
        assert_eq!(changes, 0, "round {round}");
    }
    // Errors: nothing has changed.
    let small = Server::with(&["--proto-max-bulk-len", "2mb"]);
    let mut limited = small.client();
    let megabyte = pattern(1, 1_000_000);
    for expected in [Reply::Int(1_000_000), Reply::Int(2_000_000)] {
        assert_eq!(limited.call(&[b"APPEND", b"k".as_slice(), &megabyte]), expected);
    }
    let refused = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(limited.call(&[b"APPEND", b"k".as_slice(), &megabyte]), Reply::Error(refused.into()));
    assert_eq!(limited.call(&[b"SETRANGE", b"k".as_slice(), b"1500000", &megabyte]), Reply::Error(refused.into()));
    limited.expect("STRLEN k", ":2000000");
}

/// A hole of half a gigabyte costs neither memory nor time, until it is written.
#[test]
fn holes() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let mut c = server.client();
    let before = server.resident_bytes();
    c.expect("SETRANGE k 536870911 x", ":536870912");
    c.expect("STRLEN k", ":536870912");
    c.expect("GETRANGE k 300000000 300000003", "'\\x00\\x00\\x00\\x00'");
    c.expect("GETRANGE k -2 -1", "'\\x00x'");
    c.expect("SETRANGE k 300000001 yz", ":536870912");
    c.expect("GETRANGE k 300000000 300000003", "'\\x00yz\\x00'");
    c.expect("GETRANGE k 300262145 300262146", "'\\x00\\x00'");
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    c.expect("DEL k", ":1");
    eventually("the memory is accounted back", || c.info_number("used_memory") < 8 << 20);
}

/// Puts a part at a place, in the server and in a vector.
fn put(c: &mut Client, model: &mut Vec<u8>, key: &str, offset: usize, part: &[u8]) {
    model.resize(model.len().max(offset + part.len()), 0);
    model[offset..offset + part.len()].copy_from_slice(part);
    let reply = c.call(&[b"SETRANGE", key.as_bytes(), offset.to_string().as_bytes(), part]);
    assert_eq!(reply, Reply::Int(i64::try_from(model.len()).expect("a length")));
    assert!(c.run(&format!("GET {key}")).bytes() == model, "{} bytes at {offset}", part.len());
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| u8::try_from((i * 7 + i / 251 + seed * 31) % 251).expect("below 251")).collect()
}

#[test]
fn incrbyfloat() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET k 10.50              => +OK
        INCRBYFLOAT k 0.1        => '10.6'
        INCRBYFLOAT k -5         => '5.6'
        SET k 5.0e3              => +OK
        INCRBYFLOAT k 2.0e2      => '5200'
        SET k 3.0e3              => +OK
        INCRBYFLOAT k 0          => '3000'
        INCRBYFLOAT new 0.1      => '0.1'
        INCRBYFLOAT new 0.2      => '0.3'
        SET k 0                  => +OK
        INCRBYFLOAT k 1.23       => '1.23'
        INCRBYFLOAT k -1.23      => '0'
        INCRBYFLOAT k 1e-17      => '0.00000000000000001'
        INCRBYFLOAT k 4e-18      => '0.00000000000000001'
        INCR i                   => :1
        INCRBYFLOAT i 1.5        => '2.5'
        INCR i                   => -ERR value is not an integer or out of range
        SET i 9223372036854775807  => +OK
        INCRBYFLOAT i 1          => '9223372036854775808'
        SET k 17179869184        => +OK
        INCRBYFLOAT k 1.5        => '17179869185.5'
        INCRBYFLOAT k 0x10       => '17179869201.5'
        SET k -0                 => +OK
        INCRBYFLOAT k -0         => '0'
        SET k 1e25               => +OK
        EXPIRE k 100             => :1
        INCRBYFLOAT k 1          => '10000000000000000000000000'
        TTL k                    => :99..100
        SET k abc                => +OK
        INCRBYFLOAT k 1          => -ERR value is not a valid float
        SET k ' 11'              => +OK
        INCRBYFLOAT k 1.0        => -ERR value is not a valid float
        SET k '11 '              => +OK
        INCRBYFLOAT k 1.0        => -ERR value is not a valid float
        SET k 1                  => +OK
        INCRBYFLOAT k abc        => -ERR value is not a valid float
        INCRBYFLOAT k ''         => -ERR value is not a valid float
        INCRBYFLOAT k ' 1'       => -ERR value is not a valid float
        INCRBYFLOAT k 1e4933     => -ERR value is not a valid float
        INCRBYFLOAT k nan        => -ERR value is not a valid float
        INCRBYFLOAT k +inf       => -ERR increment would produce NaN or Infinity
        INCRBYFLOAT k -inf       => -ERR increment would produce NaN or Infinity
        SET max 1.1e4932         => +OK
        INCRBYFLOAT max 1.1e4932 => -ERR increment would produce NaN or Infinity
        GET k                    => '1'
        INCRBYFLOAT k            => -ERR wrong number of arguments for 'incrbyfloat' command
        ",
    );
    let long = vec![b'1'; 20_000];
    assert_eq!(c.call(&[b"SET", b"k".as_slice(), &long]), Reply::Simple("OK".into()));
    c.expect("INCRBYFLOAT k 1", "-ERR value is not a valid float");
}

#[test]
fn lcs() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        MSET a ohmytext b mynewtext  => +OK
        LCS a b                  => 'mytext'
        LCS b a                  => 'mytext'
        LCS a b LEN              => :6
        LCS a b IDX              => ['matches', [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], 'len', :6]
        LCS a b IDX MINMATCHLEN 4  => ['matches', [[[4, 7], [5, 8]]], 'len', :6]
        LCS a b idx minmatchlen 4 withmatchlen  => ['matches', [[[4, 7], [5, 8], :4]], 'len', :6]
        LCS a b IDX MINMATCHLEN -1 WITHMATCHLEN  => ['matches', [[[4, 7], [5, 8], :4], [[2, 3], [0, 1], :2]], 'len', :6]
        LCS a b IDX MINMATCHLEN 9223372036854775807  => ['matches', [], 'len', :6]
        LCS a b MINMATCHLEN 4    => 'mytext'
        LCS a b LEN WITHMATCHLEN => :6
        LCS a none               => ''
        LCS none none LEN        => :0
        LCS none a IDX           => ['matches', [], 'len', :0]
        LCS a a                  => 'ohmytext'
        LCS a b LEN IDX          => -ERR If you want both the length and indexes, please just use IDX.
        LCS a b MINMATCHLEN      => -ERR syntax error
        LCS a b MINMATCHLEN x    => -ERR value is not an integer or out of range
        LCS a b NOSUCH           => -ERR syntax error
        LCS a                    => -ERR wrong number of arguments for 'lcs' command
        INCRBY n 12321           => :12321
        SET m 232                => +OK
        LCS n m                  => '232'
        "
        .replace("[[4, 7], [5, 8]", "[[:4, :7], [:5, :8]")
        .replace("[[2, 3], [0, 1]", "[[:2, :3], [:0, :1]")
        .as_str(),
    );
    server.client3().expect("LCS a b IDX MINMATCHLEN 9", "{'matches': [], 'len': :6}");

    // Large ones: in slices, and refused where Redis would need too much memory.
    let text = |seed: u64, len: usize| -> Vec<u8> {
        let mut random = crate::hostile::Random(seed);
        (0..len).map(|_| b'a' + u8::try_from(random.below(4)).expect("a letter")).collect()
    };
    let (a, b) = (text(1, 40_000), text(2, 3000));
    for (key, value) in [("a", &a), ("b", &b)] {
        assert_eq!(c.call(&[b"SET", key.as_bytes(), value]), Reply::Simple("OK".into()));
    }
    let common = c.run("LCS a b");
    let len = c.run("LCS a b LEN").int();
    assert_eq!(i64::try_from(common.bytes().len()), Ok(len));
    assert_eq!(c.run("LCS b a LEN").int(), len);
    let is_subsequence = |text: &[u8]| {
        let mut rest = text.iter();
        common.bytes().iter().all(|byte| rest.any(|other| other == byte))
    };
    assert!(is_subsequence(&a) && is_subsequence(&b) && len > 2500);
    // The matches say the same.
    let reply = c.run("LCS a b IDX WITHMATCHLEN");
    let mut spelled = Vec::new();
    for found in reply.items()[1].items().iter().rev() {
        let at = |i: usize| {
            let range: Vec<_> =
                found.items()[i].items().iter().map(|n| usize::try_from(n.int()).expect("a place")).collect();
            range[0]..range[1] + 1
        };
        assert_eq!(a[at(0)], b[at(1)]);
        assert_eq!(usize::try_from(found.items()[2].int()), Ok(at(0).len()));
        spelled.extend_from_slice(&a[at(0)]);
    }
    assert_eq!(spelled, common.bytes());

    let small = Server::with(&["--proto-max-bulk-len", "1mb"]);
    let mut limited = small.client();
    assert_eq!(limited.call(&[b"SET", b"a".as_slice(), &a[..2000]]), Reply::Simple("OK".into()));
    limited.expect("LCS a a LEN", "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    assert_eq!(limited.call(&[b"SET", b"b".as_slice(), &a[..120]]), Reply::Simple("OK".into()));
    limited.expect("LCS a b LEN", ":120");
}
