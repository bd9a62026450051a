//! Servers that lie, die, refuse, or are not there, and users who lose patience.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::*;

/// A small store that is honest but for one answer to a GET: the `lie` of what it holds of the key, what it held before, and its number.
fn liar(lie: impl Fn(Option<Vec<u8>>, Option<Vec<u8>>, u64) -> Option<Vec<u8>> + Send + Sync + 'static) -> u16 {
    type Store = HashMap<Vec<u8>, (Option<Vec<u8>>, Option<Vec<u8>>)>;
    let (store, gets) = (Mutex::new(Store::new()), AtomicU64::new(0));
    fake(move |arguments| {
        let mut store = store.lock().expect("nobody panics");
        let mut replace = |key: &[u8], value: Option<Vec<u8>>| {
            let entry = store.entry(key.to_vec()).or_default();
            entry.1 = std::mem::replace(&mut entry.0, value);
        };
        let answer = match &arguments[0][..] {
            b"SET" => {
                replace(&arguments[1], Some(arguments[2].clone()));
                b"+OK\r\n".to_vec()
            }
            b"DEL" => {
                replace(&arguments[1], None);
                b":1\r\n".to_vec()
            }
            b"GET" => {
                let (now, before) = store.get(&arguments[1]).cloned().unwrap_or_default();
                match lie(now, before, gets.fetch_add(1, Ordering::Relaxed)) {
                    Some(value) => [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat(),
                    None => b"$-1\r\n".to_vec(),
                }
            }
            _ => b"+OK\r\n".to_vec(),
        };
        Some(answer)
    })
}

fn verified(port: u16) -> (Option<i32>, u64, u64, String) {
    let called = call(&format!("-p {port} -n 4000 -c 8 -r 100 -d 20-60 --ratio 4:4:1 --fill --verify --json"));
    let document = json(&called);
    let verification = &document["runs"][0]["verification"];
    (called.code, count(verification, "checked"), count(verification, "wrong"), verification["examples"].to_string())
}

#[test]
fn verification_finds_what_is_planted_and_nothing_else() {
    let (code, checked, wrong, _) = verified(liar(|now, _, _| now));
    assert_eq!((code, wrong), (Some(0), 0));
    assert!(checked > 1000, "{checked}");

    // One bit of one value.
    let told = AtomicU64::new(0);
    let (code, _, wrong, examples) = verified(liar(move |now, _, number| {
        now.map(|mut value| {
            if number >= 500 && told.fetch_add(1, Ordering::Relaxed) == 0 {
                value[7] ^= 1;
            }
            value
        })
    }));
    assert_eq!((code, wrong), (Some(1), 1), "{examples}");
    assert!(examples.contains("no version of it"), "{examples}");

    // Whatever was read: of hundreds, all that had a value.
    let (code, checked, wrong, _) = verified(liar(|now, _, _| now.map(|_| b"planted".to_vec())));
    assert_eq!(code, Some(1));
    assert!(wrong > checked / 2 && wrong <= checked, "{wrong} of {checked}");

    // For a while values that the keys held before. (Now and then that is what a read may see, as a write is under way.)
    let (code, _, wrong, examples) = verified(liar(|now, before, number| {
        let stale = (500..700).contains(&number) && now.is_some() && before.is_some();
        if stale { before } else { now }
    }));
    assert!(code == Some(1) && (1..=200).contains(&wrong), "{wrong}: {examples}");
    assert!(examples.contains("instead of version") && !examples.contains("no version"), "{examples}");

    // For a while nothing where there is something.
    let (code, _, wrong, examples) = verified(liar(|now, _, number| now.filter(|_| !(500..700).contains(&number))));
    assert!(code == Some(1) && (1..=200).contains(&wrong), "{wrong}: {examples}");
    assert!(examples.contains("nothing, instead of"), "{examples}");
}

#[test]
fn what_was_measured_before_a_server_died_is_kept() {
    let served = AtomicU64::new(0);
    let port = fake(move |_| (served.fetch_add(1, Ordering::Relaxed) < 2000).then(|| b"+OK\r\n".to_vec()));
    let called = call(&format!("-p {port} -t set,get -n 100000 -c 10 --json"));
    assert_eq!(called.code, Some(1), "{}", called.err);
    let document = json(&called);
    let run = &document["runs"][0];
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(1), "the second workload has nobody to run on");
    assert!(run["partial"].as_str().is_some_and(|why| why.contains("closed the connection")), "{}", run["partial"]);
    // The first connection to be opened asks for the version, the others say PING.
    assert!((1900..2000).contains(&count(run, "requests")), "{}", run["requests"]);
    assert_eq!(count(run, "lost_connections"), 10);

    let table = call(&format!("-p {port} -t set -n 10"));
    assert!(table.code == Some(1) && table.err.contains("closed the connection"), "{}", table.err);
}

#[test]
fn a_server_that_falls_silent_is_given_up() {
    let served = AtomicU64::new(0);
    let port = fake(move |_| {
        let number = served.fetch_add(1, Ordering::Relaxed);
        Some(if number < 500 { b"+OK\r\n".to_vec() } else { Vec::new() })
    });
    let called = call(&format!("-p {port} -t get -n 100000 -c 2 --timeout 300ms --json"));
    assert_eq!(called.code, Some(1));
    let run = &json(&called)["runs"][0];
    assert!(run["partial"].as_str().is_some_and(|why| why.contains("has not answered")), "{}", run["partial"]);
    assert!(count(run, "requests") > 400);
    assert_eq!(count(run, "unanswered"), 2);
}

#[test]
fn ctrl_c_tells_what_was_measured() {
    let (seen, wait) = channel();
    let port = fake(move |arguments| {
        if arguments[0] == b"SET" {
            let _ = seen.send(());
        }
        Some(b"+OK\r\n".to_vec())
    });
    let child = bench(&format!("-p {port} -t set,get --duration 300s -c 4"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the tool runs");
    (0..100).for_each(|_| wait.recv().expect("requests"));
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), Signal::SIGINT).expect("it is there");
    let called = called(child.wait_with_output().expect("it ends"));
    assert_eq!(called.code, Some(130), "{}", called.err);
    assert!(called.out.contains("PARTIAL: interrupted") && called.out.contains("p99.99"), "{}", called.out);
    assert!(!called.out.contains("get:"), "the next workload is not begun");
}

#[test]
fn failures_are_told_in_plain_words() {
    let closed =
        std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|port| port.local_addr()).expect("a port").port();
    let http = fake(|_| Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()));
    let locked = fake(|arguments| match &arguments[0][..] {
        b"AUTH" if arguments.last().is_some_and(|password| password == b"right") => Some(b"+OK\r\n".to_vec()),
        b"AUTH" => Some(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n".to_vec()),
        _ => Some(b"-NOAUTH Authentication required.\r\n".to_vec()),
    });
    let silent = fake(|_| Some(Vec::new()));
    for (options, reason) in [
        (format!("-p {closed}"), "no server at 127.0.0.1"),
        ("-s no/such/socket".into(), "there is no such socket"),
        ("-h no.such.host.invalid".into(), "no server at no.such.host.invalid"),
        (format!("-p {http}"), "does not speak RESP2: it says `HTTP/1.1 400 Bad Request`"),
        (format!("-p {locked}"), "wants a password: --password"),
        (format!("-p {locked} -a wrong"), "refuses AUTH: WRONGPASS"),
        (format!("-p {silent} --timeout 100ms"), "has not answered for 0.1 s"),
    ] {
        let called = call(&options);
        assert!(called.code == Some(1) && called.err.contains(reason), "{options}: {}{}", called.out, called.err);
        assert!(called.out.is_empty(), "{}", called.out);
    }
}

#[test]
fn errors_of_requests_are_counted_and_shown() {
    let port = fake(|arguments| match &arguments[0][..] {
        b"GET" => Some(b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_vec()),
        _ => Some(b"+OK\r\n".to_vec()),
    });
    let called = call(&format!("-p {port} -n 1000 --ratio 1:1"));
    assert_eq!(called.code, Some(1));
    assert!(called.out.contains("x error: WRONGTYPE Operation against a key"), "{}", called.out);
    // A server that sends more than was asked for.
    let port = fake(|arguments| {
        Some(if arguments[0] == b"GET" { b"$1\r\na\r\n+OK\r\n".to_vec() } else { b"+OK\r\n".to_vec() })
    });
    let called = call(&format!("-p {port} -t get -n 1000 -c 1"));
    assert!(called.code == Some(1) && called.out.contains("nobody asked for"), "{}{}", called.out, called.err);
}
