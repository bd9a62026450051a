//! Operations on several sets: ZUNION ZINTER ZDIFF, the forms that store, ZINTERCARD.
//!
//! The result is made element by element in a body of its own, which belongs to the shard of the destination (else of the first source) until it
//! is stored or written. Small operations are done at once, under the locks of their keys; large ones in slices, with all names held.
//! A source that expires meanwhile makes the operation begin anew.
//!
//! Sources are sorted sets, and sets, whose members have the score 1.

use super::range::store;
use super::sliced::{Output, Work, at_once, in_slices};
use super::{AT_ONCE, PIECE, scores_head};
use crate::base::entry::{self, Entries, Entry};
use crate::base::float;
use crate::base::int::{self, MAX_DIGITS};
use crate::cmd::ctx::{Args, Budget, Ctx, Failure, Outcome};
use crate::cmd::event::Event;
use crate::cmd::options::parse_int;
use crate::db::collections::Viewed;
use crate::db::hold::Mode;
use crate::db::{Db, DbError, Key};
use crate::proto::errors;
use crate::types::set::Set;
use crate::types::zset::{Zset, score};
use crate::types::{Body, Span};

/// Bytes of a set's members that are taken at once.
const PIECE_BYTES: usize = 1 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// As Redis: what is no number is 0 in a sum, and loses otherwise.
    fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(a + b),
            Aggregate::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Aggregate::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

fn number_or_zero(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// What becomes of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// It goes to the key that is named first.
    Store,
    Reply,
    Count,
}

/// A command of this family.
#[derive(Clone, Copy)]
struct Command {
    name: &'static str,
    operation: Operation,
    form: Form,
    event: Event,
}

const fn command(name: &'static str, operation: Operation, form: Form) -> Command {
    let event = match operation {
        Operation::Union => Event::ZUnionStore,
        Operation::Inter => Event::ZInterStore,
        Operation::Diff => Event::ZDiffStore,
    };
    Command { name, operation, form, event }
}

/// `ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub fn zunion(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, command("zunion", Operation::Union, Form::Reply))
}

/// `ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub fn zinter(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, command("zinter", Operation::Inter, Form::Reply))
}

/// `ZDIFF numkeys key [key ...] [WITHSCORES]`
pub fn zdiff(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, command("zdiff", Operation::Diff, Form::Reply))
}

/// `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX]`
pub fn zunionstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, command("zunionstore", Operation::Union, Form::Store))
}

/// `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX]`
pub fn zinterstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, command("zinterstore", Operation::Inter, Form::Store))
}

/// `ZDIFFSTORE destination numkeys key [key ...]`
pub fn zdiffstore(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, command("zdiffstore", Operation::Diff, Form::Store))
}

/// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`
pub fn zintercard(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, command("zintercard", Operation::Inter, Form::Count))
}

/// The options behind the keys.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Elements to be counted at most.
    limit: usize,
}

impl Options {
    fn parse(command: Command, keys: usize, words: Args<'_>) -> Result<Options, Failure> {
        let mut options =
            Options { weights: vec![1.0; keys], aggregate: Aggregate::Sum, with_scores: false, limit: usize::MAX };
        let weighs = command.operation != Operation::Diff && command.form != Form::Count;
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match &*word.to_ascii_lowercase() {
                b"weights" if weighs && rest.len() >= keys => {
                    for (weight, text) in options.weights.iter_mut().zip(&mut rest) {
                        *weight = float::parse(text).ok_or(errors::WEIGHT)?;
                    }
                }
                b"aggregate" if weighs && rest.len() >= 1 => {
                    let kind = rest.next().map(|kind| kind.to_ascii_lowercase()).unwrap_or_default();
                    options.aggregate = match &*kind {
                        b"sum" => Aggregate::Sum,
                        b"min" => Aggregate::Min,
                        b"max" => Aggregate::Max,
                        _ => return Err(errors::SYNTAX.into()),
                    };
                }
                b"withscores" if command.form == Form::Reply => options.with_scores = true,
                b"limit" if command.form == Form::Count && rest.len() >= 1 => {
                    let limit = rest.next().and_then(|limit| int::parse_i64(limit)).ok_or(errors::LIMIT_NEGATIVE)?;
                    let limit = usize::try_from(limit).map_err(|_| errors::LIMIT_NEGATIVE)?;
                    options.limit = if limit == 0 { usize::MAX } else { limit };
                }
                _ => return Err(errors::SYNTAX.into()),
            }
        }
        Ok(options)
    }
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, command: Command) -> Outcome {
    let (mut job, work) = match Job::parse(ctx, args, command) {
        Ok(parsed) => parsed,
        Err(failure) => return ctx.fail(failure),
    };
    if work <= AT_ONCE {
        return at_once(ctx, job);
    }
    let mut names = job.keys.clone();
    names.extend(job.target.clone());
    job.is_sliced = true;
    in_slices(ctx, names, Mode::Shared, job)
}

/// An operation on its way.
struct Job {
    command: Command,
    keys: Vec<Vec<u8>>,
    target: Option<Vec<u8>>,
    options: Options,
    is_sliced: bool,
    /// The sources in the order in which they are taken, with their sizes; empty: it has not begun.
    order: Vec<(usize, usize)>,
    /// The source that is walked over, as a place in `order`, its elements that were, and, of a set, those to come.
    source: usize,
    at: usize,
    view: Option<Viewed<Set>>,
    body: Body<Zset>,
    /// Elements of an intersection that is only counted.
    counted: usize,
}

impl Job {
    /// The operation, and how many elements it looks at.
    fn parse(ctx: &mut Ctx<'_>, args: Args<'_>, command: Command) -> Result<(Job, usize), Failure> {
        let at = if command.form == Form::Store { 2 } else { 1 };
        let count = parse_int(args[at])?;
        if count < 1 {
            return Err(errors::too_few_keys(command.name).into());
        }
        let rest = &args[at + 1..];
        let count = usize::try_from(count).ok().filter(|&count| count <= rest.len()).ok_or(errors::SYNTAX)?;
        let (keys, words) = rest.split_at(count);
        // Types come before options, as in Redis.
        let mut sizes = Vec::with_capacity(count);
        for name in keys {
            let key = ctx.key(name);
            sizes.push(size_for_reading(&mut ctx.db, key)?);
        }
        let options = Options::parse(command, count, words)?;
        let work = match command.operation {
            Operation::Union => sizes.iter().sum(),
            Operation::Inter => sizes.iter().min().map_or(0, |&least| least.saturating_mul(count)),
            Operation::Diff => sizes[0].saturating_mul(count),
        };
        let target = (command.form == Form::Store).then(|| args[1].to_vec());
        let keys = keys.iter().map(|key| key.to_vec()).collect();
        let body = Body::default();
        let job = Job {
            command,
            keys,
            target,
            options,
            is_sliced: false,
            order: Vec::new(),
            source: 0,
            at: 0,
            view: None,
            body,
            counted: 0,
        };
        Ok((job, work))
    }

    fn home(&self) -> &[u8] {
        self.target.as_ref().unwrap_or(&self.keys[0])
    }

    /// Looks at the sources as they are now.
    fn begin(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
        let mut order = Vec::with_capacity(self.keys.len());
        for (index, name) in self.keys.iter().enumerate() {
            let key = ctx.key(name);
            order.push((index, size(&mut ctx.db, key)?));
        }
        // From the smallest on; sums depend on the order, and it is Redis's.
        if self.command.operation != Operation::Diff {
            order.sort_by_key(|&(_, size)| size);
        }
        (self.order, self.source, self.at, self.counted) = (order, 0, 0, 0);
        Ok(())
    }

    /// Works on the next few elements. True: that was all.
    fn step(&mut self, ctx: &mut Ctx<'_>) -> Result<bool, Failure> {
        let Some(&(index, size)) = self.order.get(self.source) else { return Ok(true) };
        let is_nothing = size == 0 || self.command.operation == Operation::Inter && self.counted >= self.options.limit;
        if self.at >= size || is_nothing {
            self.source += 1;
            self.at = 0;
            self.close_view(&mut ctx.db);
            return Ok(self.command.operation != Operation::Union || self.source == self.order.len());
        }
        let mut run = Vec::new();
        let key = ctx.key(&self.keys[index]);
        match piece(&mut ctx.db, key, &mut self.view, self.at, &mut run)? {
            Some(elements) => self.at += elements,
            None => {
                self.restart(ctx);
                return Ok(false);
            }
        }
        if self.command.operation == Operation::Union {
            self.unite(ctx, index, &run)?;
            return Ok(false);
        }
        let Some(kept) = self.sift(ctx, index, &run)? else {
            self.restart(ctx);
            return Ok(false);
        };
        if self.command.form == Form::Count {
            self.counted += Entries::new(&kept).count() / 2;
        } else {
            self.put_all(ctx, &kept, |_, score| score)?;
        }
        Ok(false)
    }

    /// A source has gone: everything anew.
    fn restart(&mut self, ctx: &mut Ctx<'_>) {
        self.order = Vec::new();
        self.abandon(&mut ctx.db);
    }

    fn close_view(&mut self, db: &mut Db<'_>) {
        if let Some(view) = self.view.take() {
            db.close_view(view);
        }
    }

    /// Puts elements of a run into the body, with the score that comes of the present one and that of the run.
    fn put_all(
        &mut self,
        ctx: &mut Ctx<'_>,
        run: &[u8],
        combine: impl Fn(Option<f64>, f64) -> f64,
    ) -> Result<(), DbError> {
        let mut body = std::mem::take(&mut self.body);
        let key = ctx.key(self.home());
        let done = ctx.db.with_body(key, &mut body, |edit| {
            let mut digits = [0; MAX_DIGITS];
            let mut entries = Entries::new(run);
            while let (Some(member), Some(score)) = (entries.next(), entries.next()) {
                let score = score::from_entry(score);
                edit.put(member.text(&mut digits), |old| Some(combine(old, score)))?;
            }
            Ok(())
        });
        self.body = body;
        done
    }

    fn unite(&mut self, ctx: &mut Ctx<'_>, index: usize, run: &[u8]) -> Result<(), DbError> {
        let (weight, aggregate) = (self.options.weights[index], self.options.aggregate);
        self.put_all(ctx, run, |old, score| {
            let score = number_or_zero(weight * score);
            old.map_or(score, |old| aggregate.apply(old, score))
        })
    }

    /// The elements of the first source that stay in an intersection or a difference, with their scores. `None`: a source has gone.
    fn sift(&self, ctx: &mut Ctx<'_>, index: usize, run: &[u8]) -> Result<Option<Vec<u8>>, DbError> {
        let others: Vec<(usize, Key<'_>, usize)> =
            self.order[1..].iter().map(|&(index, size)| (index, ctx.key(&self.keys[index]), size)).collect();
        let is_diff = self.command.operation == Operation::Diff;
        let mut kept = Vec::new();
        let mut digits = [0; MAX_DIGITS];
        let mut entries = Entries::new(run);
        while let (Some(member), Some(score)) = (entries.next(), entries.next()) {
            let text = member.text(&mut digits);
            let mut score = score::from_entry(score);
            if !is_diff {
                score = number_or_zero(self.options.weights[index] * score);
            }
            let mut stays = true;
            for &(other, key, size) in &others {
                let found = match score_in(&mut ctx.db, key, text)? {
                    Some(found) => found,
                    None if size > 0 => return Ok(None),
                    None => None,
                };
                stays = found.is_some() != is_diff;
                if !stays {
                    break;
                }
                if let Some(found) = found {
                    score = self.options.aggregate.apply(score, found * self.options.weights[other]);
                }
            }
            if stays {
                entry::put(&mut kept, text);
                score::to_entry(&mut kept, score);
            }
        }
        Ok(Some(kept))
    }

    fn finish(&mut self, ctx: &mut Ctx<'_>) -> Result<Output, Failure> {
        match self.command.form {
            Form::Count => {
                ctx.reply.count(self.counted.min(self.options.limit));
                Ok(Output::Written)
            }
            Form::Store => {
                let target = self.target.as_ref().expect("it stores");
                store(ctx, target, &mut self.body, self.command.event)?;
                Ok(Output::Written)
            }
            Form::Reply => {
                let (home, mut body) = (self.home().to_vec(), std::mem::take(&mut self.body));
                let key = ctx.key(&home);
                let len = ctx.db.with_body(key, &mut body, |edit| edit.look().len());
                let with_scores = self.options.with_scores;
                if with_scores {
                    scores_head(&mut ctx.reply, len)
                } else {
                    ctx.reply.array(len)
                }
                Ok(Output::Body { home, body, at: 0, with_scores })
            }
        }
    }
}

impl Work for Job {
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<Option<Output>, Failure> {
        loop {
            if self.order.is_empty() {
                self.begin(ctx)?;
            }
            if self.step(ctx)? {
                return self.finish(ctx).map(Some);
            }
            if budget.is_spent(1) {
                return Ok(None);
            }
        }
    }

    fn bytes(&self) -> usize {
        let names: usize = self.keys.iter().map(|key| key.capacity() + size_of::<Vec<u8>>()).sum();
        names + self.order.capacity() * size_of::<(usize, usize)>() + self.options.weights.capacity() * 8
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        self.close_view(db);
        let body = std::mem::take(&mut self.body);
        let key = db.key(self.home());
        db.drop_body(key, body);
    }
}

// ---- Sources ----
// The only places that know what a source is.

/// Number of elements, 0 if there is no such key. Counts as a read.
fn size_for_reading(db: &mut Db<'_>, key: Key<'_>) -> Result<usize, DbError> {
    match db.read::<Zset>(key) {
        Ok(look) => Ok(look.map_or(0, |look| look.len())),
        Err(_) => size_of_set(db, key),
    }
}

/// The same without being counted.
fn size(db: &mut Db<'_>, key: Key<'_>) -> Result<usize, DbError> {
    match db.look::<Zset>(key) {
        Ok(look) => Ok(look.map_or(0, |look| look.len())),
        Err(_) => size_of_set(db, key),
    }
}

fn size_of_set(db: &mut Db<'_>, key: Key<'_>) -> Result<usize, DbError> {
    Ok(db.look::<Set>(key)?.map_or(0, |look| look.len()))
}

/// Appends the next elements to a run, about `PIECE`, of a sorted set from a rank on; how many. `None`: there is no such key.
fn piece(
    db: &mut Db<'_>,
    key: Key<'_>,
    view: &mut Option<Viewed<Set>>,
    rank: usize,
    run: &mut Vec<u8>,
) -> Result<Option<usize>, DbError> {
    if view.is_none() {
        match db.look::<Zset>(key) {
            Ok(Some(look)) => {
                let pairs = look.pairs(Span { skip: rank, reverse: false }, PIECE);
                return Ok(Some(pairs.map(|pair| pair.put(look.slab, run)).count()));
            }
            Ok(None) => return Ok(None),
            Err(_) => *view = db.open_view_again(key, Span::default())?,
        }
    }
    let Some(view) = view else { return Ok(None) };
    let mut members = Vec::new();
    // Its names are held, so nothing that it shows changes meanwhile but by expiry, which needs no memory.
    db.view_next(view, &mut members, PIECE_BYTES).map_err(|_| DbError::OutOfMemory)?;
    let mut elements = 0;
    for member in Entries::new(&members) {
        member.put(run);
        score::to_entry(run, 1.0);
        elements += 1;
    }
    Ok(Some(elements))
}

/// The score of a member, if it is there; `None`: there is no such key.
fn score_in(db: &mut Db<'_>, key: Key<'_>, member: &[u8]) -> Result<Option<Option<f64>>, DbError> {
    match db.look::<Zset>(key) {
        Ok(look) => Ok(look.map(|look| look.score(member))),
        Err(_) => {
            let look = db.look::<Set>(key)?;
            Ok(look.map(|look| look.contains(Entry::of(member)).then_some(1.0)))
        }
    }
}
