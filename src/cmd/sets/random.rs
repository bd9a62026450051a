//! Random members: SPOP and SRANDMEMBER. A few are drawn at once, many in slices.

use super::{ALL, write_lying};
use crate::base::entry::{self, Entries};
use crate::base::int;
use crate::base::rng::Rng;
use crate::cmd::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use crate::cmd::event::Event;
use crate::cmd::many::OUT_HIGH_BYTES;
use crate::cmd::options::parse_int;
use crate::cmd::runs::Runs;
use crate::cmd::stream;
use crate::db::collections::{Missing, Viewed};
use crate::db::hold::Mode;
use crate::db::{Db, DbError, Key};
use crate::proto::errors;
use crate::types::set::Set;
use crate::types::{Body, Form, Look, Span};
use dolmen_slab::AllocError;
use std::collections::HashSet;

/// Members that are drawn at once.
const AT_ONCE: usize = 256;
/// Distinct members are drawn if they are at most this part of the set, else chosen in a walk over it.
const DRAWN_PART: usize = 8;
/// Bytes that are taken from a view at once.
const PIECE_BYTES: usize = 4 << 10;
/// Members of a draw with repetitions that are kept for the case that the set goes away.
const RECENT: usize = 128;

/// `SPOP key [count]`
pub fn spop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match args.len() {
        2 => ctx.attempt(|ctx| pop_one(ctx, args[1])),
        3 => pop_many(ctx, args[1], args[2]).unwrap_or_else(|failure| ctx.fail(failure)),
        _ => ctx.fail(errors::SYNTAX),
    }
}

fn pop_one(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<(), Failure> {
    let key = ctx.first_key(name);
    let (rng, mut run) = (&mut *ctx.rng, Vec::new());
    let emptied = ctx.db.edit::<Set, _>(key, Missing::Skip, |edit| {
        edit.pop(rng, &mut run);
        Ok(edit.look().is_empty())
    })?;
    let Some((member, _)) = entry::split(&run) else {
        ctx.reply.null();
        return Ok(());
    };
    log_popped(ctx, key, &run);
    ctx.report(key, Event::SPop);
    if emptied == Some(true) {
        ctx.also(key, Event::Del);
    }
    ctx.reply.entry(member);
    Ok(())
}

fn pop_many(ctx: &mut Ctx<'_>, name: &[u8], count: &[u8]) -> Result<Outcome, Failure> {
    let count = super::parse_count(count).and_then(|count| usize::try_from(count).ok()).ok_or(errors::NOT_POSITIVE)?;
    let key = ctx.first_key(name);
    let Some(set) = ctx.db.look::<Set>(key)? else {
        ctx.reply.set(0);
        return Ok(Outcome::Done);
    };
    let (len, is_big) = (set.len(), matches!(set.form, Form::Big(_)));
    if count == 0 {
        ctx.reply.set(0);
        return Ok(Outcome::Done);
    }
    if count >= len {
        // All of it is read from a view, so the key can go now.
        let outcome = stream::elements::<Set>(ctx, key, ALL)?.unwrap_or(Outcome::Done);
        ctx.db.remove(key);
        ctx.log_as(&[b"DEL", key.bytes]);
        ctx.report(key, Event::SPop);
        ctx.change(len as u64 - 1);
        ctx.also(key, Event::Del);
        return Ok(outcome);
    }
    if is_big && count > AT_ONCE {
        return Ok(ctx.suspend(Box::new(Draw::new(name, How::Pop, count))));
    }
    let (rng, mut run) = (&mut *ctx.rng, Vec::new());
    ctx.db.edit::<Set, _>(key, Missing::Skip, |edit| {
        for _ in 0..count {
            edit.pop(rng, &mut run);
        }
        Ok(())
    })?;
    log_popped(ctx, key, &run);
    ctx.report(key, Event::SPop);
    ctx.change(count as u64 - 1);
    ctx.reply.set(count);
    Entries::new(&run).for_each(|member| ctx.reply.entry(member));
    Ok(Outcome::Done)
}

/// Which members were taken out is what has happened, as far as a log is concerned.
fn log_popped(ctx: &mut Ctx<'_>, key: Key<'_>, run: &[u8]) {
    if !ctx.is_recorded() {
        return;
    }
    let texts: Vec<Vec<u8>> = Entries::new(run).map(|member| member.text(&mut [0; int::MAX_DIGITS]).to_vec()).collect();
    let words = [&b"SREM"[..], key.bytes].into_iter().chain(texts.iter().map(Vec::as_slice));
    let words: Vec<&[u8]> = words.collect();
    ctx.log_as(&words);
}

/// `SRANDMEMBER key [count]`
pub fn srandmember(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let drawn = match args.len() {
        2 => one(ctx, args[1]),
        3 => match parse_int(args[2]) {
            Ok(i64::MIN) => Err(errors::WITHIN_LONG.into()),
            Ok(count) if count < 0 => repeated(ctx, args[1], count.unsigned_abs()),
            Ok(count) => distinct(ctx, args[1], usize::try_from(count).unwrap_or(usize::MAX)),
            Err(failure) => Err(failure),
        },
        _ => Err(errors::SYNTAX.into()),
    };
    drawn.unwrap_or_else(|failure| ctx.fail(failure))
}

fn one(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<Outcome, Failure> {
    let key = ctx.first_key(name);
    match ctx.db.read::<Set>(key)?.and_then(|set| Some((set, set.random(ctx.rng)?))) {
        Some((set, member)) => write_lying(&mut ctx.reply, set, member),
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

/// `count` members, each drawn from all.
fn repeated(ctx: &mut Ctx<'_>, name: &[u8], count: u64) -> Result<Outcome, Failure> {
    let key = ctx.first_key(name);
    let Some(set) = ctx.db.read::<Set>(key)? else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    ctx.reply.array(usize::try_from(count).unwrap_or(usize::MAX));
    if count > AT_ONCE as u64 {
        let mut task = Repeat { name: name.to_vec(), left: count, recent: Vec::new() };
        if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
            return Ok(Outcome::Done);
        }
        return Ok(ctx.suspend(Box::new(task)));
    }
    for _ in 0..count {
        if let Some(member) = set.random(ctx.rng) {
            write_lying(&mut ctx.reply, set, member);
        }
    }
    Ok(Outcome::Done)
}

/// `count` members, none of them twice; all, if there are not as many.
fn distinct(ctx: &mut Ctx<'_>, name: &[u8], count: usize) -> Result<Outcome, Failure> {
    let key = ctx.first_key(name);
    let Some(set) = ctx.db.read::<Set>(key)? else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let count = count.min(set.len());
    if set.len() <= 2 * AT_ONCE {
        let mut choice = Choice { left: set.len(), wanted: count };
        ctx.reply.array(count);
        set.each(|member| {
            if choice.takes_next(ctx.rng) {
                write_lying(&mut ctx.reply, set, member);
            }
        });
        return Ok(Outcome::Done);
    }
    if count <= AT_ONCE {
        let (mut seen, mut found) = (HashSet::new(), Runs::default());
        while found.len() < count {
            draw_distinct(set, ctx.rng, &mut seen, &mut found);
        }
        ctx.reply.array(count);
        found.each(|member| ctx.reply.entry(member));
        return Ok(Outcome::Done);
    }
    if count <= set.len() / DRAWN_PART {
        return Ok(ctx.suspend(Box::new(Draw::new(name, How::Distinct, count))));
    }
    let Some(view) = ctx.db.open_view::<Set>(key, Span::default())? else { return Ok(Outcome::Done) };
    let choice = Choice { left: view.len(), wanted: count };
    ctx.reply.array(count);
    let mut task = Choose { view: Some(view), choice, run: Vec::new(), at: 0 };
    if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Ok(Outcome::Done);
    }
    Ok(ctx.suspend(Box::new(task)))
}

/// Draws a member; adds it if it was not drawn before.
fn draw_distinct(set: Look<'_, Set>, rng: &mut Rng, seen: &mut HashSet<Vec<u8>>, found: &mut Runs) {
    let Some(member) = set.random(rng) else { return };
    let mut run = Vec::new();
    member.put(set.slab, &mut run);
    if !seen.contains(&run) {
        found.push_with(|into| into.extend_from_slice(&run));
        seen.insert(run);
    }
}

/// Chooses some of what goes by, all choices of so many being alike (Knuth's algorithm S).
struct Choice {
    /// Members that are still to come, and to be chosen of them.
    left: usize,
    wanted: usize,
}

impl Choice {
    fn takes_next(&mut self, rng: &mut Rng) -> bool {
        if self.left == 0 {
            return false;
        }
        let takes = rng.below(self.left as u64) < self.wanted as u64;
        self.left -= 1;
        self.wanted -= usize::from(takes);
        takes
    }
}

/// Very many distinct members, chosen in a walk over a view of the set.
struct Choose {
    view: Option<Viewed<Set>>,
    choice: Choice,
    run: Vec<u8>,
    at: usize,
}

impl Task for Choose {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        while self.choice.wanted > 0 {
            let mut members = Entries::new(&self.run[self.at..]);
            for member in members.by_ref() {
                if self.choice.takes_next(ctx.rng) {
                    ctx.reply.entry(member);
                }
            }
            self.at = self.run.len() - members.rest().len();
            if self.choice.wanted == 0 {
                break;
            }
            if ctx.out().queued() > OUT_HIGH_BYTES || budget.is_spent(1) {
                return false;
            }
            self.run.clear();
            self.at = 0;
            let Some(view) = &mut self.view else { return true };
            if ctx.db.view_next(view, &mut self.run, PIECE_BYTES).is_err() {
                // The reply has begun, so the client cannot be told but by the end of the connection.
                self.abandon(&mut ctx.db);
                let id = ctx.client().id;
                ctx.asks.kill.push(id);
                return true;
            }
        }
        self.abandon(&mut ctx.db);
        true
    }

    fn bytes(&self) -> usize {
        self.run.capacity() + self.view.as_ref().map_or(0, Viewed::held_bytes)
    }

    fn waits_for_room(&self) -> bool {
        true
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Some(view) = self.view.take() {
            db.close_view(view);
        }
    }
}

/// Very many members with repetitions. Each is drawn from the set as it is then: how long it takes is up to the client, and nobody waits
/// for that. Should the set go away, what was drawn of late is drawn from.
struct Repeat {
    name: Vec<u8>,
    left: u64,
    /// Entries, one each.
    recent: Vec<Vec<u8>>,
}

impl Task for Repeat {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let key = ctx.key(&self.name);
        while self.left > 0 {
            if ctx.out().queued() > OUT_HIGH_BYTES || budget.is_spent(16) {
                return false;
            }
            let set = ctx.db.look::<Set>(key).ok().flatten();
            match set.and_then(|set| Some((set, set.random(ctx.rng)?))) {
                Some((set, member)) => {
                    if self.recent.len() < RECENT || self.left.is_multiple_of(RECENT as u64) {
                        let mut run = Vec::new();
                        member.put(set.slab, &mut run);
                        let place = (self.recent.len() == RECENT).then(|| below(ctx.rng, RECENT));
                        match place {
                            Some(place) => self.recent[place] = run,
                            None => self.recent.push(run),
                        }
                    }
                    write_lying(&mut ctx.reply, set, member);
                }
                None => {
                    let run = &self.recent[below(ctx.rng, self.recent.len())];
                    Entries::new(run).for_each(|member| ctx.reply.entry(member));
                }
            }
            self.left -= 1;
        }
        true
    }

    fn bytes(&self) -> usize {
        self.name.capacity() + self.recent.iter().map(|run| run.capacity() + size_of::<Vec<u8>>()).sum::<usize>()
    }

    fn waits_for_room(&self) -> bool {
        true
    }
}

fn below(rng: &mut Rng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).unwrap_or(0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Members are taken out.
    Pop,
    Distinct,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// For another holder to finish.
    Waiting,
    /// The name is held.
    Drawing,
    Writing,
}

/// Many members of a large set, drawn while its name is held, so that they are of one instant; then written.
struct Draw {
    name: Vec<u8>,
    how: How,
    count: usize,
    stage: Stage,
    /// Those that were drawn, in the shard of the key: so it grows, and is freed, in slices.
    seen: Body<Set>,
    found: Runs,
    /// All of the set was taken out.
    emptied: bool,
}

impl Draw {
    fn new(name: &[u8], how: How, count: usize) -> Draw {
        let (seen, found) = (Body::default(), Runs::default());
        Draw { name: name.to_vec(), how, count, stage: Stage::Waiting, seen, found, emptied: false }
    }

    /// Draws until there are enough (true) or the budget is spent.
    fn draw(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let key = ctx.key(&self.name);
        while self.found.len() < self.count {
            let Some(set) = ctx.db.look::<Set>(key)? else { return Ok(true) };
            match self.how {
                How::Distinct => {
                    // Each draw hits something new with a probability of at least 7/8.
                    let mut run = Vec::new();
                    for _ in 0..16.min(self.count - self.found.len()) {
                        set.random(ctx.rng).into_iter().for_each(|member| member.put(set.slab, &mut run));
                    }
                    let found = &mut self.found;
                    let done = ctx.db.with_body(key, &mut self.seen, |edit| {
                        for member in Entries::new(&run) {
                            if edit.add(member)? {
                                found.push_with(|into| member.put(into));
                            }
                        }
                        Ok(())
                    });
                    done.map_err(|error: AllocError| DbError::from(error))?;
                }
                How::Pop => {
                    let wanted = 16.min(self.count - self.found.len());
                    let (rng, found) = (&mut *ctx.rng, &mut self.found);
                    let mut popped = Vec::new();
                    let emptied = ctx.db.edit::<Set, _>(key, Missing::Skip, |edit| {
                        for _ in 0..wanted {
                            found.push_with(|run| {
                                let before = run.len();
                                let _ = edit.pop(rng, run);
                                popped.extend_from_slice(&run[before..]);
                            });
                        }
                        Ok(edit.look().is_empty())
                    })?;
                    log_popped(ctx, key, &popped);
                    self.emptied = emptied == Some(true);
                }
            }
            if budget.is_spent(1) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What was drawn is the reply.
    fn begin_reply(&mut self, ctx: &mut Ctx<'_>) {
        let count = self.found.len();
        match self.how {
            How::Distinct => ctx.reply.array(count),
            How::Pop => {
                // Its name is held until then, so nobody has seen it since the last of them went.
                ctx.db.lock_keys([&self.name[..]].into_iter());
                let key = ctx.key(&self.name);
                if count > 0 {
                    ctx.report(key, Event::SPop);
                    ctx.change(count as u64 - 1);
                }
                if self.emptied {
                    ctx.also(key, Event::Del);
                }
                ctx.db.lock_none();
                ctx.reply.set(count);
            }
        }
    }
}

impl Task for Draw {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if self.stage == Stage::Waiting {
            let mode = if self.how == How::Pop { Mode::Exclusive } else { Mode::Shared };
            if !ctx.db.hold_begin(1, mode) {
                return false;
            }
            let key = ctx.key(&self.name);
            ctx.db.hold(key.hash);
            self.stage = Stage::Drawing;
            // It may have fewer now.
            self.count = self.count.min(ctx.db.look::<Set>(key).ok().flatten().map_or(0, Look::len));
        }
        if self.stage == Stage::Drawing {
            let done = match self.draw(ctx, budget) {
                Ok(false) => return false,
                Ok(true) => Ok(()),
                Err(failure) => Err(failure),
            };
            self.abandon(&mut ctx.db);
            self.stage = Stage::Writing;
            match done {
                // Of what was taken out nothing is lost: it is the reply.
                Err(failure) if self.found.len() == 0 => {
                    ctx.fail(failure);
                    return true;
                }
                _ => self.begin_reply(ctx),
            }
        }
        self.found.write(ctx, budget)
    }

    fn bytes(&self) -> usize {
        self.name.capacity() + self.found.bytes()
    }

    fn waits_for_room(&self) -> bool {
        self.stage == Stage::Writing
    }

    fn must_finish(&self) -> bool {
        self.stage == Stage::Drawing && self.how == How::Pop
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if self.stage == Stage::Drawing {
            let key = db.key(&self.name);
            db.drop_body(key, std::mem::take(&mut self.seen));
            db.hold_end();
            self.stage = Stage::Writing;
        }
    }
}
