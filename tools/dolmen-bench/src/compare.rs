//! `compare`: servers side by side. All of them stay up on the same CPUs; the same load is put on one at a time, in short runs and random
//! order, so that what the machine does meanwhile meets them all alike; every round is compared with the first server's of that round. The
//! honest column is the server's CPU time a request: in pipelined rows the client is the bottleneck, and without pipelines a slow server makes
//! the client send more at once.

use clap::Parser;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::Serialize;

use crate::cli::{Cli, CompareArgs, ProtocolName, RunArgs};
use crate::client::Target;
use crate::interrupt::Interrupt;
use crate::keys::below;
use crate::machine::{Machine, pin_to};
use crate::notes::Notes;
use crate::plot::{self, Bars};
use crate::report::{digits, grouped};
use crate::run::{Bar, Plan};
use crate::server::{FLOOR, Named, Server, check_cpus};
use crate::values::Sizes;

/// Rows that have a name: options as of `run`, and how much is written before.
pub const PRESETS: &[(&str, &str)] = &[
    ("set_p1", "-t set -d 8 -c 50 -n 60000 -r 1000000 --fill"),
    ("get_p1", "-t get -d 8 -c 50 -n 60000 -r 1000000 --fill"),
    ("set_p16", "-t set -d 8 -c 50 -P 16 -n 800000 -r 1000000 --fill"),
    ("get_p16", "-t get -d 8 -c 50 -P 16 -n 800000 -r 1000000 --fill"),
    ("set_p100", "-t set -d 8 -c 50 -P 100 -n 2000000 -r 1000000 --fill"),
    ("get_p100", "-t get -d 8 -c 50 -P 100 -n 2000000 -r 1000000 --fill"),
    ("set_p100_8m", "-t set -d 8 -c 50 -P 100 -n 2000000 -r 8000000 --fill"),
    ("get_p100_8m", "-t get -d 8 -c 50 -P 100 -n 2000000 -r 8000000 --fill"),
    ("set_1k", "-t set -d 1024 -c 50 -n 60000 -r 100000 --fill"),
    ("get_1k", "-t get -d 1024 -c 50 -n 60000 -r 100000 --fill"),
    ("set_64k", "-t set -d 65536 -c 50 -n 12000 -r 1000 --fill"),
    ("get_64k", "-t get -d 65536 -c 50 -n 12000 -r 1000 --fill"),
    ("incr_p16", "-t incr -c 50 -P 16 -n 700000 -r 100000 --fill"),
    ("mset_p16", "-t mset -d 8 -c 50 -P 16 -n 150000 -r 1000000 --fill"),
    ("mget100_p1", "-t mget -d 8 -c 50 -n 60000 -r 1000000 --fill"),
    ("mget100_p16", "-t mget -d 8 -c 50 -P 16 -n 120000 -r 1000000 --fill"),
    ("lpush_p16", "-t lpush -d 8 -c 50 -P 16 -n 500000"),
    ("sadd_p16", "-t sadd -c 50 -P 16 -n 500000 -r 1000000"),
    ("hset_p16", "-t hset -d 8 -c 50 -P 16 -n 500000 -r 100000"),
    ("zadd_p16", "-t zadd -c 50 -P 16 -n 400000 -r 1000000"),
    ("lrange100_p4", "-t lrange_100 -c 50 -P 4 -n 40000 --fill"),
    ("ping_p16", "-t ping_mbulk -c 50 -P 16 -n 800000"),
    ("set_c1000", "-t set -d 8 -c 1000 -n 100000 -r 1000000 --fill"),
    ("get_c1000", "-t get -d 8 -c 1000 -n 100000 -r 1000000 --fill"),
    ("set_c100_p1", "-t set -d 8 -c 100 -n 100000 -r 1000000 --fill"),
    ("get_c100_p1", "-t get -d 8 -c 100 -n 100000 -r 1000000 --fill"),
    ("set_c100_p16", "-t set -d 8 -c 100 -P 16 -n 800000 -r 1000000 --fill"),
    ("get_c100_p16", "-t get -d 8 -c 100 -P 16 -n 800000 -r 1000000 --fill"),
    ("set_c100_p100", "-t set -d 8 -c 100 -P 100 -n 2000000 -r 1000000 --fill"),
    ("get_c100_p100", "-t get -d 8 -c 100 -P 100 -n 2000000 -r 1000000 --fill"),
    ("set_3b_p1", "-t set -d 3 -c 50 -n 100000 -r 100000 --fill"),
    ("get_3b_p1", "-t get -d 3 -c 50 -n 100000 -r 100000 --fill"),
    ("set_3b_p10", "-t set -d 3 -c 50 -P 10 -n 800000 -r 100000 --fill"),
    ("get_3b_p10", "-t get -d 3 -c 50 -P 10 -n 800000 -r 100000 --fill"),
    ("set_256b_p1", "-t set -d 256 -c 50 -n 100000 -r 100000 --fill"),
    ("get_256b_p1", "-t get -d 256 -c 50 -n 100000 -r 100000 --fill"),
    ("set_256b_p10", "-t set -d 256 -c 50 -P 10 -n 800000 -r 100000 --fill"),
    ("get_256b_p10", "-t get -d 256 -c 50 -P 10 -n 800000 -r 100000 --fill"),
    ("ping_p10", "-t ping_mbulk -c 50 -P 10 -n 800000"),
    ("mixed_p16_200keys", "-t mixed -c 50 -P 16 -n 20000000 -r 200 --fill"),
    ("mixed_100b", "--ratio 1:1 -d 100 -c 50 -n 60000 -r 100000 --fill"),
    ("mixed_1k", "--ratio 1:1 -d 1k -c 50 -n 60000 -r 100000 --fill"),
    ("mixed_10k", "--ratio 1:1 -d 10k -c 50 -n 60000 -r 10000 --fill"),
    ("pubsub_100", "-t pubsub -c 1 --subscribers 100 -n 2000"),
    ("ycsb_a", "-t ycsb-a --records string -c 50 -P 16 -n 500000 -r 100000 --fill"),
    ("ycsb_b", "-t ycsb-b --records string -c 50 -P 16 -n 500000 -r 100000 --fill"),
    ("ycsb_c", "-t ycsb-c --records string -c 50 -P 16 -n 500000 -r 100000 --fill"),
];

/// One run on one server.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    pub requests_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p99_9_ms: f64,
    pub server_cpu_ns: f64,
    /// Context switches a thousand requests.
    pub switches: f64,
    pub resident_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub options: String,
    pub servers: Vec<Measured>,
}

#[derive(Debug, Serialize)]
pub struct Measured {
    pub name: String,
    pub rounds: Vec<Sample>,
    /// Why there are none, or fewer.
    pub failed: Option<String>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    tool: String,
    machine: &'a Machine,
    versions: Vec<(String, String)>,
    rows: &'a [Row],
}

pub fn compare(args: &CompareArgs, interrupt: &Interrupt) -> Result<(), String> {
    if args.presets {
        PRESETS.iter().for_each(|(name, options)| println!("{name:<20}{options}"));
        return Ok(());
    }
    let servers = &args.servers;
    check_cpus(&servers.server_cpus.0, &servers.client_cpus.0)?;
    let planned = planned(args)?;
    let machine = Machine::read();
    let named = Named::all(&servers.servers, 3)?;
    let versions: Vec<_> = named.iter().map(|named| (named.name.clone(), named.version())).collect();
    let mut notes = Notes::new("compare", &machine, &versions, servers.json.as_deref() != Some("-"));
    notes.say(&format!(
        "{} rounds; medians; CPU: the server's, a request; ratio: of CPU to {} in the same round, median (least to most); switches: context switches a thousand requests",
        args.rounds, named[0].name
    ));
    pin_to(&servers.client_cpus.0);
    let mut rows = Vec::new();
    for (name, options, run) in &planned {
        if interrupt.happened() {
            break;
        }
        notes.say(&format!("\n{name}: {options}"));
        let row = measure(name, options, run, args, interrupt)?;
        text(&row).iter().for_each(|line| notes.say(line));
        rows.push(row);
    }
    if interrupt.happened() {
        notes.say("\nPARTIAL: interrupted");
    }
    let document = Document { tool: crate::tool(), machine: &machine, versions, rows: &rows };
    notes.finish(servers, &document, || charts(&rows))
}

/// Name, options, and what they mean, of all rows; wrong ones are told before anything is started.
fn planned(args: &CompareArgs) -> Result<Vec<(String, String, RunArgs)>, String> {
    let rows: Vec<(String, String)> = if args.row.is_empty() {
        let preset = |name: &String| {
            let found = PRESETS.iter().find(|(preset, _)| preset == name);
            found
                .map(|(name, options)| (name.to_string(), options.to_string()))
                .ok_or(format!("there is no row {name}; --presets"))
        };
        args.rows.iter().map(preset).collect::<Result<_, _>>()?
    } else {
        let own = |text: &String| {
            text.split_once('=')
                .map(|(name, options)| (name.into(), options.into()))
                .ok_or("--row NAME=OPTIONS".to_string())
        };
        args.row.iter().map(own).collect::<Result<_, _>>()?
    };
    let mut planned = Vec::new();
    for (name, options) in rows {
        let words = shell_words::split(&options).map_err(|error| format!("{name}: {error}"))?;
        let line = std::iter::once("dolmen-bench".to_string()).chain(words);
        let mut run = Cli::try_parse_from(line).map_err(|error| format!("{name}: {error}"))?.run;
        if let Some(requests) = &mut run.how.requests {
            *requests = ((*requests as f64 * args.scale) as u64).max(1);
        }
        run.how.cpus.get_or_insert(args.servers.client_cpus.clone());
        Plan::new(&run).map_err(|error| format!("{name}: {error}"))?;
        planned.push((name, options, run));
    }
    Ok(planned)
}

/// A server of a row, and how far it got.
struct Running {
    server: Server,
    plan: Plan,
}

fn measure(name: &str, options: &str, run: &RunArgs, args: &CompareArgs, interrupt: &Interrupt) -> Result<Row, String> {
    let value_bytes = match &run.what.sizes {
        Some(Sizes::Fixed(size)) => *size,
        Some(sizes) => sizes.max() / 2,
        None => 3,
    };
    let bar = Bar::new(false);
    let mut row = Row { name: name.into(), options: options.into(), servers: Vec::new() };
    let mut running = Vec::new();
    // Fresh servers for each row: none meets what another has left.
    for named in Named::all(&args.servers.servers, value_bytes)? {
        let ready = ready(&named, run, args, interrupt, &bar);
        let failed = ready.as_ref().err().cloned();
        row.servers.push(Measured { name: named.name, rounds: Vec::new(), failed });
        running.push(ready.ok());
    }
    let mut rng = SmallRng::seed_from_u64(run.what.seed);
    for _ in 0..args.rounds {
        let mut order: Vec<usize> = (0..running.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, below(&mut rng, at as u64 + 1) as usize);
        }
        for at in order {
            let Some(on) = &running[at] else { continue };
            if interrupt.happened() {
                return Ok(row);
            }
            match sample(on, interrupt, &bar) {
                Ok(sample) => row.servers[at].rounds.push(sample),
                Err(error) => {
                    row.servers[at].failed = Some(error);
                    running[at] = None;
                }
            }
        }
    }
    Ok(row)
}

/// Starts a server, fills it and warms it up.
fn ready(
    named: &Named,
    run: &RunArgs,
    args: &CompareArgs,
    interrupt: &Interrupt,
    bar: &Bar,
) -> Result<Running, String> {
    let server = Server::start(named, &args.servers.server_cpus.0)?;
    let mut run = run.clone();
    if let Target::Tcp(host, port) = &server.access.target {
        (run.access.host, run.access.port, run.access.socket) = (host.clone(), Some(*port), None);
    }
    if !named.protocol.is_resp() {
        run.access.protocol = ProtocolName::Memcached;
    }
    let mut plan = Plan::new(&run)?;
    // The floor has nothing to fill, and must not be asked for what it does not keep.
    plan.fill &= named.name != FLOOR;
    plan.verify &= named.name != FLOOR;
    if let ([workload], true) = (&plan.workloads[..], plan.fill) {
        plan.fill_only(workload, interrupt, bar)?;
    }
    plan.fill = false;
    let running = Running { server, plan };
    sample(&running, interrupt, bar)?;
    Ok(running)
}

fn sample(on: &Running, interrupt: &Interrupt, bar: &Bar) -> Result<Sample, String> {
    let [workload] = &on.plan.workloads[..] else { return Err("a row is one workload".into()) };
    let before = on.server.usage()?;
    let report = on.plan.run(workload, interrupt, bar)?;
    let after = on.server.usage()?;
    if let Some(why) = &report.partial {
        return Err(why.clone());
    }
    if let Some((error, count)) = report.errors.first_key_value() {
        return Err(format!("{count} x {error}"));
    }
    if !report.good() {
        return Err("wrong values or lost messages".into());
    }
    let requests = report.requests.max(1) as f64;
    let switches = (after.voluntary + after.involuntary).saturating_sub(before.voluntary + before.involuntary);
    Ok(Sample {
        requests_per_s: report.requests_per_s,
        p50_ms: report.latency.p50_ms,
        p99_ms: report.latency.p99_ms,
        p99_9_ms: report.latency.p99_9_ms,
        server_cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns) as f64 / requests,
        switches: switches as f64 * 1000.0 / requests,
        resident_bytes: after.resident_bytes,
    })
}

/// The median; of none, nothing.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

impl Measured {
    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.rounds.iter().map(of))
    }

    /// Ratios of CPU time to another's of the same rounds: median, least, most.
    fn ratio_to(&self, first: &Measured) -> Option<(f64, f64, f64)> {
        let ratios: Vec<f64> =
            self.rounds.iter().zip(&first.rounds).map(|(own, base)| own.server_cpu_ns / base.server_cpu_ns).collect();
        let least = ratios.iter().copied().reduce(f64::min)?;
        let most = ratios.iter().copied().reduce(f64::max)?;
        Some((median(ratios), least, most))
    }
}

fn text(row: &Row) -> Vec<String> {
    let mut lines = vec![format!(
        "  {:<14}{:>13}{:>9}{:>9}{:>9}{:>12}{:>24}{:>10}{:>9}",
        "server", "requests/s", "p50 ms", "p99", "p99.9", "CPU ns", "ratio (spread)", "switches", "RSS MB"
    )];
    for measured in &row.servers {
        if !measured.rounds.is_empty() {
            let ratio = measured
                .ratio_to(&row.servers[0])
                .map_or_else(String::new, |(median, least, most)| format!("{median:.2} ({least:.2} to {most:.2})"));
            lines.push(format!(
                "  {:<14}{:>13}{:>9}{:>9}{:>9}{:>12}{ratio:>24}{:>10.1}{:>9.1}",
                measured.name,
                grouped(measured.median(|sample| sample.requests_per_s)),
                digits(measured.median(|sample| sample.p50_ms)),
                digits(measured.median(|sample| sample.p99_ms)),
                digits(measured.median(|sample| sample.p99_9_ms)),
                grouped(measured.median(|sample| sample.server_cpu_ns)),
                measured.median(|sample| sample.switches),
                measured.median(|sample| sample.resident_bytes as f64) / 1e6,
            ));
        }
        if let Some(why) = &measured.failed {
            lines.push(format!("  {:<14}failed: {}", measured.name, why.replace('\n', " ")));
        }
    }
    lines
}

fn charts(rows: &[Row]) -> Vec<Bars> {
    let series: Vec<String> =
        rows.first().map_or(Vec::new(), |row| row.servers.iter().map(|server| server.name.clone()).collect());
    let first = series.first().cloned().unwrap_or_default();
    // Rows differ by a factor of a hundred, so each is shown in units of its first server.
    let chart = |title: &str, unit: String, of: &dyn Fn(&Sample) -> f64| {
        let group = |row: &Row| {
            let base = row.servers[0].median(of);
            let bar = |server: &Measured| {
                let values = || server.rounds.iter().map(of);
                let (least, most) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
                let value = server.median(of);
                let spread = Some((least / base, most / base));
                base.is_normal().then(|| plot::Bar { value: value / base, label: plot::rounded(value), spread })
            };
            (row.name.clone(), row.servers.iter().map(bar).collect())
        };
        let groups = rows.iter().map(group).collect();
        Bars { title: title.into(), unit, series: series.clone(), groups, logarithmic: false }
    };
    vec![
        chart(
            "Server CPU time a request, labels in nanoseconds (less is better; whiskers: all rounds)",
            format!("relative to {first}"),
            &|sample| sample.server_cpu_ns,
        ),
        chart(
            "Throughput, labels in requests a second (more is better; whiskers: all rounds)",
            format!("relative to {first}"),
            &|sample| sample.requests_per_s,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_understood() {
        let mut line = vec!["dolmen-bench".to_string(), "compare".into(), "--rows".into()];
        line.push(PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(","));
        let Some(crate::cli::Task::Compare(args)) = Cli::try_parse_from(&line).expect("good").command else {
            panic!("not a comparison")
        };
        let planned = planned(&args).expect("all of them");
        assert_eq!(planned.len(), PRESETS.len());
        for (name, _, run) in planned {
            assert_eq!(Plan::new(&run).expect("a plan").workloads.len(), 1, "{name}");
        }
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let sample = |ns: f64| Sample {
            requests_per_s: 1.0,
            p50_ms: 1.0,
            p99_ms: 1.0,
            p99_9_ms: 1.0,
            server_cpu_ns: ns,
            switches: 0.0,
            resident_bytes: 0,
        };
        let measured = |times: &[f64]| Measured {
            name: String::new(),
            rounds: times.iter().map(|ns| sample(*ns)).collect(),
            failed: None,
        };
        let (first, second) = (measured(&[100.0, 200.0, 400.0]), measured(&[200.0, 200.0, 1200.0]));
        assert_eq!(second.ratio_to(&first), Some((2.0, 1.0, 3.0)));
        assert_eq!(measured(&[]).ratio_to(&first), None);
        assert_eq!(median([1.0, 4.0, 2.0, 3.0]), 2.5);
    }
}
