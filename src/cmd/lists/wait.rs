//! What waits until a list has elements: BLPOP BRPOP BLMPOP BLMOVE BRPOPLPUSH. How clients wait and are served is `cmd::blocking`'s.

use super::parse_end;
use super::pops::{ManyPop, move_now, write_moved, write_run};
use crate::cmd::blocking::{Answer, Ask, parse_timeout_ns, take_or_wait};
use crate::cmd::ctx::{Args, Ctx, Failure, Outcome};
use crate::db::waiters::{self, Take};
use crate::proto::reply::Reply;
use crate::types::Type;
use crate::types::list::End;

const fn waiting_end(end: End) -> waiters::End {
    match end {
        End::Head => waiters::End::First,
        End::Tail => waiters::End::Last,
    }
}

/// `BLPOP key [key ...] timeout`
pub fn blpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    one(ctx, args, End::Head)
}

/// `BRPOP key [key ...] timeout`
pub fn brpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    one(ctx, args, End::Tail)
}

fn one(ctx: &mut Ctx<'_>, args: Args<'_>, end: End) -> Outcome {
    let last = args.len() - 1;
    let timeout_ns = match parse_timeout_ns(args[last]) {
        Ok(timeout_ns) => timeout_ns,
        Err(failure) => return ctx.fail(failure),
    };
    let answer = Answer { full: write_one, nothing: write_nothing };
    let take = Take::Pop { from: waiting_end(end), count: 1 };
    take_or_wait(ctx, &Ask { kind: Type::List, keys: &args[1..last], take, timeout_ns, answer })
}

fn write_nothing(reply: &mut Reply<'_>) {
    reply.null_array();
}

/// The key, the element.
fn write_one(reply: &mut Reply<'_>, key: &[u8], run: &[u8]) {
    reply.array(2);
    reply.bulk(key);
    write_moved(reply, run);
}

/// `BLMPOP timeout numkeys key [key ...] LEFT | RIGHT [COUNT count]`
pub fn blmpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    many(ctx, args).unwrap_or_else(|failure| ctx.fail(failure))
}

fn many(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Outcome, Failure> {
    let pop = ManyPop::parse(&args[2..])?;
    let timeout_ns = parse_timeout_ns(args[1])?;
    // What is there may be much, which is taken in slices.
    if let Some(outcome) = pop.run(ctx)? {
        return Ok(outcome);
    }
    let answer = Answer { full: write_many, nothing: write_nothing };
    let take = Take::Pop { from: waiting_end(pop.end), count: pop.count };
    Ok(take_or_wait(ctx, &Ask { kind: Type::List, keys: pop.keys, take, timeout_ns, answer }))
}

fn write_many(reply: &mut Reply<'_>, key: &[u8], run: &[u8]) {
    reply.array(2);
    reply.bulk(key);
    write_run(reply, run);
}

/// `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`
pub fn blmove(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match parse_end(args[3]).and_then(|from| Ok((from, parse_end(args[4])?))) {
        Ok((from, to)) => move_or_wait(ctx, args, from, to),
        Err(failure) => ctx.fail(failure),
    }
}

/// `BRPOPLPUSH source destination timeout`
pub fn brpoplpush(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    move_or_wait(ctx, args, End::Tail, End::Head)
}

fn move_or_wait(ctx: &mut Ctx<'_>, args: Args<'_>, from: End, to: End) -> Outcome {
    let timeout_ns = match parse_timeout_ns(args[args.len() - 1]) {
        Ok(timeout_ns) => timeout_ns,
        Err(failure) => return ctx.fail(failure),
    };
    if ctx.may_not_wait() {
        // As LMOVE, with its null.
        return move_now(ctx, args[1], args[2], from, to);
    }
    let answer = Answer { full: |reply, _, run| write_moved(reply, run), nothing: write_nothing };
    let take = Take::Move { from: waiting_end(from), to: waiting_end(to), destination: args[2].into() };
    take_or_wait(ctx, &Ask { kind: Type::List, keys: &args[1..2], take, timeout_ns, answer })
}
