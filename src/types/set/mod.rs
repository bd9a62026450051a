//! Sets: distinct byte strings without an order. Owns their three forms and when one becomes the next; knows nothing of keys and replies.
//!
//! ```text
//!  sorted integers ──▶ entries ──▶ table of members        small ones inside their item (`small`, `ints`), then `Set` (`big`)
//!         └──────────────────────────▲
//! ```
//! A set that has become small by some way is packed again by its owner. What OBJECT ENCODING tells is kept beside it ([`Encoding`]), by Redis's bounds and not by
//! those here.
//!
//! # Cost
//! A member of 8 bytes takes 9 packed, and 16 + 7.2 in the table. All operations on one member are O(1) in the table, O(log n) among integers,
//! and a search of at most 2 KiB among entries.

mod big;
mod ints;
mod small;
#[cfg(test)]
mod tests;

use super::{Body, Container, Edit, Form, Limits, Look, Memory};
use crate::base::entry::Entry;
use crate::base::rng::Rng;
pub use big::{Member, Set};
use dolmen_slab::{AllocError, Slab};
use small::{Inserted, Small};

/// Steps of a scan for each member that was asked for, so that a sparse table does not make it long.
const SCAN_STEPS: usize = 10;
/// Members taken out of a table that failed to be made, between two looks whether all are.
const DRAIN_STEP: usize = 1024;

/// The encoding that Redis would have. It only ever goes up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
#[repr(u8)]
pub enum Encoding {
    #[default]
    Intset = 0,
    Listpack = 1,
    Hashtable = 2,
}

impl Encoding {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Intset => "intset",
            Encoding::Listpack => "listpack",
            Encoding::Hashtable => "hashtable",
        }
    }

    /// What it becomes as `entry` is added to `count` members; `digits_max` is the length of the longest of them, if all are integers.
    fn with(self, entry: Entry<'_>, count: usize, digits_max: impl FnOnce() -> usize, limits: &Limits) -> Encoding {
        let fits = |text_len: usize| text_len <= limits.set_max_listpack_value;
        let has_room = count < limits.set_max_listpack_entries;
        match (self, entry) {
            (Encoding::Intset, Entry::Int(_)) if count < limits.set_max_intset_entries => Encoding::Intset,
            (Encoding::Intset, Entry::Bytes(bytes)) if has_room && fits(bytes.len()) && fits(digits_max()) => {
                Encoding::Listpack
            }
            (Encoding::Listpack, entry) if has_room && fits(entry.text_len()) => Encoding::Listpack,
            _ => Encoding::Hashtable,
        }
    }
}

impl<'a> Look<'a, Set> {
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        match self.form {
            Form::Packed(packed) => small::encoding(packed),
            Form::Big(set) => set.encoding,
        }
    }

    #[inline]
    #[must_use]
    pub fn contains(&self, entry: Entry<'_>) -> bool {
        match self.form {
            Form::Packed(packed) => Small::of(packed).contains(entry),
            Form::Big(set) => set.contains(self.slab, entry),
        }
    }

    /// A hint that `entry` will be looked for soon.
    #[inline]
    pub fn prefetch(&self, entry: Entry<'_>) {
        if let Form::Big(set) = self.form {
            set.prefetch(self.slab, entry);
        }
    }

    /// A member, each with the same probability.
    #[must_use]
    pub fn random(&self, rng: &mut Rng) -> Option<Member<'a>> {
        match self.form {
            Form::Packed(packed) => {
                let small = Small::of(packed);
                (small.len() > 0).then(|| Member::Entry(small.get(below(rng, small.len()))))
            }
            Form::Big(set) => set.random(self.slab, rng),
        }
    }

    /// Visits about `count` members from a cursor on (0: from the beginning); the next cursor, 0 at the end. What is there from the first call
    /// to the last is visited, whatever changes meanwhile.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(Member<'a>)) -> u64 {
        let set = match self.form {
            Form::Packed(packed) => {
                Small::of(packed).each(|entry| visit(Member::Entry(entry)));
                return 0;
            }
            Form::Big(set) => set,
        };
        let (mut cursor, mut visited) = (cursor, 0);
        for _ in 0..count.saturating_mul(SCAN_STEPS) {
            cursor = set.scan(self.slab, cursor, |member| {
                visited += 1;
                visit(member);
            });
            if cursor == 0 || visited >= count {
                break;
            }
        }
        cursor
    }

    /// Visits all members.
    pub fn each(&self, mut visit: impl FnMut(Member<'a>)) {
        match self.form {
            Form::Packed(packed) => Small::of(packed).each(|entry| visit(Member::Entry(entry))),
            Form::Big(set) => {
                let mut cursor = 0;
                loop {
                    cursor = set.scan(self.slab, cursor, &mut visit);
                    if cursor == 0 {
                        return;
                    }
                }
            }
        }
    }
}

impl Edit<'_, Set> {
    /// Says that `count` members will be added, of which `first` is one, as SADD does: Redis chooses the encoding by what is asked for, though some
    /// of it may be there.
    pub fn expect(&mut self, first: Entry<'_>, count: usize) {
        let limits = &self.memory.limits;
        let (few_ints, few) = (count <= limits.set_max_intset_entries, count <= limits.set_max_listpack_entries);
        let now = self.look().encoding();
        let encoding = match (self.look().is_empty(), now, first) {
            (true, _, Entry::Int(_)) if few_ints => Encoding::Intset,
            (true, ..) if few => Encoding::Listpack,
            (false, Encoding::Intset, _) if few_ints => now,
            (false, Encoding::Listpack, _) if few => now,
            _ => Encoding::Hashtable,
        };
        if encoding != now {
            self.set_encoding(encoding);
        }
    }

    fn set_encoding(&mut self, encoding: Encoding) {
        match self.body {
            Body::Packed(packed) => small::set_encoding(packed, encoding),
            Body::Big(set) => set.encoding = encoding,
        }
    }

    /// False: it is there already.
    ///
    /// # Errors
    /// There is no memory; nothing has changed.
    #[inline]
    pub fn add(&mut self, entry: Entry<'_>) -> Result<bool, AllocError> {
        match self.body {
            Body::Big(set) => {
                let limits = &self.memory.limits;
                let count = set.len();
                if !set.insert(self.memory.slab, entry)? {
                    return Ok(false);
                }
                // Whether all of a table's integers are short is not known, nor asked for under bounds that anybody would set.
                if set.encoding != Encoding::Hashtable {
                    set.encoding = set.encoding.with(entry, count, || crate::base::int::MAX_DIGITS, limits);
                }
                Ok(true)
            }
            Body::Packed(packed) => {
                let (count, encoding) = (Small::of(packed).len(), small::encoding(packed));
                let asks_for_digits = encoding == Encoding::Intset && matches!(entry, Entry::Bytes(_));
                let digits_max = if asks_for_digits { Small::of(packed).digits_max() } else { 0 };
                match small::insert(packed, entry) {
                    Inserted::There => return Ok(false),
                    Inserted::New => {}
                    Inserted::Full => {
                        let set = unpacked(&mut self.memory, packed, entry)?;
                        *self.body = Body::Big(set);
                    }
                }
                let after = encoding.with(entry, count, || digits_max, &self.memory.limits);
                if after != encoding {
                    self.set_encoding(after);
                }
                Ok(true)
            }
        }
    }

    /// True: it was there.
    pub fn remove(&mut self, entry: Entry<'_>) -> bool {
        match self.body {
            Body::Packed(packed) => small::remove(packed, entry),
            Body::Big(set) => set.remove(self.memory.slab, entry),
        }
    }

    /// Takes out a random member, each with the same probability, and appends it to `run`. False: there is none.
    pub fn pop(&mut self, rng: &mut Rng, run: &mut Vec<u8>) -> bool {
        match self.body {
            Body::Big(set) => set.take_random(self.memory.slab, rng, run),
            Body::Packed(packed) => {
                let small = Small::of(packed);
                if small.len() == 0 {
                    return false;
                }
                let index = below(rng, small.len());
                small.get(index).put(run);
                small::remove_at(packed, index);
                true
            }
        }
    }
}

/// The big form of a packed set, with one more member.
#[cold]
fn unpacked(memory: &mut Memory<'_>, packed: &[u8], more: Entry<'_>) -> Result<Box<Set>, AllocError> {
    let mut set = Box::new(Set::new(memory.slab, memory.seed));
    let mut result = Ok(());
    let mut insert = |entry: Entry<'_>, slab: &mut Slab| {
        if result.is_ok() {
            result = set.insert(slab, entry).map(|_| ());
        }
    };
    Small::of(packed).each(|entry| insert(entry, memory.slab));
    insert(more, memory.slab);
    if let Err(error) = result {
        while set.drain(memory.slab, DRAIN_STEP) {}
        return Err(error);
    }
    set.encoding = small::encoding(packed);
    Ok(set)
}

fn below(rng: &mut Rng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).expect("below a length")
}
