//! What takes out members by their place: ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREMRANGEBYLEX ZPOPMIN ZPOPMAX ZMPOP.

use super::members::report_removed;
use super::sliced::{Output, Work, held, in_slices};
use super::{AT_ONCE, Ends, PIECE, parse_lex_ends, parse_score_ends, ranks};
use crate::base::entry;
use crate::base::int;
use crate::cmd::ctx::{Args, Budget, Ctx, Failure, Outcome};
use crate::cmd::event::Event;
use crate::cmd::options::parse_int;
use crate::cmd::runs::Runs;
use crate::db::collections::Missing;
use crate::db::hold::Mode;
use crate::db::waiters::End;
use crate::db::{DbError, Key};
use crate::proto::errors;
use crate::types::zset::Zset;
use crate::types::{Edit, Look};

// ---- ZREMRANGEBY... ----

/// Which elements, of a set whose size is not known yet.
enum Place<'a> {
    Ranks(i64, i64),
    Between(Ends<'a>),
}

type Parse = for<'a> fn(Args<'a>) -> Result<Place<'a>, Failure>;

impl Place<'_> {
    /// The rank of the first, and how many.
    fn of(&self, look: Look<'_, Zset>) -> (usize, usize) {
        match *self {
            Place::Ranks(start, stop) => ranks(start, stop, look.len()),
            Place::Between((min, max)) => {
                let first = look.count_before(min);
                (first, look.count_before(max).saturating_sub(first))
            }
        }
    }
}

/// `ZREMRANGEBYRANK key start stop`
pub fn zremrangebyrank(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    remove_range(ctx, args, Event::ZRemRangeByRank, |args| Ok(Place::Ranks(parse_int(args[2])?, parse_int(args[3])?)))
}

/// `ZREMRANGEBYSCORE key min max`
pub fn zremrangebyscore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    remove_range(ctx, args, Event::ZRemRangeByScore, |args| Ok(Place::Between(parse_score_ends(args[2], args[3])?)))
}

/// `ZREMRANGEBYLEX key min max`
pub fn zremrangebylex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    remove_range(ctx, args, Event::ZRemRangeByLex, |args| Ok(Place::Between(parse_lex_ends(args[2], args[3])?)))
}

fn remove_range(ctx: &mut Ctx<'_>, args: Args<'_>, event: Event, parse: Parse) -> Outcome {
    let place = match parse(args) {
        Ok(place) => place,
        Err(failure) => return ctx.fail(failure),
    };
    let key = ctx.first_key(args[1]);
    let count = match ctx.db.look::<Zset>(key) {
        Ok(look) => look.map_or(0, |look| place.of(look).1),
        Err(error) => return ctx.fail(error),
    };
    if count <= AT_ONCE {
        return ctx.attempt(|ctx| {
            let done = ctx.db.edit::<Zset, _>(key, Missing::Skip, |edit| {
                let (first, count) = place.of(edit.look());
                Ok((edit.remove_ranks(first, count, |_, _| {}), edit.look().is_empty()))
            })?;
            let (removed, is_empty) = done.unwrap_or_default();
            report_removed(ctx, key, event, removed, is_empty);
            ctx.reply.count(removed);
            Ok(())
        });
    }
    let args: Vec<Vec<u8>> = args.iter().map(|argument| argument.to_vec()).collect();
    in_slices(ctx, vec![args[1].clone()], Mode::Exclusive, Removal { args, event, parse, begun: None, removed: 0 })
}

/// Takes out a range of many elements.
struct Removal {
    args: Vec<Vec<u8>>,
    event: Event,
    parse: Parse,
    /// The rank of the first, and how many.
    begun: Option<(usize, usize)>,
    removed: usize,
}

impl Removal {
    fn finish(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, count: usize, is_empty: bool) -> Output {
        report_removed(ctx, key, self.event, count, is_empty);
        ctx.reply.count(count);
        Output::Written
    }
}

impl Work for Removal {
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<Option<Output>, Failure> {
        let args = std::mem::take(&mut self.args);
        let key = ctx.key(&args[1]);
        let done = self.step(ctx, key, &args, budget);
        self.args = args;
        done
    }

    fn must_finish(&self) -> bool {
        self.removed > 0
    }

    fn bytes(&self) -> usize {
        self.args.iter().map(|argument| argument.capacity() + size_of::<Vec<u8>>()).sum()
    }
}

impl Removal {
    fn step(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: Key<'_>,
        args: &[Vec<u8>],
        budget: &mut Budget,
    ) -> Result<Option<Output>, Failure> {
        let (first, count) = match self.begun {
            Some(begun) => begun,
            None => {
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                let place = (self.parse)(&args)?;
                let Some(look) = ctx.db.look::<Zset>(key)? else { return Ok(Some(self.finish(ctx, key, 0, false))) };
                let ((first, count), len) = (place.of(look), look.len());
                if count == len {
                    // All of them: the key goes, and its memory in the background.
                    ctx.db.remove(key);
                    return Ok(Some(self.finish(ctx, key, count, true)));
                }
                self.begun = Some((first, count));
                (first, count)
            }
        };
        while self.removed < count {
            let n = PIECE.min(count - self.removed);
            let done = ctx.db.edit::<Zset, _>(key, Missing::Skip, |edit| Ok(edit.remove_ranks(first, n, |_, _| {})))?;
            // None: it has expired meanwhile, which removes as well.
            self.removed = if done.is_some() { self.removed + n } else { count };
            if self.removed < count && budget.is_spent(1) {
                return Ok(None);
            }
        }
        Ok(Some(self.finish(ctx, key, count, false)))
    }
}

// ---- Pops ----

/// How popped elements are written.
#[derive(Clone, Copy)]
pub(super) enum Style {
    /// One behind the other.
    Flat,
    /// Pairs.
    Nested,
    /// The key, then pairs.
    Keyed,
}

impl Style {
    fn head(self, ctx: &mut Ctx<'_>, name: &[u8], elements: usize) {
        match self {
            Style::Flat => ctx.reply.array(2 * elements),
            Style::Nested => ctx.reply.array(elements),
            Style::Keyed => {
                ctx.reply.array(2);
                ctx.reply.bulk(name);
                ctx.reply.array(elements);
            }
        }
    }

    fn output(self, runs: Runs) -> Output {
        Output::Runs { runs, with_scores: true, nested: !matches!(self, Style::Flat) }
    }
}

fn event_of(from: End) -> Event {
    match from {
        End::First => Event::ZPopMin,
        End::Last => Event::ZPopMax,
    }
}

/// Takes out up to `count` elements from an end and appends them to a run; how many.
fn pop(edit: &mut Edit<'_, Zset>, from: End, count: usize, run: &mut Vec<u8>) -> usize {
    if from == End::First {
        return edit.remove_ranks(0, count, |slab, pair| pair.put(slab, run));
    }
    let len = edit.look().len();
    let count = count.min(len);
    let (mut ascending, mut starts) = (Vec::new(), Vec::with_capacity(count));
    edit.remove_ranks(len - count, count, |slab, pair| {
        starts.push(ascending.len());
        pair.put(slab, &mut ascending);
    });
    for start in starts.into_iter().rev() {
        let pair = &ascending[start..];
        let member = entry::span(pair);
        run.extend_from_slice(&pair[..member + entry::span(&pair[member..])]);
    }
    count
}

/// Takes up to `count` elements from an end of a key, for who waits for them; a run. `None`: there is no such key.
///
/// # Errors
/// Of another type.
pub fn take(ctx: &mut Ctx<'_>, key: Key<'_>, from: End, count: usize) -> Result<Option<Vec<u8>>, DbError> {
    let mut run = Vec::new();
    let done = ctx
        .db
        .edit::<Zset, _>(key, Missing::Skip, |edit| Ok((pop(edit, from, count, &mut run), edit.look().is_empty())))?;
    let Some((popped, is_empty)) = done else { return Ok(None) };
    report_removed(ctx, key, event_of(from), popped, is_empty);
    Ok(Some(run))
}

/// Takes up to `count` elements for a client that has waited for them and for which the name of the key is held.
pub fn take_reserved(ctx: &mut Ctx<'_>, key: Key<'_>, from: End, count: usize) -> Outcome {
    let name = key.bytes.to_vec();
    held(ctx, Pop { name, from, left: count, style: Style::Keyed, runs: Runs::default(), popped: 0 })
}

/// Pops from a key that is there.
pub(super) fn pop_and_reply(ctx: &mut Ctx<'_>, name: &[u8], from: End, count: usize, style: Style) -> Outcome {
    let key = ctx.key(name);
    let len = match ctx.db.look::<Zset>(key) {
        Ok(look) => look.map_or(0, |look| look.len()),
        Err(error) => return ctx.fail(error),
    };
    let count = count.min(len);
    if count > AT_ONCE {
        let work = Pop { name: name.to_vec(), from, left: count, style, runs: Runs::default(), popped: 0 };
        return in_slices(ctx, vec![name.to_vec()], Mode::Exclusive, work);
    }
    let mut run = Vec::with_capacity(PAIR_BYTES * count);
    ctx.attempt(|ctx| {
        let done = ctx.db.edit::<Zset, _>(key, Missing::Skip, |edit| {
            Ok((pop(edit, from, count, &mut run), edit.look().is_empty()))
        })?;
        let (popped, is_empty) = done.unwrap_or((0, false));
        report_removed(ctx, key, event_of(from), popped, is_empty);
        style.head(ctx, name, popped);
        let mut runs = Runs::default();
        runs.push_run(&run, popped);
        let mut output = style.output(runs);
        while !output.write_piece(ctx) {}
        Ok(())
    })
}

/// Room for a member and its score in a run, mostly.
const PAIR_BYTES: usize = 48;

struct Pop {
    name: Vec<u8>,
    from: End,
    left: usize,
    style: Style,
    runs: Runs,
    popped: usize,
}

impl Work for Pop {
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<Option<Output>, Failure> {
        let key = ctx.key(&self.name);
        let mut emptied = false;
        while self.left > 0 {
            let n = PIECE.min(self.left);
            let (from, mut run) = (self.from, Vec::with_capacity(PAIR_BYTES * n));
            let done = ctx.db.edit::<Zset, _>(key, Missing::Skip, |edit| {
                Ok((pop(edit, from, n, &mut run), edit.look().is_empty()))
            })?;
            let (popped, is_empty) = done.unwrap_or((0, false));
            self.runs.push_run(&run, popped);
            emptied |= is_empty;
            self.popped += popped;
            self.left -= n;
            if popped < n || is_empty {
                break;
            }
            if self.left > 0 && budget.is_spent(1) {
                return Ok(None);
            }
        }
        report_removed(ctx, key, event_of(self.from), self.popped, emptied);
        self.style.head(ctx, &self.name, self.popped);
        Ok(Some(self.style.output(std::mem::take(&mut self.runs))))
    }

    fn must_finish(&self) -> bool {
        self.popped > 0
    }

    fn bytes(&self) -> usize {
        self.name.capacity() + self.runs.bytes()
    }
}

/// `ZPOPMIN key [count]`
pub fn zpopmin(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    pop_command(ctx, args, End::First)
}

/// `ZPOPMAX key [count]`
pub fn zpopmax(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    pop_command(ctx, args, End::Last)
}

fn pop_command(ctx: &mut Ctx<'_>, args: Args<'_>, from: End) -> Outcome {
    let count = match args[2..] {
        [] => None,
        [count] => match int::parse_i64(count).and_then(|n| usize::try_from(n).ok()) {
            Some(count) => Some(count),
            None => return ctx.fail(errors::NOT_POSITIVE),
        },
        _ => return ctx.fail(errors::SYNTAX),
    };
    let style = if count.is_some() && ctx.reply.is_v3() { Style::Nested } else { Style::Flat };
    pop_and_reply(ctx, args[1], from, count.unwrap_or(1), style)
}

/// The arguments of ZMPOP behind its name (and a timeout): where the keys are, the end, the count.
pub(super) struct ManyPop<'a> {
    pub keys: &'a [&'a [u8]],
    pub from: End,
    pub count: usize,
}

impl<'a> ManyPop<'a> {
    /// `numkeys key [key ...] MIN | MAX [COUNT count]`
    pub(super) fn parse(args: &'a [&'a [u8]]) -> Result<ManyPop<'a>, Failure> {
        let positive =
            |argument: &[u8]| int::parse_i64(argument).and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0);
        let numkeys = positive(args[0]).ok_or(errors::NUMKEYS_POSITIVE)?;
        let rest = args[1..].get(numkeys..).filter(|rest| !rest.is_empty()).ok_or(errors::SYNTAX)?;
        let from = match &*rest[0].to_ascii_lowercase() {
            b"min" => End::First,
            b"max" => End::Last,
            _ => return Err(errors::SYNTAX.into()),
        };
        let count = match rest[1..] {
            [] => 1,
            [word, count] if word.eq_ignore_ascii_case(b"count") => positive(count).ok_or(errors::COUNT_POSITIVE)?,
            // A further COUNT is looked at only after the first was found good.
            [word, count, ..] if word.eq_ignore_ascii_case(b"count") => {
                positive(count).ok_or(errors::COUNT_POSITIVE)?;
                return Err(errors::SYNTAX.into());
            }
            _ => return Err(errors::SYNTAX.into()),
        };
        Ok(ManyPop { keys: &args[1..=numkeys], from, count })
    }
}

/// `ZMPOP numkeys key [key ...] MIN | MAX [COUNT count]`
pub fn zmpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let parsed = match ManyPop::parse(&args[1..]) {
        Ok(parsed) => parsed,
        Err(failure) => return ctx.fail(failure),
    };
    for &name in parsed.keys {
        let key = ctx.key(name);
        match ctx.db.look::<Zset>(key) {
            Ok(None) => {}
            Ok(Some(_)) => return pop_and_reply(ctx, name, parsed.from, parsed.count, Style::Keyed),
            Err(error) => return ctx.fail(error),
        }
    }
    ctx.reply.null_array();
    Outcome::Done
}
