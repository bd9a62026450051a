//! PING ECHO QUIT HELLO AUTH SELECT, and CLIENT ID SETNAME GETNAME SETINFO LIST.

use std::collections::HashMap;

use crate::harness::{Client, Reply, Server, eventually, request, script, words};

#[test]
fn ping_and_echo() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        PING                  => +PONG
        pInG                  => +PONG
        PING hello            => 'hello'
        PING ''               => ''
        PING 'two words'      => 'two words'
        PING a b              => -ERR wrong number of arguments for 'ping' command
        ECHO hello            => 'hello'
        ECHO ''               => ''
        ECHO 'a\r\n\x00\xff'  => 'a\r\n\x00\xff'
        ECHO                  => -ERR wrong number of arguments for 'echo' command
        ECHO a b              => -ERR wrong number of arguments for 'echo' command
        ",
    );
}

#[test]
fn unknown_commands_are_named_with_their_arguments() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        NOSUCH                => -ERR unknown command 'NOSUCH', with args beginning with:
        nosuch a 'b c'        => -ERR unknown command 'nosuch', with args beginning with: 'a' 'b c'
        'get k'               => -ERR unknown command 'get k', with args beginning with:
        ''                    => -ERR unknown command '', with args beginning with:
        GETT k                => -ERR unknown command 'GETT'
        'no\r\nsuch'          => -ERR unknown command 'no  such'
        PING                  => +PONG
        ",
    );
    // A name and arguments without end are cut, the connection goes on.
    let long = "x".repeat(100_000);
    let Reply::Error(text) = c.call(&[&long, &long, &long]) else { panic!("an error") };
    assert!(text.starts_with("ERR unknown command 'xxx"), "{text}");
    assert!(text.len() < 1000, "{} bytes of error", text.len());
    c.expect("PING", "+PONG");
}

#[test]
fn quit_answers_and_closes() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("QUIT", "+OK");
    c.expect_closed();

    // What is behind it in the pipeline is not answered.
    let mut c = server.client();
    let bytes: Vec<u8> = ["SET k 1", "QUIT", "SET k 2"].iter().flat_map(|line| request(&words(line))).collect();
    c.send(&bytes);
    assert_eq!([c.read(), c.read()], [Reply::Simple("OK".into()), Reply::Simple("OK".into())]);
    c.expect_closed();
    server.client().expect("GET k", "'1'");
}

/// What HELLO tells, by name.
fn hello(c: &mut Client, line: &str) -> HashMap<String, Reply> {
    c.run(line).pairs().into_iter().map(|(name, value)| (name.text(), value)).collect()
}

#[test]
fn hello_switches_the_protocol() {
    let server = Server::start();
    let mut c = server.client();

    let reply = c.run("HELLO");
    assert!(matches!(&reply, Reply::Array(items) if items.len() == 14), "seven pairs in an array, not {reply}");
    let told = hello(&mut c, "HELLO");
    if !server.is_redis() {
        // Clients refuse to work with a server they do not know, so the name is Redis's; only what is ours is ours.
        assert_eq!(told["version"].text(), c.info("redis_version"));
    }
    assert_eq!(told["server"], Reply::bulk("redis"));
    assert_eq!(told["proto"], Reply::Int(2));
    assert_eq!(told["mode"], Reply::bulk("standalone"));
    assert_eq!(told["role"], Reply::bulk("master"));
    assert_eq!(told["modules"], Reply::Array(vec![]));
    assert_eq!(told["id"], c.run("CLIENT ID"));

    assert!(matches!(c.run("HELLO 3"), Reply::Map(_)));
    assert_eq!(hello(&mut c, "HELLO 3")["proto"], Reply::Int(3));
    c.expect("GET none", "null");
    // Without a version it tells, and changes nothing.
    assert_eq!(hello(&mut c, "HELLO")["proto"], Reply::Int(3));
    c.expect("GET none", "null");
    assert!(matches!(c.run("HELLO 2"), Reply::Array(_)));
    c.expect("GET none", "nil");

    assert!(matches!(c.run("hello 3 setname me"), Reply::Map(_)));
    c.expect("CLIENT GETNAME", "'me'");
    assert!(matches!(c.run("HELLO 3 AUTH default any SETNAME you"), Reply::Map(_)));
    c.expect("CLIENT GETNAME", "'you'");

    script(
        &server,
        &mut c,
        r"
        HELLO 1                       => -NOPROTO unsupported protocol version
        HELLO 4                       => -NOPROTO unsupported protocol version
        HELLO -3                      => -NOPROTO unsupported protocol version
        HELLO three                   => -ERR Protocol version is not an integer or out of range
        HELLO 99999999999999999999    => -ERR Protocol version is not an integer or out of range
        HELLO 2 SETNAME               => -ERR Syntax error in HELLO option 'SETNAME'
        HELLO 2 AUTH default          => -ERR Syntax error in HELLO option 'AUTH'
        HELLO 2 NOSUCH                => -ERR Syntax error in HELLO option 'NOSUCH'
        HELLO 2 AUTH nobody x         => -WRONGPASS
        HELLO 2 SETNAME 'a b'         => -ERR Client names cannot contain spaces, newlines or special characters.
        # None of the failures has changed anything.
        GET none                      => null
        CLIENT GETNAME                => 'you'
        ",
    );
}

#[test]
fn hello_in_the_middle_of_a_pipeline() {
    let server = Server::start();
    let mut c = server.client();
    let replies = c.pipeline(&["GET none", "HELLO 3", "GET none", "HELLO 2", "GET none"]);
    assert_eq!((&replies[0], &replies[2], &replies[4]), (&Reply::NilBulk, &Reply::Null, &Reply::NilBulk));
    assert!(matches!((&replies[1], &replies[3]), (Reply::Map(_), Reply::Array(_))));
}

#[test]
fn auth_without_a_password_configured() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        AUTH x            => -ERR AUTH <password> called without any password configured for the default user.
        AUTH default x    => +OK
        AUTH nobody x     => -WRONGPASS invalid username-password pair or user is disabled.
        AUTH              => -ERR wrong number of arguments for 'auth' command
        AUTH a b c        => -ERR syntax error
        ",
    );
}

#[test]
fn requirepass() {
    let server = Server::with(&["--requirepass", "open sesame"]);
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        PING                       => -NOAUTH Authentication required.
        GET k                      => -NOAUTH Authentication required.
        SET k v                    => -NOAUTH Authentication required.
        CLIENT ID                  => -NOAUTH Authentication required.
        NOSUCH                     => -ERR unknown command 'NOSUCH'
        GET                        => -ERR wrong number of arguments for 'get' command
        HELLO                      => -NOAUTH HELLO must be called with the client already authenticated
        HELLO 3                    => -NOAUTH HELLO must be called
        HELLO 3 AUTH default no    => -WRONGPASS invalid username-password pair or user is disabled.
        AUTH wrong                 => -WRONGPASS invalid username-password pair or user is disabled.
        AUTH ''                    => -WRONGPASS
        AUTH 'open sesam'          => -WRONGPASS
        AUTH 'open sesame '        => -WRONGPASS
        AUTH nobody 'open sesame'  => -WRONGPASS
        PING                       => -NOAUTH Authentication required.
        AUTH 'open sesame'         => +OK
        SET k v                    => +OK
        # A failed attempt does not take away what was granted.
        AUTH wrong                 => -WRONGPASS
        GET k                      => 'v'
        ",
    );

    // In a pipeline the commands before AUTH are refused, those behind it run.
    let mut c = server.client();
    let replies = c.pipeline(&["GET k", "AUTH default 'open sesame'", "GET k", "QUIT"]);
    assert!(matches!(&replies[0], Reply::Error(text) if text.starts_with("NOAUTH")));
    assert_eq!(replies[1..], [Reply::Simple("OK".into()), Reply::bulk("v"), Reply::Simple("OK".into())]);
    c.expect_closed();

    let mut c = server.client();
    assert_eq!(c.call(&["HELLO", "3", "AUTH", "default", "open sesame", "SETNAME", "me"]).pairs().len(), 7);
    c.expect("GET none", "null");
    c.expect("CLIENT GETNAME", "'me'");

    // QUIT needs no password.
    let mut c = server.client();
    c.expect("QUIT", "+OK");
    c.expect_closed();
}

#[test]
fn select() {
    let server = Server::start();
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SET k zero              => +OK
        SELECT 1                => +OK
        GET k                   => nil
        SET k one               => +OK
        SELECT 15               => +OK
        DBSIZE                  => :0
        SELECT 16               => -ERR DB index is out of range
        SELECT -1               => -ERR DB index is out of range
        SELECT 99999999999      => -ERR value is 
        SELECT one              => -ERR value is not an integer or out of range
        SELECT ''               => -ERR value is not an integer or out of range
        SELECT                  => -ERR wrong number of arguments for 'select' command
        SELECT 0 0              => -ERR wrong number of arguments for 'select' command
        DBSIZE                  => :0
        SELECT 0                => +OK
        GET k                   => 'zero'
        SELECT 1                => +OK
        GET k                   => 'one'
        ",
    );
    // A connection begins in database 0, whatever others selected; in a pipeline it takes effect at once.
    let mut c = server.client();
    c.expect("GET k", "'zero'");
    assert_eq!(
        c.pipeline(&["SELECT 1", "GET k", "SELECT 0", "GET k"]),
        [Reply::Simple("OK".into()), Reply::bulk("one"), Reply::Simple("OK".into()), Reply::bulk("zero")]
    );
}

#[test]
fn databases_is_configurable() {
    let server = Server::with(&["--databases", "3"]);
    let mut c = server.client();
    script(
        &server,
        &mut c,
        r"
        SELECT 2    => +OK
        SELECT 3    => -ERR DB index is out of range
        ",
    );
}

#[test]
fn client_id_and_names() {
    let server = Server::start();
    // An id is given when a worker opens the connection, so the second one waits for the first.
    let mut c = server.client();
    let first = c.run("CLIENT ID").int();
    let mut d = server.client();
    let second = d.run("CLIENT ID").int();
    assert!(first > 0 && second > first, "ids grow: {first}, {second}");
    assert_eq!(c.run("client id").int(), first, "an id stays");
    script(
        &server,
        &mut c,
        r"
        CLIENT GETNAME                 => nil
        CLIENT SETNAME worker-1        => +OK
        CLIENT GETNAME                 => 'worker-1'
        CLIENT SETNAME 'a b'           => -ERR Client names cannot contain spaces, newlines or special characters.
        CLIENT SETNAME 'a\nb'          => -ERR Client names cannot contain spaces, newlines or special characters.
        CLIENT SETNAME 'a\x7f'         => -ERR Client names cannot contain spaces, newlines or special characters.
        CLIENT GETNAME                 => 'worker-1'
        CLIENT SETNAME ''              => +OK
        CLIENT GETNAME                 => nil
        CLIENT SETNAME                 => -ERR wrong number of arguments for 'client|setname' command
        CLIENT GETNAME x               => -ERR wrong number of arguments for 'client|getname' command
        CLIENT ID x                    => -ERR wrong number of arguments for 'client|id' command
        CLIENT                         => -ERR wrong number of arguments for 'client' command
        CLIENT NOSUCH                  => -ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.
        HELLO 3                        => ...
        CLIENT GETNAME                 => null
        ",
    );
}

#[test]
fn client_setinfo() {
    let server = Server::start();
    let mut c = server.client();
    // Since Redis 7.2, so an older redis-server does not know it.
    script(
        &server,
        &mut c,
        r"
        PING                                  => +PONG
        dolmen> CLIENT SETINFO LIB-NAME redis-py      => +OK
        dolmen> client setinfo lib-ver 5.0.1          => +OK
        dolmen> CLIENT SETINFO LIB-NAME 'a b'         => -ERR lib-name cannot contain spaces, newlines or special characters.
        dolmen> CLIENT SETINFO LIB-VER 'a\nb'         => -ERR lib-ver cannot contain spaces, newlines or special characters.
        dolmen> CLIENT SETINFO NOSUCH x               => -ERR Unrecognized option 'NOSUCH'
        dolmen> CLIENT SETINFO LIB-NAME               => -ERR wrong number of arguments for 'client|setinfo' command
        ",
    );
    if !server.is_redis() {
        let me = &clients(&mut c, "CLIENT LIST")[0];
        assert_eq!((me["lib-name"].as_str(), me["lib-ver"].as_str()), ("redis-py", "5.0.1"));
    }
}

/// The lines of CLIENT LIST, each as its fields.
fn clients(c: &mut Client, line: &str) -> Vec<HashMap<String, String>> {
    let text = c.run(line).text();
    assert!(text.is_empty() || text.ends_with('\n'), "whole lines: {text:?}");
    let fields = |line: &str| {
        line.split(' ')
            .map(|field| field.split_once('=').expect("name=value"))
            .map(|(n, v)| (n.to_string(), v.to_string()))
            .collect()
    };
    text.lines().map(fields).collect()
}

#[test]
fn client_list() {
    let server = Server::start();
    let mut c = server.client();
    c.expect("CLIENT SETNAME first", "+OK");
    c.expect("SELECT 3", "+OK");
    let mut d = server.client3();
    let (first, second) = (c.run("CLIENT ID").int(), d.run("CLIENT ID").int());

    let list = clients(&mut c, "CLIENT LIST");
    assert_eq!(list.len(), 2);
    let me = list.iter().find(|client| client["id"] == first.to_string()).expect("myself");
    let other = list.iter().find(|client| client["id"] == second.to_string()).expect("the other one");
    assert_eq!(me["addr"], c.stream().local_addr().expect("an address").to_string());
    assert_eq!(me["laddr"], c.stream().peer_addr().expect("an address").to_string());
    assert_eq!(other["addr"], d.stream().local_addr().expect("an address").to_string());
    assert_eq!((me["name"].as_str(), other["name"].as_str()), ("first", ""));
    assert_eq!((me["db"].as_str(), other["db"].as_str()), ("3", "0"));
    assert_eq!((me["flags"].as_str(), other["flags"].as_str()), ("N", "N"));
    assert_eq!((me["cmd"].as_str(), other["cmd"].as_str()), ("client|list", "client|id"));
    assert_eq!(me["user"], "default");
    for field in ["fd", "age", "idle", "qbuf", "qbuf-free", "obl", "oll", "omem", "tot-mem"] {
        me[field].parse::<u64>().unwrap_or_else(|_| panic!("{field} is a number, not {}", me[field]));
    }
    for field in ["sub", "psub", "multi", "events", "redir"] {
        assert!(me.contains_key(field), "{field} is told");
    }
    if !server.is_redis() {
        // Since Redis 7.2.
        assert_eq!((me["resp"].as_str(), other["resp"].as_str()), ("2", "3"));
    }

    // In RESP3 it is a verbatim string.
    assert!(matches!(d.run("CLIENT LIST"), Reply::Verbatim(format, _) if format == "txt"));

    let ids =
        |list: Vec<HashMap<String, String>>| list.into_iter().map(|client| client["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(clients(&mut c, &format!("CLIENT LIST ID {second}"))), [second.to_string()]);
    assert_eq!(
        ids(clients(&mut c, &format!("CLIENT LIST ID {first} {second} 9999"))),
        [first.to_string(), second.to_string()]
    );
    assert_eq!(ids(clients(&mut c, "CLIENT LIST TYPE normal")).len(), 2);
    assert_eq!(ids(clients(&mut c, "CLIENT LIST type pubsub")).len(), 0);
    assert_eq!(ids(clients(&mut c, "CLIENT LIST TYPE replica")).len(), 0);
    script(
        &server,
        &mut c,
        r"
        CLIENT LIST TYPE master   => ''
        CLIENT LIST TYPE slave    => ''
        CLIENT LIST TYPE nosuch   => -ERR Unknown client type 'nosuch'
        CLIENT LIST TYPE          => -ERR syntax error
        CLIENT LIST ID            => -ERR syntax error
        CLIENT LIST ID x          => -ERR Invalid client ID
        CLIENT LIST ID 0          => ''
        CLIENT LIST ID -1         => ''
        CLIENT LIST NOSUCH        => -ERR syntax error
        CLIENT LIST NOSUCH x      => -ERR syntax error
        ",
    );

    let own = clients(&mut c, "CLIENT INFO");
    assert_eq!((own.len(), own[0]["id"].as_str()), (1, first.to_string().as_str()));
    assert_eq!(own[0]["cmd"], "client|info");
    c.expect("CLIENT INFO x", "-ERR wrong number of arguments for 'client|info' command");

    drop(d);
    eventually("the closed connection leaves the list", || clients(&mut c, "CLIENT LIST").len() == 1);
}

#[test]
fn idle_clients_are_closed_after_the_timeout() {
    let server = Server::with(&["--timeout", "1"]);
    let mut idle = server.client();
    let mut busy = server.client();
    idle.expect("PING", "+PONG");
    eventually("the idle connection is closed", || {
        busy.expect("PING", "+PONG");
        clients(&mut busy, "CLIENT LIST").len() == 1
    });
    idle.expect_closed();
    busy.expect("PING", "+PONG");
}
