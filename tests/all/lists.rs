//! Lists: ends, places, ranges, searches by value, moves between lists. What waits is in `blocking`.

use crate::harness::{Client, Reply, Server, eventually, request, script};

/// Pushes elements in pieces, each a request that fits a window.
fn fill(client: &mut Client, key: &str, elements: &[String]) {
    for piece in elements.chunks(500) {
        let words: Vec<&str> = ["RPUSH", key].into_iter().chain(piece.iter().map(String::as_str)).collect();
        client.call(&words);
    }
}

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("element:{n}")).collect()
}

fn count(n: usize) -> i64 {
    i64::try_from(n).expect("a count")
}

fn texts(reply: &Reply) -> Vec<String> {
    reply.items().iter().map(Reply::text).collect()
}

#[test]
fn ends() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        RPUSH l a b                  => :2
        LPUSH l x y                  => :4
        LRANGE l 0 -1                => ['y', 'x', 'a', 'b']
        LLEN l                       => :4
        LPOP l                       => 'y'
        RPOP l                       => 'b'
        LPUSH l 12 -7 ''             => :5
        LRANGE l 0 -1                => ['', '-7', '12', 'x', 'a']
        LPOP l 2                     => ['', '-7']
        RPOP l 2                     => ['a', 'x']
        RPOP l 0                     => []
        LPOP l 9223372036854775807   => ['12']
        EXISTS l                     => :0
        LPOP l                       => nil
        RPOP l                       => nil
        LPOP l 3                     => nil*
        LPOP l 0                     => nil*
        LPOP l -1                    => -ERR value is out of range, must be positive
        LPOP l x                     => -ERR value is out of range, must be positive
        RPOP l 1.0                   => -ERR value is out of range, must be positive
        LPOP l 1 2                   => -ERR wrong number of arguments for 'lpop' command
        RPOP l 1 2                   => -ERR wrong number of arguments for 'rpop' command
        LPUSH l                      => -ERR wrong number of arguments for 'lpush' command
        LLEN l                       => :0
        LPUSHX l a                   => :0
        RPUSHX l a b                 => :0
        EXISTS l                     => :0
        RPUSH l m                    => :1
        LPUSHX l a b                 => :3
        RPUSHX l y z                 => :5
        LRANGE l 0 -1                => ['b', 'a', 'm', 'y', 'z']
        TYPE l                       => +list
        ",
    );
    let mut c3 = server.client3();
    script(
        &server,
        &mut c3,
        r"
        LPOP none                    => null
        LPOP none 2                  => null
        LINDEX none 0                => null
        LMPOP 1 none LEFT            => null
        LMOVE none l LEFT LEFT       => null
        LPOS none a                  => null
        LPOP l 2                     => ['b', 'a']
        LMPOP 1 l RIGHT              => ['l', ['z']]
        ",
    );
}

#[test]
fn places() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        RPUSH l a b c d              => :4
        LINDEX l 0                   => 'a'
        LINDEX l -1                  => 'd'
        LINDEX l 4                   => nil
        LINDEX l -5                  => nil
        LINDEX l -9223372036854775808 => nil
        LINDEX l x                   => -ERR value is not an integer or out of range
        LINDEX none x                => nil
        LSET l 1 B                   => +OK
        LSET l -1 17                 => +OK
        LSET l 4 x                   => -ERR index out of range
        LSET l -5 x                  => -ERR index out of range
        LSET l x x                   => -ERR value is not an integer or out of range
        LSET none 0 x                => -ERR no such key
        LSET none x x                => -ERR no such key
        LRANGE l 0 -1                => ['a', 'B', 'c', '17']
        LRANGE l 1 2                 => ['B', 'c']
        LRANGE l -2 100              => ['c', '17']
        LRANGE l -100 0              => ['a']
        LRANGE l 2 1                 => []
        LRANGE l 4 9                 => []
        LRANGE l 0 -5                => []
        LRANGE l -9223372036854775808 9223372036854775807 => ['a', 'B', 'c', '17']
        LRANGE none 0 -1             => []
        LRANGE l x 1                 => -ERR value is not an integer or out of range
        LRANGE none 0 x              => -ERR value is not an integer or out of range
        LINSERT l BEFORE a first     => :5
        LINSERT l after 17 last      => :6
        LINSERT l BEFORE c mid       => :7
        LINSERT l BEFORE zz q        => :-1
        LINSERT none BEFORE a q      => :0
        LINSERT l NEAR a q           => -ERR syntax error
        LINSERT none NEAR a q        => -ERR syntax error
        LRANGE l 0 -1                => ['first', 'a', 'B', 'mid', 'c', '17', 'last']
        LTRIM l 1 -2                 => +OK
        LRANGE l 0 -1                => ['a', 'B', 'mid', 'c', '17']
        LTRIM l 0 -1                 => +OK
        LTRIM l -3 100               => +OK
        LRANGE l 0 -1                => ['mid', 'c', '17']
        LTRIM l x 1                  => -ERR value is not an integer or out of range
        LTRIM l 5 1                  => +OK
        EXISTS l                     => :0
        LTRIM none 0 1               => +OK
        RPUSH l a                    => :1
        LTRIM l 1 0                  => +OK
        EXISTS l                     => :0
        ",
    );
}

#[test]
fn searches() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        RPUSH l a b c 1 2 3 c c      => :8
        LPOS l c                     => :2
        LPOS l c RANK 2              => :6
        LPOS l c RANK -1             => :7
        LPOS l c RANK -4             => nil
        LPOS l 2                     => :4
        LPOS l zz                    => nil
        LPOS l c COUNT 2             => [:2, :6]
        LPOS l c COUNT 0             => [:2, :6, :7]
        LPOS l c RANK -1 COUNT 2     => [:7, :6]
        LPOS l c count 0 rank 2      => [:6, :7]
        LPOS l c MAXLEN 2            => nil
        LPOS l c MAXLEN 3            => :2
        LPOS l c COUNT 0 MAXLEN 7    => [:2, :6]
        LPOS l c RANK -1 MAXLEN 1    => :7
        LPOS l a RANK -1 MAXLEN 7    => nil
        LPOS l c RANK 1 RANK -1      => :7
        LPOS l zz COUNT 2            => []
        LPOS none a                  => nil
        LPOS none a COUNT 0          => []
        LPOS l c RANK 0              => -ERR RANK can't be zero
        LPOS none c RANK 0           => -ERR RANK can't be zero
        LPOS l c RANK x              => -ERR value is not an integer or out of range
        LPOS l c COUNT -1            => -ERR COUNT can't be negative
        LPOS l c COUNT x             => -ERR COUNT can't be negative
        LPOS l c MAXLEN -1           => -ERR MAXLEN can't be negative
        LPOS l c MAXLEN x            => -ERR MAXLEN can't be negative
        LPOS l c NEAR 1              => -ERR syntax error
        LPOS l c RANK                => -ERR syntax error
        LREM l 1 c                   => :1
        LRANGE l 0 -1                => ['a', 'b', '1', '2', '3', 'c', 'c']
        LREM l -1 c                  => :1
        LREM l 0 zz                  => :0
        LREM l 0 2                   => :1
        LRANGE l 0 -1                => ['a', 'b', '1', '3', 'c']
        LREM l x a                   => -ERR value is not an integer or out of range
        LREM none 0 a                => :0
        RPUSH k a b a b a            => :5
        LREM k -9223372036854775808 a => :3
        LREM k 9223372036854775807 b => :2
        EXISTS k                     => :0
        ",
    );
}

/// Rows 23 (pikiwidb#2953) and 25 (rd PR#12167) of the collection of bug reports.
#[test]
fn reported_bugs() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        RPUSH l x                    => :1
        LMOVE l l LEFT RIGHT         => 'x'
        LRANGE l 0 -1                => ['x']
        RPUSH m 1 2 3                => :3
        RPOPLPUSH m m                => '3'
        LRANGE m 0 -1                => ['3', '1', '2']
        LINSERT m BEFORE zz q        => :-1
        RPUSH p c                    => :1
        # 7.0.15 takes the least rank for a small one.
        dolmen> LPOS p c RANK -9223372036854775808 => -ERR value is out of range
        LPOS p zz COUNT 0            => []
        ",
    );
}

#[test]
fn moves() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        RPUSH a 1 2 3 4              => :4
        LMOVE a b LEFT RIGHT         => '1'
        LMOVE a b right left         => '4'
        LMOVE a b RIGHT RIGHT        => '3'
        LRANGE b 0 -1                => ['4', '1', '3']
        RPOPLPUSH a b                => '2'
        EXISTS a                     => :0
        LRANGE b 0 -1                => ['2', '4', '1', '3']
        LMOVE b b LEFT LEFT          => '2'
        LMOVE b b LEFT RIGHT         => '2'
        LMOVE b b RIGHT LEFT         => '2'
        LRANGE b 0 -1                => ['2', '4', '1', '3']
        LMOVE none b LEFT LEFT       => nil
        RPOPLPUSH none b             => nil
        LMOVE b a NEAR LEFT          => -ERR syntax error
        LMOVE none a LEFT NEAR       => -ERR syntax error
        SET s v                      => +OK
        LMOVE b s LEFT LEFT          => -WRONGTYPE
        LMOVE s b LEFT LEFT          => -WRONGTYPE
        LMOVE none s LEFT LEFT       => nil
        RPOPLPUSH b s                => -WRONGTYPE
        LRANGE b 0 -1                => ['2', '4', '1', '3']
        LMPOP 1 b LEFT               => ['b', ['2']]
        LMPOP 2 none b RIGHT COUNT 2 => ['b', ['3', '1']]
        LMPOP 1 none LEFT            => nil*
        LMPOP 2 none s LEFT          => -WRONGTYPE
        LMPOP 2 s b LEFT             => -WRONGTYPE
        LMPOP 2 b s LEFT COUNT 100   => ['b', ['4']]
        LMPOP 0 b LEFT               => -ERR numkeys should be greater than 0
        LMPOP x b LEFT               => -ERR numkeys should be greater than 0
        LMPOP 2 b LEFT               => -ERR syntax error
        LMPOP 1 b NEAR               => -ERR syntax error
        LMPOP 1 b LEFT COUNT 0       => -ERR count should be greater than 0
        LMPOP 1 b LEFT COUNT x       => -ERR count should be greater than 0
        LMPOP 1 b LEFT COUNT         => -ERR syntax error
        LMPOP 1 b LEFT COUNT 1 COUNT 1 => -ERR syntax error
        LMPOP 1 b LEFT MORE 1        => -ERR syntax error
        ",
    );
}

#[test]
fn other_types_are_refused() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("SET s v", "+OK");
    c.expect("RPUSH l a", ":1");
    for line in [
        "LPUSH s a",
        "RPUSH s a",
        "LPUSHX s a",
        "RPUSHX s a",
        "LPOP s",
        "RPOP s 1",
        "LPOP s 0",
        "LLEN s",
        "LRANGE s 0 1",
        "LINDEX s 0",
        "LINDEX s x",
        "LSET s 0 a",
        "LSET s x a",
        "LINSERT s BEFORE a b",
        "LREM s 0 a",
        "LTRIM s 0 1",
        "LPOS s a",
        "GET l",
        "INCR l",
        "APPEND l x",
        "SADD l x",
        "HSET l f v",
    ] {
        c.expect(line, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    }
    // What is wrong with the arguments comes first where Redis looks at them first.
    c.expect("LPOP s -1", "-ERR value is out of range");
    c.expect("LREM s x a", "-ERR value is not an integer");
    c.expect("LPOS s a RANK 0", "-ERR RANK");
    c.expect("LRANGE s x 0", "-ERR value is not an integer");
    c.expect("GET s", "'v'");
    c.expect("LRANGE l 0 -1", "['a']");
}

/// Everything on lists of any length, against a vector.
#[test]
fn long_lists() {
    let server = Server::start();
    let mut c = server.client();
    for len in [100, 1000, 1001, 40_000] {
        let mut model = numbered(0..len);
        c.run("DEL l");
        fill(&mut c, "l", &model);
        assert_eq!(texts(&c.run("LRANGE l 0 -1")), model, "{len}");
        assert_eq!(texts(&c.run("LRANGE l 7 -9")), model[7..=len - 9]);
        for index in [0, 1, len / 2, len - 1] {
            assert_eq!(c.run(&format!("LINDEX l {index}")).text(), model[index]);
            assert_eq!(c.run(&format!("LPOS l element:{index}")).int(), count(index));
            assert_eq!(c.run(&format!("LPOS l element:{index} RANK -1")).int(), count(index));
        }
        c.expect("LPOS l none", "nil");
        c.expect("LPOS l none COUNT 0", "[]");
        c.expect("LINSERT l BEFORE none x", ":-1");
        let pivot = len - 3;
        c.expect(&format!("LINSERT l AFTER element:{pivot} x"), &format!(":{}", len + 1));
        model.insert(pivot + 1, "x".into());
        c.expect(&format!("LINSERT l BEFORE element:{pivot} x"), &format!(":{}", len + 2));
        model.insert(pivot, "x".into());
        c.run("LSET l 1 x");
        model[1] = "x".into();
        let places: Vec<i64> = (0..).zip(&model).filter(|(_, element)| *element == "x").map(|(i, _)| i).collect();
        let all = Reply::Array(places.iter().map(|place| Reply::Int(*place)).collect());
        assert_eq!(c.run("LPOS l x COUNT 0"), all);
        assert_eq!(c.run("LPOS l x RANK -1 COUNT 1"), Reply::Array(vec![Reply::Int(places[2])]));
        assert_eq!(c.run("LPOS l x RANK 3"), Reply::Int(places[2]));
        c.expect("LREM l -1 x", ":1");
        model.remove(pivot + 2);
        c.expect("LREM l 0 none", ":0");
        assert_eq!(texts(&c.run("LRANGE l 0 -1")), model);
        c.expect("LREM l 0 x", ":2");
        model.retain(|element| element != "x");
        assert_eq!(texts(&c.run("LRANGE l 0 -1")), model);
        // Many at once, from both ends.
        let many = len / 3;
        let front: Vec<String> = model.drain(..many).collect();
        assert_eq!(texts(&c.run(&format!("LPOP l {many}"))), front);
        let back: Vec<String> = model.drain(model.len() - many..).rev().collect();
        assert_eq!(texts(&c.run(&format!("RPOP l {many}"))), back);
        assert_eq!(texts(&c.run("LRANGE l 0 -1")), model);
        c.expect("LTRIM l 3 -4", "+OK");
        let rest = model[3..model.len() - 3].to_vec();
        let reply = c.run("LMPOP 2 none l LEFT COUNT 1000000");
        assert_eq!(texts(&reply.items()[1]), rest);
        c.expect("EXISTS l", ":0");
    }
}

/// LREM of very many, in slices, is one step to everybody; the deadline of the key stays.
#[test]
fn a_long_removal_is_one_step() {
    for server in crate::control::servers(&[]) {
        let (mut c, mut other) = (server.client(), server.client());
        let half = 60_000;
        let elements: Vec<String> = (0..2 * half).map(|n| ["keep", "drop"][n % 2].to_string()).collect();
        fill(&mut c, "l", &elements);
        c.expect("PEXPIREAT l 9999999999999", ":1");
        c.send(&request(&["LREM", "l", "0", "drop"]));
        c.send(&request(&["LPOS", "l", "drop"]));
        let mut seen = Vec::new();
        while seen.last() != Some(&half) {
            seen.push(usize::try_from(other.run("LLEN l").int()).unwrap());
        }
        assert!(seen.iter().all(|len| [half, 2 * half].contains(len)), "{seen:?}");
        assert_eq!(c.read(), Reply::Int(count(half)));
        assert_eq!(c.read(), Reply::NilBulk);
        c.expect("PEXPIRETIME l", ":9999999999999");
        c.expect(&format!("LREM l -{half} keep"), &format!(":{half}"));
        c.expect("EXISTS l", ":0");
        // Within a transaction, too.
        fill(&mut c, "l", &elements);
        c.expect("MULTI", "+OK");
        for line in ["LREM l 0 keep", "LINSERT l AFTER none x", "LPOS l none COUNT 0", "LPOP l 50000", "LLEN l"] {
            c.expect(line, "+QUEUED");
        }
        let replies = c.run("EXEC");
        assert_eq!(replies.items()[0], Reply::Int(count(half)));
        assert_eq!(replies.items()[3].items().len(), 50_000);
        assert_eq!(replies.items()[4], Reply::Int(count(half) - 50_000));
    }
}

/// What a long reply tells is the list as it was, whatever is done to it meanwhile.
#[test]
fn a_slow_reader_gets_what_was_there() {
    let server = Server::start();
    let (mut slow, mut c) = (server.client(), server.client());
    // More than the kernel takes.
    let all = numbered(0..700_000);
    fill(&mut c, "l", &all);
    slow.send(&request(&["LRANGE", "l", "0", "-1"]));
    slow.send(&request(&["LPOP", "l", "100000"]));
    eventually("the reply has begun", || c.info_number("total_net_output_bytes") > 500_000);
    c.expect("LSET l -1 other", "+OK");
    c.expect("LINSERT l BEFORE element:199990 other", ":700001");
    c.expect("LREM l 0 element:100", ":1");
    assert_eq!(texts(&slow.read()), all);
    // The second command runs when the first is read.
    let popped = texts(&slow.read());
    assert_eq!((popped.len(), &popped[99], &popped[100]), (100_000, &all[99], &all[101]));
    c.expect("LLEN l", ":600000");
    c.expect("LINDEX l -1", "'other'");
}

#[test]
fn elements_of_any_length() {
    let server = Server::start();
    let mut c = server.client();
    let sizes = [0, 1, 56, 57, 191, 192, 512, 1024, 2000, 4100, 16_000, 16_380, 65_535, 65_536, 300_000, 2_000_000];
    let element = |size: usize| "e".repeat(size);
    let lengths = |reply: &Reply| reply.items().iter().map(|element| element.bytes().len()).collect::<Vec<_>>();
    for size in sizes {
        c.call(&["RPUSH", "l", &element(size)]);
    }
    assert_eq!(lengths(&c.run("LRANGE l 0 -1")), sizes);
    for (index, size) in sizes.iter().enumerate() {
        assert_eq!(c.call(&["LINDEX", "l", &index.to_string()]).bytes().len(), *size);
        assert_eq!(c.call(&["LPOS", "l", &element(*size)]), Reply::Int(count(index)));
    }
    for size in &sizes {
        assert_eq!(c.run("LMOVE l m LEFT RIGHT").bytes().len(), *size);
        c.call(&["RPUSH", "l", &element(*size)]);
    }
    assert_eq!(lengths(&c.run("LRANGE m 0 -1")), sizes);
    assert_eq!(lengths(&c.run("LPOP m 100")), sizes);
    for size in sizes {
        assert_eq!(c.call(&["LREM", "l", "0", &element(size)]), Reply::Int(1));
    }
    c.expect("EXISTS l", ":0");
    for size in sizes.iter().rev() {
        c.call(&["LPUSH", "l", &element(*size)]);
    }
    for size in sizes {
        assert_eq!(c.run("LPOP l").bytes().len(), size);
    }
    c.expect("EXISTS l", ":0");
}

/// A watched list is changed by what changes it, and by LTRIM in any case, as in Redis.
#[test]
fn changes_are_seen_by_watchers() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    for (line, changes) in [
        ("RPUSH l x", true),
        ("LPUSHX none x", false),
        ("LPOP l", true),
        ("LPOP l 0", false),
        ("LSET l 0 same", true),
        ("LINSERT l BEFORE none x", false),
        ("LINSERT l BEFORE b x", true),
        ("LREM l 0 none", false),
        ("LREM l 0 c", true),
        ("LTRIM l 0 -1", true),
        ("LMOVE l m LEFT LEFT", true),
        ("LMOVE m l LEFT LEFT", true),
        ("LMPOP 1 l LEFT", true),
        ("LRANGE l 0 -1", false),
    ] {
        other.run("DEL l m");
        other.run("RPUSH l a b c");
        other.run("RPUSH m a b c");
        c.expect("WATCH l", "+OK");
        other.run(line);
        c.expect("MULTI", "+OK");
        c.expect("EXEC", if changes { "nil*" } else { "[]" });
    }
}

/// How many changes are counted, as `redis-server` counts them.
#[test]
fn changes_are_counted() {
    let server = Server::start();
    let mut c = server.client();
    let field = if server.is_redis() { "rdb_changes_since_last_save" } else { "keyspace_changes" };
    for (line, changes) in [
        ("RPUSH l a b c d e f", 6),
        ("LPUSH l a b", 2),
        ("LPOP l", 1),
        ("RPOP l 2", 2),
        ("LPOP l 0", 0),
        ("LSET l 0 x", 1),
        ("LINSERT l BEFORE x a", 1),
        ("LREM l 0 a", 2),
        ("LTRIM l 0 -1", 0),
        ("LTRIM l 1 -2", 2),
        ("LMOVE l m LEFT LEFT", 1),
        ("RPUSH l a b c", 3),
        ("LMPOP 1 l LEFT COUNT 2", 2),
        ("BLPOP l 0", 1),
    ] {
        let before = c.info_number(field);
        assert!(!c.run(line).is_error(), "{line}");
        assert_eq!(c.info_number(field) - before, changes, "{line}");
    }
}
