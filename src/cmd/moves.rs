//! Keys that change their name or their database: RENAME RENAMENX MOVE COPY SWAPDB.
//!
//! Within a shard RENAME and MOVE are O(1) whatever the value. COPY, and RENAME between shards, copy: a value above 64 KiB
//! (`AT_ONCE_BYTES`) in slices, from a reference to what it was. Both names are held meanwhile, so that nobody writes to them, and are read as
//! before until all is done in the last slice.

use super::ctx::{Args, Budget, Ctx, Failure, Outcome, Run, Task};
use super::event::Event;
use super::options::parse_int;
use super::pieces::{AT_ONCE_BYTES, Draft, PIECE_BYTES, Reader};
use crate::db::any::AnyBody;
use crate::db::hold::Mode;
use crate::db::transfer::{Content, Copied, Made, Moved};
use crate::db::{Db, DbError, Key};
use crate::proto::errors;
use crate::table::Site;

/// The number of a database, `None` if there is none of that number.
fn parse_database(ctx: &mut Ctx<'_>, argument: &[u8]) -> Result<Option<usize>, Failure> {
    let index = i32::try_from(parse_int(argument)?).map_err(|_| errors::NOT_AN_INT)?;
    let databases = ctx.db.databases();
    Ok(usize::try_from(index).ok().filter(|i| *i < databases))
}

pub fn rename(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    rename_how(ctx, args, How::Rename)
}

pub fn renamenx(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    rename_how(ctx, args, How::RenameNx)
}

fn rename_how(ctx: &mut Ctx<'_>, args: Args<'_>, how: How) -> Outcome {
    let (from, to) = (ctx.first_key(args[1]), ctx.key(args[2]));
    if !ctx.db.is_there(from) {
        return ctx.fail(errors::NO_SUCH_KEY);
    }
    if from.bytes == to.bytes {
        how.answer(ctx, false);
        return Outcome::Done;
    }
    if how == How::RenameNx && ctx.db.is_there(to) {
        how.answer(ctx, false);
        return Outcome::Done;
    }
    if !ctx.db.same_shard(from, to) {
        let database = ctx.db.index();
        return transfer(ctx, args, from, to, database, how);
    }
    ctx.attempt(|ctx| {
        ctx.db.rename(from, to)?;
        how.report(ctx, from, to, ctx.db.index());
        Ok(())
    })
}

/// `MOVE key db`
pub fn move_(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let database = match parse_database(ctx, args[2]) {
        Ok(Some(database)) => database,
        Ok(None) => return ctx.fail(errors::DB_OUT_OF_RANGE),
        Err(failure) => return ctx.fail(failure),
    };
    if database == ctx.db.index() {
        return ctx.fail(errors::SAME_OBJECT);
    }
    if ctx.db.is_held_in(database, key, true) {
        return wait(ctx, args, move_);
    }
    ctx.attempt(|ctx| {
        let moved = ctx.db.move_to(key, database)? == Moved::Done;
        if moved {
            ctx.report(key, Event::MoveFrom);
            ctx.also_in(database, key, Event::MoveTo);
        }
        ctx.reply.int(i64::from(moved));
        Ok(())
    })
}

/// `COPY source destination [DB index] [REPLACE]`
pub fn copy(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let (database, replace) = match parse_copy(ctx, args) {
        Ok(parsed) => parsed,
        Err(failure) => return ctx.fail(failure),
    };
    let (from, to) = (ctx.first_key(args[1]), ctx.key(args[2]));
    if database == ctx.db.index() && from.bytes == to.bytes {
        return ctx.fail(errors::SAME_OBJECT);
    }
    if ctx.db.is_held_in(database, to, true) {
        return wait(ctx, args, copy);
    }
    if !replace
        && ctx.db.is_there(from)
        && ctx.db.in_database(database, |db| db.is_there(Key { site: Site::NONE, ..to }))
    {
        How::Copy.answer(ctx, false);
        return Outcome::Done;
    }
    transfer(ctx, args, from, to, database, How::Copy)
}

fn parse_copy(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(usize, bool), Failure> {
    let (mut database, mut replace) = (ctx.db.index(), false);
    let mut rest = args[3..].iter();
    while let Some(option) = rest.next() {
        match &*option.to_ascii_lowercase() {
            b"replace" => replace = true,
            b"db" => {
                let index = rest.next().ok_or(errors::SYNTAX)?;
                database = parse_database(ctx, index)?.ok_or(errors::DB_OUT_OF_RANGE)?;
            }
            _ => return Err(errors::SYNTAX.into()),
        }
    }
    Ok((database, replace))
}

/// `SWAPDB index1 index2`
pub fn swapdb(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    ctx.attempt(|ctx| {
        let a = parse_database(ctx, args[1]).map_err(|_| errors::FIRST_DB)?;
        let b = parse_database(ctx, args[2]).map_err(|_| errors::SECOND_DB)?;
        let (Some(a), Some(b)) = (a, b) else { return Err(errors::DB_OUT_OF_RANGE.into()) };
        ctx.db.swap_databases(a, b);
        ctx.change(1);
        // What is in the one may be what somebody waits for in the other.
        for database in [a, b] {
            let mut names: Vec<Box<[u8]>> = Vec::new();
            ctx.db.each_shard(|shard| names.extend(shard.waiters.names(database).map(Box::from)));
            names.iter().for_each(|name| ctx.make_ready(database, name));
        }
        ctx.out().ok();
        Ok(())
    })
}

// ---- copying ----

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Copy,
    Rename,
    RenameNx,
}

impl How {
    fn answer(self, ctx: &mut Ctx<'_>, done: bool) {
        match self {
            How::Rename => ctx.out().ok(),
            How::Copy | How::RenameNx => ctx.reply.int(i64::from(done)),
        }
    }

    fn report(self, ctx: &mut Ctx<'_>, from: Key<'_>, to: Key<'_>, database: usize) {
        match self {
            How::Copy => ctx.report_in(database, to, Event::CopyTo),
            How::Rename | How::RenameNx => {
                ctx.report(from, Event::RenameFrom);
                ctx.also(to, Event::RenameTo);
            }
        }
        self.answer(ctx, true);
    }
}

/// The copy of a large value, as far as it has come.
enum Load {
    /// Of these bytes.
    Bytes { len: usize, reader: Reader, draft: Draft },
    /// Of the elements of a container, whose view is in the copied value.
    Elements { body: Option<AnyBody>, run: Vec<u8> },
}

impl Load {
    /// `None`: the value is small, and copied already. True: the copy takes more than one slice.
    fn of(content: &Content) -> Option<(Load, bool)> {
        match content {
            Content::Raw(_) | Content::Int(_) | Content::Packed(..) => None,
            Content::Blob(whole) => {
                let (len, reader) = (whole.len(), Reader::new(whole.clone(), 0, whole.len()));
                Some((Load::Bytes { len, reader, draft: Draft::default() }, len > AT_ONCE_BYTES))
            }
            Content::Container(view) => {
                let body = Some(AnyBody::new(view.kind()));
                Some((Load::Elements { body, run: Vec::new() }, view.len() > AT_ONCE_ELEMENTS))
            }
        }
    }

    /// Copies a piece for `to`. False: that was the last.
    fn next(&mut self, db: &mut Db<'_>, content: &mut Content, to: Key<'_>) -> Result<bool, DbError> {
        match (self, content) {
            (Load::Bytes { len, reader, draft }, _) => match reader.next(PIECE_BYTES) {
                Some(piece) => draft.append(db, to, *len, piece).map(|()| true),
                None => Ok(false),
            },
            (Load::Elements { body: Some(body), run }, Content::Container(view)) => {
                run.clear();
                // A view is lost when there is no memory to keep it.
                let more = view.next(db, run, RUN_BYTES).map_err(|_| DbError::OutOfMemory)?;
                body.extend(db, to, run).map(|()| more)
            }
            _ => Ok(false),
        }
    }

    /// What was made; nothing is left to release.
    fn take(&mut self) -> Made {
        match self {
            Load::Bytes { draft, .. } => draft.take().map_or(Made::Nothing, Made::Blob),
            Load::Elements { body, .. } => body.take().map_or(Made::Nothing, Made::Container),
        }
    }

    /// Gives up what was made for `to`.
    fn release(&mut self, db: &mut Db<'_>, to: Key<'_>) {
        match self {
            Load::Bytes { draft, .. } => draft.release(db, to),
            Load::Elements { body, .. } => body.take().into_iter().for_each(|body| body.discard(db, to)),
        }
    }
}

/// Elements of a container that are copied in one go.
const AT_ONCE_ELEMENTS: usize = 512;
/// Bytes of elements that are copied between two looks at the clock.
const RUN_BYTES: usize = 4 << 10;

/// Copies a value to another key, whatever that holds.
fn transfer(ctx: &mut Ctx<'_>, args: Args<'_>, from: Key<'_>, to: Key<'_>, database: usize, how: How) -> Outcome {
    let Some(mut copied) = ctx.db.copied(from) else {
        how.answer(ctx, false);
        return Outcome::Done;
    };
    let mut made = Made::Nothing;
    if let Some((mut load, large)) = Load::of(&copied.content) {
        if large {
            if !ctx.db.hold_begin(2, Mode::Shared) {
                copied.close(&mut ctx.db);
                let run = [copy, rename, renamenx][how as usize];
                return wait(ctx, args, run);
            }
            ctx.db.hold(from.hash);
            ctx.db.in_database(database, |db| db.hold(to.hash));
            let names = [from.bytes.to_vec(), to.bytes.to_vec()];
            let copied = Some(copied);
            return ctx.suspend(Box::new(Transfer { names, database, how, copied, load, holding: true }));
        }
        loop {
            match load.next(&mut ctx.db, &mut copied.content, to) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    load.release(&mut ctx.db, to);
                    copied.close(&mut ctx.db);
                    return ctx.fail(e);
                }
            }
        }
        made = load.take();
    }
    let placed = place(ctx, from, to, database, how, &copied, made);
    copied.close(&mut ctx.db);
    if let Err(e) = placed {
        return ctx.fail(e);
    }
    Outcome::Done
}

/// The last step: from here on the value is at its new key, and the reply is written.
fn place(
    ctx: &mut Ctx<'_>,
    from: Key<'_>,
    to: Key<'_>,
    database: usize,
    how: How,
    copied: &Copied,
    made: Made,
) -> Result<(), DbError> {
    // A site made for the client's own database is none of another's.
    ctx.db.in_database(database, |db| db.put_copied(Key { site: Site::NONE, ..to }, copied, made))?;
    if how != How::Copy {
        ctx.db.remove(from);
    }
    how.report(ctx, from, to, database);
    Ok(())
}

/// A large value on its way.
struct Transfer {
    names: [Vec<u8>; 2],
    database: usize,
    how: How,
    /// Until it is given back.
    copied: Option<Copied>,
    load: Load,
    holding: bool,
}

impl Transfer {
    /// True: all of it is copied.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, DbError> {
        let to = ctx.key(&self.names[1]);
        let Some(copied) = &mut self.copied else { return Ok(true) };
        while self.load.next(&mut ctx.db, &mut copied.content, to)? {
            if budget.is_spent(1) {
                return Ok(false);
            }
        }
        let from = ctx.key(&self.names[0]);
        // What changes both is one step, also to those who read meanwhile.
        ctx.db.lock_keys([from.bytes, to.bytes].into_iter());
        let placed = place(ctx, from, to, self.database, self.how, copied, self.load.take());
        ctx.db.lock_none();
        placed.map(|()| true)
    }
}

impl Task for Transfer {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let done = match self.go_on(ctx, budget) {
            Ok(done) => done,
            Err(e) => {
                ctx.fail(e);
                true
            }
        };
        if done {
            self.abandon(&mut ctx.db);
        }
        done
    }

    fn bytes(&self) -> usize {
        let run = if let Load::Elements { run, .. } = &self.load { run.capacity() } else { 0 };
        run + self.names.iter().map(Vec::capacity).sum::<usize>()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        let to = db.key(&self.names[1]);
        self.load.release(db, to);
        if let Some(copied) = self.copied.take() {
            copied.close(db);
        }
        if std::mem::take(&mut self.holding) {
            db.hold_end();
        }
    }
}

/// Runs a command anew when nobody holds names any more: the pipeline has seen to that for the names of its own database only.
fn wait(ctx: &mut Ctx<'_>, args: Args<'_>, run: Run) -> Outcome {
    let args = args.iter().map(|argument| argument.to_vec()).collect();
    ctx.suspend(Box::new(Waiting { args, run, begun: None }))
}

struct Waiting {
    args: Vec<Vec<u8>>,
    run: Run,
    begun: Option<Box<dyn Task>>,
}

impl Task for Waiting {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if let Some(task) = &mut self.begun {
            return task.step(ctx, budget);
        }
        if ctx.db.is_holding() {
            return false;
        }
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        ctx.hash = ctx.key(args[1]).hash;
        ctx.site = Site::NONE;
        // As the pipeline does: what follows sees both keys at one instant.
        ctx.db.lock_keys(args[1..3].iter().copied());
        (self.run)(ctx, &args);
        ctx.db.lock_none();
        self.begun = ctx.task.take();
        self.begun.is_none()
    }

    fn bytes(&self) -> usize {
        let begun = self.begun.as_ref().map_or(0, |task| task.bytes());
        begun + self.args.iter().map(|a| a.capacity() + size_of::<Vec<u8>>()).sum::<usize>()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Some(task) = &mut self.begun {
            task.abandon(db);
        }
    }
}
