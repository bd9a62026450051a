//! Starts servers, and a small RESP2/RESP3 client that is independent of the server's own code.
//!
//! Every wait has a deadline (`PATIENCE`), so a hang is a failure and not a stuck run. A server lives in its own temporary folder
//! on a port nobody else had, and is killed by its pid when its `Server` is dropped, on panic as well.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long anything may take before it counts as hanging. Generous, since it only ever runs out when something is broken.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Dolmen,
    Redis,
}

/// The server under test.
pub fn under_test() -> (&'static Path, Kind) {
    static BINARY: OnceLock<(PathBuf, Kind)> = OnceLock::new();
    let (path, kind) = BINARY.get_or_init(|| {
        let path = std::env::var_os("DOLMEN_TEST_SERVER").unwrap_or_else(|| env!("CARGO_BIN_EXE_dolmen").into());
        let told = Command::new(&path).arg("--version").output().expect("the server under test runs");
        let kind = if told.stdout.starts_with(b"Redis server") { Kind::Redis } else { Kind::Dolmen };
        (path.into(), kind)
    });
    (path, *kind)
}

/// Whether a missing tool is a failure instead of a note.
pub fn peers_required() -> bool {
    std::env::var_os("DOLMEN_REQUIRE_PEERS").is_some()
}

/// Whether the tests that move gigabytes are to run.
pub fn heavy() -> bool {
    std::env::var_os("DOLMEN_HEAVY").is_some()
}

/// Says that a test did nothing, and why; fails where that is not allowed.
pub fn skip(test: &str, why: &str) {
    assert!(!peers_required(), "{test} cannot run: {why}");
    // Past the capture of the test runner, so that it is seen without --nocapture.
    writeln!(io::stderr().lock(), "SKIPPED {test}: {why}").expect("stderr takes a line");
}

/// The path of a program, if the machine has it.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Polls until `done`, or fails with `what`.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Raises the limit of open files of this process (and of servers started after it) to `files`. False: the machine forbids it.
pub fn allow_open_files(files: u64) -> bool {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return false };
    soft >= files || setrlimit(Resource::RLIMIT_NOFILE, files, hard.max(files)).is_ok()
}

/// A folder that goes when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dolmen-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server.
pub struct Server {
    child: Child,
    folder: Folder,
    pub port: u16,
    pub kind: Kind,
}

impl Server {
    /// The server under test with its defaults.
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// The server under test with more arguments on its command line.
    pub fn with(arguments: &[&str]) -> Server {
        let (binary, kind) = under_test();
        Server::run(binary, kind, None, arguments)
    }

    /// The server under test with a configuration file of this text as its first argument.
    pub fn configured(text: &str, arguments: &[&str]) -> Server {
        let (binary, kind) = under_test();
        Server::run(binary, kind, Some(text), arguments)
    }

    /// `redis-server`, as the oracle beside the server under test.
    pub fn oracle() -> Option<Server> {
        program("redis-server").map(|binary| Server::run(&binary, Kind::Redis, None, &[]))
    }

    /// `redis-server` with more arguments.
    pub fn other(binary: &Path, arguments: &[&str]) -> Server {
        Server::run(binary, Kind::Redis, None, arguments)
    }

    fn run(binary: &Path, kind: Kind, file: Option<&str>, arguments: &[&str]) -> Server {
        // Between letting go of the free port and the server's bind somebody else may take it: then the server exits, and we try again.
        for _ in 0..20 {
            let port = free_port();
            if let Some(server) = Server::try_run(binary, kind, port, file, arguments) {
                return server;
            }
        }
        panic!("{} {arguments:?} did not come up on any of 20 free ports", binary.display());
    }

    fn try_run(binary: &Path, kind: Kind, port: u16, file: Option<&str>, arguments: &[&str]) -> Option<Server> {
        let folder = Folder::new();
        let mut command = Command::new(binary);
        if let Some(text) = file {
            let path = folder.path().join("server.conf");
            fs::write(&path, text).expect("a configuration file");
            command.arg(path);
        }
        common_arguments(&mut command, port, folder.path());
        if kind == Kind::Dolmen
            && let Some(net) = std::env::var_os("DOLMEN_TEST_NET")
        {
            command.arg("--net").arg(net);
        }
        let log = File::create(folder.path().join("output")).expect("a file for the server's output");
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a second handle of the log"))
            .stdout(log)
            .spawn()
            .expect("the server starts");
        let mut server = Server { child, folder, port, kind };
        let deadline = Instant::now() + PATIENCE;
        loop {
            if server.listens() {
                return Some(server);
            }
            if let Some(status) = server.child.try_wait().expect("the child can be waited for") {
                let output = server.output();
                // The two ways in which servers say EADDRINUSE.
                let clash = output.contains("Address already in use") || output.contains("address in use");
                assert!(clash, "the server exited at once ({status}):\n{output}");
                return None;
            }
            assert!(Instant::now() < deadline, "the server does not listen:\n{}", server.output());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether *this* process listens on the port: another one may have been faster, and would answer a PING as well.
    fn listens(&self) -> bool {
        let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        let local = format!(":{:04X}", self.port);
        let inodes: Vec<String> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|row| row.len() > 9 && row[1].ends_with(&local) && row[3] == "0A")
            .map(|row| format!("socket:[{}]", row[9]))
            .collect();
        let Ok(descriptors) = fs::read_dir(format!("/proc/{}/fd", self.pid())) else { return false };
        descriptors
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .any(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str()))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder it runs in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it wrote to stdout and stderr.
    pub fn output(&self) -> String {
        let bytes = fs::read(self.folder.path().join("output")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn is_redis(&self) -> bool {
        self.kind == Kind::Redis
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.port)
    }

    /// A new connection that speaks RESP3.
    pub fn client3(&self) -> Client {
        let mut client = self.client();
        assert!(matches!(client.run("HELLO 3"), Reply::Map(_)), "HELLO 3 is answered by a map");
        client
    }

    /// PING on a connection of its own is answered.
    pub fn assert_alive(&self) {
        assert_eq!(self.client().run("PING"), Reply::Simple("PONG".into()));
    }

    /// Resident memory of the process.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the server's status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a VmRSS line");
        let kib: u64 = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number of kB");
        kib * 1024
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("a pid"));
        kill(pid, signal).expect("the server can be signalled");
    }

    /// Waits until the process has gone by itself.
    pub fn wait_exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "the server does not exit:\n{}", self.output());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let exited = self.child.try_wait().ok().flatten();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let how = exited.map_or("was still running".to_string(), |status| format!("had exited: {status}"));
            eprintln!("--- the server {how}; its output:\n{}---", self.output());
        } else if let Some(status) = exited {
            // Whoever expects the server to go waits for it; nobody may overlook a crash.
            assert!(status.success(), "the server had crashed: {status}\n{}", self.output());
        }
    }
}

/// What every server is told.
fn common_arguments(command: &mut Command, port: u16, folder: &Path) {
    command.current_dir(folder);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    command.arg("--dir").arg(folder);
    // Whoever wants files says so; they are in the server's folder.
    command.args(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"]);
}

/// Runs the server under test with `arguments` only, to its end, and returns its status and all it wrote.
pub fn run_to_end(arguments: &[&str]) -> (ExitStatus, String) {
    let folder = Folder::new();
    let log = folder.path().join("output");
    let file = File::create(&log).expect("a file for the server's output");
    let mut child = Command::new(under_test().0)
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stderr(file.try_clone().expect("a second handle"))
        .stdout(file)
        .spawn()
        .expect("the server starts");
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            break status;
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{arguments:?}: the server was expected to exit");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    (status, String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned())
}

/// A port that nobody listens on at this moment.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// A reply, with everything that tells one RESP type from another.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    /// RESP2's `$-1`.
    NilBulk,
    /// RESP2's `*-1`.
    NilArray,
    /// RESP3's `_`.
    Null,
    Bool(bool),
    Double(String),
    BigNumber(String),
    /// Format (`txt`, `mkd`) and text.
    Verbatim(String, Vec<u8>),
    Array(Vec<Reply>),
    Set(Vec<Reply>),
    Push(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    pub fn bulk(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().to_vec())
    }

    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(n) => *n,
            other => panic!("expected an integer, got {other}"),
        }
    }

    /// The bytes of a bulk, simple or verbatim string.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => bytes,
            Reply::Simple(text) => text.as_bytes(),
            other => panic!("expected a string, got {other}"),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("text")
    }

    /// The elements of an array, set or push.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items,
            other => panic!("expected an array, got {other}"),
        }
    }

    /// Pairs of a map, or of an array that RESP2 sends in its place.
    pub fn pairs(&self) -> Vec<(Reply, Reply)> {
        match self {
            Reply::Map(pairs) => pairs.clone(),
            Reply::Array(items) => {
                assert!(items.len().is_multiple_of(2), "an even number of elements in {self}");
                items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
            }
            other => panic!("expected a map, got {other}"),
        }
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

/// The notation of scripts: `+OK`, `-ERR text`, `:1`, `'bulk'`, `nil`, `nil*`, `null`, `#t`, `,1.5`, `=txt:'text'`, `['a', :1]`, `~[...]`,
/// `>[...]`, `{'k': 'v'}`. Bulk strings are quoted as the arguments of commands are.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list(f: &mut fmt::Formatter<'_>, open: &str, items: &[Reply]) -> fmt::Result {
            f.write_str(open)?;
            for (i, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str("]")
        }
        match self {
            Reply::Simple(text) => write!(f, "+{text}"),
            Reply::Error(text) => write!(f, "-{text}"),
            Reply::Int(n) => write!(f, ":{n}"),
            Reply::Bulk(bytes) => f.write_str(&quoted(bytes)),
            Reply::NilBulk => f.write_str("nil"),
            Reply::NilArray => f.write_str("nil*"),
            Reply::Null => f.write_str("null"),
            Reply::Bool(b) => f.write_str(if *b { "#t" } else { "#f" }),
            Reply::Double(text) => write!(f, ",{text}"),
            Reply::BigNumber(text) => write!(f, "({text}"),
            Reply::Verbatim(format, bytes) => write!(f, "={format}:{}", quoted(bytes)),
            Reply::Array(items) => list(f, "[", items),
            Reply::Set(items) => list(f, "~[", items),
            Reply::Push(items) => list(f, ">[", items),
            Reply::Map(pairs) => {
                f.write_str("{")?;
                for (i, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Bytes as printable text in single quotes (`words` reads them back); long ones are cut.
pub fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("'");
    for &byte in bytes.iter().take(4096) {
        match byte {
            b'\'' | b'\\' => text.extend(['\\', char::from(byte)]),
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => write!(text, "\\x{byte:02x}").expect("a string takes everything"),
        }
    }
    text.push('\'');
    if bytes.len() > 4096 {
        write!(text, "... ({} bytes)", bytes.len()).expect("a string takes everything");
    }
    text
}

/// A connection. Everything it does gives up after `PATIENCE`.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(port: u16) -> Client {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server accepts");
        Client::over(stream)
    }

    pub fn over(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Client { stream: BufReader::with_capacity(64 * 1024, stream) }
    }

    pub fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("the server reads what is sent");
    }

    /// The next reply.
    pub fn read(&mut self) -> Reply {
        self.try_read().unwrap_or_else(|error| panic!("no reply: {error}"))
    }

    /// Sends one command as a multibulk request and returns its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Reply {
        self.send(&request(arguments));
        self.read()
    }

    /// `call` with the words of a line (see `words`).
    pub fn run(&mut self, line: &str) -> Reply {
        self.call(&words(line))
    }

    /// `run`, and the reply must render as `expected` (see `script`).
    pub fn expect(&mut self, line: &str, expected: &str) {
        let reply = self.run(line);
        assert!(matches(&reply, expected), "{line}\n  expected {expected}\n  received {reply}");
    }

    /// Sends all lines in one write, and returns all replies.
    pub fn pipeline(&mut self, lines: &[&str]) -> Vec<Reply> {
        let bytes: Vec<u8> = lines.iter().flat_map(|line| request(&words(line))).collect();
        self.send(&bytes);
        lines.iter().map(|_| self.read()).collect()
    }

    /// The server has closed, or does so now, without saying anything more.
    pub fn expect_closed(&mut self) {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => {}
            Ok(_) => panic!("expected the connection to be closed, received {:?}...", char::from(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("expected the connection to be closed: {error}"),
        }
    }

    /// Whether PING is answered as it should be, now (a server that is full says so and closes).
    pub fn try_read_pong(&mut self) -> bool {
        let sent = self.stream.get_mut().write_all(&request(&["PING"]));
        sent.is_ok() && matches!(self.try_read(), Ok(Reply::Simple(text)) if text == "PONG")
    }

    /// A field of INFO.
    pub fn info(&mut self, field: &str) -> String {
        let all = self.run("INFO").text();
        let found = all.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_string));
        found.unwrap_or_else(|| panic!("INFO has no field {field}:\n{all}"))
    }

    pub fn info_number(&mut self, field: &str) -> u64 {
        let text = self.info(field);
        text.parse().unwrap_or_else(|_| panic!("INFO {field} is a number, not {text:?}"))
    }

    pub fn try_read(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (&kind, rest) = line.split_first().ok_or_else(|| invalid("an empty line for a reply"))?;
        let text = || String::from_utf8(rest.to_vec()).map_err(|_| invalid("a header that is not text"));
        let number = || text()?.parse::<i64>().map_err(|_| invalid("a header that is not a number"));
        let length = || usize::try_from(number()?).map_err(|_| invalid("a negative length"));
        Ok(match kind {
            b'+' => Reply::Simple(text()?),
            // An error repeats what it was sent, so it need not be text.
            b'-' => Reply::Error(String::from_utf8_lossy(rest).into_owned()),
            b':' => Reply::Int(number()?),
            b'$' if rest == b"-1" => Reply::NilBulk,
            b'$' => Reply::Bulk(self.block(length()?)?),
            b'*' if rest == b"-1" => Reply::NilArray,
            b'*' => Reply::Array(self.several(length()?)?),
            b'~' => Reply::Set(self.several(length()?)?),
            b'>' => Reply::Push(self.several(length()?)?),
            b'%' => {
                let items = self.several(length()? * 2)?;
                Reply::Map(items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
            }
            b'_' if rest.is_empty() => Reply::Null,
            b'#' if rest == b"t" => Reply::Bool(true),
            b'#' if rest == b"f" => Reply::Bool(false),
            b',' => Reply::Double(text()?),
            b'(' => Reply::BigNumber(text()?),
            b'=' => {
                let block = self.block(length()?)?;
                if block.len() < 4 || block[3] != b':' {
                    return Err(invalid("a verbatim string without its format"));
                }
                Reply::Verbatim(String::from_utf8_lossy(&block[..3]).into_owned(), block[4..].to_vec())
            }
            _ => return Err(invalid(&format!("no reply starts like {}", quoted(&line)))),
        })
    }

    fn several(&mut self, count: usize) -> io::Result<Vec<Reply>> {
        (0..count).map(|_| self.try_read()).collect()
    }

    /// Up to CRLF, which must be a CRLF.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !line.ends_with(b"\r\n") {
            return Err(invalid(&format!("a line without CRLF: {}", quoted(&line))));
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }

    fn block(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut block = vec![0; bytes + 2];
        self.stream.read_exact(&mut block)?;
        if !block.ends_with(b"\r\n") {
            return Err(invalid("a bulk string of another length than it said"));
        }
        block.truncate(bytes);
        Ok(block)
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A multibulk request.
pub fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Splits at blanks. Single quotes hold blanks and nothing (`''`) together; inside them `\r`, `\n`, `\t`, `\xHH`, `\'` and `\\` stand for one byte.
pub fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut bytes = line.bytes().peekable();
    while let Some(&byte) = bytes.peek() {
        if byte == b' ' {
            bytes.next();
            continue;
        }
        let mut word = Vec::new();
        let mut inside = false;
        while let Some(&byte) = bytes.peek() {
            if byte == b' ' && !inside {
                break;
            }
            bytes.next();
            match byte {
                b'\'' => inside = !inside,
                b'\\' if inside => word.push(match bytes.next() {
                    Some(b'r') => b'\r',
                    Some(b'n') => b'\n',
                    Some(b't') => b'\t',
                    Some(b'x') => {
                        let digits = [bytes.next(), bytes.next()].map(|digit| char::from(digit.expect("two digits")));
                        u8::from_str_radix(&String::from_iter(digits), 16).expect("two hexadecimal digits")
                    }
                    other => other.expect("something after a backslash"),
                }),
                _ => word.push(byte),
            }
        }
        assert!(!inside, "an open quote in {line}");
        words.push(word);
    }
    words
}

/// Whether a reply is the expected one. Errors are compared by their beginning; `:5..9` is any integer from 5 to 9, `...` anything but an error.
pub fn matches(reply: &Reply, expected: &str) -> bool {
    match reply {
        Reply::Error(text) => expected.strip_prefix('-').is_some_and(|start| text.starts_with(start)),
        Reply::Int(n) if expected.contains("..") => {
            let range = expected.strip_prefix(':').and_then(|range| range.split_once(".."));
            let (low, high) = range.expect("a range of integers");
            (low.parse().expect("a number")..=high.parse().expect("a number")).contains(n)
        }
        _ if expected == "..." || reply.to_string() == expected => true,
        // With ranges in it.
        Reply::Array(items) if expected.contains("..") => {
            let parts = expected.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(|rest| rest.split(", "));
            let parts: Vec<&str> = parts.map(Iterator::collect).unwrap_or_default();
            parts.len() == items.len() && items.iter().zip(parts).all(|(item, part)| matches(item, part))
        }
        _ => false,
    }
}

/// Runs a script: a line each, `COMMAND arguments => reply` (`words`, `matches`; the notation of `Reply`'s `Display`). Empty lines and those
/// that start with `#` are comments; `dolmen>` before a command keeps it from `redis-server`, `redis>` from Dolmen.
pub fn script(server: &Server, client: &mut Client, text: &str) {
    let (mut failures, mut ran) = (String::new(), 0);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = match (line.strip_prefix("dolmen>"), line.strip_prefix("redis>")) {
            (Some(_), _) if server.kind == Kind::Redis => continue,
            (_, Some(_)) if server.kind == Kind::Dolmen => continue,
            (rest, other) => rest.or(other).unwrap_or(line).trim(),
        };
        let (command, expected) = line.rsplit_once("=>").unwrap_or_else(|| panic!("no => in {line:?}"));
        let (command, expected) = (command.trim(), expected.trim());
        let reply = client.run(command);
        ran += 1;
        if !matches(&reply, expected) {
            writeln!(failures, "  line {number}: {command}\n    expected {expected}\n    received {reply}")
                .expect("a string");
        }
    }
    assert!(ran > 0, "a script that runs nothing");
    assert!(failures.is_empty(), "the script went wrong:\n{failures}");
}
