//! Operations on several sorted sets: ZUNION ZINTER ZDIFF, the forms that store, ZINTERCARD.

use std::collections::BTreeMap;

use crate::control::servers;
use crate::harness::{Reply, Server, script};
use crate::zsets::fill;

#[test]
fn unions_and_intersections() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD a 1 x 2 y 3 z       => :3
        ZADD b 10 y 20 z 30 w    => :3
        ZUNION 2 a b             => ['x', 'y', 'z', 'w']
        ZUNION 2 a b WITHSCORES  => ['x', '1', 'y', '12', 'z', '23', 'w', '30']
        ZUNION 2 a none          => ['x', 'y', 'z']
        ZUNION 1 none            => []
        ZINTER 2 a b             => ['y', 'z']
        ZINTER 2 a b withscores  => ['y', '12', 'z', '23']
        ZINTER 2 a none          => []
        ZINTER 2 a a WITHSCORES  => ['x', '2', 'y', '4', 'z', '6']
        ZUNION 2 a b WEIGHTS 2 0.5 WITHSCORES => ['x', '2', 'y', '9', 'w', '15', 'z', '16']
        ZUNION 2 a b AGGREGATE MIN WITHSCORES => ['x', '1', 'y', '2', 'z', '3', 'w', '30']
        ZUNION 2 a b AGGREGATE max WITHSCORES => ['x', '1', 'y', '10', 'z', '20', 'w', '30']
        ZINTER 2 a b WEIGHTS -1 1 AGGREGATE MIN WITHSCORES => ['z', '-3', 'y', '-2']
        ZINTER 2 a b WEIGHTS 1 1 WEIGHTS 0 1 WITHSCORES => ['y', '10', 'z', '20']
        ZUNIONSTORE d 2 a b      => :4
        ZRANGE d 0 -1 WITHSCORES => ['x', '1', 'y', '12', 'z', '23', 'w', '30']
        ZINTERSTORE d 2 a b AGGREGATE MAX => :2
        ZRANGE d 0 -1 WITHSCORES => ['y', '10', 'z', '20']
        # The destination may be a source.
        ZUNIONSTORE d 2 d d WEIGHTS 1 2 => :2
        ZRANGE d 0 -1 WITHSCORES => ['y', '30', 'z', '60']
        # Nothing removes what was there; another type is overwritten, its deadline goes.
        ZINTERSTORE d 2 a none   => :0
        EXISTS d                 => :0
        SET s v EX 100           => +OK
        ZUNIONSTORE s 1 a        => :3
        TTL s                    => :-1
        ZUNIONSTORE s 1 none     => :0
        EXISTS s                 => :0
        # What is no number: 0 times infinity, infinity less infinity.
        ZADD i inf m             => :1
        ZADD j -inf m            => :1
        ZUNION 1 i WEIGHTS 0 WITHSCORES => ['m', '0']
        ZUNION 2 i j WITHSCORES  => ['m', '0']
        ZINTER 2 i j WITHSCORES  => ['m', '0']
        ",
    );
}

#[test]
fn differences_and_counts() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD a 1 x 2 y 3 z 4 w   => :4
        ZADD b 10 y              => :1
        ZADD c 20 w 5 v          => :2
        ZDIFF 3 a b c            => ['x', 'z']
        ZDIFF 3 a b c WITHSCORES => ['x', '1', 'z', '3']
        ZDIFF 1 a                => ['x', 'y', 'z', 'w']
        ZDIFF 2 a none WITHSCORES => ['x', '1', 'y', '2', 'z', '3', 'w', '4']
        ZDIFF 2 none a           => []
        ZDIFF 2 a a              => []
        ZDIFFSTORE d 2 a b       => :3
        ZRANGE d 0 -1 WITHSCORES => ['x', '1', 'z', '3', 'w', '4']
        ZDIFFSTORE d 2 d d       => :0
        EXISTS d                 => :0
        ZINTERCARD 2 a c         => :1
        ZINTERCARD 1 a           => :4
        ZINTERCARD 2 a a LIMIT 3 => :3
        ZINTERCARD 2 a a LIMIT 0 => :4
        ZINTERCARD 2 a a LIMIT 9 => :4
        ZINTERCARD 2 a none      => :0
        ZINTERCARD 2 a a LIMIT 1 LIMIT 2 => :2
        ",
    );
}

#[test]
fn what_is_refused() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD a 1 x               => :1
        SET string v             => +OK
        ZUNION 0 a               => -ERR at least 1 input key is needed for 'zunion' command
        ZINTERSTORE d 0 a        => -ERR at least 1 input key is needed for 'zinterstore' command
        ZINTERCARD -1 a          => -ERR at least 1 input key is needed for 'zintercard' command
        ZUNION x a               => -ERR value is not an integer or out of range
        ZUNION 2 a               => -ERR syntax error
        ZUNION 9223372036854775807 a => -ERR syntax error
        ZUNION 1 a WEIGHTS       => -ERR syntax error
        ZUNION 2 a a WEIGHTS 1   => -ERR syntax error
        ZUNION 1 a WEIGHTS x     => -ERR weight value is not a float
        ZUNION 1 a WEIGHTS 1 2   => -ERR syntax error
        ZUNION 1 a AGGREGATE x   => -ERR syntax error
        ZUNION 1 a AGGREGATE     => -ERR syntax error
        ZUNION 1 a LIMIT 1       => -ERR syntax error
        ZUNIONSTORE d 1 a WITHSCORES => -ERR syntax error
        ZDIFF 1 a WEIGHTS 1      => -ERR syntax error
        ZDIFF 1 a AGGREGATE SUM  => -ERR syntax error
        ZDIFFSTORE d 1 a WITHSCORES => -ERR syntax error
        ZINTERCARD 1 a WITHSCORES => -ERR syntax error
        ZINTERCARD 1 a LIMIT     => -ERR syntax error
        ZINTERCARD 1 a LIMIT -1  => -ERR LIMIT can't be negative
        ZINTERCARD 1 a LIMIT x   => -ERR LIMIT can't be negative
        ZUNION 1                 => -ERR wrong number of arguments for 'zunion' command
        # Types come before options.
        ZUNION 2 a string NOSUCH => -WRONGTYPE
        ZINTER 2 none string     => -WRONGTYPE
        ZDIFF 2 a string         => -WRONGTYPE
        ZINTERCARD 2 a string    => -WRONGTYPE
        ZUNIONSTORE d 2 a string => -WRONGTYPE
        EXISTS d                 => :0
        ",
    );
}

/// Members of sets have the score 1.
#[test]
fn sets_among_them() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 5 a 6 b 7 1       => :3
        SADD s a c 1             => :3
        SADD ints 1 2 3          => :3
        ZUNION 2 z s WITHSCORES  => ['c', '1', 'a', '6', 'b', '6', '1', '8']
        ZUNION 2 s ints WEIGHTS 2 3 WITHSCORES => ['a', '2', 'c', '2', '2', '3', '3', '3', '1', '5']
        ZUNION 1 ints WITHSCORES => ['1', '1', '2', '1', '3', '1']
        ZINTER 2 s z WITHSCORES  => ['a', '6', '1', '8']
        ZINTER 3 s z ints        => ['1']
        ZINTER 2 s z WEIGHTS 0 1 AGGREGATE MAX WITHSCORES => ['a', '5', '1', '7']
        ZDIFF 2 s z              => ['c']
        ZDIFF 2 z s WITHSCORES   => ['b', '6']
        ZDIFF 2 s ints WITHSCORES => ['a', '1', 'c', '1']
        ZINTERCARD 2 s ints      => :1
        ZUNIONSTORE d 2 s ints   => :5
        TYPE d                   => +zset
        # A set may be overwritten by what is made of it.
        ZINTERSTORE s 2 s z      => :2
        TYPE s                   => +zset
        ZDIFFSTORE ints 1 ints   => :3
        ZRANGE ints 0 -1 WITHSCORES => ['1', '1', '2', '1', '3', '1']
        ",
    );
}

/// Large operands: in slices, against maps of the standard library.
#[test]
fn large_sets_like_a_model() {
    for server in servers(&[]) {
        let mut c = server.client();
        let score = |n: usize| i64::try_from(n % 1_000).unwrap();
        fill(&mut c, "{k}a", 9_000, score);
        fill(&mut c, "b", 6_000, |n| 2 * score(n));
        c.expect("ZREMRANGEBYLEX b - -", ":0");
        let name = |n: usize| format!("m{n}");
        // Union: those up to 6,000 have three times the score.
        c.expect("ZUNIONSTORE d 2 {k}a b", ":9000");
        for n in [0, 1, 5_999, 6_000, 8_999] {
            let expected = if n < 6_000 { 3 * score(n) } else { score(n) };
            c.expect(&format!("ZSCORE d {}", name(n)), &format!("'{expected}'"));
        }
        c.expect("ZINTERSTORE d 2 {k}a b WEIGHTS 2 1", ":6000");
        c.expect("ZSCORE d m5999", &format!("'{}'", 4 * score(5_999)));
        c.expect("ZDIFFSTORE d 2 {k}a b", ":3000");
        c.expect("ZSCORE d m6000", &format!("'{}'", score(6_000)));
        c.expect("ZSCORE d m5999", "nil");
        c.expect("ZINTERCARD 2 b {k}a", ":6000");
        c.expect("ZINTERCARD 2 b {k}a LIMIT 5500", ":5500");
        c.expect("ZDIFF 2 b {k}a", "[]");
        let reply = c.run("ZUNION 2 {k}a b WITHSCORES AGGREGATE MAX");
        let found: BTreeMap<String, String> =
            reply.items().chunks(2).map(|pair| (pair[0].text(), pair[1].text())).collect();
        let expected: BTreeMap<String, String> =
            (0..9_000).map(|n| (name(n), (if n < 6_000 { 2 * score(n) } else { score(n) }).to_string())).collect();
        assert_eq!(found, expected);
        let scores: Vec<i64> = reply.items().chunks(2).map(|pair| pair[1].text().parse().unwrap()).collect();
        assert!(scores.is_sorted());
        // Sets as large: of members, and of integers.
        let add = |c: &mut crate::harness::Client, key: &str, names: &[String]| {
            for piece in names.chunks(2_000) {
                c.call(&[&["SADD".to_string(), key.to_string()], piece].concat());
            }
        };
        add(&mut c, "s", &(3_000..12_000).map(name).collect::<Vec<_>>());
        add(&mut c, "ints", &(0..4_000).map(|n: usize| n.to_string()).collect::<Vec<_>>());
        c.expect("ZUNIONSTORE d 3 {k}a s ints WEIGHTS 1 10 2", ":16000");
        for (member, score) in
            [("m2999", score(2_999)), ("m3000", score(3_000) + 10), ("m11999", 10), ("17", 2), ("3999", 2)]
        {
            c.expect(&format!("ZSCORE d {member}"), &format!("'{score}'"));
        }
        c.expect("ZINTERSTORE d 2 s {k}a", ":6000");
        c.expect("ZDIFFSTORE d 2 s {k}a", ":3000");
        c.expect("ZRANGE d 0 0 WITHSCORES", "['m10000', '1']");
        c.expect("ZINTERCARD 2 s {k}a", ":6000");
        // Within a transaction.
        c.expect("MULTI", "+OK");
        c.expect("ZUNIONSTORE d 2 {k}a b", "+QUEUED");
        c.expect("ZINTER 2 d b WEIGHTS 0 1", "+QUEUED");
        let replies = c.run("EXEC");
        assert_eq!((&replies.items()[0], replies.items()[1].items().len()), (&Reply::Int(9_000), 6_000));
        // An error that comes in a slice.
        c.expect("SET string v", "+OK");
        c.expect("ZUNIONSTORE d 3 {k}a b string", "-WRONGTYPE");
        c.expect("ZCARD d", ":9000");
        c.expect("PING", "+PONG");
    }
}

/// Who changes a source meanwhile waits, so the result is of one instant.
#[test]
fn sources_stay_as_they_are() {
    const SIZE: usize = 20_000;
    for server in servers(&[]) {
        let (mut c, mut other) = (server.client(), server.client());
        fill(&mut c, "a", SIZE, |_| 0);
        for round in 0..5 {
            let score = (round + 1) * 10;
            c.send(&crate::harness::request(&["ZUNIONSTORE", "d", "1", "a"]));
            // All members are changed; of the union all have been, or none.
            let line: Vec<String> =
                ["ZUNIONSTORE", "a", "1", "a", "WEIGHTS", "0"].iter().map(ToString::to_string).collect();
            other.call(&line);
            other.expect(&format!("ZADD a {score} m0 {score} m19999"), ":0");
            assert_eq!(c.read(), Reply::Int(i64::try_from(SIZE).unwrap()));
            let (first, last) = (c.run("ZSCORE d m0"), c.run("ZSCORE d m19999"));
            assert_eq!(first, last);
        }
    }
}
