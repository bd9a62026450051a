//! The manifest: which files make up the append-only file, in which order. A line a file: `file <name> seq <number> type <b | i | h>`, names quoted
//! where they need it; lines that begin with `#` are comments, later fields of a line are of later versions.

use crate::base::int;
use crate::base::quote;
use std::fmt;

/// A longer line is none that Redis would write.
const LINE_BYTES_MAX: usize = 1024;

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// All that was there when it was written.
    Base,
    /// What was changed afterwards.
    Increment,
    /// Replaced by others, to be deleted.
    History,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub name: Vec<u8>,
    pub number: u64,
    pub kind: Kind,
}

/// The files, and the highest numbers that were given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    pub base: Option<Entry>,
    /// In order.
    pub increments: Vec<Entry>,
    pub history: Vec<Entry>,
    pub base_number: u64,
    pub increment_number: u64,
}

/// Why a manifest cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// From 1 on.
    pub line: usize,
    pub why: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl Manifest {
    /// # Errors
    /// If the text is none of a manifest.
    pub fn parse(text: &[u8]) -> Result<Manifest, Malformed> {
        let mut manifest = Manifest::default();
        if text.is_empty() {
            return Err(Malformed { line: 0, why: "Found an empty AOF manifest" });
        }
        let Some(lines) = text.strip_suffix(b"\n") else {
            return Err(Malformed { line: 0, why: "Invalid AOF manifest file format: the last line has no end" });
        };
        for (above, line) in lines.split(|byte| *byte == b'\n').enumerate() {
            manifest.line(line).map_err(|why| Malformed { line: above + 1, why })?;
        }
        if manifest.base.is_none() && manifest.increments.is_empty() && manifest.history.is_empty() {
            return Err(Malformed { line: 0, why: "Found an empty AOF manifest" });
        }
        Ok(manifest)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        if line.len() > LINE_BYTES_MAX {
            return Err("The AOF manifest file contains too long line");
        }
        if line.first() == Some(&b'#') {
            return Ok(());
        }
        let words =
            quote::split_args(line.trim_ascii()).map_err(|_| "Invalid AOF manifest file format: unbalanced quotes")?;
        let (pairs, rest) = words.as_chunks::<2>();
        if words.is_empty() || !rest.is_empty() {
            return Err("Invalid AOF manifest file format: the line is not made of pairs");
        }
        let (mut name, mut seq, mut kind) = (None, None, None);
        for [field, value] in pairs {
            match &*field.to_ascii_lowercase() {
                b"file" => {
                    if value.is_empty() || value.contains(&b'/') || *value == b"." || *value == b".." {
                        return Err("File can't be a path, just a filename");
                    }
                    name = Some(value.clone());
                }
                b"seq" => seq = int::parse_u64(value),
                b"type" => {
                    kind = match &**value {
                        b"b" => Some(Kind::Base),
                        b"i" => Some(Kind::Increment),
                        b"h" => Some(Kind::History),
                        _ => return Err("Unknown AOF file type"),
                    }
                }
                _ => {}
            }
        }
        let (Some(name), Some(number), Some(kind)) = (name, seq.filter(|number| *number > 0), kind) else {
            return Err("Invalid AOF manifest file format: file, seq or type is missing or wrong");
        };
        let entry = Entry { name, number, kind };
        match kind {
            Kind::Base if self.base.is_some() => return Err("Found duplicate base file information"),
            Kind::Base => {
                self.base_number = number;
                self.base = Some(entry);
            }
            Kind::Increment if number <= self.increment_number => return Err("Found a non-monotonic sequence number"),
            Kind::Increment => {
                self.increment_number = number;
                self.increments.push(entry);
            }
            Kind::History => self.history.push(entry),
        }
        Ok(())
    }

    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for entry in self.base.iter().chain(&self.history).chain(&self.increments) {
            text.extend_from_slice(b"file ");
            let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'\'');
            if entry.name.iter().all(plain) {
                text.extend_from_slice(&entry.name);
            } else {
                text.extend_from_slice(&quote::quote(&entry.name));
            }
            let kind = match entry.kind {
                Kind::Base => 'b',
                Kind::Increment => 'i',
                Kind::History => 'h',
            };
            text.extend_from_slice(format!(" seq {} type {kind}\n", entry.number).as_bytes());
        }
        text
    }

    /// The next base file takes the place of the one there is.
    pub fn next_base(&mut self, stem: &str, packed: bool) -> Entry {
        self.base_number += 1;
        let suffix = if packed { "rdb" } else { "aof" };
        let name = format!("{stem}.{}.base.{suffix}", self.base_number).into_bytes();
        Entry { name, number: self.base_number, kind: Kind::Base }
    }

    /// The next increment.
    pub fn next_increment(&mut self, stem: &str) -> Entry {
        self.increment_number += 1;
        let name = format!("{stem}.{}.incr.aof", self.increment_number).into_bytes();
        Entry { name, number: self.increment_number, kind: Kind::Increment }
    }

    /// A base file has all that came before the increment `first`: the one before it, and earlier increments, are history.
    pub fn rebase(&mut self, base: Entry, first: u64) {
        let kept = self.increments.iter().position(|entry| entry.number >= first).unwrap_or(self.increments.len());
        let gone = self.base.replace(base).into_iter().chain(self.increments.drain(..kept));
        self.history.extend(gone.map(|entry| Entry { kind: Kind::History, ..entry }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_writes() {
        let text = b"file appendonly.aof.3.base.rdb seq 3 type b\nfile appendonly.aof.2.base.rdb seq 2 type h\n\
            file appendonly.aof.7.incr.aof seq 7 type i\nfile appendonly.aof.8.incr.aof seq 8 type i\n";
        let mut manifest = Manifest::parse(text).unwrap();
        assert_eq!((manifest.base_number, manifest.increment_number, manifest.increments.len()), (3, 8, 2));
        assert_eq!(manifest.text(), text);
        let next = manifest.next_increment("appendonly.aof");
        assert_eq!(next.name, b"appendonly.aof.9.incr.aof");
        manifest.increments.push(next);
        let base = manifest.next_base("appendonly.aof", true);
        assert_eq!(base.name, b"appendonly.aof.4.base.rdb");
        manifest.rebase(base, 9);
        assert_eq!(manifest.increments.len(), 1);
        assert_eq!(manifest.history.iter().map(|entry| entry.number).collect::<Vec<_>>(), [2, 3, 7, 8]);
        assert_eq!(Manifest::parse(&manifest.text()).unwrap().history.len(), 4);
    }

    #[test]
    fn names_that_need_quotes() {
        let mut manifest = Manifest::default();
        for stem in ["a b", "q\"uo\\te", "new\nline", "'single'"] {
            let entry = manifest.next_increment(stem);
            manifest.increments.push(entry);
        }
        let text = manifest.text();
        assert_eq!(Manifest::parse(&text).unwrap().increments, manifest.increments);
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "",
            "\n",
            "# nothing\n",
            "file a seq 1 type b",
            "file a seq 1\n",
            "file a seq 1 type x\n",
            "file a seq 0 type i\n",
            "file dir/a seq 1 type i\n",
            "file .. seq 1 type i\n",
            "file a seq 1 type b\nfile b seq 2 type b\n",
            "file a seq 2 type i\nfile b seq 1 type i\n",
            "file \"a seq 1 type i\n",
            "file a seq 1 type\n",
        ] {
            assert!(Manifest::parse(text.as_bytes()).is_err(), "{text:?}");
        }
        let later = b"# of a later version\nfile a seq 1 type i startoffset 4\n";
        assert_eq!(Manifest::parse(later).unwrap().increments[0].name, b"a");
    }
}
