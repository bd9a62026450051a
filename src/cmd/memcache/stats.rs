//! `stats`: what the server counts, under the names that memcached gives it. What there is nothing to tell of (slab classes, queues) is left out
//! rather than made up, but for what clients read to see how full the cache is.

use super::super::client::Client;
use super::super::ctx::{Args, Budget, Ctx, Outcome};
use super::super::fleet::{Local, everywhere, everywhere_sliced};
use super::{COMPATIBLE_VERSION, fail};
use crate::base::cpu;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $told:literal,)*) => {
        /// What memcached counts, for each worker; `stats reset` begins anew.
        #[derive(Clone, Copy, Default, Debug)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub fn absorb(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }

            fn each(&self, mut tell: impl FnMut(&str, u64)) {
                $(tell($told, self.$name);)*
            }
        }
    };
}

counters! {
    get_commands = "cmd_get",
    set_commands = "cmd_set",
    flush_commands = "cmd_flush",
    touch_commands = "cmd_touch",
    meta_commands = "cmd_meta",
    get_misses = "get_misses",
    delete_misses = "delete_misses",
    delete_hits = "delete_hits",
    incr_misses = "incr_misses",
    incr_hits = "incr_hits",
    decr_misses = "decr_misses",
    decr_hits = "decr_hits",
    cas_misses = "cas_misses",
    cas_hits = "cas_hits",
    cas_badval = "cas_badval",
    touch_misses = "touch_misses",
    store_too_large = "store_too_large",
    store_no_memory = "store_no_memory",
    auth_commands = "auth_cmds",
    auth_errors = "auth_errors",
}

/// Names and values.
pub(super) type Pairs = Vec<(String, String)>;

/// What of the statistics was asked for.
enum Asked {
    Now(Pairs),
    Reset,
    Connections,
    Nothing,
}

/// `stats [words]`
pub fn stats(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match &args[1..] {
        [b"reset", ..] => reset(ctx, |ctx| ctx.out().extend(b"RESET\r\n")),
        [b"detail", how, ..] => match *how {
            b"on" | b"off" => {
                ctx.out().extend(b"OK\r\n");
                Outcome::Done
            }
            b"dump" => {
                ctx.out().extend(b"END\r\n");
                Outcome::Done
            }
            _ => fail(ctx, b"CLIENT_ERROR usage: stats detail on|off|dump"),
        },
        [b"detail"] => fail(ctx, b"CLIENT_ERROR usage: stats detail on|off|dump"),
        words => {
            let name = words.first().copied().unwrap_or_default();
            tell(ctx, name, |ctx, pairs| match pairs {
                Some(pairs) => {
                    for (name, value) in pairs {
                        ctx.out().extend(format!("STAT {name} {value}\r\n").as_bytes());
                    }
                    ctx.out().extend(b"END\r\n");
                }
                None => {
                    fail(ctx, b"ERROR");
                }
            })
        }
    }
}

/// All counters begin anew, on every worker.
pub(super) fn reset(ctx: &mut Ctx<'_>, finish: impl FnOnce(&mut Ctx<'_>) + 'static) -> Outcome {
    let part = |local: &mut Local<'_>| local.stats.memcache = Counters::default();
    everywhere(ctx, part, move |ctx, _| finish(ctx))
}

/// Has `finish` tell the statistics called `name`; `None`: there are none.
pub(super) fn tell(
    ctx: &mut Ctx<'_>,
    name: &[u8],
    finish: impl FnOnce(&mut Ctx<'_>, Option<Pairs>) + 'static,
) -> Outcome {
    let asked = match name {
        b"" => Asked::Now(general(ctx)),
        b"settings" => Asked::Now(settings(ctx)),
        b"items" => Asked::Now(items(ctx)),
        b"slabs" => Asked::Now(slabs(ctx)),
        b"detail" | b"detail on" | b"detail off" | b"detail dump" => Asked::Now(Pairs::new()),
        b"sizes" => Asked::Now(vec![("sizes_status".into(), "disabled".into())]),
        b"conns" => Asked::Connections,
        b"reset" => Asked::Reset,
        _ => Asked::Nothing,
    };
    match asked {
        Asked::Now(pairs) => {
            finish(ctx, Some(pairs));
            Outcome::Done
        }
        Asked::Reset => reset(ctx, |ctx| finish(ctx, Some(Vec::new()))),
        Asked::Nothing => {
            finish(ctx, None);
            Outcome::Done
        }
        Asked::Connections => everywhere_sliced(
            ctx,
            || Connections::default().part(),
            |ctx, parts| finish(ctx, Some(parts.into_iter().flatten().collect())),
        ),
    }
}

/// One worker's part of `stats conns`.
#[derive(Default)]
struct Connections {
    next_id: u64,
    pairs: Pairs,
}

impl Connections {
    fn part(mut self) -> impl FnMut(&mut Local<'_>, &mut Budget) -> Option<Pairs> {
        move |local, budget| {
            let now_ms = local.clock.unix_ms();
            while let Some((_, client)) = local.clients.after(self.next_id) {
                self.next_id = client.id;
                self.tell(client, now_ms);
                if budget.is_spent(8) {
                    return None;
                }
            }
            Some(std::mem::take(&mut self.pairs))
        }
    }

    fn tell(&mut self, client: &Client, now_ms: u64) {
        let kind = if client.is(super::super::client::mark::UNIX) { "unix" } else { "tcp" };
        let idle_s = now_ms.saturating_sub(client.last_input_unix_ms) / 1000;
        for (name, value) in [
            ("addr", format!("{kind}:{}", client.remote())),
            ("listen_addr", format!("{kind}:{}", client.local())),
            ("state", if client.is_memcache() { "conn_read".into() } else { "resp".into() }),
            ("secs_since_last_cmd", idle_s.to_string()),
        ] {
            self.pairs.push((format!("{}:{name}", client.fd), value));
        }
    }
}

/// Of all shards together, for the database of memcached.
#[derive(Default)]
struct Data {
    used_bytes: u64,
    resident_bytes: u64,
    items: u64,
    expired: u64,
}

fn data(ctx: &mut Ctx<'_>) -> Data {
    let (mut data, database) = (Data::default(), ctx.db.index());
    ctx.db.each_shard(|shard| {
        data.used_bytes += shard.used_bytes();
        data.resident_bytes += shard.slab().resident_estimate_bytes();
        data.items += shard.databases()[database].len() as u64;
        data.expired += shard.stats.expired;
    });
    data
}

fn general(ctx: &mut Ctx<'_>) -> Pairs {
    let data = data(ctx);
    ctx.stats.clients = ctx.clients.alive() as u64;
    let total = ctx.fleet.total(ctx.stats);
    let now_ms = ctx.db.now_ms();
    let times = cpu::process_times();
    let seconds = |time: std::time::Duration| format!("{}.{:06}", time.as_secs(), time.subsec_micros());
    let counters = total.memcache;
    let mut pairs = Pairs::new();
    let mut put = |name: &str, value: String| pairs.push((name.into(), value));
    put("pid", std::process::id().to_string());
    put("uptime", (now_ms.saturating_sub(ctx.facts.start_unix_ms) / 1000).to_string());
    put("time", (now_ms / 1000).to_string());
    put("version", COMPATIBLE_VERSION.into());
    put("server", concat!("dolmen ", env!("CARGO_PKG_VERSION")).into());
    put("pointer_size", usize::BITS.to_string());
    put("rusage_user", seconds(times.user));
    put("rusage_system", seconds(times.system));
    put("max_connections", ctx.config.maxclients.to_string());
    put("curr_connections", total.clients.to_string());
    put("total_connections", total.connections.to_string());
    put("rejected_connections", total.rejected_connections.to_string());
    counters.each(|name, value| {
        put(name, value.to_string());
        if name == "cmd_meta" {
            put("get_hits", (counters.get_commands - counters.get_misses).to_string());
        }
        if name == "touch_misses" {
            put("touch_hits", (counters.touch_commands - counters.touch_misses).to_string());
        }
    });
    put("get_expired", data.expired.to_string());
    put("bytes_read", total.input_bytes.to_string());
    put("bytes_written", total.output_bytes.to_string());
    put("limit_maxbytes", limit_bytes().to_string());
    put("accepting_conns", "1".into());
    put("threads", ctx.fleet.workers().to_string());
    put("bytes", data.used_bytes.to_string());
    put("resident_bytes", data.resident_bytes.to_string());
    put("curr_items", data.items.to_string());
    put("total_items", counters.set_commands.to_string());
    put("evictions", "0".into());
    put("reclaimed", data.expired.to_string());
    pairs
}

/// There is no limit but the machine's.
fn limit_bytes() -> u64 {
    cpu::machine_bytes()
}

fn settings(ctx: &mut Ctx<'_>) -> Pairs {
    let config = &ctx.config;
    let yes = |on: bool| if on { "yes" } else { "no" }.to_string();
    let path = config.memcached_unixsocket.as_ref().map_or("NULL".into(), |path| path.display().to_string());
    let bind: Vec<&str> = config.bind.iter().map(|address| address.host.as_str()).collect();
    let pairs = [
        ("maxbytes", limit_bytes().to_string()),
        ("maxconns", config.maxclients.to_string()),
        ("tcpport", config.memcached_port.to_string()),
        ("udpport", "0".into()),
        ("inter", if bind.is_empty() { "NULL".into() } else { bind.join(",") }),
        ("verbosity", "0".into()),
        ("oldest", "0".into()),
        ("evictions", "off".into()),
        ("domain_socket", path),
        ("umask", format!("{:o}", config.memcached_unixsocketperm)),
        ("num_threads", ctx.fleet.workers().to_string()),
        ("num_threads_per_udp", "0".into()),
        ("stat_key_prefix", ":".into()),
        ("detail_enabled", "no".into()),
        ("cas_enabled", "yes".into()),
        ("tcp_backlog", config.tcp_backlog.to_string()),
        ("auth_enabled_sasl", yes(!config.requirepass.is_empty())),
        ("auth_enabled_ascii", yes(!config.requirepass.is_empty())),
        ("item_size_max", config.memcached_item_bytes_max.to_string()),
        ("maxconns_fast", "yes".into()),
        ("flush_enabled", yes(config.memcached_flush_all)),
        ("shutdown_command", yes(config.memcached_shutdown)),
        ("dump_enabled", "no".into()),
        ("idle_timeout", config.timeout_s.to_string()),
        ("binding_protocol", "auto-negotiate".into()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

/// There is one class, of all items.
fn items(ctx: &mut Ctx<'_>) -> Pairs {
    let data = data(ctx);
    if data.items == 0 {
        return Pairs::new();
    }
    let pairs = [
        ("number", data.items),
        ("evicted", 0),
        ("outofmemory", ctx.stats.memcache.store_no_memory),
        ("reclaimed", data.expired),
    ];
    pairs.into_iter().map(|(name, value)| (format!("items:1:{name}"), value.to_string())).collect()
}

fn slabs(ctx: &mut Ctx<'_>) -> Pairs {
    let data = data(ctx);
    let counters = ctx.fleet.total(ctx.stats).memcache;
    let mut pairs = Pairs::new();
    if data.items > 0 {
        for (name, value) in [
            ("used_chunks", data.items),
            ("mem_requested", data.used_bytes),
            ("get_hits", counters.get_commands - counters.get_misses),
            ("cmd_set", counters.set_commands),
            ("delete_hits", counters.delete_hits),
            ("incr_hits", counters.incr_hits),
            ("decr_hits", counters.decr_hits),
            ("cas_hits", counters.cas_hits),
            ("cas_badval", counters.cas_badval),
            ("touch_hits", counters.touch_commands - counters.touch_misses),
        ] {
            pairs.push((format!("1:{name}"), value.to_string()));
        }
    }
    pairs.push(("active_slabs".into(), u64::from(data.items > 0).to_string()));
    pairs.push(("total_malloced".into(), data.resident_bytes.max(data.used_bytes).to_string()));
    pairs
}
