//! ZADD, ZREM and ZMSCORE of very many members, in parts.

use super::members::{Done, Options, report_removed};
use super::parse_score;
use crate::cmd::ctx::{Args, Ctx, Exec, Failure};
use crate::cmd::event::Event;
use crate::cmd::parts::{InParts, suspend};
use crate::db::Key;
use crate::db::collections::Missing;
use crate::db::hold::Mode;
use crate::types::zset::Zset;

pub const MANY_ZADD: Exec = Exec::whole(super::zadd, |ctx, request| suspend(ctx, request, Add::default()));
pub const MANY_ZREM: Exec = Exec::whole(super::zrem, |ctx, request| suspend(ctx, request, Remove::default()));
pub const MANY_ZMSCORE: Exec = Exec::whole(super::zmscore, |ctx, request| suspend(ctx, request, Ask));

/// Many pairs come without INCR.
#[derive(Default)]
struct Add {
    options: Options,
    done: Done,
}

impl InParts for Add {
    const MODE: Mode = Mode::Exclusive;
    const GROUP: usize = 2;
    const CHECKS: bool = true;

    fn begin<'a>(&mut self, argc: usize, get: impl Fn(usize) -> &'a [u8]) -> Result<usize, Failure> {
        let (options, first) = Options::parse(argc, get)?;
        self.options = options;
        Ok(first)
    }

    fn check(&self, group: Args<'_>) -> Result<(), Failure> {
        parse_score(group[0]).map(|_| ())
    }

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let Add { options, done } = self;
        let missing = if options.xx { Missing::Skip } else { Missing::Create };
        let mut failed = Ok(());
        let is_there = ctx.db.edit::<Zset, ()>(key, missing, |edit| {
            for pair in part.chunks_exact(2) {
                // It was one when it was checked.
                let Ok(score) = parse_score(pair[0]) else { continue };
                failed = done.put(edit, *options, score, pair[1]);
                if failed.is_err() {
                    break;
                }
            }
            Ok(())
        })?;
        failed?;
        Ok(is_there.is_some())
    }

    fn report(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        let changes = self.done.added + self.done.changed;
        if changes > 0 {
            ctx.report(key, Event::ZAdd);
            ctx.change(changes as u64 - 1);
        }
    }

    fn reply(&mut self, ctx: &mut Ctx<'_>) {
        let changed = if self.options.ch { self.done.changed } else { 0 };
        ctx.reply.count(self.done.added + changed);
    }
}

#[derive(Default)]
struct Remove {
    removed: usize,
    emptied: bool,
}

impl InParts for Remove {
    const MODE: Mode = Mode::Exclusive;

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let removed = &mut self.removed;
        let left = ctx.db.edit::<Zset, _>(key, Missing::Skip, |edit| {
            *removed += part.iter().filter(|member| edit.remove(member).is_some()).count();
            Ok(!edit.look().is_empty())
        })?;
        self.emptied = left == Some(false);
        Ok(left == Some(true))
    }

    fn report(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        report_removed(ctx, key, Event::ZRem, self.removed, self.emptied);
    }

    fn reply(&mut self, ctx: &mut Ctx<'_>) {
        ctx.reply.count(self.removed);
    }
}

struct Ask;

impl InParts for Ask {
    const MODE: Mode = Mode::Shared;

    fn start(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, elements: usize) -> Result<(), Failure> {
        ctx.db.read::<Zset>(key)?;
        ctx.reply.array(elements);
        Ok(())
    }

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let look = ctx.db.look::<Zset>(key)?;
        for member in part {
            match look.and_then(|look| look.score(member)) {
                Some(score) => ctx.reply.double(score),
                None => ctx.reply.null(),
            }
        }
        Ok(true)
    }
}
