//! How a change of the users reaches the clients: each worker adopts the users and looks at its clients. Who has lost its user, or listens to a
//! channel that it may not listen to any more, is disconnected; the others go on with what they may do now.

use crate::cmd::client::gate;
use crate::cmd::ctx::{Budget, Ctx, Outcome};
use crate::cmd::fleet::{Local, everywhere_sliced};
use crate::pubsub::Kind;

/// One worker's part of it, in slices.
pub struct Sweep {
    /// The client who has asked for it: it gets its reply before it goes.
    by: u64,
    /// All users but the default one are new ones, whatever they are called.
    replaced: bool,
    adopted: bool,
    seen: u64,
}

impl Sweep {
    #[must_use]
    pub fn new(by: u64, replaced: bool) -> Sweep {
        Sweep { by, replaced, adopted: false, seen: 0 }
    }

    /// True: all clients have been looked at.
    pub fn step(&mut self, local: &mut Local<'_>, budget: &mut Budget) -> bool {
        if !std::mem::replace(&mut self.adopted, true) {
            local.acl.adopt();
        }
        while let Some((index, client)) = local.clients.after(self.seen) {
            self.seen = client.id;
            self.look_at(local, index);
            if budget.is_spent(16) {
                return false;
            }
        }
        // So that INFO tells who has gone wherever it is asked next.
        local.stats.clients = local.clients.alive() as u64;
        local.fleet.publish(local.stats);
        true
    }

    fn look_at(&self, local: &mut Local<'_>, index: u32) {
        let client = local.clients.get_mut(index);
        let users = local.acl.users();
        let user = match client.user() {
            None => {
                if users.default_user().is_open() {
                    client.set_gate(gate::UNAUTHENTICATED, false);
                }
                Some(users.default_user())
            }
            Some(old) => users.get(&old.name).filter(|_| !self.replaced),
        };
        let Some(user) = user else { return self.kill(local, index) };
        client.become_user(user);
        let subscriptions = &local.pubsub.subscriptions;
        let listens = |(kind, is_pattern): (Kind, bool)| {
            subscriptions.names(index, kind).iter().all(|name| user.allows_channel(name, is_pattern))
        };
        let kinds = [(Kind::Channel, false), (Kind::Pattern, true), (Kind::Shard, false)];
        if !user.may_do_all() && !kinds.into_iter().all(listens) {
            self.kill(local, index);
        }
    }

    fn kill(&self, local: &mut Local<'_>, index: u32) {
        let id = local.clients.get(index).id;
        local.clients.kill(index);
        if id != self.by {
            local.asks.kill.push(id);
        }
    }
}

/// Has every worker adopt the users, and answers when all have.
pub(super) fn everywhere(ctx: &mut Ctx<'_>, replaced: bool, answer: impl FnOnce(&mut Ctx<'_>) + 'static) -> Outcome {
    let by = ctx.client().id;
    let make = move || {
        let mut sweep = Sweep::new(by, replaced);
        move |local: &mut Local<'_>, budget: &mut Budget| sweep.step(local, budget).then_some(())
    };
    let outcome = everywhere_sliced(ctx, make, move |ctx, _: Vec<()>| answer(ctx));
    if outcome == Outcome::Done && ctx.client().is_killed() { Outcome::Close } else { outcome }
}
