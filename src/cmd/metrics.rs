//! What `metrics-port` answers: `/metrics`, the figures of INFO as Prometheus reads them (OpenMetrics, written by `prometheus-client`), and
//! `/healthz`. Series that redis_exporter has as well have its names; `dolmen_` begins those that only this server has.
//!
//! All figures are gathered as INFO gathers its own: nothing of another worker is read while it changes.

use super::ctx::{Ctx, Outcome};
use super::figures::{Figures, ratio};
use super::fleet::{Local, everywhere};
use super::profile::{Calls, Report};
use super::server::COMPATIBLE_VERSION;
use crate::base::cpu;
use crate::base::out::Out;
use crate::proto::http::{self, Method, Request, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;

pub const PLAIN: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Bounds of times, in nanoseconds: powers of two, from the first to the last.
const BOUND_MIN_NS: u64 = 1 << 10;
const BOUND_MAX_NS: u64 = 1 << 33;

/// How an answer is to be sent.
#[derive(Clone, Copy)]
pub struct Asked {
    head_only: bool,
    keeps_alive: bool,
}

impl Asked {
    /// The connection ends behind the answer.
    pub const NOTHING_MORE: Asked = Asked { head_only: false, keeps_alive: false };
}

/// Writes an answer.
pub fn answer(out: &mut Out, status: Status, content_type: &str, body: &[u8], asked: &Asked) {
    out.extend(http::head(status, content_type, body.len(), asked.keeps_alive).as_bytes());
    if !asked.head_only {
        out.extend(body);
    }
}

/// Says that there are too many clients.
pub fn refuse(out: &mut Out) {
    answer(out, Status::Unavailable, PLAIN, Status::Unavailable.text().as_bytes(), &Asked::NOTHING_MORE);
}

/// Answers a request.
pub fn serve(ctx: &mut Ctx<'_>, request: Request) -> Outcome {
    let asked = Asked { head_only: request.method == Method::Head, keeps_alive: request.keeps_alive };
    ctx.client().last_command = &"http";
    let known = matches!(&*request.path, "/metrics" | "/healthz");
    let status = match request.method {
        _ if !known => Status::NotFound,
        Method::Other => Status::MethodNotAllowed,
        Method::Get | Method::Head if request.path == "/metrics" => {
            let part = |local: &mut Local<'_>| local.profile.report();
            return everywhere(ctx, part, move |ctx, reports| {
                let text = series(ctx, Report::sum(reports));
                answer(ctx.out(), Status::Ok, OPEN_METRICS, text.as_bytes(), &asked);
            });
        }
        Method::Get | Method::Head if ctx.store.is_loading() => Status::Unavailable,
        Method::Get | Method::Head => Status::Ok,
    };
    answer(ctx.out(), status, PLAIN, status.text().as_bytes(), &asked);
    Outcome::Done
}

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
enum Value {
    Counter(f64),
    Gauge(f64),
    /// Seconds of all, how many, and of each bound how many lie between it and the one before.
    Histogram(f64, u64, Vec<(f64, u64)>),
}

/// A series, or several that labels tell apart.
#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    samples: Vec<(Labels, Value)>,
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Family { name, help, samples } in &self.0 {
            let Some((_, first)) = samples.first() else { continue };
            let kind = match first {
                Value::Counter(_) => MetricType::Counter,
                Value::Gauge(_) => MetricType::Gauge,
                Value::Histogram(..) => MetricType::Histogram,
            };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, value) in samples {
                let mut metric = family.encode_family(labels)?;
                match value {
                    Value::Counter(value) => ConstCounter::new(*value).encode(metric)?,
                    Value::Gauge(value) => ConstGauge::new(*value).encode(metric)?,
                    Value::Histogram(sum, count, buckets) => {
                        metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "above 2^53 the last digits of a count do not matter")]
fn float(value: u64) -> f64 {
    value as f64
}

/// All series, as a text.
fn series(ctx: &mut Ctx<'_>, report: Report) -> String {
    let figures = Figures::of(ctx, report);
    let mut families = Families(Vec::new());
    of_the_server(ctx, &figures, &mut families);
    of_memory(ctx, &figures, &mut families);
    of_databases(&figures, &mut families);
    of_commands(ctx, &figures, &mut families);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(families));
    let mut text = String::new();
    match encode(&mut text, &registry) {
        Ok(()) => text,
        // A string takes whatever is written to it.
        Err(fmt::Error) => String::new(),
    }
}

impl Families {
    fn add(&mut self, name: &'static str, help: &'static str, samples: Vec<(Labels, Value)>) {
        self.0.push(Family { name, help, samples });
    }

    fn gauges<const N: usize>(&mut self, rows: [(&'static str, &'static str, f64); N]) {
        for (name, help, value) in rows {
            self.add(name, help, vec![(Vec::new(), Value::Gauge(value))]);
        }
    }

    /// The names go without `_total`, which their samples get.
    fn counters<const N: usize>(&mut self, rows: [(&'static str, &'static str, f64); N]) {
        for (name, help, value) in rows {
            self.add(name, help, vec![(Vec::new(), Value::Counter(value))]);
        }
    }
}

fn of_the_server(ctx: &Ctx<'_>, figures: &Figures, to: &mut Families) {
    let (stats, data, facts) = (&figures.stats, &figures.data, ctx.facts);
    let now_ms = ctx.db.now_ms();
    let (saves, now_s) = (ctx.store.stats(), float(now_ms / 1000));
    let times = cpu::process_times();
    let info = [
        ("redis_version", COMPATIBLE_VERSION.to_owned()),
        ("dolmen_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("redis_mode", "standalone".to_owned()),
        ("role", "master".to_owned()),
        ("process_id", std::process::id().to_string()),
        ("run_id", facts.run_id.clone()),
        ("tcp_port", facts.tcp_port.to_string()),
        ("maxmemory_policy", ctx.config.eviction.policy.name().to_owned()),
    ];
    to.add("redis_instance_info", "What server this is", vec![(info.into(), Value::Gauge(1.0))]);
    let last_saved_well = f64::from(u8::from(!saves.last_failed));
    to.gauges([
        ("redis_up", "The server answers", 1.0),
        (
            "redis_uptime_in_seconds",
            "Seconds since the start",
            float(now_ms.saturating_sub(facts.start_unix_ms) / 1000),
        ),
        ("redis_start_time_seconds", "When it was started, in Unix seconds", float(facts.start_unix_ms / 1000)),
        ("dolmen_time_seconds", "The server's clock, in Unix seconds", now_s),
        ("dolmen_workers", "Threads that serve", float(facts.workers as u64)),
        ("redis_connected_clients", "Clients connected now", float(stats.clients)),
        ("redis_config_maxclients", "As many clients may be", f64::from(ctx.config.maxclients)),
        ("redis_blocked_clients", "Clients that wait for others", float(stats.paused_clients + stats.blocked_clients)),
        (
            "redis_client_recent_max_input_buffer_bytes",
            "The longest request under way of late",
            f64::from(stats.query_bytes_max.get()),
        ),
        (
            "redis_client_recent_max_output_buffer_bytes",
            "The most that one client had to take of late",
            f64::from(stats.out_bytes_max.get()),
        ),
        ("redis_connected_slaves", "Replicas", 0.0),
        ("redis_loading_dump_file", "A snapshot is being loaded", f64::from(u8::from(ctx.store.is_loading()))),
        (
            "redis_rdb_changes_since_last_save",
            "Changes that are in no snapshot",
            float(stats.dirty.saturating_sub(saves.dirty)),
        ),
        ("redis_rdb_bgsave_in_progress", "A snapshot is being saved", f64::from(u8::from(saves.current.is_some()))),
        ("redis_rdb_last_save_timestamp_seconds", "When the last one was saved, in Unix seconds", float(saves.last_s)),
        ("redis_rdb_last_bgsave_status", "The last save went well", last_saved_well),
        ("redis_slowlog_length", "Entries of the slow log", float(ctx.fleet.journal().slow().len() as u64)),
    ]);
    to.counters([
        ("redis_connections_received", "Connections accepted", float(stats.connections)),
        ("redis_rejected_connections", "Connections refused", float(stats.rejected_connections)),
        ("redis_evicted_clients", "Clients disconnected to make room", float(stats.evicted_clients)),
        ("redis_commands_processed", "Commands that ran", float(stats.commands)),
        ("redis_net_input_bytes", "Bytes received", float(stats.input_bytes)),
        ("redis_net_output_bytes", "Bytes sent", float(stats.output_bytes)),
        ("redis_expired_keys", "Keys that went as their time had come", float(data.expired)),
        ("redis_evicted_keys", "Keys that went to make room", float(data.evicted)),
        ("redis_keyspace_hits", "Keys looked for and found", float(data.hits)),
        ("redis_keyspace_misses", "Keys looked for and not found", float(data.misses)),
        ("redis_cpu_sys_seconds", "Time in the kernel", times.system.as_secs_f64()),
        ("redis_cpu_user_seconds", "Time outside of it", times.user.as_secs_f64()),
        ("dolmen_loop_turns", "Turns of the workers' loops", float(stats.turns)),
        ("dolmen_loop_seconds", "The time of these turns, without waiting", float(stats.turn_ns_total) / 1e9),
        ("dolmen_suspended_commands", "Commands that ran in slices", float(stats.suspended)),
    ]);
    let workers = figures.clients_per_worker.split(',').enumerate();
    let clients = workers.map(|(worker, clients)| {
        (vec![("worker", worker.to_string())], Value::Gauge(clients.parse().unwrap_or_default()))
    });
    to.add("dolmen_worker_clients", "Clients of each worker", clients.collect());
    let errors = figures.report.errors.iter().map(|(code, count)| {
        (vec![("err", String::from_utf8_lossy(code).into_owned())], Value::Counter(float(*count)))
    });
    to.add("redis_errors", "Errors answered, by their first word", errors.collect());
}

fn of_memory(ctx: &Ctx<'_>, figures: &Figures, to: &mut Families) {
    let (memory, data) = (figures.memory(ctx), &figures.data);
    to.gauges([
        ("redis_memory_used_bytes", "All memory that is accounted for", float(memory.used)),
        ("redis_memory_used_rss_bytes", "Resident memory of the process", float(memory.resident)),
        ("redis_memory_used_peak_bytes", "The most that was ever used", float(memory.peak)),
        ("redis_memory_used_startup_bytes", "Used before there was data", float(memory.startup)),
        ("redis_memory_used_overhead_bytes", "Used for other things than data", float(memory.overhead())),
        ("redis_memory_used_dataset_bytes", "Used for data", float(memory.dataset)),
        ("redis_memory_max_bytes", "maxmemory, 0: none", float(ctx.config.maxmemory_bytes)),
        ("redis_config_maxmemory", "maxmemory, 0: none", float(ctx.config.maxmemory_bytes)),
        ("redis_total_system_memory_bytes", "Memory of the machine", float(memory.machine)),
        ("redis_mem_fragmentation_ratio", "Resident memory, of what is used", ratio(memory.resident, memory.used)),
        ("redis_allocator_allocated_bytes", "Handed out by the slabs", float(memory.allocated)),
        ("redis_allocator_active_bytes", "What their pages in use could hold", float(memory.active)),
        ("redis_allocator_resident_bytes", "Resident of theirs, with their records", float(memory.mapped)),
        ("redis_mem_clients_normal", "Held for clients", float(figures.stats.held_bytes())),
        ("redis_lazyfree_pending_objects", "Deleted and not given back yet", float(data.lazy_pending as u64)),
        ("redis_active_defrag_running", "Memory is being moved together", f64::from(u8::from(data.defrag.running > 0))),
        ("dolmen_slab_fragmented_bytes", "Worth giving back by moving items", float(data.fragmented_bytes)),
        ("dolmen_blobs", "Values in memory of their own", float(data.blobs)),
        ("dolmen_blob_bytes", "What these take", float(data.blob_bytes)),
        ("dolmen_blob_kept_bytes", "Of it, kept for readers, or to be freed", float(data.blob_kept_bytes)),
    ]);
    to.counters([(
        "dolmen_relocated_chunks",
        "Chunks of memory moved to give memory back",
        float(data.defrag.relocated),
    )]);
    let labels = |bytes: usize, kind: &str| vec![("bytes", bytes.to_string()), ("kind", kind.to_owned())];
    let mut spans = Vec::new();
    let mut chunks = Vec::new();
    for ((bytes, kind), class) in &data.classes {
        spans.push((labels(*bytes, kind), Value::Gauge(float(class.spans as u64))));
        let states = [("live", class.live as u64), ("free", class.free as u64), ("resident", class.resident)];
        for (state, count) in states {
            let mut labels = labels(*bytes, kind);
            labels.push(("state", state.to_owned()));
            chunks.push((labels, Value::Gauge(float(count))));
        }
    }
    to.add("dolmen_slab_spans", "Spans of 64 KiB of each class of chunks", spans);
    to.add("dolmen_slab_chunks", "Chunks of each class: in use, free, and of both those in resident pages", chunks);
}

fn of_databases(figures: &Figures, to: &mut Families) {
    let mut of = |name, help, value: &dyn Fn(&super::figures::DatabaseFigures) -> u64| {
        let databases = figures.databases.iter().enumerate();
        let sample = |(index, database)| (vec![("db", format!("db{index}"))], Value::Gauge(float(value(database))));
        to.add(name, help, databases.map(sample).collect());
    };
    of("redis_db_keys", "Keys of a database", &|database| database.keys as u64);
    of("redis_db_keys_expiring", "Those with a deadline", &|database| database.expires);
    of("dolmen_db_table_bytes", "Its table", &|database| database.table_bytes);
    of("dolmen_db_deadlines_bytes", "What knows of its deadlines", &|database| database.deadlines_bytes);
}

fn of_commands(ctx: &Ctx<'_>, figures: &Figures, to: &mut Families) {
    let ns = ctx.profile.ticker.ns_per_tick();
    let called: Vec<_> =
        ctx.commands.all().filter_map(|row| figures.report.of(row).map(|calls| (row.name, calls))).collect();
    let mut of = |name, help, value: &dyn Fn(&Calls) -> f64| {
        let sample = |(name, calls): &(&str, &Calls)| (vec![("cmd", (*name).to_owned())], Value::Counter(value(calls)));
        to.add(name, help, called.iter().map(sample).collect());
    };
    of("redis_commands", "Calls of a command", &|calls| float(calls.calls));
    of("redis_commands_duration_seconds", "The time that they took", &|calls| float(calls.micros(ns)) / 1e6);
    of("redis_commands_failed_calls", "Those that ended in an error", &|calls| float(calls.failed));
    of("redis_commands_rejected_calls", "Those that were not begun", &|calls| float(calls.rejected));
    let spread = called.iter().filter_map(|(name, calls)| {
        let spread = calls.spread(ns)?;
        let powers = spread.powers();
        let mut before = 0;
        let bounds = (BOUND_MIN_NS.ilog2()..=BOUND_MAX_NS.ilog2()).map(|power| 1_u64 << power).map(|bound| {
            let within = powers.iter().rev().find(|(power, _)| *power <= bound).map_or(0, |(_, sum)| *sum);
            (float(bound) / 1000.0, within - std::mem::replace(&mut before, within))
        });
        let mut buckets: Vec<(f64, u64)> = bounds.collect();
        buckets.push((f64::INFINITY, spread.calls - before));
        Some((vec![("cmd", (*name).to_owned())], Value::Histogram(float(calls.micros(ns)), spread.calls, buckets)))
    });
    to.add("redis_commands_latencies_usec", "How the times of calls are spread, in microseconds", spread.collect());
}
