//! Runs requests: batches with their memory fetched ahead, the checks before a command, the effects after it, suspended commands.
//! Reads of a command only its row. Knows nothing of bytes on the wire or of sockets.
mod pipeline;
mod received;
mod transaction;

pub use pipeline::{Batch, End, Request, Share, Waits, apply_effects};

use crate::base::clock::Clock;
use crate::base::out::Out;
use crate::base::rng::Rng;
use crate::cmd::blocking::Blocking;
use crate::cmd::client::{Clients, gate};
use crate::cmd::control::Pause;
use crate::cmd::ctx::{Asks, Budget, Ctx, Exec, Facts, NOBODY, Stats, Task};
use crate::cmd::fleet::{Fleet, Local};
use crate::cmd::spec::Commands;
use crate::config::Config;
use crate::db::{Access, Alone};
use crate::proto::reply::Reply;
use crate::pubsub::Exchange;
use crate::table::Site;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Everything that commands work on.
pub struct Engine<A = Alone> {
    pub keyspace: A,
    pub config: Config,
    pub stats: Stats,
    pub clients: Clients,
    pub commands: Commands<Exec>,
    pub clock: Clock,
    pub rng: Rng,
    pub asks: Asks,
    pub blocking: Blocking,
    pub pubsub: Exchange,
    pub pause: Pause,
    pub facts: Facts,
    pub fleet: Fleet,
}

impl Engine<Alone> {
    /// An engine of an empty keyspace that it has for itself.
    ///
    /// # Errors
    /// If the address space for the data cannot be reserved.
    pub fn new(config: Config, clock: Clock, seed: u64, memory: dolmen_slab::Config) -> std::io::Result<Engine> {
        let mut rng = Rng::seeded(seed);
        let keyspace = Alone::new(config.databases as usize, rng.next_u64(), &memory)?;
        Ok(Engine::over(keyspace, config, clock, rng))
    }
}

impl<A: Access> Engine<A> {
    /// An engine over a keyspace, or its way to one that it shares.
    #[must_use]
    pub fn over(mut keyspace: A, config: Config, clock: Clock, rng: Rng) -> Engine<A> {
        keyspace.each_shard(|shard| {
            shard.limits = config.limits;
            shard.listeners.publish_first(config.notify.told());
        });
        // Workers that have started before may have been told otherwise.
        let (keys_max, order) = (config.tracking_table_keys_max, Ordering::Relaxed);
        let _ = keyspace.totals().keys_max.compare_exchange(0, keys_max, order, order);
        Engine {
            keyspace,
            config,
            stats: Stats::default(),
            clients: Clients::default(),
            commands: Commands::new(crate::cmd::table::COMMANDS),
            rng,
            asks: Asks::default(),
            blocking: Blocking::default(),
            pubsub: Exchange::new(Arc::default(), Arc::default(), 0, 1),
            pause: Pause::default(),
            facts: Facts { start_unix_ms: clock.unix_ms(), ..Facts::default() },
            fleet: Fleet::alone(),
            clock,
        }
    }

    /// All memory that the server accounts for, in bytes, with what the other workers hold for clients.
    pub fn used_bytes(&mut self) -> u64 {
        let mut data_bytes = 0;
        self.keyspace.each_shard(|shard| data_bytes += shard.used_bytes());
        data_bytes + self.fleet.sum(&self.stats, Stats::held_bytes)
    }

    /// Publishes what has happened to keys.
    pub fn publish_news(&mut self) {
        let news = self.keyspace.take_news();
        crate::cmd::notify::publish(news, self.config.notify, &mut self.pubsub);
    }

    /// What an errand of another worker may touch.
    pub fn local(&mut self) -> Local<'_> {
        Local {
            clients: &mut self.clients,
            config: &mut self.config,
            stats: &mut self.stats,
            asks: &mut self.asks,
            blocking: &mut self.blocking,
            pubsub: &mut self.pubsub,
            pause: &mut self.pause,
            clock: &self.clock,
            fleet: &self.fleet,
        }
    }

    /// A slice of a task whose client has gone. True: it is done.
    pub fn step_orphan(&mut self, task: &mut dyn Task, database: u32, budget: &mut Budget) -> bool {
        let mut nowhere = Out::new();
        let mut ctx = self.ctx_of(NOBODY, database as usize, false, &mut nowhere);
        let done = task.step(&mut ctx, budget);
        apply_effects(&mut ctx);
        done
    }

    /// The client speaks memcached's binary protocol on a port of Redis's. False: it cannot, as it has said other things before.
    pub fn turn_to_memcache(&mut self, me: u32) -> bool {
        let database = self.config.memcached_database;
        let client = self.clients.get_mut(me);
        let can = client.gate & !gate::UNAUTHENTICATED == 0;
        if can {
            client.speak_memcache(database);
        }
        can
    }

    /// Empties the database that `flush_all` wanted to be emptied by now.
    pub fn flush_due(&mut self) {
        let now_ms = self.clock.unix_ms();
        let Some(flush) = self.asks.flush.filter(|flush| flush.at_ms <= now_ms) else { return };
        self.asks.flush = None;
        // All workers know of it, and one does it.
        if self.fleet.me() == 0 {
            let mut nowhere = Out::new();
            let mut ctx = self.ctx_of(NOBODY, flush.database, false, &mut nowhere);
            ctx.db.lock_all();
            let removed = ctx.db.flush();
            ctx.change(removed as u64);
            apply_effects(&mut ctx);
        }
    }

    /// The client's connection has gone, and with it what it has cached.
    pub fn end_tracking(&mut self, me: u32) {
        self.pubsub.take_postponed(me);
        if self.clients.get(me).gate & gate::TRACKS != 0 {
            crate::cmd::tracking::stop(self.clients.get_mut(me), self.keyspace.totals(), &self.pubsub);
        }
    }

    /// The client's connection has gone, and with it what it has queued and watches.
    pub fn end_transaction(&mut self, me: u32) {
        if self.clients.get(me).transaction().is_some() {
            let mut nowhere = Out::new();
            self.ctx_of(me, 0, false, &mut nowhere).end_transaction();
        }
    }

    /// The borrows for commands of client `me` that write to `out`.
    #[inline(always)]
    pub fn ctx<'a>(&'a mut self, me: u32, out: &'a mut Out) -> Ctx<'a> {
        let client = self.clients.get(me);
        let (database, resp3, gate) = (client.database as usize, client.resp3, client.gate);
        let mut ctx = self.ctx_of(me, database, resp3, out);
        ctx.db.set_untouching(gate & gate::NO_TOUCH != 0);
        ctx
    }

    /// The same for any client, or none.
    #[inline(always)]
    fn ctx_of<'a>(&'a mut self, me: u32, database: usize, resp3: bool, out: &'a mut Out) -> Ctx<'a> {
        Ctx {
            db: self.keyspace.db(database, self.clock.unix_ms()),
            reply: Reply::new(out, resp3),
            clients: &mut self.clients,
            me,
            config: &mut self.config,
            stats: &mut self.stats,
            asks: &mut self.asks,
            blocking: &mut self.blocking,
            pubsub: &mut self.pubsub,
            pause: &mut self.pause,
            facts: &self.facts,
            fleet: &self.fleet,
            commands: &self.commands,
            clock: &self.clock,
            rng: &mut self.rng,
            hash: 0,
            site: Site::NONE,
            blob: None,
            task: None,
            changed: 0,
        }
    }
}
