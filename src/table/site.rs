//! Where the search for a hash begins, kept between the stages of a batch: while parsing, the site is made and its line fetched; then the
//! entries it names are fetched; then the command looks up, without walking the directory a second and third time.
//!
//! A site is a hint for prefetching whatever happens to the table, and good for `find_home` as long as `epoch` has not changed: it counts
//! every allocation and release of a segment, hence every rewrite.

use super::Table;
use super::peek::Mirror;
use super::raw::{self, First, Home, top};
use dolmen_slab::{Handle, Slab};
use std::sync::Arc;

/// The home bucket of a hash, as an address in the slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site(pub(super) Handle);

impl Site {
    /// Of a table without memory, and of a key that was not looked at.
    pub const NONE: Site = Site(Handle::NULL);

    #[inline(always)]
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// Fetches the entries here that may have this hash. For when the site's line has had its time.
    #[inline(always)]
    pub fn prefetch_entries(self, slab: &Slab, hash: u64) {
        if !self.is_none() {
            raw::prefetch_matches(slab, self.0, top(hash));
        }
    }
}

impl Table {
    /// Changes whenever a site made before may be wrong.
    #[inline(always)]
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.directory.epoch()
    }

    /// Sets a table that takes another's place apart from it. Who looks from outside sees this one from now on.
    pub fn succeed(&mut self, other: &mut Table) {
        self.directory.set_epoch(other.epoch() + 1);
        self.directory.set_mirror(other.directory.take_mirror());
    }

    /// Two tables have changed places: who looks at a place from outside sees the one that is there now.
    pub fn swap_mirrors(&mut self, other: &mut Table) {
        let (own, others) = (self.directory.take_mirror(), other.directory.take_mirror());
        self.directory.set_mirror(others);
        other.directory.set_mirror(own);
    }

    /// From now on other threads may look at the table without its lock, see [`Mirror`].
    pub fn mirror(&mut self, mirror: Arc<Mirror>) {
        self.directory.set_mirror(Some(mirror));
    }

    /// Sets a table that changes places with another apart from what both were.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.directory.set_epoch(epoch);
    }

    /// Where the search for `hash` begins. Fetches that line.
    #[inline(always)]
    #[must_use]
    pub fn site(&self, slab: &Slab, hash: u64) -> Site {
        let prefix = top(hash);
        match self.directory.segment(slab, prefix) {
            Some(segment) => {
                let line = segment.home_line(prefix);
                slab.prefetch(line);
                Site(line)
            }
            None => Site::NONE,
        }
    }

    /// What a single look finds, from a site made for this hash at the current epoch.
    #[inline(always)]
    #[must_use]
    pub fn first_home(&self, slab: &Slab, site: Site, hash: u64) -> First {
        debug_assert!(!site.is_none());
        raw::first_home(slab, site.0, top(hash))
    }

    /// The first step of `find`, from a site made for this hash at the current epoch: looks at the home bucket only.
    #[inline(always)]
    pub fn find_home(&self, slab: &Slab, site: Site, hash: u64, eq: impl FnMut(Handle) -> bool) -> Home {
        debug_assert!(!site.is_none());
        match raw::find_home(slab, site.0, top(hash), eq) {
            Home::Found(slot) => Home::Found(slot.stamped(self.stamp())),
            other => other,
        }
    }
}
