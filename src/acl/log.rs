//! What was denied of late: ACL LOG.

use super::permissions::Reason;
use std::collections::VecDeque;

/// Where a command was denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    Toplevel,
    Multi,
}

impl Context {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Context::Toplevel => "toplevel",
            Context::Multi => "multi",
        }
    }
}

/// An entry: the last of some denials that are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denial {
    /// `None`: a user was not let in.
    pub reason: Option<Reason>,
    pub context: Context,
    /// The command, key or channel.
    pub object: Vec<u8>,
    pub user: Vec<u8>,
    /// The client's line of CLIENT LIST.
    pub client: Vec<u8>,
    pub at_ms: u64,
    /// Set by the log.
    pub first_ms: u64,
    pub count: u64,
    pub id: u64,
}

impl Denial {
    #[must_use]
    pub fn reason_name(&self) -> &'static str {
        match self.reason {
            Some(Reason::Command) => "command",
            Some(Reason::Key) => "key",
            Some(Reason::Channel) => "channel",
            None => "auth",
        }
    }
}

/// Denials no further apart than this are one entry if they are alike.
const GROUPED_MS: u64 = 60_000;
/// So many entries are looked at for that.
const GROUPED_AMONG: usize = 10;

/// The latest first.
#[derive(Default, Debug)]
pub struct Log {
    entries: VecDeque<Denial>,
    next_id: u64,
}

impl Log {
    pub fn add(&mut self, mut denial: Denial, len_max: usize) {
        let alike = |known: &Denial| {
            known.reason == denial.reason
                && known.context == denial.context
                && known.object == denial.object
                && known.user == denial.user
                && denial.at_ms.saturating_sub(known.at_ms) <= GROUPED_MS
        };
        let known = self.entries.iter().take(GROUPED_AMONG).position(alike).and_then(|at| self.entries.remove(at));
        match known {
            Some(known) => {
                (denial.count, denial.first_ms, denial.id) = (known.count + 1, known.first_ms, known.id);
            }
            None => {
                (denial.count, denial.first_ms, denial.id) = (1, denial.at_ms, self.next_id);
                self.next_id += 1;
            }
        }
        self.entries.push_front(denial);
        self.entries.truncate(len_max);
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }

    #[must_use]
    pub fn entries(&self) -> &VecDeque<Denial> {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_is_one_entry() {
        let denial = |object: &str, at_ms| Denial {
            reason: Some(Reason::Key),
            context: Context::Toplevel,
            object: object.into(),
            user: b"u".to_vec(),
            client: Vec::new(),
            at_ms,
            first_ms: 0,
            count: 0,
            id: 0,
        };
        let mut log = Log::default();
        for (object, at_ms) in [("a", 10), ("b", 20), ("a", 30), ("a", 60_030), ("a", 120_031)] {
            log.add(denial(object, at_ms), 100);
        }
        let told: Vec<_> = log.entries().iter().map(|e| (e.object[0], e.count, e.first_ms, e.at_ms, e.id)).collect();
        assert_eq!(told, [(b'a', 1, 120_031, 120_031, 2), (b'a', 3, 10, 60_030, 0), (b'b', 1, 20, 20, 1)]);
        log.add(denial("c", 120_040), 2);
        assert_eq!(log.entries().len(), 2);
        log.clear();
        assert!(log.entries().is_empty());
    }
}
