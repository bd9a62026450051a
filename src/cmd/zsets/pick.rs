//! Chance: ZRANDMEMBER.

use super::sliced::{Output, Work, at_once, in_slices};
use super::{AT_ONCE, PIECE, members_head, pair_head, plan, put_name, scores_head};
use crate::base::entry::Entries;
use crate::base::rng::Rng;
use crate::cmd::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use crate::cmd::many::OUT_HIGH_BYTES;
use crate::cmd::options::parse_int;
use crate::cmd::runs::Runs;
use crate::cmd::stream;
use crate::db::hold::Mode;
use crate::proto::errors;
use crate::types::Span;
use crate::types::zset::{Zset, score};
use std::collections::HashSet;

/// Members that are picked without a walk.
const DRAWN_MAX: usize = 2048;

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
    let ranks = Ranks { wanted, ..Ranks::default() };
    let work = Sample { name: args[1].to_vec(), with_scores, ranks, found: Runs::default() };
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

/// Different ranks, every selection of so many equally likely: few by R. W. Floyd's way (one random number for each), many by a walk over all
/// (Knuth's algorithm S), as a large `HashSet` would not grow in slices.
#[derive(Default)]
struct Ranks {
    wanted: usize,
    /// Ranks that there are; 0: it has not begun.
    len: usize,
    /// The next rank of a walk, and how many were picked.
    next: usize,
    found: usize,
    drawn: HashSet<usize>,
}

impl Ranks {
    fn begin(&mut self, len: usize) {
        (self.len, self.wanted) = (len, self.wanted.min(len));
    }

    fn is_complete(&self) -> bool {
        self.len > 0 && self.found == self.wanted
    }

    /// One more; `None`: the rank that was looked at is not picked.
    fn pick(&mut self, rng: &mut Rng) -> Option<usize> {
        let mut below = |bound: usize| usize::try_from(rng.below(bound as u64)).unwrap_or_default();
        let rank = if self.wanted > DRAWN_MAX {
            let rank = self.next;
            self.next += 1;
            if below(self.len - rank) >= self.wanted - self.found {
                return None;
            }
            rank
        } else {
            let last = self.len - self.wanted + self.found;
            let drawn = below(last + 1);
            let rank = if self.drawn.contains(&drawn) { last } else { drawn };
            self.drawn.insert(rank);
            rank
        };
        self.found += 1;
        Some(rank)
    }
}

/// Different members.
struct Sample {
    name: Vec<u8>,
    with_scores: bool,
    ranks: Ranks,
    found: Runs,
}

impl Work for Sample {
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<Option<Output>, Failure> {
        let key = ctx.key(&self.name);
        while !self.ranks.is_complete() {
            let rng = &mut *ctx.rng;
            let Some(look) = ctx.db.look::<Zset>(key)? else {
                // It has expired meanwhile.
                self.found = Runs::default();
                self.ranks.found = 0;
                break;
            };
            if self.ranks.len == 0 {
                self.ranks.begin(look.len());
            }
            for _ in 0..PIECE {
                if self.ranks.is_complete() {
                    break;
                }
                let Some(rank) = self.ranks.pick(rng) else { continue };
                if let Some(pair) = look.pairs(Span { skip: rank, reverse: false }, 1).next() {
                    self.found.push_with(|run| pair.put(look.slab, run));
                }
            }
            if !self.ranks.is_complete() && budget.is_spent(1) {
                return Ok(None);
            }
        }
        let (with_scores, found) = (self.with_scores, self.ranks.found);
        if with_scores {
            scores_head(&mut ctx.reply, found)
        } else {
            members_head(&mut ctx.reply, found)
        }
        let nested = with_scores && ctx.reply.is_v3();
        Ok(Some(Output::Runs { runs: std::mem::take(&mut self.found), with_scores, nested }))
    }

    fn bytes(&self) -> usize {
        self.name.capacity() + self.found.bytes() + self.ranks.drawn.capacity() * 2 * size_of::<usize>()
    }
}
