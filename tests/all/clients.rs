//! Clients that users have: redis-cli, redis-benchmark, redis-py, ioredis.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::harness::{PATIENCE, Server, program, skip};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};

/// Runs to success and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

#[test]
fn redis_cli() {
    let Some(binary) = program("redis-cli") else { return skip("redis_cli", "there is no redis-cli") };
    let server = Server::start();
    let port = server.port.to_string();
    let cli = |arguments: &[&str]| run(Command::new(&binary).args(["-p", &port]).args(arguments));
    assert_eq!(cli(&["PING"]), "PONG\n");
    assert_eq!(cli(&["SET", "greeting", "hello world"]), "OK\n");
    assert_eq!(cli(&["GET", "greeting"]), "hello world\n");
    assert_eq!(cli(&["-3", "GET", "greeting"]), "hello world\n");
    assert_eq!(cli(&["-n", "3", "DBSIZE"]), "0\n");
    assert_eq!(cli(&["-r", "5", "INCR", "n"]), "1\n2\n3\n4\n5\n");
    assert_eq!(cli(&["--scan", "--pattern", "greet*"]), "greeting\n");
    assert!(cli(&["INFO", "server"]).contains("redis_version:"));
    assert!(cli(&["-3", "CONFIG", "GET", "port"]).contains(&port));
    assert!(cli(&["NOSUCH"]).starts_with("ERR unknown command"));
    assert!(cli(&["CLIENT", "LIST"]).contains("cmd=client|list"));
    assert_eq!(cli(&["DEL", "greeting", "n"]), "2\n");
}

/// The modes of redis-cli in which people look at a server.
#[test]
fn redis_cli_looks_at_the_server() {
    let Some(binary) = program("redis-cli") else {
        return skip("redis_cli_looks_at_the_server", "there is no redis-cli");
    };
    let server = Server::start();
    let port = server.port.to_string();
    let cli = |arguments: &[&str]| run(Command::new(&binary).args(["-p", &port]).args(arguments));
    let mut c = server.client();
    for (kind, command) in [("list", "RPUSH"), ("set", "SADD"), ("hash", "HSET"), ("zset", "ZADD"), ("string", "MSET")]
    {
        let words: Vec<String> = std::iter::once(command.to_owned())
            .chain((command != "MSET").then(|| format!("big:{kind}")))
            .chain((0..200).map(|n| if command == "MSET" && n % 2 == 0 { format!("s{n}") } else { n.to_string() }))
            .collect();
        assert!(!c.call(&words).is_error(), "{command}");
    }
    c.call(&["SET", "big:string", &"x".repeat(5000)]);
    // Names are in quotes of one kind, or of both.
    let plain = |text: String| text.replace(['\'', '"'], "");
    let big = plain(cli(&["--bigkeys"]));
    for found in [
        "Biggest string found big:string has 5000 bytes",
        "Biggest   list found big:list has 200 items",
        "Biggest    set found big:set has 200 members",
        "Biggest   hash found big:hash has 100 fields",
        "Biggest   zset found big:zset has 100 members",
    ] {
        assert!(big.contains(found), "no {found:?} in\n{big}");
    }
    let memory = plain(cli(&["--memkeys"]));
    for kind in ["string", "list", "set", "hash", "zset"] {
        let told = c.run(&format!("MEMORY USAGE big:{kind} SAMPLES 0")).int();
        let found = format!("big:{kind} has {told} bytes");
        assert!(memory.contains(&found), "no {found:?} in\n{memory}");
    }
    // Not at a terminal it measures for as long as it is told, and prints: least, most, average, samples.
    let latency = cli(&["--latency", "-i", "0.2"]);
    let numbers: Vec<f64> = latency.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    assert!(numbers.len() == 4 && numbers[3] > 0.0, "{latency}");
    // Ends with its reader only.
    let mut child = Command::new(&binary)
        .args(["-p", &port, "--stat", "-i", "0.01"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-cli starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let row = lines.take(50).find(|line| line.split_whitespace().next() == Some("105"));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let row = row.expect("a line that begins with the number of keys");
    assert!(row.split_whitespace().nth(1).is_some_and(|memory| memory.ends_with(['K', 'M'])), "{row}");
}

/// At a terminal it shows what arguments a command takes.
#[test]
fn redis_cli_hints() {
    let Some(binary) = program("redis-cli") else { return skip("redis_cli_hints", "there is no redis-cli") };
    let server = Server::start();
    let size = Winsize { ws_row: 25, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(Some(&size), None).expect("a terminal");
    let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().expect("a descriptor"));
    let mut child = Command::new(&binary)
        .args(["-p", &server.port.to_string()])
        .env("TERM", "xterm")
        .env("HOME", server.folder())
        .stdin(end(&terminal.slave))
        .stdout(end(&terminal.slave))
        .stderr(end(&terminal.slave))
        .spawn()
        .expect("redis-cli starts");
    drop(terminal.slave);
    let mut keys = std::fs::File::from(terminal.master.try_clone().expect("a descriptor"));
    let mut screen = std::fs::File::from(terminal.master);
    let mut until = |text: &str| {
        let (mut shown, mut bytes) = (String::new(), [0; 4096]);
        while !shown.contains(text) {
            let mut waits = [PollFd::new(screen.as_fd(), PollFlags::POLLIN)];
            let ready =
                poll(&mut waits, PollTimeout::try_from(PATIENCE).expect("less than weeks")).expect("it can wait");
            assert!(ready > 0, "no {text:?} in {shown:?}");
            let n = screen.read(&mut bytes).expect("the terminal is open");
            shown.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    };
    until("> ");
    keys.write_all(b"getrange ").expect("it reads");
    until("key start end");
    // Not a command of its own list: that is asked of the server.
    keys.write_all(b"\x15delifeq ").expect("it reads");
    until("key value");
    keys.write_all(b"\x15memory purge\r").expect("it reads");
    // What is typed before it has its prompt again is lost.
    until(&format!("OK\r\n127.0.0.1:{}> ", server.port));
    keys.write_all(b"quit\r").expect("it reads");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn redis_benchmark() {
    let Some(binary) = program("redis-benchmark") else {
        return skip("redis_benchmark", "there is no redis-benchmark");
    };
    let server = Server::start();
    let port = server.port.to_string();
    let tests = ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"];
    for options in [
        "-P 1 -c 50 -n 5000",
        "-P 16 -n 20000",
        "-P 100 -c 200 -n 20000 -r 100000 -d 100",
        "-n 500 -c 10 -d 70000 -r 10",
        "-3 -P 5 -n 5000 -r 50",
    ] {
        let mut command = Command::new(&binary);
        command.args(["-p", &port, "-q", "-t", "ping,set,get,incr,mset"]).args(options.split(' '));
        let text = run(&mut command);
        assert!(!text.to_lowercase().contains("error"), "{options}: {text}");
        for test in tests {
            assert!(
                text.contains(&format!("{test}: ")) && text.contains("requests per second"),
                "{options}: no {test} in\n{text}"
            );
        }
    }
    server.assert_alive();
}

/// A python with redis-py: the one that is named, the one that `tools/test` has made, or the one on the path.
pub fn python(package: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DOLMEN_PYTHON").map(PathBuf::from);
    let made = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/peers/venv/bin/python3");
    let found = [named, Some(made), program("python3")];
    found.into_iter().flatten().find(|python| {
        let import = Command::new(python).args(["-c", &format!("import {package}")]).output();
        import.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn redis_py() {
    let Some(python) = python("redis") else { return skip("redis_py", "there is no python with the redis package") };
    for protocol in ["2", "3"] {
        let server = Server::start();
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/all/redis_py.py");
        let text = run(Command::new(&python).arg(script).args([&server.port.to_string(), protocol]));
        assert!(text.contains("all passed"), "RESP{protocol}: {text}");
        server.assert_alive();
    }
}

/// What runs a script of this folder that needs packages of node; nothing if one of them is not there.
pub fn node(script: &str, packages: &[&str]) -> Option<Command> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let modules = root.join("target/peers/node/node_modules");
    let (Some(node), true) = (program("node"), packages.iter().all(|package| modules.join(package).is_dir())) else {
        skip(script, &format!("there is no node with the packages {packages:?}"));
        return None;
    };
    let mut command = Command::new(node);
    command.env("NODE_PATH", modules).arg(root.join("tests/all").join(script));
    Some(command)
}

#[test]
fn ioredis() {
    for server in crate::control::servers(&[]) {
        let Some(mut script) = node("ioredis.js", &["ioredis"]) else { return };
        let text = run(script.arg(server.port.to_string()));
        assert!(text.contains("all passed"), "{text}");
        server.assert_alive();
    }
}
