//! What waits until a set has members: BZPOPMIN BZPOPMAX BZMPOP. How clients wait and are served is `cmd::blocking`'s.

use super::remove::{ManyPop, Style, pop_and_reply};
use super::score;
use crate::base::entry::Entries;
use crate::cmd::blocking::{Answer, Ask, parse_timeout_ns, take_or_wait};
use crate::cmd::ctx::{Args, Ctx, Failure, Outcome};
use crate::db::waiters::{End, Take};
use crate::proto::reply::Reply;
use crate::types::Type;
use crate::types::zset::Zset;

/// `BZPOPMIN key [key ...] timeout`
pub fn bzpopmin(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    one(ctx, args, End::First)
}

/// `BZPOPMAX key [key ...] timeout`
pub fn bzpopmax(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    one(ctx, args, End::Last)
}

fn one(ctx: &mut Ctx<'_>, args: Args<'_>, from: End) -> Outcome {
    let last = args.len() - 1;
    let timeout_ns = match parse_timeout_ns(args[last]) {
        Ok(timeout_ns) => timeout_ns,
        Err(failure) => return ctx.fail(failure),
    };
    let answer = Answer { full: write_one, nothing: write_nothing };
    let take = Take::Pop { from, count: 1 };
    take_or_wait(ctx, &Ask { kind: Type::Zset, keys: &args[1..last], take, timeout_ns, answer })
}

fn write_nothing(reply: &mut Reply<'_>) {
    reply.null_array();
}

/// The key, the member, the score.
fn write_one(reply: &mut Reply<'_>, key: &[u8], run: &[u8]) {
    let mut entries = Entries::new(run);
    if let (Some(member), Some(score)) = (entries.next(), entries.next()) {
        reply.array(3);
        reply.bulk(key);
        reply.entry(member);
        reply.double(score::from_entry(score));
    }
}

/// `BZMPOP timeout numkeys key [key ...] MIN | MAX [COUNT count]`
pub fn bzmpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    many(ctx, args).unwrap_or_else(|failure| ctx.fail(failure))
}

fn many(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Outcome, Failure> {
    // The timeout is looked at last, as in Redis.
    let ManyPop { keys, from, count } = ManyPop::parse(&args[2..])?;
    let timeout_ns = parse_timeout_ns(args[1])?;
    // What is there may be much, which is taken in slices.
    for name in keys {
        let key = ctx.key(name);
        if ctx.db.look::<Zset>(key)?.is_some() {
            return Ok(pop_and_reply(ctx, name, from, count, Style::Keyed));
        }
    }
    let answer = Answer { full: write_many, nothing: write_nothing };
    let take = Take::Pop { from, count };
    Ok(take_or_wait(ctx, &Ask { kind: Type::Zset, keys, take, timeout_ns, answer }))
}

/// The key, and pairs.
fn write_many(reply: &mut Reply<'_>, key: &[u8], run: &[u8]) {
    reply.array(2);
    reply.bulk(key);
    reply.array(Entries::new(run).count() / 2);
    let mut entries = Entries::new(run);
    while let (Some(member), Some(score)) = (entries.next(), entries.next()) {
        reply.array(2);
        reply.entry(member);
        reply.double(score::from_entry(score));
    }
}
