//! Commands on sorted sets. Owns their arguments and replies; where an element is, and in which form, is `types::zset`'s.
//!
//! `members` has what names members, `range` what names places between them, `remove` what takes out by place, `operate` what makes a set of several,
//! `pick` chance, `wait` what waits for members; `sliced` runs what is long. What touches many elements goes on in slices: replies are written from a view (`cmd::stream`), what changes
//! one key holds its name meanwhile, and what reads several holds theirs.

mod many;
mod members;
mod operate;
mod pick;
mod range;
mod remove;
mod sliced;
mod wait;

pub use many::{MANY_ZADD, MANY_ZMSCORE, MANY_ZREM};
pub use members::{zadd, zcard, zcount, zincrby, zlexcount, zmscore, zrank, zrem, zrevrank, zscore};
pub use operate::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub use pick::zrandmember;
pub use range::{zrange, zrangebylex, zrangebyscore, zrangestore, zrevrange, zrevrangebylex, zrevrangebyscore};
pub use remove::{take, take_reserved, zmpop, zpopmax, zpopmin, zremrangebylex, zremrangebyrank, zremrangebyscore};
pub use wait::{bzmpop, bzpopmax, bzpopmin};

use super::ctx::Failure;
use super::stream::Plan;
use crate::base::entry::Entries;
use crate::base::float;
use crate::proto::errors;
use crate::proto::reply::Reply;
use crate::types::Span;
use crate::types::zset::{Bound, Name, score};
use dolmen_slab::Slab;

/// Elements that a command looks at or changes without going on in slices.
const AT_ONCE: usize = 512;
/// Elements between two looks at the clock.
const PIECE: usize = 64;

/// A score as an argument.
fn parse_score(argument: &[u8]) -> Result<f64, Failure> {
    float::parse(argument).ok_or(Failure::Text(errors::NOT_A_FLOAT))
}

/// Writes a member.
#[inline]
fn put_name(reply: &mut Reply<'_>, slab: &Slab, name: Name<'_>) {
    match name {
        Name::Entry(entry) => reply.entry(entry),
        Name::Blob(blob) => reply.bulk_shared(slab.blob_ref(blob)),
    }
}

// Ways to write a range, for `stream::Plan`.

fn members_head(reply: &mut Reply<'_>, elements: usize) {
    reply.array(elements);
}

fn member_each(reply: &mut Reply<'_>, entries: &mut Entries<'_>) {
    if let (Some(member), Some(_)) = (entries.next(), entries.next()) {
        reply.entry(member);
    }
}

/// Members with scores: in RESP3 each pair is an array of its own.
fn scores_head(reply: &mut Reply<'_>, elements: usize) {
    reply.array(if reply.is_v3() { elements } else { 2 * elements });
}

fn score_each(reply: &mut Reply<'_>, entries: &mut Entries<'_>) {
    if let (Some(member), Some(score)) = (entries.next(), entries.next()) {
        pair_head(reply);
        reply.entry(member);
        reply.double(score::from_entry(score));
    }
}

/// Replies with these elements.
fn plan(span: Span, count: usize, with_scores: bool) -> Plan {
    if with_scores {
        Plan { span, count, head: scores_head, each: score_each }
    } else {
        Plan { span, count, head: members_head, each: member_each }
    }
}

/// Before a member and its score.
fn pair_head(reply: &mut Reply<'_>) {
    if reply.is_v3() {
        reply.array(2);
    }
}

/// An end of a range of scores: the score, and whether it is left out.
#[derive(Clone, Copy)]
struct ScoreEnd {
    score: f64,
    excluded: bool,
}

/// As C's `strtod` reads it: blanks may precede, nothing at all is 0, what is too large is infinite; a NUL ends the text.
fn parse_score_end(argument: &[u8]) -> Option<ScoreEnd> {
    let text = argument.split(|&b| b == 0).next().unwrap_or_default();
    let (excluded, text) = match text {
        [b'(', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let blanks = text.iter().take_while(|&&b| b == b' ' || (b'\t'..=b'\r').contains(&b)).count();
    let number = &text[blanks..];
    let score = match number {
        // No conversion: the text ends where it began, or does not.
        [] if blanks == 0 => 0.0,
        [] => return None,
        _ => float::parse(number).or_else(|| beyond_range(number))?,
    };
    Some(ScoreEnd { score, excluded })
}

/// A decimal number that is too large or too near to 0 for a double.
fn beyond_range(number: &[u8]) -> Option<f64> {
    if !number.iter().all(|b| b.is_ascii_digit() || b"+-.eE".contains(b)) {
        return None;
    }
    std::str::from_utf8(number).ok()?.parse().ok()
}

impl ScoreEnd {
    fn as_min(self) -> Bound<'static> {
        if self.excluded { Bound::After(self.score) } else { Bound::Before(self.score) }
    }

    fn as_max(self) -> Bound<'static> {
        if self.excluded { Bound::Before(self.score) } else { Bound::After(self.score) }
    }
}

/// An end of a range of members.
#[derive(Clone, Copy)]
enum LexEnd<'a> {
    /// `-`
    Lowest,
    /// `+`
    Highest,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

fn parse_lex_end(argument: &[u8]) -> Option<LexEnd<'_>> {
    match argument {
        [b'-'] | [b'-', 0, ..] => Some(LexEnd::Lowest),
        [b'+'] | [b'+', 0, ..] => Some(LexEnd::Highest),
        [b'[', member @ ..] => Some(LexEnd::Included(member)),
        [b'(', member @ ..] => Some(LexEnd::Excluded(member)),
        _ => None,
    }
}

impl<'a> LexEnd<'a> {
    fn as_min(self) -> Bound<'a> {
        match self {
            LexEnd::Lowest => Bound::First,
            LexEnd::Highest => Bound::Last,
            LexEnd::Included(member) => Bound::LexBefore(member),
            LexEnd::Excluded(member) => Bound::LexAfter(member),
        }
    }

    fn as_max(self) -> Bound<'a> {
        match self {
            LexEnd::Lowest => Bound::First,
            LexEnd::Highest => Bound::Last,
            LexEnd::Included(member) => Bound::LexAfter(member),
            LexEnd::Excluded(member) => Bound::LexBefore(member),
        }
    }
}

/// Ends of a range: before its first element, after its last.
type Ends<'a> = (Bound<'a>, Bound<'a>);

fn parse_score_ends(min: &[u8], max: &[u8]) -> Result<Ends<'static>, Failure> {
    match (parse_score_end(min), parse_score_end(max)) {
        (Some(min), Some(max)) => Ok((min.as_min(), max.as_max())),
        _ => Err(errors::SCORE_RANGE.into()),
    }
}

fn parse_lex_ends<'a>(min: &'a [u8], max: &'a [u8]) -> Result<Ends<'a>, Failure> {
    match (parse_lex_end(min), parse_lex_end(max)) {
        (Some(min), Some(max)) => Ok((min.as_min(), max.as_max())),
        _ => Err(errors::LEX_RANGE.into()),
    }
}

/// The ranks that two indices name, of which negative ones count from the end: the first, and how many.
fn ranks(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
    if start > stop {
        return (0, 0);
    }
    (usize::try_from(start).unwrap_or(0), usize::try_from(stop - start + 1).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_score_ranges() {
        let read = |text: &str| parse_score_end(text.as_bytes()).map(|end| (end.score, end.excluded));
        assert_eq!(read("1.5"), Some((1.5, false)));
        assert_eq!(read("(1.5"), Some((1.5, true)));
        assert_eq!(read("(-inf"), Some((f64::NEG_INFINITY, true)));
        assert_eq!(read("  1"), Some((1.0, false)));
        assert_eq!(read(""), Some((0.0, false)));
        assert_eq!(read("("), Some((0.0, true)));
        assert_eq!(read("1e999"), Some((f64::INFINITY, false)));
        assert_eq!(read("-1e999"), Some((f64::NEG_INFINITY, false)));
        assert_eq!(read("1e-999"), Some((0.0, false)));
        for wrong in ["x", " ", "nan", "1 ", "((1", "1(", "e", "-", "--1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranks_of_indices() {
        assert_eq!(ranks(0, -1, 5), (0, 5));
        assert_eq!(ranks(1, 2, 5), (1, 2));
        assert_eq!(ranks(-2, -1, 5), (3, 2));
        assert_eq!(ranks(-100, 100, 5), (0, 5));
        assert_eq!(ranks(3, 2, 5), (0, 0));
        assert_eq!(ranks(5, 9, 5), (0, 0));
        assert_eq!(ranks(0, -6, 5), (0, 0));
        assert_eq!(ranks(i64::MIN, i64::MAX, 5), (0, 5));
    }
}
