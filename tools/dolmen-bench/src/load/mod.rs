//! A run: threads that put load on a server, and the one that starts them, collects what they measure, and ends them.
//!
//! Closed loop: each connection sends a pipeline, waits for all its replies, sends the next. Open loop (`rate`): requests are due at times that
//! do not depend on the server, and latency counts from then, so a server that stands still is charged for all that it keeps waiting.

pub mod connection;
pub mod replies;
pub mod schedule;
pub mod thread;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::client::{Access, Failure};
use crate::interrupt::Interrupt;
use crate::keys::{Pick, Space, Trace};
use crate::record::{Point, Slice, Tally};
use crate::values::{Sizes, Values};
use crate::verify::{Ledger, Role};
use crate::wire::template::{Command, Draws, Names, Template};
use crate::workload::{Op, Then, Workload};

use thread::Load;

/// Everything about a run but the workload.
#[derive(Clone, Debug)]
pub struct Settings {
    pub access: Access,
    pub connections: usize,
    pub threads: usize,
    /// Thread i runs on the i-th of these, in turns.
    pub cpus: Vec<usize>,
    pub pipeline: usize,
    /// Ends after so many, or so long.
    pub requests: Option<u64>,
    pub duration: Option<Duration>,
    pub warmup: Duration,
    /// Requests a second, for the open loop.
    pub rate: Option<f64>,
    pub poisson: bool,
    pub interval: Duration,
    pub seed: u64,
    pub keys: u64,
    pub key_prefix: String,
    pub key_digits: usize,
    pub pick: Pick,
    pub trace: Option<Trace>,
    pub sizes: Sizes,
    pub ttl: Option<(u64, u64)>,
    pub subscribers: usize,
    pub channels: u64,
    /// Every key is written once, in turn.
    pub filling: bool,
    /// Requests sent at once while filling.
    pub fill_pipeline: usize,
}

/// An op as threads use it.
#[derive(Clone, Debug)]
pub struct Kind {
    pub template: Template,
    pub role: Role,
    pub then: Option<Then>,
}

/// What all threads see.
pub struct Shared {
    pub settings: Settings,
    pub kinds: Vec<Kind>,
    /// Upper bounds of the shares of 2^32 that each kind gets; one that only follows gets none.
    pub shares: Vec<u64>,
    pub space: Space,
    pub names: Arc<Names>,
    pub ledger: Option<Arc<Ledger>>,
    /// Subscribed connections in all, each to one channel.
    pub subscribers: usize,
    pub stop: AtomicBool,
    /// Requests that nobody has claimed yet.
    pub budget: AtomicI64,
    /// Messages that servers said they sent, and those that came.
    pub deliveries_expected: AtomicU64,
    pub deliveries: AtomicU64,
    /// Threads that still publish, or wait to be told how many got it.
    pub publishing: AtomicUsize,
    pub origin: Instant,
    /// When the load begins, in nanoseconds since `origin`.
    pub start_ns: AtomicU64,
    pub go: Barrier,
}

impl Shared {
    pub fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}

/// What threads tell.
pub enum Told {
    Connected(Result<(), Failure>),
    Slice(Box<Slice>),
    Ended(Ended),
}

/// How a thread ended.
#[derive(Debug, Default)]
pub struct Ended {
    pub thread: usize,
    /// When its last reply came, since the measurement began.
    pub last_ns: u64,
    pub cpu_ns: u64,
    /// Connections that were lost, and why the first one was.
    pub lost: usize,
    pub why: Option<String>,
    pub unanswered: u64,
    /// Open loop: what was due before the end and could not be sent.
    pub unsent: u64,
    /// Texts of errors, how often each.
    pub errors: BTreeMap<String, u64>,
}

/// One interval of a run.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Its end.
    pub at_s: f64,
    pub all: Point,
    pub ops: Vec<Point>,
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    /// Name and counts of each kind of request, and of messages delivered.
    pub ops: Vec<(String, Tally)>,
    pub all: Tally,
    pub moments: Vec<Moment>,
    pub elapsed_s: f64,
    /// Why there is less than was asked for.
    pub partial: Option<String>,
    pub interrupted: bool,
    pub cpu_ns: u64,
    pub lost: usize,
    pub unanswered: u64,
    pub unsent: u64,
    pub errors: BTreeMap<String, u64>,
    /// Messages that the server said it sent, and those that came.
    pub deliveries: Option<(u64, u64)>,
}

/// What the caller is told while it goes on.
pub struct Progress<'a> {
    pub warming: bool,
    /// Since the load began.
    pub elapsed: Duration,
    pub done: u64,
    pub last: &'a Point,
    pub interval: Duration,
}

/// The name of the pseudo command that counts messages.
pub const DELIVER: &str = "deliver";

fn names(settings: &Settings, verified: bool) -> Names {
    // Values of one size are all the same, unless they have to tell keys apart.
    let constant = match settings.sizes {
        Sizes::Fixed(size) if !verified => {
            let mut bytes = vec![0; size];
            crate::values::fill(&mut bytes, settings.seed);
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => None,
    };
    Names {
        prefix: settings.key_prefix.clone(),
        digits: settings.key_digits,
        ttl: settings.ttl,
        trace: settings.trace.clone(),
        constant,
    }
}

/// Runs the requests of the fill, once for each key in turn.
pub fn fill(
    settings: &Settings,
    workload: &Workload,
    ledger: Option<&Arc<Ledger>>,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, Failure> {
    let repeats = workload.fill_count.unwrap_or(settings.trace.as_ref().map_or(settings.keys, |t| t.len() as u64));
    let last = workload.fill.len().saturating_sub(1);
    let ops = workload.fill.iter().enumerate().map(|(at, command)| Op {
        name: "fill".into(),
        weight: if at == 0 { 1.0 } else { 0.0 },
        command: command.clone(),
        // Verified are the values of strings, which come first.
        role: if at == 0 && writes_string(command) { Role::Write } else { Role::Other },
        then: (at < last).then_some(Then::Once(at + 1)),
    });
    let filling = Workload { ops: ops.collect(), subscribes: false, ..workload.clone() };
    let settings = Settings {
        filling: true,
        requests: Some(repeats * workload.fill.len() as u64),
        duration: None,
        warmup: Duration::ZERO,
        rate: None,
        pipeline: settings.fill_pipeline,
        pick: if settings.trace.is_some() { settings.pick.clone() } else { Pick::Sequential },
        keys: if workload.fill_count.is_some() { repeats } else { settings.keys },
        ..settings.clone()
    };
    run(&settings, &filling, ledger, interrupt, progress)
}

fn writes_string(command: &Command) -> bool {
    match command {
        Command::Arguments(arguments) => arguments.len() >= 3 && arguments[0] == "SET" && arguments[1] == "{key}",
        Command::Text(_, text) => text.starts_with("set {key} "),
    }
}

/// Puts the load of a workload on a server until the end that the settings say, an interrupt, or the end of the server.
pub fn run(
    settings: &Settings,
    workload: &Workload,
    ledger: Option<&Arc<Ledger>>,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, Failure> {
    let names = Arc::new(names(settings, ledger.is_some()));
    let refused = |said| Failure::Refused { request: workload.name.clone(), said };
    let kind = |op: &Op| {
        let template = Template::new(settings.access.protocol, &op.command, &names)?;
        let role = if ledger.is_some() { op.role } else { Role::Other };
        Ok(Kind { template, role, then: op.then })
    };
    let kinds = workload.ops.iter().map(kind).collect::<Result<Vec<Kind>, String>>().map_err(refused)?;
    let sum: f64 = workload.ops.iter().map(|op| op.weight).sum();
    let shares = workload.ops.iter().scan(0.0, |so_far, op| {
        *so_far += op.weight / sum;
        Some((*so_far * 4_294_967_296.0).round() as u64)
    });
    let threads = settings.threads.min(settings.connections).max(1);
    let subscribers = if workload.subscribes { settings.subscribers } else { 0 };
    let shared = Arc::new(Shared {
        settings: Settings { threads, ..settings.clone() },
        shares: shares.collect(),
        kinds,
        space: Space {
            pick: settings.pick.clone(),
            count: Arc::new(AtomicU64::new(settings.keys)),
            trace: settings.trace.clone(),
        },
        names,
        ledger: ledger.cloned(),
        subscribers,
        stop: AtomicBool::new(false),
        budget: AtomicI64::new(settings.requests.map_or(i64::MAX, |requests| requests as i64)),
        deliveries_expected: AtomicU64::new(0),
        deliveries: AtomicU64::new(0),
        publishing: AtomicUsize::new(threads),
        origin: Instant::now(),
        start_ns: AtomicU64::new(0),
        go: Barrier::new(threads + 1),
    });
    let mut op_names: Vec<String> = workload.ops.iter().map(|op| op.name.clone()).collect();
    if workload.subscribes {
        op_names.push(DELIVER.into());
    }
    let (tell, told) = channel();
    let mut spares = Vec::new();
    let mut handles = Vec::new();
    for thread in 0..threads {
        let (give, spare) = channel();
        spares.push(give);
        let (shared, tell) = (shared.clone(), tell.clone());
        let spawned = std::thread::Builder::new().name(format!("load {thread}")).spawn(move || {
            Load::run(thread, &shared, &tell, &spare);
        });
        match spawned {
            Ok(handle) => handles.push(handle),
            Err(error) => {
                return Err(Failure::Refused { request: "a thread".into(), said: error.to_string() });
            }
        }
    }
    drop(tell);
    let collected = Collector { shared: &shared, told, spares, op_names, threads, interrupt }.collect(progress);
    for handle in handles {
        if handle.join().is_err() {
            return Err(Failure::Closed(" (a thread of this tool has panicked)".into()));
        }
    }
    collected
}

/// What one thread fills requests with.
pub fn draws(shared: &Shared, thread: usize) -> Draws {
    let settings = &shared.settings;
    let seed = settings.seed.wrapping_add(thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let values = Values::new(settings.sizes.clone(), seed);
    Draws::new(&shared.space, (thread, settings.threads), shared.names.clone(), values, seed)
}

struct Collector<'a> {
    shared: &'a Shared,
    told: Receiver<Told>,
    spares: Vec<Sender<Box<Slice>>>,
    op_names: Vec<String>,
    threads: usize,
    interrupt: &'a Interrupt,
}

/// An interval that not all threads have told of yet.
struct Open {
    all: Tally,
    ops: Vec<Tally>,
}

impl Collector<'_> {
    fn collect(self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Outcome, Failure> {
        self.connected()?;
        let begin = Instant::now();
        let settings = &self.shared.settings;
        let mut outcome = Outcome {
            ops: self.op_names.iter().map(|name| (name.clone(), Tally::default())).collect(),
            all: Tally::default(),
            moments: Vec::new(),
            elapsed_s: 0.0,
            partial: None,
            interrupted: false,
            cpu_ns: 0,
            lost: 0,
            unanswered: 0,
            unsent: 0,
            errors: BTreeMap::new(),
            deliveries: None,
        };
        let mut open: BTreeMap<u64, Open> = BTreeMap::new();
        // The interval that each thread is in, so that one is closed when all are past it.
        let mut at = vec![0u64; self.threads];
        let mut warm = Point::default();
        let (mut ended, mut last_ns, mut why) = (0, 0, None);
        while ended < self.threads {
            match self.told.recv_timeout(Duration::from_millis(100)) {
                Ok(Told::Slice(mut slice)) => {
                    match slice.interval {
                        None => warm = Point::of(&slice.ops[0]),
                        Some(interval) => {
                            let entry = open.entry(interval).or_insert_with(|| Open {
                                all: Tally::default(),
                                ops: vec![Tally::default(); self.op_names.len()],
                            });
                            for ((sum, part), name) in entry.ops.iter_mut().zip(&slice.ops).zip(&self.op_names) {
                                sum.add(part);
                                if name != DELIVER {
                                    entry.all.add(part);
                                }
                            }
                            at[slice.thread] = interval + 1;
                        }
                    }
                    let thread = slice.thread;
                    slice.ops.iter_mut().for_each(Tally::clear);
                    // A thread that has ended needs none.
                    let _ = self.spares[thread].send(slice);
                }
                Ok(Told::Ended(end)) => {
                    ended += 1;
                    at[end.thread] = u64::MAX;
                    last_ns = last_ns.max(end.last_ns);
                    outcome.cpu_ns += end.cpu_ns;
                    outcome.lost += end.lost;
                    outcome.unanswered += end.unanswered;
                    outcome.unsent += end.unsent;
                    why = why.or(end.why);
                    for (text, count) in end.errors {
                        *outcome.errors.entry(text).or_default() += count;
                    }
                }
                Ok(Told::Connected(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let past = at.iter().copied().min().unwrap_or(u64::MAX);
            while let Some(entry) = open.first_entry().filter(|entry| *entry.key() < past) {
                let (interval, closed) = entry.remove_entry();
                outcome.close(interval, &closed, settings.interval);
            }
            let warming = begin.elapsed() < settings.warmup;
            let last = outcome.moments.last().map_or(warm, |moment| moment.all);
            progress(Progress {
                warming,
                elapsed: begin.elapsed(),
                done: outcome.all.count(),
                last: &last,
                interval: settings.interval,
            });
            if self.interrupt.happened() && !self.shared.stop.swap(true, Ordering::Relaxed) {
                outcome.interrupted = true;
                outcome.partial = Some("interrupted".into());
            }
        }
        outcome.elapsed_s = last_ns as f64 / 1e9;
        // The last interval ends with the run; those that threads only waited in are none.
        let length_s = settings.interval.as_secs_f64();
        while outcome.moments.last().is_some_and(|moment| moment.at_s - length_s >= outcome.elapsed_s) {
            outcome.moments.pop();
        }
        if let Some(moment) = outcome.moments.last_mut() {
            moment.at_s = moment.at_s.min(outcome.elapsed_s);
        }
        if let Some(why) = why {
            outcome.partial = Some(why);
        }
        if self.op_names.last().is_some_and(|name| name == DELIVER) {
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            outcome.deliveries = Some((of(&self.shared.deliveries_expected), of(&self.shared.deliveries)));
        }
        Ok(outcome)
    }

    /// Waits until all threads are connected, and lets them begin.
    fn connected(&self) -> Result<(), Failure> {
        let mut failure = None;
        for _ in 0..self.threads {
            match self.told.recv() {
                Ok(Told::Connected(Err(error))) => failure = failure.or(Some(error)),
                Ok(_) => {}
                Err(_) => return Err(Failure::Closed(" (a thread of this tool has panicked)".into())),
            }
        }
        if failure.is_some() {
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        self.shared.start_ns.store(self.shared.now_ns(), Ordering::Relaxed);
        self.shared.go.wait();
        failure.map_or(Ok(()), Err)
    }
}

impl Outcome {
    fn close(&mut self, interval: u64, closed: &Open, length: Duration) {
        for ((_, sum), part) in self.ops.iter_mut().zip(&closed.ops) {
            sum.add(part);
        }
        self.all.add(&closed.all);
        self.moments.push(Moment {
            at_s: (interval + 1) as f64 * length.as_secs_f64(),
            all: Point::of(&closed.all),
            ops: closed.ops.iter().map(Point::of).collect(),
        });
    }

    pub fn rate(&self) -> f64 {
        if self.elapsed_s > 0.0 { self.all.count() as f64 / self.elapsed_s } else { 0.0 }
    }
}
