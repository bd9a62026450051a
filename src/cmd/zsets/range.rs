//! Ranges of members, by rank, score or name: ZRANGE and its older forms, ZRANGESTORE.

use super::sliced::{Output, Work, at_once, in_slices};
use super::{AT_ONCE, Ends, PIECE, pair_head, parse_lex_ends, parse_score_ends, plan, put_name, ranks};
use crate::cmd::ctx::{Args, Budget, Ctx, Failure, Outcome};
use crate::cmd::event::Event;
use crate::cmd::options::parse_int;
use crate::cmd::stream;
use crate::db::hold::Mode;
use crate::db::view::Deadline;
use crate::db::{Db, DbError};
use crate::proto::errors;
use crate::types::zset::Zset;
use crate::types::{Body, Look, Span};

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// What a command of this family leaves to its arguments.
#[derive(Clone, Copy)]
struct Form {
    /// `None`: BYSCORE and BYLEX say it.
    by: Option<By>,
    /// `None`: REV says it.
    reverse: Option<bool>,
    /// The result goes to the key that is named first.
    store: bool,
}

/// A range of a set whose size is not known yet.
enum Range<'a> {
    Ranks { start: i64, stop: i64 },
    Between { ends: Ends<'a>, offset: i64, limit: i64 },
}

struct Parsed<'a> {
    range: Range<'a>,
    reverse: bool,
    with_scores: bool,
}

impl<'a> Range<'a> {
    /// Which elements of a set it has, from the end where it begins.
    fn of(&self, look: Look<'_, Zset>, reverse: bool) -> (Span, usize) {
        let len = look.len();
        let (skip, count) = match *self {
            Range::Ranks { start, stop } => ranks(start, stop, len),
            Range::Between { ends: (min, max), offset, limit } => {
                let (from, to) = (look.count_before(min), look.count_before(max));
                let count = to.saturating_sub(from);
                // A negative offset leaves nothing, a negative limit is none.
                let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(count);
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                let skip = if reverse { len - to.max(from) } else { from };
                (skip + offset, (count - offset).min(limit))
            }
        };
        (Span { skip, reverse }, count)
    }

    fn parse(args: Args<'a>, form: Form) -> Result<Parsed<'a>, Failure> {
        let at = if form.store { 3 } else { 2 };
        let (mut by, mut reverse, mut with_scores) = (form.by, form.reverse, false);
        let (mut offset, mut limit) = (0, -1);
        let mut rest = args[at + 2..].iter();
        while let Some(word) = rest.next() {
            match &*word.to_ascii_lowercase() {
                b"withscores" if !form.store => with_scores = true,
                b"limit" if rest.len() >= 2 => {
                    let (Some(first), Some(second)) = (rest.next(), rest.next()) else { unreachable!("two are left") };
                    (offset, limit) = (parse_int(first)?, parse_int(second)?);
                }
                b"rev" if reverse.is_none() => reverse = Some(true),
                b"bylex" if by.is_none() => by = Some(By::Lex),
                b"byscore" if by.is_none() => by = Some(By::Score),
                _ => return Err(errors::SYNTAX.into()),
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if limit != -1 && by == By::Rank {
            return Err(errors::ZRANGE_LIMIT.into());
        }
        if with_scores && by == By::Lex {
            return Err(errors::ZRANGE_SCORES_BY_LEX.into());
        }
        let (first, second) = (args[at], args[at + 1]);
        let (min, max) = if reverse { (second, first) } else { (first, second) };
        let range = match by {
            By::Rank => Range::Ranks { start: parse_int(first)?, stop: parse_int(second)? },
            By::Score => Range::Between { ends: parse_score_ends(min, max)?, offset, limit },
            By::Lex => Range::Between { ends: parse_lex_ends(min, max)?, offset, limit },
        };
        Ok(Parsed { range, reverse, with_scores })
    }
}

fn range(ctx: &mut Ctx<'_>, args: Args<'_>, by: Option<By>, reverse: Option<bool>) -> Outcome {
    let parsed = match Range::parse(args, Form { by, reverse, store: false }) {
        Ok(parsed) => parsed,
        Err(failure) => return ctx.fail(failure),
    };
    match write(ctx, args[1], &parsed) {
        Ok(outcome) => outcome,
        Err(failure) => ctx.fail(failure),
    }
}

fn write(ctx: &mut Ctx<'_>, name: &[u8], parsed: &Parsed<'_>) -> Result<Outcome, Failure> {
    let key = ctx.first_key(name);
    let Some(look) = ctx.db.read::<Zset>(key)? else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let (span, count) = parsed.range.of(look, parsed.reverse);
    let plan = plan(span, count, parsed.with_scores);
    if count > AT_ONCE {
        return Ok(stream::elements::<Zset>(ctx, key, plan)?.unwrap_or(Outcome::Done));
    }
    (plan.head)(&mut ctx.reply, count);
    for pair in look.pairs(span, count) {
        if parsed.with_scores {
            pair_head(&mut ctx.reply);
        }
        put_name(&mut ctx.reply, look.slab, pair.name);
        if parsed.with_scores {
            ctx.reply.double(pair.score);
        }
    }
    Ok(Outcome::Done)
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub fn zrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    range(ctx, args, None, None)
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub fn zrevrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    range(ctx, args, Some(By::Rank), Some(true))
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub fn zrangebyscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    range(ctx, args, Some(By::Score), Some(false))
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub fn zrevrangebyscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    range(ctx, args, Some(By::Score), Some(true))
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub fn zrangebylex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    range(ctx, args, Some(By::Lex), Some(false))
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub fn zrevrangebylex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    range(ctx, args, Some(By::Lex), Some(true))
}

// ---- ZRANGESTORE ----

/// `ZRANGESTORE destination source start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub fn zrangestore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let count = match count_to_store(ctx, args) {
        Ok(count) => count,
        Err(failure) => return ctx.fail(failure),
    };
    let args: Vec<Vec<u8>> = args.iter().map(|argument| argument.to_vec()).collect();
    let names = vec![args[1].clone(), args[2].clone()];
    let work = Store { args, begun: None, body: Body::default() };
    if count > AT_ONCE { in_slices(ctx, names, Mode::Shared, work) } else { at_once(ctx, work) }
}

/// How many elements there are to copy; and whatever is wrong with the arguments.
fn count_to_store(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<usize, Failure> {
    let parsed = Range::parse(args, TO_STORE)?;
    let from = ctx.key(args[2]);
    let look = ctx.db.read::<Zset>(from)?;
    Ok(look.map_or(0, |look| parsed.range.of(look, parsed.reverse).1))
}

const TO_STORE: Form = Form { by: None, reverse: None, store: true };

/// Puts a result in its place, reports it and replies with its size.
pub(super) fn store(ctx: &mut Ctx<'_>, name: &[u8], body: &mut Body<Zset>, event: Event) -> Result<(), DbError> {
    let key = ctx.key(name);
    let len = ctx.db.with_body(key, body, |edit| edit.look().len());
    let was_there = ctx.db.store(key, std::mem::take(body), Deadline::None)?;
    if len > 0 {
        ctx.report(key, event);
    } else if was_there {
        ctx.report(key, Event::Del);
    }
    ctx.reply.count(len);
    Ok(())
}

/// Copies a range.
struct Store {
    args: Vec<Vec<u8>>,
    /// Which elements, and how many of them are copied.
    begun: Option<(Span, usize, usize)>,
    body: Body<Zset>,
}

impl Work for Store {
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<Option<Output>, Failure> {
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        let (to, from) = (ctx.key(args[1]), ctx.key(args[2]));
        let mut run = Vec::new();
        loop {
            let Some(look) = ctx.db.look::<Zset>(from)? else {
                // Should it have expired meanwhile, nothing of it is stored.
                ctx.db.drop_body(to, std::mem::take(&mut self.body));
                break;
            };
            let (span, count, copied) = match self.begun {
                Some(begun) => begun,
                None => {
                    let parsed = Range::parse(&args, TO_STORE)?;
                    let (span, count) = parsed.range.of(look, parsed.reverse);
                    (span, count, 0)
                }
            };
            let n = PIECE.min(count - copied);
            run.clear();
            let piece = Span { skip: span.skip + copied, ..span };
            look.pairs(piece, n).for_each(|pair| pair.put(look.slab, &mut run));
            ctx.db.extend_body::<Zset>(to, &mut self.body, &run)?;
            self.begun = Some((span, count, copied + n));
            if copied + n == count {
                break;
            }
            if budget.is_spent(1) {
                return Ok(None);
            }
        }
        store(ctx, args[1], &mut self.body, Event::ZRangeStore)?;
        Ok(Some(Output::Written))
    }

    fn bytes(&self) -> usize {
        self.args.iter().map(|argument| argument.capacity() + size_of::<Vec<u8>>()).sum()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        let to = db.key(&self.args[1]);
        db.drop_body(to, std::mem::take(&mut self.body));
    }
}
