//! Deadlines of the fields of hashes: HEXPIRE HPEXPIRE HEXPIREAT HPEXPIREAT HTTL HPTTL HEXPIRETIME HPEXPIRETIME HPERSIST HGETEX HSETEX HGETDEL.
//! redis-server 7.0 has none of these; the expectations are those of the documentation of Redis 8.

use crate::harness::{Reply, Server, eventually, script};
use std::time::{SystemTime, UNIX_EPOCH};

/// A server that has the commands.
fn server() -> Option<Server> {
    let server = Server::start();
    (!server.is_redis()).then_some(server)
}

#[test]
fn deadlines_are_set_told_and_taken_away() {
    let Some(server) = server() else { return };
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        HSET h a 1 b 2 c 3                                    => :3
        HTTL h FIELDS 4 a b c none                            => [:-1, :-1, :-1, :-2]
        HPTTL h FIELDS 1 a                                    => [:-1]
        HEXPIRETIME h FIELDS 1 a                              => [:-1]
        HPEXPIRETIME h FIELDS 1 none                          => [:-2]
        HTTL none FIELDS 2 a b                                => [:-2, :-2]
        HPERSIST none FIELDS 2 a b                            => [:-2, :-2]
        HEXPIRE none 10 FIELDS 2 a b                          => [:-2, :-2]
        EXISTS none                                           => :0
        HEXPIRE h 100 FIELDS 3 a none a                       => [:1, :-2, :1]
        HTTL h FIELDS 2 a b                                   => [:99..100, :-1]
        HPTTL h FIELDS 1 a                                    => [:90000..100000]
        HPEXPIRE h 100000 fields 1 b                          => [:1]
        HTTL h FIELDS 1 b                                     => [:99..100]
        HEXPIREAT h 70368744177 FIELDS 1 a                    => [:1]
        HEXPIRETIME h FIELDS 1 a                              => [:70368744177]
        HPEXPIRETIME h FIELDS 1 a                             => [:70368744177000]
        HPEXPIREAT h 70368744177663 FIELDS 1 a                => [:1]
        HPEXPIRETIME h FIELDS 1 a                             => [:70368744177663]
        # Rounded upwards.
        HEXPIRETIME h FIELDS 1 a                              => [:70368744178]
        HPERSIST h FIELDS 3 a c none                          => [:1, :-1, :-2]
        HTTL h FIELDS 1 a                                     => [:-1]
        OBJECT ENCODING h                                     => 'listpackex'
        # The key has a deadline of its own.
        TTL h                                                 => :-1
        EXPIRE h 50                                           => :1
        HTTL h FIELDS 1 b                                     => [:98..100]
        HLEN h                                                => :3
        ",
    );
}

#[test]
fn conditions() {
    let Some(server) = server() else { return };
    let mut c = server.client();
    for (command, unit) in [("HEXPIRE", 1_i64), ("HPEXPIRE", 1000)] {
        script(
            &server,
            &mut c,
            &r"
            DEL h                                   => :0..1
            HSET h f v                              => :1
            COMMAND h 100u XX FIELDS 1 f            => [:0]
            COMMAND h 100u GT FIELDS 1 f            => [:0]
            HTTL h FIELDS 1 f                       => [:-1]
            COMMAND h 100u LT FIELDS 2 f none       => [:1, :-2]
            HPERSIST h FIELDS 1 f                   => [:1]
            COMMAND h 100u NX FIELDS 1 f            => [:1]
            COMMAND h 200u nx FIELDS 1 f            => [:0]
            HTTL h FIELDS 1 f                       => [:99..100]
            COMMAND h 200u xx FIELDS 1 f            => [:1]
            COMMAND h 100u GT FIELDS 1 f            => [:0]
            COMMAND h 300u gt FIELDS 1 f            => [:1]
            COMMAND h 400u LT FIELDS 1 f            => [:0]
            COMMAND h 100u lt FIELDS 1 f            => [:1]
            HTTL h FIELDS 1 f                       => [:99..100]
            # The condition comes first, then it is seen that the time has passed.
            COMMAND h 0 NX FIELDS 1 f               => [:0]
            COMMAND h 0 GT FIELDS 1 f               => [:0]
            COMMAND h 0 LT FIELDS 1 f               => [:2]
            EXISTS h                                => :0
            "
            .replace("COMMAND", command)
            .replace("00u", if unit == 1 { "00" } else { "00000" }),
        );
    }
    script(
        &server,
        &mut c,
        r"
        HSET h f v                                    => :1
        HPEXPIREAT h 50000000000000 FIELDS 1 f        => [:1]
        HPEXPIREAT h 50000000000000 LT FIELDS 1 f     => [:0]
        HPEXPIREAT h 50000000000000 GT FIELDS 1 f     => [:0]
        HPEXPIREAT h 50000000000001 GT FIELDS 1 f     => [:1]
        ",
    );
}

#[test]
fn times_that_have_passed_delete() {
    let Some(server) = server() else { return };
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        HSET h a 1 b 2 c 3 d 4 e 5                   => :5
        HEXPIRE h 0 FIELDS 2 a a                     => [:2, :-2]
        HPEXPIRE h 0 FIELDS 1 b                      => [:2]
        HEXPIREAT h 0 FIELDS 1 c                     => [:2]
        HPEXPIREAT h 1 FIELDS 1 d                    => [:2]
        HGETALL h                                    => ['e', '5']
        HGETEX h PXAT 1 FIELDS 2 e e                 => ['5', nil]
        EXISTS h                                     => :0
        HSET h a 1 b 2                               => :2
        HSETEX h EXAT 1 FIELDS 1 a x                 => :1
        HGETALL h                                    => ['b', '2']
        HSETEX h PX 0 FIELDS 2 b x c y               => :1
        EXISTS h                                     => :0
        HSETEX h EX 0 FIELDS 1 a x                   => :1
        EXISTS h                                     => :0
        ",
    );
}

#[test]
fn values_with_deadlines() {
    let Some(server) = server() else { return };
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        HSETEX h EX 100 FIELDS 2 a 1 b two             => :1
        HTTL h FIELDS 2 a b                            => [:99..100, :99..100]
        # A value that is set anew lives for ever, unless KEEPTTL says otherwise; counters keep the deadline.
        HSETEX h KEEPTTL FIELDS 2 a 2 c 3              => :1
        HTTL h FIELDS 2 a c                            => [:99..100, :-1]
        HINCRBY h a 5                                  => :7
        HINCRBYFLOAT h a 0.5                           => '7.5'
        HTTL h FIELDS 1 a                              => [:99..100]
        HSETEX h FIELDS 1 a 3                          => :1
        HTTL h FIELDS 1 a                              => [:-1]
        HSET h b 2                                     => :0
        HTTL h FIELDS 1 b                              => [:-1]

        HSETEX h FNX EX 100 FIELDS 2 new 1 a 9         => :0
        HSETEX h FXX EX 100 FIELDS 2 new 1 a 9         => :0
        HMGET h new a                                  => [nil, '3']
        HSETEX h fxx px 100000 fields 2 a 9 b 8        => :1
        HSETEX h FNX FIELDS 1 new 1                    => :1
        HSETEX none FXX FIELDS 1 a 1                   => :0
        EXISTS none                                    => :0
        HSETEX some FNX KEEPTTL FIELDS 1 a 1           => :1
        HTTL h FIELDS 3 a b new                        => [:99..100, :99..100, :-1]
        HSETEX h EX 200 FXX FIELDS 1 a 7               => :1
        HTTL h FIELDS 1 a                              => [:199..200]

        HGETEX h FIELDS 3 a none b                     => ['7', nil, '8']
        HGETEX h PERSIST FIELDS 2 a new                => ['7', '1']
        HTTL h FIELDS 2 a b                            => [:-1, :99..100]
        HGETEX h EX 50 FIELDS 2 a none                 => ['7', nil]
        HTTL h FIELDS 1 a                              => [:49..50]
        HGETEX h PX 60000 FIELDS 1 a                   => ['7']
        HGETEX h EXAT 70368744177 FIELDS 1 a           => ['7']
        HGETEX h PXAT 70368744177663 FIELDS 1 b        => ['8']
        HPEXPIRETIME h FIELDS 2 a b                    => [:70368744177000, :70368744177663]
        HGETEX none EX 50 FIELDS 2 a b                 => [nil, nil]
        HGETEX none FIELDS 1 a                         => [nil]

        HGETDEL h FIELDS 4 a none a b                  => ['7', nil, nil, '8']
        HGETDEL none FIELDS 1 a                        => [nil]
        HKEYS h                                        => ['c', 'new']
        HGETDEL h FIELDS 2 c new                       => ['3', '1']
        EXISTS h                                       => :0
        ",
    );
    // A long value is sent although its field goes.
    let long = vec![b'x'; 100_000];
    assert_eq!(c.call(&[b"HSETEX", &b"h"[..], b"FIELDS", b"2", b"f", &long, b"g", b"1"]).int(), 1);
    let long = Reply::bulk(&long);
    assert_eq!(c.run("HGETEX h EX 10 FIELDS 2 f g").items(), [long.clone(), Reply::bulk("1")]);
    assert_eq!(c.run("HGETDEL h FIELDS 2 g f").items(), [Reply::bulk("1"), long]);
}

#[test]
fn errors() {
    let Some(server) = server() else { return };
    let mut c = server.client();
    c.expect("SET s v", "+OK");
    c.expect("HSET h f v", ":1");
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for line in [
        "HEXPIRE s x FIELDS 1 f",
        "HPEXPIRE s 1 FIELDS 1 f",
        "HEXPIREAT s 1 FIELDS 1 f",
        "HPEXPIREAT s 1 FIELDS 1 f",
        "HTTL s FIELDS 1 f",
        "HPTTL s FIELDS 1 f",
        "HEXPIRETIME s FIELDS 1 f",
        "HPEXPIRETIME s FIELDS 1 f",
        "HPERSIST s FIELDS 1 f",
        "HGETEX s FIELDS 1 f",
        "HGETEX s EX x FIELDS 1 f",
        "HSETEX s FIELDS 1 f v",
        "HSETEX s FXX FIELDS 1 f v",
        "HGETDEL s FIELDS 1 f",
    ] {
        c.expect(line, wrong_type);
    }
    script(
        &server,
        &mut c,
        r"
        HEXPIRE h x FIELDS 1 f                   => -ERR value is not an integer or out of range
        HEXPIRE h 9223372036854775808 FIELDS 1 f => -ERR value is not an integer or out of range
        HEXPIRE h -1 FIELDS 1 f                  => -ERR invalid expire time, must be >= 0
        HPEXPIREAT h -1 FIELDS 1 f               => -ERR invalid expire time, must be >= 0
        HEXPIRE h 70368744178 FIELDS 1 f         => -ERR invalid expire time in 'hexpire' command
        HEXPIRE h 70368744177 FIELDS 1 f         => -ERR invalid expire time in 'hexpire' command
        HEXPIRE h 9223372036854775807 FIELDS 1 f => -ERR invalid expire time in 'hexpire' command
        HPEXPIRE h 70368744177663 FIELDS 1 f     => -ERR invalid expire time in 'hpexpire' command
        HEXPIREAT h 70368744178 FIELDS 1 f       => -ERR invalid expire time in 'hexpireat' command
        HPEXPIREAT h 70368744177664 FIELDS 1 f   => -ERR invalid expire time in 'hpexpireat' command
        HEXPIRE h 10 FIELD 1 f                   => -ERR Mandatory argument FIELDS is missing or not at the right position
        HEXPIRE h 10 NX XX FIELDS 1 f            => -ERR Mandatory argument FIELDS is missing or not at the right position
        HEXPIRE h 10 FIELDS 0 f                  => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 10 FIELDS -1 f                 => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 10 FIELDS x f                  => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 10 FIELDS 2 f                  => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 10 FIELDS 1 f g                => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 10 NX FIELDS 1                 => -ERR The `numfields` parameter must match the number of arguments
        HEXPIRE h 10 FIELDS 1                    => -ERR wrong number of arguments for 'hexpire' command
        HTTL h FIELDS 1                          => -ERR wrong number of arguments for 'httl' command
        HTTL h FIELD 1 f                         => -ERR Mandatory argument FIELDS is missing or not at the right position
        HTTL h FIELDS 0 f                        => -ERR Number of fields must be a positive integer
        HTTL none FIELDS 2 f                     => -ERR The `numfields` parameter must match the number of arguments
        HPERSIST h FIELDS x f                    => -ERR Number of fields must be a positive integer
        HPERSIST h FIELDS 1 f g                  => -ERR The `numfields` parameter must match the number of arguments
        HGETDEL h FIELD 1 f                      => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETDEL h FIELDS 9223372036854775808 f   => -ERR Number of fields must be a positive integer
        HGETDEL h FIELDS 2 f                     => -ERR The `numfields` parameter must match the number of arguments
        HGETEX h PXAT 1 1                        => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETEX h PERSIST 1 FIELDS 1 f            => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETEX h EX 10 PERSIST FIELDS 1 f        => -ERR Mandatory argument FIELDS is missing or not at the right position
        HGETEX h FIELDS -1 f                     => -ERR Number of fields must be a positive integer
        HGETEX h FIELDS 2 f                      => -ERR The `numfields` parameter must match the number of arguments
        HGETEX h EX x FIELDS 1 f                 => -ERR value is not an integer or out of range
        HGETEX h PX -1 FIELDS 1 f                => -ERR invalid expire time, must be >= 0
        HGETEX h PXAT 70368744177664 FIELDS 1 f  => -ERR invalid expire time in 'hgetex' command
        HSETEX h FIELDS 1 f                      => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FIELDS 2 f v g                  => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FIELDS 2 f v                    => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FIELDS 1 f v EX 10              => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h EX 10 FNX FIELDS                => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FIELDS 0 f v                    => -ERR invalid number of fields
        HSETEX h FIELDS x f v                    => -ERR invalid number of fields
        HSETEX h NX FIELDS 1 f v                 => -ERR unknown argument: NX
        HSETEX h FNX FXX FIELDS 1 f v            => -ERR Only one of FXX or FNX arguments can be specified
        HSETEX h EX 1 PX 1 FIELDS 1 f v          => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h KEEPTTL EX 1 FIELDS 1 f v       => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h EX 1 KEEPTTL FIELDS 1 f v       => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h EX FIELDS 1 f v                 => -ERR value is not an integer or out of range
        HSETEX h FNX FIELDS 1 EX                 => -ERR wrong number of arguments for 'hsetex' command
        HSETEX h FNX KEEPTTL FXX EX              => -ERR Only one of FXX or FNX arguments can be specified
        HSETEX h PX -1 FIELDS 1 f v              => -ERR invalid expire time, must be >= 0
        HSETEX h EXAT 70368744178 FIELDS 1 f v   => -ERR invalid expire time in 'hsetex' command
        HGETALL h                                => ['f', 'v']
        HTTL h FIELDS 1 f                        => [:-1]
        GET s                                    => 'v'
        ",
    );
}

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis())
        .expect("a time")
}

/// Nobody asks for them, yet they go: seen by what does not look into hashes.
#[test]
fn fields_and_hashes_go_by_themselves() {
    let Some(server) = server() else { return };
    let mut c = server.client();
    for (key, fields) in [("small", 5), ("big", 5000)] {
        let pairs: String = (0..fields).map(|field| format!(" f{field} v")).collect();
        c.expect(&format!("HSETEX {key} PX 30 FIELDS {fields}{pairs}"), ":1");
    }
    // On a slow machine some of them have gone before they get to where they are sent.
    c.expect("HSETEX moved PX 50 FIELDS 1 f v", ":1");
    c.run("RENAME moved away");
    c.expect("HSETEX copied PX 50 FIELDS 2 f v g w", ":1");
    c.run("COPY copied copy");
    c.expect("HSETEX elsewhere PX 50 FIELDS 1 f v", ":1");
    c.run("MOVE elsewhere 3");
    c.expect("HSETEX stays PX 50 FIELDS 1 f v", ":1");
    c.expect("HSET stays g v", ":1");
    eventually("hashes whose fields have expired go", || c.run("DBSIZE").int() == 1);
    eventually("also elsewhere", || {
        c.expect("SELECT 3", "+OK");
        let left = c.run("DBSIZE").int();
        c.expect("SELECT 0", "+OK");
        left == 0
    });
    c.expect("HEXISTS stays g", ":1");
    c.expect("EXISTS small big away copied copy", ":0");
    assert!(c.info_number("expired_subkeys") >= 5005);
}

/// What is due is not there for anybody, whether it was removed or not; and who watches a hash is told.
#[test]
fn what_has_expired_is_not_there() {
    let Some(server) = server() else { return };
    let (mut c, mut other) = (server.client(), server.client());
    c.expect("HSET h a 1 b 2", ":2");
    c.expect("WATCH h", "+OK");
    let due = now_ms() + 20;
    other.expect(&format!("HPEXPIREAT h {due} FIELDS 1 a"), "[:1..2]");
    other.expect("HSET x f v", ":1");
    eventually("the deadline", || now_ms() > due);
    other.expect("HGET h a", "nil");
    other.expect("HLEN h", ":1");
    other.expect("HGETALL h", "['b', '2']");
    other.expect("HINCRBY h a 1", ":1");
    other.expect("HTTL h FIELDS 1 a", "[:-1]");
    c.expect("MULTI", "+OK");
    c.expect("PING", "+QUEUED");
    c.expect("EXEC", "nil*");
    // A watch begun after the change of the deadline is told of what goes.
    let due = now_ms() + 20;
    other.expect(&format!("HPEXPIREAT h {due} FIELDS 1 a"), "[:1..2]");
    if c.run("HEXISTS h a").int() == 1 {
        c.expect("WATCH h", "+OK");
        if now_ms() < due {
            eventually("it is removed", || other.run("HLEN h").int() == 1);
            c.expect("MULTI", "+OK");
            c.expect("PING", "+QUEUED");
            c.expect("EXEC", "nil*");
        }
    }
}
