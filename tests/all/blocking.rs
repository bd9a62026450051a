//! Commands that wait for a list: BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP, with one worker and with several.

use std::time::{Duration, Instant};

use crate::control::servers;
use crate::harness::{Client, Reply, Server, eventually, request, script, words};

/// Sends a command that waits, and returns when it does.
fn block(client: &mut Client, witness: &mut Client, line: &str) {
    let before = witness.info_number("blocked_clients");
    client.send(&request(&words(line)));
    eventually("the client waits", || witness.info_number("blocked_clients") == before + 1);
}

fn shows(client: &mut Client, expected: &str) {
    assert_eq!(client.read().to_string(), expected);
}

/// Nobody waits any more, and the server has nothing left of those who did.
fn nobody_waits(witness: &mut Client) {
    eventually("nobody waits", || witness.info_number("blocked_clients") == 0);
}

#[test]
fn what_is_there_is_taken_at_once() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        RPUSH l a b c d e f          => :6
        BLPOP l 0                    => ['l', 'a']
        BRPOP none l 0               => ['l', 'f']
        BLMOVE l m LEFT RIGHT 0      => 'b'
        BRPOPLPUSH l m 0             => 'e'
        LRANGE m 0 -1                => ['e', 'b']
        BLMPOP 0 2 none m RIGHT      => ['m', ['b']]
        BLMPOP 0 2 none l LEFT COUNT 5 => ['l', ['c', 'd']]
        EXISTS l                     => :0
        BLPOP l m 0                  => ['m', 'e']
        SET s v                      => +OK
        BLPOP s 0                    => -WRONGTYPE
        BLPOP none s 0               => -WRONGTYPE
        BLMPOP 0 2 none s LEFT       => -WRONGTYPE
        BLMOVE s m LEFT LEFT 0       => -WRONGTYPE
        RPUSH l a                    => :1
        BLMOVE l s LEFT LEFT 0       => -WRONGTYPE
        BRPOPLPUSH l s 0             => -WRONGTYPE
        LRANGE l 0 -1                => ['a']
        BLPOP l s 0                  => ['l', 'a']
        ",
    );
}

#[test]
fn arguments() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        BLPOP l x                    => -ERR timeout is not a float or out of range
        BLPOP l nan                  => -ERR timeout is not a float or out of range
        BLPOP l -1                   => -ERR timeout is negative
        BRPOP l -0.5                 => -ERR timeout is negative
        # 7.0 lets it overflow, and says that it is negative.
        dolmen> BLPOP l inf          => -ERR timeout is out of range
        dolmen> BLPOP l 1e300        => -ERR timeout is out of range
        BLPOP l                      => -ERR wrong number of arguments for 'blpop' command
        BLMOVE l m NEAR LEFT x       => -ERR syntax error
        BLMOVE l m LEFT LEFT x       => -ERR timeout is not a float or out of range
        BLMOVE l m LEFT LEFT         => -ERR wrong number of arguments for 'blmove' command
        BRPOPLPUSH l m x             => -ERR timeout is not a float or out of range
        BLMPOP x 0 l LEFT            => -ERR numkeys should be greater than 0
        BLMPOP x 1 l LEFT            => -ERR timeout is not a float or out of range
        BLMPOP -1 1 l LEFT           => -ERR timeout is negative
        BLMPOP 0 1 l NEAR            => -ERR syntax error
        BLMPOP 0 2 l LEFT            => -ERR syntax error
        BLMPOP 0 1 l LEFT COUNT 0    => -ERR count should be greater than 0
        RPUSH l a                    => :1
        BLPOP l 922337203685477      => ['l', 'a']
        ",
    );
}

/// Row 21 of the collection of bug reports (rd#11687), and the nulls of each command.
#[test]
fn time_outs() {
    let server = Server::start();
    let (mut c, mut c3) = (server.client(), server.client3());
    let lines = [
        "BLPOP none 0.001",
        "BLPOP none none 0.0001",
        "BRPOP none 0.01",
        "BLMOVE none other LEFT LEFT 0.01",
        "BRPOPLPUSH none other 0.01",
        "BLMPOP 0.01 2 none other LEFT",
    ];
    for line in lines {
        c.expect(line, "nil*");
        c3.expect(line, "null");
    }
    let begin = Instant::now();
    c.expect("BLPOP none 0.15", "nil*");
    assert!(begin.elapsed() >= Duration::from_millis(150), "{:?}", begin.elapsed());
    c.expect("SET s v", "+OK");
    c.expect("BLMOVE none s LEFT LEFT 0.01", "nil*");
    // In a pipeline what follows waits for it, and another client does not.
    c.send(&[request(&["BLPOP", "none", "0.05"]), request(&["RPUSH", "none", "x"])].concat());
    shows(&mut c, "nil*");
    shows(&mut c, ":1");
    nobody_waits(&mut c);
}

#[test]
fn within_a_transaction_nobody_waits() {
    for server in servers(&[]) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            MULTI                        => +OK
            BLPOP l 0                    => +QUEUED
            BRPOP l k 0                  => +QUEUED
            BLMOVE l m LEFT LEFT 0       => +QUEUED
            BRPOPLPUSH l m 0             => +QUEUED
            BLMPOP 0 1 l LEFT            => +QUEUED
            RPUSH l a b c                => +QUEUED
            BLPOP l 0                    => +QUEUED
            BLMOVE l m LEFT LEFT 0       => +QUEUED
            BLMPOP 0 1 l LEFT COUNT 2    => +QUEUED
            EXEC                         => [nil*, nil*, nil, nil, nil*, :3, ['l', 'a'], 'b', ['l', ['c']]]
            ",
        );
        c.expect("HELLO 3", "...");
        c.expect("MULTI", "+OK");
        for line in ["BLPOP l 0", "BLMOVE l m LEFT LEFT 0", "BLMPOP 0 1 l LEFT"] {
            c.expect(line, "+QUEUED");
        }
        c.expect("EXEC", "[null, null, null]");
    }
}

#[test]
fn served_in_the_order_of_arrival() {
    for server in servers(&[]) {
        let mut witness = server.client();
        let mut waiting: Vec<Client> = (0..6).map(|_| server.client()).collect();
        for (n, client) in waiting.iter_mut().enumerate() {
            block(client, &mut witness, if n % 2 == 0 { "BLPOP l 0" } else { "BRPOP other l 0" });
        }
        // All are put there before the first is taken.
        witness.expect("RPUSH l a b c d e", ":5");
        for (client, expected) in waiting.iter_mut().zip(["a", "e", "b", "d", "c"]) {
            shows(client, &format!("['l', '{expected}']"));
        }
        witness.expect("EXISTS l", ":0");
        assert_eq!(witness.info_number("blocked_clients"), 1);
        witness.expect("LPUSH l last", ":1");
        shows(&mut waiting[5], "['l', 'last']");
        witness.expect("EXISTS l", ":0");
        nobody_waits(&mut witness);
    }
}

/// A client that waits for several keys has what comes first, and then waits for none of them.
#[test]
fn whichever_of_several_keys() {
    for server in servers(&[]) {
        let (mut witness, mut client, mut second) = (server.client(), server.client(), server.client());
        block(&mut client, &mut witness, "BLPOP l1 l2 l3 l2 0");
        witness.expect("RPUSH l2 a", ":1");
        shows(&mut client, "['l2', 'a']");
        witness.expect("RPUSH l1 b", ":1");
        witness.expect("LLEN l1", ":1");
        client.expect("BLPOP l1 l2 0", "['l1', 'b']");
        // Several at once, in a transaction: the first that was pushed to.
        block(&mut client, &mut witness, "BLPOP l1 l2 0");
        witness.expect("MULTI", "+OK");
        witness.expect("RPUSH l2 two", "+QUEUED");
        witness.expect("RPUSH l1 one", "+QUEUED");
        witness.expect("EXEC", "[:1, :1]");
        shows(&mut client, "['l2', 'two']");
        witness.expect("LRANGE l1 0 -1", "['one']");
        witness.expect("DEL l1", ":1");
        // The second in the list of one key is the first in that of the other.
        block(&mut client, &mut witness, "BLPOP l1 0");
        block(&mut second, &mut witness, "BLMPOP 0 2 l1 l2 RIGHT COUNT 2");
        witness.expect("RPUSH l2 x y z", ":3");
        shows(&mut second, "['l2', ['z', 'y']]");
        witness.expect("RPUSH l1 x y z", ":3");
        shows(&mut client, "['l1', 'x']");
        witness.expect("LRANGE l1 0 -1", "['y', 'z']");
        nobody_waits(&mut witness);
    }
}

/// Whatever puts a list there serves who waits for it.
#[test]
fn by_whatever_makes_a_list() {
    for server in servers(&[]) {
        let (mut witness, mut client) = (server.client(), server.client());
        let mut serve = |before: &[&str], line: &str, expected: &str| {
            witness.run("FLUSHALL");
            for line in before {
                assert!(!witness.run(line).is_error(), "{line}");
            }
            block(&mut client, &mut witness, "BLPOP l 0");
            assert!(!witness.run(line).is_error(), "{line}");
            assert_eq!(client.read().to_string(), format!("['l', '{expected}']"), "{line}");
        };
        serve(&[], "LPUSH l a b", "b");
        serve(&[], "RPUSH l a b", "a");
        serve(&["RPUSH k a b"], "LMOVE k l RIGHT LEFT", "b");
        serve(&["RPUSH k a b"], "RPOPLPUSH k l", "b");
        serve(&["RPUSH k a b"], "BLMOVE k l LEFT LEFT 0", "a");
        serve(&["RPUSH k a b"], "RENAME k l", "a");
        serve(&["RPUSH k a b"], "RENAMENX k l", "a");
        serve(&["RPUSH k a b"], "COPY k l", "a");
        serve(&["RPUSH k b a"], "SORT k ALPHA STORE l", "a");
        serve(&["SELECT 1", "RPUSH l a b", "SELECT 0"], "SWAPDB 0 1", "a");
        witness.expect("LRANGE l 0 -1", "['b']");
        witness.expect("DEL l", ":1");
        witness.expect("RPUSH k a b", ":2");
        let payload = witness.run("DUMP k");
        block(&mut client, &mut witness, "BLPOP l 0");
        assert!(!witness.call(&[b"RESTORE", &b"l"[..], b"0", payload.bytes()]).is_error());
        shows(&mut client, "['l', 'a']");
        witness.expect("LRANGE l 0 -1", "['b']");
        // What is there of another type serves nobody, and does no harm.
        witness.run("FLUSHALL");
        block(&mut client, &mut witness, "BLPOP l 0");
        witness.expect("SET l v", "+OK");
        witness.expect("SADD set x", ":1");
        witness.expect("RENAME set l", "+OK");
        assert_eq!(witness.info_number("blocked_clients"), 1);
        witness.expect("DEL l", ":1");
        witness.expect("RPUSH l a", ":1");
        shows(&mut client, "['l', 'a']");
        // From another database.
        block(&mut client, &mut witness, "BLPOP l 0");
        for (line, expected) in [("SELECT 1", "+OK"), ("RPUSH l a", ":1"), ("LLEN l", ":1"), ("MOVE l 0", ":1")] {
            witness.expect(line, expected);
        }
        shows(&mut client, "['l', 'a']");
        witness.expect("EXISTS l", ":0");
        witness.expect("SELECT 0", "+OK");
        // Gone again before anybody could be served: it waits on.
        block(&mut client, &mut witness, "BLPOP l 0");
        witness.expect("MULTI", "+OK");
        for line in ["RPUSH l a", "DEL l"] {
            witness.expect(line, "+QUEUED");
        }
        witness.expect("EXEC", "[:1, :1]");
        assert_eq!(witness.info_number("blocked_clients"), 1);
        witness.expect("RPUSH l b", ":1");
        shows(&mut client, "['l', 'b']");
        nobody_waits(&mut witness);
    }
}

/// An element goes on from list to list, as long as somebody waits for it there.
#[test]
fn chains() {
    for server in servers(&[]) {
        let mut witness = server.client();
        let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
        block(&mut clients[0], &mut witness, "BLPOP d 0");
        block(&mut clients[1], &mut witness, "BLMOVE c d LEFT RIGHT 0");
        block(&mut clients[2], &mut witness, "BRPOPLPUSH b c 0");
        block(&mut clients[3], &mut witness, "BLMOVE a b RIGHT LEFT 0");
        witness.expect("RPUSH a 1 2", ":2");
        for client in &mut clients[1..] {
            shows(client, "'2'");
        }
        shows(&mut clients[0], "['d', '2']");
        witness.expect("LRANGE a 0 -1", "['1']");
        witness.expect("EXISTS b c d", ":0");
        // To itself.
        witness.expect("DEL a", ":1");
        block(&mut clients[0], &mut witness, "BLMOVE a a LEFT RIGHT 0");
        block(&mut clients[1], &mut witness, "BLPOP a 0");
        witness.expect("RPUSH a 1 2", ":2");
        shows(&mut clients[0], "'1'");
        shows(&mut clients[1], "['a', '2']");
        witness.expect("LRANGE a 0 -1", "['1']");
        // A destination of another type: the first is told, the element is the next one's.
        witness.expect("DEL a", ":1");
        witness.expect("SET s v", "+OK");
        block(&mut clients[0], &mut witness, "BLMOVE a s LEFT LEFT 0");
        block(&mut clients[1], &mut witness, "BLPOP a 0");
        witness.expect("RPUSH a x y", ":2");
        assert!(matches!(clients[0].read(), Reply::Error(text) if text.starts_with("WRONGTYPE")));
        shows(&mut clients[1], "['a', 'x']");
        witness.expect("LRANGE a 0 -1", "['y']");
        witness.expect("GET s", "'v'");
        nobody_waits(&mut witness);
    }
}

#[test]
fn client_unblock() {
    for server in servers(&[]) {
        let (mut witness, mut client) = (server.client(), server.client());
        let id = client.run("CLIENT ID").int();
        witness.expect(&format!("CLIENT UNBLOCK {id}"), ":0");
        for (line, nothing) in
            [("BLPOP l k 0", "nil*"), ("BLMOVE l k LEFT LEFT 0", "nil*"), ("BLMPOP 0 1 l LEFT", "nil*")]
        {
            block(&mut client, &mut witness, line);
            witness.expect(&format!("CLIENT UNBLOCK {id}"), ":1");
            shows(&mut client, nothing);
            block(&mut client, &mut witness, line);
            witness.expect(&format!("CLIENT UNBLOCK {id} TIMEOUT"), ":1");
            shows(&mut client, nothing);
            block(&mut client, &mut witness, line);
            witness.expect(&format!("CLIENT UNBLOCK {id} ERROR"), ":1");
            shows(&mut client, "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
            witness.expect(&format!("CLIENT UNBLOCK {id}"), ":0");
            // It waits for the list no more.
            witness.expect("RPUSH l a", ":1");
            witness.expect("DEL l", ":1");
        }
        nobody_waits(&mut witness);
    }
}

#[test]
fn who_waits_is_listed() {
    for server in servers(&[]) {
        let (mut witness, mut client) = (server.client(), server.client());
        client.expect("CLIENT SETNAME waiter", "+OK");
        let listed = |witness: &mut Client| {
            let all = witness.run("CLIENT LIST").text();
            let line = all.lines().find(|line| line.contains(" name=waiter ")).expect("its line").to_string();
            let field = |name: &str| line.split(' ').find_map(|f| f.strip_prefix(name)).expect("a field").to_string();
            (field("flags="), field("cmd="))
        };
        assert_eq!(listed(&mut witness).0, "N");
        block(&mut client, &mut witness, "BRPOP l 0");
        assert_eq!(listed(&mut witness), ("b".into(), "brpop".into()));
        witness.expect("RPUSH l a", ":1");
        shows(&mut client, "['l', 'a']");
        assert_eq!(listed(&mut witness).0, "N");
    }
}

/// What a client waited for is not lost when it goes: the next one has it.
#[test]
fn a_client_that_leaves_takes_nothing_along() {
    for server in servers(&[]) {
        let (mut witness, mut second) = (server.client(), server.client());
        for killed in [false, true] {
            let mut first = server.client();
            let id = first.run("CLIENT ID").int();
            block(&mut first, &mut witness, "BLPOP l 0");
            block(&mut second, &mut witness, "BLPOP l 0");
            if killed {
                witness.expect(&format!("CLIENT KILL ID {id}"), ":1");
            } else {
                drop(first);
            }
            eventually("the first has gone", || witness.info_number("blocked_clients") == 1);
            witness.expect("RPUSH l a b", ":2");
            shows(&mut second, "['l', 'a']");
            witness.expect("LRANGE l 0 -1", "['b']");
            witness.expect("DEL l", ":1");
        }
        nobody_waits(&mut witness);
    }
}

/// Producers and consumers on all workers: each element is had, and once.
#[test]
fn nothing_is_lost_or_had_twice() {
    const EACH: usize = 400;
    for server in servers(&[]) {
        let producers: Vec<Client> = (0..3).map(|_| server.client()).collect();
        let consumers: Vec<Client> = (0..4).map(|_| server.client()).collect();
        let had = std::thread::scope(|scope| {
            let produce = |p: usize, mut client: Client| {
                for n in 0..EACH {
                    let list = ["x", "y", "z"][n % 3];
                    assert!(client.run(&format!("RPUSH {list} {p}:{n}")).int() > 0);
                }
            };
            let producing: Vec<_> =
                producers.into_iter().enumerate().map(|(p, client)| scope.spawn(move || produce(p, client))).collect();
            let consume = |c: usize, mut client: Client| {
                let mut had = Vec::new();
                loop {
                    let line = match c {
                        0 => "BLPOP x y z 0",
                        1 => "BLPOP z x y 0",
                        2 => "BLMPOP 0 3 y z x LEFT COUNT 3",
                        _ => "BLMOVE y z LEFT RIGHT 0",
                    };
                    let reply = client.run(line);
                    match &reply {
                        Reply::Array(items) if matches!(items[1], Reply::Array(_)) => {
                            had.extend(items[1].items().iter().map(Reply::text));
                        }
                        Reply::Array(items) => had.push(items[1].text()),
                        // Moved, not had.
                        Reply::Bulk(_) => {}
                        _ => return had,
                    }
                }
            };
            let threads: Vec<_> =
                consumers.into_iter().enumerate().map(|(c, client)| scope.spawn(move || consume(c, client))).collect();
            producing.into_iter().for_each(|thread| thread.join().expect("a producer"));
            let mut witness = server.client();
            eventually("all is had", || {
                witness.info_number("blocked_clients") == 4
                    && ["x", "y", "z"].iter().all(|list| witness.run(&format!("EXISTS {list}")) == Reply::Int(0))
            });
            let text = witness.run("CLIENT LIST").text();
            for line in text.lines().filter(|line| line.contains(" cmd=bl")) {
                let id = line.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).expect("an id");
                witness.expect(&format!("CLIENT UNBLOCK {id} ERROR"), ":1");
            }
            threads.into_iter().flat_map(|thread| thread.join().expect("a consumer")).collect::<Vec<_>>()
        });
        let mut sorted = had.clone();
        sorted.sort();
        let mut expected: Vec<String> = (0..3).flat_map(|p| (0..EACH).map(move |n| format!("{p}:{n}"))).collect();
        expected.sort();
        assert_eq!(sorted, expected);
    }
}
