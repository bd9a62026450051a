//! Publishing and subscribing: who listens to what, and how a message looks on the wire. State only: connections, commands and locks of the
//! keyspace are unknown here.
//!
//! ```text
//!  PUBLISH ─▶ Registry (shared by all workers): how many listen on which worker, and which patterns match
//!               ├─▶ outbox of this worker ───────────▶ deliver: once a turn, for each channel its messages in one piece to each subscriber
//!               └─▶ outgoing, one for each other worker ─ one errand a turn ─▶ its outbox
//! ```
//! A publisher's messages take one way to a worker, in order, so they arrive in order. Nobody waits for a subscriber: what a connection does
//! not take is queued, up to its limit.

pub mod caching;
mod patterns;
mod registry;
mod subscriptions;

pub use registry::{Audience, Registry};
pub use subscriptions::Subscriptions;

use crate::base::int;
use crate::base::out::Out;
use caching::{Address, Changes, Invalidation, Prefixes, Stale, To};
use dolmen_slab::BlobRef;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a client subscribes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Channel,
    Pattern,
    /// A channel of SSUBSCRIBE, which has names of its own.
    Shard,
}

/// A longer message is not copied for each subscriber, but sent from where it lies.
pub const SHARED_MIN_BYTES: usize = 16 << 10;

/// A published message.
#[derive(Debug)]
pub struct Publication {
    pub kind: Kind,
    pub channel: Box<[u8]>,
    /// Its text as a bulk string: of a long one the frame is made when it is written.
    text: Text,
    /// The patterns that match the channel.
    pub patterns: Vec<Arc<[u8]>>,
}

#[derive(Debug)]
enum Text {
    /// With its frame.
    Small(Box<[u8]>),
    Large(BlobRef),
}

fn put_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    out.extend_from_slice(int::write_u64(&mut [0; int::MAX_DIGITS], bytes.len() as u64));
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

impl Publication {
    #[must_use]
    pub fn new(kind: Kind, channel: &[u8], text: &[u8], patterns: Vec<Arc<[u8]>>) -> Publication {
        let mut bulk = Vec::with_capacity(text.len() + 16);
        put_bulk(&mut bulk, text);
        Publication { kind, channel: channel.into(), text: Text::Small(bulk.into()), patterns }
    }

    /// The same with a long text, which is sent from where it lies.
    #[must_use]
    pub fn of_blob(kind: Kind, channel: &[u8], text: BlobRef, patterns: Vec<Arc<[u8]>>) -> Publication {
        Publication { kind, channel: channel.into(), text: Text::Large(text), patterns }
    }

    /// Memory in bytes, what is sent from elsewhere included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let text = match &self.text {
            Text::Small(bulk) => bulk.len(),
            Text::Large(blob) => blob.len(),
        };
        size_of::<Publication>() + self.channel.len() + text + self.patterns.len() * size_of::<Arc<[u8]>>()
    }

    /// Appends what subscribers of the channel (`None`), or of a pattern that matches, read: all of it but its first byte, which tells RESP2
    /// from RESP3. False: the text is long, and belongs behind it.
    fn put(&self, pattern: Option<&[u8]>, first: u8, into: &mut Vec<u8>) -> bool {
        into.push(first);
        into.extend_from_slice(match (pattern, self.kind) {
            (Some(_), _) => b"4\r\n$8\r\npmessage\r\n".as_slice(),
            (None, Kind::Shard) => b"3\r\n$8\r\nsmessage\r\n",
            (None, _) => b"3\r\n$7\r\nmessage\r\n",
        });
        if let Some(pattern) = pattern {
            put_bulk(into, pattern);
        }
        put_bulk(into, &self.channel);
        match &self.text {
            Text::Small(bulk) => {
                into.extend_from_slice(bulk);
                true
            }
            Text::Large(_) => false,
        }
    }
}

/// Messages of one channel, or of one pattern, encoded once for all who get them.
#[derive(Default)]
pub struct Frames {
    v2: Vec<u8>,
    v3: Vec<u8>,
    /// Long texts, each with where it stands in both.
    large: Vec<(usize, usize, BlobRef)>,
}

impl Frames {
    pub fn clear(&mut self) {
        self.v2.clear();
        self.v3.clear();
        self.large.clear();
    }

    pub fn add(&mut self, publication: &Publication, pattern: Option<&[u8]>) {
        publication.put(pattern, b'*', &mut self.v2);
        if !publication.put(pattern, b'>', &mut self.v3)
            && let Text::Large(blob) = &publication.text
        {
            self.large.push((self.v2.len(), self.v3.len(), blob.clone()));
        }
    }

    /// Writes all of them to the output of a subscriber.
    #[inline]
    pub fn write(&self, resp3: bool, out: &mut Out) {
        let bytes = if resp3 { &self.v3 } else { &self.v2 };
        let mut from = 0;
        for (at_v2, at_v3, blob) in &self.large {
            let at = if resp3 { *at_v3 } else { *at_v2 };
            out.extend(&bytes[from..at]);
            out.bulk_shared(blob.clone());
            from = at;
        }
        out.extend(&bytes[from..]);
    }
}

/// A worker's part: its subscribers, and messages on their way.
pub struct Exchange {
    pub registry: Arc<Registry>,
    pub subscriptions: Subscriptions,
    /// To be delivered here.
    pub outbox: Vec<Arc<Publication>>,
    /// How many times the outbox has been delivered, and whether somebody waits for that.
    delivered: u64,
    is_awaited: bool,
    /// Of keys that clients here, or those to whom they redirect, have cached.
    pub invalidations: Vec<Invalidation>,
    /// Of those who are told of every change.
    pub prefixes: Arc<Prefixes>,
    changes: Changes,
    /// What clients get when the reply that is being written to them has its end, by their connection.
    pub postponed: HashMap<u32, Out>,
    /// Clients here who are shown every command.
    pub watchers: Vec<u32>,
    /// Commands of this turn, as they are shown.
    shown: Vec<u8>,
    /// To be written to the watchers here.
    pub to_watchers: Vec<Arc<[u8]>>,
    /// To be handed to the other workers, by their number.
    outgoing: Vec<Outgoing>,
    me: usize,
}

/// What one worker hands to another.
#[derive(Default)]
pub struct Parcel {
    pub publications: Vec<Arc<Publication>>,
    pub invalidations: Vec<Invalidation>,
    /// What of its sender is on its way, and how much of that it is.
    on_its_way: Option<(Arc<AtomicUsize>, usize)>,
    /// Commands for those who are shown every one.
    pub shown: Vec<Arc<[u8]>>,
}

impl Parcel {
    fn is_empty(&self) -> bool {
        self.publications.is_empty() && self.invalidations.is_empty() && self.shown.is_empty()
    }
}

#[derive(Default)]
struct Outgoing {
    parcel: Parcel,
    bytes: usize,
    /// Bytes of parcels that were handed over and that the other worker has not taken yet.
    on_its_way: Arc<AtomicUsize>,
}

/// What waits for another worker at most, before publishers wait; and as much more is on its way in its mailbox.
/// What is shown of commands is sent on its way when it is so much.
const SHOWN_MAX_BYTES: usize = 64 << 10;
/// What waits for another worker at most, before publishers wait.
const OUTGOING_MAX_BYTES: usize = 8 << 20;

impl Exchange {
    /// That of worker `me` of `workers`.
    #[must_use]
    pub fn new(registry: Arc<Registry>, prefixes: Arc<Prefixes>, me: usize, workers: usize) -> Exchange {
        let outgoing = (0..workers).map(|_| Outgoing::default()).collect();
        Exchange {
            registry,
            subscriptions: Subscriptions::default(),
            outbox: Vec::new(),
            delivered: 0,
            is_awaited: false,
            invalidations: Vec::new(),
            prefixes,
            changes: Changes::default(),
            postponed: HashMap::new(),
            watchers: Vec::new(),
            shown: Vec::new(),
            to_watchers: Vec::new(),
            outgoing,
            me,
        }
    }

    /// Is there a client, on any worker, who is to be shown every command?
    #[inline(always)]
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.registry.watchers.load(Ordering::Relaxed) != 0
    }

    /// A client is shown every command from now on.
    pub fn watch(&mut self, client: u32) {
        self.watchers.push(client);
        self.registry.watchers.fetch_add(1, Ordering::Relaxed);
    }

    pub fn watch_no_more(&mut self, client: u32) {
        let before = self.watchers.len();
        self.watchers.retain(|watcher| *watcher != client);
        self.registry.watchers.fetch_sub(before - self.watchers.len(), Ordering::Relaxed);
    }

    /// Shows a command, as it is to be written.
    pub fn show(&mut self, line: &[u8]) {
        self.shown.extend_from_slice(line);
        if self.shown.len() > SHOWN_MAX_BYTES {
            self.send_shown();
        }
    }

    /// What was shown goes to the watchers here, and to the other workers; what one of them has no room for is lost to those who watch there.
    fn send_shown(&mut self) {
        let shown: Arc<[u8]> = std::mem::take(&mut self.shown).into();
        for (worker, outgoing) in self.outgoing.iter_mut().enumerate() {
            if worker != self.me && outgoing.bytes <= OUTGOING_MAX_BYTES {
                outgoing.bytes += shown.len();
                outgoing.parcel.shown.push(Arc::clone(&shown));
            }
        }
        if !self.watchers.is_empty() {
            self.to_watchers.push(shown);
        }
    }

    /// Which worker this is of.
    #[must_use]
    pub fn me(&self) -> usize {
        self.me
    }

    /// Must whoever publishes, or changes keys that others are told of, wait until another worker has taken some?
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.outgoing.iter().any(|outgoing| outgoing.bytes > OUTGOING_MAX_BYTES)
    }

    /// Sends a message on its way to the workers whose clients get it.
    pub fn post(&mut self, publication: Publication, audience: &Audience) {
        let publication = Arc::new(publication);
        for worker in audience.workers() {
            if worker == self.me {
                self.outbox.push(Arc::clone(&publication));
            } else if let Some(outgoing) = self.outgoing.get_mut(worker) {
                outgoing.bytes += publication.bytes();
                outgoing.parcel.publications.push(Arc::clone(&publication));
            }
        }
    }

    /// Sends on its way what a client of some worker is to be told of keys that it may have cached.
    pub fn invalidate(&mut self, worker: usize, to: To, stale: &Arc<Stale>) {
        let invalidation = Invalidation { to, stale: Arc::clone(stale) };
        if worker == self.me {
            self.invalidations.push(invalidation);
        } else if let Some(outgoing) = self.outgoing.get_mut(worker) {
            outgoing.bytes += size_of::<Invalidation>() + stale.bytes();
            outgoing.parcel.invalidations.push(invalidation);
        }
    }

    /// The same for all clients that track, of all workers.
    pub fn invalidate_all(&mut self) {
        for worker in 0..self.outgoing.len() {
            self.invalidate(worker, To::Everybody, &Arc::new(Stale::All));
        }
    }

    /// A key was changed, for those who are told of every change.
    pub fn changed(&mut self, name: Box<[u8]>, by: u64) {
        self.changes.add(&self.prefixes, name, by);
    }

    /// Sends on its way what was changed in a turn.
    #[inline]
    pub fn end_round(&mut self) {
        if !self.shown.is_empty() {
            self.send_shown();
        }
        if !self.changes.is_empty() {
            self.send_changes();
        }
    }

    fn send_changes(&mut self) {
        let (mut changes, prefixes) = (std::mem::take(&mut self.changes), Arc::clone(&self.prefixes));
        changes.drain(&prefixes, |to, stale| self.invalidate(to.worker, To::Listener(to.client), &stale));
    }

    /// The reply is written: what comes behind it.
    #[inline]
    pub fn take_postponed(&mut self, client: u32) -> Option<Out> {
        if self.postponed.is_empty() { None } else { self.postponed.remove(&client) }
    }

    /// What is to be handed to other workers: `hand` takes it, or gives it back if there is no room now.
    pub fn hand_over(&mut self, mut hand: impl FnMut(usize, Parcel) -> Result<(), Parcel>) {
        for (worker, outgoing) in self.outgoing.iter_mut().enumerate() {
            if outgoing.parcel.is_empty() {
                continue;
            }
            if outgoing.on_its_way.load(Ordering::Relaxed) > OUTGOING_MAX_BYTES {
                continue;
            }
            let mut parcel = std::mem::take(&mut outgoing.parcel);
            outgoing.on_its_way.fetch_add(outgoing.bytes, Ordering::Relaxed);
            parcel.on_its_way = Some((Arc::clone(&outgoing.on_its_way), outgoing.bytes));
            match hand(worker, parcel) {
                Ok(()) => outgoing.bytes = 0,
                Err(back) => {
                    outgoing.on_its_way.fetch_sub(outgoing.bytes, Ordering::Relaxed);
                    outgoing.parcel = Parcel { on_its_way: None, ..back };
                }
            }
        }
    }

    /// What is in the outbox now shall be written before suspended commands go on; `is_delivered` tells whether it was.
    pub fn wait_for_delivery(&mut self) -> u64 {
        self.is_awaited = true;
        self.delivered
    }

    #[must_use]
    pub fn is_delivered(&self, since: u64) -> bool {
        self.outbox.is_empty() || self.delivered != since
    }

    /// Does somebody wait for what is in the outbox?
    #[inline]
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// All that is to be written here.
    pub fn take_outbox(&mut self) -> Vec<Arc<Publication>> {
        self.delivered += 1;
        self.is_awaited = false;
        std::mem::take(&mut self.outbox)
    }

    /// Is there something to hand over?
    #[inline]
    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        self.outgoing.iter().any(|outgoing| !outgoing.parcel.is_empty())
    }

    /// Is there something to write to clients here?
    #[inline]
    #[must_use]
    pub fn has_incoming(&self) -> bool {
        !self.outbox.is_empty() || !self.invalidations.is_empty() || !self.to_watchers.is_empty()
    }

    /// Takes what another worker has handed over.
    pub fn take_in(&mut self, mut parcel: Parcel) {
        if let Some((on_its_way, bytes)) = parcel.on_its_way.take() {
            on_its_way.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.outbox.append(&mut parcel.publications);
        self.invalidations.append(&mut parcel.invalidations);
        if !self.watchers.is_empty() {
            self.to_watchers.append(&mut parcel.shown);
        }
    }

    /// Where a client of this worker is found.
    #[must_use]
    pub fn address(&self, client: u64) -> Address {
        Address { worker: self.me, client }
    }

    /// A client subscribes. False: it had.
    pub fn subscribe(&mut self, client: u32, kind: Kind, name: &[u8]) -> bool {
        let new = self.subscriptions.add(client, kind, name);
        if new {
            self.registry.add(self.me, kind, name);
        }
        new
    }

    /// A client subscribes no more. False: it did not.
    pub fn unsubscribe(&mut self, client: u32, kind: Kind, name: &[u8]) -> bool {
        let was = self.subscriptions.remove(client, kind, name);
        if was {
            self.registry.remove(self.me, kind, name);
        }
        was
    }

    /// A client has gone, or is reset.
    pub fn leave(&mut self, client: u32) {
        let (registry, me) = (&self.registry, self.me);
        self.subscriptions.remove_client(client, |kind, name| registry.remove(me, kind, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(frames: &Frames, resp3: bool) -> Vec<u8> {
        let mut out = Out::new();
        frames.write(resp3, &mut out);
        let mut slices = Vec::new();
        out.slices(&mut slices, usize::MAX);
        slices.iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    #[test]
    fn frames_of_both_protocols() {
        let mut slab = dolmen_slab::Slab::new(dolmen_slab::Config::default()).expect("address space");
        let long = vec![b'z'; 20_000];
        let blob = slab.blob_new(long.len()).expect("memory");
        slab.blob_append(blob, &long).expect("memory");
        let mut frames = Frames::default();
        frames.add(&Publication::new(Kind::Channel, b"ch", b"hello", Vec::new()), None);
        frames.add(&Publication::of_blob(Kind::Channel, b"ch", slab.blob_ref(blob), Vec::new()), None);
        frames.add(&Publication::new(Kind::Channel, b"ch", b"", Vec::new()), Some(b"c*"));
        frames.add(&Publication::new(Kind::Shard, b"s", b"x", Vec::new()), None);
        let expected = |first: char| {
            let long = String::from_utf8_lossy(&long);
            format!(
                "{first}3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5\r\nhello\r\n{first}3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$20000\r\n{long}\r\n\
                 {first}4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$2\r\nch\r\n$0\r\n\r\n{first}3\r\n$8\r\nsmessage\r\n$1\r\ns\r\n$1\r\nx\r\n"
            )
        };
        assert_eq!(String::from_utf8_lossy(&written(&frames, false)), expected('*'));
        assert_eq!(String::from_utf8_lossy(&written(&frames, true)), expected('>'));
    }

    #[test]
    fn what_finds_no_room_is_kept_in_order() {
        let registry = Arc::new(Registry::default());
        let mut here = Exchange::new(Arc::clone(&registry), Arc::default(), 0, 2);
        let mut there = Exchange::new(registry, Arc::default(), 1, 2);
        assert!(there.subscribe(9, Kind::Channel, b"a") && !there.subscribe(9, Kind::Channel, b"a"));
        for text in [b"1", b"2"] {
            let audience = here.registry.audience(Kind::Channel, b"a");
            assert_eq!(audience.count(), 1);
            here.post(Publication::new(Kind::Channel, b"a", text, Vec::new()), &audience);
        }
        assert!(here.outbox.is_empty() && here.has_outgoing());
        here.hand_over(|_, back| Err(back));
        let mut taken = Vec::new();
        here.hand_over(|worker, parcel| {
            assert_eq!(worker, 1);
            taken = parcel.publications;
            Ok(())
        });
        assert!(!here.has_outgoing());
        let texts: Vec<_> = taken.iter().map(|p| format!("{:?}", p.text)).collect();
        assert_eq!(texts.len(), 2);
        assert!(texts[0] < texts[1], "in order: {texts:?}");
        there.leave(9);
        assert_eq!(here.registry.audience(Kind::Channel, b"a").count(), 0);
    }

    /// Whatever is published, so much waits for a worker that does not come to it, and no more is handed over.
    #[test]
    fn what_a_worker_does_not_take_is_bounded() {
        let registry = Arc::new(Registry::default());
        let mut here = Exchange::new(Arc::clone(&registry), Arc::default(), 0, 2);
        let mut there = Exchange::new(registry, Arc::default(), 1, 2);
        there.subscribe(9, Kind::Channel, b"a");
        let text = vec![b'x'; 1 << 20];
        let (mut mailbox, mut posted) = (Vec::new(), 0);
        while !here.is_full() {
            let audience = here.registry.audience(Kind::Channel, b"a");
            here.post(Publication::new(Kind::Channel, b"a", &text, Vec::new()), &audience);
            posted += 1;
            assert!(posted < 30, "it is full in the end");
            here.hand_over(|_, parcel| {
                mailbox.push(parcel);
                Ok(())
            });
        }
        assert!(posted * text.len() <= 2 * (OUTGOING_MAX_BYTES + 2 * text.len()));
        let taken: usize = mailbox.iter().map(|parcel| parcel.publications.len()).sum();
        mailbox.drain(..).for_each(|parcel| there.take_in(parcel));
        assert!(taken < posted && here.is_full());
        here.hand_over(|_, parcel| {
            there.take_in(parcel);
            Ok(())
        });
        assert!(!here.is_full() && there.outbox.len() == posted);
    }
}
