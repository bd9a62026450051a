//! Commands on sorted sets that go on in slices while they hold the names of their keys, so that they are one step to everybody. Owns taking the
//! names, giving them back, and writing what comes out as the client takes it; what is done is the command's ([`Work`]).

use super::{PIECE, pair_head, put_name};
use crate::base::entry::Entries;
use crate::cmd::ctx::{Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use crate::cmd::many::OUT_HIGH_BYTES;
use crate::cmd::runs::Runs;
use crate::db::Db;
use crate::db::hold::Mode;
use crate::types::zset::{Zset, score};
use crate::types::{Body, Span};

/// What a command does under held names.
pub(super) trait Work {
    /// Works until the budget is spent. `Some`: it is through.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<Option<Output>, Failure>;

    /// It has begun to change something.
    fn must_finish(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize;

    /// Gives back what lies in a shard.
    fn abandon(&mut self, _db: &mut Db<'_>) {}
}

/// What is still to be written.
pub(super) enum Output {
    /// Nothing: the reply is written.
    Written,
    /// Members and scores, each pair in one piece.
    Runs { runs: Runs, with_scores: bool, nested: bool },
    /// The elements of a body, which belongs to the shard of a key.
    Body { home: Vec<u8>, body: Body<Zset>, at: usize, with_scores: bool },
}

impl Output {
    fn bytes(&self) -> usize {
        match self {
            Output::Written => 0,
            Output::Runs { runs, .. } => runs.bytes(),
            Output::Body { home, .. } => home.capacity(),
        }
    }

    /// Writes until the budget is spent, or the client has much to take. True: that was all.
    fn write(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        loop {
            if self.write_piece(ctx) {
                self.abandon(&mut ctx.db);
                return true;
            }
            if ctx.out().queued() > OUT_HIGH_BYTES || budget.is_spent(1) {
                return false;
            }
        }
    }

    /// True: that was all.
    pub(super) fn write_piece(&mut self, ctx: &mut Ctx<'_>) -> bool {
        match self {
            Output::Written => true,
            Output::Runs { runs, with_scores, nested } => {
                let run = runs.front();
                let mut entries = Entries::new(run);
                for _ in 0..PIECE {
                    let (Some(member), Some(score)) = (entries.next(), entries.next()) else { break };
                    if *nested {
                        ctx.reply.array(2);
                    }
                    ctx.reply.entry(member);
                    if *with_scores {
                        ctx.reply.double(score::from_entry(score));
                    }
                }
                runs.pass(run.len() - entries.rest().len());
                runs.front().is_empty()
            }
            Output::Body { home, body, at, with_scores } => {
                let key = ctx.db.key(home);
                let reply = &mut ctx.reply;
                ctx.db.with_body(key, body, |edit| {
                    let look = edit.look();
                    for pair in look.pairs(Span { skip: *at, reverse: false }, PIECE) {
                        if *with_scores {
                            pair_head(reply);
                        }
                        put_name(reply, look.slab, pair.name);
                        if *with_scores {
                            reply.double(pair.score);
                        }
                    }
                    *at += PIECE;
                    *at >= look.len()
                })
            }
        }
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Output::Body { home, body, .. } = self {
            let key = db.key(home);
            db.drop_body(key, std::mem::take(body));
        }
        *self = Output::Written;
    }
}

/// Runs work that is small: at once, without holding anything. The locks of its keys are held.
pub(super) fn at_once(ctx: &mut Ctx<'_>, mut work: impl Work) -> Outcome {
    let mut budget = Budget::endless(ctx.clock);
    let done = loop {
        match work.go_on(ctx, &mut budget) {
            Ok(Some(output)) => break Ok(output),
            Ok(None) => {}
            Err(failure) => break Err(failure),
        }
    };
    match done {
        Ok(mut output) => {
            while !output.write_piece(ctx) {}
            output.abandon(&mut ctx.db);
            Outcome::Done
        }
        Err(failure) => {
            work.abandon(&mut ctx.db);
            ctx.fail(failure)
        }
    }
}

/// Runs work in slices, with these names held.
pub(super) fn in_slices(ctx: &mut Ctx<'_>, names: Vec<Vec<u8>>, mode: Mode, work: impl Work + 'static) -> Outcome {
    let mut sliced = Sliced { names, mode, work, holding: false, borrows: false, output: None };
    if ctx.db.is_shared() {
        // Here the shards of the keys are locked: the names can be taken, but given back only by a step, which locks one shard after the other.
        sliced.hold(&mut ctx.db);
    } else if sliced.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(sliced))
}

/// The same with names that others hold, until all is done but the writing (`Task::waits_for_room`).
pub(super) fn held(ctx: &mut Ctx<'_>, work: impl Work + 'static) -> Outcome {
    let mode = Mode::Exclusive;
    ctx.suspend(Box::new(Sliced { names: Vec::new(), mode, work, holding: false, borrows: true, output: None }))
}

struct Sliced<W> {
    names: Vec<Vec<u8>>,
    mode: Mode,
    work: W,
    holding: bool,
    /// What is held is somebody else's.
    borrows: bool,
    output: Option<Output>,
}

impl<W: Work> Sliced<W> {
    fn hold(&mut self, db: &mut Db<'_>) -> bool {
        if !self.holding && !self.borrows && db.hold_begin(self.names.len(), self.mode) {
            self.holding = true;
            for name in &self.names {
                let key = db.key(name);
                db.hold(key.hash);
            }
        }
        self.holding || self.borrows
    }

    fn release(&mut self, db: &mut Db<'_>) {
        if std::mem::take(&mut self.holding) {
            db.hold_end();
        }
    }
}

impl<W: Work> Task for Sliced<W> {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if let Some(output) = &mut self.output {
            return output.write(ctx, budget);
        }
        if !self.hold(&mut ctx.db) {
            return false;
        }
        match self.work.go_on(ctx, budget) {
            Ok(None) => false,
            Ok(Some(mut output)) => {
                self.release(&mut ctx.db);
                let done = output.write(ctx, budget);
                self.output = Some(output);
                done
            }
            Err(failure) => {
                self.work.abandon(&mut ctx.db);
                self.release(&mut ctx.db);
                ctx.fail(failure);
                true
            }
        }
    }

    fn bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.capacity() + size_of::<Vec<u8>>()).sum();
        names + self.work.bytes() + self.output.as_ref().map_or(0, Output::bytes)
    }

    fn waits_for_room(&self) -> bool {
        self.output.is_some()
    }

    fn must_finish(&self) -> bool {
        self.output.is_none() && (self.holding || self.borrows) && self.work.must_finish()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        self.work.abandon(db);
        if let Some(output) = &mut self.output {
            output.abandon(db);
        }
        self.release(db);
    }
}
