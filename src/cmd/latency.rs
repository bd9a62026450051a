//! LATENCY: what has taken long, and when (the monitor), and how long the calls of each command took (the histograms of `super::profile`).

use super::ctx::{Args, Ctx, Outcome};
use super::fleet::{Local, everywhere};
use super::profile::Report;
use super::spec::Command;
use crate::proto::errors;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

/// Samples of an event that are kept.
const SAMPLES_MAX: usize = 160;
/// Columns of a graph.
const COLUMNS: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sample {
    at_s: u64,
    ms: u64,
}

#[derive(Clone, Default, Debug)]
struct Event {
    /// The latest last.
    samples: VecDeque<Sample>,
    max_ms: u64,
}

/// What has taken as long as `latency-monitor-threshold` or longer, on any worker.
#[derive(Default, Debug)]
pub struct Monitor {
    events: BTreeMap<&'static str, Event>,
}

impl Monitor {
    /// One sample a second is kept: the longest.
    fn add(&mut self, event: &'static str, sample: Sample) {
        let event = self.events.entry(event).or_default();
        event.max_ms = event.max_ms.max(sample.ms);
        match event.samples.back_mut() {
            Some(last) if last.at_s == sample.at_s => last.ms = last.ms.max(sample.ms),
            _ => event.samples.push_back(sample),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    fn find(&self, name: &[u8]) -> Option<(&'static str, &Event)> {
        let found = self.events.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(name, event)| (*name, event))
    }
}

/// Something took so long; kept if it is long enough.
pub fn note(ctx: &Ctx<'_>, event: &'static str, time: Duration) {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if ctx.config.latency_monitor_ms > 0 && ms >= ctx.config.latency_monitor_ms {
        ctx.fleet.journal().latency().add(event, Sample { at_s: ctx.db.now_ms() / 1000, ms });
    }
}

/// `LATENCY LATEST`
pub fn latest(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let monitor = ctx.fleet.journal().latency();
    ctx.reply.array(monitor.events.len());
    for (name, event) in &monitor.events {
        let last = event.samples.back().copied().unwrap_or(Sample { at_s: 0, ms: 0 });
        ctx.reply.array(4);
        ctx.reply.bulk(name.as_bytes());
        for number in [last.at_s, last.ms, event.max_ms] {
            ctx.reply.int(number.cast_signed());
        }
    }
    Outcome::Done
}

/// `LATENCY HISTORY event`
pub fn history(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let monitor = ctx.fleet.journal().latency();
    let samples = monitor.find(args[2]).map_or(Vec::new(), |(_, event)| event.samples.iter().copied().collect());
    ctx.reply.array(samples.len());
    for Sample { at_s, ms } in samples {
        ctx.reply.array(2);
        ctx.reply.int(at_s.cast_signed());
        ctx.reply.int(ms.cast_signed());
    }
    Outcome::Done
}

/// `LATENCY RESET [event ...]`
pub fn reset(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let mut monitor = ctx.fleet.journal().latency();
    let before = monitor.events.len();
    if args.len() == 2 {
        monitor.events.clear();
    } else {
        monitor.events.retain(|known, _| !args[2..].iter().any(|name| known.as_bytes().eq_ignore_ascii_case(name)));
    }
    ctx.reply.count(before - monitor.events.len());
    Outcome::Done
}

/// `LATENCY GRAPH event`
pub fn graph(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let drawn = {
        let monitor = ctx.fleet.journal().latency();
        monitor.find(args[2]).map(|(name, event)| draw(name, event, ctx.db.now_ms() / 1000))
    };
    match drawn {
        Some(text) => {
            ctx.reply.verbatim(b"txt", text.as_bytes());
            Outcome::Done
        }
        None => ctx.fail(errors::latency_no_samples(args[2])),
    }
}

/// A column for each sample, the latest on the right, and below each how long ago it was, read downwards.
fn draw(name: &str, event: &Event, now_s: u64) -> String {
    const LINES: u64 = 4;
    const LEVELS: [char; 3] = ['_', 'o', '#'];
    let samples: Vec<Sample> =
        event.samples.iter().copied().skip(event.samples.len().saturating_sub(COLUMNS)).collect();
    let (low, high) =
        samples.iter().fold((u64::MAX, 0), |(low, high), sample| (low.min(sample.ms), high.max(sample.ms)));
    let mut text = format!("{name} - high {high} ms, low {low} ms (all time high {} ms)\n", event.max_ms);
    text.push_str(&"-".repeat(COLUMNS));
    text.push('\n');
    let steps = LINES * LEVELS.len() as u64;
    let height = |sample: &Sample| {
        let above = sample.ms - low;
        above * (steps - 1) / (high - low).max(1)
    };
    for line in (0..LINES).rev() {
        let cell = |sample: &Sample| match height(sample).checked_sub(line * LEVELS.len() as u64) {
            None => ' ',
            Some(level) => usize::try_from(level).ok().and_then(|level| LEVELS.get(level)).copied().unwrap_or('|'),
        };
        let cells: String = samples.iter().map(cell).collect();
        text.push_str(cells.trim_end());
        text.push('\n');
    }
    text.push('\n');
    let labels: Vec<Vec<char>> =
        samples.iter().map(|sample| ago(now_s.saturating_sub(sample.at_s)).chars().collect()).collect();
    for line in 0..labels.iter().map(Vec::len).max().unwrap_or(0) {
        let cells: String = labels.iter().map(|label| label.get(line).copied().unwrap_or(' ')).collect();
        text.push_str(cells.trim_end());
        text.push('\n');
    }
    text
}

fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `LATENCY DOCTOR`
pub fn doctor(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let text = {
        let monitor = ctx.fleet.journal().latency();
        diagnose(&monitor, ctx.config.latency_monitor_ms, ctx.config.slowlog_slower_us)
    };
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Outcome::Done
}

fn diagnose(monitor: &Monitor, threshold_ms: u64, slower_us: i64) -> String {
    if threshold_ms == 0 {
        return "Latency monitoring is disabled. \"CONFIG SET latency-monitor-threshold <milliseconds>\" enables it: then what takes that long or \
                longer is noted.\n"
            .into();
    }
    if monitor.events.is_empty() {
        return format!(
            "Nothing has taken {threshold_ms} ms or longer since this was last asked to be forgotten (LATENCY RESET).\n"
        );
    }
    let mut text = format!("What has taken {threshold_ms} ms or longer:\n\n");
    for (n, (name, event)) in (1..).zip(&monitor.events) {
        let count = event.samples.len() as u64;
        let average = event.samples.iter().map(|sample| sample.ms).sum::<u64>() / count.max(1);
        let _ = writeln!(
            text,
            "{n}. {name}: in {count} seconds of those looked at, {average} ms on average, {} ms at most.",
            event.max_ms
        );
    }
    text.push_str("\nWhat may help:\n\n");
    let limit_us = threshold_ms.saturating_mul(1000);
    if u64::try_from(slower_us).is_ok_and(|slower| slower <= limit_us) {
        text.push_str("- SLOWLOG GET tells which commands were slow.\n");
    } else {
        let _ = writeln!(
            text,
            "- \"CONFIG SET slowlog-log-slower-than {limit_us}\" has the slow log keep the commands that this is about."
        );
    }
    text.push_str(
        "- Commands that touch very much (KEYS, SORT, large ranges) run in slices, so others do not wait for them; their own clients do.\n\
         - What is fast by itself and took long has waited for the machine: other processes on its processors, swapping, a hypervisor.\n",
    );
    text
}

/// `LATENCY HISTOGRAM [command ...]`
pub fn histogram(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let names: Vec<Vec<u8>> = args[2..].iter().map(|name| name.to_vec()).collect();
    everywhere(
        ctx,
        |local: &mut Local<'_>| local.profile.report(),
        move |ctx, reports| {
            let (report, ns) = (Report::sum(reports), ctx.profile.ticker.ns_per_tick());
            let rows: Vec<&Command<_>> = if names.is_empty() {
                ctx.commands.all().collect()
            } else {
                let found = names.iter().filter_map(|name| ctx.commands.find_full(name));
                found.flat_map(|row| std::iter::once(row).chain(row.subcommands)).collect()
            };
            let told: Vec<_> = rows.iter().filter_map(|row| Some((row.name, report.of(row)?.spread(ns)?))).collect();
            ctx.reply.map(told.len());
            for (name, spread) in told {
                ctx.reply.bulk(name.as_bytes());
                ctx.reply.map(2);
                ctx.reply.bulk(b"calls");
                ctx.reply.int(spread.calls.cast_signed());
                ctx.reply.bulk(b"histogram_usec");
                let powers = spread.powers();
                ctx.reply.map(powers.len());
                for (bound_ns, calls) in powers {
                    ctx.reply.int((bound_ns / 1000).cast_signed());
                    ctx.reply.int(calls.cast_signed());
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor(samples: &[(u64, u64)]) -> Monitor {
        let mut monitor = Monitor::default();
        samples.iter().for_each(|&(at_s, ms)| monitor.add("command", Sample { at_s, ms }));
        monitor
    }

    #[test]
    fn a_second_has_one_sample() {
        let monitor = monitor(&[(1, 5), (1, 9), (1, 7), (2, 3)]);
        let (name, event) = monitor.find(b"COMMAND").expect("the event");
        assert_eq!((name, event.max_ms), ("command", 9));
        assert_eq!(event.samples, [Sample { at_s: 1, ms: 9 }, Sample { at_s: 2, ms: 3 }]);
        let many = (0..1000).map(|at_s| (at_s, 1)).collect::<Vec<_>>();
        assert_eq!(super::tests::monitor(&many).find(b"command").expect("the event").1.samples.len(), SAMPLES_MAX);
    }

    #[test]
    fn graphs() {
        let monitor = monitor(&[(10, 100), (20, 300), (100, 500)]);
        let (name, event) = monitor.find(b"command").expect("the event");
        let text = draw(name, event, 130);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command - high 500 ms, low 100 ms (all time high 500 ms)");
        assert_eq!(lines[1], "-".repeat(80));
        assert_eq!(&lines[2..6], ["  #", "  |", " #|", "_||"]);
        assert_eq!(&lines[6..], ["", "213", "mm0", "  s"]);
    }

    #[test]
    fn the_doctor_says_what_there_is() {
        let none = Monitor::default();
        assert!(diagnose(&none, 0, 0).contains("disabled"));
        assert!(diagnose(&none, 50, 0).contains("Nothing has taken 50 ms"));
        let some = monitor(&[(1, 60), (2, 80)]);
        let text = diagnose(&some, 50, 10_000);
        assert!(
            text.contains("1. command: in 2 seconds of those looked at, 70 ms on average, 80 ms at most."),
            "{text}"
        );
        assert!(text.contains("SLOWLOG GET"), "{text}");
        assert!(diagnose(&some, 5, 10_000).contains("slowlog-log-slower-than 5000"));
    }
}
