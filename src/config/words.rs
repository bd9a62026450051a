//! A line of configuration to words and back, with Redis's quoting.

/// The words of a line; `None` if a quote is not closed or is followed by something else than a blank.
pub(super) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let (word, after) = first_word(rest)?;
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Some(words)
}

/// The word `rest` begins with, and what follows it. A quote may open in the middle of a word, as in Redis.
fn first_word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] => return Some((word, rest)),
            [b, ..] if b.is_ascii_whitespace() => return Some((word, rest)),
            [quote @ (b'"' | b'\''), inner @ ..] => {
                let after = quoted_part(*quote, inner, &mut word)?;
                return after.first().is_none_or(u8::is_ascii_whitespace).then_some((word, after));
            }
            [b, after @ ..] => {
                word.push(*b);
                rest = after;
            }
        }
    }
}

/// Appends what is quoted to `word`; returns what follows the closing quote.
fn quoted_part<'a>(quote: u8, mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match (quote, rest) {
            (_, []) => return None,
            (b'"', [b'\\', b'x', high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex_digit(*high) << 4 | hex_digit(*low));
                rest = after;
            }
            (b'"', [b'\\', escaped, after @ ..]) => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = after;
            }
            (b'\'', [b'\\', b'\'', after @ ..]) => {
                word.push(b'\'');
                rest = after;
            }
            (_, [b, after @ ..]) if *b == quote => return Some(after),
            (_, [b, after @ ..]) => {
                word.push(*b);
                rest = after;
            }
        }
    }
}

/// Value of an ASCII hex digit.
fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// `word` in double quotes, so that [`split`] gives it back.
pub(super) fn quote(word: &[u8]) -> String {
    let mut text = String::with_capacity(word.len() + 2);
    text.push('"');
    for &b in word {
        match b {
            b'"' | b'\\' => text.extend(['\\', char::from(b)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x07 => text.push_str("\\a"),
            0x08 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(b)),
            _ => text.push_str(&format!("\\x{b:02x}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quoting() {
        let rows: &[(&str, Option<&[&str]>)] = &[
            ("", Some(&[])),
            (" \t ", Some(&[])),
            ("port 7", Some(&["port", "7"])),
            ("  a\tb \r", Some(&["a", "b"])),
            (r#"save """#, Some(&["save", ""])),
            (r#"a "b c" 'd e'"#, Some(&["a", "b c", "d e"])),
            (r#"a "\x41\n\"\\\q\xzz""#, Some(&["a", "A\n\"\\qxzz"])),
            (r#"a 'it\'s \n'"#, Some(&["a", "it's \\n"])),
            (r#"a"b c""#, Some(&["ab c"])),
            (r#"a "b"#, None),
            (r#"a 'b"#, None),
            (r#"a "b"c"#, None),
            (r#"a "b\"#, None),
        ];
        for (line, want) in rows {
            let got = split(line.as_bytes());
            let want = want.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
            assert_eq!(got, want, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn split_undoes_quote(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6)) {
            let line = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split(line.as_bytes()), Some(words));
        }
    }
}
