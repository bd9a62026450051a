//! Transactions: what EXEC does with the commands that a client has queued.
//!
//! ```text
//! pause?  →  lock the shards of all keys, of commands and watched ones  →  names held?  →  watched keys as they were?
//!         →  each command, whole  →  effects
//! ```
//! All is done under these locks, so to everybody the commands are one step. One that goes on in slices is driven to its end: nothing else can
//! run meanwhile that would change what it waits for, so it must wait for nothing (`Ctx::in_multi`, `Db::set_whole`). What only waits for
//! others to hear of it (`Task::has_taken_effect`) is waited for when the locks are free again.

use super::checks::{keys_of, must_wait};
use super::pipeline::{Waits, apply_effects};
use crate::base::out::Out;
use crate::cmd::acl::allow;
use crate::cmd::client::{Replies, gate, mark};
use crate::cmd::ctx::{Args, Budget, Ctx, Exec, FAILED, Outcome, Task};
use crate::cmd::monitor::show;
use crate::cmd::profile::Stretch;
use crate::cmd::slowlog;
use crate::cmd::spec::{Categories, Command, Flags, Locking};
use crate::cmd::transactions::{List, Queue};
use crate::db::{Db, Key};
use crate::proto::errors;
use crate::table::Site;

/// How EXEC ended.
pub(super) enum Executed {
    Done,
    /// It was not begun.
    Wait(Waits),
    /// The reply is written but for what others have to say.
    Suspended(Box<dyn Task>),
    /// One of the commands ends the connection.
    Close,
}

/// Runs the commands that the client has queued since MULTI.
#[cold]
#[inline(never)]
pub(super) fn execute(ctx: &mut Ctx<'_>, exec: &'static Command<Exec>) -> Executed {
    let queue = ctx.take_queue();
    if ctx.pause.stops(queue.flags()) {
        ctx.return_queue(queue);
        return Executed::Wait(Waits::Pause);
    }
    if let Some(why) = ctx.pause.refuses_writes().filter(|_| queue.flags().contains(Flags::WRITE)) {
        ctx.return_queue(queue);
        ctx.end_transaction();
        ctx.fail(errors::exec_refused(why.as_bytes()));
        return Executed::Done;
    }
    if ctx.client().transaction().is_some_and(|transaction| transaction.is_aborted()) {
        ctx.return_queue(queue);
        ctx.end_transaction();
        ctx.fail(errors::EXECABORT);
        return Executed::Done;
    }
    let list = queue.list();
    lock(ctx, &list);
    if ctx.db.is_holding() && must_wait_for_names(ctx, &list, queue.flags()) {
        drop(list);
        ctx.return_queue(queue);
        return Executed::Wait(Waits::Name);
    }
    if is_touched(ctx) {
        drop(list);
        ctx.return_queue(queue);
        ctx.end_transaction();
        ctx.reply.null_array();
        return Executed::Done;
    }
    ctx.unwatch_all();
    ctx.client().last_command = &exec.name;
    drop(list);
    let (pieces, close) = run(ctx, queue);
    ctx.end_transaction();
    if !pieces.is_empty() {
        return Executed::Suspended(Box::new(Pieces { pieces }));
    }
    if close { Executed::Close } else { Executed::Done }
}

/// Locks all that the commands will need.
fn lock(ctx: &mut Ctx<'_>, list: &List<'_>) {
    if !ctx.db.is_shared() {
        return;
    }
    if list.iter().any(|(row, _)| needs_all(row)) {
        return ctx.db.lock_all();
    }
    let Ctx { db, clients, me, .. } = ctx;
    let watched = clients.get(*me).transaction().into_iter().flat_map(|transaction| transaction.watched());
    let named = list.iter().flat_map(|(row, args)| keys_of(row, args));
    db.lock_keys(named.chain(watched.map(|(name, _)| name)));
}

/// Does a command come to shards that its arguments do not tell? By itself one that names no key locks shards as it comes to them, which is too
/// late here.
fn needs_all(row: &Command<Exec>) -> bool {
    match row.locking {
        Locking::One | Locking::Many => false,
        Locking::All => true,
        Locking::None => {
            row.flags.intersects(Flags::of(&[Flags::WRITE, Flags::READONLY]))
                || !(row.flags.intersects(Flags::of(&[Flags::FAST, Flags::PUBSUB]))
                    || row.categories.contains(Categories::CONNECTION))
        }
    }
}

/// Does another client's sliced command hold what the transaction names or watches?
fn must_wait_for_names(ctx: &mut Ctx<'_>, list: &List<'_>, flags: Flags) -> bool {
    if flags.contains(Flags::OTHER_DATABASE) && ctx.db.is_anything_held(true) {
        return true;
    }
    if list.iter().any(|(row, args)| must_wait(ctx, row, args)) {
        return true;
    }
    let Ctx { db, clients, me, .. } = ctx;
    let watched = clients.get(*me).transaction().into_iter().flat_map(|transaction| transaction.watched());
    watched.into_iter().any(|(name, watch)| {
        let key = db.key(name);
        db.is_held_in(watch.database(), key, false)
    })
}

/// Was a watched key changed, or is its time over?
fn is_touched(ctx: &mut Ctx<'_>) -> bool {
    let Ctx { db, clients, me, .. } = ctx;
    let Some(transaction) = clients.get(*me).transaction() else { return false };
    for (name, watch) in transaction.watched() {
        db.look_at_watched(watch, name);
    }
    transaction.is_touched()
}

/// A part of the reply: written, or what will write it.
enum Piece {
    Written(Out),
    Later(Box<dyn Task>),
}

/// Runs all commands. Returns the reply in pieces if some of them are not written yet, and whether the connection is to be closed.
fn run(ctx: &mut Ctx<'_>, mut queue: Queue) -> (Vec<Piece>, bool) {
    let (mut pieces, mut close) = (Vec::new(), false);
    let mut values = queue.take_values().into_iter().peekable();
    ctx.db.set_whole(true);
    ctx.stats.commands += queue.len() as u64;
    if is_heard(ctx) {
        ctx.reply.array(queue.len());
    }
    let mut pushed = false;
    for (i, (row, args)) in queue.list().iter().enumerate() {
        ctx.client().set_mark(mark::PUSHED, false);
        let value = values.next_if(|(at, _)| *at == i).map(|(_, value)| value);
        let heard = is_heard(ctx);
        let before = if heard { None } else { Some(std::mem::take(ctx.out())) };
        begin(ctx, row, args);
        ctx.track(row, keys_of(row, args));
        ctx.blob = value.as_ref().map(|value| value.blob);
        if ctx.pubsub.is_watched() {
            show(ctx, row, args);
        }
        ctx.keep_value(row);
        let changes = ctx.changed;
        let mut stretch = Stretch::new(ctx.profile.ticker.now());
        let outcome = if ctx.client().gate & gate::RESTRICTED == 0 {
            (row.run.run)(ctx, args)
        } else {
            // It was allowed when it was queued.
            match allow(ctx, row, args) {
                Ok(()) => (row.run.run)(ctx, args),
                Err(refusal) => ctx.fail(refusal.text_in_exec()),
            }
        };
        match outcome {
            Outcome::Done => {}
            Outcome::Close => close = true,
            Outcome::Suspended => {
                if let Some(task) = ctx.task.take()
                    && let Some(task) = drive(ctx, task)
                {
                    pieces.push(Piece::Written(std::mem::take(ctx.out())));
                    pieces.push(Piece::Later(task));
                }
            }
        }
        stretch.add(row.short_number(), 1);
        if ctx.changed & FAILED != 0 {
            ctx.profile.failed(row.number());
            ctx.changed &= !FAILED;
        }
        if ctx.changed != changes {
            ctx.record(row, args);
        }
        ctx.recorder.value = None;
        let ticks = ctx.profile.settle(&mut stretch);
        if ticks >= ctx.profile.notable_ticks {
            slowlog::note(ctx, row, || slowlog::kept(row, args), ticks);
        }
        if let (Some(unused), Some(value)) = (ctx.blob.take(), value) {
            ctx.db.blob_drop(Key { bytes: b"", hash: value.hash, site: Site::NONE }, unused);
        }
        if let Some(before) = before {
            // Only what CLIENT REPLY ON answers, if it was that, and what is told in any case.
            let reply = std::mem::replace(ctx.out(), before);
            let tells = ctx.client().is(mark::PUSHED);
            pushed |= tells;
            if is_heard(ctx) || tells {
                ctx.out().append(reply);
            }
        }
        follow(ctx);
    }
    ctx.client().set_mark(mark::PUSHED, pushed);
    ctx.db.set_whole(false);
    ctx.end_caching();
    // Who waits for what was changed is served now, of which the transaction sees nothing.
    apply_effects(ctx);
    if !pieces.is_empty() {
        pieces.push(Piece::Written(std::mem::take(ctx.out())));
    }
    (pieces, close)
}

/// What a command finds when it runs by itself: its first key's hash, and that shard the current one.
fn begin(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>) {
    (ctx.hash, ctx.site) = (0, Site::NONE);
    // (A shard channel stands where others have a key, and its shard is not locked.)
    if row.locking != Locking::None
        && let Some(key) = args.get(row.first_key).filter(|_| row.first_key > 0)
    {
        ctx.hash = ctx.key(key).hash;
        ctx.db.prefetch(ctx.hash);
    }
}

/// Does the client get the reply to the command that runs now?
fn is_heard(ctx: &mut Ctx<'_>) -> bool {
    matches!(ctx.client().replies(), Replies::All | Replies::SkipNext)
}

/// What a command has changed of its client (SELECT, CLIENT NO-TOUCH) holds for the next one.
fn follow(ctx: &mut Ctx<'_>) {
    let client = ctx.client();
    let (database, untouching) = (client.database as usize, client.gate & gate::NO_TOUCH != 0);
    ctx.db.switch_database(database);
    ctx.db.set_untouching(untouching);
}

/// Drives a command to its end. `Some`: its effect is complete, and it still waits for something.
fn drive(ctx: &mut Ctx<'_>, mut task: Box<dyn Task>) -> Option<Box<dyn Task>> {
    let mut written = Out::new();
    let mut budget = Budget::endless(ctx.clock);
    let left = loop {
        if task.step(ctx, &mut budget) {
            break None;
        }
        if task.has_taken_effect() {
            break Some(task);
        }
        // It may wait for its client to take output.
        let piece = std::mem::take(ctx.out());
        written.append(piece);
    };
    if !written.is_empty() {
        let last = std::mem::replace(ctx.out(), written);
        ctx.out().append(last);
    }
    left
}

/// The reply to an EXEC of which some commands wait for others to have heard of them.
struct Pieces {
    pieces: Vec<Piece>,
}

impl Task for Pieces {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let mut done = true;
        for piece in &mut self.pieces {
            let Piece::Later(task) = piece else { continue };
            let before = std::mem::take(ctx.out());
            let finished = task.step(ctx, budget);
            let written = std::mem::replace(ctx.out(), before);
            if finished {
                *piece = Piece::Written(written);
            } else {
                debug_assert!(written.is_empty(), "what waits for others writes its reply at the end");
                done = false;
            }
        }
        if done {
            for piece in self.pieces.drain(..) {
                if let Piece::Written(written) = piece {
                    ctx.out().append(written);
                }
            }
        }
        done
    }

    fn bytes(&self) -> usize {
        let of = |piece: &Piece| match piece {
            Piece::Written(written) => written.capacity(),
            Piece::Later(task) => task.bytes(),
        };
        self.pieces.iter().map(of).sum()
    }

    fn waits_for_others(&self) -> bool {
        self.pieces.iter().all(|piece| match piece {
            Piece::Written(_) => true,
            Piece::Later(task) => task.waits_for_others(),
        })
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        for piece in &mut self.pieces {
            if let Piece::Later(task) = piece {
                task.abandon(db);
            }
        }
    }
}
