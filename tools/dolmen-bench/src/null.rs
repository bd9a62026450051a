//! The floor: a server that parses every request, looks nothing up, stores nothing, and answers a constant of the right kind. What it takes is
//! what epoll, recv, one pass over the request and send take on this machine; a real server is judged by what it adds.
//!
//! It trusts its client. RESP: GET answers a value, MGET one a key, LRANGE as many as its last number says and one more, CONFIG and
//! COMMAND an empty array, INFO an empty string, anything else +OK. memcached: `get` a value for each key, `set` STORED, `version` a version.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{MsgFlags, recv, send};

use crate::interrupt::Interrupt;

/// A listener's name among the events; connections are named by descriptor.
const LISTENER: u64 = u64::MAX;

struct Connection {
    fd: OwnedFd,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    sent: usize,
}

const INPUT_BYTES: usize = 64 << 10;

/// Constants to answer with.
pub struct Answers {
    /// As a bulk string of RESP.
    bulk: Vec<u8>,
    value_bytes: usize,
}

impl Answers {
    pub fn new(value_bytes: usize) -> Answers {
        let mut bulk = format!("${value_bytes}\r\n").into_bytes();
        bulk.resize(bulk.len() + value_bytes, b'x');
        bulk.extend_from_slice(b"\r\n");
        Answers { bulk, value_bytes }
    }
}

/// Serves until it is interrupted.
pub fn serve(port: u16, value_bytes: usize, interrupt: &Interrupt) -> Result<(), String> {
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| format!("port {port}: {error}"))?;
    // Whoever asked for any port reads which one it is.
    println!("listening on {}", listener.local_addr().map_err(|error| error.to_string())?);
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    serve_on(&listener, &Answers::new(value_bytes), || interrupt.happened()).map_err(|error| error.desc().to_string())
}

/// Serves until `over` says so; it is asked at least ten times a second.
pub fn serve_on(listener: &TcpListener, answers: &Answers, over: impl Fn() -> bool) -> Result<(), Errno> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let mut events = [EpollEvent::empty(); 1024];
    let mut pending = Vec::new();
    while !over() {
        let ready = match epoll.wait(&mut events, 100u8) {
            Err(Errno::EINTR) => 0,
            ready => ready?,
        };
        for event in &events[..ready] {
            let name = event.data();
            if name == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
                    let fd = OwnedFd::from(stream);
                    let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
                    let name = fd.as_raw_fd() as u64;
                    if set.is_ok() && epoll.add(&fd, EpollEvent::new(flags, name)).is_ok() {
                        let input = vec![0; INPUT_BYTES];
                        connections.insert(name, Connection { fd, input, filled: 0, output: Vec::new(), sent: 0 });
                    }
                }
                continue;
            }
            let Some(connection) = connections.get_mut(&name) else { continue };
            let waiting = !connection.output.is_empty();
            if !connection.receive(answers) {
                connections.remove(&name);
            } else if waiting || !connection.output.is_empty() {
                pending.push(name);
            }
        }
        // Replies wait until all events of one wake-up are read.
        for name in pending.drain(..) {
            if connections.get_mut(&name).is_some_and(|connection| connection.flush().is_err()) {
                connections.remove(&name);
            }
        }
    }
    Ok(())
}

impl Connection {
    /// Reads and answers what is there; false when the client is gone.
    fn receive(&mut self, answers: &Answers) -> bool {
        loop {
            if self.input.len() - self.filled < INPUT_BYTES / 4 {
                let more = self.input.len() * 2;
                self.input.resize(more, 0);
            }
            let room = self.input.len() - self.filled;
            match recv(self.fd.as_raw_fd(), &mut self.input[self.filled..], MsgFlags::empty()) {
                Ok(0) => return false,
                Ok(received) => {
                    self.filled += received;
                    let done = answer_all(&self.input[..self.filled], &mut self.output, answers);
                    if done < self.filled {
                        self.input.copy_within(done..self.filled, 0);
                    }
                    self.filled -= done;
                    if received < room {
                        return true;
                    }
                }
                Err(Errno::EAGAIN) => return true,
                Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn flush(&mut self) -> Result<(), Errno> {
        while self.sent < self.output.len() {
            match send(self.fd.as_raw_fd(), &self.output[self.sent..], MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }
}

/// Answers the requests that are complete; returns where the first one begins that is not.
fn answer_all(input: &[u8], output: &mut Vec<u8>, answers: &Answers) -> usize {
    let mut at = 0;
    while at < input.len() {
        let rest = &input[at..];
        let length = if rest[0] == b'*' { resp(rest, output, answers) } else { text(rest, output, answers) };
        match length {
            Some(length) => at += length,
            None => break,
        }
    }
    at
}

/// A number and the end of its line: (number, bytes).
#[inline]
fn number(bytes: &[u8]) -> Option<(usize, usize)> {
    let (mut value, mut at) = (0usize, 0);
    loop {
        let digit = bytes.get(at)?.wrapping_sub(b'0');
        if digit > 9 {
            return (at + 2 <= bytes.len()).then_some((value, at + 2));
        }
        value = value.wrapping_mul(10).wrapping_add(usize::from(digit));
        at += 1;
    }
}

fn resp(input: &[u8], output: &mut Vec<u8>, answers: &Answers) -> Option<usize> {
    let (arguments, length) = number(&input[1..])?;
    let mut at = 1 + length;
    let mut name = [0u8; 2];
    let mut last = 0;
    for argument in 0..arguments {
        let (size, length) = number(input.get(at + 1..)?)?;
        at += 1 + length;
        if input.len() < at + size + 2 {
            return None;
        }
        let bytes = &input[at..at + size];
        if argument == 0 {
            name = [bytes.first().map_or(0, |byte| byte | 32), bytes.get(1).map_or(0, |byte| byte | 32)];
        } else if argument + 1 == arguments && name == *b"lr" {
            last = number(&input[at..]).map_or(0, |(last, _)| last.min(1 << 20));
        }
        at += size + 2;
    }
    let values = match &name {
        [b'g', b'e'] => 1,
        b"mg" => {
            output.extend_from_slice(format!("*{}\r\n", arguments - 1).as_bytes());
            arguments - 1
        }
        b"lr" => {
            output.extend_from_slice(format!("*{}\r\n", last + 1).as_bytes());
            last + 1
        }
        b"co" => {
            output.extend_from_slice(b"*0\r\n");
            0
        }
        b"in" if is_info(input) => {
            output.extend_from_slice(b"$0\r\n\r\n");
            0
        }
        _ => {
            output.extend_from_slice(b"+OK\r\n");
            0
        }
    };
    for _ in 0..values {
        output.extend_from_slice(&answers.bulk);
    }
    Some(at)
}

fn is_info(input: &[u8]) -> bool {
    input.get(8..12).is_some_and(|name| name.eq_ignore_ascii_case(b"info"))
}

/// Lines: of memcached, or an inline command of RESP.
fn text(input: &[u8], output: &mut Vec<u8>, answers: &Answers) -> Option<usize> {
    let end = memchr::memchr(b'\n', input)?;
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    let length = end + 1;
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    match words.next().unwrap_or_default() {
        b"get" | b"gets" => {
            for key in words {
                output.extend_from_slice(b"VALUE ");
                output.extend_from_slice(key);
                output.extend_from_slice(format!(" 0 {}\r\n", answers.value_bytes).as_bytes());
                output.extend_from_slice(&answers.bulk[answers.bulk.len() - answers.value_bytes - 2..]);
            }
            output.extend_from_slice(b"END\r\n");
        }
        b"set" | b"add" | b"replace" => {
            let quiet = line.ends_with(b" noreply");
            let size =
                words.nth(3).and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<usize>().ok()).unwrap_or(0);
            if input.len() < length + size + 2 {
                return None;
            }
            if !quiet {
                output.extend_from_slice(b"STORED\r\n");
            }
            return Some(length + size + 2);
        }
        b"incr" | b"decr" => output.extend_from_slice(b"1\r\n"),
        b"delete" => output.extend_from_slice(b"DELETED\r\n"),
        b"version" => output.extend_from_slice(b"VERSION null\r\n"),
        b"PING" => output.extend_from_slice(b"+PONG\r\n"),
        _ => output.extend_from_slice(b"+OK\r\n"),
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_of_the_right_kind_whatever_the_cuts() {
        let input = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nabc\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n\
            *4\r\n$6\r\nLRANGE\r\n$1\r\nl\r\n$1\r\n0\r\n$1\r\n2\r\nset k 0 0 2\r\nab\r\nget a b\r\nPING\r\n*1\r\n$4\r\nINFO\r\n*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n";
        let expected = "+OK\r\n$2\r\nxx\r\n*2\r\n$2\r\nxx\r\n$2\r\nxx\r\n*3\r\n$2\r\nxx\r\n$2\r\nxx\r\n$2\r\nxx\r\n\
            STORED\r\nVALUE a 0 2\r\nxx\r\nVALUE b 0 2\r\nxx\r\nEND\r\n+PONG\r\n$0\r\n\r\n+OK\r\n";
        for piece in 1..input.len() {
            let (mut output, mut kept) = (Vec::new(), Vec::new());
            for chunk in input.chunks(piece) {
                kept.extend_from_slice(chunk);
                let done = answer_all(&kept, &mut output, &Answers::new(2));
                kept.drain(..done);
            }
            assert_eq!(String::from_utf8_lossy(&output), expected, "pieces of {piece}");
        }
    }
}
