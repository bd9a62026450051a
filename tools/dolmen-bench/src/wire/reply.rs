//! Recognises replies in a stream that arrives in pieces.
//!
//! [`Reader::skim`] counts replies and passes over their contents, which need not be in one piece: its state is two counters.
//! [`whole`] needs one reply in one piece and tells where its last string is; verification and subscribers use it.

use super::Protocol;

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// A null, or memcached's END without a value, NOT_FOUND and NOT_STORED.
    Miss,
    Error,
    /// A message that answers no request.
    Push,
}

/// The stream is not of the protocol: what stands there instead.
#[derive(Debug, PartialEq, Eq)]
pub struct NotTheProtocol(pub String);

/// The longest line that is waited for; an error text is far shorter.
const LINE_MAX: usize = 64 * 1024;

/// Counts replies, wherever the pieces are cut.
#[derive(Debug)]
pub struct Reader {
    protocol: Protocol,
    /// Elements missing of the reply under way; 0 between replies.
    pending: u64,
    /// Bytes missing of the string under way, with its line end.
    skip: usize,
    outcome: Outcome,
    usual: Usual,
}

/// How the last simple reply began. Replies mostly repeat: one that begins alike is as long and says as much.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    /// The first eight bytes, those beyond the first line as zeros, and which of them are of the first line.
    head: u64,
    mask: u64,
    /// 0: none yet.
    length: usize,
}

impl Usual {
    /// Of a reply whose first line, with its end, has at most eight bytes.
    fn new(line: &[u8], length: usize) -> Usual {
        let mut head = [0; 8];
        head[..line.len()].copy_from_slice(line);
        let mask = if line.len() == 8 { u64::MAX } else { (1 << (8 * line.len())) - 1 };
        Usual { head: u64::from_le_bytes(head), mask, length }
    }

    /// How many replies like this follow each other here, and how many bytes they have.
    #[inline]
    fn run(self, bytes: &[u8]) -> (u32, usize) {
        let (mut count, mut at) = (0, 0);
        let room = self.length.max(8);
        if self.length > 0 {
            while let Some(head) = bytes.get(at..at + room).and_then(|rest| rest.first_chunk::<8>()) {
                if u64::from_le_bytes(*head) & self.mask != self.head {
                    break;
                }
                count += 1;
                at += self.length;
            }
        }
        (count, at)
    }
}

impl Reader {
    pub fn new(protocol: Protocol) -> Reader {
        Reader { protocol, pending: 0, skip: 0, outcome: Outcome::Done, usual: Usual::default() }
    }

    /// Calls `on` for replies that end in `bytes`: so many with this outcome, and the line of an error. Returns how many bytes are done
    /// with; those behind must be passed again, with more.
    #[inline]
    pub fn skim(&mut self, bytes: &[u8], on: impl FnMut(Outcome, u32, &[u8])) -> Result<usize, NotTheProtocol> {
        if self.protocol.is_resp() { self.skim_resp(bytes, on) } else { self.skim_memcached(bytes, on) }
    }

    #[inline]
    fn skim_resp(&mut self, bytes: &[u8], mut on: impl FnMut(Outcome, u32, &[u8])) -> Result<usize, NotTheProtocol> {
        let mut at = 0;
        loop {
            if self.skip > 0 {
                let passed = self.skip.min(bytes.len() - at);
                at += passed;
                self.skip -= passed;
                if self.skip > 0 {
                    return Ok(at);
                }
                self.pending -= 1;
                if self.pending == 0 {
                    on(self.outcome, 1, b"");
                }
            }
            if self.pending == 0 {
                let (count, length) = self.usual.run(&bytes[at..]);
                if count > 0 {
                    at += length;
                    on(Outcome::Done, count, b"");
                }
                if let Some(usual) = simple(&bytes[at..]) {
                    self.usual = usual;
                    at += usual.length;
                    on(Outcome::Done, 1, b"");
                    continue;
                }
                self.outcome = Outcome::Done;
            }
            let rest = &bytes[at..];
            let Some((line, length)) = line(rest)? else { return Ok(at) };
            at += length;
            let first = self.pending == 0;
            if first {
                self.pending = 1;
            }
            match line[0] {
                b'$' | b'=' | b'!' => match number(&line[1..]) {
                    Some(n) if n >= 0 => {
                        self.skip = n as usize + 2;
                        if first && line[0] == b'!' {
                            self.outcome = Outcome::Error;
                        }
                        continue;
                    }
                    Some(_) if first => self.outcome = Outcome::Miss,
                    Some(_) => {}
                    None => return Err(strange(line)),
                },
                b'*' | b'~' | b'>' | b'%' | b'|' => {
                    let Some(n) = number(&line[1..]) else { return Err(strange(line)) };
                    match (line[0], n) {
                        (_, ..0) if first => self.outcome = Outcome::Miss,
                        (b'%', n) => self.pending += 2 * n.max(0) as u64,
                        // What it is an attribute of is still to come.
                        (b'|', n) => self.pending += 2 * n.max(0) as u64 + 1,
                        (_, n) => self.pending += n.max(0) as u64,
                    }
                    if first && line[0] == b'>' {
                        self.outcome = Outcome::Push;
                    }
                }
                b'_' if first => self.outcome = Outcome::Miss,
                b'-' if first => {
                    self.pending = 0;
                    on(Outcome::Error, 1, line);
                    continue;
                }
                b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => {}
                _ => return Err(strange(line)),
            }
            self.pending -= 1;
            if self.pending == 0 {
                on(self.outcome, 1, b"");
            }
        }
    }

    /// `pending` is 1 while values of a reply have been seen, and its END not.
    fn skim_memcached(
        &mut self,
        bytes: &[u8],
        mut on: impl FnMut(Outcome, u32, &[u8]),
    ) -> Result<usize, NotTheProtocol> {
        let mut at = 0;
        loop {
            let passed = self.skip.min(bytes.len() - at);
            at += passed;
            self.skip -= passed;
            if self.skip > 0 {
                return Ok(at);
            }
            let Some((line, length)) = line(&bytes[at..])? else { return Ok(at) };
            at += length;
            match memcached_line(line)? {
                MemcachedLine::Value(length) => {
                    self.skip = length + 2;
                    self.pending = 1;
                }
                MemcachedLine::End => {
                    let hit = std::mem::take(&mut self.pending) > 0;
                    on(if hit { Outcome::Done } else { Outcome::Miss }, 1, b"");
                }
                MemcachedLine::Other(outcome) => on(outcome, 1, if outcome == Outcome::Error { line } else { b"" }),
            }
        }
    }
}

/// One reply at the start of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Whole<'a> {
    pub outcome: Outcome,
    pub length: usize,
    /// The last string or number of it; the line of an error.
    pub last: &'a [u8],
}

/// The reply that `bytes` begin with, or `None` while it is incomplete.
pub fn whole(protocol: Protocol, bytes: &[u8]) -> Result<Option<Whole<'_>>, NotTheProtocol> {
    if !protocol.is_resp() {
        return whole_memcached(bytes);
    }
    let (mut at, mut pending, mut outcome, mut last) = (0, 1u64, Outcome::Done, &bytes[..0]);
    let mut first = true;
    while pending > 0 {
        let Some((line, length)) = line(&bytes[at..])? else { return Ok(None) };
        at += length;
        pending -= 1;
        match line[0] {
            b'$' | b'=' | b'!' => match number(&line[1..]) {
                Some(n) if n >= 0 => {
                    let n = n as usize;
                    if bytes.len() < at + n + 2 {
                        return Ok(None);
                    }
                    last = &bytes[at..at + n];
                    at += n + 2;
                    if first && line[0] == b'!' {
                        outcome = Outcome::Error;
                    }
                }
                Some(_) if first => outcome = Outcome::Miss,
                Some(_) => {}
                None => return Err(strange(line)),
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let Some(n) = number(&line[1..]) else { return Err(strange(line)) };
                let elements = n.max(0) as u64;
                pending += match line[0] {
                    b'%' => 2 * elements,
                    b'|' => 2 * elements + 1,
                    _ => elements,
                };
                match line[0] {
                    b'>' if first => outcome = Outcome::Push,
                    _ if first && n < 0 => outcome = Outcome::Miss,
                    _ => {}
                }
            }
            b'_' if first => outcome = Outcome::Miss,
            b'-' if first => (outcome, last) = (Outcome::Error, line),
            b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => last = &line[1..],
            _ => return Err(strange(line)),
        }
        first = false;
    }
    Ok(Some(Whole { outcome, length: at, last }))
}

fn whole_memcached(bytes: &[u8]) -> Result<Option<Whole<'_>>, NotTheProtocol> {
    let (mut at, mut last, mut hit) = (0, &bytes[..0], false);
    loop {
        let Some((line, length)) = line(&bytes[at..])? else { return Ok(None) };
        at += length;
        match memcached_line(line)? {
            MemcachedLine::Value(n) => {
                if bytes.len() < at + n + 2 {
                    return Ok(None);
                }
                (last, hit) = (&bytes[at..at + n], true);
                at += n + 2;
            }
            MemcachedLine::End => {
                let outcome = if hit { Outcome::Done } else { Outcome::Miss };
                return Ok(Some(Whole { outcome, length: at, last }));
            }
            MemcachedLine::Other(outcome) => return Ok(Some(Whole { outcome, length: at, last: line })),
        }
    }
}

enum MemcachedLine {
    /// A value of so many bytes follows.
    Value(usize),
    End,
    Other(Outcome),
}

fn memcached_line(line: &[u8]) -> Result<MemcachedLine, NotTheProtocol> {
    if let Some(rest) = line.strip_prefix(b"VALUE ") {
        let length = rest.split(|&byte| byte == b' ').nth(2).and_then(number);
        return length.filter(|&n| n >= 0).map(|n| MemcachedLine::Value(n as usize)).ok_or_else(|| strange(line));
    }
    let word = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    Ok(match word {
        b"END" => MemcachedLine::End,
        b"STORED" | b"DELETED" | b"TOUCHED" | b"OK" | b"VERSION" => MemcachedLine::Other(Outcome::Done),
        b"NOT_FOUND" | b"NOT_STORED" | b"EXISTS" => MemcachedLine::Other(Outcome::Miss),
        b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => MemcachedLine::Other(Outcome::Error),
        _ if number(word).is_some() => MemcachedLine::Other(Outcome::Done),
        _ => return Err(strange(line)),
    })
}

/// A short status or a string with a short length that is there as a whole; such are most replies.
#[inline]
fn simple(bytes: &[u8]) -> Option<Usual> {
    let line = &bytes[..bytes.len().min(8)];
    let line = &line[..memchr::memchr(b'\n', line)? + 1];
    let text = line.strip_suffix(b"\r\n")?;
    let length = match text.first()? {
        b'+' => line.len(),
        b'$' => line.len() + usize::try_from(number(&text[1..])?).ok()? + 2,
        _ => return None,
    };
    (bytes.len() >= length).then(|| Usual::new(line, length))
}

/// The line at the start, without its end, and its length with it.
#[inline]
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, NotTheProtocol> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return if bytes.len() > LINE_MAX { Err(strange(bytes)) } else { Ok(None) };
    };
    if end < 2 || bytes[end - 1] != b'\r' {
        return Err(strange(&bytes[..end]));
    }
    Ok(Some((&bytes[..end - 1], end + 1)))
}

#[inline]
fn number(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0i64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

#[cold]
fn strange(line: &[u8]) -> NotTheProtocol {
    NotTheProtocol(line[..line.len().min(60)].escape_ascii().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outcomes of a stream that arrives in pieces of `piece` bytes.
    fn skimmed(protocol: Protocol, stream: &[u8], piece: usize) -> Vec<Outcome> {
        let (mut reader, mut outcomes, mut kept) = (Reader::new(protocol), Vec::new(), Vec::new());
        for chunk in stream.chunks(piece) {
            kept.extend_from_slice(chunk);
            let done = reader
                .skim(&kept, |outcome, count, _| outcomes.extend((0..count).map(|_| outcome)))
                .expect("the protocol");
            kept.drain(..done);
        }
        assert!(kept.is_empty(), "nothing is left of a whole stream: {}", kept.escape_ascii());
        outcomes
    }

    fn wholes(protocol: Protocol, mut stream: &[u8]) -> Vec<(Outcome, Vec<u8>)> {
        let mut found = Vec::new();
        while !stream.is_empty() {
            for cut in 0..stream.len() {
                if let Some(reply) = whole(protocol, &stream[..cut]).expect("the protocol") {
                    assert!(reply.length <= cut);
                }
            }
            let reply = whole(protocol, stream).expect("the protocol").expect("complete");
            found.push((reply.outcome, reply.last.to_vec()));
            stream = &stream[reply.length..];
        }
        found
    }

    #[test]
    fn replies_of_resp_in_any_pieces() {
        use Outcome::{Done, Error, Miss, Push};
        let stream: &[u8] = b"+OK\r\n$5\r\nhe\r\nl\r\n:42\r\n$-1\r\n*-1\r\n_\r\n*0\r\n$0\r\n\r\n-ERR no\r\n*2\r\n*1\r\n:1\r\n$1\r\na\r\n\
            %1\r\n+k\r\n*2\r\n_\r\n-x\r\n>2\r\n+message\r\n$1\r\nm\r\n|1\r\n+a\r\n+b\r\n+OK\r\n!3\r\nbad\r\n#t\r\n,1.5\r\n*2\r\n$-1\r\n$2\r\nab\r\n+PONG\r\n";
        let expected = [
            Done, Done, Done, Miss, Miss, Miss, Done, Done, Error, Done, Done, Push, Done, Error, Done, Done, Done,
            Done,
        ];
        for piece in [1, 2, 3, 5, 7, 11, 1000] {
            assert_eq!(skimmed(Protocol::Resp3, stream, piece), expected, "pieces of {piece}");
        }
        let found = wholes(Protocol::Resp3, stream);
        assert_eq!(found.iter().map(|(outcome, _)| *outcome).collect::<Vec<_>>(), expected);
        assert_eq!(found[1].1, b"he\r\nl");
        assert_eq!(found[2].1, b"42");
        assert_eq!(found[8].1, b"-ERR no");
        assert_eq!(found[11].1, b"m");
    }

    #[test]
    fn replies_that_repeat_and_almost_repeat() {
        use Outcome::{Done, Error, Miss};
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (reply, outcome) in [
            ("$8\r\n+OK\r\n$-1\r\n", Done),
            ("$8\r\nabcdefgh\r\n", Done),
            ("+OK\r\n", Done),
            ("$-1\r\n", Miss),
            ("$80\r\n", Done),
            ("+OKAY\r\n", Done),
            ("-E\r\n", Error),
            ("$123456\r\n", Done),
            (":1\r\n", Done),
            ("$0\r\n\r\n", Done),
        ] {
            for times in [1, 2, 5] {
                for _ in 0..times {
                    stream.extend_from_slice(reply.as_bytes());
                    if let Some(length) =
                        reply.strip_prefix('$').and_then(|r| r.trim_end().parse::<usize>().ok()).filter(|n| *n > 8)
                    {
                        stream.extend(std::iter::repeat_n(b'$', length));
                        stream.extend_from_slice(b"\r\n");
                    }
                }
                expected.extend(std::iter::repeat_n(outcome, times));
                stream.extend_from_slice(b"+OK\r\n");
                expected.push(Done);
            }
        }
        for piece in [1, 3, 8, 13, 14, 100, 10_000_000] {
            assert_eq!(skimmed(Protocol::Resp2, &stream, piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn replies_of_memcached_in_any_pieces() {
        use Outcome::{Done, Error, Miss};
        let stream: &[u8] =
            b"STORED\r\nEND\r\nVALUE k 0 5\r\nEND\r\n\r\nEND\r\nNOT_FOUND\r\n17\r\nSERVER_ERROR out of memory\r\n\
            VALUE a 0 1\r\nx\r\nVALUE b 3 2 9\r\nyz\r\nEND\r\nDELETED\r\nERROR\r\n";
        let expected = [Done, Miss, Done, Miss, Done, Error, Done, Done, Error];
        for piece in [1, 2, 3, 5, 1000] {
            assert_eq!(skimmed(Protocol::Memcached, stream, piece), expected, "pieces of {piece}");
        }
        let found = wholes(Protocol::Memcached, stream);
        assert_eq!(found.iter().map(|(outcome, _)| *outcome).collect::<Vec<_>>(), expected);
        assert_eq!((&found[2].1[..], &found[4].1[..]), (&b"END\r\n"[..], &b"17"[..]));
    }

    #[test]
    fn what_is_not_the_protocol_is_said() {
        for stream in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"ERROR\r\n", b"$x\r\n", b"*\r\n", b"\n", b"+a\n"] {
            let result = Reader::new(Protocol::Resp2).skim(stream, |_, _, _| panic!("no reply"));
            assert!(result.is_err(), "{}", stream.escape_ascii());
            assert!(whole(Protocol::Resp2, stream).is_err());
        }
        for stream in [&b"-ERR unknown command\r\n"[..], b"VALUE k 0\r\n", b"VALUE k 0 -3\r\n"] {
            assert!(Reader::new(Protocol::Memcached).skim(stream, |_, _, _| panic!("no reply")).is_err());
        }
    }
}
