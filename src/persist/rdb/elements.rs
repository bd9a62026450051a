//! Elements on their way from a value into a run. Owns what makes an element of a type complete, and that none is there twice; knows nothing
//! of how they are encoded in the value.

use super::{Kind, Malformed};
use crate::base::entry::{self, Entry};
use crate::base::float;
use crate::base::hash::hash_key;
use crate::base::int::MAX_DIGITS;
use crate::base::score;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Elements that one of the tables of names takes on average, and most tables.
const NAMES_A_TABLE: u64 = 1024;
const TABLES_MAX: u64 = 1 << 16;
/// Deadlines beyond that cannot be: 48 bits of milliseconds.
const DEADLINE_MAX_MS: u64 = (1 << 48) - 2;

/// A hash is its own hash.
#[derive(Default)]
pub struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only words are hashed");
    }

    fn write_u128(&mut self, word: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "half of the bits are enough")]
        let half = word as u64;
        self.0 = half;
    }
}

/// So many names are in no table.
const FEW: usize = 32;

/// The names seen, by 128 bits of hash under a random seed: two that are not the same are taken for the same at no chance that matters. A few
/// are looked for one after the other; for more there are many small tables rather than a large one, so that none takes long to grow.
struct Names {
    seed: u64,
    /// Halves of their hashes, as long as they are few.
    few: [[u64; FEW]; 2],
    count: usize,
    /// How many may come.
    expected: u64,
    tables: Vec<HashSet<u128, BuildHasherDefault<Itself>>>,
}

impl Names {
    fn new() -> Names {
        Names { seed: 0, few: [[0; FEW]; 2], count: 0, expected: 0, tables: Vec::new() }
    }

    fn begin(&mut self, seed: u64) {
        (self.seed, self.count, self.expected) = (seed, 0, 0);
        self.tables = Vec::new();
    }

    fn table(&mut self, low: u64, high: u64) -> bool {
        if self.tables.is_empty() {
            let tables = (self.expected / NAMES_A_TABLE).clamp(1, TABLES_MAX).next_power_of_two();
            self.tables.resize_with(usize::try_from(tables).unwrap_or(1), HashSet::default);
        }
        #[expect(clippy::cast_possible_truncation, reason = "masked")]
        let table = high as usize & (self.tables.len() - 1);
        self.tables[table].insert(u128::from(high) << 64 | u128::from(low))
    }

    /// False: it was there.
    fn add(&mut self, name: &[u8]) -> bool {
        let (low, high) = (hash_key(self.seed, name), hash_key(!self.seed, name));
        if self.count > FEW {
            return self.table(low, high);
        }
        let [lows, highs] = &self.few;
        if lows[..self.count].contains(&low)
            && lows.iter().zip(highs).take(self.count).any(|(l, h)| (*l, *h) == (low, high))
        {
            return false;
        }
        if self.count < FEW {
            (self.few[0][self.count], self.few[1][self.count]) = (low, high);
        } else {
            for at in 0..FEW {
                self.table(self.few[0][at], self.few[1][at]);
            }
            self.table(low, high);
        }
        self.count += 1;
        true
    }

    fn bytes(&self) -> usize {
        let names: usize = self.tables.iter().map(HashSet::capacity).sum();
        names * (size_of::<u128>() + 1) + self.tables.capacity() * size_of::<HashSet<u128>>()
    }
}

/// What becomes of the strings and numbers of a value: whole elements.
pub struct Elements {
    kind: Kind,
    /// Strings of an element as it is written in the value; a third is a deadline.
    strings: usize,
    /// Those of the element at hand that came already.
    came: usize,
    deadline_ms: i64,
    /// The element at hand.
    element: Vec<u8>,
    names: Names,
    /// No name may come twice, and it is looked for.
    distinct: bool,
    count: u64,
}

impl Elements {
    #[must_use]
    pub fn new() -> Elements {
        Elements {
            kind: Kind::List,
            strings: 1,
            came: 0,
            deadline_ms: 0,
            element: Vec::new(),
            names: Names::new(),
            distinct: false,
            count: 0,
        }
    }

    /// Begins with another value. `strings`: of an element. `distinct`: the value's encoding sees to it that no name is there twice.
    pub fn begin(&mut self, kind: Kind, strings: usize, distinct: bool, seed: u64) {
        (self.kind, self.strings, self.came, self.deadline_ms, self.count) = (kind, strings, 0, 0, 0);
        self.element.clear();
        self.distinct = kind != Kind::List && !distinct;
        self.names.begin(seed);
    }

    /// About so many will come.
    pub fn expect(&mut self, elements: u64) {
        self.names.expected = elements;
    }

    /// Takes the next string; if that makes an element complete, the run has it (true).
    ///
    /// # Errors
    /// If there is one of that name, or it is no score or deadline where one has to be.
    pub fn put(&mut self, string: Entry<'_>, run: &mut Vec<u8>) -> Result<bool, Malformed> {
        match (self.came, self.kind) {
            (0, _) => {
                let text = &mut [0; MAX_DIGITS];
                if self.distinct && !self.names.add(string.text(text)) {
                    return Err(Malformed);
                }
                string.put(&mut self.element);
            }
            (1, Kind::Zset) => {
                let number = match string {
                    #[expect(clippy::cast_precision_loss, reason = "as a score that is written in digits")]
                    Entry::Int(number) => number as f64,
                    Entry::Bytes(text) => float::parse(text).ok_or(Malformed)?,
                };
                return self.put_score(number, run);
            }
            (1, _) => string.put(&mut self.element),
            _ => match string {
                Entry::Int(deadline_ms) => self.set_deadline(u64::try_from(deadline_ms).map_err(|_| Malformed)?)?,
                Entry::Bytes(_) => return Err(Malformed),
            },
        }
        self.came += 1;
        Ok(self.came == self.strings && self.complete(run))
    }

    /// The score of the element at hand, which makes it complete.
    ///
    /// # Errors
    /// If it is no number.
    pub fn put_score(&mut self, number: f64, run: &mut Vec<u8>) -> Result<bool, Malformed> {
        if number.is_nan() || self.came != 1 {
            return Err(Malformed);
        }
        score::to_entry(&mut self.element, number);
        Ok(self.complete(run))
    }

    /// The deadline of the element at hand or, if there is none, of the next; 0: it has none.
    ///
    /// # Errors
    /// If it is too far away.
    pub fn set_deadline(&mut self, deadline_ms: u64) -> Result<(), Malformed> {
        let fits = i64::try_from(deadline_ms).ok().filter(|_| deadline_ms <= DEADLINE_MAX_MS);
        self.deadline_ms = fits.ok_or(Malformed)?;
        Ok(())
    }

    fn complete(&mut self, run: &mut Vec<u8>) -> bool {
        if self.kind == Kind::Hash {
            entry::put_int(&mut self.element, std::mem::take(&mut self.deadline_ms));
        }
        run.append(&mut self.element);
        self.came = 0;
        self.count += 1;
        true
    }

    /// Is the element at hand complete?
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.came == 0
    }

    /// How many strings of the element at hand came already.
    #[must_use]
    pub fn strings_came(&self) -> usize {
        self.came
    }

    /// How many have been complete.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.element.capacity() + self.names.bytes()
    }
}
