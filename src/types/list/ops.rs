//! The operations on lists of either form. Owns when a packed list becomes a big one.

use super::block::Piece;
use super::redis::{self, Bound};
use super::{Body, Element, End, List, Look, Memory, element};
use crate::base::entry::{self, Entries, Entry};
use crate::types::{Edit, Form, Span, packed};
use dolmen_slab::{AllocError, Slab};

/// Elements of a packed list at most.
const PACKED_LEN_MAX: usize = 128;
/// Bytes of a packed list at most: what a push copies is to stay small.
const PACKED_BYTES_MAX: usize = 1024;

/// State of a packed list: it would be a quicklist.
const EXCEEDED: u8 = 1;

/// What elements are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Needle<'a> {
    text: &'a [u8],
    entry: Entry<'a>,
}

impl<'a> Needle<'a> {
    #[must_use]
    pub fn new(text: &'a [u8]) -> Needle<'a> {
        Needle { text, entry: Entry::of(text) }
    }

    #[inline(always)]
    #[must_use]
    pub fn is(&self, slab: &Slab, element: &Element<'_>) -> bool {
        match element {
            Element::Entry(entry) => *entry == self.entry,
            Element::Blob(blob) => {
                let mut rest = self.text;
                slab.blob_len(*blob) == rest.len()
                    && (0..slab.blob_segments(*blob)).all(|i| {
                        let segment = slab.blob_segment(*blob, i);
                        let (this, after) = rest.split_at(segment.len());
                        rest = after;
                        this == segment
                    })
            }
        }
    }
}

/// What a step of [`Edit::remove_equal`] has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filtered {
    /// Elements that were looked at.
    pub looked: usize,
    /// Elements that were taken out.
    pub removed: usize,
}

/// Offset of entry `index` in a run of entries.
fn offset(run: &[u8], index: usize) -> usize {
    let mut at = 0;
    for _ in 0..index {
        at += entry::span(&run[at..]);
    }
    at
}

impl<'a> Look<'a, List> {
    pub(super) fn is_exceeded(self) -> bool {
        match self.form {
            Form::Packed(bytes) => packed::state(bytes) & EXCEEDED != 0,
            Form::Big(list) => list.measure.exceeded,
        }
    }

    /// Element `index`.
    #[must_use]
    pub fn get(self, index: usize) -> Option<Element<'a>> {
        if index >= self.len() {
            return None;
        }
        match self.form {
            Form::Packed(bytes) => {
                let run = packed::run(bytes);
                entry::split(&run[offset(run, index)..]).map(|(entry, _)| Element::Entry(entry))
            }
            Form::Big(list) => {
                list.nodes.check(self.slab);
                let (node, index) = list.roots.find(self.slab, index);
                let block = node.block(self.slab);
                let piece = super::block::first(&block.run()[block.offset(index)..]).0;
                Some(element(self.slab, piece))
            }
        }
    }

    /// Shows the elements from `index` on, to the end (to the beginning, with `reverse`), while `see` says so.
    pub fn walk(self, index: usize, reverse: bool, mut see: impl FnMut(Element<'a>) -> bool) {
        let slab = self.slab;
        match self.form {
            Form::Big(list) => {
                list.nodes.check(slab);
                list.walk(slab, index, reverse, |piece| see(element(slab, piece)));
            }
            Form::Packed(bytes) => {
                let run = packed::run(bytes);
                if !reverse {
                    let _ = Entries::new(&run[offset(run, index.min(self.len()))..]).all(|e| see(Element::Entry(e)));
                } else if index < self.len() {
                    let entries: Vec<Entry<'_>> = Entries::new(run).take(index + 1).collect();
                    let _ = entries.into_iter().rev().all(|e| see(Element::Entry(e)));
                }
            }
        }
    }
}

impl Edit<'_, List> {
    /// Puts values at an end, one after the other; all or none.
    ///
    /// # Errors
    /// The slab is full.
    pub fn push(&mut self, end: End, values: &[&[u8]]) -> Result<(), AllocError> {
        self.before_growth(values.len(), values.iter().map(|value| value.len()).sum());
        if let Body::Packed(packed) = &mut *self.body {
            let room = PACKED_BYTES_MAX.saturating_sub(packed.len());
            let count = packed::count(packed) + values.len();
            let fits = count <= PACKED_LEN_MAX && values.iter().map(|value| value.len()).sum::<usize>() <= room;
            let mut run = Vec::new();
            if fits {
                run.reserve(room);
                match end {
                    End::Head => values.iter().rev().for_each(|value| entry::put(&mut run, value)),
                    End::Tail => values.iter().for_each(|value| entry::put(&mut run, value)),
                }
            }
            if fits && run.len() <= room {
                packed::begin(packed);
                let at = if end == End::Head { packed::HEAD_BYTES } else { packed.len() };
                packed::splice(packed, at, 0, &run);
                packed::set_count(packed, count);
                return Ok(());
            }
        }
        let Memory { slab, .. } = &mut self.memory;
        let list = to_big(self.body, slab)?;
        for (done, value) in values.iter().enumerate() {
            let pushed = list
                .piece(slab, value)
                .and_then(|piece| list.push(slab, end, piece).inspect_err(|_| list.drop_piece(slab, piece)));
            if let Err(e) = pushed {
                // What was pushed needs no memory to be taken out: nobody has seen it.
                (0..done).try_for_each(|_| list.pop(slab, end, |_, _| ()))?;
                return Err(e);
            }
        }
        Ok(())
    }

    /// Takes up to `count` elements at an end out, after `read` has seen each. How many they were.
    ///
    /// # Errors
    /// The slab is too full to keep what a view sees; some may have been taken out.
    pub fn pop(
        &mut self,
        end: End,
        count: usize,
        mut read: impl FnMut(&Slab, Element<'_>),
    ) -> Result<usize, AllocError> {
        let slab = &mut *self.memory.slab;
        let count = count.min(self.body.look(slab).len());
        match &mut *self.body {
            Body::Packed(packed) if count > 0 => {
                let (run, len) = (packed::run(packed), packed::count(packed));
                let (begin, bytes) = match end {
                    End::Head => (0, offset(run, count)),
                    End::Tail => {
                        let begin = offset(run, len - count);
                        (begin, run.len() - begin)
                    }
                };
                let taken = Entries::new(&run[begin..begin + bytes]);
                match end {
                    End::Head => taken.for_each(|entry| read(slab, Element::Entry(entry))),
                    End::Tail if count == 1 => taken.for_each(|entry| read(slab, Element::Entry(entry))),
                    End::Tail => {
                        let entries: Vec<Entry<'_>> = taken.collect();
                        entries.into_iter().rev().for_each(|entry| read(slab, Element::Entry(entry)));
                    }
                }
                packed::splice(packed, packed::HEAD_BYTES + begin, bytes, &[]);
                packed::set_count(packed, len - count);
            }
            Body::Packed(_) => {}
            Body::Big(list) => {
                list.nodes.check(slab);
                for _ in 0..count {
                    list.pop(slab, end, &mut read)?;
                }
            }
        }
        self.after_shrinking();
        Ok(count)
    }

    /// Puts a value in the place of element `index`, which there is.
    ///
    /// # Errors
    /// The slab is full.
    pub fn set(&mut self, index: usize, value: &[u8]) -> Result<(), AllocError> {
        assert!(index < self.look().len());
        self.before_growth(1, value.len());
        if let Body::Packed(packed) = &mut *self.body {
            let at = packed::HEAD_BYTES + offset(packed::run(packed), index);
            let (old, new) = (entry::span(&packed[at..]), Entry::of(value).encoded_bytes());
            if packed.len() - old + new <= PACKED_BYTES_MAX {
                let mut encoded = Vec::with_capacity(new);
                entry::put(&mut encoded, value);
                packed::splice(packed, at, old, &encoded);
                self.after_shrinking();
                return Ok(());
            }
        }
        let slab = &mut *self.memory.slab;
        let list = to_big(self.body, slab)?;
        let piece = list.piece(slab, value)?;
        list.set(slab, index, piece).inspect_err(|_| list.drop_piece(slab, piece))?;
        self.after_shrinking();
        Ok(())
    }

    /// Puts a value in front of element `index`, or behind the last.
    ///
    /// # Errors
    /// The slab is full.
    pub fn insert(&mut self, index: usize, value: &[u8]) -> Result<(), AllocError> {
        let len = self.look().len();
        assert!(index <= len);
        if index == 0 || index == len {
            return self.push(if index == 0 { End::Head } else { End::Tail }, &[value]);
        }
        self.before_growth(1, value.len());
        if let Body::Packed(packed) = &mut *self.body {
            let new = Entry::of(value).encoded_bytes();
            if len < PACKED_LEN_MAX && packed.len() + new <= PACKED_BYTES_MAX {
                let mut encoded = Vec::with_capacity(new);
                entry::put(&mut encoded, value);
                let at = packed::HEAD_BYTES + offset(packed::run(packed), index);
                packed::splice(packed, at, 0, &encoded);
                packed::set_count(packed, len + 1);
                return Ok(());
            }
        }
        let slab = &mut *self.memory.slab;
        let list = to_big(self.body, slab)?;
        let piece = list.piece(slab, value)?;
        list.insert(slab, index, piece).inspect_err(|_| list.drop_piece(slab, piece))
    }

    /// Takes elements equal to the needle out, `max` at most, from `index` on to the end (to the beginning, with `reverse`): a step, which looks at
    /// some hundred elements. The next one begins at `index + looked - removed`, or `index - looked`.
    ///
    /// # Errors
    /// The slab is too full to keep what a view sees.
    pub fn remove_equal(
        &mut self,
        index: usize,
        reverse: bool,
        needle: &Needle<'_>,
        max: usize,
    ) -> Result<Filtered, AllocError> {
        let slab = &mut *self.memory.slab;
        let done = match &mut *self.body {
            Body::Big(list) => {
                list.nodes.check(slab);
                let (looked, removed) = list.remove_equal(slab, index, reverse, needle, max)?;
                Filtered { looked, removed }
            }
            Body::Packed(packed) => {
                let len = packed::count(packed);
                let is_match = |entry: Entry<'_>| needle.is(slab, &Element::Entry(entry));
                let all = || Entries::new(packed::run(packed)).enumerate();
                let in_range = |i: usize| if reverse { i <= index } else { i >= index };
                let found = all().filter(|&(i, entry)| in_range(i) && is_match(entry)).count();
                let skipped = if reverse { found.saturating_sub(max) } else { 0 };
                let mut kept = Vec::with_capacity(packed.len());
                let (mut seen, mut removed) = (0, 0);
                for (i, entry) in all() {
                    if in_range(i) && is_match(entry) {
                        seen += 1;
                        if seen > skipped && removed < max {
                            removed += 1;
                            continue;
                        }
                    }
                    entry.put(&mut kept);
                }
                if removed > 0 {
                    packed.truncate(packed::HEAD_BYTES);
                    packed.extend_from_slice(&kept);
                    packed::set_count(packed, len - removed);
                }
                Filtered { looked: if reverse { index + 1 } else { len - index }, removed }
            }
        };
        if done.removed > 0 {
            self.after_shrinking();
        }
        Ok(done)
    }

    /// Takes so many elements off at the head, and at the tail. Much is freed later, by `maintain`.
    ///
    /// # Errors
    /// The slab is too full to keep what a view sees.
    pub fn trim(&mut self, front: usize, back: usize) -> Result<(), AllocError> {
        let slab = &mut *self.memory.slab;
        let len = self.body.look(slab).len();
        let front = front.min(len);
        let back = back.min(len - front);
        match &mut *self.body {
            Body::Packed(packed) => {
                let run = packed::run(packed);
                let (begin, end) = (offset(run, front), offset(run, len - back));
                packed.truncate(packed::HEAD_BYTES + end);
                if begin > 0 {
                    packed::splice(packed, packed::HEAD_BYTES, begin, &[]);
                }
                if len > 0 {
                    packed::set_count(packed, len - front - back);
                }
            }
            Body::Big(list) => {
                list.nodes.check(slab);
                list.cut(slab, End::Head, front)?;
                list.cut(slab, End::Tail, back)?;
                // What is little is not left to others.
                list.nodes.work(slab, TRIM_WORK);
            }
        }
        self.after_shrinking();
        Ok(())
    }

    /// Whether it becomes a quicklist: Redis adds the length of what is to come to the size of the listpack.
    #[inline]
    fn before_growth(&mut self, count: usize, text_bytes: usize) {
        if self.look().is_exceeded() {
            return;
        }
        let bound = Bound::new(self.memory.limits.list_max_listpack_size);
        let len = self.look().len() + count;
        let bytes = match &mut *self.body {
            // No entry takes three times as much as here.
            Body::Packed(packed) if !bound.is_exceeded(3 * packed.len() + redis::EMPTY_BYTES + text_bytes, len) => {
                return;
            }
            Body::Packed(packed) => redis::run_bytes(packed::run(packed)),
            Body::Big(list) => list.listpack_bytes(self.memory.slab),
        };
        if bound.is_exceeded(bytes + text_bytes, len) {
            self.set_exceeded(true);
        }
    }

    /// Whether it becomes a listpack again.
    #[inline]
    fn after_shrinking(&mut self) {
        if !self.look().is_exceeded() {
            return;
        }
        let half = Bound::new(self.memory.limits.list_max_listpack_size).half();
        let len = self.look().len();
        if half.is_exceeded_by_count(len) {
            return;
        }
        let bytes = match &mut *self.body {
            Body::Packed(packed) => redis::run_bytes(packed::run(packed)),
            Body::Big(list) => list.listpack_bytes(self.memory.slab),
        };
        if !half.is_exceeded(bytes, len) {
            self.set_exceeded(false);
        }
    }

    fn set_exceeded(&mut self, exceeded: bool) {
        match &mut *self.body {
            Body::Packed(packed) => {
                packed::begin(packed);
                packed::set_state(packed, if exceeded { EXCEEDED } else { 0 });
            }
            Body::Big(list) => list.measure.exceeded = exceeded,
        }
    }
}

/// Nodes of a trimmed list that are freed at once, in elements.
const TRIM_WORK: usize = 64;

/// See `Container::to_packed`.
pub(super) fn to_packed(list: &List, slab: &Slab) -> Option<Vec<u8>> {
    let bytes_max = packed::shrunk_max(PACKED_BYTES_MAX);
    if list.len > packed::shrunk_max(PACKED_LEN_MAX) || list.nodes.epochs.is_viewed() {
        return None;
    }
    let mut bytes = Vec::with_capacity(PACKED_BYTES_MAX);
    packed::begin(&mut bytes);
    packed::set_count(&mut bytes, list.len);
    packed::set_state(&mut bytes, if list.measure.exceeded { EXCEEDED } else { 0 });
    let mut fits = true;
    list.walk(slab, 0, false, |piece| {
        match piece {
            Piece::Entry(entry) if bytes.len() + entry.encoded_bytes() <= bytes_max => entry.put(&mut bytes),
            _ => fits = false,
        }
        fits
    });
    fits.then_some(bytes)
}

/// See `Container::unpack`.
pub(super) fn put_packed(packed: &[u8], span: Span, run: &mut Vec<u8>) {
    let entries = packed::run(packed);
    if span.reverse {
        let all: Vec<Entry<'_>> = Entries::new(entries).collect();
        all.into_iter().rev().skip(span.skip).for_each(|entry| entry.put(run));
    } else {
        run.extend_from_slice(&entries[offset(entries, span.skip.min(packed::count(packed)))..]);
    }
}

/// The big form, made of the packed one if need be.
fn to_big<'a>(body: &'a mut Body<List>, slab: &mut Slab) -> Result<&'a mut List, AllocError> {
    if let Body::Packed(packed) = &*body {
        let mut list = Box::new(List::new());
        for entry in Entries::new(packed::run(packed)) {
            if let Err(e) = list.push(slab, End::Tail, Piece::Entry(entry)) {
                super::destroy(&mut list, slab);
                return Err(e);
            }
        }
        list.measure.exceeded = packed::state(packed) & EXCEEDED != 0;
        *body = Body::Big(list);
    }
    match body {
        Body::Big(list) => {
            list.nodes.check(slab);
            Ok(list)
        }
        Body::Packed(_) => unreachable!("made above"),
    }
}

/// See `Container::extend`.
pub(super) fn extend(body: &mut Body<List>, memory: &mut Memory<'_>, run: &[u8]) -> Result<(), AllocError> {
    if run.is_empty() {
        return Ok(());
    }
    let mut whole = true;
    if let Body::Packed(packed) = &mut *body {
        let count = packed::count(packed) + Entries::new(run).take(PACKED_LEN_MAX + 1).count();
        if count <= PACKED_LEN_MAX && packed.len() + run.len() <= PACKED_BYTES_MAX {
            packed::begin(packed);
            packed.extend_from_slice(run);
            packed::set_count(packed, count);
            whole = false;
        }
    }
    if whole {
        let slab = &mut *memory.slab;
        let list = to_big(body, slab)?;
        for entry in Entries::new(run) {
            let piece = match entry {
                Entry::Bytes(text) => list.piece(slab, text)?,
                Entry::Int(_) => Piece::Entry(entry),
            };
            list.push(slab, End::Tail, piece).inspect_err(|_| list.drop_piece(slab, piece))?;
        }
    }
    let memory = Memory { slab: memory.slab, ..*memory };
    Edit { body, memory }.before_growth(0, 0);
    Ok(())
}
