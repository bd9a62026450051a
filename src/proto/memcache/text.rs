//! The text protocol, with the meta commands: lines of words between spaces, values behind some of them.
//!
//! Good and bad lines are told apart as memcached 1.6 does. Where it answers an error and then takes the value for the next request, the value is
//! passed over here, if its length was readable: a value must not be run.

use super::words::{Words, line, word_end};
use super::{KEY_MAX_BYTES, Keys, LINE_MAX_BYTES, Limits, Mode, Parsed, Verb, Wanted, number};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bumpalo::collections::Vec as ArenaVec;

pub const ERROR: &[u8] = b"ERROR";
pub const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format";
const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk";
const BAD_DELETE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument";
const BAD_BASE64: &[u8] = b"CLIENT_ERROR error decoding key";
const BAD_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag";
const LONG_FLAGS: &[u8] = b"CLIENT_ERROR options flags are too long";
const LONG_LINE: &[u8] = b"CLIENT_ERROR line too long";

/// Spaces in front of a line of any length.
const SPACES_MAX: usize = 100;
/// Most words behind the key of a meta command.
const META_FLAGS_MAX: usize = 17;
/// The length of a value is below that of memcached's own numbers, whatever the limit.
const VALUE_MAX_BYTES: i64 = i32::MAX as i64 - 2;

#[inline]
pub(super) fn parse<'a: 'b, 'b>(
    buf: &'b [u8],
    pos: usize,
    mode: &mut Mode,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    if buf[pos..].starts_with(b"get ") {
        // The name is told from the first key only; the others do without.
        return first_key(buf, pos, pos + 4, Keys::Get, mode, args);
    }
    if let Some(end) = plain_set(buf, pos, limits, args) {
        return Parsed::Request { verb: Verb::Set, end };
    }
    let Some((line, next)) = line(buf, pos) else {
        return cut_line(buf, pos, mode, args);
    };
    if line.len() > LINE_MAX_BYTES && open_ended(line).is_none() {
        return too_long(buf, args);
    }
    let mut words = Words { rest: line };
    let Some(name) = words.next() else { return fail(args, line, ERROR, next) };
    let request = Request { name, words, next };
    match name {
        b"set" => store(request, Verb::Set, buf, pos, mode, limits, args),
        b"mg" => meta(request, Verb::MetaGet, args),
        b"ms" => meta_set(request, buf, pos, mode, limits, args),
        _ => other(request, buf, pos, mode, limits, args),
    }
}

/// What most values come in: `set`, single spaces, short numbers, nothing behind them, and all of it is there. Says where it ends; `None`: it is
/// something else, nothing was done.
#[inline(always)]
fn plain_set<'a: 'b, 'b>(
    buf: &'b [u8],
    pos: usize,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Option<usize> {
    let rest = buf[pos..].strip_prefix(b"set ")?;
    let (key, rest) = rest.split_at(word_end(rest, 0));
    let (flags, flags_number, rest) = plain_number(rest)?;
    let (deadline, _, rest) = plain_number(rest)?;
    let (_, value_bytes, rest) = plain_number(rest)?;
    let (value, rest) = rest.strip_prefix(b"\r\n")?.split_at_checked(value_bytes as usize)?;
    let rest = rest.strip_prefix(b"\r\n")?;
    let is_good = (1..=KEY_MAX_BYTES).contains(&key.len());
    if !is_good || !limits.takes(key.len(), flags_number != 0, value_bytes.into()) {
        return None;
    }
    args.extend_from_slice_copy(&[&buf[pos..pos + 3], key, flags, deadline, value, b""]);
    Some(buf.len() - rest.len())
}

/// A number behind a space: its digits, what it is, and what follows it. `None`: it is none, or has more digits than fit in 31 bits for sure.
#[inline(always)]
fn plain_number(text: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    const DIGITS_MAX: usize = 9;
    let text = text.strip_prefix(b" ")?;
    let (mut value, mut digits) = (0, 0);
    while let Some(byte) = text.get(digits)
        && byte.is_ascii_digit()
        && digits < DIGITS_MAX
    {
        value = value * 10 + u32::from(byte - b'0');
        digits += 1;
    }
    let (digits, rest) = text.split_at(digits);
    (!digits.is_empty()).then_some((digits, value, rest))
}

/// A line of which only the name was looked at.
struct Request<'b> {
    name: &'b [u8],
    words: Words<'b>,
    /// Where the next line begins.
    next: usize,
}

#[inline(never)]
fn other<'a: 'b, 'b>(
    request: Request<'b>,
    buf: &'b [u8],
    pos: usize,
    mode: &mut Mode,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    let Request { name, words, next } = &request;
    let (name, next) = (*name, *next);
    let keys_at = || pos + (name.as_ptr() as usize - buf[pos..].as_ptr() as usize) + name.len();
    let stored = match name {
        b"get" | b"bget" => return first_key(buf, pos, keys_at(), Keys::Get, mode, args),
        b"gets" => return first_key(buf, pos, keys_at(), Keys::Gets, mode, args),
        b"gat" | b"gats" => return get_and_touch(request, buf, pos, mode, args),
        b"add" => Verb::Add,
        b"replace" => Verb::Replace,
        b"append" => Verb::Append,
        b"prepend" => Verb::Prepend,
        b"cas" => Verb::Cas,
        b"incr" => return keyed(request, Verb::Incr, args),
        b"decr" => return keyed(request, Verb::Decr, args),
        b"touch" => return keyed(request, Verb::Touch, args),
        b"delete" => return delete(request, args),
        b"md" => return meta(request, Verb::MetaDelete, args),
        b"ma" => return meta(request, Verb::MetaArithmetic, args),
        b"me" => return meta(request, Verb::MetaDebug, args),
        b"mn" => return simple(Verb::MetaNoop, name, next, args),
        b"version" => return simple(Verb::Version, name, next, args),
        b"quit" => return simple(Verb::Quit, name, next, args),
        b"flush_all" | b"verbosity" => return with_number(request, args),
        b"stats" | b"shutdown" => {
            args.push(name);
            args.extend(words.clone());
            return Parsed::Request { verb: if name == b"stats" { Verb::Stats } else { Verb::Shutdown }, end: next };
        }
        // What a browser sends, perhaps because somebody makes it: what follows must not be run.
        _ if words.clone().last().is_some_and(|word| word.starts_with(b"HTTP/")) => {
            return simple(Verb::Quit, name, next, args);
        }
        _ => return fail(args, name, ERROR, next),
    };
    store(request, stored, buf, pos, mode, limits, args)
}

fn fail<'a: 'b, 'b>(args: &mut ArenaVec<'a, &'b [u8]>, name: &'b [u8], text: &'static [u8], end: usize) -> Parsed {
    args.extend([name, text]);
    Parsed::Request { verb: Verb::Fail, end }
}

fn simple<'a: 'b, 'b>(verb: Verb, name: &'b [u8], end: usize, args: &mut ArenaVec<'a, &'b [u8]>) -> Parsed {
    args.push(name);
    Parsed::Request { verb, end }
}

/// A line whose end is not there.
#[cold]
fn cut_line<'a: 'b, 'b>(buf: &'b [u8], pos: usize, mode: &mut Mode, args: &mut ArenaVec<'a, &'b [u8]>) -> Parsed {
    let rest = &buf[pos..];
    if let Some((at, keys)) = open_ended(rest) {
        return first_key(buf, pos, pos + at, keys, mode, args);
    }
    if rest.len() > LINE_MAX_BYTES + 1 {
        return too_long(buf, args);
    }
    Parsed::Incomplete(Wanted::default())
}

/// Is it the beginning of a line that may be as long as it likes? Then where its keys begin.
fn open_ended(line: &[u8]) -> Option<(usize, Keys)> {
    let spaces = line.iter().take_while(|b| **b == b' ').count();
    let names = [(&b"get "[..], Keys::Get), (b"gets ", Keys::Gets)];
    let (name, keys) = names.into_iter().find(|(name, _)| line[spaces..].starts_with(name))?;
    (spaces <= SPACES_MAX).then_some((spaces + name.len(), keys))
}

#[cold]
fn too_long<'a: 'b, 'b>(buf: &'b [u8], args: &mut ArenaVec<'a, &'b [u8]>) -> Parsed {
    args.extend([&b""[..], LONG_LINE]);
    Parsed::Request { verb: Verb::FailClose, end: buf.len() }
}

/// The first key of a line that begins at `pos`; `at`: behind the name.
#[inline]
fn first_key<'a: 'b, 'b>(
    buf: &'b [u8],
    pos: usize,
    at: usize,
    keys: Keys,
    mode: &mut Mode,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    let parsed = next_key(buf, at, keys, mode, args);
    match &parsed {
        // There is none.
        Parsed::Nothing { end } => fail(args, &buf[pos..at], ERROR, *end),
        _ => parsed,
    }
}

/// The next key of a line, from `at` on. `Nothing`: there is no other.
#[inline]
pub(super) fn next_key<'a: 'b, 'b>(
    buf: &'b [u8],
    at: usize,
    keys: Keys,
    mode: &mut Mode,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    let mut start = at;
    while buf.get(start) == Some(&b' ') {
        start += 1;
    }
    let mut end = word_end(buf, start);
    // The end of the line, if that is what follows the key.
    let (last, next) = loop {
        match buf.get(end) {
            Some(b' ') => {
                let mut behind = end + 1;
                while buf.get(behind) == Some(&b' ') {
                    behind += 1;
                }
                match &buf[behind..] {
                    [b'\n', ..] => break (true, behind + 1),
                    [b'\r', b'\n', ..] => break (true, behind + 2),
                    [] | [b'\r'] => return cut_key(&buf[start..end], mode, args, buf.len()),
                    _ => break (false, end),
                }
            }
            Some(b'\n') => break (true, end + 1),
            Some(b'\r') => match buf.get(end + 1) {
                Some(b'\n') => break (true, end + 2),
                Some(_) => {}
                None => return cut_key(&buf[start..end], mode, args, buf.len()),
            },
            Some(_) => {}
            None => return cut_key(&buf[start..end], mode, args, buf.len()),
        }
        // A control character that is a part of the key.
        end = word_end(buf, end + 1);
    };
    let key = &buf[start..end];
    if key.is_empty() {
        *mode = Mode::Request;
        return Parsed::Nothing { end: next };
    }
    if key.len() > KEY_MAX_BYTES {
        *mode = if last { Mode::Request } else { Mode::SkipLine };
        args.extend([&b"get"[..], BAD_FORMAT]);
        return Parsed::Request { verb: Verb::FailKeys, end: next };
    }
    args.extend_from_slice_copy(&[&b"get"[..], key]);
    if let Keys::Gat(deadline) | Keys::Gats(deadline) = keys {
        let bytes: &[u8] = args.bump().alloc(deadline.to_le_bytes());
        args.push(bytes);
    }
    *mode = if last { Mode::Request } else { Mode::Keys(keys) };
    Parsed::Request { verb: keys.verb(last), end: next }
}

/// A key of which perhaps not all is there, or not what follows it; `end` is that of the window.
#[cold]
fn cut_key<'a: 'b, 'b>(key: &'b [u8], mode: &mut Mode, args: &mut ArenaVec<'a, &'b [u8]>, end: usize) -> Parsed {
    if key.len() <= KEY_MAX_BYTES {
        return Parsed::Incomplete(Wanted::default());
    }
    *mode = Mode::SkipLine;
    args.extend([&b"get"[..], BAD_FORMAT]);
    Parsed::Request { verb: Verb::FailKeys, end }
}

#[cold]
fn get_and_touch<'a: 'b, 'b>(
    request: Request<'b>,
    buf: &'b [u8],
    pos: usize,
    mode: &mut Mode,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    let Request { name, mut words, next } = request;
    let (Some(deadline), true) = (words.next(), words.clone().next().is_some()) else {
        return fail(args, name, ERROR, next);
    };
    let Some(deadline) = number::signed(deadline) else { return fail(args, name, BAD_EXPTIME, next) };
    let keys = if name == b"gat" { Keys::Gat(deadline) } else { Keys::Gats(deadline) };
    let at = pos + (words.rest.as_ptr() as usize - buf[pos..].as_ptr() as usize);
    first_key(buf, pos, at, keys, mode, args)
}

/// A line that announces a value. `Err`: what to answer, and how long the value is that is to be passed over.
struct Announced<'b> {
    verb: Verb,
    /// Its arguments; the value's place is empty.
    args: ([&'b [u8]; 7], usize),
    value_bytes: u64,
    noreply: bool,
    too_large: bool,
}

enum Refused {
    /// The text is answered even if no reply is wanted.
    Always(&'static [u8], u64),
    Unless(bool, &'static [u8], u64),
}

const VALUE_AT: usize = 4;

#[inline]
fn announced<'b>(request: &Request<'b>, verb: Verb, limits: &Limits) -> Result<Announced<'b>, Refused> {
    let mut words = request.words.clone();
    let mut next = || words.next();
    let (Some(key), Some(flags), Some(deadline), Some(length)) = (next(), next(), next(), next()) else {
        return Err(Refused::Always(ERROR, 0));
    };
    let cas = if verb == Verb::Cas { Some(next().ok_or(Refused::Always(ERROR, 0))?) } else { None };
    let last = next();
    if last.is_some() && next().is_some() {
        return Err(Refused::Always(ERROR, 0));
    }
    let noreply = last == Some(b"noreply");
    let Some(value_bytes) = number::signed(length).filter(|n| (0..=VALUE_MAX_BYTES).contains(n)) else {
        return Err(Refused::Unless(noreply, BAD_FORMAT, 0));
    };
    let value_bytes = value_bytes.unsigned_abs();
    let good = key.len() <= KEY_MAX_BYTES
        && number::flags(flags).is_some()
        && number::signed(deadline).is_some()
        && cas.is_none_or(|cas| number::unsigned(cas).is_some());
    if !good {
        return Err(Refused::Unless(noreply, BAD_FORMAT, value_bytes + 2));
    }
    let too_large = !limits.takes(key.len(), flags != b"0" && number::flags(flags) != Some(0), value_bytes);
    let noreply_word: &[u8] = if noreply { b"noreply" } else { b"" };
    let args = [request.name, key, flags, deadline, b"", noreply_word, cas.unwrap_or_default()];
    let count = if cas.is_some() { 7 } else { 6 };
    Ok(Announced { verb, args: (args, count), value_bytes, noreply, too_large })
}

#[inline]
fn store<'a: 'b, 'b>(
    request: Request<'b>,
    verb: Verb,
    buf: &'b [u8],
    pos: usize,
    mode: &mut Mode,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    let next = request.next;
    let announced = match announced(&request, verb, limits) {
        Ok(announced) => announced,
        Err(refused) => return refuse(refused, request.name, next, mode, args),
    };
    let Announced { verb, args: (mut argv, count), value_bytes, noreply, too_large } = announced;
    if too_large {
        *mode = Mode::Swallow(value_bytes + 2);
        args.extend([argv[0], argv[1], if noreply { &b"noreply"[..] } else { b"" }]);
        // What would only be added is refused in the same words, but the old value stays.
        if verb != Verb::Set {
            args.push(b"keep");
        }
        return Parsed::Request { verb: Verb::TooLarge, end: next };
    }
    match value(buf, pos, next, value_bytes) {
        Value::Whole(value, end) => {
            argv[VALUE_AT] = value;
            args.extend_from_slice(&argv[..count]);
            Parsed::Request { verb, end }
        }
        Value::Wrong(end) if noreply => Parsed::Nothing { end },
        Value::Wrong(end) => fail(args, argv[0], BAD_CHUNK, end),
        Value::Cut(wanted) => Parsed::Incomplete(wanted),
    }
}

fn refuse<'a: 'b, 'b>(
    refused: Refused,
    name: &'b [u8],
    next: usize,
    mode: &mut Mode,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    let (quiet, text, swallowed) = match refused {
        Refused::Always(text, swallowed) => (false, text, swallowed),
        Refused::Unless(noreply, text, swallowed) => (noreply, text, swallowed),
    };
    if swallowed > 0 {
        *mode = Mode::Swallow(swallowed);
    }
    if quiet { Parsed::Nothing { end: next } } else { fail(args, name, text, next) }
}

enum Value<'b> {
    /// The value, and where its line ends.
    Whole(&'b [u8], usize),
    /// No line's end follows it.
    Wrong(usize),
    Cut(Wanted),
}

/// The value of the request at `pos` whose line ends at `next`.
#[inline]
fn value(buf: &[u8], pos: usize, next: usize, value_bytes: u64) -> Value<'_> {
    // (Below 2^31.)
    let value_bytes = usize::try_from(value_bytes).unwrap_or(usize::MAX);
    let end = next + value_bytes;
    match buf.get(end..end + 2) {
        Some(b"\r\n") => Value::Whole(&buf[next..end], end + 2),
        Some(_) => Value::Wrong(end + 2),
        None => Value::Cut(Wanted { bytes: end + 2 - pos, value: Some((next - pos, value_bytes)) }),
    }
}

/// `incr`, `decr`, `touch`: name, key, number, noreply.
fn keyed<'a: 'b, 'b>(request: Request<'b>, verb: Verb, args: &mut ArenaVec<'a, &'b [u8]>) -> Parsed {
    let Request { name, mut words, next } = request;
    let (Some(key), Some(number), last, None) = (words.next(), words.next(), words.next(), words.next()) else {
        return fail(args, name, ERROR, next);
    };
    let noreply = last == Some(b"noreply");
    if key.len() > KEY_MAX_BYTES {
        return if noreply { Parsed::Nothing { end: next } } else { fail(args, name, BAD_FORMAT, next) };
    }
    args.extend([name, key, number, if noreply { &b"noreply"[..] } else { b"" }]);
    Parsed::Request { verb, end: next }
}

/// `delete <key> [0] [noreply]`
fn delete<'a: 'b, 'b>(request: Request<'b>, args: &mut ArenaVec<'a, &'b [u8]>) -> Parsed {
    let Request { name, mut words, next } = request;
    let (Some(key), first, second, None) = (words.next(), words.next(), words.next(), words.next()) else {
        return fail(args, name, ERROR, next);
    };
    let noreply = second.or(first) == Some(b"noreply");
    let good = match (first, second) {
        (None, _) => true,
        (Some(word), None) => word == b"0" || noreply,
        (Some(word), Some(_)) => word == b"0" && noreply,
    };
    let text = match (good, key.len() <= KEY_MAX_BYTES) {
        (false, _) => BAD_DELETE,
        (true, false) => BAD_FORMAT,
        (true, true) => {
            args.extend([name, key, if noreply { &b"noreply"[..] } else { b"" }]);
            return Parsed::Request { verb: Verb::Delete, end: next };
        }
    };
    if noreply { Parsed::Nothing { end: next } } else { fail(args, name, text, next) }
}

/// `flush_all [delay] [noreply]`, `verbosity <level> [noreply]`
fn with_number<'a: 'b, 'b>(request: Request<'b>, args: &mut ArenaVec<'a, &'b [u8]>) -> Parsed {
    let Request { name, mut words, next } = request;
    let (first, second, None) = (words.next(), words.next(), words.next()) else {
        return fail(args, name, ERROR, next);
    };
    let flushes = name == b"flush_all";
    let noreply = second.or(first) == Some(b"noreply");
    let number = if flushes && noreply && second.is_none() { None } else { first };
    if !flushes && number.is_none() {
        return fail(args, name, ERROR, next);
    }
    args.extend([name, number.unwrap_or_default(), if noreply { &b"noreply"[..] } else { b"" }]);
    Parsed::Request { verb: if flushes { Verb::FlushAll } else { Verb::Verbosity }, end: next }
}

/// The key of a meta command, decoded if one of its flags says so.
fn meta_key<'a: 'b, 'b>(
    key: &'b [u8],
    mut flags: Words<'b>,
    args: &ArenaVec<'a, &'b [u8]>,
) -> Result<&'b [u8], &'static [u8]> {
    if !flags.any(|flag| flag[0] == b'b') {
        return Ok(key);
    }
    let decoded = STANDARD.decode(key).ok().filter(|key| !key.is_empty()).ok_or(BAD_BASE64)?;
    Ok(args.bump().alloc_slice_copy(&decoded))
}

/// `mg`, `md`, `ma`, `me`: name, key, flags.
fn meta<'a: 'b, 'b>(request: Request<'b>, verb: Verb, args: &mut ArenaVec<'a, &'b [u8]>) -> Parsed {
    let Request { name, mut words, next } = request;
    let Some(key) = words.next() else {
        return fail(args, name, if verb == Verb::MetaDebug { BAD_FORMAT } else { ERROR }, next);
    };
    if key.len() > KEY_MAX_BYTES {
        return fail(args, name, BAD_FORMAT, next);
    }
    if words.clone().nth(META_FLAGS_MAX).is_some() {
        return fail(args, name, LONG_FLAGS, next);
    }
    match meta_key(key, words.clone(), args) {
        Ok(key) => {
            args.extend([name, key]);
            args.extend(words);
            Parsed::Request { verb, end: next }
        }
        Err(text) => fail(args, name, if verb == Verb::MetaGet { text } else { BAD_FLAG }, next),
    }
}

/// `ms <key> <length> <flags>`, then the value.
fn meta_set<'a: 'b, 'b>(
    request: Request<'b>,
    buf: &'b [u8],
    pos: usize,
    mode: &mut Mode,
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Parsed {
    let Request { name, mut words, next } = request;
    let Some(key) = words.next() else { return fail(args, name, ERROR, next) };
    let length = words.next().and_then(number::signed).filter(|n| (0..=VALUE_MAX_BYTES).contains(n));
    let Some(value_bytes) = length.map(i64::unsigned_abs) else { return fail(args, name, BAD_FORMAT, next) };
    let mut refuse = |text, args| refuse(Refused::Always(text, value_bytes + 2), name, next, mode, args);
    if key.len() > KEY_MAX_BYTES {
        return refuse(BAD_FORMAT, args);
    }
    if words.clone().nth(META_FLAGS_MAX - 1).is_some() {
        return refuse(LONG_FLAGS, args);
    }
    let key = match meta_key(key, words.clone(), args) {
        Ok(key) => key,
        Err(text) => return refuse(text, args),
    };
    let has_flags = words.clone().any(|flag| flag[0] == b'F' && number::flags(&flag[1..]) != Some(0));
    if !limits.takes(key.len(), has_flags, value_bytes) {
        *mode = Mode::Swallow(value_bytes + 2);
        args.extend([name, key, b"ms"]);
        return Parsed::Request { verb: Verb::TooLarge, end: next };
    }
    match value(buf, pos, next, value_bytes) {
        Value::Whole(value, end) => {
            args.extend([name, key, value]);
            args.extend(words);
            Parsed::Request { verb: Verb::MetaSet, end }
        }
        Value::Wrong(end) => fail(args, name, BAD_CHUNK, end),
        Value::Cut(wanted) => Parsed::Incomplete(wanted),
    }
}

/// See [`super::parse_head`].
pub(super) fn parse_head<'a: 'b, 'b>(
    head: &'b [u8],
    limits: &Limits,
    args: &mut ArenaVec<'a, &'b [u8]>,
) -> Option<Verb> {
    let (line, next) = line(head, 0)?;
    let mut words = Words { rest: line };
    let name = words.next()?;
    let verb = match name {
        b"set" => Verb::Set,
        b"add" => Verb::Add,
        b"replace" => Verb::Replace,
        b"append" => Verb::Append,
        b"prepend" => Verb::Prepend,
        b"cas" => Verb::Cas,
        b"ms" => {
            let (key, _length) = (words.next()?, words.next()?);
            let key = meta_key(key, words.clone(), args).ok()?;
            args.extend([name, key, b""]);
            args.extend(words);
            return Some(Verb::MetaSet);
        }
        _ => return None,
    };
    let announced = announced(&Request { name, words, next }, verb, limits).ok()?;
    args.extend_from_slice(&announced.args.0[..announced.args.1]);
    Some(verb)
}

/// What to answer when the value that a line has announced is not followed by a line's end; `None`: nothing.
#[must_use]
pub fn bad_chunk(head: &[u8]) -> Option<&'static [u8]> {
    let (line, _) = line(head, 0)?;
    let mut words = Words { rest: line };
    let is_quiet = words.next() != Some(b"ms") && words.last() == Some(b"noreply");
    (!is_quiet).then_some(BAD_CHUNK)
}
