//! The thread that writes a file: takes what the workers have saved from the outbox, encodes and packs it, and puts it in the place of the old
//! file when all of it is on the disk.

use super::outbox::{Message, Next};
use super::records::{self, Record, Value};
use super::state::{Ended, Facts, Job, Store};
use crate::base::draft::Draft;
use crate::base::int;
use crate::db::Type;
use crate::persist::aof::whole::{self, Begun};
use crate::persist::rdb::file::{CLIENT_FLAGS, Head, Writer};
use crate::persist::rdb::{Encoder, Form, Kind};
use dolmen_slab::BlobRef;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Encoded bytes that are written together.
const WRITE_BYTES: usize = 256 << 10;
/// A longer value is written as it is: to pack it, all of it would have to be in memory twice more.
const PACKED_BLOB_BYTES: usize = 4 << 20;

/// Keys of a database, and how many of them have deadlines.
type Sizes = (u64, u64);

/// Starts the writer of a save that has begun.
pub(super) fn start(store: &Arc<Store>, facts: Facts, databases: Vec<Sizes>) -> io::Result<()> {
    let shared = Arc::clone(store);
    let run = move || {
        let written = write(&shared, &facts, databases);
        let error = match written {
            Ok(()) => Ok(()),
            Err(error) => {
                let text = format!("{}: {error}", facts.path.display());
                // Workers go on with it no more.
                shared.give_up(Ended::Failed(text.clone()));
                while !matches!(shared.outbox.next(None), Next::GivenUp | Next::End) {}
                Err(text)
            }
        };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        shared.end(error, now_s);
    };
    std::thread::Builder::new().name("rdb writer".into()).spawn(run).map(|_| ())
}

/// The name of the file while it is written.
fn draft_name() -> String {
    format!("temp-{}.rdb", std::process::id())
}

/// The process is about to end: what was begun to be written is of no use.
pub fn remove_draft(path: &Path) {
    let _ = fs::remove_file(path.with_file_name(draft_name()));
}

/// A snapshot of no keys, as the base of a log that begins.
#[must_use]
pub fn empty_snapshot() -> Vec<u8> {
    let mut writer = Writer::new(true, false);
    writer.aux(b"dolmen-ver", env!("CARGO_PKG_VERSION").as_bytes());
    writer.aux(b"aof-base", b"1");
    writer.end();
    writer.take(<[u8]>::to_vec)
}

fn write(store: &Store, facts: &Facts, databases: Vec<Sizes>) -> io::Result<()> {
    let draft = Draft::create(&facts.path, &draft_name())?;
    let file = if facts.as_commands {
        File::Commands(whole::Writer::default())
    } else {
        File::Snapshot(Writer::new(facts.checksum, facts.packs), databases)
    };
    let mut out = Output { draft, file };
    out.begin(facts);
    let mut of = None;
    let mut collection = None;
    loop {
        match store.outbox.next(of) {
            Next::End => break,
            Next::GivenUp => return Err(io::ErrorKind::Interrupted.into()),
            Next::Message(_, Message::Records(records)) => {
                let mut rest = &records[..];
                while let Some(record) = records::next(&mut rest) {
                    out.record(&record);
                    out.write_if(WRITE_BYTES)?;
                }
            }
            Next::Message(_, Message::Blob(head, blob)) => {
                if let Some(record) = records::next(&mut &head[..]) {
                    out.blob(&record, &blob, facts.packs)?;
                }
            }
            Next::Message(worker, Message::Begin(head)) => {
                if let Some(record) = records::next(&mut &head[..]) {
                    collection = out.begin_collection(&record);
                    of = Some(worker);
                }
            }
            Next::Message(_, Message::Run(run, last)) => {
                if let Some(collection) = &mut collection {
                    out.elements(collection, &run);
                    out.write_if(WRITE_BYTES)?;
                }
                if last {
                    (collection, of) = (None, None);
                }
            }
        }
    }
    if let File::Snapshot(writer, _) = &mut out.file {
        writer.end();
    }
    out.write_if(0)?;
    out.draft.commit()
}

/// What was encoded of a file and not written yet.
enum File {
    /// With the sizes of databases, until they are written.
    Snapshot(Writer, Vec<Sizes>),
    /// Of commands (`aof-use-rdb-preamble no`).
    Commands(whole::Writer),
}

/// A collection that is being written.
enum Collection {
    Encoded(Encoder),
    Told(Begun),
}

struct Output {
    draft: Draft,
    file: File,
}

/// Begins a key of a snapshot.
fn head<'a>(writer: &mut Writer, databases: &mut [Sizes], record: &Record<'a>) -> Head<'a> {
    writer.database(record.database.into());
    if let Some(sizes) = databases.get_mut(record.database as usize)
        && sizes.0 > 0
    {
        // Once for each, in front of its first key.
        let (keys, deadlines) = std::mem::take(sizes);
        writer.sizes(keys, deadlines);
    }
    if record.client_flags != 0 {
        writer.aux(CLIENT_FLAGS, record.client_flags.to_string().as_bytes());
    }
    Head { key: record.key, deadline_ms: record.deadline_ms, idle_seconds: record.idle_seconds }
}

/// The command that makes a string, but for its bytes.
fn begin_string(writer: &mut whole::Writer, record: &Record<'_>, bytes: usize) {
    writer.database(record.database.into());
    writer.begin_string(record.key, record.client_flags, record.deadline_ms, bytes);
}

impl Output {
    fn begin(&mut self, facts: &Facts) {
        let File::Snapshot(writer, _) = &mut self.file else { return };
        let (used, now) = (facts.used_bytes.to_string(), facts.now_s.to_string());
        let bits = usize::BITS.to_string();
        let mut aux = |name: &str, value: &str| writer.aux(name.as_bytes(), value.as_bytes());
        aux("redis-ver", facts.version);
        aux("redis-bits", &bits);
        aux("ctime", &now);
        aux("used-mem", &used);
        if facts.job == Job::Base {
            aux("aof-base", "1");
        }
        aux("dolmen-ver", env!("CARGO_PKG_VERSION"));
    }

    fn record(&mut self, record: &Record<'_>) {
        match (record.value, &mut self.file) {
            (Value::Raw(bytes), File::Snapshot(writer, databases)) => {
                let head = head(writer, databases, record);
                writer.string(head, bytes);
            }
            (Value::Int(number), File::Snapshot(writer, databases)) => {
                let head = head(writer, databases, record);
                writer.number(head, number);
            }
            (Value::Raw(bytes), File::Commands(writer)) => {
                begin_string(writer, record, bytes.len());
                writer.piece(bytes);
                writer.end_string(record.deadline_ms);
            }
            (Value::Int(number), File::Commands(writer)) => {
                let mut digits = [0; int::MAX_DIGITS];
                let text = int::write_i64(&mut digits, number);
                begin_string(writer, record, text.len());
                writer.piece(text);
                writer.end_string(record.deadline_ms);
            }
            (Value::Run { run, .. }, _) => {
                if let Some(mut collection) = self.begin_collection(record) {
                    self.elements(&mut collection, run);
                }
            }
        }
    }

    fn begin_collection(&mut self, record: &Record<'_>) -> Option<Collection> {
        let Value::Run { kind, timed, count, .. } = record.value else { return None };
        let (form, kind) = match kind {
            Type::String => return None,
            Type::List => (Form::List, Kind::List),
            Type::Set => (Form::Set, Kind::Set),
            Type::Zset => (Form::Zset, Kind::Zset),
            Type::Hash if timed => (Form::HashWithDeadlines { first_ms: 1 }, Kind::Hash),
            Type::Hash => (Form::Hash, Kind::Hash),
        };
        Some(match &mut self.file {
            File::Snapshot(writer, databases) => {
                let head = head(writer, databases, record);
                Collection::Encoded(writer.collection(head, form, count.into()))
            }
            File::Commands(writer) => {
                writer.database(record.database.into());
                Collection::Told(writer.collection(record.key, record.deadline_ms, kind, count.into()))
            }
        })
    }

    fn elements(&mut self, collection: &mut Collection, run: &[u8]) {
        match (&mut self.file, collection) {
            (File::Snapshot(writer, _), Collection::Encoded(encoder)) => writer.elements(encoder, run),
            (File::Commands(writer), Collection::Told(begun)) => writer.elements(begun, run),
            _ => unreachable!("a file is of one kind"),
        }
    }

    fn blob(&mut self, record: &Record<'_>, blob: &BlobRef, packs: bool) -> io::Result<()> {
        let mut segments = (0..blob.segments()).map(|index| blob.segment(index));
        match &mut self.file {
            File::Snapshot(writer, databases) => {
                let head = head(writer, databases, record);
                if packs && blob.len() <= PACKED_BLOB_BYTES {
                    let whole = segments.fold(Vec::with_capacity(blob.len()), |mut whole, segment| {
                        whole.extend_from_slice(segment);
                        whole
                    });
                    writer.string(head, &whole);
                    return self.write_if(WRITE_BYTES);
                }
                writer.long_string(head, blob.len() as u64);
            }
            File::Commands(writer) => begin_string(writer, record, blob.len()),
        }
        segments.try_for_each(|segment| {
            match &mut self.file {
                File::Snapshot(writer, _) => writer.piece(segment),
                File::Commands(writer) => writer.piece(segment),
            }
            self.write_if(WRITE_BYTES)
        })?;
        if let File::Commands(writer) = &mut self.file {
            writer.end_string(record.deadline_ms);
        }
        Ok(())
    }

    /// Writes what was encoded, if it is so much.
    fn write_if(&mut self, bytes: usize) -> io::Result<()> {
        let Output { draft, file } = self;
        match file {
            File::Snapshot(writer, _) if writer.len() >= bytes => writer.take(|bytes| draft.write_all(bytes)),
            File::Commands(writer) if writer.out.len() >= bytes => {
                draft.write_all(&writer.out)?;
                writer.out.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
