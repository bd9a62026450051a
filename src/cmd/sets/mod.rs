//! Sets: SADD SREM SCARD SISMEMBER SMISMEMBER SMEMBERS SMOVE; random members in `random`, operations on several sets in `combine`.

pub mod combine;
mod many;
pub mod random;

use super::ctx::{Args, Ctx, Outcome};
use super::event::Event;
use super::stream::{self, Plan};
use crate::base::entry::{Entries, Entry};
use crate::base::int;
use crate::db::collections::Missing;
use crate::db::{DbError, Key};
use crate::proto::reply::Reply;
use crate::types::set::{Member, Set};
use crate::types::{Form, Look, Span};
pub use many::{MANY_SADD, MANY_SMISMEMBER, MANY_SREM};

/// Takes a member off a run and writes it.
fn write_next(reply: &mut Reply<'_>, entries: &mut Entries<'_>) {
    if let Some(entry) = entries.next() {
        reply.entry(entry);
    }
}

/// Writes a member from where it lies.
fn write_lying(reply: &mut Reply<'_>, look: Look<'_, Set>, member: Member<'_>) {
    match member {
        Member::Entry(entry) => reply.entry(entry),
        Member::Long(blob) => reply.bulk_shared(look.slab.blob_ref(blob)),
    }
}

#[inline]
fn report_added(ctx: &mut Ctx<'_>, key: Key<'_>, added: u64) {
    if added > 0 {
        ctx.report(key, Event::SAdd);
        ctx.change(added - 1);
    }
}

#[inline]
fn report_removed(ctx: &mut Ctx<'_>, key: Key<'_>, removed: u64, emptied: bool) {
    if removed > 0 {
        ctx.report(key, Event::SRem);
        ctx.change(removed - 1);
    }
    if emptied {
        ctx.also(key, Event::Del);
    }
}

pub fn sadd(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let members = &args[2..];
    let mut added = 0;
    let done = ctx.db.edit::<Set, _>(key, Missing::Create, |edit| {
        let was_big = matches!(edit.look().form, Form::Big(_));
        edit.expect(Entry::of(members[0]), members.len());
        for member in members {
            match edit.add(Entry::of(member)) {
                Ok(new) => added += u64::from(new),
                // What was done to a packed set is undone.
                Err(error) => {
                    added = if was_big { added } else { 0 };
                    return Err(error.into());
                }
            }
        }
        Ok(())
    });
    report_added(ctx, key, added);
    match done {
        Ok(_) => {
            ctx.reply.int(added.cast_signed());
            Outcome::Done
        }
        Err(error) => ctx.fail(error),
    }
}

pub fn srem(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let removed = ctx.db.edit::<Set, _>(key, Missing::Skip, |edit| {
            let mut removed = 0;
            for member in &args[2..] {
                removed += u64::from(edit.remove(Entry::of(member)));
            }
            Ok((removed, edit.look().is_empty()))
        })?;
        let (removed, emptied) = removed.unwrap_or((0, false));
        report_removed(ctx, key, removed, emptied);
        ctx.reply.int(removed.cast_signed());
        Ok(())
    })
}

pub fn scard(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let key = ctx.first_key(args[1]);
        let len = ctx.db.read::<Set>(key)?.map_or(0, Look::len);
        ctx.reply.count(len);
        Ok(())
    })
}

pub fn sismember(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let key = ctx.first_key(args[1]);
        let is_member = ctx.db.read::<Set>(key)?.is_some_and(|set| set.contains(Entry::of(args[2])));
        ctx.reply.int(i64::from(is_member));
        Ok(())
    })
}

pub fn smismember(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let key = ctx.first_key(args[1]);
        let set = ctx.db.read::<Set>(key)?;
        ctx.reply.array(args.len() - 2);
        for member in &args[2..] {
            let is_member = set.is_some_and(|set| set.contains(Entry::of(member)));
            ctx.reply.int(i64::from(is_member));
        }
        Ok(())
    })
}

const ALL: Plan =
    Plan { span: Span { skip: 0, reverse: false }, count: usize::MAX, head: |reply, n| reply.set(n), each: write_next };

pub fn smembers(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    match stream::elements::<Set>(ctx, key, ALL) {
        Ok(Some(outcome)) => outcome,
        Ok(None) => {
            ctx.reply.set(0);
            Outcome::Done
        }
        Err(failure) => ctx.fail(failure),
    }
}

fn add_one(ctx: &mut Ctx<'_>, key: Key<'_>, member: Entry<'_>) -> Result<(), DbError> {
    ctx.db.edit::<Set, _>(key, Missing::Create, |edit| {
        edit.expect(member, 1);
        edit.add(member).map_err(DbError::from)
    })?;
    Ok(())
}

/// `SMOVE source destination member`
pub fn smove(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let (from, to, member) = (ctx.first_key(args[1]), ctx.key(args[2]), Entry::of(args[3]));
        let Some(is_member) = ctx.db.look::<Set>(from)?.map(|set| set.contains(member)) else {
            ctx.reply.int(0);
            return Ok(());
        };
        let is_there = ctx.db.look::<Set>(to)?.is_some_and(|set| set.contains(member));
        if !is_member || from.bytes == to.bytes {
            ctx.reply.int(i64::from(is_member));
            return Ok(());
        }
        // From the one, then to the other, so that whoever listens is told in the order of Redis.
        let deadline_ms = ctx.db.deadline_for_write(from).flatten();
        let emptied = ctx.db.edit::<Set, _>(from, Missing::Skip, |edit| {
            edit.remove(member);
            Ok(edit.look().is_empty())
        })?;
        ctx.report(from, Event::SRem);
        if emptied == Some(true) {
            ctx.also(from, Event::Del);
        }
        if !is_there {
            if let Err(error) = add_one(ctx, to, member) {
                // What has just left finds room again.
                add_one(ctx, from, member)?;
                if deadline_ms.is_some() {
                    ctx.db.set_deadline(from, deadline_ms)?;
                }
                ctx.report(from, Event::SAdd);
                return Err(error.into());
            }
            ctx.report(to, Event::SAdd);
        }
        ctx.reply.int(1);
        Ok(())
    })
}

/// A count of keys or members as it is given in digits, within `i64`.
fn parse_count(argument: &[u8]) -> Option<i64> {
    int::parse_i64(argument)
}
