//! Values with deadlines: HGETEX, HSETEX; HGETDEL.

use super::super::ctx::{Args, Ctx, Failure, Outcome};
use super::super::event::Event;
use super::super::options::{ExpireUnit, parse_int};
use super::deadlines::{Condition, Given, give, parse_deadline, parse_fields, persist};
use super::{change, reply_value};
use crate::base::entry::Entries;
use crate::db::Key;
use crate::db::collections::Missing;
use crate::proto::errors;
use crate::types::hash::{Hash, Lifetime, Text};
use crate::types::{Edit, Look};
use dolmen_slab::{AllocError, BlobRef};

/// Values that are told after what is done to their fields.
#[derive(Default)]
pub(super) struct Values {
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
    pub(super) const fn new() -> Values {
        Values { run: Vec::new(), values: Vec::new() }
    }

    /// That of a field of a hash that is not there.
    pub(super) fn none(&mut self) {
        self.values.push(Value::None);
    }

    /// Takes the value of a field; true: it is there.
    pub(super) fn take(&mut self, look: Look<'_, Hash>, name: &[u8], now_ms: u64) -> bool {
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

    pub(super) fn reply(self, ctx: &mut Ctx<'_>) {
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
pub(super) enum Then {
    Nothing,
    Persist,
    Until(u64),
}

impl Then {
    /// Takes the value of a field, and does this to its deadline.
    pub(super) fn apply(
        self,
        edit: &mut Edit<'_, Hash>,
        values: &mut Values,
        field: &[u8],
        now_ms: u64,
    ) -> Result<Given, AllocError> {
        if !values.take(edit.look(), field, now_ms) {
            return Ok(Given::NoField);
        }
        match self {
            Then::Until(deadline_ms) => give(edit, field, deadline_ms, Condition::Always, now_ms),
            Then::Persist => Ok(if persist(edit, field, now_ms)? == 1 { Given::Set } else { Given::Refused }),
            Then::Nothing => Ok(Given::Refused),
        }
    }

    /// What of a hash is told, `deleted`: of fields that went at once.
    pub(super) fn event(self, deleted: bool) -> Event {
        match self {
            _ if deleted => Event::HDel,
            Then::Persist => Event::HPersist,
            _ => Event::HExpire,
        }
    }

    /// What stands before FIELDS; how many words that are.
    pub(super) fn parse(words: Args<'_>, now_ms: u64) -> Result<(Then, usize), Failure> {
        match unit(words[0]) {
            Some(unit) => Ok((Then::Until(parse_deadline(words[1], unit, now_ms, "hgetex")?), 2)),
            None if words[0].eq_ignore_ascii_case(b"persist") => Ok((Then::Persist, 1)),
            None => Ok((Then::Nothing, 0)),
        }
    }
}

/// `HGETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST] FIELDS numfields field [field ...]`
pub fn hgetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        ctx.db.look::<Hash>(key)?;
        let now_ms = ctx.db.now_ms();
        let (then, options) = Then::parse(&args[2..], ctx.db.clock_ms())?;
        let words = &args[2 + options..];
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
                let given = then.apply(edit, &mut values, field, now_ms)?;
                set += u64::from(given == Given::Set);
                deleted += u64::from(given == Given::Deleted);
            }
            Ok(values)
        })?;
        ctx.reply.array(fields.len());
        let Some(done) = done else {
            fields.iter().for_each(|_| ctx.reply.null());
            return Ok(());
        };
        let event = then.event(deleted > 0);
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
#[derive(Clone, Copy)]
pub(super) struct SetOptions {
    /// Of all fields: they must be there, or must not.
    pub(super) present: Option<bool>,
    lifetime: Lifetime,
    /// The deadline was over when the command came: fields are set, and gone at once.
    is_past: bool,
    /// How many words stand before the fields, each of which is followed by its value.
    pub(super) words: usize,
}

impl SetOptions {
    /// `words`: the first of them at least, up to FIELDS and its number; `words_len`: how many there are.
    pub(super) fn parse(ctx: &Ctx<'_>, words: Args<'_>, words_len: usize) -> Result<SetOptions, Failure> {
        let arity = || Failure::from(errors::wrong_number_of_arguments("hsetex"));
        let (mut present, mut lifetime) = (None, None);
        let mut rest = words;
        while let Some((&word, behind)) = rest.split_first() {
            rest = behind;
            let lower = word.to_ascii_lowercase();
            match &*lower {
                b"fields" => {
                    let Some(number) = rest.first() else { return Err(arity()) };
                    let before = words.len() - rest.len() + 1;
                    let pairs_len = words_len - before;
                    if pairs_len < 2 {
                        return Err(arity());
                    }
                    let count = parse_int(number).ok().and_then(|count| i32::try_from(count).ok());
                    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
                    if count.ok_or(errors::NUMFIELDS_INVALID)?.checked_mul(2) != Some(pairs_len) {
                        return Err(arity());
                    }
                    let lifetime = lifetime.unwrap_or(Lifetime::Forever);
                    let is_past = matches!(lifetime, Lifetime::Until(deadline_ms) if deadline_ms <= ctx.db.now_ms());
                    return Ok(SetOptions { present, lifetime, is_past, words: before });
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
                    lifetime = Some(Lifetime::Until(parse_deadline(number, unit, ctx.db.clock_ms(), "hsetex")?));
                }
            }
        }
        Err(arity())
    }

    pub(super) fn missing(&self) -> Missing {
        if self.present == Some(true) { Missing::Skip } else { Missing::Create }
    }

    /// Are all fields there, or none of them, as they must be?
    pub(super) fn allow(&self, look: Option<Look<'_, Hash>>, pairs: Args<'_>, now_ms: u64) -> bool {
        let is_there = |field| look.is_some_and(|look| look.field(field, now_ms).is_some());
        self.present.is_none_or(|present| pairs.chunks_exact(2).all(|pair| is_there(pair[0]) == present))
    }

    pub(super) fn set(&self, edit: &mut Edit<'_, Hash>, pairs: Args<'_>, now_ms: u64) -> Result<(), AllocError> {
        for pair in pairs.chunks_exact(2) {
            if self.is_past {
                edit.remove(pair[0], now_ms);
            } else {
                edit.set(pair[0], pair[1], self.lifetime, now_ms)?;
            }
        }
        Ok(())
    }

    /// Tells that so many fields were set.
    pub(super) fn report(&self, ctx: &mut Ctx<'_>, key: Key<'_>, fields: usize) {
        ctx.report(key, Event::HSet);
        ctx.change((fields - 1) as u64);
        match self.lifetime {
            _ if self.is_past => ctx.also(key, Event::HDel),
            Lifetime::Until(_) => ctx.also(key, Event::HExpire),
            Lifetime::Forever | Lifetime::Keep => {}
        }
    }
}

/// `HSETEX key [FNX | FXX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS numfields field value [field value ...]`
pub fn hsetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    ctx.attempt(|ctx| {
        let options = SetOptions::parse(ctx, &args[2..], args.len() - 2)?;
        let pairs = &args[2 + options.words..];
        let done = change(ctx, key, options.missing(), |edit, now_ms| {
            let allowed = options.allow(Some(edit.look()), pairs, now_ms);
            if allowed {
                options.set(edit, pairs, now_ms)?;
            }
            Ok(allowed)
        })?;
        let Some(done) = done else {
            ctx.reply.int(0);
            return Ok(());
        };
        if done.value {
            options.report(ctx, key, pairs.len() / 2);
        }
        if done.emptied && (done.value || done.expired) {
            ctx.also(key, Event::Del);
        }
        ctx.reply.int(i64::from(done.value));
        Ok(())
    })
}
