//! Eviction policies: which objects a cache of so many bytes keeps.

mod belady;
mod list;
mod queues;
mod sampled;
mod smart;
#[cfg(test)]
mod tests;
mod tinylfu;

use crate::trace::Trace;

/// A cache that holds objects of a trace, up to so many bytes.
pub trait Policy {
    /// A request for an object: is it there?
    fn get(&mut self, object: u32) -> bool;
    /// The object is written. (It may be there.)
    fn set(&mut self, object: u32);
    /// Bytes that the objects which are there take, with what the policy itself needs beyond bits of theirs.
    fn used_bytes(&self) -> u64;
    /// What there is to tell of it afterwards.
    fn note(&self) -> String {
        String::new()
    }
}

/// The policies by name, with what they are.
pub const POLICIES: [(&str, &str); 12] = [
    ("fifo", "first in, first out"),
    ("clock", "second chance: FIFO with a bit of use"),
    ("lru", "least recently used, exact"),
    ("lru-sampled", "least recently used of five samples and a pool, as Redis"),
    (
        "lfu-sampled",
        "least frequently used, a logarithmic counter that decays with time, five samples and a pool, as Redis",
    ),
    ("sieve", "SIEVE: a hand over a FIFO, new objects behind it"),
    ("s3-fifo", "S3-FIFO: a small queue of a tenth, a main one, a queue of ghosts"),
    ("w-tinylfu", "W-TinyLFU: a window of 1%, segmented LRU, admission by frequency"),
    ("w-tinylfu-climb", "the same, window adapted by hill climbing"),
    ("w-tinylfu-size", "the same as w-tinylfu, admission by frequency a byte"),
    ("smart", "ours"),
    (
        "belady",
        "clairvoyant: whose next use times size is largest (of 64 samples); an approximation, as the optimum is hard with sizes",
    ),
];

/// A policy by name, for objects of a trace.
pub fn make<'a>(name: &str, trace: &'a Trace, capacity: u64, shards: u32) -> Option<Box<dyn Policy + 'a>> {
    Some(match name {
        "fifo" => Box::new(queues::Fifo::new(trace, capacity)),
        "clock" => Box::new(queues::Clock::new(trace, capacity)),
        "lru" => Box::new(queues::Lru::new(trace, capacity)),
        "lru-sampled" => Box::new(sampled::Sampled::new(trace, capacity, sampled::By::Recency)),
        "lfu-sampled" => Box::new(sampled::Sampled::new(trace, capacity, sampled::By::Frequency)),
        "sieve" => Box::new(queues::Sieve::new(trace, capacity)),
        "s3-fifo" => Box::new(queues::S3Fifo::new(trace, capacity)),
        "w-tinylfu" => Box::new(tinylfu::WTinyLfu::new(trace, capacity, tinylfu::Admit::Frequency, false)),
        "w-tinylfu-climb" => Box::new(tinylfu::WTinyLfu::new(trace, capacity, tinylfu::Admit::Frequency, true)),
        "w-tinylfu-size" => Box::new(tinylfu::WTinyLfu::new(trace, capacity, tinylfu::Admit::Density, false)),
        "belady" => Box::new(belady::Belady::new(trace, capacity)),
        "smart" => Box::new(smart::Smart::new(trace, capacity, shards)),
        _ => return None,
    })
}
