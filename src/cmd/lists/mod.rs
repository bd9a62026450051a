//! Lists: here what concerns an end or a place of one list; `pops` takes elements out and moves them, `search` looks for elements by their
//! value, `wait` are the commands that block. Long replies and what takes a long search go on in slices: from a view, or with the name held.

mod many;
mod pops;
mod search;
mod stream;
mod wait;

pub use pops::{lmove, lmpop, lpop, rpop, rpoplpush, take, take_reserved, transfer};
pub use search::{linsert, lpos, lrem};
pub use wait::{blmove, blmpop, blpop, brpop, brpoplpush};

use super::ctx::{Args, Ctx, Failure, Outcome};
use super::event::Event;
use super::options::parse_int;
use crate::base::entry::Entry;
use crate::db::collections::Missing;
use crate::proto::errors;
use crate::proto::reply::Reply;
use crate::types::list::{Element, End, List};
use crate::types::{Look, Span};
use dolmen_slab::Slab;
use stream::Elements;

/// Elements that are looked at at once.
const AT_ONCE: usize = 1000;
/// Bytes of them that are copied.
const AT_ONCE_BYTES: usize = 64 << 10;

/// Writes an element; a large one is sent from where it lies.
#[inline]
fn write_element(reply: &mut Reply<'_>, slab: &Slab, element: Element<'_>) {
    match element {
        Element::Entry(entry) => reply.entry(entry),
        Element::Blob(blob) => reply.bulk_shared(slab.blob_ref(blob)),
    }
}

const fn pushed(end: End) -> Event {
    match end {
        End::Head => Event::LPush,
        End::Tail => Event::RPush,
    }
}

/// LEFT or RIGHT.
fn parse_end(word: &[u8]) -> Result<End, Failure> {
    if word.eq_ignore_ascii_case(b"left") {
        Ok(End::Head)
    } else if word.eq_ignore_ascii_case(b"right") {
        Ok(End::Tail)
    } else {
        Err(errors::SYNTAX.into())
    }
}

/// The place that an index means: from the end if it is negative.
fn place(index: i64, len: usize) -> Option<usize> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    let index = if index < 0 { len.checked_sub(distance)? } else { distance };
    (index < len).then_some(index)
}

/// The first of the elements from `start` to `stop`, and how many they are.
fn range(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let clamp = |index: i64| {
        let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        if index < 0 { len.checked_sub(from_end) } else { Some(from_end.min(len)) }
    };
    let first = clamp(start).unwrap_or(0);
    // Behind the last.
    let end = clamp(stop).map_or(0, |last| (last + 1).min(len));
    (first, end.saturating_sub(first))
}

pub use many::{MANY_LPUSH, MANY_LPUSHX, MANY_RPUSH, MANY_RPUSHX};

pub fn lpush(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    push(ctx, args, End::Head, Missing::Create)
}

pub fn rpush(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    push(ctx, args, End::Tail, Missing::Create)
}

pub fn lpushx(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    push(ctx, args, End::Head, Missing::Skip)
}

pub fn rpushx(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    push(ctx, args, End::Tail, Missing::Skip)
}

/// `LPUSH key element [element ...]`
#[inline]
fn push(ctx: &mut Ctx<'_>, args: Args<'_>, end: End, missing: Missing) -> Outcome {
    let key = ctx.first_key(args[1]);
    let values = &args[2..];
    let len = ctx.db.edit::<List, _>(key, missing, |edit| {
        edit.push(end, values)?;
        Ok(edit.look().len())
    });
    match len {
        Ok(Some(len)) => {
            ctx.report(key, pushed(end));
            ctx.change(values.len() as u64 - 1);
            ctx.reply.count(len);
            Outcome::Done
        }
        Ok(None) => {
            ctx.reply.int(0);
            Outcome::Done
        }
        Err(error) => ctx.fail(error),
    }
}

pub fn llen(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    match ctx.db.read::<List>(key) {
        Ok(list) => {
            ctx.reply.count(list.map_or(0, Look::len));
            Outcome::Done
        }
        Err(error) => ctx.fail(error),
    }
}

/// `LINDEX key index`
pub fn lindex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let key = ctx.first_key(args[1]);
        let Some(list) = ctx.db.read::<List>(key)? else {
            ctx.reply.null();
            return Ok(());
        };
        let index = parse_int(args[2])?;
        match place(index, list.len()).and_then(|index| list.get(index)) {
            Some(element) => write_element(&mut ctx.reply, list.slab, element),
            None => ctx.reply.null(),
        }
        Ok(())
    })
}

/// `LRANGE key start stop`
pub fn lrange(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    lrange_from(ctx, args).unwrap_or_else(|failure| ctx.fail(failure))
}

fn lrange_from(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Outcome, Failure> {
    let (start, stop) = (parse_int(args[2])?, parse_int(args[3])?);
    let key = ctx.first_key(args[1]);
    let Some(list) = ctx.db.read::<List>(key)? else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let (first, count) = range(start, stop, list.len());
    ctx.reply.array(count);
    let (mut written, mut bytes) = (0, 0);
    if count > 0 && count <= AT_ONCE {
        let reply = &mut ctx.reply;
        list.walk(first, false, |element| {
            if let Element::Entry(Entry::Bytes(text)) = element {
                bytes += text.len();
            }
            write_element(reply, list.slab, element);
            written += 1;
            written < count && bytes < AT_ONCE_BYTES
        });
    }
    if written == count {
        return Ok(Outcome::Done);
    }
    let Some(view) = ctx.db.open_view_again::<List>(key, Span { skip: first + written, reverse: false })? else {
        unreachable!("the list was there");
    };
    Ok(Elements::new(view, count - written).begin(ctx))
}

/// `LSET key index element`
pub fn lset(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let key = ctx.first_key(args[1]);
        let len = ctx.db.look::<List>(key)?.ok_or(errors::NO_SUCH_KEY)?.len();
        let index = place(parse_int(args[2])?, len).ok_or(errors::INDEX_OUT_OF_RANGE)?;
        ctx.db.edit::<List, _>(key, Missing::Skip, |edit| Ok(edit.set(index, args[3])?))?;
        ctx.report(key, Event::LSet);
        ctx.out().ok();
        Ok(())
    })
}

/// `LTRIM key start stop`
pub fn ltrim(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let (start, stop) = (parse_int(args[2])?, parse_int(args[3])?);
        let key = ctx.first_key(args[1]);
        let trimmed = ctx.db.edit::<List, _>(key, Missing::Skip, |edit| {
            let len = edit.look().len();
            let (first, count) = range(start, stop, len);
            let (front, back) = if count == 0 { (len, 0) } else { (first, len - first - count) };
            edit.trim(front, back)?;
            Ok((front + back, edit.look().is_empty()))
        })?;
        if let Some((removed, emptied)) = trimmed {
            // As in Redis it is told even if nothing went.
            ctx.change(removed as u64);
            ctx.also(key, Event::LTrim);
            if emptied {
                ctx.also(key, Event::Del);
            }
        }
        ctx.out().ok();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!(
            [0, 2, 3, -1, -3, -4, i64::MAX, i64::MIN].map(|index| place(index, 3)),
            [Some(0), Some(2), None, Some(2), Some(0), None, None, None]
        );
        assert_eq!(place(0, 0), None);
    }

    #[test]
    fn ranges_are_those_of_a_slice() {
        for len in 0..5_i64 {
            for start in -7..7_i64 {
                for stop in -7..7_i64 {
                    let absolute = |index: i64| if index < 0 { index + len } else { index };
                    let expected: Vec<i64> =
                        (0..len).filter(|i| (absolute(start)..=absolute(stop)).contains(i)).collect();
                    let (first, count) = range(start, stop, usize::try_from(len).unwrap());
                    let found: Vec<i64> = (first..first + count).map(|i| i64::try_from(i).unwrap()).collect();
                    assert_eq!(found, expected, "{start} {stop} of {len}");
                }
            }
        }
        assert_eq!(range(i64::MIN, i64::MAX, 3), (0, 3));
        assert_eq!(range(i64::MAX, i64::MIN, 3).1, 0);
    }
}
