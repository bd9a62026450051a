//! One look for a key: at the first entry of its home bucket that has its tag, and at the header of the item there. That is enough for most; what it
//! does not settle is looked for thoroughly (`Db::find`). Also how a command locates its further keys for that, as the parser does the first.

use super::item::Key;
use super::item_at;
use super::view::Db;
use crate::table::First;
use dolmen_slab::Handle;

/// What one look for a key finds.
pub(super) enum Glance {
    /// This live item.
    At(Handle),
    /// There is no such key.
    Absent,
    /// It must be looked for thoroughly (`Db::find`).
    Other,
}

impl Db<'_> {
    /// Keys are located from now on: those that were before are looked for anew. Returns what is given to `located_at` when they are to be good
    /// again.
    #[inline(always)]
    pub fn locate_anew(&mut self) -> u64 {
        let before = self.epoch;
        self.epoch = match self.locks {
            None => self.shard.databases[self.index].table.epoch(),
            Some(_) => Db::NOT_LOCATED,
        };
        before
    }

    /// A key of the command, whose shard is locked, with its site: its bucket is fetched. With several workers sites are not kept, as each shard
    /// has a table of its own.
    #[inline(always)]
    #[must_use]
    pub fn locate<'k>(&mut self, bytes: &'k [u8]) -> Key<'k> {
        if self.locks.is_none() {
            return self.shard.locator(self.index).key(bytes);
        }
        let key = self.key(bytes);
        self.prefetch(key.hash);
        key
    }

    /// One look at its site for a key whose value is a string of that encoding ([`item::RAW`] or [`item::INT`]), which is enough for most.
    #[inline(always)]
    pub(super) fn glance<const ENCODING: u64>(&mut self, key: Key<'_>) -> Glance {
        self.enter(key.hash);
        let slab = &self.shard.slab;
        let table = &self.shard.databases[self.index].table;
        if key.site.is_none() || table.epoch() != self.epoch {
            return Glance::Other;
        }
        debug_assert_eq!(key.site, table.site(slab, key.hash), "the key's site was made before this view");
        match table.first_home(slab, key.site, key.hash) {
            First::Entry(h) => {
                let item = item_at(slab, h);
                let is_it = item.is_plain::<ENCODING>(key.bytes);
                let is_alive = !item.has_expiry() || item.deadline_ms() > self.now_ms;
                if is_it && is_alive { Glance::At(h) } else { Glance::Other }
            }
            First::Absent => Glance::Absent,
            First::Elsewhere => Glance::Other,
        }
    }
}
