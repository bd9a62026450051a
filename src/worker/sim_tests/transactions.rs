//! Transactions of a client of the random test: what it queues is foretold as if it ran alone, and watched counters tell whether it did.
use super::model::Expect;
use super::program::{COUNTERS, Player, Sizes, ok, pick};
use crate::net::sim::Rng;

fn queued() -> Expect {
    Expect::Bytes(b"+QUEUED\r\n".to_vec())
}

impl Player {
    /// Makes up a transaction, of keys of its own or of the shared counters.
    pub(super) fn transaction(&mut self, rng: &mut Rng, sizes: Sizes, shared: bool, now_ms: u64) {
        if shared && rng.permille(500) {
            return self.careful_addition(rng, now_ms);
        }
        if !shared && rng.permille(200) {
            // Nobody else changes it.
            let key = self.key(rng);
            self.ask(&[b"WATCH", &key], ok(), now_ms);
        }
        if rng.permille(100) {
            self.ask(&[b"MULTI"], ok(), now_ms);
            self.ask(&[b"FLUSHALL"], queued(), now_ms);
            // What is not run is not counted.
            self.requests -= 1;
            return self.ask(&[b"DISCARD"], ok(), now_ms);
        }
        self.ask(&[b"MULTI"], ok(), now_ms);
        let first = self.expects.len();
        for _ in 0..rng.below(8) {
            if shared {
                let counter = pick(rng, COUNTERS);
                self.added[counter] += 1;
                self.ask(&[b"INCR", format!("counter:{counter}").as_bytes()], Expect::Counter(counter), now_ms);
            } else {
                let key = self.key(rng);
                let old = self.keys.get(&key).cloned();
                match rng.below(4) {
                    0 => self.ask(&[b"GET", &key], Expect::Bytes(self.value_reply(old.as_ref())), now_ms),
                    1 => self.add(rng, key, old, now_ms),
                    2 => self.deadline(rng, key, old, now_ms),
                    _ => self.set(rng, sizes, key, old, now_ms),
                }
            }
        }
        let mut parts = Vec::new();
        for (expect, _) in self.expects.range_mut(first..) {
            parts.push(std::mem::replace(expect, queued()));
        }
        self.ask(&[b"EXEC"], Expect::Transaction { parts, watched: None }, now_ms);
    }

    /// An addition to a shared counter that is made only if nobody else has made one since it was read.
    fn careful_addition(&mut self, rng: &mut Rng, now_ms: u64) {
        let counter = pick(rng, COUNTERS);
        let name = format!("counter:{counter}");
        self.ask(&[b"WATCH", name.as_bytes()], ok(), now_ms);
        self.ask(&[b"GET", name.as_bytes()], Expect::Watched, now_ms);
        for _ in 0..rng.below(3) {
            self.ask(&[b"PING"], Expect::Bytes(b"+PONG\r\n".to_vec()), now_ms);
        }
        self.ask(&[b"MULTI"], ok(), now_ms);
        self.added[counter] += 1;
        self.ask(&[b"INCR", name.as_bytes()], queued(), now_ms);
        let parts = vec![Expect::Added(counter)];
        self.ask(&[b"EXEC"], Expect::Transaction { parts, watched: Some(counter) }, now_ms);
    }
}
