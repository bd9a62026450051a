//! Tears a table down in slices: FLUSHALL of millions of entries, deletion of a large container.

use super::Table;
use super::directory::Directory;
use super::growth::Queue;
use super::raw::Segment;
use dolmen_slab::{Handle, Slab};

/// A directory that nobody looks anything up in any more, freed from its end.
pub(super) struct Doomed {
    directory: Directory,
    /// Entries not freed yet.
    len: usize,
    /// Next word of the last page.
    word: u32,
    /// Next bucket of that word's segment.
    bucket: u32,
}

impl Table {
    /// Entries that `drain` has begun with, and not freed yet.
    pub fn draining(&self) -> usize {
        self.doomed.as_ref().map_or(0, |doomed| doomed.len)
    }

    /// Frees up to about `budget_entries` entries (through `free`) and their memory; true if more is left.
    ///
    /// From the first call on the table is empty to all other calls, and may be filled anew; what is still to be freed is counted by
    /// `draining`, and no longer by `len` and `table_bytes`.
    ///
    /// # Panics
    /// When views are open: what they see is not to be freed.
    pub fn drain(&mut self, slab: &mut Slab, budget_entries: usize, mut free: impl FnMut(&mut Slab, Handle)) -> bool {
        assert!(!self.is_viewed(), "drained under an open view");
        if self.release_views(slab, budget_entries, &mut free) {
            return true;
        }
        let mut left = budget_entries;
        loop {
            let Some(doomed) = &mut self.doomed else {
                if self.directory.is_empty() {
                    return false;
                }
                self.restamp();
                let len = std::mem::take(&mut self.len);
                self.buckets_max = 0;
                self.queue = Queue::new();
                let directory = std::mem::replace(&mut self.directory, Directory::new());
                self.doomed = Some(Box::new(Doomed { directory, len, word: 0, bucket: 0 }));
                continue;
            };
            if !doomed.step(slab, &mut left, &mut free) {
                self.doomed = None;
            } else if left == 0 {
                return true;
            }
        }
    }
}

impl Doomed {
    /// Frees the rest of one segment, as far as `left` goes; false if nothing at all is left.
    fn step(&mut self, slab: &mut Slab, left: &mut usize, free: &mut impl FnMut(&mut Slab, Handle)) -> bool {
        let Some(page) = self.directory.last_page() else { return false };
        let segment = page.get(slab, self.word);
        prefetch(slab, segment, self.bucket);
        while self.bucket < segment.buckets() {
            if *left == 0 {
                return true;
            }
            prefetch(slab, segment, self.bucket + 1);
            let occupied = segment.bucket(slab, self.bucket).occupied();
            for slot in occupied {
                let handle = segment.bucket(slab, self.bucket).handle(slot);
                free(slab, handle);
            }
            self.len -= occupied.len() as usize;
            *left = left.saturating_sub(occupied.len().max(1) as usize);
            self.bucket += 1;
        }
        self.bucket = 0;
        self.word += 1 << page.run_bits(segment.depth);
        self.directory.free_segment(slab, segment);
        if self.word == page.len() {
            self.word = 0;
            self.directory.pop_page(slab);
        }
        self.directory.last_page().is_some()
    }
}

/// Fetches the entries of a bucket: they are freed, hence touched, next.
fn prefetch(slab: &Slab, segment: Segment, index: u32) {
    if index < segment.buckets() {
        let bucket = segment.bucket(slab, index);
        for slot in bucket.occupied() {
            slab.prefetch(bucket.handle(slot));
        }
    }
}
