//! Transactions: MULTI EXEC DISCARD WATCH UNWATCH. With one worker and with several, where EXEC locks what it needs of all of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::control::servers;
use crate::harness::{Client, Reply, Server, eventually, request, script};

/// Clients of a server with several workers: some of each.
fn clients(server: &Server, count: usize) -> Vec<Client> {
    (0..count).map(|_| server.client()).collect()
}

/// A field of CLIENT LIST, of the client with this id.
fn field(witness: &mut Client, id: i64, name: &str) -> String {
    let list = witness.run("CLIENT LIST").text();
    let line = list.lines().find(|line| line.starts_with(&format!("id={id} "))).expect("a line of the client");
    let field = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    field.unwrap_or_else(|| panic!("no {name} in {line}")).to_string()
}

fn id(client: &mut Client) -> i64 {
    client.run("CLIENT ID").int()
}

#[test]
fn queueing_and_running() {
    for server in servers(&[]) {
        let mut client = server.client();
        script(
            &server,
            &mut client,
            "
            MULTI => +OK
            SET a 1 => +QUEUED
            INCR a => +QUEUED
            GET a => +QUEUED
            MGET a b => +QUEUED
            PING => +QUEUED
            GET nothing => +QUEUED
            EXEC => [+OK, :2, '2', ['2', nil], +PONG, nil]
            GET a => '2'
            # nothing queued
            MULTI => +OK
            EXEC => []
            # given up
            MULTI => +OK
            SET a 3 => +QUEUED
            DISCARD => +OK
            GET a => '2'
            EXEC => -ERR EXEC without MULTI
            DISCARD => -ERR DISCARD without MULTI
            # Errors while a command runs concern that command only.
            SET text words => +OK
            MULTI => +OK
            INCR text => +QUEUED
            SET a 5 => +QUEUED
            SETRANGE a -1 x => +QUEUED
            EXEC => [-ERR value is not an integer or out of range, +OK, -ERR offset is out of range]
            GET a => '5'
            # What is not allowed inside does not end the transaction.
            MULTI => +OK
            MULTI => -ERR MULTI calls can not be nested
            WATCH a => -ERR WATCH inside MULTI is not allowed
            SET a 6 => +QUEUED
            EXEC => [+OK]
            # UNWATCH is queued as any other.
            MULTI => +OK
            UNWATCH => +QUEUED
            EXEC => [+OK]
            ",
        );
    }
}

#[test]
fn errors_while_queueing_abort() {
    for server in servers(&[]) {
        let mut client = server.client();
        script(
            &server,
            &mut client,
            "
            MULTI => +OK
            NOSUCH => -ERR unknown command 'NOSUCH'
            SET leak 1 => +QUEUED
            EXEC => -EXECABORT Transaction discarded because of previous errors.
            EXISTS leak => :0
            MULTI => +OK
            SET leak 1 => +QUEUED
            GET => -ERR wrong number of arguments for 'get' command
            EXEC => -EXECABORT Transaction discarded because of previous errors.
            MULTI => +OK
            CLIENT NOSUCH => -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.
            SET leak 1 => +QUEUED
            EXEC => -EXECABORT Transaction discarded because of previous errors.
            MULTI => +OK
            SHUTDOWN NOSAVE => -ERR Command not allowed inside a transaction
            SET leak 1 => +QUEUED
            EXEC => -EXECABORT Transaction discarded because of previous errors.
            EXISTS leak => :0
            # What was refused is forgotten with the transaction.
            MULTI => +OK
            NOSUCH => -ERR unknown command
            DISCARD => +OK
            MULTI => +OK
            PING => +QUEUED
            EXEC => [+PONG]
            # A refusal outside of a transaction is of no consequence.
            NOSUCH => -ERR unknown command
            MULTI => +OK
            PING => +QUEUED
            EXEC => [+PONG]
            # An EXEC that is wrong itself ends it.
            MULTI => +OK
            SET leak 1 => +QUEUED
            EXEC now => -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
            EXEC => -ERR EXEC without MULTI
            EXEC now => -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
            # It comes before what watched keys say.
            WATCH leak => +OK
            SET leak 1 => +OK
            MULTI => +OK
            NOSUCH => -ERR unknown command
            EXEC => -EXECABORT Transaction discarded because of previous errors.
            DISCARD now => -ERR wrong number of arguments for 'discard' command
            MULTI now => -ERR wrong number of arguments for 'multi' command
            WATCH => -ERR wrong number of arguments for 'watch' command
            ",
        );
        client.expect("CONFIG SET requirepass secret", "+OK");
        let mut stranger = server.client();
        script(
            &server,
            &mut stranger,
            "
            MULTI => -NOAUTH Authentication required.
            EXEC => -EXECABORT Transaction discarded because of: NOAUTH Authentication required.
            AUTH secret => +OK
            EXEC => -ERR EXEC without MULTI
            ",
        );
    }
}

#[test]
fn watched_keys() {
    for server in servers(&["--databases", "4"]) {
        let (mut client, mut other) = (server.client(), server.client());
        // (what happens to `k` or its database after WATCH, whether EXEC is refused); the key holds 1 before.
        let changes = [
            ("SET k 1", true),
            ("SET k2 1", false),
            ("GET k", false),
            ("TOUCH k", false),
            ("DEL k", true),
            ("UNLINK k", true),
            ("APPEND k x", true),
            ("APPEND k ''", true),
            ("SETRANGE k 0 ''", false),
            ("SETRANGE k 0 x", true),
            ("SETBIT k 2 1", false),
            ("SETBIT k 4 1", true),
            ("BITFIELD k GET u8 0", false),
            ("BITFIELD k SET u8 0 7", true),
            ("BITOP NOT k k2", true),
            ("INCR k", true),
            ("INCRBYFLOAT k 1", true),
            ("GETDEL k", true),
            ("GETEX k", false),
            ("GETEX k EX 100", true),
            ("GETEX k PERSIST", false),
            ("GETSET k 2", true),
            ("SETNX k 2", false),
            ("SET k 2 NX", false),
            ("SETEX k 100 1", true),
            ("MSET a 1 k 2 b 3", true),
            ("MSETNX a 1 k 2", false),
            ("MSETNX a 1 b 2", false),
            ("EXPIRE k 100", true),
            ("EXPIRE k -1", true),
            ("PERSIST k", false),
            ("RENAME k k3", true),
            ("RENAME k2 k", true),
            ("RENAMENX k2 k", false),
            ("RENAMENX k k3", true),
            ("COPY k k3", false),
            ("COPY k2 k REPLACE", true),
            ("COPY k2 k", false),
            ("MOVE k 1", true),
            ("MOVE k 0", false),
            ("FLUSHDB", true),
            ("FLUSHALL ASYNC", true),
            ("SWAPDB 0 1", true),
            ("SWAPDB 1 2", false),
            ("SWAPDB 0 0", false),
            ("OBJECT FREQ k", false),
            ("DUMP k", false),
            ("RANDOMKEY", false),
        ];
        for (change, refused) in changes {
            for own in [false, true] {
                other.expect("FLUSHALL", "+OK");
                other.expect("MSET k 1 k2 two", "+OK");
                client.expect("WATCH unrelated k", "+OK");
                let by = if own { &mut client } else { &mut other };
                by.run(change);
                client.expect("MULTI", "+OK");
                client.expect("PING", "+QUEUED");
                let expected = if refused { "nil*" } else { "[+PONG]" };
                assert_eq!(client.run("EXEC").to_string(), expected, "after {change}");
                // Nothing is watched any more.
                other.expect("SET k 9", "+OK");
                client.expect("MULTI", "+OK");
                assert_eq!(client.run("EXEC").to_string(), "[]", "after {change}");
            }
        }
    }
}

#[test]
fn watched_keys_that_are_not_there() {
    for server in servers(&["--databases", "4"]) {
        let (mut client, mut other) = (server.client(), server.client());
        for (change, refused) in [
            ("SET k 1", true),
            ("DEL k", false),
            ("FLUSHALL", false),
            ("FLUSHDB ASYNC", false),
            ("SWAPDB 0 2", false),
            // Database 1 has such a key.
            ("SWAPDB 0 1", true),
            ("SWAPDB 1 0", true),
            ("RENAME x k", true),
            ("COPY x k", true),
            ("MSETNX k 1 x 2", false),
        ] {
            other.expect("FLUSHALL", "+OK");
            other.expect("SET x 1", "+OK");
            other.expect("SELECT 1", "+OK");
            other.expect("SET k 1", "+OK");
            other.expect("SELECT 0", "+OK");
            client.expect("WATCH k", "+OK");
            other.run(change);
            client.expect("MULTI", "+OK");
            assert_eq!(client.run("EXEC").to_string(), if refused { "nil*" } else { "[]" }, "{change}");
        }
        // The same name in another database is another key.
        client.expect("SELECT 3", "+OK");
        client.expect("WATCH k", "+OK");
        other.expect("SET k 1", "+OK");
        client.expect("SELECT 0", "+OK");
        client.expect("MULTI", "+OK");
        client.expect("EXEC", "[]");
        // One that is watched is so in the database it was watched in, wherever its client has gone.
        client.expect("SELECT 3", "+OK");
        client.expect("WATCH k", "+OK");
        client.expect("SELECT 0", "+OK");
        client.expect("WATCH j", "+OK");
        other.expect("SELECT 3", "+OK");
        other.expect("SET k 1", "+OK");
        client.expect("MULTI", "+OK");
        client.expect("EXEC", "nil*");
        other.expect("SELECT 1", "+OK");
        client.expect("SELECT 3", "+OK");
        client.expect("WATCH k", "+OK");
        other.expect("MOVE k 3", ":0");
        other.expect("COPY k k DB 3", ":0");
        other.expect("COPY k k DB 3 REPLACE", ":1");
        client.expect("MULTI", "+OK");
        client.expect("EXEC", "nil*");
    }
}

#[test]
fn unwatching() {
    for server in servers(&[]) {
        let (mut client, mut other) = (server.client(), server.client());
        for end in ["UNWATCH", "DISCARD", "EXEC", "RESET"] {
            client.expect("WATCH k", "+OK");
            other.expect("SET k 1", "+OK");
            if matches!(end, "DISCARD" | "EXEC") {
                client.expect("MULTI", "+OK");
            }
            client.run(end);
            client.expect("MULTI", "+OK");
            assert_eq!(client.run("EXEC").to_string(), "[]", "after {end}");
        }
        // UNWATCH inside MULTI comes too late.
        client.expect("WATCH k", "+OK");
        other.expect("SET k 1", "+OK");
        client.expect("MULTI", "+OK");
        client.expect("UNWATCH", "+QUEUED");
        client.expect("EXEC", "nil*");
        // RESET in the midst of it.
        client.expect("MULTI", "+OK");
        client.expect("SET k 2", "+QUEUED");
        client.expect("RESET", "+RESET");
        client.expect("EXEC", "-ERR EXEC without MULTI");
        client.expect("GET k", "'1'");
        // A connection that ends takes along what it has queued.
        let mut third = server.client();
        let third_id = id(&mut third);
        third.expect("WATCH k", "+OK");
        third.expect("MULTI", "+OK");
        third.expect("SET k 3", "+QUEUED");
        drop(third);
        eventually("the client is gone", || !client.run("CLIENT LIST").text().contains(&format!("id={third_id} ")));
        client.expect("GET k", "'1'");
        // QUIT runs nothing, either.
        let mut third = server.client();
        third.expect("MULTI", "+OK");
        third.expect("SET k 3", "+QUEUED");
        third.expect("QUIT", "+OK");
        third.expect_closed();
        client.expect("GET k", "'1'");
    }
}

#[test]
fn watched_keys_expire() {
    for server in servers(&["--databases", "4"]) {
        let (mut client, mut other) = (server.client(), server.client());
        // While watched: a change, whether it was noticed before or not.
        assert!(client.pipeline(&["SET k 1 PX 200", "WATCH k"]).iter().all(|reply| reply.to_string() == "+OK"));
        thread::sleep(Duration::from_millis(250));
        client.expect("MULTI", "+OK");
        client.expect("EXEC", "nil*");
        // Before it was watched: none, though it is removed only afterwards. (Its client's clock is as old as its command.)
        other.expect("SET k 1 PX 1", "+OK");
        thread::sleep(Duration::from_millis(20));
        client.expect("WATCH k", "+OK");
        other.expect("GET k", "nil");
        other.expect("FLUSHALL", "+OK");
        client.expect("MULTI", "+OK");
        client.expect("EXEC", "[]");
        // A key that was not there, and one that is over, which SWAPDB brings.
        other.expect("SELECT 1", "+OK");
        other.expect("SET k 1 PX 1", "+OK");
        client.expect("WATCH k", "+OK");
        thread::sleep(Duration::from_millis(20));
        other.expect("SWAPDB 0 1", "+OK");
        other.expect("SELECT 0", "+OK");
        other.expect("GET k", "nil");
        client.expect("MULTI", "+OK");
        client.expect("EXEC", "[]");
        // Written again, that is a change.
        other.expect("SET k 1 PX 1", "+OK");
        thread::sleep(Duration::from_millis(20));
        client.expect("WATCH k", "+OK");
        other.expect("SET k 2", "+OK");
        client.expect("MULTI", "+OK");
        client.expect("EXEC", "nil*");
        // Deadlines that are not over yet do nothing.
        client.expect("SET k 1 EX 1000", "+OK");
        client.expect("WATCH k", "+OK");
        client.expect("MULTI", "+OK");
        client.expect("PERSIST k", "+QUEUED");
        client.expect("EXEC", "[:1]");
    }
}

#[test]
fn commands_about_the_connection_inside() {
    for server in servers(&[]) {
        let mut client = server.client();
        script(
            &server,
            &mut client,
            "
            SET a zero => +OK
            MULTI => +OK
            SELECT 3 => +QUEUED
            SET a three => +QUEUED
            SELECT 99 => +QUEUED
            GET a => +QUEUED
            EXEC => [+OK, +OK, -ERR DB index is out of range, 'three']
            # It stays there.
            GET a => 'three'
            SELECT 0 => +OK
            GET a => 'zero'
            # The protocol changes in the midst of the reply.
            MULTI => +OK
            GET nothing => +QUEUED
            HELLO 4 => +QUEUED
            AUTH x => +QUEUED
            EXEC => [nil, -NOPROTO unsupported protocol version, -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?]
            HELLO 3 => ...
            MULTI => +OK
            GET nothing => +QUEUED
            EXEC => [null]
            WATCH a => +OK
            SET a b => +OK
            MULTI => +OK
            GET nothing => +QUEUED
            EXEC => null
            HELLO 2 => ...
            MULTI => +OK
            CLIENT SETNAME inside => +QUEUED
            CLIENT GETNAME => +QUEUED
            EXEC => [+OK, 'inside']
            ",
        );
        client.expect("MULTI", "+OK");
        client.expect("GET nothing", "+QUEUED");
        client.expect("HELLO 3", "+QUEUED");
        client.expect("GET nothing", "+QUEUED");
        let reply = client.run("EXEC");
        let [before, hello, after] = reply.items() else { panic!("three replies, not {reply}") };
        assert!(matches!((before, hello, after), (Reply::NilBulk, Reply::Map(_), Reply::Null)), "{reply}");
    }
}

#[test]
fn client_reply_inside() {
    for server in servers(&[]) {
        let mut client = server.client();
        // From OFF on nothing is sent, until ON; the reply's head has told of five.
        client.send(&[request(&["MULTI"]), request(&["PING"]), request(&["CLIENT", "REPLY", "OFF"])].concat());
        client.send(&[request(&["PING"]), request(&["CLIENT", "REPLY", "ON"]), request(&["ECHO", "x"])].concat());
        client.send(&request(&["EXEC"]));
        client.send(&[request(&["ECHO", "1"]), request(&["ECHO", "2"])].concat());
        assert_eq!(client.read().to_string(), "+OK");
        for _ in 0..5 {
            assert_eq!(client.read().to_string(), "+QUEUED");
        }
        assert_eq!(client.read().to_string(), "[+PONG, +OK, 'x', '1', '2']");
        // SKIP: the reply to the command behind EXEC.
        client.expect("MULTI", "+OK");
        client.expect("CLIENT REPLY SKIP", "+QUEUED");
        client.send(&[request(&["EXEC"]), request(&["ECHO", "unheard"]), request(&["ECHO", "1"])].concat());
        assert_eq!(client.read().to_string(), "['1']");
        // Of one that gets no replies, all runs the same.
        client.send(&[request(&["CLIENT", "REPLY", "OFF"]), request(&["MULTI"]), request(&["SET", "a", "1"])].concat());
        client.send(&[request(&["EXEC"]), request(&["CLIENT", "REPLY", "ON"]), request(&["GET", "a"])].concat());
        assert_eq!(client.read().to_string(), "+OK");
        assert_eq!(client.read().to_string(), "'1'");
        // ON inside: it is heard from there on.
        client.send(&[request(&["CLIENT", "REPLY", "OFF"]), request(&["MULTI"]), request(&["PING"])].concat());
        client.send(&[request(&["CLIENT", "REPLY", "ON"]), request(&["ECHO", "x"]), request(&["EXEC"])].concat());
        assert_eq!(client.read().to_string(), "+OK");
        assert_eq!(client.read().to_string(), "'x'");
        client.expect("PING", "+PONG");
    }
}

#[test]
fn told_of_by_client_list() {
    for server in servers(&[]) {
        let (mut client, mut other) = (server.client(), server.client());
        let own = id(&mut client);
        let flags = |other: &mut Client| field(other, own, "flags");
        assert_eq!((flags(&mut other), field(&mut other, own, "multi")), ("N".into(), "-1".into()));
        client.expect("WATCH a b a c", "+OK");
        if !server.is_redis() {
            // Since 7.4.
            assert_eq!(field(&mut other, own, "watch"), "3");
        }
        client.expect("MULTI", "+OK");
        assert_eq!((flags(&mut other), field(&mut other, own, "multi")), ("x".into(), "0".into()));
        client.expect("SET a 1", "+QUEUED");
        client.expect("SET b 1", "+QUEUED");
        assert_eq!(field(&mut other, own, "multi"), "2");
        assert_ne!(field(&mut other, own, "multi-mem"), "0");
        other.expect("SET c 1", "+OK");
        assert_eq!(flags(&mut other), "xd");
        client.expect("CLIENT INFO", "+QUEUED");
        client.expect("EXEC", "nil*");
        assert_eq!((flags(&mut other), field(&mut other, own, "multi")), ("N".into(), "-1".into()));
        assert_eq!(field(&mut other, own, "multi-mem"), "0");
        // As it looks from inside.
        client.expect("MULTI", "+OK");
        client.expect("CLIENT INFO", "+QUEUED");
        client.expect("CLIENT LIST", "+QUEUED");
        let reply = client.run("EXEC");
        let info = reply.items()[0].text();
        assert!(info.contains(" flags=x ") && info.contains(" multi=2 ") && info.contains(" cmd=exec "), "{info}");
        assert_eq!(reply.items()[1].text().lines().count(), 2, "every client, of whatever worker");
    }
}

#[test]
fn pauses() {
    for server in servers(&[]) {
        let (mut client, mut other) = (server.client(), server.client());
        let blocked = |count: u64| {
            let mut witness = server.client();
            eventually("clients wait", || witness.info_number("blocked_clients") == count);
        };
        // Writes that were queued before wait at EXEC.
        client.expect("MULTI", "+OK");
        client.expect("SET a 1", "+QUEUED");
        other.expect("CLIENT PAUSE 60000 WRITE", "+OK");
        client.send(&request(&["EXEC"]));
        blocked(1);
        other.expect("GET a", "nil");
        other.expect("CLIENT UNPAUSE", "+OK");
        assert_eq!(client.read().to_string(), "[+OK]");
        // Those that only read do not.
        client.expect("MULTI", "+OK");
        client.expect("GET a", "+QUEUED");
        other.expect("CLIENT PAUSE 60000 WRITE", "+OK");
        client.expect("EXEC", "['1']");
        // A write waits before it is queued.
        client.expect("MULTI", "+OK");
        client.send(&request(&["SET", "a", "2"]));
        blocked(1);
        other.expect("CLIENT UNPAUSE", "+OK");
        assert_eq!(client.read().to_string(), "+QUEUED");
        client.expect("EXEC", "[+OK]");
        // One that begins in a transaction does not stop that.
        client.expect("MULTI", "+OK");
        client.expect("CLIENT PAUSE 50 ALL", "+QUEUED");
        client.expect("SET a 3", "+QUEUED");
        client.expect("EXEC", "[+OK, +OK]");
        other.expect("GET a", "'3'");
    }
}

#[test]
fn what_asks_other_workers_inside() {
    for server in servers(&[]) {
        let mut all = clients(&server, 12);
        let mut client = all.pop().expect("twelve");
        let ids: Vec<i64> = all.iter_mut().map(id).collect();
        client.expect("MULTI", "+OK");
        client.expect("INCR n", "+QUEUED");
        client.expect(&format!("CLIENT KILL ID {}", ids[3]), "+QUEUED");
        client.expect("INCR n", "+QUEUED");
        client.expect("CONFIG SET timeout 7777", "+QUEUED");
        client.expect("CLIENT LIST", "+QUEUED");
        client.expect("CONFIG GET timeout", "+QUEUED");
        client.expect("DEBUG SLEEP 0", "+QUEUED");
        client.expect("CONFIG RESETSTAT", "+QUEUED");
        client.expect("FLUSHALL SYNC", "+QUEUED");
        client.expect("DBSIZE", "+QUEUED");
        client.expect("KEYS *", "+QUEUED");
        client.expect("INFO keyspace", "+QUEUED");
        let reply = client.run("EXEC");
        let texts: Vec<String> = reply.items().iter().map(Reply::to_string).collect();
        assert_eq!(texts.len(), 12, "{reply}");
        assert_eq!(texts[..4], [":1", ":1", ":2", "+OK"], "{reply}");
        let listed: BTreeSet<i64> = reply.items()[4]
            .text()
            .lines()
            .map(|line| line["id=".len()..].split(' ').next().expect("an id").parse().expect("a number"))
            .collect();
        assert!(listed.is_superset(&ids[4..].iter().copied().collect()), "{reply}");
        assert_eq!(texts[5], "['timeout', '7777']");
        assert_eq!(texts[6..11], ["+OK", "+OK", "+OK", ":0", "[]"], "{reply}");
        all.remove(3).expect_closed();
        for other in &mut all {
            other.expect("CONFIG GET timeout", "['timeout', '7777']");
        }
        client.expect("DBSIZE", ":0");
    }
}

/// What goes on in slices by itself comes to its end inside of EXEC, and its reply is whole whatever its size.
#[test]
fn large_commands_inside() {
    for server in servers(&[]) {
        let mut client = server.client();
        let names: Vec<String> =
            (0..20_000).map(|i| format!("a:rather:long:name:of:a:key:that:makes:the:reply:large:{i}")).collect();
        let mut mset = vec!["MSET"];
        for name in &names {
            mset.extend([name.as_str(), "value"]);
        }
        let mget = ["MGET"].into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>();
        let (large, larger) = ("x".repeat(300_000), "y".repeat(1_000_000));
        for step in [
            vec!["MULTI"],
            mset,
            mget,
            vec!["KEYS", "*"],
            vec!["SET", "large", &large],
            vec!["APPEND", "large", &larger],
            vec!["COPY", "large", "copy"],
            vec!["RENAME", "copy", "renamed"],
            vec!["BITOP", "NOT", "inverse", "large"],
            vec!["BITCOUNT", "inverse"],
            vec!["GET", "renamed"],
            vec!["SETRANGE", "large", "100", &larger],
            vec!["STRLEN", "large"],
            vec!["DBSIZE"],
        ] {
            let answer = client.call(&step).to_string();
            assert_eq!(answer, if step[0] == "MULTI" { "+OK" } else { "+QUEUED" }, "{}", step[0]);
        }
        let reply = client.run("EXEC");
        let items = reply.items();
        assert_eq!(items.len(), 13);
        assert_eq!(items[0].to_string(), "+OK");
        assert!(items[1].items().iter().all(|item| item.bytes() == b"value") && items[1].items().len() == 20_000);
        let keys: BTreeSet<String> = items[2].items().iter().map(Reply::text).collect();
        assert_eq!(keys, names.iter().cloned().collect());
        assert_eq!(items[3].to_string(), "+OK");
        assert_eq!([4, 5].map(|i| items[i].int()), [1_300_000, 1]);
        assert_eq!(items[6].to_string(), "+OK");
        assert_eq!([7, 8].map(|i| items[i].int()), [1_300_000, 300_000 * 4 + 1_000_000 * 3]);
        assert_eq!(items[9].text(), large.clone() + &larger);
        assert_eq!([10, 11, 12].map(|i| items[i].int()), [1_300_000, 1_300_000, 20_003]);
        client.expect("PING", "+PONG");
    }
}

/// Values that are received in place are given back when the transaction is given up.
#[test]
fn queued_memory_is_given_back() {
    for server in servers(&[]) {
        let (mut client, mut witness) = (server.client(), server.client());
        let large = "x".repeat(4 << 20);
        let own = id(&mut client);
        witness.run("INFO memory");
        let before = witness.info_number("used_memory");
        for end in ["DISCARD", "RESET", "EXEC", "QUIT"] {
            client.expect("MULTI", "+OK");
            for key in ["a", "b"] {
                assert_eq!(client.call(&["SET", key, &large]).to_string(), "+QUEUED");
                assert_eq!(client.call(&["LCS", key, &large]).to_string(), "+QUEUED");
            }
            if !server.is_redis() && end != "QUIT" {
                let held: u64 = field(&mut witness, own, "multi-mem").parse().expect("a number");
                assert!(held >= 16 << 20, "{held}");
            }
            if end == "EXEC" {
                client.expect("NOSUCH", "-ERR");
                for key in ["a", "b", "c", "d"] {
                    // It will not be run, and nothing of it is kept.
                    client.expect(&format!("SET {key} 1"), "+QUEUED");
                    assert_eq!(client.call(&["SET", key, &large]).to_string(), "+QUEUED");
                }
            }
            client.run(end);
        }
        client.expect_closed();
        witness.expect("EXISTS a b", ":0");
        if !server.is_redis() {
            eventually("memory is given back", || witness.info_number("used_memory") < before + (1 << 20));
        }
    }
}

#[test]
fn queued_memory_is_limited() {
    for server in servers(&["--client-query-buffer-limit", "1mb"]) {
        if server.is_redis() {
            // It looks at it since 7.2 only.
            continue;
        }
        let mut client = server.client();
        client.expect("MULTI", "+OK");
        let some = "x".repeat(10_000);
        let mut queued = 0;
        while let Ok(reply) = {
            client.send(&request(&["SET", "a", &some]));
            client.try_read()
        } {
            assert_eq!(reply.to_string(), "+QUEUED");
            queued += 1;
            assert!(queued < 110, "more is queued than 1 MiB");
        }
        assert!(queued > 40, "{queued} of 10 KB are less than 1 MiB");
        let mut other = server.client();
        other.expect("EXISTS a", ":0");
    }
}

#[test]
fn counted_once() {
    for server in servers(&[]) {
        let mut client = server.client();
        let before = client.info_number("total_commands_processed");
        client.expect("MULTI", "+OK");
        client.expect("PING", "+QUEUED");
        client.expect("PING", "+QUEUED");
        client.expect("EXEC", "[+PONG, +PONG]");
        // The INFO before, MULTI, EXEC, and two PINGs.
        assert_eq!(client.info_number("total_commands_processed"), before + 5);
    }
}

/// Counters that are read, and written if nobody else has written them: no increment is lost, whoever races.
#[test]
fn no_increment_is_lost() {
    const EACH: i64 = 200;
    for server in servers(&[]) {
        let racing = clients(&server, 6);
        let count = i64::try_from(racing.len()).expect("a few") * EACH;
        thread::scope(|scope| {
            for (i, mut client) in racing.into_iter().enumerate() {
                scope.spawn(move || {
                    // Two keys in turn, of which every client changes both: the sum tells.
                    let names = if i % 2 == 0 { ["one", "two"] } else { ["two", "one"] };
                    let mut done = 0;
                    while done < EACH {
                        client.expect(&format!("WATCH {} {}", names[0], names[1]), "+OK");
                        let values = client.run("MGET one two");
                        let number = |at: usize| match &values.items()[at] {
                            Reply::Bulk(text) => String::from_utf8_lossy(text).parse::<i64>().expect("a number"),
                            _ => 0,
                        };
                        assert_eq!(number(0), -number(1), "both change as one");
                        let (one, two) = ((number(0) + 1).to_string(), (number(1) - 1).to_string());
                        let replies = [
                            request(&["MULTI"]),
                            request(&["SET", "one", &one]),
                            request(&["SET", "two", &two]),
                            request(&["EXEC"]),
                        ];
                        client.send(&replies.concat());
                        for expected in ["+OK", "+QUEUED", "+QUEUED"] {
                            assert_eq!(client.read().to_string(), expected);
                        }
                        match client.read() {
                            Reply::NilArray => {}
                            reply => {
                                assert_eq!(reply.to_string(), "[+OK, +OK]");
                                done += 1;
                            }
                        }
                    }
                });
            }
        });
        let mut client = server.client();
        client.expect("MGET one two", &format!("['{count}', '-{count}']"));
    }
}

/// Transactions that write several keys are one step to those that read them, by MGET and by transactions.
/// A shard channel stands where other commands have a key: its shard is none of those that EXEC locks.
#[test]
fn publishing_inside() {
    for server in servers(&[]) {
        let (mut client, mut subscriber) = (server.client(), server.client3());
        subscriber.run("SUBSCRIBE c");
        subscriber.run("SSUBSCRIBE s0");
        for i in 0..20 {
            for line in ["MULTI".into(), format!("INCR n{i}"), "PUBLISH c x".into(), format!("SPUBLISH s{i} y")] {
                client.run(&line);
            }
            assert_eq!(client.run("EXEC").to_string(), format!("[:1, :1, :{}]", i32::from(i == 0)));
        }
        assert_eq!(subscriber.read().to_string(), ">['message', 'c', 'x']");
        assert_eq!(subscriber.read().to_string(), ">['smessage', 's0', 'y']");
        assert_eq!(subscriber.read().to_string(), ">['message', 'c', 'x']");
    }
}

#[test]
fn nobody_sees_half_a_transaction() {
    for server in servers(&[]) {
        let readers = clients(&server, 4);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for (i, mut client) in readers.into_iter().enumerate() {
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let values = if i % 2 == 0 {
                            client.run("MGET a b c d").items().to_vec()
                        } else {
                            client.pipeline(&["MULTI", "GET a", "GET d", "GET c", "GET b", "EXEC"])[5].items().to_vec()
                        };
                        assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{}", Reply::Array(values));
                    }
                });
            }
            let mut writers = clients(&server, 3);
            for n in 0..600 {
                let set = |key: &str| format!("SET {key} {n}");
                let lines = ["MULTI".to_string(), set("a"), set("b"), set("c"), set("d"), "EXEC".to_string()];
                let replies = writers[n % 3].pipeline(&lines.each_ref().map(String::as_str));
                assert_eq!(replies[5].to_string(), "[+OK, +OK, +OK, +OK]");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// A transaction that names what a large command holds runs before it or after it.
#[test]
fn large_commands_and_transactions() {
    for server in servers(&[]) {
        let mut writer = server.client();
        let names: Vec<String> = (0..30_000).map(|i| format!("k{i}")).collect();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (names, done) = (&names, &done);
            scope.spawn(move || {
                for n in ["1", "2", "3", "4"] {
                    let mut mset = vec!["MSET"];
                    for name in names {
                        mset.extend([name.as_str(), n]);
                    }
                    assert_eq!(writer.call(&mset).to_string(), "+OK");
                }
                done.store(true, Ordering::Relaxed);
            });
            for mut client in clients(&server, 2) {
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let replies = client.pipeline(&["MULTI", "GET k0", "GET k15000", "GET k29999", "EXEC"]);
                        let values = replies[4].items();
                        assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{}", replies[4]);
                        client.pipeline(&["WATCH k29999", "MULTI", "INCR other", "EXEC"]);
                    }
                });
            }
        });
    }
}

/// An EXEC that refuses has failed, and what comes behind it in the same pipeline has not.
#[test]
fn a_refusal_is_counted_once() {
    let server = Server::start();
    let mut c = server.client();
    // What is counted before it has run is not missed by who begins anew in front of it.
    c.pipeline(&["CONFIG RESETSTAT", "NOSUCH", "SET"]);
    assert!(c.info_number("total_commands_processed") < 10);
    c.pipeline(&["CONFIG RESETSTAT", "MULTI", "SET", "EXEC", "SET k v", "GET k"]);
    let stats = c.run("INFO commandstats").text();
    for (name, ends) in [
        ("exec", "rejected_calls=0,failed_calls=1"),
        ("multi", "rejected_calls=0,failed_calls=0"),
        ("set", "rejected_calls=1,failed_calls=0"),
        ("get", "rejected_calls=0,failed_calls=0"),
    ] {
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:calls=1,")));
        assert!(line.is_some_and(|line| line.ends_with(ends)), "{name}: {stats}");
    }
}
