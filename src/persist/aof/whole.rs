//! A dataset as commands: what a base file of the log is without `aof-use-rdb-preamble`. Written into memory that the caller empties.
//!
//! Strings are SET, with PXAT if they have a deadline; collections come in commands of [`ITEMS`] elements, and their deadline behind them.

use super::command;
use crate::base::entry::{Entries, Entry};
use crate::base::float;
use crate::base::int;
use crate::base::score;
use crate::persist::rdb::Kind;

/// Elements of a collection in one command, as in Redis.
const ITEMS: u64 = 64;

/// A key that is being written, with what comes behind its value.
#[derive(Debug)]
pub struct Begun {
    key: Vec<u8>,
    deadline_ms: Option<u64>,
    kind: Kind,
    /// Elements that are still to come, and those to come in the command at hand.
    left: u64,
    open: u64,
    /// Deadlines of the fields in the command at hand.
    deadlines: Vec<(Vec<u8>, u64)>,
}

/// A file being written. What comes of it is taken from time to time.
#[derive(Default)]
pub struct Writer {
    pub out: Vec<u8>,
    database: Option<u64>,
}

fn digits(number: u64) -> Vec<u8> {
    int::write_u64(&mut [0; int::MAX_DIGITS], number).to_vec()
}

impl Writer {
    /// What follows is of database `number`.
    pub fn database(&mut self, number: u64) {
        if self.database != Some(number) {
            self.database = Some(number);
            command::put(&mut self.out, &[b"SELECT", &digits(number)]);
        }
    }

    /// A key with a string of so many bytes, which come with [`Writer::piece`], and [`Writer::end_string`] behind them.
    pub fn begin_string(&mut self, key: &[u8], client_flags: u32, deadline_ms: Option<u64>, bytes: usize) {
        if client_flags != 0 {
            command::put_client_flags(&mut self.out, client_flags);
        }
        command::put_head(&mut self.out, if deadline_ms.is_some() { 5 } else { 3 });
        command::put_arg(&mut self.out, b"SET");
        command::put_arg(&mut self.out, key);
        command::put_arg_head(&mut self.out, bytes);
    }

    pub fn piece(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub fn end_string(&mut self, deadline_ms: Option<u64>) {
        self.out.extend_from_slice(b"\r\n");
        if let Some(ms) = deadline_ms {
            command::put_arg(&mut self.out, b"PXAT");
            command::put_arg(&mut self.out, &digits(ms));
        }
    }

    /// A key with a collection of `count` elements, at least one, which come with [`Writer::elements`].
    #[must_use]
    pub fn collection(&self, key: &[u8], deadline_ms: Option<u64>, kind: Kind, count: u64) -> Begun {
        Begun { key: key.to_vec(), deadline_ms, kind, left: count, open: 0, deadlines: Vec::new() }
    }

    fn word(&mut self, entry: Entry<'_>) {
        command::put_arg(&mut self.out, entry.text(&mut [0; int::MAX_DIGITS]));
    }

    /// Elements of a collection.
    ///
    /// # Panics
    /// If an element is not whole.
    pub fn elements(&mut self, begun: &mut Begun, run: &[u8]) {
        let mut entries = Entries::new(run);
        while let Some(first) = entries.next() {
            if begun.open == 0 {
                self.head(begun);
            }
            let mut next = || entries.next().expect("whole elements");
            match begun.kind {
                Kind::List | Kind::Set => self.word(first),
                Kind::Zset => {
                    let score = score::from_entry(next());
                    command::put_arg(&mut self.out, float::write_17(&mut [0; float::MAX_BYTES], score));
                    self.word(first);
                }
                Kind::Hash => {
                    let (value, deadline) = (next(), next());
                    self.word(first);
                    self.word(value);
                    if let Entry::Int(at @ 1..) = deadline {
                        begun.deadlines.push((first.to_vec(), at.unsigned_abs()));
                    }
                }
            }
            begun.open -= 1;
            begun.left = begun.left.saturating_sub(1);
            if begun.open == 0 {
                self.tail(begun);
            }
        }
    }

    fn head(&mut self, begun: &mut Begun) {
        begun.open = begun.left.clamp(1, ITEMS);
        let (name, words): (&[u8], u64) = match begun.kind {
            Kind::List => (b"RPUSH", 1),
            Kind::Set => (b"SADD", 1),
            Kind::Zset => (b"ZADD", 2),
            Kind::Hash => (b"HSET", 2),
        };
        command::put_head(&mut self.out, usize::try_from(2 + begun.open * words).unwrap_or(usize::MAX));
        command::put_arg(&mut self.out, name);
        command::put_arg(&mut self.out, &begun.key);
    }

    /// Behind a command of elements.
    fn tail(&mut self, begun: &mut Begun) {
        for (field, ms) in begun.deadlines.drain(..) {
            command::put(&mut self.out, &[b"HPEXPIREAT", &begun.key, &digits(ms), b"FIELDS", b"1", &field]);
        }
        if begun.left == 0
            && let Some(ms) = begun.deadline_ms
        {
            command::put(&mut self.out, &[b"PEXPIREAT", &begun.key, &digits(ms)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entry;

    fn text(writer: &Writer) -> String {
        let all = String::from_utf8(writer.out.clone()).unwrap();
        let words: Vec<&str> = all.split("\r\n").filter(|word| !word.starts_with('$') && !word.is_empty()).collect();
        words.join(" ")
    }

    #[test]
    fn of_each_type() {
        let mut writer = Writer::default();
        writer.database(0);
        writer.begin_string(b"plain", 0, None, 2);
        writer.piece(b"a");
        writer.piece(b"b");
        writer.end_string(None);
        writer.database(0);
        writer.begin_string(b"timed", 7, Some(99), 1);
        writer.piece(b"x");
        writer.end_string(Some(99));
        writer.database(3);
        let mut run = Vec::new();
        entry::put(&mut run, b"m");
        score::to_entry(&mut run, 1.5);
        let mut zset = writer.collection(b"z", Some(5), Kind::Zset, 1);
        writer.elements(&mut zset, &run);
        let mut run = Vec::new();
        for (field, ms) in [(b"f", 0), (b"g", 8)] {
            entry::put(&mut run, field);
            entry::put(&mut run, b"1");
            entry::put_int(&mut run, ms);
        }
        let mut hash = writer.collection(b"h", None, Kind::Hash, 2);
        writer.elements(&mut hash, &run);
        let want = "*2 SELECT 0 *3 SET plain ab #memcached-flags:7 *5 SET timed x PXAT 99 *2 SELECT 3 *4 ZADD z 1.5 m *3 PEXPIREAT z 5 \
                    *6 HSET h f 1 g 1 *6 HPEXPIREAT h 8 FIELDS 1 g";
        assert_eq!(text(&writer), want);
    }

    #[test]
    fn long_ones_come_in_parts() {
        for cut in [1, 63, 64, 65, 130] {
            let mut writer = Writer::default();
            let mut list = writer.collection(b"l", Some(5), Kind::List, 130);
            let mut run = Vec::new();
            for n in 0..130 {
                entry::put_int(&mut run, n);
                if (n + 1) % cut == 0 || n == 129 {
                    writer.elements(&mut list, &std::mem::take(&mut run));
                }
            }
            let numbers = |range: std::ops::Range<u32>| range.map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
            let want = format!(
                "*66 RPUSH l {} *66 RPUSH l {} *4 RPUSH l 128 129 *3 PEXPIREAT l 5",
                numbers(0..64),
                numbers(64..128)
            );
            assert_eq!(text(&writer), want, "cut at {cut}");
        }
    }
}
