//! Inputs that broke a real Redis-compatible server, from public bug reports. Each test names its thread (df dragonfly, kv kvrocks,
//! vk valkey, rd redis, ga garnet) and its row in the project's collection; the right answer is what Redis documents and does.

use std::collections::BTreeSet;

use crate::harness::{Reply, Server, eventually, request, script};
use crate::keys::fill;

/// Row 1, df#8243: an empty line between two requests of one write.
#[test]
fn row_1_an_empty_line_between_requests() {
    let server = Server::start();
    let mut c = server.client();
    c.send(&[request(&["SET", "k", "v"]), b"\r\n".to_vec(), request(&["ECHO", "hi"])].concat());
    assert_eq!([c.read(), c.read()], [Reply::Simple("OK".into()), Reply::bulk("hi")]);
    c.expect("PING", "+PONG");
}

/// Row 3, df#5949: a nil for an argument, and a nested array.
#[test]
fn row_3_nil_and_nested_arguments() {
    let server = Server::start();
    for (bytes, expected) in [
        ("*2\r\n$4\r\nECHO\r\n$-1\r\n", "ERR Protocol error: invalid bulk length"),
        ("*2\r\n*1\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", "ERR Protocol error: expected '$', got '*'"),
    ] {
        let mut c = server.client();
        c.send(bytes.as_bytes());
        assert_eq!(c.read(), Reply::Error(expected.into()));
        c.expect_closed();
        server.assert_alive();
    }
}

/// Row 9, rd#9825 and df#17: deadlines that overflow, and one in the past.
#[test]
fn row_9_deadlines_that_overflow() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET f b                        => +OK
        EXPIRE f 18446744073709561     => -ERR invalid expire time in 'expire' command
        EXPIRE f -9223372036854775808  => -ERR invalid expire time in 'expire' command
        TTL f                          => :-1
        EXPIRE f -1                    => :1
        EXISTS f                       => :0
        ",
    );
}

/// Row 11, rd#4048 and df#607: PERSIST after the time is over; SET clears a deadline; KEEPTTL and EX exclude each other.
#[test]
fn row_11_persist_after_the_deadline_and_keepttl() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("SET k v PX 20", "+OK");
    // The clock of the same server says when it is over; TTL and EXISTS of the key itself would delete it.
    c.expect("SET clock v PX 40", "+OK");
    eventually("the deadline passes", || c.run("EXISTS clock") == Reply::Int(0));
    script(
        &server,
        &mut c,
        r"
        PERSIST k                => :0
        SET k v EX 100           => +OK
        SET k w                  => +OK
        TTL k                    => :-1
        SET k z KEEPTTL EX 5     => -ERR syntax error
        GET k                    => 'w'
        ",
    );
}

/// Row 13, kv PR#167: what looks like a number and is none; the one negation that overflows.
#[test]
fn row_13_numbers_that_are_none() {
    let server = Server::start();
    let mut c = server.client();
    for stored in [" 10", "010", "+1", "-0"] {
        assert_eq!(c.call(&["SET", "n", stored]), Reply::Simple("OK".into()));
        c.expect("INCR n", "-ERR value is not an integer or out of range");
        assert_eq!(c.run("GET n"), Reply::bulk(stored));
    }
    script(
        &server,
        &mut c,
        r"
        SET a -1                       => +OK
        DECRBY a -9223372036854775808  => -ERR decrement would overflow
        GET a                          => '-1'
        ",
    );
}

/// Row 17, ga PR#1968: the greatest number, and one more, in each of the three ways.
#[test]
fn row_17_overflow_of_the_widest_field() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        BITFIELD b SET i64 0 9223372036854775807              => [:0]
        BITFIELD b OVERFLOW SAT INCRBY i64 0 1                => [:9223372036854775807]
        BITFIELD b OVERFLOW FAIL INCRBY i64 0 1               => [nil]
        BITFIELD b OVERFLOW WRAP INCRBY i64 0 1               => [:-9223372036854775808]
        BITFIELD b OVERFLOW SAT INCRBY i64 0 -1               => [:-9223372036854775808]
        BITFIELD b OVERFLOW FAIL INCRBY i64 0 -1              => [nil]
        BITFIELD b OVERFLOW WRAP INCRBY i64 0 -1              => [:9223372036854775807]
        ",
    );
}

/// Row 19, rd#4886 and vk PR#3588: 38,000 keys come and go during a SCAN of 2,000.
#[test]
fn row_19_scan_while_keys_come_and_go() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    fill(&mut c, "stay:", 2000);
    let (mut cursor, mut found, mut steps) = ("0".to_string(), BTreeSet::new(), 0);
    loop {
        let reply = c.run(&format!("SCAN {cursor} COUNT 50"));
        found.extend(reply.items()[1].items().iter().map(Reply::text).filter(|key| key.starts_with("stay:")));
        cursor = reply.items()[0].text();
        if cursor == "0" {
            break;
        }
        steps += 1;
        if steps == 5 {
            fill(&mut other, "comes:", 38_000);
        } else if steps == 15 {
            let keys: Vec<String> =
                ["DEL".into()].into_iter().chain((0..38_000).map(|i| format!("comes:{i}"))).collect();
            assert_eq!(other.call(&keys), Reply::Int(38_000));
        }
    }
    assert!(steps > 15, "keys came and went during the SCAN");
    assert_eq!(found.len(), 2000);
}

/// Row 39, df#8274: nothing of a transaction runs of which something could not be queued.
#[test]
fn row_39_what_was_refused_aborts_a_transaction() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("MULTI", "+OK");
    client.expect("NOSUCH", "-ERR unknown command");
    client.expect("SET leak 1", "+QUEUED");
    client.expect("EXEC", "-EXECABORT");
    client.expect("EXISTS leak", ":0");
}

/// Row 41, rd#11784: after HELLO 3 ordinary commands work as before.
#[test]
fn row_41_ordinary_commands_in_resp3() {
    let server = Server::start();
    let mut c = server.client3();
    script(
        &server,
        &mut c,
        r"
        GET k          => null
        SET k v        => +OK
        GET k          => 'v'
        HELLO 2        => ...
        GET none       => nil
        ",
    );
    // Subscriptions are confirmed by pushes and nothing else.
    let mut c = server.client3();
    c.send(&request(&["SUBSCRIBE", "c1", "c2"]));
    assert_eq!(c.read().to_string(), ">['subscribe', 'c1', :1]");
    assert_eq!(c.read().to_string(), ">['subscribe', 'c2', :2]");
    c.expect("GET k", "'v'");
    // RESP2 has no pushes, so there a client that subscribes is good for nothing else.
    let mut c = server.client();
    c.expect("SUBSCRIBE c1", "['subscribe', 'c1', :1]");
    c.expect("GET k", "-ERR Can't execute 'get'");
}

/// Row 43, rd PR#9853 and miniredis#183: ids, channels, and words that are none.
#[test]
fn row_43_what_names_nobody() {
    let server = Server::start();
    let mut c = server.client();
    let _other = server.client();
    script(
        &server,
        &mut c,
        r"
        CLIENT KILL ID 0          => -ERR
        UNSUBSCRIBE unsubscribed  => ['unsubscribe', 'unsubscribed', :0]
        CLIENT NO-EVICT maybe     => -ERR syntax error
        UNSUBSCRIBE               => ['unsubscribe', nil, :0]
        ",
    );
    assert_eq!(c.run("CLIENT LIST").text().lines().count(), 2, "nobody was killed");
}

/// Rows 5 and 7, ga PR#103 and rd#8116: an arity error in a pipeline ends neither it nor the connection; SET over another type.
#[test]
fn rows_5_and_7_hashes() {
    let server = Server::start();
    let mut c = server.client();
    let replies = c.pipeline(&["HSET x y Hello", "HLEN x y", "HGET x y"]);
    assert_eq!(replies[0].to_string(), ":1");
    assert!(replies[1].to_string().starts_with("-ERR wrong number of arguments"), "{}", replies[1]);
    assert_eq!(replies[2].to_string(), "'Hello'");
    c.expect("SET x 2 GET", "-WRONGTYPE");
    c.expect("TYPE x", "+hash");
}

/// Row 21, rd#11687: a time-out of a millisecond ends, a negative one is refused.
#[test]
fn row_21_blpop_for_a_moment() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("BLPOP none 0.001", "nil*");
    c.expect("BLPOP none -1", "-ERR timeout is negative");
}

/// Rows 23 and 25, pikiwidb#2953 and rd PR#12167: a list onto itself, LINSERT beside nothing, ranks out of range.
#[test]
fn rows_23_and_25_lists() {
    let server = Server::start();
    script(
        &server,
        &mut server.client(),
        r"
        RPUSH l x                       => :1
        LMOVE l l LEFT RIGHT            => 'x'
        LRANGE l 0 -1                   => ['x']
        RPUSH m 1 2 3                   => :3
        RPOPLPUSH m m                   => '3'
        LRANGE m 0 -1                   => ['3', '1', '2']
        LINSERT m BEFORE zz q           => :-1
        RPUSH c c                       => :1
        LPOS l zz COUNT 0               => []
        # 7.0.15 takes it for a rank.
        dolmen> LPOS c c RANK -9223372036854775808 => -ERR
        ",
    );
}

/// Row 27, kv#2610 and kv#2072: SRANDMEMBER with and without a count.
#[test]
fn row_27_random_members() {
    let server = Server::start();
    script(
        &server,
        &mut server.client(),
        r"
        SADD s a            => :1
        SRANDMEMBER s       => 'a'
        SRANDMEMBER s -3    => ['a', 'a', 'a']
        SRANDMEMBER none    => nil
        SRANDMEMBER none 3  => []
        ",
    );
}

/// Row 29, jedis-mock PR#844: HSET takes a field's deadline away. (Redis has them since 7.4.)
#[test]
fn row_29_hset_ends_a_fields_deadline() {
    let server = Server::start();
    script(
        &server,
        &mut server.client(),
        r"
        HSET h f v                          => :1
        dolmen> HEXPIRE h 100 FIELDS 1 f    => [:1]
        HSET h f w                          => :0
        dolmen> HTTL h FIELDS 1 f           => [:-1]
        ",
    );
}

/// Rows 31 and 33, rd#265, df#11, kv PR#1609: infinities and NaN; ZRANGESTORE takes the place of whatever was there.
#[test]
fn rows_31_and_33_sorted_sets() {
    let server = Server::start();
    script(
        &server,
        &mut server.client(),
        r"
        ZADD z inf m                     => :1
        ZINCRBY z -inf m                 => -ERR resulting score is not a number (NaN)
        ZADD z nan x                     => -ERR value is not a valid float
        ZADD c -inf n                    => :1
        ZUNIONSTORE o 1 c WEIGHTS 0      => :1
        ZSCORE o n                       => '0'
        SET d v                          => +OK
        ZRANGESTORE d none 0 -1          => :0
        EXISTS d                         => :0
        ZADD d 9 z                       => :1
        ZADD s 3 c 4 e                   => :2
        ZRANGESTORE d s 0 -1             => :2
        ZRANGE d 0 -1                    => ['c', 'e']
        ",
    );
}

/// Row 45, df PR#8190 and rd#224: SORT of nothing deletes what it was to store to; BY, and GET of elements and keys.
#[test]
fn row_45_sort() {
    let server = Server::start();
    script(
        &server,
        &mut server.client(),
        r"
        SET d s                          => +OK
        SORT none STORE d                => :0
        EXISTS d                         => :0
        RPUSH l 2 1 3                    => :3
        MSET w_1 30 w_2 20 w_3 10        => +OK
        SORT l BY w_* GET # GET w_*      => ['3', '10', '2', '20', '1', '30']
        ",
    );
}

/// Row 15: an offset near the end of 64 bits, and nothing at an absent key.
#[test]
fn setrange_of_a_huge_offset() {
    let server = Server::start();
    script(
        &server,
        &mut server.client(),
        r"
        SETRANGE k 9223372036854775757 v  => -ERR string exceeds maximum allowed size
        SETRANGE k 0 ''          => :0
        EXISTS k                 => :0
        ",
    );
}

/// Row 51, rd PR#14784 and valkey-glide PR#2126: RESTORE over a key, of a damaged payload, with odd times.
#[test]
fn row_51_restore_refuses_what_it_must() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("SET k v", "+OK");
    let payload = c.run("DUMP k").bytes().to_vec();
    let mut restore = |key: &str, ttl: &str, payload: &[u8], options: &[&str]| {
        let mut words: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), payload];
        words.extend(options.iter().map(|option| option.as_bytes()));
        c.call(&words).to_string()
    };
    assert!(restore("k", "0", &payload, &[]).starts_with("-BUSYKEY"));
    let mut damaged = payload.clone();
    *damaged.last_mut().expect("a checksum") ^= 0x80;
    assert_eq!(restore("l", "0", &damaged, &[]), "-ERR DUMP payload version or checksum are wrong");
    assert_eq!(restore("l", "-1", &payload, &[]), "-ERR Invalid TTL value, must be >= 0");
    assert_eq!(restore("l", "1", &payload, &["ABSTTL"]), "+OK");
    c.expect("EXISTS l", ":0");
}
