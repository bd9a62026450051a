//! The quoting of inline requests and configuration lines, in both directions. Rules as in Redis: `"..."` with `\n \r \t \b \a \xHH`,
//! any other `\c` is `c`; `'...'` with `\'` only; a closing quote ends the argument and must be followed by white space or the end.
//! Unlike Redis, whose strings end there, a NUL byte is an ordinary byte.
use std::borrow::Cow;

/// A quote is not closed, or something follows a closing quote at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unbalanced;

/// Splits `line` into arguments.
pub fn split_args(line: &[u8]) -> Result<Vec<Vec<u8>>, Unbalanced> {
    let mut args = Vec::new();
    split_each(line, |arg| args.push(arg.into_owned()))?;
    Ok(args)
}

/// Splits `line` and hands out one argument after the other; what needs no unescaping is borrowed. Arguments before a fault have been
/// handed out when the error is known.
pub fn split_each<'l>(line: &'l [u8], mut take: impl FnMut(Cow<'l, [u8]>)) -> Result<(), Unbalanced> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|&b| is_space(b)) {
            at += 1;
        }
        if at == line.len() {
            return Ok(());
        }
        let plain =
            line[at..].iter().position(|&b| ends_plain(b) || b == b'"' || b == b'\'').unwrap_or(line.len() - at);
        if line.get(at + plain).is_none_or(|&b| ends_plain(b)) {
            take(Cow::Borrowed(&line[at..at + plain]));
            at += plain;
        } else {
            let (arg, next) = quoted(line, at)?;
            take(Cow::Owned(arg));
            at = next;
        }
    }
}

/// An argument with a quote in it, which starts at `at`; also tells where it ends.
fn quoted(line: &[u8], mut at: usize) -> Result<(Vec<u8>, usize), Unbalanced> {
    let mut arg = Vec::new();
    while let Some(&byte) = line.get(at) {
        at += 1;
        match byte {
            b'"' => return double_quoted(line, at, arg),
            b'\'' => return single_quoted(line, at, arg),
            _ if ends_plain(byte) => break,
            _ => arg.push(byte),
        }
    }
    Ok((arg, at))
}

fn double_quoted(line: &[u8], mut at: usize, mut arg: Vec<u8>) -> Result<(Vec<u8>, usize), Unbalanced> {
    loop {
        match line[at..] {
            [] => return Err(Unbalanced),
            [b'"', ..] => return closed(line, at + 1, arg),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                arg.push(hex(high) << 4 | hex(low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                arg.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => other,
                });
                at += 2;
            }
            [byte, ..] => {
                arg.push(byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, mut arg: Vec<u8>) -> Result<(Vec<u8>, usize), Unbalanced> {
    loop {
        match line[at..] {
            [] => return Err(Unbalanced),
            [b'\'', ..] => return closed(line, at + 1, arg),
            [b'\\', b'\'', ..] => {
                arg.push(b'\'');
                at += 2;
            }
            [byte, ..] => {
                arg.push(byte);
                at += 1;
            }
        }
    }
}

/// After a closing quote.
fn closed(line: &[u8], at: usize, arg: Vec<u8>) -> Result<(Vec<u8>, usize), Unbalanced> {
    match line.get(at) {
        Some(&byte) if !is_space(byte) => Err(Unbalanced),
        _ => Ok((arg, at)),
    }
}

/// C's `isspace`: skipped before an argument, allowed after a closing quote.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Ends an unquoted argument; vertical tab and form feed do not.
fn ends_plain(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// `text` in double quotes, escaped so that it is printable ASCII and `split_args` gives it back.
pub fn quote(text: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut quoted = Vec::with_capacity(text.len() + 2);
    quoted.push(b'"');
    for &byte in text {
        match byte {
            b'\\' | b'"' => quoted.extend([b'\\', byte]),
            b'\n' => quoted.extend(b"\\n"),
            b'\r' => quoted.extend(b"\\r"),
            b'\t' => quoted.extend(b"\\t"),
            0x07 => quoted.extend(b"\\a"),
            0x08 => quoted.extend(b"\\b"),
            b' '..=b'~' => quoted.push(byte),
            _ => quoted.extend([b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
    quoted.push(b'"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        split_args(line).ok()
    }

    /// Each line as redis-server 7.0.15 splits it.
    #[test]
    fn splits_like_redis() {
        let good: [(&[u8], &[&[u8]]); 21] = [
            (b"", &[]),
            (b" \t\r\n\x0b\x0c", &[]),
            (b"a", &[b"a"]),
            (b"  set  k\tv \r", &[b"set", b"k", b"v"]),
            (b"\x0ba\x0bb\x0c c", &[b"a\x0bb\x0c", b"c"]),
            (b"'a'\x0bb", &[b"a", b"b"]),
            (b"''", &[b""]),
            (b"\"\" ''", &[b"", b""]),
            (br#""a b" c"#, &[b"a b", b"c"]),
            (br#"a"b c""#, &[b"ab c"]),
            (br"a'b c'", &[b"ab c"]),
            (br#""\n\r\t\b\a\\\"\q\x41\x0f\xFf""#, &[b"\n\r\t\x08\x07\\\"qA\x0f\xff"]),
            (br#""\xg1\x4""#, &[b"xg1x4"]),
            (br"'a\'b\n\\ '", &[br"a'b\n\\ "]),
            (br"a\nb \x41", &[br"a\nb", br"\x41"]),
            (br#"'"' "'""#, &[b"\"", b"'"]),
            (b"\"a\nb\"", &[b"a\nb"]),
            (b"a\rb", &[b"a", b"b"]),
            (b"a\0b \0", &[b"a\0b", b"\0"]),
            (b"\"a\0b\"", &[b"a\0b"]),
            (b"\xff\xfe", &[b"\xff\xfe"]),
        ];
        for (line, args) in good {
            assert_eq!(split(line), Some(args.iter().map(|a| a.to_vec()).collect()), "{}", line.escape_ascii());
        }
        for line in [
            &b"\""[..],
            b"'",
            b"a\"",
            b"\"a\"b",
            b"'a'b",
            b"'a''b'",
            b"\"a\\\"",
            b"'a\\'",
            b"\"\\",
            b"\"a\"\0",
            b"x \"y",
        ] {
            assert_eq!(split(line), None, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn plain_arguments_are_borrowed() {
        let line = b"get key 'x'".to_vec();
        let mut owned = Vec::new();
        split_each(&line, |arg| owned.push(matches!(arg, Cow::Owned(_)))).unwrap();
        assert_eq!(owned, [false, false, true]);
    }

    #[test]
    fn quotes_like_redis() {
        assert_eq!(quote(b""), b"\"\"");
        assert_eq!(quote(b"a \"b\"\\'\n\r\t\x07\x08\0\x1b\x7f\xc3~"), br#""a \"b\"\\'\n\r\t\a\b\x00\x1b\x7f\xc3~""#);
    }

    proptest! {
        #[test]
        fn quote_is_undone_by_split(args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6)) {
            let line = args.iter().map(|arg| quote(arg)).collect::<Vec<_>>().join(&b' ');
            prop_assert!(line.iter().all(|b| (b' '..=b'~').contains(b)));
            prop_assert_eq!(split_args(&line), Ok(args));
        }

        /// Against the character-wise machine that Redis documents, written down naively.
        #[test]
        fn splits_like_the_naive_machine(line in "[ab \"'\\\\xn0\t\r\u{b}]{0,24}") {
            prop_assert_eq!(split(line.as_bytes()), naive(line.as_bytes()));
        }
    }

    fn naive(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        let space = |c: Option<&u8>| c.is_none_or(|c| b" \t\n\x0b\x0c\r".contains(c));
        let (mut args, mut i) = (Vec::new(), 0);
        loop {
            while i < line.len() && space(line.get(i)) {
                i += 1;
            }
            if i == line.len() {
                return Some(args);
            }
            let (mut arg, mut mode) = (Vec::new(), 0);
            loop {
                let c = line.get(i).copied();
                match (mode, c) {
                    (0, None) => break,
                    (_, None) => return None,
                    (0, Some(b' ' | b'\t' | b'\n' | b'\r')) => break,
                    (0, Some(q @ (b'"' | b'\''))) => mode = q,
                    (q, Some(c)) if q == c && q != 0 => {
                        if !space(line.get(i + 1)) {
                            return None;
                        }
                        i += 1;
                        break;
                    }
                    (b'\'', Some(b'\\')) if line.get(i + 1) == Some(&b'\'') => {
                        arg.push(b'\'');
                        i += 1;
                    }
                    (b'"', Some(b'\\')) if i + 1 < line.len() => {
                        let digits = line.get(i + 2..i + 4).and_then(|d| std::str::from_utf8(d).ok());
                        let byte = digits.filter(|d| !d.starts_with('+')).and_then(|d| u8::from_str_radix(d, 16).ok());
                        match (line[i + 1], byte) {
                            (b'x', Some(byte)) => {
                                arg.push(byte);
                                i += 3;
                            }
                            (c, _) => {
                                let plain = b"nrtba".iter().position(|&e| e == c);
                                arg.push(plain.map_or(c, |at| b"\n\r\t\x08\x07"[at]));
                                i += 1;
                            }
                        }
                    }
                    (_, Some(c)) => arg.push(c),
                }
                i += 1;
            }
            args.push(arg);
        }
    }
}
