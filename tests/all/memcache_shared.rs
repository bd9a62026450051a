//! Memcached's protocol and Redis's on the same keys: what one writes the other reads, and what happens to keys is told whoever did it. And the
//! binary protocol, on either port.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use crate::harness::{Client, Folder, PATIENCE, Reply, Server, eventually, free_port, program, skip};
use crate::memcache::{Cache, Mc};

fn pair(arguments: &[&str]) -> (Cache, Mc, Client) {
    let cache = Cache::ours(arguments);
    let (c, redis) = (cache.connect(), cache.redis());
    (cache, c, redis)
}

#[test]
fn both_see_the_same_strings() {
    for workers in ["1", "4"] {
        let (_cache, mut c, mut redis) = pair(&["--workers", workers]);
        for n in 0..50 {
            redis.expect(&format!("SET r:{n} {n}"), "+OK");
            c.ask(&format!("set m:{n} 0 0 {}|{n}", n.to_string().len()), "STORED");
        }
        for n in 0..50 {
            let len = n.to_string().len();
            c.ask(&format!("get r:{n}"), &format!("VALUE r:{n} 0 {len}|{n}|END"));
            redis.expect(&format!("GET m:{n}"), &format!("'{n}'"));
        }
        redis.expect("INCR counter", ":1");
        c.ask("incr counter 10", "11");
        redis.expect("INCRBY counter 5", ":16");
        c.ask("decr counter 7", "9");
        c.ask("get counter", "VALUE counter 0 1|9|END");
        redis.expect("GET counter", "'9'");
        c.ask("incr counter 18446744073709551606", "18446744073709551615");
        redis.expect("INCR counter", "-ERR value is not an integer or out of range");
        redis.expect("GET counter", "'18446744073709551615'");
        c.ask("set ttl 0 100 1|x", "STORED");
        redis.expect("TTL ttl", ":100");
        redis.expect("EXPIRE ttl 500", ":1");
        c.ask("mg ttl t", "HD t500");
        // Only database 0 is seen.
        redis.expect("SELECT 1", "+OK");
        redis.expect("SET other 1", "+OK");
        c.ask("get other", "END");
        redis.expect("SELECT 0", "+OK");
        c.ask("flush_all", "OK");
        redis.expect("DBSIZE", ":0");
    }
}

#[test]
fn another_database() {
    let (_cache, mut c, mut redis) = pair(&["--memcached-database", "3"]);
    c.ask("set k 0 0 1|x", "STORED");
    redis.expect("EXISTS k", ":0");
    redis.expect("SELECT 3", "+OK");
    redis.expect("GET k", "'x'");
    let (status, text) =
        crate::harness::run_to_end(&["--memcached-database", "99", "--port", "0", "--memcached-unixsocket", "s"]);
    assert!(!status.success() && text.contains("memcached-database is 99"), "{text}");
}

#[test]
fn flags_stay_with_what_changes_a_part_of_a_value() {
    let (_cache, mut c, mut redis) = pair(&[]);
    c.ask("set k 77 0 2|10", "STORED");
    for (command, reply, value) in [
        ("APPEND k 0", ":3", "100"),
        ("INCR k", ":101", "101"),
        ("INCRBYFLOAT k 0.5", "'101.5'", "101.5"),
        ("SETRANGE k 0 9", ":5", "901.5"),
        ("SETBIT k 7 0", ":1", "801.5"),
        ("EXPIRE k 1000", ":1", "801.5"),
        ("PERSIST k", ":1", "801.5"),
        ("RENAME k k2", "+OK", ""),
        ("COPY k2 k", ":1", "801.5"),
    ] {
        redis.expect(command, reply);
        if !value.is_empty() {
            c.ask("get k", &format!("VALUE k 77 {}|{value}|END", value.len()));
        }
    }
    c.ask("get k2", "VALUE k2 77 5|801.5|END");
    redis.expect("DUMP nothing", "nil");
    // A new value has none.
    redis.expect("SET k new", "+OK");
    c.ask("get k", "VALUE k 0 3|new|END");
    c.ask("set k 77 0 1|x", "STORED");
    redis.expect("SET k new KEEPTTL", "+OK");
    c.ask("get k", "VALUE k 0 3|new|END");
}

#[test]
fn a_number_is_another_after_a_command_of_redis() {
    let (_cache, mut c, mut redis) = pair(&[]);
    redis.expect("SET k 5", "+OK");
    let mut seen = Vec::new();
    for command in [
        "SET k 5",
        "SET k 5",
        "INCR k",
        "APPEND k 1",
        "SETRANGE k 0 7",
        "SETBIT k 7 1",
        "GETSET k 1",
        "SET k 9 EX 100",
        "BITFIELD k SET u8 0 49",
    ] {
        c.send(b"mg k c\r\n");
        let cas = c.line();
        assert!(!seen.contains(&cas), "{cas} came again");
        let number = cas.strip_prefix("HD c").expect("a number").to_owned();
        seen.push(cas);
        redis.run(command);
        c.ask(&format!("cas k 0 0 1 {number}|x"), "EXISTS");
    }
    // Keys have different numbers.
    for n in 0..200 {
        redis.run(&format!("SET key:{n} 1"));
        c.send(format!("mg key:{n} c\r\n").as_bytes());
        let cas = c.line();
        assert!(!seen.contains(&cas), "{cas} came again");
        seen.push(cas);
    }
}

#[test]
fn what_is_no_string_is_not_seen() {
    let (_cache, mut c, mut redis) = pair(&[]);
    redis.expect("RPUSH list a b", ":2");
    for (request, expected) in [
        ("get list", "END"),
        ("gets list", "END"),
        ("add list 0 0 1|x", "NOT_STORED"),
        ("append list 0 0 1|x", "NOT_STORED"),
        ("incr list 1", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
        ("cas list 0 0 1 5|x", "EXISTS"),
        ("touch list 5", "NOT_FOUND"),
        ("mg list v", "EN"),
        ("mg list N30 v", "EN"),
        ("ms list 1 MA N30|x", "NS"),
    ] {
        c.ask(request, expected);
    }
    redis.expect("LRANGE list 0 -1", "['a', 'b']");
    c.ask("set list 0 0 1|x|get list", "STORED|VALUE list 0 1|x|END");
    redis.expect("RPUSH list a", "-WRONGTYPE Operation against a key holding the wrong kind of value");
    redis.expect("HSET h f v", ":1");
    c.ask("delete h", "DELETED");
    redis.expect("EXISTS h", ":0");
}

#[test]
fn what_happens_is_told() {
    for workers in ["1", "4"] {
        let (cache, mut c, mut redis) = pair(&["--workers", workers, "--notify-keyspace-events", "KEA"]);
        let mut listener = cache.redis();
        listener.run("PSUBSCRIBE __keyspace@0__:*");
        c.ask(
            "set k 0 0 1|1|incr k 1|append k 0 0 1|0|prepend k 0 0 1|5|touch k 100|touch k 0|delete k",
            "STORED|2|STORED|STORED|TOUCHED|TOUCHED|DELETED",
        );
        c.ask("set t 0 100 1|1|mg v N30|gat -1 t", "STORED|HD W|VALUE t 0 1|1|END");
        let told: Vec<String> = (0..12)
            .map(|_| {
                let message = listener.read();
                let items = message.items();
                format!("{} {}", items[2].text().trim_start_matches("__keyspace@0__:"), items[3].text())
            })
            .collect();
        assert_eq!(
            told,
            [
                "k set",
                "k incrby",
                "k append",
                "k setrange",
                "k expire",
                "k persist",
                "k del",
                "t set",
                "t expire",
                "v set",
                "v expire",
                "t del"
            ]
        );
        // Those who watch see it.
        redis.expect("SET w 1", "+OK");
        redis.expect("WATCH w", "+OK");
        c.ask("set w 0 0 1|2", "STORED");
        redis.expect("MULTI", "+OK");
        redis.expect("PING", "+QUEUED");
        redis.expect("EXEC", "nil*");
        // Those who cache it are told.
        let mut caching = cache.redis();
        caching.run("HELLO 3");
        caching.expect("CLIENT TRACKING ON", "+OK");
        caching.expect("GET w", "'2'");
        c.ask("incr w 1", "3");
        let told = caching.read();
        assert!(matches!(&told, Reply::Push(items) if items[0].text() == "invalidate"), "{told:?}");
    }
}

#[test]
fn a_pause_and_the_list_of_clients_count_for_both() {
    let (_cache, mut c, mut redis) = pair(&["--workers", "2"]);
    c.ask("version", "VERSION 1.6.18");
    let list = redis.run("CLIENT LIST");
    assert!(list.text().contains("cmd=version"), "{}", list.text());
    redis.expect("CLIENT PAUSE 100000 WRITE", "+OK");
    c.ask("get k", "END");
    c.send(b"set k 0 0 1\r\nx\r\nget k\r\n");
    redis.expect("CLIENT UNPAUSE", "+OK");
    c.expect("what was paused", "STORED|VALUE k 0 1|x|END");
    let id = redis
        .run("CLIENT LIST")
        .text()
        .lines()
        .find(|line| line.contains("cmd=get"))
        .and_then(|line| line.split(' ').next().and_then(|id| id.strip_prefix("id=")).map(str::to_owned));
    redis.expect(&format!("CLIENT KILL ID {}", id.expect("the client is there")), ":1");
    c.expect_closed();
}

/// Several writers on as many workers: each sees its own, whichever shard it is in.
/// At the limit of memory, and for users who may not do all, requests are refused in memcached's words, and the connection goes on.
#[test]
fn refusals_are_of_the_protocol() {
    let (_cache, mut c, mut redis) = pair(&["--maxmemory", "3mb"]);
    let value = "v".repeat(50_000);
    let mut refused = 0;
    for i in 0..100 {
        c.send(format!("set k{i} 0 0 50000\r\n{value}\r\n").as_bytes());
        match c.line().as_str() {
            "STORED" => {}
            "SERVER_ERROR out of memory storing object" => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(refused > 30, "{refused}");
    c.send(format!("set quiet 0 0 50000 noreply\r\n{value}\r\n").as_bytes());
    c.ask("get nosuch", "END");
    c.ask("mg nosuch v", "EN");
    redis.expect("CONFIG SET maxmemory 0", "+OK");
    eventually("there is room", || redis.run("SET probe x").to_string() == "+OK");
    c.ask("set a 0 0 1|x", "STORED");
    redis.expect("ACL SETUSER default -set", "+OK");
    c.ask("set a 0 0 1|x", "CLIENT_ERROR bad authentication token format");
    c.ask("get a", "CLIENT_ERROR unauthenticated");
    redis.expect("ACL SETUSER other on >word allcommands allkeys allchannels", "+OK");
    c.ask("set auth 0 0 10|other word", "STORED");
    c.ask("get a", "VALUE a 0 1|x|END");
    redis.expect("ACL SETUSER default +@all", "+OK");
}

#[test]
fn several_workers() {
    let cache = Cache::ours(&["--workers", "4"]);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let cache = &cache;
            scope.spawn(move || {
                let mut c = cache.connect();
                for round in 0..200 {
                    let value = format!("{writer}-{round}");
                    let len = value.len();
                    c.ask(
                        &format!("set own:{writer} 3 0 {len}|{value}|incr shared 1 noreply|get own:{writer} none own:{writer}"),
                        &format!("STORED|VALUE own:{writer} 3 {len}|{value}|VALUE own:{writer} 3 {len}|{value}|END"),
                    );
                }
            });
        }
        cache.connect().ask("add shared 0 0 1|0|mn", "STORED|MN");
    });
    let mut c = cache.connect();
    c.send(b"mg shared v\r\n");
    assert!(c.line().starts_with("VA "));
    // One of the adders of 1 may have come before there was a number; no more than the first few.
    let sum: u32 = c.line().parse().expect("a number");
    assert!(sum <= 1600, "{sum}");
}

// ---- binary ----

fn frame(opcode: u8, key: &str, extras: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let body = u32::try_from(key.len() + extras.len() + value.len()).expect("a frame");
    let mut frame = vec![0x80, opcode];
    frame.extend(u16::try_from(key.len()).expect("a key").to_be_bytes());
    frame.extend([u8::try_from(extras.len()).expect("extras"), 0, 0, 0]);
    frame.extend(body.to_be_bytes());
    frame.extend(0xdead_beef_u32.to_be_bytes());
    frame.extend(cas.to_be_bytes());
    [frame, extras.to_vec(), key.as_bytes().to_vec(), value.to_vec()].concat()
}

/// A reply: opcode, status, number, and extras, key and value together.
fn reply(stream: &mut impl Read) -> (u8, u16, u64, Vec<u8>) {
    let mut header = [0; 24];
    stream.read_exact(&mut header).expect("a reply");
    assert_eq!((header[0], &header[12..16]), (0x81, &0xdead_beef_u32.to_be_bytes()[..]));
    let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    let mut rest = vec![0; body as usize];
    stream.read_exact(&mut rest).expect("a body");
    let cas = header[16..].iter().fold(0, |cas, byte| cas << 8 | u64::from(*byte));
    (header[1], u16::from_be_bytes([header[6], header[7]]), cas, rest)
}

fn binary(stream: &mut (impl Read + Write), frame: &[u8]) -> (u16, u64, Vec<u8>) {
    stream.write_all(frame).expect("the server reads");
    let (opcode, status, cas, body) = reply(stream);
    assert_eq!(opcode, frame[1]);
    (status, cas, body)
}

fn over_unix(cache: &Cache) -> UnixStream {
    let stream = cache.stream();
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

#[test]
fn binary_requests() {
    for cache in [Some(Cache::ours(&[])), Cache::oracle(&[])].into_iter().flatten() {
        let mut s = over_unix(&cache);
        let extras = |flags: u32, expiry: u32| [flags.to_be_bytes(), expiry.to_be_bytes()].concat();
        let miss = (1, 0, b"Not found".to_vec());
        assert_eq!(binary(&mut s, &frame(0x00, "k", b"", b"", 0)), miss);
        let (status, cas, body) = binary(&mut s, &frame(0x01, "k", &extras(5, 0), b"value", 0));
        assert_eq!((status, cas != 0, body), (0, true, vec![]));
        assert_eq!(binary(&mut s, &frame(0x00, "k", b"", b"", 0)), (0, cas, b"\0\0\0\x05value".to_vec()));
        assert_eq!(binary(&mut s, &frame(0x0c, "k", b"", b"", 0)), (0, cas, b"\0\0\0\x05kvalue".to_vec()));
        assert_eq!(binary(&mut s, &frame(0x0c, "no", b"", b"", 0)), (1, 0, b"no".to_vec()));
        assert_eq!(binary(&mut s, &frame(0x02, "k", &extras(0, 0), b"x", 0)).0, 2, "ADD of what is there");
        assert_eq!(binary(&mut s, &frame(0x03, "no", &extras(0, 0), b"x", 0)).0, 1, "REPLACE of nothing");
        assert_eq!(binary(&mut s, &frame(0x01, "k", &extras(0, 0), b"x", cas + 1)).0, 2, "another number");
        let (status, cas, _) = binary(&mut s, &frame(0x01, "k", &extras(6, 0), b"new", cas));
        assert_eq!(status, 0);
        assert_eq!(binary(&mut s, &frame(0x0e, "k", b"", b"+", 0)).0, 0);
        assert_eq!(binary(&mut s, &frame(0x0f, "k", b"", b"-", 0)).0, 0);
        assert_eq!(binary(&mut s, &frame(0x0e, "no", b"", b"+", 0)).0, 5);
        let (status, second, body) = binary(&mut s, &frame(0x00, "k", b"", b"", 0));
        assert_eq!((status, second != cas, body), (0, true, b"\0\0\0\x06-new+".to_vec()));
        // Numbers.
        let arithmetic = |delta: u64, initial: u64, expiry: u32| {
            [delta.to_be_bytes().to_vec(), initial.to_be_bytes().to_vec(), expiry.to_be_bytes().to_vec()].concat()
        };
        assert_eq!(binary(&mut s, &frame(0x05, "n", &arithmetic(1, 7, u32::MAX), b"", 0)).0, 1);
        assert_eq!(binary(&mut s, &frame(0x05, "n", &arithmetic(1, 7, 0), b"", 0)).2, 7u64.to_be_bytes());
        assert_eq!(binary(&mut s, &frame(0x05, "n", &arithmetic(3, 7, 0), b"", 0)).2, 10u64.to_be_bytes());
        assert_eq!(binary(&mut s, &frame(0x06, "n", &arithmetic(30, 7, 0), b"", 0)).2, 0u64.to_be_bytes());
        assert_eq!(binary(&mut s, &frame(0x05, "k", &arithmetic(1, 7, 0), b"", 0)).0, 6);
        // Times to live.
        assert_eq!(binary(&mut s, &frame(0x1c, "k", &100u32.to_be_bytes(), b"", 0)).0, 0);
        assert_eq!(binary(&mut s, &frame(0x1d, "k", &200u32.to_be_bytes(), b"", 0)).2, b"\0\0\0\x06-new+");
        assert_eq!(binary(&mut s, &frame(0x1c, "no", &100u32.to_be_bytes(), b"", 0)).0, 1);
        cache.connect().ask("mg k t", "HD t200");
        assert_eq!(binary(&mut s, &frame(0x04, "k", b"", b"", second + 9)).0, 2);
        assert_eq!(binary(&mut s, &frame(0x04, "k", b"", b"", 0)).0, 0);
        assert_eq!(binary(&mut s, &frame(0x04, "k", b"", b"", 0)).0, 1);
        // The quiet forms say nothing of what is as usual; NOOP ends the row.
        let quiet = [
            frame(0x11, "q", &extras(1, 0), b"quiet", 0),
            frame(0x09, "none", b"", b"", 0),
            frame(0x0d, "none", b"", b"", 0),
            frame(0x09, "q", b"", b"", 0),
            frame(0x12, "q", &extras(0, 0), b"x", 0),
            frame(0x19, "q", b"", b"!", 0),
            frame(0x15, "qn", &arithmetic(1, 5, 0), b"", 0),
            frame(0x14, "qn", b"", b"", 0),
            frame(0x14, "qn", b"", b"", 0),
            frame(0x0a, "", b"", b"", 0),
        ]
        .concat();
        s.write_all(&quiet).expect("it reads");
        let got: Vec<(u8, u16)> = (0..4)
            .map(|_| {
                let (opcode, status, ..) = reply(&mut s);
                (opcode, status)
            })
            .collect();
        assert_eq!(got, [(0x09, 0), (0x12, 2), (0x14, 1), (0x0a, 0)]);
        // What is unknown, too large, wrong.
        assert_eq!(binary(&mut s, &frame(0x77, "", b"", b"", 0)), (0x81, 0, b"Unknown command".to_vec()));
        if cache.is_ours() {
            // memcached passes over more than there is.
            assert_eq!(binary(&mut s, &frame(0x77, "k", b"abc", b"value", 0)).0, 0x81);
        }
        let big = vec![b'x'; 2 << 20];
        assert_eq!(binary(&mut s, &frame(0x01, "q", &extras(0, 0), &big, 0)), (3, 0, b"Too large.".to_vec()));
        assert_eq!(binary(&mut s, &frame(0x00, "q", b"", b"", 0)), miss);
        assert_eq!(binary(&mut s, &frame(0x20, "", b"", b"", 0)).0, 0x81, "no SASL without a password");
        let large = vec![b'y'; 300_000];
        assert_eq!(binary(&mut s, &frame(0x01, "large", &extras(0, 0), &large, 0)).0, 0);
        assert!(binary(&mut s, &frame(0x00, "large", b"", b"", 0)).2[4..] == large);
        assert_eq!(binary(&mut s, &frame(0x0e, "large", b"", &large, 0)).0, 0);
        assert_eq!(binary(&mut s, &frame(0x00, "large", b"", b"", 0)).2.len(), 600_004);
        // Statistics end with an empty one.
        s.write_all(&frame(0x10, "settings", b"", b"", 0)).expect("it reads");
        let mut names = 0;
        while !reply(&mut s).3.is_empty() {
            names += 1;
        }
        assert!(names > 10);
        assert_eq!(binary(&mut s, &frame(0x08, "", b"", b"", 0)).0, 0);
        assert_eq!(binary(&mut s, &frame(0x00, "large", b"", b"", 0)), miss);
        assert_eq!(binary(&mut s, &frame(0x00, "", b"", b"", 0)), (4, 0, b"Invalid arguments".to_vec()));
        assert_eq!(s.read(&mut [0]).expect("its end"), 0, "the connection is closed");
    }
}

#[test]
fn binary_in_pieces() {
    let cache = Cache::ours(&[]);
    let value = vec![b'v'; 40_000];
    let stream = [
        frame(0x01, "small", &[0; 8], b"value", 0),
        frame(0x01, "large", &[0; 8], &value, 0),
        frame(0x00, "large", b"", b"", 0),
        frame(0x0a, "", b"", b"", 0),
    ]
    .concat();
    for step in [1, 5, 24, 100, 16_000] {
        let mut s = over_unix(&cache);
        for piece in stream.chunks(step) {
            s.write_all(piece).expect("it reads");
        }
        let bodies: Vec<usize> = (0..4).map(|_| reply(&mut s).3.len()).collect();
        assert_eq!(bodies, [0, 0, 40_004, 0], "{step}");
    }
}

/// The window that ends a cut head holds the beginning of its value, or all of it and more.
#[test]
fn a_large_value_behind_a_head_in_pieces() {
    for cache in [Some(Cache::ours(&["--workers", "2"])), Cache::oracle(&[])].into_iter().flatten() {
        let mut s = over_unix(&cache);
        for len in [16_300, 17_000, 60_000, 300_000] {
            let stream =
                [frame(0x01, "large", &[0; 8], &vec![b'v'; len], 0), frame(0x00, "large", b"", b"", 0)].concat();
            for cut in [1, 23, 24, 30, 36] {
                // Answered before the rest comes: so the server has read just that.
                s.write_all(&[&frame(0x0a, "", b"", b"", 0), &stream[..cut]].concat()).expect("it reads");
                assert_eq!(reply(&mut s).0, 0x0a);
                s.write_all(&stream[cut..]).expect("it reads");
                let bodies =
                    [reply(&mut s), reply(&mut s)].map(|(opcode, status, _, body)| (opcode, status, body.len()));
                assert_eq!(bodies, [(0x01, 0, 0), (0x00, 0, len + 4)], "{len} bytes, cut at {cut}");
            }
        }
    }
}

/// On the port of Redis the magic byte tells the protocol.
#[test]
fn binary_on_the_port_of_redis() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let mut c = server.client();
    c.expect("SET k value", "+OK");
    let mut s = std::net::TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    s.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    assert_eq!(binary(&mut s, &frame(0x00, "k", b"", b"", 0)).2, b"\0\0\0\0value");
    assert_eq!(binary(&mut s, &frame(0x01, "k2", &[0; 8], b"other", 0)).0, 0);
    c.expect("GET k2", "'other'");
    // But text is Redis's.
    c.send(b"get k\r\n");
    assert_eq!(c.read(), Reply::bulk("value"));
    // Who is in the middle of something of Redis's cannot change over.
    c.expect("MULTI", "+OK");
    c.send(&frame(0x0a, "", b"", b"", 0));
    assert!(matches!(c.read(), Reply::Error(text) if text.contains("Protocol error")));
    c.expect_closed();
}

#[test]
fn sasl() {
    let cache = Cache::ours(&["--requirepass", "secret"]);
    let mut s = over_unix(&cache);
    assert_eq!(binary(&mut s, &frame(0x20, "", b"", b"", 0)), (0, 0, b"PLAIN".to_vec()));
    assert_eq!(binary(&mut s, &frame(0x21, "PLAIN", b"", b"\0default\0wrong", 0)).0, 0x20);
    assert_eq!(binary(&mut s, &frame(0x21, "CRAM-MD5", b"", b"\0default\0secret", 0)).0, 0x20);
    assert_eq!(binary(&mut s, &frame(0x21, "PLAIN", b"", b"\0default\0secret", 0)), (0, 0, b"Authenticated".to_vec()));
    assert_eq!(binary(&mut s, &frame(0x01, "k", &[0; 8], b"x", 0)).0, 0);
    let mut s = over_unix(&cache);
    assert_eq!(binary(&mut s, &frame(0x0b, "", b"", b"", 0)).0, 0x20);
    assert_eq!(s.read(&mut [0]).expect("its end"), 0, "the connection is closed");
}

// ---- clients of others ----

fn over_tcp(test: impl FnOnce(u16)) {
    for _ in 0..20 {
        let port = free_port();
        let server = Server::with(&["--memcached-port", &port.to_string()]);
        // Somebody else may have it.
        let ours = server.output().contains(&format!("127.0.0.1:{port}"));
        if ours {
            return test(port);
        }
    }
    panic!("no port was free");
}

#[test]
fn memcapable() {
    let Some(binary) = ["memcapable", "memccapable"].iter().find_map(|name| program(name)) else {
        return skip("memcapable", "it is not installed");
    };
    over_tcp(|port| {
        for protocol in ["-a", "-b"] {
            let out = Command::new(&binary)
                .args([protocol, "-h", "127.0.0.1", "-p", &port.to_string()])
                .output()
                .expect("it runs");
            let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
            assert!(out.status.success() && text.contains("All tests passed"), "{protocol}: {text}");
        }
    });
}

const PYMEMCACHE: &str = r#"
import sys
from pymemcache.client.base import Client
from pymemcache import serde
c = Client(('127.0.0.1', int(sys.argv[1])), serde=serde.pickle_serde, no_delay=True)
assert c.set('k', {'a': [1, 2]}, noreply=False) and c.get('k') == {'a': [1, 2]}
assert c.set('n', 5, noreply=False) and c.get('n') == 5 and c.incr('n', 3) == 8
assert c.set_many({'a%d' % i: 'x' * i for i in range(200)}, noreply=False) == []
assert c.get_many(['a%d' % i for i in range(200)]) == {'a%d' % i: 'x' * i for i in range(200)}
value, cas = c.gets('a5')
assert c.cas('a5', 'new', cas, noreply=False) is True and c.cas('a5', 'newer', cas, noreply=False) is False
assert c.cas('none', 'newer', cas, noreply=False) is None
assert c.append('a5', '!', noreply=False) and c.get('a5') == 'new!'
assert c.add('a5', 'x', noreply=False) is False and c.replace('a5', 'x', noreply=False) is True
assert c.touch('a5', 100, noreply=False) is True
assert c.delete('a5', noreply=False) is True and c.delete('a5', noreply=False) is False
assert c.set('big', b'y' * 900000, noreply=False) and c.get('big') == b'y' * 900000
assert c.version() == b'1.6.18' and b'curr_items' in c.stats()
assert c.flush_all(noreply=False) and c.get('k') is None
print('fine')
"#;

/// libmemcached, as its bindings for Python use it.
const PYLIBMC: &str = r#"
import sys
import pylibmc
for binary in (False, True):
    c = pylibmc.Client(['127.0.0.1:' + sys.argv[1]], binary=binary, behaviors={'cas': True, 'tcp_nodelay': True})
    assert c.flush_all()
    # Of what type a value is its flags tell.
    for value in ('text', b'bytes', 7, 1 << 70, True, {'a': [1, 2]}):
        assert c.set('k', value) and c.get('k') == value
    assert c.set('n', 5) and c.incr('n', 3) == 8 and c.decr('n', 2) == 6
    names = ['a%d' % i for i in range(200)]
    assert c.set_multi({name: name * 3 for name in names}) == []
    assert c.get_multi(names + ['none']) == {name: name * 3 for name in names}
    assert c.delete_multi(names[100:]) and c.get('a150') is None
    value, cas = c.gets('a5')
    assert value == 'a5a5a5' and c.cas('a5', 'new', cas) is True and c.cas('a5', 'newer', cas) is False
    assert c.append('a5', '!') and c.prepend('a5', '!') and c.get('a5') == '!new!'
    assert c.add('a5', 'x') is False and c.replace('a5', 'x') is True
    assert c.touch('a5', 100) is True and c.delete('a5') is True and c.delete('a5') is False
    assert c.set('big', 'y' * 900000) and c.get('big') == 'y' * 900000
    # It compresses what is longer, which the flags tell as well.
    assert c.set('packed', 'y' * 2000000, min_compress_len=1000, compress_level=1) and c.get('packed') == 'y' * 2000000
    assert '1.6.18' in str(c.get_stats())
print('fine')
"#;

#[test]
fn pymemcache() {
    python_client("pymemcache", PYMEMCACHE);
}

#[test]
fn pylibmc() {
    python_client("pylibmc", PYLIBMC);
}

#[test]
fn memjs_and_memcached_of_node() {
    over_tcp(|port| {
        let Some(mut script) = crate::clients::node("memcached_clients.js", &["memjs", "memcached"]) else { return };
        let out = script.arg(port.to_string()).output().expect("node runs");
        assert!(out.stdout == b"all passed\n", "{}", String::from_utf8_lossy(&out.stderr));
    });
}

fn python_client(package: &str, script: &str) {
    let Some(python) = crate::clients::python(package) else {
        return skip(package, "there is no python with that package");
    };
    over_tcp(|port| {
        let out = Command::new(python).args(["-c", script, &port.to_string()]).output().expect("python3 runs");
        assert!(out.stdout == b"fine\n", "{}", String::from_utf8_lossy(&out.stderr));
    });
}

#[test]
fn a_client_that_does_not_read_waits_for_room_and_gets_all() {
    let cache = Cache::ours(&[]);
    let mut c = cache.connect();
    let value = "v".repeat(10_000);
    c.ask(&format!("set k 0 0 10000|{value}"), "STORED");
    // Far more replies than a connection may have waiting.
    let mut writer = over_unix(&cache);
    let mut reader = writer.try_clone().expect("a second handle");
    let line = format!("get{}\r\n", " k".repeat(500));
    let total = 20;
    let thread = std::thread::spawn(move || {
        for _ in 0..total {
            writer.write_all(line.as_bytes()).expect("it is read in time");
        }
    });
    let one = format!("VALUE k 0 10000\r\n{value}\r\n");
    let expected = one.len() * 500 + 5;
    let mut all = vec![0; expected];
    for _ in 0..total {
        reader.read_exact(&mut all).expect("all comes");
        assert!(all.starts_with(one.as_bytes()) && all.ends_with(b"\r\nEND\r\n"));
    }
    thread.join().expect("all was sent");
    eventually("nothing more", || {
        c.send(b"mn\r\n");
        c.line() == "MN"
    });
}

#[test]
fn flags_survive_a_file() {
    let folder = Folder::new();
    let dir = folder.path().to_str().expect("a name in text");
    let long = "v".repeat(300_000);
    let check = |c: &mut Mc| {
        c.ask("get small number later long none", &format!("VALUE small 7 1|x|VALUE number 1 2|12|VALUE later 9 2|yz|VALUE long 4294967295 300000|{long}|VALUE none 0 1|n|END"));
        c.ask("mg later t f", "HD t1000 f9");
    };
    let start =
        |workers| Server::with(&["--memcached-unixsocket", "memcached.sock", "--dir", dir, "--workers", workers]);
    let memcached = || {
        let mut stream = None;
        // It listens there a little later than on the port of Redis, which was waited for.
        eventually("the server accepts", || {
            stream = UnixStream::connect(folder.path().join("memcached.sock")).ok();
            stream.is_some()
        });
        Mc::over(stream.expect("it was there"))
    };
    {
        let server = start("2");
        let (mut c, mut redis) = (memcached(), server.client());
        c.ask("set small 7 0 1|x", "STORED");
        c.ask("set number 1 0 2|11", "STORED");
        redis.expect("INCR number", ":12");
        c.ask("set later 9 1000 2|yz", "STORED");
        c.ask(&format!("set long 4294967295 0 300000|{long}"), "STORED");
        c.ask("set none 0 0 1|n", "STORED");
        redis.expect("HSET hash f v", ":1");
        redis.expect("DEBUG RELOAD", "+OK");
        check(&mut c);
        redis.expect("SAVE", "+OK");
    }
    {
        let server = start("1");
        let mut redis = server.client();
        eventually("the file is loaded", || !redis.run("DBSIZE").is_error());
        check(&mut memcached());
    }
    if let Some(binary) = program("redis-server") {
        let redis = Server::other(&binary, &["--dir", dir]);
        let mut c = redis.client();
        eventually("the file is loaded", || !c.run("DBSIZE").is_error());
        for (command, reply) in
            [("GET small", "'x'"), ("GET number", "'12'"), ("STRLEN long", ":300000"), ("DBSIZE", ":6")]
        {
            c.expect(command, reply);
        }
    }
}
