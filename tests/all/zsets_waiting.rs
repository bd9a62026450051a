//! BZPOPMIN BZPOPMAX BZMPOP: how clients wait for members, with one worker and with several.

use crate::control::servers;
use crate::harness::{Client, Reply, Server, eventually, request, script};

/// Sends a command that blocks, and returns when it waits.
fn block(client: &mut Client, witness: &mut Client, line: &str) {
    let before = witness.info_number("blocked_clients");
    client.send(&request(&line.split(' ').collect::<Vec<_>>()));
    eventually("the client waits", || witness.info_number("blocked_clients") == before + 1);
}

fn shows(client: &mut Client, expected: &str) {
    assert_eq!(client.read().to_string(), expected);
}

#[test]
fn what_is_there_is_taken_at_once() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        ZADD z 1 a 2 b 3 c 4 d   => :4
        BZPOPMIN z 0             => ['z', 'a', '1']
        BZPOPMAX none z 0        => ['z', 'd', '4']
        BZMPOP 0 2 none z MIN COUNT 5 => ['z', [['b', '2'], ['c', '3']]]
        EXISTS z                 => :0
        BZPOPMIN z 0.01          => nil*
        BZPOPMAX z 0.01          => nil*
        BZMPOP 0.01 1 z MAX      => nil*
        BZPOPMIN z x             => -ERR timeout is not a float or out of range
        BZPOPMIN z -1            => -ERR timeout is negative
        BZPOPMIN z               => -ERR wrong number of arguments for 'bzpopmin' command
        BZMPOP x 1 z MIN         => -ERR timeout is not a float or out of range
        BZMPOP -1 1 z MIN        => -ERR timeout is negative
        BZMPOP 0 0 z MIN         => -ERR numkeys should be greater than 0
        BZMPOP 0 1 z NOSUCH      => -ERR syntax error
        BZMPOP 0 1 z MIN COUNT 0 => -ERR count should be greater than 0
        BZMPOP 0 2 z MIN         => -ERR syntax error
        BZMPOP x 0 z MIN         => -ERR numkeys should be greater than 0
        BZMPOP x 1 z NOSUCH      => -ERR syntax error
        SET string v             => +OK
        BZPOPMIN string 0        => -WRONGTYPE
        BZPOPMIN none string 0   => -WRONGTYPE
        BZMPOP 0 2 none string MIN => -WRONGTYPE
        # Within a transaction nobody waits.
        MULTI                    => +OK
        BZPOPMIN z 0             => +QUEUED
        BZMPOP 0 1 z MIN         => +QUEUED
        ZADD z 1 a               => +QUEUED
        BZPOPMAX z 0             => +QUEUED
        EXEC                     => [nil*, nil*, :1, ['z', 'a', '1']]
        ",
    );
}

#[test]
fn served_in_the_order_of_arrival() {
    for server in servers(&[]) {
        let mut witness = server.client();
        let mut waiting: Vec<Client> = (0..6).map(|_| server.client()).collect();
        for (n, client) in waiting.iter_mut().enumerate() {
            block(client, &mut witness, if n % 2 == 0 { "BZPOPMIN z 0" } else { "BZPOPMAX z 0" });
        }
        // All at once: from both ends, the first comes first.
        witness.expect("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5");
        for (client, expected) in waiting.iter_mut().zip(["'a', '1'", "'e', '5'", "'b', '2'", "'d', '4'", "'c', '3'"]) {
            shows(client, &format!("['z', {expected}]"));
        }
        witness.expect("EXISTS z", ":0");
        assert_eq!(witness.info_number("blocked_clients"), 1);
        witness.expect("ZINCRBY z 7.5 last", "'7.5'");
        shows(&mut waiting[5], "['z', 'last', '7.5']");
        witness.expect("EXISTS z", ":0");
    }
}

#[test]
fn whichever_of_several_keys() {
    for server in servers(&[]) {
        let (mut witness, mut client, mut second) = (server.client(), server.client(), server.client());
        block(&mut client, &mut witness, "BZPOPMIN z1 z2 z3 z2 0");
        witness.expect("ZADD z2 1 a", ":1");
        shows(&mut client, "['z2', 'a', '1']");
        // It waits for the others no more.
        witness.expect("ZADD z1 1 a", ":1");
        witness.expect("ZCARD z1", ":1");
        client.expect("BZPOPMIN z1 z2 0", "['z1', 'a', '1']");
        block(&mut client, &mut witness, "BZMPOP 0 2 z1 z2 MAX COUNT 2");
        witness.expect("ZADD z2 1 a 2 b 3 c", ":3");
        shows(&mut client, "['z2', [['c', '3'], ['b', '2']]]");
        witness.expect("ZCARD z2", ":1");
        witness.expect("DEL z2", ":1");
        // What is there of another type serves nobody, and what makes a set in another way does.
        block(&mut client, &mut witness, "BZPOPMIN z1 0");
        witness.expect("SET z1 v", "+OK");
        witness.expect("DEL z1", ":1");
        witness.expect("ZADD source 1 a 2 b", ":2");
        block(&mut second, &mut witness, "BZPOPMAX z1 0");
        witness.expect("ZUNIONSTORE z1 1 source", ":2");
        shows(&mut client, "['z1', 'a', '1']");
        shows(&mut second, "['z1', 'b', '2']");
        block(&mut client, &mut witness, "BZPOPMIN z1 0");
        witness.expect("ZRANGESTORE z1 source 1 1", ":1");
        shows(&mut client, "['z1', 'b', '2']");
        // Both within one transaction: it sees what it has done, then the clients are served.
        block(&mut client, &mut witness, "BZPOPMIN z1 0");
        witness.expect("MULTI", "+OK");
        for line in ["ZADD z1 5 e", "ZADD z1 4 d", "ZCARD z1"] {
            witness.expect(line, "+QUEUED");
        }
        witness.expect("EXEC", "[:1, :1, :2]");
        shows(&mut client, "['z1', 'd', '4']");
        witness.expect("ZRANGE z1 0 -1", "['e']");
        witness.expect("DEL z1", ":1");
        // Removed again before anybody could be served: it waits on.
        block(&mut client, &mut witness, "BZPOPMIN z1 0");
        witness.expect("MULTI", "+OK");
        for line in ["ZADD z1 5 e", "DEL z1"] {
            witness.expect(line, "+QUEUED");
        }
        witness.expect("EXEC", "[:1, :1]");
        assert_eq!(witness.info_number("blocked_clients"), 1);
        witness.expect("ZADD z1 6 f", ":1");
        shows(&mut client, "['z1', 'f', '6']");
    }
}

#[test]
fn time_is_up() {
    for server in servers(&[]) {
        let (mut witness, mut client) = (server.client(), server.client3());
        // No sooner, and nothing is left behind.
        let begun = std::time::Instant::now();
        client.expect("BZPOPMIN z 0.05", "null");
        assert!(begun.elapsed() >= std::time::Duration::from_millis(50));
        client.expect("BZMPOP 0.02 2 z y MIN", "null");
        assert_eq!(witness.info_number("blocked_clients"), 0);
        witness.expect("ZADD z 1 a", ":1");
        witness.expect("ZCARD z", ":1");
        client.expect("BZPOPMIN z 0.05", "['z', 'a', ,1]");
        // CLIENT UNBLOCK is as if it were, or an error.
        let id = client.run("CLIENT ID").int();
        block(&mut client, &mut witness, "BZPOPMIN z 0");
        witness.expect(&format!("CLIENT UNBLOCK {id}"), ":1");
        shows(&mut client, "null");
        block(&mut client, &mut witness, "BZMPOP 0 1 z MIN");
        witness.expect(&format!("CLIENT UNBLOCK {id} ERROR"), ":1");
        assert!(matches!(client.read(), Reply::Error(text) if text.starts_with("UNBLOCKED")));
        // Who has gone takes nothing.
        block(&mut client, &mut witness, "BZPOPMIN z 0");
        drop(client);
        eventually("nobody waits", || witness.info_number("blocked_clients") == 0);
        witness.expect("ZADD z 1 a", ":1");
        witness.expect("ZCARD z", ":1");
    }
}

/// Many clients on several workers push and wait: each member comes to one of them.
#[test]
fn every_member_has_one_taker() {
    const TAKERS: usize = 4;
    const MEMBERS: usize = 400;
    for server in servers(&[]) {
        let takers: Vec<_> = (0..TAKERS)
            .map(|n| {
                let mut client = server.client();
                std::thread::spawn(move || {
                    let mut taken = Vec::new();
                    loop {
                        let reply = client.run(if n % 2 == 0 { "BZPOPMIN z 0" } else { "BZMPOP 0 1 z MAX COUNT 1" });
                        let member = match &reply.items()[1] {
                            Reply::Array(pairs) => pairs[0].items()[0].text(),
                            member => member.text(),
                        };
                        if member.starts_with("end") {
                            return taken;
                        }
                        taken.push(member);
                    }
                })
            })
            .collect();
        let pushers: Vec<_> = (0..2)
            .map(|half| {
                let mut client = server.client();
                std::thread::spawn(move || {
                    for n in (0..MEMBERS).filter(|n| n % 2 == half) {
                        client.expect(&format!("ZADD z {n} m{n}"), ":1");
                    }
                })
            })
            .collect();
        pushers.into_iter().for_each(|thread| thread.join().unwrap());
        let mut client = server.client();
        eventually("all are taken", || client.run("EXISTS z") == Reply::Int(0));
        for n in 0..TAKERS {
            client.expect(&format!("ZADD z {n} end{n}"), ":1");
        }
        let mut taken: Vec<String> = takers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        taken.sort();
        let mut all: Vec<String> = (0..MEMBERS).map(|n| format!("m{n}")).collect();
        all.sort();
        assert_eq!(taken, all);
    }
}
