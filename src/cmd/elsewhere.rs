//! What a command has a thread of its own do, as it may wait for a disk, and goes on when that is done.

use super::ctx::{Budget, Ctx, Outcome, Task};
use crate::db::Db;
use std::io;
use std::thread::JoinHandle;

/// Has `work` done on another thread, and then finishes the command with what it has returned (or why there was no thread).
pub fn elsewhere<T: Send + 'static>(
    ctx: &mut Ctx<'_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
    finish: impl FnOnce(&mut Ctx<'_>, io::Result<T>) -> Outcome + 'static,
) -> Outcome {
    match std::thread::Builder::new().name(name.into()).spawn(work) {
        Ok(thread) => ctx.suspend(Box::new(Elsewhere { work: Some((thread, finish)), then: None })),
        Err(error) => finish(ctx, Err(error)),
    }
}

struct Elsewhere<T, F> {
    work: Option<(JoinHandle<T>, F)>,
    /// What the command does behind it.
    then: Option<Box<dyn Task>>,
}

impl<T, F: FnOnce(&mut Ctx<'_>, io::Result<T>) -> Outcome> Task for Elsewhere<T, F> {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if let Some(then) = &mut self.then {
            return then.step(ctx, budget);
        }
        let Some((thread, finish)) = self.work.take_if(|(thread, _)| thread.is_finished()) else { return false };
        let result = thread.join().map_err(|_| io::Error::other("the thread has panicked"));
        finish(ctx, result);
        self.then = ctx.task.take();
        self.then.is_none()
    }

    fn bytes(&self) -> usize {
        self.then.as_ref().map_or(0, |then| then.bytes())
    }

    fn waits_for_others(&self) -> bool {
        self.then.as_ref().is_some_and(|then| then.waits_for_others())
    }

    fn has_taken_effect(&self) -> bool {
        self.then.as_ref().is_some_and(|then| then.has_taken_effect())
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Some(then) = &mut self.then {
            then.abandon(db);
        }
    }
}
