//! Writes a collection: runs of elements in, the bytes of a value out, in pieces. The encodings are the plain ones, which every Redis loads.

use super::lzf::Packer;
use super::{Kind, string, value_type};
use crate::base::entry::{Entries, Entry};
use crate::base::score;

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    List,
    Set,
    Zset,
    Hash,
    /// A hash with fields that have deadlines, none of which is before this one (Unix milliseconds; 1 will do). Redis 7.4 and later load it.
    HashWithDeadlines {
        first_ms: u64,
    },
}

impl Form {
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Form::List => Kind::List,
            Form::Set => Kind::Set,
            Form::Zset => Kind::Zset,
            Form::Hash | Form::HashWithDeadlines { .. } => Kind::Hash,
        }
    }
}

/// A collection being written.
#[derive(Debug)]
pub struct Encoder {
    form: Form,
    left: u64,
}

impl Encoder {
    /// Begins a value of `count` elements, at least one, which are to come with [`Encoder::put`].
    #[must_use]
    pub fn new(form: Form, count: u64, out: &mut Vec<u8>) -> Encoder {
        debug_assert!(count > 0, "a collection without elements is no value");
        out.push(match form {
            Form::List => value_type::LIST,
            Form::Set => value_type::SET,
            Form::Zset => value_type::ZSET_2,
            Form::Hash => value_type::HASH,
            Form::HashWithDeadlines { .. } => value_type::HASH_METADATA,
        });
        if let Form::HashWithDeadlines { first_ms } = form {
            out.extend_from_slice(&first_ms.to_le_bytes());
        }
        string::write_length(count, out);
        Encoder { form, left: count }
    }

    /// Writes the elements of a run. Deadlines are left out but in [`Form::HashWithDeadlines`].
    ///
    /// # Panics
    /// If an element is not whole. That there are more than was said fails in a debug build only.
    pub fn put(&mut self, run: &[u8], out: &mut Vec<u8>) {
        self.put_by(run, out, string::write);
    }

    /// The same with strings packed where that makes them shorter.
    ///
    /// # Panics
    /// As `put`.
    pub fn put_packed(&mut self, run: &[u8], packer: &mut Packer, out: &mut Vec<u8>) {
        self.put_by(run, out, |bytes, out| string::write_packed(bytes, packer, out));
    }

    fn put_by(&mut self, run: &[u8], out: &mut Vec<u8>, mut text: impl FnMut(&[u8], &mut Vec<u8>)) {
        let mut write = |entry: Entry<'_>, out: &mut Vec<u8>| match entry {
            Entry::Int(number) => string::write_int(number, out),
            Entry::Bytes(bytes) => text(bytes, out),
        };
        let mut entries = Entries::new(run);
        while let Some(first) = entries.next() {
            debug_assert!(self.left > 0, "no more elements than was said");
            self.left = self.left.saturating_sub(1);
            let mut next = || entries.next().expect("whole elements");
            match self.form {
                Form::List | Form::Set => write(first, out),
                Form::Zset => {
                    write(first, out);
                    out.extend_from_slice(&score::from_entry(next()).to_le_bytes());
                }
                Form::Hash | Form::HashWithDeadlines { .. } => {
                    let (value, deadline) = (next(), next());
                    if let Form::HashWithDeadlines { first_ms } = self.form {
                        string::write_length(from_first(deadline, first_ms), out);
                    }
                    write(first, out);
                    write(value, out);
                }
            }
        }
    }

    /// Elements still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }
}

/// A deadline as it is written: 0 is none, 1 the first.
fn from_first(deadline: Entry<'_>, first_ms: u64) -> u64 {
    match deadline {
        Entry::Int(at @ 1..) => at.unsigned_abs().saturating_sub(first_ms) + 1,
        _ => 0,
    }
}
