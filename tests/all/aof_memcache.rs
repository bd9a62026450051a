//! The flags that clients of memcached give to their values, in the append-only file: as annotations that Redis passes over.

use crate::harness::{Client, Folder, Server, eventually, program, request, skip};
use crate::memcache::Mc;
use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Command;

fn server_in(folder: &Folder, workers: &str) -> (Server, Client, Mc) {
    let dir = folder.path().to_str().expect("a name in text").to_string();
    let log = ["--dir", &dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    let path = (0..).map(|n| folder.path().join(format!("{n}.sock"))).find(|path| !path.exists()).expect("a free name");
    let socket = ["--workers", workers, "--memcached-unixsocket", path.to_str().expect("a name in text")];
    let server = Server::with(&[&log[..], &socket].concat());
    let mut c = server.client();
    eventually("the log is loaded", || !c.run("DBSIZE").is_error());
    let mut stream = None;
    eventually("the socket is there", || {
        stream = UnixStream::connect(&path).ok();
        stream.is_some()
    });
    (server, c, Mc::over(stream.expect("it was there")))
}

fn end(server: Server, mut c: Client) {
    c.send(&request(&["SHUTDOWN"]));
    c.expect_closed();
    drop(server);
}

/// What is written over either protocol, and flags and value of the key afterwards (`None`: no flags are told of it).
fn write(redis: &mut Client, mc: &mut Mc) {
    let lines = [
        ("set set 7 0 3|one", "STORED"),
        ("set most 4294967295 1000 3|one", "STORED"),
        ("set none 0 0 3|one", "STORED"),
        ("add add 1 0 1|x", "STORED"),
        ("set replace 1 0 1|x", "STORED"),
        ("replace replace 2 0 1|y", "STORED"),
        ("set parts 3 0 1|b", "STORED"),
        ("append parts 9 0 1|c", "STORED"),
        ("prepend parts 9 0 1|a", "STORED"),
        ("set number 4 0 2|10", "STORED"),
        ("incr number 5", "15"),
        ("decr number 1", "14"),
        ("set touched 5 0 1|x", "STORED"),
        ("touch touched 1000", "TOUCHED"),
        ("set gat 6 0 1|x", "STORED"),
        ("gat 1000 gat", "VALUE gat 6 1|x|END"),
        ("ms meta 2 F11 T1000|hi", "HD"),
        ("ms changed 1 F1|a", "HD"),
        ("ms changed 1 F2 MA|b", "HD"),
        ("ms cleared 1 F1|a", "HD"),
        ("ms cleared 1 F0|a", "HD"),
        ("set over 8 0 1|x", "STORED"),
        ("set appended 9 0 1|x", "STORED"),
        ("set counted 10 0 1|1", "STORED"),
        ("set floated 12 0 1|1", "STORED"),
        ("set expiring 13 0 1|x", "STORED"),
        ("set renamed 14 0 1|x", "STORED"),
        ("set copied 15 0 1|x", "STORED"),
        ("set got 16 0 1|x", "STORED"),
        ("set gone 17 0 1|x", "STORED"),
        ("delete gone", "DELETED"),
        ("set chosen 18 0 1|x", "STORED"),
    ];
    for (line, want) in lines {
        mc.ask(line, want);
    }
    mc.send(b"gets chosen\r\n");
    let cas = mc.line().split(' ').nth(4).expect("a number").to_string();
    assert_eq!((mc.line(), mc.line()), ("x".into(), "END".into()));
    mc.ask(&format!("cas chosen 19 0 1 {cas}|y"), "STORED");
    // What overwrites takes the flags away, what changes a part leaves them, as in memory.
    redis.expect("SET over y", "+OK");
    redis.expect("APPEND appended y", ":2");
    redis.expect("INCR counted", ":2");
    redis.expect("INCRBYFLOAT floated 0.5", "'1.5'");
    redis.expect("EXPIRE expiring 1000", ":1");
    redis.expect("RENAME renamed new", "+OK");
    redis.expect("COPY copied copy", ":1");
    redis.expect("GETSET got y", "'x'");
    redis.expect("MULTI", "+OK");
    redis.expect("INCRBYFLOAT floated 1", "+QUEUED");
    redis.expect("APPEND appended z", "+QUEUED");
    redis.expect("EXEC", "['2.5', :3]");
}

const KEYS: &[(&str, u32, &str)] = &[
    ("set", 7, "one"),
    ("most", u32::MAX, "one"),
    ("none", 0, "one"),
    ("add", 1, "x"),
    ("replace", 2, "y"),
    ("parts", 3, "abc"),
    ("number", 4, "14"),
    ("touched", 5, "x"),
    ("gat", 6, "x"),
    ("meta", 11, "hi"),
    ("changed", 1, "ab"),
    ("cleared", 0, "a"),
    ("over", 0, "y"),
    ("appended", 9, "xyz"),
    ("counted", 10, "2"),
    ("floated", 12, "2.5"),
    ("expiring", 13, "x"),
    ("new", 14, "x"),
    ("copied", 15, "x"),
    ("copy", 15, "x"),
    ("got", 0, "y"),
    ("chosen", 19, "y"),
];

fn check(redis: &mut Client, mc: &mut Mc, when: &str) {
    redis.expect("DBSIZE", &format!(":{}", KEYS.len()));
    for (key, flags, value) in KEYS {
        println!("{when}: {key}");
        mc.ask(&format!("get {key}"), &format!("VALUE {key} {flags} {}|{value}|END", value.len()));
    }
}

#[test]
fn flags_come_back() {
    for workers in ["1", "3"] {
        let folder = Folder::new();
        let (server, mut redis, mut mc) = server_in(&folder, workers);
        write(&mut redis, &mut mc);
        check(&mut redis, &mut mc, "written");
        // By SIGKILL: what was answered lasts.
        drop((server, redis, mc));
        let (server, mut redis, mut mc) = server_in(&folder, workers);
        check(&mut redis, &mut mc, "loaded from commands");
        redis.expect("BGREWRITEAOF", "+Background append only file rewriting started");
        eventually("it is rewritten", || redis.info("aof_rewrites") == "1");
        mc.ask("set later 77 0 1|x", "STORED");
        mc.ask("ma number D1", "HD");
        end(server, redis);
        let (server, mut redis, mut mc) = server_in(&folder, workers);
        mc.ask("get later", "VALUE later 77 1|x|END");
        mc.ask("get number", "VALUE number 4 2|15|END");
        mc.ask("decr number 1", "14");
        mc.ask("delete later", "DELETED");
        check(&mut redis, &mut mc, "rewritten");
        // The same by commands.
        redis.expect("CONFIG SET aof-use-rdb-preamble no", "+OK");
        redis.expect("BGREWRITEAOF", "+Background append only file rewriting started");
        eventually("it is rewritten", || redis.info("aof_rewrites") == "1");
        end(server, redis);
        let (server, mut redis, mut mc) = server_in(&folder, workers);
        check(&mut redis, &mut mc, "rewritten as commands");
        end(server, redis);
        if let Some(checker) = program("redis-check-aof") {
            let manifest = folder.path().join("appendonlydir/appendonly.aof.manifest");
            let told = Command::new(checker).arg(manifest).output().expect("it runs");
            assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
        }
    }
}

#[test]
fn redis_passes_over_flags() {
    let Some(binary) = program("redis-server") else {
        return skip("redis_passes_over_flags", "there is no redis-server");
    };
    let folder = Folder::new();
    let (server, mut redis, mut mc) = server_in(&folder, "2");
    write(&mut redis, &mut mc);
    end(server, redis);
    let logs: Vec<Vec<u8>> = fs::read_dir(folder.path().join("appendonlydir"))
        .expect("a folder")
        .map(|entry| fs::read(entry.expect("an entry").path()).expect("a file"))
        .collect();
    let note = b"#memcached-flags:4294967295\r\n";
    assert!(logs.iter().any(|log| log.windows(note.len()).any(|part| part == note)), "the flags are in the log");
    let dir = folder.path().to_str().expect("a name in text").to_string();
    let server = Server::other(&binary, &["--dir", &dir, "--save", "", "--appendonly", "yes"]);
    let mut redis = server.client();
    eventually("the log is loaded", || !redis.run("DBSIZE").is_error());
    redis.expect("DBSIZE", &format!(":{}", KEYS.len()));
    for (key, _, value) in KEYS {
        redis.expect(&format!("GET {key}"), &format!("'{value}'"));
    }
    assert!(redis.run("TTL touched").int() > 0);
}
