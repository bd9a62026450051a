//! Looking for elements by their value: LPOS, LINSERT, LREM. Some hundred elements are looked at at once. Beyond that LPOS looks at a view of the
//! list, and the others hold its name: LINSERT against writers, until it has found the place; LREM against all, from the first element that it
//! removes to the last, so that half of it is never seen. LREM goes on without its client.

use super::AT_ONCE;
use crate::cmd::ctx::{Args, Budget, Ctx, Failure, Outcome, Task};
use crate::cmd::event::Event;
use crate::cmd::held::HeldName;
use crate::cmd::many::OUT_HIGH_BYTES;
use crate::cmd::options::parse_int;
use crate::db::collections::{Missing, Viewed};
use crate::db::hold::Mode;
use crate::db::{Db, DbError, Key};
use crate::proto::errors;
use crate::types::list::{Element, List, Needle};
use crate::types::{Edit, Look, Span};
use dolmen_slab::Slab;

/// Elements between two looks at the clock.
const PIECE: u32 = 64;

// ---- LPOS ----

/// A search for the places of an element.
struct Search {
    reverse: bool,
    /// Matches to be passed over.
    passed: usize,
    wanted: usize,
    /// Elements of the list, those that were looked at, those to be looked at.
    len: usize,
    looked: usize,
    looked_max: usize,
    found: Vec<usize>,
    /// The reply is an array.
    many: bool,
}

/// `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`
pub fn lpos(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    find(ctx, args).unwrap_or_else(|failure| ctx.fail(failure))
}

fn find(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Outcome, Failure> {
    let mut search = Search::parse(&args[3..])?;
    let key = ctx.first_key(args[1]);
    let Some(list) = ctx.db.read::<List>(key)? else {
        search.reply(ctx);
        return Ok(Outcome::Done);
    };
    search.len = list.len();
    search.looked_max = search.looked_max.min(search.len);
    let needle = Needle::new(args[2]);
    let first = if search.reverse { search.len - 1 } else { 0 };
    list.walk(first, search.reverse, |element| {
        search.see(needle.is(list.slab, &element));
        !search.is_over() && search.looked < AT_ONCE
    });
    if search.is_over() {
        search.reply(ctx);
        return Ok(Outcome::Done);
    }
    let span = Span { skip: search.looked, reverse: search.reverse };
    let view = ctx.db.open_view_again::<List>(key, span)?;
    Ok(ctx.suspend(Box::new(Find { search, element: args[2].to_vec(), view, written: 0 })))
}

impl Search {
    fn parse(mut options: Args<'_>) -> Result<Search, Failure> {
        let (mut rank, mut count, mut looked_max) = (1, None, 0);
        let size = |argument: &[u8]| parse_int(argument).ok().and_then(|number| usize::try_from(number).ok());
        while let [name, rest @ ..] = options {
            let [value, behind @ ..] = rest else { return Err(errors::SYNTAX.into()) };
            match &*name.to_ascii_lowercase() {
                b"rank" => match parse_int(value)? {
                    0 => return Err(errors::RANK_ZERO.into()),
                    i64::MIN => return Err(errors::WITHIN_LONG.into()),
                    number => rank = number,
                },
                b"count" => count = Some(size(value).ok_or(errors::COUNT_NEGATIVE)?),
                b"maxlen" => looked_max = size(value).ok_or(errors::MAXLEN_NEGATIVE)?,
                _ => return Err(errors::SYNTAX.into()),
            }
            options = behind;
        }
        // 0 is for all.
        let all = |number| if number == 0 { usize::MAX } else { number };
        Ok(Search {
            reverse: rank < 0,
            passed: usize::try_from(rank.unsigned_abs() - 1).unwrap_or(usize::MAX),
            wanted: count.map_or(1, all),
            len: 0,
            looked: 0,
            looked_max: all(looked_max),
            found: Vec::new(),
            many: count.is_some(),
        })
    }

    #[inline]
    fn see(&mut self, is_match: bool) {
        if is_match && self.passed > 0 {
            self.passed -= 1;
        } else if is_match {
            self.found.push(if self.reverse { self.len - 1 - self.looked } else { self.looked });
        }
        self.looked += 1;
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.looked == self.looked_max || self.found.len() == self.wanted
    }

    /// The reply of a search that has found little.
    fn reply(&self, ctx: &mut Ctx<'_>) {
        match (self.many, self.found.first()) {
            (true, _) => {
                ctx.reply.array(self.found.len());
                self.found.iter().for_each(|place| ctx.reply.count(*place));
            }
            (false, Some(place)) => ctx.reply.count(*place),
            (false, None) => ctx.reply.null(),
        }
    }
}

/// A long search, in a view.
struct Find {
    search: Search,
    element: Vec<u8>,
    view: Option<Viewed<List>>,
    /// Places that were written.
    written: usize,
}

impl Task for Find {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if let Some(view) = &mut self.view {
            let (search, needle) = (&mut self.search, Needle::new(&self.element));
            ctx.db.view_walk(view, |slab, element| {
                search.see(needle.is(slab, &element));
                !search.is_over() && !budget.is_spent(PIECE)
            });
            if !self.search.is_over() {
                return false;
            }
            self.abandon(&mut ctx.db);
            if self.search.many {
                ctx.reply.array(self.search.found.len());
            } else {
                self.search.reply(ctx);
                return true;
            }
        }
        for place in &self.search.found[self.written..] {
            ctx.reply.count(*place);
            self.written += 1;
            if ctx.reply.out().queued() > OUT_HIGH_BYTES || budget.is_spent(PIECE) {
                break;
            }
        }
        self.written == self.search.found.len()
    }

    fn bytes(&self) -> usize {
        let view = self.view.as_ref().map_or(0, Viewed::held_bytes);
        self.element.capacity() + self.search.found.capacity() * size_of::<usize>() + view
    }

    fn waits_for_room(&self) -> bool {
        self.view.is_none()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Some(view) = self.view.take() {
            db.close_view(view);
        }
    }
}

// ---- LINSERT ----

/// `LINSERT key BEFORE | AFTER pivot element`
pub fn linsert(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    insert(ctx, args).unwrap_or_else(|failure| ctx.fail(failure))
}

fn insert(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Outcome, Failure> {
    let behind = match &*args[2].to_ascii_lowercase() {
        b"before" => false,
        b"after" => true,
        _ => return Err(errors::SYNTAX.into()),
    };
    let key = ctx.first_key(args[1]);
    let Some(list) = ctx.db.look::<List>(key)? else {
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    };
    match look_for(list, 0, &Needle::new(args[3]), |looked| looked == AT_ONCE) {
        Looked::Found(index) => place(ctx, key, index + usize::from(behind), args[4])?,
        Looked::Nowhere => ctx.reply.int(-1),
        Looked::Until(_) => {
            let [pivot, element] = [args[3], args[4]].map(<[u8]>::to_vec);
            let mut name = HeldName::new(args[1], Mode::Shared);
            name.acquire(ctx);
            let task = Insert { name, pivot, element, behind, at: 0 };
            return Ok(ctx.suspend(Box::new(task)));
        }
    }
    Ok(Outcome::Done)
}

enum Looked {
    Found(usize),
    Nowhere,
    /// Not before this one.
    Until(usize),
}

/// Looks for an element from `first` on, until `enough` says so of the number of those looked at.
fn look_for(list: Look<'_, List>, first: usize, needle: &Needle<'_>, mut enough: impl FnMut(usize) -> bool) -> Looked {
    let (mut at, mut found) = (first, false);
    list.walk(first, false, |element| {
        found = needle.is(list.slab, &element);
        if !found {
            at += 1;
        }
        !found && !enough(at - first)
    });
    match found {
        true => Looked::Found(at),
        false if at == list.len() => Looked::Nowhere,
        false => Looked::Until(at),
    }
}

/// Puts an element in front of that at `index`, and replies with the length.
fn place(ctx: &mut Ctx<'_>, key: Key<'_>, index: usize, element: &[u8]) -> Result<(), Failure> {
    let len = ctx.db.edit::<List, _>(key, Missing::Skip, |edit| {
        edit.insert(index, element)?;
        Ok(edit.look().len())
    })?;
    ctx.report(key, Event::LInsert);
    ctx.reply.count(len.unwrap_or(0));
    Ok(())
}

/// A LINSERT with a long way to its pivot.
struct Insert {
    name: HeldName,
    pivot: Vec<u8>,
    element: Vec<u8>,
    behind: bool,
    /// Elements that were looked at since the name is held.
    at: usize,
}

impl Insert {
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let key = ctx.key(&self.name.name);
        // It may expire meanwhile.
        let Some(list) = ctx.db.look::<List>(key)? else {
            ctx.reply.int(0);
            return Ok(true);
        };
        match look_for(list, self.at, &Needle::new(&self.pivot), |_| budget.is_spent(PIECE)) {
            Looked::Found(index) => place(ctx, key, index + usize::from(self.behind), &self.element)?,
            Looked::Nowhere => ctx.reply.int(-1),
            Looked::Until(index) => {
                self.at = index;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Task for Insert {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if !self.name.acquire(ctx) {
            return false;
        }
        let done = self.go_on(ctx, budget).unwrap_or_else(|failure| {
            ctx.fail(failure);
            true
        });
        if done {
            self.abandon(&mut ctx.db);
        }
        done
    }

    fn bytes(&self) -> usize {
        self.name.name.capacity() + self.pivot.capacity() + self.element.capacity()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        self.name.release(db);
    }
}

// ---- LREM ----

/// `LREM key count element`
pub fn lrem(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    remove(ctx, args).unwrap_or_else(|failure| ctx.fail(failure))
}

fn remove(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<Outcome, Failure> {
    let count = parse_int(args[2])?;
    let key = ctx.first_key(args[1]);
    let Some(list) = ctx.db.look::<List>(key)? else {
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    };
    let max = if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let mut removal = Removal::new(count < 0, max);
    removal.start(list.len());
    let needle = Needle::new(args[3]);
    if list.len() > AT_ONCE && !is_near(list, count < 0, max, |slab, element| needle.is(slab, element)) {
        let mut name = HeldName::new(args[1], Mode::Exclusive);
        name.acquire(ctx);
        let task = Remove { name, element: args[3].to_vec(), removal, begun: false };
        return Ok(ctx.suspend(Box::new(task)));
    }
    let done = ctx.db.edit::<List, _>(key, Missing::Skip, |edit| Ok(removal.run(edit, &needle, |_| false)))?;
    removal.reply(ctx, key, done.unwrap_or(Ok(true)).map(|_| ()))?;
    Ok(Outcome::Done)
}

/// Are all elements that are to be removed among the next few?
fn is_near(list: Look<'_, List>, reverse: bool, max: usize, is_match: impl Fn(&Slab, &Element<'_>) -> bool) -> bool {
    let (mut matches, mut looked) = (0, 0);
    list.walk(if reverse { list.len() - 1 } else { 0 }, reverse, |element| {
        looked += 1;
        matches += usize::from(is_match(list.slab, &element));
        matches < max && looked < AT_ONCE
    });
    matches == max
}

/// How far the removal of equal elements has come.
struct Removal {
    reverse: bool,
    max: usize,
    /// The next element to be looked at; `None`: there is no more.
    next: Option<usize>,
    removed: usize,
    emptied: bool,
}

impl Removal {
    fn new(reverse: bool, max: usize) -> Removal {
        Removal { reverse, max, next: None, removed: 0, emptied: false }
    }

    fn start(&mut self, len: usize) {
        self.next = if self.reverse { len.checked_sub(1) } else { Some(0).filter(|_| len > 0) };
    }

    /// Removes until `enough` says so of how many elements a step has looked at. True: all is done. What was removed before an error stays so.
    fn run(
        &mut self,
        edit: &mut Edit<'_, List>,
        needle: &Needle<'_>,
        mut enough: impl FnMut(usize) -> bool,
    ) -> Result<bool, DbError> {
        while let Some(index) = self.next.filter(|_| self.removed < self.max) {
            let step = edit.remove_equal(index, self.reverse, needle, self.max - self.removed)?;
            self.removed += step.removed;
            self.next = if self.reverse {
                index.checked_sub(step.looked)
            } else {
                Some(index + step.looked - step.removed).filter(|next| *next < edit.look().len())
            };
            self.emptied = edit.look().is_empty();
            if enough(step.looked) {
                break;
            }
        }
        Ok(self.next.is_none() || self.removed >= self.max)
    }

    /// Tells what was removed, and replies with how many they were.
    fn reply(&self, ctx: &mut Ctx<'_>, key: Key<'_>, done: Result<(), DbError>) -> Result<(), Failure> {
        if self.removed > 0 {
            ctx.report(key, Event::LRem);
            ctx.change(self.removed as u64 - 1);
            if self.emptied {
                ctx.also(key, Event::Del);
            }
        }
        done?;
        ctx.reply.count(self.removed);
        Ok(())
    }
}

/// A LREM of a long list.
struct Remove {
    name: HeldName,
    element: Vec<u8>,
    removal: Removal,
    begun: bool,
}

impl Remove {
    fn begin(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
        self.begun = true;
        let len = ctx.db.look::<List>(ctx.key(&self.name.name))?.map_or(0, Look::len);
        self.removal.start(len);
        Ok(self.name.put_off_deadline(ctx)?)
    }

    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        if !self.begun {
            self.begin(ctx)?;
        }
        let key = ctx.key(&self.name.name);
        let (removal, needle) = (&mut self.removal, Needle::new(&self.element));
        let step =
            ctx.db.edit::<List, _>(key, Missing::Skip, |edit| Ok(removal.run(edit, &needle, |_| budget.is_spent(1))));
        let done = match step {
            Ok(None) => Ok(()),
            Ok(Some(Ok(false))) => return Ok(false),
            Ok(Some(Ok(true))) => Ok(()),
            Ok(Some(Err(error))) | Err(error) => Err(error),
        };
        self.name.restore_deadline(ctx);
        let key = ctx.key(&self.name.name);
        self.removal.reply(ctx, key, done).map(|()| true)
    }
}

impl Task for Remove {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if !self.name.acquire(ctx) {
            return false;
        }
        let done = self.go_on(ctx, budget).unwrap_or_else(|failure| {
            ctx.fail(failure);
            true
        });
        if done {
            self.abandon(&mut ctx.db);
        }
        done
    }

    fn bytes(&self) -> usize {
        self.name.name.capacity() + self.element.capacity()
    }

    fn must_finish(&self) -> bool {
        self.begun
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        self.name.release(db);
    }
}
