//! `stalls`: the longest that a small client waits while the server does something big. The small client asks PING every half millisecond on a
//! connection of its own, with real-time priority where that is allowed, else the work of the other client on its CPU delays it. The row `idle`
//! is the probe's own noise; what is above it is the server's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::cli::{Cpus, StallsArgs};
use crate::client::{Answer, Client};
use crate::interrupt::Interrupt;
use crate::load;
use crate::machine::{self, Machine, pin_to};
use crate::memory::fill_settings;
use crate::notes::Notes;
use crate::plot::{self, Bars};
use crate::record::{Latency, Tally};
use crate::report::digits;
use crate::server::{FLOOR, Named, Server, check_cpus};
use crate::values::Sizes;
use crate::wire::reply::Outcome;
use crate::wire::resp_request;
use crate::wire::template::Command;
use crate::workload::{Records, Variant, Workload};

/// What can be done meanwhile.
const ROWS: &[&str] =
    &["idle", "grow", "keys", "expire", "del_set", "del_zset", "smembers", "bgsave", "bgsave_writes", "flushall"];
/// Between two questions, if the last one was answered soon.
const PAUSE: Duration = Duration::from_micros(500);
const VALUE_BYTES: usize = 64;
const EXPIRING: u64 = 500_000;
/// Longest wait for what the server does in the background.
const BACKGROUND_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    latency: Latency,
    took_s: f64,
    resident_bytes: u64,
    /// The most that was taken from the machine meanwhile: pages shared by a forked child count once.
    memory_taken_bytes: u64,
    /// The longest turn of the event loop by the server's own count so far, if it tells.
    turn_max_ms: Option<f64>,
    note: String,
}

#[derive(Debug, Serialize)]
struct Of {
    server: String,
    rows: Vec<Result<Row, (String, String)>>,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    tool: String,
    machine: &'a Machine,
    versions: Vec<(String, String)>,
    keys: u64,
    servers: &'a [Of],
}

pub fn stalls(args: &StallsArgs, interrupt: &Interrupt) -> Result<(), String> {
    let servers = &args.servers;
    check_cpus(&servers.server_cpus.0, &servers.client_cpus.0)?;
    if let Some(row) = args.rows.iter().find(|row| !ROWS.contains(&row.as_str())) {
        return Err(format!("there is no row {row}; there are {}", ROWS.join(" ")));
    }
    let machine = Machine::read();
    let mut named = Named::all(&servers.servers, 3)?;
    named.retain(|named| named.name != FLOOR);
    if let Some(named) = named.iter().find(|named| !named.protocol.is_resp()) {
        return Err(format!("{}: stalls are measured with commands of RESP", named.name));
    }
    let versions: Vec<_> = named.iter().map(|named| (named.name.clone(), named.version())).collect();
    let mut notes = Notes::new("stalls", &machine, &versions, servers.json.as_deref() != Some("-"));
    notes.say(&format!(
        "{} keys of 16 bytes, values of {VALUE_BYTES}; how long a PING of another client takes",
        args.keys
    ));
    pin_to(&servers.client_cpus.0);
    let mut all = Vec::new();
    for named in &named {
        if interrupt.happened() {
            break;
        }
        notes.say(&format!("\n{}", named.name));
        let server = Server::start(named, &servers.server_cpus.0)?;
        let mut scene = Scene {
            client: server.client()?,
            server: &server,
            keys: args.keys,
            members: args.members,
            cpus: &servers.client_cpus,
            interrupt,
            filled: false,
        };
        let mut of = Of { server: named.name.clone(), rows: Vec::new() };
        for row in &args.rows {
            if interrupt.happened() {
                notes.say("  PARTIAL: interrupted");
                break;
            }
            let measured = scene.measure(row);
            notes.say(&text(row, &measured));
            if measured.is_err() {
                // Whatever state the connection is in.
                scene.client = server.client()?;
            }
            of.rows.push(measured.map_err(|why| (row.clone(), why)));
        }
        all.push(of);
    }
    let document = Document { tool: crate::tool(), machine: &machine, versions, keys: args.keys, servers: &all };
    notes.finish(servers, &document, || vec![chart(&args.rows, &all)])
}

/// A server, and the client that does big things to it.
struct Scene<'a> {
    server: &'a Server,
    client: Client,
    keys: u64,
    members: u64,
    cpus: &'a Cpus,
    interrupt: &'a Interrupt,
    filled: bool,
}

impl Scene<'_> {
    fn measure(&mut self, row: &str) -> Result<Row, String> {
        let mut expire_at = SystemTime::now();
        let mut others = 0;
        match row {
            "grow" => {
                self.call(&["FLUSHALL"])?;
                self.filled = true;
            }
            "keys" | "flushall" => self.ensure()?,
            "bgsave" | "bgsave_writes" => {
                self.ensure()?;
                self.call(&["LASTSAVE"])?;
                // LASTSAVE counts seconds.
                std::thread::sleep(Duration::from_millis(1100));
            }
            "expire" => {
                self.ensure()?;
                others = self.number(&["DBSIZE"])?;
                expire_at = self.expiring()?;
            }
            "del_set" | "smembers" => self.big("SADD", |member| vec![format!("m{member}")])?,
            "del_zset" => self.big("ZADD", |member| vec![member.to_string(), format!("m{member}")])?,
            _ => {}
        }
        let resident_bytes = self.server.usage()?.resident_bytes;
        let (stop, least) = (AtomicBool::new(false), AtomicU64::new(available_bytes()));
        let available_before = available_bytes();
        let access = self.server.access.clone();
        let cpus = self.cpus.clone();
        let (tally, took, note) = std::thread::scope(|scope| {
            let (go, ready) = std::sync::mpsc::channel();
            let probe = scope.spawn({
                let stop = &stop;
                move || {
                    pin_to(&cpus.0);
                    machine::real_time();
                    let client = Client::open(&access).map_err(|failure| failure.to_string())?;
                    // Whoever waits for it has gone only if the measurement was given up.
                    let _ = go.send(());
                    ping(client, stop)
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    least.fetch_min(available_bytes(), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            // If it never comes, the probe tells why.
            let _ = ready.recv();
            std::thread::sleep(Duration::from_millis(200));
            let began = Instant::now();
            let done = self.act(row, others, expire_at);
            let took = began.elapsed();
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
            let tally = probe.join().map_err(|_| "the probe has panicked".to_string())??;
            done.map(|note| (tally, took, note))
        })?;
        if row == "flushall" {
            self.filled = false;
        }
        let turn = self.client.info("stats", "eventloop_duration_max_usec").and_then(|us| us.parse::<f64>().ok());
        Ok(Row {
            name: row.into(),
            latency: tally.summary(),
            took_s: took.as_secs_f64(),
            resident_bytes,
            memory_taken_bytes: available_before.saturating_sub(least.load(Ordering::Relaxed)),
            turn_max_ms: turn.map(|us| us / 1000.0),
            note,
        })
    }

    /// The big thing; returns what there is to say about it.
    fn act(&mut self, row: &str, others: i64, expire_at: SystemTime) -> Result<String, String> {
        match row {
            "idle" => std::thread::sleep(Duration::from_secs(2)),
            "grow" => self.fill("key:", self.keys, None)?,
            "keys" => self.large(&["KEYS", "nosuch*"])?,
            "expire" => return self.wait_until_expired(others, expire_at),
            "del_set" | "del_zset" => {
                self.call(&["DEL", "big"])?;
                std::thread::sleep(Duration::from_millis(500));
            }
            "smembers" => {
                self.large(&["SMEMBERS", "big"])?;
                self.call(&["DEL", "big"])?;
            }
            "bgsave" => self.save(false)?,
            "bgsave_writes" => self.save(true)?,
            "flushall" => {
                self.call(&["FLUSHALL"])?;
                std::thread::sleep(Duration::from_secs(1));
            }
            _ => {}
        }
        Ok(String::new())
    }

    fn call(&mut self, arguments: &[&str]) -> Result<Answer, String> {
        let answer = self.client.call(arguments).map_err(|failure| failure.to_string())?;
        if answer.outcome == Outcome::Error {
            return Err(String::from_utf8_lossy(&answer.last).trim_start_matches('-').to_string());
        }
        Ok(answer)
    }

    fn large(&mut self, arguments: &[&str]) -> Result<(), String> {
        let error = self.client.call_for_effect(arguments).map_err(|failure| failure.to_string())?;
        error.map_or(Ok(()), |line| Err(line.trim_start_matches('-').to_string()))
    }

    fn number(&mut self, arguments: &[&str]) -> Result<i64, String> {
        let answer = self.call(arguments)?;
        std::str::from_utf8(&answer.last).ok().and_then(|digits| digits.parse().ok()).ok_or("no number".into())
    }

    fn ensure(&mut self) -> Result<(), String> {
        if !self.filled {
            self.fill("key:", self.keys, None)?;
            self.filled = true;
        }
        Ok(())
    }

    /// SETs keys over one connection, in pipelines as deep as they come.
    fn fill(&self, prefix: &str, count: u64, expire_at_ms: Option<u128>) -> Result<(), String> {
        let variant =
            Variant { protocol: self.server.access.protocol, ttl: false, records: Records::String, channels: 1 };
        let mut workload = Workload::named("set", variant)?.remove(0);
        if let (Some(at_ms), Command::Arguments(arguments)) = (expire_at_ms, &mut workload.fill[0]) {
            arguments.extend(["PXAT".into(), at_ms.to_string()]);
        }
        let settings = fill_settings(self.server, prefix, 16, count, Sizes::Fixed(VALUE_BYTES), self.cpus);
        let filled = load::fill(&settings, &workload, None, self.interrupt, &mut |_| {})
            .map_err(|failure| failure.to_string())?;
        filled.partial.or(filled.errors.into_keys().next()).map_or(Ok(()), Err)
    }

    /// Writes keys that expire at the same millisecond, which is returned when it is near.
    fn expiring(&mut self) -> Result<SystemTime, String> {
        let mut ahead = Duration::from_secs(10);
        loop {
            let at_ms =
                (SystemTime::now() + ahead).duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?.as_millis();
            self.fill("x:", EXPIRING, Some(at_ms))?;
            let at = UNIX_EPOCH + Duration::from_millis(at_ms as u64);
            if let Ok(left) = at.duration_since(SystemTime::now() + Duration::from_millis(500)) {
                std::thread::sleep(left);
                return Ok(at);
            }
            // This machine is slower than that.
            ahead *= 2;
        }
    }

    fn wait_until_expired(&mut self, others: i64, at: SystemTime) -> Result<String, String> {
        loop {
            let left = self.number(&["DBSIZE"])? - others;
            let since = SystemTime::now().duration_since(at).unwrap_or_default();
            if left <= 0 {
                return Ok(format!("gone {:.2} s after their time", since.as_secs_f64()));
            }
            if since > Duration::from_secs(20) {
                return Ok(format!("{left} of {EXPIRING} NOT GONE after 20 s"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A container of many members, under the key `big`.
    fn big(&mut self, verb: &str, member: impl Fn(u64) -> Vec<String>) -> Result<(), String> {
        self.call(&["DEL", "big"])?;
        for from in (0..self.members).step_by(500) {
            let mut arguments = vec![verb.to_string(), "big".into()];
            arguments.extend((from..self.members.min(from + 500)).flat_map(&member));
            let arguments: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
            let answer = self.client.exchange(&resp_request(&arguments)).map_err(|failure| failure.to_string())?;
            if answer.outcome == Outcome::Error {
                return Err(String::from_utf8_lossy(&answer.last).trim_start_matches('-').to_string());
            }
        }
        Ok(())
    }

    fn save(&mut self, writing: bool) -> Result<(), String> {
        let before = self.number(&["LASTSAVE"])?;
        self.call(&["BGSAVE"])?;
        if writing {
            self.fill("key:", self.keys / 2, None)?;
        }
        let began = Instant::now();
        while self.number(&["LASTSAVE"])? == before {
            if began.elapsed() > BACKGROUND_MAX {
                return Err("BGSAVE does not end".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Asks until it is told to stop.
fn ping(mut client: Client, stop: &AtomicBool) -> Result<Tally, String> {
    let (question, mut tally) = (resp_request(&[b"PING"]), Tally::default());
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        client.exchange(&question).map_err(|failure| failure.to_string())?;
        let took = began.elapsed();
        tally.record(took.as_nanos() as u64, 1);
        if took < PAUSE {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(tally)
}

/// What the machine could still give.
fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn text(name: &str, row: &Result<Row, String>) -> String {
    match row {
        Ok(Row { latency, took_s, resident_bytes, memory_taken_bytes, turn_max_ms, note, .. }) => {
            let turn = turn_max_ms.map_or(String::new(), |ms| format!("   longest turn so far {ms:.2}"));
            let note = if note.is_empty() { String::new() } else { format!("   {note}") };
            format!(
                "  {name:<14} max {:>9}  p99.9 {:>9}  p99 {:>9} ms   took {took_s:>6.2} s   memory +{:.0} MB on {:.0}{turn}{note}",
                digits(latency.max_ms),
                digits(latency.p99_9_ms),
                digits(latency.p99_ms),
                *memory_taken_bytes as f64 / 1e6,
                *resident_bytes as f64 / 1e6
            )
        }
        Err(why) => format!("  {name:<14} failed: {why}"),
    }
}

fn chart(names: &[String], servers: &[Of]) -> Bars {
    let group = |at: usize| {
        let of = |server: &Of| {
            let row = server.rows.get(at)?.as_ref().ok()?;
            let max = row.latency.max_ms;
            Some(plot::Bar { value: max, label: digits(max), spread: None })
        };
        servers.iter().map(of).collect()
    };
    Bars {
        title: "Longest wait of another client, while ... (less is better)".into(),
        unit: "milliseconds (logarithmic)".into(),
        series: servers.iter().map(|server| server.server.clone()).collect(),
        groups: names.iter().enumerate().map(|(at, name)| (name.clone(), group(at))).collect(),
        logarithmic: true,
    }
}
