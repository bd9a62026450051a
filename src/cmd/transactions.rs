//! MULTI EXEC DISCARD WATCH UNWATCH: what a client has queued and what it watches. That commands are queued rather than run, and how EXEC runs
//! them, is the pipeline's (`exec::transaction`).
//!
//! ```text
//!   bodies: | SET | key | value | INCR | key |        of what came in a window, one behind the other
//!   ends:       3     6      11     15    18
//!   queue:  | SET: 3 arguments | INCR: 2 | APPEND: its whole request, and the blob that its value is |
//! ```

use super::client::gate;
use super::ctx::{Args, Ctx, Exec, Failure, Outcome};
use super::spec::{Command, Flags};
use crate::db::watch::Watch;
use crate::db::{Db, Key};
use crate::proto::carry::Carry;
use crate::proto::errors;
use crate::table::Site;
use dolmen_slab::BlobId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// What a watched key takes in the table of its shard, about.
const MARK_BYTES: usize = 64;

/// A value that was received in place; it lies in the shard of the hash.
pub struct Value {
    pub hash: u64,
    pub blob: BlobId,
    pub len_bytes: usize,
}

/// How the arguments of a queued command are kept.
enum Kept {
    /// So many of those in `Queue::bodies`.
    Copied(u32),
    /// As they were kept before: not copied again.
    Request(Carry),
}

struct Queued {
    row: &'static Command<Exec>,
    kept: Kept,
    value: Option<Value>,
}

/// Queued commands, which own their arguments.
#[derive(Default)]
pub struct Queue {
    bodies: Vec<u8>,
    ends: Vec<usize>,
    commands: Vec<Queued>,
    /// Those of all commands together.
    flags: Option<Flags>,
    /// Of requests and values that are not in `bodies`.
    apart_bytes: usize,
}

impl Queue {
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Flags that any of the commands has.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags.unwrap_or(Flags::NONE)
    }

    /// Memory held, in bytes; large values, which lie in the keyspace, included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bodies.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.commands.capacity() * size_of::<Queued>()
            + self.apart_bytes
    }

    fn push(&mut self, row: &'static Command<Exec>, kept: Kept, value: Option<Value>) {
        self.flags = Some(Flags::of(&[self.flags(), row.flags]));
        self.commands.push(Queued { row, kept, value });
    }

    fn copy(&mut self, row: &'static Command<Exec>, args: Args<'_>) {
        for argument in args {
            self.bodies.extend_from_slice(argument);
            self.ends.push(self.bodies.len());
        }
        // A request has at most 2^31 arguments.
        self.push(row, Kept::Copied(u32::try_from(args.len()).unwrap_or(u32::MAX)), None);
    }

    fn keep(&mut self, row: &'static Command<Exec>, request: Carry, value: Option<Value>) {
        self.apart_bytes += request.bytes() + value.as_ref().map_or(0, |value| value.len_bytes);
        self.push(row, Kept::Request(request), value);
    }

    /// The commands with their arguments.
    #[must_use]
    pub fn list(&self) -> List<'_> {
        let mut list = List { args: Vec::new(), commands: Vec::with_capacity(self.commands.len()) };
        let (mut next, mut start) = (0, 0);
        for queued in &self.commands {
            let first = list.args.len();
            match &queued.kept {
                Kept::Copied(count) => {
                    let ends = &self.ends[next..next + *count as usize];
                    list.args.extend(ends.iter().map(|end| &self.bodies[std::mem::replace(&mut start, *end)..*end]));
                    next += ends.len();
                }
                Kept::Request(request) => {
                    list.args.extend((0..request.arg_counts().0).filter_map(|i| request.arg(i)));
                }
            }
            list.commands.push((queued.row, first..list.args.len()));
        }
        list
    }

    /// The values that commands have instead of one of their arguments, by the commands' places.
    pub fn take_values(&mut self) -> Vec<(usize, Value)> {
        let values = self.commands.iter_mut().enumerate();
        values.filter_map(|(i, queued)| Some((i, queued.value.take()?))).collect()
    }
}

/// Queued commands as they are run.
pub struct List<'q> {
    args: Vec<&'q [u8]>,
    commands: Vec<(&'static Command<Exec>, Range<usize>)>,
}

impl List<'_> {
    pub fn iter(&self) -> impl Iterator<Item = (&'static Command<Exec>, Args<'_>)> + Clone {
        self.commands.iter().map(|(row, args)| (*row, &self.args[args.clone()]))
    }
}

/// Of a client between MULTI and EXEC, or one that watches keys.
#[derive(Default)]
pub struct Transaction {
    /// What was queued since MULTI; `None` before.
    queue: Option<Queue>,
    /// Something could not be queued: EXEC will run nothing.
    aborted: bool,
    /// Commands that are or were queued.
    queued: u32,
    watched: HashMap<Box<[u8]>, Vec<Watch>>,
    watches: usize,
    watched_bytes: usize,
    /// What of it is counted in `Stats::clients_bytes`.
    counted_bytes: usize,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("queued", &self.queued).field("watches", &self.watches).finish()
    }
}

impl Transaction {
    /// Commands queued; `None` outside of MULTI.
    #[must_use]
    pub fn queued(&self) -> Option<u32> {
        self.queue.as_ref().map(|_| self.queued)
    }

    /// All flags of what is queued.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.queue.as_ref().map_or(Flags::of(&[]), Queue::flags)
    }

    /// Keys watched.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.watches
    }

    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// Was a watched key changed? Exact under the locks of all of them, after a look at each (`look_at_watched`).
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.watched.values().flatten().any(Watch::is_changed)
    }

    /// The names of the watched keys, each with its watch in one database or several.
    pub fn watched(&self) -> impl Iterator<Item = (&[u8], &Watch)> {
        self.watched.iter().flat_map(|(name, watches)| watches.iter().map(|watch| (&**name, watch)))
    }

    /// Memory held by the queue, in bytes.
    #[must_use]
    pub fn queue_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, Queue::bytes)
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.queue_bytes() + self.watched_bytes
    }

    /// Gives back what lies in the keyspace.
    pub fn release(mut self, db: &mut Db<'_>) {
        if let Some(queue) = &mut self.queue {
            for (_, value) in queue.take_values() {
                db.blob_drop(Key { bytes: b"", hash: value.hash, site: Site::NONE }, value.blob);
            }
        }
        self.unwatch(db);
    }

    fn unwatch(&mut self, db: &mut Db<'_>) {
        for watch in std::mem::take(&mut self.watched).into_values().flatten() {
            db.unwatch(watch);
        }
        (self.watches, self.watched_bytes) = (0, 0);
    }

    fn watch(&mut self, name: &[u8], watch: Watch) {
        self.watches += 1;
        self.watched_bytes += size_of::<Watch>() + MARK_BYTES;
        match self.watched.entry(name.into()) {
            Entry::Occupied(mut known) => known.get_mut().push(watch),
            Entry::Vacant(new) => {
                self.watched_bytes += size_of::<(Box<[u8]>, Vec<Watch>)>() + name.len();
                new.insert(vec![watch]);
            }
        }
    }
}

impl Ctx<'_> {
    fn transaction(&mut self) -> &mut Transaction {
        self.client().transaction_slot().get_or_insert_default()
    }

    /// Counts what the transaction of the client holds now, and forgets one in which there is nothing.
    fn recount(&mut self) {
        let Some(transaction) = self.clients.get_mut(self.me).transaction_mut() else { return };
        let bytes = transaction.bytes();
        let before = std::mem::replace(&mut transaction.counted_bytes, bytes);
        self.stats.clients_bytes = self.stats.clients_bytes + bytes as u64 - before as u64;
        if transaction.queue.is_none() && transaction.watched.is_empty() {
            self.client().take_transaction();
        }
    }

    /// Ends the transaction: nothing is queued, nothing watched.
    pub fn end_transaction(&mut self) {
        let client = self.client();
        client.set_gate(gate::MULTI, false);
        if let Some(transaction) = client.take_transaction() {
            self.stats.clients_bytes -= transaction.counted_bytes as u64;
            // What is locked is of the commands.
            self.db.lock_none();
            transaction.release(&mut self.db);
        }
    }

    /// A request of this client was refused: if it belongs to a transaction, that will not be run.
    pub fn abort_transaction(&mut self) {
        if self.me != super::ctx::NOBODY
            && let Some(transaction) = self.client().transaction_mut()
            && transaction.queue.is_some()
        {
            transaction.aborted = true;
        }
    }

    /// Queues a command: a copy of its arguments. False: the client holds more than it may.
    pub fn queue(&mut self, row: &'static Command<Exec>, args: Args<'_>) -> bool {
        self.queue_with(|queue| queue.copy(row, args))
    }

    /// The same for a request that is kept already, with the value that was received in place of an argument.
    pub fn queue_kept(&mut self, row: &'static Command<Exec>, request: Carry, value: Option<Value>) -> bool {
        self.queue_with(|queue| queue.keep(row, request, value))
    }

    fn queue_with(&mut self, add: impl FnOnce(&mut Queue)) -> bool {
        let transaction = self.transaction();
        add(transaction.queue.get_or_insert_default());
        if transaction.aborted {
            // It will not be run.
            let queue = transaction.queue.take();
            transaction.queue = Some(Queue::default());
            self.db.lock_none();
            Transaction { queue, ..Transaction::default() }.release(&mut self.db);
        } else {
            transaction.queued += 1;
        }
        self.recount();
        let bytes = self.transaction().queue_bytes() as u64;
        if bytes > self.config.client_query_buffer_bytes_max {
            let id = self.client().id;
            log::warn!("Closing client id={id} that reached the limit of its query buffer with what it has queued");
            return false;
        }
        self.reply.simple("QUEUED");
        true
    }

    /// Takes the queued commands, to run them or to `return_queue`.
    pub fn take_queue(&mut self) -> Queue {
        self.transaction().queue.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub fn return_queue(&mut self, queue: Queue) {
        self.transaction().queue = Some(queue);
    }

    /// Watches no key any more.
    pub fn unwatch_all(&mut self) {
        if let Some(mut transaction) = self.client().take_transaction() {
            transaction.unwatch(&mut self.db);
            *self.client().transaction_slot() = Some(transaction);
            self.recount();
        }
    }
}

pub fn multi(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    if ctx.client().gate & gate::MULTI != 0 {
        return ctx.fail(errors::NESTED_MULTI);
    }
    ctx.client().set_gate(gate::MULTI, true);
    ctx.transaction().queue = Some(Queue::default());
    ctx.recount();
    ctx.out().ok();
    Outcome::Done
}

/// EXEC of a client that has not sent MULTI.
pub fn exec(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    ctx.fail(errors::EXEC_WITHOUT_MULTI)
}

pub fn discard(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    if ctx.client().gate & gate::MULTI == 0 {
        return ctx.fail(errors::DISCARD_WITHOUT_MULTI);
    }
    ctx.end_transaction();
    ctx.out().ok();
    Outcome::Done
}

pub fn unwatch(ctx: &mut Ctx<'_>, _args: Args<'_>) -> Outcome {
    ctx.unwatch_all();
    ctx.out().ok();
    Outcome::Done
}

// ---- `WATCH key [key ...]`, key by key ----

pub fn watch_start(ctx: &mut Ctx<'_>, _arguments: usize) -> Result<(), Failure> {
    if ctx.client().gate & gate::MULTI != 0 {
        return Err(errors::WATCH_INSIDE_MULTI.into());
    }
    Ok(())
}

pub fn watch_each(ctx: &mut Ctx<'_>, group: Args<'_>) -> Result<u64, Failure> {
    let (key, database) = (ctx.first_key(group[0]), ctx.db.index());
    let watched = ctx.transaction().watched.get(key.bytes);
    if watched.is_none_or(|watches| watches.iter().all(|watch| watch.database() != database)) {
        let watch = ctx.db.watch(key);
        ctx.transaction().watch(key.bytes, watch);
    }
    Ok(0)
}

pub fn watch_finish(ctx: &mut Ctx<'_>, _count: u64) {
    ctx.recount();
    ctx.out().ok();
}
