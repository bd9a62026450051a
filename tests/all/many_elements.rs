//! Requests that name tens of thousands of elements of one key: they go on in slices, and are one step to everybody.

use crate::harness::{Client, Reply, Server, eventually, request};

const COUNT: usize = 40_000;

fn words(command: &str, key: &str, elements: impl Iterator<Item = String>) -> Vec<String> {
    [command.to_owned(), key.to_owned()].into_iter().chain(elements).collect()
}

fn pairs(from: usize) -> impl Iterator<Item = String> {
    (from..COUNT).flat_map(|n| [format!("field:{n}"), n.to_string()])
}

fn scored() -> impl Iterator<Item = String> {
    (0..COUNT).flat_map(|n| [n.to_string(), format!("field:{n}")])
}

fn names() -> impl Iterator<Item = String> {
    (0..COUNT).map(|n| format!("field:{n}"))
}

/// Sends a request, and until it is answered asks for a size: only these two are ever seen, the second last.
fn seen_as_one(
    server: &Server,
    c: &mut Client,
    other: &mut Client,
    words: &[String],
    size: &str,
    sizes: [usize; 2],
) -> Reply {
    c.send(&request(words));
    let sizes = sizes.map(|size| Reply::Int(i64::try_from(size).unwrap()));
    let mut after = false;
    for _ in 0..300 {
        let seen = other.run(size);
        assert!(seen == sizes[1] || seen == sizes[0] && !after, "{}: {seen}", words[0]);
        after |= seen == sizes[1] && sizes[0] != sizes[1];
    }
    let reply = c.read();
    assert_eq!(other.run(size), sizes[1], "{} on {}", words[0], server.pid());
    reply
}

#[test]
fn each_is_one_step() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    let all = Reply::Int(i64::try_from(COUNT).unwrap());
    let mut run = |words: Vec<String>, size: &str, sizes: [usize; 2]| {
        seen_as_one(&server, &mut c, &mut other, &words, size, sizes)
    };
    assert_eq!(run(words("HSET", "h", pairs(0)), "HLEN h", [0, COUNT]), all);
    assert_eq!(run(words("HSET", "h", pairs(0)), "HLEN h", [COUNT, COUNT]), Reply::Int(0));
    assert_eq!(run(words("HMSET", "h2", pairs(0)), "HLEN h2", [0, COUNT]).to_string(), "+OK");
    let got = run(words("HMGET", "h", names().chain(["none".to_owned()])), "HLEN h", [COUNT, COUNT]);
    assert_eq!(
        (got.items().len(), got.items()[777].text(), got.items()[COUNT].clone()),
        (COUNT + 1, "777".into(), Reply::NilBulk)
    );
    assert_eq!(run(words("HDEL", "h", names().skip(10)), "HLEN h", [COUNT, 10]), Reply::Int(39_990));
    assert_eq!(run(words("HDEL", "h", names()), "EXISTS h", [1, 0]), Reply::Int(10));

    assert_eq!(run(words("SADD", "s", names()), "SCARD s", [0, COUNT]), all);
    assert_eq!(run(words("SADD", "s", names()), "SCARD s", [COUNT, COUNT]), Reply::Int(0));
    let got = run(words("SMISMEMBER", "s", names().chain(["none".to_owned()])), "SCARD s", [COUNT, COUNT]);
    assert_eq!((got.items().len(), got.items()[777].int(), got.items()[COUNT].int()), (COUNT + 1, 1, 0));
    assert_eq!(run(words("SREM", "s", names().take(COUNT / 2)), "SCARD s", [COUNT, COUNT / 2]), Reply::Int(20_000));
    assert_eq!(run(words("SREM", "s", names()), "EXISTS s", [1, 0]), Reply::Int(20_000));

    assert_eq!(run(words("ZADD", "z", scored()), "ZCARD z", [0, COUNT]), all);
    assert_eq!(
        run(
            words(
                "ZADD",
                "z",
                ["XX".to_owned(), "CH".to_owned()]
                    .into_iter()
                    .chain((0..COUNT).flat_map(|n| ["5".to_owned(), format!("field:{n}")]))
            ),
            "ZCARD z",
            [COUNT, COUNT]
        ),
        Reply::Int(39_999)
    );
    let got = run(words("ZMSCORE", "z", names().chain(["none".to_owned()])), "ZCARD z", [COUNT, COUNT]);
    assert_eq!(
        (got.items().len(), got.items()[777].text(), got.items()[COUNT].clone()),
        (COUNT + 1, "5".into(), Reply::NilBulk)
    );
    assert_eq!(run(words("ZREM", "z", names()), "EXISTS z", [1, 0]), all);

    assert_eq!(run(words("RPUSHX", "l", names()), "LLEN l", [0, 0]), Reply::Int(0));
    assert_eq!(run(words("RPUSH", "l", names()), "LLEN l", [0, COUNT]), all);
    assert_eq!(run(words("LPUSHX", "l", names()), "LLEN l", [COUNT, 2 * COUNT]), Reply::Int(80_000));
    assert_eq!(run(words("LPUSH", "l2", names()), "LLEN l2", [0, COUNT]), all);
    c.expect("LRANGE l 39998 40001", "['field:1', 'field:0', 'field:0', 'field:1']");
    c.expect("LINDEX l2 0", "'field:39999'");
}

/// Commands about the deadlines of very many fields, as one step; and with the answer of each.
#[test]
fn deadlines_of_many_fields() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let (mut c, mut other) = (server.client(), server.client());
    let number = COUNT.to_string();
    let with = |words: &str, fields: Vec<String>| -> Vec<String> {
        words.split(' ').map(str::to_owned).chain(fields).collect()
    };
    let fields = || names().chain(["none".to_owned()]).collect::<Vec<_>>();
    let more = (COUNT + 1).to_string();
    let answers = |reply: &Reply, of_fields: i64, of_none: i64| {
        assert_eq!(reply.items().len(), COUNT + 1);
        let (last, all) = reply.items().split_last().expect("some");
        assert!(all.iter().all(|answer| answer.int() == of_fields), "{}", all[0]);
        assert_eq!(last.int(), of_none);
    };
    let mut run = |words: Vec<String>, size: &str, sizes: [usize; 2]| {
        seen_as_one(&server, &mut c, &mut other, &words, size, sizes)
    };
    let all_pairs = || pairs(0).collect::<Vec<_>>();
    // Nothing is there, so nothing is set; then all of it; then nothing, as some are there.
    let refused = run(with(&format!("HSETEX h FXX EX 100 FIELDS {number}"), all_pairs()), "HLEN h", [0, 0]);
    assert_eq!(refused, Reply::Int(0));
    let set = run(with(&format!("HSETEX h FNX EX 100 FIELDS {number}"), all_pairs()), "HLEN h", [0, COUNT]);
    assert_eq!(set, Reply::Int(1));
    let refused = run(with(&format!("HSETEX h FNX FIELDS {number}"), all_pairs()), "HLEN h", [COUNT, COUNT]);
    assert_eq!(refused, Reply::Int(0));
    for (command, at_least, at_most) in [("HTTL", 50, 100), ("HPTTL", 50_000, 100_000)] {
        let told = run(with(&format!("{command} h FIELDS {more}"), fields()), "HLEN h", [COUNT, COUNT]);
        let (last, all) = told.items().split_last().expect("some");
        assert!(all.iter().all(|answer| (at_least..=at_most).contains(&answer.int())), "{}", all[0]);
        assert_eq!(last.int(), -2);
    }
    let answered =
        run(with(&format!("HPEXPIREAT h 5000000000000 GT FIELDS {more}"), fields()), "HLEN h", [COUNT, COUNT]);
    answers(&answered, 1, -2);
    answers(&run(with(&format!("HEXPIRETIME h FIELDS {more}"), fields()), "HLEN h", [COUNT, COUNT]), 5_000_000_000, -2);
    answers(&run(with(&format!("HEXPIRE h 10 GT FIELDS {more}"), fields()), "HLEN h", [COUNT, COUNT]), 0, -2);
    answers(&run(with(&format!("HPERSIST h FIELDS {more}"), fields()), "HLEN h", [COUNT, COUNT]), 1, -2);
    answers(&run(with(&format!("HPERSIST h FIELDS {more}"), fields()), "HLEN h", [COUNT, COUNT]), -1, -2);
    let got = run(with(&format!("HGETEX h PX 100000000 FIELDS {more}"), fields()), "HLEN h", [COUNT, COUNT]);
    assert_eq!((got.items()[777].text(), got.items()[COUNT].clone()), ("777".into(), Reply::NilBulk));
    // A deadline that is over takes them along; so does HGETDEL.
    let half: Vec<String> = names().take(COUNT / 2).collect();
    let gone = run(with(&format!("HEXPIREAT h 1 FIELDS {}", COUNT / 2), half), "HLEN h", [COUNT, COUNT / 2]);
    assert!(gone.items().len() == COUNT / 2 && gone.items().iter().all(|answer| answer.int() == 2));
    let got = run(with(&format!("HGETDEL h FIELDS {more}"), fields()), "EXISTS h", [1, 0]);
    assert_eq!((got.items()[0].clone(), got.items()[COUNT - 1].text()), (Reply::NilBulk, (COUNT - 1).to_string()));
    answers(&run(with(&format!("HEXPIRE h 100 FIELDS {more}"), fields()), "EXISTS h", [0, 0]), -2, -2);
    // What is wrong.
    let mut wrong = |words: &str, count: usize, error: &str| {
        let words = with(words, names().take(count).collect());
        let reply = c.call(&words).to_string();
        assert!(reply.starts_with(error), "{reply}");
    };
    other.expect("SET text v", "+OK");
    wrong("HEXPIRE h 100 FIELDS 5", COUNT, "-ERR The `numfields` parameter must match");
    wrong("HEXPIRE h x FIELDS 40000", COUNT, "-ERR value is not an integer");
    wrong("HEXPIRE h 100 40000", COUNT, "-ERR Mandatory argument FIELDS");
    wrong("HTTL text FIELDS 40000", COUNT, "-WRONGTYPE");
    wrong("HPERSIST text FIELDS 40000", COUNT, "-WRONGTYPE");
    wrong("HSETEX h FIELDS 20000", COUNT - 1, "-ERR wrong number of arguments");
    wrong("HSETEX text FIELDS 20000", COUNT, "-WRONGTYPE");
}

#[test]
fn what_is_wrong_changes_nothing() {
    let server = Server::start();
    let mut c = server.client();
    let mut wrong = words("ZADD", "z", scored());
    let last = wrong.len() - 2;
    wrong[last] = "x".to_owned();
    assert_eq!(c.call(&wrong).to_string(), "-ERR value is not a valid float");
    wrong.pop();
    assert_eq!(c.call(&wrong).to_string(), "-ERR syntax error");
    let mut wrong = words("HSET", "z", pairs(0));
    wrong.pop();
    assert_eq!(c.call(&wrong).to_string(), "-ERR wrong number of arguments for 'hset' command");
    c.expect("EXISTS z", ":0");
    c.expect("SET z v", "+OK");
    for command in ["SADD", "SREM", "SMISMEMBER", "HMGET", "HDEL", "HSET", "LPUSH", "RPUSHX", "ZREM", "ZMSCORE"] {
        assert!(c.call(&words(command, "z", pairs(0))).to_string().starts_with("-WRONGTYPE"), "{command}");
    }
    assert!(c.call(&words("ZADD", "z", scored())).to_string().starts_with("-WRONGTYPE"));
    c.expect("GET z", "'v'");
}

#[test]
fn others_are_told_once() {
    let server = Server::start();
    let (mut c, mut listener, mut waits, mut watches) =
        (server.client(), server.client(), server.client(), server.client());
    c.expect("CONFIG SET notify-keyspace-events KA", "+OK");
    listener.expect("PSUBSCRIBE *", "['psubscribe', '*', :1]");
    waits.send(&request(&["BLMPOP", "0", "1", "l", "LEFT", "COUNT", "3"]));
    eventually("it waits", || c.info_number("blocked_clients") == 1);
    watches.expect("WATCH h", "+OK");
    assert_eq!(c.call(&words("RPUSH", "l", names())).int(), 40_000);
    assert_eq!(waits.read().items()[1].to_string(), "['field:0', 'field:1', 'field:2']");
    c.expect("LLEN l", ":39997");
    assert_eq!(c.call(&words("HSET", "h", pairs(0))).int(), 40_000);
    assert_eq!(watches.pipeline(&["MULTI", "EXEC"])[1], Reply::NilArray);
    for (key, event) in [("l", "rpush"), ("l", "lpop"), ("h", "hset")] {
        let told = listener.read();
        assert_eq!((told.items()[2].text(), told.items()[3].text()), (format!("__keyspace@0__:{key}"), event.into()));
    }
}

/// A client that goes in the middle: all of its change, or nothing.
#[test]
fn who_leaves_has_done_it_or_not() {
    let server = Server::start();
    let mut c = server.client();
    for round in 0..8 {
        let mut leaves = server.client();
        leaves.send(&request(&words("HSET", "h", pairs(0))));
        drop(leaves);
        let key_is_free = Reply::Int(0);
        eventually("it is through or was never begun", || {
            c.run("INFO clients").text().contains("connected_clients:1\r")
        });
        let len = c.run("HLEN h");
        assert!(len == key_is_free || len == Reply::Int(40_000), "round {round}: {len}");
        c.expect("SET free v", "+OK");
        c.run("DEL h");
    }
}

/// Who waits with a large COUNT takes all that is there when it is served, in slices; nobody comes between.
#[test]
fn a_waiter_that_takes_very_many() {
    let server = Server::start();
    let (mut c, mut first, mut second, mut other) =
        (server.client(), server.client(), server.client(), server.client());
    for (wait, push, key_len, read) in [
        ("BLMPOP 0 1 k LEFT COUNT 30000", words("RPUSH", "k", names()), "LLEN k", 1),
        ("BZMPOP 0 1 k MIN COUNT 30000", words("ZADD", "k", scored()), "ZCARD k", 2),
    ] {
        for (waits, clients) in [(&mut first, 1), (&mut second, 2)] {
            waits.send(&request(&crate::harness::words(wait)));
            eventually("it waits", || c.info_number("blocked_clients") == clients);
        }
        c.send(&request(&push));
        // Nothing, or what both have left: nothing.
        for _ in 0..200 {
            assert_eq!(other.run(key_len), Reply::Int(0));
        }
        assert_eq!(c.read(), Reply::Int(40_000));
        let mut taken = Vec::new();
        for (waits, count) in [(&mut first, 30_000), (&mut second, 10_000)] {
            let reply = waits.read();
            let elements = reply.items()[1].items();
            assert_eq!((reply.items()[0].text(), elements.len()), ("k".to_owned(), count));
            taken.extend(elements.iter().map(|e| if read == 1 { e.text() } else { e.items()[0].text() }));
        }
        assert!(taken.iter().eq(names().collect::<Vec<_>>().iter()), "in order, each once");
        other.expect("EXISTS k", ":0");
    }
    // One that has gone by the time: the next has it.
    for round in 0..10 {
        let mut leaves = server.client();
        leaves.send(&request(&["BLMPOP", "0", "1", "k", "LEFT", "COUNT", "1000"]));
        eventually("it waits", || c.info_number("blocked_clients") == 1);
        second.send(&request(&["BLMPOP", "0", "1", "k", "LEFT", "COUNT", "100000"]));
        eventually("it waits", || c.info_number("blocked_clients") == 2);
        let push = words("RPUSH", "k", names().take(3000));
        if round % 2 == 0 {
            c.send(&request(&push));
            drop(leaves);
            c.read();
        } else {
            drop(leaves);
            c.call(&push);
        }
        let count = second.read().items()[1].items().len();
        assert!(count == 2000 || count == 3000, "{count}");
        c.expect("EXISTS k", ":0");
    }
}
