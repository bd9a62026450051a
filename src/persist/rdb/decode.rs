//! Reads a collection of any encoding that Redis has written since 2.0: the bytes of a value in, in pieces of any size, runs of elements out, of
//! a size that the caller chooses. Nothing that the bytes claim is believed before it was looked at: no length, no count, no end; and no name
//! comes out twice.

use super::elements::Elements;
use super::lzf::{GROWTH_MAX, Unpacker};
use super::packed::{Format, Packed, Piece};
use super::string::{self, HEAD_BYTES_MAX, Head};
use super::{Kind, Malformed, value_type};
use crate::base::entry::{self, Entry};
use crate::base::float;

/// Bytes that go from the value into a string at once; unpacked they are up to 88 times as many.
const PIECE_BYTES: usize = 512;
/// Nothing but a string's contents and an old score is longer.
const ITEM_BYTES_MAX: usize = if HEAD_BYTES_MAX > 8 { HEAD_BYTES_MAX } else { 8 };
const PLAIN_NODE: u64 = 1;
const PACKED_NODE: u64 = 2;
/// A deadline of Valkey's that is none.
const NO_DEADLINE: u64 = u64::MAX;
/// What an old score has in place of its length.
const OLD_NAN: u8 = 253;
const OLD_INFINITY: u8 = 254;
const OLD_MINUS_INFINITY: u8 = 255;

/// What [`Decoder::next`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The run has as much as it was to have, or as much was read of an element that goes on. There may be more.
    Full,
    /// More of the value is needed.
    Hungry,
    /// Those were the last elements. What may follow in the value means nothing, as to Redis.
    Done,
}

/// How a value is made up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// A count, and elements of so many strings.
    Plain,
    /// The same, with scores as text.
    OldScores,
    /// The same, with scores as doubles.
    Scores,
    /// A date, then the same, each element with a deadline from there before it.
    Deadlines,
    /// A count, and elements of so many strings, each with a deadline behind it.
    DeadlinesBehind,
    /// One string with all the elements.
    Packed(Format),
    /// A date, which means nothing then, and one string with all of the elements, deadlines included.
    PackedDeadlines,
    /// A count, and so many strings with elements.
    Nodes(Format),
    /// The same, each with a number before it that tells whether it is an element itself.
    MarkedNodes,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Type,
    Date,
    Count,
    /// The first of an element, or of a node.
    First,
    Deadline,
    DeadlineBehind,
    Mark,
    /// A string that is one of an element.
    String,
    /// A string in which elements are.
    Holder(Format),
    Contents,
    Score,
    OldScore,
    End,
}

/// Bytes that came and were not used yet.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    at: usize,
}

impl Waiting {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn take(&mut self, count: usize) {
        self.at += count;
    }

    fn add(&mut self, bytes: &[u8]) {
        // What is moved is no more than what was used.
        if self.at > self.bytes.len() / 2 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }
}

/// The string whose contents are being read.
struct Contents {
    /// Bytes of the value that it still has.
    left: u64,
    unpacker: Option<Unpacker>,
    /// It holds elements; otherwise it is a string of one.
    holder: Option<Packed>,
}

/// A collection being read.
pub struct Decoder {
    kind: Kind,
    layout: Layout,
    next: Next,
    /// Elements or nodes still to come.
    left: u64,
    /// From which deadlines count.
    date_ms: u64,
    max_bytes: u64,
    /// Bytes of the value that did not come yet, if it is known how many; else more than there can be.
    to_come: u64,
    /// A value without elements is one.
    may_be_empty: bool,
    input: Waiting,
    contents: Contents,
    text: Waiting,
    /// Bytes that came into `text` in this call.
    made: usize,
    elements: Elements,
}

/// The kind of collection that a value is, by its first byte; `None`: it is a string, or nothing that is known.
#[must_use]
pub fn kind_of(first: u8) -> Option<Kind> {
    layout_of(first).map(|(kind, _)| kind)
}

pub(super) fn layout_of(first: u8) -> Option<(Kind, Layout)> {
    Some(match first {
        value_type::LIST => (Kind::List, Layout::Plain),
        value_type::LIST_ZIPLIST => (Kind::List, Layout::Packed(Format::Ziplist)),
        value_type::LIST_QUICKLIST => (Kind::List, Layout::Nodes(Format::Ziplist)),
        value_type::LIST_QUICKLIST_2 => (Kind::List, Layout::MarkedNodes),
        value_type::SET => (Kind::Set, Layout::Plain),
        value_type::SET_INTSET => (Kind::Set, Layout::Packed(Format::Intset)),
        value_type::SET_LISTPACK => (Kind::Set, Layout::Packed(Format::Listpack)),
        value_type::ZSET => (Kind::Zset, Layout::OldScores),
        value_type::ZSET_2 => (Kind::Zset, Layout::Scores),
        value_type::ZSET_ZIPLIST => (Kind::Zset, Layout::Packed(Format::Ziplist)),
        value_type::ZSET_LISTPACK => (Kind::Zset, Layout::Packed(Format::Listpack)),
        value_type::HASH => (Kind::Hash, Layout::Plain),
        value_type::HASH_ZIPMAP => (Kind::Hash, Layout::Packed(Format::Zipmap)),
        value_type::HASH_ZIPLIST => (Kind::Hash, Layout::Packed(Format::Ziplist)),
        value_type::HASH_LISTPACK => (Kind::Hash, Layout::Packed(Format::Listpack)),
        value_type::HASH_METADATA => (Kind::Hash, Layout::Deadlines),
        value_type::HASH_2 => (Kind::Hash, Layout::DeadlinesBehind),
        value_type::HASH_LISTPACK_EX => (Kind::Hash, Layout::PackedDeadlines),
        _ => return None,
    })
}

impl Decoder {
    /// For a value that begins with the byte `first` and has `value_bytes` in all. `max_bytes`: no string of an element is longer. `seed`: a random
    /// number.
    ///
    /// # Errors
    /// If it is no collection ([`kind_of`]).
    pub fn new(first: u8, value_bytes: u64, max_bytes: u64, seed: u64) -> Result<Decoder, Malformed> {
        let mut decoder = Decoder::idle();
        decoder.begin(first, value_bytes, max_bytes, seed)?;
        Ok(decoder)
    }

    fn idle() -> Decoder {
        Decoder {
            kind: Kind::List,
            layout: Layout::Plain,
            next: Next::End,
            left: 0,
            date_ms: 0,
            max_bytes: 0,
            to_come: 0,
            may_be_empty: false,
            input: Waiting::default(),
            contents: Contents { left: 0, unpacker: None, holder: None },
            text: Waiting::default(),
            made: 0,
            elements: Elements::new(),
        }
    }

    fn begin(&mut self, first: u8, value_bytes: u64, max_bytes: u64, seed: u64) -> Result<(), Malformed> {
        let (kind, layout) = layout_of(first).ok_or(Malformed)?;
        let strings = match kind {
            Kind::List | Kind::Set => 1,
            Kind::Hash | Kind::Zset => {
                2 + usize::from(matches!(layout, Layout::PackedDeadlines | Layout::DeadlinesBehind))
            }
        };
        let distinct = layout == Layout::Packed(Format::Intset);
        (self.kind, self.layout, self.next) = (kind, layout, Next::Type);
        (self.left, self.date_ms, self.to_come, self.made) = (0, 0, value_bytes, 0);
        self.max_bytes = max_bytes.min(entry::LEN_MAX as u64);
        self.may_be_empty = false;
        self.input.clear();
        self.text.clear();
        self.contents = Contents { left: 0, unpacker: None, holder: None };
        self.elements.begin(kind, strings, distinct, seed);
        Ok(())
    }

    /// The same for a value of which nobody knows where it ends: others follow. What is fed and belongs to them can be taken back
    /// ([`Decoder::take_back`]). It may have no elements. `used`: a decoder that has done its work, for its memory.
    ///
    /// # Errors
    /// As of `new`.
    pub fn of_stream(
        used: Option<Box<Decoder>>,
        first: u8,
        max_bytes: u64,
        seed: u64,
    ) -> Result<Box<Decoder>, Malformed> {
        let mut decoder = used.unwrap_or_else(|| Box::new(Decoder::idle()));
        decoder.begin(first, u64::MAX, max_bytes, seed)?;
        decoder.may_be_empty = true;
        Ok(decoder)
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Gives the bytes back that were fed and not used; their number. Behind [`Progress::Done`] they are what follows the value, before it they
    /// have to be fed again.
    pub fn take_back(&mut self) -> usize {
        let bytes = self.input.rest().len();
        self.input.clear();
        self.to_come = self.to_come.saturating_add(bytes as u64);
        bytes
    }

    /// How many bytes are wanted next, about.
    #[must_use]
    pub fn wants(&self) -> u64 {
        if self.next == Next::Contents {
            self.contents.left.saturating_sub(self.input.rest().len() as u64).max(1)
        } else {
            ITEM_BYTES_MAX as u64
        }
    }

    /// Nothing more will come than was fed so far.
    pub fn end(&mut self) {
        self.to_come = 0;
    }

    /// How many elements came out so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.elements.count()
    }

    /// Memory held, in bytes: the element at hand, what was fed and not used yet, and the names that were seen.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.input.bytes.capacity() + self.text.bytes.capacity() + self.elements.bytes()
    }

    /// Takes the next piece of the value, the first byte of all included. Pieces beyond its end mean nothing.
    pub fn feed(&mut self, piece: &[u8]) {
        let piece = &piece[..piece.len().min(usize::try_from(self.to_come).unwrap_or(usize::MAX))];
        self.to_come -= piece.len() as u64;
        self.input.add(piece);
    }

    /// Appends elements to a run, as `types::Container::view_next` does, until it has grown by `budget_bytes` or an element more, or all that was
    /// fed is used.
    ///
    /// # Errors
    /// If the value is not what it should be; nothing else is called then. Elements that came out before are void.
    pub fn next(&mut self, run: &mut Vec<u8>, budget_bytes: usize) -> Result<Progress, Malformed> {
        let budget_bytes = budget_bytes.max(1);
        let full = run.len().saturating_add(budget_bytes);
        self.made = 0;
        while run.len() < full && self.made < budget_bytes {
            if self.next == Next::End {
                let is_value = self.elements.count() > 0 || self.may_be_empty;
                return if is_value { Ok(Progress::Done) } else { Err(Malformed) };
            }
            let fed = match self.next {
                Next::Contents => self.contents(run, full)?,
                Next::OldScore => self.old_score(run)?,
                Next::First => {
                    self.first();
                    true
                }
                _ if self.to_come > 0 && self.input.rest().len() < ITEM_BYTES_MAX => false,
                _ => {
                    self.item(run)?;
                    true
                }
            };
            if !fed {
                return if self.to_come > 0 { Ok(Progress::Hungry) } else { Err(Malformed) };
            }
        }
        Ok(Progress::Full)
    }

    /// What the next element or node begins with.
    fn first(&mut self) {
        self.next = match self.layout {
            Layout::Packed(format) => Next::Holder(format),
            Layout::PackedDeadlines => Next::Holder(Format::Listpack),
            _ if self.left == 0 => Next::End,
            Layout::Plain | Layout::OldScores | Layout::Scores | Layout::DeadlinesBehind => Next::String,
            Layout::Deadlines => Next::Deadline,
            Layout::Nodes(format) => Next::Holder(format),
            Layout::MarkedNodes => Next::Mark,
        };
    }

    /// Reads something short, all of which is there if it is anywhere.
    fn item(&mut self, run: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut rest = self.input.rest();
        let before = rest.len();
        let mut head = None;
        self.next = match self.next {
            Next::Type => {
                array::<1>(&mut rest)?;
                match self.layout {
                    Layout::Packed(_) => Next::First,
                    Layout::Deadlines | Layout::PackedDeadlines => Next::Date,
                    _ => Next::Count,
                }
            }
            Next::Date => {
                self.date_ms = u64::from_le_bytes(array(&mut rest)?);
                if self.layout == Layout::Deadlines { Next::Count } else { Next::First }
            }
            Next::Count => {
                self.left = length(&mut rest)?;
                let least_bytes: u64 = match (self.layout, self.kind) {
                    (Layout::Scores, _) => 9,
                    (Layout::Deadlines, _) => 3,
                    (Layout::DeadlinesBehind, _) => 10,
                    (_, Kind::Hash | Kind::Zset) | (Layout::MarkedNodes, _) => 2,
                    _ => 1,
                };
                let bytes = self.to_come.saturating_add(rest.len() as u64);
                if (self.left == 0 && !self.may_be_empty) || self.left > bytes / least_bytes {
                    return Err(Malformed);
                }
                self.elements.expect(self.left);
                Next::First
            }
            Next::Deadline => {
                let from_first = length(&mut rest)?;
                if from_first > 0 {
                    self.elements.set_deadline(self.date_ms.checked_add(from_first - 1).ok_or(Malformed)?)?;
                }
                Next::String
            }
            Next::DeadlineBehind => {
                let deadline_ms = u64::from_le_bytes(array(&mut rest)?);
                let deadline_ms = if deadline_ms == NO_DEADLINE { 0 } else { deadline_ms };
                let deadline_ms = i64::try_from(deadline_ms).map_err(|_| Malformed)?;
                self.elements.put(Entry::Int(deadline_ms), run)?;
                self.left -= 1;
                Next::First
            }
            Next::Mark => match length(&mut rest)? {
                PLAIN_NODE => Next::String,
                PACKED_NODE => Next::Holder(Format::Listpack),
                _ => return Err(Malformed),
            },
            Next::String => {
                head = Some((string::read_head(&mut rest)?, None));
                Next::Contents
            }
            Next::Holder(format) => {
                head = Some((string::read_head(&mut rest)?, Some(format)));
                Next::Contents
            }
            Next::Score => {
                let score = f64::from_le_bytes(array(&mut rest)?);
                self.elements.put_score(score, run)?;
                self.left -= 1;
                Next::First
            }
            Next::First | Next::Contents | Next::OldScore | Next::End => unreachable!("`next` sees to them"),
        };
        let taken = before - rest.len();
        self.input.take(taken);
        match head {
            Some((head, holder)) => self.open(head, holder, run),
            None => Ok(()),
        }
    }

    /// Begins with the contents of a string.
    fn open(&mut self, head: Head, format: Option<Format>, run: &mut Vec<u8>) -> Result<(), Malformed> {
        let there = self.to_come.saturating_add(self.input.rest().len() as u64);
        let max_bytes = if format.is_some() { u32::MAX.into() } else { self.max_bytes };
        let (left, bytes, unpacker) = match (head, format) {
            (Head::Int(number), None) => return self.string(Entry::Int(number), run),
            (Head::Int(_), Some(_)) => return Err(Malformed),
            (Head::Plain { bytes }, _) => (bytes, bytes, None),
            (Head::Packed { packed_bytes, bytes }, _) => (packed_bytes, bytes, Some(Unpacker::new(bytes))),
        };
        if left > there || bytes > max_bytes || bytes > left.saturating_mul(GROWTH_MAX as u64) {
            return Err(Malformed);
        }
        if let (Layout::Packed(_) | Layout::PackedDeadlines, Some(_)) = (self.layout, format) {
            // An element has no less.
            self.elements.expect(bytes / 2);
        }
        self.contents = Contents { left, unpacker, holder: format.map(|format| Packed::new(format, bytes)) };
        self.text.clear();
        Ok(())
    }

    /// Goes on with the contents of a string: the elements of it that are there, until the run has grown to `full`, or a piece of the input. False:
    /// more is needed.
    fn contents(&mut self, run: &mut Vec<u8>, full: usize) -> Result<bool, Malformed> {
        if let Some(packed) = &mut self.contents.holder {
            let (mut used, mut ends, mut rest) = (0, false, self.text.rest());
            while !ends
                && run.len() < full
                && let Some((piece, taken)) = packed.next(rest)?
            {
                match piece {
                    Piece::Element(Entry::Bytes(bytes)) if bytes.len() as u64 > self.max_bytes => {
                        return Err(Malformed);
                    }
                    Piece::Element(entry) => {
                        self.elements.put(entry, run)?;
                    }
                    Piece::Frame => {}
                    Piece::End => ends = true,
                }
                used += taken;
                rest = &rest[taken..];
            }
            self.text.take(used);
            if ends {
                self.close()?;
            }
            // An end may take no bytes.
            if ends || used > 0 {
                return Ok(true);
            }
        } else if self.contents.unpacker.is_none()
            && self.text.rest().is_empty()
            && let Some(text) = usize::try_from(self.contents.left).ok().and_then(|len| self.input.rest().get(..len))
        {
            // All of it lies there.
            let len = text.len();
            let whole = self.elements.put(Entry::of(text), run)?;
            self.input.take(len);
            self.contents.left = 0;
            self.after_string(whole);
            return Ok(true);
        } else if self.contents.left == 0 {
            if let Some(unpacker) = &self.contents.unpacker {
                unpacker.finish()?;
            }
            let whole = self.elements.put(Entry::of(self.text.rest()), run)?;
            self.text.clear();
            self.after_string(whole);
            return Ok(true);
        }
        if self.contents.left == 0 {
            // The holder wants what is not there.
            return Err(Malformed);
        }
        let rest = self.input.rest();
        let left = usize::try_from(self.contents.left).unwrap_or(usize::MAX);
        let piece = &rest[..rest.len().min(left).min(PIECE_BYTES)];
        let (taken, before) = (piece.len(), self.text.rest().len());
        match &mut self.contents.unpacker {
            Some(unpacker) => {
                unpacker.feed(piece)?;
                unpacker.take(|bytes| self.text.add(bytes));
            }
            None => self.text.add(piece),
        }
        self.made += self.text.rest().len() - before;
        self.input.take(taken);
        self.contents.left -= taken as u64;
        Ok(taken > 0)
    }

    /// The end of a string that held elements.
    fn close(&mut self) -> Result<(), Malformed> {
        if self.contents.left > 0 {
            return Err(Malformed);
        }
        if let Some(unpacker) = &self.contents.unpacker {
            unpacker.finish()?;
        }
        if !self.text.rest().is_empty() || !self.elements.is_whole() {
            return Err(Malformed);
        }
        self.text.clear();
        self.contents.holder = None;
        self.next = match self.layout {
            Layout::Packed(_) | Layout::PackedDeadlines => Next::End,
            _ => {
                self.left -= 1;
                Next::First
            }
        };
        Ok(())
    }

    /// A string of an element.
    fn string(&mut self, string: Entry<'_>, run: &mut Vec<u8>) -> Result<(), Malformed> {
        let whole = self.elements.put(string, run)?;
        self.after_string(whole);
        Ok(())
    }

    /// What follows a string of an element, which is `whole` now or not.
    fn after_string(&mut self, whole: bool) {
        if whole {
            self.left -= 1;
        }
        self.next = match self.layout {
            _ if whole => Next::First,
            Layout::Scores => Next::Score,
            Layout::OldScores => Next::OldScore,
            Layout::DeadlinesBehind if self.elements.strings_came() == 2 => Next::DeadlineBehind,
            _ => Next::String,
        };
    }

    /// A score as text. False: more is needed.
    fn old_score(&mut self, run: &mut Vec<u8>) -> Result<bool, Malformed> {
        let Some((&first, rest)) = self.input.rest().split_first() else { return Ok(false) };
        let (score, len) = match first {
            OLD_NAN => return Err(Malformed),
            OLD_INFINITY => (f64::INFINITY, 0),
            OLD_MINUS_INFINITY => (f64::NEG_INFINITY, 0),
            _ => {
                let Some(text) = rest.get(..usize::from(first)) else { return Ok(false) };
                (float::parse(text).ok_or(Malformed)?, text.len())
            }
        };
        self.elements.put_score(score, run)?;
        self.input.take(1 + len);
        self.left -= 1;
        self.next = Next::First;
        Ok(true)
    }
}

/// The first `N` bytes.
fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (bytes, behind) = rest.split_first_chunk::<N>().ok_or(Malformed)?;
    *rest = behind;
    Ok(*bytes)
}

/// A number that is written as lengths are.
fn length(rest: &mut &[u8]) -> Result<u64, Malformed> {
    match string::read_head(rest)? {
        Head::Plain { bytes } => Ok(bytes),
        Head::Int(_) | Head::Packed { .. } => Err(Malformed),
    }
}
