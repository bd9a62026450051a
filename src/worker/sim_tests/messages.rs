//! Publishers and subscribers under random faults: who subscribes to what is known while messages are published, so each subscriber's messages
//! are foretold: all that its names match, in each publisher's order, none twice. A run a seed, as in `random`.
use super::model::{Value, parse};
use super::program::pick;
use super::{Rig, request};
use crate::base::glob::glob_matches;
use crate::config::Config;
use crate::net::sim::{ClientId, ClientState, Faults, Rng};

const SEEDS: u64 = 12;
const CHANNELS: [&str; 5] = ["a", "b", "news:1", "news:2", "news:33"];
const PATTERNS: [&str; 5] = ["*", "news:*", "?", "[^a]", "news:3?"];
const COMMANDS: [(&str, &str); 3] =
    [("SUBSCRIBE", "UNSUBSCRIBE"), ("PSUBSCRIBE", "PUNSUBSCRIBE"), ("SSUBSCRIBE", "SUNSUBSCRIBE")];

/// A published message: its channel, and whether that is a shard channel.
type Message = (usize, bool);

struct Peer {
    id: ClientId,
    resp3: bool,
    /// What it subscribes to: a kind and a name.
    names: Vec<(usize, usize)>,
    outgoing: Vec<u8>,
    received: Vec<u8>,
    /// What has come, but for messages, and how much of that is due.
    replies: Vec<Value>,
    due: usize,
    /// Messages: how they begin (kind, pattern, channel), and their text.
    heard: Vec<(Vec<Vec<u8>>, Vec<u8>)>,
    reading: bool,
    lost: bool,
}

impl Peer {
    fn new(id: ClientId) -> Peer {
        let (names, heard) = (Vec::new(), Vec::new());
        let (outgoing, received, replies) = (Vec::new(), Vec::new(), Vec::new());
        Peer { id, resp3: false, names, outgoing, received, replies, due: 0, heard, reading: true, lost: false }
    }

    fn name(kind: usize, which: usize) -> &'static str {
        if kind == 1 { PATTERNS[which] } else { CHANNELS[which] }
    }

    /// Which of its names a message goes to, as (kind, pattern if it is one).
    fn matching(&self, (channel, shard): Message) -> impl Iterator<Item = (usize, usize)> {
        self.names.iter().copied().filter(move |&(kind, name)| match kind {
            0 => !shard && name == channel,
            1 => !shard && glob_matches(PATTERNS[name].as_bytes(), CHANNELS[channel].as_bytes(), false),
            _ => shard && name == channel,
        })
    }

    fn begin(&mut self, due: usize) {
        self.due = due;
        self.replies.clear();
        self.heard.clear();
    }

    fn is_answered(&self) -> bool {
        self.replies.len() == self.due
    }

    /// What it is to get of messages that somebody has published.
    fn expected(&self, messages: &[Message]) -> Heard {
        let mut expected = Vec::new();
        for (n, &message) in (0u64..).zip(messages) {
            let channel = CHANNELS[message.0].as_bytes().to_vec();
            expected.extend(self.matching(message).map(|(kind, name)| match kind {
                0 => (n, vec![b"message".to_vec(), channel.clone()]),
                1 => (n, vec![b"pmessage".to_vec(), PATTERNS[name].into(), channel.clone()]),
                _ => (n, vec![b"smessage".to_vec(), channel.clone()]),
            }));
        }
        expected
    }

    /// What it has got of those.
    fn heard_of(&self, publisher: usize) -> Heard {
        let mut heard = Vec::new();
        for (begin, text) in &self.heard {
            let mut words = std::str::from_utf8(text).unwrap().split(' ').map(|word| word.parse::<u64>());
            if words.next() == Some(Ok(publisher as u64)) {
                heard.push((words.next().unwrap().unwrap(), begin.clone()));
            }
        }
        heard
    }

    fn take(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((value, taken)) = parse(&self.received[at..]) {
            at += taken;
            match &value {
                Value::Many(items) => match &items[..] {
                    [Value::Bulk(kind), rest @ .., Value::Bulk(text)] if kind.ends_with(b"message") => {
                        let word =
                            |item: &Value| if let Value::Bulk(word) = item { word.clone() } else { panic!("{item:?}") };
                        let begin = [vec![kind.clone()], rest.iter().map(word).collect()].concat();
                        self.heard.push((begin, text.clone()));
                    }
                    _ => self.replies.push(value),
                },
                _ => self.replies.push(value),
            }
        }
        self.received.drain(..at);
    }
}

struct Game {
    seed: u64,
    rng: Rng,
    rig: Rig,
    peers: Vec<Peer>,
}

#[test]
fn random_messages_arrive_once_and_in_order() {
    let (mut heard, mut resets) = (0, 0);
    let seeds = super::seeds(SEEDS);
    for seed in seeds.clone() {
        let mut rng = Rng::new(seed ^ 0x5EED);
        let mut faults = Faults::from_seed(seed);
        faults.queue_bytes = faults.queue_bytes.max(48);
        if rng.permille(300) {
            faults.reset_permille = 5;
        }
        let mut rig = Rig::new(seed, faults, Config::default());
        let peers = (0..3 + rng.below(6)).map(|_| Peer::new(rig.sim().connect())).collect();
        let mut game = Game { seed, rng, rig, peers };
        for _ in 0..4 {
            game.subscribe();
            heard += game.publish();
            resets += game.come_back();
        }
        game.leave();
    }
    let few = seeds.count() < 12;
    assert!(few || heard > 2_000 && resets > 2, "it happens: {heard} messages, {resets} resets");
}

impl Game {
    /// Sends all requests in pieces, until `done` of each client that is still there.
    fn converse(&mut self, done: impl Fn(&Peer) -> bool) {
        for turns in 0u64.. {
            if self.peers.iter().all(|peer| peer.lost || peer.outgoing.is_empty() && done(peer)) {
                return;
            }
            assert!(turns < 2_000_000, "seed {}: what is due does not come", self.seed);
            for peer in &mut self.peers {
                let sim = self.rig.worker.backend();
                if !peer.outgoing.is_empty() && self.rng.permille(500) {
                    let n = peer.outgoing.len().min(1 + pick(&mut self.rng, 3_000));
                    let piece: Vec<u8> = peer.outgoing.drain(..n).collect();
                    sim.send(peer.id, &piece);
                }
                if self.rng.permille(20) {
                    peer.reading = !peer.reading;
                    if peer.reading { sim.start_reading(peer.id) } else { sim.stop_reading(peer.id) }
                }
            }
            self.rig.turn();
            for peer in &mut self.peers {
                let sim = self.rig.worker.backend();
                peer.take(&sim.received(peer.id));
                peer.lost |= sim.state(peer.id) == ClientState::Reset;
            }
        }
    }

    /// Some clients change what they listen to, and each knows of it.
    fn subscribe(&mut self) {
        let (seed, rng) = (self.seed, &mut self.rng);
        let mut confirmed = Vec::new();
        for peer in &mut self.peers {
            let mut verbs = Vec::new();
            if !peer.resp3 && peer.names.is_empty() && rng.permille(400) {
                peer.resp3 = true;
                peer.outgoing.extend(request(&[b"HELLO", b"3"]));
                verbs.push(None);
            }
            for _ in 0..rng.below(6) {
                let (kind, which, on) = (pick(rng, 3), pick(rng, CHANNELS.len()), rng.permille(600));
                let verb = if on { COMMANDS[kind].0 } else { COMMANDS[kind].1 };
                let name = Peer::name(kind, which);
                peer.outgoing.extend(request(&[verb.as_bytes(), name.as_bytes()]));
                peer.names.retain(|other| *other != (kind, which));
                if on {
                    peer.names.push((kind, which));
                }
                let count = peer.names.iter().filter(|(other, _)| (*other == 2) == (kind == 2)).count();
                verbs.push(Some((verb.to_lowercase(), name, i64::try_from(count).unwrap())));
            }
            peer.begin(verbs.len());
            confirmed.push(verbs);
        }
        self.converse(Peer::is_answered);
        for (peer, verbs) in self.peers.iter().zip(confirmed).filter(|(peer, _)| !peer.lost) {
            for (reply, told) in peer.replies.iter().zip(verbs) {
                if let Some((verb, name, count)) = told {
                    let told = [Value::Bulk(verb.into()), Value::Bulk(name.into()), Value::Int(count)];
                    assert_eq!(reply, &Value::Many(told.into()), "seed {seed}");
                }
            }
        }
    }

    /// Those who may publish do, all at once. Returns how many messages were heard.
    fn publish(&mut self) -> usize {
        let (seed, rng) = (self.seed, &mut self.rng);
        let mut sent: Vec<Vec<Message>> = Vec::new();
        for (number, peer) in self.peers.iter_mut().enumerate() {
            let mut messages = Vec::new();
            // With RESP2 a client that listens may do nothing else.
            if !peer.lost && (peer.resp3 || peer.names.is_empty()) {
                for n in 0..rng.below(60) {
                    let message = (pick(rng, CHANNELS.len()), rng.permille(250));
                    let verb = if message.1 { "SPUBLISH" } else { "PUBLISH" };
                    let mut text = format!("{number} {n} ");
                    text.extend(std::iter::repeat_n('x', [0, 0, 0, 0, 50, 50, 1_000, 20_000][pick(rng, 8)]));
                    peer.outgoing.extend(request(&[verb.as_bytes(), CHANNELS[message.0].as_bytes(), text.as_bytes()]));
                    messages.push(message);
                }
            }
            peer.begin(messages.len());
            sent.push(messages);
        }
        self.converse(Peer::is_answered);
        for peer in &mut self.peers {
            peer.reading = true;
            self.rig.worker.backend().start_reading(peer.id);
        }
        self.rig.rest();
        let some_lost = self.peers.iter().any(|peer| peer.lost);
        for peer in &mut self.peers {
            let sim = self.rig.worker.backend();
            peer.take(&sim.received(peer.id));
            peer.lost |= sim.state(peer.id) == ClientState::Reset;
        }
        for (number, messages) in sent.iter().enumerate() {
            let publisher = &self.peers[number];
            if !some_lost {
                let told =
                    |message: &Message| self.peers.iter().map(|peer| peer.matching(*message).count()).sum::<usize>();
                let counts: Vec<Value> = messages.iter().map(|m| Value::Int(i64::try_from(told(m)).unwrap())).collect();
                assert_eq!(publisher.replies, counts, "seed {seed}: how many get what client {number} publishes");
            }
            for peer in self.peers.iter().filter(|peer| !peer.lost) {
                let heard = peer.heard_of(number);
                assert!(heard.is_sorted_by_key(|(n, _)| *n), "seed {seed}: out of order");
                let expected = peer.expected(messages);
                // Of one that was lost, the first few.
                let all = if publisher.lost { heard.len() } else { expected.len() };
                assert_eq!(sorted(heard), sorted(expected[..all.min(expected.len())].to_vec()), "seed {seed}");
            }
        }
        self.peers.iter().map(|peer| peer.heard.len()).sum()
    }

    /// Who was reset comes back, and listens to nothing. Returns how many were.
    fn come_back(&mut self) -> usize {
        let mut resets = 0;
        for peer in self.peers.iter_mut().filter(|peer| peer.lost) {
            *peer = Peer::new(self.rig.worker.backend().connect());
            resets += 1;
        }
        resets
    }

    fn leave(mut self) {
        for peer in &self.peers {
            self.rig.worker.backend().disconnect(peer.id);
        }
        self.rig.assert_clean(&format!("seed {}", self.seed));
        let exchange = &self.rig.worker.engine().pubsub;
        assert!(exchange.subscriptions.is_empty() && exchange.registry.patterns() == 0, "seed {}", self.seed);
    }
}

/// Messages as a subscriber gets them: the number of each, and how it begins.
type Heard = Vec<(u64, Vec<Vec<u8>>)>;

/// The frames of one message come in any order.
fn sorted(mut heard: Heard) -> Heard {
    heard.sort();
    heard
}
