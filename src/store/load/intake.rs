//! A worker's part of a load: it inserts what the loader has decoded.

use super::{Large, Loading, Work, lock};
use crate::db::any::AnyBody;
use crate::db::item::DEADLINE_MAX_MS;
use crate::db::marks::Marking;
use crate::db::view::Deadline;
use crate::db::{Access, Db, DbError, Key, Locate, NewValue, Type};
use crate::store::records::{self, Record, Value};
use crate::store::state::{Store, flag};
use dolmen_slab::BlobId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Records whose place in the table is fetched together.
const AHEAD: usize = 16;

/// A large value that is being made.
struct Open {
    large: Arc<Large>,
    making: Making,
}

enum Making {
    Blob(Option<BlobId>),
    Body(AnyBody),
    /// Its deadline has passed.
    Nothing,
}

/// What a worker has taken and not yet inserted.
#[derive(Default)]
pub struct Intake {
    records: Vec<u8>,
    at: usize,
    open: Option<Open>,
}

/// What came of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    More,
    /// There is nothing to insert now.
    Waiting,
}

impl Intake {
    /// Works on the load that goes on while `time_left` says so.
    pub fn work<A: Access>(
        &mut self,
        keyspace: &mut A,
        store: &Store,
        now_ms: u64,
        mut time_left: impl FnMut() -> bool,
    ) -> Progress {
        let Some(loading) = store.load().filter(|loading| !loading.is_over()) else { return Progress::Waiting };
        let progress = loop {
            if loading.given_up.load(Ordering::Acquire) {
                self.drop_all(keyspace, now_ms);
                break Progress::Waiting;
            }
            let more = if self.open.is_some() {
                self.piece(keyspace, &loading, now_ms)
            } else if self.at < self.records.len() {
                self.group(keyspace, &loading, now_ms).map(|()| true)
            } else {
                match loading.take() {
                    None => Ok(false),
                    Some(Work::Records(records)) if records.is_empty() => {
                        loading.outstanding.fetch_sub(1, Ordering::AcqRel);
                        Ok(true)
                    }
                    Some(Work::Records(records)) => {
                        (self.records, self.at) = (records, 0);
                        Ok(true)
                    }
                    Some(Work::Large(large)) => {
                        self.open = Some(Open { making: making(&large, now_ms), large });
                        Ok(true)
                    }
                }
            };
            match more {
                Ok(true) => {}
                Ok(false) => break Progress::Waiting,
                Err(Failed(why)) => loading.fail(format!("{}: {why}", loading.plan.path.display())),
            }
            if !time_left() {
                break Progress::More;
            }
        };
        // Nobody has asked to be told of this.
        keyspace.take_news();
        if loading.is_done() && !loading.is_over.swap(true, Ordering::AcqRel) {
            finish(store, &loading);
        }
        progress
    }

    fn drop_all<A: Access>(&mut self, keyspace: &mut A, now_ms: u64) {
        (self.records, self.at) = (Vec::new(), 0);
        let Some(Open { large, making }) = self.open.take() else { return };
        let mut db = keyspace.db(0, now_ms);
        if let Some(record) = records::next(&mut &large.head[..]) {
            let key = db.key(record.key);
            match making {
                Making::Blob(Some(blob)) => db.blob_drop(key, blob),
                Making::Body(body) => body.discard(&mut db, key),
                Making::Blob(None) | Making::Nothing => {}
            }
        }
        db.unlock();
    }

    /// Inserts the next few records, of one database.
    fn group<A: Access>(&mut self, keyspace: &mut A, loading: &Loading, now_ms: u64) -> Result<(), Failed> {
        let mut rest = &self.records[self.at..];
        let mut group: [Option<(Record<'_>, Key<'_>)>; AHEAD] = [None; AHEAD];
        let database = records::next(&mut &*rest).map_or(0, |record| record.database);
        let locator = keyspace.locator(database as usize);
        let epoch = locator.epoch();
        for place in &mut group {
            let before = rest;
            let Some(record) = records::next(&mut rest) else { break };
            if record.database != database {
                rest = before;
                break;
            }
            *place = Some((record, locator.key_outlined(record.key)));
        }
        let (at, all) = (self.records.len() - rest.len(), self.records.len());
        let mut db = keyspace.db(database as usize, now_ms);
        db.located_at(epoch);
        let (mut keys, mut expired) = (0, 0);
        let inserted = group.into_iter().flatten().try_for_each(|(record, key)| {
            if record.deadline_ms.is_some_and(|at| at <= now_ms) {
                expired += 1;
                return Ok(());
            }
            keys += 1;
            db.lock_key(key.hash);
            check_new(&mut db, key, loading)?;
            Ok::<(), Failed>(insert(&mut db, key, &record)?)
        });
        db.unlock();
        loading.keys.fetch_add(keys, Ordering::Relaxed);
        loading.expired.fetch_add(expired, Ordering::Relaxed);
        self.at = at;
        if at == all {
            (self.records, self.at) = (Vec::new(), 0);
            loading.outstanding.fetch_sub(1, Ordering::AcqRel);
        }
        inserted
    }

    /// Takes a piece of a large value. False: there is none now.
    fn piece<A: Access>(&mut self, keyspace: &mut A, loading: &Loading, now_ms: u64) -> Result<bool, Failed> {
        let Some(Open { large, making }) = &mut self.open else { return Ok(false) };
        let (piece, last) = {
            let mut pieces = lock(&large.pieces);
            let Some(piece) = pieces.waiting.pop_front() else { return Ok(false) };
            pieces.bytes -= piece.len();
            large.room.notify_one();
            (piece, pieces.complete && pieces.waiting.is_empty())
        };
        let Some(record) = records::next(&mut &large.head[..]) else { return Ok(false) };
        let mut db = keyspace.db(record.database as usize, now_ms);
        let key = db.key(record.key);
        let done = match making {
            Making::Nothing => Ok(()),
            Making::Body(body) => body.extend(&mut db, key, &piece),
            Making::Blob(blob) => match *blob {
                Some(blob) => Ok(blob),
                None => db.blob_new(key, piece.len()).inspect(|made| *blob = Some(*made)),
            }
            .and_then(|blob| db.blob_append(key, blob, &piece)),
        };
        let done = done.map_err(Failed::from).and_then(|()| {
            if last {
                check_new(&mut db, key, loading)?;
                store_large(&mut db, key, &record, making)?;
            }
            Ok(())
        });
        db.unlock();
        if last {
            let counter = if matches!(making, Making::Nothing) { &loading.expired } else { &loading.keys };
            counter.fetch_add(1, Ordering::Relaxed);
            self.open = None;
            loading.outstanding.fetch_sub(1, Ordering::AcqRel);
        }
        done.map(|()| true)
    }
}

fn making(large: &Large, now_ms: u64) -> Making {
    match records::next(&mut &large.head[..]) {
        Some(record) if record.deadline_ms.is_some_and(|at| at <= now_ms) => Making::Nothing,
        Some(Record { value: Value::Run { kind, .. }, .. }) => Making::Body(AnyBody::new(kind)),
        _ => Making::Blob(None),
    }
}

fn deadline_of(record: &Record<'_>) -> Deadline {
    record.deadline_ms.map_or(Deadline::None, |at| Deadline::At(at.min(DEADLINE_MAX_MS)))
}

fn store_large(db: &mut Db<'_>, key: Key<'_>, record: &Record<'_>, making: &mut Making) -> Result<(), DbError> {
    match making {
        Making::Nothing | Making::Blob(None) => return Ok(()),
        Making::Blob(blob) => {
            let Some(blob) = blob.take() else { return Ok(()) };
            set_string(db, key, NewValue::Blob(blob), record)?;
        }
        Making::Body(body) => {
            let body = std::mem::replace(body, AnyBody::new(Type::List));
            body.store(db, key, deadline_of(record))?;
        }
    }
    set_idle(db, key, record);
    Ok(())
}

fn insert(db: &mut Db<'_>, key: Key<'_>, record: &Record<'_>) -> Result<(), DbError> {
    match record.value {
        Value::Raw(bytes) => set_string(db, key, NewValue::Raw(bytes), record)?,
        // Digits take less than a word.
        Value::Int(number @ -9_999_999..=99_999_999) => {
            let mut digits = [0; crate::base::int::MAX_DIGITS];
            set_string(db, key, NewValue::Raw(crate::base::int::write_i64(&mut digits, number)), record)?;
        }
        Value::Int(number) => set_string(db, key, NewValue::Int(number), record)?,
        Value::Run { kind, run, .. } => {
            let mut body = AnyBody::new(kind);
            if let Err(error) = body.extend(db, key, run) {
                body.discard(db, key);
                return Err(error);
            }
            body.store(db, key, deadline_of(record))?;
        }
    }
    set_idle(db, key, record);
    Ok(())
}

fn set_string(db: &mut Db<'_>, key: Key<'_>, value: NewValue<'_>, record: &Record<'_>) -> Result<(), DbError> {
    let deadline = deadline_of(record);
    match Marking::of_flags(record.client_flags) {
        Marking::None => db.set_string(key, value, deadline),
        marking => db.set_marked(key, value, deadline, marking),
    }
}

fn set_idle(db: &mut Db<'_>, key: Key<'_>, record: &Record<'_>) {
    if let Some(seconds) = record.idle_seconds {
        db.set_idle_seconds(key, seconds);
    }
}

/// Why something cannot be inserted.
struct Failed(String);

impl From<DbError> for Failed {
    fn from(error: DbError) -> Failed {
        Failed(match error {
            DbError::OutOfMemory => "there is no memory for all of it".into(),
            _ => "it cannot be stored".into(),
        })
    }
}

/// The keys of a file are distinct: one that is there already has come twice.
fn check_new(db: &mut Db<'_>, key: Key<'_>, loading: &Loading) -> Result<(), Failed> {
    if loading.plan.into_empty && db.is_there(key) {
        return Err(Failed(format!("it has the key {} twice", super::quoted(key.bytes))));
    }
    Ok(())
}

/// The last of it was inserted, or it was given up.
fn finish(store: &Store, loading: &Loading) {
    match loading.failure() {
        Some(why) => log::warn!("Loading failed: {why}"),
        None => log::info!(
            "DB loaded from disk: {:.3} seconds, keys loaded: {}, keys expired: {}",
            loading.time().as_secs_f64(),
            loading.keys(),
            loading.expired()
        ),
    }
    if loading.failure().is_none() {
        store.set_flag(flag::LOADING, false);
    }
    store.end_load();
}
