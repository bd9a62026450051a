//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::policy::POLICIES;
use crate::trace::SHAPES;

/// Compares eviction policies: hit ratios of a cache at equal memory, by simulation.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Examples:
  dolmen-simulate                                         all policies, the four workloads of the measurement
  dolmen-simulate -w all -p lru,s3-fifo,smart --seeds 1,2,3
  dolmen-simulate -w scan,shift --mb 16,32,64,128 --plot ratios.svg --csv ratios.csv
  dolmen-simulate --trace requests.txt --mb 100           a line a request: KEY VALUE-BYTES"
)]
pub struct Cli {
    /// Workloads by name, or `all` (see --list)
    #[arg(short, long, value_delimiter = ',', default_value = "zipf0.9,zipf1.1,scan,shift", value_parser = workload)]
    pub workloads: Vec<String>,
    /// Policies by name, or `all` (see --list)
    #[arg(short, long, value_delimiter = ',', default_value = "all", value_parser = policy)]
    pub policies: Vec<String>,
    /// Memory of the cache in MiB; several give a curve
    #[arg(short, long, value_delimiter = ',', default_value = "64", value_parser = megabytes)]
    pub mb: Vec<f64>,
    /// Objects that are asked for
    #[arg(short = 'n', long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000_000))]
    pub objects: u32,
    /// Requests
    #[arg(short, long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(100..))]
    pub requests: u32,
    /// Seeds; ratios are the mean over all
    #[arg(short, long, value_delimiter = ',', default_value = "7")]
    pub seeds: Vec<u64>,
    /// Shards of the server that `smart` is simulated for: 16 a worker
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub shards: u32,
    /// Requests from a file, instead of a workload: a key and the bytes of its value a line, between them spaces or a comma
    #[arg(long, conflicts_with_all = ["workloads", "seeds", "objects", "requests"])]
    pub trace: Option<PathBuf>,
    /// Write each run to a file of comma-separated values
    #[arg(long)]
    pub csv: Option<PathBuf>,
    /// Draw a picture, .svg or .png
    #[arg(long)]
    pub plot: Option<PathBuf>,
    /// Runs at the same time [default: as many as there are processors]
    #[arg(short, long)]
    pub jobs: Option<usize>,
    /// Tell what an eviction takes, where a policy says so
    #[arg(short, long)]
    pub verbose: bool,
    /// List workloads and policies
    #[arg(short, long)]
    pub list: bool,
}

impl Cli {
    /// The names, with `all` written out.
    pub fn workloads(&self) -> Vec<String> {
        spelled(&self.workloads, SHAPES.iter().map(|(name, _)| *name))
    }

    pub fn policies(&self) -> Vec<String> {
        spelled(&self.policies, POLICIES.iter().map(|(name, _)| *name))
    }
}

fn spelled<'a>(names: &[String], all: impl Iterator<Item = &'a str>) -> Vec<String> {
    if names.iter().any(|name| name == "all") { all.map(str::to_string).collect() } else { names.to_vec() }
}

fn known<'a>(name: &str, mut all: impl Iterator<Item = &'a str>) -> Result<String, String> {
    if name == "all" || all.any(|other| other == name) {
        Ok(name.into())
    } else {
        Err("there is none (see --list)".into())
    }
}

fn workload(name: &str) -> Result<String, String> {
    known(name, SHAPES.iter().map(|(name, _)| *name))
}

fn policy(name: &str) -> Result<String, String> {
    known(name, POLICIES.iter().map(|(name, _)| *name))
}

fn megabytes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(mb) if (0.01..=1e6).contains(&mb) => Ok(mb),
        _ => Err("from 0.01 to 1000000".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parsed(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once(&"dolmen-simulate").chain(arguments))
    }

    #[test]
    fn arguments() {
        Cli::command().debug_assert();
        let cli = parsed(&[]).expect("defaults");
        assert_eq!((cli.workloads().len(), cli.policies().len(), cli.mb), (4, POLICIES.len(), vec![64.0]));
        let cli = parsed(&["-w", "all", "-p", "lru,smart", "--mb", "0.5,32"]).expect("names");
        assert_eq!(
            (cli.workloads().len(), cli.policies(), cli.mb),
            (SHAPES.len(), vec!["lru".into(), "smart".into()], vec![0.5, 32.0])
        );
        for wrong in [["-w", "zipf"], ["-p", "arc"], ["--mb", "0"], ["--mb", "x"], ["-n", "0"], ["--shards", "0"]] {
            assert!(parsed(&wrong).is_err(), "{wrong:?}");
        }
        assert!(parsed(&["--trace", "x", "--seeds", "1"]).is_err());
    }
}
