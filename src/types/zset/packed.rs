//! The packed form of a sorted set: members and scores in the order of the set, after the head of `types::packed`. Owns searching and changing such
//! a run; knows nothing of the big form.

use super::score;
use crate::base::entry::{self, Entries, Entry};
use crate::base::int::MAX_DIGITS;
use crate::base::limits::Limits;
use crate::types::packed as head;
use std::cmp::Ordering;

/// More elements, more bytes of the whole, or a longer member are for the big form. A search looks at all elements before the one it is for, some
/// 4 ns each, and a change copies all of it.
pub const ELEMENTS_MAX: usize = 128;
pub const BYTES_MAX: usize = 2 << 10;
pub const MEMBER_MAX: usize = 512;

/// Bit of the head's state: see [`exceeds`].
const EXCEEDED: u8 = 1;

/// Would Redis not keep this as a listpack?
pub fn exceeds(limits: &Limits, elements: usize, member_bytes: usize) -> bool {
    elements > limits.zset_max_listpack_entries || member_bytes > limits.zset_max_listpack_value
}

/// The order of members: that of their texts.
pub fn compare(a: Entry<'_>, b: Entry<'_>) -> Ordering {
    match (a, b) {
        (Entry::Bytes(a), Entry::Bytes(b)) => a.cmp(b),
        _ => a.text(&mut [0; MAX_DIGITS]).cmp(b.text(&mut [0; MAX_DIGITS])),
    }
}

/// An element, and where it lies in the run.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    pub member: Entry<'a>,
    pub score: f64,
    /// Elements before it.
    pub rank: usize,
    pub at: usize,
    pub end: usize,
}

/// A packed sorted set.
#[derive(Clone, Copy)]
pub struct Packed<'a> {
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    pub fn new(bytes: &'a [u8]) -> Packed<'a> {
        Packed { bytes }
    }

    pub fn len(self) -> usize {
        head::count(self.bytes)
    }

    pub fn exceeded(self) -> bool {
        head::state(self.bytes) & EXCEEDED != 0
    }

    pub fn run(self) -> &'a [u8] {
        head::run(self.bytes)
    }

    /// All elements in order.
    pub fn iter(self) -> impl Iterator<Item = Found<'a>> {
        let run = self.run();
        let mut entries = Entries::new(run);
        (0..).map_while(move |rank| {
            let at = run.len() - entries.rest().len();
            let (member, score) = (entries.next()?, score::from_entry(entries.next()?));
            Some(Found { member, score, rank, at, end: run.len() - entries.rest().len() })
        })
    }

    pub fn find(self, member: &[u8]) -> Option<Found<'a>> {
        let (member, run) = (Entry::of(member), self.run());
        let (mut rest, mut rank) = (run, 0);
        while let Some((other, after)) = entry::split(rest) {
            let end = run.len() - after.len() + entry::span(after);
            if other == member {
                let score = score::from_entry(entry::split(after)?.0);
                return Some(Found { member: other, score, rank, at: run.len() - rest.len(), end });
            }
            rest = &run[end..];
            rank += 1;
        }
        None
    }

    /// The place of the first element that is not before this one: its rank, and where it lies.
    pub fn place(self, score: f64, member: &[u8]) -> usize {
        let (key, member) = (score::key(score), Entry::of(member));
        let is_before =
            |found: &Found<'_>| score::key(found.score).cmp(&key).then_with(|| compare(found.member, member)).is_lt();
        self.iter().find(|found| !is_before(found)).map_or(self.run().len(), |found| found.at)
    }

    /// The bytes from the element of this rank on.
    pub fn from(self, rank: usize) -> &'a [u8] {
        let mut rest = self.run();
        for _ in 0..rank.min(self.len()) {
            for _ in 0..2 {
                rest = &rest[entry::span(rest)..];
            }
        }
        rest
    }

    /// Where each element begins.
    pub fn starts(self) -> Vec<usize> {
        self.iter().map(|found| found.at).collect()
    }

    /// Member and score of the element that begins there.
    pub fn pair_bytes(self, at: usize) -> &'a [u8] {
        let rest = &self.run()[at..];
        let member = entry::span(rest);
        &rest[..member + entry::span(&rest[member..])]
    }
}

/// The head of a set of so many elements, which follow in order.
pub fn begin(count: usize, exceeded: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES_MAX);
    head::begin(&mut bytes);
    head::set_count(&mut bytes, count);
    head::set_state(&mut bytes, if exceeded { EXCEEDED } else { 0 });
    bytes
}

/// Adds an element that is not there, at the place where it belongs. `exceeded`: see [`exceeds`].
pub fn insert(bytes: &mut Vec<u8>, score: f64, member: &[u8], exceeded: bool) {
    head::begin(bytes);
    let packed = Packed::new(bytes);
    let (at, count) = (packed.place(score, member), packed.len());
    let mut pair = Vec::with_capacity(member.len() + 16);
    entry::put(&mut pair, member);
    score::to_entry(&mut pair, score);
    head::splice(bytes, head::HEAD_BYTES + at, 0, &pair);
    head::set_count(bytes, count + 1);
    if exceeded {
        let state = head::state(bytes);
        head::set_state(bytes, state | EXCEEDED);
    }
}

/// Takes out `n` elements, which lie at these bytes of the run.
pub fn remove(bytes: &mut Vec<u8>, range: std::ops::Range<usize>, n: usize) {
    let count = head::count(bytes);
    head::splice(bytes, head::HEAD_BYTES + range.start, range.len(), &[]);
    head::set_count(bytes, count - n);
}
