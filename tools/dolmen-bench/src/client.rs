//! A connection to a server: how it is opened, with clear words for what can go wrong, and one request at a time over it.

use std::fmt;
use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt, sockopt};
use nix::sys::time::TimeVal;

use crate::wire::reply::{NotTheProtocol, Outcome, Reader, whole};
use crate::wire::{Protocol, resp_request};

/// Where the server is.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Target::Tcp(host, port) => write!(f, "{host}:{port}"),
            Target::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Where the server is, and how one gets in.
#[derive(Clone, Debug)]
pub struct Access {
    pub target: Target,
    pub protocol: Protocol,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: u32,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Why there is no connection, or no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    NoServer { target: Target, why: String },
    OtherProtocol { protocol: Protocol, said: String },
    NeedsPassword,
    Refused { request: String, said: String },
    Silent(Duration),
    Closed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoServer { target, why } => write!(f, "no server at {target}: {why}"),
            Failure::OtherProtocol { protocol, said } => {
                write!(f, "the server does not speak {}: it says `{said}`", protocol.name())?;
                let looks_resp = said.starts_with(['-', '+', '$', '*', ':']);
                match (protocol.is_resp(), looks_resp) {
                    (true, _) if said.starts_with("ERROR") => f.write_str(" (memcached? --protocol memcached)"),
                    (false, true) => f.write_str(" (Redis? --protocol resp2)"),
                    _ => Ok(()),
                }
            }
            Failure::NeedsPassword => {
                f.write_str("the server wants a password: --password, and --user if it knows users")
            }
            Failure::Refused { request, said } => write!(f, "the server refuses {request}: {said}"),
            Failure::Silent(timeout) => write!(f, "the server has not answered for {} s", timeout.as_secs_f64()),
            Failure::Closed(why) => write!(f, "the server has closed the connection{why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// One connection with blocking calls.
pub struct Client {
    pub fd: OwnedFd,
    protocol: Protocol,
    timeout: Duration,
    /// What was received and not used yet.
    kept: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub outcome: Outcome,
    /// The last string or number; the line of an error.
    pub last: Vec<u8>,
}

impl Client {
    /// Connects, authenticates, chooses protocol and database.
    pub fn open(access: &Access) -> Result<Client, Failure> {
        let fd = connect(&access.target)?;
        let mut client = Client { fd, protocol: access.protocol, timeout: access.timeout, kept: Vec::new() };
        let limit = TimeVal::new(access.timeout.as_secs() as i64, i64::from(access.timeout.subsec_micros()));
        // Without the limit a silent server would be waited for: no harm to the figures.
        let _ = setsockopt(&client.fd, sockopt::ReceiveTimeout, &limit);
        if !access.protocol.is_resp() {
            let answer = client.exchange(b"version\r\n")?;
            if answer.outcome == Outcome::Error || !answer.last.starts_with(b"VERSION") {
                let said = answer.last.escape_ascii().to_string();
                return Err(Failure::OtherProtocol { protocol: access.protocol, said });
            }
            return Ok(client);
        }
        if let Some(password) = &access.password {
            let mut arguments = vec!["AUTH"];
            arguments.extend(access.user.as_deref());
            arguments.push(password);
            client.must("AUTH", &arguments)?;
        }
        client.must("PING", &["PING"])?;
        if access.protocol == Protocol::Resp3 {
            client.must("HELLO 3", &["HELLO", "3"])?;
        }
        if access.database != 0 {
            let database = access.database.to_string();
            client.must("SELECT", &["SELECT", &database])?;
        }
        Ok(client)
    }

    fn must(&mut self, request: &str, arguments: &[&str]) -> Result<Answer, Failure> {
        let answer = self.call(arguments)?;
        if answer.outcome != Outcome::Error {
            return Ok(answer);
        }
        if answer.last.starts_with(b"-NOAUTH") {
            return Err(Failure::NeedsPassword);
        }
        let said = String::from_utf8_lossy(&answer.last).trim_start_matches('-').to_string();
        Err(Failure::Refused { request: request.into(), said })
    }

    /// Sends a command of RESP and waits for its answer.
    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Result<Answer, Failure> {
        let arguments: Vec<&[u8]> = arguments.iter().map(AsRef::as_ref).collect();
        self.exchange(&resp_request(&arguments))
    }

    pub fn exchange(&mut self, request: &[u8]) -> Result<Answer, Failure> {
        self.send(request)?;
        self.answer()
    }

    /// Sends a command whose answer is large, and passes over that without keeping it. The line of it if it is an error.
    pub fn call_for_effect(&mut self, arguments: &[&str]) -> Result<Option<String>, Failure> {
        let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
        self.send(&resp_request(&arguments))?;
        let (mut reader, mut window) = (Reader::new(self.protocol), vec![0; 64 << 10]);
        loop {
            let mut answer = None;
            let passed = reader.skim(&self.kept, |outcome, _, line| {
                answer = Some((outcome == Outcome::Error).then(|| String::from_utf8_lossy(line).into_owned()));
            });
            let other = |NotTheProtocol(said)| Failure::OtherProtocol { protocol: self.protocol, said };
            self.kept.drain(..passed.map_err(other)?);
            if let Some(error) = answer {
                return Ok(error);
            }
            let received = self.receive(&mut window)?;
            self.kept.extend_from_slice(&window[..received]);
        }
    }

    fn receive(&mut self, window: &mut [u8]) -> Result<usize, Failure> {
        loop {
            match recv(self.fd.as_raw_fd(), window, MsgFlags::empty()) {
                Ok(0) => return Err(Failure::Closed(String::new())),
                Ok(received) => return Ok(received),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Err(Failure::Silent(self.timeout)),
                Err(error) => return Err(closed(error)),
            }
        }
    }

    pub fn send(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            match send(self.fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::EINTR) => {}
                Err(error) => return Err(closed(error)),
            }
        }
        Ok(())
    }

    /// The next answer or message.
    pub fn answer(&mut self) -> Result<Answer, Failure> {
        let mut window = [0; 4096];
        loop {
            match whole(self.protocol, &self.kept) {
                Ok(Some(reply)) => {
                    let answer = Answer { outcome: reply.outcome, last: reply.last.to_vec() };
                    self.kept.drain(..reply.length);
                    return Ok(answer);
                }
                Ok(None) => {}
                Err(NotTheProtocol(said)) => {
                    return Err(Failure::OtherProtocol { protocol: self.protocol, said });
                }
            }
            let received = self.receive(&mut window)?;
            self.kept.extend_from_slice(&window[..received]);
        }
    }

    /// A field of INFO, if the server has it.
    pub fn info(&mut self, section: &str, field: &str) -> Option<String> {
        let answer = self.call(&["INFO", section]).ok().filter(|answer| answer.outcome == Outcome::Done)?;
        let text = String::from_utf8_lossy(&answer.last).into_owned();
        text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(|value| value.trim().to_string()))
    }

    /// What the server says it is.
    pub fn version(&mut self) -> Option<String> {
        if !self.protocol.is_resp() {
            let answer = self.exchange(b"version\r\n").ok()?;
            let version = String::from_utf8_lossy(&answer.last).replace("VERSION", "");
            return Some(format!("memcached{version}"));
        }
        for (field, name) in [("dolmen_version", "dolmen"), ("valkey_version", "valkey"), ("redis_version", "redis")] {
            if let Some(version) = self.info("server", field) {
                return Some(format!("{name} {version}"));
            }
        }
        None
    }

    /// What was received beyond the last answer.
    pub fn into_parts(self) -> (OwnedFd, Vec<u8>) {
        (self.fd, self.kept)
    }
}

pub fn closed(error: Errno) -> Failure {
    Failure::Closed(format!(": {}", error.desc()))
}

fn connect(target: &Target) -> Result<OwnedFd, Failure> {
    let no_server = |error: std::io::Error| {
        let why = match error.kind() {
            ErrorKind::ConnectionRefused => "connection refused".to_string(),
            ErrorKind::NotFound => "there is no such socket".to_string(),
            ErrorKind::TimedOut => "it does not answer".to_string(),
            _ => error.to_string(),
        };
        Failure::NoServer { target: target.clone(), why }
    };
    match target {
        Target::Unix(path) => Ok(UnixStream::connect(path).map_err(no_server)?.into()),
        Target::Tcp(host, port) => {
            let mut last = std::io::Error::new(ErrorKind::NotFound, "the name has no address");
            for address in (host.as_str(), *port).to_socket_addrs().map_err(no_server)? {
                match TcpStream::connect_timeout(&address, Duration::from_secs(10)) {
                    Ok(stream) => {
                        stream.set_nodelay(true).map_err(no_server)?;
                        return Ok(stream.into());
                    }
                    Err(error) => last = error,
                }
            }
            Err(no_server(last))
        }
    }
}
