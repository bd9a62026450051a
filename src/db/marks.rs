//! What memcached keeps of a string beside its value: the client's flags, the number that `cas` compares, how far clients have come
//! with a value that is out of date, and whether it was read. And its way to read and write strings.
//!
//! A string has marks ([`Marks`], 16 bytes in its item) when its flags are not 0, or a client has asked for its number; all others have
//! nothing. Whatever changes the value, by whatever protocol, gives it another number or takes the marks away: what writes a new value
//! takes them ([`Marking::None`]), what changes a part of the old one keeps the flags.
//!
//! Invariants: all numbers are different, and those of a key only rise (as far as clients do not choose them); a string without marks has a
//! number that no client knows.
#![allow(unsafe_code)]

use super::glance::Glance;
use super::item::{self, Header, Item, Key, Marks, NewValue, Value, Words};
use super::keyspace::SHARDS_MAX;
use super::strings::{Plain, blob_of};
use super::view::{Db, Deadline, Found};
use super::{DbError, item_at};
use crate::base::int;
use dolmen_slab::{Handle, Kind};
use static_assertions::const_assert;

/// What becomes of the marks when a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marking {
    /// There are none.
    None,
    /// If there are any, the flags stay.
    Keep,
    /// These flags and this state, with a new number.
    New { flags: u32, state: u32 },
    /// The same with a number that the client has chosen.
    Chosen { flags: u32, state: u32, cas: u64 },
}

impl Marking {
    /// Of a value with these flags, whose number nobody has asked for.
    #[inline]
    #[must_use]
    pub fn of_flags(flags: u32) -> Marking {
        if flags == 0 { Marking::None } else { Marking::New { flags, state: 0 } }
    }
}

/// A string, as a client of memcached sees it, and what it was before this was asked.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    pub item: Item<'a>,
    /// With the time of its last use, and whether it was read before.
    pub before: Header,
}

/// Bits of a number in which the shard stands, so that no two keys have the same one.
const SHARD_BITS: u32 = SHARDS_MAX.trailing_zeros();
/// Bits of the first number of a process, which is drawn: a client that has kept one from before a restart will not meet it again. With the
/// bits of the shard that is below 2^53, as there are clients that compute with it as a float.
const FIRST_BITS: u32 = 40;
const_assert!(FIRST_BITS + SHARD_BITS < 53);

impl Db<'_> {
    /// The next number.
    fn next_cas(&mut self) -> u64 {
        if self.shard.last_cas == 0 {
            self.shard.last_cas = self.shard.seed >> (u64::BITS - FIRST_BITS);
        }
        self.shard.last_cas += 1;
        self.shard.last_cas << SHARD_BITS | self.shard.number
    }

    /// The marks of a value that takes the place of one with the marks `old`.
    pub(super) fn new_marks(&mut self, old: Option<Marks>, marking: Marking) -> Option<Marks> {
        let (flags, state) = match (marking, old) {
            (Marking::None, _) | (Marking::Keep, None) => return None,
            (Marking::Keep, Some(old)) => (old.flags, 0),
            (Marking::New { flags, state }, _) => (flags, state),
            (Marking::Chosen { flags, state, cas }, _) if cas != 0 => return Some(Marks { flags, state, cas }),
            (Marking::Chosen { flags, state, .. }, _) => (flags, state),
        };
        Some(Marks { flags, state, cas: self.next_cas() })
    }

    /// A value was changed in place: it gets another number, if it has one.
    #[inline]
    pub(super) fn renew_marks(&mut self, found: Found) {
        let old = self.item(found.handle).marks();
        if old.is_some()
            && let Some(marks) = self.new_marks(old, Marking::Keep)
        {
            // SAFETY: a live item that has marks; the flags stay.
            unsafe { item::overwrite_marks(&mut self.shard.slab, found.handle, marks) };
        }
    }

    /// The string at a key, for a client of memcached that reads it: counts as a hit or a miss, and as a use. What is no string is not there.
    #[inline(always)]
    pub fn fetch(&mut self, key: Key<'_>) -> Option<Item<'_>> {
        self.fetch_as::<true>(key).map(|seen| seen.item)
    }

    /// The same by one look, if the string has no marks.
    #[inline(always)]
    pub fn fetch_plain(&mut self, key: Key<'_>) -> Plain<'_> {
        match self.glance::<{ item::RAW }>(key) {
            Glance::At(h) => {
                let item = self.item(h);
                if item.marks().is_some() {
                    return Plain::Seldom;
                }
                if !item.is_hit() || !self.shows_now(item.clock()) {
                    self.hit(h);
                } else {
                    self.use_again(h);
                }
                self.count_read(true);
                Plain::Value(self.item(h).raw_value())
            }
            Glance::Absent => {
                self.count_read(false);
                self.tell_missed(key);
                Plain::Absent
            }
            Glance::Other => Plain::Seldom,
        }
    }

    /// The same as `fetch`, with what it was before. Without `USES` it is no use.
    #[inline(always)]
    pub fn fetch_as<const USES: bool>(&mut self, key: Key<'_>) -> Option<Seen<'_>> {
        let found = self.find_read(key).filter(|found| self.item(found.handle).is_string())?;
        let before = self.item(found.handle).header();
        if USES && (before.flags & item::flag::HIT == 0 || !self.shows_now(before.clock)) {
            self.hit(found.handle);
        } else if USES {
            self.use_again(found.handle);
        }
        Some(Seen { item: item_at(&self.shard.slab, found.handle), before })
    }

    /// A string is read by a client of memcached.
    #[inline(always)]
    fn hit(&mut self, h: Handle) {
        let clock = self.used_word(h);
        // Also if a snapshot sees the item: this is none of what it shows.
        // SAFETY: a live item.
        unsafe { item::overwrite_use(&mut self.shard.slab, h, clock, item::flag::HIT) };
    }

    /// The string at a key as it lies, for a client of memcached that goes on to write, or only looks. What is no string is not there.
    pub fn look_at_string(&mut self, key: Key<'_>) -> Option<Item<'_>> {
        let found = self.find(key)?;
        Some(self.item(found.handle)).filter(Item::is_string)
    }

    /// Memory of the item at a key with what it owns, in bytes; 0: there is none.
    pub fn memory_of(&mut self, key: Key<'_>) -> u64 {
        match self.find(key) {
            Some(found) => self.item(found.handle).held_bytes(&self.shard.slab),
            None => 0,
        }
    }

    /// The number of the string at a key, which it gets now if it has none; `None`: there is no string.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`].
    pub fn cas_of(&mut self, key: Key<'_>) -> Result<Option<u64>, DbError> {
        match self.look_at_string(key).map(|item| item.marks()) {
            None => Ok(None),
            Some(Some(marks)) => Ok(Some(marks.cas)),
            Some(None) => self.mark(key, |_| {}).map(|marks| marks.map(|marks| marks.cas)),
        }
    }

    /// The number of what was stored at a key just now. What was gone at once, for its deadline, has one that no other value will have.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`].
    pub fn cas_of_stored(&mut self, key: Key<'_>) -> Result<u64, DbError> {
        // (The search has turned to the key's shard.)
        Ok(self.cas_of(key)?.unwrap_or_else(|| self.next_cas()))
    }

    /// Changes the marks of the string at a key, which gets some if it has none; returns them as they are then.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; nothing has changed then.
    pub fn mark(&mut self, key: Key<'_>, change: impl FnOnce(&mut Marks)) -> Result<Option<Marks>, DbError> {
        let Some(mut found) = self.find(key).filter(|found| self.item(found.handle).is_string()) else {
            return Ok(None);
        };
        if self.is_viewed() {
            found.handle = self.own(key.hash, found)?;
        }
        let old = self.item(found.handle).words();
        let mut marks = match old.marks {
            Some(marks) => marks,
            None => Marks { flags: 0, state: 0, cas: self.next_cas() },
        };
        change(&mut marks);
        if marks.cas == 0 {
            marks.cas = self.next_cas();
        }
        if old.marks.is_some() {
            // SAFETY: a live item that has marks and is this command's own.
            unsafe { item::overwrite_marks(&mut self.shard.slab, found.handle, marks) };
            return Ok(Some(marks));
        }
        let words = Words { marks: Some(marks), ..old };
        let bytes = item::bytes_with_words(self.item(found.handle).header(), &words);
        let to = self.shard.slab.alloc(bytes, Kind::Item)?;
        // SAFETY: the source is live, the target was allocated for the copy and is not read by anybody yet.
        unsafe { item::copy_with_words(&mut self.shard.slab, found.handle, to, words) };
        self.move_found(found, to);
        Ok(Some(marks))
    }

    /// Puts `bytes` in front of the string at a key; flags and deadline stay. False: there is none.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; nothing has changed then.
    pub fn prepend(&mut self, key: Key<'_>, bytes: &[u8]) -> Result<bool, DbError> {
        let Some(found) = self.find(key).filter(|found| self.item(found.handle).is_string()) else {
            return Ok(false);
        };
        let mut digits = [0; 20];
        let old = match self.item(found.handle).value() {
            Value::Raw(old) => old.to_vec(),
            Value::Int(i) => int::write_i64(&mut digits, i).to_vec(),
            value @ Value::Blob(_) => self.copy_value(&value),
        };
        let whole = [bytes, &old].concat();
        let value = if whole.len() <= item::value_inline_max(key.bytes.len()) {
            NewValue::Raw(&whole)
        } else {
            NewValue::Blob(blob_of(&mut self.shard.slab, &[&whole])?)
        };
        self.set_slow(key, Some(found), value, Deadline::Keep, Marking::Keep)?;
        self.mark_modified(key);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shard;
    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn shard() -> Shard {
        Shard::new(
            2,
            7,
            dolmen_slab::Config { reserve_bytes: 64 << 20, blob_reserve_bytes: 1 << 30, ..Default::default() },
        )
        .unwrap()
    }

    fn text(db: &mut Db<'_>, name: &str) -> Vec<u8> {
        let value = db.read_string(db.key(name.as_bytes())).unwrap().unwrap();
        let (Value::Raw(bytes), mut digits) = (value, [0; 20]) else {
            let Value::Int(i) = value else { panic!("a blob") };
            return int::write_i64(&mut [0; 20], i).to_vec();
        };
        let _ = &mut digits;
        bytes.to_vec()
    }

    #[test]
    fn what_is_not_marked_takes_no_memory_and_what_is_sixteen_bytes() {
        let mut shard = shard();
        let mut db = shard.db(0, NOW_MS);
        let key = db.key(b"sixteen bytes..!");
        db.set_string(key, NewValue::Raw(b"12345678"), Deadline::None).unwrap();
        let size = |db: &mut Db<'_>| db.look_at_string(key).unwrap().header().item_bytes();
        assert_eq!(size(&mut db), 32);
        let cas = db.cas_of(key).unwrap().unwrap();
        assert_eq!(size(&mut db), 48);
        assert_eq!(db.cas_of(key), Ok(Some(cas)));
        db.set_marked(key, NewValue::Raw(b"12345678"), Deadline::None, Marking::of_flags(0)).unwrap();
        assert_eq!(size(&mut db), 32);
        db.set_marked(key, NewValue::Raw(b"12345678"), Deadline::At(NOW_MS + 5), Marking::of_flags(9)).unwrap();
        assert_eq!(size(&mut db), 56);
        let item = db.fetch(key).unwrap();
        assert_eq!((item.marks().unwrap().flags, item.deadline_ms()), (9, NOW_MS + 5));
    }

    #[test]
    fn each_change_gives_another_number_and_flags_stay_with_a_part() {
        let mut shard = shard();
        let mut db = shard.db(0, NOW_MS);
        let key = db.key(b"k");
        let mut seen = std::collections::BTreeSet::new();
        let mut see = |db: &mut Db<'_>, flags: u32, value: &[u8]| {
            assert_eq!(db.look_at_string(key).unwrap().marks().map_or(0, |marks| marks.flags), flags);
            assert_eq!(text(db, "k"), value);
            assert!(seen.insert(db.cas_of(key).unwrap().unwrap()), "the number was there before");
        };
        db.set_marked(key, NewValue::Raw(b"10"), Deadline::None, Marking::of_flags(3)).unwrap();
        see(&mut db, 3, b"10");
        db.add_int(key, 7).unwrap();
        see(&mut db, 3, b"17");
        db.add_int(key, -7).unwrap();
        see(&mut db, 3, b"10");
        db.append(key, b"0", 100).unwrap();
        see(&mut db, 3, b"100");
        db.prepend(key, b"x").unwrap();
        see(&mut db, 3, b"x100");
        db.set_range(key, 1, b"yz").unwrap();
        see(&mut db, 3, b"xyz0");
        db.edit_string(key, 0, 1, |bytes| bytes[0] = b'X').unwrap();
        see(&mut db, 3, b"Xyz0");
        db.set_deadline(key, Some(NOW_MS + 1000)).unwrap();
        db.rename(key, db.key(b"other")).unwrap();
        db.rename(db.key(b"other"), key).unwrap();
        assert_eq!(db.look_at_string(key).unwrap().marks().unwrap().flags, 3);
        db.set_string(key, NewValue::Raw(b"new"), Deadline::None).unwrap();
        see(&mut db, 0, b"new");
        db.set_string(key, NewValue::Raw(b"new"), Deadline::None).unwrap();
        see(&mut db, 0, b"new");
    }

    #[test]
    fn large_values_have_marks_too() {
        let mut shard = shard();
        let mut db = shard.db(0, NOW_MS);
        let key = db.key(b"k");
        let big = vec![b'x'; 100_000];
        db.set_marked(key, NewValue::Raw(&big), Deadline::None, Marking::of_flags(5)).unwrap();
        let first = db.cas_of(key).unwrap();
        db.append(key, b"end", usize::MAX).unwrap();
        let second = db.cas_of(key).unwrap();
        db.prepend(key, b"begin").unwrap();
        let third = db.cas_of(key).unwrap();
        assert!(first < second && second < third);
        let item = db.look_at_string(key).unwrap();
        assert_eq!(item.marks().unwrap().flags, 5);
        let Value::Blob(id) = item.value() else { panic!("it is large") };
        assert_eq!(db.blob_len(key, id), 100_008);
        db.remove(key);
        db.shard().background(NOW_MS, true, || true);
        assert_eq!(db.look_at_string(key).map(|_| ()), None);
    }

    #[test]
    fn a_read_is_remembered_until_the_value_is_written() {
        let mut shard = shard();
        // Too short for one look, and not.
        for name in [&b"k"[..], b"a key of some length"] {
            let mut db = shard.db(0, NOW_MS);
            let key = db.key(name);
            db.set_string(key, NewValue::Raw(b"value"), Deadline::None).unwrap();
            let key = db.locate(name);
            let hit = |db: &mut Db<'_>| db.fetch_as::<true>(key).unwrap().before.flags & item::flag::HIT != 0;
            assert_eq!([hit(&mut db), hit(&mut db)], [false, true]);
            db.set_string(key, NewValue::Raw(b"other"), Deadline::None).unwrap();
            assert_eq!([hit(&mut db), hit(&mut db)], [false, true]);
            assert_eq!(db.overwrite_alike(key, b"third"), name.len() > 1, "and the flag goes");
            assert_eq!(hit(&mut db), name.len() == 1);
            let is_one_look = matches!(db.fetch_plain(key), Plain::Value(b"third"));
            assert_eq!(is_one_look, name.len() > 1);
        }
    }
}
