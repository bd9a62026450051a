//! Calls of the tool, and servers to call it on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

pub fn bench(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dolmen-bench"));
    command.args(arguments.split_whitespace()).stdin(Stdio::null()).env_remove("DOLMEN_BENCH_PASSWORD");
    command
}

/// What a call left.
pub struct Called {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub fn called(output: Output) -> Called {
    Called {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub fn call(arguments: &str) -> Called {
    called(bench(arguments).output().expect("the tool runs"))
}

/// The runs of a call that must be good.
pub fn runs(arguments: &str) -> Vec<serde_json::Value> {
    let called = call(&format!("{arguments} --json"));
    assert_eq!(called.code, Some(0), "{arguments}: {}{}", called.out, called.err);
    json(&called)["runs"].as_array().expect("runs").clone()
}

pub fn run(arguments: &str) -> serde_json::Value {
    let mut runs = runs(arguments);
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

pub fn json(called: &Called) -> serde_json::Value {
    serde_json::from_str(&called.out).unwrap_or_else(|error| panic!("{error}: {}{}", called.out, called.err))
}

pub fn requests_of(run: &serde_json::Value, command: &str) -> u64 {
    let commands = run["commands"].as_array().expect("commands");
    commands
        .iter()
        .find(|found| found["name"] == command)
        .map_or(0, |found| found["requests"].as_u64().expect("a number"))
}

pub fn count(run: &serde_json::Value, field: &str) -> u64 {
    run[field].as_u64().unwrap_or_else(|| panic!("{field} is a number in {run}"))
}

/// A process that is ended with the test.
pub struct Process {
    child: Child,
    pub port: u16,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The tool's own null server, on a port of its choice.
pub fn null_server(options: &str) -> Process {
    let mut child =
        bench(&format!("null --port 0 {options}")).stdout(Stdio::piped()).spawn().expect("the null server starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    Process { child, port }
}

pub fn installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|folder| folder.join(program).is_file());
    if !found {
        assert!(std::env::var_os("DOLMEN_REQUIRE_PEERS").is_none(), "{program} is not installed (tools/peers)");
        eprintln!("SKIPPED: {program} is not installed (tools/peers installs it)");
    }
    found
}

/// Starts a program that is told its port, until it answers. The port was free a moment ago: if it is taken meanwhile, another one is.
fn start(line: impl Fn(u16) -> Vec<String>) -> Process {
    for _ in 0..5 {
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr()).expect("a free port").port();
        let line = line(port);
        let mut child = Command::new(&line[0])
            .args(&line[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir(std::env::temp_dir())
            .spawn()
            .expect("a server starts");
        loop {
            if child.try_wait().expect("a child").is_some() {
                break;
            }
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Process { child, port };
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    panic!("no server starts");
}

pub fn redis(more: &str) -> Option<Process> {
    installed("redis-server").then(|| {
        start(|port| {
            let line = format!(
                "redis-server --port {port} --appendonly no --dbfilename nothing-to-load.rdb --bind 127.0.0.1 {more}"
            );
            let save = ["--save".to_string(), String::new()];
            line.split_whitespace().map(str::to_string).chain(save).collect()
        })
    })
}

pub fn memcached() -> Option<Process> {
    installed("memcached").then(|| {
        start(|port| {
            let line = format!("memcached -p {port} -U 0 -l 127.0.0.1 -u nobody");
            line.split_whitespace().map(str::to_string).collect()
        })
    })
}

/// One request of RESP to a server, and the raw answer: a line, or a bulk string.
pub fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    stream.write_all(format!("{request}\r\n").as_bytes()).expect("it listens");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("an answer");
    let line = line.trim_end().to_string();
    let Some(length) = line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) else { return line };
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the whole answer");
    String::from_utf8_lossy(&body).into_owned()
}

/// How often a server of Redis has run a command.
pub fn calls(port: u16, command: &str) -> u64 {
    let stats = ask(port, "INFO commandstats");
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")).map(str::to_string));
    line.and_then(|line| line.split(',').next().and_then(|calls| calls.parse().ok())).unwrap_or(0)
}

pub fn number(port: u16, request: &str) -> i64 {
    ask(port, request).trim_start_matches(':').parse().expect("a number")
}

/// A server made of a function: it gets the arguments of each request of a connection, and what it returns is sent. `None` closes.
pub fn fake(serve: impl Fn(&[Vec<u8>]) -> Option<Vec<u8>> + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), serve) = (stream, serve.clone()) else { return };
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
                let mut stream = stream;
                while let Some(arguments) = request(&mut reader) {
                    match serve(&arguments) {
                        Some(answer) if stream.write_all(&answer).is_ok() => {}
                        _ => return,
                    }
                }
            });
        }
    });
    port
}

fn request(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let number = |reader: &mut dyn BufRead| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse::<usize>().ok()
    };
    let count = number(reader)?;
    let mut arguments = Vec::new();
    for _ in 0..count {
        let mut argument = vec![0; number(reader)? + 2];
        reader.read_exact(&mut argument).ok()?;
        argument.truncate(argument.len() - 2);
        arguments.push(argument);
    }
    Some(arguments)
}

/// A path for a file that the test writes and deletes.
pub fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dolmen-bench-test-{}-{name}", std::process::id()))
}
