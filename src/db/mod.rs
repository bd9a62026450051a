//! Keys to typed values: the only place where expiry and WRONGTYPE are decided.
//!
//! A [`Shard`] owns the memory of its part of the keyspace: one slab and, for each database, a table and an expiry wheel. A [`Db`] is
//! the view of one database that a command works on: it carries the time of the command, so that a command sees one instant.
//! Knows nothing of replies, clients or sockets.
//!
//! Invariant on which the unsafe code here and in `item` rests: **a handle in a table of a shard is a live item of that shard's slab,
//! and nothing else keeps an item's handle across calls.**
pub mod access;
pub mod any;
pub mod background;
pub mod bits;
pub mod collections;
pub mod containers;
pub mod event;
pub mod evict;
mod fields;
mod glance;
pub mod hold;
pub mod item;
pub mod journal;
pub mod keyspace;
pub mod listeners;
mod locks;
pub mod marks;
pub mod saving;
mod smart;
mod snapshot;
mod strings;
mod sweep;
#[cfg(test)]
mod tests;
pub mod tracking;
pub mod transfer;
pub mod view;
pub mod waiters;
pub mod watch;
pub mod wheel;

use crate::table::{Entries, Site, Table};
use dolmen_slab::{AllocError, BlobId, Handle, Slab};
pub use item::{Key, NewValue, Type, Value};
pub use keyspace::{Access, Alone, Fetch, Keyspace, Locate, Shared};
pub use snapshot::Snapshot;
use std::collections::VecDeque;
pub use strings::Plain;
pub use view::Db;
use wheel::Wheel;

/// What went wrong inside the keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DbError {
    /// The key holds another type.
    WrongType,
    /// No memory for what was to be written; nothing was changed.
    OutOfMemory,
    /// The value is no integer that fits 64 bits, in the canonical form.
    NotAnInteger,
    /// The result of an addition does not fit 64 bits.
    Overflow,
    /// The value would be longer than `proto-max-bulk-len` allows.
    TooLong,
}

impl From<AllocError> for DbError {
    fn from(_: AllocError) -> DbError {
        DbError::OutOfMemory
    }
}

/// Counters of a shard; monotone.
#[derive(Clone, Copy, Default, Debug)]
pub struct ShardStats {
    pub hits: u64,
    pub misses: u64,
    /// Keys deleted because their deadline had passed.
    pub expired: u64,
    /// Fields of hashes removed because their deadlines had passed.
    pub expired_fields: u64,
    /// Keys deleted to make room.
    pub evicted: u64,
    /// Chunks moved to give memory back: items, and what containers and tables are made of.
    pub relocated: u64,
    /// Chunks looked at for that, and left where they are.
    pub left: u64,
    /// Keys of which something was moved, and those that were looked at in vain. A big container counts with each sweep.
    pub keys_relocated: u64,
    pub keys_left: u64,
    /// Time for which memory was being moved, in milliseconds, up to the last begin; and when that was, while it goes on.
    pub defrag_ms: u64,
    pub defrag_since_ms: Option<u64>,
    /// Keys of flushed databases and large values that were given back after their deletion.
    pub lazy_freed: u64,
}

/// One database of a shard.
pub struct Database {
    table: Table,
    wheel: Option<Box<Wheel>>,
    /// Items with a deadline.
    expires: u64,
    /// When hashes lose fields; `None`: no field has a deadline.
    fields: Option<Box<fields::FieldDeadlines>>,
}

impl Database {
    fn new(seed: u64) -> Database {
        Database { table: Table::new(seed), wheel: None, expires: 0, fields: None }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Keys with a deadline.
    #[must_use]
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// Bytes of its table.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.table.table_bytes() as u64
    }

    /// Bytes of what knows of deadlines: those of keys, and those of fields.
    #[must_use]
    pub fn deadlines_bytes(&self) -> u64 {
        self.wheel.as_ref().map_or(0, |w| w.bytes()) + self.fields.as_ref().map_or(0, |f| f.heap_bytes())
    }
}

/// Says where keys of one database are to be looked for.
#[derive(Clone, Copy)]
pub struct Locator<'s> {
    table: &'s Table,
    slab: &'s Slab,
    seed: u64,
}

impl Locator<'_> {
    /// A key with its hash and its site, whose line is fetched.
    #[inline(always)]
    #[must_use]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let hash = crate::base::hash::hash_key(self.seed, bytes);
        Key { bytes, hash, site: self.table.site(self.slab, hash) }
    }
}

impl keyspace::Locate for Locator<'_> {
    #[inline(always)]
    fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Locator::key(self, bytes)
    }

    #[inline(always)]
    fn key_outlined<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Locator::key_outlined(self, bytes)
    }

    #[inline(always)]
    fn epoch(&self) -> u64 {
        Locator::epoch(self)
    }
}

impl Locator<'_> {
    /// The sites of this locator are good for look-ups while the database's table has this epoch ([`Db::located_at`]).
    #[inline(always)]
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.table.epoch()
    }

    /// `key` as a call: inlined into a loop that seldom runs twice, the hash's constants would be made ready for nothing.
    #[inline(never)]
    #[must_use]
    pub fn key_outlined<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.key(bytes)
    }
}

/// How the table asks for the hash of an item.
#[derive(Clone, Copy)]
struct ItemHash {
    seed: u64,
}

impl Entries for ItemHash {
    #[inline]
    fn hash(&self, slab: &Slab, h: Handle) -> u64 {
        item_at(slab, h).hash(self.seed)
    }
}

/// The item of a handle that came from a table.
#[inline(always)]
#[allow(unsafe_code)]
fn item_at(slab: &Slab, h: Handle) -> item::Item<'_> {
    // SAFETY: handles in a table are live items of the shard's slab (module invariant); this function is private to `db`, whose
    // callers take `h` from the table of the same shard.
    unsafe { item::Item::at(slab, h) }
}

/// A part of the keyspace with its own memory.
pub struct Shard {
    slab: Slab,
    seed: u64,
    databases: Box<[Database]>,
    /// Databases above this were never looked at: most servers have one in use.
    databases_used: usize,
    /// The slab has more to give back.
    release_due: bool,
    /// Databases that were flushed, emptied in slices.
    detached: VecDeque<Database>,
    /// Databases that were flushed under an open snapshot; they follow when it is closed.
    viewed: Vec<Database>,
    /// Snapshots ever opened, and those that are open.
    snapshots: u64,
    snapshots_open: u32,
    /// All databases as they were at one instant, on their way out.
    saving: Option<Box<saving::Saving>>,
    /// Keys in `detached` that were not freed yet.
    lazy_pending: usize,
    /// Databases ever put into `detached`, and drained; a FLUSHALL SYNC waits until they meet.
    detached_total: u64,
    drained_total: u64,
    evacuation: Option<dolmen_slab::Victim>,
    sweep: sweep::Sweep,
    /// When memory is moved.
    pub defrag: crate::base::defrag::Defrag,
    /// Where the look for items that were not used for long goes on.
    aging: access::Walk,
    eviction: evict::Eviction,
    /// What of `data_bytes` the account of all shards has been told of (`Keyspace::data_bytes`).
    told_bytes: u64,
    /// It is told of more when it is off by so much.
    tell_bytes: u64,
    containers: containers::Containers,
    /// The last number given to a value for memcached (`marks`), 0: none yet.
    last_cas: u64,
    /// Its place among the shards.
    number: u64,
    /// For changing packed containers.
    scratch: Vec<u8>,
    /// Of the encodings that containers tell.
    pub limits: crate::types::Limits,
    pub stats: ShardStats,
    /// Expired keys go that nobody asks for (DEBUG SET-ACTIVE-EXPIRE).
    pub active_expire: bool,
    pub holds: hold::Holds,
    pub waiters: waiters::Waiters,
    watches: watch::Watches,
    pub listeners: listeners::Listeners,
    /// Lets any two keys count as those of different shards.
    #[cfg(test)]
    pub apart: bool,
}

impl Shard {
    /// A shard of `databases` empty databases.
    ///
    /// # Errors
    /// If the address space cannot be reserved.
    pub fn new(databases: usize, seed: u64, config: dolmen_slab::Config) -> std::io::Result<Shard> {
        Ok(Shard {
            slab: Slab::new(config)?,
            seed,
            databases: (0..databases).map(|_| Database::new(seed)).collect(),
            databases_used: 0,
            release_due: false,
            detached: VecDeque::new(),
            viewed: Vec::new(),
            snapshots: 0,
            snapshots_open: 0,
            saving: None,
            lazy_pending: 0,
            detached_total: 0,
            drained_total: 0,
            evacuation: None,
            sweep: sweep::Sweep::default(),
            defrag: crate::base::defrag::Defrag::default(),
            aging: access::Walk::default(),
            eviction: evict::Eviction::new(seed),
            told_bytes: 0,
            tell_bytes: locks::TELL_BYTES_MAX,
            containers: containers::Containers::default(),
            last_cas: 0,
            number: 0,
            scratch: Vec::new(),
            limits: crate::types::Limits::default(),
            stats: ShardStats::default(),
            active_expire: true,
            holds: hold::Holds::default(),
            waiters: waiters::Waiters::default(),
            watches: watch::Watches::default(),
            listeners: listeners::Listeners::default(),
            #[cfg(test)]
            apart: false,
        })
    }

    /// The view of database `index` at the Unix time `now_ms`.
    #[inline(always)]
    pub fn db(&mut self, index: usize, now_ms: u64) -> Db<'_> {
        Db::new(self, index, now_ms)
    }

    #[must_use]
    pub fn databases(&self) -> &[Database] {
        &self.databases
    }

    #[must_use]
    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// The hash of a key in this keyspace.
    #[inline(always)]
    #[must_use]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: crate::base::hash::hash_key(self.seed, bytes), site: Site::NONE }
    }

    /// What a parser needs to say where keys of a database are.
    #[inline(always)]
    #[must_use]
    pub fn locator(&self, database: usize) -> Locator<'_> {
        Locator { table: &self.databases[database].table, slab: &self.slab, seed: self.seed }
    }

    /// A hint that `hash` will be looked up soon: brings its bucket.
    #[inline(always)]
    pub fn prefetch(&self, database: usize, hash: u64) {
        self.databases[database].table.prefetch(&self.slab, hash);
    }

    /// A hint that `hash` will be looked up next: brings the items that may be meant.
    #[inline(always)]
    pub fn prefetch_items(&self, database: usize, hash: u64) {
        self.databases[database].table.prefetch_entries(&self.slab, hash);
    }

    /// The same from a site of this shard that was made a while ago, in whichever database.
    #[inline(always)]
    pub fn prefetch_items_at(&self, site: Site, hash: u64) {
        site.prefetch_entries(&self.slab, hash);
    }

    /// Bytes of all data, tables and wheels, exact.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.slab.used_bytes()
    }

    /// What of `used_bytes` data takes that keys can give up: without what only views and readers keep, or waits to be freed.
    #[inline(always)]
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        let kept_bytes = if self.snapshots_open == 0 { self.slab.blob_stats().kept_bytes } else { self.kept_bytes() };
        self.used_bytes().saturating_sub(kept_bytes)
    }

    /// Bytes of the data's structure rather than the data: tables and wheels.
    #[must_use]
    pub fn overhead_bytes(&self) -> u64 {
        let of = |d: &Database| d.table_bytes() + d.deadlines_bytes();
        self.databases.iter().chain(&self.detached).chain(&self.viewed).map(of).sum()
    }

    /// The part of `overhead_bytes` that does not lie in the slab.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        let fields = |d: &Database| d.fields.as_ref().map_or(0, |f| f.heap_bytes());
        let of =
            |d: &Database| d.table.heap_bytes() as u64 + d.wheel.as_ref().map_or(0, |w| w.heap_bytes()) + fields(d);
        let tables: u64 = self.databases.iter().chain(&self.detached).chain(&self.viewed).map(of).sum();
        let smart = self.eviction.smart.as_ref().map_or(0, |smart| smart.heap_bytes());
        smart + tables + self.containers.heap_bytes() + self.scratch.capacity() as u64
    }

    /// Is there work for `background` that should not wait for the next sweep?
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        !self.detached.is_empty()
            || self.containers.has_work()
            || self.slab.has_frees()
            || self.viewed.iter().any(|database| database.table.has_retired() || !database.table.has_views())
            || self.databases[..self.databases_used].iter().any(|database| database.table.has_work())
    }

    // ---- large values on their way in ----

    /// A blob that will receive a value of `len_bytes`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn blob_new(&mut self, len_bytes: usize) -> Result<BlobId, DbError> {
        Ok(self.slab.blob_new(len_bytes)?)
    }

    /// The next contiguous room of a blob that is being received.
    ///
    /// # Errors
    /// If there is no room.
    pub fn blob_spare(&mut self, id: BlobId) -> Result<&mut [u8], DbError> {
        Ok(self.slab.blob_spare(id)?)
    }

    pub fn blob_advance(&mut self, id: BlobId, bytes: usize) {
        self.slab.blob_advance(id, bytes);
    }

    /// Appends to a blob that is being received.
    ///
    /// # Errors
    /// If there is no room.
    pub fn blob_append(&mut self, id: BlobId, bytes: &[u8]) -> Result<(), DbError> {
        Ok(self.slab.blob_append(id, bytes)?)
    }

    /// Gives up a blob that became no value.
    pub fn blob_release(&mut self, id: BlobId) {
        self.slab.blob_release(id);
    }
}
