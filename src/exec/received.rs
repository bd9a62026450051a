//! Requests of protocols that have their own tables of commands, whose value was received in place.

use super::Engine;
use super::pipeline::End;
use crate::base::out::Out;
use crate::cmd::ctx::{Args, Exec};
use crate::cmd::spec::Command;
use crate::db::Access;

impl<A: Access> Engine<A> {
    /// Runs a request of a row, outside of a command table, whose value was received in place.
    pub fn run_received(
        &mut self,
        me: u32,
        row: &'static Command<Exec>,
        args: Args<'_>,
        blob: dolmen_slab::BlobId,
        out: &mut Out,
    ) -> End {
        let locator = self.keyspace.locator(self.clients.get(me).database as usize);
        let request = self.request(locator, Some(row), args, 0, 0);
        // (There is no MULTI in which it could be queued.)
        self.run_kept(me, request, args, Some(blob), out).unwrap_or(End::Close)
    }
}
