//! One call of the load generator: from options to workloads, settings, runs and reports.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::{AccessArgs, RunArgs};
use crate::client::{Access, Client, Target};
use crate::interrupt::Interrupt;
use crate::keys::{Pick, read_trace};
use crate::load::{self, Progress, Settings};
use crate::machine;
use crate::report::{Fill, Report, digits, grouped};
use crate::verify::Ledger;
use crate::wire::Protocol;
use crate::workload::{Variant, Workload};

/// What to run, once all options are understood.
#[derive(Debug)]
pub struct Plan {
    pub workloads: Vec<Workload>,
    pub settings: Settings,
    pub fill: bool,
    pub verify: bool,
    allow_misses: bool,
    explicit: (Option<Pick>, Option<crate::values::Sizes>),
}

pub fn access(args: &AccessArgs) -> Access {
    let protocol = if args.resp3 { Protocol::Resp3 } else { args.protocol.into() };
    let port = args.port.unwrap_or(if protocol.is_resp() { 6379 } else { 11211 });
    let target = match &args.socket {
        Some(path) => Target::Unix(path.clone()),
        None => Target::Tcp(args.host.clone(), port),
    };
    Access {
        target,
        protocol,
        user: args.user.clone(),
        password: args.password.clone().or_else(|| std::env::var("DOLMEN_BENCH_PASSWORD").ok()),
        database: args.database,
        timeout: args.timeout.max(Duration::from_millis(10)),
    }
}

impl Plan {
    pub fn new(args: &RunArgs) -> Result<Plan, String> {
        let access = access(&args.access);
        let (what, how) = (&args.what, &args.how);
        let variant = Variant {
            protocol: access.protocol,
            ttl: what.ttl.is_some(),
            records: what.records,
            channels: what.channels,
        };
        let workloads = if let Some(ratio) = &what.ratio {
            vec![Workload::ratio(ratio, variant)?]
        } else if !what.command.is_empty() {
            vec![Workload::custom(&what.command, variant)?]
        } else {
            let default = ["set".to_string(), "get".to_string()];
            let names = if what.tests.is_empty() { &default[..] } else { &what.tests };
            let named = names.iter().map(|name| Workload::named(name, variant));
            named.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
        };
        let trace = match &what.keys_by {
            Some(Pick::File(path)) => Some(read_trace(path)?),
            _ => None,
        };
        if how.connections == 0 || how.pipeline == 0 || how.threads == 0 {
            return Err("connections, pipeline and threads are at least 1".into());
        }
        if how.requests.is_some() && how.duration.is_some() {
            return Err("--requests or --duration, not both".into());
        }
        let keys = trace.as_ref().map_or(what.keys, |trace| trace.len() as u64);
        let widest = keys.max(1).ilog10() as usize + 1;
        let digits = what.key_bytes.saturating_sub(what.key_prefix.len());
        if digits < widest && trace.is_none() {
            return Err(format!(
                "{keys} keys that begin with {:?} need --key-bytes of {} at least",
                what.key_prefix,
                what.key_prefix.len() + widest
            ));
        }
        if what.verify {
            if let Some(workload) = workloads.iter().find(|workload| !workload.verifiable()) {
                return Err(format!("--verify knows get, set, del and incr, and not all of {}", workload.name));
            }
            if keys < how.connections as u64 || keys > u64::from(u32::MAX) || trace.is_some() {
                return Err(
                    "--verify needs a key of its own for each connection, at most 2^32 of them, and no trace".into()
                );
            }
        }
        let requests = how.requests.or(if how.duration.is_none() { Some(100_000) } else { None });
        let settings = Settings {
            access,
            connections: how.connections,
            threads: how.threads.min(how.connections),
            cpus: how.cpus.as_ref().map_or(Vec::new(), |cpus| cpus.0.clone()),
            pipeline: how.pipeline,
            requests,
            duration: how.duration,
            warmup: how.warmup,
            rate: how.rate,
            poisson: how.poisson,
            interval: how.interval.max(Duration::from_millis(10)),
            seed: what.seed,
            keys,
            key_prefix: what.key_prefix.clone(),
            key_digits: digits.max(1),
            pick: Pick::Uniform,
            trace,
            sizes: crate::values::Sizes::Fixed(3),
            ttl: what.ttl,
            subscribers: what.subscribers,
            channels: what.channels.max(1),
            filling: false,
            fill_pipeline: 100,
        };
        Ok(Plan {
            workloads,
            settings,
            fill: what.fill,
            verify: what.verify,
            allow_misses: what.allow_misses,
            explicit: (what.keys_by.clone(), what.sizes.clone()),
        })
    }

    fn settings_for(&self, workload: &Workload) -> Settings {
        let sizes = self.explicit.1.clone().unwrap_or(workload.sizes.clone());
        Settings {
            pick: self.explicit.0.clone().unwrap_or(workload.pick.clone()),
            // A megabyte under way on a connection is plenty.
            fill_pipeline: ((1 << 20) / sizes.max().max(1)).clamp(1, self.settings.fill_pipeline),
            sizes,
            ..self.settings.clone()
        }
    }

    /// Runs one of the workloads, filled before if that is asked for.
    pub fn run(&self, workload: &Workload, interrupt: &Interrupt, bar: &Bar) -> Result<Report, String> {
        let settings = self.settings_for(workload);
        let mut client = Client::open(&settings.access).map_err(|failure| failure.to_string())?;
        let server = client.version();
        drop(client);
        let files = settings.connections + if workload.subscribes { settings.subscribers } else { 0 } + 100;
        if !machine::allow_open_files(files as u64) {
            return Err(format!(
                "{} connections need more open files than the limit (ulimit -n) allows",
                settings.connections
            ));
        }
        let ledger = self.verify.then(|| {
            let may_vanish = self.allow_misses || settings.ttl.is_some();
            Arc::new(Ledger::new(settings.keys as usize, settings.sizes.clone(), settings.seed, may_vanish))
        });
        let filled = if self.fill { fill(&settings, workload, ledger.as_ref(), interrupt, bar)? } else { None };
        bar.begin(&workload.name, Some(&settings));
        let outcome = load::run(&settings, workload, ledger.as_ref(), interrupt, &mut |p| bar.show(&p));
        bar.end();
        let outcome = outcome.map_err(|failure| failure.to_string())?;
        Ok(Report::new(&workload.name, server, &settings, &outcome, ledger.as_deref(), filled))
    }

    /// Writes what a workload reads, and nothing else.
    pub fn fill_only(&self, workload: &Workload, interrupt: &Interrupt, bar: &Bar) -> Result<(), String> {
        fill(&self.settings_for(workload), workload, None, interrupt, bar).map(|_| ())
    }
}

fn fill(
    settings: &Settings,
    workload: &Workload,
    ledger: Option<&Arc<Ledger>>,
    interrupt: &Interrupt,
    bar: &Bar,
) -> Result<Option<Fill>, String> {
    if workload.fill.is_empty() {
        return Ok(None);
    }
    bar.begin("fill", None);
    let outcome = load::fill(settings, workload, ledger, interrupt, &mut |p| bar.show(&p));
    bar.end();
    let outcome = outcome.map_err(|failure| failure.to_string())?;
    if let Some(why) = outcome.partial {
        return Err(format!("while filling: {why}"));
    }
    if let Some((error, count)) = outcome.errors.first_key_value() {
        return Err(format!("while filling: {count} x {error}"));
    }
    Ok(Some(Fill { requests: outcome.all.count(), elapsed_s: outcome.elapsed_s }))
}

/// The progress bar, with live rate and p99.
pub struct Bar {
    bar: ProgressBar,
    /// A bar of requests, or of milliseconds.
    by_time: std::cell::Cell<bool>,
}

impl Bar {
    pub fn new(visible: bool) -> Bar {
        let target = if visible { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
        Bar { bar: ProgressBar::with_draw_target(None, target), by_time: std::cell::Cell::new(false) }
    }

    fn begin(&self, name: &str, settings: Option<&Settings>) {
        self.bar.reset();
        let length = settings.and_then(|settings| settings.requests);
        let time_ms = settings.and_then(|settings| settings.duration).map(|duration| duration.as_millis() as u64);
        self.by_time.set(time_ms.is_some());
        match time_ms.or(length) {
            Some(length) => {
                self.bar.set_length(length);
                self.style("{prefix:12} {wide_bar} {percent:>3}%  {msg}");
            }
            None => self.style("{prefix:12} {spinner} {msg}"),
        }
        self.bar.set_prefix(name.to_string());
    }

    fn style(&self, template: &str) {
        self.bar.set_style(ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar()));
    }

    fn show(&self, progress: &Progress<'_>) {
        let rate = progress.last.count as f64 / progress.interval.as_secs_f64();
        let phase = if progress.warming { "warming up" } else { "" };
        let position = if self.by_time.get() { progress.elapsed.as_millis() as u64 } else { progress.done };
        self.bar.set_position(position);
        self.bar.set_message(format!("{:>11}/s  p99 {:>8} ms {phase}", grouped(rate), digits(progress.last.p99_ms)));
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Writes a result to a file, or to standard output for `-`.
pub fn write_to(place: &str, text: &str) -> Result<(), String> {
    if place == "-" {
        print!("{text}");
        return Ok(());
    }
    std::fs::write(Path::new(place), text).map_err(|error| format!("{place}: {error}"))
}
