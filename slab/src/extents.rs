//! The memory of blobs: extents of 4 to 64 pages, carved from slots of 2 MiB, reused last in first out, released after a decay.
//!
//! Owns the records about extents. Must not know blobs: an extent is counted (several versions of a blob may share it), not named.
//!
//! ```text
//! offset in the blob region (page number of an extent = offset / 4 KiB; slot 0 is never used, so page 0 means "none")
//! 0         2 MiB                         4 MiB
//! ├─────────┼─────────────────────────────┼──────
//! │ slot 0  │ slot 1: all of one class    │
//! │         │ ┌────┬────┬────┬────┬─ ─ ─┐ │        an extent has at least 4 pages, so its first page / 4
//! │         │ │ext.│ext.│ext.│ext.│     │ │        is its own: the index of its record
//! └─────────┴─┴────┴────┴────┴────┴─────┴─┴──────
//! ```
//!
//! Invariants: an extent is live (`refs > 0`, in no list), or free in the `dirty` list of its class (some pages may be resident) or in
//! its `clean` list; `slot.live` counts the live ones, `slot.dirty` the dirty ones; a slot without either is in `vacant`.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use crate::list::{Links, List};
use crate::poison;
use crate::region::{Commit, Mapping, PAGE_BYTES, Table, Zeroed};
use crate::release::is_due;

/// Largest extent; a blob is a list of these, only the last may be smaller.
pub(crate) const EXTENT_PAGES_MAX: usize = 64;
/// Smallest extent.
pub(crate) const EXTENT_PAGES_MIN: usize = 4;
/// Pages of a slot.
const SLOT_PAGES: usize = 512;
const SLOT_PAGES_U32: u32 = 512;
const SLOT_BYTES: usize = SLOT_PAGES * PAGE_BYTES;
/// Least blob region that is useful (when address space is short).
pub(crate) const REGION_BYTES_MIN: usize = 64 << 20;
/// Blob region at most: page numbers have 31 bits.
pub(crate) const REGION_BYTES_MAX: usize = 1 << 43;
/// Least step of committing.
const COMMIT_BYTES_MIN: usize = 4 << 20;
/// Pages that count as one span of a release budget.
const BUDGET_PAGES: usize = 16;

/// Extent sizes in pages: 4 to 8 each, then eighths of a doubling.
const CLASS_PAGES: [u8; 29] = {
    let mut pages = [0; 29];
    let (mut class, mut size) = (0, EXTENT_PAGES_MIN);
    while size <= EXTENT_PAGES_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
        {
            pages[class] = size as u8;
        }
        class += 1;
        size += if size < 16 { 1 } else { (1 << size.ilog2()) / 8 };
    }
    assert!(class == 29);
    pages
};
const CLASSES: usize = CLASS_PAGES.len();

/// Class of a number of pages, by table.
const CLASS_OF: [u8; EXTENT_PAGES_MAX + 1] = {
    let mut classes = [0; EXTENT_PAGES_MAX + 1];
    let (mut pages, mut class) = (1, 0);
    while pages <= EXTENT_PAGES_MAX {
        if (CLASS_PAGES[class as usize] as usize) < pages {
            class += 1;
        }
        classes[pages] = class;
        pages += 1;
    }
    classes
};

/// One extent.
///
/// ```text
///  0      4      8      12         16        17      18      19
/// ┌──────┬──────┬──────┬──────────┬─────────┬───────┬───────┬───────┐ 20
/// │ prev │ next │ refs │ stamp_ms │ touched │ class │ zeros │ spare │
/// └──────┴──────┴──────┴──────────┴─────────┴───────┴───────┴───────┘
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct ExtentMeta {
    /// Neighbours in the list it is in, as page numbers; 0 = none.
    prev: u32,
    next: u32,
    /// Versions of blobs that use it; 0 = free.
    refs: u32,
    /// When it was freed (slab clock).
    stamp_ms: u32,
    /// Pages from the start that may be resident.
    touched: u8,
    class: u8,
    /// It was never written and is not to be, nor is it counted as used: what holes name.
    zeros: bool,
    spare: u8,
}

const _: () = assert!(size_of::<ExtentMeta>() == 20);

// SAFETY: integers, and a bool whose 0 is false.
unsafe impl Zeroed for ExtentMeta {}

/// One slot of 2 MiB.
///
/// ```text
///  0      4      8      10      12       14      15
/// ┌──────┬──────┬──────┬───────┬────────┬───────┬─────────┐ 16
/// │ prev │ next │ live │ dirty │ carved │ class │ vacant  │
/// └──────┴──────┴──────┴───────┴────────┴───────┴─────────┘
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Slot {
    /// Neighbours in the list of vacant slots; 0 = none.
    prev: u32,
    next: u32,
    /// Extents in use.
    live: u16,
    /// Free extents with resident pages.
    dirty: u16,
    /// Extents made so far, from the start.
    carved: u16,
    class: u8,
    /// Whether it is in the list of vacant slots.
    vacant: bool,
}

const _: () = assert!(size_of::<Slot>() == 16);

// SAFETY: integers, and a bool whose 0 is false.
unsafe impl Zeroed for Slot {}

impl Links for Table<ExtentMeta> {
    fn links(&mut self, page: u32) -> (&mut u32, &mut u32) {
        let meta = &mut self[record(page)];
        (&mut meta.prev, &mut meta.next)
    }
}

impl Links for Table<Slot> {
    fn links(&mut self, slot: u32) -> (&mut u32, &mut u32) {
        let slot = &mut self[slot as usize];
        (&mut slot.prev, &mut slot.next)
    }
}

/// Index of an extent's record.
fn record(page: u32) -> usize {
    page as usize / EXTENT_PAGES_MIN
}

/// Slot that an extent lies in.
fn slot_of(page: u32) -> u32 {
    page / SLOT_PAGES_U32
}

/// Free extents of one class.
#[derive(Clone, Copy, Default)]
struct ClassLists {
    /// Most recently freed first: stamps descending.
    dirty: List,
    clean: List,
    /// Slot that new extents are carved from; 0 = none.
    carving: u32,
}

/// All extents of a slab.
pub(crate) struct Extents {
    metas: Table<ExtentMeta>,
    slots: Table<Slot>,
    commit: Commit,
    classes: [ClassLists; CLASSES],
    /// Slots that belong to a class but have no live and no dirty extent: to be given to another class.
    vacant: List,
    /// Sizes of live extents, in bytes.
    pub(crate) used_bytes: u64,
    /// Pages that may be resident: sum of `touched`.
    pub(crate) resident_pages: u64,
    /// Slab clock, set by `release`.
    now_ms: u32,
}

impl Extents {
    /// `region` is the mapping that all later calls are given.
    pub(crate) fn new(region: &Mapping) -> io::Result<Extents> {
        let slots = region.bytes() / SLOT_BYTES;
        let records = slots * (SLOT_PAGES / EXTENT_PAGES_MIN);
        Ok(Extents {
            metas: Table::reserve(records, records)?,
            slots: Table::reserve(slots, slots)?,
            commit: Commit::new(COMMIT_BYTES_MIN),
            classes: [ClassLists::default(); CLASSES],
            vacant: List::default(),
            used_bytes: 0,
            resident_pages: 0,
            now_ms: 0,
        })
    }

    /// Address of a page; dereferencing is up to the caller.
    #[inline]
    pub(crate) fn address(region: &Mapping, page: u32) -> NonNull<u8> {
        let offset = page as usize * PAGE_BYTES;
        assert!(offset < region.bytes());
        // SAFETY: inside the mapping by the assertion.
        unsafe { region.base().add(offset) }
    }

    /// An extent of at least `pages`, with one reference: a hot one, a released one, or a new one. `None`: no memory.
    pub(crate) fn alloc(&mut self, region: &Mapping, pages: usize) -> Option<u32> {
        let class = CLASS_OF[pages];
        let lists = &mut self.classes[usize::from(class)];
        let page = if let Some(page) = lists.dirty.pop_front(&mut self.metas) {
            self.slots[slot_of(page) as usize].dirty -= 1;
            page
        } else if let Some(page) = lists.clean.pop_front(&mut self.metas) {
            page
        } else {
            self.carve(region, class)?
        };
        self.slots[slot_of(page) as usize].live += 1;
        self.settle(slot_of(page));
        let meta = &mut self.metas[record(page)];
        debug_assert_eq!(meta.refs, 0);
        meta.refs = 1;
        let bytes = self.bytes(page);
        self.used_bytes += bytes as u64;
        poison::unpoison(Extents::address(region, page), bytes);
        Some(page)
    }

    /// Size of an extent in bytes.
    pub(crate) fn bytes(&self, page: u32) -> usize {
        self.pages(page) * PAGE_BYTES
    }

    /// Size of an extent in pages.
    pub(crate) fn pages(&self, page: u32) -> usize {
        usize::from(CLASS_PAGES[usize::from(self.metas[record(page)].class)])
    }

    /// Whether more than one user has the extent, or it is to stay as it is: it must not be written.
    pub(crate) fn is_shared(&self, page: u32) -> bool {
        let meta = &self.metas[record(page)];
        meta.refs > 1 || meta.zeros
    }

    /// Whether it is an extent of zeros.
    pub(crate) fn is_zeros(&self, page: u32) -> bool {
        self.metas[record(page)].zeros
    }

    /// Size of an extent in pages, as it counts to those that use it.
    pub(crate) fn counted_pages(&self, page: u32) -> i64 {
        if self.is_zeros(page) { 0 } else { i64::try_from(self.pages(page)).expect("an extent has at most 64 pages") }
    }

    /// Bytes from the start that may have been written since the system gave the extent's memory; those behind read as zeros.
    pub(crate) fn touched_bytes(&self, page: u32) -> usize {
        usize::from(self.metas[record(page)].touched) * PAGE_BYTES
    }

    /// An extent of the largest size that reads as zeros and is to stay so: it takes no memory, and is not counted as used, whoever uses it.
    pub(crate) fn alloc_zeros(&mut self, region: &Mapping) -> Option<u32> {
        let page = self.alloc(region, EXTENT_PAGES_MAX)?;
        let touched = std::mem::take(&mut self.metas[record(page)].touched);
        self.resident_pages -= u64::from(touched);
        let start = page as usize * PAGE_BYTES;
        // SAFETY: the extent was just allocated, so nobody has a slice of it.
        unsafe { region.discard(start, start + usize::from(touched) * PAGE_BYTES) };
        self.used_bytes -= self.bytes(page) as u64;
        self.metas[record(page)].zeros = true;
        Some(page)
    }

    /// References to an extent.
    pub(crate) fn refs(&self, page: u32) -> u32 {
        self.metas[record(page)].refs
    }

    /// Notes that the first `bytes` of an extent were written.
    pub(crate) fn touch(&mut self, page: u32, bytes: usize) {
        let meta = &mut self.metas[record(page)];
        let touched = u8::try_from(bytes.div_ceil(PAGE_BYTES)).expect("an extent has at most 64 pages");
        if touched > meta.touched {
            self.resident_pages += u64::from(touched - meta.touched);
            meta.touched = touched;
        }
    }

    /// One more reference.
    pub(crate) fn retain(&mut self, page: u32) {
        let refs = &mut self.metas[record(page)].refs;
        debug_assert!(*refs > 0);
        *refs = refs.checked_add(1).expect("fewer than 2^32 versions of a blob, and holes");
    }

    /// One reference less; the last one frees the extent.
    pub(crate) fn release_ref(&mut self, region: &Mapping, page: u32) {
        let meta = &mut self.metas[record(page)];
        assert!(meta.refs > 0, "extent freed twice");
        meta.refs -= 1;
        if meta.refs > 0 {
            return;
        }
        meta.stamp_ms = self.now_ms;
        let (class, touched) = (usize::from(meta.class), meta.touched);
        if !std::mem::take(&mut meta.zeros) {
            self.used_bytes -= (usize::from(CLASS_PAGES[class]) * PAGE_BYTES) as u64;
        }
        let slot = &mut self.slots[slot_of(page) as usize];
        slot.live -= 1;
        if touched > 0 {
            slot.dirty += 1;
            self.classes[class].dirty.push_front(&mut self.metas, page);
        } else {
            self.classes[class].clean.push_front(&mut self.metas, page);
        }
        self.settle(slot_of(page));
        poison::poison(Extents::address(region, page), self.bytes(page));
    }

    /// Ends the poisoning of free extents: the addresses may serve others. Live ones stay readable.
    pub(crate) fn unpoison(&self, region: &Mapping) {
        poison::unpoison(region.base(), self.slots.len() * SLOT_BYTES);
    }

    /// Puts a slot into the list of vacant ones, or takes it out, as its counts say.
    fn settle(&mut self, slot: u32) {
        let record = &mut self.slots[slot as usize];
        let vacant = record.live == 0 && record.dirty == 0;
        if vacant != record.vacant {
            record.vacant = vacant;
            if vacant {
                self.vacant.push_front(&mut self.slots, slot);
            } else {
                self.vacant.remove(&mut self.slots, slot);
            }
        }
    }

    /// A new extent from the class's slot, or from a further slot.
    #[cold]
    #[inline(never)]
    fn carve(&mut self, region: &Mapping, class: u8) -> Option<u32> {
        let pages = u32::from(CLASS_PAGES[usize::from(class)]);
        let mut slot = self.classes[usize::from(class)].carving;
        if slot == 0 || (u32::from(self.slots[slot as usize].carved) + 1) * pages > SLOT_PAGES_U32 {
            slot = self.fresh_slot(region)?;
            self.slots[slot as usize].class = class;
            self.classes[usize::from(class)].carving = slot;
        }
        let carved = &mut self.slots[slot as usize].carved;
        let page = slot * SLOT_PAGES_U32 + u32::from(*carved) * pages;
        *carved += 1;
        let meta = &mut self.metas[record(page)];
        debug_assert!(meta.refs == 0 && meta.touched == 0);
        meta.class = class;
        Some(page)
    }

    /// A slot with nothing carved: one that another class has left (its page tables exist already), a new one, or, when there is no
    /// room for one, one whose free extents are still resident.
    fn fresh_slot(&mut self, region: &Mapping) -> Option<u32> {
        if self.vacant.head != 0 {
            return Some(self.strip(self.vacant.head));
        }
        // Slot 0 is skipped.
        let slot = self.slots.len().max(1);
        let room = self.commit.ensure(region, (slot + 1) * SLOT_BYTES)
            && self.metas.grow_to((slot + 1) * (SLOT_PAGES / EXTENT_PAGES_MIN))
            && self.slots.grow_to(slot + 1);
        if room {
            return Some(u32::try_from(slot).expect("page numbers have 31 bits"));
        }
        let idle = (1..self.slots.len()).find(|&slot| self.slots[slot].live == 0)?;
        let idle = u32::try_from(idle).expect("page numbers have 31 bits");
        for page in self.carved(idle) {
            if self.metas[record(page)].touched > 0 {
                self.discard(region, page);
            }
        }
        Some(self.strip(idle))
    }

    /// First pages of the extents carved from a slot.
    fn carved(&self, slot: u32) -> impl Iterator<Item = u32> + use<> {
        let Slot { carved, class, .. } = self.slots[slot as usize];
        let pages = u32::from(CLASS_PAGES[usize::from(class)]);
        (0..u32::from(carved)).map(move |index| slot * SLOT_PAGES_U32 + index * pages)
    }

    /// Takes a vacant slot away from its class.
    fn strip(&mut self, slot: u32) -> u32 {
        debug_assert!(self.slots[slot as usize].vacant);
        self.vacant.remove(&mut self.slots, slot);
        let class = usize::from(self.slots[slot as usize].class);
        for page in self.carved(slot) {
            self.classes[class].clean.remove(&mut self.metas, page);
        }
        if self.classes[class].carving == slot {
            self.classes[class].carving = 0;
        }
        let record = &mut self.slots[slot as usize];
        (record.carved, record.vacant) = (0, false);
        slot
    }

    /// Gives the resident pages of a dirty free extent back.
    fn discard(&mut self, region: &Mapping, page: u32) {
        let meta = &mut self.metas[record(page)];
        debug_assert!(meta.refs == 0 && meta.touched > 0);
        let touched = std::mem::take(&mut meta.touched);
        let lists = &mut self.classes[usize::from(meta.class)];
        self.resident_pages -= u64::from(touched);
        let start = page as usize * PAGE_BYTES;
        // SAFETY: the extent has no reference left, so no slice of it exists.
        unsafe { region.discard(start, start + usize::from(touched) * PAGE_BYTES) };
        lists.dirty.remove(&mut self.metas, page);
        lists.clean.push_front(&mut self.metas, page);
        self.slots[slot_of(page) as usize].dirty -= 1;
        self.settle(slot_of(page));
    }

    /// Releases extents that have been free for `decay_ms`, while the budget (in spans of 64 KiB) lasts. True: more is due.
    pub(crate) fn release(&mut self, region: &Mapping, now_ms: u32, decay_ms: u32, budget_spans: &mut usize) -> bool {
        self.now_ms = now_ms;
        for class in 0..CLASSES {
            loop {
                let page = self.classes[class].dirty.tail;
                if page == 0 || !is_due(now_ms, self.metas[record(page)].stamp_ms, decay_ms) {
                    break;
                }
                if *budget_spans == 0 {
                    return true;
                }
                let cost = usize::from(self.metas[record(page)].touched).div_ceil(BUDGET_PAGES);
                *budget_spans = budget_spans.saturating_sub(cost);
                self.discard(region, page);
            }
        }
        false
    }

    /// Bytes of records in use.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.metas.used_bytes() + self.slots.used_bytes()
    }
}
