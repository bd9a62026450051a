//! May a client run this command? Asked by the pipeline for clients whose user may not do all (`gate::RESTRICTED`), before a command runs or is
//! queued, and by EXEC once more.

use super::context_of;
use crate::acl::{Denial, Denied, KeyUse, Reason, Request, User};
use crate::cmd::ctx::{Args, Ctx, Exec, Failure};
use crate::cmd::spec::{Command, Flags, KeyFlags, Located};
use crate::proto::errors;
use std::sync::Arc;

/// What a command does with each of its keys.
fn key_uses(row: &Command<Exec>, args: Args<'_>) -> Vec<KeyUse> {
    let mut uses = Vec::new();
    for spec in row.key_specs.iter().filter(|spec| !spec.flags.contains(KeyFlags::NOT_KEY)) {
        let (first, last, step) = match spec.locate(args) {
            Located::At { first, last, step } => (first, last, step),
            Located::Absent => continue,
            // The command will refuse its form, whoever calls it.
            Located::Invalid => return Vec::new(),
        };
        let flags = spec.flags_for(args);
        let reads = flags.contains(KeyFlags::ACCESS);
        let writes = flags.intersects(KeyFlags::of(&[KeyFlags::INSERT, KeyFlags::DELETE, KeyFlags::UPDATE]));
        uses.extend((first..=last).step_by(step).map(|at| KeyUse { at, reads, writes }));
    }
    uses
}

fn with_request<T>(row: &Command<Exec>, args: Args<'_>, look: impl FnOnce(&Request<'_>) -> T) -> T {
    let keys = key_uses(row, args);
    look(&Request {
        command: row.number(),
        is_free: row.flags.contains(Flags::NO_AUTH),
        first: 1,
        args,
        keys: &keys,
        channels: row.run.channels,
    })
}

/// Why a user may not run a command, if it may not.
pub(super) fn denied(user: &User, row: &Command<Exec>, args: Args<'_>) -> Option<Denied> {
    with_request(row, args, |request| user.check(request)).err()
}

fn user_of(ctx: &Ctx<'_>) -> Arc<User> {
    let user = ctx.clients.get(ctx.me).user();
    Arc::clone(user.unwrap_or_else(|| ctx.acl.users().default_user()))
}

/// What a client is told whose command is denied.
pub struct Refusal {
    reason: Reason,
    command: &'static str,
}

impl Refusal {
    /// When it is denied before it runs.
    #[must_use]
    pub fn text(&self) -> Failure {
        match self.reason {
            Reason::Command => errors::noperm_command(self.command).into(),
            Reason::Key => errors::NOPERM_KEY.into(),
            Reason::Channel => errors::NOPERM_CHANNEL.into(),
        }
    }

    /// When it had been allowed, and EXEC finds that it is not any more.
    #[must_use]
    pub fn text_in_exec(&self) -> Failure {
        let reason = match self.reason {
            Reason::Command => "no permission to execute the command or subcommand",
            Reason::Key => "no permission to touch the specified keys",
            Reason::Channel => "no permission to access one of the channels used as arguments",
        };
        errors::noperm_in_exec(reason).into()
    }
}

/// May the client run this command? If not, that is noted.
#[cold]
#[inline(never)]
pub fn allow(ctx: &mut Ctx<'_>, row: &'static Command<Exec>, args: Args<'_>) -> Result<(), Refusal> {
    let user = user_of(ctx);
    let Some(denied) = denied(&user, row, args) else { return Ok(()) };
    let object = if denied.reason == Reason::Command { row.name.as_bytes() } else { args[denied.at] };
    note(ctx, Some(denied.reason), object, &user.name);
    Err(Refusal { reason: denied.reason, command: row.name })
}

/// May the client, whose command is allowed, also read keys that it does not name (SORT with BY or GET)?
pub fn may_read_any_key(ctx: &Ctx<'_>, row: &Command<Exec>, args: Args<'_>) -> bool {
    let user = user_of(ctx);
    user.may_do_all() || with_request(row, args, |request| user.reads_any_key(request))
}

/// Notes that something was denied to a user; `None`: to be let in.
pub(super) fn note(ctx: &mut Ctx<'_>, reason: Option<Reason>, object: &[u8], user: &[u8]) {
    ctx.stats.denials[reason.map_or(0, |reason| reason as usize + 1)] += 1;
    let mut client = Vec::new();
    let at_ms = ctx.db.now_ms();
    ctx.client().describe(at_ms, &mut client);
    let denial = Denial {
        reason,
        context: context_of(ctx),
        object: object.to_vec(),
        user: user.to_vec(),
        client,
        at_ms,
        first_ms: 0,
        count: 0,
        id: 0,
    };
    ctx.acl.log().add(denial, ctx.config.acl_log_len_max as usize);
}
