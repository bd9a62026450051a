//! Replies with the elements of a container: from a view, in slices, as fast as the client takes them. Whatever is written to the key
//! meanwhile, the reply is what the container was when the command ran; memory is bounded by the output's high mark and what the view keeps.

use super::ctx::{Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::many::OUT_HIGH_BYTES;
use crate::base::entry::Entries;
use crate::db::Db;
use crate::db::collections::Viewed;
use crate::db::containers::Stored;
use crate::db::item::Key;
use crate::proto::reply::Reply;
use crate::types::Span;

/// Bytes of elements that are taken from a view at once: some ten microseconds of work.
const PIECE_BYTES: usize = 4 << 10;

/// Which elements are the reply, and how they are written.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Where it begins, of what has an order.
    pub span: Span,
    /// Elements at most.
    pub count: usize,
    /// Writes what comes before that many elements.
    pub head: fn(&mut Reply<'_>, usize),
    /// Takes the entries of one element off (see `Container::view_next`) and writes it.
    pub each: fn(&mut Reply<'_>, &mut Entries<'_>),
}

/// Replies with elements of the container at `key`. False: there is no such key, and nothing was written.
///
/// # Errors
/// Of another type.
pub fn elements<B: Stored>(ctx: &mut Ctx<'_>, key: Key<'_>, plan: Plan) -> Result<Option<Outcome>, Failure> {
    let Some(view) = ctx.db.open_view::<B>(key, plan.span)? else { return Ok(None) };
    let left = view.len().saturating_sub(plan.span.skip).min(plan.count);
    (plan.head)(&mut ctx.reply, left);
    let mut stream = Stream { view: Some(view), plan, left, run: Vec::new(), at: 0, over: false };
    if stream.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Ok(Some(Outcome::Done));
    }
    Ok(Some(ctx.suspend(Box::new(stream))))
}

struct Stream<B: Stored> {
    view: Option<Viewed<B>>,
    plan: Plan,
    /// Elements still to be written.
    left: usize,
    /// Those taken from the view, and where the next begins.
    run: Vec<u8>,
    at: usize,
    /// The view has given out all.
    over: bool,
}

impl<B: Stored> Stream<B> {
    fn close(&mut self, db: &mut Db<'_>) {
        if let Some(view) = self.view.take() {
            db.close_view(view);
        }
    }

    /// There was no memory to keep what is left of the reply, which has begun: the client cannot be told but by the end of the connection.
    #[cold]
    fn fail(&mut self, ctx: &mut Ctx<'_>) -> bool {
        self.close(&mut ctx.db);
        let id = ctx.client().id;
        ctx.asks.kill.push(id);
        true
    }
}

impl<B: Stored> Task for Stream<B> {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        loop {
            let mut entries = Entries::new(&self.run[self.at..]);
            while self.left > 0 && !entries.rest().is_empty() {
                (self.plan.each)(&mut ctx.reply, &mut entries);
                self.left -= 1;
            }
            self.at = self.run.len() - entries.rest().len();
            if self.left == 0 {
                self.close(&mut ctx.db);
                return true;
            }
            if self.over {
                debug_assert!(false, "a view has fewer elements than it said");
                return self.fail(ctx);
            }
            if ctx.out().queued() > OUT_HIGH_BYTES || budget.is_spent(1) {
                return false;
            }
            self.run.clear();
            self.at = 0;
            let Some(view) = &mut self.view else { return true };
            match ctx.db.view_next(view, &mut self.run, PIECE_BYTES) {
                Ok(more) => self.over = !more,
                Err(_) => return self.fail(ctx),
            }
        }
    }

    fn bytes(&self) -> usize {
        self.run.capacity() + self.view.as_ref().map_or(0, Viewed::held_bytes)
    }

    fn waits_for_room(&self) -> bool {
        true
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        self.close(db);
    }
}
