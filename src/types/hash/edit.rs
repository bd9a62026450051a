//! Changing a hash of either form, and turning the small one into the big one. No operation loses anything when memory runs out: it changes
//! nothing then.

use super::element::{self, Element, Needle};
use super::{FIELDS_MAX, Hash, SMALL_BYTES_MAX, small};
use crate::base::entry::Entry;
use crate::base::int;
use crate::types::{Body, Container, Edit, Memory, packed};
use dolmen_slab::AllocError;

/// What becomes of a field's deadline when its value is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// It has none.
    Forever,
    /// It stays (of a new field: none).
    Keep,
    /// Unix milliseconds, at most [`super::DEADLINE_MAX_MS`].
    Until(u64),
}

impl Lifetime {
    /// The new deadline, 0: none. `old_ms` is 0 as well for a field that is not there.
    fn deadline_ms(self, old_ms: u64) -> u64 {
        match self {
            Lifetime::Forever => 0,
            Lifetime::Keep => old_ms,
            Lifetime::Until(deadline_ms) => deadline_ms,
        }
    }
}

/// Adds a field that is not there.
pub(super) fn insert(
    body: &mut Body<Hash>,
    memory: &mut Memory<'_>,
    needle: &Needle<'_>,
    value: &[u8],
    deadline_ms: u64,
) -> Result<(), AllocError> {
    let field_len = needle.entry.text_len();
    if let Body::Packed(bytes) = body
        && insert_small(bytes, memory, needle.entry, Entry::of(value), deadline_ms)
    {
        return Ok(());
    }
    let big = make_big(body, memory)?;
    big.insert(memory.slab, needle, needle.hash(memory.seed), value, deadline_ms)?;
    big.note_bounds(&memory.limits, field_len, value.len());
    Ok(())
}

/// The same for a small one; false: it would be too large.
pub(super) fn insert_small(
    bytes: &mut Vec<u8>,
    memory: &Memory<'_>,
    name: Entry<'_>,
    value: Entry<'_>,
    deadline_ms: u64,
) -> bool {
    let more = small::bytes_to_insert(bytes, name, value, deadline_ms);
    let fits = packed::count(bytes) < FIELDS_MAX && bytes.len().max(packed::HEAD_BYTES) + more <= SMALL_BYTES_MAX;
    if fits {
        small::insert(bytes, name, value, deadline_ms);
        note_bounds(bytes, memory, name.text_len(), value.text_len());
    }
    fits
}

fn note_bounds(bytes: &mut [u8], memory: &Memory<'_>, field_len: usize, value_len: usize) {
    if packed::count(bytes) > memory.limits.hash_max_listpack_entries
        || field_len.max(value_len) > memory.limits.hash_max_listpack_value
    {
        small::set_exceeded(bytes);
    }
}

/// The big form of a body, which it is turned into if it is small.
fn make_big<'a>(body: &'a mut Body<Hash>, memory: &mut Memory<'_>) -> Result<&'a mut Hash, AllocError> {
    if let Body::Packed(bytes) = body {
        let big = grown(bytes, memory)?;
        *body = Body::Big(Box::new(big));
    }
    match body {
        Body::Big(big) => Ok(big),
        Body::Packed(_) => unreachable!("it was made big"),
    }
}

#[cold]
fn grown(bytes: &[u8], memory: &mut Memory<'_>) -> Result<Hash, AllocError> {
    let mut big = Hash::new(memory.seed);
    big.exceeded = small::is_exceeded(bytes);
    big.has_timed = small::is_timed(bytes);
    for field in small::fields(bytes) {
        let needle = Needle { entry: field.name };
        let mut digits = [0; int::MAX_DIGITS];
        let value = field.value.text(&mut digits);
        if let Err(error) = big.insert(memory.slab, &needle, needle.hash(memory.seed), value, field.deadline_ms) {
            while big.drain(memory.slab, FIELDS_MAX) {}
            return Err(error);
        }
    }
    Ok(big)
}

impl Edit<'_, Hash> {
    /// Sets the value of a field. True: it was not there at this instant.
    ///
    /// # Errors
    /// The slab is full; nothing has changed, but perhaps the form.
    pub fn set(&mut self, name: &[u8], value: &[u8], lifetime: Lifetime, now_ms: u64) -> Result<bool, AllocError> {
        let Edit { body, memory } = self;
        let needle = Needle::new(name);
        match &mut **body {
            Body::Packed(bytes) => {
                let Some(field) = small::find(bytes, needle.entry) else {
                    insert(body, memory, &needle, value, lifetime.deadline_ms(0))?;
                    return Ok(true);
                };
                let old_ms = field.deadline_ms;
                let is_new = is_past(old_ms, now_ms);
                let deadline_ms = lifetime.deadline_ms(if is_new { 0 } else { old_ms });
                let entry = Entry::of(value);
                let more = entry.encoded_bytes().saturating_sub(field.value.encoded_bytes());
                let more = more + if deadline_ms == old_ms { 0 } else { small::bytes_to_time(bytes, deadline_ms) };
                if bytes.len() + more <= SMALL_BYTES_MAX {
                    let spot = field.spot();
                    small::set_value(bytes, spot, entry);
                    if deadline_ms != old_ms {
                        small::set_deadline(bytes, needle.entry, deadline_ms);
                    }
                    note_bounds(bytes, memory, name.len(), value.len());
                    return Ok(is_new);
                }
                make_big(body, memory)?;
                self.set(name, value, lifetime, now_ms)
            }
            Body::Big(big) => {
                let is_new = big.set(memory, &needle, value, lifetime, now_ms)?;
                big.note_bounds(&memory.limits, name.len(), value.len());
                Ok(is_new)
            }
        }
    }

    /// Removes a field. True: it was there at this instant.
    pub fn remove(&mut self, name: &[u8], now_ms: u64) -> bool {
        let needle = Needle::new(name);
        match &mut *self.body {
            Body::Packed(bytes) => {
                let Some(field) = small::find(bytes, needle.entry) else { return false };
                let was_there = !is_past(field.deadline_ms, now_ms);
                let spot = field.spot();
                small::remove(bytes, spot);
                was_there
            }
            Body::Big(big) => {
                let slab = &mut *self.memory.slab;
                let hash = needle.hash(big.seed);
                let Some(slot) = big.find(slab, &needle, hash) else { return false };
                let was_there = !is_past(Element::at(slab, big.table.handle(slot)).deadline_ms(), now_ms);
                big.remove(slab, hash, slot);
                was_there
            }
        }
    }

    /// Gives a field another deadline, or none (0). False: there is no such field at this instant.
    ///
    /// # Errors
    /// The slab is full; nothing has changed, but perhaps the form.
    pub fn set_deadline(&mut self, name: &[u8], deadline_ms: u64, now_ms: u64) -> Result<bool, AllocError> {
        let Edit { body, memory } = self;
        let needle = Needle::new(name);
        if let Body::Packed(bytes) = &mut **body {
            let Some(field) = small::find(bytes, needle.entry) else { return Ok(false) };
            if is_past(field.deadline_ms, now_ms) {
                return Ok(false);
            }
            if bytes.len() + small::bytes_to_time(bytes, deadline_ms) <= SMALL_BYTES_MAX {
                small::set_deadline(bytes, needle.entry, deadline_ms);
                return Ok(true);
            }
        }
        make_big(body, memory)?.set_deadline(memory, &needle, deadline_ms, now_ms)
    }

    /// Removes fields whose deadlines have come, of a big hash `budget` at most; their number. Whether some are left tells `Look::earliest_ms`.
    pub fn expire(&mut self, now_ms: u64, budget: usize) -> usize {
        self.expire_noting(now_ms, budget, None)
    }

    /// The same; the names of the fields are appended to `gone`.
    pub fn expire_noting(&mut self, now_ms: u64, budget: usize, gone: Option<&mut Vec<Box<[u8]>>>) -> usize {
        match &mut *self.body {
            Body::Packed(bytes) => small::expire(bytes, now_ms, gone),
            Body::Big(big) => big.expire(self.memory.slab, now_ms, budget, gone),
        }
    }
}

/// A deadline has come.
#[inline]
fn is_past(deadline_ms: u64, now_ms: u64) -> bool {
    deadline_ms != 0 && deadline_ms <= now_ms
}

impl Hash {
    fn set(
        &mut self,
        memory: &mut Memory<'_>,
        needle: &Needle<'_>,
        value: &[u8],
        lifetime: Lifetime,
        now_ms: u64,
    ) -> Result<bool, AllocError> {
        let slab = &mut *memory.slab;
        let hash = needle.hash(self.seed);
        let Some(slot) = self.find(slab, needle, hash) else {
            self.insert(slab, needle, hash, value, lifetime.deadline_ms(0))?;
            return Ok(true);
        };
        let h = self.table.handle(slot);
        let old_ms = Element::at(slab, h).deadline_ms();
        let is_new = is_past(old_ms, now_ms);
        let deadline_ms = lifetime.deadline_ms(if is_new { 0 } else { old_ms });
        let stays = deadline_ms == old_ms && !self.table.is_seen(slab, hash, h);
        if !stays || !element::overwrite_value(slab, h, value) {
            let new = element::create(slab, self.seed, needle, value, deadline_ms)?;
            self.replace(slab, hash, slot, new)?;
        }
        Ok(is_new)
    }

    fn set_deadline(
        &mut self,
        memory: &mut Memory<'_>,
        needle: &Needle<'_>,
        deadline_ms: u64,
        now_ms: u64,
    ) -> Result<bool, AllocError> {
        let slab = &mut *memory.slab;
        let hash = needle.hash(self.seed);
        let Some(slot) = self.find(slab, needle, hash) else { return Ok(false) };
        let h = self.table.handle(slot);
        let element = Element::at(slab, h);
        let old_ms = element.deadline_ms();
        if is_past(old_ms, now_ms) {
            return Ok(false);
        }
        if old_ms == deadline_ms {
            return Ok(true);
        }
        if old_ms != 0 && deadline_ms != 0 && !self.table.is_seen(slab, hash, h) {
            let place = element.place();
            element::overwrite_deadline(slab, h, deadline_ms);
            self.timed.replace(slab, place, super::Node { deadline_ms, handle: h });
        } else {
            let new = element::with_deadline(slab, h, deadline_ms)?;
            self.replace(slab, hash, slot, new)?;
        }
        Ok(true)
    }
}
