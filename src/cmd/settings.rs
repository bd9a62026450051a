//! CONFIG: what the settings are, changes of them, and of the file that they came from.
//!
//! A change is made once, under the lock of the settings that all workers share (`fleet::Settings`), and then adopted by every worker; so
//! changes made at once on several workers end in the same settings everywhere. It is answered when all have adopted it.

use super::acl::Sweep;
use super::ctx::{Args, Budget, Ctx, Outcome};
use super::elsewhere::elsewhere;
use super::fleet::{Local, everywhere, everywhere_sliced};
use crate::base::cpu::ClientRoom;
use crate::base::glob::glob_matches;
use crate::base::log::set_level;
use crate::base::oom::adjust;
use crate::config;
use crate::proto::errors;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
    // The append-only file is turned on or off first, as that may fail.
    let privileged = super::debug::may_change_protected(ctx);
    let mut trial = ctx.config.clone();
    if trial.set_all_by(privileged, pairs).is_ok() && trial.log.on != ctx.config.log.on {
        return super::aof::switch(ctx, trial.log.on, args, set_rest);
    }
    set_rest(ctx, args)
}

/// All of CONFIG SET but for the append-only file.
fn set_rest(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (pairs, _) = args[2..].as_chunks::<2>();
    let settings = ctx.fleet.settings().clone();
    let (mut limits, mut classes) = (ctx.config.limits, 0);
    let (mut eviction, mut limit_bytes) = (ctx.config.eviction, ctx.config.maxmemory_bytes);
    let limit_bytes_before = limit_bytes;
    let mut defrag = ctx.config.defrag;
    // What has happened so far is told as it was wanted then.
    ctx.publish_news();
    let privileged = super::debug::may_change_protected(ctx);
    let changed = settings.change(ctx.config, |config| {
        let dir = config.dir.clone();
        let (clients_max, level) = (config.maxclients, config.loglevel);
        let oom = (config.oom_score_adj, config.oom_score_values);
        config.set_all_by(privileged, pairs).map_err(|(i, error)| error.reply(pairs[i][0]))?;
        if config.maxclients > clients_max {
            let room = ClientRoom::make(config.maxclients).maxclients;
            if room < config.maxclients {
                return Err(errors::max_clients_refused(room));
            }
        }
        if config.dir != dir {
            std::env::set_current_dir(&config.dir).map_err(|error| errors::dir_refused(&error))?;
        }
        if (config.oom_score_adj, config.oom_score_values) != oom
            && let Err(error) = adjust(config.oom_score_adj, config.oom_score_values[0])
        {
            log::warn!("Unable to write oom_score_adj: {error}");
            return Err(errors::OOM_SCORE_REFUSED.into());
        }
        if config.loglevel != level {
            set_level(config.loglevel);
        }
        (limits, classes) = (config.limits, config.notify.told());
        (eviction, limit_bytes) = (config.eviction, config.maxmemory_bytes);
        defrag = config.defrag;
        ctx.store.log.set(super::aof::log_settings(config));
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
    ctx.db.set_defrag(defrag);
    ctx.db.set_eviction(eviction, limit_bytes);
    if pairs.iter().any(|[name, _]| name.eq_ignore_ascii_case(b"requirepass")) {
        let (catalogue, password) =
            (Arc::clone(&ctx.acl.catalogue), ctx.fleet.settings().latest(ctx.config).requirepass);
        let changed = ctx.acl.change(|users| {
            users.set_default_password(&catalogue, &password);
            Ok::<_, ()>(())
        });
        debug_assert!(changed.is_ok());
    }
    let by = ctx.client().id;
    let limits_anew = limit_bytes != limit_bytes_before;
    let make = move || {
        let (settings, mut sweep, mut adopted) = (settings.clone(), Sweep::new(by, false), false);
        move |local: &mut Local<'_>, budget: &mut Budget| {
            if !std::mem::replace(&mut adopted, true) {
                settings.adopt(local.config);
                local.profile.follow(local.config);
                local.asks.reconfigured = true;
                if limits_anew {
                    // Goes on when the worker has reckoned with it: commands behind this one find the new limit.
                    return None;
                }
            }
            // The password of the default user may be another one, or none.
            sweep.step(local, budget).then_some(())
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
            local.profile.reset();
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
    let mut config = ctx.config.clone();
    config.users = super::acl::configured(ctx);
    elsewhere(
        ctx,
        "config rewrite",
        move || config::rewrite(&config),
        |ctx, written| match written.and_then(|written| written) {
            Ok(()) => {
                log::info!("CONFIG REWRITE executed with success.");
                ctx.out().ok();
                Outcome::Done
            }
            Err(error) => {
                log::warn!("CONFIG REWRITE failed: {error}");
                ctx.fail(errors::rewrite_failed(&error))
            }
        },
    )
}
