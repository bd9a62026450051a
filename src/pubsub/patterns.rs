//! The patterns that are subscribed to, found by the literal bytes that they begin with: a message looks at those only whose beginning is the
//! channel's. Without wildcards in front, a hundred thousand patterns cost a look-up for each different length of beginning.

use super::registry::Counts;
use crate::base::glob::{glob_matches, literal_prefix};
use crate::base::hash::Seeded;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

type Counted = HashMap<Arc<[u8]>, Counts, Seeded>;

#[derive(Default)]
pub(super) struct Patterns {
    by_prefix: HashMap<Box<[u8]>, Counted, Seeded>,
    /// Lengths of the prefixes, each with how many have it.
    lengths: BTreeMap<usize, usize>,
    count: usize,
}

impl Patterns {
    /// Different patterns.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn add(&mut self, worker: usize, pattern: &[u8]) {
        let prefix = literal_prefix(pattern).0;
        if !self.by_prefix.contains_key(prefix) {
            self.by_prefix.insert(prefix.into(), Counted::default());
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        let Some(patterns) = self.by_prefix.get_mut(prefix) else { return };
        match patterns.get_mut(pattern) {
            Some(counts) => counts.add(worker),
            None => {
                patterns.entry(pattern.into()).or_default().add(worker);
                self.count += 1;
            }
        }
    }

    pub(super) fn remove(&mut self, worker: usize, pattern: &[u8]) {
        let prefix = literal_prefix(pattern).0;
        let Some(patterns) = self.by_prefix.get_mut(prefix) else { return };
        if patterns.get_mut(pattern).is_some_and(|counts| counts.remove(worker)) {
            patterns.remove(pattern);
            self.count -= 1;
        }
        if patterns.is_empty() {
            self.by_prefix.remove(prefix);
            if let Some(left) = self.lengths.get_mut(&prefix.len()) {
                *left -= 1;
                if *left == 0 {
                    self.lengths.remove(&prefix.len());
                }
            }
        }
    }

    /// Shows the patterns that match a channel.
    pub(super) fn matching(&self, channel: &[u8], mut visit: impl FnMut(&Arc<[u8]>, &Counts)) {
        for (len, _) in self.lengths.range(..=channel.len()) {
            let Some(patterns) = self.by_prefix.get(&channel[..*len]) else { continue };
            for (pattern, counts) in patterns {
                if glob_matches(pattern, channel, false) {
                    visit(pattern, counts);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against trying all of them.
        #[test]
        fn finds_what_matches(
            patterns in proptest::collection::vec("[ab*?\\\\\\[\\]]{0,5}", 0..12),
            gone in proptest::collection::vec(any::<bool>(), 12),
            channel in "[ab]{0,5}",
        ) {
            let mut index = Patterns::default();
            patterns.iter().for_each(|pattern| index.add(0, pattern.as_bytes()));
            let mut left: Vec<&[u8]> = Vec::new();
            for (pattern, gone) in patterns.iter().zip(gone) {
                if gone {
                    index.remove(0, pattern.as_bytes());
                } else {
                    left.push(pattern.as_bytes());
                }
            }
            let mut expected: Vec<&[u8]> = left.iter().copied().filter(|p| glob_matches(p, channel.as_bytes(), false)).collect();
            expected.sort_unstable();
            let mut found: Vec<Vec<u8>> = Vec::new();
            index.matching(channel.as_bytes(), |pattern, counts| found.extend(vec![pattern.to_vec(); counts.total()]));
            found.sort_unstable();
            prop_assert_eq!(found, expected);
            left.iter().for_each(|pattern| index.remove(0, pattern));
            prop_assert!(index.is_empty() && index.by_prefix.is_empty() && index.lengths.is_empty());
        }
    }
}
