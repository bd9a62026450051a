//! HRANDFIELD.

use super::super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::super::many::OUT_HIGH_BYTES;
use super::super::options::parse_int;
use super::super::stream::{self, Plan};
use super::settle::settled;
use super::{reply_text, whole};
use crate::base::entry::{Entries, Entry};
use crate::db::Db;
use crate::db::collections::Viewed;
use crate::proto::errors;
use crate::proto::reply::Reply;
use crate::types::hash::{Field, Hash};
use crate::types::{Look, Span};
use dolmen_slab::Slab;
use std::collections::HashSet;

/// Distinct fields that are drawn one by one; more are chosen while going through all.
const DRAWN_MAX: usize = 512;
/// Picks of a small hash, or any, between two looks at the clock.
const PICKS_PER_LOOK: u32 = 16;
/// Bytes of elements that are taken from a view at once.
const PIECE_BYTES: usize = 4 << 10;
/// Picks that are kept, to go on with when the hash is gone.
const KEPT: usize = 64;

/// `HRANDFIELD key [count [WITHVALUES]]`
pub fn hrandfield(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match parse(args) {
        Ok(_) => settled(ctx, args, run),
        Err(failure) => ctx.fail(failure),
    }
}

#[derive(Clone, Copy)]
enum Wanted {
    One,
    /// Different ones.
    Distinct(usize, bool),
    /// Any, some more than once.
    Any(u64, bool),
}

fn parse(args: Args<'_>) -> Result<Wanted, Failure> {
    let Some(count) = args.get(2) else { return Ok(Wanted::One) };
    let count = parse_int(count)?;
    if count == i64::MIN {
        return Err(errors::NOT_A_COUNT.into());
    }
    let with_values = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(b"withvalues") => true,
        Some(_) => return Err(errors::SYNTAX.into()),
    };
    if with_values && !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count) {
        return Err(errors::OUT_OF_RANGE.into());
    }
    Ok(match usize::try_from(count) {
        Ok(count) => Wanted::Distinct(count, with_values),
        Err(_) => Wanted::Any(count.unsigned_abs(), with_values),
    })
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let wanted = match parse(args) {
        Ok(wanted) => wanted,
        Err(failure) => return ctx.fail(failure),
    };
    let look = match ctx.db.read::<Hash>(key) {
        Ok(look) => look.filter(|look| !look.is_empty()),
        Err(error) => return ctx.fail(error),
    };
    let (Some(look), rng) = (look, &mut *ctx.rng) else {
        if matches!(wanted, Wanted::One) {
            ctx.reply.null()
        } else {
            ctx.reply.array(0)
        }
        return Outcome::Done;
    };
    match wanted {
        Wanted::One => {
            if let Some(field) = look.random(|| rng.next_u64()) {
                reply_text(&mut ctx.reply, look.slab, field.name);
            }
            Outcome::Done
        }
        Wanted::Distinct(count, with_values) if count >= look.len() => all(ctx, args, with_values),
        Wanted::Distinct(count, with_values) if count <= DRAWN_MAX && count <= look.len() / 3 => {
            head(&mut ctx.reply, count, with_values);
            let mut drawn: HashSet<Vec<u8>> = HashSet::new();
            while drawn.len() < count {
                let Some(field) = look.random(|| rng.next_u64()) else { break };
                let mut name = Vec::new();
                field.name.append(look.slab, &mut name);
                if drawn.insert(name) {
                    write(&mut ctx.reply, look.slab, field, with_values);
                }
            }
            Outcome::Done
        }
        Wanted::Distinct(count, with_values) => sample(ctx, args, count, with_values),
        Wanted::Any(count, with_values) => {
            let Ok(reply_count) = usize::try_from(count) else { return ctx.fail(errors::OUT_OF_RANGE) };
            head(&mut ctx.reply, reply_count, with_values);
            let mut picks =
                Picks { key: args[1].to_vec(), left: count, with_values, kept: Vec::new(), kept_bytes: 0, next: 0 };
            if picks.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
                return Outcome::Done;
            }
            ctx.suspend(Box::new(picks))
        }
    }
}

/// Fields with values are pairs in RESP3, and one after the other in RESP2.
fn head(reply: &mut Reply<'_>, fields: usize, with_values: bool) {
    reply.array(if with_values && !reply.is_v3() { 2 * fields } else { fields });
}

fn write(reply: &mut Reply<'_>, slab: &Slab, field: Field<'_>, with_values: bool) {
    if with_values && reply.is_v3() {
        reply.array(2);
    }
    reply_text(reply, slab, field.name);
    if with_values {
        reply_text(reply, slab, field.value);
    }
}

fn write_pair(reply: &mut Reply<'_>, entries: &mut Entries<'_>) {
    if reply.is_v3() {
        reply.array(2);
    }
    whole::write::<true, true>(reply, entries);
}

fn all(ctx: &mut Ctx<'_>, args: Args<'_>, with_values: bool) -> Outcome {
    let key = ctx.first_key(args[1]);
    let span = Span::default();
    let plan = if with_values {
        Plan { span, count: usize::MAX, head: |reply, fields| head(reply, fields, true), each: write_pair }
    } else {
        Plan { span, count: usize::MAX, head: |reply, fields| reply.array(fields), each: whole::write::<true, false> }
    };
    match stream::elements::<Hash>(ctx, key, plan) {
        Ok(Some(outcome)) => outcome,
        Ok(None) => unreachable!("the hash is there"),
        Err(failure) => ctx.fail(failure),
    }
}

fn sample(ctx: &mut Ctx<'_>, args: Args<'_>, count: usize, with_values: bool) -> Outcome {
    let key = ctx.first_key(args[1]);
    match ctx.db.open_view::<Hash>(key, Span::default()) {
        Ok(Some(view)) => {
            head(&mut ctx.reply, count, with_values);
            let unseen = view.len();
            let mut sample = Sample { view: Some(view), wanted: count, unseen, with_values, run: Vec::new(), at: 0 };
            if sample.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
                return Outcome::Done;
            }
            ctx.suspend(Box::new(sample))
        }
        Ok(None) => unreachable!("the hash is there"),
        Err(error) => ctx.fail(error),
    }
}

/// Goes through a view and takes each field with the chance that is left for it (Knuth's algorithm S), so every choice is as likely.
struct Sample {
    view: Option<Viewed<Hash>>,
    wanted: usize,
    /// Fields that were not looked at yet.
    unseen: usize,
    with_values: bool,
    run: Vec<u8>,
    at: usize,
}

impl Sample {
    fn close(&mut self, db: &mut Db<'_>) {
        if let Some(view) = self.view.take() {
            db.close_view(view);
        }
    }
}

impl Task for Sample {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        loop {
            let mut entries = Entries::new(&self.run[self.at..]);
            while self.wanted > 0 && !entries.rest().is_empty() {
                let taken = ctx.rng.below(self.unseen as u64) < self.wanted as u64;
                self.unseen -= 1;
                if !taken {
                    entries.nth(2);
                    continue;
                }
                self.wanted -= 1;
                if self.with_values {
                    write_pair(&mut ctx.reply, &mut entries);
                } else {
                    whole::write::<true, false>(&mut ctx.reply, &mut entries);
                }
            }
            if self.wanted == 0 {
                self.close(&mut ctx.db);
                return true;
            }
            self.run.clear();
            self.at = 0;
            if ctx.out().queued() > OUT_HIGH_BYTES || budget.is_spent(1) {
                return false;
            }
            let Some(view) = &mut self.view else { return true };
            if ctx.db.view_next(view, &mut self.run, PIECE_BYTES).is_err() {
                // There was no memory to keep the rest: the reply has begun, so the client can be told by the end of the connection only.
                self.close(&mut ctx.db);
                let id = ctx.client().id;
                ctx.asks.kill.push(id);
                return true;
            }
        }
    }

    fn bytes(&self) -> usize {
        self.run.capacity() + self.view.as_ref().map_or(0, Viewed::held_bytes)
    }

    fn waits_for_room(&self) -> bool {
        true
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        self.close(db);
    }
}

/// Picks one field after the other, each of the hash as it is then. Should it go while the reply is under way, the rest is picked among the last
/// picks, since so many have been promised.
struct Picks {
    key: Vec<u8>,
    left: u64,
    with_values: bool,
    /// Runs of a field and its value.
    kept: Vec<Vec<u8>>,
    kept_bytes: usize,
    next: usize,
}

impl Picks {
    fn keep(&mut self, look: Look<'_, Hash>, field: Field<'_>) {
        let mut run = Vec::new();
        field.name.append_entry(look.slab, &mut run);
        field.value.append_entry(look.slab, &mut run);
        self.kept_bytes += run.capacity();
        if self.kept.len() < KEPT {
            self.kept.push(run);
        } else {
            let old = std::mem::replace(&mut self.kept[self.next], run);
            self.kept_bytes -= old.capacity();
            self.next = (self.next + 1) % KEPT;
        }
    }

    fn write_kept(&self, ctx: &mut Ctx<'_>) {
        let pick = ctx.rng.below(self.kept.len() as u64);
        let run = &self.kept[usize::try_from(pick).unwrap_or(0)];
        let mut entries = Entries::new(run);
        let (Some(name), Some(value)) = (entries.next(), entries.next()) else { unreachable!("a pair") };
        let mut put = |entry: Entry<'_>| ctx.reply.entry(entry);
        put(name);
        if self.with_values {
            put(value);
        }
    }
}

impl Task for Picks {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let key = ctx.key(&self.key);
        while self.left > 0 {
            if ctx.out().queued() > OUT_HIGH_BYTES || budget.is_spent(PICKS_PER_LOOK) {
                // Enough to go on with is kept before others come between.
                if let Ok(Some(look)) = ctx.db.look::<Hash>(key)
                    && let Some(field) = look.random(|| ctx.rng.next_u64())
                {
                    self.keep(look, field);
                }
                return false;
            }
            let rng = &mut *ctx.rng;
            let look = ctx.db.look::<Hash>(key).ok().flatten();
            match look.and_then(|look| Some((look.slab, look.random(|| rng.next_u64())?))) {
                Some((slab, field)) => write(&mut ctx.reply, slab, field, self.with_values),
                None => {
                    if self.with_values && ctx.reply.is_v3() {
                        ctx.reply.array(2);
                    }
                    self.write_kept(ctx);
                }
            }
            self.left -= 1;
        }
        true
    }

    fn bytes(&self) -> usize {
        self.kept_bytes + self.key.capacity()
    }

    fn waits_for_room(&self) -> bool {
        true
    }
}
