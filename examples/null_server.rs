//! A server that parses every request, looks nothing up and answers a constant: what the network layer costs, to compare with the
//! same thing written in C. It trusts its client, and is no part of the product.
//!
//! `cargo run --release --example null_server -- PORT VALUE_BYTES`
use dolmen::base::out::Out;
use dolmen::net::{Backend, ConnId, Epoll, Flow, Handler, Listen, Peer, SocketConfig, Why};

struct Null {
    value: Vec<u8>,
    /// Incomplete requests, by the index of the connection.
    carry: Vec<Vec<u8>>,
    over: bool,
}

/// Digits up to CRLF; the rest begins behind it.
#[inline]
fn number(p: &[u8]) -> Option<(usize, &[u8])> {
    let mut n = 0;
    let mut i = 0;
    loop {
        match p.get(i)? {
            b'\r' => return Some((n, p.get(i + 2..)?)),
            digit => n = n * 10 + usize::from(digit - b'0'),
        }
        i += 1;
    }
}

impl Null {
    /// Answers the first request; the rest behind it, or `None` while it is incomplete.
    #[inline]
    fn request<'a>(&self, p: &'a [u8], out: &mut Out) -> Option<&'a [u8]> {
        let (args, mut rest) = number(p.get(1..)?)?;
        let mut name = [0; 2];
        for k in 0..args {
            let (length, body) = number(rest.get(1..)?)?;
            rest = body.get(length + 2..)?;
            if k == 0 {
                name = [body[0] | 32, body[1] | 32];
            }
        }
        match &name {
            b"ge" => out.extend(&self.value),
            b"mg" => {
                out.extend(format!("*{}\r\n", args - 1).as_bytes());
                (1..args).for_each(|_| out.extend(&self.value));
            }
            b"co" => out.extend(b"*0\r\n"),
            _ => out.extend(b"+OK\r\n"),
        }
        Some(rest)
    }

    fn requests<'a>(&self, mut bytes: &'a [u8], out: &mut Out) -> &'a [u8] {
        while !bytes.is_empty() {
            let Some(rest) = self.request(bytes, out) else { break };
            bytes = rest;
        }
        bytes
    }
}

impl Handler for Null {
    fn opened(&mut self, conn: ConnId, _peer: Peer, _out: &mut Out) -> Flow {
        let index = conn.index as usize;
        if self.carry.len() <= index {
            self.carry.resize(index + 1, Vec::new());
        }
        self.carry[index].clear();
        Flow::Read
    }

    fn data(&mut self, conn: ConnId, bytes: &[u8], out: &mut Out) -> Flow {
        let index = conn.index as usize;
        if self.carry[index].is_empty() {
            let rest = self.requests(bytes, out);
            if !rest.is_empty() {
                self.carry[index].extend_from_slice(rest);
            }
        } else {
            let mut carry = std::mem::take(&mut self.carry[index]);
            carry.extend_from_slice(bytes);
            let rest = self.requests(&carry, out).len();
            carry.drain(..carry.len() - rest);
            self.carry[index] = carry;
        }
        Flow::Read
    }

    fn sink(&mut self, _conn: ConnId) -> &mut [u8] {
        unreachable!("never asked for")
    }
    fn sunk(&mut self, _conn: ConnId, _bytes: usize, _out: &mut Out) -> Flow {
        unreachable!("never asked for")
    }
    fn sent(&mut self, _conn: ConnId, _queued: usize, _out: &mut Out) {}
    fn closed(&mut self, conn: ConnId, _why: Why) {
        self.carry[conn.index as usize] = Vec::new();
    }
    fn signal(&mut self, _signo: i32) {
        self.over = true;
    }
}

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().expect("a number"));
    let port = args.next().and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    let length = args.next().unwrap_or(3);
    let mut value = format!("${length}\r\n").into_bytes();
    value.resize(value.len() + length, b'x');
    value.extend_from_slice(b"\r\n");

    let mut net = Epoll::new(SocketConfig::default())?;
    net.enable_signals()?;
    net.listen(&Listen { bind: vec!["127.0.0.1".into()], port: Some(port), backlog: 1024, ..Listen::default() })?;
    for address in net.local_addrs() {
        println!("{address}");
    }
    let mut handler = Null { value, carry: Vec::new(), over: false };
    while !handler.over {
        net.poll(&mut handler, None)?;
        net.flush(&mut handler);
    }
    Ok(())
}
