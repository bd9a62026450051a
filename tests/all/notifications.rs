//! Keyspace notifications: which events each command emits, in which order, by class, on which channels, and on time.

use crate::control::servers;
use crate::harness::{Client, Reply, Server, eventually, script};

/// A subscriber to everything that notifications are published on, and to what ends a round.
pub fn listener(server: &Server) -> Client {
    let mut client = server.client();
    client.run("PSUBSCRIBE __key*@*__:*");
    client.run("SUBSCRIBE done");
    client
}

/// What was published since the last call, as `database:key=event`, and on channels of events `database:event<key`. `by` has caused it, or will
/// have nothing to do with it.
pub fn told(by: &mut Client, listener: &mut Client) -> Vec<String> {
    by.run("PUBLISH done .");
    let mut told = Vec::new();
    loop {
        let message = listener.read();
        let [kind, .., channel, text] = message.items() else { panic!("a message: {message}") };
        if kind.bytes() == b"message" {
            return told;
        }
        let channel = channel.text();
        let name = |prefix: &str| Some(channel.strip_prefix(prefix)?.replacen("__:", ":", 1));
        match (name("__keyspace@"), name("__keyevent@")) {
            (Some(place), _) => told.push(format!("{place}={}", text.text())),
            (_, Some(place)) => told.push(format!("{place}<{}", text.text())),
            _ => panic!("a channel of notifications: {channel}"),
        }
    }
}

/// Lines `COMMAND arguments => events`, as `told` writes them. Commands of a transaction are told of at its EXEC.
pub fn check(server: &Server, text: &str) {
    let (mut client, mut listener) = (server.client(), listener(server));
    let (mut failures, mut queueing) = (Vec::new(), false);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let line = match line.strip_prefix("dolmen>") {
            Some(_) if server.is_redis() => continue,
            Some(rest) => rest.trim(),
            None => line,
        };
        let (command, expected) = line.split_once("=>").unwrap_or_else(|| panic!("no => in {line}"));
        let reply = client.run(command.trim());
        assert!(!reply.is_error(), "{line}: {reply}");
        queueing = (queueing || command.trim() == "MULTI") && command.trim() != "EXEC";
        if queueing {
            continue;
        }
        let told = told(&mut client, &mut listener).join(" ");
        if told != expected.trim() {
            failures.push(format!("{line}\n    told: {told}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_each_command_tells() {
    for server in servers(&["--notify-keyspace-events", "KAmn"]) {
        check(
            &server,
            "
            SET a 1 => 0:a=new 0:a=set
            SET a 2 => 0:a=set
            SET a 2 EX 100 => 0:a=set 0:a=expire
            SET a 2 KEEPTTL => 0:a=set
            SET a 2 NX =>
            SET none 2 XX =>
            SET a 3 GET => 0:a=set
            SET gone 3 GET => 0:gone=keymiss 0:gone=new 0:gone=set
            SETNX a 1 =>
            SETNX b 1 => 0:b=new 0:b=set
            SETEX b 100 x => 0:b=set 0:b=expire
            PSETEX b2 100000 x => 0:b2=new 0:b2=set 0:b2=expire
            GETSET b y => 0:b=set
            GETSET b3 y => 0:b3=keymiss 0:b3=new 0:b3=set
            GETDEL b3 => 0:b3=del
            GETDEL b3 => 0:b3=keymiss
            GETEX b EX 100 => 0:b=expire
            GETEX b PERSIST => 0:b=persist
            GETEX b PERSIST =>
            GETEX none => 0:none=keymiss
            GETEX b PXAT 1 => 0:b=del
            MSET m1 a m2 b m1 c => 0:m1=new 0:m1=set 0:m2=new 0:m2=set 0:m1=set
            MGET m1 none m2 none2 => 0:none=keymiss 0:none2=keymiss
            MSETNX m1 a m9 b =>
            MSETNX m8 a m9 b => 0:m8=new 0:m8=set 0:m9=new 0:m9=set
            STRLEN none => 0:none=keymiss
            APPEND m1 x => 0:m1=append
            APPEND ap x => 0:ap=new 0:ap=append
            INCR n => 0:n=new 0:n=incrby
            DECR n => 0:n=incrby
            INCRBYFLOAT n 0.5 => 0:n=incrbyfloat
            GETRANGE none 0 1 => 0:none=keymiss
            SETRANGE sr 1 abc => 0:sr=new 0:sr=setrange
            LCS none m2 => 0:none=keymiss
            SETBIT sb 7 1 => 0:sb=new 0:sb=setbit
            SETBIT sb 7 1 =>
            GETBIT none 1 => 0:none=keymiss
            BITCOUNT none => 0:none=keymiss
            BITPOS none 1 => 0:none=keymiss
            BITOP AND d1 sb m1 => 0:d1=new 0:d1=set
            BITOP AND d1 none none2 => 0:none=keymiss 0:none2=keymiss 0:d1=del
            BITFIELD bf SET u8 0 255 INCRBY u8 0 1 GET u8 0 => 0:bf=new 0:bf=setbit
            BITFIELD none GET u8 0 => 0:none=keymiss
            BITFIELD_RO none GET u8 0 => 0:none=keymiss
            DEL m1 none m2 => 0:m1=del 0:m2=del
            UNLINK m8 => 0:m8=del
            EXISTS none a => 0:none=keymiss
            TYPE none => 0:none=keymiss
            TOUCH none a => 0:none=keymiss
            SET r1 1 => 0:r1=new 0:r1=set
            SET r2 2 => 0:r2=new 0:r2=set
            RENAME r1 r2 => 0:r2=new 0:r1=rename_from 0:r2=rename_to
            RENAME r2 r3 => 0:r3=new 0:r2=rename_from 0:r3=rename_to
            RENAME r3 r3 =>
            RENAMENX r3 r4 => 0:r4=new 0:r3=rename_from 0:r4=rename_to
            SET r5 1 => 0:r5=new 0:r5=set
            RENAMENX r4 r5 =>
            MOVE r5 1 => 1:r5=new 0:r5=move_from 1:r5=move_to
            MOVE r5 1 =>
            SET r5 1 => 0:r5=new 0:r5=set
            COPY r5 r6 => 0:r6=new 0:r6=copy_to
            COPY r5 r6 =>
            COPY r5 r6 REPLACE => 0:r6=new 0:r6=copy_to
            COPY r5 r6 DB 2 => 2:r6=new 2:r6=copy_to
            COPY none r6 DB 2 => 0:none=keymiss
            SWAPDB 0 1 =>
            SWAPDB 0 1 =>
            DUMP none => 0:none=keymiss
            OBJECT ENCODING none =>
            EXPIRE r5 100 => 0:r5=expire
            PEXPIRE r5 100000 => 0:r5=expire
            EXPIREAT r5 33177117420 => 0:r5=expire
            EXPIRE r5 100 NX =>
            PERSIST r5 => 0:r5=persist
            PERSIST r5 =>
            TTL none => 0:none=keymiss
            EXPIRE r5 -1 => 0:r5=del
            EXPIREAT r6 1 => 0:r6=del
            dolmen> MSETEX 2 x1 1 x2 2 EX 100 => 0:x1=new 0:x1=set 0:x1=expire 0:x2=new 0:x2=set 0:x2=expire
            dolmen> DELIFEQ x1 1 => 0:x1=del
            # Of a transaction, when it runs.
            MULTI =>
            SET t1 1 =>
            INCR t1 =>
            GET none =>
            DEL t1 =>
            EXEC => 0:t1=new 0:t1=set 0:t1=incrby 0:none=keymiss 0:t1=del
            SELECT 3 =>
            SET k3 v => 3:k3=new 3:k3=set
            FLUSHDB =>
            FLUSHALL =>
            ",
        );
    }
}

/// Above 64 KiB COPY and RENAME work in slices, DUMP and RESTORE too.
#[test]
fn large_values_and_many_keys() {
    for server in servers(&["--notify-keyspace-events", "KAn"]) {
        let (mut client, mut listener) = (server.client(), listener(&server));
        let large = vec![b'v'; 3 << 20];
        let mut step = |arguments: &[&[u8]], expected: &str| {
            let reply = client.call(arguments);
            assert!(!reply.is_error(), "{reply}");
            assert_eq!(told(&mut client, &mut listener).join(" "), expected, "{:?}", arguments[0]);
            reply
        };
        step(&[b"SET", b"big", &large], "0:big=new 0:big=set");
        step(&[b"APPEND", b"big", &large], "0:big=append");
        step(&[b"COPY", b"big", b"copy"], "0:copy=new 0:copy=copy_to");
        step(&[b"COPY", b"big", b"copy", b"REPLACE"], "0:copy=new 0:copy=copy_to");
        step(&[b"RENAME", b"copy", b"other"], "0:other=new 0:copy=rename_from 0:other=rename_to");
        let dump = step(&[b"DUMP", b"big"], "");
        step(&[b"RESTORE", b"r", b"0", dump.bytes()], "0:r=new 0:r=restore");
        step(&[b"RESTORE", b"r", b"0", dump.bytes(), b"REPLACE"], "0:r=new 0:r=restore");
        let names: Vec<String> = (0..5000).map(|i| format!("key:{i:05}")).collect();
        let pairs = names.iter().flat_map(|name| [name.as_str(), "v"]);
        let mset: Vec<&[u8]> = std::iter::once("MSET").chain(pairs).map(str::as_bytes).collect();
        let del: Vec<&[u8]> =
            std::iter::once("DEL").chain(names.iter().map(String::as_str)).map(str::as_bytes).collect();
        let each = |events: &[&str]| {
            let of =
                |name: &String| events.iter().map(|event| format!("0:{name}={event}")).collect::<Vec<_>>().join(" ");
            names.iter().map(of).collect::<Vec<_>>().join(" ")
        };
        step(&mset, &each(&["new", "set"]));
        step(&del, &each(&["del"]));
    }
}

#[test]
fn both_kinds_of_channels() {
    for server in servers(&["--notify-keyspace-events", "KEA"]) {
        check(&server, "SET k v => 0:k=set 0:set<k\n DEL k => 0:k=del 0:del<k");
        let mut client = server.client();
        let mut exact = server.client();
        exact.run("SUBSCRIBE __keyevent@0__:del");
        client.run("MSET a 1 b 2");
        client.expect("DEL a b", ":2");
        for key in ["a", "b"] {
            let message = exact.read();
            assert_eq!(message.to_string(), format!("['message', '__keyevent@0__:del', '{key}']"));
        }
    }
}

#[test]
fn the_setting() {
    for server in servers(&[]) {
        let mut client = server.client();
        client.expect("CONFIG GET notify-keyspace-events", "['notify-keyspace-events', '']");
        for (given, printed) in
            [("KEA", "AKE"), ("g$lshzxetd", "A"), ("KExn", "xnKE"), ("mE$", "$Em"), ("AK", "AK"), ("td", "td")]
        {
            client.expect(&format!("CONFIG SET notify-keyspace-events {given}"), "+OK");
            client.expect("CONFIG GET notify-keyspace-events", &format!("['notify-keyspace-events', '{printed}']"));
        }
        script(
            &server,
            &mut client,
            "CONFIG SET notify-keyspace-events KEQ => -ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
        );
    }
}

/// What is told is what was wanted when it happened, on whatever worker.
#[test]
fn classes_can_be_changed() {
    for server in servers(&[]) {
        let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
        let mut listener = listener(&server);
        let rounds = [
            ("", ""),
            ("A", ""),
            ("K", ""),
            ("K$", "0:k=set"),
            ("Kg", "0:k=del"),
            ("E$g", "0:set<k 0:del<k"),
            ("Kn", "0:k=new"),
            ("Km", "0:k=keymiss"),
            ("Klshztxed", ""),
            ("", ""),
        ];
        for (classes, expected) in rounds {
            for i in 0..clients.len() {
                clients[i].expect(&format!("CONFIG SET notify-keyspace-events '{classes}'"), "+OK");
                let other = &mut clients[(i + 1) % 6];
                for line in ["SET k v", "DEL k", "GET k"] {
                    other.run(line);
                }
                assert_eq!(told(other, &mut listener).join(" "), expected, "{classes}");
            }
        }
    }
}

/// Whichever way a key ends: by itself, or found by somebody who looks for it.
#[test]
fn expired_keys() {
    for server in servers(&["--notify-keyspace-events", "KExg"]) {
        let mut client = server.client();
        let mut listener = server.client();
        listener.run("PSUBSCRIBE __keyspace@*__:* __keyevent@*__:expired");
        listener.read();
        client.expect("SELECT 2", "+OK");
        for i in 0..20 {
            client.run(&format!("SET key:{i} v PX {}", 10 + 7 * (i % 5)));
        }
        let mut gone = Vec::new();
        // Each is told of twice, by key and by event; and `expire` when it was set.
        while gone.len() < 60 {
            gone.push(listener.read().items()[2..].iter().map(Reply::text).collect::<Vec<_>>().join(" "));
        }
        for i in 0..20 {
            let times = |what: String| gone.iter().filter(|seen| **seen == what).count();
            assert_eq!(times(format!("__keyspace@2__:key:{i} expire")), 1);
            assert_eq!(times(format!("__keyspace@2__:key:{i} expired")), 1);
            assert_eq!(times(format!("__keyevent@2__:expired key:{i}")), 1);
        }
        client.expect("DBSIZE", ":0");
        // Whoever finds it first.
        for round in 0..20 {
            client.run(&format!("SET lazy:{round} v PX 2"));
            eventually("it is gone", || client.run(&format!("GET lazy:{round}")) == Reply::NilBulk);
            for expected in ["expire", "expired"] {
                let message = listener.read();
                assert_eq!(message.items()[3].text(), expected, "{message}");
            }
            assert_eq!(listener.read().items()[3].text(), format!("lazy:{round}"));
        }
    }
}

/// A subscriber with RESP3 that does both: the messages come behind the replies to what caused them.
#[test]
fn own_changes() {
    for server in servers(&["--notify-keyspace-events", "K$"]) {
        if server.is_redis() {
            // Before 7.2 they came in front.
            continue;
        }
        let mut client = server.client3();
        client.run("SUBSCRIBE __keyspace@0__:k");
        for _ in 0..10 {
            client.expect("SET k v", "+OK");
            assert!(matches!(client.read(), Reply::Push(_)));
        }
    }
}

/// One worker stands still while clients of the other change keys that subscribers of both are told of: neither has to keep all of that, and nothing is lost.
#[test]
fn a_worker_that_stands_still() {
    for server in servers(&["--notify-keyspace-events", "K$"]) {
        if server.is_redis() {
            continue;
        }
        let mut subscribers = [listener(&server), listener(&server)];
        let (mut sleeps, mut writes) = (server.client(), server.client());
        writes.expect("CONFIG SET client-output-buffer-limit 'pubsub 0 0 0'", "+OK");
        const COUNT: usize = 3000;
        let name = |n: usize| format!("{n}:{}", "k".repeat(16_000));
        sleeps.send(b"DEBUG SLEEP 0.5\r\n");
        let pipeline: Vec<u8> = (0..COUNT).flat_map(|n| crate::harness::request(&["SET", &name(n), "v"])).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writes.send(&pipeline);
                (0..COUNT).for_each(|_| assert_eq!(writes.read().to_string(), "+OK"));
            });
            for subscriber in &mut subscribers {
                scope.spawn(move || {
                    for n in 0..COUNT {
                        assert_eq!(subscriber.read().items()[2].text(), format!("__keyspace@0__:{}", name(n)));
                    }
                });
            }
        });
        assert_eq!(sleeps.read().to_string(), "+OK");
    }
}
