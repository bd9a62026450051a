//! INFO: what the server tells about itself, in Redis's sections and field names.

use super::ctx::{Args, Ctx, Outcome};
use super::figures::{DatabaseFigures, Figures, MEM_ALLOCATOR, difference, ratio};
use super::fleet::{Local, everywhere};
use super::profile::Report;
use super::server::COMPATIBLE_VERSION;
use crate::base::cpu;
use crate::pubsub::Kind;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

/// Redis's clock of seconds that keys are stamped with has 24 bits.
const LRU_CLOCK_END: u64 = 1 << 24;

/// Name, what writes it, and whether it is told without being asked for.
type Section = (&'static str, fn(&Ctx<'_>, &Figures, &mut String), bool);

const SECTIONS: [Section; 13] = [
    ("server", server, true),
    ("clients", clients, true),
    ("memory", memory, true),
    ("persistence", persistence, true),
    ("stats", stats, true),
    ("replication", replication, true),
    ("cpu", cpu_times, true),
    ("modules", modules, true),
    ("commandstats", command_counts, false),
    ("errorstats", error_counts, true),
    ("latencystats", latencies, false),
    ("cluster", cluster, true),
    ("keyspace", keyspace, true),
];

/// Sections that tell what each worker has counted by command.
const REPORTED: [&str; 3] = ["errorstats", "commandstats", "latencystats"];

/// `INFO [section ...]`
pub fn info(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let wanted: Vec<Vec<u8>> = args[1..].iter().map(|a| a.to_ascii_lowercase()).collect();
    let all = wanted.iter().any(|w| matches!(&**w, b"all" | b"everything"));
    let default = wanted.is_empty() || wanted.iter().any(|w| w == b"default");
    let is_told = move |(name, _, usual): &Section| {
        all || default && *usual || wanted.iter().any(|wanted| wanted == name.as_bytes())
    };
    let sections: Vec<Section> = SECTIONS.into_iter().filter(is_told).collect();
    if !sections.iter().any(|(name, ..)| REPORTED.contains(name)) {
        write(ctx, &sections, Report::default());
        return Outcome::Done;
    }
    let part = |local: &mut Local<'_>| local.profile.report();
    everywhere(ctx, part, move |ctx, reports| write(ctx, &sections, Report::sum(reports)))
}

fn write(ctx: &mut Ctx<'_>, sections: &[Section], report: Report) {
    let figures = Figures::of(ctx, report);
    let mut text = String::new();
    for (name, write, _) in sections {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let mut title: Vec<u8> = (*name).into();
        title[0] = title[0].to_ascii_uppercase();
        let title = if *name == "cpu" { "CPU".into() } else { String::from_utf8_lossy(&title).into_owned() };
        let _ = write!(text, "# {title}\r\n");
        write(ctx, &figures, &mut text);
    }
    ctx.reply.verbatim(b"txt", text.as_bytes());
}

macro_rules! fields {
    ($to:expr, $($name:literal: $value:expr),+ $(,)?) => {
        $(let _ = write!($to, concat!($name, ":{}\r\n"), $value);)+
    };
}

fn server(ctx: &Ctx<'_>, _figures: &Figures, to: &mut String) {
    let facts = ctx.facts;
    let now_ms = ctx.db.now_ms();
    let up_s = now_ms.saturating_sub(facts.start_unix_ms) / 1000;
    let uname = nix::sys::utsname::uname();
    let os = uname.map_or_else(
        |_| "Linux".into(),
        |u| {
            let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
            format!("{} {} {}", text(u.sysname()), text(u.release()), text(u.machine()))
        },
    );
    fields!(to,
        "redis_version": COMPATIBLE_VERSION,
        "server_name": "dolmen",
        "dolmen_version": env!("CARGO_PKG_VERSION"),
        "redis_mode": "standalone",
        "os": os,
        "arch_bits": usize::BITS,
        "multiplexing_api": facts.backend,
        "process_supervised": "no",
        "process_id": std::process::id(),
        "run_id": facts.run_id,
        "tcp_port": facts.tcp_port,
        "server_time_usec": now_ms * 1000,
        "uptime_in_seconds": up_s,
        "uptime_in_days": up_s / 86_400,
        "hz": ctx.config.hz,
        "configured_hz": ctx.config.hz,
        "lru_clock": now_ms / 1000 % LRU_CLOCK_END,
        "workers": facts.workers,
        "executable": facts.executable,
        "config_file": facts.config_file,
        "io_threads_active": 0,
    );
}

fn clients(ctx: &Ctx<'_>, figures: &Figures, to: &mut String) {
    fields!(to,
        "connected_clients": figures.stats.clients,
        "clients_per_worker": figures.clients_per_worker,
        "cluster_connections": 0,
        "maxclients": ctx.config.maxclients,
        "client_recent_max_input_buffer": figures.stats.query_bytes_max.get(),
        "client_recent_max_output_buffer": figures.stats.out_bytes_max.get(),
        "tracking_clients": ctx.db.totals().clients.load(Ordering::Relaxed),
        "blocked_clients": figures.stats.paused_clients + figures.stats.blocked_clients,
        "suspended_clients": figures.stats.suspended_clients,
    );
}

fn human(bytes: u64) -> String {
    const UNITS: [(u64, char); 4] = [(1 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{:.2}{letter}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

fn memory(ctx: &Ctx<'_>, figures: &Figures, to: &mut String) {
    let Figures { data, stats, .. } = figures;
    let memory = figures.memory(ctx);
    let percent = |part: u64, whole: u64| format!("{:.2}%", 100.0 * ratio(part, whole));
    let two = |ratio: f64| format!("{ratio:.2}");
    // What is of scripts, functions, replication and the append-only file is 0 as long as there are none.
    fields!(to,
        "used_memory": memory.used,
        "used_memory_human": human(memory.used),
        "used_memory_rss": memory.resident,
        "used_memory_rss_human": human(memory.resident),
        "used_memory_peak": memory.peak,
        "used_memory_peak_human": human(memory.peak),
        "used_memory_peak_perc": percent(memory.used, memory.peak),
        "used_memory_overhead": memory.overhead(),
        "used_memory_startup": memory.startup,
        "used_memory_dataset": memory.dataset,
        "used_memory_dataset_perc": percent(memory.dataset, memory.used.saturating_sub(memory.startup)),
        "used_memory_clients": stats.held_bytes(),
        "used_memory_tables": data.overhead_bytes,
        "allocator_allocated": memory.allocated,
        "allocator_active": memory.active,
        "allocator_resident": memory.mapped,
        "slab_metadata": data.metadata_bytes,
        "slab_fragmented": data.fragmented_bytes,
        "total_system_memory": memory.machine,
        "total_system_memory_human": human(memory.machine),
        "used_memory_lua": 0,
        "used_memory_vm_eval": 0,
        "used_memory_lua_human": human(0),
        "used_memory_scripts_eval": 0,
        "number_of_cached_scripts": 0,
        "number_of_functions": 0,
        "number_of_libraries": 0,
        "used_memory_vm_functions": 0,
        "used_memory_vm_total": 0,
        "used_memory_vm_total_human": human(0),
        "used_memory_functions": 0,
        "used_memory_scripts": 0,
        "used_memory_scripts_human": human(0),
        "maxmemory": ctx.config.maxmemory_bytes,
        "maxmemory_human": human(ctx.config.maxmemory_bytes),
        "maxmemory_policy": ctx.config.eviction.policy.name(),
        "allocator_frag_ratio": two(ratio(memory.active, memory.allocated)),
        "allocator_frag_bytes": memory.active - memory.allocated,
        "allocator_rss_ratio": two(ratio(memory.mapped, memory.active)),
        "allocator_rss_bytes": difference(memory.mapped, memory.active),
        "rss_overhead_ratio": two(ratio(memory.resident, memory.mapped)),
        "rss_overhead_bytes": difference(memory.resident, memory.mapped),
        "mem_fragmentation_ratio": two(ratio(memory.resident, memory.used)),
        "mem_fragmentation_bytes": difference(memory.resident, memory.used),
        "mem_not_counted_for_evict": figures.log_bytes + stats.uncounted_bytes(),
        "mem_replication_backlog": 0,
        "mem_total_replication_buffers": 0,
        "mem_clients_slaves": 0,
        "mem_clients_normal": stats.held_bytes(),
        "mem_cluster_links": 0,
        "mem_aof_buffer": figures.log_bytes,
        "mem_allocator": MEM_ALLOCATOR,
        // What it may take of a busy worker, in percent.
        "active_defrag_running": if data.defrag.running > 0 { 25 } else { 0 },
        "lazyfree_pending_objects": data.lazy_pending,
        "lazyfreed_objects": data.lazy_freed,
    );
}

fn persistence(ctx: &Ctx<'_>, figures: &Figures, to: &mut String) {
    let (saves, load, log) = (ctx.store.stats(), ctx.store.load(), ctx.store.log.status());
    let loading = ctx.store.is_loading();
    let rewrites = ctx.store.log.is_rewriting();
    let now_s = ctx.db.now_ms() / 1000;
    let seconds = |time: Option<std::time::Duration>| time.map_or(-1, |time| time.as_secs().cast_signed());
    let percent = |part: u64, whole: u64| {
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        let percent = 100.0 * part as f64 / whole.max(1) as f64;
        format!("{percent:.2}")
    };
    let status = |failed: bool| if failed { "err" } else { "ok" };
    fields!(to,
        "loading": u8::from(loading),
        "async_loading": 0,
        "current_cow_peak": if saves.current.is_some() { saves.kept_max_bytes } else { 0 },
        "current_cow_size": saves.kept_bytes,
        "current_cow_size_age": 0,
        "current_fork_perc": percent(saves.keys_done, saves.keys_total),
        "current_save_keys_processed": saves.keys_done,
        "current_save_keys_total": saves.keys_total,
        "rdb_changes_since_last_save": figures.stats.dirty.saturating_sub(saves.dirty),
        "rdb_bgsave_in_progress": u8::from(saves.current.is_some() && saves.in_background),
        "rdb_last_save_time": saves.last_s,
        "rdb_last_bgsave_status": status(saves.last_failed),
        "rdb_last_bgsave_time_sec": seconds(saves.last_time),
        "rdb_current_bgsave_time_sec": seconds(saves.current),
        "rdb_saves": saves.saves,
        "rdb_last_cow_size": saves.last_kept_bytes,
        "rdb_last_load_keys_expired": load.as_ref().map_or(0, |load| load.expired()),
        "rdb_last_load_keys_loaded": load.as_ref().map_or(0, |load| load.keys()),
        "aof_enabled": u8::from(ctx.store.log.is_on()),
        "aof_rewrite_in_progress": u8::from(rewrites),
        "aof_rewrite_scheduled": u8::from(log.scheduled && !rewrites),
        "aof_last_rewrite_time_sec": seconds(log.last_rewrite_time),
        "aof_current_rewrite_time_sec": seconds(log.rewrite_began.map(|began| began.elapsed())),
        "aof_last_bgrewrite_status": status(log.last_rewrite_failed),
        "aof_rewrites": log.rewrites,
        "aof_rewrites_consecutive_failures": log.rewrite_failures,
        "aof_last_write_status": status(log.last_write_failed || log.fsync_failed),
        "aof_last_cow_size": log.last_kept_bytes,
        "module_fork_in_progress": 0,
        "module_fork_last_cow_size": 0,
    );
    if ctx.store.log.is_on() {
        fields!(to,
            "aof_current_size": log.size,
            "aof_base_size": log.base_size,
            "aof_pending_rewrite": u8::from(log.unfinished && log.rewrite_began.is_none()),
            "aof_buffer_length": ctx.store.log.pending_bytes(),
            "aof_pending_bio_fsync": u8::from(ctx.store.log.durable() < ctx.store.log.written()),
            "aof_delayed_fsync": log.delayed_fsyncs,
        );
    }
    let Some(load) = load.filter(|_| loading) else { return };
    let (done, all, time) = (load.read_bytes(), load.total_bytes(), load.time().as_secs());
    let left = (time * all.saturating_sub(done)).checked_div(done).unwrap_or(1);
    fields!(to,
        "loading_start_time": load.began_s().min(now_s),
        "loading_total_bytes": all,
        "loading_rdb_used_mem": load.used_there_bytes(),
        "loading_loaded_bytes": done,
        "loading_loaded_perc": percent(done, all),
        "loading_eta_seconds": left,
    );
}

fn stats(ctx: &Ctx<'_>, figures: &Figures, to: &mut String) {
    let Figures { data, stats, .. } = figures;
    let [commands, input_bytes, output_bytes] = stats.per_second;
    #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
    let kib = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    fields!(to,
        "total_connections_received": stats.connections,
        "total_commands_processed": stats.commands,
        "rejected_commands": stats.rejected_commands,
        "instantaneous_ops_per_sec": commands,
        "total_net_input_bytes": stats.input_bytes,
        "total_net_output_bytes": stats.output_bytes,
        "instantaneous_input_kbps": kib(input_bytes),
        "instantaneous_output_kbps": kib(output_bytes),
        "total_net_repl_input_bytes": 0,
        "total_net_repl_output_bytes": 0,
        "instantaneous_input_repl_kbps": kib(0),
        "instantaneous_output_repl_kbps": kib(0),
        "rejected_connections": stats.rejected_connections,
        "sync_full": 0,
        "sync_partial_ok": 0,
        "sync_partial_err": 0,
        "expired_keys": data.expired,
        "expired_subkeys": data.expired_fields,
        "evicted_keys": data.evicted,
        "evicted_clients": stats.evicted_clients,
        "keyspace_hits": data.hits,
        "keyspace_misses": data.misses,
        "pubsub_channels": ctx.pubsub.registry.channels(Kind::Channel),
        "pubsub_patterns": ctx.pubsub.registry.patterns(),
        "pubsubshard_channels": ctx.pubsub.registry.channels(Kind::Shard),
        "latest_fork_usec": 0,
        "total_forks": 0,
        "migrate_cached_sockets": 0,
        "slave_expires_tracked_keys": 0,
        "active_defrag_hits": data.defrag.relocated,
        "active_defrag_misses": data.defrag.left,
        "active_defrag_key_hits": data.defrag.keys_relocated,
        "active_defrag_key_misses": data.defrag.keys_left,
        "total_active_defrag_time": data.defrag.total_ms,
        "current_active_defrag_time": data.defrag.current_ms,
        "tracking_total_keys": ctx.db.totals().keys.load(Ordering::Relaxed),
        "tracking_total_items": ctx.db.totals().items.load(Ordering::Relaxed),
        "tracking_total_prefixes": ctx.pubsub.prefixes.len(),
        "acl_access_denied_auth": stats.denials[0],
        "acl_access_denied_cmd": stats.denials[1],
        "acl_access_denied_key": stats.denials[2],
        "acl_access_denied_channel": stats.denials[3],
        "unexpected_error_replies": 0,
        "total_error_replies": stats.error_replies,
        "io_threaded_reads_processed": 0,
        "io_threaded_writes_processed": 0,
        "suspended_commands": stats.suspended,
        "keyspace_changes": stats.dirty,
        "eventloop_cycles": stats.turns,
        "eventloop_duration_sum": stats.turn_ns_total / 1000,
        "eventloop_duration_max_usec": stats.turn_ns_max / 1000,
    );
}

/// No replication exists yet: the server is a master without replicas, as one that none has ever asked for its data.
fn replication(ctx: &Ctx<'_>, _figures: &Figures, to: &mut String) {
    fields!(to,
        "role": "master",
        "connected_slaves": 0,
        "master_failover_state": "no-failover",
        "master_replid": ctx.facts.replication_id,
        "master_replid2": "0".repeat(ctx.facts.replication_id.len()),
        "master_repl_offset": 0,
        "second_repl_offset": -1,
        "repl_backlog_active": 0,
        "repl_backlog_size": ctx.config.repl_backlog_bytes(),
        "repl_backlog_first_byte_offset": 0,
        "repl_backlog_histlen": 0,
    );
}

fn modules(_ctx: &Ctx<'_>, _figures: &Figures, _to: &mut String) {}

fn cluster(_ctx: &Ctx<'_>, _figures: &Figures, to: &mut String) {
    fields!(to, "cluster_enabled": 0);
}

fn cpu_times(_ctx: &Ctx<'_>, _figures: &Figures, to: &mut String) {
    let (all, children, own) = (cpu::process_times(), cpu::children_times(), cpu::thread_times());
    let seconds = |time: std::time::Duration| format!("{:.6}", time.as_secs_f64());
    fields!(to,
        "used_cpu_sys": seconds(all.system),
        "used_cpu_user": seconds(all.user),
        "used_cpu_sys_children": seconds(children.system),
        "used_cpu_user_children": seconds(children.user),
        "used_cpu_sys_main_thread": seconds(own.system),
        "used_cpu_user_main_thread": seconds(own.user),
    );
}

fn error_counts(_ctx: &Ctx<'_>, figures: &Figures, to: &mut String) {
    for (code, count) in &figures.report.errors {
        let _ = write!(to, "errorstat_{}:count={count}\r\n", String::from_utf8_lossy(code));
    }
}

fn command_counts(ctx: &Ctx<'_>, figures: &Figures, to: &mut String) {
    let ns = ctx.profile.ticker.ns_per_tick();
    for row in ctx.commands.all() {
        let Some(calls) = figures.report.of(row) else { continue };
        let micros = calls.micros(ns);
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        let each = if calls.calls == 0 { 0.0 } else { micros as f64 / calls.calls as f64 };
        let _ = write!(
            to,
            "cmdstat_{}:calls={},usec={micros},usec_per_call={each:.2},rejected_calls={},failed_calls={}\r\n",
            row.name, calls.calls, calls.rejected, calls.failed
        );
    }
}

fn latencies(ctx: &Ctx<'_>, figures: &Figures, to: &mut String) {
    if !ctx.config.latency_tracking {
        return;
    }
    let ns = ctx.profile.ticker.ns_per_tick();
    for row in ctx.commands.all() {
        let Some(spread) = figures.report.of(row).and_then(|calls| calls.spread(ns)) else { continue };
        let percentile = |percent: &f64| {
            let ns = spread.percentile_ns(*percent);
            format!("p{percent}={}.{:03}", ns / 1000, ns % 1000)
        };
        let told: Vec<String> = ctx.config.latency_percentiles.iter().map(percentile).collect();
        let _ = write!(to, "latency_percentiles_usec_{}:{}\r\n", row.name, told.join(","));
    }
}

fn keyspace(_ctx: &Ctx<'_>, figures: &Figures, to: &mut String) {
    for (index, DatabaseFigures { keys, expires, .. }) in figures.databases.iter().enumerate() {
        if *keys > 0 {
            let _ = write!(to, "db{index}:keys={keys},expires={expires},avg_ttl=0\r\n");
        }
    }
}
