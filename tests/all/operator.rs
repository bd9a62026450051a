//! What an operator does with the server as a process: included files, the file of the process id, DEBUG, directives that do nothing here.

use std::fs;

use nix::sys::signal::Signal;

use crate::control::servers;
use crate::harness::{Folder, Kind, Reply, Server, eventually, run_to_end, script, under_test};

#[test]
fn included_files() {
    if under_test().1 == Kind::Redis {
        return;
    }
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    fs::write(path("a.conf"), "timeout 7\nmaxclients 50\n").expect("a file");
    fs::write(path("b.conf"), format!("timeout 9\ninclude '{}'\n", path("deep.txt"))).expect("a file");
    fs::write(path("deep.txt"), "hz 33\n").expect("a file");
    let text = format!("timeout 5\ninclude {} {}\nmaxclients 60\n", path("*.conf"), path("none*.conf"));
    let server = Server::configured(&text, &[]);
    let mut c = server.client();
    for (name, value) in [("timeout", "9"), ("hz", "33"), ("maxclients", "60")] {
        c.expect(&format!("CONFIG GET {name}"), &format!("['{name}', '{value}']"));
    }
    // What is in an included file is not written into this one, unless it has changed.
    c.expect("CONFIG SET hz 44", "+OK");
    c.expect("CONFIG REWRITE", "+OK");
    let file = fs::read_to_string(server.folder().join("server.conf")).expect("the file");
    assert!(file.contains(&format!("include {} {}\n", path("*.conf"), path("none*.conf"))), "{file}");
    assert!(file.contains("\nhz 44\n") && file.matches("maxclients").count() == 1, "{file}");
    for (name, text, what) in [
        ("missing", "include /nonexistent/x.conf\n".to_owned(), "can't open config file '/nonexistent/x.conf'"),
        ("loop", format!("include {}\n", path("loop")), "include each other"),
        ("bad", format!("include {}\n", path("worse")), "at line 2"),
    ] {
        fs::write(path("worse"), "\nnosuch 1\n").expect("a file");
        fs::write(path(name), text).expect("a file");
        let (status, output) = run_to_end(&[&path(name)]);
        assert!(!status.success() && output.contains(what), "{name}: {output}");
    }
}

#[test]
fn the_file_of_the_process_id() {
    let folder = Folder::new();
    let path = folder.path().join("server.pid");
    let mut server = Server::with(&["--pidfile", path.to_str().expect("text")]);
    if server.is_redis() {
        return;
    }
    let own = format!("{}\n", server.pid());
    eventually("the file is written", || fs::read_to_string(&path).is_ok_and(|text| text == own));
    server.client().send(b"SHUTDOWN NOSAVE\r\n");
    server.wait_exit();
    assert!(!path.exists());
}

/// Commands under other names, or under none.
#[test]
fn renamed_commands() {
    let renames = [
        ["--rename-command", "flushdb", "Badger"],
        ["--rename-command", "GET", "fetch"],
        ["--rename-command", "fetch", "Hole"],
        ["--rename-command", "set", "get"],
        ["--rename-command", "FLUSHALL", ""],
    ];
    for server in servers(&renames.concat()) {
        let mut c = server.client();
        script(
            &server,
            &mut c,
            r"
            GET k v                     => +OK
            hole k                      => 'v'
            SET k v                     => -ERR unknown command 'SET', with args beginning with: 'k' 'v'
            FETCH k                     => -ERR unknown command 'FETCH'
            FLUSHALL                    => -ERR unknown command 'FLUSHALL'
            flushdb                     => -ERR unknown command 'flushdb'
            MULTI                       => +OK
            HOLE k                      => +QUEUED
            EXEC                        => ['v']
            HOLE                        => -ERR wrong number of arguments for 'get' command
            badger                      => +OK
            HOLE k                      => nil
            ACL SETUSER bob +flushdb    => +OK
            ACL SETUSER bob +badger     => -ERR Error in ACL SETUSER modifier '+badger': Unknown command or category name in ACL
            CONFIG SET rename-command x => -ERR Unknown option or number of arguments for CONFIG SET - 'rename-command'
            ",
        );
        assert!(c.run("INFO commandstats").text().contains("cmdstat_flushdb:calls=1,"));
    }
    if under_test().1 == Kind::Redis {
        return;
    }
    for (renames, why) in [
        (["nosuch", "x"].as_slice(), "No such command in rename-command"),
        (&["get", "set"], "Target command name already exists"),
        (&["get"], "wrong number of arguments"),
    ] {
        let (status, output) = run_to_end(&[&["--port", "0", "--rename-command"], renames].concat());
        assert!(!status.success() && output.contains(why), "{renames:?}: {output}");
    }
    // A file keeps its lines; what came from elsewhere is added.
    let text = "# Not for everybody\nrename-command flushall \"\"\n";
    let server = Server::configured(text, &["--rename-command", "flushdb", "wipe it"]);
    let mut c = server.client();
    assert_eq!(c.call(&["WIPE IT"]), Reply::Simple("OK".into()));
    for _ in 0..2 {
        c.expect("CONFIG REWRITE", "+OK");
        let file = fs::read_to_string(server.folder().join("server.conf")).expect("the file");
        assert!(file.starts_with(text) && file.matches("rename-command flushdb \"wipe it\"\n").count() == 1, "{file}");
    }
}

/// The log of a server whose commands have other names has their own: it is read by a server that renames others, or none.
#[test]
fn renamed_commands_in_the_log() {
    let folder = Folder::new();
    let start = |workers: &str| {
        let path = folder.path().to_str().expect("text");
        let mut line = vec!["--dir", path, "--appendonly", "yes", "--workers", workers];
        for pair in
            [["set", "put"], ["del", ""], ["multi", "begin"], ["exec", "end"], ["select", "go"], ["pexpireat", ""]]
        {
            line.extend(["--rename-command", pair[0], pair[1]]);
        }
        Server::with(&line)
    };
    for workers in ["1", "2", "1"] {
        let mut server = start(workers);
        if server.is_redis() {
            return;
        }
        let mut c = server.client();
        eventually("the log is read", || c.info("loading") == "0");
        let before = c.run("DBSIZE").int();
        for line in [
            "PUT gone v PX 1",
            "BEGIN",
            "PUT kept v",
            "GETDEL kept",
            "PUT other v EX 1000",
            "END",
            "GO 1",
            "PUT there v",
            "EXPIRE there 1000",
        ] {
            assert!(!c.run(line).is_error(), "{line}");
        }
        assert!(before == 0 || before == 1, "{before}");
        c.run("GO 0");
        eventually("it has expired", || c.run("EXISTS gone") == Reply::Int(0));
        assert_eq!((c.run("DBSIZE").int(), c.run("EXISTS other").int()), (1, 1));
        c.send(b"SHUTDOWN\r\n");
        server.wait_exit();
    }
    let path = folder.path().to_str().expect("text");
    let server = Server::with(&["--dir", path, "--appendonly", "yes", "--workers", "2"]);
    let mut c = server.client();
    eventually("the log is read", || c.info("loading") == "0");
    c.expect("GET other", "'v'");
    c.expect("DBSIZE", ":1");
    c.expect("SELECT 1", "+OK");
    c.expect("GET there", "'v'");
}

/// Whom the kernel kills first.
#[test]
fn oom_score() {
    for server in servers(&["--oom-score-adj", "absolute", "--oom-score-adj-values", "321", "400", "500"]) {
        let score = || {
            let text = fs::read_to_string(format!("/proc/{}/oom_score_adj", server.pid())).expect("the score");
            text.trim().parse::<i32>().expect("a number")
        };
        // Redis adjusts it after it listens.
        eventually("the score of the command line", || score() == 321);
        let mut c = server.client();
        let own: i32 = fs::read_to_string("/proc/self/oom_score_adj").expect("ours").trim().parse().expect("a number");
        for (line, expected) in [
            ("CONFIG SET oom-score-adj-values '330 0 0'", 330),
            ("CONFIG SET oom-score-adj relative oom-score-adj-values '100 0 0'", own + 100),
            ("CONFIG SET oom-score-adj absolute", 100),
            ("CONFIG SET oom-score-adj-values '2000 0 0'", 1000),
            ("CONFIG SET oom-score-adj no", own),
            ("CONFIG SET oom-score-adj-values '7 0 0'", own),
        ] {
            c.expect(line, "+OK");
            assert_eq!(score(), expected, "{line}");
        }
        c.expect("CONFIG SET oom-score-adj maybe", "-ERR CONFIG SET failed (possibly related to argument 'oom-score-adj') - argument(s) must be one of the following: no, yes, relative, absolute");
    }
}

/// What a signal does with the data.
#[test]
fn shutdown_on_signals() {
    // Signal, what is set, whether there are save points, and whether a snapshot is there then.
    for (signal, value, points, saved) in [
        (Signal::SIGTERM, "default", true, true),
        (Signal::SIGTERM, "default", false, false),
        (Signal::SIGTERM, "nosave", true, false),
        (Signal::SIGTERM, "save", false, true),
        (Signal::SIGINT, "save now force", false, true),
        (Signal::SIGINT, "nosave now", true, false),
    ] {
        let (this, other) = if signal == Signal::SIGINT { ("sigint", "sigterm") } else { ("sigterm", "sigint") };
        for mut server in servers(&["--save", if points { "3600 1" } else { "" }]) {
            let mut c = server.client();
            c.expect(&format!("CONFIG SET shutdown-on-{this} '{value}'"), "+OK");
            // The other signal's is another one.
            c.expect(&format!("CONFIG SET shutdown-on-{other} '{}'", if saved { "nosave" } else { "save" }), "+OK");
            c.expect(&format!("CONFIG GET shutdown-on-{this}"), &format!("['shutdown-on-{this}', '{value}']"));
            c.expect("SET k v", "+OK");
            server.signal(signal);
            assert!(server.wait_exit().success(), "{value}");
            assert_eq!(server.folder().join("dump.rdb").exists(), saved, "{signal} {value} {points}");
        }
    }
}

#[test]
fn directives_without_effect_are_said_once() {
    let server = Server::with(&[
        "--tls-port",
        "0",
        "--repl-timeout",
        "17",
        "--replica-read-only",
        "no",
        "--activerehashing",
        "no",
    ]);
    let mut c = server.client();
    c.expect("CONFIG GET slave-read-only", "['slave-read-only', 'no']");
    c.expect("CONFIG SET repl-backlog-size 2mb", "+OK");
    c.expect("CONFIG GET repl-backlog-size", "['repl-backlog-size', '2097152']");
    if !server.is_redis() {
        let output = server.output();
        let warned: Vec<&str> = output.lines().filter(|line| line.contains("without effect")).collect();
        assert_eq!(warned.len(), 2, "{output}");
        assert!(
            warned[0].ends_with("replica-read-only, repl-timeout")
                || warned[0].ends_with("repl-timeout, replica-read-only"),
            "{output}"
        );
        assert!(warned[1].ends_with("activerehashing"), "{output}");
    }
}

#[test]
fn debug() {
    for server in servers(&[]) {
        let mut c = server.client();
        c.expect("SET k value", "+OK");
        c.expect("HSET small f v", ":1");
        script(
            &server,
            &mut c,
            r"
            DEBUG NOSUCH                            => -ERR unknown subcommand or wrong number of arguments for 'NOSUCH'. Try DEBUG HELP.
            DEBUG OBJECT nosuch                     => -ERR no such key
            DEBUG LISTPACK nosuch                   => -ERR no such key
            DEBUG LISTPACK k                        => -ERR Not a listpack encoded object.
            DEBUG LISTPACK small                    => +Listpack structure printed on stdout
            DEBUG QUICKLIST-PACKED-THRESHOLD 200b   => +OK
            DEBUG QUICKLIST-PACKED-THRESHOLD x      => -ERR argument must be a memory value bigger than 1 and smaller than 4gb
            DEBUG REPLYBUFFER PEAK-RESET-TIME 100   => +OK
            DEBUG REPLYBUFFER RESIZING 0            => +OK
            DEBUG ERROR 'SOMETHING went wrong'      => -SOMETHING went wrong
            DEBUG PROTOCOL integer                  => :12345
            DEBUG PROTOCOL array                    => [:0, :1, :2]
            DEBUG PROTOCOL double                   => '3.141'
            DEBUG PROTOCOL nosuch                   => -ERR Wrong protocol type name.
            ",
        );
        let told = c.run("DEBUG OBJECT k");
        let Reply::Simple(told) = told else { panic!("{told:?}") };
        assert!(
            told.starts_with("Value at:0x")
                && told.contains(" encoding:embstr ")
                && told.contains(" lru_seconds_idle:0"),
            "{told}"
        );
        if !server.is_redis() {
            c.expect("DEBUG STRINGMATCH-LEN a*c abbc", ":1");
            c.expect("DEBUG STRINGMATCH-LEN a*d abbc", ":0");
            assert!(c.run("DEBUG JMAP").text().contains("slab_used:"));
        }
        // Expired keys stay until they are asked for.
        c.expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK");
        (0..50).for_each(|n| c.expect(&format!("SET gone{n} v PX 1"), "+OK"));
        std::thread::sleep(std::time::Duration::from_millis(300));
        c.expect("DBSIZE", ":52");
        c.expect("GET gone1", "nil");
        c.expect("DBSIZE", ":51");
        c.expect("DEBUG SET-ACTIVE-EXPIRE 1", "+OK");
        crate::harness::eventually("the others go too", || c.run("DBSIZE") == Reply::Int(2));
    }
    // Nobody may, unless the operator says so.
    if under_test().1 == Kind::Dolmen {
        let server = Server::with(&["--enable-debug-command", "no"]);
        server.client().expect("DEBUG SLEEP 0", "-ERR DEBUG command not allowed.");
        server.client().expect(
            "CONFIG SET dir /",
            "-ERR CONFIG SET failed (possibly related to argument 'dir') - can't set protected config",
        );
        let server = Server::with(&["--enable-debug-command", "local", "--enable-protected-configs", "local"]);
        server.client().expect("DEBUG SLEEP 0", "+OK");
        server.client().expect(
            "CONFIG SET dir /nonexistent",
            "-ERR CONFIG SET failed (possibly related to argument 'dir') - No such file or directory",
        );
        server.client().expect("CONFIG SET dir /", "+OK");
        server.client().expect("CONFIG GET dir", "['dir', '/']");
    }
}
