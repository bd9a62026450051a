//! Runs requests through a policy as `hitratio.py` does: gets of a batch, then sets of what was missing.

use crate::policy::Policy;
use crate::trace::Trace;

/// Requests that are sent before their replies are read.
pub const BATCH: usize = 200;

/// The share of requests that hit, in percent, without the first third, in which the cache fills.
pub fn hit_percent(trace: &Trace, policy: &mut dyn Policy, capacity: u64) -> f64 {
    let warm = trace.requests.len() / 3;
    let (mut hits, mut total, mut done) = (0usize, 0usize, 0);
    let mut missing = Vec::with_capacity(BATCH);
    for batch in trace.requests.chunks(BATCH) {
        missing.clear();
        missing.extend(batch.iter().copied().filter(|&object| !policy.get(object)));
        for &object in &missing {
            policy.set(object);
        }
        assert!(policy.used_bytes() <= capacity, "a policy keeps to the limit");
        done += batch.len();
        if done > warm {
            total += batch.len();
            hits += batch.len() - missing.len();
        }
    }
    100.0 * hits as f64 / total.max(1) as f64
}
