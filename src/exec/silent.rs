//! Clients that do not get every reply (CLIENT REPLY): one request at a time, to see which reply is whose.

use super::Engine;
use super::batch::{Batch, Share};
use super::pipeline::End;
use crate::base::out::Out;
use crate::cmd::client::{Replies, mark};
use crate::db::Access;

impl<A: Access> Engine<A> {
    /// `run` for a client that does not get every reply: one request at a time, to see which.
    #[cold]
    #[inline(never)]
    pub(super) fn run_silent(&mut self, me: u32, batch: &mut Batch<'_>, share: &Share, out: &mut Out) -> End {
        for at in share.requests.clone() {
            let one = Share { requests: at..at + 1, epoch: share.epoch };
            let i = at - share.requests.start;
            let end = match self.silenced(me, out, |engine, out| engine.run_as::<true>(me, batch, &one, out)) {
                End::All => continue,
                End::Close => return End::Close,
                End::Suspended(_, task) => End::Suspended(i, task),
                End::Held(_, waits) => End::Held(i, waits),
                End::Full(_) => End::Full(i),
            };
            // Whoever is told counts back what was not begun.
            self.stats.commands += (share.requests.end - at - 1) as u64;
            return end;
        }
        End::All
    }

    /// Has `run` run one request of a client that does not get every reply, and hands on its reply if the client gets it.
    pub(super) fn silenced(&mut self, me: u32, out: &mut Out, run: impl FnOnce(&mut Self, &mut Out) -> End) -> End {
        let client = self.clients.get_mut(me);
        if client.replies() == Replies::SkipNext {
            client.set_replies(Replies::Skip);
        }
        client.set_mark(mark::PUSHED, false);
        let mut reply = Out::new();
        let end = run(self, &mut reply);
        if matches!(end, End::Suspended(..) | End::Held(..)) {
            return end;
        }
        let client = self.clients.get_mut(me);
        let replies = client.replies();
        if replies == Replies::Skip {
            client.set_replies(Replies::All);
        }
        // The command itself may have changed it: CLIENT REPLY ON, RESET.
        if replies == Replies::All || client.is(mark::PUSHED) {
            let mut slices = Vec::new();
            reply.slices(&mut slices, usize::MAX);
            slices.iter().for_each(|slice| out.extend(slice));
        }
        end
    }
}
