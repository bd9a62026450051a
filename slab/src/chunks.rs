//! The chunk allocator: heaps (one a class and kind), their active spans and bins of partial spans.
//!
//! Owns the chunk region and its metadata. Must not know blobs, nor what callers keep in a chunk.
//!
//! A heap allocates from one *active* span, from one word of its live bits at a time, lowest address first. The live bits are the
//! only record of what is free (nothing is written into freed chunks), so a double free is detected exactly, live chunks can be
//! enumerated for evacuation, and pages above a span's frontier stay untouched.
//!
//! Invariants:
//! - `span.live` = number of set live bits of the span; `heap.live` = sum over its spans; `used_bytes` = sum of live times class size.
//! - A span with a free chunk is active, sealed (by `evacuate` or `sweep`), or listed in the bin of its heap that its fill selects; a span without live chunks is
//!   clean or in `empty` (or still active).
//! - `heap.mask` covers chunks of the current word below the frontier only; without active span it is 0.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::ahead::Ahead;
use crate::class::{self, CLASSES, Class, UNIT_BYTES};
use crate::handle::{Handle, Kind};
use crate::list::List;
use crate::peek::Peek;
use crate::poison;
use crate::region::{Base, Commit, HUGE_BYTES, Mapping, PAGE_BYTES, Table};
use crate::span::{self, LOW_WORDS, SPAN_BYTES, SPAN_UNITS, SPAN_UNITS_LOG2, SpanMeta, State};
use crate::sweep::Sealed;

/// Heaps: class times two, plus kind.
pub(crate) const HEAPS: usize = CLASSES * 2;
const _: () = assert!(HEAPS <= u8::MAX as usize);

/// Bins of a heap, by fill: bin 0 holds spans under a quarter full, 3 those over three quarters, and `CRUMBS` those with so few
/// holes that filling them would cost a slow path every few allocations; they are used only while evacuating and as last resort.
pub(crate) const CRUMBS: usize = 4;
pub(crate) const BINS: usize = 5;

/// Pages of a span.
#[expect(clippy::cast_possible_truncation, reason = "16")]
pub(crate) const SPAN_PAGES: u8 = (SPAN_BYTES / PAGE_BYTES) as u8;
/// Spans in a unit of huge pages.
pub(crate) const SPANS_PER_UNIT: usize = HUGE_BYTES / SPAN_BYTES;
const _: () = assert!(SPAN_BYTES / PAGE_BYTES == SPAN_PAGES as usize && SPANS_PER_UNIT * SPAN_BYTES == HUGE_BYTES);

/// Chunk region: at most what 32 bits of 8 bytes reach.
const REGION_BYTES_MAX: usize = (u32::MAX as usize + 1) * UNIT_BYTES;
/// Least region that is useful (when address space is short).
const REGION_BYTES_MIN: usize = 64 << 20;
/// Least step of committing.
const COMMIT_BYTES_MIN: usize = 1 << 20;

/// Heap of one class and kind: what the fast paths need, one cache line.
///
/// ```text
///  0              8              16             24         28         32
/// ┌──────────────┬──────────────┬──────────────┬──────────┬──────────┐
/// │ mask         │ word         │ meta         │ first    │ units    │
/// ├──────┬───────┼──────┬───────┼──────────────┼──────┬───┴──┬───────┤ 64
/// │ live │ bytes │ recip│ span  │ fronted      │spans │ cap. │ evac. │     32-36-40-44-48-56-60-62
/// └──────┴───────┴──────┴───────┴──────────────┴──────┴──────┴───────┘
/// ```
#[repr(C, align(64))]
pub(crate) struct Heap {
    /// Chunks of the current word that may be handed out (if not live).
    mask: u64,
    /// Current word of live bits. Without active span (`mask` is 0) the first word of the unused span 0.
    word: NonNull<u64>,
    /// Metadata of the active span, else of span 0.
    meta: NonNull<SpanMeta>,
    /// Handle of chunk 0 of the current word.
    first: u32,
    /// Chunk size in units.
    units: u32,
    /// Live chunks.
    pub(crate) live: u32,
    /// Chunk size in bytes.
    pub(crate) bytes: u32,
    /// For `class::divide`.
    reciprocal: u32,
    /// Active span, 0 = none.
    pub(crate) span: u32,
    /// Chunks below the frontiers of its spans: what its resident pages could hold.
    pub(crate) fronted: u64,
    /// Spans it owns.
    pub(crate) spans: u32,
    /// Chunks a span.
    pub(crate) capacity: u16,
    /// Sealed spans.
    pub(crate) evacuating: u16,
}

const _: () = assert!(size_of::<Heap>() == 64);

// SAFETY: the pointers lead into the tables of the `Chunks` that owns the heap, and move between threads with it; they are
// dereferenced through `&mut Chunks` only.
unsafe impl Send for Heap {}
// SAFETY: as above; through `&Heap` nothing is dereferenced.
unsafe impl Sync for Heap {}

impl Heap {
    fn new(class: usize, word: NonNull<u64>, meta: NonNull<SpanMeta>) -> Heap {
        #[expect(clippy::cast_possible_truncation, reason = "at most 16384")]
        let (bytes, capacity) = (class::bytes(class) as u32, class::capacity(class) as u16);
        Heap {
            mask: 0,
            word,
            meta,
            first: 0,
            units: bytes / 8,
            live: 0,
            bytes,
            reciprocal: class::reciprocal(class),
            span: 0,
            fronted: 0,
            spans: 0,
            capacity,
            evacuating: 0,
        }
    }
}

/// Index of a heap.
#[inline(always)]
fn heap_of(class: Class, kind: Kind) -> usize {
    class.index() * 2 + kind as usize
}

/// Kind that a heap serves.
pub(crate) fn kind_of(heap: usize) -> Kind {
    if heap.is_multiple_of(2) { Kind::Item } else { Kind::Interior }
}

/// All chunks of a slab.
pub(crate) struct Chunks {
    pub(crate) heaps: [Heap; HEAPS],
    /// Live bits: the first `LOW_WORDS` of each span.
    live: Table<u64>,
    /// The others. It reaches as far as the last span that has such.
    live_high: Table<u64>,
    pub(crate) metas: Table<SpanMeta>,
    /// Where the memory begins; fixed for life.
    base: Base,
    /// The memory itself.
    pub(crate) region: Arc<Mapping>,
    /// Huge pages for what is used next.
    pub(crate) ahead: Ahead,
    pub(crate) commit: Commit,
    /// Who looks from outside is told how far memory reaches.
    peek: Option<Arc<Peek>>,
    /// The unit of huge pages that fresh spans are taken from, if it was ready when it was begun.
    pub(crate) ready_unit: Option<usize>,
    /// A unit that was being faulted in when its turn came; its spans are in no list.
    pub(crate) passed_unit: Option<usize>,
    /// Partial spans; boxed because only slow paths read them.
    pub(crate) bins: Box<[[List; BINS]; HEAPS]>,
    /// Spans without live chunk, pages resident; most recently emptied first, stamps descending.
    pub(crate) empty: List,
    /// Released spans.
    pub(crate) clean: List,
    /// Class sizes of live chunks, in bytes.
    pub(crate) used_bytes: u64,
    /// Pages that may be resident: sum of `touched_pages`.
    pub(crate) resident_pages: u64,
    /// Slab clock, set by `release`.
    pub(crate) now_ms: u32,
    /// Next heap whose idle active span `release` retires.
    pub(crate) idle_heap: usize,
    /// Next heap that `evacuate` looks at.
    pub(crate) drain_heap: usize,
    /// Classes of items whose evacuation has begun and not reached its lower mark.
    pub(crate) draining: [bool; CLASSES],
    /// Spans of interior heaps that are being emptied (`sweep`).
    pub(crate) sealed: Sealed,
}

impl Chunks {
    pub(crate) fn new(reserve_bytes: usize, huge_pages: bool) -> io::Result<Chunks> {
        let bytes = reserve_bytes.clamp(2 * SPAN_BYTES, REGION_BYTES_MAX);
        let region = Mapping::reserve(bytes, bytes.min(REGION_BYTES_MIN))?;
        let spans = region.bytes() / SPAN_BYTES;
        let mut live = Table::reserve(spans * LOW_WORDS, spans * LOW_WORDS)?;
        let live_high = Table::reserve(spans * LOW_WORDS, spans * LOW_WORDS)?;
        let mut metas = Table::reserve(spans, spans)?;
        // Span 0 exists (heaps without active span point to it) but is never used.
        if !(live.grow_to(LOW_WORDS) && metas.grow_to(1)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Chunks {
            heaps: std::array::from_fn(|heap| Heap::new(heap / 2, live.pointer(0), metas.pointer(0))),
            live,
            live_high,
            metas,
            base: region.start(),
            region: Arc::new(region),
            ahead: Ahead::new(huge_pages),
            commit: Commit::new(COMMIT_BYTES_MIN),
            peek: None,
            ready_unit: None,
            passed_unit: None,
            bins: Box::new([[List::default(); BINS]; HEAPS]),
            empty: List::default(),
            clean: List::default(),
            used_bytes: 0,
            resident_pages: 0,
            now_ms: 0,
            idle_heap: 0,
            drain_heap: 0,
            draining: [false; CLASSES],
            sealed: Sealed::default(),
        })
    }

    /// Address of a handle: inside the region for every handle this allocator gave out.
    #[inline(always)]
    pub(crate) fn ptr(&self, handle: Handle) -> NonNull<u8> {
        let address = self.base.as_ptr().wrapping_add(handle.bits() as usize * UNIT_BYTES);
        // SAFETY: base is a user-space address and the offset is below 32 GiB, so the sum does not wrap around to null.
        unsafe { NonNull::new_unchecked(address) }
    }

    /// A chunk, the lowest free one of its heap's current word.
    #[inline(always)]
    pub(crate) fn alloc(&mut self, class: Class, kind: Kind) -> Option<Handle> {
        let heap = heap_of(class, kind);
        match self.take(heap) {
            Some(handle) => Some(handle),
            None => self.alloc_slow(heap),
        }
    }

    /// A chunk of the class and kind of another one, and its size.
    pub(crate) fn alloc_like(&mut self, other: Handle) -> Option<(Handle, usize)> {
        let heap = usize::from(self.metas[(other.bits() >> SPAN_UNITS_LOG2) as usize].heap);
        let handle = self.take(heap).or_else(|| self.alloc_slow(heap))?;
        Some((handle, self.heaps[heap].bytes as usize))
    }

    /// `heap` comes from `heap_of`.
    #[inline(always)]
    fn take(&mut self, heap: usize) -> Option<Handle> {
        debug_assert!(heap < HEAPS);
        // SAFETY: a Class is below CLASSES and a Kind below 2, so `heap_of` is below HEAPS.
        let heap = unsafe { self.heaps.get_unchecked_mut(heap) };
        // SAFETY: `word` points to live bits of the active span, or of span 0: in a table that grows in place and lives as long as
        // self; `&mut self` excludes other references.
        let word = unsafe { heap.word.as_mut() };
        let free = heap.mask & !*word;
        if free == 0 {
            return None;
        }
        let bit = free.trailing_zeros();
        *word |= 1 << bit;
        // SAFETY: as for `word`, in the table of metadata.
        unsafe { heap.meta.as_mut() }.live += 1;
        heap.live += 1;
        self.used_bytes += u64::from(heap.bytes);
        let handle = Handle::from_bits(heap.first + bit * heap.units);
        let bytes = heap.bytes as usize;
        poison::unpoison(self.ptr(handle), bytes);
        if cfg!(debug_assertions) {
            self.scribble(handle, 0xA5);
        }
        Some(handle)
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, heap: usize) -> Option<Handle> {
        if self.refill(heap) { self.take(heap) } else { None }
    }

    /// Frees a chunk, whatever its class: the span knows.
    ///
    /// # Safety
    /// Nobody uses the chunk's memory afterwards.
    ///
    /// # Panics
    /// When no live chunk starts there.
    #[inline(always)]
    pub(crate) unsafe fn free(&mut self, handle: Handle) {
        let span = handle.bits() >> SPAN_UNITS_LOG2;
        let meta = &mut self.metas[span as usize];
        // SAFETY: a span's heap is set by `open` from an index below HEAPS; unused spans have heap 0.
        let heap = unsafe { self.heaps.get_unchecked_mut(usize::from(meta.heap)) };
        let offset = handle.bits() & (SPAN_UNITS - 1);
        let index = class::divide(offset, heap.reciprocal);
        debug_assert_eq!(index * heap.units as usize, offset as usize, "no chunk starts at {handle:?}");
        let word = match index / 64 {
            // SAFETY: `span < metas.len()` was asserted by the index above, and live bits are committed before metadata.
            low @ 0..LOW_WORDS => unsafe { self.live.get_unchecked_mut(span as usize * LOW_WORDS + low) },
            high => &mut self.live_high[span as usize * LOW_WORDS + high - LOW_WORDS],
        };
        let rest = *word & !(1 << (index % 64));
        if rest == *word {
            not_live(handle);
        }
        *word = rest;
        meta.live -= 1;
        heap.live -= 1;
        self.used_bytes -= u64::from(heap.bytes);
        if meta.live < meta.live_low {
            self.file(span);
        }
    }

    /// Overwrites a chunk, so that debug builds notice uses of stale or uninitialised memory.
    fn scribble(&mut self, handle: Handle, byte: u8) {
        let bytes = self.chunk_bytes(handle);
        // SAFETY: called for a chunk just handed out (not yet seen by the caller) or about to be freed (no longer used).
        unsafe { self.ptr(handle).write_bytes(byte, bytes) };
    }

    /// As [`Chunks::free`], with the chunk overwritten in debug builds, and poisoned for AddressSanitizer.
    ///
    /// # Safety
    /// As for [`Chunks::free`].
    #[inline(always)]
    pub(crate) unsafe fn free_scribbled(&mut self, handle: Handle) {
        if cfg!(debug_assertions) && self.is_live(handle) {
            self.scribble(handle, 0xDD);
        }
        // SAFETY: the caller's promise.
        unsafe { self.free(handle) }
        if cfg!(slab_asan) {
            poison::poison(self.ptr(handle), self.chunk_bytes(handle));
        }
    }

    /// Chunk size of the span that a handle points into.
    pub(crate) fn chunk_bytes(&self, handle: Handle) -> usize {
        let meta = &self.metas[(handle.bits() >> SPAN_UNITS_LOG2) as usize];
        self.heaps[usize::from(meta.heap)].bytes as usize
    }

    /// Whether a live chunk starts at a handle; any bits are allowed.
    pub(crate) fn is_live(&self, handle: Handle) -> bool {
        let span = (handle.bits() >> SPAN_UNITS_LOG2) as usize;
        if span >= self.metas.len() {
            return false;
        }
        let heap = &self.heaps[usize::from(self.metas[span].heap)];
        let offset = handle.bits() & (SPAN_UNITS - 1);
        let index = class::divide(offset, heap.reciprocal);
        index < usize::from(heap.capacity)
            && index * heap.units as usize == offset as usize
            && self.live_word(span, index / 64) >> (index % 64) & 1 == 1
    }

    /// A word of the live bits of a span that is committed.
    #[inline]
    pub(crate) fn live_word(&self, span: usize, in_span: usize) -> u64 {
        let (words, at) = self.live_at(span, in_span);
        words[at]
    }

    #[inline]
    fn live_at(&self, span: usize, in_span: usize) -> (&Table<u64>, usize) {
        match in_span {
            0..LOW_WORDS => (&self.live, span * LOW_WORDS + in_span),
            _ => (&self.live_high, span * LOW_WORDS + in_span - LOW_WORDS),
        }
    }

    /// Finds the heap a word with a free chunk. False: no memory.
    fn refill(&mut self, heap: usize) -> bool {
        loop {
            if self.heaps[heap].span != 0 {
                if self.next_word(heap) {
                    return true;
                }
                self.retire(heap);
            }
            let Some(span) = self.find_span(heap) else { return false };
            self.activate(heap, span);
        }
    }

    /// Moves on to a word of the active span that has a free chunk: the next one in address order, then, once around, those before;
    /// advances the frontier if there is none. False: the span is full.
    fn next_word(&mut self, heap: usize) -> bool {
        let Heap { span, mask, first, units, .. } = self.heaps[heap];
        let frontier = usize::from(self.metas[span as usize].frontier);
        let words = frontier.div_ceil(64);
        // A span just activated has no current word yet: start at the lowest.
        let after = if mask == 0 { 0 } else { (first & (SPAN_UNITS - 1)) as usize / (64 * units as usize) + 1 };
        let has_room =
            |&in_span: &usize| span::frontier_mask(frontier, in_span) & !self.live_word(span as usize, in_span) != 0;
        let in_span = match (after..words).chain(0..after).find(has_room) {
            Some(in_span) => in_span,
            None if self.advance_frontier(heap) => frontier / 64,
            None => return false,
        };
        let frontier = usize::from(self.metas[span as usize].frontier);
        let (words, at) = self.live_at(span as usize, in_span);
        let word = words.pointer(at);
        let heap = &mut self.heaps[heap];
        heap.mask = span::frontier_mask(frontier, in_span);
        heap.word = word;
        heap.meta = self.metas.pointer(span as usize);
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^19 spans of 2^13 units")]
        {
            heap.first = (span << SPAN_UNITS_LOG2) + in_span as u32 * 64 * heap.units;
        }
        true
    }

    /// Hands the active span about one more page of chunks. False: it has them all.
    fn advance_frontier(&mut self, heap: usize) -> bool {
        let Heap { span, bytes, capacity, ref mut fronted, .. } = self.heaps[heap];
        let (bytes, capacity) = (bytes as usize, usize::from(capacity));
        let meta = &mut self.metas[span as usize];
        let old = usize::from(meta.frontier);
        if old == capacity {
            return false;
        }
        // A page at a time, so that `touched_pages` is what is resident indeed; within one word of live bits.
        let new = (old + (PAGE_BYTES / bytes).max(1)).min((old / 64 + 1) * 64).min(capacity);
        *fronted += (new - old) as u64;
        meta.frontier = u16::try_from(new).expect("at most 4096 chunks a span");
        let touched = span::pages(new * bytes).max(meta.touched_pages);
        self.resident_pages += u64::from(touched - meta.touched_pages);
        meta.touched_pages = touched;
        true
    }

    /// Takes the active span away from the heap and files it by its fill.
    pub(crate) fn retire(&mut self, heap: usize) {
        let heap = &mut self.heaps[heap];
        let span = std::mem::take(&mut heap.span);
        (heap.mask, heap.word, heap.meta) = (0, self.live.pointer(0), self.metas.pointer(0));
        self.file(span);
    }

    /// Files a span of whatever state where its fill says: a bin, the full ones, or the empty ones. Also the slow path of `free`.
    #[cold]
    #[inline(never)]
    pub(crate) fn file(&mut self, span: u32) {
        let meta = &mut self.metas[span as usize];
        let heap = usize::from(meta.heap);
        let SpanMeta { live, state, bin, capacity, .. } = *meta;
        match state {
            State::Listed => self.bins[heap][usize::from(bin)].remove(&mut self.metas, span),
            State::Swept => self.unlist_sealed(span),
            _ => {}
        }
        let meta = &mut self.metas[span as usize];
        if live == capacity {
            (meta.state, meta.live_low) = (State::Full, capacity);
            return;
        }
        if live == 0 {
            (meta.state, meta.live_low, meta.stamp_ms) = (State::Empty, 0, self.now_ms);
            self.heaps[heap].spans -= 1;
            self.heaps[heap].fronted -= u64::from(meta.frontier);
            self.empty.push_front(&mut self.metas, span);
            return;
        }
        let quarter = capacity / 4;
        let crumbs_low = capacity - (capacity / 32).max(1) + 1;
        let (bin, live_low) = match live {
            live if live >= crumbs_low => (CRUMBS, crumbs_low),
            live if live >= quarter * 3 => (3, quarter * 3),
            live if live >= quarter * 2 => (2, quarter * 2),
            live if live >= quarter => (1, quarter),
            _ => (0, 1),
        };
        (meta.state, meta.live_low) = (State::Listed, live_low);
        meta.bin = u8::try_from(bin).expect("five bins");
        self.bins[heap][bin].push_front(&mut self.metas, span);
    }

    /// A span for the heap to allocate from: the fullest partial one that has some room, else an empty one, else whatever is left.
    fn find_span(&mut self, heap: usize) -> Option<u32> {
        let bins = self.bins[heap];
        let unlist = |this: &mut Chunks, bin: usize| {
            this.bins[heap][bin].pop_front(&mut this.metas).expect("the bin is not empty")
        };
        if let Some(bin) = (0..CRUMBS).rev().find(|&bin| !bins[bin].is_empty()) {
            return Some(unlist(self, bin));
        }
        if self.heaps[heap].evacuating > 0 && !bins[CRUMBS].is_empty() {
            return Some(unlist(self, CRUMBS));
        }
        if let Some(span) = self.unused_span() {
            if self.has_bits(heap, span) {
                self.open(heap, span);
                return Some(span);
            }
            let list = if self.metas[span as usize].state == State::Empty { &mut self.empty } else { &mut self.clean };
            list.push_front(&mut self.metas, span);
        }
        (!bins[CRUMBS].is_empty()).then(|| unlist(self, CRUMBS))
    }

    /// Whether a span has live bits for all chunks that it would have in this heap; those of the first half are there. False: no memory for them.
    fn has_bits(&mut self, heap: usize, span: u32) -> bool {
        usize::from(self.heaps[heap].capacity) <= LOW_WORDS * 64
            || self.live_high.grow_to((span as usize + 1) * LOW_WORDS)
    }

    /// A span without live chunk: hot ones first, then released ones, then new ones.
    fn unused_span(&mut self) -> Option<u32> {
        self.take_passed_unit();
        if let Some(span) = self.empty.pop_front(&mut self.metas).or_else(|| self.clean.pop_front(&mut self.metas)) {
            return Some(span);
        }
        let mut span = self.metas.len();
        if span.is_multiple_of(SPANS_PER_UNIT) && self.ahead.is_at_work_on(span / SPANS_PER_UNIT) {
            // Goes on behind it; the thread works on one unit at a time, so on none of those that follow.
            if !self.grow_to(span + SPANS_PER_UNIT) {
                return None;
            }
            self.passed_unit = Some(span / SPANS_PER_UNIT);
            span += SPANS_PER_UNIT;
        }
        if !self.grow_to(span + 1) {
            return None;
        }
        self.look_ahead(span);
        Some(u32::try_from(span).expect("at most 2^19 spans"))
    }

    /// Makes spans below `spans` usable. False: no room.
    fn grow_to(&mut self, spans: usize) -> bool {
        // Live bits before metadata: `free` relies on it.
        let grown = self.commit.ensure(&self.region, spans * SPAN_BYTES)
            && self.live.grow_to(spans * LOW_WORDS)
            && self.metas.grow_to(spans);
        if grown && let Some(peek) = &self.peek {
            peek.committed(spans * SPAN_BYTES);
        }
        grown
    }

    /// For looking at chunks from other threads.
    pub(crate) fn peek(&mut self) -> Arc<Peek> {
        let spans = self.metas.len();
        Arc::clone(self.peek.get_or_insert_with(|| Arc::new(Peek::new(&self.region, spans * SPAN_BYTES))))
    }

    /// Makes an unused span one of the heap.
    fn open(&mut self, heap: usize, span: u32) {
        poison::poison(self.ptr(Handle::from_bits(span << SPAN_UNITS_LOG2)), SPAN_BYTES);
        let Heap { bytes, capacity, ref mut spans, ref mut fronted, .. } = self.heaps[heap];
        let meta = &mut self.metas[span as usize];
        debug_assert!(meta.live == 0 && matches!(meta.state, State::Clean | State::Empty));
        // Pages still resident from its last use serve at once.
        let frontier = (usize::from(meta.touched_pages) * PAGE_BYTES / bytes as usize).min(usize::from(capacity));
        *spans += 1;
        *fronted += frontier as u64;
        meta.capacity = capacity;
        meta.frontier = u16::try_from(frontier).expect("at most 4096 chunks a span");
        meta.heap = u8::try_from(heap).expect("fewer than 256 heaps");
    }

    fn activate(&mut self, heap: usize, span: u32) {
        let meta = &mut self.metas[span as usize];
        (meta.state, meta.live_low, meta.stuck) = (State::Active, 0, 0);
        self.heaps[heap].span = span;
    }

    /// Gives the resident pages of an empty span back. The span is in no list.
    pub(crate) fn discard(&mut self, span: u32) {
        let meta = &mut self.metas[span as usize];
        debug_assert!(meta.live == 0 && meta.state == State::Empty);
        let touched = std::mem::take(&mut meta.touched_pages);
        meta.state = State::Clean;
        self.resident_pages -= u64::from(touched);
        let start = span as usize * SPAN_BYTES;
        self.ahead.leave_small(&self.region, span as usize / SPANS_PER_UNIT);
        // SAFETY: no chunk of the span is live, so nobody holds a reference into it.
        unsafe { self.region.discard(start, start + usize::from(touched) * PAGE_BYTES) };
        self.clean.push_front(&mut self.metas, span);
    }

    /// Bytes of metadata in use, without the struct itself.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.live.used_bytes() + self.live_high.used_bytes() + self.metas.used_bytes() + size_of_val(&*self.bins)
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        // The addresses may serve others.
        poison::unpoison(self.region.base(), self.metas.len() * SPAN_BYTES);
    }
}

#[cold]
#[inline(never)]
fn not_live(handle: Handle) -> ! {
    panic!("double free: no live chunk at {handle:?}")
}
