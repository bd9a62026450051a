//! dolmen-simulate: which eviction policy, by simulation. The server's own, `allkeys-smart`, is the same code as in the server.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures go from counts to fractions and back everywhere here, and are far below where that loses anything"
)]

mod cli;
mod plot;
mod policy;
mod report;
mod run;
mod trace;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;

use cli::Cli;
use report::Outcome;
use trace::Trace;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.list {
        list();
        return ExitCode::SUCCESS;
    }
    match simulated(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dolmen-simulate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    for (title, rows) in [("Workloads", &trace::SHAPES[..]), ("Policies", &policy::POLICIES[..])] {
        println!("{title}:");
        for (name, what) in rows {
            println!("  {name:16} {what}");
        }
    }
}

fn simulated(cli: &Cli) -> Result<(), String> {
    let mut outcomes = Vec::new();
    if let Some(path) = &cli.trace {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let trace = trace::read(&path.display().to_string(), &text)?;
        outcomes.extend(of_trace(cli, &trace, 0));
    } else {
        for workload in cli.workloads() {
            for &seed in &cli.seeds {
                let trace = trace::make(&workload, cli.objects, cli.requests, seed)
                    .ok_or_else(|| format!("there is no workload {workload}"))?;
                outcomes.extend(of_trace(cli, &trace, seed));
            }
        }
    }
    print!("{}", report::table(&outcomes));
    if cli.verbose {
        for outcome in outcomes.iter().filter(|outcome| !outcome.note.is_empty()) {
            println!("{} on {}, {} MiB: {}", outcome.policy, outcome.workload, outcome.mb, outcome.note);
        }
    }
    if let Some(path) = &cli.csv {
        std::fs::write(path, report::csv(&outcomes)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &cli.plot {
        plot::draw(path, &outcomes)?;
    }
    Ok(())
}

/// All policies at all sizes on a trace, on several threads.
fn of_trace(cli: &Cli, trace: &Trace, seed: u64) -> Vec<Outcome> {
    let policies = cli.policies();
    let runs: Vec<(f64, &String)> =
        cli.mb.iter().flat_map(|&mb| policies.iter().map(move |policy| (mb, policy))).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let jobs = cli.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, runs.len().max(1)) {
            scope.spawn(|| {
                while let Some((at, (mb, policy))) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    runs.get(at).map(|run| (at, run))
                } {
                    let capacity = (mb * f64::from(1 << 20)) as u64;
                    let Some(mut made) = policy::make(policy, trace, capacity, cli.shards) else { continue };
                    let hit_percent = run::hit_percent(trace, made.as_mut(), capacity);
                    let outcome = Outcome {
                        workload: trace.name.clone(),
                        mb: *mb,
                        policy: policy.to_string(),
                        seed,
                        hit_percent,
                        note: made.note(),
                    };
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}
