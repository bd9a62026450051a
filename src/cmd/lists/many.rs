//! LPUSH, RPUSH, LPUSHX and RPUSHX of very many elements, in parts.

use super::pushed;
use crate::cmd::ctx::{Args, Ctx, Exec, Failure};
use crate::cmd::parts::{InParts, suspend};
use crate::db::Key;
use crate::db::collections::Missing;
use crate::db::hold::Mode;
use crate::types::list::{End, List};

pub const MANY_LPUSH: Exec = Exec::whole(super::lpush, |ctx, request| suspend(ctx, request, CREATE_HEAD));
pub const MANY_RPUSH: Exec = Exec::whole(super::rpush, |ctx, request| suspend(ctx, request, CREATE_TAIL));
pub const MANY_LPUSHX: Exec =
    Exec::whole(super::lpushx, |ctx, request| suspend(ctx, request, Push { missing: Missing::Skip, ..CREATE_HEAD }));
pub const MANY_RPUSHX: Exec =
    Exec::whole(super::rpushx, |ctx, request| suspend(ctx, request, Push { missing: Missing::Skip, ..CREATE_TAIL }));

const CREATE_HEAD: Push = Push { end: End::Head, missing: Missing::Create, pushed: 0, len: 0 };
const CREATE_TAIL: Push = Push { end: End::Tail, ..CREATE_HEAD };

struct Push {
    end: End,
    missing: Missing,
    pushed: u64,
    len: usize,
}

impl InParts for Push {
    const MODE: Mode = Mode::Exclusive;

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let len = ctx.db.edit::<List, _>(key, self.missing, |edit| {
            edit.push(self.end, part)?;
            Ok(edit.look().len())
        })?;
        if let Some(len) = len {
            (self.pushed, self.len) = (self.pushed + part.len() as u64, len);
        }
        Ok(len.is_some())
    }

    fn report(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        if self.pushed > 0 {
            ctx.report(key, pushed(self.end));
            ctx.change(self.pushed - 1);
        }
    }

    fn reply(&mut self, ctx: &mut Ctx<'_>) {
        ctx.reply.count(self.len);
    }
}
