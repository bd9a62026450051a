//! A name that a task holds while it works on the key in slices, so that the command stays atomic to everybody.

use super::super::ctx::Ctx;
use crate::db::Db;
use crate::db::hold::Mode;

/// The name of a key, its own copy; held or still to be.
pub(in crate::cmd) struct HeldName {
    pub name: Vec<u8>,
    holds: bool,
}

impl HeldName {
    pub fn new(name: &[u8]) -> HeldName {
        HeldName { name: name.to_vec(), holds: false }
    }

    /// Does it hold the name, now at the latest? False: somebody else holds names; try again.
    pub fn acquire(&mut self, ctx: &mut Ctx<'_>) -> bool {
        if self.holds {
            return true;
        }
        if !ctx.db.hold_begin(1, Mode::Exclusive) {
            return false;
        }
        let hash = ctx.key(&self.name).hash;
        ctx.db.hold(hash);
        self.holds = true;
        true
    }

    /// Lets go, if it holds the name.
    pub fn release(&mut self, db: &mut Db<'_>) {
        if std::mem::take(&mut self.holds) {
            db.hold_end();
        }
    }
}
