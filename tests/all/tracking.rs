//! Client-side caching: CLIENT TRACKING and its kin. With one worker and with several, as `redis-server` does it.

use std::collections::BTreeSet;

use crate::control::servers;
use crate::harness::{Client, Reply, Server, eventually, request, script, words};

fn id(client: &mut Client) -> i64 {
    client.run("CLIENT ID").int()
}

/// A client with RESP3 that tracks.
fn tracker(server: &Server, options: &str) -> Client {
    let mut client = server.client3();
    client.expect(&format!("CLIENT TRACKING ON {options}"), "+OK");
    client
}

/// Enough clients that some are another worker's.
fn writers(server: &Server) -> Vec<Client> {
    (0..4).map(|_| server.client()).collect()
}

/// The next thing that a client is told is that these keys have changed.
fn told(client: &mut Client, keys: &str) {
    assert_eq!(client.read().to_string(), format!(">['invalidate', {keys}]"));
}

/// Nothing was told up to the reply to a command that does nothing, and nothing is told of what has happened by now: a change of `key`, which the
/// client has read, comes first. `by` makes it.
fn told_nothing(client: &mut Client, by: &mut Client, key: &str) {
    client.run(&format!("GET {key}"));
    by.run(&format!("SET {key} v"));
    told(client, &format!("['{key}']"));
}

#[test]
fn what_was_read_is_told_of_once() {
    for server in servers(&[]) {
        for mut writer in writers(&server) {
            writer.run("FLUSHALL");
            let mut client = tracker(&server, "");
            writer.run("MSET a 1 b 2 c 3");
            client.expect("MGET a b", "['1', '2']");
            client.expect("EXISTS none", ":0");
            writer.run("SET a 2");
            told(&mut client, "['a']");
            // It has not read it again.
            writer.run("SET a 3");
            writer.run("SET c 4");
            told_nothing(&mut client, &mut writer, "end");
            writer.run("MSET b 3 none 1");
            told(&mut client, "['b']");
            told(&mut client, "['none']");
            // Read again, told again.
            client.expect("GET a", "'3'");
            writer.run("DEL a");
            told(&mut client, "['a']");
            client.expect("CLIENT TRACKING OFF", "+OK");
            client.run("GET b");
            writer.run("SET b 9");
            client.expect("PING", "+PONG");
            client.expect("CLIENT TRACKING ON", "+OK");
            told_nothing(&mut client, &mut writer, "end");
        }
    }
}

#[test]
fn each_kind_of_change() {
    for server in servers(&[]) {
        let (mut client, mut writer) = (tracker(&server, ""), server.client());
        for (prepare, change) in [
            ("SET k v", "APPEND k x"),
            ("SET k 1", "INCR k"),
            ("SET k v", "SETRANGE k 1 x"),
            ("SET k v", "GETDEL k"),
            ("SET k v", "EXPIRE k 1000"),
            ("SET k v EX 1000", "PERSIST k"),
            ("SET k v EX 1000", "GETEX k EX 2000"),
            ("SET k v", "RENAME k other"),
            ("SET other v", "RENAME other k"),
            ("SET k v", "SETBIT k 1 0"),
            ("SET k v", "MOVE k 1"),
            ("SET other v", "COPY other k REPLACE"),
            ("SET other v", "BITOP NOT k other"),
            ("SET k v", "UNLINK k"),
            ("SET k v", "SET k v PXAT 1"),
        ] {
            writer.run("FLUSHALL");
            assert_eq!(client.read().to_string(), ">['invalidate', null]");
            assert!(!writer.run(prepare).is_error());
            client.run("GET k");
            assert!(!writer.run(change).is_error(), "{change}");
            told(&mut client, "['k']");
            told_nothing(&mut client, &mut writer, "end");
        }
        // By itself.
        writer.run("SET k v PX 30");
        client.run("GET k");
        told(&mut client, "['k']");
        // Everything at once, whatever was read, and the same from another database.
        for flush in ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC"] {
            writer.run(flush);
            assert_eq!(client.read().to_string(), ">['invalidate', null]");
        }
        // A key is known by its name, in whatever database.
        client.run("GET k");
        writer.run("SELECT 3");
        writer.run("SET k v");
        told(&mut client, "['k']");
    }
}

#[test]
fn own_changes_come_behind_their_replies() {
    for server in servers(&[]) {
        let mut client = tracker(&server, "");
        client.run("GET k");
        client.expect("SET k v", "+OK");
        told(&mut client, "['k']");
        client.run("GET k");
        client.expect("MULTI", "+OK");
        client.expect("SET k w", "+QUEUED");
        client.expect("GET k", "+QUEUED");
        client.expect("EXEC", "[+OK, 'w']");
        told(&mut client, "['k']");
        client.expect("FLUSHALL", "+OK");
        assert_eq!(client.read().to_string(), ">['invalidate', null]");
        // Left out, on request.
        let (mut quiet, mut writer) = (tracker(&server, "NOLOOP"), server.client());
        quiet.run("GET k");
        quiet.expect("SET k v", "+OK");
        told_nothing(&mut quiet, &mut writer, "end");
        // It was not read since, by anybody.
        writer.run("SET k v");
        told_nothing(&mut quiet, &mut writer, "end");
    }
}

#[test]
fn opting_in_and_out() {
    for server in servers(&[]) {
        let mut writer = server.client();
        let mut change =
            |keys: &str| keys.split(' ').for_each(|key| assert!(!writer.run(&format!("SET {key} v")).is_error()));
        let mut client = tracker(&server, "OPTIN");
        for line in ["GET a", "CLIENT CACHING YES", "CLIENT ID", "GET b", "GET c"] {
            client.run(line);
        }
        change("a c b");
        told(&mut client, "['b']");
        // A transaction as a whole.
        for line in ["CLIENT CACHING YES", "MULTI", "GET a", "GET b", "EXEC", "GET c"] {
            client.run(line);
        }
        change("c a b");
        told(&mut client, "['a']");
        told(&mut client, "['b']");
        let mut client = tracker(&server, "OPTOUT");
        for line in ["GET a", "CLIENT CACHING NO", "GET b", "GET c"] {
            client.run(line);
        }
        change("b a c");
        told(&mut client, "['a']");
        told(&mut client, "['c']");
    }
}

#[test]
fn broadcasts() {
    for server in servers(&[]) {
        let mut all = tracker(&server, "BCAST");
        let mut some = tracker(&server, "BCAST PREFIX user: PREFIX thing: NOLOOP");
        for mut writer in writers(&server) {
            writer.run("SET user:1 v");
            told(&mut all, "['user:1']");
            told(&mut some, "['user:1']");
            writer.run("SET other v");
            told(&mut all, "['other']");
            writer.run("MULTI");
            for line in ["SET thing:2 v", "SET thing:1 v", "SET thing:2 w", "SET x v", "SET user:2 v"] {
                writer.run(line);
            }
            writer.run("EXEC");
            told(&mut all, "['thing:1', 'thing:2', 'user:2', 'x']");
            told(&mut some, "['thing:1', 'thing:2']");
            told(&mut some, "['user:2']");
        }
        // Without its own.
        some.run("SET user:9 v");
        told(&mut all, "['user:9']");
        let mut writer = server.client();
        writer.run("SET user:8 v");
        told(&mut some, "['user:8']");
        writer.run("SET user:7 v PX 20");
        told(&mut some, "['user:7']");
        told(&mut some, "['user:7']");
        writer.run("FLUSHALL");
        assert_eq!(some.read().to_string(), ">['invalidate', null]");
        eventually("prefixes are counted", || writer.info_number("tracking_total_prefixes") == 3);
        drop((all, some));
        eventually("they are gone", || writer.info_number("tracking_total_prefixes") == 0);
        assert_eq!(writer.info_number("tracking_clients"), 0);
    }
}

#[test]
fn redirection() {
    for server in servers(&[]) {
        for mut writer in writers(&server) {
            // To RESP2, as a message; to RESP3, as a push.
            let (mut old, mut new) = (server.client(), server.client3());
            old.send(&request(&words("SUBSCRIBE __redis__:invalidate")));
            old.read();
            // Who listens may not ask for its number any more.
            let list = writer.run("CLIENT LIST TYPE pubsub").text();
            let number = list.split(' ').next().and_then(|field| field.strip_prefix("id=")).expect("an id").to_string();
            let mut client = server.client();
            client.expect(&format!("CLIENT TRACKING ON REDIRECT {number}"), "+OK");
            client.expect("CLIENT GETREDIR", &format!(":{number}"));
            client.run("GET k");
            writer.run("SET k v");
            assert_eq!(old.read().to_string(), "['message', '__redis__:invalidate', ['k']]");
            writer.run("FLUSHALL");
            assert_eq!(old.read().to_string(), "['message', '__redis__:invalidate', nil]");
            client.expect(&format!("CLIENT TRACKING ON REDIRECT {}", id(&mut new)), "+OK");
            client.run("GET k");
            writer.run("SET k v");
            told(&mut new, "['k']");
            // The other one goes.
            let mut client3 = tracker(&server, &format!("REDIRECT {}", id(&mut new)));
            let gone = id(&mut new);
            writer.run(&format!("CLIENT KILL ID {gone}"));
            client3.run("GET k");
            writer.run("SET k v");
            assert_eq!(client3.read().to_string(), format!(">['tracking-redir-broken', :{gone}]"));
            let info = client3.run("CLIENT TRACKINGINFO").to_string();
            assert!(
                info.contains("~['on', 'broken_redirect']") && info.contains(&format!("'redirect': :{gone}")),
                "{info}"
            );
            let line = client3.run("CLIENT INFO").text();
            assert!(line.contains(" flags=tR ") && line.contains(&format!(" redir={gone} ")), "{line}");
            drop(old);
            eventually("it is gone", || writer.run("CLIENT LIST TYPE pubsub").text().is_empty());
        }
    }
}

#[test]
fn what_is_answered() {
    for server in servers(&[]) {
        let mut client = server.client();
        script(
            &server,
            &mut client,
            "
            CLIENT GETREDIR => :-1
            CLIENT TRACKINGINFO => ['flags', ['off'], 'redirect', :-1, 'prefixes', []]
            CLIENT CACHING YES => -ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled
            CLIENT TRACKING MAYBE => -ERR syntax error
            CLIENT TRACKING ON NOSUCH => -ERR syntax error
            CLIENT TRACKING ON REDIRECT => -ERR syntax error
            CLIENT TRACKING ON PREFIX => -ERR syntax error
            CLIENT TRACKING ON REDIRECT x => -ERR value is not an integer or out of range
            CLIENT TRACKING ON REDIRECT 999999 => -ERR The client ID you want redirect to does not exist
            CLIENT TRACKING ON REDIRECT 0 => -ERR The client ID you want redirect to does not exist
            CLIENT TRACKING ON PREFIX a => -ERR PREFIX option requires BCAST mode to be enabled
            CLIENT TRACKING ON BCAST OPTIN => -ERR OPTIN and OPTOUT are not compatible with BCAST
            CLIENT TRACKING ON OPTIN OPTOUT => -ERR You can't specify both OPTIN mode and OPTOUT mode
            CLIENT TRACKING ON BCAST PREFIX ab PREFIX x PREFIX a => -ERR Prefix 'ab' overlaps with another provided prefix 'a'. Prefixes for a single client must not overlap.
            CLIENT TRACKING OFF => +OK
            CLIENT TRACKING ON BCAST PREFIX ab PREFIX x => +OK
            CLIENT TRACKING ON BCAST PREFIX abc => -ERR Prefix 'abc' overlaps with an existing prefix 'ab'. Prefixes for a single client must not overlap.
            CLIENT TRACKING ON BCAST PREFIX y NOLOOP => +OK
            CLIENT TRACKINGINFO => ['flags', ['on', 'bcast', 'noloop'], 'redirect', :0, 'prefixes', ['ab', 'x', 'y']]
            CLIENT TRACKING ON => -ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.
            CLIENT CACHING YES => -ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.
            CLIENT TRACKING OFF => +OK
            CLIENT TRACKING ON OPTIN => +OK
            CLIENT TRACKING ON OPTOUT => -ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.
            CLIENT CACHING NO => -ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.
            CLIENT CACHING MAYBE => -ERR syntax error
            CLIENT CACHING YES => +OK
            CLIENT TRACKINGINFO => ['flags', ['on', 'optin', 'caching-yes'], 'redirect', :0, 'prefixes', []]
            CLIENT GETREDIR => :0
            RESET => +RESET
            CLIENT TRACKINGINFO => ['flags', ['off'], 'redirect', :-1, 'prefixes', []]
            # As part of a transaction.
            MULTI => +OK
            CLIENT TRACKING ON BCAST => +QUEUED
            SET k v => +QUEUED
            CLIENT TRACKING OFF => +QUEUED
            EXEC => [+OK, +OK, +OK]
            ",
        );
    }
}

#[test]
fn the_table_is_bounded() {
    for server in servers(&["--tracking-table-max-keys", "10"]) {
        let (mut client, mut other) = (tracker(&server, ""), server.client());
        let mut reads = Vec::new();
        (0..100).for_each(|i| reads.extend(request(&["GET".to_string(), format!("key:{i}")])));
        client.send(&reads);
        // Those that do not fit are told of as changed, in whatever order.
        let (mut replies, mut gone) = (0, 0);
        while replies < 100 || gone < 90 {
            match client.read() {
                Reply::Push(_) => gone += 1,
                _ => replies += 1,
            }
        }
        eventually("no more are kept", || other.info_number("tracking_total_keys") <= 10);
        assert_eq!(other.info_number("tracking_total_items"), other.info_number("tracking_total_keys"));
        assert_eq!(other.info_number("tracking_clients"), 1);
        other.expect("CONFIG SET tracking-table-max-keys 0", "+OK");
        drop(client);
        eventually("it is gone", || other.info_number("tracking_clients") == 0);
        if !server.is_redis() {
            eventually("nothing is kept for nobody", || other.info_number("tracking_total_keys") == 0);
        }
    }
}

/// Requests of very many keys, replies in slices, and what comes in between: a message never comes within a reply.
#[test]
fn large_requests_and_replies() {
    for server in servers(&[]) {
        let (mut client, mut writer) = (tracker(&server, ""), server.client());
        let names: Vec<String> = (0..3000).map(|i| format!("key:{i:05}")).collect();
        let value = "v".repeat(2000);
        let pairs = names.iter().flat_map(|name| [name.as_str(), &value]);
        assert_eq!(writer.call(&std::iter::once("MSET").chain(pairs).collect::<Vec<_>>()), Reply::Simple("OK".into()));
        let mget = request(&std::iter::once("MGET").chain(names.iter().map(String::as_str)).collect::<Vec<_>>());
        for round in 0..5 {
            client.send(&mget);
            let key = &names[(round * 991) % names.len()];
            writer.run(&format!("SET {key} {value}"));
            // Whether it was read before the change or behind it.
            let mut replies = Vec::new();
            while !matches!(replies.last(), Some(Reply::Array(_))) {
                replies.push(client.read());
            }
            assert_eq!(replies.last().map(|reply| reply.items().len()), Some(names.len()));
            writer.run(&format!("SET {key} {value}"));
            loop {
                let push = client.read();
                assert!(matches!(push, Reply::Push(_)), "{push}");
                if push.items()[1].items()[0] == Reply::bulk(key) {
                    break;
                }
            }
        }
        // All of them are remembered but the last.
        client.send(&mget);
        while !matches!(client.read(), Reply::Array(_)) {}
        assert_eq!(writer.info_number("tracking_total_keys"), names.len() as u64);
        writer.call(&std::iter::once("DEL").chain(names.iter().map(String::as_str)).collect::<Vec<_>>());
        // One of the rounds before may have told of its key twice.
        let mut gone = BTreeSet::new();
        while gone.len() < names.len() {
            gone.insert(client.read().items()[1].items()[0].text());
        }
        assert!(gone.iter().eq(&names), "all of them, and no other");
    }
}
