//! The commands of a log at the start: the first worker runs them, as those of a client that nobody sees, in the order in which they are read.
//!
//! Nothing goes by itself meanwhile (`Engine::frozen`), no limit of memory holds, and nobody else is served. When all have run, the log goes on
//! where its files end.

use super::state::State;
use crate::base::out::Out;
use crate::cmd::client::Client;
use crate::cmd::ctx::Budget;
use crate::db::Access;
use crate::net::Flow;
use crate::proto::errors;
use crate::session::{Session, Turn};
use crate::store::load::{Commands, Loading};
use std::sync::Arc;
use std::time::Duration;

/// Of a command in slices; nobody else waits.
const SLICE: Duration = Duration::from_micros(500);

/// How far it is.
pub(super) struct Replay {
    session: Session,
    /// Of its client: beyond those of connections.
    index: u32,
    /// What was taken, and how much of it was begun.
    taken: Option<Commands>,
    begun: usize,
    /// Error replies that were counted by then.
    errors: u64,
    /// Of those that were told.
    told: u32,
}

/// More errors are not told.
const TOLD_MAX: u32 = 10;

/// Commands were answered with errors. Those of a database that does not exist would be run in another one; of others it is told, as they change
/// nothing, like when they were logged.
fn look_at_errors(out: &Out, told: &mut u32) -> Result<(), String> {
    let mut slices = Vec::new();
    out.slices(&mut slices, usize::MAX);
    let text: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
    for line in text.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"-")) {
        let line = line.trim_ascii_end();
        if line == errors::DB_OUT_OF_RANGE.as_bytes() {
            return Err("the log selects a database that there is not here (see the directive databases)".into());
        }
        if *told < TOLD_MAX {
            *told += 1;
            log::warn!("A command of the log was answered with an error: {}", String::from_utf8_lossy(line));
        }
    }
    Ok(())
}

impl<A: Access> State<A> {
    /// Runs commands of the log for some time. True: there are more at hand.
    pub(super) fn replay(&mut self, loading: &Arc<Loading>, until_ns: u64) -> bool {
        let mut replay = match self.replay.take() {
            Some(replay) => replay,
            None => self.begin_replay(),
        };
        let engine = &mut self.engine;
        let (pause, room) = (std::mem::take(&mut engine.pause), std::mem::take(&mut engine.room));
        let (commands, errors) = (engine.stats.commands, engine.stats.error_replies);
        engine.frozen = true;
        engine.commands.let_own_names_hold(true);
        let more = self.replay_some(&mut replay, loading, until_ns);
        let engine = &mut self.engine;
        engine.frozen = false;
        engine.commands.let_own_names_hold(false);
        (engine.pause, engine.room) = (pause, room);
        (engine.stats.commands, engine.stats.error_replies) = (commands, errors);
        // Nobody has asked to be told of this.
        engine.keyspace.take_news();
        if loading.is_log_done() {
            self.end_replay(replay, loading);
            return false;
        }
        self.replay = Some(replay);
        more
    }

    fn begin_replay(&mut self) -> Replay {
        let now_ms = self.engine.clock.unix_ms();
        // Connections have the lowest indices that are free.
        let index = self.engine.config.maxclients.saturating_mul(2).max(1 << 16);
        self.engine.clients.insert(index, |id| Client::new(id, now_ms, "", "", -1, false));
        Replay {
            session: Session::default(),
            index,
            taken: None,
            begun: 0,
            errors: self.engine.stats.error_replies,
            told: 0,
        }
    }

    fn replay_some(&mut self, replay: &mut Replay, loading: &Loading, until_ns: u64) -> bool {
        let mut out = Out::new();
        loop {
            if loading.failure().is_some() {
                return false;
            }
            if replay.session.ends_with_client() {
                loading.give_up("the log has a command that waits for others".into());
                return false;
            }
            let flow = if replay.session.is_idle() {
                let Some(commands) = &mut replay.taken else {
                    replay.taken = loading.take_commands();
                    replay.begun = 0;
                    if replay.taken.is_none() {
                        return false;
                    }
                    continue;
                };
                while let Some(flagged) = commands.flagged.pop_front_if(|flagged| flagged.end <= replay.begun) {
                    if self.engine.set_client_flags(replay.index, &flagged.key, flagged.flags).is_err() {
                        loading.give_up("there is no memory for the flags of a key".into());
                        return false;
                    }
                }
                if replay.begun == commands.bytes.len() {
                    replay.taken = None;
                    loading.ran();
                    continue;
                }
                // Whole commands, so nothing of them is left behind.
                let until = commands.flagged.front().map_or(commands.bytes.len(), |flagged| flagged.end);
                let bytes = &commands.bytes[std::mem::replace(&mut replay.begun, until)..until];
                self.arena.reset();
                replay.session.data(&mut self.engine, replay.index, &self.arena, bytes, &mut out)
            } else {
                let mut budget = Budget::new(&self.engine.clock, SLICE);
                self.arena.reset();
                match replay.session.go_on(&mut self.engine, replay.index, &self.arena, &mut out, &mut budget) {
                    Turn::Flow(flow) => flow,
                    // It may wait for what is done between turns.
                    Turn::Again | Turn::Parked => return true,
                }
            };
            let errors = self.engine.stats.error_replies;
            if errors != replay.errors {
                replay.errors = errors;
                if let Err(why) = look_at_errors(&out, &mut replay.told) {
                    loading.give_up(why);
                    return false;
                }
            }
            out.discard();
            if matches!(flow, Flow::Finish | Flow::Abort) {
                loading.give_up("the log has a command that cannot be run".into());
                return false;
            }
            if self.watch.now_ns() > until_ns {
                return true;
            }
        }
    }

    fn end_replay(&mut self, replay: Replay, loading: &Arc<Loading>) {
        let Replay { session, index, .. } = replay;
        self.engine.end_transaction(index);
        let client = self.engine.clients.get(index);
        let (id, database) = (client.id, client.database as usize);
        self.engine.blocking.remove(id);
        session.close(&mut self.engine, database);
        self.engine.clients.remove(index);
        let store = Arc::clone(&self.engine.store);
        if loading.failure().is_none() {
            let dirty = self.engine.stats.dirty;
            store.loaded_at(dirty);
            if let Err(error) = self.engine.begin_log() {
                loading.give_up(format!("cannot open the append-only file: {error}"));
            }
        }
        loading.end_log(&store);
        self.engine.keyspace.each_shard(|shard| shard.active_expire = true);
    }
}
