//! Several workers: what is promised of one keyspace holds whichever worker a client is served by.
//!
//! Every test starts four workers, whatever the machine has, and connections enough that each worker has some (they are spread evenly).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::signal::Signal;

use crate::harness::{Client, Reply, Server, eventually, request};

const WORKERS: usize = 4;

fn four_workers() -> Server {
    Server::with(&["--workers", "4"])
}

/// Two clients for each worker.
fn clients(server: &Server) -> Vec<Client> {
    (0..2 * WORKERS).map(|_| server.client()).collect()
}

fn numbers(reply: &Reply) -> Vec<i64> {
    let number = |item: &Reply| match item {
        Reply::Bulk(_) => item.text().parse().expect("a number"),
        _ => 0,
    };
    reply.items().iter().map(number).collect()
}

/// Runs `work` on a thread for each client, and `until_done` on this one; then the others are told to stop.
fn besides(clients: Vec<Client>, work: impl Fn(usize, Client, &AtomicBool) + Sync, until_done: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (i, client) in clients.into_iter().enumerate() {
            let (work, stop) = (&work, &stop);
            scope.spawn(move || work(i, client, stop));
        }
        until_done();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn connections_are_spread_evenly() {
    let server = four_workers();
    let mut all: Vec<Client> = (0..50).map(|_| server.client()).collect();
    all.iter_mut().for_each(|client| client.expect("PING", "+PONG"));
    let mut shares = Vec::new();
    eventually("50 clients, none of the workers below half of the mean", || {
        shares = all[0].info("clients_per_worker").split(',').map(|n| n.parse::<usize>().expect("a count")).collect();
        shares.len() == WORKERS && shares.iter().sum::<usize>() == 50 && shares.iter().all(|share| *share >= 50 / 8)
    });
}

/// One client pipelines SET a, SET b of ever-growing numbers; nobody ever sees b ahead of a.
#[test]
fn a_pipeline_is_seen_in_its_order() {
    const LAST: i64 = 4_000;
    let server = four_workers();
    let look = |i: usize, mut client: Client, stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            let (a, b) = if i % 2 == 0 {
                let both = numbers(&client.run("MGET a b"));
                (both[0], both[1])
            } else {
                let both = client.pipeline(&["GET b", "GET a"]);
                let both = numbers(&Reply::Array(both));
                (both[1], both[0])
            };
            assert!(b <= a, "b is {b}, a still {a}");
        }
    };
    besides(clients(&server), look, || {
        let mut writer = server.client();
        for first in (1..LAST).step_by(200) {
            let requests = (first..first + 200).flat_map(|n| {
                let n = n.to_string();
                [request(&["SET", "a", &n]), request(&["SET", "b", &n])].concat()
            });
            writer.send(&requests.collect::<Vec<u8>>());
            (0..400).for_each(|_| assert_eq!(writer.read(), Reply::Simple("OK".into())));
        }
    });
}

/// Money moves between accounts in pairs, each pair by a client of its own; the sum of all is the same for everybody at any time.
#[test]
fn commands_of_several_keys_are_atomic() {
    const PAIRS: usize = 4;
    const MOVES: usize = 1_500;
    let server = four_workers();
    let accounts: Vec<String> = (0..2 * PAIRS).map(|i| format!("account:{i}")).collect();
    let mut founder = server.client();
    let opening: Vec<&str> = accounts.iter().flat_map(|name| [name.as_str(), "100"]).collect();
    assert_eq!(founder.call(&[&["MSET"], &opening[..]].concat()), Reply::Simple("OK".into()));
    let all: Vec<&str> = [&["MGET"], &accounts.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
    let watch = |_: usize, mut client: Client, stop: &AtomicBool| {
        let mut looks = 0;
        while !stop.load(Ordering::Relaxed) || looks == 0 {
            let amounts = numbers(&client.call(&all));
            assert_eq!(amounts.iter().sum::<i64>(), 200 * i64::try_from(PAIRS).expect("small"), "{amounts:?}");
            looks += 1;
        }
    };
    besides(clients(&server), watch, || {
        thread::scope(|scope| {
            for pair in 0..PAIRS {
                let mut mover = server.client();
                let names = [&accounts[2 * pair], &accounts[2 * pair + 1]];
                scope.spawn(move || {
                    for n in 0..MOVES {
                        let amount = n * 7 % 201;
                        let (one, other) = (amount.to_string(), (200 - amount).to_string());
                        let reply = mover.call(&["MSET", names[0], &one, names[1], &other]);
                        assert_eq!(reply, Reply::Simple("OK".into()));
                    }
                });
            }
        });
    });
}

/// An MSET so long that it runs in slices is still seen whole or not at all, and so is a DEL.
#[test]
fn long_commands_are_atomic() {
    const KEYS: usize = 3_000;
    let server = four_workers();
    let names: Vec<String> = (0..KEYS).map(|i| format!("long:{i}")).collect();
    let sample: Vec<&str> =
        [&["MGET"], &names.iter().step_by(KEYS / 12).map(String::as_str).collect::<Vec<_>>()[..]].concat();
    let watch = |_: usize, mut client: Client, stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            let reply = client.call(&sample);
            let seen: BTreeSet<String> = reply.items().iter().map(ToString::to_string).collect();
            assert_eq!(seen.len(), 1, "half of a command is seen: {seen:?}");
        }
    };
    besides(clients(&server), watch, || {
        let mut writer = server.client();
        for round in 0..20 {
            let round = round.to_string();
            let mut words = vec!["MSET"];
            names.iter().for_each(|name| words.extend([name.as_str(), &round]));
            assert_eq!(writer.call(&words), Reply::Simple("OK".into()));
            let words: Vec<&str> = [&["DEL"], &names.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
            assert_eq!(writer.call(&words).int(), i64::try_from(KEYS).expect("small"));
        }
    });
}

#[test]
fn no_increment_is_lost() {
    const EACH: i64 = 2_000;
    let server = four_workers();
    let all = clients(&server);
    let count = i64::try_from(all.len()).expect("small");
    let add = |_: usize, mut client: Client, _: &AtomicBool| {
        let lines = vec!["INCR hot"; 100];
        for _ in 0..EACH / 100 {
            let sums: Vec<i64> = client.pipeline(&lines).iter().map(Reply::int).collect();
            assert!(sums.windows(2).all(|two| two[0] < two[1]), "{sums:?}");
        }
    };
    besides(all, add, || {});
    server.client().expect("GET hot", &format!("'{}'", count * EACH));
}

/// Large values that are overwritten while other workers send them are never mixed.
#[test]
fn large_values_are_sent_as_they_were() {
    const BYTES: usize = 600_000;
    let server = four_workers();
    let value = |n: usize| vec![b'a' + u8::try_from(n % 26).expect("a letter"); BYTES];
    let mut writer = server.client();
    writer.call(&[b"SET".as_slice(), b"big", &value(0)]);
    let read = |_: usize, mut client: Client, stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            let reply = client.run("GET big");
            let bytes = reply.bytes();
            assert!(bytes.len() == BYTES && bytes.iter().all(|byte| *byte == bytes[0]), "a mixture");
        }
    };
    besides(clients(&server), read, || {
        for n in 1..120 {
            if n % 10 == 0 {
                // As another key, so that it also moves from shard to shard.
                writer.call(&[b"SET".as_slice(), b"next", &value(n)]);
                writer.expect("RENAME next big", "+OK");
            } else {
                assert_eq!(writer.call(&[b"SET".as_slice(), b"big", &value(n)]), Reply::Simple("OK".into()));
            }
        }
    });
    writer.expect("FLUSHALL", "+OK");
    eventually("the memory is back", || writer.info_number("allocator_allocated") < 100_000);
}

/// Whichever worker is asked, the answer is about all of them.
#[test]
fn global_facts() {
    const KEYS: usize = 1_000;
    let server = four_workers();
    let mut all = clients(&server);
    let each = all.len();
    for (i, client) in all.iter_mut().enumerate() {
        let lines: Vec<String> = (0..KEYS).map(|n| format!("SET {i}:{n} v")).collect();
        client.pipeline(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        client.expect(&format!("CLIENT SETNAME number-{i}"), "+OK");
    }
    let sent = each * (KEYS + 1);
    let total = i64::try_from(each * KEYS).expect("small");
    for client in &mut all {
        client.expect("DBSIZE", &format!(":{total}"));
        assert_eq!(client.run("KEYS *").items().len(), each * KEYS);
        let mut seen = BTreeSet::new();
        let mut cursor = "0".to_string();
        loop {
            let page = client.run(&format!("SCAN {cursor} COUNT 500"));
            seen.extend(page.items()[1].items().iter().map(Reply::text));
            cursor = page.items()[0].text();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), each * KEYS, "SCAN finds all");
        assert!(client.info("db0").starts_with(&format!("keys={total},")));
        let list = client.run("CLIENT LIST").text();
        let ids: Vec<u64> = list
            .lines()
            .map(|line| line.split_whitespace().next().and_then(|id| id.strip_prefix("id=")).expect("an id"))
            .map(|id| id.parse().expect("a number"))
            .collect();
        assert!(ids.is_sorted(), "{ids:?}");
        (0..each).for_each(|i| assert!(list.contains(&format!("name=number-{i} ")), "{list}"));
        assert_eq!(client.info_number("connected_clients"), each as u64);
        assert!(client.info_number("total_commands_processed") >= sent as u64);
    }
    // Random picks come from everywhere.
    let picked: BTreeSet<String> = (0..200).map(|_| all[0].run("RANDOMKEY").text()[..1].to_string()).collect();
    assert_eq!(picked.len(), each, "{picked:?}");
    all[3].expect("FLUSHALL", "+OK");
    for client in &mut all {
        client.expect("DBSIZE", ":0");
        client.expect("RANDOMKEY", "nil");
    }
    // The longest client list is not one worker's.
    drop(all.split_off(each / 2));
    eventually("those that have gone are off", || all[0].info_number("connected_clients") == (each / 2) as u64);
}

#[test]
fn databases_are_swapped_at_one_instant() {
    let server = four_workers();
    let mut writer = server.client();
    let names: Vec<String> = (0..64).map(|i| format!("k{i}")).collect();
    for (database, value) in [("0", "zero"), ("1", "one")] {
        writer.expect(&format!("SELECT {database}"), "+OK");
        let pairs: Vec<&str> = names.iter().flat_map(|name| [name.as_str(), value]).collect();
        writer.call(&[&["MSET"], &pairs[..]].concat());
    }
    let all: Vec<&str> = [&["MGET"], &names.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
    let watch = |_: usize, mut client: Client, stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            let seen: BTreeSet<String> = client.call(&all).items().iter().map(Reply::text).collect();
            assert_eq!(seen.len(), 1, "{seen:?}");
        }
    };
    besides(clients(&server), watch, || (0..300).for_each(|_| writer.expect("SWAPDB 0 1", "+OK")));
}

#[test]
fn keys_expire_on_time_on_every_worker() {
    let server = four_workers();
    let mut client = server.client();
    let lines: Vec<String> = (0..2_000).map(|n| format!("SET {n} v PX 40")).collect();
    client.pipeline(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    // Nobody asks for them: they go by themselves.
    eventually("all have expired", || client.info_number("expired_keys") == 2_000);
    client.expect("DBSIZE", ":0");
}

#[test]
fn the_limit_of_clients_is_one_for_all() {
    let server = Server::with(&["--workers", "4", "--maxclients", "10"]);
    let mut all: Vec<Client> = (0..10).map(|_| server.client()).collect();
    all.iter_mut().for_each(|client| client.expect("PING", "+PONG"));
    assert_eq!(server.client().read(), Reply::Error("ERR max number of clients reached".into()));
    all.pop();
    eventually("a place is free", || server.client().try_read_pong());
}

#[test]
fn any_worker_ends_all() {
    for i in 0..WORKERS {
        let mut server = four_workers();
        let mut all = clients(&server);
        all.iter_mut().for_each(|client| client.expect("PING", "+PONG"));
        all[i].send(&request(&["SHUTDOWN"]));
        assert!(server.wait_exit().success());
    }
    let mut server = four_workers();
    let mut all = clients(&server);
    for client in &mut all {
        client.send(&request(&["ECHO", "answered"]).repeat(100));
    }
    all.iter_mut().for_each(|client| assert_eq!(client.read(), Reply::bulk("answered")));
    server.signal(Signal::SIGTERM);
    assert!(server.wait_exit().success());
    for client in &mut all {
        (1..100).for_each(|_| assert_eq!(client.read(), Reply::bulk("answered")));
    }
}
