//! Checks every value that is read against what was written.
//!
//! What a key holds is a function of the key and of a version that grows with each write, so nothing but versions is kept. A key is
//! written by one connection only (the key drawn is moved to the nearest that the connection owns), so its writes
//! happen in the order of their versions. A read may then see any version from the last one acknowledged when it was sent to the last
//! one issued when it is answered, and nothing else. Of a key that was not written yet nothing is known, and its reads are not counted as
//! checked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::values::{Sizes, fill};

/// What a request does to its key, as far as it can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Read,
    Write,
    Delete,
    /// Adds one and returns the sum.
    Count,
    Other,
}

/// What is remembered of a request until its answer comes.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    pub key: u32,
    /// Of a read: the version acknowledged when it was sent. Of a write or delete: its own.
    pub version: u32,
    pub role: Role,
}

/// How many wrong values are described; all are counted.
const DESCRIBED_MAX: usize = 10;

/// What is known of each key.
pub struct Ledger {
    keys: Vec<State>,
    sizes: Sizes,
    seed: u64,
    /// Keys may go by themselves, as they expire or are evicted.
    may_vanish: bool,
    pub checked: AtomicU64,
    pub wrong: AtomicU64,
    described: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct State {
    issued: AtomicU32,
    acknowledged: AtomicU32,
    /// The version of the last deletion that was issued.
    deleted: AtomicU32,
    /// The last sum of a counter.
    sum: AtomicI64,
}

const UNKNOWN: i64 = i64::MIN;

impl Ledger {
    pub fn new(keys: usize, sizes: Sizes, seed: u64, may_vanish: bool) -> Ledger {
        let state = || State {
            issued: AtomicU32::new(0),
            acknowledged: AtomicU32::new(0),
            deleted: AtomicU32::new(0),
            sum: AtomicI64::new(UNKNOWN),
        };
        Ledger {
            keys: (0..keys).map(|_| state()).collect(),
            sizes,
            seed,
            may_vanish,
            checked: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            described: Mutex::new(Vec::new()),
        }
    }

    /// The key next to `key` that belongs to connection `own` of `connections`; there are at least as many keys.
    pub fn owned(&self, key: u64, own: u64, connections: u64) -> u64 {
        let moved = key - key % connections + own;
        if moved < self.keys.len() as u64 { moved } else { moved - connections }
    }

    /// A request of this role is about to be sent.
    pub fn issue(&self, key: u64, role: Role) -> Expectation {
        let state = &self.keys[key as usize];
        let version = match role {
            Role::Read => state.acknowledged.load(Ordering::Acquire),
            Role::Write | Role::Delete => {
                let version = state.issued.load(Ordering::Relaxed) + 1;
                if role == Role::Delete {
                    state.deleted.store(version, Ordering::Release);
                }
                state.issued.store(version, Ordering::Release);
                version
            }
            Role::Count | Role::Other => 0,
        };
        Expectation { key: key as u32, version, role }
    }

    /// Appends what a version of a key holds.
    pub fn content(&self, key: u64, version: u32, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + self.size(key, version), 0);
        fill(&mut out[at..], self.mixed(key, version));
    }

    pub fn size(&self, key: u64, version: u32) -> usize {
        self.sizes.draw(&mut SmallRng::seed_from_u64(!self.mixed(key, version)))
    }

    fn mixed(&self, key: u64, version: u32) -> u64 {
        (self.seed ^ key.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_add(u64::from(version) << 32 | u64::from(version))
    }

    /// The answer to a request: a value, or `None` for a miss. (Of writes and deletes only that there is one.) One that was refused with an
    /// error is not told: whether it happened is unknown, and the versions around it remain possible.
    pub fn answered(&self, expectation: Expectation, value: Option<&[u8]>, scratch: &mut Vec<u8>) {
        let state = &self.keys[expectation.key as usize];
        match expectation.role {
            Role::Write | Role::Delete => state.acknowledged.store(expectation.version, Ordering::Release),
            Role::Read => self.check_read(expectation, value, scratch),
            Role::Count => self.check_sum(expectation, value),
            Role::Other => {}
        }
    }

    fn check_read(&self, expectation: Expectation, value: Option<&[u8]>, scratch: &mut Vec<u8>) {
        let Expectation { key, version: oldest, .. } = expectation;
        let state = &self.keys[key as usize];
        let newest = state.issued.load(Ordering::Acquire);
        if oldest == 0 {
            return;
        }
        self.checked.fetch_add(1, Ordering::Relaxed);
        match value {
            None => {
                if state.deleted.load(Ordering::Acquire) < oldest && !self.may_vanish {
                    self.describe(format!(
                        "key {key}: nothing, instead of the value of version {oldest} of {newest}, which was acknowledged and not deleted"
                    ));
                }
            }
            Some(value) => {
                let fits = |version: u32, scratch: &mut Vec<u8>| {
                    scratch.clear();
                    value.len() == self.size(key.into(), version) && {
                        self.content(key.into(), version, scratch);
                        scratch == value
                    }
                };
                if !(oldest..=newest).rev().any(|version| fits(version, scratch)) {
                    // An older one is worth telling apart from garbage.
                    let stale = (1..oldest).rev().take(100).find(|&version| fits(version, scratch));
                    let shown = value[..value.len().min(40)].escape_ascii();
                    let what = stale.map_or(format!("no version of it ({} bytes: {shown})", value.len()), |v| {
                        format!("version {v}")
                    });
                    self.describe(format!("key {key}: {what}, instead of version {oldest} to {newest}"));
                }
            }
        }
    }

    fn check_sum(&self, expectation: Expectation, value: Option<&[u8]>) {
        let key = expectation.key;
        let state = &self.keys[key as usize];
        let sum =
            value.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| digits.parse::<i64>().ok());
        let before = state.sum.load(Ordering::Relaxed);
        if before != UNKNOWN {
            self.checked.fetch_add(1, Ordering::Relaxed);
        }
        match sum {
            Some(sum) => {
                if before != UNKNOWN && sum != before + 1 && !(self.may_vanish && sum == 1) {
                    self.describe(format!("counter {key}: {sum} after {before}"));
                }
                state.sum.store(sum, Ordering::Relaxed);
            }
            None => {
                if before != UNKNOWN && !self.may_vanish {
                    self.describe(format!("counter {key}: no number after {before}"));
                }
            }
        }
    }

    #[cold]
    fn describe(&self, text: String) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        let mut described = self.described.lock().expect("nobody panics with it");
        if described.len() < DESCRIBED_MAX {
            described.push(text);
        }
    }

    pub fn described(&self) -> Vec<String> {
        self.described.lock().expect("nobody panics with it").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(10, Sizes::Range(3, 40), 1, false)
    }

    fn content(ledger: &Ledger, key: u64, version: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        ledger.content(key, version, &mut bytes);
        bytes
    }

    fn wrong_after(ledger: &Ledger, read: Expectation, value: Option<&[u8]>) -> u64 {
        let before = ledger.wrong.load(Ordering::Relaxed);
        ledger.answered(read, value, &mut Vec::new());
        ledger.wrong.load(Ordering::Relaxed) - before
    }

    #[test]
    fn a_read_sees_versions_between_acknowledged_and_issued() {
        let ledger = ledger();
        let unknown = ledger.issue(3, Role::Read);
        let first = ledger.issue(3, Role::Write);
        assert_eq!(first.version, 1);
        assert_eq!(wrong_after(&ledger, unknown, Some(b"whatever was there")), 0);
        ledger.answered(first, None, &mut Vec::new());
        let read = ledger.issue(3, Role::Read);
        let second = ledger.issue(3, Role::Write);
        for (version, wrong) in [(1, 0), (2, 0), (3, 1)] {
            assert_eq!(wrong_after(&ledger, read, Some(&content(&ledger, 3, version))), wrong, "version {version}");
        }
        assert_eq!(wrong_after(&ledger, read, Some(&content(&ledger, 4, 1))), 1, "the value of another key");
        assert_eq!(wrong_after(&ledger, read, None), 1, "nothing");
        ledger.answered(second, None, &mut Vec::new());
        let read = ledger.issue(3, Role::Read);
        assert_eq!(wrong_after(&ledger, read, Some(&content(&ledger, 3, 1))), 1, "a stale one");
        assert!(ledger.described().last().expect("one").contains("version 1, instead of version 2 to 2"));
        assert_eq!(ledger.checked.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn a_read_may_miss_what_is_being_deleted() {
        let ledger = ledger();
        let write = ledger.issue(0, Role::Write);
        ledger.answered(write, None, &mut Vec::new());
        let read = ledger.issue(0, Role::Read);
        let delete = ledger.issue(0, Role::Delete);
        assert_eq!(wrong_after(&ledger, read, None), 0);
        assert_eq!(wrong_after(&ledger, read, Some(&content(&ledger, 0, 1))), 0);
        ledger.answered(delete, None, &mut Vec::new());
        let read = ledger.issue(0, Role::Read);
        assert_eq!(wrong_after(&ledger, read, Some(&content(&ledger, 0, 1))), 1, "it was deleted");
        assert_eq!(wrong_after(&ledger, read, None), 0);
        let write = ledger.issue(0, Role::Write);
        ledger.answered(write, None, &mut Vec::new());
        let read = ledger.issue(0, Role::Read);
        assert_eq!(wrong_after(&ledger, read, None), 1, "it was written again");
    }

    #[test]
    fn a_counter_goes_up_by_one() {
        let ledger = ledger();
        let count = ledger.issue(5, Role::Count);
        for (sum, wrong) in [("17", 0), ("18", 0), ("20", 1), ("21", 0), ("20", 1)] {
            assert_eq!(wrong_after(&ledger, count, Some(sum.as_bytes())), wrong, "{sum}");
        }
    }

    #[test]
    fn every_key_has_one_owner() {
        let ledger = ledger();
        for connections in 1..=10 {
            for own in 0..connections {
                for key in 0..10 {
                    let owned = ledger.owned(key, own, connections);
                    assert!(owned < 10 && owned % connections == own, "{key} {own} {connections}: {owned}");
                }
            }
        }
    }
}
