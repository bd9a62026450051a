//! Memory goes back to the system when containers shrink and when sizes drift (`activedefrag`), and INFO tells of it.

use crate::harness::{Client, Reply, Server, eventually, request, under_test};

const MB: u64 = 1 << 20;

fn is_dolmen() -> bool {
    under_test().1 == crate::harness::Kind::Dolmen
}

/// Sends requests through one pipeline; none of them fails.
fn run_all(client: &mut Client, requests: impl IntoIterator<Item = Vec<String>>) {
    let (mut text, mut count) = (Vec::new(), 0);
    let flush = |client: &mut Client, text: &mut Vec<u8>, count: &mut usize| {
        client.send(text);
        for _ in 0..*count {
            let reply = client.read();
            assert!(!matches!(reply, Reply::Error(_)), "{reply}");
        }
        text.clear();
        *count = 0;
    };
    for arguments in requests {
        text.extend(request(&arguments));
        count += 1;
        if text.len() > 60_000 {
            flush(client, &mut text, &mut count);
        }
    }
    flush(client, &mut text, &mut count);
}

const HASHES: usize = 250;
const FIELDS: usize = 1000;
const LEFT: usize = 100;

fn field(n: usize) -> String {
    format!("field:{n:06}")
}

/// Hashes of 1,000 fields that lose 900 of them take what fresh ones of 100 take.
#[test]
fn hashes_that_shrink_give_their_memory_back() {
    if !is_dolmen() {
        return;
    }
    let value = "a value with which a hundred fields are too long to lie in one piece";
    let (shrunk, fresh) = (Server::with(&["--workers", "1"]), Server::with(&["--workers", "1"]));
    let (mut client, mut other) = (shrunk.client(), fresh.client());
    client.expect("CONFIG GET activedefrag", "['activedefrag', 'yes']");
    let set = |hash: usize, fields: std::ops::Range<usize>| {
        let mut arguments = vec!["HSET".to_owned(), format!("hash:{hash}")];
        fields.for_each(|n| arguments.extend([field(n * 7919 % FIELDS), value.to_owned()]));
        arguments
    };
    // In turns, so that none lies by itself.
    for from in (0..FIELDS).step_by(20) {
        run_all(&mut client, (0..HASHES).map(|hash| set(hash, from..from + 20)));
    }
    let full = client.info_number("allocator_resident");
    // Those that stay are of all the turns.
    for from in (LEFT..FIELDS).step_by(90) {
        let gone = |hash: usize| {
            let mut arguments = vec!["HDEL".to_owned(), format!("hash:{hash}")];
            arguments.extend((from..from + 90).map(field));
            arguments
        };
        run_all(&mut client, (0..HASHES).map(gone));
    }
    let left = |hash: usize| {
        let mut arguments = vec!["HSET".to_owned(), format!("hash:{hash}")];
        (0..LEFT).for_each(|n| arguments.extend([field(n), value.to_owned()]));
        arguments
    };
    run_all(&mut other, (0..HASHES).map(left));
    let wanted = other.info_number("allocator_resident");
    // A span or two of each class of sizes does not count, nor the huge page that is got ready for what comes.
    let most = wanted * 11 / 10 + 4 * MB;
    assert!(most < full / 2, "{wanted} fresh, {full} full: too little to tell");
    eventually("memory goes back", || client.info_number("allocator_resident") <= most);
    assert!(client.info_number("active_defrag_hits") > 0 && client.info_number("active_defrag_key_hits") > 0);
    eventually("it comes to an end", || client.info_number("active_defrag_running") == 0);
    eventually("so does the account", || client.info_number("current_active_defrag_time") == 0);
    client.expect("CONFIG RESETSTAT", "+OK");
    assert_eq!(client.info_number("active_defrag_hits"), 0);
    for hash in [0, HASHES / 2, HASHES - 1] {
        client.expect(&format!("HLEN hash:{hash}"), &format!(":{LEFT}"));
        let all = client.run(&format!("HGETALL hash:{hash}")).pairs();
        assert!(all.iter().all(|(_, text)| text.bytes() == value.as_bytes()));
        client.expect(&format!("HGET hash:{hash} {}", field(0)), &format!("'{value}'"));
    }
}

/// A day of a cache in some seconds: sizes and types drift, keys come and go, and what is resident stays within the promise.
#[test]
fn churn_leaves_memory_flat() {
    if !is_dolmen() {
        return;
    }
    let server = Server::with(&["--workers", "1", "--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.client();
    client.expect("PING", "+PONG");
    let code = server.resident_bytes();
    let mut n = 0usize;
    for (cycle, bytes) in [40, 900, 15, 3000, 120, 300].into_iter().enumerate() {
        let value = "x".repeat(bytes);
        let count = 12_000_000 / (bytes + 60);
        run_all(
            &mut client,
            (0..count).map(|_| {
                n += 1;
                let part = n * 2_654_435_761 % 97;
                match (n + cycle) % 5 {
                    0 => vec!["SET".into(), format!("s:{n}"), value.clone()],
                    1 => vec!["HSET".into(), format!("h:{cycle}:{part}"), format!("f{n}"), value.clone()],
                    2 => vec!["SADD".into(), format!("u:{cycle}:{part}"), format!("{n}{value}")],
                    3 => vec!["ZADD".into(), format!("z:{cycle}:{part}"), format!("{part}"), format!("{n}{value}")],
                    _ => vec!["RPUSH".into(), format!("l:{cycle}:{part}"), value.clone()],
                }
            }),
        );
        // Of the cycle before, containers lose half of what they have.
        let old = cycle.saturating_sub(1);
        run_all(
            &mut client,
            (0..97).flat_map(|part| {
                [
                    vec!["LTRIM".into(), format!("l:{old}:{part}"), "0".into(), "10".into()],
                    vec!["SPOP".into(), format!("u:{old}:{part}"), "40".into()],
                    vec!["ZREMRANGEBYRANK".into(), format!("z:{old}:{part}"), "0".into(), "60".into()],
                ]
            }),
        );
        eventually(&format!("memory is within the promise after values of {bytes} bytes"), || {
            let used = client.info_number("used_memory");
            assert!(used <= 25 * MB, "{used}");
            server.resident_bytes() <= code + 24 * MB * 105 / 100 + 10 * MB
        });
    }
    assert!(client.info_number("evicted_keys") > 0);
}

#[test]
fn without_activedefrag_nothing_is_moved() {
    if !is_dolmen() {
        return;
    }
    let server = Server::with(&["--workers", "1", "--activedefrag", "no"]);
    let mut client = server.client();
    let member = |command: &str, n: usize| vec![command.into(), format!("set:{}", n % 20), format!("member:{n:020}")];
    run_all(&mut client, (0..100_000).map(|n| member("SADD", n)));
    // Those that stay lie between those that go.
    run_all(&mut client, (0..100_000).filter(|n| n / 20 % 10 != 0).map(|n| member("SREM", n)));
    let fragmented = client.info_number("slab_fragmented");
    assert!(fragmented > MB, "{fragmented}");
    // Two rounds of the cron have looked by then.
    let cycles = client.info_number("eventloop_cycles");
    eventually("time passes", || client.info_number("eventloop_cycles") > cycles + 10);
    assert_eq!((client.info_number("active_defrag_hits"), client.info_number("active_defrag_running")), (0, 0));
    client.expect("CONFIG SET activedefrag yes active-defrag-ignore-bytes 1gb", "+OK");
    client.expect("CONFIG GET active-defrag-*-bytes", "['active-defrag-ignore-bytes', '1073741824']");
    client.expect("CONFIG SET active-defrag-ignore-bytes 100kb active-defrag-threshold-lower 5", "+OK");
    eventually("it begins", || client.info_number("active_defrag_hits") > 0);
    eventually("the room is gone", || client.info_number("slab_fragmented") < fragmented / 4);
    assert!(client.run("CONFIG SET active-defrag-threshold-lower 1001").is_error());
    for set in 0..20 {
        client.expect(&format!("SCARD set:{set}"), ":500");
    }
}
