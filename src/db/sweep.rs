//! Giving back the memory that sparse spans of interior chunks keep resident: nodes, segments, elements of containers. Such a chunk does not tell
//! whose it is, so all structures of the shard are walked over, in slices, and offer what they hold (`dolmen_slab`: sweeps). Owns the
//! walk, and when it is worth it; how memory is moved is the structures'. (Items are found from their chunks: `background`.)
//!
//! ```text
//!  Idle ── worth it ──▶ Seal ──▶ Tables ──▶ Containers ──▶ Unseal ──▶ Idle, for some time
//! ```
//! Nothing is begun under a snapshot, and what a view sees stays. What the walk does not reach (blocks of expiry wheels, databases and containers that
//! are being emptied) goes by itself in time.

#[cfg(test)]
mod tests;

use super::{ItemHash, Shard};
use crate::base::defrag::Defrag;
use dolmen_slab::Slice;

/// What a unit may look at and move: some 20 us of either.
const LOOKS: usize = 512;
const MOVE_BYTES: usize = 16 * 1024;
/// Spans sealed or unsealed in a unit.
const SPANS: usize = 64;
/// Between two sweeps is so many times as long as the last one took, at least and at most so long: one that began while the worker was busy took
/// long, and there may be more to give back now. One that emptied less than half of what it has sealed is followed by a longer rest: there is
/// something that does not move now.
const REST_TIMES: u64 = 4;
const REST_MS_MIN: u64 = 500;
const REST_MS_MAX: u64 = 5_000;
const VAIN_REST_TIMES: u64 = 32;
const VAIN_REST_MS_MIN: u64 = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Stage {
    #[default]
    Idle,
    Seal,
    Tables {
        database: usize,
        cursor: u64,
    },
    Containers {
        number: usize,
        cursor: u64,
        /// Something of the container was moved.
        moved: bool,
    },
    Unseal,
}

/// The walk of a shard, and its account.
#[derive(Default)]
pub(super) struct Sweep {
    stage: Stage,
    /// No other one before.
    rest_until_ms: u64,
    began_ms: u64,
    /// What it is to empty, in bytes, and what it has left.
    sealed_bytes: u64,
    left_bytes: u64,
}

impl Sweep {
    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }
}

impl Shard {
    /// Whether there is so much free room between what is in use that it is to be given back.
    pub(super) fn is_fragmented(&self) -> bool {
        let Defrag { is_on, ignore_bytes, threshold_percent } = self.defrag;
        if !is_on {
            return false;
        }
        if (ignore_bytes, threshold_percent) == (0, 0) {
            return true;
        }
        let free_bytes = self.fragmented_bytes();
        free_bytes >= ignore_bytes && free_bytes >= self.slab.used_bytes() / 100 * threshold_percent
    }

    /// Bytes that moving items and interior chunks would give back now.
    #[must_use]
    pub fn fragmented_bytes(&self) -> u64 {
        self.slab.fragmented_bytes() + self.slab.sparse_bytes()
    }

    /// Memory is being moved.
    #[must_use]
    pub fn is_defragmenting(&self) -> bool {
        self.evacuation.is_some() || !self.sweep.is_idle()
    }

    /// Begins a sweep if one is due; asked some times a second.
    pub(super) fn begin_sweep(&mut self, now_ms: u64) {
        if self.sweep.stage == Stage::Idle
            && now_ms >= self.sweep.rest_until_ms
            && !self.is_snapshotted()
            && self.slab.is_worth_sweeping()
            && self.is_fragmented()
        {
            self.sweep.stage = Stage::Seal;
            self.sweep.began_ms = now_ms;
        }
    }

    /// A unit of the sweep under way; false: there is none.
    pub(super) fn sweep_some(&mut self, now_ms: u64) -> bool {
        let mut slice = Slice::new(LOOKS, MOVE_BYTES);
        self.sweep.stage = match self.sweep.stage {
            Stage::Idle => return false,
            Stage::Seal | Stage::Tables { .. } | Stage::Containers { .. } if !self.defrag.is_on => Stage::Unseal,
            Stage::Seal if self.slab.seal_sparse(SPANS) => Stage::Seal,
            Stage::Seal => {
                self.sweep.sealed_bytes = self.slab.sealed_bytes();
                Stage::Tables { database: 0, cursor: 0 }
            }
            Stage::Tables { database, .. } if database >= self.databases_used => {
                Stage::Containers { number: 0, cursor: 0, moved: false }
            }
            Stage::Tables { database, cursor } => {
                let Shard { slab, databases, seed, .. } = &mut *self;
                let hashes = ItemHash { seed: *seed };
                // Items lie in spans of their own.
                match databases[database].table.relocate(slab, &hashes, cursor, &mut slice, |_, _, _| None) {
                    Some(cursor) => Stage::Tables { database, cursor },
                    None => Stage::Tables { database: database + 1, cursor: 0 },
                }
            }
            Stage::Containers { number, cursor, moved } => self.sweep_containers(number, cursor, moved, &mut slice),
            Stage::Unseal if self.slab.unseal(SPANS) => Stage::Unseal,
            Stage::Unseal => {
                self.rest(now_ms);
                Stage::Idle
            }
        };
        self.stats.relocated += slice.moved;
        self.stats.left += slice.looked - slice.moved;
        !self.sweep.is_idle()
    }

    fn sweep_containers(&mut self, number: usize, cursor: u64, moved: bool, slice: &mut Slice) -> Stage {
        let (mut number, mut cursor, mut moved) = (number, cursor, moved);
        while number < self.containers.slots() {
            if slice.is_used_up() {
                return Stage::Containers { number, cursor, moved };
            }
            let before = slice.moved;
            let next = self.containers.relocate(&mut self.slab, number, cursor, slice);
            moved |= slice.moved > before;
            if let Some(next) = next {
                cursor = next;
                continue;
            }
            let counter = if moved { &mut self.stats.keys_relocated } else { &mut self.stats.keys_left };
            *counter += 1;
            (number, cursor, moved) = (number + 1, 0, false);
        }
        self.sweep.left_bytes = self.slab.sealed_bytes();
        Stage::Unseal
    }

    fn rest(&mut self, now_ms: u64) {
        let Sweep { began_ms, sealed_bytes, left_bytes, .. } = self.sweep;
        let took_ms = now_ms.saturating_sub(began_ms);
        let vain = left_bytes > sealed_bytes / 2;
        let rest_ms = if vain {
            (took_ms * VAIN_REST_TIMES).max(VAIN_REST_MS_MIN)
        } else {
            (took_ms * REST_TIMES).clamp(REST_MS_MIN, REST_MS_MAX)
        };
        self.sweep.rest_until_ms = now_ms + rest_ms;
    }
}
