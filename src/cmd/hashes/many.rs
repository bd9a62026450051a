//! HSET, HMSET, HMGET and HDEL of very many fields, in parts.

use super::{change, reply_value};
use crate::cmd::ctx::{Args, Ctx, Exec, Failure};
use crate::cmd::event::Event;
use crate::cmd::parts::{InParts, suspend};
use crate::db::Key;
use crate::db::collections::Missing;
use crate::db::hold::Mode;
use crate::proto::errors;
use crate::types::hash::{Hash, Lifetime};

pub const MANY_HSET: Exec = Exec::whole(super::hset, |ctx, request| suspend(ctx, request, Put::new("hset")));
pub const MANY_HMSET: Exec = Exec::whole(super::hmset, |ctx, request| suspend(ctx, request, Put::new("hmset")));
pub const MANY_HDEL: Exec = Exec::whole(super::hdel, |ctx, request| suspend(ctx, request, Remove::default()));
pub const MANY_HMGET: Exec = Exec::whole(super::hmget, |ctx, request| suspend(ctx, request, Get));

struct Put {
    command: &'static str,
    set: u64,
    created: usize,
}

impl Put {
    fn new(command: &'static str) -> Put {
        Put { command, set: 0, created: 0 }
    }
}

impl InParts for Put {
    const MODE: Mode = Mode::Exclusive;
    const GROUP: usize = 2;

    fn begin<'a>(&mut self, argc: usize, _: impl Fn(usize) -> &'a [u8]) -> Result<usize, Failure> {
        if argc.is_multiple_of(2) { Ok(2) } else { Err(errors::wrong_number_of_arguments(self.command).into()) }
    }

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let (set, created) = (&mut self.set, &mut self.created);
        change(ctx, key, Missing::Create, |edit, now_ms| {
            for pair in part.chunks_exact(2) {
                *created += usize::from(edit.set(pair[0], pair[1], Lifetime::Forever, now_ms)?);
                *set += 1;
            }
            Ok(())
        })?;
        Ok(true)
    }

    fn report(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        if self.set > 0 {
            ctx.report(key, Event::HSet);
            ctx.change(self.set - 1);
        }
    }

    fn reply(&mut self, ctx: &mut Ctx<'_>) {
        if self.command == "hset" { ctx.reply.count(self.created) } else { ctx.reply.ok() }
    }
}

#[derive(Default)]
struct Remove {
    removed: u64,
    emptied: bool,
}

impl InParts for Remove {
    const MODE: Mode = Mode::Exclusive;

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let done = change(ctx, key, Missing::Skip, |edit, now_ms| {
            Ok(part.iter().filter(|field| edit.remove(field, now_ms)).count() as u64)
        })?;
        let Some(done) = done else { return Ok(false) };
        self.removed += done.value;
        self.emptied = done.emptied;
        Ok(!done.emptied)
    }

    fn report(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        if self.removed > 0 {
            ctx.report(key, Event::HDel);
            ctx.change(self.removed - 1);
        }
        if self.emptied {
            ctx.also(key, Event::Del);
        }
    }

    fn reply(&mut self, ctx: &mut Ctx<'_>) {
        ctx.reply.int(self.removed.cast_signed());
    }
}

struct Get;

impl InParts for Get {
    const MODE: Mode = Mode::Shared;

    fn start(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, elements: usize) -> Result<(), Failure> {
        ctx.db.read::<Hash>(key)?;
        ctx.reply.array(elements);
        Ok(())
    }

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let now_ms = ctx.db.now_ms();
        let look = ctx.db.look::<Hash>(key)?;
        part.iter().for_each(|field| reply_value(&mut ctx.reply, look, field, now_ms));
        Ok(true)
    }
}
