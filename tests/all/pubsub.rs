//! SUBSCRIBE, PUBLISH and their kin: with one worker and with several, in RESP2 and RESP3.

use crate::control::servers;
use crate::harness::{Client, Reply, Server, eventually, request, script};

fn subscribed(server: &Server, line: &str) -> Client {
    let mut client = server.client();
    client.send(&request(&crate::harness::words(line)));
    for _ in 1..line.split(' ').count() {
        client.read();
    }
    client
}

#[test]
fn what_each_command_answers() {
    for server in servers(&[]) {
        let mut client = server.client();
        script(
            &server,
            &mut client,
            r"
            SUBSCRIBE a => ['subscribe', 'a', :1]
            PSUBSCRIBE p* => ['psubscribe', 'p*', :2]
            SSUBSCRIBE s => ['ssubscribe', 's', :1]
            SUBSCRIBE a => ['subscribe', 'a', :2]
            GET x => -ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
            PING => ['pong', '']
            PING hello => ['pong', 'hello']
            UNSUBSCRIBE nosuch => ['unsubscribe', 'nosuch', :2]
            UNSUBSCRIBE => ['unsubscribe', 'a', :1]
            UNSUBSCRIBE => ['unsubscribe', nil, :1]
            PUNSUBSCRIBE p* => ['punsubscribe', 'p*', :0]
            SUNSUBSCRIBE s => ['sunsubscribe', 's', :0]
            GET x => nil
            PUBLISH a x => :0
            PING => +PONG
            SUBSCRIBE => -ERR wrong number of arguments for 'subscribe' command
            PUBSUB CHANNELS a b => -ERR
            PUBSUB NUMSUB => []
            PUBSUB NUMPAT => :0
            ",
        );
    }
}

#[test]
fn messages_reach_channels_patterns_and_shard_channels() {
    for server in servers(&[]) {
        let mut publisher = server.client();
        let mut channel = subscribed(&server, "SUBSCRIBE news other");
        let mut pattern = subscribed(&server, "PSUBSCRIBE n?ws *s");
        let mut both = subscribed(&server, "SUBSCRIBE news");
        both.send(&request(&["PSUBSCRIBE", "new*"]));
        both.read();
        let mut shard = subscribed(&server, "SSUBSCRIBE news");
        publisher.expect("PUBLISH news hello", ":5");
        publisher.expect("PUBLISH other x", ":1");
        publisher.expect("SPUBLISH news sharded", ":1");
        let message = |channel: &str, text: &str| format!("['message', '{channel}', '{text}']");
        assert!(crate::harness::matches(&channel.read(), &message("news", "hello")));
        assert!(crate::harness::matches(&channel.read(), &message("other", "x")));
        let mut patterns: Vec<String> = (0..2).map(|_| pattern.read().to_string()).collect();
        patterns.sort();
        assert!(patterns[0].contains("*s") && patterns[1].contains("n?ws"), "{patterns:?}");
        assert!(crate::harness::matches(&both.read(), &message("news", "hello")));
        assert!(crate::harness::matches(&both.read(), "['pmessage', 'new*', 'news', 'hello']"));
        assert!(crate::harness::matches(&shard.read(), "['smessage', 'news', 'sharded']"));
        publisher.expect("PUBSUB NUMSUB news other none", "['news', :2, 'other', :1, 'none', :0]");
        publisher.expect("PUBSUB SHARDNUMSUB news", "['news', :1]");
        publisher.expect("PUBSUB NUMPAT", ":3");
        publisher.expect("PUBSUB CHANNELS o*", "['other']");
        publisher.expect("PUBSUB SHARDCHANNELS", "['news']");
        // Whoever goes is not counted any more.
        drop((channel, pattern, shard));
        eventually("they are gone", || publisher.run("PUBLISH news again").int() == 2);
        publisher.expect("PUBSUB NUMPAT", ":1");
    }
}

#[test]
fn resp3_gets_pushes_and_may_do_all() {
    for server in servers(&[]) {
        let (mut client, mut publisher) = (server.client3(), server.client());
        assert_eq!(
            client.run("SUBSCRIBE c"),
            Reply::Push(vec![Reply::bulk("subscribe"), Reply::bulk("c"), Reply::Int(1)])
        );
        publisher.expect("PUBLISH c 1", ":1");
        assert_eq!(client.read(), Reply::Push(vec![Reply::bulk("message"), Reply::bulk("c"), Reply::bulk("1")]));
        client.expect("SET k v", "+OK");
        client.expect("PING", "+PONG");
        // To RESP2 with a subscription: little is allowed.
        client.run("HELLO 2");
        assert!(client.run("GET k").is_error());
        client.expect("RESET", "+RESET");
        client.expect("GET k", "'v'");
        publisher.expect("PUBLISH c 2", ":0");
    }
}

#[test]
fn a_publishers_messages_arrive_in_order_and_each_once() {
    const MESSAGES: usize = 2000;
    for server in servers(&[]) {
        let mut subscribers: Vec<Client> =
            (0..8).map(|i| subscribed(&server, ["SUBSCRIBE a b", "PSUBSCRIBE a b"][i % 2])).collect();
        let mut publisher = server.client();
        let mut batch = Vec::new();
        for i in 0..MESSAGES {
            batch.extend(request(&["PUBLISH", ["a", "b"][i / 3 % 2], &i.to_string()]));
        }
        publisher.send(&batch);
        for _ in 0..MESSAGES {
            assert_eq!(publisher.read(), Reply::Int(8));
        }
        for subscriber in &mut subscribers {
            for i in 0..MESSAGES {
                let message = subscriber.read();
                assert_eq!(message.items().last(), Some(&Reply::bulk(i.to_string())));
            }
        }
    }
}

#[test]
fn a_large_message_is_whole() {
    for server in servers(&[]) {
        let mut subscribers: Vec<Client> = (0..4).map(|_| subscribed(&server, "SUBSCRIBE c")).collect();
        let text = vec![b'm'; 300_000];
        let mut publisher = server.client();
        assert_eq!(publisher.call(&[b"PUBLISH".as_slice(), b"c", &text]), Reply::Int(4));
        publisher.expect("PUBLISH c small", ":4");
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.read().items()[2].bytes(), text);
            assert_eq!(subscriber.read().items()[2].bytes(), b"small");
        }
    }
}

/// A subscriber that does not read is cut by the limit of its class; the publisher does not notice.
#[test]
fn slow_subscribers_are_cut() {
    for server in servers(&["--client-output-buffer-limit", "pubsub 1mb 0 0"]) {
        let slow = subscribed(&server, "SUBSCRIBE c");
        let mut publisher = server.client();
        let text = vec![b'm'; 10_000];
        eventually("the subscriber is cut", || publisher.call(&[b"PUBLISH".as_slice(), b"c", &text]) == Reply::Int(0));
        drop(slow);
        server.assert_alive();
    }
}

/// However many have not taken a message yet, it is kept once.
#[test]
fn a_message_is_kept_once_for_all() {
    const BYTES: usize = 4 << 20;
    for server in servers(&["--client-output-buffer-limit", "pubsub 0 0 0"]) {
        let mut subscribers: Vec<Client> = (0..30).map(|_| subscribed(&server, "SUBSCRIBE c")).collect();
        let mut publisher = server.client();
        let text = vec![b'm'; BYTES];
        let before = server.resident_bytes();
        assert_eq!(publisher.call(&[b"PUBLISH".as_slice(), b"c", &text]), Reply::Int(30));
        // The publisher was answered without anybody having read; what was published later comes later.
        publisher.expect("PUBLISH c end", ":30");
        if !server.is_redis() {
            let grown = server.resident_bytes().saturating_sub(before);
            assert!(grown < 5 * BYTES as u64, "{grown} bytes for a message of {BYTES} to 30 clients");
        }
        for subscriber in &mut subscribers {
            assert!(subscriber.read().items()[2].bytes() == text);
            assert_eq!(subscriber.read().items()[2], Reply::bulk("end"));
        }
    }
}

/// A pipeline of a client that hears itself: subscriptions count from where they stand among its messages.
#[test]
fn own_messages_and_subscriptions_are_in_order() {
    for server in servers(&[]) {
        let mut client = server.client3();
        let lines = [
            "SUBSCRIBE a",
            "PUBLISH a 1",
            "PUBLISH b 2",
            "SUBSCRIBE b",
            "PUBLISH b 3",
            "UNSUBSCRIBE b",
            "PUBLISH b 4",
            "PSUBSCRIBE ?",
            "PUBLISH a 5",
            "RESET",
        ];
        let bytes: Vec<u8> = lines.iter().flat_map(|line| request(&crate::harness::words(line))).collect();
        client.send(&bytes);
        let (mut told, mut counts) = (Vec::new(), Vec::new());
        loop {
            match client.read() {
                Reply::Int(count) => counts.push(count),
                Reply::Simple(text) if text == "RESET" => break,
                push => {
                    let words: Vec<String> =
                        push.items().iter().map(|word| word.to_string().replace('\'', "")).collect();
                    told.push(words.join(" "));
                }
            }
        }
        assert_eq!(counts, [1, 0, 1, 0, 2]);
        let expected = [
            "subscribe a :1",
            "message a 1",
            "subscribe b :2",
            "message b 3",
            "unsubscribe b :1",
            "psubscribe ? :2",
            "message a 5",
            "pmessage ? a 5",
        ];
        assert_eq!(told, expected);
    }
}

#[test]
fn client_list_tells_subscriptions() {
    for server in servers(&[]) {
        let mut client = server.client3();
        client.run("SUBSCRIBE a");
        client.run("PSUBSCRIBE p");
        client.run("PSUBSCRIBE q");
        client.run("SSUBSCRIBE s");
        let line = client.run("CLIENT INFO").text();
        assert!(line.contains(" flags=P ") && line.contains(" sub=1 psub=2 ssub=1 "), "{line}");
        let mut other = server.client();
        assert_eq!(other.run("CLIENT LIST TYPE pubsub").text().lines().count(), 1);
        assert_eq!(other.run("CLIENT LIST TYPE normal").text().lines().count(), 1);
    }
}
