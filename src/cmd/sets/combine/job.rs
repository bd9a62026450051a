//! Operations on sets in slices: what the head of `combine` says of many members.

use super::{Goal, Operation, filter, store};
use crate::base::entry::Entries;
use crate::cmd::ctx::{Args, Budget, Ctx, Failure, Task};
use crate::cmd::runs::Runs;
use crate::db::collections::Viewed;
use crate::db::hold::Mode;
use crate::db::{Db, DbError};
use crate::types::set::Set;
use crate::types::{Body, Container, Form, Look, Span};
use std::collections::VecDeque;

/// Bytes of members that are taken from a set at once.
const PIECE_BYTES: usize = 2 << 10;

/// A source as it was at the instant of the operation.
enum Source {
    /// A packed set.
    Small(Vec<u8>),
    Big(Viewed<Set>),
}

impl Source {
    fn open(ctx: &mut Ctx<'_>, name: &[u8]) -> Result<Option<Source>, Failure> {
        let key = ctx.key(name);
        match ctx.db.look::<Set>(key)? {
            None => return Ok(None),
            Some(Look { form: Form::Packed(packed), .. }) => return Ok(Some(Source::Small(packed.to_vec()))),
            Some(_) => {}
        }
        Ok(ctx.db.open_view(key, Span::default())?.map(Source::Big))
    }

    fn len(&self) -> usize {
        match self {
            Source::Small(packed) => crate::types::packed::count(packed),
            Source::Big(view) => view.len(),
        }
    }

    /// The members of a run that stay.
    fn filter(&self, db: &mut Db<'_>, run: &[u8], operation: Operation) -> Vec<u8> {
        let set = match self {
            Source::Big(view) => db.viewed(view),
            Source::Small(packed) => Some(Look { form: Form::Packed(packed), slab: db.slab() }),
        };
        let Some(set) = set else { unreachable!("of small sets there is no view") };
        Entries::new(run).for_each(|member| set.prefetch(member));
        filter(run, |member| set.contains(member), operation)
    }

    /// Appends its next members; false: those were the last.
    fn next(&mut self, db: &mut Db<'_>, run: &mut Vec<u8>) -> Result<bool, Failure> {
        match self {
            Source::Small(packed) => {
                Set::unpack(packed, Span::default(), run);
                Ok(false)
            }
            Source::Big(view) => db.view_next(view, run, PIECE_BYTES).map_err(|_| Failure::Db(DbError::OutOfMemory)),
        }
    }
}

enum Target {
    Reply,
    Store(Vec<u8>),
    Count(usize),
}

impl Target {
    /// The key whose shard has the result.
    fn home<'a>(&'a self, names: &'a [Vec<u8>]) -> &'a [u8] {
        if let Target::Store(name) = self { name } else { &names[0] }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// For another holder of names to finish.
    Waiting,
    Working,
    Writing,
}

/// Members on their way through the others.
struct Piece {
    run: Vec<u8>,
    /// Those of `others` that they have been compared with.
    compared: usize,
}

pub(super) struct Job {
    operation: Operation,
    target: Target,
    names: Vec<Vec<u8>>,
    stage: Stage,
    holds: bool,
    /// Where members come from, one after the other.
    sources: VecDeque<Source>,
    /// What they are compared with.
    others: Vec<Source>,
    /// Members of others to be put together first, since they are few beside the first set.
    merging: VecDeque<Source>,
    merged: Option<Body<Set>>,
    piece: Option<Piece>,
    /// The result, if it is stored; of a union all members so far, too.
    body: Body<Set>,
    found: Runs,
    count: usize,
    failed: Option<Failure>,
}

impl Job {
    pub(super) fn new(operation: Operation, goal: Goal<'_>, names: Args<'_>) -> Job {
        let target = match goal {
            Goal::Reply => Target::Reply,
            Goal::Store { destination } => Target::Store(destination.to_vec()),
            Goal::Count { limit } => Target::Count(limit),
        };
        Job {
            operation,
            target,
            names: names.iter().map(|name| name.to_vec()).collect(),
            stage: Stage::Waiting,
            holds: false,
            sources: VecDeque::new(),
            others: Vec::new(),
            merging: VecDeque::new(),
            merged: None,
            piece: None,
            body: Body::default(),
            found: Runs::default(),
            count: 0,
            failed: None,
        }
    }

    pub(super) fn needs_names(&self) -> bool {
        self.operation != Operation::Union || matches!(self.target, Target::Store(_))
    }

    /// All keys.
    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let destination = if let Target::Store(name) = &self.target { Some(name) } else { None };
        self.names.iter().chain(destination).map(Vec::as_slice)
    }

    /// Holds the names of all keys; false: somebody else holds names.
    pub(super) fn take_names(&mut self, ctx: &mut Ctx<'_>) -> bool {
        if !ctx.db.hold_begin(self.keys().count(), Mode::Shared) {
            return false;
        }
        self.holds = true;
        for name in self.keys() {
            let hash = ctx.key(name).hash;
            ctx.db.hold(hash);
        }
        true
    }

    /// The instant of the operation: all shards of its keys are locked. A failure is told by the next step.
    pub(super) fn begin(&mut self, ctx: &mut Ctx<'_>) {
        self.stage = Stage::Working;
        self.failed = self.gather(ctx).err();
    }

    fn gather(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
        let mut sources = Vec::with_capacity(self.names.len());
        let mut nothing = false;
        for (index, name) in self.names.iter().enumerate() {
            match Source::open(ctx, name) {
                Ok(Some(source)) => sources.push(source),
                Ok(None) => {
                    nothing |= match self.operation {
                        Operation::Inter => true,
                        Operation::Union => false,
                        Operation::Diff => index == 0,
                    };
                }
                Err(failure) => {
                    close(&mut ctx.db, sources);
                    return Err(failure);
                }
            }
        }
        if nothing {
            close(&mut ctx.db, sources);
            return Ok(());
        }
        if self.operation == Operation::Inter {
            sources.sort_by_key(Source::len);
        }
        self.sources = sources.into();
        if self.operation != Operation::Union {
            self.others = self.sources.drain(1..).collect();
        }
        // Many small sets are taken from a large one in one go.
        let first = self.sources.front().map_or(0, Source::len);
        if self.operation == Operation::Diff
            && self.others.len() > 1
            && self.others.iter().map(Source::len).sum::<usize>() <= first
        {
            self.merging = std::mem::take(&mut self.others).into();
            self.merged = Some(Body::default());
        }
        Ok(())
    }

    /// One unit of work; false: there is nothing left.
    fn work(&mut self, ctx: &mut Ctx<'_>) -> Result<bool, Failure> {
        if let (Some(source), Some(merged)) = (self.merging.front_mut(), &mut self.merged) {
            let mut run = Vec::new();
            let more = source.next(&mut ctx.db, &mut run)?;
            let key = ctx.key(&self.names[0]);
            ctx.db.extend_body(key, merged, &run)?;
            if !more {
                close(&mut ctx.db, self.merging.pop_front());
            }
            return Ok(true);
        }
        let Some(mut piece) = self.piece.take() else {
            let Some(source) = self.sources.front_mut() else { return Ok(false) };
            let mut run = Vec::new();
            if !source.next(&mut ctx.db, &mut run)? {
                close(&mut ctx.db, self.sources.pop_front());
            }
            self.piece = Some(Piece { run, compared: 0 });
            return Ok(true);
        };
        let operation = self.operation;
        if let Some(merged) = self.merged.as_mut().filter(|_| piece.compared == 0) {
            let key = ctx.key(&self.names[0]);
            piece.run = ctx.db.with_body(key, merged, |edit| {
                let set = edit.look();
                filter(&piece.run, |member| set.contains(member), operation)
            });
            piece.compared = 1;
        } else if let Some(other) = self.others.get(piece.compared).filter(|_| !piece.run.is_empty()) {
            piece.run = other.filter(&mut ctx.db, &piece.run, operation);
            piece.compared += 1;
        } else {
            return self.keep(ctx, piece.run);
        }
        self.piece = Some(piece);
        Ok(true)
    }

    /// Adds members to the result; false: there are enough.
    fn keep(&mut self, ctx: &mut Ctx<'_>, mut run: Vec<u8>) -> Result<bool, Failure> {
        let key = ctx.key(self.target.home(&self.names));
        let (operation, stores) = (self.operation, matches!(self.target, Target::Store(_)));
        let mut body = std::mem::take(&mut self.body);
        // What of a union is there already goes no further.
        let done = ctx.db.with_body(key, &mut body, |edit| {
            if operation == Operation::Union {
                let mut new = Vec::new();
                for member in Entries::new(&run) {
                    if edit.add(member)? {
                        member.put(&mut new);
                    }
                }
                run = new;
                Ok(())
            } else if stores {
                Entries::new(&run).try_for_each(|member| edit.add(member).map(|_| ()))
            } else {
                Ok(())
            }
        });
        self.body = body;
        done.map_err(DbError::from)?;
        let count = Entries::new(&run).count();
        self.count += count;
        match self.target {
            Target::Reply => self.found.push_run(&run, count),
            Target::Count(limit) => return Ok(self.count < limit),
            Target::Store(_) => {}
        }
        Ok(true)
    }

    /// All is found. True: the reply is complete.
    fn finish(&mut self, ctx: &mut Ctx<'_>) -> Result<bool, Failure> {
        match &self.target {
            Target::Reply => {
                ctx.reply.set(self.found.len());
                self.abandon(&mut ctx.db);
                Ok(false)
            }
            Target::Count(limit) => {
                ctx.reply.count(self.count.min(*limit));
                Ok(true)
            }
            Target::Store(destination) => {
                let key = ctx.key(destination);
                let body = std::mem::take(&mut self.body);
                store(ctx, self.operation, key, body, self.count)?;
                Ok(true)
            }
        }
    }

    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        while self.stage == Stage::Working {
            if !self.work(ctx)? {
                if self.finish(ctx)? {
                    return Ok(true);
                }
                break;
            }
            if budget.is_spent(1) {
                return Ok(false);
            }
        }
        Ok(self.found.write(ctx, budget))
    }
}

fn close(db: &mut Db<'_>, sources: impl IntoIterator<Item = Source>) {
    for source in sources {
        if let Source::Big(view) = source {
            db.close_view(view);
        }
    }
}

impl Task for Job {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if self.stage == Stage::Waiting {
            if !self.take_names(ctx) {
                return false;
            }
            ctx.db.lock_keys(self.keys());
            self.begin(ctx);
            ctx.db.lock_none();
        }
        let done = self.go_on(ctx, budget).unwrap_or_else(|failure| {
            ctx.fail(failure);
            true
        });
        if done {
            self.abandon(&mut ctx.db);
        }
        done
    }

    fn bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.capacity() + size_of::<Vec<u8>>()).sum();
        let sources = self.sources.iter().chain(&self.others).chain(&self.merging);
        let copied = sources.map(|source| if let Source::Small(packed) = source { packed.capacity() } else { 0 });
        let piece = self.piece.as_ref().map_or(0, |piece| piece.run.capacity());
        names + copied.sum::<usize>() + piece + self.found.bytes()
    }

    fn waits_for_room(&self) -> bool {
        self.stage == Stage::Writing
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        let sources = self.sources.drain(..).chain(self.others.drain(..)).chain(self.merging.drain(..));
        close(db, sources);
        let home = db.key(self.target.home(&self.names));
        db.drop_body(home, std::mem::take(&mut self.body));
        if let Some(merged) = self.merged.take() {
            let key = db.key(&self.names[0]);
            db.drop_body(key, merged);
        }
        if std::mem::take(&mut self.holds) {
            db.hold_end();
        }
        self.stage = Stage::Writing;
    }
}
