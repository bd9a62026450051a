//! Huge pages, faulted in ahead of use by a thread of its own, one for all slabs of the process.
//!
//! With 4 KiB pages a random access over a large heap misses the TLB as well as the caches, and in a virtual machine such a miss is dearer
//! than the data's. With 2 MiB pages it does not. But the first touch of a huge page zeroes all of it, which takes from 0.3 ms to 20 ms: so
//! it must not happen where requests are served. Here it happens on a thread of low priority. If it is not done in time, the
//! allocator goes on behind the unit, with small pages, and comes back.
//!
//! Small heaps stay on small pages, and one unit at most is faulted in but unused, so that little memory is spent on it. A unit of which a span was
//! given back has small pages from then on. A unit that is not begun within the time after which unused memory is given back is given back as well, as no
//! growth goes on, and asked for anew with the next span that is begun: else a list of 10 MB would have 2 MiB on top for ever.
//!
//! ```text
//!   | small pages, START_BYTES | unit | unit | unit in use, 3/4 full | unit faulted in ahead | address space ...
//!                                                     ^ asks for the next one
//! ```
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

use crate::chunks::{Chunks, SPAN_PAGES, SPANS_PER_UNIT};
use crate::region::{HUGE_BYTES, Mapping};
use crate::release;

/// Below this offset a region has small pages.
const START_BYTES: usize = 4 << 20;
pub(crate) const START_UNIT: usize = START_BYTES / HUGE_BYTES;

/// What the thread and the allocator tell each other.
struct Shared {
    /// Units from `START_UNIT` to here are faulted in, but for those that were never asked for.
    done: AtomicUsize,
    /// The unit in which the allocator has begun last.
    begun: AtomicUsize,
    /// A request waits or is at work.
    busy: AtomicBool,
}

/// The allocator's side.
pub(crate) struct Ahead {
    shared: Arc<Shared>,
    /// The highest unit that was asked for, but for one that was given back, and when (slab clock).
    asked: usize,
    asked_ms: u32,
    /// Units that have the advice for huge pages, a bit each.
    advised: Vec<u64>,
    enabled: bool,
}

impl Ahead {
    pub(crate) fn new(enabled: bool) -> Ahead {
        // AddressSanitizer would take the thread's touch for a use of memory that is poisoned meanwhile.
        let enabled = enabled && !cfg!(slab_asan);
        let shared =
            Shared { done: AtomicUsize::new(START_UNIT), begun: AtomicUsize::new(0), busy: AtomicBool::new(false) };
        Ahead { shared: Arc::new(shared), asked: START_UNIT - 1, asked_ms: 0, advised: Vec::new(), enabled }
    }

    /// Was this unit faulted in before it was begun?
    pub(crate) fn is_ready(&self, unit: usize) -> bool {
        (START_UNIT..self.shared.done.load(Ordering::Acquire)).contains(&unit)
    }

    /// Is this unit being faulted in? Whoever touched it now would fault in the huge page himself.
    pub(crate) fn is_at_work_on(&self, unit: usize) -> bool {
        unit == self.asked && self.shared.busy.load(Ordering::Acquire)
    }

    /// Bytes that are faulted in and not begun.
    pub(crate) fn unused_bytes(&self) -> usize {
        let begun = self.shared.begun.load(Ordering::Relaxed).max(START_UNIT - 1);
        (self.shared.done.load(Ordering::Acquire).saturating_sub(begun + 1)) * HUGE_BYTES
    }

    /// The allocator begins to use `unit`.
    pub(crate) fn begin(&self, unit: usize) {
        self.shared.begun.fetch_max(unit, Ordering::Relaxed);
    }

    /// Should `unit` be asked for? Not while the thread is at work: committing the unit would wait for it.
    pub(crate) fn wants(&self, unit: usize) -> bool {
        self.enabled && unit >= START_UNIT && unit > self.asked && !self.shared.busy.load(Ordering::Acquire)
    }

    /// A part of the unit is given back: from now on it has small pages. Else the kernel would in time make a huge page of it again, however few of its
    /// pages are in use, and all that was given back would be resident once more.
    pub(crate) fn leave_small(&mut self, region: &Mapping, unit: usize) {
        if let Some(word) = self.advised.get_mut(unit / 64)
            && *word >> (unit % 64) & 1 == 1
        {
            *word &= !(1 << (unit % 64));
            region.advise_small(unit * HUGE_BYTES);
        }
    }

    /// Gives the unit back that is faulted in and not begun, if that has been so since `is_long_ago`.
    pub(crate) fn give_back(&mut self, region: &Mapping, is_long_ago: impl FnOnce(u32) -> bool) {
        let unit = self.asked;
        let is_done = unit >= START_UNIT && self.shared.done.load(Ordering::Acquire) == unit + 1;
        let is_begun = self.shared.begun.load(Ordering::Relaxed) >= unit;
        if !is_done || is_begun || !is_long_ago(self.asked_ms) {
            return;
        }
        // No longer ready, and without the advice: if it is begun before it is asked for again, it has small pages.
        self.shared.done.store(unit, Ordering::Release);
        self.asked = unit - 1;
        self.leave_small(region, unit);
        // SAFETY: no span of the unit was begun, so nobody has a reference into it; the thread is through with it.
        unsafe { region.discard(unit * HUGE_BYTES, (unit + 1) * HUGE_BYTES) };
    }

    /// Has a unit faulted in. It is committed, nobody has touched it, and nobody will before it is done (`is_at_work_on`).
    ///
    /// The advice is given here rather than on the thread: it locks the address space for a moment, and the thread may be kept from running
    /// while it holds the lock.
    pub(crate) fn ask(&mut self, region: &Arc<Mapping>, unit: usize, now_ms: u32) {
        (self.asked, self.asked_ms) = (unit, now_ms);
        let Some(requests) = requests() else {
            self.enabled = false;
            return;
        };
        if region.advise_huge(unit * HUGE_BYTES).is_err() {
            // A system without huge pages.
            self.enabled = false;
            return;
        }
        if self.advised.len() <= unit / 64 {
            self.advised.resize(unit / 64 + 1, 0);
        }
        self.advised[unit / 64] |= 1 << (unit % 64);
        self.shared.busy.store(true, Ordering::Release);
        // The thread lives as long as the process.
        let _ = requests.send(Request { shared: Arc::clone(&self.shared), region: Arc::clone(region), unit });
    }
}

impl Chunks {
    /// The spans of a unit that was passed, because it was being faulted in, serve now that it is done.
    pub(crate) fn take_passed_unit(&mut self) {
        let Some(unit) = self.passed_unit.filter(|unit| !self.ahead.is_at_work_on(*unit)) else { return };
        self.passed_unit = None;
        let ready = self.ahead.is_ready(unit);
        for span in (unit * SPANS_PER_UNIT..(unit + 1) * SPANS_PER_UNIT).rev() {
            if ready {
                self.metas[span].touched_pages = SPAN_PAGES;
                self.resident_pages += u64::from(SPAN_PAGES);
            }
            self.clean.push_front(&mut self.metas, u32::try_from(span).expect("at most 2^19 spans"));
        }
    }

    /// Span `span` is used for the first time: takes note if its pages are there already, and has the next unit of huge pages made.
    pub(crate) fn look_ahead(&mut self, span: usize) {
        let unit = span / SPANS_PER_UNIT;
        if span.is_multiple_of(SPANS_PER_UNIT) {
            self.ready_unit = self.ahead.is_ready(unit).then_some(unit);
            self.ahead.begin(unit);
        }
        if self.ready_unit == Some(unit) {
            self.metas[span].touched_pages = SPAN_PAGES;
            self.resident_pages += u64::from(SPAN_PAGES);
        }
        let late = span % SPANS_PER_UNIT >= SPANS_PER_UNIT * 3 / 4;
        if late && self.ahead.wants(unit + 1) && self.commit.ensure(&self.region, (unit + 2) * HUGE_BYTES) {
            self.ahead.ask(&self.region, unit + 1, self.now_ms);
        }
    }

    /// Gives back what was faulted in ahead and not used for `decay_ms`.
    pub(crate) fn release_ahead(&mut self, decay_ms: u32) {
        let now_ms = self.now_ms;
        self.ahead.give_back(&self.region, |asked_ms| release::is_due(now_ms, asked_ms, decay_ms));
    }

    /// Bytes faulted in ahead of use.
    pub(crate) fn ahead_bytes(&self) -> usize {
        self.ahead.unused_bytes()
    }
}

/// A unit to fault in, and whom to tell. The slab may be gone by then: the request keeps its mapping.
struct Request {
    shared: Arc<Shared>,
    region: Arc<Mapping>,
    unit: usize,
}

/// Where requests go. The thread starts with the first one; `None` if it cannot.
fn requests() -> Option<&'static Sender<Request>> {
    static REQUESTS: OnceLock<Option<Sender<Request>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = channel::<Request>();
        let thread = std::thread::Builder::new().name("pages".into()).stack_size(64 << 10);
        let serve = move || {
            be_nice();
            for Request { shared, region, unit } in receiver {
                region.touch_huge(unit * HUGE_BYTES);
                shared.done.store(unit + 1, Ordering::Release);
                shared.busy.store(false, Ordering::Release);
            }
        };
        thread.spawn(serve).ok().map(|_| sender)
    };
    REQUESTS.get_or_init(start).as_ref()
}

/// How much less of a contended CPU this thread takes than one of normal priority: a tenth. Not the class that runs only when nobody else
/// does: on one CPU, beside a worker that is always busy, that one waited for 0.6 s while 20 MiB were filled.
const NICENESS: i32 = 10;

/// Whoever serves requests comes first, also on a machine with one CPU.
fn be_nice() {
    // SAFETY: affects the calling thread only (0 is it, on Linux). If it is refused, the thread competes as others do.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}
