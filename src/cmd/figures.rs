//! What the server tells of itself, gathered from all shards and all workers: for INFO, MEMORY, and whoever else shows it. Owns no state.

use super::ctx::{Ctx, Stats};
use super::profile::Report;
use crate::base::cpu;
use crate::db::Shard;
use dolmen_slab::Kind;
use std::collections::BTreeMap;

/// The name of what allocates data.
pub const MEM_ALLOCATOR: &str = concat!("dolmen-slab-", env!("CARGO_PKG_VERSION"));

/// Of all shards and all workers.
pub struct Figures {
    pub stats: Stats,
    /// Separated by commas, in the order of the workers.
    pub clients_per_worker: String,
    pub data: DataFigures,
    pub databases: Vec<DatabaseFigures>,
    /// What each command has taken; empty if nobody has asked for it.
    pub report: Report,
    /// What waits for the thread of the append-only file. It does not count for eviction.
    pub log_bytes: u64,
}

/// Of all shards together.
#[derive(Default)]
pub struct DataFigures {
    pub used_bytes: u64,
    pub overhead_bytes: u64,
    pub heap_bytes: u64,
    pub resident_bytes: u64,
    pub metadata_bytes: u64,
    pub fragmented_bytes: u64,
    /// Of blobs, in extents that are in use.
    pub blob_bytes: u64,
    pub blobs: u64,
    pub blob_kept_bytes: u64,
    pub blob_resident_bytes: u64,
    pub lazy_pending: usize,
    pub lazy_freed: u64,
    pub hits: u64,
    pub misses: u64,
    pub expired: u64,
    pub expired_fields: u64,
    pub evicted: u64,
    pub defrag: DefragFigures,
    /// By size and kind.
    pub classes: BTreeMap<(usize, &'static str), ClassFigures>,
}

/// Of moving memory: see `ShardStats`.
#[derive(Default)]
pub struct DefragFigures {
    pub relocated: u64,
    pub left: u64,
    pub keys_relocated: u64,
    pub keys_left: u64,
    /// Shards at it now.
    pub running: u64,
    /// The longest of any shard, up to now, and of the present runs.
    pub total_ms: u64,
    pub current_ms: u64,
}

impl DefragFigures {
    fn add(&mut self, shard: &Shard, now_ms: u64) {
        let stats = &shard.stats;
        self.relocated += stats.relocated;
        self.left += stats.left;
        self.keys_relocated += stats.keys_relocated;
        self.keys_left += stats.keys_left;
        self.running += u64::from(shard.is_defragmenting());
        let current_ms = stats.defrag_since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms));
        self.current_ms = self.current_ms.max(current_ms);
        self.total_ms = self.total_ms.max(stats.defrag_ms + current_ms);
    }
}

/// Of one class of chunks.
#[derive(Clone, Copy, Default)]
pub struct ClassFigures {
    pub spans: usize,
    pub live: usize,
    pub free: usize,
    /// In pages that the system has given.
    pub resident: u64,
}

/// Of one database.
#[derive(Clone, Copy, Default)]
pub struct DatabaseFigures {
    pub keys: usize,
    pub expires: u64,
    pub table_bytes: u64,
    pub deadlines_bytes: u64,
}

/// Where memory is, in bytes.
pub struct MemoryFigures {
    pub used: u64,
    pub peak: u64,
    pub startup: u64,
    /// Of `used`, what is data rather than structure, buffers, or clients.
    pub dataset: u64,
    /// What the slabs have handed out; what their pages with something live could hold; what of theirs is resident, records included.
    pub allocated: u64,
    pub active: u64,
    pub mapped: u64,
    /// Of the process.
    pub resident: u64,
    pub machine: u64,
}

impl MemoryFigures {
    #[must_use]
    pub fn overhead(&self) -> u64 {
        self.used - self.dataset
    }
}

impl Figures {
    /// Looks at all shards, one after the other, and at the board of the workers.
    pub fn of(ctx: &mut Ctx<'_>, report: Report) -> Figures {
        let mut data = DataFigures::default();
        let mut databases = vec![DatabaseFigures::default(); ctx.db.databases()];
        let now_ms = ctx.db.now_ms();
        ctx.db.each_shard(|shard| {
            let (slab, blobs) = (shard.slab(), shard.slab().blob_stats());
            data.used_bytes += shard.used_bytes();
            data.overhead_bytes += shard.overhead_bytes();
            data.heap_bytes += shard.heap_bytes();
            data.resident_bytes += slab.resident_estimate_bytes();
            data.metadata_bytes += slab.overhead_bytes();
            data.fragmented_bytes += shard.fragmented_bytes();
            data.blobs += blobs.blobs;
            data.blob_bytes += blobs.used_bytes;
            data.blob_kept_bytes += blobs.kept_bytes;
            data.blob_resident_bytes += blobs.resident_bytes;
            for class in slab.class_stats() {
                let kind = match class.kind {
                    Kind::Item => "item",
                    Kind::Interior => "interior",
                };
                let sum = data.classes.entry((class.class_bytes, kind)).or_default();
                sum.spans += class.spans;
                sum.live += class.live_chunks;
                sum.free += class.free_chunks;
                sum.resident += class.resident_chunks;
            }
            data.lazy_pending += shard.lazy_pending();
            data.lazy_freed += shard.stats.lazy_freed;
            data.hits += shard.stats.hits;
            data.misses += shard.stats.misses;
            data.expired += shard.stats.expired;
            data.expired_fields += shard.stats.expired_fields;
            data.evicted += shard.stats.evicted;
            data.defrag.add(shard, now_ms);
            for (sum, database) in databases.iter_mut().zip(shard.databases()) {
                sum.keys += database.len();
                sum.expires += database.expires();
                sum.table_bytes += database.table_bytes();
                sum.deadlines_bytes += database.deadlines_bytes();
            }
        });
        ctx.stats.clients = ctx.clients.alive() as u64;
        let clients_per_worker = ctx.fleet.each(ctx.stats, |stats| stats.clients.to_string()).join(",");
        let log_bytes = ctx.store.log.pending_bytes();
        let stats = ctx.fleet.total(ctx.stats);
        let mut figures = Figures { stats, clients_per_worker, data, databases, report, log_bytes };
        // Otherwise only looked at from time to time; nobody shall see it fall.
        let used = figures.used_bytes();
        figures.stats.used_bytes_peak = figures.stats.used_bytes_peak.max(used);
        ctx.stats.used_bytes_peak = figures.stats.used_bytes_peak;
        figures
    }

    fn used_bytes(&self) -> u64 {
        self.data.used_bytes + self.data.heap_bytes + self.stats.held_bytes() + self.log_bytes
    }

    #[must_use]
    pub fn keys(&self) -> usize {
        self.databases.iter().map(|database| database.keys).sum()
    }

    #[must_use]
    pub fn memory(&self, ctx: &Ctx<'_>) -> MemoryFigures {
        let data = &self.data;
        let chunks: u64 = data.classes.iter().map(|((bytes, _), class)| class.resident * *bytes as u64).sum();
        MemoryFigures {
            used: self.used_bytes(),
            peak: self.stats.used_bytes_peak,
            startup: ctx.facts.start_used_bytes,
            // What lies in the slab is data and structure; a little of the structure lies on the heap.
            dataset: data.used_bytes + data.heap_bytes - data.overhead_bytes,
            allocated: data.used_bytes,
            active: chunks + data.blob_bytes,
            mapped: data.resident_bytes + data.metadata_bytes,
            resident: cpu::resident_bytes(),
            machine: cpu::machine_bytes(),
        }
    }
}

/// One part of a whole; of nothing, of 1.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "it is shown to people")]
    let ratio = part as f64 / whole.max(1) as f64;
    ratio
}

#[must_use]
pub fn difference(a: u64, b: u64) -> i64 {
    a.cast_signed() - b.cast_signed()
}
