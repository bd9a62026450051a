//! Random pipelines of several clients under random faults, against models. A failing seed names itself:
//! `DOLMEN_SIM_SEED=n` runs it alone, `DOLMEN_SIM_SEEDS=n` runs that many.
use super::Rig;
use super::program::{COUNTERS, FAMILIES, OWN, Player, SHARED, Sizes, VOLATILE, ok};
use crate::config::Config;
use crate::db::item::{self, Value};
use crate::net::sim::{ClientState, Faults, Rng};
use dolmen_slab::Kind;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const SEEDS: u64 = 40;
const PLAYERS_MAX: u32 = 6;

#[test]
fn random_pipelines_are_answered_as_foretold() {
    let seeds = super::seeds(SEEDS);
    let mut failed = Vec::new();
    let mut sum = Totals::default();
    for seed in seeds.clone() {
        match catch_unwind(AssertUnwindSafe(|| Game::new(seed).play())) {
            Ok(totals) => sum.add(&totals),
            Err(_) => {
                eprintln!("seed {seed} failed");
                failed.push(seed);
            }
        }
    }
    eprintln!("{} seeds: {sum:?}", seeds.clone().count());
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
    if seeds.clone().count() >= 40 {
        assert!(
            sum.requests > 10_000 && sum.suspended > 100 && sum.resets > 10 && sum.held > 10 && sum.refused > 2,
            "it happens: {sum:?}"
        );
    }
}

/// What happened, to see that the test tests.
#[derive(Default, Debug)]
struct Totals {
    requests: u64,
    suspended: u64,
    /// Turns that began with sessions waiting for names.
    held: u64,
    resets: u64,
    /// Transactions that were not run, as somebody else had changed a watched key.
    refused: u64,
    turns: u64,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.requests += other.requests;
        self.suspended += other.suspended;
        self.held += other.held;
        self.resets += other.resets;
        self.refused += other.refused;
        self.turns += other.turns;
    }
}

struct Game {
    seed: u64,
    rng: Rng,
    rig: Rig,
    players: Vec<Player>,
    sizes: Sizes,
    pausing: bool,
    totals: Totals,
    /// Additions to the counters that may or may not have been executed.
    unsure: [i64; COUNTERS],
    known: [i64; COUNTERS],
    /// Requests of connections that were reset: how many of them ran is not known.
    unsure_requests: bool,
}

impl Game {
    fn new(seed: u64) -> Game {
        let mut rng = Rng::new(seed ^ 0xD01_3E4);
        let mut faults = Faults::from_seed(seed);
        faults.queue_bytes = faults.queue_bytes.max(48);
        let narrow = faults.queue_bytes < 1000 || (faults.ring_bytes > 0 && faults.ring_bytes < 100);
        let sizes = Sizes {
            value_bytes_max: if narrow { 40 << 10 } else { 300 << 10 },
            requests_max: if narrow { 40 } else { 200 },
            many_permille: if narrow { 4 } else { 20 },
        };
        if rng.permille(400) {
            faults.reset_permille = 15;
        }
        let config = Config { databases: OWN + PLAYERS_MAX, ..Config::default() };
        let mut rig = Rig::new(seed, faults, config);
        let players = 2 + u32::try_from(rng.below(u64::from(PLAYERS_MAX) - 1)).unwrap();
        let players = (0..players).map(|n| Player::new(n, rig.sim().connect())).collect();
        Game {
            seed,
            pausing: rng.permille(500),
            rng,
            rig,
            players,
            sizes,
            totals: Totals::default(),
            unsure: [0; COUNTERS],
            known: [0; COUNTERS],
            unsure_requests: false,
        }
    }

    fn play(mut self) -> Totals {
        let empty_bytes = self.rig.worker.engine().keyspace.shard().used_bytes();
        for round in 0..5 {
            if round == 3 && self.rng.permille(600) {
                self.flush_round();
            } else {
                let now_ms = self.rig.now_ms();
                for player in &mut self.players {
                    player.make_up(&mut self.rng, self.sizes, now_ms, false);
                }
                self.converse();
            }
            self.settle();
            let pause_ms = [0, 1, 30, 500, 2500][usize::try_from(self.rng.below(5)).unwrap()];
            self.rig.pass(Duration::from_millis(pause_ms));
        }
        self.leave();
        self.compare();
        self.totals.suspended = self.rig.worker.engine().stats.suspended;
        assert_eq!(self.rig.empty_bytes(), empty_bytes, "memory is back");
        self.totals
    }

    /// One client flushes everything; the others ask about nothing meanwhile.
    fn flush_round(&mut self) {
        let now_ms = self.rig.now_ms();
        let flusher = usize::try_from(self.rng.below(self.players.len() as u64)).unwrap();
        for (i, player) in self.players.iter_mut().enumerate() {
            if i == flusher {
                player.flush_all(&mut self.rng, self.sizes, now_ms);
            } else {
                player.make_up(&mut self.rng, self.sizes, now_ms, true);
            }
        }
        self.converse();
        if self.players[flusher].lost {
            // Whether it came to that is not known.
            self.rig.worker.engine().keyspace.shard().flush_all();
        }
        for (i, player) in self.players.iter_mut().enumerate() {
            player.checker.volatile.clear();
            if i != flusher {
                player.keys.clear();
            }
        }
        (self.unsure, self.known) = ([0; COUNTERS], [0; COUNTERS]);
        self.forget_counters();
    }

    fn forget_counters(&mut self) {
        for player in &mut self.players {
            player.added = [0; COUNTERS];
            player.checker.sums.clear();
        }
    }

    /// Sends all requests in pieces, and turns the server until all replies have come.
    fn converse(&mut self) {
        let mut turns = 0u64;
        while !self.players.iter().all(Player::is_content) {
            turns += 1;
            if turns > 3_000_000 {
                let due: Vec<usize> = self.players.iter().map(Player::replies_due).collect();
                panic!("seed {}: replies do not come: {due:?}", self.seed);
            }
            for player in &mut self.players {
                let sim = self.rig.worker.backend();
                if !player.outgoing.is_empty() && self.rng.permille(500) {
                    let n = match self.rng.below(4) {
                        0 => 1 + self.rng.below(5),
                        1 => 1 + self.rng.below(2_000),
                        _ => 1 + self.rng.below(100_000),
                    };
                    let n = player.outgoing.len().min(usize::try_from(n).unwrap());
                    let piece: Vec<u8> = player.outgoing.drain(..n).collect();
                    sim.send(player.id, &piece);
                }
                if self.pausing && self.rng.permille(20) {
                    player.reading = !player.reading;
                    if player.reading { sim.start_reading(player.id) } else { sim.stop_reading(player.id) }
                }
            }
            self.totals.held += u64::from(self.rig.worker.state.held_len() > 0);
            self.rig.turn();
            let now_ms = self.rig.now_ms();
            for player in &mut self.players {
                let sim = self.rig.worker.backend();
                let bytes = sim.received(player.id);
                let state = sim.state(player.id);
                if player.lost || (bytes.is_empty() && !turns.is_multiple_of(64) && state == ClientState::Open) {
                    continue;
                }
                if let Err(error) = player.receive(&bytes, now_ms, turns.is_multiple_of(64)) {
                    panic!("seed {}: {error}", self.seed);
                }
                match state {
                    ClientState::Connecting | ClientState::Open => {}
                    ClientState::Reset => {
                        player.lost = true;
                        self.totals.resets += 1;
                    }
                    ClientState::Eof | ClientState::Closed => {
                        panic!("seed {}: closed without being asked to", self.seed)
                    }
                }
            }
        }
        self.totals.turns += turns;
    }

    /// Between rounds nothing is under way. What is certain of the counters is noted, and who was reset begins anew.
    fn settle(&mut self) {
        let alive = self.players.iter().filter(|player| !player.lost).count();
        self.rig.until("the connections that were reset are closed", |rig| {
            rig.sim().open_connections() == alive && rig.worker.state.waiting_len() == 0
        });
        let mut seen: Vec<BTreeSet<i64>> = vec![BTreeSet::new(); COUNTERS];
        for player in &mut self.players {
            let mut last = [0; COUNTERS];
            for counter in player.checker.refused.drain(..) {
                player.added[counter] -= 1;
                player.requests -= 1;
                self.totals.refused += 1;
            }
            for (counter, sum) in player.checker.sums.drain(..) {
                assert!(sum > last[counter], "seed {}: a counter went back for one client", self.seed);
                last[counter] = sum;
                assert!(seen[counter].insert(sum), "seed {}: two additions had the same sum", self.seed);
                self.known[counter] += 1;
                player.added[counter] -= 1;
            }
            for (unsure, left) in self.unsure.iter_mut().zip(std::mem::take(&mut player.added)) {
                assert!(left == 0 || player.lost, "seed {}: an addition was not answered", self.seed);
                *unsure += left;
            }
        }
        for (counter, (known, unsure)) in self.known.into_iter().zip(self.unsure).enumerate() {
            let now_ms = self.rig.now_ms();
            let mut db = self.rig.worker.engine().keyspace.shard().db(SHARED as usize, now_ms);
            let name = format!("counter:{counter}");
            let sum = match db.read_string(db.key(name.as_bytes())).unwrap() {
                None => 0,
                Some(value) => {
                    let digits = db_copy(&value);
                    String::from_utf8(digits).unwrap().parse::<i64>().unwrap()
                }
            };
            assert!((known..=known + unsure).contains(&sum), "seed {}: counter {sum}, {known} + {unsure}", self.seed);
        }
        let now_ms = self.rig.now_ms();
        for player in &mut self.players {
            self.unsure_requests |= player.lost;
            if player.lost {
                let id = self.rig.worker.backend().connect();
                player.begin_again(id, now_ms);
            }
        }
        self.converse();
        if self.players.iter().any(|player| player.lost) {
            self.settle();
        }
    }

    /// All clients go, each in its way.
    fn leave(&mut self) {
        let requests: u64 = self.players.iter().map(|player| player.requests).sum();
        self.totals.requests = requests;
        let stats = &self.rig.worker.engine().stats;
        let executed = stats.commands + stats.rejected_commands;
        if !self.unsure_requests {
            assert_eq!(executed, requests, "seed {}: commands executed or refused, and asked for", self.seed);
        }
        let now_ms = self.rig.now_ms();
        for player in &mut self.players {
            let sim = self.rig.worker.backend();
            match self.rng.below(4) {
                0 => player.ask(&[b"QUIT"], ok(), now_ms),
                1 => sim.close_write(player.id),
                2 => sim.disconnect(player.id),
                _ => sim.reset(player.id),
            }
            sim.start_reading(player.id);
            sim.send(player.id, &std::mem::take(&mut player.outgoing));
        }
        self.rig.assert_clean(&format!("seed {}", self.seed));
    }

    /// The keyspace is what the models say, and takes the chunks and blobs that it should.
    fn compare(&mut self) {
        let seed = self.seed;
        self.rig.pass(Duration::from_secs(5));
        self.rig.rest();
        let now_ms = self.rig.now_ms();
        let shard = self.rig.worker.engine().keyspace.shard();
        assert_eq!(shard.databases()[VOLATILE as usize].len(), 0, "seed {seed}: keys expire without being asked for");
        let mut blobs = 0u64;
        let mut count = |key_len: usize, value_len: usize| {
            blobs += u64::from(key_len > item::KEY_INLINE_MAX) + u64::from(value_len > item::value_inline_max(key_len));
        };
        for player in &self.players {
            let mut db = shard.db(player.own() as usize, now_ms);
            assert_eq!(db.len(), player.keys.len(), "seed {seed}: keys of client {}", player.number);
            for (name, entry) in &player.keys {
                let key = db.key(name);
                assert_eq!(db.deadline_ms(key), Some(entry.deadline_ms), "seed {seed}: a deadline");
                let key = db.key(name);
                let value = db.read_string(key).unwrap().expect("a key of the model");
                let bytes = match value {
                    Value::Blob(id) => shard_blob(&db, id),
                    other => db_copy(&other),
                };
                assert!(bytes == entry.value, "seed {seed}: the value of a key");
                count(name.len(), entry.value.len());
            }
        }
        let mut shared = shard.db(SHARED as usize, now_ms);
        for family in &FAMILIES {
            let there = (0..family.count).filter(|&i| shared.exists(shared.key(&family.key(i)))).count();
            assert!(there == 0 || there == family.count, "seed {seed}: {there} of the {}", family.name);
        }
        let keys: usize = shard.databases().iter().map(|d| d.len()).sum();
        let items: usize = shard.slab().class_stats().filter(|c| c.kind == Kind::Item).map(|c| c.live_chunks).sum();
        assert_eq!(items, keys, "seed {seed}: items");
        assert_eq!(shard.slab().blob_stats().blobs, blobs, "seed {seed}: blobs");
    }
}

fn db_copy(value: &Value<'_>) -> Vec<u8> {
    match value {
        Value::Raw(bytes) => bytes.to_vec(),
        Value::Int(i) => i.to_string().into_bytes(),
        Value::Blob(_) => unreachable!("asked for small values only"),
    }
}

fn shard_blob(db: &crate::db::Db<'_>, id: dolmen_slab::BlobId) -> Vec<u8> {
    db.copy_value(&Value::Blob(id))
}
