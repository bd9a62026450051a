//! Elements of a list as it was, written in slices and from where they lie: a large one is sent by reference, however long the reply is.

use super::write_element;
use crate::cmd::ctx::{Budget, Ctx, FIRST_SLICE, Outcome, Task};
use crate::cmd::many::OUT_HIGH_BYTES;
use crate::db::Db;
use crate::db::collections::Viewed;
use crate::types::list::List;

/// Elements between two looks at the clock.
const PIECE: u32 = 32;

/// The elements of a view, up to a number of them. The head of the reply is written by others.
pub(super) struct Elements {
    view: Option<Viewed<List>>,
    left: usize,
}

impl Elements {
    pub fn new(view: Viewed<List>, count: usize) -> Elements {
        Elements { view: Some(view), left: count }
    }

    pub fn begin(mut self, ctx: &mut Ctx<'_>) -> Outcome {
        if self.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
            return Outcome::Done;
        }
        ctx.suspend(Box::new(self))
    }
}

impl Task for Elements {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let Some(view) = &mut self.view else { return true };
        let (left, reply) = (&mut self.left, &mut ctx.reply);
        ctx.db.view_walk(view, |slab, element| {
            write_element(reply, slab, element);
            *left -= 1;
            *left > 0 && reply.out().queued() <= OUT_HIGH_BYTES && !budget.is_spent(PIECE)
        });
        if self.left == 0 {
            self.abandon(&mut ctx.db);
            return true;
        }
        false
    }

    fn bytes(&self) -> usize {
        self.view.as_ref().map_or(0, Viewed::held_bytes)
    }

    fn waits_for_room(&self) -> bool {
        true
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Some(view) = self.view.take() {
            db.close_view(view);
        }
    }
}
