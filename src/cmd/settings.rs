//! CONFIG: what the settings are, changes of them, and of the file that they came from.
//!
//! A change is made once, under the lock of the settings that all workers share (`fleet::Settings`), and then adopted by every worker; so
//! changes made at once on several workers end in the same settings everywhere. It is answered when all have adopted it.

use super::client::gate;
use super::ctx::{Args, Budget, Ctx, Outcome, Task};
use super::fleet::{Local, everywhere, everywhere_sliced};
use crate::base::cpu::ClientRoom;
use crate::base::glob::glob_matches;
use crate::base::log::set_level;
use crate::config;
use crate::proto::errors;
use std::io;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// `CONFIG GET pattern [pattern ...]`
pub fn get(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let found = ctx.config.get(&args[2..], glob_matches);
    ctx.reply.map(found.len());
    for (name, value) in found {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.bulk(&value);
    }
    Outcome::Done
}

/// `CONFIG SET name value [name value ...]`
pub fn set(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (pairs, rest) = args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return ctx.fail(errors::SYNTAX);
    }
    let settings = ctx.fleet.settings().clone();
    let (mut limits, mut classes, mut eviction) = (ctx.config.limits, 0, ctx.config.eviction);
    // What has happened so far is told as it was wanted then.
    ctx.publish_news();
    let changed = settings.change(ctx.config, |config| {
        let (clients_max, level) = (config.maxclients, config.loglevel);
        config.set_all(pairs).map_err(|(i, error)| error.reply(pairs[i][0]))?;
        if config.maxclients > clients_max {
            let room = ClientRoom::make(config.maxclients).maxclients;
            if room < config.maxclients {
                return Err(errors::max_clients_refused(room));
            }
        }
        if config.loglevel != level {
            set_level(config.loglevel);
        }
        (limits, classes, eviction) = (config.limits, config.notify.told(), config.eviction);
        ctx.db.totals().keys_max.store(config.tracking_table_keys_max, Ordering::Relaxed);
        Ok(())
    });
    let version = match changed {
        Ok(version) => version,
        Err(text) => return ctx.fail(text),
    };
    ctx.db.each_shard(|shard| {
        shard.limits = limits;
        shard.listeners.publish(classes, version);
    });
    ctx.db.set_eviction(eviction);
    let make = move || {
        let (settings, mut seen) = (settings.clone(), None);
        move |local: &mut Local<'_>, budget: &mut Budget| {
            let mut at = *seen.get_or_insert_with(|| {
                settings.adopt(local.config);
                local.asks.reconfigured = true;
                0
            });
            // Without a password everybody may do everything, those who were asked for one too.
            while local.config.requirepass.is_empty()
                && let Some((index, client)) = local.clients.after(at)
            {
                at = client.id;
                seen = Some(at);
                local.clients.get_mut(index).set_gate(gate::UNAUTHENTICATED, false);
                if budget.is_spent(64) {
                    return None;
                }
            }
            Some(())
        }
    };
    everywhere_sliced(ctx, make, |ctx, _: Vec<()>| ctx.out().ok())
}

/// `CONFIG RESETSTAT`
pub fn reset_stat(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    ctx.db.each_shard(|shard| shard.stats = crate::db::ShardStats::default());
    everywhere(
        ctx,
        |local: &mut Local<'_>| {
            local.stats.reset();
            local.fleet.publish(local.stats);
        },
        |ctx, _| ctx.out().ok(),
    )
}

/// `CONFIG REWRITE`
pub fn rewrite(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    if ctx.config.config_file.is_none() {
        return ctx.fail(errors::NO_CONFIG_FILE);
    }
    let config = ctx.config.clone();
    // A disk may take its time.
    match std::thread::Builder::new().name("config rewrite".into()).spawn(move || config::rewrite(&config)) {
        Ok(thread) => ctx.suspend(Box::new(Rewrite(Some(thread)))),
        Err(error) => ctx.fail(errors::rewrite_failed(&error)),
    }
}

/// CONFIG REWRITE, while a thread writes.
struct Rewrite(Option<JoinHandle<io::Result<()>>>);

impl Task for Rewrite {
    fn step(&mut self, ctx: &mut Ctx<'_>, _budget: &mut Budget) -> bool {
        let Some(thread) = self.0.take_if(|thread| thread.is_finished()) else { return false };
        match thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer has panicked"))) {
            Ok(()) => {
                log::info!("CONFIG REWRITE executed with success.");
                ctx.out().ok();
            }
            Err(error) => {
                log::warn!("CONFIG REWRITE failed: {error}");
                ctx.fail(errors::rewrite_failed(&error));
            }
        }
        true
    }

    fn bytes(&self) -> usize {
        0
    }
}
