//! Commands on keys of any type: DEL UNLINK EXISTS TOUCH TYPE KEYS SCAN RANDOMKEY DBSIZE FLUSHDB FLUSHALL.

use super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::event::Event;
use super::many::OUT_HIGH_BYTES;
use super::scan::{Options, Own, parse_cursor};
use crate::base::glob::glob_matches;
use crate::base::int;
use crate::db::Type;
use crate::db::item::Item;
use crate::proto::errors;
use dolmen_slab::Slab;

/// Home buckets walked between two looks at the clock.
const STEPS_PER_LOOK: u32 = 32;

pub fn none_start(_ctx: &mut Ctx<'_>, _arguments: usize) -> Result<(), Failure> {
    Ok(())
}

pub fn count_finish(ctx: &mut Ctx<'_>, count: u64) {
    ctx.reply.int(count.cast_signed());
}

pub fn del_each(ctx: &mut Ctx<'_>, group: Args<'_>) -> Result<u64, Failure> {
    let key = ctx.first_key(group[0]);
    let removed = ctx.db.remove(key);
    if removed {
        ctx.report(key, Event::Del);
    }
    Ok(u64::from(removed))
}

pub fn exists_each(ctx: &mut Ctx<'_>, group: Args<'_>) -> Result<u64, Failure> {
    Ok(u64::from(ctx.db.exists(ctx.first_key(group[0]))))
}

pub fn touch_each(ctx: &mut Ctx<'_>, group: Args<'_>) -> Result<u64, Failure> {
    Ok(u64::from(ctx.db.touch_key(ctx.first_key(group[0]))))
}

pub fn type_(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let kind = ctx.db.type_of(ctx.first_key(args[1]));
    ctx.reply.simple(kind.map_or("none", Type::name));
    Outcome::Done
}

pub fn dbsize(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let n = ctx.db.len();
    ctx.reply.count(n);
    Outcome::Done
}

pub fn randomkey(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    let rng = &mut *ctx.rng;
    match ctx.db.random_key(|| rng.next_u64()) {
        Some(name) => ctx.reply.bulk(&name),
        None => ctx.reply.null(),
    }
    Outcome::Done
}

// ---- FLUSHDB, FLUSHALL ----

/// `FLUSHALL | FLUSHDB [ASYNC | SYNC]`: the keys are gone at once; with SYNC (the default) the reply waits until their memory is back.
fn flush(ctx: &mut Ctx<'_>, args: Args<'_>, all: bool) -> Outcome {
    let sync = match args.get(1).map(|a| a.to_ascii_lowercase()).as_deref() {
        None | Some(b"sync") => true,
        Some(b"async") => false,
        Some(_) => return ctx.fail(errors::SYNTAX),
    };
    if args.len() > 2 {
        return ctx.fail(errors::SYNTAX);
    }
    if all {
        super::persistence::before_flush_all(ctx);
    }
    let removed = if all { ctx.db.flush_all() } else { ctx.db.flush() };
    ctx.change(removed as u64);
    if sync && removed > 0 {
        let marks = ctx.db.flush_marks();
        return ctx.suspend(Box::new(FlushWait { marks }));
    }
    ctx.out().ok();
    Outcome::Done
}

pub fn flushall(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    flush(ctx, args, true)
}

pub fn flushdb(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    flush(ctx, args, false)
}

struct FlushWait {
    marks: Vec<u64>,
}

impl Task for FlushWait {
    fn step(&mut self, ctx: &mut Ctx<'_>, _budget: &mut Budget) -> bool {
        let done = ctx.db.is_drained(&self.marks);
        if done {
            ctx.out().ok();
        }
        done
    }

    fn bytes(&self) -> usize {
        self.marks.capacity() * size_of::<u64>()
    }

    fn has_taken_effect(&self) -> bool {
        true
    }
}

// ---- KEYS, SCAN ----

/// A walk over the keyspace that collects the names that match.
struct Walk {
    /// `None`: all names.
    pattern: Option<Vec<u8>>,
    kind: Option<&'static str>,
    /// No key can match (an unknown type was asked for).
    nothing: bool,
    cursor: u64,
    over: bool,
    /// Keys seen so far, matching or not.
    seen: u64,
    names: Names,
}

/// Names one behind the other, each after its length.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    count: usize,
}

impl Names {
    fn push_with(&mut self, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.extend_from_slice(&(len as u64).to_le_bytes());
        write(&mut self.bytes);
        self.count += 1;
    }

    /// The name that begins at `at`, and where the next one begins.
    fn at(&self, at: usize) -> (&[u8], usize) {
        let mut len = [0; 8];
        len.copy_from_slice(&self.bytes[at..at + 8]);
        let len = usize::try_from(u64::from_le_bytes(len)).unwrap_or(usize::MAX);
        (&self.bytes[at + 8..at + 8 + len], at + 8 + len)
    }
}

impl Walk {
    fn new(pattern: Option<&[u8]>, cursor: u64) -> Walk {
        let pattern = pattern.filter(|p| *p != b"*").map(<[u8]>::to_vec);
        Walk { pattern, kind: None, nothing: false, cursor, over: false, seen: 0, names: Names::default() }
    }

    fn visit(&mut self, slab: &Slab, item: Item<'_>) {
        self.seen += 1;
        if self.nothing || self.kind.is_some_and(|kind| kind != item.kind().name()) {
            return;
        }
        if let Some(pattern) = &self.pattern {
            let long;
            let name = match item.inline_key() {
                Some(name) => name,
                None => {
                    let mut name = Vec::new();
                    item.append_key(slab, &mut name);
                    long = name;
                    &long
                }
            };
            if !glob_matches(pattern, name, false) {
                return;
            }
        }
        self.names.push_with(item.key_len(slab), |into| item.append_key(slab, into));
    }

    fn step(&mut self, ctx: &mut Ctx<'_>) {
        let cursor = self.cursor;
        let next = ctx.db.scan(cursor, |slab, item| self.visit(slab, item));
        self.cursor = next;
        self.over = next == 0;
    }
}

pub fn keys(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let walk = Walk::new(Some(args[1]), 0);
    let mut task = KeysTask { walk, head_written: false, at: 0 };
    // A small keyspace is answered at once.
    if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(task))
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub fn scan(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let mut task = match parse_scan(args) {
        Ok(task) => task,
        Err(failure) => return ctx.fail(failure),
    };
    if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(task))
}

fn parse_scan(args: Args<'_>) -> Result<ScanTask, Failure> {
    let cursor = parse_cursor(args[1]).ok_or(errors::INVALID_CURSOR)?;
    let options = Options::parse(&args[2..], Own::Type)?;
    let mut walk = Walk::new(options.pattern, cursor);
    if let Some(wanted) = options.kind {
        walk.kind = Type::ALL.iter().map(|kind| kind.name()).find(|name| wanted.eq_ignore_ascii_case(name.as_bytes()));
        walk.nothing = walk.kind.is_none();
    }
    Ok(ScanTask { walk, count: options.count, steps_left: options.steps() })
}

struct ScanTask {
    walk: Walk,
    count: u64,
    steps_left: u64,
}

impl Task for ScanTask {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        while self.walk.seen < self.count && self.steps_left > 0 && !self.walk.over {
            self.walk.step(ctx);
            self.steps_left -= 1;
            if budget.is_spent(STEPS_PER_LOOK) {
                return false;
            }
        }
        ctx.reply.array(2);
        ctx.reply.bulk(int::write_u64(&mut [0; 20], self.walk.cursor));
        ctx.reply.array(self.walk.names.count);
        let mut at = 0;
        while at < self.walk.names.bytes.len() {
            let (name, next) = self.walk.names.at(at);
            ctx.reply.bulk(name);
            at = next;
        }
        true
    }

    fn bytes(&self) -> usize {
        self.walk.names.bytes.capacity()
    }
}

/// KEYS: walks in slices until the count is known, then writes in slices what the client takes.
struct KeysTask {
    walk: Walk,
    head_written: bool,
    /// Where the next name to write begins.
    at: usize,
}

impl Task for KeysTask {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        while !self.walk.over {
            self.walk.step(ctx);
            if budget.is_spent(STEPS_PER_LOOK) {
                return false;
            }
        }
        if !self.head_written {
            ctx.reply.array(self.walk.names.count);
            self.head_written = true;
        }
        while self.at < self.walk.names.bytes.len() {
            if ctx.out().queued() > OUT_HIGH_BYTES {
                return false;
            }
            let (name, next) = self.walk.names.at(self.at);
            ctx.reply.bulk(name);
            self.at = next;
            if budget.is_spent(STEPS_PER_LOOK) {
                return false;
            }
        }
        true
    }

    fn waits_for_room(&self) -> bool {
        self.walk.over
    }

    fn bytes(&self) -> usize {
        self.walk.names.bytes.capacity()
    }
}
