//! MSETNX and MSETEX: many keys under one condition, so two passes, of which the second may not begin before the first is over. At once for
//! what fits a receive window; in slices, with the names held, for what does not and has very many arguments.

use super::super::ctx::{Args, Budget, Ctx, Exec, Failure, Outcome, Task};
use super::super::event::Event;
use super::options::{Command, Condition, Options};
use crate::base::int;
use crate::db::hold::Mode;
use crate::db::view::Deadline;
use crate::db::{Db, NewValue};
use crate::proto::carry::Carry;
use crate::proto::errors;

pub const PAIRS_MSETNX: Exec = Exec::whole(msetnx, |ctx, request| suspend(ctx, request, plan_msetnx));
pub const PAIRS_MSETEX: Exec = Exec::whole(msetex, |ctx, request| suspend(ctx, request, plan_msetex));

/// What the arguments mean.
#[derive(Clone, Copy)]
struct Plan {
    /// The first key; a value follows each.
    first: usize,
    /// Behind the last value.
    end: usize,
    /// Whether all of the keys must be there, or none may.
    present: Option<bool>,
    deadline: Deadline,
}

/// Makes a plan of the number of arguments and the arguments.
type Planner = fn(&Ctx<'_>, usize, &dyn Fn(usize) -> Vec<u8>) -> Result<Plan, Failure>;

fn plan_msetnx(_: &Ctx<'_>, argc: usize, _: &dyn Fn(usize) -> Vec<u8>) -> Result<Plan, Failure> {
    if argc.is_multiple_of(2) {
        return Err(errors::wrong_number_of_arguments("msetnx").into());
    }
    Ok(Plan { first: 1, end: argc, present: Some(false), deadline: Deadline::None })
}

fn plan_msetex(ctx: &Ctx<'_>, argc: usize, arg: &dyn Fn(usize) -> Vec<u8>) -> Result<Plan, Failure> {
    let count = int::parse_i64(&arg(1)).and_then(|count| i32::try_from(count).ok()).filter(|&count| count > 0);
    let count = count.and_then(|count| usize::try_from(count).ok()).ok_or(errors::NUMKEYS)?;
    let end = 2 + 2 * count;
    if end > argc {
        return Err(errors::NUMKEYS_PAIRS.into());
    }
    let words: Vec<Vec<u8>> = (end..argc).map(arg).collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let options = Options::parse(&words, Command::MSetEx)?;
    let present = match options.condition {
        Condition::IfAbsent => Some(false),
        Condition::IfPresent => Some(true),
        _ => None,
    };
    Ok(Plan { first: 2, end, present, deadline: options.deadline(ctx, "msetex")? })
}

impl Plan {
    /// Does a key allow the change?
    fn allows(&self, ctx: &mut Ctx<'_>, name: &[u8]) -> bool {
        let Some(wanted) = self.present else { return true };
        let key = ctx.key(name);
        ctx.db.deadline_for_write(key).is_some() == wanted
    }

    fn store(&self, ctx: &mut Ctx<'_>, name: &[u8], value: &[u8]) -> Result<(), Failure> {
        let key = ctx.key(name);
        ctx.db.set_string(key, NewValue::Raw(value), self.deadline)?;
        ctx.report(key, Event::Set);
        if matches!(self.deadline, Deadline::At(_)) {
            ctx.also(key, Event::Expire);
        }
        Ok(())
    }
}

/// `MSETNX key value [key value ...]`
pub fn msetnx(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, plan_msetnx)
}

/// `MSETEX numkeys key value [key value ...] [NX | XX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
pub fn msetex(ctx: &mut Ctx<'_>, args: Args<'_>) -> Outcome {
    run(ctx, args, plan_msetex)
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, plan: Planner) -> Outcome {
    let plan = match plan(ctx, args.len(), &|i| args[i].to_vec()) {
        Ok(plan) => plan,
        Err(failure) => return ctx.fail(failure),
    };
    let pairs = args[plan.first..plan.end].chunks(2);
    let allowed = pairs.clone().all(|pair| plan.allows(ctx, pair[0]));
    if allowed {
        for pair in pairs {
            if let Err(failure) = plan.store(ctx, pair[0], pair[1]) {
                return ctx.fail(failure);
            }
        }
    }
    ctx.reply.int(i64::from(allowed));
    Outcome::Done
}

fn suspend(ctx: &mut Ctx<'_>, request: Carry, plan: Planner) -> Outcome {
    let argc = request.arg_counts().0;
    match plan(ctx, argc, &|i| request.arg(i).unwrap_or_default().to_vec()) {
        Ok(plan) => ctx.suspend(Box::new(PairsTask { request, plan, pass: Pass::Waiting, at: plan.first })),
        Err(failure) => ctx.fail(failure),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// For another holder to finish.
    Waiting,
    /// Names are being held.
    Holding,
    Checking,
    Storing,
    Over,
}

struct PairsTask {
    request: Carry,
    plan: Plan,
    pass: Pass,
    /// The next key of the pass.
    at: usize,
}

impl PairsTask {
    fn arg(&self, i: usize) -> &[u8] {
        self.request.arg(i).unwrap_or_default()
    }

    /// One key of the present pass. `Some(false)`: the condition does not hold.
    fn one(&self, ctx: &mut Ctx<'_>) -> Result<bool, Failure> {
        let name = self.arg(self.at);
        match self.pass {
            Pass::Holding => {
                let hash = ctx.key(name).hash;
                ctx.db.hold(hash);
                Ok(true)
            }
            Pass::Checking => Ok(self.plan.allows(ctx, name)),
            _ => self.plan.store(ctx, name, self.arg(self.at + 1)).map(|()| true),
        }
    }

    /// True: the reply is complete.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        if self.pass == Pass::Waiting {
            let names = (self.plan.end - self.plan.first) / 2;
            if !ctx.db.hold_begin(names, Mode::Exclusive) {
                return Ok(false);
            }
            self.pass = Pass::Holding;
        }
        loop {
            while self.at < self.plan.end {
                if !self.one(ctx)? {
                    ctx.reply.int(0);
                    return Ok(true);
                }
                self.at += 2;
                if budget.is_spent(16) {
                    return Ok(false);
                }
            }
            self.at = self.plan.first;
            self.pass = match self.pass {
                Pass::Holding => Pass::Checking,
                Pass::Checking => Pass::Storing,
                _ => {
                    ctx.reply.int(1);
                    return Ok(true);
                }
            };
        }
    }
}

impl Task for PairsTask {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        match self.go_on(ctx, budget) {
            Ok(false) => return false,
            Ok(true) => {}
            Err(failure) => {
                ctx.fail(failure);
            }
        }
        self.abandon(&mut ctx.db);
        true
    }

    fn bytes(&self) -> usize {
        size_of::<PairsTask>() + self.request.bytes()
    }

    fn must_finish(&self) -> bool {
        self.pass == Pass::Storing
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if !matches!(self.pass, Pass::Waiting | Pass::Over) {
            db.hold_end();
        }
        self.pass = Pass::Over;
    }
}
