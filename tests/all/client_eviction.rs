//! `maxmemory-clients`: who holds most is disconnected when all hold too much together.

use crate::harness::{Client, Kind, Server, eventually, request, script, under_test};
use std::io::Write as _;

/// The field of the client with a name, as CLIENT LIST tells it; `None`: there is no such client.
fn field(c: &mut Client, name: &str, field: &str) -> Option<u64> {
    let list = c.run("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains(&format!(" name={name} ")))?;
    let value = line.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
    Some(value.expect("such a field").parse().expect("a number"))
}

fn named(server: &Server, name: &str) -> Client {
    let mut c = server.client();
    c.expect(&format!("CLIENT SETNAME {name}"), "+OK");
    c
}

/// Sends as much as it may: it can be cut off meanwhile. True: all of it.
fn offer(c: &Client, bytes: &[u8]) -> bool {
    c.stream().write_all(bytes).is_ok()
}

/// The beginning of a request that holds about so many bytes.
fn hold(c: &Client, bytes: usize) {
    offer(c, format!("*2\r\n$4\r\nECHO\r\n${}\r\n", 2 * bytes).as_bytes());
    offer(c, &vec![b'x'; bytes]);
}

fn servers() -> Vec<Server> {
    if under_test().1 == Kind::Redis {
        return vec![Server::start()];
    }
    ["1", "2", "4"].map(|workers| Server::with(&["--workers", workers])).into()
}

/// A client that is not evicted, so that it can look.
fn looking(server: &Server) -> Client {
    let mut c = named(server, "looking");
    c.expect("CLIENT NO-EVICT ON", "+OK");
    c
}

#[test]
fn the_directive() {
    let server = Server::start();
    script(
        &server,
        &mut server.client(),
        r"
        CONFIG GET maxmemory-clients       => ['maxmemory-clients', '0']
        CONFIG SET maxmemory-clients 1gb   => +OK
        CONFIG GET maxmemory-clients       => ['maxmemory-clients', '1073741824']
        CONFIG SET maxmemory-clients 5%    => +OK
        CONFIG GET maxmemory-clients       => ['maxmemory-clients', '5%']
        CONFIG SET maxmemory-clients 101%  => -ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - percentage argument must be less or equal to 100
        CONFIG SET maxmemory-clients -1%   => -ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a memory or percent value
        CONFIG SET maxmemory-clients x     => -ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a memory or percent value
        CONFIG SET maxmemory-clients %     => -ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a memory or percent value
        CONFIG GET maxmemory-clients       => ['maxmemory-clients', '5%']
        ",
    );
}

#[test]
fn the_largest_goes_first() {
    for server in servers() {
        let mut c = looking(&server);
        let mut clients: Vec<Client> =
            [("small", 100_000), ("largest", 1_500_000), ("large", 700_000), ("other", 700_000)]
                .into_iter()
                .map(|(name, bytes)| {
                    let client = named(&server, name);
                    hold(&client, bytes);
                    eventually("it holds that", || {
                        field(&mut c, name, "tot-mem").is_some_and(|held| held >= bytes as u64)
                    });
                    client
                })
                .collect();
        assert_eq!(c.info_number("evicted_clients"), 0);
        // One of them is enough.
        let others: u64 = ["small", "large", "other"].iter().filter_map(|name| field(&mut c, name, "tot-mem")).sum();
        let idle = 200_000;
        c.expect(&format!("CONFIG SET maxmemory-clients {}", others + idle), "+OK");
        clients[1].expect_closed();
        eventually("it is counted", || c.info_number("evicted_clients") == 1);
        assert_eq!(field(&mut c, "largest", "tot-mem"), None);
        // Whoever holds most now.
        c.expect("CONFIG SET maxmemory-clients 500000", "+OK");
        clients[2].expect_closed();
        clients[3].expect_closed();
        eventually("they are counted", || c.info_number("evicted_clients") == 3);
        // The rest of its request takes more memory for a moment.
        c.expect("CONFIG SET maxmemory-clients 0", "+OK");
        clients[0].send(&vec![b'x'; 100_000]);
        clients[0].send(b"\r\n");
        assert_eq!(clients[0].read().bytes().len(), 200_000);
        c.expect("CONFIG RESETSTAT", "+OK");
        assert_eq!(c.info_number("evicted_clients"), 0);
    }
}

/// What a client holds of each kind counts.
#[test]
fn whatever_it_holds() {
    for server in servers() {
        let mut c = looking(&server);
        c.expect("CONFIG SET maxmemory-clients 1500000", "+OK");
        c.call(&["SET", "k", &"x".repeat(1_000_000)]);
        let mut evicted = 0;
        let mut goes = |what: &str, mut client: Client, c: &mut Client| {
            client.expect_closed();
            evicted += 1;
            eventually(what, || c.info_number("evicted_clients") == evicted);
        };
        let half = named(&server, "half");
        hold(&half, 3_000_000);
        goes("a request", half, &mut c);
        // Received in the place where it will be a value.
        let value = named(&server, "value");
        offer(&value, b"*3\r\n$3\r\nSET\r\n$1\r\nv\r\n$50000000\r\n");
        offer(&value, &vec![b'x'; 3_000_000]);
        goes("a value on its way", value, &mut c);
        let mut queued = named(&server, "queued");
        queued.expect("MULTI", "+OK");
        while offer(&queued, &request(&["SET", "q", &"x".repeat(300_000)])) && queued.try_read().is_ok() {}
        goes("commands of a transaction", queued, &mut c);
        // It takes none of its replies.
        let output = named(&server, "output");
        let requests: Vec<u8> =
            std::iter::repeat_n(&b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"[..], 400).flatten().copied().collect();
        offer(&output, &requests);
        eventually("replies that nobody takes", || field(&mut c, "output", "tot-mem").is_none());
        evicted += 1;
        let listening = named(&server, "listening");
        let names: Vec<String> = (0..20_000).map(|n| format!("channel:{n}")).collect();
        let words: Vec<&str> = std::iter::once("SUBSCRIBE").chain(names.iter().map(String::as_str)).collect();
        offer(&listening, &request(&words));
        eventually("subscriptions", || field(&mut c, "listening", "tot-mem").is_none());
        evicted += 1;
        let watching = named(&server, "watching");
        let words: Vec<&str> = std::iter::once("WATCH").chain(names.iter().map(String::as_str)).collect();
        offer(&watching, &request(&words));
        eventually("watched keys", || field(&mut c, "watching", "tot-mem").is_none());
        evicted += 1;
        let tracking = named(&server, "tracking");
        // None of them may begin another.
        let names: Vec<String> = (0..3_500).map(|n| format!("{n:06}:{}", "x".repeat(193))).collect();
        let prefixes = names.iter().flat_map(|name| ["PREFIX", name]);
        let words: Vec<&str> = ["CLIENT", "TRACKING", "ON", "BCAST"].into_iter().chain(prefixes).collect();
        offer(&tracking, &request(&words));
        eventually("prefixes", || field(&mut c, "tracking", "tot-mem").is_none());
        evicted += 1;
        eventually("all are counted", || c.info_number("evicted_clients") == evicted);
        // What was held is free again, and the value never came to be.
        c.expect("EXISTS v q", ":0");
    }
}

#[test]
fn who_shall_not_be_evicted_is_not() {
    for server in servers() {
        let mut c = looking(&server);
        let mut keeps = named(&server, "keeps");
        keeps.expect("CLIENT NO-EVICT ON", "+OK");
        hold(&keeps, 2_000_000);
        eventually("it holds that", || field(&mut c, "keeps", "tot-mem").is_some_and(|held| held >= 2_000_000));
        let other = named(&server, "other");
        hold(&other, 400_000);
        eventually("it holds that", || field(&mut c, "other", "tot-mem").is_some_and(|held| held >= 400_000));
        c.expect("CONFIG SET maxmemory-clients 1000000", "+OK");
        // Neither goes, as what the first holds does not count.
        for _ in 0..50 {
            c.expect("PING", "+PONG");
        }
        assert_eq!(c.info_number("evicted_clients"), 0);
        assert!(field(&mut c, "keeps", "tot-mem").is_some() && field(&mut c, "other", "tot-mem").is_some());
        keeps.send(&vec![b'x'; 2_000_000]);
        keeps.send(b"\r\n");
        assert_eq!(keeps.read().bytes().len(), 4_000_000);
        keeps.expect("CLIENT NO-EVICT OFF", "+OK");
        hold(&keeps, 2_000_000);
        keeps.expect_closed();
        eventually("it went", || c.info_number("evicted_clients") == 1);
        assert!(field(&mut c, "other", "tot-mem").is_some());
    }
}

/// Many hold some: as many go as it takes, and not more.
#[test]
fn no_more_go_than_must() {
    for server in servers() {
        let mut c = looking(&server);
        let mut clients: Vec<Client> = (0..200).map(|n| named(&server, &format!("c{n}"))).collect();
        for client in &clients {
            hold(client, 30_000);
        }
        let held = |c: &mut Client| -> Vec<u64> {
            let list = c.run("CLIENT LIST").text();
            let lines = list.lines().filter(|line| line.contains(" name=c"));
            let bytes = |line: &str| {
                line.split(' ').find_map(|word| word.strip_prefix("tot-mem=")).expect("its memory").parse::<u64>()
            };
            lines.map(|line| bytes(line).expect("a number")).collect()
        };
        eventually("all hold that", || held(&mut c).iter().filter(|bytes| **bytes >= 30_000).count() == 200);
        let all = held(&mut c);
        let (total, each) = (all.iter().sum::<u64>(), all[0]);
        let limit = total / 3;
        c.expect(&format!("CONFIG SET maxmemory-clients {limit}"), "+OK");
        eventually("enough have gone", || held(&mut c).iter().sum::<u64>() <= limit);
        let left = held(&mut c);
        let (left, left_total) = (left.len() as u64, left.iter().sum::<u64>());
        assert!(left_total + 2 * each >= limit, "{left} of 200 are left, with {left_total} of {limit} bytes");
        eventually("they are counted", || c.info_number("evicted_clients") == 200 - left);
        // What follows takes more memory for a moment.
        c.expect("CONFIG SET maxmemory-clients 0", "+OK");
        let mut alive = 0;
        for client in &mut clients {
            // Whoever goes finds the connection closed or reset.
            alive += u64::from(offer(client, &[&[b'x'; 30_000][..], b"\r\n"].concat()) && client.try_read().is_ok());
        }
        assert_eq!(alive, left);
    }
}

/// Clients over their limit go before any key does.
#[test]
fn buffers_evict_no_keys() {
    for server in servers() {
        if server.is_redis() {
            // There a client's request counts before it is looked at, and keys go.
            return;
        }
        let mut c = looking(&server);
        for n in 0..5000 {
            c.call(&["SET", &format!("k{n}"), &"x".repeat(1000)]);
        }
        c.expect("CONFIG SET maxmemory-policy allkeys-lru maxmemory 24mb maxmemory-clients 20%", "+OK");
        for _ in 0..3 {
            let before = c.info_number("evicted_clients");
            let clients: Vec<Client> = (0..8).map(|n| named(&server, &format!("c{n}"))).collect();
            for client in &clients {
                offer(client, b"*2\r\n$4\r\nECHO\r\n$50000000\r\n");
                offer(client, &vec![b'x'; 3_000_000]);
            }
            // All of them together are over it, whenever what they have sent is read.
            eventually("clients went", || c.info_number("evicted_clients") > before);
        }
        c.call(&["SET", "one", "more"]);
        assert_eq!(c.info_number("evicted_keys"), 0);
        c.expect("DBSIZE", ":5001");
    }
}
