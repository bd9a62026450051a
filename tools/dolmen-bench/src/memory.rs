//! `memory`: resident bytes a key. A server is filled in stages and its resident memory read after each, since tables grow in cycles; the worst
//! stage counts. And what an idle server and idle connections take.

use std::time::Duration;

use serde::Serialize;

use crate::cli::{Cpus, MemoryArgs};
use crate::client::Client;
use crate::interrupt::Interrupt;
use crate::load::{self, Settings};
use crate::machine::{self, Machine, pin_to};
use crate::notes::Notes;
use crate::plot::{self, Bars};
use crate::server::{FLOOR, Named, Server, check_cpus};
use crate::values::Sizes;
use crate::workload::{Records, Variant, Workload};

/// At most so many bytes of keys and values: fewer keys where values are large.
const PAYLOAD_MAX: f64 = 2e9;

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    servers: Vec<(String, Result<Found, String>)>,
}

#[derive(Debug, Serialize)]
enum Found {
    Keys {
        /// Resident bytes a key at the worst stage.
        worst: f64,
        /// Keys and bytes a key.
        stages: Vec<(u64, f64)>,
    },
    Idle {
        resident_bytes: u64,
        connections: usize,
        bytes_a_connection: f64,
    },
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    tool: String,
    machine: &'a Machine,
    versions: Vec<(String, String)>,
    rows: &'a [Row],
}

/// `KEY+VALUE` or `KEY+VALUE+ttl`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    key_bytes: usize,
    value_bytes: usize,
    ttl: bool,
}

fn shape(row: &str) -> Result<Shape, String> {
    let parts: Vec<&str> = row.split('+').collect();
    let number = |text: &str| text.parse::<usize>().ok();
    let (sizes, ttl) = match parts[..] {
        [key, value] => (number(key).zip(number(value)), false),
        [key, value, "ttl"] => (number(key).zip(number(value)), true),
        _ => (None, false),
    };
    let sizes = sizes.filter(|(key, value)| (12..=200).contains(key) && *value <= 1 << 20);
    let (key_bytes, value_bytes) =
        sizes.ok_or(format!("{row}: KEY+VALUE bytes (16+32, 16+32+ttl; keys of 12 to 200), or idle"))?;
    Ok(Shape { key_bytes, value_bytes, ttl })
}

pub fn memory(args: &MemoryArgs, interrupt: &Interrupt) -> Result<(), String> {
    let servers = &args.servers;
    check_cpus(&servers.server_cpus.0, &servers.client_cpus.0)?;
    for row in args.rows.iter().filter(|row| *row != "idle") {
        shape(row)?;
    }
    if args.keys.is_empty() {
        return Err("--keys: at least one number".into());
    }
    // Before servers are started, as they inherit the limit.
    machine::allow_open_files(args.connections as u64 + 500);
    let machine = Machine::read();
    let mut named = Named::all(&servers.servers, 3)?;
    // It keeps nothing.
    named.retain(|named| named.name != FLOOR);
    let versions: Vec<_> = named.iter().map(|named| (named.name.clone(), named.version())).collect();
    let mut notes = Notes::new("memory", &machine, &versions, servers.json.as_deref() != Some("-"));
    notes.say(
        "bytes a key: growth of resident memory divided by the number of keys, at the worst of the numbers of keys",
    );
    pin_to(&servers.client_cpus.0);
    let mut rows = Vec::new();
    for name in &args.rows {
        notes.say(&format!("\n{name}"));
        let mut row = Row { name: name.clone(), servers: Vec::new() };
        for named in &named {
            if interrupt.happened() {
                notes.say("PARTIAL: interrupted");
                break;
            }
            let server = Server::start(named, &servers.server_cpus.0)?;
            let found = match shape(name) {
                Ok(shape) => keys(&server, shape, args, interrupt),
                Err(_) => idle(&server, args),
            };
            notes.say(&text(&named.name, &found));
            row.servers.push((named.name.clone(), found));
        }
        rows.push(row);
        if interrupt.happened() {
            break;
        }
    }
    let document = Document { tool: crate::tool(), machine: &machine, versions, rows: &rows };
    notes.finish(servers, &document, || charts(&rows))
}

/// Settings to fill a server with keys that begin with a prefix.
pub fn fill_settings(
    server: &Server,
    prefix: &str,
    key_bytes: usize,
    count: u64,
    sizes: Sizes,
    cpus: &Cpus,
) -> Settings {
    Settings {
        access: server.access.clone(),
        connections: 1,
        threads: 1,
        cpus: cpus.0.clone(),
        pipeline: 1,
        requests: None,
        duration: None,
        warmup: Duration::ZERO,
        rate: None,
        poisson: false,
        interval: Duration::from_millis(250),
        seed: 1,
        keys: count,
        key_prefix: prefix.into(),
        key_digits: key_bytes - prefix.len(),
        pick: crate::keys::Pick::Sequential,
        trace: None,
        fill_pipeline: ((1 << 20) / sizes.max().max(1)).clamp(1, 5000),
        sizes,
        ttl: None,
        subscribers: 0,
        channels: 1,
        filling: true,
    }
}

fn keys(server: &Server, shape: Shape, args: &MemoryArgs, interrupt: &Interrupt) -> Result<Found, String> {
    let settle = || {
        std::thread::sleep(args.settle);
        server.usage().map(|usage| usage.resident_bytes)
    };
    let mut wanted = args.keys.clone();
    wanted.sort_unstable();
    let most = wanted.last().copied().unwrap_or(1) as f64;
    let share = (PAYLOAD_MAX / (most * (shape.key_bytes + shape.value_bytes) as f64)).min(1.0);
    let variant = Variant { protocol: server.access.protocol, ttl: shape.ttl, records: Records::String, channels: 1 };
    let workload = Workload::named("set", variant)?.remove(0);
    let before = settle()?;
    let (mut done, mut stages) = (0, Vec::new());
    for (stage, count) in wanted.into_iter().enumerate() {
        let count = ((count as f64 * share) as u64).max(1);
        if count <= done {
            continue;
        }
        // Each stage has keys of its own.
        let prefix = format!("k{stage}:");
        let sizes = Sizes::Fixed(shape.value_bytes);
        let mut settings =
            fill_settings(server, &prefix, shape.key_bytes, count - done, sizes, &args.servers.client_cpus);
        settings.ttl = shape.ttl.then_some((36_000, 36_000));
        let outcome =
            load::fill(&settings, &workload, None, interrupt, &mut |_| {}).map_err(|error| error.to_string())?;
        if let Some(why) = outcome.partial.or(outcome.errors.into_keys().next()) {
            return Err(why);
        }
        done = count;
        let bytes = settle()?.saturating_sub(before) as f64 / done as f64;
        stages.push((done, bytes));
    }
    let worst = stages.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
    Ok(Found::Keys { worst, stages })
}

fn idle(server: &Server, args: &MemoryArgs) -> Result<Found, String> {
    std::thread::sleep(args.settle);
    let before = server.usage()?.resident_bytes;
    let mut clients = Vec::new();
    for _ in 0..args.connections {
        // Each has been answered once.
        match Client::open(&server.access) {
            Ok(client) => clients.push(client),
            Err(failure) if clients.is_empty() => return Err(failure.to_string()),
            Err(_) => break,
        }
    }
    std::thread::sleep(args.settle);
    let after = server.usage()?.resident_bytes;
    let each = after.saturating_sub(before) as f64 / clients.len() as f64;
    Ok(Found::Idle { resident_bytes: before, connections: clients.len(), bytes_a_connection: each })
}

fn text(name: &str, found: &Result<Found, String>) -> String {
    match found {
        Ok(Found::Keys { worst, stages }) => {
            let each: String =
                stages.iter().map(|(keys, bytes)| format!("  {bytes:.1} ({})", plot::rounded(*keys as f64))).collect();
            format!("  {name:<14}{worst:>8.1} bytes a key at worst  {each}")
        }
        Ok(Found::Idle { resident_bytes, connections, bytes_a_connection }) => format!(
            "  {name:<14}{:>8.1} MB   {connections} idle connections, each {bytes_a_connection:.0} bytes resident",
            *resident_bytes as f64 / 1e6
        ),
        Err(why) => format!("  {name:<14}failed: {why}"),
    }
}

fn charts(rows: &[Row]) -> Vec<Bars> {
    let series: Vec<String> =
        rows.first().map_or(Vec::new(), |row| row.servers.iter().map(|(name, _)| name.clone()).collect());
    let bar = |value: f64, label: String| Some(plot::Bar { value, label, spread: None });
    let mut keys = Bars {
        title: "Memory a key beyond key + value bytes, labels: all resident bytes (less is better)".into(),
        unit: "overhead in bytes".into(),
        series: series.clone(),
        groups: Vec::new(),
        logarithmic: false,
    };
    let mut idle = Bars {
        title: "Memory of an idle connection (less is better)".into(),
        unit: "resident bytes".into(),
        series,
        groups: Vec::new(),
        logarithmic: false,
    };
    for row in rows {
        let (mut of_keys, mut of_idle) = (Vec::new(), Vec::new());
        for (_, found) in &row.servers {
            match found {
                Ok(Found::Keys { worst, .. }) => {
                    let payload = shape(&row.name).map_or(0, |shape| shape.key_bytes + shape.value_bytes);
                    of_keys.push(bar((worst - payload as f64).max(0.0), format!("{worst:.0}")));
                }
                Ok(Found::Idle { bytes_a_connection: bytes, .. }) => of_idle.push(bar(*bytes, format!("{bytes:.0}"))),
                Err(_) => of_keys.push(None),
            }
        }
        if !of_keys.is_empty() {
            keys.groups.push((row.name.clone(), of_keys));
        }
        if !of_idle.is_empty() {
            idle.groups.push((row.name.clone(), of_idle));
        }
    }
    [keys, idle].into_iter().filter(|chart| !chart.groups.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_sizes() {
        assert_eq!(shape("16+8"), Ok(Shape { key_bytes: 16, value_bytes: 8, ttl: false }));
        assert_eq!(shape("20+0+ttl"), Ok(Shape { key_bytes: 20, value_bytes: 0, ttl: true }));
        for wrong in ["idle", "", "16", "16+8+x", "5+8", "16+8+ttl+ttl"] {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
    }
}
