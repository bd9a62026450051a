//! Commands that take any number of keys. One set of steps serves both forms: at once, for what fits a receive window, with the
//! memory accesses of a dozen keys overlapped; and in slices, for a million keys, with the names held so that it stays atomic.

use super::ctx::{Args, Budget, Ctx, Exec, Failure, Outcome, Sliced, Task};
use super::spec::Command;
use crate::db::Db;
use crate::db::hold::Mode;
use crate::db::tracking::Reader;
use crate::proto::carry::Carry;
use crate::table::Site;

/// Keys whose memory is fetched ahead.
const AHEAD: usize = 12;
/// Queued output above which a client's later commands wait until it has taken some.
pub const OUT_HIGH_BYTES: usize = 1 << 20;
/// Bytes of replies that one command may copy before it goes on in slices.
const COPY_MAX_BYTES: usize = 256 << 10;
/// A request that did not fit a receive window and has more arguments than this runs in slices.
pub const SLICED_MIN_ARGS: usize = 1024;

/// Runs a command of many keys at once; goes on in slices when the replies become too much to copy in one go. `STEP` and `each` are those of
/// `sliced`, as constants, so that what is done with each key is a part of the loop.
#[inline(always)]
pub fn run<const STEP: usize>(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    sliced: &'static Sliced,
    each: impl Fn(&mut Ctx<'_>, Args<'_>) -> Result<u64, Failure>,
) -> Outcome {
    debug_assert_eq!(STEP, sliced.step);
    if let Err(failure) = (sliced.start)(ctx, args.len()) {
        return ctx.fail(failure);
    }
    let mut count = 0;
    let mut at = 1;
    let queued_before = ctx.out().queued();
    while at < args.len() {
        let stop = args.len().min(at + AHEAD * STEP);
        let mut places = [(0u64, Site::NONE); AHEAD];
        let located_at = ctx.db.locate_anew();
        for (place, group) in places.iter_mut().zip(args[at..stop].chunks(STEP)) {
            let key = ctx.db.locate(group[0]);
            *place = (key.hash, key.site);
        }
        let groups = (stop - at).div_ceil(STEP);
        if args.len() > 2 {
            for (hash, site) in &places[..groups] {
                ctx.db.prefetch_items(*hash, *site);
            }
        }
        for ((hash, site), group) in places.iter().zip(args[at..stop].chunks(STEP)) {
            ctx.hash = *hash;
            ctx.site = *site;
            match each(ctx, group) {
                Ok(n) => count += n,
                Err(failure) => {
                    ctx.db.located_at(located_at);
                    return ctx.fail(failure);
                }
            }
        }
        ctx.db.located_at(located_at);
        at = stop;
        let left = &args[at..];
        // The names that are left are held from here on, or another client's write would come between. (If another command holds names, this
        // one goes on to its end.)
        if !left.is_empty()
            && ctx.out().queued() - queued_before > COPY_MAX_BYTES
            && ctx.db.hold_begin(left.len() / STEP, sliced.mode)
        {
            return go_on(ctx, left, sliced, count);
        }
    }
    (sliced.finish)(ctx, count);
    Outcome::Done
}

/// Leaves the keys of these arguments to a task, which holds them.
#[cold]
#[inline(never)]
fn go_on(ctx: &mut Ctx<'_>, left: Args<'_>, sliced: &'static Sliced, count: u64) -> Outcome {
    for group in left.chunks(sliced.step) {
        let hash = ctx.key(group[0]).hash;
        ctx.db.hold(hash);
    }
    let (held, args) = (left.len(), OwnedArgs::Copied(left.iter().map(|a| a.to_vec()).collect()));
    ctx.suspend(Box::new(Many { args, sliced, tracked: None, at: 0, held, state: State::Running, count }))
}

/// Runs a command of very many keys in slices; `request` is the whole request of a command of `row`.
pub fn suspend(ctx: &mut Ctx<'_>, request: Carry, sliced: &'static Sliced, row: &Command<Exec>) -> Outcome {
    let tracked = ctx.reader(row);
    ctx.end_caching();
    if let Err(failure) = (sliced.start)(ctx, request.arg_counts().0) {
        return ctx.fail(failure);
    }
    let args = OwnedArgs::Request(request);
    ctx.suspend(Box::new(Many { args, sliced, tracked, at: 1, held: 1, state: State::Waiting, count: 0 }))
}

enum OwnedArgs {
    /// A whole request, its name in front.
    Request(Carry),
    /// Arguments that were left.
    Copied(Vec<Vec<u8>>),
}

impl OwnedArgs {
    fn len(&self) -> usize {
        match self {
            OwnedArgs::Request(carry) => carry.arg_counts().0,
            OwnedArgs::Copied(args) => args.len(),
        }
    }

    fn get(&self, i: usize) -> &[u8] {
        match self {
            OwnedArgs::Request(carry) => carry.arg(i).unwrap_or_default(),
            OwnedArgs::Copied(args) => &args[i],
        }
    }
}

#[derive(PartialEq, Eq)]
enum State {
    /// For another holder to finish.
    Waiting,
    /// Names are being held.
    Holding,
    Running,
    Over,
}

struct Many {
    args: OwnedArgs,
    sliced: &'static Sliced,
    /// The client caches what it reads.
    tracked: Option<Reader>,
    at: usize,
    held: usize,
    state: State,
    count: u64,
}

impl Many {
    fn run_group(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
        let mut group: [&[u8]; 2] = [&[], &[]];
        for (i, argument) in group[..self.sliced.step].iter_mut().enumerate() {
            *argument = self.args.get(self.at + i);
        }
        let key = ctx.key(group[0]);
        if let Some(reader) = self.tracked {
            ctx.db.mark_read(key, reader);
        }
        ctx.hash = key.hash;
        ctx.site = Site::NONE;
        self.count += (self.sliced.each)(ctx, &group[..self.sliced.step])?;
        self.at += self.sliced.step;
        Ok(())
    }
}

impl Task for Many {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if self.state == State::Waiting {
            let names = (self.args.len() - self.at) / self.sliced.step;
            if !ctx.db.hold_begin(names, self.sliced.mode) {
                return false;
            }
            self.state = State::Holding;
            self.held = self.at;
        }
        while self.held < self.args.len() {
            let hash = ctx.key(self.args.get(self.held)).hash;
            ctx.db.hold(hash);
            self.held += self.sliced.step;
            if budget.is_spent(64) {
                return false;
            }
        }
        self.state = State::Running;
        // A client that does not read does not stop this: its names would stay held, and others would wait for its pleasure. What is
        // buffered meanwhile is limited by `client-output-buffer-limit`; values above 16 KB are not copied at all.
        while self.at < self.args.len() {
            if let Err(failure) = self.run_group(ctx) {
                ctx.fail(failure);
                self.abandon(&mut ctx.db);
                return true;
            }
            if budget.is_spent(16) {
                return false;
            }
        }
        (self.sliced.finish)(ctx, self.count);
        self.abandon(&mut ctx.db);
        true
    }

    fn bytes(&self) -> usize {
        match &self.args {
            OwnedArgs::Request(carry) => carry.bytes(),
            OwnedArgs::Copied(args) => args.iter().map(|a| a.capacity() + size_of::<Vec<u8>>()).sum(),
        }
    }

    fn must_finish(&self) -> bool {
        self.state == State::Running && self.sliced.mode == Mode::Exclusive
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        if matches!(self.state, State::Holding | State::Running) {
            db.hold_end();
        }
        self.state = State::Over;
    }
}
