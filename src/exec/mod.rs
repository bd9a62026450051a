//! Runs requests: batches with their memory fetched ahead, the checks before a command, the effects after it, suspended commands.
//! Reads of a command only its row. Knows nothing of bytes on the wire or of sockets.
mod batch;
mod checks;
mod logged;
mod pipeline;
mod received;
mod silent;
mod timed;
mod transaction;

pub use crate::cmd::alike::Request;
pub use batch::{Batch, Share};
pub use pipeline::{End, Waits, apply_effects};

use crate::acl::Acl;
use crate::base::clock::Clock;
use crate::base::out::Out;
use crate::base::rng::Rng;
use crate::cmd::aof;
use crate::cmd::blocking::Blocking;
use crate::cmd::client::{Clients, gate};
use crate::cmd::control::Pause;
use crate::cmd::ctx::{Asks, Budget, Ctx, Exec, Facts, NOBODY, Stats, Task};
use crate::cmd::fleet::{Fleet, Local};
use crate::cmd::persistence::{self, NotBegun};
use crate::cmd::profile::Profile;
use crate::cmd::record::Recorder;
use crate::cmd::room::{Made, Room};
use crate::cmd::spec::Commands;
use crate::config::Config;
use crate::db::{Access, Alone};
use crate::proto::reply::Reply;
use crate::pubsub::Exchange;
use crate::store::{Job, Refused, Store, load, save};
use crate::table::Site;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
    pub room: Room,
    /// Memory of the data's structure that lies outside of the slabs, as last looked at.
    heap_bytes: u64,
    pub acl: Acl,
    pub profile: Profile,
    pub facts: Facts,
    pub fleet: Fleet,
    pub store: Arc<Store>,
    /// It saves by itself, as its settings say: at the save points, and at the end.
    pub saves_by_itself: bool,
    /// This worker's part of a save, and of a load.
    pub pass: save::Pass,
    pub intake: load::Intake,
    /// What this worker has to log.
    pub recorder: Recorder,
    /// A log of changes is read again: nothing goes by itself.
    pub frozen: bool,
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

/// The commands, under the names that the configuration gives them.
///
/// # Errors
/// If it renames what there is not.
pub fn commands_of(config: &Config) -> Result<Commands<Exec>, &'static str> {
    Commands::renamed(&crate::cmd::table::COMMANDS, &config.renames)
}

impl<A: Access> Engine<A> {
    /// An engine over a keyspace, or its way to one that it shares.
    ///
    /// # Panics
    /// If the configuration renames commands that there are not (`commands_of` tells).
    pub fn over(mut keyspace: A, config: Config, clock: Clock, rng: Rng) -> Engine<A> {
        keyspace.each_shard(|shard| {
            shard.limits = config.limits;
            shard.listeners.publish_first(config.notify.told());
        });
        keyspace.set_eviction(config.eviction, config.maxmemory_bytes);
        keyspace.set_defrag(config.defrag);
        // Workers that have started before may have been told otherwise.
        let (keys_max, order) = (config.tracking_table_keys_max, Ordering::Relaxed);
        let _ = keyspace.totals().keys_max.compare_exchange(0, keys_max, order, order);
        let commands = commands_of(&config).expect("the names were looked at when the server started");
        let mut profile = Profile::new(&clock, commands.len_all());
        profile.follow(&config);
        Engine {
            profile,
            keyspace,
            stats: Stats::default(),
            clients: Clients::default(),
            commands,
            rng,
            asks: Asks::default(),
            blocking: Blocking::default(),
            pubsub: Exchange::new(Arc::default(), Arc::default(), 0, 1),
            pause: Pause::default(),
            room: Room::default(),
            heap_bytes: 0,
            acl: crate::cmd::acl::with_password(&config.requirepass),
            facts: Facts { start_unix_ms: clock.unix_ms(), ..Facts::default() },
            fleet: Fleet::alone(),
            config,
            store: Arc::new(Store::new(1, clock.unix_ms() / 1000)),
            saves_by_itself: false,
            pass: save::Pass::default(),
            intake: load::Intake::default(),
            recorder: Recorder::default(),
            frozen: false,
            clock,
        }
    }

    /// All memory that the server accounts for, in bytes, with what the other workers hold for clients.
    pub fn used_bytes(&mut self) -> u64 {
        let mut data_bytes = 0;
        self.keyspace.each_shard(|shard| data_bytes += shard.used_bytes());
        data_bytes + self.fleet.sum(&self.stats, Stats::held_bytes) + self.store.log.pending_bytes()
    }

    /// Once a turn: how much of `maxmemory` is left to data. `looks`: what changes slowly is looked at, too.
    pub fn reckon_room(&mut self, looks: bool) {
        let limit_bytes = self.config.maxmemory_bytes;
        if limit_bytes == 0 && !self.room.is_limited() {
            return;
        }
        if looks {
            let mut heap_bytes = 0;
            self.keyspace.each_shard(|shard| heap_bytes += shard.heap_bytes());
            self.heap_bytes = heap_bytes;
        }
        let held_bytes =
            self.fleet.sum(&self.stats, |stats| stats.held_bytes().saturating_sub(stats.uncounted_bytes()));
        let clients_limit_bytes = self.config.maxmemory_clients_bytes();
        let held_bytes = self.fleet.client_eviction().lasting_bytes(held_bytes, clients_limit_bytes);
        self.room.reckon(limit_bytes, held_bytes + self.heap_bytes);
    }

    /// Between requests: has keys go while data is over the limit. True: it still is, and something may go.
    pub fn make_room(&mut self, time: Duration) -> bool {
        if !self.room.is_limited() {
            return false;
        }
        let mut budget = Budget::new(&self.clock, time);
        let mut db = self.keyspace.db(0, self.clock.unix_ms());
        let made = self.room.make_within(&mut db, &mut budget);
        db.unlock();
        made == Made::Working
    }

    /// Begins a save if one is due.
    pub fn save_if_due(&mut self) {
        let dirty = self.fleet.sum(&self.stats, |stats| stats.dirty);
        if !persistence::is_due(&self.store, &self.config, dirty, self.clock.unix_ms() / 1000) {
            return;
        }
        let counted = (dirty, self.fleet.sum(&self.stats, Stats::held_bytes));
        let mut db = self.keyspace.db(0, self.clock.unix_ms());
        let begun = persistence::begin(&mut db, &self.store, &self.config, Job::Background, counted);
        db.unlock();
        match begun {
            Ok(_) => log::info!("Background saving started"),
            Err(NotBegun::Refused(Refused::NoThread(error))) => log::warn!("Can't save in background: {error}"),
            // The next look will do.
            Err(NotBegun::Refused(_) | NotBegun::Held) => {}
        }
    }

    /// Begins to rewrite the log if that is due, or was put off: first its next file is made, by another thread.
    pub fn rewrite_if_due(&mut self) {
        if aof::rewrite_is_due(&self.store, &self.config) {
            self.store.log.prepare(!self.store.log.status().unfinished);
        }
    }

    /// The next file of the log is there: makes the cut between it and the last one.
    pub fn begin_rewrite(&mut self) {
        if self.store.is_saving() || self.store.is_loading() {
            return;
        }
        let counted =
            (self.fleet.sum(&self.stats, |stats| stats.dirty), self.fleet.sum(&self.stats, Stats::held_bytes));
        let mut db = self.keyspace.db(0, self.clock.unix_ms());
        persistence::begin_rewrite(&mut db, &self.store, &self.config, counted);
        db.unlock();
    }

    /// Hands over what this worker has to log.
    pub fn hand_over_log(&mut self) {
        if self.blocking.logs() {
            let gone = self.keyspace.take_gone();
            if gone.is_empty() && self.recorder.is_empty() {
                return;
            }
            let batch = self.recorder.take(gone);
            let spare = self.store.log.push(&self.store, self.fleet.me(), batch);
            self.recorder.go_on_with(spare);
        }
    }

    /// While a log is loaded no key goes by itself.
    pub fn freeze_while_loading(&mut self) {
        let store = &self.store;
        if store.load().is_some_and(|loading| loading.is_log()) {
            for index in 0..self.keyspace.own_shards() {
                self.keyspace.with_own_shard(index, |shard| {
                    if store.is_loading() {
                        shard.active_expire = false;
                    }
                });
            }
        }
    }

    /// All of the log is loaded, and goes on from here.
    ///
    /// # Errors
    /// If its files cannot be opened.
    pub fn begin_log(&mut self) -> std::io::Result<()> {
        let log = &self.store.log;
        let snapshot = self.config.log.snapshot_base;
        let file = log.with_files(|files| {
            if files.is_empty() {
                let bytes = if snapshot { crate::store::empty_snapshot() } else { Vec::new() };
                files.begin_base(&bytes, snapshot)?;
            }
            files.reopen()
        })?;
        log.measure();
        log.set(aof::log_settings(&self.config));
        let position = self.keyspace.totals().position.load(Ordering::Acquire);
        log.begin(&self.store, file.0, position)?;
        self.keyspace.each_shard(|shard| shard.listeners.set_logged(true));
        Ok(())
    }

    /// Works on a save for some time.
    pub fn save_some(&mut self, time_left: impl FnMut() -> bool) -> save::Progress {
        self.pass.work(&mut self.keyspace, &self.store, self.fleet.me(), time_left)
    }

    /// Works on a load for some time.
    pub fn load_some(&mut self, time_left: impl FnMut() -> bool) -> load::Progress {
        self.intake.work(&mut self.keyspace, &self.store, self.clock.unix_ms(), time_left)
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
            acl: &mut self.acl,
            profile: &mut self.profile,
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

    /// A log says that a key, of the database that a client has selected, has these flags of memcached.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn set_client_flags(&mut self, me: u32, key: &[u8], flags: u32) -> Result<(), crate::db::DbError> {
        let database = self.clients.get(me).database as usize;
        let mut db = self.keyspace.db(database, self.clock.unix_ms());
        db.freeze();
        let key = db.key(key);
        db.lock_key(key.hash);
        let marked = db.mark(key, |marks| marks.flags = flags);
        db.unlock();
        marked.map(|_| ())
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
            ctx.log_for_other(&[b"FLUSHDB"]);
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
        let mut db = self.keyspace.db(database, self.clock.unix_ms());
        if self.frozen {
            db.freeze();
        }
        Ctx {
            db,
            reply: Reply::new(out, resp3),
            clients: &mut self.clients,
            me,
            config: &mut self.config,
            stats: &mut self.stats,
            asks: &mut self.asks,
            blocking: &mut self.blocking,
            pubsub: &mut self.pubsub,
            pause: &mut self.pause,
            room: &mut self.room,
            acl: &mut self.acl,
            profile: &mut self.profile,
            facts: &self.facts,
            fleet: &self.fleet,
            store: &self.store,
            recorder: &mut self.recorder,
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
