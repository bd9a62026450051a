//! A name that a task holds while it works on the key in slices, so that the command stays atomic to everybody.

use super::ctx::Ctx;
use crate::db::hold::Mode;
use crate::db::item::DEADLINE_MAX_MS;
use crate::db::{Db, DbError};

/// The name of a key, its own copy; held or still to be.
pub(in crate::cmd) struct HeldName {
    pub name: Vec<u8>,
    mode: Mode,
    /// The key's deadline, put off meanwhile.
    deadline_ms: Option<u64>,
    holds: bool,
}

impl HeldName {
    pub fn new(name: &[u8], mode: Mode) -> HeldName {
        HeldName { name: name.to_vec(), mode, deadline_ms: None, holds: false }
    }

    /// Does it hold the name, now at the latest? False: somebody else holds names; try again.
    pub fn acquire(&mut self, ctx: &mut Ctx<'_>) -> bool {
        if self.holds {
            return true;
        }
        if !ctx.db.hold_begin(1, self.mode) {
            return false;
        }
        let hash = ctx.key(&self.name).hash;
        ctx.db.hold(hash);
        self.holds = true;
        true
    }

    /// Puts the key's deadline off, so that it is there to the end of the work.
    pub fn put_off_deadline(&mut self, ctx: &mut Ctx<'_>) -> Result<(), DbError> {
        let key = ctx.key(&self.name);
        if let Some(Some(deadline_ms)) = ctx.db.deadline_for_write(key) {
            ctx.db.set_deadline(key, Some(DEADLINE_MAX_MS))?;
            self.deadline_ms = Some(deadline_ms);
        }
        Ok(())
    }

    /// Gives the key, if it still is there, the deadline that was put off.
    pub fn restore_deadline(&mut self, ctx: &mut Ctx<'_>) {
        let key = ctx.key(&self.name);
        if let Some(deadline_ms) = self.deadline_ms.take()
            && ctx.db.set_deadline(key, Some(deadline_ms)).is_err()
        {
            // Earlier than what it is armed for only if that has fired: the deadline is over.
            ctx.db.remove(key);
        }
    }

    /// Lets go, if it holds the name.
    pub fn release(&mut self, db: &mut Db<'_>) {
        if std::mem::take(&mut self.holds) {
            db.hold_end();
        }
    }
}
