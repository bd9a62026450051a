//! The subscriptions of one worker's clients, by name and by client. A name's clients lie in a row, for going through them at every message; each
//! client knows its place in the row, so that it leaves in constant time.

use super::Kind;
use crate::base::hash::Seeded;
use std::collections::HashMap;
use std::sync::Arc;

const KINDS: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

/// What one client subscribes to.
#[derive(Default)]
struct OfClient {
    /// By kind: names with its place among those who do.
    names: [HashMap<Arc<[u8]>, usize, Seeded>; 3],
    bytes: u64,
}

/// Of a subscription, beside its name: an entry here, and one among all.
const SUBSCRIPTION_BYTES: u64 = 96;

fn bytes_of(name: &[u8]) -> u64 {
    SUBSCRIPTION_BYTES + name.len() as u64
}

#[derive(Default)]
pub struct Subscriptions {
    by_name: [HashMap<Arc<[u8]>, Vec<u32>, Seeded>; 3],
    by_client: HashMap<u32, OfClient, Seeded>,
}

impl Subscriptions {
    /// False: it was there already.
    pub(super) fn add(&mut self, client: u32, kind: Kind, name: &[u8]) -> bool {
        let OfClient { names, bytes } = self.by_client.entry(client).or_default();
        let own = &mut names[kind as usize];
        if own.contains_key(name) {
            return false;
        }
        let by_name = &mut self.by_name[kind as usize];
        let shared = match by_name.get_key_value(name) {
            Some((shared, _)) => Arc::clone(shared),
            None => Arc::from(name),
        };
        let clients = by_name.entry(Arc::clone(&shared)).or_default();
        own.insert(shared, clients.len());
        *bytes += bytes_of(name);
        clients.push(client);
        true
    }

    /// False: it was not there.
    pub(super) fn remove(&mut self, client: u32, kind: Kind, name: &[u8]) -> bool {
        let Some(own) = self.by_client.get_mut(&client) else { return false };
        let Some(place) = own.names[kind as usize].remove(name) else { return false };
        own.bytes -= bytes_of(name);
        if own.names.iter().all(HashMap::is_empty) {
            self.by_client.remove(&client);
        }
        self.leave(kind, name, place);
        true
    }

    /// Takes the client at a place out of a name's row.
    fn leave(&mut self, kind: Kind, name: &[u8], place: usize) {
        let by_name = &mut self.by_name[kind as usize];
        let Some(clients) = by_name.get_mut(name) else { return };
        clients.swap_remove(place);
        if clients.is_empty() {
            by_name.remove(name);
        } else if let Some(moved) = clients.get(place)
            && let Some(own) = self.by_client.get_mut(moved)
            && let Some(at) = own.names[kind as usize].get_mut(name)
        {
            *at = place;
        }
    }

    pub(super) fn remove_client(&mut self, client: u32, mut gone: impl FnMut(Kind, &[u8])) {
        let Some(own) = self.by_client.remove(&client) else { return };
        for (kind, names) in KINDS.into_iter().zip(own.names) {
            for (name, place) in names {
                self.leave(kind, &name, place);
                gone(kind, &name);
            }
        }
    }

    /// Is there nobody?
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// Those who subscribe to a name.
    #[must_use]
    pub fn clients(&self, kind: Kind, name: &[u8]) -> &[u32] {
        self.by_name[kind as usize].get(name).map_or(&[], Vec::as_slice)
    }

    /// What a client subscribes to.
    #[must_use]
    pub fn names(&self, client: u32, kind: Kind) -> Vec<Arc<[u8]>> {
        self.by_client.get(&client).map_or(Vec::new(), |own| own.names[kind as usize].keys().cloned().collect())
    }

    /// To how many of a kind it does.
    #[must_use]
    pub fn count(&self, client: u32, kind: Kind) -> usize {
        self.by_client.get(&client).map_or(0, |own| own.names[kind as usize].len())
    }

    /// What they take, in bytes, about.
    #[must_use]
    pub fn bytes(&self, client: u32) -> u64 {
        self.by_client.get(&client).map_or(0, |own| own.bytes)
    }

    /// Clients with a subscription.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.by_client.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a set of triples.
        #[test]
        fn as_a_set(program in proptest::collection::vec((0u32..5, 0usize..3, 0u8..4, 0u8..8), 0..200)) {
            let mut subscriptions = Subscriptions::default();
            let mut model: BTreeSet<(u32, usize, u8)> = BTreeSet::new();
            for (client, kind, name, what) in program {
                match what {
                    0 => {
                        let mut gone = Vec::new();
                        subscriptions.remove_client(client, |kind, name| gone.push((client, kind as usize, name[0])));
                        gone.sort_unstable();
                        let expected: Vec<_> = model.iter().copied().filter(|entry| entry.0 == client).collect();
                        prop_assert_eq!(gone, expected);
                        model.retain(|entry| entry.0 != client);
                    }
                    1..=3 => {
                        let was = subscriptions.remove(client, KINDS[kind], &[name]);
                        prop_assert_eq!(was, model.remove(&(client, kind, name)));
                    }
                    _ => {
                        let new = subscriptions.add(client, KINDS[kind], &[name]);
                        prop_assert_eq!(new, model.insert((client, kind, name)));
                    }
                }
                for kind in KINDS {
                    for name in 0..4u8 {
                        let clients: BTreeSet<u32> = subscriptions.clients(kind, &[name]).iter().copied().collect();
                        let expected: BTreeSet<u32> = (0..5).filter(|c| model.contains(&(*c, kind as usize, name))).collect();
                        prop_assert_eq!(clients, expected);
                    }
                }
                let subscribers: BTreeSet<u32> = model.iter().map(|entry| entry.0).collect();
                prop_assert_eq!(subscriptions.subscribers(), subscribers.len());
            }
        }
    }
}
