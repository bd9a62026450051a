//! What a run has measured, as a table, JSON and CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::load::{DELIVER, Outcome, Settings};
use crate::machine::Machine;
use crate::record::{Latency, Point, Tally};
use crate::verify::Ledger;

/// All runs of one call.
#[derive(Debug, Serialize)]
pub struct Document {
    pub tool: String,
    pub machine: Machine,
    pub runs: Vec<Report>,
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub workload: String,
    /// As it tells itself.
    pub server: Option<String>,
    pub target: String,
    pub settings: Asked,
    pub requests: u64,
    pub elapsed_s: f64,
    pub requests_per_s: f64,
    /// All commands together.
    pub latency: Latency,
    pub commands: Vec<Command>,
    pub over_time: Vec<Interval>,
    /// Why there is less than was asked for.
    pub partial: Option<String>,
    #[serde(skip)]
    pub interrupted: bool,
    pub errors: BTreeMap<String, u64>,
    pub lost_connections: usize,
    pub unanswered: u64,
    /// Requests of the open loop that were due and never sent.
    pub unsent: u64,
    pub verification: Option<Verification>,
    pub messages: Option<Messages>,
    pub client_cpu_ns_per_request: f64,
    pub fill: Option<Fill>,
}

#[derive(Debug, Serialize)]
pub struct Asked {
    pub protocol: String,
    pub connections: usize,
    pub threads: usize,
    pub pipeline: usize,
    pub rate: Option<f64>,
    pub keys: u64,
    pub keys_by: String,
    pub value_bytes: String,
    pub ttl_s: Option<(u64, u64)>,
    pub warmup_s: f64,
    pub seed: u64,
}

#[derive(Debug, Serialize)]
pub struct Command {
    pub name: String,
    pub requests: u64,
    pub requests_per_s: f64,
    pub misses: u64,
    pub errors: u64,
    pub latency: Latency,
    /// Percentile and milliseconds.
    pub curve: Vec<(f64, f64)>,
}

#[derive(Debug, Serialize)]
pub struct Interval {
    /// Its end, in seconds since the measurement began.
    pub at_s: f64,
    pub seconds: f64,
    pub all: Point,
    pub commands: BTreeMap<String, Point>,
}

#[derive(Debug, Serialize)]
pub struct Verification {
    pub checked: u64,
    pub wrong: u64,
    pub examples: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Messages {
    /// As the server answered to PUBLISH.
    pub sent: u64,
    pub received: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fill {
    pub requests: u64,
    pub elapsed_s: f64,
}

impl Report {
    pub fn new(
        workload: &str,
        server: Option<String>,
        settings: &Settings,
        outcome: &Outcome,
        ledger: Option<&Ledger>,
        fill: Option<Fill>,
    ) -> Report {
        let seconds = outcome.elapsed_s.max(1e-9);
        let command = |name: &str, tally: &Tally| Command {
            name: name.into(),
            requests: tally.count(),
            requests_per_s: tally.count() as f64 / seconds,
            misses: tally.misses,
            errors: tally.errors,
            latency: tally.summary(),
            curve: tally.curve(),
        };
        // What of a name is spread over several kinds stays apart: names differ.
        let commands = outcome.ops.iter().filter(|(_, tally)| tally.count() > 0);
        let mut before = 0.0;
        let over_time = outcome.moments.iter().map(|moment| {
            let seconds = (moment.at_s - before).max(0.0);
            before = moment.at_s;
            let named = outcome.ops.iter().zip(&moment.ops).filter(|(_, point)| point.count > 0);
            Interval {
                at_s: moment.at_s,
                seconds,
                all: moment.all,
                commands: named.map(|((name, _), point)| (name.clone(), *point)).collect(),
            }
        });
        let read = std::sync::atomic::Ordering::Relaxed;
        Report {
            workload: workload.into(),
            server,
            target: settings.access.target.to_string(),
            settings: Asked {
                protocol: settings.access.protocol.name().into(),
                connections: settings.connections,
                threads: settings.threads,
                pipeline: settings.pipeline,
                rate: settings.rate,
                keys: settings.keys,
                keys_by: settings.pick.to_string(),
                value_bytes: settings.sizes.to_string(),
                ttl_s: settings.ttl,
                warmup_s: settings.warmup.as_secs_f64(),
                seed: settings.seed,
            },
            requests: outcome.all.count(),
            elapsed_s: outcome.elapsed_s,
            requests_per_s: outcome.rate(),
            latency: outcome.all.summary(),
            commands: commands.map(|(name, tally)| command(name, tally)).collect(),
            over_time: over_time.collect(),
            partial: outcome.partial.clone(),
            interrupted: outcome.interrupted,
            errors: outcome.errors.clone(),
            lost_connections: outcome.lost,
            unanswered: outcome.unanswered,
            unsent: outcome.unsent,
            verification: ledger.map(|ledger| Verification {
                checked: ledger.checked.load(read),
                wrong: ledger.wrong.load(read),
                examples: ledger.described(),
            }),
            messages: outcome.deliveries.map(|(sent, received)| Messages { sent, received }),
            client_cpu_ns_per_request: outcome.cpu_ns as f64 / outcome.all.count().max(1) as f64,
            fill,
        }
    }

    /// Whether everything went as it should.
    pub fn good(&self) -> bool {
        self.partial.is_none()
            && self.errors.is_empty()
            && self.verification.as_ref().is_none_or(|verification| verification.wrong == 0)
            && self.messages.as_ref().is_none_or(|messages| messages.sent == messages.received)
    }

    pub fn line(&self) -> String {
        let mark = if self.partial.is_some() { ", partial" } else { "" };
        format!(
            "{}: {} requests per second, p50={} ms, p99={} ms{mark}",
            self.workload,
            grouped(self.requests_per_s),
            digits(self.latency.p50_ms),
            digits(self.latency.p99_ms)
        )
    }

    pub fn table(&self) -> String {
        let mut text = String::new();
        let Asked { connections, threads, pipeline, keys, keys_by, value_bytes, rate, protocol, .. } = &self.settings;
        let loops = rate.map_or_else(|| "closed loop".to_string(), |rate| format!("{} due a second", grouped(rate)));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {} requests in {:.2} s: {} a second",
            self.workload,
            grouped(self.requests as f64),
            self.elapsed_s,
            grouped(self.requests_per_s)
        );
        let server = self.server.as_ref().map_or(String::new(), |server| format!(" ({server})"));
        let _ = writeln!(
            text,
            "  {}{server}, {protocol}, {connections} connections, pipeline {pipeline}, {threads} thread{}, {loops}, {} keys {keys_by}, values of {value_bytes} bytes",
            self.target,
            if *threads == 1 { "" } else { "s" },
            grouped(*keys as f64),
        );
        if let Some(fill) = &self.fill {
            let _ = writeln!(text, "  filled by {} requests in {:.2} s", grouped(fill.requests as f64), fill.elapsed_s);
        }
        let _ = writeln!(
            text,
            "\n  {:<14}{:>12}{:>12}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}  ms",
            "command", "requests", "a second", "misses", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"
        );
        let mut row = |name: &str, requests: u64, rate: f64, misses: u64, latency: &Latency| {
            let times = [
                latency.mean_ms,
                latency.p50_ms,
                latency.p90_ms,
                latency.p99_ms,
                latency.p99_9_ms,
                latency.p99_99_ms,
                latency.max_ms,
            ];
            let times: String = times.iter().map(|ms| format!("{:>9}", digits(*ms))).collect();
            let _ = writeln!(
                text,
                "  {name:<14}{:>12}{:>12}{:>10}{times}",
                grouped(requests as f64),
                grouped(rate),
                grouped(misses as f64)
            );
        };
        for command in &self.commands {
            row(&command.name, command.requests, command.requests_per_s, command.misses, &command.latency);
        }
        if self.commands.iter().filter(|command| command.name != DELIVER).count() > 1 {
            let counted = self.commands.iter().filter(|command| command.name != DELIVER);
            row("all", self.requests, self.requests_per_s, counted.map(|c| c.misses).sum(), &self.latency);
        }
        if let Some(Verification { checked, wrong, examples }) = &self.verification {
            let _ =
                writeln!(text, "\n  verified: {} values, {} wrong", grouped(*checked as f64), grouped(*wrong as f64));
            examples.iter().for_each(|example| {
                let _ = writeln!(text, "    {example}");
            });
        }
        if let Some(Messages { sent, received }) = &self.messages {
            let _ = writeln!(
                text,
                "\n  messages: {} received of {} sent, {} a second",
                grouped(*received as f64),
                grouped(*sent as f64),
                grouped(*received as f64 / self.elapsed_s.max(1e-9))
            );
        }
        for (error, count) in &self.errors {
            let _ = writeln!(text, "  {} x error: {error}", grouped(*count as f64));
        }
        if self.unsent > 0 {
            let _ = writeln!(
                text,
                "  the server was slower than the rate: {} requests were due and could not be sent, the percentiles lack them",
                grouped(self.unsent as f64)
            );
        }
        if let Some(why) = &self.partial {
            let _ = writeln!(
                text,
                "  PARTIAL: {why}; {} of {connections} connections lost, {} requests without an answer",
                self.lost_connections,
                grouped(self.unanswered as f64)
            );
        }
        text
    }
}

/// One row a command of each run.
pub fn csv(runs: &[Report]) -> String {
    let mut text = String::from(
        "\"test\",\"command\",\"requests\",\"rps\",\"misses\",\"errors\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p90_latency_ms\",\"p99_latency_ms\",\"p99.9_latency_ms\",\"p99.99_latency_ms\",\"max_latency_ms\"\n",
    );
    for run in runs {
        for command in &run.commands {
            let Latency { mean_ms, min_ms, p50_ms, p90_ms, p99_ms, p99_9_ms, p99_99_ms, max_ms } = command.latency;
            let times: String = [mean_ms, min_ms, p50_ms, p90_ms, p99_ms, p99_9_ms, p99_99_ms, max_ms]
                .iter()
                .map(|ms| format!(",\"{ms:.3}\""))
                .collect();
            let quoted = |name: &str| name.replace('"', "\"\"");
            let _ = writeln!(
                text,
                "\"{}\",\"{}\",\"{}\",\"{:.2}\",\"{}\",\"{}\"{times}",
                quoted(&run.workload),
                quoted(&command.name),
                command.requests,
                command.requests_per_s,
                command.misses,
                command.errors
            );
        }
    }
    text
}

/// A whole number with commas.
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if number <= -0.5 { format!("-{text}") } else { text }
}

/// Milliseconds to microseconds, as far as that says something.
pub fn digits(ms: f64) -> String {
    if ms < 100.0 { format!("{ms:.3}") } else { format!("{ms:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (number, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (1000.0, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-1234.0, "-1,234"),
            (-0.2, "0"),
        ] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!((digits(0.0456), digits(1234.56)), ("0.046".into(), "1234.6".into()));
    }
}
