//! What can be asked of a sorted set, whatever its form.

use super::big::Zset;
use super::memory::{Member, element};
use super::packed::{Packed, compare};
use super::score;
use super::tree::{Cursor, Probe};
use crate::base::entry::{Entries, Entry};
use crate::types::{Form, Look, Span};
use dolmen_slab::{BlobId, BlobRef, Handle, Slab};

/// A member, as it lies there.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    Entry(Entry<'a>),
    /// Longer than a chunk.
    Blob(BlobId),
}

impl Name<'_> {
    /// A reference to a long member, which outlives it.
    #[must_use]
    pub fn blob_ref(self, slab: &Slab) -> Option<BlobRef> {
        match self {
            Name::Entry(_) => None,
            Name::Blob(blob) => Some(slab.blob_ref(blob)),
        }
    }

    /// Appends its text.
    pub fn append_to(self, slab: &Slab, out: &mut Vec<u8>) {
        match self {
            Name::Entry(entry) => out.extend_from_slice(entry.text(&mut [0; crate::base::int::MAX_DIGITS])),
            Name::Blob(blob) => Member::Blob(blob).append_to(slab, out),
        }
    }

    #[must_use]
    pub fn to_vec(self, slab: &Slab) -> Vec<u8> {
        let mut text = Vec::new();
        self.append_to(slab, &mut text);
        text
    }
}

/// A member with its score.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    pub name: Name<'a>,
    pub score: f64,
}

impl<'a> Pair<'a> {
    pub(super) fn of(slab: &'a Slab, h: Handle) -> Pair<'a> {
        let element = element(slab, h);
        let name = match element.member() {
            Member::Bytes(bytes) => Name::Entry(Entry::of(bytes)),
            Member::Blob(blob) => Name::Blob(blob),
        };
        Pair { name, score: element.score() }
    }
}

impl Pair<'_> {
    /// Appends member and score as the entries of a run.
    pub fn put(self, slab: &Slab, run: &mut Vec<u8>) {
        match self.name {
            Name::Entry(entry) => entry.put(run),
            Name::Blob(_) => crate::base::entry::put(run, &self.name.to_vec(slab)),
        }
        score::to_entry(run, self.score);
    }
}

/// A place between elements, for ranges.
#[derive(Clone, Copy, Debug)]
pub enum Bound<'a> {
    First,
    Last,
    /// Before the first element of this score or a higher one.
    Before(f64),
    /// After the last element of this score or a lower one.
    After(f64),
    /// Before the first element whose member is not less. For sets in which all scores are equal.
    LexBefore(&'a [u8]),
    /// After the last element whose member is not greater.
    LexAfter(&'a [u8]),
}

impl<'a> Look<'a, Zset> {
    #[must_use]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self.form {
            Form::Packed(bytes) => Packed::new(bytes).find(member).map(|found| found.score),
            Form::Big(big) => big.find(self.slab, member).map(|h| element(self.slab, h).score()),
        }
    }

    /// Number of elements before a member, and its score.
    #[must_use]
    pub fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self.form {
            Form::Packed(bytes) => Packed::new(bytes).find(member).map(|found| (found.rank, found.score)),
            Form::Big(big) => {
                let h = big.find(self.slab, member)?;
                Some((big.rank(self.slab, h), element(self.slab, h).score()))
            }
        }
    }

    /// Number of elements before a place.
    #[must_use]
    pub fn count_before(self, bound: Bound<'_>) -> usize {
        match self.form {
            Form::Packed(bytes) => packed_count_before(Packed::new(bytes), bound),
            Form::Big(big) => {
                let probe = match bound {
                    Bound::First => return 0,
                    Bound::Last => return big.tree.len,
                    Bound::Before(score) => Probe::Before(score::key(score)),
                    Bound::After(score) => Probe::After(score::key(score)),
                    Bound::LexBefore(member) => Probe::LexBefore(Member::Bytes(member)),
                    Bound::LexAfter(member) => Probe::LexAfter(Member::Bytes(member)),
                };
                big.tree.rank(self.slab, probe)
            }
        }
    }

    /// At most `count` elements of a span, in its order.
    #[must_use]
    pub fn pairs(self, span: Span, count: usize) -> Pairs<'a> {
        Pairs(match self.form {
            Form::Packed(bytes) => {
                let packed = Packed::new(bytes);
                if span.reverse {
                    let mut starts = packed.starts();
                    starts.truncate(packed.len().saturating_sub(span.skip));
                    Source::Backward { packed, starts, left: count }
                } else {
                    Source::Forward { entries: Entries::new(packed.from(span.skip)), left: count }
                }
            }
            Form::Big(big) => Source::Big {
                slab: self.slab,
                cursor: Cursor::new(self.slab, big.tree, span.skip, count, span.reverse),
            },
        })
    }

    /// A random element, each with the same probability.
    pub fn random(self, mut next_u64: impl FnMut() -> u64) -> Option<Pair<'a>> {
        match self.form {
            Form::Packed(bytes) => {
                let len = Packed::new(bytes).len() as u64;
                let skip = usize::try_from((u128::from(next_u64()) * u128::from(len)) >> 64).unwrap_or(0);
                self.pairs(Span { skip, reverse: false }, 1).next()
            }
            Form::Big(big) => big.random(self.slab, next_u64).map(|h| Pair::of(self.slab, h)),
        }
    }

    /// Visits the elements at a cursor, in no order; the next cursor, 0 at the end. Begins with 0; a packed set is visited at once. An element that is
    /// there from the first call to the last is visited at least once.
    pub fn scan(self, cursor: u64, mut visit: impl FnMut(Pair<'a>)) -> u64 {
        match self.form {
            Form::Packed(_) => {
                self.pairs(Span::default(), usize::MAX).for_each(visit);
                0
            }
            Form::Big(big) => big.scan(self.slab, cursor, |h| visit(Pair::of(self.slab, h))),
        }
    }
}

fn packed_count_before(packed: Packed<'_>, bound: Bound<'_>) -> usize {
    let count = |is_before: &dyn Fn(Entry<'_>, f64) -> bool| {
        packed.iter().take_while(|found| is_before(found.member, found.score)).count()
    };
    match bound {
        Bound::First => 0,
        Bound::Last => packed.len(),
        Bound::Before(at) => count(&|_, score| score < at),
        Bound::After(at) => count(&|_, score| score <= at),
        Bound::LexBefore(at) => count(&|member, _| compare(member, Entry::of(at)).is_lt()),
        Bound::LexAfter(at) => count(&|member, _| compare(member, Entry::of(at)).is_le()),
    }
}

/// Elements of a span. See [`Look::pairs`].
pub struct Pairs<'a>(Source<'a>);

enum Source<'a> {
    Forward { entries: Entries<'a>, left: usize },
    Backward { packed: Packed<'a>, starts: Vec<usize>, left: usize },
    Big { slab: &'a Slab, cursor: Cursor },
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        let pair = |entries: &mut Entries<'a>| {
            let (member, score) = (entries.next()?, entries.next()?);
            Some(Pair { name: Name::Entry(member), score: score::from_entry(score) })
        };
        match &mut self.0 {
            Source::Forward { entries, left } => {
                *left = left.checked_sub(1)?;
                pair(entries)
            }
            Source::Backward { packed, starts, left } => {
                *left = left.checked_sub(1)?;
                pair(&mut Entries::new(packed.pair_bytes(starts.pop()?)))
            }
            Source::Big { slab, cursor } => cursor.next(slab).map(|h| Pair::of(slab, h)),
        }
    }
}
