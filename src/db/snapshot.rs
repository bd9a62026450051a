//! Snapshots: the keys of a database with their values and deadlines as they were at one instant, read in slices while commands go on.
//! Owns who may change an item in place, and which table a snapshot reads; what is kept, and how long, is `table::view`'s.
//!
//! Opening costs the same whatever the size. From then on an item that the snapshot has still to show is not changed in place and not
//! freed: a write puts a copy in its place ([`Db::own`]), and the old chunk stays for the snapshot. A blob is not copied for that: the chunk
//! that stays behind has a pin of it, and extents are copied as they are written to. What the snapshot has gone past costs nothing any more. So
//! memory grows by what changes ahead of the snapshot, and by 7 bytes for each of its neighbours in a segment.
//!
//! A database that is flushed stays, out of reach, until its snapshots are closed.
#![allow(unsafe_code)]

use super::item::{self, Item};
use super::view::{Db, Found, part_with};
use super::{Database, DbError, Shard, item_at};
use crate::table::{View, ViewLost};
use dolmen_slab::{Handle, Kind, Slab};

/// An open snapshot of one database of a shard. To be closed ([`Shard::close_snapshot`]): until then it keeps memory.
#[must_use]
#[derive(Debug)]
pub struct Snapshot(View);

impl Snapshot {
    pub(super) fn view(&self) -> &View {
        &self.0
    }
}

impl Shard {
    /// A snapshot of database `index` as it is now.
    pub fn open_snapshot(&mut self, index: usize) -> Snapshot {
        self.databases_used = self.databases_used.max(index + 1);
        self.snapshots += 1;
        self.snapshots_open += 1;
        Snapshot(self.databases[index].table.open_view(self.snapshots))
    }

    /// Shows the next few items (at most 12) of a snapshot, each once, in no order that is of use. Those whose deadline has passed are among
    /// them, as nobody has looked at them yet. False: those were the last.
    ///
    /// # Errors
    /// [`ViewLost`]: there was no memory to keep the rest as it was.
    pub fn snapshot_next(
        &mut self,
        snapshot: &Snapshot,
        mut visit: impl FnMut(&Slab, Item<'_>),
    ) -> Result<bool, ViewLost> {
        let Shard { slab, databases, viewed, .. } = &mut *self;
        let database = of(databases, viewed, snapshot);
        database.table.view_next(slab, &snapshot.0, |h| visit(slab, item_at(slab, h)))
    }

    /// Bytes that only this snapshot keeps.
    #[must_use]
    pub fn snapshot_bytes(&mut self, snapshot: &Snapshot) -> usize {
        of(&mut self.databases, &mut self.viewed, snapshot).table.view_bytes(&snapshot.0)
    }

    /// Ends a snapshot. What it kept is freed in the background.
    pub fn close_snapshot(&mut self, snapshot: Snapshot) {
        self.snapshots_open -= 1;
        of(&mut self.databases, &mut self.viewed, &snapshot).table.close_view(snapshot.0);
    }

    /// Goes on with databases that were flushed under a snapshot.
    pub(super) fn release_viewed(&mut self) -> bool {
        let mut pending = false;
        let Shard { slab, viewed, containers, .. } = &mut *self;
        for database in viewed {
            let free = |slab: &mut Slab, h| super::view::free_item(slab, containers, h);
            pending |= database.table.release_views(slab, super::background::RETIRED_UNIT, free);
        }
        while let Some(index) = self.viewed.iter().position(|database| !database.table.has_views()) {
            let database = self.viewed.swap_remove(index);
            self.empty_later(database);
            pending = true;
        }
        pending
    }
}

/// The database that a snapshot was opened on, wherever it is by now.
pub(super) fn of<'a>(
    databases: &'a mut [Database],
    viewed: &'a mut [Database],
    snapshot: &Snapshot,
) -> &'a mut Database {
    let found = databases.iter_mut().chain(viewed).find(|database| database.table.has_view(&snapshot.0));
    found.expect("a snapshot of this shard")
}

impl Db<'_> {
    /// Whether a snapshot may see items of this database. (Of the shard: that is one load. What is kept for snapshots that are closed is of
    /// no interest to anybody.)
    #[inline(always)]
    pub(super) fn is_viewed(&self) -> bool {
        self.shard.snapshots_open != 0
    }

    /// Makes an item one that may be changed in place, or whose blob may be: if a snapshot has still to show it, a copy takes its place in the
    /// same slot. Returns its handle.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`]; nothing has changed then.
    ///
    /// Callers ask [`Db::is_viewed`] first, so that the common case is a branch.
    #[cold]
    #[inline(never)]
    pub(super) fn own(&mut self, hash: u64, found: Found) -> Result<Handle, DbError> {
        let Shard { slab, databases, containers, .. } = &mut *self.shard;
        let table = &mut databases[self.index].table;
        if !table.is_seen(slab, hash, found.handle) {
            return Ok(found.handle);
        }
        let bytes = item_at(slab, found.handle).header().item_bytes();
        let to = slab.alloc(bytes, Kind::Item)?;
        // SAFETY: the item is live, and `to` was allocated for its copy.
        if let Err(error) = unsafe { item::succeed(slab, containers, found.handle, to) } {
            // SAFETY: allocated above, and nothing names it.
            unsafe { slab.free(to, bytes) };
            return Err(error.into());
        }
        table.replace_seen(slab, hash, found.slot, to);
        part_with(table, slab, containers, hash, found.handle);
        Ok(to)
    }
}
