//! `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]`: works on the values as they are when it begins, in slices.

use super::super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::super::options::parse_int;
use crate::base::int;
use crate::base::lcs::{Lcs, Match, Text, Wanted};
use crate::db::Key;
use crate::db::item::Value;
use crate::proto::errors;

pub fn lcs(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let mut task = match begin(ctx, args) {
        Ok(task) => task,
        Err(failure) => return ctx.fail(failure),
    };
    if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(task))
}

fn begin(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<LcsTask, Failure> {
    let (first, second) = (ctx.first_key(args[1]), ctx.key(args[2]));
    // Both are looked up, whatever the first is.
    let (a, b) = (text_of(ctx, first), text_of(ctx, second));
    let (a, b) = (a?, b?);
    let (mut len, mut idx, mut with_len, mut len_min) = (false, false, false, 0);
    let mut rest = args[3..].iter();
    while let Some(word) = rest.next() {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        if is(b"idx") {
            idx = true;
        } else if is(b"len") {
            len = true;
        } else if is(b"withmatchlen") {
            with_len = true;
        } else if is(b"minmatchlen") {
            len_min = parse_int(rest.next().ok_or(errors::SYNTAX)?)?;
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    if len && idx {
        return Err(errors::LCS_LEN_AND_IDX.into());
    }
    const LEN_MAX: usize = u32::MAX as usize - 1;
    if a.len() >= LEN_MAX || b.len() >= LEN_MAX {
        return Err(errors::LCS_TOO_LONG.into());
    }
    // What Redis would need, 4 bytes a cell; the limit keeps the time in bounds as well. (Below 2^66.)
    if (a.len() as u128 + 1) * (b.len() as u128 + 1) * 4 > u128::from(ctx.config.proto_max_bulk_bytes) {
        return Err(errors::LCS_MEMORY.into());
    }
    let wanted = match (idx, len) {
        // (One that is negative counts as 0.)
        (true, _) => Wanted::Matches(usize::try_from(len_min).unwrap_or(if len_min < 0 { 0 } else { usize::MAX })),
        (_, true) => Wanted::Length,
        _ => Wanted::Bytes,
    };
    Ok(LcsTask { lcs: Lcs::new(a, b, wanted), wanted, with_len, written: None })
}

fn text_of(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<Text, Failure> {
    Ok(Text::Short(match ctx.db.read_string(key).map_err(|_| errors::LCS_TYPE)? {
        None => Vec::new(),
        Some(Value::Raw(bytes)) => bytes.to_vec(),
        Some(Value::Int(i)) => int::write_i64(&mut [0; 20], i).to_vec(),
        Some(Value::Blob(id)) => return Ok(Text::Long(ctx.db.blob_ref(id))),
    }))
}

struct LcsTask {
    lcs: Lcs,
    wanted: Wanted,
    with_len: bool,
    /// Matches in the reply, once that has begun.
    written: Option<usize>,
}

impl LcsTask {
    fn write_match(&self, ctx: &mut Ctx<'_>, found: Match) {
        ctx.reply.array(2 + usize::from(self.with_len));
        for start in [found.a, found.b] {
            ctx.reply.array(2);
            ctx.reply.count(start);
            ctx.reply.count(start + found.len - 1);
        }
        if self.with_len {
            ctx.reply.count(found.len);
        }
    }
}

impl Task for LcsTask {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if self.written.is_none() && !self.lcs.step(|| budget.is_spent(1)) {
            return false;
        }
        match self.wanted {
            Wanted::Length => ctx.reply.count(self.lcs.length()),
            Wanted::Bytes => {
                let bytes = self.lcs.bytes();
                ctx.reply.bulk(&bytes);
            }
            Wanted::Matches(_) => {
                let count = self.lcs.matches().len();
                let mut at = self.written.unwrap_or_else(|| {
                    ctx.reply.map(2);
                    ctx.reply.bulk(b"matches");
                    ctx.reply.array(count);
                    0
                });
                while at < count {
                    self.write_match(ctx, self.lcs.matches()[at]);
                    at += 1;
                    if at < count && budget.is_spent(64) {
                        self.written = Some(at);
                        return false;
                    }
                }
                ctx.reply.bulk(b"len");
                ctx.reply.count(self.lcs.length());
            }
        }
        true
    }

    fn bytes(&self) -> usize {
        size_of::<LcsTask>() + self.lcs.held_bytes()
    }

    fn waits_for_room(&self) -> bool {
        self.written.is_some()
    }
}
