//! Views: the entries of a table as they were at one instant, read once from the first prefix to the last, in slices, while the table goes on.
//! Owns what the views keep (segments, and entries that were taken out meanwhile) and when it may be freed; knows nothing of what an
//! entry is.
//!
//! ```text
//!  prefixes    0            position                                 2^32
//!              ├── given out ──┼──── still to come ────────────────────┤
//!   oldest     .................┤kept├.............┤  kept ├............      its own, else that of the next newer view that has one,
//!   newest     .....................┤ kept ├...........................       else the table's segment, which then has not changed
//!   table      ├────┼────┼────┼────┼────┼────┼────┼────┼────┼────┼────┤
//! ```
//! Opening costs the same whatever the table's size. Before its first change a segment is copied for the newest view that has not passed
//! it; a segment that is rewritten is handed over instead of being freed. Older views find it there. A view that has passed a range, or is
//! closed, hands what it kept of it to the next older view that needs it; what none needs is *retired*, and freed by
//! [`Table::release_views`] in slices.
//!
//! # What the owner of the entries must do
//! With no view open, each of these is one predicted branch on a field of the table, and does nothing.
//! - Before an entry is changed in place: [`Table::is_seen`]; if so, put a copy in its place ([`Table::replace_seen`]) and
//!   change that. Likewise before [`Table::replace`].
//! - After an entry was removed or replaced: [`Table::defer`] instead of freeing it; `false` says that it is to be freed at once.
//! - In the background: [`Table::release_views`].
//!
//! # Invariants
//! - Views lie in `open` in the order in which they were opened. The list of a view has only ranges that begin at its position or later.
//! - If neither view `i` nor a newer one keeps the range of prefix `p`, and `i` has not passed `p`, the table's segment of `p` is as it was
//!   when `i` was opened.
//! - Ranges in a list are disjoint, and parts of the table as it was when that view was opened. A range that comes down from a newer view
//!   is therefore covered as a whole by the older one's, or not at all.
//! - The views that see an entry follow each other (a handle that was taken out never comes back while it is seen): if the newest view
//!   at its prefix does not see it, none does.
//!
//! # Cost while views are open
//! The first change of a segment copies at most some 3 KB; each change looks for the segment among those kept (a search tree). What is kept is in
//! proportion to what changes ahead of the view, never to the table: 7 bytes an entry of each changed segment, and the entries themselves.
//! When there is no memory to keep a segment, the views that would need it are lost ([`ViewLost`]): the change goes on.

use super::raw::{Segment, top};
use super::{Slot, Table};
use dolmen_slab::{Handle, Slab};
use std::collections::BTreeMap;

/// Past the last prefix.
const END: u64 = 1 << 32;
/// An entry of a search tree, as the heap counts it.
const NODE_BYTES: usize = 64;

/// Names an open view. To be closed: until then it keeps memory.
#[must_use]
#[derive(PartialEq, Eq, Debug)]
pub struct View(u64);

/// There was no memory to keep what the view should have shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ViewLost;

/// An entry that is in the table no more, but in a kept segment.
#[derive(Clone, Copy)]
struct Leaving {
    prefix: u32,
    handle: Handle,
    /// At most, since more does not fit.
    bytes: u32,
}

/// A segment as it was, which nobody changes any more.
struct Kept {
    segment: Segment,
    leaving: Vec<Leaving>,
    leaving_bytes: usize,
}

impl Kept {
    fn new(segment: Segment) -> Kept {
        Kept { segment, leaving: Vec::new(), leaving_bytes: 0 }
    }

    fn push(&mut self, entry: Leaving) {
        self.leaving.push(entry);
        self.leaving_bytes += entry.bytes as usize;
    }

    fn contains(&self, slab: &Slab, prefix: u32, handle: Handle) -> bool {
        self.segment.find(slab, prefix, |other| other == handle).is_some()
    }

    fn heap_bytes(&self) -> usize {
        NODE_BYTES + self.leaving.capacity() * size_of::<Leaving>()
    }

    fn bytes(&self) -> usize {
        self.segment.bytes() + self.leaving_bytes + self.heap_bytes()
    }
}

/// Bytes of a list.
#[derive(Clone, Copy, Default)]
struct Bytes {
    all: usize,
    heap: usize,
}

impl Bytes {
    fn add(&mut self, kept: &Kept) {
        self.all += kept.bytes();
        self.heap += kept.heap_bytes();
    }

    fn sub(&mut self, kept: &Kept) {
        self.all -= kept.bytes();
        self.heap -= kept.heap_bytes();
    }

    fn take(&mut self, other: &mut Bytes) {
        let Bytes { all, heap } = std::mem::take(other);
        self.all += all;
        self.heap += heap;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Open,
    Lost,
    /// Hands on what it keeps, in slices.
    Closing,
}

struct Open {
    id: u64,
    state: State,
    /// Prefixes below this were given out (or, when closing, handed on).
    position: u64,
    /// Buckets given out of the segment at `position`.
    bucket: u32,
    /// By first prefix.
    kept: BTreeMap<u32, Kept>,
    bytes: Bytes,
}

impl Open {
    /// What it keeps of the range of a prefix.
    fn at(&self, prefix: u32) -> Option<(u32, &Kept)> {
        let (&start, kept) = self.kept.range(..=prefix).next_back()?;
        (u64::from(prefix) < end(start, kept.segment)).then_some((start, kept))
    }

    fn insert(&mut self, start: u32, kept: Kept) {
        self.bytes.add(&kept);
        let old = self.kept.insert(start, kept);
        debug_assert!(old.is_none(), "a range is kept once");
    }

    fn remove(&mut self, start: u32) -> Option<Kept> {
        let kept = self.kept.remove(&start)?;
        self.bytes.sub(&kept);
        Some(kept)
    }

    /// Keeps an entry as long as the segment that covers its prefix, if it is in there.
    fn defer(&mut self, slab: &Slab, entry: Leaving) -> bool {
        let Some((start, kept)) = self.at(entry.prefix) else { return false };
        if !kept.contains(slab, entry.prefix, entry.handle) {
            return false;
        }
        let Some(kept) = self.kept.get_mut(&start) else { return false };
        self.bytes.sub(kept);
        kept.push(entry);
        self.bytes.add(kept);
        true
    }
}

/// First prefix of the segment that covers `prefix`.
fn start_of(segment: Segment, prefix: u32) -> u32 {
    prefix & !u32::try_from(width(segment) - 1).unwrap_or(u32::MAX)
}

fn width(segment: Segment) -> u64 {
    1 << (32 - segment.depth)
}

fn end(start: u32, segment: Segment) -> u64 {
    u64::from(start) + width(segment)
}

/// The open views of a table, and what is to be freed of those that were.
#[derive(Default)]
pub(super) struct Views {
    /// Oldest first.
    open: Vec<Open>,
    /// Lists and ranges that no view needs.
    retired_lists: Vec<BTreeMap<u32, Kept>>,
    retired: Vec<Kept>,
    retired_bytes: Bytes,
}

impl Views {
    fn index(&self, view: &View) -> usize {
        let index = self.open.iter().position(|open| open.id == view.0 && open.state != State::Closing);
        index.expect("the view is open on this table")
    }

    /// The newest view that a change at `prefix` matters to.
    fn newest_at(&self, prefix: u32) -> Option<usize> {
        self.open.iter().rposition(|open| open.position <= u64::from(prefix))
    }

    /// The newest view that has to keep the segment that begins at `start`, before it changes.
    fn wants(&self, start: u32) -> Option<usize> {
        self.newest_at(start).filter(|&index| self.open[index].at(start).is_none())
    }

    fn sees(&self, slab: &Slab, prefix: u32, handle: Handle) -> bool {
        let Some(newest) = self.newest_at(prefix) else { return false };
        self.open[newest].at(prefix).is_none_or(|(_, kept)| kept.contains(slab, prefix, handle))
    }

    /// View `from` does not need a range any more.
    fn hand_on(&mut self, slab: &Slab, from: usize, start: u32, mut kept: Kept) {
        let older = self.open[..from].iter().rposition(|open| open.position <= u64::from(start));
        if let Some(older) = older
            && self.open[older].at(start).is_none()
        {
            return self.open[older].insert(start, kept);
        }
        // Older views have kept this range before; some of what has left since is in there.
        if from > 0 {
            kept.leaving.retain(|&entry| {
                let older = self.open[..from].iter().rposition(|open| open.position <= u64::from(entry.prefix));
                let deferred = older.is_some_and(|older| self.open[older].defer(slab, entry));
                kept.leaving_bytes -= if deferred { entry.bytes as usize } else { 0 };
                !deferred
            });
        }
        self.retired_bytes.add(&kept);
        self.retired.push(kept);
    }

    /// There is no memory to keep the segment that begins at `start`, which `newest` wanted.
    #[cold]
    fn lose(&mut self, slab: &Slab, newest: usize, start: u32) {
        let unaware = |open: &Open| open.position <= u64::from(start) && open.at(start).is_none();
        let lost: Vec<usize> = (0..=newest).rev().filter(|&index| unaware(&self.open[index])).collect();
        for &index in &lost {
            self.open[index].position = END;
            if self.open[index].state == State::Open {
                self.open[index].state = State::Lost;
            }
        }
        for index in lost {
            while let Some((&start, _)) = self.open[index].kept.first_key_value()
                && let Some(kept) = self.open[index].remove(start)
            {
                self.hand_on(slab, index, start, kept);
            }
        }
    }

    /// Hands on what closing views keep, `budget` ranges at most.
    fn close_some(&mut self, slab: &Slab, budget: &mut usize) {
        while *budget > 0
            && let Some(index) = self.open.iter().position(|open| open.state == State::Closing)
        {
            let Some((&start, _)) = self.open[index].kept.first_key_value() else {
                self.open.remove(index);
                continue;
            };
            if let Some(kept) = self.open[index].remove(start) {
                *budget -= 1;
                self.open[index].position = end(start, kept.segment);
                self.hand_on(slab, index, start, kept);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn has_retired(&self) -> bool {
        !self.retired.is_empty()
            || !self.retired_lists.is_empty()
            || self.open.is_empty()
            || self.open.iter().any(|open| open.state == State::Closing)
    }

    fn next_retired(&mut self) -> Option<&mut Kept> {
        while self.retired.is_empty()
            && let Some(mut list) = self.retired_lists.pop()
        {
            if let Some((_, kept)) = list.pop_last() {
                self.retired.push(kept);
                self.retired_lists.push(list);
            }
        }
        self.retired.last_mut()
    }
}

impl Table {
    /// Opens a view of the table as it is now. `id` tells it from the other views of this table that are open.
    pub fn open_view(&mut self, id: u64) -> View {
        // What comes into a table without memory replaces no segment that could be kept.
        let position = if self.directory.is_empty() { END } else { 0 };
        let views = self.views.get_or_insert_default();
        debug_assert!(views.open.iter().all(|open| open.id != id));
        let (kept, bytes) = (BTreeMap::new(), Bytes::default());
        views.open.push(Open { id, state: State::Open, position, bucket: 0, kept, bytes });
        View(id)
    }

    /// Views are open, or not yet freed.
    #[inline(always)]
    #[must_use]
    pub fn has_views(&self) -> bool {
        self.views.is_some()
    }

    /// Does `release_views` have something to do?
    #[inline]
    #[must_use]
    pub fn has_retired(&self) -> bool {
        self.views.as_ref().is_some_and(|views| views.has_retired())
    }

    /// Views are open.
    #[must_use]
    pub fn is_viewed(&self) -> bool {
        self.views.as_ref().is_some_and(|views| !views.open.is_empty())
    }

    /// Whether this table is the one that a view was opened on.
    #[must_use]
    pub fn has_view(&self, view: &View) -> bool {
        self.views.as_ref().is_some_and(|views| views.open.iter().any(|open| open.id == view.0))
    }

    /// Visits the next few entries (one bucket, at most 12) that were there when the view was opened, each once, segment by segment in the
    /// order of their prefixes. False: those were the last.
    ///
    /// # Errors
    /// [`ViewLost`]: there was no memory to keep the rest.
    pub fn view_next(&mut self, slab: &Slab, view: &View, visit: impl FnMut(Handle)) -> Result<bool, ViewLost> {
        self.view_look(slab, view, visit)?;
        Ok(self.view_pass(slab, view))
    }

    /// Visits the entries that `view_next` would visit next, and goes no further: they stay as they are until `view_pass`.
    ///
    /// # Errors
    /// As `view_next`.
    pub fn view_look(&self, slab: &Slab, view: &View, mut visit: impl FnMut(Handle)) -> Result<(), ViewLost> {
        let Some(views) = &self.views else { unreachable!("a view of another table") };
        let index = views.index(view);
        if views.open[index].state == State::Lost {
            return Err(ViewLost);
        }
        let Some((segment, _)) = self.view_segment(views, index, slab) else { return Ok(()) };
        let bucket = segment.bucket(slab, views.open[index].bucket);
        bucket.occupied().for_each(|slot| visit(bucket.handle(slot)));
        Ok(())
    }

    /// The segment that a view comes to next, and where it begins; `None`: it has come to its end.
    fn view_segment(&self, views: &Views, index: usize, slab: &Slab) -> Option<(Segment, u32)> {
        let prefix = u32::try_from(views.open[index].position).ok()?;
        let kept = views.open[index..].iter().find_map(|open| open.at(prefix));
        let segment = match kept {
            Some((_, kept)) => kept.segment,
            None => self.directory.segment(slab, prefix).expect("a segment that goes is kept"),
        };
        debug_assert_eq!(start_of(segment, prefix), prefix, "a view goes from segment to segment");
        Some((segment, prefix))
    }

    /// Goes past the entries that `view_look` visits. False: there are no more.
    pub fn view_pass(&mut self, slab: &Slab, view: &View) -> bool {
        let Some(views) = &self.views else { unreachable!("a view of another table") };
        let index = views.index(view);
        let Some((segment, prefix)) = self.view_segment(views, index, slab) else { return false };
        let Some(views) = &mut self.views else { unreachable!("looked at above") };
        let open = &mut views.open[index];
        open.bucket += 1;
        if open.bucket < segment.buckets() {
            let next = segment.bucket(slab, open.bucket);
            next.occupied().for_each(|slot| slab.prefetch(next.handle(slot)));
            return true;
        }
        (open.position, open.bucket) = (end(prefix, segment), 0);
        let more = open.position < END;
        if let Some(kept) = open.remove(prefix) {
            views.hand_on(slab, index, prefix, kept);
        }
        more
    }

    /// There was no memory to keep what the view should have shown; `view_next` fails.
    #[must_use]
    pub fn is_lost(&self, view: &View) -> bool {
        self.views.as_ref().is_some_and(|views| views.open[views.index(view)].state == State::Lost)
    }

    /// Ends a view. What it keeps is freed by `release_views`.
    pub fn close_view(&mut self, view: View) {
        let Some(views) = &mut self.views else { unreachable!("a view of another table") };
        let index = views.index(&view);
        if views.open[..index].iter().all(|older| older.position >= END) {
            let mut open = views.open.remove(index);
            views.retired_bytes.take(&mut open.bytes);
            views.retired_lists.push(open.kept);
        } else {
            views.open[index].state = State::Closing;
        }
    }

    /// Bytes that a view keeps and that would be free without it: segments, entries that have left, and the records of both. What several views
    /// need counts to the newest of them.
    #[must_use]
    pub fn view_bytes(&self, view: &View) -> usize {
        let Some(views) = &self.views else { unreachable!("a view of another table") };
        views.open[views.index(view)].bytes.all
    }

    /// Bytes of all views, with what they have given up and was not freed yet.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.views
            .as_ref()
            .map_or(0, |views| views.retired_bytes.all + views.open.iter().map(|open| open.bytes.all).sum::<usize>())
    }

    /// The part of `kept_bytes` that does not lie in the slab.
    pub(super) fn views_heap_bytes(&self) -> usize {
        self.views
            .as_ref()
            .map_or(0, |views| views.retired_bytes.heap + views.open.iter().map(|open| open.bytes.heap).sum::<usize>())
    }

    /// Whether a view may still come to this entry of the table, so that it must not be changed in place.
    #[inline(always)]
    #[must_use]
    pub fn is_seen(&self, slab: &Slab, hash: u64, h: Handle) -> bool {
        self.views.is_some() && self.is_seen_slow(slab, top(hash), h)
    }

    #[cold]
    #[inline(never)]
    fn is_seen_slow(&self, slab: &Slab, prefix: u32, h: Handle) -> bool {
        self.views.as_ref().is_some_and(|views| views.sees(slab, prefix, h))
    }

    /// As [`Table::replace`], also for an entry that a view sees. The caller goes on with `defer` of the old handle.
    pub fn replace_seen(&mut self, slab: &mut Slab, hash: u64, slot: Slot, h: Handle) {
        if let Some(place) = self.directory.locate(slab, top(hash)) {
            self.keep(slab, place.segment, top(hash));
        }
        self.replace(slot, h);
    }

    /// Takes over an entry that was just removed or replaced, if a view may still come to it: `release_views` will free it. False: the
    /// caller frees it. `bytes` count to the view.
    #[inline(always)]
    #[must_use]
    pub fn defer(&mut self, slab: &Slab, hash: u64, h: Handle, bytes: impl FnOnce() -> u64) -> bool {
        self.views.is_some() && self.defer_slow(slab, top(hash), h, bytes())
    }

    #[cold]
    #[inline(never)]
    fn defer_slow(&mut self, slab: &Slab, prefix: u32, handle: Handle, bytes: u64) -> bool {
        let Some(views) = &mut self.views else { return false };
        let Some(newest) = views.newest_at(prefix) else { return false };
        debug_assert!(views.open[newest].at(prefix).is_some(), "the segment was kept before the entry left");
        let entry = Leaving { prefix, handle, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) };
        views.open[newest].defer(slab, entry)
    }

    /// Copies a segment that is about to change, if a view has to keep it.
    #[cold]
    #[inline(never)]
    pub(super) fn keep(&mut self, slab: &mut Slab, segment: Segment, prefix: u32) {
        let Some(views) = &mut self.views else { return };
        let start = start_of(segment, prefix);
        let Some(newest) = views.wants(start) else { return };
        match segment.copy(slab) {
            Ok(copy) => views.open[newest].insert(start, Kept::new(copy)),
            Err(_) => views.lose(slab, newest, start),
        }
    }

    /// A segment that others have taken the place of: kept, if a view has to, else freed.
    pub(super) fn discard(&mut self, slab: &mut Slab, segment: Segment, prefix: u32) {
        if let Some(views) = &mut self.views {
            let start = start_of(segment, prefix);
            if let Some(newest) = views.wants(start) {
                views.open[newest].insert(start, Kept::new(segment));
                return self.directory.part_with(segment);
            }
        }
        self.directory.free_segment(slab, segment);
    }

    /// Frees what no view needs any more, up to about `budget_entries` entries (through `free`), with their segments; true if more is left.
    pub fn release_views(
        &mut self,
        slab: &mut Slab,
        budget_entries: usize,
        mut free: impl FnMut(&mut Slab, Handle),
    ) -> bool {
        let Some(views) = &mut self.views else { return false };
        let mut left = budget_entries;
        views.close_some(slab, &mut left);
        while left > 0 {
            let Some(kept) = views.next_retired() else { break };
            left -= 1;
            let Some(entry) = kept.leaving.pop() else {
                let segment = kept.segment;
                let kept = views.retired.pop();
                kept.iter().for_each(|kept| views.retired_bytes.sub(kept));
                segment.free(slab);
                continue;
            };
            kept.leaving_bytes -= entry.bytes as usize;
            views.retired_bytes.all -= entry.bytes as usize;
            free(slab, entry.handle);
        }
        if left > 0 && views.open.is_empty() {
            debug_assert!(views.retired_bytes.all == 0 && views.retired_bytes.heap == 0);
            self.views = None;
            if self.len == 0 {
                // An empty table keeps its last segment as long as it is viewed.
                self.ask_for_sweep();
            }
        }
        left == 0
    }
}
