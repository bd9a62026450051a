//! HSCAN.

use super::super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::super::keys::parse_cursor;
use super::super::options::parse_int;
use crate::base::entry::Entries;
use crate::base::glob::glob_matches;
use crate::base::int;
use crate::proto::errors;
use crate::types::Look;
use crate::types::hash::{Field, Hash};

/// Steps between two looks at the clock: a bucket each.
const STEPS_PER_LOOK: u32 = 8;

/// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
pub fn hscan(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let scan = parse_cursor(args[2]).ok_or(Failure::Text(errors::INVALID_CURSOR)).and_then(|cursor| {
        let found = ctx.db.read::<Hash>(key)?.is_some();
        // Without a hash the options are not looked at.
        if found { Scan::parse(args, cursor).map(Some) } else { Ok(None) }
    });
    let mut scan = match scan {
        Ok(Some(scan)) => scan,
        Ok(None) => Scan::new(args[1], 0),
        Err(failure) => return ctx.fail(failure),
    };
    if scan.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(scan))
}

struct Scan {
    key: Vec<u8>,
    cursor: u64,
    pattern: Option<Vec<u8>>,
    values: bool,
    /// Fields still to be looked at, and steps that may be taken for them.
    fields_left: u64,
    steps_left: u64,
    /// What has been found, as entries: fields, or each with its value.
    run: Vec<u8>,
    found: usize,
}

impl Scan {
    fn new(key: &[u8], cursor: u64) -> Scan {
        Scan {
            key: key.to_vec(),
            cursor,
            pattern: None,
            values: true,
            fields_left: 10,
            steps_left: 100,
            run: Vec::new(),
            found: 0,
        }
    }

    fn parse(args: Args<'_>, cursor: u64) -> Result<Scan, Failure> {
        let mut scan = Scan::new(args[1], cursor);
        let mut rest = args[3..].iter();
        while let Some(option) = rest.next() {
            let option = option.to_ascii_lowercase();
            match &*option {
                b"novalues" => scan.values = false,
                b"match" => {
                    let pattern = rest.next().ok_or(errors::SYNTAX)?;
                    scan.pattern = Some(pattern.to_vec()).filter(|pattern| pattern != b"*");
                }
                b"count" => {
                    let count = parse_int(rest.next().ok_or(errors::SYNTAX)?)?;
                    scan.fields_left = u64::try_from(count).ok().filter(|count| *count > 0).ok_or(errors::SYNTAX)?;
                    scan.steps_left = scan.fields_left.saturating_mul(10);
                }
                _ => return Err(errors::SYNTAX.into()),
            }
        }
        Ok(scan)
    }

    fn visit(&mut self, look: Look<'_, Hash>, field: Field<'_>, now_ms: u64) {
        self.fields_left = self.fields_left.saturating_sub(1);
        if !field.is_there(now_ms) {
            return;
        }
        let start = self.run.len();
        if let Some(pattern) = &self.pattern {
            field.name.append(look.slab, &mut self.run);
            let is_match = glob_matches(pattern, &self.run[start..], false);
            self.run.truncate(start);
            if !is_match {
                return;
            }
        }
        field.name.append_entry(look.slab, &mut self.run);
        self.found += 1;
        if self.values {
            field.value.append_entry(look.slab, &mut self.run);
            self.found += 1;
        }
    }
}

impl Task for Scan {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let (name, now_ms) = (std::mem::take(&mut self.key), ctx.db.now_ms());
        let key = ctx.key(&name);
        loop {
            // A hash that has gone meanwhile has no more fields.
            let Ok(Some(look)) = ctx.db.look::<Hash>(key) else {
                self.cursor = 0;
                break;
            };
            self.cursor = look.scan(self.cursor, |field| self.visit(look, field, now_ms));
            self.steps_left -= 1;
            if self.cursor == 0 || self.fields_left == 0 || self.steps_left == 0 {
                break;
            }
            if budget.is_spent(STEPS_PER_LOOK) {
                self.key = name;
                return false;
            }
        }
        ctx.reply.array(2);
        ctx.reply.bulk(int::write_u64(&mut [0; int::MAX_DIGITS], self.cursor));
        ctx.reply.array(self.found);
        for entry in Entries::new(&self.run) {
            ctx.reply.entry(entry);
        }
        true
    }

    fn bytes(&self) -> usize {
        self.run.capacity()
    }
}
