//! The parser of memcached's requests written down as the protocol reads, with no regard for speed: the oracle of tests and of the fuzz
//! target. It sees the whole stream at once.

use super::{KEY_MAX_BYTES, LINE_MAX_BYTES, Limits, Verb};
use base64::Engine as _;

/// A request: what it asks for, and its arguments but for the first.
pub type Asked = (Verb, Vec<Vec<u8>>);

/// The requests of a stream, up to one that ends it or is not whole.
#[must_use]
pub fn parse_stream(stream: &[u8], limits: &Limits) -> Vec<Asked> {
    let (mut asked, mut rest) = (Vec::new(), stream);
    loop {
        let before = asked.len();
        let next =
            if rest.first() == Some(&0x80) { frame(rest, limits, &mut asked) } else { text(rest, limits, &mut asked) };
        let closes = [Verb::FailClose, Verb::BinaryInvalid, Verb::BinaryUnframed];
        if asked[before..].iter().any(|(verb, _)| closes.contains(verb)) {
            return asked;
        }
        match next {
            Some(length) => rest = &rest[length.min(rest.len())..],
            None => return asked,
        }
    }
}

fn frame(rest: &[u8], limits: &Limits, asked: &mut Vec<Asked>) -> Option<usize> {
    if rest.len() < 24 {
        return None;
    }
    let opcode = rest[1];
    let key = usize::from(rest[2]) << 8 | usize::from(rest[3]);
    let extras = usize::from(rest[4]);
    let body = rest[8..12].iter().fold(0, |n, b| n << 8 | usize::from(*b));
    if key + extras > body {
        asked.push((Verb::BinaryUnframed, vec![]));
        return None;
    }
    let value = body - key - extras;
    let verb = match opcode {
        0x00 | 0x09 | 0x0c | 0x0d => Verb::BinaryGet,
        0x01..=0x03 | 0x11..=0x13 => Verb::BinaryStore,
        0x04 | 0x14 => Verb::BinaryDelete,
        0x05 | 0x06 | 0x15 | 0x16 => Verb::BinaryArithmetic,
        0x07 | 0x17 | 0x0a | 0x0b | 0x1b => Verb::BinaryOther,
        0x08 | 0x18 => Verb::BinaryFlush,
        0x0e | 0x0f | 0x19 | 0x1a => Verb::BinaryConcat,
        0x10 => Verb::BinaryStat,
        0x1c..=0x1e | 0x23 | 0x24 => Verb::BinaryTouch,
        0x20..=0x22 => Verb::BinarySasl,
        _ => Verb::BinaryUnknown,
    };
    let valueless = value == 0;
    let good = match (verb, opcode) {
        (Verb::BinaryGet | Verb::BinaryDelete, _) => key > 0 && extras == 0 && valueless,
        (Verb::BinaryStore, _) => key > 0 && extras == 8,
        (Verb::BinaryConcat, _) => key > 0 && extras == 0,
        (Verb::BinaryArithmetic, _) => key > 0 && extras == 20 && valueless,
        (Verb::BinaryTouch, _) => key > 0 && extras == 4 && valueless,
        (Verb::BinaryFlush, _) => key == 0 && (extras == 0 || extras == 4) && valueless,
        (Verb::BinaryStat, _) => extras == 0 && valueless,
        (Verb::BinaryOther, 0x1b) => key == 0 && extras == 4 && valueless,
        (Verb::BinaryOther, _) | (Verb::BinarySasl, 0x20) => body == 0,
        (Verb::BinarySasl, _) => key > 0 && extras == 0 && value <= 16384,
        _ => true,
    };
    if !good || key > KEY_MAX_BYTES {
        asked.push((Verb::BinaryInvalid, vec![]));
        return None;
    }
    if verb == Verb::BinaryUnknown {
        asked.push((verb, vec![]));
        return Some(24 + body);
    }
    let part = |from: usize, length: usize| rest.get(24 + from..24 + from + length).map(<[u8]>::to_vec);
    let (extras_part, key_part) = (part(0, extras)?, part(extras, key)?);
    if matches!(verb, Verb::BinaryStore | Verb::BinaryConcat) {
        let has_flags = extras > 0 && extras_part[..4].iter().any(|b| *b != 0);
        if !limits.takes(key, has_flags, value as u64) {
            asked.push((Verb::BinaryTooLarge, vec![key_part]));
            return Some(24 + body);
        }
    }
    asked.push((verb, vec![key_part, extras_part, part(extras + key, value)?]));
    Some(24 + body)
}

fn number(word: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(word).ok()?;
    text.parse().ok().filter(|_| text.len() < 38)
}

fn natural(word: &[u8], max: i128) -> bool {
    !word.starts_with(b"-") && number(word).is_some_and(|n| n <= max)
}

fn fail(asked: &mut Vec<Asked>, verb: Verb, text: &str) {
    asked.push((verb, vec![text.into()]));
}

/// Pushes what one line asks for; returns its length with its value.
fn text(rest: &[u8], limits: &Limits, asked: &mut Vec<Asked>) -> Option<usize> {
    let end = rest.iter().position(|b| *b == b'\n');
    let mut line = &rest[..end.unwrap_or(rest.len())];
    if line.len() > 1 && line.ends_with(b"\r") {
        line = &line[..line.len() - 1];
    }
    let spaces = line.iter().take_while(|b| **b == b' ').count();
    let long = spaces <= 100 && (line[spaces..].starts_with(b"get ") || line[spaces..].starts_with(b"gets "));
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').filter(|word| !word.is_empty()).collect();
    let bad = "CLIENT_ERROR bad command line format";
    if long {
        return keys(rest, end, &words, asked);
    }
    if rest[..end.unwrap_or(rest.len())].len() > LINE_MAX_BYTES + 1 || end.is_some() && line.len() > LINE_MAX_BYTES {
        fail(asked, Verb::FailClose, "CLIENT_ERROR line too long");
        return None;
    }
    let next = end? + 1;
    let noreply = words.last() == Some(&&b"noreply"[..]);
    let quiet = |on: bool| if on { b"noreply".to_vec() } else { vec![] };
    let owned = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    match (words.first().copied().unwrap_or_default(), words.len()) {
        (b"set" | b"add" | b"replace" | b"append" | b"prepend", 5..=6) | (b"cas", 6..=7) => {
            let verb = match words[0] {
                b"set" => Verb::Set,
                b"add" => Verb::Add,
                b"replace" => Verb::Replace,
                b"append" => Verb::Append,
                b"prepend" => Verb::Prepend,
                _ => Verb::Cas,
            };
            let counted = if verb == Verb::Cas { 6 } else { 5 };
            let noreply = words.get(counted) == Some(&&b"noreply"[..]);
            let length = number(words[4]).filter(|n| (0..=2_147_483_645).contains(n));
            let Some(length) = length.and_then(|n| usize::try_from(n).ok()) else {
                if !noreply {
                    fail(asked, Verb::Fail, bad);
                }
                return Some(next);
            };
            let whole = next + length + 2;
            let good = words[1].len() <= KEY_MAX_BYTES
                && natural(words[2], u32::MAX.into())
                && number(words[3]).is_some_and(|n| i64::try_from(n).is_ok())
                && (verb != Verb::Cas || natural(words[5], u64::MAX.into()));
            if !good {
                if !noreply {
                    fail(asked, Verb::Fail, bad);
                }
                return Some(whole);
            }
            if !limits.takes(words[1].len(), number(words[2]) != Some(0), length as u64) {
                let mut args = vec![words[1].to_vec(), quiet(noreply)];
                if verb != Verb::Set {
                    args.push(b"keep".to_vec());
                }
                asked.push((Verb::TooLarge, args));
                return Some(whole);
            }
            let value = rest.get(next..whole)?;
            let Some(value) = value.strip_suffix(b"\r\n") else {
                if !noreply {
                    fail(asked, Verb::Fail, "CLIENT_ERROR bad data chunk");
                }
                return Some(whole);
            };
            let mut args = owned(&[words[1], words[2], words[3], value]);
            args.push(quiet(noreply));
            args.extend((verb == Verb::Cas).then(|| words[5].to_vec()));
            asked.push((verb, args));
            Some(whole)
        }
        (b"gat" | b"gats", 3..) => {
            let Some(deadline) = number(words[1]).and_then(|n| i64::try_from(n).ok()) else {
                fail(asked, Verb::Fail, "CLIENT_ERROR invalid exptime argument");
                return Some(next);
            };
            let (each, last) =
                if words[0] == b"gat" { (Verb::Gat, Verb::GatLast) } else { (Verb::Gats, Verb::GatsLast) };
            for (i, key) in words[2..].iter().enumerate() {
                if key.len() > KEY_MAX_BYTES {
                    fail(asked, Verb::FailKeys, bad);
                    break;
                }
                let verb = if i + 3 == words.len() { last } else { each };
                asked.push((verb, vec![key.to_vec(), deadline.to_le_bytes().to_vec()]));
            }
            Some(next)
        }
        (b"bget", 2..) => keys(rest, end, &words, asked),
        (b"incr" | b"decr" | b"touch", 3..=4) => {
            let verb = match words[0] {
                b"incr" => Verb::Incr,
                b"decr" => Verb::Decr,
                _ => Verb::Touch,
            };
            let noreply = words.len() == 4 && noreply;
            if words[1].len() > KEY_MAX_BYTES {
                if !noreply {
                    fail(asked, Verb::Fail, bad);
                }
                return Some(next);
            }
            let mut args = owned(&words[1..3]);
            args.push(quiet(noreply));
            asked.push((verb, args));
            Some(next)
        }
        (b"delete", count @ 2..=4) => {
            let noreply = count > 2 && noreply;
            let good =
                count == 2 || count == 3 && (words[2] == b"0" || noreply) || count == 4 && words[2] == b"0" && noreply;
            if !good {
                if !noreply {
                    fail(asked, Verb::Fail, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
                }
            } else if words[1].len() > KEY_MAX_BYTES {
                if !noreply {
                    fail(asked, Verb::Fail, bad);
                }
            } else {
                asked.push((Verb::Delete, vec![words[1].to_vec(), quiet(noreply)]));
            }
            Some(next)
        }
        (b"flush_all", count @ 1..=3) => {
            let noreply = count > 1 && noreply;
            let delay = if count == 1 || count == 2 && noreply { vec![] } else { words[1].to_vec() };
            asked.push((Verb::FlushAll, vec![delay, quiet(noreply)]));
            Some(next)
        }
        (b"verbosity", 2..=3) => {
            asked.push((Verb::Verbosity, vec![words[1].to_vec(), quiet(noreply)]));
            Some(next)
        }
        (name @ (b"stats" | b"shutdown"), _) => {
            let verb = if name == b"stats" { Verb::Stats } else { Verb::Shutdown };
            asked.push((verb, owned(&words[1..])));
            Some(next)
        }
        (b"version", _) => {
            asked.push((Verb::Version, vec![]));
            Some(next)
        }
        (b"quit", _) => {
            asked.push((Verb::Quit, vec![]));
            Some(next)
        }
        (b"mn", _) => {
            asked.push((Verb::MetaNoop, vec![]));
            Some(next)
        }
        (name @ (b"mg" | b"md" | b"ma"), 2..) | (name @ b"me", 2..) => {
            let verb = match name {
                b"mg" => Verb::MetaGet,
                b"md" => Verb::MetaDelete,
                b"ma" => Verb::MetaArithmetic,
                _ => Verb::MetaDebug,
            };
            if words[1].len() > KEY_MAX_BYTES {
                fail(asked, Verb::Fail, bad);
            } else if words.len() > 19 {
                fail(asked, Verb::Fail, "CLIENT_ERROR options flags are too long");
            } else {
                match key(words[1], &words[2..]) {
                    Some(key) => {
                        let mut args = vec![key];
                        args.extend(owned(&words[2..]));
                        asked.push((verb, args));
                    }
                    None if verb == Verb::MetaGet => fail(asked, Verb::Fail, "CLIENT_ERROR error decoding key"),
                    None => fail(asked, Verb::Fail, "CLIENT_ERROR invalid or duplicate flag"),
                }
            }
            Some(next)
        }
        (b"me", _) => {
            fail(asked, Verb::Fail, bad);
            Some(next)
        }
        (b"ms", 2..) => {
            let length = words.get(2).and_then(|word| number(word)).filter(|n| (0..=2_147_483_645).contains(n));
            let Some(length) = length.and_then(|n| usize::try_from(n).ok()) else {
                fail(asked, Verb::Fail, bad);
                return Some(next);
            };
            let whole = next + length + 2;
            if words[1].len() > KEY_MAX_BYTES {
                fail(asked, Verb::Fail, bad);
                return Some(whole);
            }
            if words.len() > 19 {
                fail(asked, Verb::Fail, "CLIENT_ERROR options flags are too long");
                return Some(whole);
            }
            let Some(key) = key(words[1], &words[3..]) else {
                fail(asked, Verb::Fail, "CLIENT_ERROR error decoding key");
                return Some(whole);
            };
            let has_flags = words[3..].iter().any(|flag| flag[0] == b'F' && !(natural(&flag[1..], 0)));
            if !limits.takes(key.len(), has_flags, length as u64) {
                asked.push((Verb::TooLarge, vec![key, b"ms".to_vec()]));
                return Some(whole);
            }
            let value = rest.get(next..whole)?;
            match value.strip_suffix(b"\r\n") {
                Some(value) => {
                    let mut args = vec![key, value.to_vec()];
                    args.extend(owned(&words[3..]));
                    asked.push((Verb::MetaSet, args));
                }
                None => fail(asked, Verb::Fail, "CLIENT_ERROR bad data chunk"),
            }
            Some(whole)
        }
        _ if words.len() > 1 && words.last().is_some_and(|word| word.starts_with(b"HTTP/")) && !known(words[0]) => {
            asked.push((Verb::Quit, vec![]));
            Some(next)
        }
        _ => {
            fail(asked, Verb::Fail, "ERROR");
            Some(next)
        }
    }
}

fn known(name: &[u8]) -> bool {
    let names = [
        "get",
        "gets",
        "bget",
        "gat",
        "gats",
        "set",
        "add",
        "replace",
        "append",
        "prepend",
        "cas",
        "incr",
        "decr",
        "touch",
        "delete",
        "flush_all",
        "verbosity",
        "mg",
        "ms",
        "md",
        "ma",
    ];
    names.iter().any(|known| known.as_bytes() == name)
}

fn key(word: &[u8], flags: &[&[u8]]) -> Option<Vec<u8>> {
    if !flags.iter().any(|flag| flag[0] == b'b') {
        return Some(word.to_vec());
    }
    base64::engine::general_purpose::STANDARD.decode(word).ok().filter(|key| !key.is_empty())
}

/// A line of keys, which is read as far as it goes. (`words`: with its name.)
fn keys(rest: &[u8], end: Option<usize>, words: &[&[u8]], asked: &mut Vec<Asked>) -> Option<usize> {
    let (each, last) = if words[0] == b"gets" { (Verb::Gets, Verb::GetsLast) } else { (Verb::Get, Verb::GetLast) };
    let whole = end.is_some();
    // Without the line's end nobody knows what the last word will be, or whether a word that ends there is the last.
    let mut sure = words[1..].len();
    if !whole {
        let last_at = rest.iter().rposition(|b| *b != b' ' && *b != b'\r').map_or(0, |at| at + 1);
        let open = words.last().is_some_and(|word| {
            word.len() > KEY_MAX_BYTES && (rest.len() == last_at || word.len() > KEY_MAX_BYTES + 1)
        });
        sure = if open { sure } else { sure.saturating_sub(1) };
    }
    if whole && sure == 0 {
        asked.push((Verb::Fail, vec![b"ERROR".to_vec()]));
    }
    for (i, key) in words[1..][..sure].iter().enumerate() {
        if key.len() > KEY_MAX_BYTES {
            asked.push((Verb::FailKeys, vec![b"CLIENT_ERROR bad command line format".to_vec()]));
            break;
        }
        let verb = if whole && i + 2 == words.len() { last } else { each };
        asked.push((verb, vec![key.to_vec()]));
    }
    end.map(|end| end + 1)
}
