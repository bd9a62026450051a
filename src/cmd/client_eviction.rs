//! `maxmemory-clients`: when what clients hold is over it, those that hold most are disconnected. Owns who is picked; knows nothing of connections.
//!
//! Whichever worker sees that it may be over begins a **round**, of which there is one at a time. Every worker goes through its clients, in slices, and
//! says what those that may go hold together, and which hold most. Who is through last picks: the largest first, until the rest is within the
//! limit. The next round begins when all that were picked have gone, so nobody goes for memory that is on its way back already.
//!
//! Clients with CLIENT NO-EVICT neither go nor count. What is received in place for a value counts to its client until the value is complete.

use super::client::{Client, mark};
use super::ctx::Budget;
use super::fleet::{Errand, Fleet, Local};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// As many go in one round, of each worker, at most.
const LARGEST: usize = 64;
/// How long a round that found nothing to do is good for, unless clients hold more by a part of the limit meanwhile.
const SETTLED_MS: u64 = 100;
const SETTLED_PARTS: u64 = 64;

/// Rounds, as all workers know of them.
#[derive(Default)]
pub struct ClientEviction(Mutex<Round>);

#[derive(Default)]
struct Round {
    is_on: bool,
    /// Clients that were picked and have not gone yet.
    leaving: usize,
    /// The last round had nothing to do.
    settled: Option<Settled>,
}

struct Settled {
    held_bytes: u64,
    limit_bytes: u64,
    until_ms: u64,
}

impl Settled {
    fn is_about(&self, held_bytes: u64, limit_bytes: u64) -> bool {
        self.limit_bytes == limit_bytes && held_bytes < self.held_bytes.saturating_add(limit_bytes / SETTLED_PARTS)
    }
}

impl ClientEviction {
    /// What of `held_bytes` leaves less room to data. What is over the limit is on its way out, unless a round has found that it is not: no key has to go for it.
    #[must_use]
    pub fn lasting_bytes(&self, held_bytes: u64, limit_bytes: u64) -> u64 {
        if limit_bytes == 0 || held_bytes <= limit_bytes {
            return held_bytes;
        }
        let stays = self.round().settled.as_ref().is_some_and(|settled| settled.is_about(held_bytes, limit_bytes));
        if stays { held_bytes } else { limit_bytes }
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clients hold `held_bytes`, at most, which is above the limit: shall the caller begin a round?
    fn begins(&self, held_bytes: u64, limit_bytes: u64, now_ms: u64) -> bool {
        let mut round = self.round();
        let is_settled = round
            .settled
            .as_ref()
            .is_some_and(|settled| settled.is_about(held_bytes, limit_bytes) && now_ms < settled.until_ms);
        let begins = !round.is_on && !is_settled;
        round.is_on |= begins;
        begins
    }

    /// The round that was begun ends with so many clients on their way out.
    fn picked(&self, clients: usize, settled: Option<Settled>) {
        let mut round = self.round();
        round.leaving = clients;
        round.is_on = clients > 0;
        round.settled = settled;
    }

    /// One of those that were picked has gone, and what it held is not counted any more.
    pub fn one_has_gone(&self) {
        let mut round = self.round();
        round.leaving = round.leaving.saturating_sub(1);
        round.is_on = round.leaving > 0;
    }
}

/// A client that holds much: bytes, id, worker.
type Large = (u64, u64, usize);

/// What the workers have found.
struct Findings {
    held_bytes: u64,
    limit_bytes: u64,
    now_ms: u64,
    /// Of clients that may go.
    total_bytes: Mutex<(u64, Vec<Large>)>,
    missing: AtomicUsize,
}

/// May it be disconnected to make room?
fn may_go(client: &Client) -> bool {
    !client.is(mark::NO_EVICT) && !client.is_killed()
}

/// Begins a round if one is due, with `held_bytes` held by all clients at most. The errand is the caller's own part.
pub fn begin(fleet: &Fleet, held_bytes: u64, limit_bytes: u64, now_ms: u64) -> Option<Errand> {
    if !fleet.client_eviction().begins(held_bytes, limit_bytes, now_ms) {
        return None;
    }
    let findings = Arc::new(Findings {
        held_bytes,
        limit_bytes,
        now_ms,
        total_bytes: Mutex::default(),
        missing: AtomicUsize::new(fleet.workers()),
    });
    fleet.tell_others(|| look(Arc::clone(&findings)));
    Some(look(findings))
}

/// A worker's part of a round.
fn look(findings: Arc<Findings>) -> Errand {
    let (mut seen, mut total_bytes) = (0, 0);
    let mut largest: BinaryHeap<Reverse<Large>> = BinaryHeap::new();
    Box::new(move |local: &mut Local<'_>, budget: &mut Budget| {
        while let Some((_, client)) = local.clients.after(seen) {
            seen = client.id;
            if may_go(client) {
                let bytes = client.memory_bytes();
                total_bytes += bytes;
                largest.push(Reverse((bytes, client.id, local.fleet.me())));
                if largest.len() > LARGEST {
                    largest.pop();
                }
            }
            if budget.is_spent(64) {
                return false;
            }
        }
        {
            let mut found = findings.total_bytes.lock().unwrap_or_else(PoisonError::into_inner);
            found.0 += total_bytes;
            found.1.extend(largest.drain().map(|Reverse(large)| large));
        }
        if findings.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            pick(local, &findings);
        }
        true
    })
}

/// All workers have looked: says who goes.
fn pick(local: &mut Local<'_>, findings: &Findings) {
    let (mut left_bytes, mut largest) =
        std::mem::take(&mut *findings.total_bytes.lock().unwrap_or_else(PoisonError::into_inner));
    largest.sort_unstable_by(|a, b| b.cmp(a));
    let mut picked = vec![Vec::new(); local.fleet.workers()];
    for (bytes, id, worker) in largest {
        if left_bytes <= findings.limit_bytes {
            break;
        }
        left_bytes -= bytes;
        picked[worker].push((id, bytes));
    }
    let count = picked.iter().map(Vec::len).sum();
    let settled = (count == 0).then(|| Settled {
        held_bytes: findings.held_bytes,
        limit_bytes: findings.limit_bytes,
        until_ms: findings.now_ms + SETTLED_MS,
    });
    local.fleet.client_eviction().picked(count, settled);
    for (worker, clients) in picked.into_iter().enumerate().filter(|(_, clients)| !clients.is_empty()) {
        if worker == local.fleet.me() {
            disconnect(local, &clients);
        } else {
            local.fleet.tell(
                worker,
                Box::new(move |local, _| {
                    disconnect(local, &clients);
                    true
                }),
            );
        }
    }
}

/// Has clients of this worker go; those that have gone by themselves meanwhile are told of.
fn disconnect(local: &mut Local<'_>, clients: &[(u64, u64)]) {
    for (id, bytes) in clients {
        let alive = |index: &u32| !local.clients.get(*index).is_killed();
        let Some(index) = local.clients.index_of(*id).filter(alive) else {
            local.fleet.client_eviction().one_has_gone();
            continue;
        };
        log::info!("Client id={id} addr={} evicted: it held {bytes} bytes", local.clients.get(index).remote());
        local.clients.get_mut(index).set_mark(mark::EVICTED, true);
        local.clients.kill(index);
        local.asks.kill.push(*id);
        local.stats.evicted_clients += 1;
    }
    local.stats.clients = local.clients.alive() as u64;
    local.fleet.publish(local.stats);
}
