//! INFO: what the server tells about itself, in Redis's sections and field names.

use super::ctx::{Args, Ctx, Outcome};
use super::server::COMPATIBLE_VERSION;
use crate::base::cpu;
use std::fmt::Write as _;

type Section = (&'static str, fn(&Ctx<'_>, &mut String));

const SECTIONS: [Section; 6] = [
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("stats", stats),
    ("cpu", cpu_times),
    ("keyspace", keyspace),
];

/// INFO [section ...]
pub fn info(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let wanted: Vec<Vec<u8>> = args[1..].iter().map(|a| a.to_ascii_lowercase()).collect();
    let all = wanted.is_empty() || wanted.iter().any(|w| matches!(&**w, b"all" | b"everything" | b"default"));
    let mut text = String::new();
    for (name, write) in SECTIONS {
        if !all && !wanted.iter().any(|w| w == name.as_bytes()) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let mut title: Vec<u8> = name.into();
        title[0] = title[0].to_ascii_uppercase();
        let title = if name == "cpu" { "CPU".into() } else { String::from_utf8_lossy(&title).into_owned() };
        let _ = write!(text, "# {title}\r\n");
        write(ctx, &mut text);
    }
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Outcome::Done
}

macro_rules! fields {
    ($to:expr, $($name:literal: $value:expr),+ $(,)?) => {
        $(let _ = write!($to, concat!($name, ":{}\r\n"), $value);)+
    };
}

fn server(ctx: &Ctx<'_>, to: &mut String) {
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
        "process_id": std::process::id(),
        "run_id": facts.run_id,
        "tcp_port": facts.tcp_port,
        "server_time_usec": now_ms * 1000,
        "uptime_in_seconds": up_s,
        "uptime_in_days": up_s / 86_400,
        "hz": ctx.config.hz,
        "configured_hz": ctx.config.hz,
        "workers": facts.workers,
        "executable": facts.executable,
        "config_file": facts.config_file,
    );
}

fn clients(ctx: &Ctx<'_>, to: &mut String) {
    let suspended = ctx.clients.iter().filter(|c| c.suspended).count();
    let biggest = |f: fn(&super::client::Client) -> u32| ctx.clients.iter().map(f).max().unwrap_or(0);
    fields!(to,
        "connected_clients": ctx.clients.len(),
        "maxclients": ctx.config.maxclients,
        "client_recent_max_input_buffer": biggest(|c| c.query_bytes),
        "client_recent_max_output_buffer": biggest(|c| c.out_bytes),
        "blocked_clients": 0,
        "suspended_clients": suspended,
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

fn memory(ctx: &Ctx<'_>, to: &mut String) {
    let shard = ctx.db.shard_ref();
    let slab = shard.slab();
    let data = shard.used_bytes();
    let used = super::ctx::used_bytes(shard, ctx.stats);
    let structure = shard.overhead_bytes();
    let resident = cpu::resident_bytes();
    #[expect(clippy::cast_precision_loss, reason = "a ratio of two digits")]
    let ratio = resident as f64 / used.max(1) as f64;
    fields!(to,
        "used_memory": used,
        "used_memory_human": human(used),
        "used_memory_rss": resident,
        "used_memory_rss_human": human(resident),
        "used_memory_peak": ctx.stats.used_bytes_peak.max(used),
        "used_memory_peak_human": human(ctx.stats.used_bytes_peak.max(used)),
        "used_memory_overhead": used - data + structure,
        "used_memory_dataset": data - structure,
        "used_memory_clients": ctx.stats.clients_bytes + ctx.stats.backend_bytes,
        "used_memory_tables": structure,
        "slab_resident": slab.resident_estimate_bytes(),
        "slab_metadata": slab.overhead_bytes(),
        "slab_fragmented": slab.fragmented_bytes(),
        "mem_fragmentation_ratio": format!("{ratio:.2}"),
        "mem_fragmentation_bytes": resident.cast_signed() - used.cast_signed(),
        "mem_clients_normal": ctx.stats.clients_bytes,
        "mem_allocator": concat!("dolmen-slab-", env!("CARGO_PKG_VERSION")),
        "maxmemory": 0,
        "maxmemory_human": "0B",
        "maxmemory_policy": "noeviction",
        "lazyfree_pending_objects": shard.lazy_pending(),
        "active_defrag_relocated": shard.stats.relocated,
    );
}

fn stats(ctx: &Ctx<'_>, to: &mut String) {
    let stats = &ctx.stats;
    let shard = ctx.db.shard_ref().stats;
    fields!(to,
        "total_connections_received": stats.connections,
        "total_commands_processed": stats.commands,
        "total_net_input_bytes": stats.input_bytes,
        "total_net_output_bytes": stats.output_bytes,
        "rejected_connections": stats.rejected_connections,
        "expired_keys": shard.expired,
        "evicted_keys": 0,
        "keyspace_hits": shard.hits,
        "keyspace_misses": shard.misses,
        "total_error_replies": stats.error_replies,
        "suspended_commands": stats.suspended,
        "keyspace_changes": stats.dirty,
        "eventloop_cycles": stats.turns,
        "eventloop_duration_sum": stats.turn_ns_total / 1000,
        "eventloop_duration_max_usec": stats.turn_ns_max / 1000,
    );
}

fn cpu_times(_ctx: &Ctx<'_>, to: &mut String) {
    let times = cpu::process_times();
    fields!(to,
        "used_cpu_sys": format!("{:.6}", times.system.as_secs_f64()),
        "used_cpu_user": format!("{:.6}", times.user.as_secs_f64()),
    );
}

fn keyspace(ctx: &Ctx<'_>, to: &mut String) {
    for (index, database) in ctx.db.shard_ref().databases().iter().enumerate() {
        if !database.is_empty() {
            let _ = write!(to, "db{index}:keys={},expires={},avg_ttl=0\r\n", database.len(), database.expires());
        }
    }
}
