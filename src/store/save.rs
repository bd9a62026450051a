//! A worker's part of a save: it shows what its shards have (`Shard::save_some`) and hands it over to the writer.

use super::outbox::Message;
use super::records::{self, Record, Value};
use super::state::{Ended, Facts, Refused, Store};
use super::writer;
use crate::db::saving::{Elements, Shown, Whole};
use crate::db::{Access, Db, Shard};
use std::sync::Arc;

/// Records that are handed over together.
const RECORDS_BYTES: usize = 64 << 10;
/// A collection of so many bytes of elements is handed over in parts.
const WHOLE_BYTES: usize = 64 << 10;
/// Bytes that are copied at most, but for one step, under one acquisition of a lock.
const STEP_BYTES: usize = 32 << 10;
/// Steps of a shard (a bucket, or some KiB of a container) between two looks at the clock, under one acquisition of its lock.
const STEPS: usize = 4;

/// Begins a save: the cut is made here. Called with all shards locked.
///
/// # Errors
/// If another one goes on, or the writer cannot be started; nothing has begun then.
pub fn begin(db: &mut Db<'_>, store: &Arc<Store>, facts: Facts) -> Result<u64, Refused> {
    let mut databases = vec![(0, 0); db.databases()];
    db.each_shard(|shard| {
        for (sum, database) in databases.iter_mut().zip(shard.databases()) {
            sum.0 += database.len() as u64;
            sum.1 += database.expires();
        }
    });
    let number = store.begin(&facts, databases.iter().map(|(keys, _)| keys).sum())?;
    if let Err(error) = writer::start(store, facts, databases) {
        store.take_back();
        return Err(Refused::NoThread(error));
    }
    db.each_shard(Shard::begin_saving);
    store.cut();
    Ok(number)
}

/// FLUSHALL, under the locks of all shards: nothing of what a save has still to show is wanted.
pub fn abandon(db: &mut Db<'_>, store: &Store) {
    if store.give_up(Ended::Cancelled) {
        db.each_shard(Shard::end_saving);
    }
}

/// What came of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is nothing to do for this worker.
    Idle,
    /// There is more to do now.
    More,
    /// The writer has enough.
    Full,
}

/// How far a worker is with the save that goes on.
#[derive(Default)]
pub struct Pass {
    /// Of the save.
    number: u64,
    ended: bool,
    /// The shard at hand.
    at: usize,
    parcel: Parcel,
}

impl Pass {
    /// Works on the save that goes on while `time_left` says so.
    pub fn work<A: Access>(
        &mut self,
        keyspace: &mut A,
        store: &Store,
        me: usize,
        mut time_left: impl FnMut() -> bool,
    ) -> Progress {
        if self.number != store.number() {
            *self = Pass { number: store.number(), ..Pass::default() };
        }
        if self.ended {
            return Progress::Idle;
        }
        let progress = loop {
            if store.is_given_up() {
                (0..keyspace.own_shards()).for_each(|index| keyspace.with_own_shard(index, Shard::end_saving));
                self.end(store, me);
                return Progress::Idle;
            }
            if !store.outbox.has_room(me) {
                break Progress::Full;
            }
            if self.at == keyspace.own_shards() {
                self.parcel.flush(store, me);
                self.end(store, me);
                break Progress::Idle;
            }
            let parcel = &mut self.parcel;
            let more = keyspace.with_own_shard(self.at, |shard| {
                let full = parcel.bytes() + STEP_BYTES;
                for _ in 0..STEPS {
                    if parcel.bytes() > full {
                        break;
                    }
                    match shard.save_some(|shown| parcel.take(shown)) {
                        Ok(true) => {}
                        other => return other,
                    }
                }
                Ok(true)
            });
            match more {
                Ok(true) => {}
                Ok(false) => self.at += 1,
                Err(_) => {
                    store.give_up(Ended::Failed("there was no memory to keep what was to be saved".into()));
                    continue;
                }
            }
            self.parcel.send(store, me);
            if !time_left() {
                break Progress::More;
            }
        };
        let mut kept_bytes = 0;
        (0..keyspace.own_shards()).for_each(|index| kept_bytes += keyspace.with_own_shard(index, |s| s.kept_bytes()));
        store.keeps(me, kept_bytes);
        progress
    }

    fn end(&mut self, store: &Store, me: usize) {
        self.ended = true;
        self.parcel = Parcel::default();
        store.keeps(me, 0);
        store.outbox.end(me);
    }
}

/// What was shown and not yet handed over.
#[derive(Default)]
struct Parcel {
    records: Vec<u8>,
    keys: u64,
    /// The container that was begun last: its record without elements, and those that were not handed over.
    begun: Vec<u8>,
    of: Option<Elements>,
    run: Vec<u8>,
    /// Its record was handed over, and not yet all of its elements.
    is_out: bool,
    ready: Vec<Message>,
}

impl Parcel {
    fn take(&mut self, shown: Shown<'_>) {
        match shown {
            Shown::Key { database, key, deadline_ms, client_flags, value } => {
                self.keys += 1;
                let (value, blob) = match value {
                    Whole::Raw(bytes) => (Value::Raw(bytes), None),
                    Whole::Int(number) => (Value::Int(number), None),
                    Whole::Blob(blob) => (Value::Raw(b""), Some(blob)),
                    Whole::Elements(of, run) => (run_of(of, run), None),
                };
                let record = Record { client_flags, ..record(database, key, deadline_ms, value) };
                match blob {
                    None => records::put(&record, &mut self.records),
                    Some(blob) => {
                        let mut head = Vec::new();
                        records::put(&record, &mut head);
                        self.ready.push(Message::Blob(head, blob));
                    }
                }
            }
            Shown::Begin { database, key, deadline_ms, of } => {
                self.keys += 1;
                self.begun.clear();
                records::put(&record(database, key, deadline_ms, run_of(of, b"")), &mut self.begun);
                (self.of, self.is_out) = (Some(of), false);
            }
            Shown::Run { run, last } => {
                self.run.extend_from_slice(run);
                if last && !self.is_out {
                    // It is short after all.
                    let mut begun = &self.begun[..];
                    if let (Some(head), Some(of)) = (records::next(&mut begun), self.of) {
                        records::put(&Record { value: run_of(of, &self.run), ..head }, &mut self.records);
                    }
                    self.run.clear();
                } else if last || self.run.len() >= WHOLE_BYTES {
                    if !std::mem::replace(&mut self.is_out, true) {
                        self.ready.push(Message::Begin(std::mem::take(&mut self.begun)));
                    }
                    self.ready.push(Message::Run(std::mem::take(&mut self.run), last));
                    self.is_out = !last;
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        self.records.len() + self.run.len()
    }

    /// Hands over what has come together. Records are put together until they are worth it.
    fn send(&mut self, store: &Store, me: usize) {
        for message in self.ready.drain(..) {
            store.outbox.push(me, message);
        }
        // Records may come in front of or behind a container, but not in the midst of one.
        if self.records.len() >= RECORDS_BYTES && !self.is_out {
            self.flush(store, me);
        }
    }

    fn flush(&mut self, store: &Store, me: usize) {
        store.saved(std::mem::take(&mut self.keys));
        if !self.records.is_empty() {
            let capacity = self.records.capacity().min(2 * RECORDS_BYTES);
            let records = std::mem::replace(&mut self.records, Vec::with_capacity(capacity));
            store.outbox.push(me, Message::Records(records));
        }
    }
}

fn record<'a>(database: usize, key: &'a [u8], deadline_ms: Option<u64>, value: Value<'a>) -> Record<'a> {
    let database = u32::try_from(database).expect("a database's number is 31 bits");
    Record { database, key, deadline_ms, idle_seconds: None, client_flags: 0, value }
}

fn run_of(of: Elements, run: &[u8]) -> Value<'_> {
    let Elements { kind, count, timed } = of;
    // Counts above that cannot be, as each element takes some bytes of 32 GiB.
    Value::Run { kind, timed, count: u32::try_from(count).unwrap_or(u32::MAX), run }
}
