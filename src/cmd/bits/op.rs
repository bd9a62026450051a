//! BITOP: combines strings bit by bit.
//!
//! **What is large runs in slices, and is still one instant to everybody.** The sources are gathered at one instant: small ones are
//! combined right away, of large ones a view is kept. The result is built beside the old value of the destination and put in its place at the
//! end. Without more it could be told that this takes time: a client that overwrites a source after that instant and then reads the old
//! destination would later see a result of the old source appear behind both. So the name of the destination is held (`db::hold`) from
//! the instant to the end: who names it waits, and nobody can see it before it is what it was to be at that instant. Sources are not held; they may be
//! overwritten and deleted meanwhile. Only if there are so many that gathering them takes more than one slice, they are held too.
//!
//! A client that leaves takes its command along: nothing was changed until the last step.

use super::PIECE_BYTES;
use crate::cmd::ctx::{Args, Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use crate::cmd::event::Event;
use crate::cmd::pieces::Draft;
use crate::db::bits::{StringSnapshot, blob_piece};
use crate::db::hold::Mode;
use crate::db::view::Deadline;
use crate::db::{Db, NewValue};
use crate::proto::errors;
use crate::types::bitmap::{Fold, Operation};
use dolmen_slab::BlobRef;

/// Bytes of result times sources that are combined at once.
const AT_ONCE_BYTES: usize = PIECE_BYTES;

fn operation(name: &[u8]) -> Option<Operation> {
    Some(match &*name.to_ascii_lowercase() {
        b"and" => Operation::And,
        b"or" => Operation::Or,
        b"xor" => Operation::Xor,
        b"not" => Operation::Not,
        b"diff" => Operation::Diff,
        b"diff1" => Operation::Diff1,
        b"andor" => Operation::AndOr,
        b"one" => Operation::One,
        _ => return None,
    })
}

/// `BITOP AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destkey key [key ...]`
pub fn bitop(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    let Some(operation) = operation(args[1]) else { return ctx.fail(errors::SYNTAX) };
    let (destination, sources) = (args[2], &args[3..]);
    if operation == Operation::Not && sources.len() != 1 {
        return ctx.fail(errors::BITOP_NOT);
    }
    if operation != Operation::Not && operation.sets_first_apart() && sources.len() < 2 {
        return ctx.fail(errors::bitop_sources(args[1]));
    }
    let mut gathered = Gathered::new(operation);
    let mut budget = Budget::new(ctx.clock, FIRST_SLICE);
    let mut many = false;
    for source in sources {
        if let Err(failure) = gathered.add(ctx, source) {
            return ctx.fail(failure);
        }
        many = budget.is_spent(4);
        if many {
            break;
        }
    }
    if !many && gathered.work_bytes() <= AT_ONCE_BYTES {
        return ctx.attempt(|ctx| {
            let len = gathered.len;
            let mut fold = gathered.fold_piece(0, PIECE_BYTES);
            put(ctx, destination, NewValue::Raw(fold.finish(gathered.first_piece(0, PIECE_BYTES), len)), len)
        });
    }
    let mut job = Job {
        destination: destination.to_vec(),
        sources: sources.iter().map(|source| source.to_vec()).collect(),
        many,
        named: 0,
        state: State::Waiting,
        gathered: Gathered::new(operation),
        at: 0,
        next: 0,
        fold: Fold::new(operation),
        result: Draft::default(),
    };
    if !many && ctx.db.hold_begin(1, Mode::Exclusive) {
        // This is the instant, and all is gathered already.
        job.hold(ctx, &job.destination);
        job.gathered = gathered;
        job.gathered.settle();
        job.sources = Vec::new();
        job.state = State::Building;
    } else {
        // When its turn comes the sources are gathered one after the other, so all of them are held.
        job.many = true;
    }
    ctx.suspend(Box::new(job))
}

/// Writes the result, `len` bytes, and the reply; without any bytes the destination is deleted.
fn put(ctx: &mut Ctx<'_>, destination: &[u8], value: NewValue<'_>, len: usize) -> Result<(), Failure> {
    let key = ctx.key(destination);
    if len > 0 {
        ctx.db.set_string(key, value, Deadline::None)?;
        ctx.db.mark_modified(key);
        ctx.log_string_of_task(key);
        ctx.report(key, Event::Set);
    } else if ctx.db.remove(key) {
        ctx.log_string_of_task(key);
        ctx.report(key, Event::Del);
    }
    ctx.reply.count(len);
    Ok(())
}

/// The sources as they were when they were added.
struct Gathered {
    operation: Operation,
    any: bool,
    /// The first source, for operations that set it apart.
    first: Option<StringSnapshot>,
    /// All others that were small, combined; then what stands for them.
    small: Fold,
    settled: Vec<Vec<u8>>,
    large: Vec<BlobRef>,
    /// Length of the longest.
    len: usize,
}

impl Gathered {
    fn new(operation: Operation) -> Gathered {
        let (small, settled, large) = (Fold::new(operation), Vec::new(), Vec::new());
        Gathered { operation, any: false, first: None, small, settled, large, len: 0 }
    }

    fn add(&mut self, ctx: &mut Ctx<'_>, source: &[u8]) -> Result<(), Failure> {
        let snapshot = ctx.db.string_snapshot(ctx.key(source))?;
        self.len = self.len.max(snapshot.as_ref().map_or(0, StringSnapshot::len));
        if !std::mem::replace(&mut self.any, true) && self.operation.sets_first_apart() {
            self.first = snapshot;
            return Ok(());
        }
        match snapshot {
            None => self.small.fold(&[]),
            Some(StringSnapshot::Small(bytes)) => self.small.fold(&bytes),
            Some(StringSnapshot::Large(blob)) => self.large.push(blob),
        }
        Ok(())
    }

    /// All sources were added.
    fn settle(&mut self) {
        self.settled = std::mem::replace(&mut self.small, Fold::new(self.operation)).into_sources();
    }

    fn work_bytes(&self) -> usize {
        self.len.saturating_mul(self.large.len() + 2)
    }

    fn first_piece(&self, at: usize, max_bytes: usize) -> &[u8] {
        self.first.as_ref().map_or(&[], |first| first.piece(at, max_bytes))
    }

    /// Piece number `i` at an offset of what is to be folded; `None`: that was all.
    fn piece(&self, i: usize, at: usize, max_bytes: usize) -> Option<&[u8]> {
        if let Some(small) = self.settled.get(i) {
            let rest = small.get(at..).unwrap_or_default();
            return Some(&rest[..rest.len().min(max_bytes)]);
        }
        self.large.get(i - self.settled.len()).map(|blob| blob_piece(blob, at, max_bytes))
    }

    fn fold_piece(&mut self, at: usize, max_bytes: usize) -> Fold {
        self.settle();
        let mut fold = Fold::new(self.operation);
        let mut i = 0;
        while let Some(piece) = self.piece(i, at, max_bytes) {
            fold.fold(piece);
            i += 1;
        }
        fold
    }

    fn bytes(&self) -> usize {
        let settled: usize = self.settled.iter().map(Vec::capacity).sum();
        self.small.bytes() + settled + self.large.capacity() * size_of::<BlobRef>()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// For another holder to finish.
    Waiting,
    /// All names are being held.
    Holding,
    /// The sources are being gathered.
    Gathering,
    Building,
    Over,
}

/// A BITOP in slices.
struct Job {
    destination: Vec<u8>,
    sources: Vec<Vec<u8>>,
    /// They are too many to be gathered at one instant.
    many: bool,
    /// Sources held, or gathered, so far.
    named: usize,
    state: State,
    gathered: Gathered,
    /// Bytes of the result that are finished, and sources folded into the piece behind them.
    at: usize,
    next: usize,
    fold: Fold,
    /// The result so far, unless it fits one piece.
    result: Draft,
}

impl Job {
    fn hold(&self, ctx: &mut Ctx<'_>, name: &[u8]) {
        let hash = ctx.key(name).hash;
        ctx.db.hold(hash);
    }

    /// Takes the names, then the sources. True: all sources are gathered.
    fn gather(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        if self.state == State::Waiting {
            let names = if self.many { self.sources.len() + 1 } else { 1 };
            if !ctx.db.hold_begin(names, Mode::Exclusive) {
                return Ok(false);
            }
            self.hold(ctx, &self.destination);
            self.state = if self.many { State::Holding } else { State::Gathering };
        }
        if self.state == State::Holding {
            while self.named < self.sources.len() {
                self.hold(ctx, &self.sources[self.named]);
                self.named += 1;
                if budget.is_spent(64) {
                    return Ok(false);
                }
            }
            self.named = 0;
            self.state = State::Gathering;
        }
        while self.state == State::Gathering {
            let Some(source) = self.sources.get(self.named) else {
                self.gathered.settle();
                self.sources = Vec::new();
                self.state = State::Building;
                break;
            };
            self.gathered.add(ctx, source)?;
            self.named += 1;
            // A few are gathered at one instant, without being held.
            if self.many && budget.is_spent(4) {
                return Ok(false);
            }
        }
        Ok(self.state == State::Building)
    }

    /// True: the result is in place, the reply written.
    fn build(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let len = self.gathered.len;
        while self.at < len {
            while let Some(piece) = self.gathered.piece(self.next, self.at, PIECE_BYTES) {
                self.fold.fold(piece);
                self.next += 1;
                // What is beyond the end of a source is no work.
                if !piece.is_empty() && budget.is_spent(1) || budget.is_spent(64) {
                    return Ok(false);
                }
            }
            let first = self.gathered.first_piece(self.at, PIECE_BYTES);
            let bytes = self.fold.finish(first, PIECE_BYTES.min(len - self.at));
            let key = ctx.key(&self.destination);
            if len <= PIECE_BYTES {
                put(ctx, &self.destination, NewValue::Raw(bytes), len)?;
                return Ok(true);
            }
            self.result.append(&mut ctx.db, key, len, bytes)?;
            self.at += bytes.len();
            self.next = 0;
            self.fold.clear();
            if self.at < len && budget.is_spent(1) {
                return Ok(false);
            }
        }
        // With no result there are no bytes. A blob that is given away is released by who takes it, even when that fails.
        let value = self.result.take().map_or(NewValue::Raw(&[]), NewValue::Blob);
        put(ctx, &self.destination, value, len)?;
        Ok(true)
    }
}

impl Task for Job {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let done = match self.gather(ctx, budget) {
            Ok(true) => self.build(ctx, budget),
            other => other,
        };
        let done = done.unwrap_or_else(|failure| {
            ctx.fail(failure);
            true
        });
        if done {
            self.abandon(&mut ctx.db);
        }
        done
    }

    fn bytes(&self) -> usize {
        let names: usize = self.sources.iter().map(|name| name.capacity() + size_of::<Vec<u8>>()).sum();
        self.destination.capacity() + names + self.gathered.bytes() + self.fold.bytes()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        let key = db.key(&self.destination);
        self.result.release(db, key);
        if !matches!(self.state, State::Waiting | State::Over) {
            db.hold_end();
        }
        self.state = State::Over;
    }
}
