//! BITFIELD and BITFIELD_RO: integers of any width anywhere in a string.

use super::{bit_offset, byte_of};
use crate::base::int;
use crate::cmd::ctx::{Args, Budget, Ctx, Failure, Outcome, Task};
use crate::cmd::event::Event;
use crate::cmd::held::HeldName;
use crate::cmd::options::parse_int;
use crate::db::bits::{StringSnapshot, blob_piece};
use crate::db::hold::Mode;
use crate::db::{Db, Key, Value};
use crate::proto::errors;
use crate::types::bitmap::{FIELD_BYTES_MAX, Field, Overflow};
use dolmen_slab::BlobRef;

/// Subcommands that run at once.
const AT_ONCE: usize = 512;

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

/// A subcommand.
#[derive(Clone, Copy)]
struct Op {
    field: Field,
    action: Action,
    byte: usize,
    shift: u8,
}

fn field_type(argument: &[u8]) -> Result<Field, Failure> {
    let (signed, bits) = match argument {
        [b'i', bits @ ..] => (true, bits),
        [b'u', bits @ ..] => (false, bits),
        _ => return Err(errors::BITFIELD_TYPE.into()),
    };
    let bits = int::parse_i64(bits);
    bits.and_then(|bits| Field::new(signed, bits)).ok_or(Failure::Text(errors::BITFIELD_TYPE))
}

/// `GET type offset | SET type offset value | INCRBY type offset increment | OVERFLOW WRAP | SAT | FAIL`, any number of them.
fn parse(ctx: &Ctx<'_>, mut rest: Args<'_>) -> Result<Vec<Op>, Failure> {
    let mut ops = Vec::with_capacity(rest.len().div_ceil(3));
    let mut overflow = Overflow::Wrap;
    while let [name, arguments @ ..] = rest {
        let is = |word: &[u8]| name.eq_ignore_ascii_case(word);
        let (writes, arguments) = match arguments {
            [kind, behind @ ..] if is(b"overflow") => {
                overflow = match &*kind.to_ascii_lowercase() {
                    b"wrap" => Overflow::Wrap,
                    b"sat" => Overflow::Saturate,
                    b"fail" => Overflow::Fail,
                    _ => return Err(errors::BITFIELD_OVERFLOW.into()),
                };
                rest = behind;
                continue;
            }
            [_, _, ..] if is(b"get") => (false, arguments),
            [_, _, _, ..] if is(b"set") || is(b"incrby") => (true, arguments),
            _ => return Err(errors::SYNTAX.into()),
        };
        let field = field_type(arguments[0])?;
        let offset = bit_offset(ctx, arguments[1], Some(field.bits()))?;
        let action = match writes {
            false => Action::Get,
            true if is(b"set") => Action::Set(parse_int(arguments[2])?, overflow),
            true => Action::Add(parse_int(arguments[2])?, overflow),
        };
        ops.push(Op { field, action, byte: byte_of(offset)?, shift: (offset % 8) as u8 });
        rest = &arguments[if writes { 3 } else { 2 }..];
    }
    Ok(ops)
}

pub fn bitfield(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, false)
}

pub fn bitfield_ro(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, true)
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, read_only: bool) -> Outcome {
    let key = ctx.first_key(args[1]);
    let ops = match parse(ctx, &args[2..]) {
        Ok(ops) => ops,
        Err(failure) => return ctx.fail(failure),
    };
    // The string grows to the end of what is written, and at once: also where a subcommand then writes nothing. That is a change and told as
    // one (Redis tells it only if a number is written, too).
    let end = ops.iter().filter(|op| op.writes()).map(|op| op.byte + op.len()).max();
    let Some(end) = end else { return read(ctx, key, ops) };
    if read_only {
        return ctx.fail(errors::BITFIELD_READ_ONLY);
    }
    let mut writes = Writes {
        name: HeldName::new(args[1], Mode::Exclusive),
        ops,
        results: Vec::new(),
        end,
        grown: false,
        changes: 0,
        running: false,
    };
    if writes.ops.len() > AT_ONCE {
        return ctx.suspend(Box::new(writes));
    }
    ctx.attempt(|ctx| {
        let done = writes.grow(ctx, key).and_then(|()| {
            while !writes.is_done() {
                writes.run_next(ctx, key)?;
            }
            Ok(())
        });
        writes.finish(ctx, key, done)
    })
}

impl Op {
    fn writes(&self) -> bool {
        !matches!(self.action, Action::Get)
    }

    /// Bytes that the field touches.
    fn len(&self) -> usize {
        self.field.bytes(self.shift.into())
    }

    fn get(&self, bytes: &[u8]) -> i64 {
        self.field.get(bytes, self.shift.into())
    }

    /// The number of a field of a string of which `piece` tells the bytes from an offset on.
    fn read<'s>(&self, piece: impl Fn(usize) -> &'s [u8]) -> i64 {
        let mut bytes = [0; FIELD_BYTES_MAX];
        let mut done = 0;
        while done < self.len() {
            let part = piece(self.byte + done);
            let now = part.len().min(self.len() - done);
            if now == 0 {
                break;
            }
            bytes[done..done + now].copy_from_slice(&part[..now]);
            done += now;
        }
        self.get(&bytes)
    }

    /// The reply, and whether the string was changed.
    fn run(&self, ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<(Option<i64>, bool), Failure> {
        let mut reply = None;
        let mut bytes = [0; FIELD_BYTES_MAX];
        if !self.writes() {
            let len = ctx.db.part_for_write(key, self.byte, &mut bytes[..self.len()])?;
            return Ok((Some(self.get(&bytes[..len])), false));
        }
        let edited = ctx.db.edit_string(key, self.byte, self.len(), |bytes| {
            let old = self.get(bytes);
            let new = match self.action {
                Action::Get => None,
                Action::Set(value, overflow) => self.field.fit(value, overflow),
                Action::Add(by, overflow) => self.field.add(old, by, overflow),
            };
            let Some(new) = new else { return };
            self.field.set(bytes, self.shift.into(), new);
            reply = Some(if matches!(self.action, Action::Set(..)) { old } else { new });
        })?;
        Ok((reply, edited.changed))
    }
}

// ---- nothing but GET ----

fn read(ctx: &mut Ctx<'_>, key: Key<'_>, ops: Vec<Op>) -> Outcome {
    if ops.len() > AT_ONCE {
        return match ctx.db.string_snapshot(key) {
            Ok(string) => {
                ctx.reply.array(ops.len());
                ctx.suspend(Box::new(Reads { string, ops, at: 0 }))
            }
            Err(e) => ctx.fail(e),
        };
    }
    let mut digits = [0; 20];
    let blob;
    let string = match ctx.db.read_string(key) {
        Err(e) => return ctx.fail(e),
        Ok(None) => Small(&[]),
        Ok(Some(Value::Raw(bytes))) => Small(bytes),
        Ok(Some(Value::Int(i))) => Small(int::write_i64(&mut digits, i)),
        Ok(Some(Value::Blob(id))) => {
            blob = ctx.db.blob_ref(id);
            Large(&blob)
        }
    };
    ctx.reply.array(ops.len());
    for op in &ops {
        ctx.reply.int(op.read(|at| match string {
            Small(bytes) => bytes.get(at..).unwrap_or_default(),
            Large(blob) => blob_piece(blob, at, FIELD_BYTES_MAX),
        }));
    }
    Outcome::Done
}

/// A string where it lies.
enum Lying<'a> {
    Small(&'a [u8]),
    Large(&'a BlobRef),
}
use Lying::{Large, Small};

/// Very many GETs of a string as it was when they came.
struct Reads {
    string: Option<StringSnapshot>,
    ops: Vec<Op>,
    at: usize,
}

impl Task for Reads {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        while let Some(op) = self.ops.get(self.at) {
            let piece = |at| self.string.as_ref().map_or(&[][..], |string| string.piece(at, FIELD_BYTES_MAX));
            ctx.reply.int(op.read(piece));
            self.at += 1;
            if budget.is_spent(32) {
                return false;
            }
        }
        true
    }

    fn bytes(&self) -> usize {
        let copied = if let Some(StringSnapshot::Small(bytes)) = &self.string { bytes.capacity() } else { 0 };
        self.ops.capacity() * size_of::<Op>() + copied
    }
}

// ---- writes ----

/// A BITFIELD that writes. If it has very many subcommands it runs in slices while its key's name is held, so that it is one step to everybody;
/// once it has begun it goes on without its client.
struct Writes {
    name: HeldName,
    ops: Vec<Op>,
    /// Of the subcommands that have run.
    results: Vec<Option<i64>>,
    /// Bytes that the string needs.
    end: usize,
    /// It was shorter: then each number that is written counts as a change, as in Redis, also one that was there.
    grown: bool,
    changes: u64,
    /// The name is held.
    running: bool,
}

impl Writes {
    fn grow(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<(), Failure> {
        self.grown = ctx.db.extend_string(key, self.end)?;
        self.results.reserve_exact(self.ops.len());
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.results.len() == self.ops.len()
    }

    fn run_next(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<(), Failure> {
        let op = &self.ops[self.results.len()];
        let (reply, changed) = op.run(ctx, key)?;
        self.changes += u64::from(changed || self.grown && op.writes() && reply.is_some());
        self.results.push(reply);
        Ok(())
    }

    /// Replies, or hands the failure on (memory was short for the copy of what a reader sees); what was changed is reported in any case.
    fn finish(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, done: Result<(), Failure>) -> Result<(), Failure> {
        ctx.db.mark_modified(key);
        if self.grown || self.changes > 0 {
            ctx.report(key, Event::SetBit);
            ctx.change(self.changes.saturating_sub(1));
        }
        done?;
        ctx.reply.array(self.results.len());
        for result in &self.results {
            match result {
                Some(number) => ctx.reply.int(*number),
                None => ctx.reply.null(),
            }
        }
        Ok(())
    }

    fn begin(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
        let name = std::mem::take(&mut self.name.name);
        let grown = self.grow(ctx, ctx.key(&name));
        self.name.name = name;
        grown?;
        Ok(self.name.put_off_deadline(ctx)?)
    }

    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let name = std::mem::take(&mut self.name.name);
        let key = ctx.key(&name);
        let mut done = Ok(());
        while done.is_ok() && !self.is_done() && !budget.is_spent(16) {
            done = self.run_next(ctx, key);
        }
        let over = done.is_err() || self.is_done();
        self.name.name = name;
        if over {
            self.name.restore_deadline(ctx);
            let name = std::mem::take(&mut self.name.name);
            self.finish(ctx, ctx.key(&name), done)?;
        }
        Ok(over)
    }
}

impl Task for Writes {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let mut begun = Ok(());
        if !self.running {
            if !self.name.acquire(ctx) {
                return false;
            }
            self.running = true;
            begun = self.begin(ctx);
        }
        let done = begun.and_then(|()| self.go_on(ctx, budget)).unwrap_or_else(|failure| {
            ctx.fail(failure);
            true
        });
        if done {
            self.abandon(&mut ctx.db);
        }
        done
    }

    fn bytes(&self) -> usize {
        let (ops, results) =
            (self.ops.capacity() * size_of::<Op>(), self.results.capacity() * size_of::<Option<i64>>());
        self.name.name.capacity() + ops + results
    }

    fn must_finish(&self) -> bool {
        self.running
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        self.running = false;
        self.name.release(db);
    }
}
