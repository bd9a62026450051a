//! What a command gets to work with: narrow borrows of what it may touch, and the ways to say what became of it.

use super::alike::RunAlike;
use super::blocking::Blocking;
use super::client::Clients;
use super::control::Pause;
use super::event::Event;
use super::fleet::{Fleet, Local};
use super::profile::Profile;
use super::record::Recorder;
use super::room::Room;
use super::spec::Commands;
pub use super::stats::Stats;
use crate::acl::{Acl, Channels};
use crate::base::clock::{Clock, Stopwatch, whole_ns};
use crate::base::out::Out;
use crate::base::rng::Rng;
use crate::config::Config;
use crate::db::{Db, DbError, Key, NewValue};
use crate::proto::carry::Carry;
use crate::proto::errors;
use crate::proto::reply::Reply;
use crate::pubsub::Exchange;
use crate::store::Store;
use crate::table::Site;
use dolmen_slab::BlobId;
use std::sync::Arc;
use std::time::Duration;

/// The arguments of a command; the first is its name.
pub type Args<'a> = &'a [&'a [u8]];

/// The function of a command. It writes exactly one reply, unless it suspends.
pub type Run = for<'c> fn(&mut Ctx<'c>, Args<'_>) -> Outcome;

/// What a command's row says about how it is executed.
#[derive(Clone, Copy)]
pub struct Exec {
    pub run: Run,
    /// The same for requests that are alike, of which most are in a pipeline.
    pub run_alike: Option<RunAlike>,
    /// The argument that may be received in place as a blob (0: none).
    pub value_arg: u8,
    /// For commands that take any number of keys: how to run in slices when there are very many.
    pub sliced: Option<&'static Sliced>,
    /// The same for those that do it in their own way: takes the whole request of very many arguments into a task (or answers it).
    pub whole: Option<fn(&mut Ctx<'_>, Carry) -> Outcome>,
    /// Which of its arguments are channels.
    pub channels: Channels,
    /// Which are passwords, and shown to nobody.
    pub secrets: Option<fn(Args<'_>) -> Vec<usize>>,
    /// Writes what it has done for the append-only file (`cmd::record`); `None`: the command itself says it.
    pub told: Option<fn(&mut Ctx<'_>, Args<'_>)>,
    /// With so many arguments it is logged as it came, whatever `told` says; 0: it may be otherwise.
    pub plain: u8,
}

impl Exec {
    #[must_use]
    pub const fn new(run: Run) -> Exec {
        let (run_alike, sliced, whole, secrets, told) = (None, None, None, None, None);
        Exec { run, run_alike, value_arg: 0, sliced, whole, channels: Channels::None, secrets, told, plain: 0 }
    }

    #[must_use]
    pub const fn with_value(run: Run, value_arg: u8) -> Exec {
        Exec { value_arg, ..Exec::new(run) }
    }

    #[must_use]
    pub const fn sliced(run: Run, sliced: &'static Sliced) -> Exec {
        Exec { sliced: Some(sliced), ..Exec::new(run) }
    }

    #[must_use]
    pub const fn whole(run: Run, whole: fn(&mut Ctx<'_>, Carry) -> Outcome) -> Exec {
        Exec { whole: Some(whole), ..Exec::new(run) }
    }

    /// The same, with passwords among its arguments.
    #[must_use]
    pub const fn with_secrets(self, secrets: fn(Args<'_>) -> Vec<usize>) -> Exec {
        Exec { secrets: Some(secrets), ..self }
    }

    #[must_use]
    pub const fn on(run: Run, channels: Channels) -> Exec {
        Exec { channels, ..Exec::new(run) }
    }
}

/// How a command of many keys runs in slices: for each group of `step` arguments in turn, then `finish`.
#[derive(Clone, Copy)]
pub struct Sliced {
    pub step: usize,
    pub mode: crate::db::hold::Mode,
    /// Before the first group: writes what the reply begins with, or an error (then nothing else is called).
    pub start: fn(&mut Ctx<'_>, arguments: usize) -> Result<(), Failure>,
    /// One group, beginning with its key; returns what to add to the count.
    pub each: fn(&mut Ctx<'_>, group: Args<'_>) -> Result<u64, Failure>,
    /// Writes the rest of the reply.
    pub finish: fn(&mut Ctx<'_>, count: u64),
}

/// How the function of a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The reply is written.
    Done,
    /// The rest is in `Ctx::task`; the connection's later input waits.
    Suspended,
    /// The reply is written; close the connection behind it.
    Close,
}

/// An error that becomes the reply.
#[derive(Debug)]
pub enum Failure {
    Db(DbError),
    /// A text of `proto::errors`.
    Text(&'static str),
    Owned(Vec<u8>),
}

impl From<DbError> for Failure {
    fn from(e: DbError) -> Failure {
        Failure::Db(e)
    }
}

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Failure {
        Failure::Text(text)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Owned(text.into_bytes())
    }
}

impl From<Vec<u8>> for Failure {
    fn from(text: Vec<u8>) -> Failure {
        Failure::Owned(text)
    }
}

impl Failure {
    #[must_use]
    pub fn text(&self) -> &[u8] {
        let text = match self {
            Failure::Db(DbError::WrongType) => errors::WRONGTYPE,
            Failure::Db(DbError::OutOfMemory) => errors::OOM,
            Failure::Db(DbError::NotAnInteger) => errors::NOT_AN_INTEGER,
            Failure::Db(DbError::Overflow) => errors::OVERFLOW,
            Failure::Db(DbError::TooLong) => errors::STRING_TOO_LONG,
            Failure::Text(text) => text,
            Failure::Owned(text) => return text,
        };
        text.as_bytes()
    }
}

/// How long a command that may go on in slices works before it does.
pub const FIRST_SLICE: Duration = Duration::from_micros(50);

/// The time a slice of work may still take.
pub struct Budget {
    watch: Stopwatch,
    until_ns: u64,
    calls: u32,
}

impl Budget {
    #[must_use]
    pub fn new(clock: &Clock, time: Duration) -> Budget {
        let watch = clock.stopwatch();
        Budget { until_ns: watch.now_ns().saturating_add(whole_ns(time)), watch, calls: 0 }
    }

    /// No time ends it: for what must come to its end.
    #[must_use]
    pub fn endless(clock: &Clock) -> Budget {
        Budget { watch: clock.stopwatch(), until_ns: u64::MAX, calls: 0 }
    }

    /// Is the time used up? Reads the clock at every `every`-th call only.
    #[inline]
    pub fn is_spent(&mut self, every: u32) -> bool {
        self.calls += 1;
        if self.calls < every {
            return false;
        }
        self.calls = 0;
        self.watch.now_ns() >= self.until_ns
    }
}

/// A command that could not finish within its slice. It owns its arguments and its progress; dropping it gives up.
pub trait Task {
    /// Works until the budget is spent. True: done, the reply is complete.
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool;
    /// Memory held, in bytes; counts to the client.
    fn bytes(&self) -> usize;
    /// Does it stop while the client has much output to take, to go on when some of it was taken?
    fn waits_for_room(&self) -> bool {
        false
    }
    /// Has it begun to change what must change as a whole? Then it goes on when its client has gone. Its steps must not ask for the client.
    fn must_finish(&self) -> bool {
        false
    }
    /// Is there nobody to work for when the client closes its side? Then it is given up at once.
    fn ends_with_client(&self) -> bool {
        false
    }
    /// May it have written a part of its reply? Then what does not belong to the reply is written behind it.
    fn is_mid_reply(&self) -> bool {
        !self.ends_with_client()
    }
    /// Does it wait for other workers now? It is given time again when they have answered.
    fn waits_for_others(&self) -> bool {
        false
    }
    /// Is all done but the reply, which waits for others to have heard of it? Within EXEC it is waited for behind the other commands.
    fn has_taken_effect(&self) -> bool {
        false
    }
    /// What it has taken that no step was given for, in ticks of `Profile::ticker`.
    fn ticks_besides(&self) -> u64 {
        0
    }
    /// Called instead of further steps when the connection has gone: gives back what lies in the shard.
    fn abandon(&mut self, _db: &mut Db<'_>) {}
}

/// A database that is to be emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flush {
    /// Unix milliseconds.
    pub at_ms: u64,
    pub database: usize,
}

/// What a command asks of the layers above it.
#[derive(Default, Debug)]
pub struct Asks {
    /// End the server: `Some(true)` at once, without waiting for output to be flushed.
    pub shutdown: Option<bool>,
    /// Stop serving for this long (DEBUG SLEEP).
    pub sleep: Option<Duration>,
    /// Clients whose commands waited for other workers and may go on, by id.
    pub wake: Vec<u64>,
    /// Clients to disconnect, by id.
    pub kill: Vec<u64>,
    /// Values to be forgotten later (`flush_all` of memcached); every worker knows of it, one does it.
    pub flush: Option<Flush>,
    /// The settings have changed: the network has some of its own.
    pub reconfigured: bool,
}

/// Facts about the process that INFO tells.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub run_id: String,
    /// Of the data's history, as replicas would be told.
    pub replication_id: String,
    pub start_unix_ms: u64,
    /// Memory accounted for before anything was stored.
    pub start_used_bytes: u64,
    pub executable: String,
    pub config_file: String,
    pub workers: usize,
    pub tcp_port: u16,
    pub backend: &'static str,
}

/// A bit of [`Ctx::changed`]: the reply is an error.
pub const FAILED: u64 = 1 << 63;
/// Another: somebody waits for a key that was changed.
pub const AWAITED: u64 = 1 << 62;

/// No client.
pub const NOBODY: u32 = u32::MAX;

/// Everything a command may touch.
pub struct Ctx<'a> {
    pub db: Db<'a>,
    pub reply: Reply<'a>,
    pub clients: &'a mut Clients,
    /// The index of the calling client in `clients`; of none ([`NOBODY`]) for a task that goes on without its client.
    pub me: u32,
    pub config: &'a mut Config,
    pub stats: &'a mut Stats,
    pub asks: &'a mut Asks,
    pub blocking: &'a mut Blocking,
    pub pubsub: &'a mut Exchange,
    pub pause: &'a mut Pause,
    pub room: &'a mut Room,
    pub acl: &'a mut Acl,
    pub profile: &'a mut Profile,
    pub facts: &'a Facts,
    pub fleet: &'a Fleet,
    pub store: &'a Arc<Store>,
    pub recorder: &'a mut Recorder,
    pub commands: &'a Commands<Exec>,
    pub clock: &'a Clock,
    pub rng: &'a mut Rng,
    /// Hash of the first key, made by the pipeline.
    pub hash: u64,
    /// Where the search for it begins, if known.
    pub site: Site,
    /// A large value that was received in place; who takes it owns it.
    pub blob: Option<BlobId>,
    pub task: Option<Box<dyn Task>>,
    /// Changes of the keyspace by this command (and by those alike before it, see `exec::pipeline`), with [`FAILED`] and [`AWAITED`]; reported by
    /// it, applied by the pipeline.
    pub changed: u64,
}

impl Drop for Ctx<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.db.unlock();
    }
}

impl<'a> Ctx<'a> {
    /// The first key of the command, whose hash is known.
    #[inline(always)]
    #[must_use]
    pub fn first_key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.hash, site: self.site }
    }

    #[inline(always)]
    #[must_use]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.db.key(bytes)
    }

    /// The command changed `keys` keys that it does not name (FLUSHALL).
    #[inline(always)]
    pub fn change(&mut self, keys: u64) {
        self.changed += keys;
    }

    /// The command changed `key`. Effects are applied behind it, in one place; so far that is the count of changes.
    #[inline(always)]
    pub fn report(&mut self, key: Key<'_>, event: Event) {
        self.changed += 1;
        self.also(key, event);
    }

    /// A further event of a change that was reported (SET with a deadline is `set` and `expire`).
    #[inline(always)]
    pub fn also(&mut self, key: Key<'_>, event: Event) {
        if self.db.is_listened_to(key.hash) {
            // By parts, as all of it would be put into memory for the call, whether it is made or not.
            self.tell(self.db.index(), key.bytes, key.hash, event);
        }
    }

    /// Must the command be answered at once, whatever it waits for?
    #[must_use]
    pub fn may_not_wait(&self) -> bool {
        self.me == NOBODY || self.in_multi()
    }

    /// `report` for a key of another database than the client's.
    pub fn report_in(&mut self, database: usize, key: Key<'_>, event: Event) {
        self.changed += 1;
        self.also_in(database, key, event);
    }

    /// `also` for a key of another database than the client's.
    pub fn also_in(&mut self, database: usize, key: Key<'_>, event: Event) {
        if self.db.is_listened_to(key.hash) {
            self.tell(database, key.bytes, key.hash, event);
        }
    }

    /// Tells those who listen that a key was changed: at once, under the lock under which it was, those who watch it; those who wait for it are
    /// served when the command is through, and subscribers are told later (`publish_news`).
    #[cold]
    #[inline(never)]
    fn tell(&mut self, database: usize, bytes: &[u8], hash: u64, event: Event) {
        self.record_task();
        if self.db.is_only_logged(hash, event) {
            return;
        }
        let key = Key { bytes, hash, site: Site::NONE };
        self.db.mark_changed(database, key.hash);
        let by = if self.me == NOBODY { 0 } else { self.clients.get(self.me).id };
        self.db.tell(database, event, key, by);
        if self.db.is_waited_for(database, key.hash) {
            self.make_ready(database, key.bytes);
        }
    }

    /// Those who wait for a key of a database are served behind the command.
    pub fn make_ready(&mut self, database: usize, name: &[u8]) {
        self.blocking.make_ready(database, name);
        self.changed |= AWAITED;
    }

    /// Does the command run within EXEC? Then it must come to its end, and not wait for anybody.
    #[inline(always)]
    #[must_use]
    pub fn in_multi(&self) -> bool {
        self.db.is_whole()
    }

    /// The value given by an argument: the argument itself, or the blob that was received in its place.
    #[inline(always)]
    pub fn take_value<'v>(&mut self, argument: &'v [u8]) -> NewValue<'v> {
        match self.blob.take() {
            Some(blob) => NewValue::Blob(blob),
            None => NewValue::Raw(argument),
        }
    }

    #[inline(always)]
    pub fn out(&mut self) -> &mut Out {
        self.reply.out()
    }

    /// Writes an error as the reply.
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, failure: impl Into<Failure>) -> Outcome {
        self.stats.error_replies += 1;
        self.changed |= FAILED;
        let failure = failure.into();
        self.profile.error(failure.text());
        self.reply.error_bytes(failure.text());
        Outcome::Done
    }

    /// Leaves the rest of the command to a task.
    pub fn suspend(&mut self, task: Box<dyn Task>) -> Outcome {
        self.task = Some(task);
        Outcome::Suspended
    }

    /// What the part of a command may touch that every worker does.
    pub fn local(&mut self) -> Local<'_> {
        Local {
            clients: self.clients,
            config: self.config,
            stats: self.stats,
            asks: self.asks,
            blocking: self.blocking,
            pubsub: self.pubsub,
            pause: self.pause,
            acl: self.acl,
            profile: self.profile,
            clock: self.clock,
            fleet: self.fleet,
        }
    }

    /// The id of the calling client; 0 of none.
    #[must_use]
    pub fn client_id(&self) -> u64 {
        if self.me == NOBODY { 0 } else { self.clients.get(self.me).id }
    }

    #[must_use]
    pub fn client(&mut self) -> &mut super::client::Client {
        self.clients.get_mut(self.me)
    }

    /// Runs a fallible body and turns its error into the reply.
    #[inline(always)]
    pub fn attempt(&mut self, body: impl FnOnce(&mut Ctx<'a>) -> Result<(), Failure>) -> Outcome {
        body(self).map_or_else(|failure| self.fail(failure), |()| Outcome::Done)
    }
}
