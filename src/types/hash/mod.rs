//! Hashes: fields with values, each perhaps with a deadline of its own. Owns both forms and when one becomes the other; knows neither keys nor
//! a clock: what depends on time is told the instant.
//!
//! ```text
//!  small   a run of entries in the item of the key                    small
//!  big     Hash ─▶ table::Table ─▶ elements, a chunk each              element      deadlines: the timed ones, earliest first
//! ```
//! A hash becomes big with more than 128 fields (`FIELDS_MAX`) or when it would take more than 2 KiB (`SMALL_BYTES_MAX`); one that has shrunk by some way its owner
//! packs again, with its deadlines. What OBJECT ENCODING tells does not depend on that: it goes by Redis's bounds, and by two marks that stay once they are set.
//!
//! A field whose deadline has come is not there for operations that are told the instant; it is removed by [`Edit::expire`], in slices. `len`
//! counts it until then, so who wants an exact number expires first.
//!
//! # Files
//! `small` is the small form; `element` the layout of an element, `memory` every access to chunks (the only unsafe code); `deadlines` the order of
//! those that are timed; `look` reads and `edit` changes either form.

mod deadlines;
mod edit;
mod element;
mod look;
mod memory;
mod small;
#[cfg(test)]
mod tests;

use super::{Body, Container, Form, Limits, Look, Memory, Span, Type, packed};
use crate::base::entry::{self, Entries, Entry};
use crate::base::int;
use crate::table::{self, Entries as Hashes, Table, ViewLost};
use deadlines::{Deadlines, Node};
use dolmen_slab::{AllocError, Handle, Slab, Slice};
pub use edit::Lifetime;
pub use element::{DEADLINE_MAX_MS, Text};
use element::{Element, Needle};
pub use look::Field;

/// Fields of a small hash.
const FIELDS_MAX: usize = 128;
/// Bytes of a small hash.
const SMALL_BYTES_MAX: usize = 2048;

/// Where `relocate` has come to the index of deadlines: behind all cursors of the table.
const INDEX_CURSOR: u64 = 1 << 32;

/// The big form of a hash.
pub struct Hash {
    table: Table,
    timed: Deadlines,
    /// Of the elements in the table, with their blobs.
    element_bytes: u64,
    seed: u64,
    /// Views opened so far, to tell them apart.
    views: u64,
    /// A bound of `hash-max-listpack-*` has been exceeded.
    exceeded: bool,
    /// A field has had a deadline.
    has_timed: bool,
}

struct ElementHash {
    seed: u64,
}

impl Hashes for ElementHash {
    #[inline]
    fn hash(&self, slab: &Slab, h: Handle) -> u64 {
        Element::at(slab, h).hash(self.seed)
    }
}

impl Hash {
    fn new(seed: u64) -> Hash {
        Hash {
            table: Table::new(seed),
            timed: Deadlines::default(),
            element_bytes: 0,
            seed,
            views: 0,
            exceeded: false,
            has_timed: false,
        }
    }

    #[inline]
    fn find(&self, slab: &Slab, needle: &Needle<'_>, hash: u64) -> Option<table::Slot> {
        self.table.find(slab, hash, |h| Element::at(slab, h).is_field(slab, needle))
    }

    /// Adds a field that is not there. On error nothing has changed.
    fn insert(
        &mut self,
        slab: &mut Slab,
        needle: &Needle<'_>,
        hash: u64,
        value: &[u8],
        deadline_ms: u64,
    ) -> Result<(), AllocError> {
        let h = element::create(slab, self.seed, needle, value, deadline_ms)?;
        if let Err(error) = self.time(slab, h, deadline_ms) {
            element::free(slab, h);
            return Err(error);
        }
        if let Err(error) = self.table.insert(slab, &ElementHash { seed: self.seed }, hash, h) {
            self.discard(slab, h);
            return Err(error);
        }
        self.has_timed |= deadline_ms != 0;
        self.element_bytes += Element::at(slab, h).held_bytes(slab);
        Ok(())
    }

    /// Takes a new element with a deadline into the index.
    #[inline]
    fn time(&mut self, slab: &mut Slab, handle: Handle, deadline_ms: u64) -> Result<(), AllocError> {
        if deadline_ms != 0 {
            self.timed.insert(slab, Node { deadline_ms, handle })?;
        }
        Ok(())
    }

    /// Frees a new element that has not come into the table.
    fn discard(&mut self, slab: &mut Slab, h: Handle) {
        let element = Element::at(slab, h);
        if element.deadline_ms() != 0 {
            self.timed.remove(slab, element.place());
        }
        element::free(slab, h);
    }

    /// Puts a new element in the place of one of the same field.
    fn replace(&mut self, slab: &mut Slab, hash: u64, slot: table::Slot, new: Handle) -> Result<(), AllocError> {
        let old = self.table.handle(slot);
        let (was, is) = (Element::at(slab, old), Element::at(slab, new));
        let (old_ms, deadline_ms) = (was.deadline_ms(), is.deadline_ms());
        let (old_bytes, new_bytes) = (was.held_bytes(slab), is.held_bytes(slab));
        if old_ms == 0 {
            if let Err(error) = self.time(slab, new, deadline_ms) {
                element::free(slab, new);
                return Err(error);
            }
        } else if deadline_ms == 0 {
            self.timed.remove(slab, was.place());
        } else {
            self.timed.replace(slab, was.place(), Node { deadline_ms, handle: new });
        }
        self.has_timed |= deadline_ms != 0;
        self.element_bytes = self.element_bytes + new_bytes - old_bytes;
        if self.table.is_seen(slab, hash, old) {
            self.table.replace_seen(slab, hash, slot, new);
        } else {
            self.table.replace(slot, new);
        }
        self.part_with(slab, hash, old, old_bytes);
        Ok(())
    }

    fn remove(&mut self, slab: &mut Slab, hash: u64, slot: table::Slot) {
        let h = self.table.remove(slab, hash, slot);
        let element = Element::at(slab, h);
        let bytes = element.held_bytes(slab);
        if element.deadline_ms() != 0 {
            self.timed.remove(slab, element.place());
        }
        self.element_bytes -= bytes;
        self.part_with(slab, hash, h, bytes);
    }

    /// Frees an element that has left the table, or leaves it to the views that see it.
    #[inline]
    fn part_with(&mut self, slab: &mut Slab, hash: u64, h: Handle, bytes: u64) {
        if !self.table.defer(slab, hash, h, || bytes) {
            element::free(slab, h);
        }
    }

    /// Removes fields whose deadlines have come, `budget` at most; their number, and their names in `gone`.
    fn expire(&mut self, slab: &mut Slab, now_ms: u64, budget: usize, mut gone: Option<&mut Vec<Box<[u8]>>>) -> usize {
        let mut expired = 0;
        while expired < budget
            && let Some(node) = self.timed.first(slab)
            && node.deadline_ms <= now_ms
        {
            let element = Element::at(slab, node.handle);
            let hash = element.hash(self.seed);
            if let Some(gone) = &mut gone {
                let mut name = Vec::new();
                element.field().append(slab, &mut name);
                gone.push(name.into());
            }
            let slot = self.table.find_handle(slab, hash, node.handle).expect("what is timed is in the table");
            self.remove(slab, hash, slot);
            expired += 1;
        }
        expired
    }

    fn note_bounds(&mut self, limits: &Limits, field_len: usize, value_len: usize) {
        self.exceeded |= self.table.len() > limits.hash_max_listpack_entries
            || field_len.max(value_len) > limits.hash_max_listpack_value;
    }
}

/// An open view of a big hash.
pub struct View(table::View);

impl Container for Hash {
    const TYPE: Type = Type::Hash;
    type View = View;

    fn len(&self) -> usize {
        self.table.len()
    }

    fn bytes(&self) -> u64 {
        self.element_bytes + (self.table.table_bytes() + self.timed.heap_bytes()) as u64 + self.timed.slab_bytes()
    }

    fn heap_bytes(&self) -> usize {
        self.table.heap_bytes() + self.timed.heap_bytes()
    }

    fn kept_bytes(&self) -> u64 {
        self.table.kept_bytes() as u64
    }

    fn open_view(&mut self, _: &Slab, _: Span) -> View {
        self.views += 1;
        View(self.table.open_view(self.views))
    }

    fn view_next(
        &mut self,
        slab: &Slab,
        view: &mut View,
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost> {
        let end = run.len() + budget_bytes;
        loop {
            if !self.table.view_next(slab, &view.0, |h| Element::at(slab, h).append_to(slab, run))? {
                return Ok(false);
            }
            if run.len() >= end {
                return Ok(true);
            }
        }
    }

    fn close_view(&mut self, view: View) {
        self.table.close_view(view.0);
    }

    fn is_viewed(&self) -> bool {
        self.table.is_viewed()
    }

    fn to_packed(&self, slab: &Slab) -> Option<Vec<u8>> {
        let bytes_max = packed::shrunk_max(SMALL_BYTES_MAX);
        // Heads of elements, and what their chunks have too much, are less than half.
        let may_fit = self.len() <= packed::shrunk_max(FIELDS_MAX) && self.element_bytes <= 2 * SMALL_BYTES_MAX as u64;
        if !may_fit || self.table.has_views() {
            return None;
        }
        let mut bytes = Vec::with_capacity(SMALL_BYTES_MAX);
        let is_timed = self.has_timed && self.len() > 0;
        let deadline_bytes = if is_timed { entry::INT_BYTES_MAX } else { 0 };
        if is_timed {
            small::begin_timed(&mut bytes);
        }
        let (mut fits, mut cursor) = (true, 0);
        loop {
            cursor = self.table.scan(slab, &ElementHash { seed: self.seed }, cursor, |h| {
                let element = Element::at(slab, h);
                match (element.field(), element.value()) {
                    (Text::Entry(name), Text::Entry(value))
                        if bytes.len() + name.encoded_bytes() + value.encoded_bytes() + deadline_bytes <= bytes_max =>
                    {
                        small::append(&mut bytes, name, value, element.deadline_ms());
                    }
                    _ => fits = false,
                }
            });
            if cursor == 0 || !fits {
                break;
            }
        }
        if is_timed {
            small::set_earliest(&mut bytes);
        }
        if self.exceeded && !bytes.is_empty() {
            small::set_exceeded(&mut bytes);
        }
        fits.then_some(bytes)
    }

    #[inline]
    fn has_work(&self) -> bool {
        self.table.has_work()
    }

    fn maintain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        // A segment has at most some 500 elements.
        let mut more = self.table.maintain(slab, &ElementHash { seed: self.seed }, budget.div_ceil(256));
        more |= self.table.release_views(slab, budget, element::free);
        more || self.table.has_work()
    }

    fn relocate(&mut self, slab: &mut Slab, cursor: u64, slice: &mut Slice) -> Option<u64> {
        let Hash { table, timed, seed, .. } = self;
        if let Some(page) = cursor.checked_sub(INDEX_CURSOR) {
            return timed.relocate(slab, page, slice).map(|page| INDEX_CURSOR + page);
        }
        let next = table.relocate(slab, &ElementHash { seed: *seed }, cursor, slice, |slab, slice, h| {
            let moved = memory::offer(slab, slice, h)?;
            let element = Element::at(slab, moved);
            let deadline_ms = element.deadline_ms();
            if deadline_ms != 0 {
                timed.replace(slab, element.place(), Node { deadline_ms, handle: moved });
            }
            Some(moved)
        });
        next.or(Some(INDEX_CURSOR))
    }

    fn drain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        self.element_bytes = 0;
        self.table.drain(slab, budget, element::free) || self.timed.drain(slab, budget)
    }

    fn unpack(packed: &[u8], _: Span, run: &mut Vec<u8>) {
        for field in small::fields(packed) {
            field.name.put(run);
            field.value.put(run);
            Entry::Int(field.deadline_ms.cast_signed()).put(run);
        }
    }

    fn extend(body: &mut Body<Hash>, memory: &mut Memory<'_>, run: &[u8]) -> Result<(), AllocError> {
        if let Body::Packed(bytes) = body {
            bytes.reserve(crate::types::packed::HEAD_BYTES + run.len().min(SMALL_BYTES_MAX));
        }
        let mut entries = Entries::new(run);
        while let (Some(field), Some(value), Some(deadline)) = (entries.next(), entries.next(), entries.next()) {
            let deadline_ms = match deadline {
                Entry::Int(deadline) => deadline.cast_unsigned().min(DEADLINE_MAX_MS),
                Entry::Bytes(_) => 0,
            };
            if let Body::Packed(bytes) = body
                && edit::insert_small(bytes, memory, field, value, deadline_ms)
            {
                continue;
            }
            let mut digits = [0; int::MAX_DIGITS];
            edit::insert(body, memory, &Needle { entry: field }, value.text(&mut digits), deadline_ms)?;
        }
        Ok(())
    }

    fn earliest_ms(look: Look<'_, Hash>) -> u64 {
        look.earliest_ms()
    }

    fn encoding(look: Look<'_, Hash>, _: &Limits) -> &'static str {
        let (exceeded, timed) = match look.form {
            Form::Packed(packed) => (small::is_exceeded(packed), small::is_timed(packed)),
            Form::Big(big) => (big.exceeded, big.has_timed),
        };
        match (exceeded, timed) {
            (true, _) => "hashtable",
            (false, true) => "listpackex",
            (false, false) => "listpack",
        }
    }
}
