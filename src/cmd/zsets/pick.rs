//! Walks and chance: ZSCAN ZRANDMEMBER.

use super::sliced::{Output, Work, at_once, in_slices};
use super::{AT_ONCE, PIECE, members_head, pair_head, plan, put_name, scores_head};
use crate::base::entry::Entries;
use crate::base::float;
use crate::base::glob::glob_matches;
use crate::base::int;
use crate::cmd::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use crate::cmd::keys::parse_cursor;
use crate::cmd::many::OUT_HIGH_BYTES;
use crate::cmd::options::parse_int;
use crate::cmd::stream;
use crate::db::hold::Mode;
use crate::proto::errors;
use crate::types::zset::{Pair, Zset, score};
use crate::types::{Look, Span};
use std::collections::HashSet;

// ---- ZSCAN ----

/// Buckets between two looks at the clock.
const STEPS_PER_LOOK: u32 = 8;

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn zscan(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let scan = parse_cursor(args[2]).ok_or(Failure::Text(errors::INVALID_CURSOR)).and_then(|cursor| {
        let found = ctx.db.read::<Zset>(key)?.is_some();
        // Without a set the options are not looked at.
        if found { Scan::parse(args, cursor).map(Some) } else { Ok(None) }
    });
    let mut scan = match scan {
        Ok(Some(scan)) => scan,
        Ok(None) => Scan::new(args[1], 0),
        Err(failure) => return ctx.fail(failure),
    };
    if scan.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(scan))
}

struct Scan {
    name: Vec<u8>,
    cursor: u64,
    /// `None`: all members.
    pattern: Option<Vec<u8>>,
    /// Members still to be looked at, and steps that may be taken for them.
    left: u64,
    steps_left: u64,
    /// What was found, members with scores.
    run: Vec<u8>,
    found: usize,
}

impl Scan {
    fn new(name: &[u8], cursor: u64) -> Scan {
        let (run, left, steps_left) = (Vec::new(), 10, 100);
        Scan { name: name.to_vec(), cursor, pattern: None, left, steps_left, run, found: 0 }
    }

    fn parse(args: Args<'_>, cursor: u64) -> Result<Scan, Failure> {
        let mut scan = Scan::new(args[1], cursor);
        let mut rest = args[3..].iter();
        while let Some(option) = rest.next() {
            let value = rest.next().ok_or(errors::SYNTAX)?;
            match &*option.to_ascii_lowercase() {
                b"match" => scan.pattern = Some(value.to_vec()).filter(|pattern| pattern != b"*"),
                b"count" => {
                    let count = parse_int(value)?;
                    scan.left = u64::try_from(count).ok().filter(|count| *count > 0).ok_or(errors::SYNTAX)?;
                    scan.steps_left = scan.left.saturating_mul(10);
                }
                _ => return Err(errors::SYNTAX.into()),
            }
        }
        Ok(scan)
    }

    fn visit(&mut self, look: Look<'_, Zset>, pair: Pair<'_>) {
        self.left = self.left.saturating_sub(1);
        if let Some(pattern) = &self.pattern {
            let start = self.run.len();
            pair.name.append_to(look.slab, &mut self.run);
            let is_match = glob_matches(pattern, &self.run[start..], false);
            self.run.truncate(start);
            if !is_match {
                return;
            }
        }
        pair.put(look.slab, &mut self.run);
        self.found += 1;
    }
}

impl Task for Scan {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let name = std::mem::take(&mut self.name);
        let key = ctx.key(&name);
        loop {
            // A set that has gone meanwhile has no more members.
            let Ok(Some(look)) = ctx.db.look::<Zset>(key) else {
                self.cursor = 0;
                break;
            };
            self.cursor = look.scan(self.cursor, |pair| self.visit(look, pair));
            self.steps_left = self.steps_left.saturating_sub(1);
            if self.cursor == 0 || self.left == 0 || self.steps_left == 0 {
                break;
            }
            if budget.is_spent(STEPS_PER_LOOK) {
                self.name = name;
                return false;
            }
        }
        ctx.reply.array(2);
        ctx.reply.bulk(int::write_u64(&mut [0; int::MAX_DIGITS], self.cursor));
        ctx.reply.array(2 * self.found);
        let mut entries = Entries::new(&self.run);
        while let (Some(member), Some(score)) = (entries.next(), entries.next()) {
            ctx.reply.entry(member);
            // Text in RESP3 too.
            ctx.reply.bulk(float::write(&mut [0; float::MAX_BYTES], score::from_entry(score)));
        }
        true
    }

    fn bytes(&self) -> usize {
        self.name.capacity() + self.run.capacity()
    }
}

// ---- ZRANDMEMBER ----

/// `ZRANDMEMBER key [count [WITHSCORES]]`: a negative count may name members more than once.
pub fn zrandmember(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match random_members(ctx, args) {
        Ok(outcome) => outcome,
        Err(failure) => ctx.fail(failure),
    }
}

fn random_members(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Outcome, Failure> {
    let key = ctx.first_key(args[1]);
    let Some(count) = args.get(2) else {
        let rng = &mut *ctx.rng;
        let look = ctx.db.read::<Zset>(key)?;
        match look.and_then(|look| Some((look.slab, look.random(|| rng.next_u64())?))) {
            Some((slab, pair)) => put_name(&mut ctx.reply, slab, pair.name),
            None => ctx.reply.null(),
        }
        return Ok(Outcome::Done);
    };
    let count = parse_int(count)?;
    if count == i64::MIN {
        return Err(errors::RANDOM_COUNT.into());
    }
    let with_scores = match args[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"withscores") => true,
        _ => return Err(errors::SYNTAX.into()),
    };
    if with_scores && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
        return Err(errors::OUT_OF_RANGE.into());
    }
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let len = ctx.db.read::<Zset>(key)?.map_or(0, |look| look.len());
    if len == 0 || wanted == 0 {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    }
    if count < 0 {
        if with_scores {
            scores_head(&mut ctx.reply, wanted)
        } else {
            members_head(&mut ctx.reply, wanted)
        }
        let mut repeats = Repeats { name: args[1].to_vec(), left: wanted, with_scores, last: Vec::new() };
        let done = repeats.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE));
        return Ok(if done { Outcome::Done } else { ctx.suspend(Box::new(repeats)) });
    }
    if wanted >= len {
        let plan = plan(Span::default(), len, with_scores);
        return Ok(stream::elements::<Zset>(ctx, key, plan)?.unwrap_or(Outcome::Done));
    }
    let work = Sample { name: args[1].to_vec(), wanted, with_scores, len: 0, ranks: HashSet::new(), run: Vec::new() };
    Ok(if wanted > AT_ONCE { in_slices(ctx, vec![args[1].to_vec()], Mode::Shared, work) } else { at_once(ctx, work) })
}

/// Members each of which is picked from all.
struct Repeats {
    name: Vec<u8>,
    left: usize,
    with_scores: bool,
    /// The last that were picked: if the set goes meanwhile, they make up the rest.
    last: Vec<u8>,
}

impl Repeats {
    fn pick(&mut self, ctx: &mut Ctx<'_>, n: usize) {
        let (key, rng) = (ctx.key(&self.name), &mut *ctx.rng);
        let Ok(Some(look)) = ctx.db.look::<Zset>(key) else { return };
        self.last.clear();
        for _ in 0..n {
            if let Some(pair) = look.random(|| rng.next_u64()) {
                pair.put(look.slab, &mut self.last);
            }
        }
    }
}

impl Task for Repeats {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        while self.left > 0 {
            self.pick(ctx, PIECE.min(self.left));
            let mut entries = Entries::new(&self.last);
            while self.left > 0
                && let (Some(member), Some(score)) = (entries.next(), entries.next())
            {
                if self.with_scores {
                    pair_head(&mut ctx.reply);
                }
                ctx.reply.entry(member);
                if self.with_scores {
                    ctx.reply.double(score::from_entry(score));
                }
                self.left -= 1;
            }
            if self.left > 0 && (ctx.out().queued() > OUT_HIGH_BYTES || budget.is_spent(1)) {
                return false;
            }
        }
        true
    }

    fn bytes(&self) -> usize {
        self.name.capacity() + self.last.capacity()
    }

    fn waits_for_room(&self) -> bool {
        true
    }
}

/// Different members, every selection of so many equally likely (R. W. Floyd's way: one random rank for each).
struct Sample {
    name: Vec<u8>,
    wanted: usize,
    with_scores: bool,
    /// Of the set; 0: it has not begun.
    len: usize,
    ranks: HashSet<usize>,
    run: Vec<u8>,
}

impl Work for Sample {
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<Option<Output>, Failure> {
        let key = ctx.key(&self.name);
        while self.len == 0 || self.ranks.len() < self.wanted {
            let rng = &mut *ctx.rng;
            let Some(look) = ctx.db.look::<Zset>(key)? else {
                // It has expired meanwhile.
                self.run.clear();
                self.ranks.clear();
                break;
            };
            if self.len == 0 {
                (self.len, self.wanted) = (look.len(), self.wanted.min(look.len()));
            }
            for _ in 0..PIECE.min(self.wanted - self.ranks.len()) {
                let last = self.len - self.wanted + self.ranks.len();
                let picked = usize::try_from(rng.below(last as u64 + 1)).unwrap_or(last);
                let rank = if self.ranks.insert(picked) { picked } else { last };
                self.ranks.insert(rank);
                if let Some(pair) = look.pairs(Span { skip: rank, reverse: false }, 1).next() {
                    pair.put(look.slab, &mut self.run);
                }
            }
            if self.ranks.len() < self.wanted && budget.is_spent(1) {
                return Ok(None);
            }
        }
        let (with_scores, found) = (self.with_scores, self.ranks.len());
        if with_scores {
            scores_head(&mut ctx.reply, found)
        } else {
            members_head(&mut ctx.reply, found)
        }
        let nested = with_scores && ctx.reply.is_v3();
        Ok(Some(Output::Run { run: std::mem::take(&mut self.run), at: 0, with_scores, nested }))
    }

    fn bytes(&self) -> usize {
        self.name.capacity() + self.run.capacity() + self.ranks.capacity() * 2 * size_of::<usize>()
    }
}
