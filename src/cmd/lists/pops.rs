//! Taking elements out: LPOP RPOP LMPOP, and to another list: LMOVE RPOPLPUSH; what blocking commands take.

use super::stream::Elements;
use super::{parse_end, pushed};
use crate::base::entry::{self, Entries, Entry};
use crate::base::int;
use crate::cmd::ctx::{Args, Ctx, Failure, Outcome};
use crate::cmd::event::Event;
use crate::db::collections::Missing;
use crate::db::{DbError, Key, waiters};
use crate::proto::errors;
use crate::proto::reply::Reply;
use crate::types::list::{Element, End, List};
use crate::types::{Edit, Span};
use dolmen_slab::{BlobRef, Slab};

/// Elements that are taken out one by one; of more a view is kept, and they are cut off.
const AT_ONCE: usize = 128;
/// Longest element that is kept without memory of its own.
const SHORT_BYTES: usize = 56;

/// An element that was taken out.
enum Taken {
    Int(i64),
    Short([u8; SHORT_BYTES], u8),
    Long(Box<[u8]>),
    Blob(BlobRef),
}

impl Taken {
    #[inline]
    fn new(slab: &Slab, element: Element<'_>) -> Taken {
        match element {
            Element::Entry(Entry::Int(value)) => Taken::Int(value),
            Element::Entry(Entry::Bytes(text)) => {
                let mut short = [0; SHORT_BYTES];
                match (short.get_mut(..text.len()), u8::try_from(text.len())) {
                    (Some(room), Ok(len)) => {
                        room.copy_from_slice(text);
                        Taken::Short(short, len)
                    }
                    _ => Taken::Long(text.into()),
                }
            }
            Element::Blob(blob) => Taken::Blob(slab.blob_ref(blob)),
        }
    }

    #[inline]
    fn write(self, reply: &mut Reply<'_>) {
        match self {
            Taken::Int(value) => reply.bulk_int(value),
            Taken::Short(text, len) => reply.bulk(&text[..usize::from(len)]),
            Taken::Long(text) => reply.bulk(&text),
            Taken::Blob(blob) => reply.bulk_shared(blob),
        }
    }
}

const fn popped(end: End) -> Event {
    match end {
        End::Head => Event::LPop,
        End::Tail => Event::RPop,
    }
}

const fn list_end(end: waiters::End) -> End {
    match end {
        waiters::End::First => End::Head,
        waiters::End::Last => End::Tail,
    }
}

/// Takes up to `count` elements out: how many, and whether none are left. When memory is too short to keep all that a view sees, those that
/// were taken out by then are all.
#[inline]
fn pop_up_to(
    edit: &mut Edit<'_, List>,
    end: End,
    count: usize,
    mut see: impl FnMut(&Slab, Element<'_>),
) -> Result<(usize, bool), DbError> {
    let mut seen = 0;
    let done = edit.pop(end, count, |slab, element| {
        seen += 1;
        see(slab, element);
    });
    match done {
        Err(error) if seen == 0 => Err(error.into()),
        _ => Ok((seen, edit.look().is_empty())),
    }
}

/// Tells that `count` elements were taken out.
#[inline]
fn report(ctx: &mut Ctx<'_>, key: Key<'_>, end: End, count: usize, emptied: bool) {
    ctx.report(key, popped(end));
    ctx.change(count as u64 - 1);
    if emptied {
        ctx.also(key, Event::Del);
    }
}

pub fn lpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    pop(ctx, args, End::Head, "lpop")
}

pub fn rpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    pop(ctx, args, End::Tail, "rpop")
}

/// `LPOP key [count]`
#[inline]
fn pop(ctx: &mut Ctx<'_>, args: Args<'_>, end: End, command: &str) -> Outcome {
    match args {
        [_, name] => pop_one(ctx, name, end),
        [_, name, count] => {
            let Some(count) = int::parse_i64(count).and_then(|count| usize::try_from(count).ok()) else {
                return ctx.fail(errors::NOT_POSITIVE);
            };
            pop_many(ctx, ctx.first_key(name), end, count, |_| ()).unwrap_or_else(|failure| ctx.fail(failure))
        }
        _ => ctx.fail(errors::wrong_number_of_arguments(command)),
    }
}

#[inline]
fn pop_one(ctx: &mut Ctx<'_>, name: &[u8], end: End) -> Outcome {
    let key = ctx.first_key(name);
    let mut taken = None;
    // The reply is written when it is sure: the rest of the list may find no room.
    let done = ctx.db.edit::<List, _>(key, Missing::Skip, |edit| {
        pop_up_to(edit, end, 1, |slab, element| taken = Some(Taken::new(slab, element)))
    });
    match (done, taken) {
        (Ok(Some((_, emptied))), Some(taken)) => {
            report(ctx, key, end, 1, emptied);
            taken.write(&mut ctx.reply);
            Outcome::Done
        }
        (Err(error), _) => ctx.fail(error),
        _ => {
            ctx.reply.null();
            Outcome::Done
        }
    }
}

/// Takes elements out and replies with them; with a null if there is no such key. `head` writes what precedes their array.
fn pop_many(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    end: End,
    count: usize,
    head: impl FnOnce(&mut Reply<'_>),
) -> Result<Outcome, Failure> {
    let Some(len) = ctx.db.look::<List>(key)?.map(|list| list.len()) else {
        ctx.reply.null_array();
        return Ok(Outcome::Done);
    };
    let count = count.min(len);
    if count == 0 {
        head(&mut ctx.reply);
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    }
    if count <= AT_ONCE {
        let mut taken = Vec::with_capacity(count);
        let done = ctx.db.edit::<List, _>(key, Missing::Skip, |edit| {
            pop_up_to(edit, end, count, |slab, element| taken.push(Taken::new(slab, element)))
        })?;
        let (count, emptied) = done.unwrap_or_default();
        report(ctx, key, end, count, emptied);
        head(&mut ctx.reply);
        ctx.reply.array(count);
        taken.into_iter().for_each(|element| element.write(&mut ctx.reply));
        return Ok(Outcome::Done);
    }
    // What is cut off is read from a view, in slices.
    let span = Span { skip: 0, reverse: end == End::Tail };
    let Some(view) = ctx.db.open_view_again::<List>(key, span)? else { unreachable!("the list was there") };
    let (front, back) = if end == End::Head { (count, 0) } else { (0, count) };
    if let Err(error) = ctx.db.edit::<List, _>(key, Missing::Skip, |edit| Ok(edit.trim(front, back)?)) {
        ctx.db.close_view(view);
        return Err(error.into());
    }
    report(ctx, key, end, count, count == len);
    head(&mut ctx.reply);
    ctx.reply.array(count);
    Ok(Elements::new(view, count).begin(ctx))
}

/// What LMPOP and BLMPOP are told.
pub(super) struct ManyPop<'a> {
    pub keys: Args<'a>,
    pub end: End,
    pub count: usize,
}

impl<'a> ManyPop<'a> {
    /// `numkeys key [key ...] LEFT | RIGHT [COUNT count]`
    pub fn parse(args: Args<'a>) -> Result<ManyPop<'a>, Failure> {
        let positive = |argument: &[u8]| {
            let number = int::parse_i64(argument).and_then(|number| usize::try_from(number).ok());
            number.filter(|number| *number > 0)
        };
        let number = positive(args[0]).ok_or(errors::NUMKEYS_POSITIVE)?;
        let Some((keys, [end, options @ ..])) = args[1..].split_at_checked(number) else {
            return Err(errors::SYNTAX.into());
        };
        let end = parse_end(end)?;
        let count = match options {
            [] => 1,
            [word, count] if word.eq_ignore_ascii_case(b"count") => positive(count).ok_or(errors::COUNT_POSITIVE)?,
            // A second COUNT is refused behind the first, which must be right.
            [word, count, ..] if word.eq_ignore_ascii_case(b"count") && positive(count).is_none() => {
                return Err(errors::COUNT_POSITIVE.into());
            }
            _ => return Err(errors::SYNTAX.into()),
        };
        Ok(ManyPop { keys, end, count })
    }

    /// Takes from the first key that has elements. `None`: none has.
    pub fn run(&self, ctx: &mut Ctx<'_>) -> Result<Option<Outcome>, Failure> {
        for name in self.keys {
            let key = ctx.key(name);
            if ctx.db.look::<List>(key)?.is_some() {
                let head = |reply: &mut Reply<'_>| {
                    reply.array(2);
                    reply.bulk(name);
                };
                return pop_many(ctx, key, self.end, self.count, head).map(Some);
            }
        }
        Ok(None)
    }
}

/// `LMPOP numkeys key [key ...] LEFT | RIGHT [COUNT count]`
pub fn lmpop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match ManyPop::parse(&args[1..]).and_then(|pop| pop.run(ctx)) {
        Ok(Some(outcome)) => outcome,
        Ok(None) => {
            ctx.reply.null_array();
            Outcome::Done
        }
        Err(failure) => ctx.fail(failure),
    }
}

// ---- to another list ----

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
pub fn lmove(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    match parse_end(args[3]).and_then(|from| Ok((from, parse_end(args[4])?))) {
        Ok((from, to)) => move_now(ctx, args[1], args[2], from, to),
        Err(failure) => ctx.fail(failure),
    }
}

/// `RPOPLPUSH source destination`
pub fn rpoplpush(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    move_now(ctx, args[1], args[2], End::Tail, End::Head)
}

pub(super) fn move_now(ctx: &mut Ctx<'_>, source: &[u8], destination: &[u8], from: End, to: End) -> Outcome {
    let (source, destination) = (ctx.first_key(source), ctx.key(destination));
    match move_between(ctx, source, destination, from, to) {
        Ok(Some(run)) => {
            write_moved(&mut ctx.reply, &run);
            Outcome::Done
        }
        Ok(None) => {
            ctx.reply.null();
            Outcome::Done
        }
        Err(error) => ctx.fail(error),
    }
}

/// Writes the element of a run of one.
pub(super) fn write_moved(reply: &mut Reply<'_>, run: &[u8]) {
    Entries::new(run).for_each(|entry| reply.entry(entry));
}

fn move_between(
    ctx: &mut Ctx<'_>,
    source: Key<'_>,
    destination: Key<'_>,
    from: End,
    to: End,
) -> Result<Option<Vec<u8>>, DbError> {
    let Some(list) = ctx.db.look::<List>(source)? else { return Ok(None) };
    let mut run = Vec::new();
    match list.get(if from == End::Head { 0 } else { list.len() - 1 }) {
        Some(element) => put(list.slab, element, &mut run),
        None => unreachable!("no list is empty"),
    }
    let Some((element, _)) = entry::split(&run) else { unreachable!("one was put") };
    let mut digits = [0; int::MAX_DIGITS];
    let values = [element.text(&mut digits)];
    let mut emptied = false;
    // First to the one, which may fail, then from the other.
    if source.bytes == destination.bytes {
        if from != to {
            ctx.db.edit::<List, _>(source, Missing::Skip, |edit| {
                edit.push(to, &values)?;
                if let Err(error) = edit.pop(from, 1, |_, _| ()) {
                    edit.pop(to, 1, |_, _| ())?;
                    return Err(error.into());
                }
                Ok(())
            })?;
        }
    } else {
        ctx.db.edit::<List, _>(destination, Missing::Create, |edit| Ok(edit.push(to, &values)?))?;
        let popped = ctx.db.edit::<List, _>(source, Missing::Skip, |edit| pop_up_to(edit, from, 1, |_, _| ()));
        match popped {
            Ok(popped) => emptied = popped.is_some_and(|(_, emptied)| emptied),
            Err(error) => {
                ctx.db.edit::<List, _>(destination, Missing::Skip, |edit| Ok(edit.pop(to, 1, |_, _| ())?))?;
                return Err(error);
            }
        }
    }
    ctx.also(destination, pushed(to));
    report(ctx, source, from, 1, emptied);
    Ok(Some(run))
}

/// Appends an element to a run.
fn put(slab: &Slab, element: Element<'_>, run: &mut Vec<u8>) {
    match element {
        Element::Entry(entry) => entry.put(run),
        Element::Blob(blob) => {
            entry::put_head(run, slab.blob_len(blob));
            element.append_to(slab, run);
        }
    }
}

// ---- for clients that wait ----

/// Takes up to `count` elements from an end of the list at a key, as a run. `None`: there is no such key.
///
/// # Errors
/// [`DbError::WrongType`], [`DbError::OutOfMemory`].
pub fn take(ctx: &mut Ctx<'_>, key: Key<'_>, from: waiters::End, count: usize) -> Result<Option<Vec<u8>>, DbError> {
    let (end, mut run) = (list_end(from), Vec::new());
    let done = ctx.db.edit::<List, _>(key, Missing::Skip, |edit| {
        pop_up_to(edit, end, count, |slab, element| put(slab, element, &mut run))
    })?;
    Ok(done.map(|(count, emptied)| {
        report(ctx, key, end, count, emptied);
        run
    }))
}

/// Takes the element at an end of the list at one key, and puts it to an end of that at another. It is returned, as a run. `None`: there is no
/// such key.
///
/// # Errors
/// [`DbError::WrongType`], of either key, [`DbError::OutOfMemory`]; nothing was moved then.
pub fn transfer(
    ctx: &mut Ctx<'_>,
    source: Key<'_>,
    destination: Key<'_>,
    from: waiters::End,
    to: waiters::End,
) -> Result<Option<Vec<u8>>, DbError> {
    move_between(ctx, source, destination, list_end(from), list_end(to))
}

/// Takes up to `count` elements for a client that has waited for them and for which the name of the key is held.
pub fn take_reserved(ctx: &mut Ctx<'_>, key: Key<'_>, from: waiters::End, count: usize) -> Outcome {
    let head = |reply: &mut Reply<'_>| {
        reply.array(2);
        reply.bulk(key.bytes);
    };
    pop_many(ctx, key, list_end(from), count, head).unwrap_or_else(|failure| ctx.fail(failure))
}

/// Writes elements of a run, as one array.
pub(super) fn write_run(reply: &mut Reply<'_>, run: &[u8]) {
    reply.array(Entries::new(run).count());
    Entries::new(run).for_each(|entry| reply.entry(entry));
}
