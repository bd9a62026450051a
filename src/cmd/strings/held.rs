//! A name that a task holds while it works on the key in slices, so that the command stays atomic to everybody.

use super::super::ctx::Ctx;
use crate::db::Shard;
use crate::db::hold::Mode;

/// The name of a key, its own copy; held or still to be.
pub(super) struct HeldName {
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
        let (database, hash) = (ctx.db.index(), ctx.key(&self.name).hash);
        let holds = &mut ctx.db.shard().holds;
        if !holds.begin(1, Mode::Exclusive) {
            return false;
        }
        holds.add(database, hash);
        self.holds = true;
        true
    }

    /// Lets go, if it holds the name.
    pub fn release(&mut self, shard: &mut Shard) {
        if std::mem::take(&mut self.holds) {
            shard.holds.end();
        }
    }
}
