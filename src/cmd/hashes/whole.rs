//! HLEN, HGETALL, HKEYS, HVALS: all of a hash.

use super::super::ctx::{Args, Ctx, Outcome};
use super::super::stream::{self, Plan};
use super::settle::settled;
use crate::base::entry::Entries;
use crate::proto::reply::Reply;
use crate::types::Span;
use crate::types::hash::Hash;

pub fn hlen(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    settled(ctx, args, |ctx, args| {
        let key = ctx.first_key(args[1]);
        ctx.attempt(|ctx| {
            let len = ctx.db.read::<Hash>(key)?.map_or(0, |look| look.len());
            ctx.reply.count(len);
            Ok(())
        })
    })
}

pub fn hgetall(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    settled(ctx, args, |ctx, args| all(ctx, args, |reply, fields| reply.map(fields), write::<true, true>))
}

pub fn hkeys(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    settled(ctx, args, |ctx, args| all(ctx, args, |reply, fields| reply.array(fields), write::<true, false>))
}

pub fn hvals(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    settled(ctx, args, |ctx, args| all(ctx, args, |reply, fields| reply.array(fields), write::<false, true>))
}

fn all(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    head: fn(&mut Reply<'_>, usize),
    each: fn(&mut Reply<'_>, &mut Entries<'_>),
) -> Outcome {
    let key = ctx.first_key(args[1]);
    let plan = Plan { span: Span::default(), count: usize::MAX, head, each };
    match stream::elements::<Hash>(ctx, key, plan) {
        Ok(Some(outcome)) => outcome,
        Ok(None) => {
            head(&mut ctx.reply, 0);
            Outcome::Done
        }
        Err(failure) => ctx.fail(failure),
    }
}

/// Takes a field, its value and its deadline off.
pub(super) fn write<const FIELDS: bool, const VALUES: bool>(reply: &mut Reply<'_>, entries: &mut Entries<'_>) {
    let (field, value, _deadline) = (entries.next(), entries.next(), entries.next());
    for (entry, wanted) in [(field, FIELDS), (value, VALUES)] {
        if let Some(entry) = entry.filter(|_| wanted) {
            reply.entry(entry);
        }
    }
}
