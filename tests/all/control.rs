//! Commands that act on other clients: CLIENT KILL PAUSE UNPAUSE REPLY NO-EVICT NO-TOUCH UNBLOCK, and RESET. With one worker and with several,
//! as clients of other workers are reached in another way.

use std::time::{Duration, Instant};

use crate::harness::{Client, Reply, Server, eventually, request, script, under_test};

/// Servers of each kind that matters: with one worker and with three (`redis-server` knows of no such thing).
pub fn servers(arguments: &[&str]) -> Vec<Server> {
    if under_test().1 == crate::harness::Kind::Redis {
        return vec![Server::with(arguments)];
    }
    ["1", "3"].map(|workers| Server::with(&[arguments, &["--workers", workers]].concat())).into()
}

fn id(client: &mut Client) -> i64 {
    client.run("CLIENT ID").int()
}

/// Ids of the clients, as one of them sees them.
fn listed(client: &mut Client) -> Vec<i64> {
    let field = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
    let mut ids: Vec<i64> = client.run("CLIENT LIST").text().lines().map(|line| field(line).expect("an id")).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn kill_by_id_and_by_address() {
    for server in servers(&[]) {
        let mut operator = server.client();
        let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for client in &mut clients {
            client.expect("PING", "+PONG");
        }
        let own = id(&mut operator);
        let mut left: Vec<i64> = clients.iter_mut().map(id).collect();
        while let Some(mut victim) = clients.pop() {
            let victim_id = left.pop().expect("as many ids");
            let by_address = format!("CLIENT KILL {}", victim.stream().local_addr().expect("an address"));
            match clients.len() % 4 {
                0 => operator.expect(&format!("CLIENT KILL ID {victim_id}"), ":1"),
                1 => operator.expect(&by_address, "+OK"),
                2 => operator.expect(&format!("{by_address} SKIPME yes").replace("KILL", "KILL ADDR"), ":1"),
                _ => operator.expect(&format!("CLIENT KILL USER default ID {victim_id} TYPE normal SKIPME no"), ":1"),
            }
            // It is gone for everybody as soon as that is answered, whichever worker is asked.
            for witness in clients.iter_mut().chain([&mut operator]) {
                let mut expected = [&[own], &*left].concat();
                expected.sort_unstable();
                assert_eq!(listed(witness), expected);
            }
            victim.expect_closed();
        }
        operator.expect("CLIENT KILL ID 99999", ":0");
    }
}

#[test]
fn what_a_killed_client_has_sent_is_not_run() {
    for server in servers(&[]) {
        let (mut operator, mut victim) = (server.client(), server.client());
        let victim_id = id(&mut victim);
        // It kills itself: that is answered, what comes behind is not run.
        victim.send(
            &[request(&["SET", "a", "1"]), request(&["CLIENT", "KILL", "ID", &victim_id.to_string(), "SKIPME", "no"])]
                .concat(),
        );
        victim.send(&request(&["SET", "b", "1"]));
        assert_eq!(victim.read(), Reply::Simple("OK".into()));
        assert_eq!(victim.read(), Reply::Int(1));
        victim.expect_closed();
        operator.expect("EXISTS a b", ":1");
        // The old form spares nobody.
        let own = operator.stream().local_addr().expect("an address");
        operator.expect(&format!("CLIENT KILL {own}"), "+OK");
        operator.expect_closed();
    }
}

#[test]
fn kill_all_but_me() {
    for server in servers(&[]) {
        let mut clients: Vec<Client> = (0..9).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| client.expect("PING", "+PONG"));
        let mut operator = server.client();
        let (own, laddr) = (id(&mut operator), operator.stream().peer_addr().expect("an address"));
        operator.expect("CLIENT KILL TYPE replica", ":0");
        operator.expect("CLIENT KILL TYPE pubsub SKIPME no", ":0");
        operator.expect("CLIENT KILL LADDR 127.0.0.1:1", ":0");
        operator.expect(&format!("CLIENT KILL LADDR {laddr}"), ":9");
        assert_eq!(listed(&mut operator), [own]);
        assert_eq!(operator.info("connected_clients"), "1");
        clients.iter_mut().for_each(Client::expect_closed);
        // Nobody is old enough.
        if !server.is_redis() {
            operator.expect("CLIENT KILL MAXAGE 3600 SKIPME no", ":0");
        }
    }
}

#[test]
fn forms_and_errors() {
    for server in servers(&[]) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            CLIENT KILL                          => -ERR wrong number of arguments for 'client|kill' command
            CLIENT KILL 1.2.3.4:5                => -ERR No such client
            CLIENT KILL ADDR                     => -ERR No such client
            CLIENT KILL ADDR 1.2.3.4:5           => :0
            CLIENT KILL ID x                     => -ERR client-id should be greater than 0
            CLIENT KILL ID 0                     => -ERR client-id should be greater than 0
            CLIENT KILL ID 1 2                   => -ERR syntax error
            CLIENT KILL TYPE nosuch              => -ERR Unknown client type 'nosuch'
            CLIENT KILL USER nobody              => -ERR No such user 'nobody'
            CLIENT KILL SKIPME maybe             => -ERR syntax error
            CLIENT KILL NOSUCH x                 => -ERR syntax error
            # Since Redis 7.4.
            dolmen> CLIENT KILL MAXAGE x         => -ERR maxage is not an integer or out of range
            dolmen> CLIENT KILL MAXAGE 0         => -ERR maxage should be greater than 0
            CLIENT PAUSE x                       => -ERR timeout is not an integer or out of range
            CLIENT PAUSE 1.5                     => -ERR timeout is not an integer or out of range
            CLIENT PAUSE -1                      => -ERR timeout is negative
            CLIENT PAUSE 5 nosuch                => -ERR CLIENT PAUSE mode must be WRITE or ALL
            CLIENT PAUSE x nosuch                => -ERR CLIENT PAUSE mode must be WRITE or ALL
            CLIENT PAUSE 1 ALL x                 => -ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.
            CLIENT UNPAUSE                       => +OK
            CLIENT UNPAUSE x                     => -ERR wrong number of arguments for 'client|unpause' command
            CLIENT REPLY                         => -ERR wrong number of arguments for 'client|reply' command
            CLIENT REPLY nosuch                  => -ERR syntax error
            CLIENT REPLY ON                      => +OK
            CLIENT NO-EVICT nosuch               => -ERR syntax error
            CLIENT NO-EVICT ON                   => +OK
            CLIENT NO-EVICT off                  => +OK
            dolmen> CLIENT NO-TOUCH nosuch       => -ERR syntax error
            CLIENT UNBLOCK x                     => -ERR value is not an integer or out of range
            CLIENT UNBLOCK 999                   => :0
            CLIENT UNBLOCK 999 error             => :0
            CLIENT UNBLOCK 999 TIMEOUT           => :0
            CLIENT UNBLOCK x nosuch              => -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR
            RESET x                              => -ERR wrong number of arguments for 'reset' command
            RESET                                => +RESET
            ",
        );
    }
}

/// Sends a command that is paused, and returns when the server counts it.
fn sent_into_pause(client: &mut Client, line: &str, witness: &mut Client, waiting: u64) {
    client.send(&request(&crate::harness::words(line)));
    eventually("the command waits", || witness.info_number("blocked_clients") == waiting);
}

#[test]
fn a_pause_of_writes() {
    for server in servers(&[]) {
        let mut operator = server.client();
        let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
        operator.expect("SET k old", "+OK");
        operator.expect("CLIENT PAUSE 100000000 WRITE", "+OK");
        for (n, client) in clients.iter_mut().enumerate() {
            client.expect("GET k", "'old'");
            sent_into_pause(client, &format!("SET k {n}"), &mut operator, n as u64 + 1);
            // What follows waits too, in order.
            client.send(&request(&["GET", "k"]));
        }
        operator.expect("GET k", "'old'");
        let list = operator.run("CLIENT LIST").text();
        assert_eq!(list.lines().filter(|line| line.contains(" flags=b ")).count(), 6, "{list}");
        operator.expect("CLIENT UNPAUSE", "+OK");
        for client in &mut clients {
            assert_eq!(client.read(), Reply::Simple("OK".into()));
            assert!(matches!(client.read(), Reply::Bulk(_)));
        }
        assert_eq!(operator.info("blocked_clients"), "0");
        assert_ne!(operator.run("GET k"), Reply::bulk("old"));
    }
}

#[test]
fn a_pause_of_everything_ends_by_itself() {
    for server in servers(&[]) {
        let mut operator = server.client();
        let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| client.expect("PING", "+PONG"));
        let begun = Instant::now();
        operator.expect("CLIENT PAUSE 200", "+OK");
        for client in &mut clients {
            client.send(&[request(&["INCR", "n"]), request(&["PING"])].concat());
        }
        for client in &mut clients {
            assert!(matches!(client.read(), Reply::Int(1..=6)));
            assert_eq!(client.read(), Reply::Simple("PONG".into()));
        }
        // Not before its time; how long after it depends on the machine.
        assert!(begun.elapsed() >= Duration::from_millis(200));
        operator.expect("GET n", "'6'");
    }
}

#[test]
fn the_longer_and_stricter_pause_counts() {
    for server in servers(&[]) {
        let (mut operator, mut client) = (server.client(), server.client());
        operator.expect("CLIENT PAUSE 100000000 WRITE", "+OK");
        operator.expect("CLIENT PAUSE 1 WRITE", "+OK");
        sent_into_pause(&mut client, "SET k v", &mut operator, 1);
        operator.expect("CLIENT UNPAUSE", "+OK");
        assert_eq!(client.read(), Reply::Simple("OK".into()));
    }
}

/// Large values wait as well, and come whole; who is paused can be killed.
#[test]
fn large_requests_in_a_pause() {
    for server in servers(&[]) {
        let (mut operator, mut client, mut victim) = (server.client(), server.client(), server.client());
        let value = "x".repeat(3 << 20);
        operator.expect("CLIENT PAUSE 100000000 WRITE", "+OK");
        sent_into_pause(&mut client, &format!("SET big {value}"), &mut operator, 1);
        let victim_id = id(&mut victim);
        let many: Vec<String> = ["DEL".into()].into_iter().chain((0..5000).map(|n| format!("key:{n}"))).collect();
        victim.send(&request(&many));
        eventually("both wait", || operator.info_number("blocked_clients") == 2);
        operator.expect(&format!("CLIENT KILL ID {victim_id}"), ":1");
        victim.expect_closed();
        eventually("one waits", || operator.info_number("blocked_clients") == 1);
        operator.expect("STRLEN big", ":0");
        operator.expect("CLIENT UNPAUSE", "+OK");
        assert_eq!(client.read(), Reply::Simple("OK".into()));
        operator.expect("STRLEN big", &format!(":{}", value.len()));
    }
}

/// A server that is paused still ends when it is told to.
#[test]
fn a_pause_does_not_keep_the_server_from_ending() {
    for mut server in servers(&[]) {
        let (mut operator, mut client) = (server.client(), server.client());
        operator.expect("CLIENT PAUSE 100000000 WRITE", "+OK");
        sent_into_pause(&mut client, "SET k v", &mut operator, 1);
        server.signal(nix::sys::signal::Signal::SIGTERM);
        assert!(server.wait_exit().success());
    }
}

#[test]
fn replies_off_on_and_skipped() {
    for server in servers(&[]) {
        let mut c = server.client();
        let said = |c: &mut Client, lines: &[&str], replies: &[&str]| {
            let bytes: Vec<u8> = lines.iter().flat_map(|line| request(&crate::harness::words(line))).collect();
            c.send(&bytes);
            for expected in replies {
                assert_eq!(c.read().to_string(), *expected, "{lines:?}");
            }
        };
        // In one write, and in several.
        said(
            &mut c,
            &["CLIENT REPLY OFF", "SET k 1", "GET k", "NOSUCH", "INCR k", "CLIENT REPLY ON", "GET k"],
            &["+OK", "'2'"],
        );
        said(&mut c, &["CLIENT REPLY SKIP", "INCR k", "INCR k"], &[":4"]);
        said(&mut c, &["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "INCR k", "INCR k"], &[":6"]);
        said(
            &mut c,
            &["CLIENT REPLY SKIP", "CLIENT REPLY OFF", "INCR k", "CLIENT REPLY SKIP", "INCR k", "CLIENT REPLY ON"],
            &["+OK"],
        );
        said(&mut c, &["CLIENT REPLY SKIP", "CLIENT REPLY ON", "GET k"], &["+OK", "'8'"]);
        said(&mut c, &["CLIENT REPLY OFF", "RESET", "GET k"], &["+RESET", "'8'"]);
        // What tells of subscriptions is no reply.
        said(&mut c, &["CLIENT REPLY OFF", "SUBSCRIBE a b"], &["['subscribe', 'a', :1]", "['subscribe', 'b', :2]"]);
        said(&mut c, &["CLIENT REPLY SKIP"], &[]);
        said(
            &mut c,
            &["UNSUBSCRIBE a", "PING x", "UNSUBSCRIBE"],
            &["['unsubscribe', 'a', :1]", "['unsubscribe', 'b', :0]"],
        );
        said(&mut c, &["CLIENT REPLY ON", "GET k"], &["+OK", "'8'"]);
        c.send(&request(&["CLIENT", "REPLY", "SKIP"]));
        c.send(&request(&["INCR", "k"]));
        c.expect("GET k", "'9'");
        // Those that go on in slices, on other workers or with a value of their own.
        let value = "v".repeat(2 << 20);
        said(
            &mut c,
            &["CLIENT REPLY OFF", &format!("SET big {value}"), "GET big", "CLIENT LIST", "KEYS *", "FLUSHALL SYNC"],
            &[],
        );
        said(&mut c, &["DBSIZE", "CLIENT REPLY ON", "DBSIZE"], &["+OK", ":0"]);
        said(&mut c, &["CLIENT REPLY SKIP", "CLIENT LIST", "PING"], &["+PONG"]);
        said(&mut c, &["CLIENT REPLY SKIP", &format!("SET big {value}"), "STRLEN big"], &[":2097152"]);
        let many = (0..3000).map(|n| format!("key:{n} {n}")).collect::<Vec<_>>().join(" ");
        said(&mut c, &["CLIENT REPLY SKIP", &format!("MSET {many}"), "DBSIZE"], &[":3001"]);
    }
}

#[test]
fn reset() {
    for server in servers(&["--requirepass", "secret"]) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            RESET                     => +RESET
            GET k                     => -NOAUTH
            AUTH secret               => +OK
            SELECT 3                  => +OK
            CLIENT SETNAME somebody   => +OK
            CLIENT NO-EVICT on        => +OK
            HELLO 3                   => ...
            GET k                     => null
            RESET                     => +RESET
            GET k                     => -NOAUTH
            AUTH secret               => +OK
            GET k                     => nil
            CLIENT GETNAME            => nil
            ",
        );
        let line = c.run("CLIENT INFO").text();
        // Redis 7.0 forgets to take NO-EVICT back, 7.2 does.
        let flags = if server.is_redis() { " flags=e " } else { " flags=N " };
        assert!(line.contains(" db=0 ") && line.contains(flags), "{line}");
    }
}

#[test]
fn no_touch_leaves_the_access_clock() {
    for server in servers(&[]) {
        if server.is_redis() {
            return;
        }
        let mut c = server.client();
        c.expect("SET k v", "+OK");
        c.expect("SET other v", "+OK");
        let payload = c.run("DUMP k").bytes().to_vec();
        // A key that says that it was not used for long.
        c.call(&[&b"RESTORE"[..], b"old", b"0", &payload, b"IDLETIME", b"1000"]);
        c.expect("CLIENT NO-TOUCH ON", "+OK");
        assert!(c.run("CLIENT INFO").text().contains(" flags=T "));
        let idle = |c: &mut Client| c.run("OBJECT IDLETIME old").int();
        for line in ["GET old", "STRLEN old", "EXISTS old", "MGET k old", "GETRANGE old 0 -1"] {
            c.run(line);
            assert!(idle(&mut c) >= 1000, "{line}");
        }
        // TOUCH is there for it.
        c.expect("TOUCH old", ":1");
        assert!(idle(&mut c) < 1000);
        c.call(&[&b"RESTORE"[..], b"old", b"0", &payload, b"IDLETIME", b"1000", b"REPLACE"]);
        c.expect("CLIENT NO-TOUCH OFF", "+OK");
        c.expect("GET old", "'v'");
        assert!(idle(&mut c) < 1000);
    }
}
