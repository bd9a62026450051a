//! Operations on several sets: SINTER SINTERSTORE SINTERCARD SUNION SUNIONSTORE SDIFF SDIFFSTORE.
//!
//! Few members are combined at once. Many are in slices, from what all of the sets were at one instant: of large ones views are opened, small
//! ones are copied. An operation that looks members up in large sets, or stores its result, also holds the names of all its keys
//! (`db::hold`), so that nobody writes to them: then the sets are what they were, views or not, and whoever writes to a source cannot find
//! the old destination behind that. Reads go on; the destination is replaced in the last slice. SUNION needs no names.
//!
//! Nothing is changed before the end, so a client that leaves takes its command along.

mod job;

use crate::base::entry::{Entries, Entry};
use crate::cmd::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use crate::cmd::event::Event;
use crate::db::view::Deadline;
use crate::db::{DbError, Key};
use crate::proto::errors;
use crate::types::set::Set;
use crate::types::{Body, Container, Form, Look};
use job::Job;

/// Look-ups and members that are worked off at once, and bytes of members.
const AT_ONCE: usize = 512;
const AT_ONCE_BYTES: u64 = 64 << 10;
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Inter,
    Union,
    Diff,
}

#[derive(Clone, Copy)]
enum Goal<'a> {
    Reply,
    Store {
        destination: &'a [u8],
    },
    /// Counts up to a limit.
    Count {
        limit: usize,
    },
}

pub fn sinter(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    combine(ctx, Operation::Inter, Goal::Reply, &args[1..])
}

pub fn sinterstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    combine(ctx, Operation::Inter, Goal::Store { destination: args[1] }, &args[2..])
}

pub fn sunion(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    combine(ctx, Operation::Union, Goal::Reply, &args[1..])
}

pub fn sunionstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    combine(ctx, Operation::Union, Goal::Store { destination: args[1] }, &args[2..])
}

pub fn sdiff(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    combine(ctx, Operation::Diff, Goal::Reply, &args[1..])
}

pub fn sdiffstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    combine(ctx, Operation::Diff, Goal::Store { destination: args[1] }, &args[2..])
}

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`
pub fn sintercard(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match parse_card(args) {
        Ok((names, limit)) => combine(ctx, Operation::Inter, Goal::Count { limit }, names),
        Err(failure) => ctx.fail(failure),
    }
}

fn parse_card<'a>(args: Args<'a>) -> Result<(Args<'a>, usize), Failure> {
    let number = |argument: &[u8]| super::parse_count(argument).and_then(|number| usize::try_from(number).ok());
    let count = number(args[1]).filter(|count| *count > 0).ok_or(errors::NUMKEYS_POSITIVE)?;
    let (names, mut rest) = args[2..].split_at_checked(count).ok_or(errors::NUMKEYS_TOO_MANY)?;
    let mut limit = usize::MAX;
    while let [option, behind @ ..] = rest {
        let [value, behind @ ..] = behind else { return Err(errors::SYNTAX.into()) };
        if !option.eq_ignore_ascii_case(b"limit") {
            return Err(errors::SYNTAX.into());
        }
        // No limit is written as 0.
        limit = number(value).map(|limit| if limit == 0 { usize::MAX } else { limit }).ok_or(errors::LIMIT_NEGATIVE)?;
        rest = behind;
    }
    Ok((names, limit))
}

/// What is known of a source beforehand.
#[derive(Clone, Copy)]
struct Size {
    members: usize,
    bytes: u64,
}

fn combine(ctx: &mut Ctx<'_>, operation: Operation, goal: Goal<'_>, names: Args<'_>) -> Outcome {
    let sizes = match sizes(ctx, names) {
        Ok(sizes) => sizes,
        Err(failure) => return ctx.fail(failure),
    };
    let mut members = sizes.iter().map(|size| size.members);
    let smallest = members.clone().min().unwrap_or(0);
    let work = match operation {
        Operation::Inter => smallest.saturating_mul(names.len()),
        Operation::Union => members.sum(),
        Operation::Diff => members.next().unwrap_or(0).saturating_mul(names.len()),
    };
    let bytes = match operation {
        // Of these only one is copied.
        Operation::Inter => sizes.iter().find(|size| size.members == smallest).map_or(0, |size| size.bytes),
        Operation::Diff => sizes[0].bytes,
        Operation::Union => sizes.iter().map(|size| size.bytes).sum(),
    };
    if work == 0 || (work <= AT_ONCE && bytes <= AT_ONCE_BYTES) {
        return ctx.attempt(|ctx| at_once(ctx, operation, goal, names, &sizes));
    }
    let mut job = Job::new(operation, goal, names);
    if job.needs_names() {
        // Names are given back by a step at the earliest: here only the shards of the keys are locked.
        if job.take_names(ctx) {
            job.begin(ctx);
        }
        return ctx.suspend(Box::new(job));
    }
    job.begin(ctx);
    if job.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(job))
}

fn sizes(ctx: &mut Ctx<'_>, names: Args<'_>) -> Result<Vec<Size>, Failure> {
    let size = |name: &&[u8]| {
        let key = ctx.key(name);
        let set = ctx.db.read::<Set>(key)?;
        let bytes = set.map_or(0, |set| match set.form {
            Form::Packed(packed) => packed.len() as u64,
            Form::Big(set) => set.bytes(),
        });
        Ok(Size { members: set.map_or(0, Look::len), bytes })
    };
    names.iter().map(size).collect()
}

// ---- at once ----

fn at_once(
    ctx: &mut Ctx<'_>,
    operation: Operation,
    goal: Goal<'_>,
    names: Args<'_>,
    sizes: &[Size],
) -> Result<(), Failure> {
    let run = match operation {
        Operation::Union => {
            let mut run = Vec::new();
            names.iter().try_for_each(|name| copy_members(ctx, name, &mut run))?;
            union(ctx, names[0], &run)?
        }
        Operation::Inter | Operation::Diff => {
            let first = match operation {
                Operation::Inter => (0..names.len()).min_by_key(|&index| sizes[index].members).unwrap_or(0),
                _ => 0,
            };
            let mut run = Vec::new();
            if sizes[first].members > 0 {
                copy_members(ctx, names[first], &mut run)?;
            }
            for (index, name) in names.iter().enumerate() {
                if index != first && !run.is_empty() {
                    let key = ctx.key(name);
                    let set = ctx.db.look::<Set>(key)?;
                    run = filter(&run, |member| set.is_some_and(|set| set.contains(member)), operation);
                }
            }
            run
        }
    };
    let count = Entries::new(&run).count();
    match goal {
        Goal::Reply => {
            ctx.reply.set(count);
            Entries::new(&run).for_each(|member| ctx.reply.entry(member));
        }
        Goal::Count { limit } => ctx.reply.count(count.min(limit)),
        Goal::Store { destination } => {
            let key = ctx.key(destination);
            let mut body = Body::default();
            if let Err(error) = ctx.db.extend_body::<Set>(key, &mut body, &run) {
                ctx.db.drop_body(key, body);
                return Err(error.into());
            }
            store(ctx, operation, key, body, count)?;
        }
    }
    Ok(())
}

fn copy_members(ctx: &mut Ctx<'_>, name: &[u8], run: &mut Vec<u8>) -> Result<(), Failure> {
    let key = ctx.key(name);
    if let Some(set) = ctx.db.look::<Set>(key)? {
        set.each(|member| member.put(set.slab, run));
    }
    Ok(())
}

/// Each member of a run once, in the order of a set of them.
fn union(ctx: &mut Ctx<'_>, name: &[u8], run: &[u8]) -> Result<Vec<u8>, Failure> {
    let key = ctx.key(name);
    let mut body = Body::<Set>::default();
    let mut distinct = Vec::with_capacity(run.len());
    let made = ctx.db.extend_body(key, &mut body, run);
    if made.is_ok() {
        ctx.db.with_body(key, &mut body, |edit| {
            let set = edit.look();
            set.each(|member| member.put(set.slab, &mut distinct));
        });
    }
    ctx.db.drop_body(key, body);
    made?;
    Ok(distinct)
}

/// The members of a run that stay: of an intersection those that the other set has, of a difference those that it has not.
fn filter(run: &[u8], mut other_has: impl FnMut(Entry<'_>) -> bool, operation: Operation) -> Vec<u8> {
    let mut kept = Vec::with_capacity(run.len());
    let mut rest = run;
    while let Some((member, behind)) = crate::base::entry::split(rest) {
        if other_has(member) == (operation == Operation::Inter) {
            kept.extend_from_slice(&rest[..rest.len() - behind.len()]);
        }
        rest = behind;
    }
    kept
}

/// Puts the result in place and replies.
fn store(ctx: &mut Ctx<'_>, operation: Operation, key: Key<'_>, body: Body<Set>, count: usize) -> Result<(), DbError> {
    let was_there = ctx.db.store(key, body, Deadline::None)?;
    if count > 0 {
        let event = match operation {
            Operation::Inter => Event::SInterStore,
            Operation::Union => Event::SUnionStore,
            Operation::Diff => Event::SDiffStore,
        };
        ctx.report(key, event);
    } else if was_there {
        ctx.report(key, Event::Del);
    }
    ctx.reply.count(count);
    Ok(())
}
