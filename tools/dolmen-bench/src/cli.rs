//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::keys::Pick;
use crate::values::Sizes;
use crate::wire::Protocol;
use crate::workload::Records;

/// Puts load on a server that speaks RESP (Redis, Valkey, Dolmen) or memcached text, and measures what it takes.
#[derive(Parser, Debug)]
#[command(version, args_conflicts_with_subcommands = true, disable_help_flag = true, disable_help_subcommand = true)]
#[command(after_help = "Examples:
  dolmen-bench -t set,get -P 16 -r 1000000          like redis-benchmark, with percentiles by command
  dolmen-bench --ratio 10:1 --keys-by zipf -d lognormal:200,1 --fill --duration 30s
  dolmen-bench -t ycsb-a --fill --rate 50000        open loop: latency from when a request was due
  dolmen-bench --ratio 4:4:1:1 --verify --fill      every value that is read is checked
  dolmen-bench --command '3*GET {key}' --command 'SET {key} {value}'
  dolmen-bench compare 'dolmen=dolmen --port {port}' 'redis=redis-server --port {port}'")]
pub struct Cli {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help, global = true)]
    help: Option<bool>,
    #[command(subcommand)]
    pub command: Option<Task>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Subcommand, Debug)]
pub enum Task {
    /// Put load on a server (what happens without a subcommand)
    Run(Box<RunArgs>),
    /// Start servers, put the same load on each in random order, compare CPU, latency, memory
    Compare(CompareArgs),
    /// Start servers, and measure how long a small client waits while they do something big
    Stalls(StallsArgs),
    /// Start servers, fill them, and measure resident bytes a key
    Memory(MemoryArgs),
    /// Be the floor: a server that parses requests and answers constants
    Null(NullArgs),
    /// List the workloads that have a name
    List,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ProtocolName {
    Resp2,
    Resp3,
    Memcached,
}

impl From<ProtocolName> for Protocol {
    fn from(name: ProtocolName) -> Protocol {
        match name {
            ProtocolName::Resp2 => Protocol::Resp2,
            ProtocolName::Resp3 => Protocol::Resp3,
            ProtocolName::Memcached => Protocol::Memcached,
        }
    }
}

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Server")]
pub struct AccessArgs {
    /// Host name or address
    #[arg(short = 'h', long, default_value = "127.0.0.1")]
    pub host: String,
    /// Port [default: 6379, of memcached 11211]
    #[arg(short, long)]
    pub port: Option<u16>,
    /// Path of a Unix socket, instead of host and port
    #[arg(short, long)]
    pub socket: Option<PathBuf>,
    #[arg(long, value_enum, default_value = "resp2")]
    pub protocol: ProtocolName,
    /// Short for --protocol resp3
    #[arg(short = '3', hide = true)]
    pub resp3: bool,
    /// Name of the user
    #[arg(long, requires = "password")]
    pub user: Option<String>,
    /// Password (the variable DOLMEN_BENCH_PASSWORD is not seen by other users)
    #[arg(short = 'a', long)]
    pub password: Option<String>,
    /// Database to SELECT
    #[arg(long = "db", alias = "dbnum", default_value_t = 0)]
    pub database: u32,
    /// Give up when nothing is answered for so long
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub timeout: Duration,
}

#[derive(Args, Debug, Clone)]
pub struct RunArgs {
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub what: WhatArgs,
    #[command(flatten)]
    pub how: HowArgs,
    #[command(flatten)]
    pub out: OutArgs,
}

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Requests")]
pub struct WhatArgs {
    /// Workloads by name, one after the other (see `list`) [default: set,get]
    #[arg(short, long = "tests", alias = "workload", value_delimiter = ',', conflicts_with_all = ["ratio", "command"])]
    pub tests: Vec<String>,
    /// A mix by weight: get:set:del:incr
    #[arg(long, conflicts_with = "command")]
    pub ratio: Option<String>,
    /// A command of your own, WEIGHT*COMMAND or COMMAND, with holes {key} {value} {number} {rand:A-B} {ttl}; may be repeated
    #[arg(long)]
    pub command: Vec<String>,
    /// How many keys there are
    #[arg(short = 'r', long, default_value = "100000", value_parser = count)]
    pub keys: u64,
    /// uniform, zipf[:EXPONENT], hotspot[:KEYS,REQUESTS], sequential, latest[:EXPONENT], file:PATH (a key a line)
    #[arg(long, alias = "key-distribution")]
    pub keys_by: Option<Pick>,
    /// What keys begin with
    #[arg(long, default_value = "key:")]
    pub key_prefix: String,
    /// Bytes of a key, with its prefix
    #[arg(long, default_value_t = 16)]
    pub key_bytes: usize,
    /// Bytes of a value: 100, 4k, 10-1000, lognormal:MEDIAN,SIGMA[,MAX] [default: the workload's, mostly 3]
    #[arg(short = 'd', long = "value-bytes", alias = "data-size")]
    pub sizes: Option<Sizes>,
    /// Seconds that keys of SET live: 60, 10-3600
    #[arg(long, value_parser = range)]
    pub ttl: Option<(u64, u64)>,
    /// How YCSB's records are stored
    #[arg(long, value_enum, default_value = "hash")]
    pub records: Records,
    /// Connections that listen (pubsub)
    #[arg(long, default_value_t = 50)]
    pub subscribers: usize,
    /// Channels that they share (pubsub)
    #[arg(long, default_value_t = 1)]
    pub channels: u64,
    /// Before, write what the workload reads: every key once
    #[arg(long)]
    pub fill: bool,
    /// Check every value that is read against what was written (get, set, del, incr)
    #[arg(long)]
    pub verify: bool,
    /// With --verify: keys may vanish, as the server evicts
    #[arg(long, requires = "verify")]
    pub allow_misses: bool,
    /// Of the random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Load")]
pub struct HowArgs {
    /// Connections
    #[arg(short = 'c', long, alias = "clients", default_value_t = 50)]
    pub connections: usize,
    /// Threads
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// CPUs that the threads are pinned to: 1,3 or 2-5
    #[arg(long, value_parser = cpus)]
    pub cpus: Option<Cpus>,
    /// Requests sent at once on a connection; with --rate, most that are in flight on one
    #[arg(short = 'P', long, default_value_t = 1)]
    pub pipeline: usize,
    /// Number of requests [default: 100000, unless there is a duration]
    #[arg(short = 'n', long, value_parser = count)]
    pub requests: Option<u64>,
    /// Or how long: 30s, 2m
    #[arg(long, value_parser = duration)]
    pub duration: Option<Duration>,
    /// How long before the measurement begins
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub warmup: Duration,
    /// Open loop: so many requests a second, whatever the server does
    #[arg(long, value_parser = rate)]
    pub rate: Option<f64>,
    /// Requests of the open loop are due at random (a Poisson process) instead of evenly
    #[arg(long, requires = "rate")]
    pub poisson: bool,
    /// Of the figures over time
    #[arg(long, default_value = "250ms", value_parser = duration)]
    pub interval: Duration,
}

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Results")]
pub struct OutArgs {
    /// Only a line a workload
    #[arg(short, long)]
    pub quiet: bool,
    /// As JSON, to a file or (-) standard output
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<String>,
    /// As CSV, likewise
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub csv: Option<String>,
    /// Latency by percentile, throughput and p99 over time: .svg or .png
    #[arg(long)]
    pub plot: Option<PathBuf>,
    /// No progress bar
    #[arg(long)]
    pub no_progress: bool,
}

#[derive(Args, Debug, Clone)]
pub struct ServersArgs {
    /// NAME=COMMAND with {port} (and {dir}, an empty folder); NAME alone for redis-server, memcached, floor.
    /// Without any: floor, and redis-server if it is installed
    pub servers: Vec<String>,
    /// CPUs of the servers
    #[arg(long, default_value = "0", value_parser = cpus)]
    pub server_cpus: Cpus,
    /// CPUs of the client
    #[arg(long, default_value = "1", value_parser = cpus)]
    pub client_cpus: Cpus,
    /// Write what is printed to this file
    #[arg(long)]
    pub record: Option<PathBuf>,
    /// As JSON, to a file or (-) standard output
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<String>,
    /// A picture: .svg or .png
    #[arg(long)]
    pub plot: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct CompareArgs {
    #[command(flatten)]
    pub servers: ServersArgs,
    /// Rows to run: names of presets (see --presets)
    #[arg(long, value_delimiter = ',', default_value = "set_p1,get_p1,set_p16,get_p16,set_p100,get_p100")]
    pub rows: Vec<String>,
    /// A row of your own: NAME=OPTIONS, as for `run`; may be repeated, and replaces --rows
    #[arg(long)]
    pub row: Vec<String>,
    /// List the presets
    #[arg(long)]
    pub presets: bool,
    /// Rounds; 15 for a claim
    #[arg(long, default_value_t = 9)]
    pub rounds: usize,
    /// Times the number of requests of the presets
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
}

#[derive(Args, Debug)]
pub struct StallsArgs {
    #[command(flatten)]
    pub servers: ServersArgs,
    /// Rows to run
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "idle,grow,keys,expire,del_set,del_zset,smembers,bgsave,bgsave_writes,flushall"
    )]
    pub rows: Vec<String>,
    #[arg(long, default_value = "3000000", value_parser = count)]
    pub keys: u64,
    /// Of the set and the sorted set
    #[arg(long, default_value = "1000000", value_parser = count)]
    pub members: u64,
}

#[derive(Args, Debug)]
pub struct MemoryArgs {
    #[command(flatten)]
    pub servers: ServersArgs,
    /// KEY+VALUE bytes, with +ttl or without; or `idle` (connections)
    #[arg(long, value_delimiter = ',', default_value = "idle,16+8,16+32,16+32+ttl,16+200,16+1000,16+5000")]
    pub rows: Vec<String>,
    /// Numbers of keys at which memory is read; the worst counts (fewer where values are large)
    #[arg(long, value_delimiter = ',', default_value = "2000000,2500000,3000000,3500000,4000000", value_parser = count)]
    pub keys: Vec<u64>,
    /// Of the row `idle`
    #[arg(long, default_value_t = 10000)]
    pub connections: usize,
    /// Seconds that a server has to settle before memory is read
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub settle: Duration,
}

#[derive(Args, Debug)]
pub struct NullArgs {
    #[arg(short, long, default_value_t = 6379)]
    pub port: u16,
    /// Bytes of the value that GET answers
    #[arg(short = 'd', long, default_value_t = 3)]
    pub value_bytes: usize,
}

/// CPUs by number.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpus(pub Vec<usize>);

fn cpus(text: &str) -> Result<Cpus, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|cpu| *cpu < 4096);
        let (low, high) = number(low).zip(number(high)).ok_or("CPUs are numbers and ranges: 1,3 or 2-5")?;
        cpus.extend(low..=high);
    }
    if cpus.is_empty() { Err("no CPU".into()) } else { Ok(Cpus(cpus)) }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a duration is 500ms, 10s, 2m".into()),
    };
    let number = digits.parse::<f64>().ok().filter(|number| (0.0..1e9).contains(number));
    number.map(|number| Duration::from_secs_f64(number * unit)).ok_or("a duration is 500ms, 10s, 2m".into())
}

fn count(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        _ => return Err("a number, as 100000, 100k, 2.5M".into()),
    };
    let number = digits.replace('_', "").parse::<f64>().ok().filter(|number| (1.0..=1e15).contains(&(number * unit)));
    number.map(|number| (number * unit).round() as u64).ok_or("a number from 1 on, as 100000, 100k, 2.5M".into())
}

fn rate(text: &str) -> Result<f64, String> {
    count(text).map(|rate| rate as f64)
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok().filter(|n| (1..=1_000_000_000).contains(n));
    number(low).zip(number(high)).filter(|(low, high)| low <= high).ok_or("seconds, as 60 or 10-3600".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_redis_benchmark_mean_the_same() {
        let line = "dolmen-bench -h ::1 -p 7000 -a secret --user me -c 10 -n 5000 -d 8 --dbnum 2 --threads 2 -P 16 -r 1000 -t set,lpush -q --csv";
        let cli = Cli::try_parse_from(line.split(' ')).expect("good");
        let run = cli.run;
        assert_eq!((run.access.host.as_str(), run.access.port, run.access.database), ("::1", Some(7000), 2));
        assert_eq!((run.how.connections, run.how.requests, run.how.pipeline), (10, Some(5000), 16));
        assert_eq!((run.what.keys, run.what.sizes), (1000, Some(Sizes::Fixed(8))));
        assert_eq!(run.what.tests, ["set", "lpush"]);
        assert!(run.out.quiet && run.out.csv.as_deref() == Some("-"));
    }

    #[test]
    fn numbers_and_units() {
        assert_eq!(count("2.5M"), Ok(2_500_000));
        assert_eq!(count("100_000"), Ok(100_000));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(cpus("1,3-5"), Ok(Cpus(vec![1, 3, 4, 5])));
        assert_eq!(range("60"), Ok((60, 60)));
        for wrong in ["", "0", "x", "-5", "5q"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert!(cpus("5-2").is_err() && cpus("a").is_err() && duration("5 parsecs").is_err() && range("9-1").is_err());
    }
}
