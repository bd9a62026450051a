//! MEMORY: what keys take, and where memory is. All of it is counted as it changes, so the answer is exact, and SAMPLES has no effect.

use super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::figures::{Figures, MEM_ALLOCATOR, MemoryFigures, difference, ratio};
use super::options::parse_int;
use super::profile::Report;
use crate::proto::errors;
use crate::proto::reply::Reply;
use std::fmt::Write as _;

/// Below this there is too little in memory for the doctor to say anything of it.
const DOCTOR_MIN_BYTES: u64 = 5 << 20;
/// What the doctor calls much: of waste, and for each client.
const WASTE_BYTES: i64 = 10 << 20;
const CLIENT_BYTES: u64 = 200 << 10;

/// `MEMORY USAGE key [SAMPLES count]`
pub fn usage(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[2]);
    ctx.attempt(|ctx| {
        check_samples(&args[3..])?;
        match ctx.db.memory_bytes(key) {
            Some(bytes) => ctx.reply.int(bytes.cast_signed()),
            None => ctx.reply.null(),
        }
        Ok(())
    })
}

fn check_samples(mut options: Args<'_>) -> Result<(), Failure> {
    while let [option, rest @ ..] = options {
        let [count, rest @ ..] = rest else { return Err(errors::SYNTAX.into()) };
        if !option.eq_ignore_ascii_case(b"samples") || parse_int(count)? < 0 {
            return Err(errors::SYNTAX.into());
        }
        options = rest;
    }
    Ok(())
}

/// `MEMORY STATS`
pub fn stats(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let figures = Figures::of(ctx, Report::default());
    let memory = figures.memory(ctx);
    let data = &figures.data;
    let databases = || figures.databases.iter().enumerate().filter(|(_, database)| database.keys > 0);
    let keys = figures.keys() as u64;
    let net = memory.used.saturating_sub(memory.startup);
    let int = |reply: &mut Reply<'_>, name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.int(value);
    };
    let double = |reply: &mut Reply<'_>, name: &str, value: f64| {
        reply.bulk(name.as_bytes());
        reply.double(value);
    };
    let reply = &mut ctx.reply;
    reply.map(FIELDS + databases().count());
    for (name, bytes) in [
        ("peak.allocated", memory.peak),
        ("total.allocated", memory.used),
        ("startup.allocated", memory.startup),
        // There is no replication, no cluster, no append-only file, and there are no scripts.
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", figures.stats.held_bytes()),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", 0),
        ("functions.caches", 0),
    ] {
        int(reply, name, bytes.cast_signed());
    }
    for (index, database) in databases() {
        reply.bulk(format!("db.{index}").as_bytes());
        reply.map(3);
        int(reply, "overhead.hashtable.main", database.table_bytes.cast_signed());
        int(reply, "overhead.hashtable.expires", database.deadlines_bytes.cast_signed());
        int(reply, "overhead.hashtable.slot-to-keys", 0);
    }
    int(reply, "overhead.total", memory.overhead().cast_signed());
    int(reply, "keys.count", keys.cast_signed());
    int(reply, "keys.bytes-per-key", net.checked_div(keys).unwrap_or(0).cast_signed());
    int(reply, "dataset.bytes", memory.dataset.cast_signed());
    double(reply, "dataset.percentage", 100.0 * ratio(memory.dataset, net));
    double(reply, "peak.percentage", 100.0 * ratio(memory.used, memory.peak));
    int(reply, "allocator.allocated", memory.allocated.cast_signed());
    int(reply, "allocator.active", memory.active.cast_signed());
    int(reply, "allocator.resident", memory.mapped.cast_signed());
    double(reply, "allocator-fragmentation.ratio", ratio(memory.active, memory.allocated));
    int(reply, "allocator-fragmentation.bytes", difference(memory.active, memory.allocated));
    double(reply, "allocator-rss.ratio", ratio(memory.mapped, memory.active));
    int(reply, "allocator-rss.bytes", difference(memory.mapped, memory.active));
    double(reply, "rss-overhead.ratio", ratio(memory.resident, memory.mapped));
    int(reply, "rss-overhead.bytes", difference(memory.resident, memory.mapped));
    double(reply, "fragmentation", ratio(memory.resident, memory.used));
    int(reply, "fragmentation.bytes", difference(memory.resident, memory.used));
    reply.bulk(b"slab.classes");
    reply.map(data.classes.len());
    for ((bytes, kind), class) in &data.classes {
        reply.bulk(format!("{kind}.{bytes}").as_bytes());
        reply.map(4);
        int(reply, "spans", class.spans.cast_signed() as i64);
        int(reply, "chunks.live", class.live.cast_signed() as i64);
        int(reply, "chunks.free", class.free.cast_signed() as i64);
        int(reply, "chunks.resident", class.resident.cast_signed());
    }
    reply.bulk(b"slab.blobs");
    reply.map(4);
    int(reply, "count", data.blobs.cast_signed());
    int(reply, "bytes", data.blob_bytes.cast_signed());
    int(reply, "bytes.kept", data.blob_kept_bytes.cast_signed());
    int(reply, "bytes.resident", data.blob_resident_bytes.cast_signed());
    Outcome::Done
}

/// Of MEMORY STATS, but for the databases.
const FIELDS: usize = 29;

/// `MEMORY DOCTOR`
pub fn doctor(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let figures = Figures::of(ctx, Report::default());
    let text = diagnose(&figures.memory(ctx), figures.stats.held_bytes(), figures.stats.clients);
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Outcome::Done
}

fn diagnose(memory: &MemoryFigures, held_bytes: u64, clients: u64) -> String {
    if memory.used < DOCTOR_MIN_BYTES {
        return "There is very little in memory: nothing can be said of how it is used. Ask again when there is data.\n".into();
    }
    let mut findings = Vec::new();
    let percent = |part, whole| 100.0 * (ratio(part, whole) - 1.0);
    if memory.peak > memory.used / 2 * 3 {
        findings.push(format!(
            "Peak: it was {} bytes once, {:.0}% more than now. What was freed since goes back to the system within seconds, but for what \
             is scattered among data.",
            memory.peak,
            percent(memory.peak, memory.used)
        ));
    }
    let mut waste = |title: &str, all: u64, part: u64, limit: f64, help: &str| {
        if ratio(all, part) > limit && difference(all, part) > WASTE_BYTES {
            let over = difference(all, part);
            findings.push(format!("{title}: {over} bytes, {:.0}%. {help}", percent(all, part)));
        }
    };
    waste(
        "Resident beyond what is counted",
        memory.resident,
        memory.used,
        1.4,
        "INFO memory tells its parts: allocator_frag_bytes, allocator_rss_bytes, rss_overhead_bytes.",
    );
    waste(
        "Free chunks between those in use",
        memory.active,
        memory.allocated,
        1.1,
        "They serve new data of the same sizes; those of items are moved together in the background (MEMORY MALLOC-STATS has the classes).",
    );
    waste(
        "Pages without data that were not given back yet",
        memory.mapped,
        memory.active,
        1.1,
        "They go back within seconds; MEMORY PURGE gives them back now.",
    );
    waste(
        "Memory outside of the allocator of data",
        memory.resident,
        memory.mapped,
        1.1,
        "Connections, large tables, what is being saved or loaded, and the program itself.",
    );
    if held_bytes / clients.max(1) > CLIENT_BYTES {
        findings.push(format!(
            "Clients: each holds {} bytes on average. CLIENT LIST tells which (tot-mem); client-output-buffer-limit and maxmemory-clients bound it.",
            held_bytes / clients.max(1)
        ));
    }
    if findings.is_empty() {
        return "Nothing is unusual about the memory in use.\n".into();
    }
    let mut text = "What is unusual about the memory in use:\n\n".to_owned();
    for (n, finding) in (1..).zip(findings) {
        let _ = writeln!(text, "{n}. {finding}");
    }
    text
}

/// `MEMORY MALLOC-STATS`
pub fn malloc_stats(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let figures = Figures::of(ctx, Report::default());
    let (memory, data) = (figures.memory(ctx), &figures.data);
    let mut text = format!(
        "{MEM_ALLOCATOR}\n\nallocated {}, active {}, resident {} (records {}), worth evacuating {}\n\n",
        memory.allocated, memory.active, memory.mapped, data.metadata_bytes, data.fragmented_bytes
    );
    let _ = writeln!(
        text,
        "{:>6} {:<8} {:>8} {:>12} {:>12} {:>14} {:>14}",
        "bytes", "kind", "spans", "live", "free", "live bytes", "resident bytes"
    );
    for ((bytes, kind), class) in &data.classes {
        let _ = writeln!(
            text,
            "{bytes:>6} {kind:<8} {:>8} {:>12} {:>12} {:>14} {:>14}",
            class.spans,
            class.live,
            class.free,
            class.live * bytes,
            class.resident * *bytes as u64
        );
    }
    let _ = writeln!(
        text,
        "\nblobs {}, in use {} bytes (kept for readers, or to be freed: {}), resident {} bytes",
        data.blobs, data.blob_bytes, data.blob_kept_bytes, data.blob_resident_bytes
    );
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Outcome::Done
}

/// `MEMORY PURGE`: what is deleted already and waits to be freed is not waited for.
pub fn purge(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let mut task = Purge { shard: 0 };
    if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(task))
}

struct Purge {
    /// The next one to give memory back.
    shard: usize,
}

impl Task for Purge {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let now_ms = ctx.db.now_ms();
        while self.shard < ctx.db.shard_count() {
            if !ctx.db.with_shard_at(self.shard, |shard| shard.purge(now_ms)) {
                self.shard += 1;
            }
            if budget.is_spent(1) && self.shard < ctx.db.shard_count() {
                return false;
            }
        }
        ctx.out().ok();
        true
    }

    fn bytes(&self) -> usize {
        size_of::<Purge>()
    }
}
