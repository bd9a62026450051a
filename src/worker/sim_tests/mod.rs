//! The whole server on the simulated backend: sessions, commands, keyspace and background work, under a clock that only the simulation
//! moves, so that a seed is a run.
mod messages;
mod model;
mod program;
mod random;
mod targeted;
mod transactions;

use super::Worker;
use crate::base::clock::Clock;
use crate::config::Config;
use crate::db::Access;
use crate::net::NetConfig;
use crate::net::sim::{ClientId, ClientState, Faults, Sim, SimClock, SimConfig};
use std::time::Duration;

/// The simulation's time 0.
const START_UNIX_MS: u64 = 1_800_000_000_000;
/// What a look at the clock takes: a slice of 50 us ends at the fifth.
const LOOK_NS: u64 = 10_000;
/// Turns after which a server that has not come to rest never will.
const TURNS_MAX: usize = 3_000_000;

/// The seeds of a random test: those that the environment asks for, or the first so many.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let env = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    match (env("DOLMEN_SIM_SEED"), env("DOLMEN_SIM_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 0..seeds.unwrap_or(count),
    }
}

/// A server and its network.
struct Rig {
    worker: Worker<Sim>,
    clock: SimClock,
}

impl Rig {
    fn new(seed: u64, faults: Faults, config: Config) -> Rig {
        let sim = Sim::new(SimConfig { seed, faults, net: NetConfig::default() });
        let clock = sim.clock();
        let time = Clock::simulated(clock.counter(), START_UNIX_MS, LOOK_NS);
        let memory = dolmen_slab::Config { reserve_bytes: 1 << 30, blob_reserve_bytes: 8 << 30, ..Default::default() };
        Rig { worker: Worker::new(sim, config, time, seed, memory).expect("address space"), clock }
    }

    fn perfect(config: Config) -> Rig {
        Rig::new(1, Faults::default(), config)
    }

    fn sim(&mut self) -> &mut Sim {
        &mut self.worker.backend
    }

    fn now_ms(&self) -> u64 {
        START_UNIX_MS + self.clock.now_ns() / 1_000_000
    }

    fn turn(&mut self) {
        self.worker.turn(None).expect("a simulation does not fail");
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Rig) -> bool) {
        for _ in 0..TURNS_MAX {
            if done(self) {
                return;
            }
            self.turn();
        }
        panic!("it never came to: {what}");
    }

    /// Turns for some virtual time.
    fn pass(&mut self, time: Duration) {
        let until_ns = self.clock.now_ns() + u64::try_from(time.as_nanos()).unwrap();
        while self.clock.now_ns() < until_ns {
            self.turn();
        }
    }

    fn connect(&mut self) -> ClientId {
        let client = self.sim().connect();
        self.until("a connection", |rig| rig.sim().state(client) != ClientState::Connecting);
        client
    }

    /// Nothing travels, nothing waits, nothing is to be freed.
    fn rest(&mut self) {
        self.turn();
        self.until("rest", |rig| {
            rig.sim().is_idle() && rig.worker.state.ready_len() == 0 && rig.worker.state.timeout() > Duration::ZERO
        });
    }

    /// All connections are gone, and with them whatever they held.
    fn assert_clean(&mut self, context: &str) {
        self.until("all connections are closed", |rig| rig.sim().open_connections() == 0);
        self.until("nothing waits", |rig| rig.worker.state.waiting_len() == 0);
        let state = &self.worker.state;
        assert_eq!(state.sessions.len(), 0, "{context}: sessions");
        assert!(state.engine.clients.is_empty(), "{context}: clients");
        let stats = &state.engine.stats;
        assert_eq!(
            (stats.clients_bytes, stats.waiting_bytes, stats.invalidation_bytes),
            (0, 0, 0),
            "{context}: clients_bytes"
        );
        assert!(!state.engine.keyspace.is_holding(), "{context}: names are held");
    }

    /// Flushes everything and gives all memory back; returns what is left.
    fn empty_bytes(&mut self) -> u64 {
        self.worker.engine().keyspace.shard().flush_all();
        self.rest();
        self.worker.engine().keyspace.shard().used_bytes()
    }
}

/// A request in RESP.
fn request(args: &[&[u8]]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        wire.extend_from_slice(&bulk(arg));
    }
    wire
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}
