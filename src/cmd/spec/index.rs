//! From a command's name, in any case, to its row: one multiplication and one probe.
//!
//! A name of at most 8 bytes is packed into a word, whose letters are folded to lower case by setting bit 5 of every byte.
//! The word times a multiplier, shifted, is its slot: the multiplier is searched when the index is built, so that no two
//! names share one. Bit 5 is also set in bytes that are no letters, so the slot tells where the name has letters, and only
//! those are folded for the comparison: exact, without looking at the name again.
//!
//! ```text
//!   "GeT" ──► 0x0000_0000_0054_6547 │ 0x2020..20 ──► × mul >> shift ──► slot
//!   slot: word 0x..0074_6567 ("get")   fold 0x..0020_2020   len 3   value
//!   hit:  packed │ fold == word  and  3 == len
//! ```
//! A longer name is looked up by its first and last 8 bytes mixed into one word; both are compared in the same way, and
//! the name in full if it is longer than both.

use super::Command;

/// Bit 5 of every byte: what tells lower from upper case in a letter.
const CASE: u64 = 0x2020_2020_2020_2020;
const WORD: usize = 8;

#[derive(Clone, Copy)]
struct Slot<T> {
    word: u64,
    /// Bit 5 of those bytes of `word` that are letters.
    fold: u64,
    /// Tells a name from the same name with zero bytes after it.
    len: usize,
    /// None: the slot is free.
    value: Option<T>,
}

/// A collision-free hash table over a fixed set of words.
struct Perfect<T> {
    multiplier: u64,
    shift: u32,
    slots: Box<[Slot<T>]>,
}

impl<T: Copy> Perfect<T> {
    fn new(entries: &[Slot<T>]) -> Perfect<T> {
        for (i, a) in entries.iter().enumerate() {
            let same = |b: &Slot<T>| a.word | CASE == b.word | CASE;
            assert!(!entries[..i].iter().any(same), "two command names cannot be told apart");
        }
        let bits_min = (entries.len() * 2).next_power_of_two().trailing_zeros().max(1);
        for bits in bits_min..=24 {
            let mut table = Perfect { multiplier: 0, shift: u64::BITS - bits, slots: Box::default() };
            for _ in 0..512 {
                table.multiplier = step(table.multiplier) | 1;
                if table.separates(entries, bits) {
                    table.place(entries, bits);
                    return table;
                }
            }
        }
        unreachable!("2^24 slots hold {} words without a collision", entries.len());
    }

    /// Whether no two entries meet in one of 2^`bits` slots.
    fn separates(&self, entries: &[Slot<T>], bits: u32) -> bool {
        let mut taken = vec![false; 1 << bits];
        entries.iter().all(|entry| !std::mem::replace(&mut taken[self.at(entry.word)], true))
    }

    fn place(&mut self, entries: &[Slot<T>], bits: u32) {
        let free = Slot { word: 0, fold: 0, len: 0, value: None };
        self.slots = vec![free; 1 << bits].into();
        for entry in entries {
            let at = self.at(entry.word);
            self.slots[at] = *entry;
        }
    }

    #[inline]
    fn at(&self, word: u64) -> usize {
        let hash = (word | CASE).wrapping_mul(self.multiplier);
        #[expect(clippy::cast_possible_truncation, reason = "at most 24 bits remain after the shift")]
        let slot = (hash >> self.shift) as usize;
        slot
    }

    #[inline]
    fn find(&self, word: u64, len: usize) -> Option<T> {
        // Never out of bounds, and `get` is cheaper than the panic of an index.
        let slot = self.slots.get(self.at(word))?;
        if word | slot.fold == slot.word && len == slot.len { slot.value } else { None }
    }
}

/// The next candidate of the multiplier search (splitmix64).
fn step(seed: u64) -> u64 {
    let next = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ (mixed >> 27)
}

/// Names to values, case-insensitive. Built once; `T` is a row number or a reference.
pub struct Index<T> {
    short: Perfect<T>,
    long: Perfect<Long<T>>,
}

/// What is compared of a name longer than 8 bytes.
#[derive(Clone, Copy)]
struct Long<T> {
    head: u64,
    tail: u64,
    head_fold: u64,
    tail_fold: u64,
    name: &'static str,
    value: T,
}

impl<T: Copy> Index<T> {
    /// An index over lower-case ASCII names.
    ///
    /// # Panics
    /// If a name is empty or not lower-case, or comes twice.
    pub fn new(names: impl IntoIterator<Item = (&'static str, T)>) -> Index<T> {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        for (name, value) in names {
            assert!(!name.is_empty() && name.is_ascii() && name.to_ascii_lowercase() == name, "bad name {name:?}");
            let (bytes, len) = (name.as_bytes(), name.len());
            if len <= WORD {
                let word = pack(bytes);
                short.push(Slot { word, fold: fold_mask(word), len, value: Some(value) });
            } else {
                let (head, tail) = ends(bytes);
                let entry = Long { head, tail, head_fold: fold_mask(head), tail_fold: fold_mask(tail), name, value };
                long.push(Slot { word: mix((head, tail)), fold: 0, len, value: Some(entry) });
            }
        }
        Index { short: Perfect::new(&short), long: Perfect::new(&long) }
    }

    /// The value of `name` in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<T> {
        if name.len() <= WORD { self.find_word(pack(name), name.len()) } else { self.find_long(name) }
    }

    /// The same for a parser that may read 8 bytes at the name and so needs no packing (about 17 instructions instead
    /// of 28): `word` is little-endian, zero beyond `len`, which is at most 8.
    #[inline]
    pub fn find_word(&self, word: u64, len: usize) -> Option<T> {
        self.short.find(word, len)
    }

    #[inline(never)]
    fn find_long(&self, name: &[u8]) -> Option<T> {
        let (head, tail) = ends(name);
        let entry = self.long.find(mix((head, tail)), name.len())?;
        let same_ends = head | entry.head_fold == entry.head && tail | entry.tail_fold == entry.tail;
        // The two ends are all of a name of up to 16 bytes.
        let same = same_ends && (name.len() <= 2 * WORD || entry.name.as_bytes().eq_ignore_ascii_case(name));
        same.then_some(entry.value)
    }
}

/// At most 8 bytes as a little-endian word, zero beyond them. Both ends of the name are read, overlapping, so that no
/// byte outside it is read and there is no loop.
#[inline]
fn pack(name: &[u8]) -> u64 {
    let len = name.len();
    if let (Some(head), Some(tail)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        let (head, tail) = (u32::from_le_bytes(*head), u32::from_le_bytes(*tail));
        u64::from(head) | u64::from(tail) << (8 * (len - 4))
    } else if let (Some(head), Some(tail)) = (name.first_chunk::<2>(), name.last_chunk::<2>()) {
        let (head, tail) = (u16::from_le_bytes(*head), u16::from_le_bytes(*tail));
        u64::from(head) | u64::from(tail) << (8 * (len - 2))
    } else {
        name.first().map_or(0, |&byte| byte.into())
    }
}

/// Bit 5 of those bytes that are letters.
fn fold_mask(word: u64) -> u64 {
    u64::from_le_bytes(word.to_le_bytes().map(|byte| if byte.is_ascii_alphabetic() { 0x20 } else { 0 }))
}

/// The first and the last 8 bytes of a longer name.
#[inline]
fn ends(name: &[u8]) -> (u64, u64) {
    let word = |chunk: Option<&[u8; WORD]>| chunk.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    (word(name.first_chunk()), word(name.last_chunk()))
}

/// Both ends in one word, the same in any case.
#[inline]
fn mix((head, tail): (u64, u64)) -> u64 {
    let mixed = (head | CASE).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (tail | CASE);
    // With the case bits set already, a lookup changes nothing.
    mixed | CASE
}

/// The command table with its index.
pub struct Commands<R: 'static> {
    rows: &'static [Command<R>],
    /// By the names that hold: those that clients know them by.
    index: Index<&'static Command<R>>,
    /// By the other ones, if some have two: their own, or those of clients while their own hold.
    other: Option<Index<&'static Command<R>>>,
    own_names_hold: bool,
}

impl<R> Commands<R> {
    /// # Panics
    /// If two rows have one name.
    pub fn new(rows: &'static [Command<R>]) -> Commands<R> {
        let index = Index::new(rows.iter().map(|row| (row.name, row)));
        Commands { rows, index, other: None, own_names_hold: false }
    }

    /// With some commands under other names, or under none: one pair after the other of an old and a new name (`rename-command`). Only clients know the new
    /// ones; what is told about a command, users' rights and statistics, has its own name.
    ///
    /// # Errors
    /// If there is no command of an old name, or one of a new name already.
    pub fn renamed(rows: &'static [Command<R>], renames: &[[Vec<u8>; 2]]) -> Result<Commands<R>, &'static str> {
        if renames.is_empty() {
            return Ok(Commands::new(rows));
        }
        let mut names: Vec<(&'static str, &'static Command<R>)> = rows.iter().map(|row| (row.name, row)).collect();
        let position = |names: &[(&str, _)], name: &[u8]| {
            names.iter().position(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
        };
        for [old, new] in renames {
            let at = position(&names, old).ok_or("No such command in rename-command")?;
            let (_, row) = names.swap_remove(at);
            if !new.is_empty() {
                if position(&names, new).is_some() {
                    return Err("Target command name already exists");
                }
                let new = String::from_utf8(new.to_ascii_lowercase()).map_err(|_| "A command's name is text")?;
                // There as long as the process is.
                names.push((new.leak(), row));
            }
        }
        Ok(Commands { index: Index::new(names), other: Some(Commands::new(rows).index), rows, own_names_hold: false })
    }

    /// Whether commands are found by their own names, and no others, if they were renamed: while a log of them is run, which has these.
    pub fn let_own_names_hold(&mut self, hold: bool) {
        if let Some(other) = &mut self.other
            && std::mem::replace(&mut self.own_names_hold, hold) != hold
        {
            std::mem::swap(&mut self.index, other);
        }
    }

    /// The own name of the command that clients call so, if any was renamed.
    #[inline]
    pub fn own_name(&self, name: &[u8]) -> Option<&'static str> {
        self.other.as_ref()?;
        self.find(name).map(|row| row.name)
    }

    /// How many commands and subcommands there are.
    pub fn len_all(&self) -> usize {
        self.all().count()
    }

    pub fn rows(&self) -> &'static [Command<R>] {
        self.rows
    }

    /// The command called `name` in any case, subcommands not considered.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Command<R>> {
        self.index.find(name)
    }

    /// The command or subcommand with this full name: `get`, `config|get`.
    pub fn find_full(&self, name: &[u8]) -> Option<&'static Command<R>> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.find(name),
            Some(bar) => self.find(&name[..bar])?.subcommand(&name[bar + 1..]),
        }
    }

    /// The command that `argv` calls: the subcommand if the command has any and one is given.
    pub fn resolve(&self, argv: &[&[u8]]) -> Option<&'static Command<R>> {
        let command = self.find(argv.first()?)?;
        match argv.get(1) {
            Some(name) if !command.subcommands.is_empty() => command.subcommand(name),
            _ => Some(command),
        }
    }

    /// Every command, each followed by its subcommands.
    pub fn all(&self) -> impl Iterator<Item = &'static Command<R>> + Clone + use<R> {
        self.rows.iter().flat_map(|row| std::iter::once(row).chain(row.subcommands))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn linear<T: Copy>(names: &[(&'static str, T)], name: &[u8]) -> Option<T> {
        names.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)).map(|&(_, value)| value)
    }

    /// Names of every length, with bytes that are no letters, next to names that differ from them in one bit.
    const NAMES: [&str; 22] = [
        "get",
        "set",
        "ge",
        "g",
        "sort_ro",
        "sort_r0",
        "a-b",
        "a1",
        "a11",
        "setnx",
        "getset",
        "flushall",
        "flush",
        "expiretime",
        "pexpiretime",
        "georadiusbymember",
        "georadiusbymember_ro",
        "abcdefgh",
        "abcdefghi",
        "8",
        "zz",
        "aaaaaaaaaaaaaaaa",
    ];

    fn sample() -> (Vec<(&'static str, usize)>, Index<usize>) {
        let names: Vec<_> = NAMES.iter().copied().zip(0..).collect();
        let index = Index::new(names.clone());
        (names, index)
    }

    #[test]
    fn near_misses_miss() {
        let (_, index) = sample();
        for name in [b"get\0".as_slice(), b"", b"\0", b"ge\x54 ", b"GET ", b"a\x0db", b"a\x11", b"sort\x7fro", b"geu"] {
            assert_eq!(index.find(name), None, "{name:?}");
        }
        assert_eq!(index.find(b"SORT_RO"), Some(4));
        assert_eq!(index.find_word(0x0054_6547, 3), Some(0));
    }

    #[test]
    fn three_hundred_names_fit() {
        let names: Vec<(&'static str, u32)> =
            (0..300).map(|i| (&*String::leak(format!("{:x}cmd{}", i * 7919, i % 10)), i)).collect();
        let index = Index::new(names.clone());
        assert!(names.iter().all(|(name, i)| index.find(name.to_ascii_uppercase().as_bytes()) == Some(*i)));
        assert!(index.short.slots.len() <= 1 << 14);
    }

    #[test]
    fn empty_index_finds_nothing() {
        let index: Index<u8> = Index::new([]);
        assert!(index.find(b"get").is_none() && index.find(b"a long name").is_none() && index.find(b"").is_none());
    }

    #[test]
    #[should_panic(expected = "cannot be told apart")]
    fn a_name_comes_once() {
        Index::new([("get", 1), ("set", 2), ("get", 3)]);
    }

    proptest! {
        #[test]
        fn agrees_with_a_linear_search_on_any_bytes(name in proptest::collection::vec(any::<u8>(), 0..24)) {
            let (names, index) = sample();
            prop_assert_eq!(index.find(&name), linear(&names, &name));
        }

        #[test]
        fn agrees_with_a_linear_search_near_the_names(
            which in 0..NAMES.len(), case in any::<u32>(), flip in proptest::option::of((0usize..24, 0u32..8)),
            cut in proptest::option::of(0usize..24), tail in "[a-z\\x00_ ]{0,2}",
        ) {
            let (names, index) = sample();
            let mut name: Vec<u8> = NAMES[which].bytes().enumerate()
                .map(|(i, byte)| if case >> i & 1 == 1 { byte.to_ascii_uppercase() } else { byte }).collect();
            name.extend(tail.bytes());
            if let Some(cut) = cut { name.truncate(cut); }
            if let Some((at, bit)) = flip && let Some(byte) = name.get_mut(at) { *byte ^= 1 << bit; }
            prop_assert_eq!(index.find(&name), linear(&names, &name));
            if name.len() <= 8 {
                let mut word = [0; 8];
                word[..name.len()].copy_from_slice(&name);
                prop_assert_eq!(pack(&name), u64::from_le_bytes(word));
            }
        }
    }
}
