//! Commands that name very many elements of one key, in parts: HSET of a hundred thousand fields must not stop the loop, and yet be one step to
//! everybody. So the name of the key is held (`db::hold`) from the first part to the last. Owns the request, the parts and the name; what is done with
//! a part is the command's ([`InParts`]).

use super::ctx::{Args, Budget, Ctx, Failure, Outcome, Task};
use crate::db::hold::Mode;
use crate::db::{Db, Key};
use crate::proto::carry::Carry;

/// Arguments of a part at most, and the bytes after which it is closed.
const PART_ARGS: usize = 64;
const PART_BYTES: usize = 16 << 10;

/// A command of one key and any number of elements, which come in groups.
pub trait InParts {
    /// Whether others may read the key meanwhile.
    const MODE: Mode;
    /// Arguments of a group: field and value, score and member.
    const GROUP: usize = 1;

    /// Reads what stands before the elements, if not only the key; where they begin. There are `argc` arguments, `get` tells each.
    ///
    /// # Errors
    /// What is wrong with the request.
    fn begin<'a>(&mut self, _argc: usize, _get: impl Fn(usize) -> &'a [u8]) -> Result<usize, Failure> {
        Ok(2)
    }

    /// Is a group in order? Asked of all of them before anything is done.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, _group: Args<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Does it ask (`check`) at all?
    const CHECKS: bool = false;

    /// Before the first part, under the lock of the key: writes what the reply of a reading command begins with.
    ///
    /// # Errors
    /// The key holds another type.
    fn start(&mut self, _ctx: &mut Ctx<'_>, _key: Key<'_>, _elements: usize) -> Result<(), Failure> {
        Ok(())
    }

    /// Must all groups be looked at (`look`), under the lock of the key, before anything is done?
    fn looks(&self) -> bool {
        false
    }

    /// Looks at some groups. False: nothing is to be done.
    ///
    /// # Errors
    /// As `part`, and nothing was done.
    fn look(&mut self, _ctx: &mut Ctx<'_>, _key: Key<'_>, _part: Args<'_>) -> Result<bool, Failure> {
        Ok(true)
    }

    /// Some groups. False: those that follow would do nothing.
    ///
    /// # Errors
    /// What was done before stays done.
    fn part(&mut self, ctx: &mut Ctx<'_>, key: Key<'_>, part: Args<'_>) -> Result<bool, Failure>;

    /// Reports what was changed, by all parts; under the lock of the key.
    fn report(&mut self, _ctx: &mut Ctx<'_>, _key: Key<'_>) {}

    /// Writes (the rest of) the reply.
    fn reply(&mut self, _ctx: &mut Ctx<'_>) {}
}

/// Runs a command in parts; `request` is the whole of it.
pub fn suspend<W: InParts + 'static>(ctx: &mut Ctx<'_>, request: Carry, mut work: W) -> Outcome {
    let argc = request.arg_counts().0;
    let first = match work.begin(argc, |i| request.arg(i).unwrap_or_default()) {
        Ok(first) => first,
        Err(failure) => return ctx.fail(failure),
    };
    let stage = if W::CHECKS { Stage::Checking } else { Stage::Waiting };
    ctx.suspend(Box::new(InSlices { request, work, argc, first, at: first, stage }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Checking,
    /// For another holder of names to finish.
    Waiting,
    /// At all groups, with the name held.
    Looking,
    Running,
    Over,
}

struct InSlices<W> {
    request: Carry,
    work: W,
    argc: usize,
    first: usize,
    /// The next group.
    at: usize,
    stage: Stage,
}

impl<W: InParts> InSlices<W> {
    fn is_holding(&self) -> bool {
        matches!(self.stage, Stage::Looking | Stage::Running)
    }

    fn check(&mut self, budget: &mut Budget) -> Result<bool, Failure> {
        while self.at < self.argc {
            let mut group = [&[][..]; 2];
            for (nth, argument) in group[..W::GROUP].iter_mut().enumerate() {
                *argument = self.request.arg(self.at + nth).unwrap_or_default();
            }
            self.work.check(&group[..W::GROUP])?;
            self.at += W::GROUP;
            if budget.is_spent(32) {
                return Ok(false);
            }
        }
        (self.stage, self.at) = (Stage::Waiting, self.first);
        Ok(true)
    }

    /// True: the reply is complete.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        if self.stage == Stage::Checking && !self.check(budget)? {
            return Ok(false);
        }
        let key = ctx.key(self.request.arg(1).unwrap_or_default());
        if self.stage == Stage::Waiting {
            if !ctx.db.hold_begin(1, W::MODE) {
                return Ok(false);
            }
            ctx.db.hold(key.hash);
            self.stage = Stage::Running;
            if let Some(row) = self.request.arg(0).and_then(|name| ctx.commands.find(name)) {
                ctx.track(row, std::iter::once(key.bytes));
            }
            self.work.start(ctx, key, (self.argc - self.first) / W::GROUP)?;
            if self.work.looks() {
                self.stage = Stage::Looking;
            }
        }
        let mut part: Vec<&[u8]> = Vec::with_capacity(PART_ARGS);
        loop {
            part.clear();
            let mut bytes = 0;
            while self.at < self.argc && part.len() < PART_ARGS && bytes < PART_BYTES {
                for _ in 0..W::GROUP {
                    let argument = self.request.arg(self.at).unwrap_or_default();
                    bytes += argument.len();
                    part.push(argument);
                    self.at += 1;
                }
            }
            if self.stage == Stage::Looking {
                if !self.work.look(ctx, key, &part)? {
                    self.work.reply(ctx);
                    return Ok(true);
                }
                if self.at == self.argc {
                    (self.stage, self.at) = (Stage::Running, self.first);
                }
                if budget.is_spent(1) {
                    return Ok(false);
                }
                continue;
            }
            let more = self.work.part(ctx, key, &part);
            if !matches!(more, Ok(true)) || self.at == self.argc {
                self.work.report(ctx, key);
                more?;
                self.work.reply(ctx);
                return Ok(true);
            }
            if budget.is_spent(1) {
                return Ok(false);
            }
        }
    }
}

impl<W: InParts> Task for InSlices<W> {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        match self.go_on(ctx, budget) {
            Ok(false) => return false,
            Ok(true) => {}
            Err(failure) => {
                ctx.fail(failure);
            }
        }
        if self.is_holding() && W::MODE == Mode::Exclusive {
            self.stage = Stage::Over;
            let hash = ctx.key(self.request.arg(1).unwrap_or_default()).hash;
            super::blocking::end_hold(ctx, hash);
        }
        self.abandon(&mut ctx.db);
        true
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.request.bytes()
    }

    fn must_finish(&self) -> bool {
        self.stage == Stage::Running && W::MODE == Mode::Exclusive
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if self.is_holding() {
            db.hold_end();
        }
        self.stage = Stage::Over;
    }
}
