//! Client-side caching: what is on its way to clients that have cached keys, and who is told of every change of names with a beginning.
//!
//! ```text
//!  a key was read, and has changed ──────────────────────────┐
//!  a key has changed ─▶ Prefixes ─▶ gathered for a turn ─────┴─▶ Invalidation ─▶ the client's worker ─▶ (redirected) another's
//! ```
//! Which worker a client belongs to is told by numbers; what it wants is looked at where it is.

use crate::base::hash::Seeded;
use crate::base::int;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A client: its worker and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    pub worker: usize,
    pub client: u64,
}

/// Keys that are not to be used any more, each with the client that has changed it (0: none).
#[derive(PartialEq, Eq, Debug)]
pub enum Stale {
    /// All of them.
    All,
    Keys {
        keys: Vec<(Box<[u8]>, u64)>,
        /// As a reply has them.
        frame: Vec<u8>,
    },
}

impl Stale {
    #[must_use]
    pub fn keys(keys: Vec<(Box<[u8]>, u64)>) -> Stale {
        let mut frame = Vec::new();
        head(&mut frame, b'*', keys.len());
        for (key, _) in &keys {
            head(&mut frame, b'$', key.len());
            frame.extend_from_slice(key);
            frame.extend_from_slice(b"\r\n");
        }
        Stale::Keys { keys, frame }
    }

    /// But for those that a client has changed itself. `None`: that is none.
    #[must_use]
    pub fn without(self: &Arc<Stale>, client: u64) -> Option<Arc<Stale>> {
        match &**self {
            Stale::Keys { keys, .. } if keys.iter().any(|key| key.1 == client) => {
                let others: Vec<_> = keys.iter().filter(|key| key.1 != client).cloned().collect();
                (!others.is_empty()).then(|| Arc::new(Stale::keys(others)))
            }
            Stale::All | Stale::Keys { .. } => Some(Arc::clone(self)),
        }
    }

    /// As a RESP3 push.
    pub fn write_push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b">2\r\n$10\r\ninvalidate\r\n");
        self.write(b"_\r\n", out);
    }

    /// As a message on a channel, for RESP2.
    pub fn write_message(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n");
        self.write(b"$-1\r\n", out);
    }

    fn write(&self, all: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Stale::All => all,
            Stale::Keys { frame, .. } => frame,
        });
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Stale::All => 0,
            Stale::Keys { keys, frame } => 2 * frame.len() + keys.len() * size_of::<(Box<[u8]>, u64)>(),
        }
    }
}

fn head(out: &mut Vec<u8>, kind: u8, count: usize) {
    out.push(kind);
    out.extend_from_slice(int::write_u64(&mut [0; int::MAX_DIGITS], count as u64));
    out.extend_from_slice(b"\r\n");
}

/// Whom it concerns, of the clients of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// A client that has read the key.
    Reader(u64),
    /// One that is told of every change.
    Listener(u64),
    /// All who track.
    Everybody,
    /// The client to which another has its invalidations sent.
    Redirected { to: u64, by: Address },
    /// That one has gone: the client that had them sent to it.
    Broken(u64),
}

#[derive(Clone, Debug)]
pub struct Invalidation {
    pub to: To,
    pub stale: Arc<Stale>,
}

/// Beginnings of names, each with the clients that are told of every change of such a key; shared by all workers.
#[derive(Default)]
pub struct Prefixes {
    table: RwLock<Table>,
    count: AtomicUsize,
}

#[derive(Default)]
struct Table {
    by_prefix: HashMap<Arc<[u8]>, Vec<Address>, Seeded>,
    /// How long they are, and how many are so long.
    lengths: BTreeMap<usize, usize>,
}

impl Prefixes {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn add(&self, prefix: &[u8], client: Address) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if !table.by_prefix.contains_key(prefix) {
            *table.lengths.entry(prefix.len()).or_default() += 1;
        }
        table.by_prefix.entry(prefix.into()).or_default().push(client);
        self.count.store(table.by_prefix.len(), Ordering::Relaxed);
    }

    pub fn remove(&self, prefix: &[u8], client: Address) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let Some(clients) = table.by_prefix.get_mut(prefix) else { return };
        clients.retain(|known| *known != client);
        if clients.is_empty() {
            table.by_prefix.remove(prefix);
            if let Some(left) = table.lengths.get_mut(&prefix.len()) {
                *left -= 1;
                if *left == 0 {
                    table.lengths.remove(&prefix.len());
                }
            }
        }
        self.count.store(table.by_prefix.len(), Ordering::Relaxed);
    }

    fn matching(&self, name: &[u8], mut visit: impl FnMut(&Arc<[u8]>)) {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        for (len, _) in table.lengths.range(..=name.len()) {
            if let Some((prefix, _)) = table.by_prefix.get_key_value(&name[..*len]) {
                visit(prefix);
            }
        }
    }

    fn clients(&self, prefix: &[u8]) -> Vec<Address> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_prefix.get(prefix).cloned().unwrap_or_default()
    }
}

/// Changed keys of a turn, by the beginnings that somebody listens to; each with who was the first to change it.
#[derive(Default)]
pub struct Changes(BTreeMap<Arc<[u8]>, Keys>);

type Keys = BTreeMap<Box<[u8]>, u64>;

impl Changes {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, prefixes: &Prefixes, name: Box<[u8]>, by: u64) {
        prefixes.matching(&name, |prefix| {
            self.0.entry(Arc::clone(prefix)).or_default().entry(name.clone()).or_insert(by);
        });
    }

    /// Takes all, for those whom they concern.
    pub fn drain(&mut self, prefixes: &Prefixes, mut send: impl FnMut(Address, Arc<Stale>)) {
        for (prefix, keys) in std::mem::take(&mut self.0) {
            let stale = Arc::new(Stale::keys(keys.into_iter().collect()));
            prefixes.clients(&prefix).into_iter().for_each(|client| send(client, Arc::clone(&stale)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Box<[u8]> {
        text.as_bytes().into()
    }

    #[test]
    fn frames() {
        let stale = Stale::keys(vec![(name("a"), 1), (name("bcd"), 0)]);
        let (mut push, mut message, mut all) = (Vec::new(), Vec::new(), Vec::new());
        stale.write_push(&mut push);
        stale.write_message(&mut message);
        Stale::All.write_push(&mut all);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let keys = "*2\r\n$1\r\na\r\n$3\r\nbcd\r\n";
        assert_eq!(text(push), format!(">2\r\n$10\r\ninvalidate\r\n{keys}"));
        assert_eq!(text(message), format!("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n{keys}"));
        assert_eq!(text(all), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    }

    #[test]
    fn own_changes_are_left_out() {
        let stale = Arc::new(Stale::keys(vec![(name("a"), 1), (name("b"), 2)]));
        assert_eq!(stale.without(3), Some(Arc::clone(&stale)));
        assert_eq!(stale.without(1), Some(Arc::new(Stale::keys(vec![(name("b"), 2)]))));
        assert_eq!(Arc::new(Stale::keys(vec![(name("a"), 1)])).without(1), None);
        assert_eq!(Arc::new(Stale::All).without(1), Some(Arc::new(Stale::All)));
    }

    #[test]
    fn changes_go_to_those_whose_prefix_fits() {
        let prefixes = Prefixes::default();
        let client = |client| Address { worker: 0, client };
        for (prefix, number) in [("", 1), ("us", 2), ("user:", 2), ("x", 3), ("us", 4)] {
            prefixes.add(prefix.as_bytes(), client(number));
        }
        prefixes.remove(b"us", client(4));
        prefixes.remove(b"x", client(3));
        assert_eq!(prefixes.len(), 3);
        let mut changes = Changes::default();
        for (key, by) in [("user:2", 9), ("user:1", 8), ("user:1", 7), ("u", 7)] {
            changes.add(&prefixes, name(key), by);
        }
        let mut sent = Vec::new();
        changes.drain(&prefixes, |to, stale| sent.push((to.client, stale)));
        let both = vec![(name("user:1"), 8), (name("user:2"), 9)];
        let all = [vec![(name("u"), 7)], both.clone()].concat();
        let expected: Vec<_> = [(1, all), (2, both.clone()), (2, both)]
            .into_iter()
            .map(|(to, keys)| (to, Arc::new(Stale::keys(keys))))
            .collect();
        assert_eq!(sent, expected);
        assert!(changes.is_empty());
    }
}
