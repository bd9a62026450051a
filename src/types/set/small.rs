//! The packed forms of a set: sorted integers, or entries in the order in which they came. Owns what the state byte says, and the bounds up to
//! which a set stays packed.
//!
//! ```text
//!  state   bit 0, 1   2, 3              4 ..
//!         │ encoding │ shape           │ 0 │
//!          Redis's    0, 1, 2: integers of 2, 4, 8 bytes    3: entries
//! ```

use super::Encoding;
use super::ints::{self, Ints, Width};
use crate::base::entry::{self, Entry};
use crate::types::packed;

/// Most integers. The search is binary, but each change copies them all: 4 KiB at most.
pub const INTS_MAX: usize = 512;
/// Most entries, and bytes of them. They are searched one after the other, 3 to 4 ns each; above, members of their own take little more room.
pub const ENTRIES_MAX: usize = 128;
pub const ENTRY_BYTES_MAX: usize = 2048;

/// How the members lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Ints(Width),
    Entries,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    encoding: Encoding,
    shape: Shape,
}

impl State {
    const SHAPE_SHIFT: u32 = 2;

    fn pack(self) -> u8 {
        let shape = match self.shape {
            Shape::Ints(width) => width as u8,
            Shape::Entries => 3,
        };
        self.encoding as u8 | shape << State::SHAPE_SHIFT
    }

    fn unpack(byte: u8) -> State {
        let shape = match byte >> State::SHAPE_SHIFT & 3 {
            0 => Shape::Ints(Width::Two),
            1 => Shape::Ints(Width::Four),
            2 => Shape::Ints(Width::Eight),
            _ => Shape::Entries,
        };
        let encoding = match byte & 3 {
            0 => Encoding::Intset,
            1 => Encoding::Listpack,
            _ => Encoding::Hashtable,
        };
        State { encoding, shape }
    }
}

/// A packed set, to be read.
#[derive(Clone, Copy)]
pub(super) enum Small<'a> {
    Ints(Ints<'a>),
    Entries { run: &'a [u8], count: usize },
}

/// Where a member lies in its run: first byte, and how many.
struct Place {
    at: usize,
    bytes: usize,
}

impl<'a> Small<'a> {
    pub fn of(packed: &'a [u8]) -> Small<'a> {
        let run = packed::run(packed);
        match State::unpack(packed::state(packed)).shape {
            Shape::Ints(width) => Small::Ints(Ints { width, run }),
            Shape::Entries => Small::Entries { run, count: packed::count(packed) },
        }
    }

    pub fn len(self) -> usize {
        match self {
            Small::Ints(ints) => ints.len(),
            Small::Entries { count, .. } => count,
        }
    }

    fn find(self, needle: Entry<'_>) -> Option<Place> {
        match (self, needle) {
            (Small::Ints(ints), Entry::Int(value)) => {
                let bytes = ints.width.bytes();
                ints.search(value).ok().map(|index| Place { at: index * bytes, bytes })
            }
            (Small::Ints(_), Entry::Bytes(_)) => None,
            (Small::Entries { run, .. }, needle) => find(run, needle),
        }
    }

    pub fn contains(self, needle: Entry<'_>) -> bool {
        self.find(needle).is_some()
    }

    /// Where member `index` lies.
    fn place(self, index: usize) -> Place {
        match self {
            Small::Ints(ints) => Place { at: index * ints.width.bytes(), bytes: ints.width.bytes() },
            Small::Entries { run, .. } => {
                let at = (0..index).fold(0, |at, _| at + entry::span(&run[at..]));
                Place { at, bytes: entry::span(&run[at..]) }
            }
        }
    }

    /// # Panics
    /// When `index` is not below `len`.
    pub fn get(self, index: usize) -> Entry<'a> {
        match self {
            Small::Ints(ints) => Entry::Int(ints.get(index)),
            Small::Entries { run, .. } => {
                let Place { at, .. } = self.place(index);
                entry::split(&run[at..]).expect("below the count").0
            }
        }
    }

    /// In the order in which they lie: integers ascending.
    pub fn each(self, mut visit: impl FnMut(Entry<'a>)) {
        match self {
            Small::Ints(ints) => ints.iter().for_each(|value| visit(Entry::Int(value))),
            Small::Entries { run, .. } => entry::Entries::new(run).for_each(visit),
        }
    }

    /// Length of the longest integer's text, if they are sorted.
    pub fn digits_max(self) -> usize {
        match self {
            Small::Ints(ints) if ints.len() > 0 => {
                let digits = |index| Entry::Int(ints.get(index)).text_len();
                digits(0).max(digits(ints.len() - 1))
            }
            _ => 0,
        }
    }
}

fn find(run: &[u8], needle: Entry<'_>) -> Option<Place> {
    let bytes = needle.encoded_bytes();
    let mut at = 0;
    // Members are often alike but for their ends, which spares the comparison of the whole.
    if let Entry::Bytes(text) = needle
        && let Some(&last) = text.last()
        && text.len() <= entry::SHORT_MAX
    {
        while at < run.len() {
            let span = entry::span(&run[at..]);
            if span == bytes
                && usize::from(run[at]) == text.len()
                && run[at + span - 1] == last
                && run[at + 1..][..text.len()] == *text
            {
                return Some(Place { at, bytes });
            }
            at += span;
        }
        return None;
    }
    while let Some((entry, rest)) = entry::split(&run[at..]) {
        if entry == needle {
            return Some(Place { at, bytes });
        }
        at = run.len() - rest.len();
    }
    None
}

/// More members are not packed again.
pub(super) const SHRUNK_MAX: usize = packed::shrunk_max(INTS_MAX);

/// A packed set of these members, which are distinct; `None`: it would be nearly too large for one.
pub(super) fn of_members(members: &[Entry<'_>], encoding: Encoding) -> Option<Vec<u8>> {
    let mut set = Vec::new();
    let numbers = members.iter().map(|member| match member {
        Entry::Int(value) => Some(*value),
        Entry::Bytes(_) => None,
    });
    if let Some(mut numbers) = numbers.collect::<Option<Vec<i64>>>() {
        // In their order each goes to the end.
        numbers.sort_unstable();
        numbers.into_iter().for_each(|value| _ = insert(&mut set, Entry::Int(value)));
    } else {
        let bytes: usize = members.iter().map(|member| member.encoded_bytes()).sum();
        if members.len() > packed::shrunk_max(ENTRIES_MAX) || bytes > packed::shrunk_max(ENTRY_BYTES_MAX) {
            return None;
        }
        packed::begin(&mut set);
        set_shape(&mut set, Shape::Entries);
        members.iter().for_each(|member| _ = append(&mut set, *member));
    }
    set_encoding(&mut set, encoding);
    Some(set)
}

/// What became of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inserted {
    New,
    There,
    /// It is not there, and the set is too large now to stay packed; nothing has changed.
    Full,
}

pub(super) fn encoding(packed: &[u8]) -> Encoding {
    State::unpack(packed::state(packed)).encoding
}

pub(super) fn set_encoding(packed: &mut Vec<u8>, encoding: Encoding) {
    packed::begin(packed);
    let state = State::unpack(packed::state(packed));
    packed::set_state(packed, State { encoding, ..state }.pack());
}

fn set_shape(packed: &mut [u8], shape: Shape) {
    let state = State::unpack(packed::state(packed));
    packed::set_state(packed, State { shape, ..state }.pack());
}

pub(super) fn insert(packed: &mut Vec<u8>, entry: Entry<'_>) -> Inserted {
    match (Small::of(packed), entry) {
        (Small::Ints(ints), Entry::Int(value)) => insert_int(packed, ints.width, value),
        (Small::Ints(ints), Entry::Bytes(_)) => {
            let mut run = Vec::with_capacity(packed.len() + entry.encoded_bytes());
            ints.iter().for_each(|value| entry::put_int(&mut run, value));
            if !has_room(ints.len(), run.len(), entry) {
                return Inserted::Full;
            }
            packed::begin(packed);
            packed.truncate(packed::HEAD_BYTES);
            packed.append(&mut run);
            set_shape(packed, Shape::Entries);
            append(packed, entry)
        }
        (Small::Entries { run, .. }, entry) if find(run, entry).is_some() => Inserted::There,
        (Small::Entries { run, count }, entry) if !has_room(count, run.len(), entry) => Inserted::Full,
        (Small::Entries { .. }, entry) => append(packed, entry),
    }
}

fn has_room(count: usize, run_bytes: usize, entry: Entry<'_>) -> bool {
    count < ENTRIES_MAX && run_bytes + entry.encoded_bytes() <= ENTRY_BYTES_MAX
}

fn append(packed: &mut Vec<u8>, entry: Entry<'_>) -> Inserted {
    entry.put(packed);
    let count = packed::count(packed);
    packed::set_count(packed, count + 1);
    Inserted::New
}

fn insert_int(packed: &mut Vec<u8>, width: Width, value: i64) -> Inserted {
    let ints = Ints { width, run: packed::run(packed) };
    let (len, place) = (ints.len(), ints.search(value));
    let Err(index) = place else { return Inserted::There };
    if len == INTS_MAX {
        return Inserted::Full;
    }
    packed::begin(packed);
    let needed = Width::of(value);
    if needed > width {
        // It does not fit the others' width, so it goes to one of the ends.
        let ints = Ints { width, run: packed::run(packed) };
        let mut run = Vec::with_capacity((len + 1) * needed.bytes());
        let first = (index == 0).then_some(value);
        let last = (index > 0).then_some(value);
        first.into_iter().chain(ints.iter()).chain(last).for_each(|value| ints::put(&mut run, needed, value));
        packed.truncate(packed::HEAD_BYTES);
        packed.append(&mut run);
        set_shape(packed, Shape::Ints(needed));
    } else {
        let bytes = width.bytes();
        packed::splice(packed, packed::HEAD_BYTES + index * bytes, 0, &value.to_le_bytes()[..bytes]);
    }
    packed::set_count(packed, len + 1);
    Inserted::New
}

fn cut(packed: &mut Vec<u8>, place: &Place) {
    packed::splice(packed, packed::HEAD_BYTES + place.at, place.bytes, &[]);
    let count = packed::count(packed);
    packed::set_count(packed, count - 1);
}

pub(super) fn remove(packed: &mut Vec<u8>, needle: Entry<'_>) -> bool {
    let place = Small::of(packed).find(needle);
    place.inspect(|place| cut(packed, place)).is_some()
}

/// # Panics
/// When `index` is not below the number of members.
pub(super) fn remove_at(packed: &mut Vec<u8>, index: usize) {
    let place = Small::of(packed).place(index);
    cut(packed, &place);
}
