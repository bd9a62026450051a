//! ACL: users, what they may do, and what becomes of their clients. With one worker and with several, as a change must reach all clients.

use std::fs;

use crate::control::servers;
use crate::harness::{Client, Kind, Reply, Server, request, run_to_end, script, under_test};

const NOPERM_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";

/// A client of each worker.
fn crowd(server: &Server) -> Vec<Client> {
    (0..7).map(|_| server.client()).collect()
}

#[test]
fn forms_and_errors() {
    for server in servers(&[]) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            ACL                              => -ERR wrong number of arguments for 'acl' command
            ACL NOSUCH                       => -ERR unknown subcommand 'NOSUCH'. Try ACL HELP.
            ACL WHOAMI                       => 'default'
            ACL USERS                        => ['default']
            ACL LIST                         => ['user default on nopass ~* &* +@all']
            ACL SETUSER a nonsense           => -ERR Error in ACL SETUSER modifier 'nonsense': Syntax error
            ACL SETUSER a +nosuch            => -ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL
            ACL SETUSER a +@nosuch           => -ERR Error in ACL SETUSER modifier '+@nosuch': Unknown command or category name in ACL
            ACL SETUSER a +config|get|x      => -ERR Error in ACL SETUSER modifier '+config|get|x': Allowing first-arg of a subcommand is not supported
            ACL SETUSER a #12                => -ERR Error in ACL SETUSER modifier '#12': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters
            ACL SETUSER a <x                 => -ERR Error in ACL SETUSER modifier '<x': The password you are trying to remove from the user does not exist
            ACL SETUSER a '(+get'            => -ERR Unmatched parenthesis in acl selector starting at '(+get'.
            ACL SETUSER a (foo)              => -ERR Error in ACL SETUSER modifier '(foo)': Syntax error
            ACL SETUSER a allkeys ~x         => -ERR Error in ACL SETUSER modifier '~x': Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns
            ACL SETUSER a allchannels &x     => -ERR Error in ACL SETUSER modifier '&x': Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels
            ACL SETUSER 'a b' on             => -ERR Usernames can't contain spaces or null characters
            ACL USERS                        => ['default']
            ACL GETUSER a                    => nil
            ACL SETUSER a on >p +get ~foo*   => +OK
            ACL LIST                         => ['user a on #148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 ~foo* resetchannels -@all +get', 'user default on nopass ~* &* +@all']
            ACL GETUSER a                    => ['flags', ['on'], 'passwords', ['148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940'], 'commands', '-@all +get', 'keys', '~foo*', 'channels', '', 'selectors', []]
            ACL DRYRUN a GET foo1            => +OK
            ACL DRYRUN a GET bar             => 'This user has no permissions to access the \'bar\' key'
            ACL DRYRUN a SET foo1 x          => 'This user has no permissions to run the \'set\' command'
            ACL DRYRUN a GET                 => -ERR wrong number of arguments for 'get' command
            ACL DRYRUN a NOSUCH x            => -ERR Command 'NOSUCH' not found
            ACL DRYRUN nobody GET x          => -ERR User 'nobody' not found
            ACL SETUSER a resetkeys '(%R~r* +@read' ')' (~w +set &c) &news => +OK
            ACL GETUSER a                    => ['flags', ['on'], 'passwords', ['148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940'], 'commands', '-@all +get', 'keys', '', 'channels', '&news', 'selectors', [['commands', '-@all +@read', 'keys', '%R~r*', 'channels', ''], ['commands', '-@all +set', 'keys', '~w', 'channels', '&c']]]
            ACL DRYRUN a STRLEN r1           => +OK
            ACL DRYRUN a STRLEN w            => 'This user has no permissions to access the \'w\' key'
            ACL DRYRUN a SET w x             => +OK
            ACL DELUSER nobody a             => :1
            ACL DELUSER a default            => -ERR The 'default' user cannot be removed
            ACL CAT nosuch                   => -ERR Unknown category 'nosuch'
            ACL CAT a b                      => -ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.
            ACL LOG x                        => -ERR value is not an integer or out of range
            ACL LOG                          => []
            ACL LOG RESET                    => +OK
            ACL GENPASS 0                    => -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
            ACL GENPASS 4097                 => -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
            ACL GENPASS x                    => -ERR value is not an integer or out of range
            ACL SAVE                         => -ERR This Redis instance is not configured to use an ACL file. You may want to specify users via
            ACL LOAD                         => -ERR This Redis instance is not configured to use an ACL file. You may want to specify users via
            CLIENT KILL USER nobody          => -ERR No such user 'nobody'
            ",
        );
        for (arguments, digits) in [("", 64), (" 1", 1), (" 5", 2), (" 4096", 1024)] {
            let password = c.run(&format!("ACL GENPASS{arguments}")).text();
            assert!(password.len() == digits && password.bytes().all(|b| b.is_ascii_hexdigit()), "{password}");
        }
        assert_ne!(c.run("ACL GENPASS"), c.run("ACL GENPASS"));
        let categories = c.run("ACL CAT");
        assert_eq!(categories.items().len(), 21, "{categories:?}");
        let of_transactions = c.run("ACL CAT transaction");
        let mut names: Vec<_> = of_transactions.items().iter().map(Reply::text).collect();
        names.sort();
        assert_eq!(names, ["discard", "exec", "multi", "unwatch", "watch"]);
        assert!(c.run("ACL HELP").items().len() > 10);
    }
}

/// The rules as they are told. (Redis 7.0 reckons them from what is allowed; 7.2 keeps them as they were given, as this does.)
#[test]
fn rules_keep_their_order() {
    for server in servers(&[]).into_iter().filter(|server| !server.is_redis()) {
        let mut c = server.client();
        for (rules, told) in [
            ("+@all -@hash -@slow +hget", "+@all -@hash -@slow +hget"),
            ("-@hash", "+@all -@slow +hget -@hash"),
            ("+@hash", "+@all -@slow +hget +@hash"),
            ("-@all", "-@all"),
            ("-@string -@slow +@all", "+@all"),
            ("-@all +@HASH +@hash", "-@all +@hash"),
            ("-@all +client|list +client|list +config|get +config +acl|list -acl", "-@all +client|list +config -acl"),
            ("-@all +select|0 +select|0 +debug|object +debug", "-@all +select|0 +debug"),
        ] {
            c.expect(&format!("ACL SETUSER u {rules}"), "+OK");
            let commands = c.run("ACL GETUSER u").pairs().into_iter().find(|(name, _)| name.text() == "commands");
            assert_eq!(commands.expect("its commands").1.text(), told, "{rules}");
        }
    }
}

#[test]
fn what_a_user_may_do() {
    for server in servers(&[]) {
        let mut c = server.client();
        c.expect(
            "ACL SETUSER u on >secret +@all -@admin -flushall ~u:* %R~shared:* &news:* +acl|whoami +client|id",
            "+OK",
        );
        let mut u = server.client();
        script(
            &server,
            &mut u,
            r"
            AUTH u wrong                     => -WRONGPASS invalid username-password pair or user is disabled.
            AUTH nobody secret               => -WRONGPASS invalid username-password pair or user is disabled.
            ACL WHOAMI                       => 'default'
            AUTH u secret                    => +OK
            ACL WHOAMI                       => 'u'
            SET u:1 a                        => +OK
            GET u:1                          => 'a'
            GET shared:1                     => nil
            SET shared:1 a                   => -NOPERM this user has no permissions to access one of the keys used as arguments
            GET other                        => -NOPERM this user has no permissions to access one of the keys used as arguments
            MSET u:1 a other b               => -NOPERM this user has no permissions to access one of the keys used as arguments
            MGET u:1 shared:1                => ['a', nil]
            COPY shared:1 u:2                => :0
            COPY u:1 shared:1                => -NOPERM this user has no permissions to access one of the keys used as arguments
            FLUSHALL                         => -NOPERM this user has no permissions to run the 'flushall' command
            CONFIG GET maxmemory             => -NOPERM this user has no permissions to run the 'config|get' command
            ACL LIST                         => -NOPERM this user has no permissions to run the 'acl|list' command
            PUBLISH news:1 x                 => :0
            PUBLISH other x                  => -NOPERM this user has no permissions to access one of the channels used as arguments
            SUBSCRIBE news:1 other           => -NOPERM this user has no permissions to access one of the channels used as arguments
            PSUBSCRIBE news:1*               => -NOPERM this user has no permissions to access one of the channels used as arguments
            # What there is not, and what is wrong, is told as to everybody.
            NOSUCH                           => -ERR unknown command 'NOSUCH', with args beginning with: 
            GET                              => -ERR wrong number of arguments for 'get' command
            # In a transaction: when it is queued.
            MULTI                            => +OK
            SET u:1 b                        => +QUEUED
            SET other b                      => -NOPERM this user has no permissions to access one of the keys used as arguments
            EXEC                             => -EXECABORT Transaction discarded because of previous errors.
            GET u:1                          => 'a'
            MULTI                            => +OK
            SET u:1 b                        => +QUEUED
            INCR u:n                         => +QUEUED
            ",
        );
        // And once more by EXEC.
        c.expect("ACL SETUSER u -set", "+OK");
        script(
            &server,
            &mut u,
            r"
            EXEC                             => [-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand, :1]
            GET u:1                          => 'a'
            RESET                            => +RESET
            ACL WHOAMI                       => 'default'
            SET other x                      => +OK
            HELLO 2 AUTH u secret SETNAME me => ...
            ACL WHOAMI                       => 'u'
            AUTH default anything            => +OK
            ACL WHOAMI                       => 'default'
            ",
        );
    }
}

/// A request of very many keys takes another way.
#[test]
fn long_requests_are_checked() {
    for server in servers(&[]) {
        let mut c = server.client();
        c.expect("ACL SETUSER u on nopass +mset +mget +set ~u:*", "+OK");
        c.expect("AUTH u x", "+OK");
        let mset = |last: &str| {
            let mut words = vec!["MSET".to_owned()];
            (0..3000).for_each(|n| words.extend([format!("u:{n}"), "x".repeat(20)]));
            words.extend([last.to_owned(), "y".into()]);
            words
        };
        assert_eq!(c.call(&mset("other")), Reply::Error(NOPERM_KEY[1..].into()));
        assert_eq!(c.call(&mset("u:last")), Reply::Simple("OK".into()));
        // Nor does a value that is received in place get there.
        let large = "z".repeat(1 << 20);
        assert_eq!(c.call(&["SET", "other", &large]), Reply::Error(NOPERM_KEY[1..].into()));
        assert_eq!(c.call(&["SET", "u:large", &large]), Reply::Simple("OK".into()));
        c.expect("RESET", "+RESET");
        c.expect("EXISTS other u:1 u:last u:large", ":3");
    }
}

#[test]
fn changes_reach_every_client_before_the_answer() {
    for server in servers(&[]) {
        let (mut operator, mut clients) = (server.client(), crowd(&server));
        operator.expect("ACL SETUSER u on nopass +@all ~*", "+OK");
        for client in &mut clients {
            client.expect("AUTH u x", "+OK");
        }
        for n in 0..10 {
            operator.expect("ACL SETUSER u -get", "+OK");
            let at = n % clients.len();
            clients[at].expect("GET k", "-NOPERM this user has no permissions to run the 'get' command");
            operator.expect("ACL SETUSER u +get", "+OK");
            clients[at].expect("GET k", "nil");
        }
        // Who is switched off stays, and nobody else gets in.
        operator.expect("ACL SETUSER u off", "+OK");
        clients[0].expect("GET k", "nil");
        operator.expect("AUTH u x", "-WRONGPASS invalid username-password pair or user is disabled.");
        // One deletes itself: it is answered, and all of them go.
        let mut last = clients.pop().expect("a client");
        last.expect("ACL DELUSER u", ":1");
        last.expect_closed();
        for mut client in clients {
            client.expect_closed();
        }
        let listed = operator.run("CLIENT LIST").text();
        assert!(listed.lines().count() == 1 && listed.contains(" user=default "), "{listed}");
    }
}

#[test]
fn who_listens_to_what_it_may_not_is_cut_off() {
    for server in servers(&[]) {
        let mut operator = server.client();
        operator.expect("ACL SETUSER u on nopass +@all &a &b:*", "+OK");
        let mut listeners: Vec<Client> = (0..6).map(|_| server.client()).collect();
        for (n, listener) in listeners.iter_mut().enumerate() {
            listener.expect("AUTH u x", "+OK");
            match n % 3 {
                0 => listener.expect("SUBSCRIBE a", "['subscribe', 'a', :1]"),
                1 => listener.expect("PSUBSCRIBE b:*", "['psubscribe', 'b:*', :1]"),
                _ => listener.expect("SSUBSCRIBE a", "['ssubscribe', 'a', :1]"),
            }
        }
        operator.expect("ACL SETUSER u &c", "+OK");
        operator.expect("PUBLISH a x", ":2");
        for listener in listeners.iter_mut().step_by(3) {
            assert_eq!(listener.read().items().len(), 3, "the message");
        }
        operator.expect("ACL SETUSER u resetchannels &b:*", "+OK");
        operator.expect("PUBLISH b:1 x", ":2");
        let left = operator.run("CLIENT LIST TYPE pubsub").text();
        assert_eq!(left.lines().count(), 2, "{left}");
        for (n, listener) in listeners.iter_mut().enumerate() {
            match n % 3 {
                1 => assert_eq!(listener.read().items().len(), 4, "the message"),
                _ => listener.expect_closed(),
            }
        }
    }
}

#[test]
fn the_default_user_may_be_restricted() {
    for server in servers(&[]) {
        let (mut c, mut others) = (server.client(), crowd(&server));
        c.expect("ACL SETUSER admin on >p allcommands allkeys allchannels", "+OK");
        c.expect("AUTH admin p", "+OK");
        c.expect("ACL SETUSER default -@all +ping", "+OK");
        for client in others.iter_mut().chain(&mut crowd(&server)) {
            client.expect("PING", "+PONG");
            client.expect("GET k", "-NOPERM this user has no permissions to run the 'get' command");
            assert_eq!(client.run("HELLO 2 AUTH admin p").items().len(), 14);
            client.expect("STRLEN k", ":0");
            client.expect("RESET", "+RESET");
            client.expect("GET k", "-NOPERM this user has no permissions to run the 'get' command");
        }
        c.expect("ACL SETUSER default off", "+OK");
        server.client().expect("PING", "-NOAUTH Authentication required.");
        others[0].expect("PING", "+PONG");
        c.expect("ACL SETUSER default on +@all", "+OK");
        server.client().expect("GET k", "nil");
    }
}

#[test]
fn requirepass_is_the_password_of_the_default_user() {
    for server in servers(&["--requirepass", "first"]) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            ACL WHOAMI                       => -NOAUTH Authentication required.
            AUTH default first               => +OK
            CONFIG SET requirepass second    => +OK
            AUTH first                       => -WRONGPASS invalid username-password pair or user is disabled.
            AUTH second                      => +OK
            ACL LIST                         => ['user default on #16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4 ~* &* +@all']
            ACL SETUSER default >third       => +OK
            AUTH second                      => +OK
            AUTH third                       => +OK
            CONFIG SET requirepass ''        => +OK
            AUTH x                           => -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
            AUTH default x                   => +OK
            ",
        );
        server.client().expect("PING", "+PONG");
    }
}

fn entry(client: &mut Client, field: &str) -> String {
    let log = client.run("ACL LOG 1");
    let entry = log.items().first().expect("an entry").pairs();
    entry.into_iter().find(|(name, _)| name.text() == field).map(|(_, value)| format!("{value:?}")).expect("the field")
}

#[test]
fn the_log() {
    for server in servers(&[]) {
        let (mut c, mut u) = (server.client(), server.client());
        c.expect("ACL SETUSER u on >p +get +multi +exec +discard +publish ~k", "+OK");
        u.expect("CLIENT SETNAME watched", "+OK");
        u.run("AUTH u wrong");
        for (field, value) in [("reason", "auth"), ("context", "toplevel"), ("object", "AUTH"), ("username", "u")] {
            assert_eq!(entry(&mut c, field), debug(value), "{field}");
        }
        assert_eq!(entry(&mut c, "count"), "Int(1)");
        assert!(entry(&mut c, "client-info").contains(&debug_part("name=watched")));
        u.expect("AUTH u p", "+OK");
        u.run("SET k v");
        u.run("SET k v");
        assert_eq!(entry(&mut c, "count"), "Int(2)");
        u.run("GET other");
        assert_eq!((entry(&mut c, "reason"), entry(&mut c, "object")), (debug("key"), debug("other")));
        u.run("PUBLISH ch x");
        assert_eq!((entry(&mut c, "reason"), entry(&mut c, "object")), (debug("channel"), debug("ch")));
        u.expect("MULTI", "+OK");
        u.run("INCR k");
        assert_eq!((entry(&mut c, "context"), entry(&mut c, "object")), (debug("multi"), debug("incr")));
        assert_eq!(c.run("ACL LOG").items().len(), 5);
        assert_eq!(c.run("ACL LOG 2").items().len(), 2);
        c.expect("CONFIG SET acllog-max-len 3", "+OK");
        u.run("GET another");
        assert_eq!(c.run("ACL LOG").items().len(), 3);
        if !server.is_redis() {
            for (field, count) in [("auth", 1), ("cmd", 3), ("key", 2), ("channel", 1)] {
                assert_eq!(c.info_number(&format!("acl_access_denied_{field}")), count, "{field}");
            }
        }
        c.expect("ACL LOG RESET", "+OK");
        c.expect("ACL LOG", "[]");
    }
}

fn debug(text: &str) -> String {
    format!("{:?}", Reply::bulk(text))
}

/// The bytes of a part of a text, as they stand within those of the whole.
fn debug_part(text: &str) -> String {
    debug(text).trim_start_matches("Bulk([").trim_end_matches("])").into()
}

/// Numbers of workers to try; none for `redis-server`, which knows of no such thing.
fn workers_of_ours() -> &'static [&'static str] {
    if under_test().1 == Kind::Redis { &[] } else { &["1", "3"] }
}

#[test]
fn users_in_a_file_of_their_own() {
    for workers in workers_of_ours() {
        let folder = crate::harness::Folder::new();
        let path = folder.path().join("users.acl");
        let written = "# ours\nuser alice on nopass ~* &* +@all\nuser bob on >b ~b* resetchannels +get (~x +set)\n";
        fs::write(&path, written).expect("a file");
        let server = Server::with(&["--aclfile", path.to_str().expect("text"), "--workers", workers]);
        let mut c = server.client();
        c.expect("ACL USERS", "['alice', 'bob', 'default']");
        c.expect("AUTH bob b", "+OK");
        c.expect("GET b1", "nil");
        c.expect("SET x 1", "+OK");
        c.expect("SET b1 1", NOPERM_KEY);
        c.expect("AUTH default x", "+OK");
        c.expect("ACL SETUSER carol on >c +ping", "+OK");
        c.expect("ACL SAVE", "+OK");
        let text = fs::read_to_string(&path).expect("the file");
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(
            text.lines()
                .any(|line| line.starts_with("user carol on #") && line.ends_with(" resetchannels -@all +ping")),
            "{text}"
        );
        // What is wrong changes nothing.
        fs::write(&path, format!("{text}user carol on\nuser eve nonsense\n")).expect("a file");
        let refused = c.run("ACL LOAD");
        let Reply::Error(refused) = refused else { panic!("{refused:?}") };
        assert!(refused.starts_with("ERR WARNING: Duplicate user 'carol' found on line 5."), "{refused}");
        assert!(refused.contains(":6: Error in applying operation 'nonsense': Syntax error."), "{refused}");
        c.expect("ACL USERS", "['alice', 'bob', 'carol', 'default']");
        // A good file takes the place of all; clients of other users than the default one are disconnected.
        let mut others = crowd(&server);
        for other in &mut others {
            other.expect("AUTH alice x", "+OK");
        }
        fs::write(&path, "user alice on nopass +ping\n").expect("a file");
        let mut last = others.pop().expect("a client");
        last.expect("ACL LOAD", "+OK");
        last.expect_closed();
        for mut other in others {
            other.expect_closed();
        }
        c.expect("ACL USERS", "['alice', 'default']");
        fs::remove_file(&path).expect("the file goes");
        let refused = c.run("ACL LOAD");
        assert!(matches!(&refused, Reply::Error(text) if text.contains("No such file or directory")), "{refused:?}");
    }
}

#[test]
fn users_in_the_configuration() {
    if workers_of_ours().is_empty() {
        return;
    }
    let text = "user default on nopass ~* &* +@all -flushdb\nuser worker on >w ~job:* +get # no comment\n";
    let (status, output) = {
        let folder = crate::harness::Folder::new();
        let path = folder.path().join("bad.conf");
        fs::write(&path, text).expect("a file");
        run_to_end(&[path.to_str().expect("text")])
    };
    assert!(!status.success() && output.contains("Error in user declaration 'worker'"), "{output}");
    for workers in workers_of_ours() {
        let text = "# mine\nuser default on nopass ~* &* +@all -flushdb\nuser gone on\nmaxclients 50\n";
        let server = Server::configured(text, &["--workers", workers]);
        let mut c = server.client();
        c.expect("FLUSHDB", "-NOPERM this user has no permissions to run the 'flushdb' command");
        c.expect("ACL SETUSER worker on >w ~job:* '(~x +set)'", "+OK");
        c.expect("ACL DELUSER gone", ":1");
        c.expect("CONFIG REWRITE", "+OK");
        let file = fs::read_to_string(server.folder().join("server.conf")).expect("the file");
        let mut lines = file.lines();
        assert_eq!(lines.next(), Some("# mine"));
        assert_eq!(lines.next(), Some("user default on nopass ~* &* +@all -flushdb"));
        let worker = lines.next().expect("a line").to_owned();
        assert!(
            worker.starts_with("user worker on #")
                && worker.ends_with(" ~job:* resetchannels -@all (~x resetchannels -@all +set)"),
            "{file}"
        );
        let again = Server::configured(&format!("{worker}\n"), &["--workers", workers]);
        again.client().expect("AUTH worker w", "+OK");
    }
    for (arguments, what) in [
        (&["--user", "foo", "--user", "foo"][..], "Duplicate user"),
        (&["--user", "foo", "+nosuch"], "Unknown command or category"),
        (&["--user", "foo", "(+get"], "Unmatched parenthesis"),
        (&["--aclfile", "/nonexistent/users.acl"], "No such file or directory"),
        (&["--aclfile", "/dev/null", "--user", "foo"], "aclfile"),
    ] {
        let (status, output) = run_to_end(&[arguments, &["--port", "0"]].concat());
        assert!(!status.success() && output.contains(what), "{arguments:?}: {output}");
    }
}

/// Pipelines of a restricted user are answered one by one, in order.
#[test]
fn pipelines() {
    for server in servers(&[]) {
        let mut c = server.client();
        c.expect("ACL SETUSER u on nopass +get +incr ~a*", "+OK");
        let mut batch = request(&["AUTH", "u", "x"]);
        for n in 0..200 {
            batch.extend(request(&["INCR", if n % 3 == 0 { "b" } else { "a" }]));
        }
        c.send(&batch);
        assert_eq!(c.read(), Reply::Simple("OK".into()));
        let mut count = 0;
        for n in 0..200 {
            let reply = c.read();
            if n % 3 == 0 {
                assert_eq!(reply, Reply::Error(NOPERM_KEY[1..].into()));
            } else {
                count += 1;
                assert_eq!(reply, Reply::Int(count));
            }
        }
    }
}
