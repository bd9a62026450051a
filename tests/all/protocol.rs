//! The wire: inline commands and their quoting, what a request may look like, and what ends a connection.

use crate::harness::{Client, Reply, Server, quoted, request, words};

/// The replies to bytes as they are.
fn raw(c: &mut Client, bytes: &[u8], replies: usize) -> Vec<Reply> {
    c.send(bytes);
    (0..replies).map(|_| c.read()).collect()
}

#[test]
fn inline_commands() {
    let server = Server::start();
    let mut c = server.client();
    for (bytes, expected) in [
        (r"PING", "+PONG"),
        (r"ping", "+PONG"),
        ("  PING\t hello  ", "'hello'"),
        (r"ECHO hello", "'hello'"),
        (r#"ECHO "two words""#, "'two words'"),
        (r#"ECHO """#, "''"),
        (r"ECHO ''", "''"),
        (r#""ECHO" "x""#, "'x'"),
        (r#"ECHO "\x41\x6a\xff\x00z""#, r"'Aj\xff\x00z'"),
        (r#"ECHO "\n\r\t\b\a\\\"\q""#, r#"'\n\r\x09\x08\x07\\"q'"#),
        (r#"ECHO "\xzz""#, "'xzz'"),
        (r"ECHO 'it\'s \n'", r"'it\'s \\n'"),
        (r#"ECHO a"b"#, "-ERR Protocol error: unbalanced quotes in request"),
        (r#"ECHO "a"b"#, "-ERR Protocol error: unbalanced quotes in request"),
        (r"ECHO 'a'b", "-ERR Protocol error: unbalanced quotes in request"),
        (r#"ECHO "open"#, "-ERR Protocol error: unbalanced quotes in request"),
        (r"ECHO 'open", "-ERR Protocol error: unbalanced quotes in request"),
        (r#"ECHO "open\""#, "-ERR Protocol error: unbalanced quotes in request"),
        ("SET k 'a b'", "+OK"),
        ("GET k", "'a b'"),
        ("get", "-ERR wrong number of arguments for 'get' command"),
        ("nosuch", "-ERR unknown command 'nosuch'"),
    ] {
        for end in ["\r\n", "\n"] {
            let reply = raw(&mut c, format!("{bytes}{end}").as_bytes(), 1).remove(0);
            let fits = crate::harness::matches(&reply, expected);
            assert!(fits, "{bytes:?}\n  expected {expected}\n  received {reply}");
            if expected.contains("Protocol error") {
                c.expect_closed();
                c = server.client();
            }
        }
    }
}

#[test]
fn empty_requests_are_ignored() {
    let server = Server::start();
    let mut c = server.client();
    for nothing in ["\r\n", "\n", "   \r\n", "\r\n\r\n\n", "*0\r\n", "*-1\r\n", "*-5\r\n", "*0\r\n\r\n*0\r\n"] {
        let replies = raw(&mut c, format!("{nothing}PING\r\n{nothing}*1\r\n$4\r\nPING\r\n{nothing}").as_bytes(), 2);
        assert_eq!(replies, [Reply::Simple("PONG".into()), Reply::Simple("PONG".into())], "{nothing:?}");
    }
}

#[test]
fn inline_and_multibulk_mix_in_one_pipeline() {
    let server = Server::start();
    let mut c = server.client();
    let replies = raw(&mut c, b"SET k v\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nGET k\n*1\r\n$4\r\nPING\r\nECHO 'x y'\r\n", 5);
    let expected = ["+OK", "'v'", "'v'", "+PONG", "'x y'"];
    assert_eq!(replies.iter().map(Reply::to_string).collect::<Vec<_>>(), expected);
}

/// What breaks the protocol is answered by an error of this meaning, and ends the connection, after what came before was answered.
#[test]
fn protocol_errors_close() {
    let server = Server::start();
    let long = |first: u8| [vec![first], vec![b'1'; 70_000]].concat();
    for (bytes, expected) in [
        (b"*abc\r\n".to_vec(), "invalid multibulk length"),
        (b"*\r\n".to_vec(), "invalid multibulk length"),
        (b"*1x\r\n".to_vec(), "invalid multibulk length"),
        (b"* 1\r\n".to_vec(), "invalid multibulk length"),
        (b"*+1\r\n".to_vec(), "invalid multibulk length"),
        (b"*01\r\n".to_vec(), "invalid multibulk length"),
        (b"*2147483648\r\n".to_vec(), "invalid multibulk length"),
        (b"*9223372036854775807\r\n".to_vec(), "invalid multibulk length"),
        (b"*99999999999999999999999\r\n".to_vec(), "invalid multibulk length"),
        (b"*1\r\nPING\r\n".to_vec(), "expected '$', got 'P'"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n".to_vec(), "expected '$', got '*'"),
        (b"*1\r\n:4\r\n".to_vec(), "expected '$', got ':'"),
        (b"*2\r\n$4\r\nECHO\r\n+OK\r\n".to_vec(), "expected '$', got '+'"),
        (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$abc\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$4 \r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$+4\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$04\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$536870913\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$9223372036854775808\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$18446744073709551620\r\n".to_vec(), "invalid bulk length"),
        (long(b'x'), "too big inline request"),
        (long(b'*'), "too big mbulk count string"),
        ([b"*1\r\n".to_vec(), long(b'$')].concat(), "too big bulk count string"),
    ] {
        let mut c = server.client();
        let what = quoted(&bytes[..bytes.len().min(60)]);
        c.send(&[request(&["PING"]), bytes].concat());
        assert_eq!(c.read(), Reply::Simple("PONG".into()), "{what}");
        assert_eq!(c.read(), Reply::Error(format!("ERR Protocol error: {expected}")), "{what}");
        // Whoever goes on writing finds it closed as well; what is unread may turn the end into a reset.
        c.expect_closed();
        server.assert_alive();
    }
}

/// Redis trusts the two bytes behind an argument; here a request that lies about a length is refused instead of misread.
#[test]
fn an_argument_without_its_crlf() {
    let server = Server::start();
    if server.is_redis() {
        return;
    }
    for bytes in [
        "*1\r\n$4\r\nPINGxx",
        "*1\r\n$3\r\nPING\r\n",
        "*1\r\n$5\r\nPING\r\n\r\n",
        "*1\r\n$4\r\nPING\n\r",
        "*2\r\n$4\r\nECHO\r\n$1\r\nab\r\n",
    ] {
        let mut c = server.client();
        c.send(bytes.as_bytes());
        let Reply::Error(text) = c.read() else { panic!("{bytes:?} was accepted") };
        assert!(text.starts_with("ERR Protocol error"), "{bytes:?}: {text}");
        c.expect_closed();
    }
    server.assert_alive();
}

/// Nobody who has not said the password can make the server set much memory aside.
#[test]
fn limits_before_auth() {
    let server = Server::with(&["--requirepass", "secret"]);
    for (bytes, expected) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        ("*1000000\r\n", "unauthenticated multibulk length"),
        ("*2\r\n$4\r\nAUTH\r\n$16385\r\n", "unauthenticated bulk length"),
        ("*2\r\n$4\r\nAUTH\r\n$500000000\r\n", "unauthenticated bulk length"),
    ] {
        let mut c = server.client();
        c.send(bytes.as_bytes());
        assert_eq!(c.read(), Reply::Error(format!("ERR Protocol error: {expected}")), "{bytes:?}");
        c.expect_closed();
    }
    let mut c = server.client();
    let allowed = ["x".repeat(16384)];
    assert!(c.call(&[vec!["AUTH".to_string()], allowed.to_vec()].concat()).is_error());
    assert!(c.run("a b c d e f g h i j").is_error());
    c.expect("AUTH secret", "+OK");
    assert_eq!(c.call(&["ECHO", &"x".repeat(100_000)]), Reply::bulk("x".repeat(100_000)));
    assert!(c.run("MGET a b c d e f g h i j k l m n o p").items().len() == 16);
}

/// Sends `bytes` up to `at`, and the rest only when the server has surely read that.
fn send_in_two(c: &mut Client, witness: &mut Client, bytes: &[u8], at: usize) {
    c.send(&bytes[..at]);
    // Loopback delivers before `write` returns, so the turn that answers this has seen both, or the one before has.
    witness.expect("PING", "+PONG");
    c.send(&bytes[at..]);
}

#[test]
fn a_pipeline_split_at_every_byte() {
    let server = Server::start();
    let (mut c, mut witness) = (server.client(), server.client());
    let lines = [
        "SET k v",
        "MSET a 1 b '22' c ''",
        "GET k",
        "NOSUCH x",
        "HELLO 2",
        "MGET a b c none",
        "INCR n",
        "SET k 'x\r\n*1\r\n$4\r\n' EX 100",
        "GET k",
    ];
    let mut bytes: Vec<u8> = lines.iter().flat_map(|line| request(&words(line))).collect();
    bytes.extend(b"ECHO \"in\\x20line\"\r\n\r\n*0\r\nPING\n");
    let count = lines.len() + 2;
    // HELLO tells the same each time, INCR does not: a counter of its own for each round.
    let whole: Vec<String> = raw(&mut c, &bytes, count).iter().map(Reply::to_string).collect();
    for at in 1..bytes.len() {
        witness.expect("DEL n", ":1");
        send_in_two(&mut c, &mut witness, &bytes, at);
        let replies: Vec<String> = (0..count).map(|_| c.read().to_string()).collect();
        assert_eq!(replies, whole, "split at byte {at}");
    }
    // And byte by byte.
    witness.expect("DEL n", ":1");
    for byte in &bytes {
        c.send(std::slice::from_ref(byte));
        witness.expect("PING", "+PONG");
    }
    let replies: Vec<String> = (0..count).map(|_| c.read().to_string()).collect();
    assert_eq!(replies, whole, "byte by byte");
}

#[test]
fn a_large_argument_split_anywhere() {
    let server = Server::start();
    let (mut c, mut witness) = (server.client(), server.client());
    let value: Vec<u8> = (0..200_000_u32).map(|i| u8::try_from(i % 253).expect("a byte")).collect();
    let bytes = [request(&[b"SET", b"k".as_slice(), &value]), request(&["GET", "k"])].concat();
    for at in (1..200).chain((200..bytes.len() - 100).step_by(9973)).chain(bytes.len() - 100..bytes.len()) {
        send_in_two(&mut c, &mut witness, &bytes, at);
        assert_eq!(c.read(), Reply::Simple("OK".into()), "split at byte {at}");
        assert!(c.read().bytes() == value, "split at byte {at}");
        witness.expect("DEL k", ":1");
    }
}

#[test]
fn deep_pipelines() {
    let server = Server::start();
    let mut c = server.client();
    for depth in [1, 2, 11, 12, 13, 127, 128, 129, 1000, 10_000] {
        let requests = (0..depth).flat_map(|i| request(&["SET", &format!("k{i}"), &i.to_string()]));
        let bytes: Vec<u8> = requests.chain((0..depth).flat_map(|i| request(&["GET", &format!("k{i}")]))).collect();
        // The writer must not wait for the reader, as the server may wait for it.
        let mut writer = c.stream().try_clone().expect("a second handle");
        let sender = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &bytes));
        for _ in 0..depth {
            assert_eq!(c.read(), Reply::Simple("OK".into()));
        }
        for i in 0..depth {
            assert_eq!(c.read(), Reply::bulk(i.to_string()), "depth {depth}");
        }
        sender.join().expect("the sender").expect("everything was read");
    }
}

#[test]
fn half_closed_connections_get_their_answers() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("SET k v", "+OK");
    c.send(&request(&["GET", "k"]).repeat(1000));
    c.stream().shutdown(std::net::Shutdown::Write).expect("a half-closed connection");
    for _ in 0..1000 {
        assert_eq!(c.read(), Reply::bulk("v"));
    }
    c.expect_closed();
    // With half a request in the end, that half is dropped.
    let mut c = server.client();
    c.send(b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1");
    c.stream().shutdown(std::net::Shutdown::Write).expect("a half-closed connection");
    assert_eq!(c.read(), Reply::Simple("PONG".into()));
    c.expect_closed();
}
