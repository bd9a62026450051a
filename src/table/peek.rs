//! Finding a key's memory without the lock of its shard, for prefetches that run ahead of it.
//!
//! The owner mirrors the root of its directory here, a word or two whenever a page moves; pages and buckets are read where they lie
//! (`dolmen_slab::Peek`), while the owner may be rewriting them. So everything read here is a hint: a word may be torn, stale, or of another
//! life of its memory. It leads to a prefetch of the wrong line at worst, as each step checks that there is memory where it leads.
//! Whoever has the lock looks up anew.

use super::Site;
use super::group::{SLOTS, matches_in_words};
use super::raw::{PageRef, tag_of, top, unpacked_home};
use dolmen_slab::{Handle, Peek};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words of a root that are mirrored: enough for some 45 million entries in each shard. Beyond that nothing is fetched ahead.
const WORDS_MAX: usize = 64;
/// `shift` of a root that is not mirrored: it leads to word 0, which then names no page.
const NOWHERE: u32 = 32;

/// The mirror of a table's root. One for each table that others look at; a table that takes the place of another takes it over.
pub struct Mirror {
    /// 32 less the root's bits.
    shift: AtomicU32,
    words: [AtomicU64; WORDS_MAX],
}

impl Default for Mirror {
    fn default() -> Mirror {
        Mirror { shift: AtomicU32::new(NOWHERE), words: [const { AtomicU64::new(0) }; WORDS_MAX] }
    }
}

impl Mirror {
    /// Shows `root`, which has `32 - shift` bits, to those who look.
    pub(super) fn show(&self, root: &[PageRef], shift: u32) {
        let fits = root.len() <= WORDS_MAX;
        self.shift.store(if fits { shift } else { NOWHERE }, Ordering::Relaxed);
        for (word, i) in self.words.iter().zip(0..) {
            let page = if fits { root.get(i).map_or(0, |page| page.bits_word()) } else { 0 };
            if word.load(Ordering::Relaxed) != page {
                word.store(page, Ordering::Relaxed);
            }
        }
    }

    /// Where the search for `hash` would begin. Fetches that line.
    #[inline(always)]
    #[must_use]
    pub fn site(&self, memory: &Peek, hash: u64) -> Site {
        let prefix = top(hash);
        #[expect(clippy::cast_possible_truncation, reason = "a 32-bit word shifted right")]
        let index = (u64::from(prefix) >> (self.shift.load(Ordering::Relaxed) & 63)) as usize;
        // (The mask is for a shift that is newer than the words, or older.)
        let page = PageRef::from_bits_word(self.words[index & (WORDS_MAX - 1)].load(Ordering::Relaxed));
        let Some(home) = page.racing_word(memory, prefix).and_then(|word| unpacked_home(word, prefix)) else {
            return Site::NONE;
        };
        memory.prefetch(home);
        Site(home)
    }
}

/// Fetches the entries at a site that may have this hash. For when `Mirror::site` has had its time.
#[inline(always)]
pub fn prefetch_entries_at(memory: &Peek, site: Site, hash: u64) {
    if site.is_none() {
        return;
    }
    let (Some(low), Some(high)) = (memory.word(site.0, 0), memory.word(site.0, 1)) else { return };
    for slot in matches_in_words(low, high, tag_of(top(hash))) {
        debug_assert!(slot < SLOTS);
        // Two handles a word, behind the two words of tags.
        if let Some(pair) = memory.word(site.0, 2 + slot / 2) {
            #[expect(clippy::cast_possible_truncation, reason = "one half of the word")]
            let handle = (pair >> (32 * (slot % 2))) as u32;
            memory.prefetch(Handle::from_bits(handle));
        }
    }
}
