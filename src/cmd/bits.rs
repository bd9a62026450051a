//! Commands on the bits of one string: SETBIT GETBIT BITCOUNT BITPOS. BITOP is in `op`, BITFIELD in `field`.
//!
//! What reads more than a slice's worth reads a view (`BlobRef`), so it sees one instant whatever others write meanwhile, and answers what
//! was true when it began. Nobody waits for it.
pub mod field;
pub mod op;

use super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::event::Event;
use super::options::parse_int;
use crate::base::int;
use crate::db::Value;
use crate::db::bits::blob_piece;
use crate::proto::errors;
use crate::types::bitmap;
use dolmen_slab::BlobRef;

/// Bytes that are read between two looks at the clock.
const PIECE_BYTES: usize = 64 << 10;

/// The offset of a bit. `field_bits`: of what field; then `#n` is the n-th of them.
fn bit_offset(ctx: &Ctx<'_>, argument: &[u8], field_bits: Option<u32>) -> Result<u64, Failure> {
    let (number, unit) = match (argument, field_bits) {
        ([b'#', number @ ..], Some(bits)) => (number, i64::from(bits)),
        _ => (argument, 1),
    };
    let offset = int::parse_i64(number).and_then(|number| number.checked_mul(unit));
    offset
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| offset / 8 < ctx.config.proto_max_bulk_bytes)
        .ok_or(Failure::Text(errors::BIT_OFFSET))
}

/// The byte of a bit, as an index into a string.
fn byte_of(offset: u64) -> Result<usize, Failure> {
    usize::try_from(offset / 8).map_err(|_| Failure::Text(errors::BIT_OFFSET))
}

pub fn setbit(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let offset = bit_offset(ctx, args[2], None)?;
        let mask = 0x80_u8 >> (offset % 8);
        let on = match args[3] {
            b"0" => 0,
            b"1" => mask,
            _ => return Err(errors::BIT_VALUE.into()),
        };
        let mut before = 0;
        let edited = ctx.db.edit_string(key, byte_of(offset)?, 1, |byte| {
            before = byte[0];
            byte[0] = before & !mask | on;
        })?;
        ctx.db.mark_modified(key);
        if edited.grew || edited.changed {
            ctx.report(key, Event::SetBit);
        }
        ctx.reply.int(i64::from(before & mask != 0));
        Ok(())
    })
}

pub fn getbit(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let offset = bit_offset(ctx, args[2], None)?;
        let mut byte = [0];
        ctx.db.read_part(key, byte_of(offset)?, &mut byte)?;
        ctx.reply.int(i64::from(byte[0] & 0x80 >> (offset % 8) != 0));
        Ok(())
    })
}

/// Bits of a string: those from the first to before the second.
type Bits = (usize, usize);
const NO_BITS: Bits = (0, 0);

/// Is a range counted in bits? Otherwise in bytes.
fn unit_is_bit(argument: &[u8]) -> Result<bool, Failure> {
    if argument.eq_ignore_ascii_case(b"bit") {
        Ok(true)
    } else if argument.eq_ignore_ascii_case(b"byte") {
        Ok(false)
    } else {
        Err(errors::SYNTAX.into())
    }
}

/// The bits from `start` to `end`, the end included; negative numbers count from the end of the string's `len` bytes.
fn bits_between(start: i64, end: i64, is_bit: bool, len: usize) -> Bits {
    let unit = if is_bit { 1 } else { 8 };
    let total = i128::from(len as u64) * 8 / unit;
    let place = |index: i64| {
        let index = i128::from(index);
        if index < 0 { (total + index).max(0) } else { index }
    };
    let (start, end) = (place(start), place(end).min(total - 1));
    if start > end {
        return NO_BITS;
    }
    // Both are below the string's length in bits, which fits: strings are shorter than the address space by far.
    let bit = |index: i128| usize::try_from(index * unit).unwrap_or(usize::MAX);
    (bit(start), bit(end + 1))
}

/// What is asked about the bits of a string.
#[derive(Clone, Copy)]
enum Question {
    Count,
    /// Where the first bit of this value is; the answer if there is none.
    First(bool, i64),
}

/// `BITCOUNT key [start end [BYTE | BIT]]`. As in Redis 7.0 the answer for a missing key is 0 whatever the rest says.
pub fn bitcount(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    answer(ctx, args[1], 0, |len| {
        let bits = match args {
            [_, _] => (0, len * 8),
            [_, _, start, end, unit @ ..] if unit.len() <= 1 => {
                let (start, end) = (parse_int(start)?, parse_int(end)?);
                if start < 0 && end < 0 && start > end {
                    // Both may lie before the beginning, where they would become the first. As in Redis 7.0 the unit is not looked at.
                    NO_BITS
                } else {
                    bits_between(start, end, unit.first().map_or(Ok(false), |unit| unit_is_bit(unit))?, len)
                }
            }
            _ => return Err(errors::SYNTAX.into()),
        };
        Ok((Question::Count, bits))
    })
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`. As in Redis 7.0 the range is not looked at when the key is missing.
pub fn bitpos(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let bit = match parse_int(args[2]) {
        Ok(0) => false,
        Ok(1) => true,
        Ok(_) => return ctx.fail(errors::BIT_ARGUMENT),
        Err(failure) => return ctx.fail(failure),
    };
    // An empty string is a long row of zeros.
    let missing = if bit { -1 } else { 0 };
    answer(ctx, args[1], missing, |len| {
        let (bits, end_given) = match args {
            [_, _, _] => ((0, len * 8), false),
            [_, _, _, start] => (bits_between(parse_int(start)?, -1, false, len), false),
            [_, _, _, start, end, unit @ ..] if unit.len() <= 1 => {
                let start = parse_int(start)?;
                let is_bit = unit.first().map_or(Ok(false), |unit| unit_is_bit(unit))?;
                (bits_between(start, parse_int(end)?, is_bit, len), true)
            }
            _ => return Err(errors::SYNTAX.into()),
        };
        // Without an end, zeros follow the string. No bits, no answer.
        let zero_behind = !bit && !end_given && bits.0 < bits.1;
        let none = if zero_behind { i64::try_from(bits.1).unwrap_or(i64::MAX) } else { -1 };
        Ok((Question::First(bit, none), bits))
    })
}

/// Answers a question about the string at a key. `ask` is told its length in bytes.
fn answer(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    missing: i64,
    ask: impl FnOnce(usize) -> Result<(Question, Bits), Failure>,
) -> Outcome {
    let key = ctx.first_key(key);
    let mut digits = [0; 20];
    let small = match ctx.db.read_string(key) {
        Err(e) => return ctx.fail(e),
        Ok(None) => {
            ctx.reply.int(missing);
            return Outcome::Done;
        }
        Ok(Some(Value::Blob(id))) => {
            let blob = ctx.db.blob_ref(id);
            return match ask(blob.len()) {
                Err(failure) => ctx.fail(failure),
                Ok((question, bits)) => walk(ctx, Walk { blob, question, bits, count: 0 }),
            };
        }
        Ok(Some(Value::Raw(bytes))) => bytes,
        Ok(Some(Value::Int(i))) => int::write_i64(&mut digits, i),
    };
    let answered = ask(small.len()).map(|(question, (from, to))| match question {
        Question::Count => bitmap::count_in(small, from, to).cast_signed(),
        Question::First(bit, none) => bitmap::find_in(small, bit, from, to).map_or(none, position),
    });
    match answered {
        Ok(n) => ctx.reply.int(n),
        Err(failure) => return ctx.fail(failure),
    }
    Outcome::Done
}

/// The index of a bit in a string, which is far below 2^63.
fn position(bit: usize) -> i64 {
    i64::try_from(bit).unwrap_or(i64::MAX)
}

fn walk(ctx: &mut Ctx<'_>, mut walk: Walk) -> Outcome {
    if walk.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(walk))
}

/// A walk over the bits of a large string as it was when the command came.
struct Walk {
    blob: BlobRef,
    question: Question,
    /// What is left.
    bits: Bits,
    count: u64,
}

impl Task for Walk {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let (mut from, to) = self.bits;
        while from < to {
            let start = from / 8;
            let piece = blob_piece(&self.blob, start, PIECE_BYTES);
            let (first, end) = (from - start * 8, (piece.len() * 8).min(to - start * 8));
            match self.question {
                Question::Count => self.count += bitmap::count_in(piece, first, end),
                Question::First(bit, _) => {
                    if let Some(place) = bitmap::find_in(piece, bit, first, end) {
                        ctx.reply.int(position(start * 8 + place));
                        return true;
                    }
                }
            }
            from = start * 8 + end;
            self.bits.0 = from;
            if from < to && budget.is_spent(1) {
                return false;
            }
        }
        ctx.reply.int(match self.question {
            Question::Count => self.count.cast_signed(),
            Question::First(_, none) => none,
        });
        true
    }

    fn bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clamped_and_count_from_the_end() {
        for (start, end, is_bit, len, want) in [
            (0, -1, false, 3, (0, 24)),
            (0, -1, true, 3, (0, 24)),
            (1, 1, false, 3, (8, 16)),
            (5, 7, true, 3, (5, 8)),
            (-2, -2, false, 3, (8, 16)),
            (-2, -1, true, 3, (22, 24)),
            (0, 99, false, 3, (0, 24)),
            (2, 1, false, 3, NO_BITS),
            (3, 3, false, 3, NO_BITS),
            (0, -1, false, 0, NO_BITS),
            (i64::MIN, i64::MAX, true, 3, (0, 24)),
            (i64::MIN, i64::MIN, false, 3, (0, 8)),
            (i64::MAX, i64::MAX, false, 3, NO_BITS),
        ] {
            assert_eq!(bits_between(start, end, is_bit, len), want, "{start} {end} {is_bit} {len}");
        }
    }
}
