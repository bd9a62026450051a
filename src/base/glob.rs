//! Glob patterns with Redis's meaning, in time O(pattern * text) at worst, without recursion.
//!
//! `*` any bytes, `?` one byte, `[abc]` `[a-z]` `[^...]` one byte of (or not of) a class, `\c` the byte `c`. Odd patterns mean what they
//! mean to Redis: a class without `]` ends with the pattern (`[^` is any byte, `[` none), a range may be reversed, `-]` at a class's end
//! is a range up to `]`, a `\` at the end is itself. In a class `\c` is compared exactly, also when case is ignored. An empty text is
//! matched by an empty pattern and by `*` only. Bytes compare unsigned (Redis: as the platform's `char`).

/// Whether `pattern` matches the whole of `text`. With `nocase`, ASCII letters match in either case.
pub fn glob_matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty() || pattern == b"*";
    }
    let (mut p, mut t) = (0, 0);
    // Where to go on if the elements after the last star do not match here: behind that star, one byte further in the text. Earlier stars
    // need not be tried again: what they matched was the leftmost, which leaves the most text to what follows.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            retry = Some((p, t));
            continue;
        }
        if t == text.len() {
            // Every later start leaves even less text.
            return p == pattern.len();
        }
        let next = if p == pattern.len() { None } else { match_one(pattern, p, text[t], nocase) };
        match (next, &mut retry) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            (None, Some((after_star, start))) => {
                *start += 1;
                (p, t) = (*after_star, *start);
            }
            (None, None) => return false,
        }
    }
}

/// Matches `byte` with the element at `p`, which is not `*`; returns where the next element starts.
#[inline]
fn match_one(pattern: &[u8], p: usize, byte: u8, nocase: bool) -> Option<usize> {
    match pattern[p] {
        b'?' => Some(p + 1),
        b'[' => {
            let (matched, next) = match_class(pattern, p + 1, byte, nocase);
            matched.then_some(next)
        }
        b'\\' if p + 1 < pattern.len() => equal(pattern[p + 1], byte, nocase).then_some(p + 2),
        literal => equal(literal, byte, nocase).then_some(p + 1),
    }
}

/// Matches `byte` with the class whose first element, or `^`, is at `p`; also returns where the class ends.
fn match_class(pattern: &[u8], mut p: usize, byte: u8, nocase: bool) -> (bool, usize) {
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut found = false;
    loop {
        match pattern[p..] {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [from, b'-', to, ..] => {
                found |= in_range(from, to, byte, nocase);
                p += 3;
            }
            [literal, ..] => {
                found |= equal(literal, byte, nocase);
                p += 1;
            }
        }
    }
    (found != negated, p)
}

/// The ends are put in order before their case is folded.
fn in_range(from: u8, to: u8, byte: u8, nocase: bool) -> bool {
    let (low, high) = (from.min(to), from.max(to));
    if nocase {
        (low.to_ascii_lowercase()..=high.to_ascii_lowercase()).contains(&byte.to_ascii_lowercase())
    } else {
        (low..=high).contains(&byte)
    }
}

#[inline]
fn equal(a: u8, b: u8, nocase: bool) -> bool {
    a == b || (nocase && a.eq_ignore_ascii_case(&b))
}

/// The bytes that every match begins with, as far as they stand in the pattern literally; and whether that is the whole pattern, which
/// then matches itself only.
pub fn literal_prefix(pattern: &[u8]) -> (&[u8], bool) {
    match pattern.iter().position(|b| matches!(b, b'*' | b'?' | b'[' | b'\\')) {
        Some(special) => (&pattern[..special], false),
        None => (pattern, true),
    }
}

/// The definition of a match, recursive and exponential: the oracle of tests and fuzz targets.
#[cfg(any(test, fuzzing))]
pub fn naive_matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    fn rest(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            ([b'*', pattern @ ..], _) => (0..=text.len()).any(|skip| rest(pattern, &text[skip..], nocase)),
            (_, []) => false,
            (_, [byte, text @ ..]) => (1..=pattern.len())
                .any(|end| element(pattern, end, *byte, nocase) && rest(&pattern[end..], text, nocase)),
        }
    }
    /// The first `end` bytes of `pattern` are one element, and `byte` matches it.
    fn element(pattern: &[u8], end: usize, byte: u8, nocase: bool) -> bool {
        let fold = |b: u8| if nocase { b.to_ascii_lowercase() } else { b };
        match pattern[0] {
            b'?' => end == 1,
            b'\\' if pattern.len() > 1 => end == 2 && fold(pattern[1]) == fold(byte),
            b'[' => {
                let negated = pattern.len() > 1 && pattern[1] == b'^';
                let mut members = [false; 256];
                let mut at = if negated { 2 } else { 1 };
                while at < pattern.len() && pattern[at] != b']' {
                    if pattern[at] == b'\\' && at + 1 < pattern.len() {
                        members[usize::from(pattern[at + 1])] = true;
                        at += 2;
                    } else if at + 2 < pattern.len() && pattern[at + 1] == b'-' {
                        let mut ends = [pattern[at], pattern[at + 2]];
                        ends.sort_unstable();
                        (0..=255u8)
                            .filter(|&b| fold(b) >= fold(ends[0]) && fold(b) <= fold(ends[1]))
                            .for_each(|b| members[usize::from(b)] = true);
                        at += 3;
                    } else {
                        (0..=255u8)
                            .filter(|&b| fold(b) == fold(pattern[at]))
                            .for_each(|b| members[usize::from(b)] = true);
                        at += 1;
                    }
                }
                end == (at + 1).min(pattern.len()) && members[usize::from(byte)] != negated
            }
            literal => end == 1 && fold(literal) == fold(byte),
        }
    }
    if text.is_empty() { pattern.is_empty() || pattern == b"*" } else { rest(pattern, text, nocase) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As redis-server 7.0.15 answers KEYS.
    #[test]
    fn odd_patterns_as_redis_takes_them() {
        let cases: [(&str, &[&str], &[&str]); 26] = [
            ("*", &["", "a", "*"], &[]),
            ("**", &["a", "ab"], &[""]),
            ("", &[""], &["a"]),
            ("?", &["a", "*", "["], &["", "ab"]),
            ("h?llo", &["hello", "hallo"], &["hllo", "heello"]),
            ("h*llo", &["hllo", "heeello"], &["hll", "hellox"]),
            ("h[ae]llo", &["hello", "hallo"], &["hillo"]),
            ("h[^e]llo", &["hallo", "h^llo"], &["hello", "hllo"]),
            ("h[a-b]llo", &["hallo", "hbllo"], &["hcllo", "h-llo"]),
            ("h[b-a]llo", &["hallo", "hbllo"], &["hcllo", "h-llo"]),
            ("[", &[], &["", "[", "a"]),
            ("[^", &["a", "[", "^"], &["", "aa"]),
            ("[^]", &["a", "]"], &["", "aa"]),
            ("[]", &[], &["", "]", "[]"]),
            ("[ab", &["a", "b"], &["c", "ab", "[ab"]),
            ("[a-", &["a", "-"], &["b", "["]),
            ("[a-]", &["a", "]", "^", "_", "`"], &["-", "b"]),
            ("[\\", &["\\"], &["[", "a"]),
            ("[\\]]", &["]"], &["\\", "[]"]),
            ("[\\^a]", &["^", "a"], &["b", "\\"]),
            ("[a^]", &["^", "a"], &["b"]),
            ("\\", &["\\"], &["", "a"]),
            ("a\\", &["a\\"], &["a", "aa"]),
            ("\\*\\?", &["*?"], &["ab", "\\*\\?"]),
            ("*[", &[], &["a[", "[", "a"]),
            ("*\\", &["\\", "a\\"], &["", "a"]),
        ];
        for (pattern, matched, others) in cases {
            for (texts, expected) in [(matched, true), (others, false)] {
                for text in texts {
                    assert_eq!(glob_matches(pattern.as_bytes(), text.as_bytes(), false), expected, "{pattern} {text}");
                    assert_eq!(naive_matches(pattern.as_bytes(), text.as_bytes(), false), expected, "{pattern} {text}");
                }
            }
        }
    }

    #[test]
    fn case() {
        for (pattern, text, exact, folded) in [
            ("MAX*", "maxmemory", false, true),
            ("[A-Z]axmemory", "maxmemory", false, true),
            ("[M]axmemory", "maxmemory", false, true),
            ("[\\M]axmemory", "maxmemory", false, false),
            ("\\Maxmemory", "maxmemory", false, true),
            ("[^M]axmemory", "maxmemory", true, false),
        ] {
            assert_eq!(glob_matches(pattern.as_bytes(), text.as_bytes(), false), exact, "{pattern}");
            assert_eq!(glob_matches(pattern.as_bytes(), text.as_bytes(), true), folded, "{pattern}");
        }
        assert!(glob_matches(b"[\x80-\xff]", b"\xc3", true) && !glob_matches(b"[\x80-\xff]", b"z", true));
    }

    /// Patterns that take backtracking matchers exponential time: would not end in this one's lifetime either.
    #[test]
    fn no_pattern_explodes() {
        let text = [b'a'; 4000];
        assert!(!glob_matches(&b"a*".repeat(1000).into_iter().chain(*b"b").collect::<Vec<_>>(), &text, false));
        assert!(!glob_matches(&b"*a".repeat(1000).into_iter().chain(*b"b").collect::<Vec<_>>(), &text, false));
        assert!(!glob_matches(&b"*[^b]".repeat(1000).into_iter().chain(*b"?b").collect::<Vec<_>>(), &text, true));
        assert!(glob_matches(&b"*a*?".repeat(1000), &text, false));
        assert!(glob_matches(&b"*".repeat(100_000), &text, false));
    }

    #[test]
    fn prefixes() {
        for (pattern, prefix, whole) in [
            ("", "", true),
            ("user:1", "user:1", true),
            ("a]b-c^", "a]b-c^", true),
            ("user:*", "user:", false),
            ("user:?", "user:", false),
            ("u[s]er", "u", false),
            ("us\\er", "us", false),
            ("*", "", false),
        ] {
            assert_eq!(literal_prefix(pattern.as_bytes()), (prefix.as_bytes(), whole));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn matches_as_defined(pattern in "[*?\\[\\]^\\\\ab\\-AB]{0,10}", text in "[ab\\]\\[^\\\\A\\-]{0,8}", nocase: bool) {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(glob_matches(pattern, text, nocase), naive_matches(pattern, text, nocase));
            let (prefix, whole) = literal_prefix(pattern);
            prop_assert!(!naive_matches(pattern, text, false) || text.starts_with(prefix));
            prop_assert!(!whole || naive_matches(pattern, text, false) == (pattern == text));
        }

        #[test]
        fn stars_and_letters(pattern in "[*ab?]{0,12}", text in "[ab]{0,14}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(glob_matches(pattern, text, false), naive_matches(pattern, text, false));
        }
    }
}
