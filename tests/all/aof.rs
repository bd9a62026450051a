//! The append-only file: what is written to it, what comes back at the next start, also with `redis-server`, and what a crash may take.

use crate::differential;
use crate::harness::{Client, Folder, Kind, Reply, Server, eventually, program, request, skip};
use crate::persistence::{assert_same, fill, state};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A server that logs into a folder.
pub fn server_in(folder: &Folder, arguments: &[&str]) -> Server {
    let dir = folder.path().to_str().expect("a name in text").to_string();
    Server::with(&[&["--dir", &dir, "--databases", "16", "--save", "", "--appendonly", "yes"], arguments].concat())
}

pub fn redis_in(folder: &Folder, arguments: &[&str]) -> Option<Server> {
    let dir = folder.path().to_str().expect("a name in text").to_string();
    let binary = program("redis-server")?;
    Some(Server::other(&binary, &[&["--dir", &dir, "--save", "", "--appendonly", "yes"], arguments].concat()))
}

/// A client of a server that has loaded its files.
pub fn loaded(server: &Server) -> Client {
    let mut c = server.client();
    eventually("the log is loaded", || !c.run("DBSIZE").is_error());
    c
}

fn ok(client: &mut Client, line: &str) {
    client.expect(line, "+OK");
}

/// Waits until all that was written so far lasts.
fn lasts(client: &mut Client) {
    client.expect("WAITAOF 1 0 0", "[:1, :0]");
}

pub fn log_path(folder: &Folder, name: &str) -> PathBuf {
    folder.path().join("appendonlydir").join(name)
}

/// The commands of the increments, a line each, in small letters; times are left out.
pub fn logged(folder: &Folder) -> Vec<String> {
    let manifest = fs::read_to_string(log_path(folder, "appendonly.aof.manifest")).expect("a manifest");
    let mut lines = Vec::new();
    for line in manifest.lines().filter(|line| line.ends_with("type i")) {
        let name = line.split(' ').nth(1).expect("a name");
        let bytes = fs::read(log_path(folder, name)).expect("an increment");
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let mut take_line = || {
                let end = rest.iter().position(|byte| *byte == b'\n').expect("a whole line");
                let line = String::from_utf8_lossy(&rest[1..end - 1]).into_owned();
                rest = &rest[end + 1..];
                line
            };
            let count: usize = take_line().parse().expect("a number");
            let mut words = Vec::new();
            for _ in 0..count {
                let len: usize = {
                    let end = rest.iter().position(|byte| *byte == b'\n').expect("a whole line");
                    let line = String::from_utf8_lossy(&rest[1..end - 1]).into_owned();
                    rest = &rest[end + 1..];
                    line.parse().expect("a length")
                };
                let word = String::from_utf8_lossy(&rest[..len]).to_lowercase();
                rest = &rest[len + 2..];
                // A time in milliseconds of these years.
                let is_time = word.len() == 13 && word.starts_with(['1', '2']) && word.parse::<u64>().is_ok();
                words.push(if is_time { "<ms>".to_string() } else { word });
            }
            lines.push(words.join(" "));
        }
    }
    lines
}

/// What is run, and what is logged of it; `=`: as by Redis 7.
const LOGGED: &[(&str, &str)] = &[
    ("SET a 1", "= set a 1"),
    ("SET a 1 XX GET", "set a 1"),
    ("SET a 2 NX", ""),
    ("SET b 2 NX", "set b 2"),
    ("SET a 1 EX 1000", "= set a 1 pxat <ms>"),
    ("SET a 1 PX 1000000 XX", "set a 1 pxat <ms>"),
    ("SET a 2 KEEPTTL", "= set a 2 keepttl"),
    ("SETEX a 1000 3", "= set a 3 pxat <ms>"),
    ("PSETEX a 1000000 3", "= set a 3 pxat <ms>"),
    ("GETEX a", ""),
    ("GETEX a EX 1000", "= pexpireat a <ms>"),
    ("GETEX a PERSIST", "= persist a"),
    ("GETSET a 4", "= set a 4"),
    ("GETDEL a", "= del a"),
    ("GETDEL a", ""),
    ("SETNX a 1", "= setnx a 1"),
    ("SETNX a 1", ""),
    ("INCR a", "= incr a"),
    ("INCRBYFLOAT a 1.5", "= set a 3.5 keepttl"),
    ("APPEND a x", "= append a x"),
    ("EXPIRE a 1000", "= pexpireat a <ms>"),
    ("EXPIRE a 10 GT", ""),
    ("EXPIRE nothing 10", ""),
    ("PERSIST a", "= persist a"),
    ("PEXPIREAT a 1", "= del a"),
    ("DEL nothing", ""),
    ("GET b", ""),
    ("MSET a 1 c 2", "= mset a 1 c 2"),
    ("RPUSH l 1 2 3 4 5", "= rpush l 1 2 3 4 5"),
    ("LPOP l", "= lpop l"),
    ("BLPOP nothing l 0", "= lpop l"),
    ("BRPOP l 0", "= rpop l"),
    ("BLMOVE l other LEFT RIGHT 0", "= lmove l other left right"),
    ("SADD s 1", "= sadd s 1"),
    ("SADD s 1", ""),
    ("SPOP s", "srem s 1"),
    ("SADD s 1 2 3", "= sadd s 1 2 3"),
    ("SPOP s 9", "= del s"),
    ("HSET h f 1", "= hset h f 1"),
    ("HINCRBYFLOAT h f 0.5", "= hset h f 1.5"),
    ("HINCRBY h n 2", "hset h n 2"),
    ("ZADD z 1 a 2 b", "= zadd z 1 a 2 b"),
    ("BZPOPMIN z 0", "= zpopmin z"),
    ("ZINCRBY z 1 b", "= zincrby z 1 b"),
    ("RENAME a d", "= rename a d"),
    ("COPY d e", "= copy d e"),
    ("SORT l ALPHA STORE sorted", "= sort l alpha store sorted"),
    ("SELECT 2", ""),
    ("SET k 1", "= select 2|set k 1"),
    ("SELECT 0", ""),
    ("MULTI", ""),
    ("SET m 1", ""),
    ("GET m", ""),
    ("SET n 1 EX 1000", ""),
    ("EXEC", "= select 0|multi|set m 1|set n 1 pxat <ms>|exec"),
    ("MULTI", ""),
    ("SET m 2", ""),
    ("EXEC", "= set m 2"),
    ("MULTI", ""),
    ("GET m", ""),
    ("EXEC", ""),
    ("MSETEX 2 a 1 b 2 EX 1000", "multi|set a 1 pxat <ms>|set b 2 pxat <ms>|exec"),
    ("DELEX a", "del a"),
    ("HEXPIRE h 1000 FIELDS 1 f", "hpexpireat h <ms> fields 1 f"),
    ("HPERSIST h FIELDS 2 f nothing", "multi|hpersist h fields 1 f|hdel h nothing|exec"),
    ("HSETEX h EX 1000 FIELDS 1 f v", "multi|hset h f v|hpexpireat h <ms> fields 1 f|exec"),
    ("HGETEX h PERSIST FIELDS 1 f", "hpersist h fields 1 f"),
    ("HGETDEL h FIELDS 1 f", "hdel h f"),
    ("FLUSHDB", "= flushdb"),
];

#[test]
fn what_is_logged() {
    for workers in ["1", "2"] {
        let folder = Folder::new();
        let server = server_in(&folder, &["--workers", workers, "--appendfsync", "always"]);
        let mut c = loaded(&server);
        let mut seen = 0;
        for (line, want) in LOGGED {
            let reply = c.run(line);
            assert!(!reply.is_error(), "{line}: {reply}");
            // A reply is sent behind the fsync.
            let lines = logged(&folder);
            let got = lines[seen..].join("|");
            let got = if seen == 0 { got.trim_start_matches("select 0|").to_string() } else { got };
            assert_eq!(got, want.trim_start_matches("= "), "{line}, {workers} workers");
            seen = lines.len();
        }
    }
}

#[test]
fn what_is_logged_is_what_redis_logs() {
    let folder = Folder::new();
    let Some(server) = redis_in(&folder, &["--appendfsync", "always"]) else {
        return skip("what_is_logged_is_what_redis_logs", "there is no redis-server");
    };
    let mut c = server.client();
    let mut seen = 0;
    for (line, want) in LOGGED {
        let reply = c.run(line);
        // A reply is sent behind the write.
        let lines = logged(&folder);
        let got = lines[seen..].join("|").replace("unlink ", "del ");
        let got = if seen == 0 { got.trim_start_matches("select 0|").to_string() } else { got };
        if let Some(want) = want.strip_prefix("= ") {
            assert!(!reply.is_error(), "{line}: {reply}");
            assert_eq!(got, want, "{line}");
        }
        seen = lines.len();
    }
}

#[test]
fn all_comes_back() {
    for (workers, fsync) in [("1", "everysec"), ("2", "always")] {
        let folder = Folder::new();
        let server = server_in(&folder, &["--workers", workers, "--appendfsync", fsync]);
        let mut c = loaded(&server);
        fill(&mut c);
        // Of the rest what is changed in slices, and values that were received in place.
        c.expect("SUNIONSTORE united set:texts:4 set:numbers:4", ":6000");
        c.expect("BITOP OR combined blob zeros", ":5000000");
        c.expect("BITOP NOT combined combined", ":5000000");
        let members: Vec<String> = (0..5000).map(|n| format!("member {n}")).collect();
        let mut words = vec!["SADD".to_string(), "many".to_string()];
        words.extend(members);
        assert_eq!(c.call(&words).int(), 5000);
        c.expect("APPEND blob tail", ":700004");
        assert_eq!(c.run("SPOP many 2000").items().len(), 2000);
        assert_eq!(c.run("LMPOP 1 list:texts:4 LEFT COUNT 2000").items().len(), 2);
        ok(&mut c, "SELECT 1");
        ok(&mut c, "SELECT 0");
        let want = state(&mut c);
        lasts(&mut c);
        // By SIGKILL.
        drop(server);
        let server = server_in(&folder, &["--workers", if workers == "1" { "2" } else { "1" }]);
        let mut c = loaded(&server);
        assert_same(&state(&mut c), &want, &format!("{workers} workers, {fsync}, killed"));
        c.expect("BGREWRITEAOF", "+Background append only file rewriting started");
        ok(&mut c, "SET later x");
        eventually("it is rewritten", || c.info("aof_rewrites") == "1");
        let want = state(&mut c);
        ok(&mut c, "SET later x");
        assert_eq!(c.info("aof_last_bgrewrite_status"), "ok");
        let mut names: Vec<_> = fs::read_dir(folder.path().join("appendonlydir"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a text"))
            .collect();
        names.sort();
        let want_names = ["appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof", "appendonly.aof.manifest"];
        assert_eq!(names, want_names);
        c.send(&request(&["SHUTDOWN"]));
        c.expect_closed();
        let mut server = server;
        assert!(server.wait_exit().success());
        check(&folder, true);
        let server = server_in(&folder, &[]);
        assert_same(&state(&mut loaded(&server)), &want, "rewritten");
    }
}

/// `redis-check-aof` looks at the files.
pub fn check(folder: &Folder, good: bool) {
    let Some(check) = program("redis-check-aof") else { return };
    let told = Command::new(check).arg(log_path(folder, "appendonly.aof.manifest")).output().expect("it runs");
    assert_eq!(told.status.success(), good, "{}", String::from_utf8_lossy(&told.stdout));
}

#[test]
fn redis_loads_it() {
    let folder = Folder::new();
    let server = server_in(&folder, &["--workers", "2"]);
    let mut c = loaded(&server);
    fill(&mut c);
    c.expect("BGREWRITEAOF", "+Background append only file rewriting started");
    eventually("it is rewritten", || c.info("aof_rewrites") == "1");
    for n in 0..200 {
        ok(&mut c, &format!("SET behind:{n} {n} EX 100000"));
        c.expect(&format!("RPUSH behind {n}"), &format!(":{}", n + 1));
    }
    assert_eq!(c.run("SPOP set:texts:4 700").items().len(), 700);
    let want = state(&mut c);
    c.send(&request(&["SHUTDOWN"]));
    c.expect_closed();
    check(&folder, true);
    drop(server);
    let Some(redis) = redis_in(&folder, &["--databases", "16"]) else {
        return skip("redis_loads_it", "there is no redis-server");
    };
    assert_same(&state(&mut loaded(&redis)), &want, "loaded by redis-server");
}

#[test]
fn what_redis_wrote_is_loaded() {
    for arguments in [&[][..], &["--aof-use-rdb-preamble", "no"], &["--aof-timestamp-enabled", "yes"]] {
        let folder = Folder::new();
        let Some(redis) = redis_in(&folder, arguments) else {
            return skip("what_redis_wrote_is_loaded", "there is no redis-server");
        };
        let mut c = redis.client();
        fill(&mut c);
        c.expect("BGREWRITEAOF", "+Background append only file rewriting started");
        eventually("it is rewritten", || c.info("aof_rewrite_in_progress") == "0");
        for n in 0..200 {
            ok(&mut c, &format!("SET behind:{n} {n} EX 100000"));
        }
        ok(&mut c, "MULTI");
        c.expect("INCR counter", "+QUEUED");
        c.expect("SPOP set:texts:4", "+QUEUED");
        assert!(!c.run("EXEC").is_error());
        let want = state(&mut c);
        c.send(&request(&["SHUTDOWN"]));
        c.expect_closed();
        drop(redis);
        let server = server_in(&folder, &["--workers", "2"]);
        assert_same(&state(&mut loaded(&server)), &want, &format!("{arguments:?}"));
    }
}

/// A file of a version before 7 becomes the base file.
#[test]
fn a_single_file_is_taken_over() {
    let folder = Folder::new();
    let commands = [request(&["SELECT", "1"]), request(&["SET", "a", "1"]), request(&["INCR", "a"])].concat();
    fs::write(folder.path().join("appendonly.aof"), commands).expect("written");
    let server = server_in(&folder, &[]);
    let mut c = loaded(&server);
    ok(&mut c, "SELECT 1");
    c.expect("GET a", "'2'");
    c.expect("INCR a", ":3");
    lasts(&mut c);
    drop(server);
    let server = server_in(&folder, &[]);
    let mut c = loaded(&server);
    ok(&mut c, "SELECT 1");
    c.expect("GET a", "'3'");
    assert!(log_path(&folder, "appendonly.aof").exists() && !folder.path().join("appendonly.aof").exists());
}

/// Starts a server that will not come up, and tells what it says.
fn refused(folder: &Folder, arguments: &[&str]) -> String {
    let (binary, _) = crate::harness::under_test();
    let port = crate::harness::free_port().to_string();
    let mut command = Command::new(binary);
    command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir"]);
    let ended = command.arg(folder.path()).args(arguments).output().expect("it ends by itself");
    assert_eq!(ended.status.code(), Some(1));
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

#[test]
fn damaged_files() {
    let folder = Folder::new();
    {
        let server = server_in(&folder, &[]);
        let mut c = loaded(&server);
        ok(&mut c, "SET a 1");
        ok(&mut c, "SET b 2");
        ok(&mut c, "MULTI");
        c.expect("SET c 3", "+QUEUED");
        c.expect("SET d 4", "+QUEUED");
        c.expect("EXEC", "[+OK, +OK]");
        lasts(&mut c);
    }
    let path = log_path(&folder, "appendonly.aof.1.incr.aof");
    let good = fs::read(&path).expect("an increment");
    let multi = good.windows(5).position(|word| word == b"MULTI").expect("it is there") - 8;
    // The end is missing: in the midst of a transaction all of it goes.
    fs::write(&path, &good[..good.len() - 3]).expect("written");
    let said = refused(&folder, &["--aof-load-truncated", "no"]);
    assert!(said.contains("appendonly.aof.1.incr.aof") && said.contains("aof-load-truncated yes"), "{said}");
    assert_eq!(fs::read(&path).expect("an increment").len(), good.len() - 3, "it is as it was");
    {
        let server = server_in(&folder, &[]);
        let mut c = loaded(&server);
        c.expect("MGET a b c d", "['1', '2', nil, nil]");
        assert_eq!(fs::read(&path).expect("an increment"), &good[..multi]);
        ok(&mut c, "SET e 5");
        lasts(&mut c);
    }
    {
        let server = server_in(&folder, &[]);
        loaded(&server).expect("MGET a e", "['1', '5']");
    }
    // Something else in the midst.
    for (bad, why) in [
        (&b"rubbish"[..], "Bad file format"),
        (b"*1\r\n$7\r\nNOTHERE\r\n", "Unknown command 'NOTHERE'"),
        (b"*1\r\n$4\r\nEXEC\r\n", "MULTI and EXEC do not match"),
        (b"*2\r\n$3\r\nGET\r\n$-1\r\n", "a length is no number"),
    ] {
        let bytes = [&good[..multi], bad, &good[multi..]].concat();
        fs::write(&path, &bytes).expect("written");
        let said = refused(&folder, &[]);
        let place = format!("(at byte {multi}");
        assert!(said.contains("appendonly.aof.1.incr.aof") && said.contains(why), "{why}: {said}");
        assert!(said.contains(&place), "{place}: {said}");
        assert!(fs::read(&path).expect("an increment") == bytes, "it is as it was");
    }
    fs::remove_file(&path).expect("removed");
    assert!(refused(&folder, &[]).contains("appendonly.aof.1.incr.aof"));
    fs::write(log_path(&folder, "appendonly.aof.manifest"), "file x seq 1 type q\n").expect("written");
    assert!(refused(&folder, &[]).contains("appendonly.aof.manifest: line 1"));
}

#[test]
fn turned_on_and_off() {
    let workers = "2";
    let folder = Folder::new();
    let dir = folder.path().to_str().expect("a name in text").to_string();
    let server = Server::with(&["--dir", &dir, "--save", "", "--workers", workers, "--databases", "16"]);
    let mut c = server.client();
    c.expect("BGREWRITEAOF", "-ERR The append-only file is off: CONFIG SET appendonly yes turns it on");
    c.expect("WAITAOF 1 0 0", "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
    c.expect("WAITAOF 0 0 0", "[:0, :0]");
    assert_eq!(c.info("aof_enabled"), "0");
    fill(&mut c);
    // Others write all the while.
    let writer = std::thread::spawn({
        let mut c = server.client();
        move || {
            for n in 0..3000 {
                ok(&mut c, &format!("SET meanwhile:{n} {n}"));
            }
        }
    });
    ok(&mut c, "CONFIG SET appendonly yes appendfsync always");
    c.expect("CONFIG GET appendonly", "['appendonly', 'yes']");
    assert_eq!(c.info("aof_enabled"), "1");
    ok(&mut c, "SET between 1");
    eventually("the base is written", || c.info("aof_rewrites") == "1");
    writer.join().expect("written");
    ok(&mut c, "SET a 1");
    let want = state(&mut c);
    lasts(&mut c);
    // By SIGKILL.
    drop(server);
    let server = server_in(&folder, &["--workers", workers]);
    let mut c = loaded(&server);
    assert_same(&state(&mut c), &want, "turned on");
    ok(&mut c, "CONFIG SET appendonly no");
    assert_eq!(c.info("aof_enabled"), "0");
    ok(&mut c, "SET a 2");
    ok(&mut c, "CONFIG SET appendonly yes");
    eventually("the base is written", || c.info("aof_rewrites") == "1");
    ok(&mut c, "SET b 2");
    let want = state(&mut c);
    lasts(&mut c);
    // By SIGKILL.
    drop(server);
    check(&folder, true);
    let server = server_in(&folder, &["--workers", workers]);
    assert_same(&state(&mut loaded(&server)), &want, "turned off and on");
}

#[test]
fn it_is_rewritten_by_itself() {
    let folder = Folder::new();
    let server = server_in(&folder, &["--workers", "2", "--auto-aof-rewrite-min-size", "100kb"]);
    let mut c = loaded(&server);
    let mut n = 0;
    eventually("it has grown and was rewritten", || {
        for _ in 0..200 {
            n += 1;
            c.send(&request(&["SET", &format!("key:{}", n % 50), &"x".repeat(500)]));
        }
        (0..200).for_each(|_| drop(c.read()));
        c.info_number("aof_rewrites") > 0
    });
    let want = state(&mut c);
    lasts(&mut c);
    drop(server);
    let server = server_in(&folder, &[]);
    assert_same(&state(&mut loaded(&server)), &want, "rewritten by itself");
}

/// Whatever was acknowledged is there, whenever the server is killed; and of a transaction all or nothing.
#[test]
fn killed_under_load() {
    const CLIENTS: usize = 4;
    let folder = Folder::new();
    let mut counts = [0i64; CLIENTS];
    for round in 0..6 {
        let server = server_in(&folder, &["--workers", "2", "--appendfsync", "always"]);
        let mut c = loaded(&server);
        for (client, count) in counts.iter_mut().enumerate() {
            let there = |reply: Reply| match reply {
                Reply::NilBulk => 0,
                reply => reply.text().parse::<i64>().expect("a number"),
            };
            let (one, other) = (there(c.run(&format!("GET n:{client}"))), there(c.run(&format!("GET m:{client}"))));
            assert_eq!(one, other, "a transaction is there in part");
            assert!(one >= *count, "round {round}: {one} of {count} acknowledged");
            *count = one;
        }
        if round == 3 {
            c.expect("BGREWRITEAOF", "+Background append only file rewriting started");
        }
        let writers: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mut c = server.client();
                let mut count = counts[client];
                std::thread::spawn(move || {
                    // Until the server goes.
                    let text = format!("INCR n:{client}");
                    let script: Vec<u8> = ["MULTI".to_string(), text, format!("INCR m:{client}"), "EXEC".to_string()]
                        .iter()
                        .flat_map(|line| request(&line.split(' ').collect::<Vec<_>>()))
                        .collect();
                    loop {
                        if std::io::Write::write_all(&mut c.stream(), &script).is_err() {
                            return count;
                        }
                        for _ in 0..3 {
                            if c.try_read().is_err() {
                                return count;
                            }
                        }
                        match c.try_read() {
                            Ok(reply) => count = reply.items()[0].int(),
                            Err(_) => return count,
                        }
                    }
                })
            })
            .collect();
        eventually("some is written", || c.info_number("keyspace_changes") > 200);
        // By SIGKILL.
        drop(server);
        for (writer, count) in writers.into_iter().zip(&mut counts) {
            *count = writer.join().expect("it ends with the server");
        }
    }
}

/// Random programs of all commands: what is there behind them is there after a restart.
#[test]
fn random_programs_come_back() {
    let rounds = std::env::var("DOLMEN_AOF_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    for round in 0..rounds {
        let folder = Folder::new();
        let workers = if round % 2 == 0 { "1" } else { "2" };
        let server = server_in(&folder, &["--workers", workers]);
        let mut c = loaded(&server);
        let seed = 20_261_130 + round;
        for batch in differential::requests(seed, 1500).chunks(20) {
            c.send(&batch.concat());
            batch.iter().for_each(|_| drop(c.read()));
        }
        let mut c = server.client();
        if round % 3 == 2 {
            c.expect("BGREWRITEAOF", "+Background append only file rewriting started");
        }
        let want = state(&mut c);
        lasts(&mut c);
        // By SIGKILL.
        drop(server);
        check(&folder, true);
        let server = server_in(&folder, &["--workers", workers]);
        assert_same(&state(&mut loaded(&server)), &want, &format!("seed {seed}"));
    }
}

/// What expires is gone for whoever reads the log, whatever the time then.
#[test]
fn expired_and_evicted_keys() {
    let folder = Folder::new();
    let server = server_in(&folder, &["--workers", "2"]);
    let mut c = loaded(&server);
    for n in 0..100 {
        ok(&mut c, &format!("SET soon:{n} x PX 30"));
        c.expect(&format!("HSET hash:{n} a 1 b 2"), ":2");
        c.expect(&format!("HPEXPIRE hash:{n} 30 FIELDS 1 a"), "[:1]");
    }
    eventually("they are gone", || c.run("DBSIZE").int() == 100);
    eventually("fields are gone", || (0..100).all(|n| c.run(&format!("HLEN hash:{n}")).int() == 1));
    ok(&mut c, "CONFIG SET maxmemory-policy allkeys-random");
    for n in 0..3000 {
        ok(&mut c, &format!("SET many:{n} {}", "x".repeat(1000)));
    }
    ok(&mut c, "CONFIG SET maxmemory 1kb");
    eventually("most are evicted", || c.run("DBSIZE").int() < 100);
    ok(&mut c, "CONFIG SET maxmemory 0");
    let want = state(&mut c);
    lasts(&mut c);
    drop(server);
    let lines = logged(&folder);
    assert!(lines.iter().any(|line| line.starts_with("del soon:")));
    assert!(lines.iter().any(|line| line.starts_with("hdel hash:")));
    let server = server_in(&folder, &[]);
    assert_same(&state(&mut loaded(&server)), &want, "expired and evicted");
}

/// A key lives until the log says that it has gone: its deadline may be moved by what follows.
#[test]
fn deadlines_of_the_past() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("appendonlydir")).expect("a folder");
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    fs::write(log_path(&folder, "appendonly.aof.manifest"), manifest).expect("written");
    let commands = [
        &["SET", "a", "1", "PXAT", "1000000000000"][..],
        &["PERSIST", "a"],
        &["SET", "b", "1", "PXAT", "1000000000000"],
        &["INCR", "b"],
        &["HSET", "h", "f", "1", "g", "1"],
        &["HPEXPIREAT", "h", "1000000000000", "FIELDS", "2", "f", "g"],
        &["HPERSIST", "h", "FIELDS", "1", "f"],
        &["SET", "relative", "1"],
        &["EXPIRE", "relative", "1000"],
    ];
    let bytes: Vec<u8> = commands.iter().flat_map(|words| request(words)).collect();
    fs::write(log_path(&folder, "appendonly.aof.1.incr.aof"), bytes).expect("written");
    let server = server_in(&folder, &[]);
    let mut c = loaded(&server);
    eventually("b is gone", || c.run("EXISTS b").int() == 0);
    c.expect("GET a", "'1'");
    c.expect("HGETALL h", "['f', '1']");
    let ttl = c.run("TTL relative").int();
    assert!((900..=1000).contains(&ttl), "{ttl}");
}

#[test]
fn a_database_that_is_not_there() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("appendonlydir")).expect("a folder");
    let manifest = "file appendonly.aof.1.incr.aof seq 1 type i\n";
    fs::write(log_path(&folder, "appendonly.aof.manifest"), manifest).expect("written");
    let commands = [request(&["SELECT", "12"]), request(&["SET", "a", "1"])].concat();
    fs::write(log_path(&folder, "appendonly.aof.1.incr.aof"), commands).expect("written");
    assert!(refused(&folder, &["--databases", "4"]).contains("see the directive databases"));
}

#[test]
fn waiting_for_the_disk() {
    let folder = Folder::new();
    let server = server_in(&folder, &["--workers", "2", "--appendfsync", "no"]);
    let mut c = loaded(&server);
    ok(&mut c, "SET a 1");
    c.expect("WAIT 0 0", ":0");
    c.expect("WAIT 1 20", ":0");
    c.expect("WAIT x 0", "-ERR value is not an integer or out of range");
    c.expect("WAIT 0 -1", "-ERR timeout is negative");
    c.expect("WAITAOF 2 0 0", "-ERR value is out of range");
    c.expect("WAITAOF 0 -1 0", "-ERR value is out of range, must be positive");
    c.expect("WAITAOF 1 0 x", "-ERR timeout is not an integer or out of range");
    // Nobody makes it last.
    c.expect("WAITAOF 1 0 20", "[:0, :0]");
    c.expect("WAITAOF 0 1 20", "[:0, :0]");
    ok(&mut c, "MULTI");
    c.expect("SET b 1", "+QUEUED");
    c.expect("WAIT 1 0", "+QUEUED");
    c.expect("WAITAOF 1 1 0", "+QUEUED");
    c.expect("EXEC", "[+OK, :0, [:0, :0]]");
    ok(&mut c, "CONFIG SET appendfsync everysec");
    ok(&mut c, "SET a 2");
    c.expect("WAITAOF 1 0 0", "[:1, :0]");
    ok(&mut c, "CONFIG SET appendfsync always");
    ok(&mut c, "SET a 3");
    c.expect("WAITAOF 1 0 0", "[:1, :0]");
    ok(&mut c, "CONFIG SET appendfsync no");
    ok(&mut c, "SET a 4");
    c.expect("GET a", "'4'");
}

/// With `always` replies come behind the fsync, in order, however they are asked for.
#[test]
fn replies_wait_in_order() {
    let folder = Folder::new();
    let server = server_in(&folder, &["--workers", "2", "--appendfsync", "always"]);
    let mut clients: Vec<Client> = (0..8).map(|_| loaded(&server)).collect();
    let value = "v".repeat(40_000);
    for (n, c) in clients.iter_mut().enumerate() {
        for i in 0..200 {
            c.send(&request(&["INCR", &format!("n:{n}")]));
            if i % 20 == 0 {
                c.send(&request(&["SET", &format!("large:{n}"), &value]));
                c.send(&request(&["GET", &format!("large:{n}")]));
            }
            c.send(&request(&["PING"]));
        }
    }
    for c in &mut clients {
        for i in 0..200 {
            assert_eq!(c.read(), Reply::Int(i + 1));
            if i % 20 == 0 {
                assert_eq!(c.read(), Reply::Simple("OK".into()));
                assert_eq!(c.read().bytes().len(), value.len());
            }
            assert_eq!(c.read(), Reply::Simple("PONG".into()));
        }
        c.send(&request(&["SET", "last", "1"]));
        c.send(&request(&["QUIT"]));
        assert_eq!(c.read(), Reply::Simple("OK".into()));
        assert_eq!(c.read(), Reply::Simple("OK".into()));
        c.expect_closed();
    }
    assert_eq!(server.kind, Kind::Dolmen);
}

/// Who has waited for an element has taken it, also for who reads the log.
#[test]
fn what_waiting_clients_take() {
    let folder = Folder::new();
    let server = server_in(&folder, &["--workers", "2"]);
    let mut c = loaded(&server);
    let mut blocked: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for (line, client) in
        ["BLPOP l 0", "BLMOVE l other LEFT RIGHT 0", "BLMPOP 0 1 l LEFT COUNT 2", "BZMPOP 0 1 z MIN COUNT 2"]
            .iter()
            .zip(&mut blocked)
    {
        client.send(&request(&line.split(' ').collect::<Vec<_>>()));
        eventually("it waits", || c.info_number("blocked_clients") > 0);
    }
    eventually("all wait", || c.info_number("blocked_clients") == 4);
    c.expect("RPUSH l 1 2 3 4 5", ":5");
    c.expect("ZADD z 1 a 2 b 3 c", ":3");
    blocked.iter_mut().for_each(|client| assert!(!client.read().is_error()));
    c.expect("LRANGE l 0 -1", "['5']");
    let want = state(&mut c);
    lasts(&mut c);
    drop(server);
    let server = server_in(&folder, &[]);
    assert_same(&state(&mut loaded(&server)), &want, "taken by those who waited");
}
