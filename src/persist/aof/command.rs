//! Commands in the file: how they are written, and a scanner that finds the complete ones however the bytes are cut.
//!
//! The scanner hands out whole **units**: a command, or all of a transaction from MULTI to EXEC. What is behind the last whole unit of a file is what
//! a crash has cut off. Nothing is kept for what a length only claims.
//!
//! What only we keep of a key stands in an **annotation** in front of the command that writes it, which Redis passes over: `#memcached-flags:7`.

use crate::base::int;
use std::fmt;

/// Longest line of numbers, and of an annotation, without its end.
const LINE_BYTES_MAX: usize = 1024;
/// Most arguments of a command.
const ARGS_MAX: u64 = i32::MAX as u64;

/// Begins a command of so many arguments.
#[inline]
pub fn put_head(into: &mut Vec<u8>, arguments: usize) {
    number(into, b'*', arguments);
}

#[inline]
pub fn put_arg(into: &mut Vec<u8>, argument: &[u8]) {
    put_arg_head(into, argument.len());
    into.extend_from_slice(argument);
    into.extend_from_slice(b"\r\n");
}

/// What comes before the bytes of an argument.
#[inline]
pub fn put_arg_head(into: &mut Vec<u8>, bytes: usize) {
    number(into, b'$', bytes);
}

#[inline]
fn number(into: &mut Vec<u8>, mark: u8, number: usize) {
    let mut digits = [0; int::MAX_DIGITS];
    into.push(mark);
    into.extend_from_slice(int::write_u64(&mut digits, number as u64));
    into.extend_from_slice(b"\r\n");
}

/// What only we keep of the key of the command that follows: the flags that a client of memcached has given it.
const CLIENT_FLAGS: &[u8] = b"#memcached-flags:";

pub fn put_client_flags(into: &mut Vec<u8>, flags: u32) {
    into.extend_from_slice(CLIENT_FLAGS);
    into.extend_from_slice(int::write_u64(&mut [0; int::MAX_DIGITS], u64::from(flags)));
    into.extend_from_slice(b"\r\n");
}

/// A key has these flags of a client of memcached behind the unit that ends there in what was handed out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flagged {
    pub end: usize,
    pub key: Box<[u8]>,
    pub flags: u32,
}

pub fn put(into: &mut Vec<u8>, args: &[&[u8]]) {
    put_head(into, args.len());
    for argument in args {
        put_arg(into, argument);
    }
}

/// Why a file cannot be read on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// Where the unit or line begins, from the first byte that was fed on.
    pub offset: u64,
    pub why: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.why, self.offset)
    }
}

/// See the module.
pub struct Scanner {
    buffer: Vec<u8>,
    /// Bytes that were fed and are not in the buffer any more.
    before: u64,
    /// Where the unit begins that is not complete.
    unit: usize,
    /// Where the command or line begins that is looked at, and how far it was.
    command: usize,
    at: usize,
    /// Arguments of it that are still to come; `None`: its first line is.
    left: Option<u64>,
    /// Its name.
    name: Option<std::ops::Range<usize>>,
    in_multi: bool,
    /// The last whole unit ends there, in the buffer.
    whole: usize,
    max_bytes: u64,
    /// Annotations in the unit, which are not handed out.
    gaps: Vec<std::ops::Range<usize>>,
    /// Flags that stand in front of the command, and its key, if there are any.
    flags: Option<u32>,
    key: Option<std::ops::Range<usize>>,
    /// Those of the commands before it; of how many the unit has ended.
    flagged: Vec<Flagged>,
    flagged_whole: usize,
}

impl Scanner {
    /// `max_bytes`: no argument is longer.
    #[must_use]
    pub fn new(max_bytes: u64) -> Scanner {
        Scanner {
            buffer: Vec::new(),
            before: 0,
            unit: 0,
            command: 0,
            at: 0,
            left: None,
            name: None,
            in_multi: false,
            whole: 0,
            max_bytes,
            gaps: Vec::new(),
            flags: None,
            key: None,
            flagged: Vec::new(),
            flagged_whole: 0,
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The last whole unit ends there, from the first byte that was fed on.
    #[must_use]
    pub fn whole(&self) -> u64 {
        self.before + self.whole as u64
    }

    /// Is something there that is not whole?
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.whole < self.buffer.len()
    }

    /// Is it a transaction without its end?
    #[must_use]
    pub fn is_in_multi(&self) -> bool {
        self.in_multi
    }

    /// Appends the units that are whole, without annotations; `known` is asked for the name of each command.
    ///
    /// # Errors
    /// If there is something that is no command; the units before it were appended.
    pub fn take(&mut self, into: &mut Vec<u8>, mut known: impl FnMut(&[u8]) -> bool) -> Result<(), Malformed> {
        let done = self.scan(into, &mut known);
        // What is used goes; all places move.
        let used = self.whole;
        if used > 0 {
            self.buffer.drain(..used);
            self.before += used as u64;
            (self.unit, self.command, self.at, self.whole) = (self.unit - used, self.command - used, self.at - used, 0);
            let moved = |range: std::ops::Range<usize>| range.start - used..range.end - used;
            self.name = self.name.take().map(moved);
            self.key = self.key.take().map(moved);
            self.gaps = std::mem::take(&mut self.gaps).into_iter().map(moved).collect();
        }
        done
    }

    /// The flags of keys that stood in front of commands of the units that were handed out by the last `take`.
    pub fn take_flagged(&mut self) -> std::vec::Drain<'_, Flagged> {
        self.flagged.drain(..std::mem::take(&mut self.flagged_whole))
    }

    fn scan(&mut self, into: &mut Vec<u8>, known: &mut impl FnMut(&[u8]) -> bool) -> Result<(), Malformed> {
        loop {
            let Some(left) = self.left else {
                if self.buffer.get(self.at) == Some(&b'#') {
                    let Some((line, next)) = self.line()? else { return Ok(()) };
                    let flags = line.strip_prefix(CLIENT_FLAGS).and_then(int::parse_u64);
                    if let Some(flags) = flags.and_then(|flags| u32::try_from(flags).ok()) {
                        self.flags = Some(flags);
                    }
                    if self.in_multi {
                        self.gaps.push(self.at..next);
                        (self.command, self.at) = (next, next);
                    } else {
                        (self.unit, self.command, self.at, self.whole) = (next, next, next, next);
                    }
                    continue;
                }
                let Some((count, next)) = self.count(b'*')? else { return Ok(()) };
                if count == 0 || count > ARGS_MAX {
                    return Err(self.malformed("a command has no arguments, or too many"));
                }
                (self.left, self.at) = (Some(count), next);
                continue;
            };
            if left > 0 {
                let Some((bytes, next)) = self.count(b'$')? else { return Ok(()) };
                if bytes > self.max_bytes {
                    return Err(self.malformed("an argument is longer than proto-max-bulk-len"));
                }
                let bytes = usize::try_from(bytes).map_err(|_| self.malformed("an argument is too long"))?;
                let Some(end) = self.buffer.get(next + bytes..next + bytes + 2) else { return Ok(()) };
                if end != b"\r\n" {
                    return Err(self.malformed("an argument does not end where it should"));
                }
                if self.name.is_none() {
                    self.name = Some(next..next + bytes);
                } else if self.flags.is_some() && self.key.is_none() {
                    self.key = Some(next..next + bytes);
                }
                (self.left, self.at) = (Some(left - 1), next + bytes + 2);
                continue;
            }
            let name = self.name.take().map_or(&[][..], |name| &self.buffer[name]);
            let (begins, ends) = (name.eq_ignore_ascii_case(b"multi"), name.eq_ignore_ascii_case(b"exec"));
            if !known(name) {
                let name = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
                return Err(self.refused(format!("Unknown command '{name}' reading the append only file")));
            }
            if begins && self.in_multi || ends && !self.in_multi {
                return Err(self.malformed("MULTI and EXEC do not match"));
            }
            self.in_multi = (self.in_multi || begins) && !ends;
            (self.left, self.command) = (None, self.at);
            if let (Some(flags), Some(key)) = (self.flags.take(), self.key.take()) {
                self.flagged.push(Flagged { end: 0, key: self.buffer[key].into(), flags });
            }
            if !self.in_multi {
                let mut from = self.unit;
                for gap in self.gaps.drain(..) {
                    into.extend_from_slice(&self.buffer[from..gap.start]);
                    from = gap.end;
                }
                into.extend_from_slice(&self.buffer[from..self.at]);
                (self.unit, self.whole) = (self.at, self.at);
                self.flagged[self.flagged_whole..].iter_mut().for_each(|flagged| flagged.end = into.len());
                self.flagged_whole = self.flagged.len();
            }
        }
    }

    fn refused(&self, why: String) -> Malformed {
        Malformed { offset: self.before + self.command as u64, why }
    }

    /// With what Redis says of it, as people look for that.
    fn malformed(&self, why: &str) -> Malformed {
        self.refused(format!(
            "Bad file format reading the append only file: make a backup of your AOF file, then use ./redis-check-aof --fix \
             <filename.manifest>: {why}"
        ))
    }

    /// The line that begins at `at`, and where the next one begins. `None`: it is not there yet.
    fn line(&self) -> Result<Option<(&[u8], usize)>, Malformed> {
        let rest = &self.buffer[self.at..];
        let looked = &rest[..rest.len().min(LINE_BYTES_MAX + 2)];
        match looked.iter().position(|byte| *byte == b'\n') {
            Some(end) => Ok(Some((rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]), self.at + end + 1))),
            None if rest.len() > looked.len() => Err(self.malformed("a line does not end")),
            None => Ok(None),
        }
    }

    /// A line with a number behind a mark.
    fn count(&self, mark: u8) -> Result<Option<(u64, usize)>, Malformed> {
        match self.buffer.get(self.at) {
            None => return Ok(None),
            Some(byte) if *byte != mark => {
                return Err(self.malformed(&format!("'{}' was expected", char::from(mark))));
            }
            Some(_) => {}
        }
        let Some((line, next)) = self.line()? else { return Ok(None) };
        let number = int::parse_u64(&line[1..]).ok_or_else(|| self.malformed("a length is no number"))?;
        Ok(Some((number, next)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(commands: &[&[&[u8]]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for args in commands {
            put(&mut bytes, args);
        }
        bytes
    }

    fn scan(pieces: &[&[u8]]) -> (Vec<u8>, Scanner, Result<(), Malformed>) {
        let (mut scanner, mut out) = (Scanner::new(1 << 20), Vec::new());
        for piece in pieces {
            scanner.feed(piece);
            if let Err(error) = scanner.take(&mut out, |name| name != b"nonsense") {
                return (out, scanner, Err(error));
            }
        }
        (out, scanner, Ok(()))
    }

    #[test]
    fn annotations_are_left_out() {
        let one = file(&[&[b"SET", b"k", b"v"]]);
        let multi = file(&[&[b"MULTI"], &[b"set", b"k", b"v"]]);
        let exec = file(&[&[b"exec"]]);
        let all = [&b"#TS:1\r\n"[..], &one, b"#TS:2\r\n", &multi, b"#x\r\n", &exec, b"#end\r\n"].concat();
        let (out, scanner, done) = scan(&[&all]);
        assert!(done.is_ok() && !scanner.is_cut());
        assert_eq!(out, [one, multi, exec].concat());
        assert_eq!(scanner.whole(), all.len() as u64);
    }

    #[test]
    fn flags_in_front_of_commands() {
        let set = |key: &[u8]| file(&[&[b"SET", key, b"v"]]);
        let (multi, exec) = (file(&[&[b"MULTI"]]), file(&[&[b"EXEC"]]));
        let mut all = set(b"none");
        for (flags, key) in [(7, b"a"), (0, b"b")] {
            put_client_flags(&mut all, flags);
            all.extend(set(key));
        }
        all.extend(&multi);
        put_client_flags(&mut all, u32::MAX);
        all.extend([set(b"c"), set(b"d"), exec.clone()].concat());
        all.extend(b"#memcached-flags:5000000000\r\n#memcached-flags:x\r\n");
        all.extend(set(b"e"));
        put_client_flags(&mut all, 1);
        all.extend([multi, set(b"cut")].concat());
        let one = set(b"a").len();
        let until = [set(b"none").len() + one, set(b"none").len() + 2 * one];
        for cut in [1, 7, 30, all.len()] {
            let (mut scanner, mut found, mut before) = (Scanner::new(1 << 20), Vec::new(), 0);
            for piece in all.chunks(cut) {
                let mut out = Vec::new();
                scanner.feed(piece);
                scanner.take(&mut out, |_| true).unwrap();
                found.extend(scanner.take_flagged().map(|f| (before + f.end, f.key[0], f.flags)));
                before += out.len();
            }
            let transaction = until[1] + file(&[&[b"MULTI"], &[b"EXEC"]]).len() + 2 * one;
            assert_eq!(found, [(until[0], b'a', 7), (until[1], b'b', 0), (transaction, b'c', u32::MAX)], "cut {cut}");
        }
    }

    #[test]
    fn a_cut_transaction_is_left_out_as_a_whole() {
        let one = file(&[&[b"SET", b"k", b"v"]]);
        let all = [one.clone(), file(&[&[b"MULTI"], &[b"SET", b"a", b"b"]])].concat();
        let (out, scanner, done) = scan(&[&all]);
        assert!(done.is_ok() && scanner.is_cut() && scanner.is_in_multi());
        assert_eq!((out.len(), scanner.whole()), (one.len(), one.len() as u64));
    }

    #[test]
    fn what_is_refused() {
        let one = file(&[&[b"SET", b"k", b"v"]]);
        for (bad, why) in [
            (&b"SET k v\r\n"[..], "'*' was expected"),
            (b"*0\r\n", "no arguments"),
            (b"*-1\r\n", "no number"),
            (b"*99999999999\r\n", "too many"),
            (b"*1\r\n$4\r\npingXX", "does not end"),
            (b"*1\r\n$99999999\r\n", "longer than"),
            (b"*1\r\n$8\r\nnonsense\r\n", "Unknown command 'nonsense'"),
            (b"*1\r\n$4\r\nEXEC\r\n", "do not match"),
            (b"*1\r\n+4\r\n", "'$' was expected"),
        ] {
            let (out, scanner, done) = scan(&[&one, bad]);
            let error = done.unwrap_err();
            assert!(error.why.contains(why), "{bad:?}: {error}");
            assert_eq!((error.offset, scanner.whole(), out.len()), (one.len() as u64, one.len() as u64, one.len()));
        }
        let (_, _, done) = scan(&[&[b'*'; 5000]]);
        assert!(done.unwrap_err().why.contains("does not end"));
    }

    const PIECES: &[&[u8]] = &[
        b"*1\r\n$5\r\nMULTI\r\n",
        b"*1\r\n$4\r\nEXEC\r\n",
        b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
        b"#TS:1\r\n",
        b"#",
        b"\r\n",
        b"$3\r\n",
        b"*3\r\n",
        b"x",
        b"*-1\r\n",
    ];

    proptest! {
        /// Of anything at all the same is found however it is cut.
        #[test]
        fn anything(
            pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12),
            cut in 1..20usize,
        ) {
            let bytes = pieces.concat();
            let (whole, one, done) = scan(&[&bytes]);
            let cuts: Vec<&[u8]> = bytes.chunks(cut).collect();
            let (again, other, done_again) = scan(&cuts);
            prop_assert_eq!(whole, again);
            prop_assert_eq!((one.whole(), done), (other.whole(), done_again));
        }

        #[test]
        fn cut_anywhere(
            commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5), 0..20),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            end in any::<prop::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            let mut ends = vec![0];
            for args in &commands {
                let mut args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                args.insert(0, b"x");
                put(&mut bytes, &args);
                ends.push(bytes.len());
            }
            let end = end.index(bytes.len() + 1);
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(end + 1)).chain([0, end]).collect();
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let (out, scanner, done) = scan(&pieces);
            prop_assert!(done.is_ok());
            let whole = *ends.iter().rfind(|at| **at <= end).unwrap();
            prop_assert_eq!(&out[..], &bytes[..whole]);
            prop_assert_eq!(scanner.whole(), whole as u64);
            prop_assert_eq!(scanner.is_cut(), whole < end);
        }
    }
}
