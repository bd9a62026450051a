//! Replies of the Redis protocol, written straight into a connection's output. The difference between RESP2 and RESP3 ends here: commands
//! say what they mean (a map, a null), never how it looks.
use crate::base::entry::Entry;
use crate::base::float;
use crate::base::int::{self, DIGIT_PAIRS, MAX_DIGITS};
use crate::base::out::Out;

/// Writes the replies of one connection. Aggregates are written as a header; the caller owes exactly as many elements.
pub struct Reply<'a> {
    out: &'a mut Out,
    v3: bool,
}

impl<'a> Reply<'a> {
    #[inline]
    pub fn new(out: &'a mut Out, v3: bool) -> Reply<'a> {
        Reply { out, v3 }
    }

    /// The connection speaks RESP3.
    #[inline]
    pub fn is_v3(&self) -> bool {
        self.v3
    }

    /// The output below, for what no method covers (bytes that are a reply already).
    #[inline]
    pub fn out(&mut self) -> &mut Out {
        self.out
    }

    #[inline]
    pub fn ok(&mut self) {
        self.out.extend(b"+OK\r\n");
    }

    /// A status; `text` has no line end.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']));
        self.out.extend(b"+");
        self.out.extend(text.as_bytes());
        self.out.extend(b"\r\n");
    }

    /// An error, with its prefix (`ERR syntax error`).
    #[cold]
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// An error whose text may quote what a client sent: line ends at its end are dropped, others become spaces.
    #[cold]
    pub fn error_bytes(&mut self, text: &[u8]) {
        let is_line_end = |b: &u8| matches!(b, b'\r' | b'\n');
        let length = text.iter().rposition(|b| !is_line_end(b)).map_or(0, |last| last + 1);
        self.out.extend(b"-");
        for (index, part) in text[..length].split(is_line_end).enumerate() {
            if index > 0 {
                self.out.extend(b" ");
            }
            self.out.extend(part);
        }
        self.out.extend(b"\r\n");
    }

    #[inline]
    pub fn int(&mut self, value: i64) {
        match usize::try_from(value) {
            Ok(small) if small < 100 => self.small_header(b':', small),
            _ => self.long_number(b':', value),
        }
    }

    /// A count; as `int`.
    #[inline]
    pub fn count(&mut self, value: usize) {
        self.header(b':', value);
    }

    #[inline]
    pub fn bulk(&mut self, body: &[u8]) {
        self.out.bulk(body);
    }

    /// A bulk whose body is sent from where it lies.
    pub fn bulk_shared(&mut self, body: dolmen_slab::BlobRef) {
        self.out.bulk_shared(body);
    }

    /// A bulk whose body is a part of a large value, sent from where it lies.
    pub fn bulk_shared_range(&mut self, body: dolmen_slab::BlobRef, bytes: std::ops::Range<usize>) {
        self.out.bulk_shared_range(body, bytes);
    }

    /// From now on the connection speaks RESP3, or RESP2 again.
    pub fn set_version(&mut self, v3: bool) {
        self.v3 = v3;
    }

    /// The header of a bulk of `bytes` bytes: the caller owes the body, then `bulk_end`.
    #[inline]
    pub fn bulk_header(&mut self, bytes: usize) {
        self.header(b'$', bytes);
    }

    /// The line end behind a bulk's body.
    #[inline]
    pub fn bulk_end(&mut self) {
        self.out.extend(b"\r\n");
    }

    /// A bulk of the decimal digits of `value`.
    #[inline]
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk(int::write_i64(&mut [0; MAX_DIGITS], value));
    }

    /// A bulk of the text of an entry: an element of a collection.
    #[inline]
    pub fn entry(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::Bytes(bytes) => self.bulk(bytes),
            Entry::Int(value) => self.bulk_int(value),
        }
    }

    /// No value.
    #[inline]
    pub fn null(&mut self) {
        if self.v3 {
            self.out.extend(b"_\r\n");
        } else {
            self.out.extend(b"$-1\r\n");
        }
    }

    /// No value where there would be an array.
    #[inline]
    pub fn null_array(&mut self) {
        if self.v3 {
            self.out.extend(b"_\r\n");
        } else {
            self.out.extend(b"*-1\r\n");
        }
    }

    /// `elements` replies follow.
    #[inline]
    pub fn array(&mut self, elements: usize) {
        self.header(b'*', elements);
    }

    /// `pairs` times two replies follow, key and value.
    #[inline]
    pub fn map(&mut self, pairs: usize) {
        if self.v3 {
            self.header(b'%', pairs);
        } else {
            self.header(b'*', 2 * pairs);
        }
    }

    /// `elements` replies follow, without an order.
    #[inline]
    pub fn set(&mut self, elements: usize) {
        self.header(if self.v3 { b'~' } else { b'*' }, elements);
    }

    /// `elements` replies follow, which answer no request.
    #[inline]
    pub fn push(&mut self, elements: usize) {
        self.header(if self.v3 { b'>' } else { b'*' }, elements);
    }

    /// What is told about the next reply. If true is returned, `pairs` times two replies follow; RESP2 cannot say it, so nothing does.
    pub fn attribute(&mut self, pairs: usize) -> bool {
        if self.v3 {
            self.header(b'|', pairs);
        }
        self.v3
    }

    pub fn double(&mut self, value: f64) {
        let mut buf = [0; float::MAX_BYTES];
        let text = float::write(&mut buf, value);
        if self.v3 {
            self.line(b',', text);
        } else {
            self.bulk(text);
        }
    }

    pub fn boolean(&mut self, value: bool) {
        self.out.extend(match (self.v3, value) {
            (true, true) => b"#t\r\n",
            (true, false) => b"#f\r\n",
            (false, true) => b":1\r\n",
            (false, false) => b":0\r\n",
        });
    }

    /// An integer of any size, as its decimal digits.
    pub fn big_number(&mut self, digits: &str) {
        debug_assert!(
            !digits.is_empty() && digits.bytes().enumerate().all(|(i, b)| b.is_ascii_digit() || (i == 0 && b == b'-'))
        );
        if self.v3 {
            self.line(b'(', digits.as_bytes());
        } else {
            self.bulk(digits.as_bytes());
        }
    }

    /// Text for people; `format` says how to show it: `txt`, `mkd`.
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if self.v3 {
            self.header(b'=', text.len() + 4);
            self.out.extend(format);
            self.out.extend(b":");
            self.out.extend(text);
            self.out.extend(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    fn line(&mut self, sigil: u8, text: &[u8]) {
        self.out.extend(&[sigil]);
        self.out.extend(text);
        self.out.extend(b"\r\n");
    }

    #[inline]
    fn header(&mut self, sigil: u8, value: usize) {
        if value < 100 {
            self.small_header(sigil, value);
        } else {
            self.long_number(sigil, i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    /// `value` is below 100. Arrays of constant length: a store or two each.
    #[inline]
    fn small_header(&mut self, sigil: u8, value: usize) {
        let [tens, ones] = DIGIT_PAIRS[value];
        if value < 10 {
            self.out.extend(&[sigil, ones, b'\r', b'\n']);
        } else {
            self.out.extend(&[sigil, tens, ones, b'\r', b'\n']);
        }
    }

    #[inline(never)]
    fn long_number(&mut self, sigil: u8, value: i64) {
        // Digits end where the CR LF stands, so that nothing is moved.
        let mut line = [0; 1 + MAX_DIGITS + 2];
        line[1 + MAX_DIGITS..].copy_from_slice(b"\r\n");
        let digits = line[1..].first_chunk_mut().map_or(0, |room| int::write_i64(room, value).len());
        let start = MAX_DIGITS - digits;
        line[start] = sigil;
        self.out.extend(&line[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Write<'w> = &'w dyn Fn(&mut Reply<'_>);

    fn written(v3: bool, write: impl FnOnce(&mut Reply<'_>)) -> Vec<u8> {
        let mut out = Out::new();
        write(&mut Reply::new(&mut out, v3));
        let mut slices = Vec::new();
        out.slices(&mut slices, usize::MAX);
        slices.iter().flat_map(|slice| slice.to_vec()).collect()
    }

    fn both(write: impl Fn(&mut Reply<'_>)) -> [String; 2] {
        [false, true].map(|v3| String::from_utf8(written(v3, &write)).unwrap())
    }

    #[test]
    fn the_same_in_both_versions() {
        let same: [(Write, &str); 12] = [
            (&|r| r.ok(), "+OK\r\n"),
            (&|r| r.simple("PONG"), "+PONG\r\n"),
            (&|r| r.int(i64::MIN), ":-9223372036854775808\r\n"),
            (&|r| r.int(-1), ":-1\r\n"),
            (&|r| r.count(7), ":7\r\n"),
            (&|r| r.bulk(b""), "$0\r\n\r\n"),
            (&|r| r.bulk_int(-42), "$3\r\n-42\r\n"),
            (&|r| r.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n"),
            (&|r| r.array(0), "*0\r\n"),
            (&|r| r.array(1_000_000), "*1000000\r\n"),
            (&|r| r.error("ERR syntax error"), "-ERR syntax error\r\n"),
            (&|r| r.error("ERR a\r\nb\nc \r\n\n"), "-ERR a  b c \r\n"),
        ];
        for (write, text) in same {
            assert_eq!(both(write), [text, text]);
        }
        assert_eq!(written(false, |r| r.error_bytes(b"ERR '\xff\r'")), b"-ERR '\xff '\r\n");
        assert_eq!(written(false, |r| r.error_bytes(b"\r\n")), b"-\r\n");
    }

    #[test]
    fn different_in_resp3() {
        let different: [(Write, [&str; 2]); 13] = [
            (&|r| r.null(), ["$-1\r\n", "_\r\n"]),
            (&|r| r.null_array(), ["*-1\r\n", "_\r\n"]),
            (&|r| r.map(60), ["*120\r\n", "%60\r\n"]),
            (&|r| r.set(3), ["*3\r\n", "~3\r\n"]),
            (&|r| r.push(3), ["*3\r\n", ">3\r\n"]),
            (&|r| r.double(1.5), ["$3\r\n1.5\r\n", ",1.5\r\n"]),
            (&|r| r.double(f64::NEG_INFINITY), ["$4\r\n-inf\r\n", ",-inf\r\n"]),
            (&|r| r.double(f64::NAN), ["$3\r\nnan\r\n", ",nan\r\n"]),
            (&|r| r.boolean(true), [":1\r\n", "#t\r\n"]),
            (&|r| r.boolean(false), [":0\r\n", "#f\r\n"]),
            (
                &|r| r.big_number("-12345678901234567890123"),
                ["$24\r\n-12345678901234567890123\r\n", "(-12345678901234567890123\r\n"],
            ),
            (&|r| r.verbatim(b"txt", b"hi"), ["$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"]),
            (&|r| assert_eq!(r.attribute(1), r.is_v3()), ["", "|1\r\n"]),
        ];
        for (write, texts) in different {
            assert_eq!(both(write), texts);
        }
    }

    #[test]
    fn headers_of_every_length() {
        for n in (0..1100).chain([9_999, 10_000, 99_999, 100_000, 512 << 20, usize::MAX >> 1]) {
            assert_eq!(written(false, |r| r.bulk_header(n)), format!("${n}\r\n").as_bytes());
            assert_eq!(written(false, |r| r.count(n)), format!(":{n}\r\n").as_bytes());
            let n = i64::try_from(n).unwrap();
            assert_eq!(written(true, |r| r.int(n)), format!(":{n}\r\n").as_bytes());
        }
    }
}
