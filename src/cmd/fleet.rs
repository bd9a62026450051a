//! The workers of a server, as a command on one of them sees the others: what they have counted, and having them do something.
//!
//! A worker's clients, counters and settings are its own; nobody else reads them while they change. Two ways lead across:
//!
//! - **The board.** Each worker writes down what it has counted before it sends the replies of a turn. So whoever has received a reply finds
//!   its command counted, whichever worker is asked.
//! - **Errands.** A closure is sent to the others and runs on each of them between requests, in slices; [`everywhere`] gathers what they
//!   answer and finishes the command when all have. With one worker it is done at once.
//!
//! With one worker there is neither.

use super::blocking::Blocking;
use super::client::Clients;
use super::client_eviction::ClientEviction;
use super::control::Pause;
use super::ctx::{Asks, Budget, Ctx, FIRST_SLICE, Outcome, Stats, Task};
use super::latency::Monitor;
use super::profile::Profile;
use super::slowlog::SlowLog;
use crate::acl::Acl;
use crate::base::clock::Clock;
use crate::base::sync::mailbox::{Receiver, Sender, mailbox};
use crate::config::Config;
use crate::pubsub::{Exchange, Parcel};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an errand may touch of the worker that it runs on.
pub struct Local<'a> {
    pub clients: &'a mut Clients,
    pub config: &'a mut Config,
    pub stats: &'a mut Stats,
    pub asks: &'a mut Asks,
    pub blocking: &'a mut Blocking,
    pub pubsub: &'a mut Exchange,
    pub pause: &'a mut Pause,
    pub acl: &'a mut Acl,
    pub profile: &'a mut Profile,
    pub clock: &'a Clock,
    pub fleet: &'a Fleet,
}

/// Something to do on another worker. Called until it says that it is done (true), each time with a budget.
pub type Errand = Box<dyn FnMut(&mut Local<'_>, &mut Budget) -> bool + Send>;

/// Room for reservations, of which errands make none: they are few, and must not be refused.
const MAILBOX_ROOM: usize = 1024;

/// A notice on lines of its own, so that writing it disturbs nobody.
#[repr(align(128))]
#[derive(Default)]
struct Notice(Mutex<Stats>);

impl Notice {
    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Common {
    board: Box<[Notice]>,
    posts: Box<[Sender<Errand>]>,
}

/// One worker's view of all.
#[derive(Default)]
pub struct Fleet {
    me: usize,
    /// `None`: it is alone.
    common: Option<Arc<Common>>,
    /// The settings as CONFIG SET has last changed them, on whatever worker: those that run at once must end up with the same everywhere.
    settings: Settings,
    journal: Arc<Journal>,
    client_eviction: Arc<ClientEviction>,
}

/// What is noted seldom, of all workers.
#[derive(Default)]
pub struct Journal {
    slow: Mutex<SlowLog>,
    latency: Mutex<Monitor>,
}

impl Journal {
    pub fn slow(&self) -> MutexGuard<'_, SlowLog> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn latency(&self) -> MutexGuard<'_, Monitor> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Fleet`]; `None` until the first change.
#[derive(Clone, Default)]
pub struct Settings(Arc<Mutex<Latest>>);

#[derive(Default)]
struct Latest {
    config: Option<Config>,
    /// How often they were changed.
    version: u64,
}

impl Settings {
    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes them, or not, if `change` fails; `own` are a worker's, which has them all if nobody has changed any. Returns which change this was,
    /// from 1 on.
    pub fn change<E>(&self, own: &Config, change: impl FnOnce(&mut Config) -> Result<(), E>) -> Result<u64, E> {
        let mut current = self.lock();
        let mut next = current.config.clone().unwrap_or_else(|| own.clone());
        change(&mut next)?;
        current.config = Some(next);
        current.version += 1;
        Ok(current.version)
    }

    /// The latest; `own` are a worker's, if nobody has changed any.
    #[must_use]
    pub fn latest(&self, own: &Config) -> Config {
        self.lock().config.clone().unwrap_or_else(|| own.clone())
    }

    /// Makes a worker's the latest.
    pub fn adopt(&self, own: &mut Config) {
        if let Some(latest) = &self.lock().config {
            own.clone_from(latest);
        }
    }
}

impl Fleet {
    /// Worker 0 of 1.
    #[must_use]
    pub fn alone() -> Fleet {
        Fleet::default()
    }

    /// The views of several workers, each with the box in which it finds errands. `rings` wake them.
    pub fn crew<R: Fn() + Send + Sync + 'static>(rings: Vec<R>) -> Vec<(Fleet, Receiver<Errand>)> {
        let board = rings.iter().map(|_| Notice::default()).collect();
        let (posts, boxes): (Vec<_>, Vec<_>) = rings.into_iter().map(|ring| mailbox(MAILBOX_ROOM, ring)).unzip();
        let common = Arc::new(Common { board, posts: posts.into_boxed_slice() });
        let settings = Settings::default();
        let journal = Arc::<Journal>::default();
        let client_eviction = Arc::<ClientEviction>::default();
        let fleet = |me| Fleet {
            me,
            common: Some(Arc::clone(&common)),
            settings: settings.clone(),
            journal: Arc::clone(&journal),
            client_eviction: Arc::clone(&client_eviction),
        };
        boxes.into_iter().enumerate().map(|(me, mail)| (fleet(me), mail)).collect()
    }

    /// Which worker this is, from 0.
    #[must_use]
    pub fn me(&self) -> usize {
        self.me
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    #[must_use]
    pub fn client_eviction(&self) -> &ClientEviction {
        &self.client_eviction
    }

    /// Number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.common.as_ref().map_or(1, |common| common.posts.len())
    }

    /// Shows the others what this worker has counted.
    #[inline]
    pub fn publish(&self, stats: &Stats) {
        if let Some(common) = &self.common {
            common.board[self.me].stats().clone_from(stats);
        }
    }

    /// What all workers have counted; `own` is this one's.
    #[must_use]
    pub fn total(&self, own: &Stats) -> Stats {
        let mut total = own.clone();
        if let Some(common) = &self.common {
            for (_, notice) in self.others(&common.board) {
                total.absorb(&notice.stats());
            }
        }
        total
    }

    /// Something of what each worker has counted, in the order of the workers; `own` is this one's.
    pub fn each<T>(&self, own: &Stats, of: impl Fn(&Stats) -> T) -> Vec<T> {
        let Some(common) = &self.common else { return vec![of(own)] };
        let look = |(worker, notice): (usize, &Notice)| if worker == self.me { of(own) } else { of(&notice.stats()) };
        common.board.iter().enumerate().map(look).collect()
    }

    /// The sum of something that each worker has counted; `own` is this one's.
    #[must_use]
    pub fn sum(&self, own: &Stats, of: impl Fn(&Stats) -> u64) -> u64 {
        let others = self.common.iter().flat_map(|common| self.others(&common.board));
        of(own) + others.map(|(_, notice)| of(&notice.stats())).sum::<u64>()
    }

    /// Of what each worker has one of, that of the others, with their numbers.
    fn others<'a, T>(&self, all: &'a [T]) -> impl Iterator<Item = (usize, &'a T)> {
        let me = self.me;
        all.iter().enumerate().filter(move |(worker, _)| *worker != me)
    }

    /// Has another worker do something. Not waited for.
    ///
    /// # Panics
    /// If it is this one.
    pub fn tell(&self, worker: usize, errand: Errand) {
        assert_ne!(worker, self.me);
        if let Some(common) = &self.common {
            common.posts[worker].send_control(errand);
        }
    }

    /// Hands messages over to another worker; gives them back if it has no room for more now.
    ///
    /// # Errors
    /// The messages.
    pub fn tell_published(&self, worker: usize, parcel: Parcel) -> Result<(), Parcel> {
        let Some(common) = &self.common else { return Ok(()) };
        let Some(mut room) = common.posts[worker].reserve(1) else { return Err(parcel) };
        let mut parcel = Some(parcel);
        room.send(Box::new(move |local, _| {
            parcel.take().into_iter().for_each(|parcel| local.pubsub.take_in(parcel));
            true
        }));
        Ok(())
    }

    /// Has each of the others do what `make` makes for it. Not waited for.
    pub fn tell_others(&self, mut make: impl FnMut() -> Errand) {
        if let Some(common) = &self.common {
            for (_, post) in self.others(&common.posts) {
                post.send_control(make());
            }
        }
    }

    /// Ends the others, as this one ends.
    pub fn end_others(&self, at_once: bool) {
        self.tell_others(|| {
            Box::new(move |local, _| {
                local.asks.shutdown.get_or_insert(at_once);
                true
            })
        });
    }
}

/// The part of a command that each worker does: called until it has an answer, each time with a budget.
type Part<T> = Box<dyn FnMut(&mut Local<'_>, &mut Budget) -> Option<T> + Send>;

/// What the workers have answered so far.
struct Gathering<T> {
    answers: Mutex<Vec<Option<T>>>,
    missing: AtomicUsize,
}

impl<T> Gathering<T> {
    fn answers(&self) -> MutexGuard<'_, Vec<Option<T>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that waits for the other workers.
struct Gather<T, F> {
    own: Option<Part<T>>,
    gathering: Arc<Gathering<T>>,
    finish: Option<F>,
}

impl<T: Send + 'static, F: FnOnce(&mut Ctx<'_>, Vec<T>)> Task for Gather<T, F> {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        if let Some(own) = &mut self.own {
            let Some(answer) = own(&mut ctx.local(), budget) else { return false };
            self.gathering.answers()[ctx.fleet.me] = Some(answer);
            self.own = None;
        }
        if self.gathering.missing.load(Ordering::Acquire) > 0 {
            return false;
        }
        let answers = self.gathering.answers().iter_mut().filter_map(Option::take).collect();
        if let Some(finish) = self.finish.take() {
            finish(ctx, answers);
        }
        true
    }

    fn bytes(&self) -> usize {
        self.gathering.answers().capacity() * size_of::<Option<T>>()
    }

    fn waits_for_others(&self) -> bool {
        self.own.is_none()
    }

    fn has_taken_effect(&self) -> bool {
        self.own.is_none()
    }
}

/// Has every worker do its part of a command, and finishes it with what they answered, in the order of the workers. `make` makes the part.
pub fn everywhere_sliced<T, P>(
    ctx: &mut Ctx<'_>,
    make: impl Fn() -> P,
    finish: impl FnOnce(&mut Ctx<'_>, Vec<T>) + 'static,
) -> Outcome
where
    T: Send + 'static,
    P: FnMut(&mut Local<'_>, &mut Budget) -> Option<T> + Send + 'static,
{
    let workers = ctx.fleet.workers();
    let gathering = Arc::new(Gathering {
        answers: Mutex::new((0..workers).map(|_| None).collect()),
        missing: AtomicUsize::new(workers - 1),
    });
    if let Some(common) = &ctx.fleet.common {
        let (asker, client) = (ctx.fleet.me, ctx.clients.get(ctx.me).id);
        for (worker, post) in ctx.fleet.others(&common.posts) {
            let (mut part, gathering, home) = (make(), Arc::clone(&gathering), common.posts[asker].clone());
            post.send_control(Box::new(move |local, budget| {
                let Some(answer) = part(local, budget) else { return false };
                gathering.answers()[worker] = Some(answer);
                if gathering.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                    home.send_control(Box::new(move |local, _| {
                        local.asks.wake.push(client);
                        true
                    }));
                }
                true
            }));
        }
    }
    let mut task = Gather { own: Some(Box::new(make())), gathering, finish: Some(finish) };
    if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(task))
}

/// The same for a part that takes no time.
pub fn everywhere<T: Send + 'static>(
    ctx: &mut Ctx<'_>,
    part: impl Fn(&mut Local<'_>) -> T + Clone + Send + 'static,
    finish: impl FnOnce(&mut Ctx<'_>, Vec<T>) + 'static,
) -> Outcome {
    let make = || {
        let part = part.clone();
        move |local: &mut Local<'_>, _: &mut Budget| Some(part(local))
    };
    everywhere_sliced(ctx, make, finish)
}
