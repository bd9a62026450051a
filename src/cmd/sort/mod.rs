//! SORT and SORT_RO over lists, sets and sorted sets. `options` is what they are asked for, `order` elements and their order, `job` the work.
//!
//! Patterns of BY and GET name keys that nobody knows beforehand, so the rows have all shards locked. What is small is done then and there.
//! What is not goes on in slices, without those locks: if it looks at other keys, or writes one, it first holds the names of all of them
//! (`db::hold`) for reading; when it has the last the sort happens, whatever is written from then on. Otherwise a view is enough.
mod job;
mod options;
mod order;

use super::acl::may_read_any_key;
use super::ctx::{Args, Ctx, FIRST_SLICE, Failure, Outcome};
use super::ctx::{Budget, Task};
use crate::db::{Db, Key, Type};
use crate::types::list::List;
use crate::types::set::Set;
use crate::types::zset::Zset;
use crate::types::{Container, Form, Look};
use job::Job;
use options::Options;

/// Elements, times the keys looked at for each, and bytes of elements that are worked off at once.
const AT_ONCE: usize = 512;
const AT_ONCE_BYTES: u64 = 64 << 10;

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE destination]`
pub fn sort(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, false)
}

/// `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA]`
pub fn sort_ro(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, true)
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, read_only: bool) -> Outcome {
    let reads_any = ctx.commands.find(args[0]).is_none_or(|row| may_read_any_key(ctx, row, args));
    let options = match Options::parse(args, read_only, reads_any) {
        Ok(options) => options,
        Err(failure) => return ctx.fail(failure),
    };
    let key = ctx.first_key(args[1]);
    // Counts as a read, once.
    ctx.db.type_of(key);
    let source = match source_at(&mut ctx.db, key) {
        Ok(source) => source,
        Err(failure) => return ctx.fail(failure),
    };
    let mut job = Job::new(args[1], options);
    let work = source.map_or(0, |source| source.len.saturating_mul(1 + job.keys_each()));
    if work <= AT_ONCE && source.is_none_or(|source| source.bytes <= AT_ONCE_BYTES) {
        job.begin(ctx, key, source);
        while !job.step(ctx, &mut Budget::endless(ctx.clock)) {}
        return Outcome::Done;
    }
    if job.needs_names() {
        job.wait_for_names();
    } else {
        job.begin(ctx, key, source);
    }
    // With several workers all shards are locked here: no longer than must be.
    if !ctx.db.is_shared() && job.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(job))
}

/// What is to be sorted.
#[derive(Clone, Copy)]
struct Source {
    kind: Type,
    len: usize,
    bytes: u64,
}

/// # Errors
/// If it is nothing that can be sorted.
fn source_at(db: &mut Db<'_>, key: Key<'_>) -> Result<Option<Source>, Failure> {
    fn measure<B: Container>(look: Option<Look<'_, B>>) -> Option<Source> {
        let look = look?;
        let bytes = match look.form {
            Form::Packed(packed) => packed.len() as u64,
            Form::Big(big) => big.bytes(),
        };
        Some(Source { kind: B::TYPE, len: look.len(), bytes })
    }
    Ok(match db.kind_of(key) {
        Some(Type::Set) => measure(db.look::<Set>(key)?),
        Some(Type::Zset) => measure(db.look::<Zset>(key)?),
        _ => measure(db.look::<List>(key)?),
    })
}
