//! Walks with a cursor over the elements of a key: HSCAN SSCAN ZSCAN; and the options that they have in common with SCAN. Owns cursors, patterns and
//! counts; how a type is walked is the type's ([`Walked`]).
//!
//! What is visited need not be of one instant: nor is what several calls visit. So a large COUNT goes on in slices, without holding anything.

use super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::options::parse_int;
use super::runs::Runs;
use crate::base::entry;
use crate::base::float;
use crate::base::glob::glob_matches;
use crate::base::int;
use crate::db::containers::Stored;
use crate::proto::errors;
use crate::types::Look;
use crate::types::hash::{Field, Hash};
use crate::types::set::{Member, Set};
use crate::types::zset::{Pair, Zset};
use dolmen_slab::Slab;

/// Elements visited without COUNT.
const COUNT: u64 = 10;
/// Steps for each element asked for, at most: places of a table may be empty.
const STEPS_EACH: u64 = 10;
/// Elements of a set between two looks at the clock; steps of the others.
const VISITS: usize = 32;
const STEPS_PER_LOOK: u32 = 8;

/// A cursor as C's `strtoul` reads it: a sign is allowed (a negative number counts from 2^64), a NUL ends it, and nothing at all is 0.
pub fn parse_cursor(argument: &[u8]) -> Option<u64> {
    let argument = argument.split(|byte| *byte == 0).next().unwrap_or_default();
    let (negative, digits) = match argument {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |n, byte| {
        byte.is_ascii_digit().then_some(())?;
        n.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })?;
    Some(if negative { number.wrapping_neg() } else { number })
}

/// `[MATCH pattern] [COUNT count]`, and what only some commands know.
pub struct Options<'a> {
    /// `None`: all.
    pub pattern: Option<&'a [u8]>,
    pub count: u64,
    /// `TYPE type`
    pub kind: Option<&'a [u8]>,
    /// NOVALUES
    pub names_only: bool,
}

/// The option that only one command knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Own {
    None,
    Type,
    NoValues,
}

impl<'a> Options<'a> {
    /// # Errors
    /// The texts that Redis answers.
    pub fn parse(words: Args<'a>, own: Own) -> Result<Options<'a>, Failure> {
        let mut options = Options { pattern: None, count: COUNT, kind: None, names_only: false };
        let mut rest = words.iter();
        while let Some(option) = rest.next() {
            let option = option.to_ascii_lowercase();
            if own == Own::NoValues && option == b"novalues" {
                options.names_only = true;
                continue;
            }
            let value = *rest.next().ok_or(errors::SYNTAX)?;
            match &*option {
                b"match" => options.pattern = Some(value).filter(|pattern| *pattern != b"*"),
                b"count" => {
                    let count = u64::try_from(parse_int(value)?).ok().filter(|count| *count > 0);
                    options.count = count.ok_or(errors::SYNTAX)?;
                }
                b"type" if own == Own::Type => options.kind = Some(value),
                _ => return Err(errors::SYNTAX.into()),
            }
        }
        Ok(options)
    }

    /// Steps that may be taken for what is asked.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.count.saturating_mul(STEPS_EACH)
    }
}

/// A type whose elements can be walked.
trait Walked: Stored {
    type Element<'a>;
    const OWN: Own = Own::None;

    /// Visits a few elements from a cursor on (0: from the beginning), about `count` at most; the next cursor, 0 at the end.
    fn walk<'a>(look: Look<'a, Self>, cursor: u64, count: usize, visit: impl FnMut(Self::Element<'a>)) -> u64;

    fn is_there(_: &Self::Element<'_>, _now_ms: u64) -> bool {
        true
    }

    /// Appends the text that patterns are matched with.
    fn put_name(element: &Self::Element<'_>, slab: &Slab, text: &mut Vec<u8>);

    /// Appends what is told of an element.
    fn put(element: &Self::Element<'_>, slab: &Slab, names_only: bool, found: &mut Runs);
}

impl Walked for Hash {
    type Element<'a> = Field<'a>;
    const OWN: Own = Own::NoValues;

    fn walk<'a>(look: Look<'a, Hash>, cursor: u64, _: usize, visit: impl FnMut(Field<'a>)) -> u64 {
        look.scan(cursor, visit)
    }

    fn is_there(field: &Field<'_>, now_ms: u64) -> bool {
        field.is_there(now_ms)
    }

    fn put_name(field: &Field<'_>, slab: &Slab, text: &mut Vec<u8>) {
        field.name.append(slab, text);
    }

    fn put(field: &Field<'_>, slab: &Slab, names_only: bool, found: &mut Runs) {
        found.push_with(|run| field.name.append_entry(slab, run));
        if !names_only {
            found.push_with(|run| field.value.append_entry(slab, run));
        }
    }
}

impl Walked for Set {
    type Element<'a> = Member<'a>;

    fn walk<'a>(look: Look<'a, Set>, cursor: u64, count: usize, visit: impl FnMut(Member<'a>)) -> u64 {
        look.scan(cursor, count, visit)
    }

    fn put_name(member: &Member<'_>, slab: &Slab, text: &mut Vec<u8>) {
        let start = text.len();
        member.put(slab, text);
        let Some((member, _)) = entry::split(&text[start..]) else { unreachable!("it was put there") };
        let name = member.to_vec();
        text.truncate(start);
        text.extend_from_slice(&name);
    }

    fn put(member: &Member<'_>, slab: &Slab, _: bool, found: &mut Runs) {
        found.push_with(|run| member.put(slab, run));
    }
}

impl Walked for Zset {
    type Element<'a> = Pair<'a>;

    fn walk<'a>(look: Look<'a, Zset>, cursor: u64, _: usize, visit: impl FnMut(Pair<'a>)) -> u64 {
        look.scan(cursor, visit)
    }

    fn put_name(pair: &Pair<'_>, slab: &Slab, text: &mut Vec<u8>) {
        pair.name.append_to(slab, text);
    }

    fn put(pair: &Pair<'_>, slab: &Slab, _: bool, found: &mut Runs) {
        found.push_with(|run| {
            let start = run.len();
            pair.put(slab, run);
            // Without the score, which is told otherwise.
            run.truncate(start + entry::span(&run[start..]));
        });
        // A text in RESP3, too.
        found.push_with(|run| entry::put(run, float::write(&mut [0; float::MAX_BYTES], pair.score)));
    }
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
pub fn hscan(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    scan::<Hash>(ctx, args)
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn sscan(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    scan::<Set>(ctx, args)
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn zscan(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    scan::<Zset>(ctx, args)
}

fn scan<B: Walked + 'static>(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match begin::<B>(ctx, args) {
        Ok(mut scan) => {
            if scan.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
                return Outcome::Done;
            }
            ctx.suspend(Box::new(scan))
        }
        Err(failure) => ctx.fail(failure),
    }
}

fn begin<B: Walked>(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Scan<B>, Failure> {
    let key = ctx.first_key(args[1]);
    let cursor = parse_cursor(args[2]).ok_or(errors::INVALID_CURSOR)?;
    // Of a key that is not there the options are not looked at.
    let is_there = ctx.db.read::<B>(key)?.is_some();
    let options = Options::parse(if is_there { &args[3..] } else { &[] }, B::OWN)?;
    Ok(Scan {
        name: args[1].to_vec(),
        pattern: options.pattern.map(<[u8]>::to_vec),
        names_only: options.names_only,
        cursor,
        left: options.count,
        steps_left: options.steps(),
        found: Runs::default(),
        walked: false,
        of: std::marker::PhantomData,
    })
}

struct Scan<B> {
    name: Vec<u8>,
    pattern: Option<Vec<u8>>,
    names_only: bool,
    cursor: u64,
    /// Elements still to be visited, matching or not, and steps that may be taken for them.
    left: u64,
    steps_left: u64,
    found: Runs,
    /// What was found is to be written.
    walked: bool,
    of: std::marker::PhantomData<B>,
}

impl<B: Walked> Scan<B> {
    /// True: all that was asked for was visited.
    fn walk(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let (key, now_ms) = (ctx.db.key(&self.name), ctx.db.now_ms());
        let mut text = Vec::new();
        loop {
            // Gone, or of another type meanwhile: the walk is over.
            let Ok(Some(look)) = ctx.db.look::<B>(key) else {
                self.cursor = 0;
                return true;
            };
            let Scan { pattern, found, left, names_only, .. } = self;
            let count = usize::try_from(*left).unwrap_or(usize::MAX).min(VISITS);
            self.cursor = B::walk(look, self.cursor, count, |element| {
                *left = left.saturating_sub(1);
                if !B::is_there(&element, now_ms) {
                    return;
                }
                if let Some(pattern) = pattern {
                    text.clear();
                    B::put_name(&element, look.slab, &mut text);
                    if !glob_matches(pattern, &text, false) {
                        return;
                    }
                }
                B::put(&element, look.slab, *names_only, found);
            });
            self.steps_left -= 1;
            if self.cursor == 0 || self.left == 0 || self.steps_left == 0 {
                return true;
            }
            if budget.is_spent(STEPS_PER_LOOK) {
                return false;
            }
        }
    }
}

impl<B: Walked> Task for Scan<B> {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if !self.walked {
            if !self.walk(ctx, budget) {
                return false;
            }
            self.walked = true;
            ctx.reply.array(2);
            ctx.reply.bulk(int::write_u64(&mut [0; int::MAX_DIGITS], self.cursor));
            ctx.reply.array(self.found.len());
        }
        self.found.write(ctx, budget)
    }

    fn bytes(&self) -> usize {
        self.name.capacity() + self.found.bytes()
    }

    fn waits_for_room(&self) -> bool {
        self.walked
    }
}
