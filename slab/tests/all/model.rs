//! The oracle for chunks: a map of what is live, with contents that betray overlaps.

use std::collections::{BTreeMap, HashMap};

use dolmen_slab::{Handle, Kind, Slab, Slice};
use proptest::test_runner::Config;

/// A live chunk.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    pub bytes: usize,
    pub kind: Kind,
    /// Contents: see `pattern`.
    pub seed: u64,
}

/// A slab and what should be in it.
pub struct Model {
    pub slab: Slab,
    pub live: HashMap<Handle, Chunk>,
    /// Live chunks by handle: start in units, end in units.
    places: BTreeMap<u32, u32>,
    /// Handles in the order of allocation, for picking by index.
    pub order: Vec<Handle>,
    next_seed: u64,
}

/// What a chunk holds: a word that no other chunk holds, repeated.
fn pattern(seed: u64) -> [u8; 8] {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()
}

impl Model {
    pub fn new(slab: Slab) -> Model {
        Model { slab, live: HashMap::new(), places: BTreeMap::new(), order: Vec::new(), next_seed: 1 }
    }

    /// Allocates, checks place and alignment, fills. False when the slab has no room.
    pub fn alloc(&mut self, bytes: usize, kind: Kind) -> bool {
        let Ok(handle) = self.slab.alloc(bytes, kind) else { return false };
        assert!(!handle.is_null());
        let class_bytes = Slab::class_bytes(bytes);
        assert!(class_bytes >= bytes);
        let address = self.slab.ptr(handle).as_ptr().addr();
        assert!(address.is_multiple_of(if class_bytes.is_multiple_of(64) { 64 } else { 8 }));
        let (start, end) = (handle.bits(), handle.bits() + u32::try_from(class_bytes / 8).unwrap());
        assert!(self.places.range(..end).next_back().is_none_or(|(_, &before)| before <= start), "chunks overlap");
        self.places.insert(start, end);
        let seed = self.next_seed;
        self.next_seed += 1;
        self.live.insert(handle, Chunk { bytes, kind, seed });
        self.order.push(handle);
        // SAFETY: the chunk was just allocated with at least that many bytes.
        unsafe { std::slice::from_raw_parts_mut(self.slab.ptr(handle).as_ptr(), bytes) }
            .chunks_mut(8)
            .for_each(|part| part.copy_from_slice(&pattern(seed)[..part.len()]));
        true
    }

    pub fn check(&self, handle: Handle) {
        let Chunk { bytes, seed, .. } = self.live[&handle];
        // SAFETY: live, filled by `alloc` or `relocate`.
        let contents = unsafe { std::slice::from_raw_parts(self.slab.ptr(handle).as_ptr(), bytes) };
        let pattern = pattern(seed);
        assert!(contents.chunks(8).all(|part| part == &pattern[..part.len()]), "contents of {handle:?}");
    }

    /// Frees the chunk at an index of `order`.
    pub fn free_nth(&mut self, index: usize) {
        let handle = self.order.swap_remove(index);
        self.check(handle);
        let chunk = self.live.remove(&handle).unwrap();
        self.places.remove(&handle.bits());
        // SAFETY: live until here, forgotten by the model.
        unsafe { self.slab.free(handle, chunk.bytes) };
    }

    /// Empties victims until none is worth it, moving every chunk but those that `stays` keeps. Returns the number of victims.
    pub fn evacuate(&mut self, mut stays: impl FnMut(Handle) -> bool) -> usize {
        let mut victims = 0;
        while let Some(mut victim) = self.slab.pick_victim() {
            victims += 1;
            while let Some((old, class_bytes)) = self.slab.next_live(&mut victim) {
                let chunk = self.live[&old];
                assert_eq!((chunk.kind, Slab::class_bytes(chunk.bytes)), (Kind::Item, class_bytes));
                if stays(old) {
                    continue;
                }
                self.check(old);
                self.live.remove(&old);
                self.places.remove(&old.bits());
                let new = self.slab.alloc(chunk.bytes, Kind::Item).unwrap();
                // SAFETY: two live chunks of one class.
                unsafe {
                    self.slab.ptr(old).copy_to_nonoverlapping(self.slab.ptr(new), chunk.bytes);
                    self.slab.free(old, chunk.bytes);
                }
                self.live.insert(new, chunk);
                self.places.insert(new.bits(), new.bits() + u32::try_from(class_bytes / 8).unwrap());
            }
            self.slab.finish(victim);
        }
        self.order = self.places.keys().map(|&start| Handle::from_bits(start)).collect();
        victims
    }

    /// Offers a chunk to a sweep.
    pub fn offer(&mut self, slice: &mut Slice, old: Handle) {
        self.check(old);
        let (sealed, used) = (self.slab.is_sealed(old), self.slab.used_bytes());
        // SAFETY: live, and its old handle is forgotten below.
        let moved = unsafe { self.slab.offer(slice, old) };
        assert_eq!((moved.is_some(), self.slab.used_bytes()), (sealed, used), "there is memory");
        if let Some(new) = moved {
            let chunk = self.live.remove(&old).unwrap();
            let end = self.places.remove(&old.bits()).unwrap();
            self.places.insert(new.bits(), new.bits() + end - old.bits());
            assert!(self.live.insert(new, chunk).is_none());
            *self.order.iter_mut().find(|handle| **handle == old).unwrap() = new;
        }
    }

    /// Compares contents and statistics with the model.
    pub fn check_all(&self) {
        self.live.keys().for_each(|&handle| self.check(handle));
        self.check_stats();
    }

    pub fn check_stats(&self) {
        let used_bytes: usize = self.live.values().map(|chunk| Slab::class_bytes(chunk.bytes)).sum();
        assert_eq!(self.slab.used_bytes(), used_bytes as u64);
        let mut classes = HashMap::<(usize, bool), usize>::new();
        for chunk in self.live.values() {
            *classes.entry((Slab::class_bytes(chunk.bytes), chunk.kind == Kind::Item)).or_default() += 1;
        }
        for stats in self.slab.class_stats() {
            let live = classes.remove(&(stats.class_bytes, stats.kind == Kind::Item)).unwrap_or(0);
            assert_eq!(stats.live_chunks, live);
            let capacity = 65536 / stats.class_bytes;
            assert_eq!(stats.free_chunks + live, stats.spans * capacity);
        }
        assert!(classes.is_empty(), "classes without statistics");
        let kept_bytes = self.slab.resident_estimate_bytes();
        assert!(kept_bytes >= self.slab.used_bytes());
    }
}

/// Pages of the region resident by the kernel's account, up to the span after `last`.
pub fn resident_bytes(slab: &Slab, last: Handle) -> u64 {
    let bytes = (last.bits() as usize * 8 / 65536 + 2) * 65536;
    let mut pages = vec![0u8; bytes / 4096];
    // SAFETY: the range starts at the region and is inside its reservation; the vector has a byte for each page.
    let result = unsafe { libc::mincore(slab.ptr(Handle::NULL).as_ptr().cast(), bytes, pages.as_mut_ptr()) };
    assert_eq!(result, 0);
    pages.iter().map(|&page| u64::from(page & 1) * 4096).sum()
}

/// Programs a property test runs: few by default, as each is long. `PROPTEST_CASES` says otherwise (fewer under valgrind, more for a hunt).
pub fn programs() -> Config {
    if std::env::var_os("PROPTEST_CASES").is_some() { Config::default() } else { Config::with_cases(24) }
}

/// Spreads bits: a generator of choices for tests that need many.
pub struct Choices(pub u64);

impl Choices {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((word ^ (word >> 31)) >> 1).unwrap() % bound
    }
}

/// Without huge pages, which come when they like: for tests that count resident pages.
pub fn small_pages() -> dolmen_slab::Config {
    dolmen_slab::Config { huge_pages: false, ..dolmen_slab::Config::default() }
}
