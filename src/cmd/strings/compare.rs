//! Comparisons with the value at a key: DELIFEQ (Valkey), DELEX and DIGEST (Redis), and what SET's conditions need. Values of one segment
//! are compared at once, longer ones in slices, while the name is held.

use super::super::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use super::super::event::Event;
use super::options::Match;
use super::set;
use crate::base::hash::{DIGEST_BYTES, Digest, digest as digest_of};
use crate::base::int;
use crate::cmd::held::HeldName;
use crate::db::hold::Mode;
use crate::db::item::Value;
use crate::db::view::Deadline;
use crate::db::{Db, Key, NewValue};
use crate::proto::errors;
use dolmen_slab::{BlobId, BlobRef, SEGMENT_BYTES};

/// Bytes that are compared or digested between two looks at the clock.
const PIECE_BYTES: usize = 64 << 10;

pub(super) enum Verdict {
    Holds(bool),
    /// It takes longer.
    Long(Test),
}

/// A comparison with a long value.
pub(super) struct Test {
    negated: bool,
    against: Against,
}

enum Against {
    /// The same bytes.
    Value(BlobRef),
    Digest([u8; DIGEST_BYTES]),
}

/// What follows from a comparison.
pub(super) enum Then {
    Delete,
    Set { value: Kept, deadline: Deadline, get: bool },
}

/// A value that waits to be stored.
pub(super) enum Kept {
    Bytes(Vec<u8>),
    Blob(BlobId),
}

impl Then {
    pub fn set(value: NewValue<'_>, deadline: Deadline, get: bool) -> Then {
        let value = match value {
            NewValue::Raw(bytes) => Kept::Bytes(bytes.to_vec()),
            NewValue::Int(i) => Kept::Bytes(int::write_i64(&mut [0; 20], i).to_vec()),
            NewValue::Blob(id) => Kept::Blob(id),
            NewValue::Packed(..) | NewValue::Container(..) => unreachable!("the value of a string"),
        };
        Then::Set { value, deadline, get }
    }
}

/// Compares the string at a key, which is there.
pub(super) fn judge(ctx: &mut Ctx<'_>, key: Key<'_>, condition: Match<'_>) -> Result<Verdict, Failure> {
    let Match { by_digest, negated, operand } = condition;
    let wanted = if by_digest { Some(digest_operand(operand)?) } else { None };
    let value = ctx.db.string_for_write(key)?;
    let mut digits = [0; 20];
    let bytes = match value {
        None => return Ok(Verdict::Holds(negated)),
        Some(Value::Raw(bytes)) => bytes,
        Some(Value::Int(i)) => int::write_i64(&mut digits, i),
        Some(Value::Blob(id)) => {
            let slab = ctx.db.slab();
            match wanted {
                None => {
                    let same = slab.blob_len(id) == operand.len()
                        && operand.chunks(SEGMENT_BYTES).enumerate().all(|(i, part)| slab.blob_segment(id, i) == part);
                    return Ok(Verdict::Holds(same != negated));
                }
                Some(wanted) if slab.blob_segments(id) > 1 => {
                    return Ok(Verdict::Long(Test { negated, against: Against::Digest(wanted) }));
                }
                Some(_) => slab.blob_segment(id, 0),
            }
        }
    };
    let same = match wanted {
        Some(wanted) => digest_of(bytes) == wanted,
        None => bytes == operand,
    };
    Ok(Verdict::Holds(same != negated))
}

/// A digest as an operand: Redis looks at its length only, and compares without regard to case.
fn digest_operand(operand: &[u8]) -> Result<[u8; DIGEST_BYTES], Failure> {
    let mut wanted: [u8; DIGEST_BYTES] = operand.try_into().map_err(|_| errors::DIGEST_LENGTH)?;
    wanted.make_ascii_lowercase();
    Ok(wanted)
}

/// `judge` for an operand that may have been received in place.
fn judge_received(ctx: &mut Ctx<'_>, key: Key<'_>, condition: Match<'_>) -> Result<Verdict, Failure> {
    let Some(id) = ctx.blob.take() else { return judge(ctx, key, condition) };
    let operand = ctx.db.blob_ref(id);
    ctx.db.blob_drop(key, id);
    if condition.by_digest {
        return Err(errors::DIGEST_LENGTH.into());
    }
    let negated = condition.negated;
    let alike = match ctx.db.string_for_write(key)? {
        Some(Value::Blob(id)) => ctx.db.slab().blob_len(id) == operand.len(),
        _ => false,
    };
    Ok(match alike {
        false => Verdict::Holds(negated),
        true if operand.segments() > 1 => Verdict::Long(Test { negated, against: Against::Value(operand) }),
        true => return judge(ctx, key, Match { operand: operand.segment(0), ..condition }),
    })
}

/// `DELIFEQ key value`
pub fn delifeq(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    delete_if(ctx, key, Match { by_digest: false, negated: false, operand: args[2] })
}

/// `DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]`
pub fn delex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    match args.len() {
        2 => {
            remove(ctx, key, true);
            return Outcome::Done;
        }
        4 => {}
        _ => return ctx.fail(errors::wrong_number_of_arguments("delex")),
    }
    match ctx.db.string_for_write(key) {
        Ok(Some(_)) => {}
        Ok(None) => {
            remove(ctx, key, false);
            return Outcome::Done;
        }
        Err(_) => return ctx.fail(errors::DELEX_TYPE),
    }
    match Match::named(args[2], args[3]) {
        Some(condition) => delete_if(ctx, key, condition),
        None => ctx.fail(errors::DELEX_CONDITION),
    }
}

fn delete_if(ctx: &mut Ctx<'_>, key: Key<'_>, condition: Match<'_>) -> Outcome {
    match ctx.db.string_for_write(key).map(|value| value.is_some()) {
        Ok(true) => {}
        Ok(false) => {
            remove(ctx, key, false);
            return Outcome::Done;
        }
        Err(e) => return ctx.fail(e),
    }
    match judge_received(ctx, key, condition) {
        Ok(Verdict::Holds(holds)) => {
            remove(ctx, key, holds);
            Outcome::Done
        }
        Ok(Verdict::Long(test)) => test.suspend(ctx, key, Then::Delete),
        Err(failure) => ctx.fail(failure),
    }
}

/// Deletes a key if it is to be, and replies how many were.
fn remove(ctx: &mut Ctx<'_>, key: Key<'_>, wanted: bool) {
    let removed = wanted && ctx.db.remove(key);
    if removed {
        ctx.report(key, Event::Del);
    }
    ctx.reply.int(i64::from(removed));
}

/// `DIGEST key`
pub fn digest(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let key = ctx.first_key(args[1]);
    let digest = match ctx.db.read_string(key) {
        Err(e) => return ctx.fail(e),
        Ok(None) => {
            ctx.reply.null();
            return Outcome::Done;
        }
        Ok(Some(Value::Raw(bytes))) => digest_of(bytes),
        Ok(Some(Value::Int(i))) => digest_of(int::write_i64(&mut [0; 20], i)),
        Ok(Some(Value::Blob(id))) => {
            let value = ctx.db.blob_ref(id);
            let mut task = DigestTask { reading: Reading::new(value), digest: Box::default() };
            if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
                return Outcome::Done;
            }
            return ctx.suspend(Box::new(task));
        }
    };
    ctx.reply.bulk(&digest);
    Outcome::Done
}

/// A long value, and how far it was read.
struct Reading {
    value: BlobRef,
    at: usize,
}

impl Reading {
    fn new(value: BlobRef) -> Reading {
        Reading { value, at: 0 }
    }

    fn is_over(&self) -> bool {
        self.at == self.value.len()
    }

    /// The next piece, and where it begins.
    fn next(&mut self) -> (usize, &[u8]) {
        let at = self.at;
        let piece = piece_at(&self.value, at);
        self.at += piece.len();
        (at, piece)
    }
}

/// The bytes of a value from a multiple of the piece's length on.
fn piece_at(value: &BlobRef, at: usize) -> &[u8] {
    let segment = &value.segment(at / SEGMENT_BYTES)[at % SEGMENT_BYTES..];
    &segment[..segment.len().min(PIECE_BYTES)]
}

struct DigestTask {
    reading: Reading,
    digest: Box<Digest>,
}

impl Task for DigestTask {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        while !self.reading.is_over() {
            self.digest.update(self.reading.next().1);
            if budget.is_spent(1) && !self.reading.is_over() {
                return false;
            }
        }
        ctx.reply.bulk(&self.digest.text());
        true
    }

    fn bytes(&self) -> usize {
        size_of::<DigestTask>() + size_of::<Digest>() + self.reading.value.len()
    }
}

impl Test {
    /// Leaves the comparison, and what follows from it, to a task.
    pub fn suspend(self, ctx: &mut Ctx<'_>, key: Key<'_>, then: Then) -> Outcome {
        let name = HeldName::new(key.bytes, Mode::Exclusive);
        let task = CompareTask { name, test: self, then: Some(then), reading: None, digest: Box::default() };
        ctx.suspend(Box::new(task))
    }
}

struct CompareTask {
    name: HeldName,
    test: Test,
    then: Option<Then>,
    /// Of the value at the key, once the name is held.
    reading: Option<Reading>,
    digest: Box<Digest>,
}

impl CompareTask {
    /// Reads the value as it is now that nobody can change it. `Some`: the comparison is over already.
    fn begin(&mut self, ctx: &mut Ctx<'_>) -> Result<Option<bool>, Failure> {
        let key = ctx.key(&self.name.name);
        let id = match ctx.db.string_for_write(key)? {
            None => {
                // Nothing to delete; SET goes on if the value need not be there.
                return Ok(Some(self.test.negated && !matches!(self.then, Some(Then::Delete))));
            }
            Some(Value::Blob(id)) => id,
            Some(_) => return self.short(ctx, key).map(Some),
        };
        let value = ctx.db.blob_ref(id);
        if let Against::Value(operand) = &self.test.against
            && operand.len() != value.len()
        {
            return Ok(Some(self.test.negated));
        }
        self.reading = Some(Reading::new(value));
        Ok(None)
    }

    /// The value has become a short one while the task waited for the name.
    fn short(&self, ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<bool, Failure> {
        let Against::Digest(wanted) = &self.test.against else { return Ok(self.test.negated) };
        let condition = Match { by_digest: true, negated: self.test.negated, operand: wanted };
        Ok(matches!(judge(ctx, key, condition)?, Verdict::Holds(true)))
    }

    /// Goes on comparing; `None`: there is more.
    fn go_on(&mut self, budget: &mut Budget) -> Option<bool> {
        let Some(reading) = &mut self.reading else { return Some(false) };
        while !reading.is_over() {
            let (at, piece) = reading.next();
            match &self.test.against {
                Against::Value(operand) if piece_at(operand, at) != piece => return Some(self.test.negated),
                Against::Value(_) => {}
                Against::Digest(_) => self.digest.update(piece),
            }
            if budget.is_spent(1) && !reading.is_over() {
                return None;
            }
        }
        let same = match &self.test.against {
            Against::Value(_) => true,
            Against::Digest(wanted) => self.digest.text() == *wanted,
        };
        Some(same != self.test.negated)
    }

    fn finish(&mut self, ctx: &mut Ctx<'_>, holds: bool) -> Result<(), Failure> {
        let key = ctx.key(&self.name.name);
        match self.then.take() {
            Some(Then::Set { value, deadline, get }) => {
                let bytes = match &value {
                    Kept::Bytes(bytes) => &bytes[..],
                    Kept::Blob(id) => {
                        ctx.blob = Some(*id);
                        &[]
                    }
                };
                let done = if holds {
                    set::store(ctx, key, bytes, deadline, get)
                } else if get {
                    super::reply_value(ctx, key).map_err(Failure::from)
                } else {
                    ctx.reply.null();
                    Ok(())
                };
                if let Some(unused) = ctx.blob.take() {
                    ctx.db.blob_drop(key, unused);
                }
                done
            }
            Some(Then::Delete) => {
                remove(ctx, key, holds);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Task for CompareTask {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if !self.name.acquire(ctx) {
            return false;
        }
        let begun = if self.reading.is_none() { self.begin(ctx) } else { Ok(None) };
        let over = match begun {
            Ok(None) => match self.go_on(budget) {
                Some(holds) => self.finish(ctx, holds),
                None => return false,
            },
            Ok(Some(holds)) => self.finish(ctx, holds),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = over {
            ctx.fail(failure);
        }
        self.abandon(&mut ctx.db);
        true
    }

    fn bytes(&self) -> usize {
        let value = match &self.then {
            Some(Then::Set { value: Kept::Bytes(bytes), .. }) => bytes.capacity(),
            _ => 0,
        };
        let operand = if let Against::Value(operand) = &self.test.against { operand.len() } else { 0 };
        size_of::<CompareTask>() + size_of::<Digest>() + self.name.name.capacity() + value + operand
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if let Some(Then::Set { value: Kept::Blob(id), .. }) = self.then.take() {
            let key = db.key(&self.name.name);
            db.blob_drop(key, id);
        }
        self.name.release(db);
    }
}
