//! Writing: what `set`, `add`, `replace`, `append`, `prepend` and `cas` do, whichever protocol asks for it.

use super::super::ctx::{Ctx, Outcome};
use super::super::event::Event;
use super::concat::{self, Finish};
use super::{Due, remove};
use crate::db::item::{Marks, state};
use crate::db::marks::Marking;
use crate::db::{DbError, Key};

/// What is there, and what is to become of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// A value to be written.
#[derive(Clone, Copy)]
pub(super) struct Order<'v> {
    pub mode: Mode,
    /// Or what was received in its place.
    pub value: &'v [u8],
    pub flags: u32,
    pub due: Due,
    /// Only over the value that has this number.
    pub cas: Option<u64>,
    /// Over a later one too, but then the new value is out of date from the beginning.
    pub may_be_stale: bool,
    /// The number that it is to have.
    pub chosen: Option<u64>,
    /// `append` and `prepend` of nothing write it, with this time to live.
    pub vivify: Option<Due>,
}

impl<'v> Order<'v> {
    #[inline]
    pub fn new(mode: Mode, value: &'v [u8]) -> Order<'v> {
        let due = Due::Never;
        Order { mode, value, flags: 0, due, cas: None, may_be_stale: false, chosen: None, vivify: None }
    }
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stored {
    Done,
    /// It is there, or is not, as it should not be.
    Refused,
    /// There is another value than the one that was to be replaced.
    Exists,
    NotFound,
}

/// Writes a value and has `finish` answer.
pub(super) fn store(ctx: &mut Ctx<'_>, key: Key<'_>, order: Order<'_>, finish: Finish) -> Outcome {
    ctx.stats.memcache.set_commands += 1;
    if matches!(order.mode, Mode::Append | Mode::Prepend) {
        return concat::run(ctx, key, order, finish);
    }
    let stored = if order.cas.is_some() { compare_and_store(ctx, key, order) } else { store_now(ctx, key, order) };
    finish.call(ctx, key, stored);
    Outcome::Done
}

/// `set`, `add` and `replace`, without a number to compare.
#[inline]
pub(super) fn store_now(ctx: &mut Ctx<'_>, key: Key<'_>, order: Order<'_>) -> Result<Stored, DbError> {
    if order.mode != Mode::Set && ctx.db.is_there(key) != (order.mode == Mode::Replace) {
        return Ok(Stored::Refused);
    }
    let marking = match order.chosen {
        Some(cas) => Marking::Chosen { flags: order.flags, state: 0, cas },
        None => Marking::of_flags(order.flags),
    };
    write(ctx, key, order, marking)?;
    Ok(Stored::Done)
}

fn compare_and_store(ctx: &mut Ctx<'_>, key: Key<'_>, order: Order<'_>) -> Result<Stored, DbError> {
    let wanted = order.cas.unwrap_or(0);
    let Some((marks, deadline_ms)) = ctx.db.look_at_string(key).map(|item| (item.marks(), item.expiry())) else {
        if ctx.db.is_there(key) {
            return Ok(Stored::Exists);
        }
        if order.mode == Mode::Add {
            return store_now(ctx, key, order);
        }
        ctx.stats.memcache.cas_misses += 1;
        return Ok(Stored::NotFound);
    };
    if order.mode == Mode::Add {
        return Ok(Stored::Refused);
    }
    // A value whose number nobody has asked for is later than all that were asked for.
    let (is_same, is_later) = match marks {
        Some(Marks { cas, .. }) => (cas == wanted, cas > wanted),
        None => (false, true),
    };
    if is_same && wanted != 0 {
        ctx.stats.memcache.cas_hits += 1;
        // Who compares once does so again: the number stays, as another one.
        let marking = match order.chosen {
            Some(cas) => Marking::Chosen { flags: order.flags, state: 0, cas },
            None => Marking::New { flags: order.flags, state: 0 },
        };
        write(ctx, key, order, marking)?;
        return Ok(Stored::Done);
    }
    if is_later && order.may_be_stale && wanted != 0 {
        ctx.stats.memcache.cas_hits += 1;
        let won = marks.map_or(0, |marks| marks.state) & state::WON;
        let due = deadline_ms.map_or(Due::Never, |expiry| Due::At(expiry.deadline_ms));
        let marking = Marking::Chosen { flags: order.flags, state: state::STALE | won, cas: order.chosen.unwrap_or(0) };
        write(ctx, key, Order { due, ..order }, marking)?;
        return Ok(Stored::Done);
    }
    ctx.stats.memcache.cas_badval += 1;
    Ok(Stored::Exists)
}

#[inline]
fn write(ctx: &mut Ctx<'_>, key: Key<'_>, order: Order<'_>, marking: Marking) -> Result<(), DbError> {
    if order.due == Due::Past {
        // It is stored, and gone.
        remove(ctx, key);
        return Ok(());
    }
    let (value, deadline) = (ctx.take_value(order.value), order.due.deadline());
    if marking == Marking::None {
        ctx.db.set_string(key, value, deadline)?;
    } else {
        ctx.db.set_marked(key, value, deadline, marking)?;
    }
    ctx.report(key, Event::Set);
    if matches!(order.due, Due::At(_)) {
        ctx.also(key, Event::Expire);
    }
    Ok(())
}
