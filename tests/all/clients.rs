//! Clients that users have: redis-cli, redis-benchmark, redis-py, ioredis.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Server, program, skip};

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

#[test]
fn ioredis() {
    let modules = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/peers/node/node_modules");
    let (Some(node), true) = (program("node"), modules.join("ioredis").is_dir()) else {
        return skip("ioredis", "there is no node with the ioredis package");
    };
    for server in crate::control::servers(&[]) {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/all/ioredis.js");
        let text = run(Command::new(&node).env("NODE_PATH", &modules).arg(script).arg(server.port.to_string()));
        assert!(text.contains("all passed"), "{text}");
        server.assert_alive();
    }
}
