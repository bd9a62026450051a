//! A command that goes on in slices, with the time that it takes: what waiting it does is not counted.

use crate::cmd::ctx::{AWAITED, Args, Budget, Ctx, Exec, FAILED, Task};
use crate::cmd::record::Told;
use crate::cmd::slowlog;
use crate::cmd::spec::Command;
use crate::db::Db;

pub struct Timed {
    task: Box<dyn Task>,
    row: &'static Command<Exec>,
    /// Taken so far.
    ticks: u64,
    /// What the slow log would keep.
    args: Vec<Vec<u8>>,
    /// The command, to be logged at its first change, if changes are logged.
    told: Option<Box<Told>>,
}

impl Timed {
    /// It has taken so many ticks before it was suspended.
    pub fn new(task: Box<dyn Task>, row: &'static Command<Exec>, args: Args<'_>, ticks: u64) -> Timed {
        Timed { task, row, ticks, args: slowlog::kept(row, args), told: None }
    }

    /// The same of a command that may change something in its later slices.
    pub fn told(self, ctx: &mut Ctx<'_>, args: Args<'_>) -> Timed {
        let told = ctx.keep_command(self.row, args);
        self.telling(told)
    }

    pub fn telling(self, told: Option<Box<Told>>) -> Timed {
        Timed { told, ..self }
    }
}

impl Task for Timed {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let from = ctx.profile.ticker.now();
        (ctx.recorder.task, ctx.recorder.stepping) = (self.told.take(), true);
        let done = self.task.step(ctx, budget);
        if ctx.changed & !(FAILED | AWAITED) != 0 {
            ctx.record_task();
        }
        (self.told, ctx.recorder.stepping) = (ctx.recorder.task.take(), false);
        self.ticks += ctx.profile.ticker.now().saturating_sub(from);
        if done {
            self.ticks += self.task.ticks_besides();
            ctx.profile.one(self.row.number(), self.ticks);
            if ctx.changed & FAILED != 0 {
                ctx.profile.failed(self.row.number());
            }
            if self.ticks >= ctx.profile.notable_ticks {
                slowlog::note(ctx, self.row, || std::mem::take(&mut self.args), self.ticks);
            }
        }
        ctx.changed &= !FAILED;
        done
    }

    fn bytes(&self) -> usize {
        let told = self.told.as_ref().map_or(0, |told| told.bytes());
        self.task.bytes() + told + self.args.iter().map(Vec::capacity).sum::<usize>()
    }

    fn waits_for_room(&self) -> bool {
        self.task.waits_for_room()
    }

    fn must_finish(&self) -> bool {
        self.task.must_finish()
    }

    fn ends_with_client(&self) -> bool {
        self.task.ends_with_client()
    }

    fn is_mid_reply(&self) -> bool {
        self.task.is_mid_reply()
    }

    fn waits_for_others(&self) -> bool {
        self.task.waits_for_others()
    }

    fn has_taken_effect(&self) -> bool {
        self.task.has_taken_effect()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        self.task.abandon(db);
    }
}
