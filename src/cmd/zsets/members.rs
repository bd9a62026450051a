//! Commands that name members: ZADD ZINCRBY ZREM ZCARD ZSCORE ZMSCORE ZRANK ZREVRANK; and counting: ZCOUNT ZLEXCOUNT.

use super::{Ends, parse_lex_ends, parse_score, parse_score_ends};
use crate::cmd::ctx::{Args, Ctx, Failure, Outcome};
use crate::cmd::event::Event;
use crate::db::collections::Missing;
use crate::db::{DbError, Key};
use crate::proto::errors;
use crate::types::Edit;
use crate::types::zset::{Put, Zset};

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
pub(super) struct Options {
    nx: bool,
    pub(super) xx: bool,
    gt: bool,
    lt: bool,
    pub(super) ch: bool,
    incr: bool,
}

impl Options {
    /// Reads them, and where the pairs begin; `get` tells an argument.
    #[inline]
    pub(super) fn parse<'a>(argc: usize, get: impl Fn(usize) -> &'a [u8]) -> Result<(Options, usize), Failure> {
        let (mut options, mut at) = (Options::default(), 2);
        while at < argc {
            let word = get(at);
            match word.len() {
                2 if word.eq_ignore_ascii_case(b"nx") => options.nx = true,
                2 if word.eq_ignore_ascii_case(b"xx") => options.xx = true,
                2 if word.eq_ignore_ascii_case(b"gt") => options.gt = true,
                2 if word.eq_ignore_ascii_case(b"lt") => options.lt = true,
                2 if word.eq_ignore_ascii_case(b"ch") => options.ch = true,
                4 if word.eq_ignore_ascii_case(b"incr") => options.incr = true,
                _ => break,
            }
            at += 1;
        }
        let pairs = argc - at;
        if pairs == 0 || !pairs.is_multiple_of(2) {
            return Err(errors::SYNTAX.into());
        }
        if options.nx && options.xx {
            return Err(errors::ZADD_NX_AND_XX.into());
        }
        if options.gt && options.lt || options.nx && (options.gt || options.lt) {
            return Err(errors::ZADD_GT_LT_NX.into());
        }
        if options.incr && pairs > 2 {
            return Err(errors::ZADD_INCR_PAIR.into());
        }
        Ok((options, at))
    }

    /// The score of a member after it is given `score`, or why it has none.
    #[inline]
    fn decide(self, old: Option<f64>, score: f64) -> Result<f64, Kept> {
        let Some(old) = old else { return if self.xx { Err(Kept::AsItIs) } else { Ok(score) } };
        if self.nx {
            return Err(Kept::AsItIs);
        }
        let score = if self.incr { old + score } else { score };
        if score.is_nan() {
            return Err(Kept::NotANumber);
        }
        if self.lt && score >= old || self.gt && score <= old {
            return Err(Kept::AsItIs);
        }
        Ok(score)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    AsItIs,
    NotANumber,
}

/// What ZADD has done.
#[derive(Default)]
pub(super) struct Done {
    pub(super) added: usize,
    pub(super) changed: usize,
    /// The score of the last member, unless a condition kept it as it was.
    score: Option<f64>,
    not_a_number: bool,
}

impl Done {
    pub(super) fn put(
        &mut self,
        edit: &mut Edit<'_, Zset>,
        options: Options,
        score: f64,
        member: &[u8],
    ) -> Result<(), DbError> {
        let mut decided = Err(Kept::AsItIs);
        let put = edit.put(member, |old| {
            decided = options.decide(old, score);
            // The two zeros are one score.
            decided.ok().filter(|&score| old != Some(score))
        })?;
        match put {
            Put::Added => self.added += 1,
            Put::Changed => self.changed += 1,
            Put::Nothing => {}
        }
        self.score = decided.ok();
        self.not_a_number = decided == Err(Kept::NotANumber);
        Ok(())
    }
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]`
pub fn zadd(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let (options, at) = Options::parse(args.len(), |i| args[i])?;
        add(ctx, args[1], options, &args[at..])
    })
}

/// `ZINCRBY key increment member`
pub fn zincrby(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| add(ctx, args[1], Options { incr: true, ..Options::default() }, &args[2..]))
}

fn add(ctx: &mut Ctx<'_>, name: &[u8], options: Options, pairs: Args<'_>) -> Result<(), Failure> {
    // One pair is the common case; of several, all scores are looked at before anything is done.
    let (first, mut rest) = (parse_score(pairs[0])?, Vec::new());
    if pairs.len() > 2 {
        rest.reserve_exact(pairs.len() / 2 - 1);
        for pair in pairs[2..].chunks_exact(2) {
            rest.push(parse_score(pair[0])?);
        }
    }
    let key = ctx.first_key(name);
    let missing = if options.xx { Missing::Skip } else { Missing::Create };
    let mut done = Done::default();
    let mut failed = Ok(());
    ctx.db.edit::<Zset, ()>(key, missing, |edit| {
        let scores = std::iter::once(first).chain(rest.iter().copied());
        for (score, pair) in scores.zip(pairs.chunks_exact(2)) {
            // What was done before it stays done.
            failed = done.put(edit, options, score, pair[1]);
            if failed.is_err() || done.not_a_number {
                break;
            }
        }
        Ok(())
    })?;
    let changes = done.added + done.changed;
    if changes > 0 {
        ctx.report(key, if options.incr { Event::ZIncr } else { Event::ZAdd });
        ctx.change(changes as u64 - 1);
    }
    failed?;
    if done.not_a_number {
        return Err(errors::SCORE_NAN.into());
    }
    match done.score {
        Some(score) if options.incr => ctx.reply.double(score),
        None if options.incr => ctx.reply.null(),
        _ => ctx.reply.count(if options.ch { changes } else { done.added }),
    }
    Ok(())
}

/// Reports that elements were removed from a key, which may be empty now.
pub(super) fn report_removed(ctx: &mut Ctx<'_>, key: Key<'_>, event: Event, removed: usize, is_empty: bool) {
    if removed > 0 {
        ctx.report(key, event);
        ctx.change(removed as u64 - 1);
    }
    if is_empty {
        ctx.also(key, Event::Del);
    }
}

/// `ZREM key member [member ...]`
pub fn zrem(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let key = ctx.first_key(args[1]);
        let done = ctx.db.edit::<Zset, _>(key, Missing::Skip, |edit| {
            let removed = args[2..].iter().filter(|member| edit.remove(member).is_some()).count();
            Ok((removed, edit.look().is_empty()))
        })?;
        let (removed, is_empty) = done.unwrap_or_default();
        report_removed(ctx, key, Event::ZRem, removed, is_empty);
        ctx.reply.count(removed);
        Ok(())
    })
}

/// `ZCARD key`
pub fn zcard(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let len = ctx.db.read::<Zset>(ctx.first_key(args[1]))?.map_or(0, |look| look.len());
        ctx.reply.count(len);
        Ok(())
    })
}

/// `ZSCORE key member`
pub fn zscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        match ctx.db.read::<Zset>(ctx.first_key(args[1]))?.and_then(|look| look.score(args[2])) {
            Some(score) => ctx.reply.double(score),
            None => ctx.reply.null(),
        }
        Ok(())
    })
}

/// `ZMSCORE key member [member ...]`
pub fn zmscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let look = ctx.db.read::<Zset>(ctx.first_key(args[1]))?;
        ctx.reply.array(args.len() - 2);
        for member in &args[2..] {
            match look.and_then(|look| look.score(member)) {
                Some(score) => ctx.reply.double(score),
                None => ctx.reply.null(),
            }
        }
        Ok(())
    })
}

/// `ZRANK key member [WITHSCORE]`
pub fn zrank(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    rank(ctx, args, false)
}

/// `ZREVRANK key member [WITHSCORE]`
pub fn zrevrank(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    rank(ctx, args, true)
}

fn rank(ctx: &mut Ctx<'_>, args: Args<'_>, reverse: bool) -> Outcome {
    ctx.attempt(|ctx| {
        let with_score = match args[3..] {
            [] => false,
            [word] if word.eq_ignore_ascii_case(b"withscore") => true,
            [_] => return Err(errors::SYNTAX.into()),
            _ => {
                let name = if reverse { "zrevrank" } else { "zrank" };
                return Err(errors::wrong_number_of_arguments(name).into());
            }
        };
        let look = ctx.db.read::<Zset>(ctx.first_key(args[1]))?;
        let found = look.and_then(|look| {
            let (rank, score) = look.rank(args[2])?;
            Some((if reverse { look.len() - 1 - rank } else { rank }, score))
        });
        match found {
            Some((rank, score)) if with_score => {
                ctx.reply.array(2);
                ctx.reply.count(rank);
                ctx.reply.double(score);
            }
            Some((rank, _)) => ctx.reply.count(rank),
            None if with_score => ctx.reply.null_array(),
            None => ctx.reply.null(),
        }
        Ok(())
    })
}

/// `ZCOUNT key min max`
pub fn zcount(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| count(ctx, args, parse_score_ends(args[2], args[3])?))
}

/// `ZLEXCOUNT key min max`
pub fn zlexcount(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| count(ctx, args, parse_lex_ends(args[2], args[3])?))
}

fn count(ctx: &mut Ctx<'_>, args: Args<'_>, (min, max): Ends<'_>) -> Result<(), Failure> {
    let look = ctx.db.read::<Zset>(ctx.first_key(args[1]))?;
    let count = look.map_or(0, |look| look.count_before(max).saturating_sub(look.count_before(min)));
    ctx.reply.count(count);
    Ok(())
}
