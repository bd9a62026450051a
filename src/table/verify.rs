//! Walks a whole table and checks every invariant there is. For tests and debug builds: the time is linear.

use super::directory::DEPTH_MAX;
use super::group::SLOTS;
use super::raw::{OVERFLOW_MAX, PAGE_BITS_MAX, top};
use super::{Entries, Table};
use dolmen_slab::Slab;

impl Table {
    /// # Panics
    /// If anything is wrong.
    pub fn verify(&self, slab: &Slab, entries: &impl Entries) {
        self.verify_directory(slab);
        self.verify_segments(slab, entries);
    }

    fn verify_directory(&self, slab: &Slab) {
        let root = self.directory.root();
        assert!(root.is_empty() || root.len().is_power_of_two());
        let (mut bytes, mut depth_max, mut page_depth_max) = (0, 0, 0);
        let mut at = 0;
        while let Some(&page) = root.get(at) {
            let run = root.len() >> page.depth();
            assert!(run > 0 && at % run == 0, "a page's words in the root are aligned");
            assert!(root[at..at + run].iter().all(|other| *other == page), "all words of a run in the root are equal");
            assert!(page.bits() <= PAGE_BITS_MAX);
            at += run;
            bytes += Slab::class_bytes(page.bytes());
            page_depth_max = page_depth_max.max(page.depth());
            let mut deepest = 0;
            let mut index = 0;
            while index < page.len() {
                let first = page.get(slab, index);
                assert!(
                    first.depth >= page.depth()
                        && first.depth <= page.depth() + page.bits()
                        && first.depth <= DEPTH_MAX
                );
                let run = 1 << page.run_bits(first.depth);
                assert_eq!(index % run, 0, "a run in a page is aligned");
                for other in index + 1..index + run {
                    assert_eq!(
                        page.get(slab, other),
                        first.uncounted(),
                        "all words of a run are equal, but only the first counts"
                    );
                }
                index += run;
                bytes += first.bytes();
                deepest = deepest.max(first.depth);
            }
            assert_eq!(index, page.len());
            assert_eq!(deepest, page.depth() + page.bits(), "a page is no larger than its deepest segment needs");
            depth_max = depth_max.max(deepest);
        }
        if !root.is_empty() {
            assert_eq!(root.len(), 1 << page_depth_max, "the root is no larger than its deepest page needs");
        }
        assert_eq!(depth_max, self.directory.depth_max());
        assert_eq!(bytes, self.directory.slab_bytes());
    }

    fn verify_segments(&self, slab: &Slab, entries: &impl Entries) {
        let mut len = 0;
        let mut next_prefix = 0u64;
        for place in self.directory.places(slab) {
            let segment = place.segment;
            assert!(segment.buckets() <= self.buckets_max.max(1));
            let start = u32::try_from(next_prefix).expect("segments cover the prefixes once");
            next_prefix += 1 << (32 - segment.depth);
            let mut passed = vec![0u32; segment.buckets() as usize];
            let mut count = 0;
            for index in 0..segment.buckets() {
                for slot in segment.bucket(slab, index).occupied() {
                    let handle = segment.bucket(slab, index).handle(slot);
                    let hash = entries.hash(slab, handle);
                    let prefix = top(hash);
                    assert!(prefix >= start && u64::from(prefix) < next_prefix, "an entry lies in its own segment");
                    assert!(
                        segment.bucket(slab, index).group().matches(super::tag_of(prefix)).contains(slot),
                        "its tag is its hash's"
                    );
                    let mut step = segment.home(prefix);
                    while step != index {
                        passed[step as usize] += 1;
                        step = segment.next(step);
                    }
                    assert!(self.find_handle(slab, hash, handle).is_some(), "and it is found");
                    count += 1;
                }
                let vacant = segment.bucket(slab, index).occupied().inverse();
                for slot in vacant {
                    assert_eq!(segment.bucket(slab, index).eviction(slot), 0, "an empty slot has no eviction bits");
                    assert!(segment.bucket(slab, index).handle(slot).is_null());
                }
            }
            assert_eq!(count, segment.count);
            assert!(count <= segment.buckets() * SLOTS);
            len += count as usize;
            for (index, &passed) in (0..).zip(&passed) {
                let overflow = segment.bucket(slab, index).overflow();
                // A saturated count stays until the segment is rewritten.
                assert!(
                    overflow == passed || overflow == OVERFLOW_MAX,
                    "bucket {index}: {overflow} counted, {passed} passed"
                );
            }
        }
        if !self.directory.is_empty() {
            assert_eq!(next_prefix, 1 << 32);
        }
        assert_eq!(len, self.len);
    }
}
