//! `net uring` end to end, with what its backend treats apart: pipelines beyond a turn's share, large values both ways, a client that does not
//! read, one that is blocked while it sends, several workers, a Unix socket, the end. Everything else runs over it by `DOLMEN_TEST_NET`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use nix::sys::signal::Signal;

use crate::harness::{Kind, Reply, Server, eventually, request, run_to_end, skip, under_test};

/// `None`: this is no server of ours, or the machine has no io_uring, which the server must say then.
fn start(test: &str) -> Option<Server> {
    if under_test().1 == Kind::Redis {
        return None;
    }
    // With nothing to listen on it gets as far as its rings.
    let (status, output) = run_to_end(&["--net", "uring", "--port", "0", "--workers", "1"]);
    assert!(!status.success());
    if output.contains("cannot set up io_uring") {
        assert!(output.contains("With 'net epoll' the server works without it"), "{output}");
        skip(test, output.trim());
        return None;
    }
    Some(Server::with(&["--net", "uring", "--workers", "2", "--unixsocket", "sock"]))
}

#[test]
fn serves_all_kinds_of_clients() {
    let Some(mut server) = start("serves_all_kinds_of_clients") else { return };
    let mut c = server.client();
    assert_eq!(c.info("multiplexing_api"), "io_uring");
    // More than a turn's share at once, then small requests again.
    let pipeline: Vec<u8> = (0..20_000).flat_map(|i| request(&["SET", &format!("key:{i}"), "0123456789"])).collect();
    let mut others: Vec<_> = (0..8).map(|_| server.client()).collect();
    std::thread::scope(|scope| {
        let mut stream = c.stream().try_clone().expect("a second handle");
        scope.spawn(move || stream.write_all(&pipeline).expect("all of it is taken"));
        (0..20_000).for_each(|_| assert_eq!(c.read(), Reply::Simple("OK".into())));
    });
    for (i, other) in others.iter_mut().enumerate() {
        for round in 0..50 {
            other.expect(&format!("SET own:{i} {round}"), "+OK");
            assert_eq!(other.run(&format!("GET own:{i}")).text(), round.to_string());
        }
    }
    // Large values, the same connection small ones between.
    let value: Vec<u8> = (0..3_000_000u32).map(|i| u8::try_from(i % 251).expect("a byte")).collect();
    for _ in 0..3 {
        assert_eq!(c.call(&[&b"SET"[..], b"large", &value]), Reply::Simple("OK".into()));
        c.expect("APPEND small x", ":1");
        assert!(c.run("GET large").bytes() == value);
        c.expect("DEL small", ":1");
    }
    // A client that does not read holds nobody up, and gets everything in the end.
    let mut slow = server.client();
    let wanted = 20;
    (0..wanted).for_each(|_| slow.send(&request(&["GET", "large"])));
    others.iter_mut().for_each(|other| other.expect("PING", "+PONG"));
    (0..wanted).for_each(|_| assert!(slow.read().bytes() == value));
    // One that is blocked and has sent more; it is served, or gives up, as ever.
    let mut blocked = server.client();
    blocked.send(&[request(&["BLPOP", "queue", "0"]), request(&["ECHO", &"e".repeat(100_000)])].concat());
    eventually("it is blocked", || others[1].info_number("blocked_clients") == 1);
    others[1].expect("RPUSH queue a", ":1");
    assert_eq!(blocked.read().items()[1].text(), "a");
    assert_eq!(blocked.read().bytes().len(), 100_000);
    let mut gone = server.client();
    gone.send(&[request(&["BLPOP", "queue", "0"]), request(&["ECHO", &"e".repeat(100_000)])].concat());
    eventually("it is blocked", || others[1].info_number("blocked_clients") == 1);
    drop(gone);
    eventually("it has given up", || others[1].info_number("blocked_clients") == 0);
    // The Unix socket, and the end by a signal.
    let mut unix = UnixStream::connect(server.folder().join("sock")).expect("a connection");
    unix.write_all(b"PING\r\n").expect("it is taken");
    let mut pong = [0; 7];
    unix.read_exact(&mut pong).expect("a reply");
    assert_eq!(&pong, b"+PONG\r\n");
    server.signal(Signal::SIGTERM);
    assert!(server.wait_exit().success());
    c.expect_closed();
}
