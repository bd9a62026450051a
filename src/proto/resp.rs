//! Requests of the Redis protocol: multibulk (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) and inline lines, from a window of bytes to argument
//! slices of the same window. Stateless: a request cut by the window's end is `Incomplete` and goes to [`super::carry::Carry`], which
//! shares the line decoders of this file, so that both accept and refuse the same bytes.
//!
//! Everything is validated: signs, leading zeros, overflow, CR LF after headers and bodies, limits. What a client claims is never
//! allocated, only what has arrived. Whether a request is good, and which error a bad one is, depends on the stream alone, never on how it
//! was cut: a header line is judged when its CR and the byte after that are there, a body's CR LF when both bytes are.
//!
//! This is the hottest code of the server: 1- and 2-digit numbers are decoded from one or two 4-byte loads.
#![allow(unsafe_code)]
use super::errors;
use super::shape::{self, Shape, parse_shaped};
use crate::base::int;
use crate::base::quote;
use bumpalo::collections::Vec as ArenaVec;
use std::borrow::Cow;

/// Longest inline request, and longest header line, in bytes without its line end.
pub const LINE_MAX_BYTES: usize = 64 * 1024;
/// Most arguments of a request before AUTH.
pub const UNAUTHENTICATED_ARGS: u64 = 10;
/// Longest bulk before AUTH, in bytes.
pub const UNAUTHENTICATED_BULK_BYTES: u64 = 16 * 1024;
/// `$0\r\n\r\n`: no argument is shorter on the wire.
const ARG_MIN_BYTES: usize = 6;

// Lengths are sums of offsets and of claimed lengths, which are at most i64::MAX each.
const _: () = assert!(usize::BITS == 64);

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest bulk (`proto-max-bulk-len`), in bytes; at least 9,999, as that many digits are not looked up (Redis's least is 1 MiB).
    pub max_bulk_bytes: u64,
    /// Before AUTH a request has at most 10 arguments of at most 16 KiB.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_bulk_bytes: 512 << 20, authenticated: true }
    }
}

/// Outcome of [`parse`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// A whole request; the next one starts at `end`. It may have no arguments: nothing is executed or answered then.
    Request { end: usize },
    /// The window ends before the request does.
    Incomplete,
}

/// What no request can start with. The connection is answered [`ProtocolError::text`] and closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolError {
    MultibulkLength,
    BulkLength,
    /// The byte where `$` was due.
    ExpectedDollar(u8),
    TooBigInline,
    TooBigCount,
    TooBigBulkHeader,
    UnbalancedQuotes,
    UnauthenticatedCount,
    UnauthenticatedBulk,
    /// The client speaks the binary protocol of memcached.
    Memcache,
}

impl ProtocolError {
    /// The error reply's text, prefix included.
    pub fn text(self) -> Vec<u8> {
        errors::protocol(match self {
            ProtocolError::MultibulkLength => b"invalid multibulk length",
            ProtocolError::BulkLength => b"invalid bulk length",
            ProtocolError::ExpectedDollar(byte) => return errors::expected_dollar(byte),
            ProtocolError::TooBigInline => b"too big inline request",
            ProtocolError::TooBigCount => b"too big mbulk count string",
            ProtocolError::TooBigBulkHeader => b"too big bulk count string",
            ProtocolError::UnbalancedQuotes => b"unbalanced quotes in request",
            ProtocolError::UnauthenticatedCount => b"unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulk => b"unauthenticated bulk length",
            ProtocolError::Memcache => b"the binary protocol of memcached is not expected here",
        })
    }
}

/// Parses the request that starts at `pos` and appends its arguments to `args`; an empty line, `*0` and a negative count append none.
/// Without a request (incomplete or wrong) `args` is as it was. Arguments are slices of `buf`, except for inline ones with quotes,
/// which lie unescaped in the arena of `args`.
#[inline]
pub fn parse<'a: 'b, 'b>(
    buf: &'b [u8],
    pos: usize,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Result<Parsed, ProtocolError> {
    if pos >= buf.len() {
        return Ok(Parsed::Incomplete);
    }
    let Header { value: count, next } = match short_header(buf, pos, b'*') {
        Some(header) if header.value <= 10 || limits.authenticated => header,
        _ if buf[pos] != b'*' => return parse_inline(buf, pos, args),
        _ => match count_header(buf, pos, limits)? {
            Some(header) => header,
            None => return Ok(Parsed::Incomplete),
        },
    };
    arguments(buf, next, count, None, limits, args)
}

/// Parses the arguments that begin at `next`, and appends them. There are `count` of them, with the one that is known already.
#[inline(always)]
fn arguments<'a: 'b, 'b>(
    buf: &'b [u8],
    next: usize,
    count: usize,
    known: Option<&'b [u8]>,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Result<Parsed, ProtocolError> {
    let held = args.len();
    if args.capacity() - held < count {
        grow(args, count, buf.len() - next + ARG_MIN_BYTES);
    }
    // SAFETY: `held` elements are within the allocation.
    let mut free = unsafe { args.as_mut_ptr().add(held) };
    let mut at = next;
    let mut left = count;
    if let Some(name) = known {
        // SAFETY: there is room for `count` arguments, or for as many as the rest of the buffer and this one can be; `count` is not 0.
        unsafe {
            free.write(name);
            free = free.add(1);
        }
        left -= 1;
    }
    for _ in 0..left {
        let Header { value: bytes, next } = match short_header(buf, at, b'$') {
            Some(header) => header,
            None => match longer_bulk_header(buf, at, limits)? {
                Some(header) => header,
                None => return Ok(Parsed::Incomplete),
            },
        };
        // Cannot overflow: `next <= buf.len() <= isize::MAX`, and a header's value is at most i64::MAX.
        let end = next + bytes;
        if end >= buf.len() - 1 {
            return Ok(Parsed::Incomplete);
        }
        // SAFETY: the check above: `next <= end` and `end + 2 <= buf.len()`.
        let (body, crlf) = unsafe { (buf.get_unchecked(next..end), buf.as_ptr().add(end).cast::<[u8; 2]>().read()) };
        if crlf != *b"\r\n" {
            return Err(ProtocolError::BulkLength);
        }
        // SAFETY: `args` has places for `count` more arguments, or for as many as fit into the rest of the buffer at ARG_MIN_BYTES each (see
        // `grow`). This one is among the first `count`, and it and those before it lie there one behind the other.
        unsafe {
            free.write(body);
            free = free.add(1);
        }
        at = end + 2;
    }
    // SAFETY: the loop wrote `count` elements behind the first `held`, all within the allocation as said there.
    unsafe { args.set_len(held + count) };
    Ok(Parsed::Request { end: at })
}

/// How the last request began: in a pipeline the next one mostly begins alike, and then neither its count nor its name need be decoded again.
///
/// ```text
///   *3\r\n$3\r\nSET\r\n       up to 16 bytes, compared as two words under a mask
///   0         8     11  13
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct Opening {
    words: [u64; 2],
    masks: [u64; 2],
    /// Bytes of it, 0: there is none.
    bytes: usize,
    /// Arguments of the request.
    count: usize,
}

/// Where the name of a request with one-digit headers begins.
pub(super) const NAME_AT: usize = 8;
const OPENING_MAX_BYTES: usize = 16;

impl Opening {
    /// The opening of the request at `pos`, whose `count` arguments begin with `name`, a slice of `buf`.
    #[must_use]
    pub fn of(buf: &[u8], pos: usize, name: &[u8], count: usize) -> Opening {
        let bytes = NAME_AT + name.len() + 2;
        let canonical = std::ptr::eq(name.as_ptr(), buf[pos..].as_ptr().wrapping_add(NAME_AT));
        let Some(window) = buf[pos..].first_chunk::<OPENING_MAX_BYTES>() else { return Opening::default() };
        if !canonical || window[0] != b'*' || bytes > OPENING_MAX_BYTES || name.is_empty() {
            return Opening::default();
        }
        let masks = [u64::MAX, u64::MAX >> (8 * (OPENING_MAX_BYTES - bytes))];
        let words = words_of(window);
        Opening { words: [words[0] & masks[0], words[1] & masks[1]], masks, bytes, count }
    }

    /// Arguments of such a request, its name included; 0 for the default.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Does the request at `pos` begin like this?
    #[inline(always)]
    #[must_use]
    pub(super) fn is_at(&self, buf: &[u8], pos: usize) -> bool {
        // (The usual way to say it looks at two sums for overflow.)
        if buf.len() < OPENING_MAX_BYTES || pos > buf.len() - OPENING_MAX_BYTES {
            return false;
        }
        // SAFETY: so many bytes lie behind `pos`, as just looked at.
        let window = unsafe { &*buf.as_ptr().add(pos).cast::<[u8; OPENING_MAX_BYTES]>() };
        let words = words_of(window);
        ((words[0] & self.masks[0]) ^ self.words[0]) | ((words[1] & self.masks[1]) ^ self.words[1]) == 0
            && self.bytes > 0
    }
}

#[inline(always)]
fn words_of(window: &[u8; OPENING_MAX_BYTES]) -> [u64; 2] {
    let (low, high) = window.split_at(8);
    let word = |half: &[u8]| half.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    [word(low), word(high)]
}

/// As [`parse`], for a request that begins with `opening` (`Opening::is_at`).
///
/// # Errors
/// As `parse`.
#[inline(always)]
fn parse_opened<'a: 'b, 'b>(
    buf: &'b [u8],
    pos: usize,
    opening: &Opening,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Result<Parsed, ProtocolError> {
    debug_assert!(opening.is_at(buf, pos));
    let next = pos + opening.bytes;
    // SAFETY: `is_at` compared OPENING_MAX_BYTES bytes from `pos` on, so they lie in `buf`; `opening.bytes` is NAME_AT + 3 to that.
    let name = unsafe { buf.get_unchecked(pos + NAME_AT..next - 2) };
    arguments(buf, next, opening.count, Some(name), limits, args)
}

/// As [`parse`], if the request begins with `opening`; `None` if not.
///
/// # Errors
/// As `parse`.
#[inline(always)]
pub fn parse_alike<'a: 'b, 'b>(
    buf: &'b [u8],
    pos: usize,
    opening: &Opening,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Option<Result<Parsed, ProtocolError>> {
    opening.is_at(buf, pos).then(|| parse_opened(buf, pos, opening, limits, args))
}

/// Parses the requests from `from` on that begin with `opening`, one behind the other, until one does not, is not whole or not right, or all of `ends` are
/// used: where each ends. Returns how many they are.
#[inline(always)]
pub fn parse_run<'a: 'b, 'b>(
    buf: &'b [u8],
    from: usize,
    opening: &Opening,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
    ends: &mut [usize],
) -> usize {
    // A loop each for the commonest numbers of arguments, which lives in registers.
    match opening.count {
        2 => parse_run_of(2, buf, from, opening, limits, args, ends),
        3 => parse_run_of(3, buf, from, opening, limits, args, ends),
        count => parse_run_of(count, buf, from, opening, limits, args, ends),
    }
}

#[inline(always)]
fn parse_run_of<'a: 'b, 'b>(
    count: usize,
    buf: &'b [u8],
    from: usize,
    opening: &Opening,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
    ends: &mut [usize],
) -> usize {
    // A copy of its own, so that nothing is looked up in memory.
    let opening = Opening { count, ..*opening };
    let (mut n, mut at) = (0, from);
    // While lengths change seldom.
    while let Some(shape) = Shape::of_last(buf, at, &opening, args) {
        let ends_left = &mut ends[n..];
        let passed = match count {
            2 => parse_shaped::<2>(buf, at, &shape, args, ends_left),
            3 => parse_shaped::<3>(buf, at, &shape, args, ends_left),
            shape::SHAPED_ARGS => parse_shaped::<{ shape::SHAPED_ARGS }>(buf, at, &shape, args, ends_left),
            _ => 0,
        };
        n += passed;
        at += passed * shape.bytes();
        if passed < shape::SHAPED_MIN || n == ends.len() {
            break;
        }
        let Some(Ok(Parsed::Request { end })) = parse_alike(buf, at, &opening, limits, args) else { return n };
        ends[n] = end;
        n += 1;
        at = end;
    }
    let ends = &mut ends[n..];
    for end_of in ends {
        let Some(Ok(Parsed::Request { end })) = parse_alike(buf, at, &opening, limits, args) else { break };
        *end_of = end;
        at = end;
        n += 1;
    }
    n
}

/// Makes room for `count` more arguments, but for no more than `rest_bytes` of input can hold.
#[cold]
#[inline(never)]
fn grow(args: &mut ArenaVec<'_, &[u8]>, count: usize, rest_bytes: usize) {
    args.reserve(count.min(rest_bytes / ARG_MIN_BYTES));
}

/// A decoder of header lines: `count_header` or `bulk_header`.
pub(super) type Decode = fn(&[u8], usize, &Limits) -> Result<Option<Header>, ProtocolError>;

/// A decoded `*` or `$` line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// The count or length.
    pub value: usize,
    /// Where the line's successor starts; at most the buffer's length.
    pub next: usize,
}

/// Decodes `Sd\r\n` and `Sdd\r\n` at `at`, where `S` is `sigil`. `None`: it is something else, or close to the buffer's end.
///
/// ```text
///   at             at+4        x = load ^ "S0\r\n": a digit becomes 0..=9, all else that is right 0;
///   +---+---+---+---+          rotated by one byte, it is the value if it is at most 9
///   | S | d | CR| LF|
///   +---+---+---+---+---+      two digits: likewise from the load at at+1
///   | S | d | d | CR| LF|
///   +---+---+---+---+---+
/// ```
///
/// `at` must not be beyond `buf`, lest the sums overflow.
#[inline(always)]
fn short_header(buf: &[u8], at: usize, sigil: u8) -> Option<Header> {
    debug_assert!(at <= buf.len());
    if at + ARG_MIN_BYTES > buf.len() {
        return None;
    }
    // SAFETY: `at + 6 <= buf.len()`, checked above; both loads end at `at + 5` or before.
    let (one, two) = unsafe {
        let start = buf.as_ptr().add(at);
        (u32::from_le_bytes(start.cast::<[u8; 4]>().read()), u32::from_le_bytes(start.add(1).cast::<[u8; 4]>().read()))
    };
    let one = (one ^ u32::from_le_bytes([sigil, b'0', b'\r', b'\n'])).rotate_right(8);
    if one <= 9 {
        return Some(Header { value: one as usize, next: at + 4 });
    }
    let two = two ^ u32::from_le_bytes(*b"00\r\n");
    let (tens, ones) = (two & 0xff, two >> 8);
    let value = (tens * 10).wrapping_add(ones);
    // The rotation moved the sigil's byte to the top. With `ones` a digit, 10..=99 says that `tens` is one too, and not 0.
    if one >> 24 == 0 && ones <= 9 && value.wrapping_sub(10) < 90 {
        return Some(Header { value: value as usize, next: at + 5 });
    }
    None
}

/// A header line of any length.
enum Line {
    Number { value: i64, next: usize },
    NotANumber,
    TooLong,
    Incomplete,
}

/// Decodes the number of the line whose first byte (a sigil, not looked at) is at `at`.
fn number_line(buf: &[u8], at: usize) -> Line {
    let line = &buf[at..];
    // In one pass for what fits; 18 digits cannot overflow.
    let (mut value, mut digits) = (0, 0);
    while let Some(&byte) = line.get(1 + digits) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 || digits == 18 {
            break;
        }
        value = value * 10 + i64::from(digit);
        digits += 1;
    }
    let canonical = digits == 1 || (digits > 1 && line[1] != b'0');
    if canonical && line.get(1 + digits..3 + digits) == Some(b"\r\n") {
        return Line::Number { value, next: at + digits + 3 };
    }
    odd_number_line(line, at)
}

/// Signs, faults, 19 digits, and lines that have not ended yet.
#[cold]
#[inline(never)]
fn odd_number_line(line: &[u8], at: usize) -> Line {
    let Some(cr) = memchr::memchr(b'\r', &line[..line.len().min(LINE_MAX_BYTES + 1)]) else {
        return if line.len() > LINE_MAX_BYTES { Line::TooLong } else { Line::Incomplete };
    };
    match (line.get(cr + 1), line.get(1..cr).and_then(int::parse_i64)) {
        (None, _) => Line::Incomplete,
        (Some(b'\n'), Some(value)) => Line::Number { value, next: at + cr + 2 },
        _ => Line::NotANumber,
    }
}

/// Decodes the `*count\r\n` line at `at`, where there is a `*`; `None` if it is incomplete.
#[inline(never)]
pub(super) fn count_header(buf: &[u8], at: usize, limits: &Limits) -> Result<Option<Header>, ProtocolError> {
    let (value, next) = match number_line(buf, at) {
        Line::Number { value, next } => (value, next),
        Line::NotANumber => return Err(ProtocolError::MultibulkLength),
        Line::TooLong => return Err(ProtocolError::TooBigCount),
        Line::Incomplete => return Ok(None),
    };
    if value > i64::from(i32::MAX) {
        return Err(ProtocolError::MultibulkLength);
    }
    // A negative count is a request without arguments.
    let value = u64::try_from(value).unwrap_or(0);
    if value > UNAUTHENTICATED_ARGS && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedCount);
    }
    Ok(Some(Header { value: usize::try_from(value).unwrap_or(0), next }))
}

/// Decodes the `$length\r\n` line at `at`; `None` if it is incomplete.
#[inline]
pub(super) fn bulk_header(buf: &[u8], at: usize, limits: &Limits) -> Result<Option<Header>, ProtocolError> {
    match short_header(buf, at, b'$') {
        Some(header) => Ok(Some(header)),
        None => longer_bulk_header(buf, at, limits),
    }
}

/// The same for what is not of one or two digits.
#[inline(never)]
fn longer_bulk_header(buf: &[u8], at: usize, limits: &Limits) -> Result<Option<Header>, ProtocolError> {
    if let Some(&[b'$', a, b, c, rest @ ..]) = buf[at..].first_chunk::<8>() {
        let [a, b, c, d] = [a, b, c, rest[0]].map(|byte| usize::from(byte.wrapping_sub(b'0')));
        if a.wrapping_sub(1) < 9 && b <= 9 && c <= 9 {
            let value = a * 100 + b * 10 + c;
            if rest[..2] == *b"\r\n" {
                return Ok(Some(Header { value, next: at + 6 }));
            }
            if d <= 9 && rest[1..3] == *b"\r\n" {
                return Ok(Some(Header { value: value * 10 + d, next: at + 7 }));
            }
        }
    }
    odd_bulk_header(buf, at, limits)
}

/// The same for all that is left: long, near the buffer's end, incomplete, wrong.
#[inline(never)]
fn odd_bulk_header(buf: &[u8], at: usize, limits: &Limits) -> Result<Option<Header>, ProtocolError> {
    let line = number_line(buf, at);
    let (value, next) = match line {
        Line::TooLong => return Err(ProtocolError::TooBigBulkHeader),
        Line::Incomplete => return Ok(None),
        _ if buf[at] != b'$' => return Err(ProtocolError::ExpectedDollar(buf[at])),
        Line::NotANumber => return Err(ProtocolError::BulkLength),
        Line::Number { value, next } => (value, next),
    };
    match u64::try_from(value) {
        Ok(value) if value <= limits.max_bulk_bytes => {
            if value > UNAUTHENTICATED_BULK_BYTES && !limits.authenticated {
                return Err(ProtocolError::UnauthenticatedBulk);
            }
            Ok(Some(Header { value: usize::try_from(value).unwrap_or(usize::MAX), next }))
        }
        _ => Err(ProtocolError::BulkLength),
    }
}

/// The inline request at `at` without its line end, and where the next one starts; `None` if it is incomplete.
pub(super) fn inline_line(buf: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let line = &buf[at..];
    match memchr::memchr(b'\n', &line[..line.len().min(LINE_MAX_BYTES + 1)]) {
        Some(end) => {
            let text = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
            Ok(Some((text, at + end + 1)))
        }
        None if line.len() > LINE_MAX_BYTES => Err(ProtocolError::TooBigInline),
        None => Ok(None),
    }
}

#[cold]
#[inline(never)]
fn parse_inline<'a: 'b, 'b>(
    buf: &'b [u8],
    pos: usize,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Result<Parsed, ProtocolError> {
    if buf[pos] == super::memcache::binary::MAGIC {
        return Err(ProtocolError::Memcache);
    }
    let Some((line, end)) = inline_line(buf, pos)? else {
        return Ok(Parsed::Incomplete);
    };
    let held = args.len();
    let arena = args.bump();
    let split = quote::split_each(line, |arg| match arg {
        Cow::Borrowed(arg) => args.push(arg),
        Cow::Owned(arg) => args.push(arena.alloc_slice_copy(&arg)),
    });
    if split.is_err() {
        args.truncate(held);
        return Err(ProtocolError::UnbalancedQuotes);
    }
    Ok(Parsed::Request { end })
}
