//! SADD, SREM and SMISMEMBER of very many members, in parts.

use super::{report_added, report_removed};
use crate::base::entry::Entry;
use crate::cmd::ctx::{Args, Ctx, Exec, Failure};
use crate::cmd::parts::{InParts, suspend};
use crate::db::Key;
use crate::db::collections::Missing;
use crate::db::hold::Mode;
use crate::types::set::Set;

pub const MANY_SADD: Exec = Exec::whole(super::sadd, |ctx, request| suspend(ctx, request, Add::default()));
pub const MANY_SREM: Exec = Exec::whole(super::srem, |ctx, request| suspend(ctx, request, Remove::default()));
pub const MANY_SMISMEMBER: Exec = Exec::whole(super::smismember, |ctx, request| suspend(ctx, request, Ask));

#[derive(Default)]
struct Add {
    /// Members asked for, until the first were added.
    expected: usize,
    added: u64,
}

impl InParts for Add {
    const MODE: Mode = Mode::Exclusive;

    fn begin<'a>(&mut self, argc: usize, _: impl Fn(usize) -> &'a [u8]) -> Result<usize, Failure> {
        self.expected = argc - 2;
        Ok(2)
    }

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let (expected, added) = (std::mem::take(&mut self.expected), &mut self.added);
        ctx.db.edit::<Set, _>(key, Missing::Create, |edit| {
            if expected > 0 {
                edit.expect(Entry::of(part[0]), expected);
            }
            for member in part {
                *added += u64::from(edit.add(Entry::of(member))?);
            }
            Ok(())
        })?;
        Ok(true)
    }

    fn report(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        report_added(ctx, key, self.added);
    }

    fn reply(&mut self, ctx: &mut Ctx<'_>) {
        ctx.reply.int(self.added.cast_signed());
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
        let removed = &mut self.removed;
        let left = ctx.db.edit::<Set, _>(key, Missing::Skip, |edit| {
            *removed += part.iter().filter(|member| edit.remove(Entry::of(member))).count() as u64;
            Ok(!edit.look().is_empty())
        })?;
        self.emptied = left == Some(false);
        Ok(left == Some(true))
    }

    fn report(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        report_removed(ctx, key, self.removed, self.emptied);
    }

    fn reply(&mut self, ctx: &mut Ctx<'_>) {
        ctx.reply.int(self.removed.cast_signed());
    }
}

struct Ask;

impl InParts for Ask {
    const MODE: Mode = Mode::Shared;

    fn start(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, elements: usize) -> Result<(), Failure> {
        ctx.db.read::<Set>(key)?;
        ctx.reply.array(elements);
        Ok(())
    }

    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure> {
        let set = ctx.db.look::<Set>(key)?;
        for member in part {
            ctx.reply.int(i64::from(set.is_some_and(|set| set.contains(Entry::of(member)))));
        }
        Ok(true)
    }
}
