//! GETEX, and what is done under a condition: MSETNX, MSETEX, SET with IFEQ and its kin, DELIFEQ, DELEX, DIGEST. The latter are Redis 8.4's
//! and Valkey 9's, so `redis-server` 7.0 is no oracle for them.

use crate::harness::{Reply, Server, eventually, request, script};

#[test]
fn getex() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        GETEX none               => nil
        GETEX none EX 0          => nil
        SET k v                  => +OK
        GETEX k                  => 'v'
        TTL k                    => :-1
        GETEX k EX 100           => 'v'
        TTL k                    => :99..100
        GETEX k                  => 'v'
        TTL k                    => :99..100
        GETEX k px 200000        => 'v'
        TTL k                    => :199..200
        GETEX k PERSIST          => 'v'
        TTL k                    => :-1
        GETEX k PERSIST          => 'v'
        GETEX k EXAT 33177117420 => 'v'
        EXPIRETIME k             => :33177117420
        GETEX k PXAT 33177117420123 => 'v'
        PEXPIRETIME k            => :33177117420123
        GETEX k EX 1 EX 100      => 'v'
        TTL k                    => :99..100
        GETEX k EX               => -ERR syntax error
        GETEX k EX 1 PX 1        => -ERR syntax error
        GETEX k EX 1 PERSIST     => -ERR syntax error
        GETEX k PERSIST EX 1     => -ERR syntax error
        GETEX k KEEPTTL          => -ERR syntax error
        GETEX k NX               => -ERR syntax error
        GETEX k GET              => -ERR syntax error
        GETEX k EX 0             => -ERR invalid expire time in 'getex' command
        GETEX k PX -1            => -ERR invalid expire time in 'getex' command
        GETEX k EX 9223372036854775807 => -ERR invalid expire time in 'getex' command
        GETEX k EX x             => -ERR value is not an integer or out of range
        GETEX                    => -ERR wrong number of arguments for 'getex' command
        TTL k                    => :99..100
        # A time that has passed already deletes the key.
        GETEX k EXAT 1           => 'v'
        EXISTS k                 => :0
        INCR n                   => :1
        GETEX n PXAT 1           => '1'
        GET n                    => nil
        ",
    );
    server.client3().expect("GETEX none", "null");
}

#[test]
fn msetnx() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        MSETNX a 1 b 2           => :1
        MGET a b                 => ['1', '2']
        MSETNX c 3 a 4           => :0
        EXISTS c                 => :0
        GET a                    => '1'
        MSETNX d 1 d 2           => :1
        GET d                    => '2'
        MSETNX a                 => -ERR wrong number of arguments for 'msetnx' command
        MSETNX e 1 f             => -ERR wrong number of arguments for 'msetnx' command
        EXISTS e                 => :0
        ",
    );
    // Of very many keys, in slices.
    let many = |prefix: &str| -> Vec<Vec<u8>> {
        let pairs = (0..20_000).flat_map(|i| [format!("{prefix}:{i}").into_bytes(), i.to_string().into_bytes()]);
        std::iter::once(b"MSETNX".to_vec()).chain(pairs).collect()
    };
    assert_eq!(c.call(&many("x")), Reply::Int(1));
    c.expect("MGET x:0 x:19999", "['0', '19999']");
    assert_eq!(c.call(&many("x")), Reply::Int(0));
    c.expect("SET y:19999 there", "+OK");
    assert_eq!(c.call(&many("y")), Reply::Int(0));
    c.expect("MGET y:0 y:19998 y:19999", "[nil, nil, 'there']");
    c.expect("DBSIZE", ":20004");
}

#[test]
fn msetex() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        MSETEX 2 a 1 b 2         => :1
        MGET a b                 => ['1', '2']
        TTL a                    => :-1
        MSETEX 2 a 3 b 4 EX 100  => :1
        TTL a                    => :99..100
        TTL b                    => :99..100
        MSETEX 1 a 5 KEEPTTL     => :1
        GET a                    => '5'
        TTL a                    => :99..100
        MSETEX 1 a 6             => :1
        TTL a                    => :-1
        MSETEX 2 a 7 c 8 NX      => :0
        EXISTS c                 => :0
        MSETEX 2 a 7 c 8 xx ex 9 => :0
        GET a                    => '6'
        MSETEX 2 c 1 d 2 nx px 100000  => :1
        PTTL d                   => :90000..100000
        MSETEX 2 c 3 d 4 PXAT 33177117420123 XX  => :1
        PEXPIRETIME c            => :33177117420123
        MSETEX 1 e v EXAT 33177117420  => :1
        EXPIRETIME e             => :33177117420
        # The words after the pairs are options, whatever they look like before.
        MSETEX 2 NX EX XX PX     => :1
        MGET NX XX               => ['EX', 'PX']
        MSETEX 2 a 1 b           => -ERR wrong number of key-value pairs
        MSETEX 2147483647 a 1    => -ERR wrong number of key-value pairs
        MSETEX 2147483648 a 1    => -ERR invalid numkeys value
        MSETEX 0 a 1             => -ERR invalid numkeys value
        MSETEX -1 a 1            => -ERR invalid numkeys value
        MSETEX x a 1             => -ERR invalid numkeys value
        MSETEX 1 a 1 NX XX       => -ERR syntax error
        MSETEX 1 a 1 EX 1 PX 1   => -ERR syntax error
        MSETEX 1 a 1 EX 1 KEEPTTL => -ERR syntax error
        MSETEX 1 a 1 EX          => -ERR syntax error
        MSETEX 1 a 1 GET         => -ERR syntax error
        MSETEX 1 a 1 PERSIST     => -ERR syntax error
        MSETEX 1 a 1 IFEQ 1      => -ERR syntax error
        MSETEX 1 a 1 b 2         => -ERR syntax error
        MSETEX 1 a 1 EX 0        => -ERR invalid expire time in 'msetex' command
        MSETEX 1 a 1 EX x        => -ERR value is not an integer or out of range
        MSETEX 1 a               => -ERR wrong number of arguments for 'msetex' command
        GET a                    => '6'
        COMMAND GETKEYS MSETEX 2 k1 v1 k2 v2 KEEPTTL  => ['k1', 'k2']
        ",
    );
    let pairs = (0..20_000).flat_map(|i| [format!("x:{i}").into_bytes(), i.to_string().into_bytes()]);
    let mut many: Vec<Vec<u8>> = [b"MSETEX".to_vec(), b"20000".to_vec()].into_iter().chain(pairs).collect();
    many.extend([b"XX".to_vec(), b"EX".to_vec(), b"1000".to_vec()]);
    assert_eq!(c.call(&many), Reply::Int(0));
    let place = many.len() - 3;
    many[place] = b"NX".to_vec();
    assert_eq!(c.call(&many), Reply::Int(1));
    assert_eq!(c.call(&many), Reply::Int(0));
    c.expect("MGET x:0 x:19999", "['0', '19999']");
    c.expect("TTL x:19999", ":990..1000");
}

#[test]
fn set_if() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET k 1 IFEQ x           => nil
        EXISTS k                 => :0
        SET k hello IFNE x       => +OK
        SET k v IFEQ hell        => nil
        SET k v IFEQ hello       => +OK
        GET k                    => 'v'
        SET k w IFNE v           => nil
        SET k w ifne x           => +OK
        GET k                    => 'w'
        # With GET the reply is what was there, whether it was replaced or not.
        SET k x IFEQ nope GET    => 'w'
        SET k x GET IFEQ w       => 'w'
        GET k                    => 'x'
        SET none x IFEQ y GET    => nil
        EXISTS none              => :0
        SET none x IFNE y GET    => nil
        GET none                 => 'x'
        SET k y IFEQ x EX 100    => +OK
        TTL k                    => :99..100
        SET k z IFEQ nope EX 5   => nil
        TTL k                    => :99..100
        SET k z IFEQ y KEEPTTL   => +OK
        TTL k                    => :99..100
        SET k z IFEQ z           => +OK
        TTL k                    => :-1
        # The last one counts; different ones exclude each other.
        SET k a IFEQ b IFEQ z    => +OK
        SET k a IFEQ a NX        => -ERR syntax error
        SET k a NX IFEQ a        => -ERR syntax error
        SET k a IFEQ a XX        => -ERR syntax error
        SET k a IFEQ a IFNE a    => -ERR syntax error
        SET k a IFEQ a IFDEQ a   => -ERR syntax error
        SET k a IFEQ             => -ERR syntax error
        SET k a IFDNE            => -ERR syntax error
        INCR n                   => :1
        SET n 2 IFEQ 1           => +OK
        SET n 3 IFEQ 02          => nil

        SET k hello              => +OK
        DIGEST k                 => '9555e8555c62dcfd'
        DIGEST none-at-all       => nil
        SET k x IFDEQ 0000000000000000  => nil
        SET k x IFDEQ 9555e8555c62dcfd  => +OK
        SET k hello              => +OK
        SET k x IFDNE 9555E8555C62DCFD  => nil
        SET k x IFDEQ 9555E8555C62DCFD GET => 'hello'
        SET k hello IFDNE 9555e8555c62dcfd => +OK
        SET k x IFDEQ 9555e8555c62dcf  => -ERR must be exactly 16 hexadecimal characters
        SET k x IFDNE ''         => -ERR must be exactly 16 hexadecimal characters
        SET gone x IFDEQ 9555e8555c62dcfd => nil
        EXISTS gone              => :0
        SET gone x IFDNE 9555e8555c62dcfd => +OK
        DIGEST                   => -ERR wrong number of arguments for 'digest' command
        SET empty ''             => +OK
        DIGEST empty             => '2d06800538d394c2'
        SET n 123                => +OK
        DIGEST n                 => '404a763b3f4c8c9a'
        SET v8 v8                => +OK
        DIGEST v8                => '0cc76dbb41381419'
        ",
    );
    server.client3().expect("SET k x IFEQ nope", "null");
}

#[test]
fn delifeq_delex() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        DELIFEQ k v              => :0
        SET k v                  => +OK
        DELIFEQ k w              => :0
        DELIFEQ k v              => :1
        EXISTS k                 => :0
        DELIFEQ k                => -ERR wrong number of arguments for 'delifeq' command
        INCR n                   => :1
        DELIFEQ n 1              => :1

        DELEX k                  => :0
        SET k hello              => +OK
        DELEX k                  => :1
        DELEX k IFEQ x           => :0
        SET k hello              => +OK
        DELEX k IFEQ x           => :0
        DELEX k IFNE hello       => :0
        DELEX k IFDEQ 0000000000000000  => :0
        DELEX k IFDNE 9555E8555c62dcfd  => :0
        DELEX k IFDEQ 9555e8555c62dcfd0 => -ERR must be exactly 16 hexadecimal characters
        DELEX k NOSUCH hello     => -ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
        DELEX k IFEQ             => -ERR wrong number of arguments for 'delex' command
        DELEX k IFEQ hello x     => -ERR wrong number of arguments for 'delex' command
        DELEX none IFEQ          => -ERR wrong number of arguments for 'delex' command
        GET k                    => 'hello'
        DELEX k ifeq hello       => :1
        SET k hello              => +OK
        DELEX k IFNE x           => :1
        SET k hello              => +OK
        DELEX k IFDEQ 9555E8555C62DCFD  => :1
        SET k hello              => +OK
        DELEX k IFDNE zzzzzzzzzzzzzzzz  => :1
        EXISTS k                 => :0
        ",
    );
}

/// Values whose comparison takes slices: the same answers, and nothing comes between comparison and change.
#[test]
fn long_values() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let mut c = server.client();
    let long = |last: u8| -> Vec<u8> { (0..3_000_000u32).map(|i| (i % 249) as u8).chain([last]).collect() };
    let (one, two) = (long(1), long(2));
    let set = |c: &mut crate::harness::Client, value: &[u8]| {
        assert_eq!(c.call(&[b"SET", b"k".as_slice(), value]), Reply::Simple("OK".into()));
    };
    set(&mut c, &two);
    let digest_two = c.run("DIGEST k").text();
    set(&mut c, &one);
    let digest_one = c.run("DIGEST k").text();
    assert_ne!(digest_one, digest_two);
    assert_eq!(c.call(&[b"DELIFEQ", b"k".as_slice(), &two]), Reply::Int(0));
    assert_eq!(c.call(&[b"DELIFEQ", b"k".as_slice(), &one[1..]]), Reply::Int(0));
    assert_eq!(c.call(&[b"DELIFEQ", b"none".as_slice(), &one]), Reply::Int(0));
    assert_eq!(c.call(&[b"DELEX", b"k".as_slice(), b"IFNE", &one]), Reply::Int(0));
    assert_eq!(
        c.call(&[b"DELEX", b"k".as_slice(), b"IFDEQ", &one]),
        Reply::Error("ERR must be exactly 16 hexadecimal characters".into())
    );
    assert_eq!(c.call(&[b"SET", b"k".as_slice(), b"x", b"IFEQ", &two]), Reply::NilBulk);
    c.expect(&format!("SET k x IFDEQ {digest_two}"), "nil");
    c.expect(&format!("DELEX k IFDNE {digest_one}"), ":0");
    assert!(c.run("GET k").bytes() == one);
    // One long value for another, by the digest.
    let digest = digest_one.as_bytes();
    assert_eq!(c.call(&[b"SET", b"k".as_slice(), &two, b"IFDEQ", digest, b"EX", b"1000"]), Reply::Simple("OK".into()));
    assert_eq!(c.call(&[b"SET", b"k".as_slice(), &one, b"IFDEQ", digest]), Reply::NilBulk);
    let old = c.call(&[b"SET", b"k".as_slice(), b"short", b"IFDEQ", digest, b"GET"]);
    assert!(old.bytes() == two);
    c.expect("TTL k", ":990..1000");
    let old = c.call(&[b"SET", b"k".as_slice(), b"short", b"IFDNE", digest, b"GET"]);
    assert!(old.bytes() == two);
    c.expect("GET k", "'short'");
    assert_eq!(c.call(&[b"SET", b"k".as_slice(), &one, b"IFEQ", b"short"]), Reply::Simple("OK".into()));
    assert_eq!(c.call(&[b"DELEX", b"k".as_slice(), b"IFEQ", &one]), Reply::Int(1));
    c.expect("DBSIZE", ":0");

    // Many clients try to take the same step: one of them does.
    for round in 0..5 {
        set(&mut c, &one);
        let mut others: Vec<_> = (0..4).map(|_| server.client()).collect();
        let attempt = request(&[b"DELEX", b"k".as_slice(), b"IFDEQ", digest]);
        others.iter_mut().for_each(|other| other.send(&attempt));
        let taken: i64 = others.iter_mut().map(|other| other.read().int()).sum();
        assert_eq!(taken, 1, "round {round}");
    }
    // A client that leaves in the middle leaves nothing behind.
    set(&mut c, &one);
    for _ in 0..10 {
        let mut leaving = server.client();
        leaving.send(&request(&[b"SET", b"k".as_slice(), &two, b"IFDEQ", digest_two.as_bytes()]));
    }
    c.expect("DBSIZE", ":1");
    eventually("what they sent is freed", || c.info_number("used_memory") < 8 << 20);
}
