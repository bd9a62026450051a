//! Snapshots: what is saved is loaded, also by `redis-server` and from it; what clients see meanwhile, and when a disk fails.

use crate::harness::{Client, Folder, Reply, Server, eventually, program, skip};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const DATABASES: usize = 3;

/// A server whose files are in a folder.
fn server_in(folder: &Folder, arguments: &[&str]) -> Server {
    let dir = folder.path().to_str().expect("a name in text").to_string();
    Server::with(&[&["--dir", &dir, "--databases", "16"], arguments].concat())
}

/// A client of a server that has loaded its file.
fn loaded(server: &Server) -> Client {
    let mut c = server.client();
    eventually("the file is loaded", || !c.run("DBSIZE").is_error());
    c
}

fn ok(client: &mut Client, line: &str) {
    client.expect(line, "+OK");
}

/// The text of an error; empty if it is none.
fn error(reply: &Reply) -> &str {
    if let Reply::Error(text) = reply { text } else { "" }
}

fn sorted(reply: &Reply, of: usize) -> Vec<String> {
    let mut items: Vec<String> = reply.items().chunks(of).map(|chunk| format!("{chunk:?}")).collect();
    items.sort();
    items
}

/// All that a server has: names with values, in one form for all servers.
pub fn state(client: &mut Client) -> BTreeMap<(usize, Vec<u8>), String> {
    let mut all = BTreeMap::new();
    for database in 0..DATABASES {
        ok(client, &format!("SELECT {database}"));
        let keys = client.run("KEYS *");
        for key in keys.items() {
            let key = key.bytes();
            let mut call = |words: &[&[u8]]| client.call(words);
            let value = match &*call(&[b"TYPE", key]).text() {
                "string" => format!("{:?}", call(&[b"GET", key])),
                "list" => format!("{:?}", call(&[b"LRANGE", key, b"0", b"-1"])),
                "set" => format!("{:?}", sorted(&call(&[b"SMEMBERS", key]), 1)),
                "hash" => format!("{:?}", sorted(&call(&[b"HGETALL", key]), 2)),
                "zset" => {
                    // Redis 7.0 writes scores in other digits.
                    let pairs = call(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]);
                    let score = |reply: &Reply| reply.text().parse::<f64>().expect("a score") + 0.0;
                    let pairs: Vec<_> =
                        pairs.items().chunks(2).map(|pair| (pair[0].bytes().to_vec(), score(&pair[1]))).collect();
                    format!("{pairs:?}")
                }
                other => panic!("{other}"),
            };
            let deadline = call(&[b"PEXPIRETIME", key]);
            all.insert((database, key.to_vec()), format!("{value} until {deadline:?}"));
        }
    }
    ok(client, "SELECT 0");
    all
}

pub fn assert_same(got: &BTreeMap<(usize, Vec<u8>), String>, want: &BTreeMap<(usize, Vec<u8>), String>, what: &str) {
    let cut = |text: Option<&String>| text.map(|text| text.chars().take(300).collect::<String>());
    for key in got.keys().chain(want.keys()) {
        let (got, want) = (got.get(key), want.get(key));
        assert!(
            got == want,
            "{what}: {:?}\n  is   {:?}\n  not  {:?}",
            String::from_utf8_lossy(&key.1),
            cut(got),
            cut(want)
        );
    }
}

/// Puts something of everything into a server.
pub fn fill(client: &mut Client) {
    for database in 0..DATABASES {
        ok(client, &format!("SELECT {database}"));
        for (i, count) in [1usize, 7, 100, 600, 3000].into_iter().enumerate() {
            let numbers: Vec<String> = (0..count).map(|n| (n * n * 7 + database).to_string()).collect();
            let texts: Vec<String> =
                (0..count).map(|n| format!("{n}-{}", "text ".repeat(n % 9)).trim().to_string()).collect();
            for (what, words) in [("numbers", &numbers), ("texts", &texts)] {
                let mut of = |command: &str, kind: &str, each: &dyn Fn(usize, &String) -> Vec<String>| {
                    let mut call = vec![command.to_string(), format!("{kind}:{what}:{i}")];
                    call.extend(words.iter().enumerate().flat_map(|(n, word)| each(n, word)));
                    let reply = client.call(&call);
                    assert!(!reply.is_error(), "{reply}");
                };
                of("RPUSH", "list", &|_, word| vec![word.clone()]);
                of("SADD", "set", &|_, word| vec![word.clone()]);
                of("HSET", "hash", &|n, word| vec![word.clone(), format!("value {n}")]);
                of("ZADD", "zset", &|n, word| vec![format!("{}", n as f64 / 3.0 - 5.0), word.clone()]);
            }
        }
        for n in 0..2000u32 {
            client.send(&crate::harness::request(&["SET", &format!("key:{n}"), &format!("{}", n.wrapping_mul(n))]));
            client.send(&crate::harness::request(&[
                "SET",
                &format!("text:{n}"),
                &"some text ".repeat(n as usize % 12),
            ]));
        }
        for _ in 0..4000 {
            assert_eq!(client.read(), Reply::Simple("OK".into()));
        }
        for (name, bytes) in [
            ("blob", (0..700_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect::<Vec<u8>>()),
            ("zeros", vec![0; 5_000_000]),
            ("middle", vec![b'm'; 30_000]),
            ("empty", Vec::new()),
            ("bytes", (0..=255).collect()),
        ] {
            assert_eq!(client.call(&[&b"SET"[..], name.as_bytes(), &bytes]), Reply::Simple("OK".into()));
        }
        assert_eq!(client.call(&[&b"SET"[..], &[b'n'; 20_000], b"a long name"]), Reply::Simple("OK".into()));
        for (key, deadline) in [
            ("key:1", 4_000_000_000_123i64),
            ("hash:texts:3", 5_000_000_000_000),
            ("zset:numbers:4", 281_474_976_710_000),
        ] {
            client.expect(&format!("PEXPIREAT {key} {deadline}"), ":1");
        }
        for score in ["inf", "-inf", "0", "-0", "1e300", "0.1"] {
            client.expect(&format!("ZADD scores {score} s{score}"), ":1");
        }
    }
    ok(client, "SELECT 0");
}

#[test]
fn saved_and_loaded() {
    let folder = Folder::new();
    let mut want = BTreeMap::new();
    for (workers, packs) in [("1", "yes"), ("3", "no")] {
        let server = server_in(&folder, &["--workers", workers, "--rdbcompression", packs]);
        let mut c = loaded(&server);
        if want.is_empty() {
            fill(&mut c);
            // Fields with deadlines, which Redis 7.0 does not know.
            ok(&mut c, "SELECT 1");
            for hash in ["hash:texts:0", "hash:texts:1", "hash:texts:4"] {
                c.expect(&format!("HPEXPIREAT {hash} 4000000000000 FIELDS 1 0-"), "[:1]");
            }
            ok(&mut c, "SELECT 0");
            want = state(&mut c);
        }
        assert_same(&state(&mut c), &want, "what was loaded is what was saved");
        ok(&mut c, "SELECT 1");
        for hash in ["hash:texts:0", "hash:texts:1", "hash:texts:4"] {
            c.expect(&format!("HPEXPIRETIME {hash} FIELDS 1 0-"), "[:4000000000000]");
        }
        ok(&mut c, "SELECT 0");
        let before = c.run("LASTSAVE").int();
        ok(&mut c, "SAVE");
        assert!(c.run("LASTSAVE").int() >= before);
        assert_eq!(c.info("rdb_changes_since_last_save"), "0");
        assert_eq!((c.info("rdb_saves"), c.info("rdb_last_bgsave_status")), ("1".into(), "ok".into()));
        // And within one server.
        ok(&mut c, "DEBUG RELOAD");
        assert_same(&state(&mut c), &want, "what was reloaded");
        ok(&mut c, "DEBUG RELOAD NOSAVE NOFLUSH MERGE");
        assert_same(&state(&mut c), &want, "what was reloaded over itself");
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1, "nothing but the file is left");
    }
}

#[test]
fn to_redis_and_back() {
    let (Some(binary), Some(check)) = (program("redis-server"), program("redis-check-rdb")) else {
        return skip("to_redis_and_back", "there is no redis-server");
    };
    let folder = Folder::new();
    let file = folder.path().join("dump.rdb");
    let mut want;
    {
        let server = server_in(&folder, &["--workers", "2"]);
        let mut c = server.client();
        fill(&mut c);
        want = state(&mut c);
        ok(&mut c, "SAVE");
    }
    for (round, arguments) in [
        vec![],
        vec!["--rdbcompression", "no", "--rdbchecksum", "no"],
        vec![
            "--hash-max-listpack-entries",
            "0",
            "--zset-max-listpack-entries",
            "0",
            "--set-max-intset-entries",
            "0",
            "--list-max-listpack-size",
            "3",
            "--list-compress-depth",
            "2",
        ],
        vec![
            "--hash-max-listpack-entries",
            "9999",
            "--zset-max-listpack-entries",
            "9999",
            "--hash-max-listpack-value",
            "999",
            "--zset-max-listpack-value",
            "999",
            "--set-max-intset-entries",
            "9999",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        let checked = Command::new(&check).arg(&file).output().expect("redis-check-rdb runs");
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success() && said.contains("RDB looks OK"), "{said}");
        {
            let dir = folder.path().to_str().expect("text");
            let redis = Server::other(&binary, &[&["--dir", dir], &arguments[..]].concat());
            let mut c = loaded(&redis);
            assert_same(&state(&mut c), &want, &format!("redis-server reads what we write, round {round}"));
            // Something of its own, in encodings that the settings ask for.
            ok(&mut c, "FLUSHALL");
            fill(&mut c);
            ok(&mut c, &format!("SET round {round}"));
            want = state(&mut c);
            ok(&mut c, "SAVE");
        }
        let server = server_in(&folder, &["--workers", if round % 2 == 0 { "1" } else { "2" }]);
        let mut c = loaded(&server);
        assert_same(&state(&mut c), &want, &format!("we read what redis-server writes, round {round}"));
        ok(&mut c, "SAVE");
    }
}

/// The file is a pipe, so that the test decides how far the server is.
#[test]
fn while_it_loads() {
    let folder = Folder::new();
    let path = folder.path().join("dump.rdb");
    {
        let server = server_in(&folder, &[]);
        let mut c = server.client();
        for n in 0..3000 {
            ok(&mut c, &format!("SET key:{n} {n}"));
        }
        ok(&mut c, "SAVE");
    }
    let bytes = fs::read(&path).expect("a file");
    for workers in ["1", "2"] {
        fs::remove_file(&path).expect("removed");
        mkfifo(&path, Mode::from_bits_truncate(0o600)).expect("a pipe");
        let server = server_in(&folder, &["--workers", workers, "--save", "3600", "1"]);
        // Whoever opens a pipe waits for the other side.
        let mut file = OpenOptions::new().write(true).open(&path).expect("the server opens it, too");
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(first).expect("the server reads");
        let mut c = server.client();
        c.expect("PING", "+PONG");
        let refusal = "-LOADING Redis is loading the dataset in memory";
        for line in ["GET key:1", "SET key:1 x", "DBSIZE", "FLUSHALL", "KEYS *", "SAVE", "BGSAVE", "DEL a b c"] {
            c.expect(line, refusal);
        }
        assert_eq!((c.info("loading"), c.info("loading_total_bytes")), ("1".into(), "0".into()));
        ok(&mut c, "CONFIG SET timeout 0");
        ok(&mut c, "MULTI");
        c.expect("SET a b", refusal);
        assert!(error(&c.run("EXEC")).starts_with("EXECABORT"));
        eventually("half of it is read", || c.info_number("loading_loaded_bytes") > 10_000);
        assert!(c.info_number("loading_rdb_used_mem") > 100_000 && c.info_number("loading_start_time") > 1_000_000_000);
        file.write_all(rest).expect("the server reads");
        drop(file);
        eventually("it is loaded", || c.info("loading") == "0");
        c.expect("DBSIZE", ":3000");
        c.expect("GET key:77", "'77'");
        assert_eq!(c.info("rdb_last_load_keys_loaded"), "3000");
        assert!(server.output().contains("DB loaded from disk"));
        ok(&mut c, "CONFIG SET save ''");
        fs::remove_file(&path).expect("removed");
        fs::write(&path, &bytes).expect("written");
    }
}

#[test]
fn files_that_cannot_be_loaded() {
    let folder = Folder::new();
    let path = folder.path().join("dump.rdb");
    {
        let server = server_in(&folder, &[]);
        let mut c = server.client();
        for n in 0..300 {
            ok(&mut c, &format!("SET key:{n} {n}"));
        }
        ok(&mut c, "SAVE");
    }
    let good = fs::read(&path).expect("a file");
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 0x55;
    let body = &good[..good.len() - 9];
    let twice = [body, b"\x00\x01k\x01v\x00\x01k\x01w\xff\0\0\0\0\0\0\0\0"].concat();
    let stream = [body, b"\x0f\x01s\x00\xff\0\0\0\0\0\0\0\0"].concat();
    let database = [body, b"\xfe\x40\x64\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0"].concat();
    for (what, bytes) in [
        ("not an RDB file", b"not a snapshot at all".to_vec()),
        ("not an RDB file", Vec::new()),
        ("ends in the middle", good[..good.len() - 4].to_vec()),
        ("", damaged),
        ("has the key \"k\" twice", twice),
        ("is a stream", stream),
        ("database 100", database),
    ] {
        fs::write(&path, &bytes).expect("written");
        for workers in ["1", "2"] {
            let mut command = Command::new(crate::harness::under_test().0);
            let port = crate::harness::free_port().to_string();
            command.args(["--port", &port, "--bind", "127.0.0.1", "--workers", workers, "--dir"]).arg(folder.path());
            let ended = command.output().expect("it runs and ends by itself");
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(!ended.status.success() && said.contains(what) && said.contains("dump.rdb"), "{what}: {said}");
            // Whatever was wrong, it is as it was.
            assert!(fs::read(&path).expect("a file") == bytes);
        }
    }
}

/// Makes a pipe of the file that a server will write its snapshot to.
fn stall(folder: &Folder, server: &Server) -> PathBuf {
    let path = folder.path().join(format!("temp-{}.rdb", server.pid()));
    mkfifo(&path, Mode::from_bits_truncate(0o600)).expect("a pipe");
    path
}

/// Takes what is written into a pipe, to its end.
fn drain(path: &Path) -> std::thread::JoinHandle<usize> {
    let path = path.to_owned();
    std::thread::spawn(move || {
        let mut file = File::open(path).expect("the writer opens it, too");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("read")
    })
}

#[test]
fn while_it_saves() {
    let folder = Folder::new();
    let server = server_in(&folder, &["--workers", "2"]);
    let mut c = server.client();
    for n in 0..500 {
        ok(&mut c, &format!("SET key:{n} {n}"));
    }
    let pipe = stall(&folder, &server);
    c.expect("BGSAVE", "+Background saving started");
    c.expect("BGSAVE", "-ERR Background save already in progress");
    c.expect("SAVE", "-ERR Background save already in progress");
    c.expect("BGSAVE SCHEDULE", "-ERR Background save already in progress");
    c.expect("BGSAVE x", "-ERR syntax error");
    c.expect("BGSAVE SCHEDULE x", "-ERR syntax error");
    assert_eq!(c.info("rdb_bgsave_in_progress"), "1");
    // Others are served, and write.
    ok(&mut c, "SET key:1 other");
    c.expect("GET key:1", "'other'");
    c.expect("BGSAVE CANCEL", "+Background saving cancelled");
    let reader = drain(&pipe);
    eventually("it was given up", || c.info("rdb_bgsave_in_progress") == "0");
    reader.join().expect("read");
    c.expect("BGSAVE CANCEL", "-ERR Background saving is currently not in progress or scheduled");
    // To give up is no failure.
    assert_eq!((c.info("rdb_last_bgsave_status"), c.info("rdb_saves")), ("ok".into(), "0".into()));
    assert!(!pipe.exists() && !folder.path().join("dump.rdb").exists());
    ok(&mut c, "MULTI");
    c.expect("SAVE", "-ERR Command not allowed inside a transaction");
    c.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    ok(&mut c, "MULTI");
    c.expect("INCR counter", "+QUEUED");
    c.expect("BGSAVE", "+QUEUED");
    c.expect("INCR counter", "+QUEUED");
    c.expect("EXEC", "[:1, +Background saving started, :2]");
    eventually("it is saved", || c.info("rdb_saves") == "1");
    drop(server);
    let server = server_in(&folder, &[]);
    loaded(&server).expect("GET counter", "'1'");
}

#[test]
fn flushes_while_it_saves() {
    let folder = Folder::new();
    let arguments = ["--workers", "2", "--save", "3600", "1000000", "--stop-writes-on-bgsave-error", "no"];
    let server = server_in(&folder, &arguments);
    let mut c = server.client();
    let fill = |c: &mut Client| {
        for database in [0, 1] {
            ok(c, &format!("SELECT {database}"));
            for n in 0..2000 {
                c.send(&crate::harness::request(&["RPUSH", &format!("key:{n}"), &format!("{n}:{database}")]));
            }
            (0..2000).for_each(|_| drop(c.read()));
        }
        ok(c, "SELECT 0");
    };
    fill(&mut c);
    let want = state(&mut c);
    // What a database was called at the cut, and what was in it then, is in the file.
    let pipe = stall(&folder, &server);
    c.expect("BGSAVE", "+Background saving started");
    ok(&mut c, "SWAPDB 0 1");
    ok(&mut c, "FLUSHDB");
    ok(&mut c, "SET later x");
    let copy = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut bytes = Vec::new();
            File::open(pipe).expect("a pipe").read_to_end(&mut bytes).expect("read");
            bytes
        }
    });
    eventually("it is written", || c.info("rdb_bgsave_in_progress") == "0");
    let bytes = copy.join().expect("read");
    fs::write(folder.path().join("dump.rdb"), &bytes).expect("written");
    {
        let other = server_in(&folder, &[]);
        let mut c = loaded(&other);
        assert_same(&state(&mut c), &want, "at the cut");
    }
    // FLUSHALL gives the save up, and has a new one made, as of old data nothing shall come back.
    fill(&mut c);
    let _ = fs::remove_file(&pipe);
    let pipe = stall(&folder, &server);
    let (saves, stop) = (c.info_number("rdb_saves"), c.info("rdb_bgsave_in_progress"));
    assert_eq!(stop, "0");
    c.expect("BGSAVE", "+Background saving started");
    ok(&mut c, "FLUSHALL");
    let reader = drain(&pipe);
    eventually("an empty one is saved", || c.info_number("rdb_saves") > saves);
    reader.join().expect("read");
    drop(server);
    let server = server_in(&folder, &[]);
    loaded(&server).expect("DBSIZE", ":0");
}

/// Commands that write wait when what is kept for a snapshot becomes too much; others do not.
#[test]
fn memory_of_a_save_is_bounded() {
    let folder = Folder::new();
    for workers in ["1", "2"] {
        let server = server_in(&folder, &["--workers", workers]);
        let mut c = server.client();
        let text = "x".repeat(1000);
        let write = |c: &mut Client, round: &str| {
            for n in 0..20_000 {
                c.send(&crate::harness::request(&["SET", &format!("key:{n}"), &format!("{round}{text}")]));
                if n % 100 == 99 {
                    (0..100).for_each(|_| assert_eq!(c.read(), Reply::Simple("OK".into())));
                }
            }
        };
        write(&mut c, "first");
        let pipe = stall(&folder, &server);
        let mut other = server.client();
        other.expect("BGSAVE", "+Background saving started");
        let writer = std::thread::spawn({
            let mut c = server.client();
            move || {
                for n in 0..20_000 {
                    c.send(&crate::harness::request(&["SET", &format!("key:{n}"), "second"]));
                    assert_eq!(c.read(), Reply::Simple("OK".into()));
                }
            }
        });
        eventually("the writer waits", || other.info_number("blocked_clients") == 1);
        // 3% of some 22 MB, but a MiB at least; what the writer's last turn was still allowed comes on top.
        let kept = other.info_number("current_cow_size");
        assert!((500_000..3_000_000).contains(&kept), "{kept}");
        // Those who read go on.
        other.expect("EXISTS key:1", ":1");
        c.expect("STRLEN key:19999", ":1005");
        let reader = drain(&pipe);
        writer.join().expect("it goes on when the snapshot does");
        reader.join().expect("read");
        eventually("it has ended", || other.info("rdb_bgsave_in_progress") == "0");
        assert_eq!(other.info_number("current_cow_size"), 0);
        let most = other.info_number("rdb_last_cow_size");
        assert!(most < 4_000_000, "{most}");
        let _ = fs::remove_file(pipe);
    }
}

#[test]
fn disks_that_fail() {
    let folder = Folder::new();
    let server = server_in(&folder, &["--workers", "2", "--save", "3600", "1000000"]);
    let path = folder.path().join("dump.rdb");
    let mut c = server.client();
    for n in 0..20_000 {
        c.send(&crate::harness::request(&["SET", &format!("key:{n}"), &format!("value {n}")]));
    }
    (0..20_000).for_each(|_| drop(c.read()));
    ok(&mut c, "SAVE");
    let good = fs::read(&path).expect("a file");
    c.expect("DEL key:1", ":1");
    // A full disk.
    let draft = folder.path().join(format!("temp-{}.rdb", server.pid()));
    symlink("/dev/full", &draft).expect("a link");
    assert!(c.run("SAVE").is_error());
    assert!(fs::read(&path).expect("a file") == good, "the old file stays");
    assert!(!draft.exists());
    assert_eq!(c.info("rdb_last_bgsave_status"), "err");
    assert!(server.output().contains("No space left on device"));
    let misconf = |reply: &Reply| error(reply).starts_with("MISCONF ");
    for line in ["SET key:2 x", "DEL key:2", "PING", "LPUSH a b"] {
        assert!(misconf(&c.run(line)), "{line}");
    }
    c.expect("GET key:2", "'value 2'");
    ok(&mut c, "MULTI");
    assert!(misconf(&c.run("SET key:2 x")));
    assert!(error(&c.run("EXEC")).starts_with("EXECABORT"));
    // Nor is the server ended over it, unless it has to.
    c.expect("DEBUG SLEEP 0", "+OK");
    symlink("/dev/full", &draft).expect("a link");
    c.expect("SHUTDOWN", "-ERR Errors trying to SHUTDOWN. Check logs.");
    c.expect("GET key:2", "'value 2'");
    ok(&mut c, "CONFIG SET stop-writes-on-bgsave-error no");
    ok(&mut c, "SET key:2 x");
    ok(&mut c, "CONFIG SET stop-writes-on-bgsave-error yes");
    eventually("the setting is seen", || misconf(&c.run("SET key:2 y")));
    // A folder in its place.
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("a folder");
    c.expect("BGSAVE", "+Background saving started");
    eventually("it has failed", || c.info("rdb_bgsave_in_progress") == "0");
    assert_eq!(c.info("rdb_last_bgsave_status"), "err");
    fs::remove_dir(&path).expect("removed");
    // All is well again.
    ok(&mut c, "SAVE");
    assert_eq!(c.info("rdb_last_bgsave_status"), "ok");
    ok(&mut c, "SET key:2 z");
    c.expect("PING", "+PONG");
    symlink("/dev/full", &draft).expect("a link");
    let mut server = server;
    c.send(&crate::harness::request(&["SHUTDOWN", "FORCE"]));
    assert!(server.wait_exit().success());
}

#[test]
fn saved_by_itself_and_at_the_end() {
    let folder = Folder::new();
    let path = folder.path().join("dump.rdb");
    let number = |c: &mut Client| c.run("GET n").text();
    {
        // Save points.
        let mut server = server_in(&folder, &["--save", "1", "2"]);
        let mut c = loaded(&server);
        ok(&mut c, "SET n 1");
        ok(&mut c, "SET m 1");
        eventually("it has saved by itself", || path.exists());
        c.expect("CONFIG GET save", "['save', '1 2']");
        ok(&mut c, "SET n 2");
        server.signal(Signal::SIGTERM);
        assert!(server.wait_exit().success());
    }
    {
        let mut server = server_in(&folder, &["--workers", "2", "--save", "3600", "1"]);
        let mut c = loaded(&server);
        assert_eq!(number(&mut c), "2", "SIGTERM has saved");
        ok(&mut c, "SET n 3");
        c.expect("SHUTDOWN ABORT", "-ERR No shutdown in progress.");
        c.send(&crate::harness::request(&["SHUTDOWN"]));
        c.expect_closed();
        assert!(server.wait_exit().success());
    }
    {
        let mut server = server_in(&folder, &["--save", "3600", "1"]);
        let mut c = loaded(&server);
        assert_eq!(number(&mut c), "3", "SHUTDOWN has saved");
        ok(&mut c, "SET n 4");
        c.send(&crate::harness::request(&["SHUTDOWN", "NOSAVE"]));
        assert!(server.wait_exit().success());
    }
    {
        let mut server = server_in(&folder, &[]);
        let mut c = loaded(&server);
        assert_eq!(number(&mut c), "3", "NOSAVE has not");
        ok(&mut c, "SET n 5");
        server.signal(Signal::SIGTERM);
        assert!(server.wait_exit().success());
    }
    {
        let mut server = server_in(&folder, &["--workers", "2"]);
        let mut c = loaded(&server);
        assert_eq!(number(&mut c), "3", "nor does it without save points");
        ok(&mut c, "SET n 6");
        c.send(&crate::harness::request(&["SHUTDOWN", "SAVE"]));
        assert!(server.wait_exit().success());
    }
    // A last save that hangs can be called off. (It may fail by itself a moment before: a pipe is no file.)
    let server = server_in(&folder, &["--save", "3600", "1", "--stop-writes-on-bgsave-error", "no"]);
    let mut c = loaded(&server);
    assert_eq!(number(&mut c), "6");
    let pipe = stall(&folder, &server);
    c.send(&crate::harness::request(&["SHUTDOWN"]));
    let mut other = server.client();
    eventually("it is under way", || other.run("SHUTDOWN ABORT") == Reply::Simple("OK".into()));
    let reader = drain(&pipe);
    assert_eq!(c.read(), Reply::Error("ERR Errors trying to SHUTDOWN. Check logs.".into()));
    reader.join().expect("read");
    ok(&mut c, "SET n 7");
}

/// A snapshot is of one instant: keys that are changed together, on several shards and by several clients, are as they were together.
#[test]
fn one_instant_under_load() {
    const PAIRS: usize = 40;
    let folder = Folder::new();
    let path = folder.path().join("dump.rdb");
    let server = server_in(&folder, &["--workers", "2"]);
    let mut c = server.client();
    for n in 0..30_000 {
        c.send(&crate::harness::request(&["SET", &format!("filler:{n}"), &"y".repeat(n % 200)]));
    }
    (0..30_000).for_each(|_| drop(c.read()));
    for n in 0..3000 {
        c.send(&crate::harness::request(&["ZADD", "scores", "0", &format!("member:{n}")]));
    }
    (0..3000).for_each(|_| drop(c.read()));
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let (mut c, stop) = (server.client(), stop.clone());
            std::thread::spawn(move || {
                let mut round = 0u64;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    round += 1;
                    for pair in 0..PAIRS {
                        let name = |what: &str| format!("{what}:{writer}:{pair}");
                        let value = round.to_string();
                        for line in [
                            vec!["MULTI".to_string()],
                            vec!["SET".into(), name("one"), value.clone()],
                            vec!["HSET".into(), name("hash"), "field".into(), value.clone()],
                            vec!["RPUSH".into(), name("list"), value.clone()],
                            vec!["LTRIM".into(), name("list"), "-5".into(), "-1".into()],
                            vec!["ZINCRBY".into(), format!("sums:{writer}"), "1".into(), name("member")],
                            vec!["ZADD".into(), "scores".into(), value.clone(), format!("member:{}", round % 3000)],
                            vec!["SET".into(), name("other"), value.clone()],
                            vec!["EXEC".into()],
                        ] {
                            c.send(&crate::harness::request(&line));
                        }
                        // Changes of the table as well.
                        c.send(&crate::harness::request(&["SET", &format!("new:{writer}:{round}:{pair}"), "x"]));
                        c.send(&crate::harness::request(&[
                            "DEL",
                            &format!("filler:{}", round * PAIRS as u64 + pair as u64),
                        ]));
                        (0..11).for_each(|_| assert!(!c.read().is_error()));
                    }
                }
            })
        })
        .collect();
    for save in 1..=4 {
        eventually("the last one has ended", || c.info("rdb_bgsave_in_progress") == "0");
        c.expect("BGSAVE", "+Background saving started");
        eventually("it is saved", || c.info_number("rdb_saves") == save);
        let other_folder = Folder::new();
        fs::copy(&path, other_folder.path().join("dump.rdb")).expect("copied");
        let other = server_in(&other_folder, &[]);
        let mut l = loaded(&other);
        for writer in 0..3 {
            let mut rounds = Vec::new();
            for pair in 0..PAIRS {
                let one = l.run(&format!("GET one:{writer}:{pair}"));
                if matches!(one, Reply::NilBulk) {
                    l.expect(&format!("GET other:{writer}:{pair}"), "nil");
                    rounds.push(0);
                    continue;
                }
                let of = one.text();
                assert_eq!(l.run(&format!("GET other:{writer}:{pair}")).text(), of);
                assert_eq!(l.run(&format!("HGET hash:{writer}:{pair} field")).text(), of);
                assert_eq!(l.run(&format!("LINDEX list:{writer}:{pair} -1")).text(), of);
                assert_eq!(l.run(&format!("ZSCORE sums:{writer} member:{writer}:{pair}")).text(), of);
                rounds.push(of.parse::<u64>().expect("a number"));
            }
            // The pairs of a writer follow each other.
            assert!(rounds.windows(2).all(|pair| pair[0] == pair[1] || pair[0] == pair[1] + 1), "{rounds:?}");
        }
        l.expect("ZCARD scores", ":3000");
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("it ends"));
}
