//! SSCAN.

use super::runs::Runs;
use crate::base::entry;
use crate::base::glob::glob_matches;
use crate::base::int;
use crate::cmd::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use crate::cmd::keys::parse_cursor;
use crate::cmd::options::parse_int;
use crate::proto::errors;
use crate::types::set::Set;

/// Members that are visited between two looks at the clock, about.
const VISITS: usize = 32;

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn sscan(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let Some(cursor) = parse_cursor(args[2]) else { return ctx.fail(errors::INVALID_CURSOR) };
    let key = ctx.first_key(args[1]);
    match ctx.db.read::<Set>(key) {
        Err(error) => return ctx.fail(error),
        Ok(None) => {
            answer(ctx, 0, &Runs::default());
            return Outcome::Done;
        }
        Ok(Some(_)) => {}
    }
    let mut scan = match parse_options(args, cursor) {
        Ok(scan) => scan,
        Err(failure) => return ctx.fail(failure),
    };
    if scan.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(scan))
}

fn parse_options(args: Args<'_>, cursor: u64) -> Result<Scan, Failure> {
    let mut scan = Scan { name: args[1].to_vec(), pattern: None, cursor, left: 10, found: Runs::default() };
    let mut rest = args[3..].iter();
    while let Some(option) = rest.next() {
        let value = rest.next().ok_or(errors::SYNTAX)?;
        match &*option.to_ascii_lowercase() {
            b"match" => scan.pattern = Some(value.to_vec()).filter(|pattern| pattern != b"*"),
            b"count" => {
                let count = usize::try_from(parse_int(value)?).ok().filter(|count| *count > 0);
                scan.left = count.ok_or(errors::SYNTAX)?;
            }
            _ => return Err(errors::SYNTAX.into()),
        }
    }
    Ok(scan)
}

fn answer(ctx: &mut Ctx<'_>, cursor: u64, found: &Runs) {
    ctx.reply.array(2);
    ctx.reply.bulk(int::write_u64(&mut [0; int::MAX_DIGITS], cursor));
    ctx.reply.array(found.len());
    found.each(|entry| ctx.reply.entry(entry));
}

/// A scan of a large COUNT in slices. What it visits need not be of one instant: nor is what several calls do.
struct Scan {
    name: Vec<u8>,
    pattern: Option<Vec<u8>>,
    cursor: u64,
    /// Members still to be visited, matching or not.
    left: usize,
    found: Runs,
}

impl Task for Scan {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let key = ctx.key(&self.name);
        loop {
            // Gone, or of another type meanwhile: the walk is over.
            let Ok(Some(set)) = ctx.db.look::<Set>(key) else {
                self.cursor = 0;
                break;
            };
            let Scan { pattern, found, .. } = self;
            let (mut visited, mut text) = (0, Vec::new());
            self.cursor = set.scan(self.cursor, self.left.min(VISITS), |member| {
                visited += 1;
                match pattern {
                    None => found.push_with(|run| member.put(set.slab, run)),
                    Some(pattern) => {
                        text.clear();
                        member.put(set.slab, &mut text);
                        let (entry, _) = entry::split(&text).expect("it was put there");
                        if glob_matches(pattern, entry.text(&mut [0; int::MAX_DIGITS]), false) {
                            found.push(entry);
                        }
                    }
                }
            });
            self.left = self.left.saturating_sub(visited.max(1));
            if self.cursor == 0 || self.left == 0 {
                break;
            }
            if budget.is_spent(1) {
                return false;
            }
        }
        answer(ctx, self.cursor, &self.found);
        true
    }

    fn bytes(&self) -> usize {
        self.name.capacity() + self.found.bytes()
    }
}
