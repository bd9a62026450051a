//! MONITOR, and LOLWUT. With one worker and with several, as what all run is shown.

use crate::control::servers;
use crate::harness::{Client, Reply, eventually, request};

/// What is shown next, without the time: `[0 address] "GET" "k"`.
fn shown(client: &mut Client) -> String {
    let Reply::Simple(line) = client.read() else { panic!("a line") };
    let (time, rest) = line.split_once(' ').expect("a time");
    let (seconds, micros) = time.split_once('.').expect("microseconds");
    assert!(seconds.parse::<u64>().is_ok_and(|s| s > 1_600_000_000) && micros.len() == 6, "{line}");
    rest.to_owned()
}

#[test]
fn every_command_is_shown() {
    for server in servers(&[]) {
        let mut watchers: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for watcher in &mut watchers {
            watcher.expect("MONITOR", "+OK");
        }
        let listed = server.client().run("CLIENT LIST").text();
        assert_eq!(listed.lines().filter(|line| line.contains(" flags=O")).count(), 4, "{listed}");
        let mut clients: Vec<Client> = (0..5).map(|_| server.client()).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            let address = client.stream().local_addr().expect("an address");
            client.expect("SELECT 3", "+OK");
            client.expect("AUTH default secret", "+OK");
            assert_eq!(client.call(&[b"SET".as_slice(), b"a\r\n\x00\xff'\"", b"v"]), Reply::Simple("OK".into()));
            client.expect("GET", "-ERR wrong number of arguments for 'get' command");
            client.expect("CONFIG GET nosuch", "[]");
            client.expect("MULTI", "+OK");
            client.expect(&format!("SET n {n}"), "+QUEUED");
            client.expect("EXEC", "[+OK]");
            let expected = [
                format!(r#"[0 {address}] "SELECT" "3""#),
                format!(r#"[3 {address}] "AUTH" "(redacted)" "(redacted)""#),
                format!(r#"[3 {address}] "SET" "a\r\n\x00\xff'\"" "v""#),
                format!(r#"[3 {address}] "MULTI""#),
                format!(r#"[3 {address}] "SET" "n" "{n}""#),
                format!(r#"[3 {address}] "EXEC""#),
            ];
            for watcher in &mut watchers {
                let mut seen: Vec<String> = expected.iter().map(|_| shown(watcher)).collect();
                // Redis shows a SELECT behind what it has changed.
                seen[0] = seen[0].replace("[3 ", "[0 ");
                assert_eq!(seen, expected);
            }
        }
        // Who watches no more is a client like others.
        for watcher in &mut watchers {
            watcher.send(&request(&["RESET"]));
            while watcher.read() != Reply::Simple("RESET".into()) {}
            watcher.expect("ECHO x", "'x'");
        }
        drop(watchers);
        clients[0].expect("PING", "+PONG");
    }
}

/// Requests of very many keys, and values that are received in place, take other ways.
#[test]
fn large_requests_are_shown() {
    for server in servers(&[]) {
        let (mut watcher, mut client) = (server.client(), server.client());
        watcher.expect("MONITOR", "+OK");
        let mut words = vec!["MSET".to_owned()];
        (0..2000).for_each(|n| words.extend([format!("k{n}"), "x".repeat(20)]));
        assert_eq!(client.call(&words), Reply::Simple("OK".into()));
        assert_eq!(client.call(&["SET", "large", &"y".repeat(100_000)]), Reply::Simple("OK".into()));
        let mset = shown(&mut watcher);
        assert!(mset.contains(r#"] "MSET" "k0" "xxxxxxxxxxxxxxxxxxxx" "k1""#), "{}", &mset[..100]);
        assert_eq!(mset.matches(r#" "k"#).count(), 2000);
        assert!(shown(&mut watcher).contains(r#"] "SET" "large" ""#));
    }
}

#[test]
fn who_does_not_read_is_cut_off() {
    for server in servers(&["--client-output-buffer-limit", "pubsub 1mb 0 0 normal 1mb 0 0"]) {
        let (mut watcher, mut client) = (server.client(), server.client());
        watcher.expect("MONITOR", "+OK");
        let value = "x".repeat(10_000);
        eventually("the one who watches is disconnected", || {
            (0..100).for_each(|_| assert_eq!(client.call(&["SET", "k", &value]), Reply::Simple("OK".into())));
            !client.run("CLIENT LIST").text().contains(" flags=O")
        });
    }
}

#[test]
fn pictures() {
    for server in servers(&[]) {
        let mut c = server.client();
        for line in ["LOLWUT", "LOLWUT VERSION 5", "LOLWUT VERSION 5 40 20 3"] {
            let picture = c.run(line).text();
            assert!(
                (line == "LOLWUT" || picture.lines().count() > 2) && picture.contains(" ver. "),
                "{line}: {picture}"
            );
        }
    }
}
