//! SORT and SORT_RO. Expectations with ALPHA hold where texts are ordered by bytes, as in the locale C.

use crate::harness::{Client, Reply, Server, eventually, request, script};

/// RPUSH, SADD or the like of many elements, a thousand a command.
fn add(c: &mut Client, command: &str, key: &str, elements: &[String]) {
    for chunk in elements.chunks(1000) {
        let words: Vec<&str> = [command, key].into_iter().chain(chunk.iter().map(String::as_str)).collect();
        assert!(!c.call(&words).is_error());
    }
}

fn texts(reply: &Reply) -> Vec<String> {
    reply.items().iter().map(Reply::text).collect()
}

/// Numbers from 0 in an order that nobody would guess.
fn shuffled(count: usize) -> Vec<String> {
    (0..count).map(|n| (n * 7919 % count).to_string()).collect()
}

#[test]
fn order_limits_and_patterns() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        RPUSH l 3 1 10 2         => :4
        SORT l                   => ['1', '2', '3', '10']
        SORT l DESC              => ['10', '3', '2', '1']
        SORT l DESC ASC          => ['1', '2', '3', '10']
        SORT l ALPHA             => ['1', '10', '2', '3']
        SORT_RO l ALPHA DESC     => ['3', '2', '10', '1']
        SORT l LIMIT 1 2         => ['2', '3']
        SORT l LIMIT 3 -1        => ['10']
        SORT l LIMIT -5 2        => ['1', '2']
        SORT l LIMIT 4 1         => []
        SORT l BY nosort         => ['3', '1', '10', '2']
        SORT l BY nosort DESC LIMIT 1 2 => ['10', '1']
        SORT none                => []
        SORT none STORE d        => :0
        MSET w_1 40 w_2 30 w_3 20 => +OK
        SORT l BY w_*            => ['10', '3', '2', '1']
        SORT l BY w_* GET w_* GET # => [nil, '10', '20', '3', '30', '2', '40', '1']
        SORT l BY w_* GET w_* LIMIT 2 2 => ['30', '40']
        HSET h_1 f b g 1         => :2
        HSET h_2 f a             => :1
        HSET h_3 f c             => :1
        SORT l BY h_*->f ALPHA   => ['10', '2', '1', '3']
        SORT l BY h_*->f         => -ERR One or more scores can't be converted into double
        SORT l BY nosort GET h_*->f GET h_*->g GET w_*->f => ['c', nil, nil, 'b', '1', nil, nil, nil, nil, 'a', nil, nil]
        SORT l GET none          => [nil, nil, nil, nil]
        SORT l GET h_*           => [nil, nil, nil, nil]
        SORT_RO l STORE d        => -ERR syntax error
        SORT l LIMIT 1           => -ERR syntax error
        SORT l LIMIT a 1         => -ERR value is not an integer
        SORT l NOSUCH            => -ERR syntax error
        SORT h_1                 => -WRONGTYPE
        SORT w_1                 => -WRONGTYPE
        SADD s b 2 a             => :3
        SORT s                   => -ERR One or more scores can't be converted into double
        SORT s ALPHA             => ['2', 'a', 'b']
        ZADD z 1 30 2 20 3 10    => :3
        SORT z                   => ['10', '20', '30']
        SORT z BY nosort         => ['30', '20', '10']
        SORT z BY nosort DESC LIMIT 0 2 => ['10', '20']
        ",
    );
}

#[test]
fn results_are_stored_as_lists() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET d s EX 100           => +OK
        SORT none STORE d        => :0
        EXISTS d                 => :0
        RPUSH l 2 1 3            => :3
        MSET w_1 30 w_2 20 w_3 10 => +OK
        SORT l BY w_* GET # GET w_* => ['3', '10', '2', '20', '1', '30']
        SET d s EX 100           => +OK
        SORT l BY w_* GET # GET none_* STORE d => :6
        LRANGE d 0 -1            => ['3', '', '2', '', '1', '']
        TTL d                    => :-1
        SORT l STORE l           => :3
        LRANGE l 0 -1            => ['1', '2', '3']
        SORT l LIMIT 5 1 STORE d => :0
        EXISTS d                 => :0
        SADD s c a b             => :3
        SORT s BY nosort STORE d => :3
        LRANGE d 0 -1            => ['a', 'b', 'c']
        SORT s STORE d           => -ERR One or more scores can't be converted into double
        LRANGE d 0 -1            => ['a', 'b', 'c']
        SORT l STORE a STORE d   => :3
        EXISTS a                 => :0
        MULTI                    => +OK
        SORT l DESC STORE d      => +QUEUED
        SORT d                   => +QUEUED
        EXEC                     => [:3, ['1', '2', '3']]
        COMMAND GETKEYS SORT l BY store LIMIT store 1 STORE a GET store STORE d => ['l', 'd']
        ",
    );
    let mut listener = server.client();
    listener.expect("CONFIG SET notify-keyspace-events KA", "+OK");
    listener.expect("PSUBSCRIBE *", "['psubscribe', '*', :1]");
    c.expect("SORT l STORE e", ":3");
    c.expect("SORT none STORE e", ":0");
    for event in ["sortstore", "del"] {
        let told = listener.read();
        assert_eq!((told.items()[2].text(), told.items()[3].text()), ("__keyspace@0__:e".into(), event.into()));
    }
}

#[test]
fn who_waits_for_the_destination_is_served() {
    let server = Server::start();
    let (mut c, mut waits) = (server.client(), server.client());
    for count in [3, 5000] {
        add(&mut c, "RPUSH", "l", &shuffled(count));
        waits.send(&request(&["BLMPOP", "0", "1", "d", "LEFT", "COUNT", "2"]));
        eventually("it waits", || c.info_number("blocked_clients") == 1);
        assert_eq!(c.run("SORT l STORE d"), Reply::Int(i64::try_from(count).unwrap()));
        assert_eq!(texts(&waits.read().items()[1]), ["0", "1"]);
        assert_eq!(c.run("LLEN d"), Reply::Int(i64::try_from(count - 2).unwrap()));
        c.run("DEL l d");
    }
}

/// What is large is sorted in slices, to the same results.
#[test]
fn large_collections() {
    let server = Server::start();
    let mut c = server.client();
    const COUNT: usize = 20_000;
    let numbers = shuffled(COUNT);
    add(&mut c, "RPUSH", "l", &numbers);
    add(&mut c, "SADD", "s", &numbers);
    let scored: Vec<String> = numbers.iter().flat_map(|n| ["1".to_owned(), n.clone()]).collect();
    add(&mut c, "ZADD", "z", &scored);
    let weights: Vec<String> = (0..COUNT).flat_map(|n| [format!("w_{n}"), format!("{}.5", COUNT - n)]).collect();
    for chunk in weights.chunks(1000) {
        let words: Vec<&str> = ["MSET"].into_iter().chain(chunk.iter().map(String::as_str)).collect();
        c.call(&words);
    }
    let up: Vec<String> = (0..COUNT).map(|n| n.to_string()).collect();
    let down: Vec<String> = up.iter().rev().cloned().collect();
    let mut by_text = up.clone();
    by_text.sort();
    for key in ["l", "s", "z"] {
        assert_eq!(texts(&c.run(&format!("SORT {key}"))), up, "{key}");
        assert_eq!(texts(&c.run(&format!("SORT {key} DESC LIMIT 100 50"))), down[100..150], "{key}");
        assert_eq!(texts(&c.run(&format!("SORT {key} ALPHA"))), by_text, "{key}");
        assert_eq!(texts(&c.run(&format!("SORT {key} BY w_*"))), down, "{key}");
        assert_eq!(c.run(&format!("SORT {key} BY w_* GET # GET w_* STORE d")).int(), 2 * 20_000, "{key}");
        assert_eq!(texts(&c.run("LRANGE d 0 3")), ["19999", "1.5", "19998", "2.5"]);
        let with = texts(&c.run(&format!("SORT {key} BY w_* GET w_* GET #")));
        assert_eq!((with.len(), &with[0], &with[2 * COUNT - 2]), (2 * COUNT, &"1.5".to_owned(), &"20000.5".to_owned()));
    }
    assert_eq!(texts(&c.run("SORT l BY nosort")), numbers);
    assert_eq!(texts(&c.run("SORT l BY nosort DESC LIMIT 3000 2000")), {
        let mut turned = numbers.clone();
        turned.reverse();
        turned[3000..5000].to_vec()
    });
    c.expect("SADD s x", ":1");
    c.expect("SORT s", "-ERR One or more scores");
    c.expect("SORT s BY nosort LIMIT 20000 10 STORE d", ":1");
    c.expect("LRANGE d 0 -1", "['x']");
    // All of it within EXEC, too.
    let replies = c.pipeline(&["MULTI", "SORT l BY w_* GET # LIMIT 0 1", "SORT l STORE d", "LLEN d", "EXEC"]);
    assert_eq!(replies[4].to_string(), "[['19999'], :20000, :20000]");
}

/// A stored result is what was there at one instant, of the elements and of the keys that they name, and others see it as a whole.
#[test]
fn writers_meanwhile_change_nothing() {
    let server = Server::start();
    let (mut c, mut other) = (server.client(), server.client());
    const COUNT: usize = 30_000;
    add(&mut c, "RPUSH", "l", &shuffled(COUNT));
    let weights: Vec<String> = (0..COUNT).flat_map(|n| [format!("w_{n}"), "0".to_owned()]).collect();
    for chunk in weights.chunks(1000) {
        let words: Vec<&str> = ["MSET"].into_iter().chain(chunk.iter().map(String::as_str)).collect();
        c.call(&words);
    }
    c.send(&request(&["SORT", "l", "BY", "nosort", "GET", "w_*", "STORE", "d"]));
    // One weight after the other is changed, from the first element on, while the sort goes on somewhere.
    let order = shuffled(COUNT);
    for name in &order[..3000] {
        other.expect(&format!("SET w_{name} 1"), "+OK");
    }
    assert_eq!(c.read(), Reply::Int(i64::try_from(COUNT).unwrap()));
    let seen = texts(&c.run("LRANGE d 0 -1"));
    let changed = seen.iter().take_while(|weight| *weight == "1").count();
    assert!(seen[changed..].iter().all(|weight| weight == "0"), "a later change is seen, an earlier one is not");
}

/// Who sorts and does not read, or leaves, costs nobody anything.
#[test]
fn a_reader_that_stops() {
    let server = Server::start();
    let (mut slow, mut c) = (server.client(), server.client());
    let all: Vec<String> = (0..100_000).map(|n| format!("{:0>40}", n * 7919 % 100_000)).collect();
    add(&mut c, "RPUSH", "l", &all);
    slow.send(&request(&["SORT", "l"]));
    eventually("the reply has begun", || c.info_number("total_net_output_bytes") > 500_000);
    c.expect("DEL l", ":1");
    c.expect("RPUSH l 1", ":1");
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(texts(&slow.read()), sorted);
    // One that goes away in the middle holds no names for longer.
    add(&mut c, "RPUSH", "l", &all);
    slow.send(&request(&["SORT", "l", "BY", "w_*", "GET", "w_*", "GET", "#"]));
    drop(slow);
    c.expect("SET w_1 x", "+OK");
    c.expect("DEL l", ":1");
    eventually("its memory is given back", || c.info_number("mem_clients_normal") < 1 << 20);
}

#[test]
fn locales_are_checked() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        CONFIG SET locale-collate no-such_PLACE => -ERR CONFIG SET failed (possibly related to argument 'locale-collate') - Invalid locale name
        CONFIG SET locale-collate C => +OK
        CONFIG GET locale-collate => ['locale-collate', 'C']
        RPUSH l b A a B          => :4
        SORT l ALPHA             => ['A', 'B', 'a', 'b']
        CONFIG SET locale-collate '' => +OK
        ",
    );
}
