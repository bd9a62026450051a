//! Values with deadlines: HGETEX, HSETEX; HGETDEL.

use super::super::ctx::{Args, Ctx, Failure, Outcome};
use super::super::event::Event;
use super::super::options::{ExpireUnit, parse_int};
use super::deadlines::{Condition, Given, give, parse_deadline, parse_fields};
use super::{change, reply_value};
use crate::base::entry::Entries;
use crate::db::collections::Missing;
use crate::proto::errors;
use crate::types::Look;
use crate::types::hash::{Hash, Lifetime, Text};
use dolmen_slab::BlobRef;

/// Values that are told after what is done to their fields.
#[derive(Default)]
struct Values {
    /// Those that are copied.
    run: Vec<u8>,
    values: Vec<Value>,
}

enum Value {
    None,
    /// The next of the run.
    Entry,
    /// Sent from where it lies.
    Blob(BlobRef),
}

impl Values {
    /// Takes the value of a field; true: it is there.
    fn take(&mut self, look: Look<'_, Hash>, name: &[u8], now_ms: u64) -> bool {
        let value = match look.field(name, now_ms).map(|field| field.value) {
            None => Value::None,
            Some(Text::Entry(entry)) => {
                entry.put(&mut self.run);
                Value::Entry
            }
            Some(Text::Blob(id)) => Value::Blob(look.slab.blob_ref(id)),
        };
        let is_there = !matches!(value, Value::None);
        self.values.push(value);
        is_there
    }

    fn reply(self, ctx: &mut Ctx<'_>) {
        let mut entries = Entries::new(&self.run);
        for value in self.values {
            match value {
                Value::None => ctx.reply.null(),
                Value::Entry => {
                    let Some(entry) = entries.next() else { unreachable!("it was put there") };
                    ctx.reply.entry(entry);
                }
                Value::Blob(blob) => ctx.reply.bulk_shared(blob),
            }
        }
    }
}

/// What becomes of the deadlines of fields whose values are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    Persist,
    Until(u64),
}

/// `HGETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST] FIELDS numfields field [field ...]`
pub fn hgetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        ctx.db.look::<Hash>(key)?;
        let now_ms = ctx.db.now_ms();
        let (then, words) = match unit(args[2]) {
            Some(unit) => (Then::Until(parse_deadline(args[3], unit, ctx.db.clock_ms(), "hgetex")?), &args[4..]),
            None if args[2].eq_ignore_ascii_case(b"persist") => (Then::Persist, &args[3..]),
            None => (Then::Nothing, &args[2..]),
        };
        let fields = parse_fields(words, errors::NUMFIELDS_NOT_POSITIVE, "hgetex")?;
        if then == Then::Nothing {
            let look = ctx.db.look::<Hash>(key)?;
            ctx.reply.array(fields.len());
            fields.iter().for_each(|field| reply_value(&mut ctx.reply, look, field, now_ms));
            return Ok(());
        }
        let (mut set, mut deleted) = (0, 0);
        let done = change(ctx, key, Missing::Skip, |edit, now_ms| {
            let mut values = Values::default();
            for field in fields {
                if !values.take(edit.look(), field, now_ms) {
                    continue;
                }
                match then {
                    Then::Until(deadline_ms) => {
                        let given = give(edit, field, deadline_ms, Condition::Always, now_ms)?;
                        set += u64::from(given == Given::Set);
                        deleted += u64::from(given == Given::Deleted);
                    }
                    _ if edit.look().field(field, now_ms).is_some_and(|field| field.deadline_ms != 0) => {
                        edit.set_deadline(field, 0, now_ms)?;
                        set += 1;
                    }
                    _ => {}
                }
            }
            Ok(values)
        })?;
        ctx.reply.array(fields.len());
        let Some(done) = done else {
            fields.iter().for_each(|_| ctx.reply.null());
            return Ok(());
        };
        let event = match then {
            _ if deleted > 0 => Event::HDel,
            Then::Persist => Event::HPersist,
            _ => Event::HExpire,
        };
        done.settle(ctx, key, event, set + deleted).reply(ctx);
        Ok(())
    })
}

/// `HGETDEL key FIELDS numfields field [field ...]`
pub fn hgetdel(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        ctx.db.look::<Hash>(key)?;
        let fields = parse_fields(&args[2..], errors::NUMFIELDS_NOT_POSITIVE, "hgetdel")?;
        let mut deleted = 0;
        let done = change(ctx, key, Missing::Skip, |edit, now_ms| {
            let mut values = Values::default();
            for field in fields {
                if values.take(edit.look(), field, now_ms) {
                    edit.remove(field, now_ms);
                    deleted += 1;
                }
            }
            Ok(values)
        })?;
        ctx.reply.array(fields.len());
        match done {
            Some(done) => done.settle(ctx, key, Event::HDel, deleted).reply(ctx),
            None => fields.iter().for_each(|_| ctx.reply.null()),
        }
        Ok(())
    })
}

fn unit(word: &[u8]) -> Option<ExpireUnit> {
    match &*word.to_ascii_lowercase() {
        b"ex" => Some(ExpireUnit::Seconds),
        b"px" => Some(ExpireUnit::Milliseconds),
        b"exat" => Some(ExpireUnit::UnixSeconds),
        b"pxat" => Some(ExpireUnit::UnixMilliseconds),
        _ => None,
    }
}

/// What HSETEX is told before the fields.
struct SetOptions<'a, 'b> {
    /// Of all fields: they must be there, or must not.
    present: Option<bool>,
    lifetime: Lifetime,
    /// Fields, each with its value.
    pairs: &'a [&'b [u8]],
}

impl<'a, 'b> SetOptions<'a, 'b> {
    fn parse(words: &'a [&'b [u8]], now_ms: u64) -> Result<SetOptions<'a, 'b>, Failure> {
        let arity = || Failure::from(errors::wrong_number_of_arguments("hsetex"));
        let (mut present, mut lifetime) = (None, None);
        let mut rest = words;
        while let Some((&word, behind)) = rest.split_first() {
            rest = behind;
            let lower = word.to_ascii_lowercase();
            match &*lower {
                b"fields" => {
                    let [number, pairs @ ..] = rest else { return Err(arity()) };
                    if pairs.len() < 2 {
                        return Err(arity());
                    }
                    let count = parse_int(number).ok().and_then(|count| i32::try_from(count).ok());
                    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
                    if count.ok_or(errors::NUMFIELDS_INVALID)?.checked_mul(2) != Some(pairs.len()) {
                        return Err(arity());
                    }
                    return Ok(SetOptions { present, lifetime: lifetime.unwrap_or(Lifetime::Forever), pairs });
                }
                b"fnx" | b"fxx" => {
                    if present.replace(lower == b"fxx").is_some() {
                        return Err(errors::FNX_AND_FXX.into());
                    }
                }
                b"keepttl" => {
                    if lifetime.replace(Lifetime::Keep).is_some() {
                        return Err(errors::FIELD_TIMES.into());
                    }
                }
                _ => {
                    let unit = unit(word).ok_or_else(|| errors::unknown_argument(word))?;
                    if lifetime.is_some() {
                        return Err(errors::FIELD_TIMES.into());
                    }
                    let (number, behind) = rest.split_first().ok_or(errors::FIELD_TIME_MISSING)?;
                    rest = behind;
                    lifetime = Some(Lifetime::Until(parse_deadline(number, unit, now_ms, "hsetex")?));
                }
            }
        }
        Err(arity())
    }
}

/// `HSETEX key [FNX | FXX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS numfields field value [field value ...]`
pub fn hsetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let SetOptions { present, lifetime, pairs } = SetOptions::parse(&args[2..], ctx.db.clock_ms())?;
        let is_past = matches!(lifetime, Lifetime::Until(deadline_ms) if deadline_ms <= ctx.db.now_ms());
        let missing = if present == Some(true) { Missing::Skip } else { Missing::Create };
        let done = change(ctx, key, missing, |edit, now_ms| {
            let is_there = |field| edit.look().field(field, now_ms).is_some();
            if present.is_some_and(|present| pairs.chunks_exact(2).any(|pair| is_there(pair[0]) != present)) {
                return Ok(false);
            }
            for pair in pairs.chunks_exact(2) {
                if is_past {
                    // Set, and gone at once.
                    edit.remove(pair[0], now_ms);
                } else {
                    edit.set(pair[0], pair[1], lifetime, now_ms)?;
                }
            }
            Ok(true)
        })?;
        let Some(done) = done else {
            ctx.reply.int(0);
            return Ok(());
        };
        if done.value {
            ctx.report(key, Event::HSet);
            ctx.change((pairs.len() / 2 - 1) as u64);
            match lifetime {
                _ if is_past => ctx.also(key, Event::HDel),
                Lifetime::Until(_) => ctx.also(key, Event::HExpire),
                Lifetime::Forever | Lifetime::Keep => {}
            }
        }
        if done.emptied && (done.value || done.expired) {
            ctx.also(key, Event::Del);
        }
        ctx.reply.int(i64::from(done.value));
        Ok(())
    })
}
