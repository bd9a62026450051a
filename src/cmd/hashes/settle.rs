//! Before a command tells of a hash as a whole, fields whose deadlines have come are removed; when they are many, in slices, and the command runs
//! after the last. So what it tells is exact: how many there are, and which.

use super::super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Run, Task};
use super::super::event::Event;
use crate::db::Key;
use crate::db::collections::Missing;
use crate::types::hash::Hash;

/// Fields between two looks at the clock.
const PIECE: usize = 32;

/// Removes what has expired until the budget is spent. True: nothing is left of it.
fn go_on(ctx: &mut Ctx<'_>, key: Key<'_>, budget: &mut Budget) -> Result<bool, Failure> {
    let now_ms = ctx.db.now_ms();
    while let Some(look) = ctx.db.look::<Hash>(key)?
        && look.earliest_ms() <= now_ms
    {
        let (mut expired, mut gone) = (0, ctx.is_recorded().then(Vec::new));
        let emptied = ctx.db.edit::<Hash, _>(key, Missing::Skip, |edit| {
            expired = edit.expire_noting(now_ms, PIECE, gone.as_mut());
            Ok(edit.look().is_empty())
        })?;
        ctx.db.count_expired_fields(expired);
        ctx.db.note_fields_gone(key, gone.unwrap_or_default());
        ctx.report(key, Event::HExpired);
        if emptied == Some(true) {
            ctx.also(key, Event::Del);
        }
        if budget.is_spent(1) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs a command on a hash (its first argument) in which nothing has expired.
#[inline]
pub(super) fn settled(ctx: &mut Ctx<'_>, args: Args<'_>, run: Run) -> Outcome {
    let (key, now_ms) = (ctx.first_key(args[1]), ctx.db.now_ms());
    match ctx.db.look::<Hash>(key) {
        Ok(Some(look)) if look.earliest_ms() <= now_ms => settle(ctx, args, run),
        // The command itself says what is wrong.
        _ => run(ctx, args),
    }
}

#[cold]
fn settle(ctx: &mut Ctx<'_>, args: Args<'_>, run: Run) -> Outcome {
    let key = ctx.first_key(args[1]);
    match go_on(ctx, key, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        Ok(true) => run(ctx, args),
        Ok(false) => {
            let args = args.iter().map(|arg| arg.to_vec()).collect();
            ctx.suspend(Box::new(Settle { args, run, then: None }))
        }
        Err(failure) => ctx.fail(failure),
    }
}

struct Settle {
    args: Vec<Vec<u8>>,
    run: Run,
    /// What the command has suspended itself with.
    then: Option<Box<dyn Task>>,
}

impl Task for Settle {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if let Some(task) = &mut self.then {
            return task.step(ctx, budget);
        }
        let key = ctx.key(&self.args[1]);
        match go_on(ctx, key, budget) {
            Ok(false) => return false,
            Ok(true) => {}
            Err(failure) => {
                ctx.fail(failure);
                return true;
            }
        }
        (ctx.hash, ctx.site) = (key.hash, key.site);
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        let outcome = (self.run)(ctx, &args);
        self.then = ctx.task.take();
        outcome != Outcome::Suspended
    }

    fn bytes(&self) -> usize {
        let args: usize = self.args.iter().map(|arg| arg.capacity() + size_of::<Vec<u8>>()).sum();
        args + self.then.as_ref().map_or(0, |task| task.bytes())
    }

    fn waits_for_room(&self) -> bool {
        self.then.as_ref().is_some_and(|task| task.waits_for_room())
    }

    fn abandon(&mut self, db: &mut crate::db::Db<'_>) {
        if let Some(task) = &mut self.then {
            task.abandon(db);
        }
    }
}
