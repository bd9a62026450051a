//! What a session keeps of a request that its window cut. Owns the bytes that arrived and where the finished arguments lie, and resumes
//! where it stopped: a request in n pieces costs O(bytes), not O(n * bytes). Takes nothing of the next request, allocates nothing for
//! what is only claimed, and is one pointer when nothing is pending.
//!
//! ```text
//!   bodies: | GET | key | val..        bodies only, one behind the other; headers and CR LF are not kept
//!   ends:         3     6              end of each finished argument; the one under way lies behind the last end
//!   line:   "$1"                       a cut header line, inline request, or the CR behind a body
//! ```
use super::resp::{self, Decode, Header, LINE_MAX_BYTES, Limits, ProtocolError};
use crate::base::quote;
use bumpalo::collections::Vec as ArenaVec;

/// A request under way; empty between requests.
#[derive(Default, Debug)]
pub struct Carry {
    cut: Option<Box<Cut>>,
}

/// The bulk whose body comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingBulk {
    /// Its place among the arguments.
    pub arg_index: usize,
    /// Its length as claimed by the client (within the limits).
    pub bulk_bytes: usize,
    /// Bytes of it that have arrived.
    pub body_have: usize,
}

#[derive(Default, Debug)]
struct Cut {
    bodies: Vec<u8>,
    ends: Vec<usize>,
    line: Vec<u8>,
    expect: Expect,
    /// Arguments still to come, the one under way included.
    args_left: usize,
    /// Length of the argument under way.
    bulk_bytes: usize,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Expect {
    /// The first line of a request.
    #[default]
    Request,
    /// The `$` line of the next argument.
    Bulk,
    /// A body, or the rest of one.
    Body,
    /// The same, but it goes elsewhere (`Carry::divert`).
    Diverted,
    /// The CR LF behind a body.
    BodyEnd,
    /// Nothing: the request is complete.
    Complete,
}

impl Carry {
    pub fn new() -> Carry {
        Carry::default()
    }

    /// No request is under way.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cut.is_none()
    }

    /// Takes what belongs to the request from the front of `input`: how many bytes, and whether the request is complete now. If it is, nothing
    /// more is taken until `clear`; while a body is diverted, nothing is taken either. After an error only `clear` makes sense.
    pub fn feed(&mut self, input: &[u8], limits: &Limits) -> Result<(usize, bool), ProtocolError> {
        if input.is_empty() && self.cut.is_none() {
            return Ok((0, false));
        }
        self.cut.get_or_insert_default().feed(input, limits)
    }

    /// Appends the arguments of a complete request.
    pub fn args<'b>(&'b self, into: &mut ArenaVec<'_, &'b [u8]>) {
        let Some(cut) = &self.cut else { return };
        debug_assert_eq!(cut.expect, Expect::Complete);
        into.reserve(cut.ends.len());
        let mut start = 0;
        for &end in &cut.ends {
            into.push(&cut.bodies[start..end]);
            start = end;
        }
    }

    /// The argument at `index`, if it has arrived whole.
    pub fn arg(&self, index: usize) -> Option<&[u8]> {
        let cut = self.cut.as_deref()?;
        let end = *cut.ends.get(index)?;
        let start = if index == 0 { 0 } else { cut.ends[index - 1] };
        Some(&cut.bodies[start..end])
    }

    /// Arguments that have arrived whole, and how many the request claims to have. The latter is known (not 0) once a `*` line is decoded.
    pub fn arg_counts(&self) -> (usize, usize) {
        self.cut.as_ref().map_or((0, 0), |cut| (cut.ends.len(), cut.ends.len() + cut.args_left))
    }

    /// Forgets the request and gives all memory back.
    pub fn clear(&mut self) {
        self.cut = None;
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> usize {
        self.cut.as_ref().map_or(0, |cut| {
            size_of::<Cut>() + cut.bodies.capacity() + cut.line.capacity() + cut.ends.capacity() * size_of::<usize>()
        })
    }

    /// The bulk of which body bytes are expected next, if that is so.
    pub fn pending_bulk(&self) -> Option<PendingBulk> {
        let cut = self.cut.as_ref().filter(|cut| cut.expect == Expect::Body)?;
        Some(PendingBulk {
            arg_index: cut.ends.len(),
            bulk_bytes: cut.bulk_bytes,
            body_have: cut.bodies.len() - cut.body_start(),
        })
    }

    /// From now on the pending bulk's body is received elsewhere: returns what has arrived of it. Its argument will be empty. The rest,
    /// `bulk_bytes - body_have` bytes, must not be fed; then comes `diverted_done`. Without a pending bulk nothing happens.
    pub fn divert(&mut self) -> Vec<u8> {
        let Some(cut) = self.cut.as_deref_mut().filter(|cut| cut.expect == Expect::Body) else {
            return Vec::new();
        };
        cut.expect = Expect::Diverted;
        let start = cut.body_start();
        cut.bodies.split_off(start)
    }

    /// The diverted body has arrived whole; its CR LF is fed next.
    pub fn diverted_done(&mut self) {
        if let Some(cut) = self.cut.as_deref_mut().filter(|cut| cut.expect == Expect::Diverted) {
            cut.expect = Expect::BodyEnd;
        }
    }
}

impl Cut {
    fn feed(&mut self, input: &[u8], limits: &Limits) -> Result<(usize, bool), ProtocolError> {
        let mut at = 0;
        while self.expect != Expect::Complete {
            let advanced = match self.expect {
                Expect::Request => self.request(input, &mut at, limits)?,
                Expect::Bulk => match self.header(input, &mut at, limits, resp::bulk_header)? {
                    Some(bulk_bytes) => {
                        self.bulk_bytes = bulk_bytes;
                        self.expect = Expect::Body;
                        true
                    }
                    None => false,
                },
                Expect::Body => self.body(input, &mut at),
                Expect::BodyEnd => self.body_end(input, &mut at)?,
                Expect::Diverted | Expect::Complete => false,
            };
            if !advanced {
                return Ok((at, false));
            }
        }
        Ok((at, true))
    }

    /// The first line. `false` here and below: the input is used up.
    fn request(&mut self, input: &[u8], at: &mut usize, limits: &Limits) -> Result<bool, ProtocolError> {
        match self.line.first().or(input.get(*at)) {
            Some(b'*') => {
                let Some(count) = self.header(input, at, limits, resp::count_header)? else {
                    return Ok(false);
                };
                self.args_left = count;
                self.expect = if count == 0 { Expect::Complete } else { Expect::Bulk };
                Ok(true)
            }
            Some(_) => self.inline(input, at),
            None => Ok(false),
        }
    }

    fn inline(&mut self, input: &[u8], at: &mut usize) -> Result<bool, ProtocolError> {
        if !self.gather(input, at, b'\n', 0) {
            return Ok(false);
        }
        let Some((line, _)) = resp::inline_line(&self.line, 0)? else {
            return Ok(false);
        };
        quote::split_each(line, |arg| {
            self.bodies.extend_from_slice(&arg);
            self.ends.push(self.bodies.len());
        })
        .map_err(|_| ProtocolError::UnbalancedQuotes)?;
        self.line = Vec::new();
        self.expect = Expect::Complete;
        Ok(true)
    }

    /// A header line: decoded in place if `input` has all of it, else gathered.
    fn header(
        &mut self,
        input: &[u8],
        at: &mut usize,
        limits: &Limits,
        decode: Decode,
    ) -> Result<Option<usize>, ProtocolError> {
        if self.line.is_empty()
            && let Some(Header { value, next }) = decode(input, *at, limits)?
        {
            *at = next;
            return Ok(Some(value));
        }
        if !self.gather(input, at, b'\r', 1) {
            return Ok(None);
        }
        let Some(Header { value, next }) = decode(&self.line, 0, limits)? else {
            return Ok(None);
        };
        debug_assert_eq!(next, self.line.len());
        self.line.clear();
        Ok(Some(value))
    }

    /// Moves bytes into `line` until it holds the byte `last` and `more` bytes after that. True: it does, or it is too long; in both cases the
    /// line's decoder has the verdict. Looks at each byte once.
    fn gather(&mut self, input: &[u8], at: &mut usize, last: u8, more: usize) -> bool {
        // `last` was the line's last byte when the input ended there.
        let found = more > 0 && self.line.last() == Some(&last);
        let rest = &input[*at..];
        let room = LINE_MAX_BYTES + 1 + more - self.line.len().min(LINE_MAX_BYTES + 1);
        let rest = &rest[..rest.len().min(room)];
        let (take, complete) = match (found, memchr::memchr(last, rest)) {
            (true, _) => (more.min(rest.len()), rest.len() >= more),
            (false, Some(end)) => ((end + 1 + more).min(rest.len()), rest.len() > end + more),
            (false, None) => (rest.len(), false),
        };
        self.line.extend_from_slice(&rest[..take]);
        *at += take;
        complete || self.line.len() > LINE_MAX_BYTES
    }

    fn body(&mut self, input: &[u8], at: &mut usize) -> bool {
        let missing = self.bulk_bytes - (self.bodies.len() - self.body_start());
        let take = missing.min(input.len() - *at);
        self.make_room(take, missing);
        self.bodies.extend_from_slice(&input[*at..*at + take]);
        *at += take;
        if take == missing {
            self.expect = Expect::BodyEnd;
        }
        take == missing
    }

    fn body_end(&mut self, input: &[u8], at: &mut usize) -> Result<bool, ProtocolError> {
        let rest = &input[*at..];
        let rest = &rest[..rest.len().min(2 - self.line.len())];
        *at += rest.len();
        let good = match (self.line.as_slice(), rest) {
            ([], &[first, second]) => [first, second] == *b"\r\n",
            (&[first], &[second]) => [first, second] == *b"\r\n",
            _ => {
                self.line.extend_from_slice(rest);
                return Ok(false);
            }
        };
        if !good {
            return Err(ProtocolError::BulkLength);
        }
        self.line.clear();
        self.ends.push(self.bodies.len());
        self.args_left -= 1;
        self.expect = if self.args_left == 0 { Expect::Complete } else { Expect::Bulk };
        Ok(true)
    }

    /// Start of the argument under way.
    fn body_start(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Room for `take` more bytes of a body that lacks `missing`. Doubles, never for more than has arrived; but a bulk that is large beside
    /// what is held ends without slack.
    fn make_room(&mut self, take: usize, missing: usize) {
        let held = self.bodies.len();
        if self.bodies.capacity() - held >= take {
            return;
        }
        if missing <= held / 8 {
            self.bodies.reserve(take);
        } else {
            self.bodies.reserve_exact(missing.min(take.max(held)));
        }
    }
}
