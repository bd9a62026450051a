//! `dolmen-bench`: a load generator for servers that speak RESP or memcached text, and comparisons of servers made with it.
//!
//! It shares nothing with the server but the protocol: it speaks bytes over sockets of its own.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "figures go from counts to fractions and back everywhere here, and are far below where that loses anything"
)]

#[allow(rustdoc::broken_intra_doc_links, reason = "brackets in help texts mean what may be left out")]
mod cli;
mod client;
mod compare;
mod interrupt;
mod keys;
mod load;
mod machine;
mod memory;
mod notes;
mod null;
mod plot;
mod record;
mod report;
mod run;
mod server;
mod stalls;
mod values;
mod verify;
mod wire;
mod workload;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, RunArgs, Task};
use interrupt::Interrupt;
use report::Document;
use run::{Bar, Plan, write_to};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let interrupt = Interrupt::install();
    let done = match cli.command {
        None => run_all(&cli.run, &interrupt),
        Some(Task::Run(args)) => run_all(&args, &interrupt),
        Some(Task::List) => {
            for (name, about) in workload::NAMED {
                println!("{name:<14}{about}");
            }
            Ok(ExitCode::SUCCESS)
        }
        Some(Task::Compare(args)) => compare::compare(&args, &interrupt).map(|()| ExitCode::SUCCESS),
        Some(Task::Memory(args)) => memory::memory(&args, &interrupt).map(|()| ExitCode::SUCCESS),
        Some(Task::Stalls(args)) => stalls::stalls(&args, &interrupt).map(|()| ExitCode::SUCCESS),
        Some(Task::Null(args)) => null::serve(args.port, args.value_bytes, &interrupt).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("dolmen-bench: {error}");
        ExitCode::FAILURE
    })
}

fn run_all(args: &RunArgs, interrupt: &Interrupt) -> Result<ExitCode, String> {
    let plan = Plan::new(args)?;
    let to_stdout = [&args.out.json, &args.out.csv].into_iter().any(|place| place.as_deref() == Some("-"));
    let bar = Bar::new(!args.out.no_progress && std::io::stderr().is_terminal());
    let mut document = Document { tool: tool(), machine: machine::Machine::read(), runs: Vec::new() };
    let mut failure = None;
    for workload in &plan.workloads {
        match plan.run(workload, interrupt, &bar) {
            Ok(report) => {
                if !to_stdout {
                    println!("{}", if args.out.quiet { report.line() } else { report.table() });
                }
                let over = report.partial.is_some();
                document.runs.push(report);
                if over {
                    break;
                }
            }
            // What was measured before is still worth having.
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    if let Some(place) = &args.out.json {
        let json = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?;
        write_to(place, &(json + "\n"))?;
    }
    if let Some(place) = &args.out.csv {
        write_to(place, &report::csv(&document.runs))?;
    }
    if let Some(path) = args.out.plot.as_deref().filter(|_| !document.runs.is_empty()) {
        plot::runs(path, &document.runs)?;
    }
    match failure {
        Some(error) => Err(error),
        None if document.runs.iter().any(|run| run.interrupted) => Ok(ExitCode::from(130)),
        None if document.runs.iter().all(report::Report::good) => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::FAILURE),
    }
}

fn tool() -> String {
    format!("dolmen-bench {}", env!("CARGO_PKG_VERSION"))
}
