//! The thread that writes a file: takes what the workers have saved from the outbox, encodes and packs it, and puts it in the place of the old
//! file when all of it is on the disk.

use super::outbox::{Message, Next};
use super::records::{self, Record, Value};
use super::state::{Ended, Facts, Store};
use crate::base::draft::Draft;
use crate::db::Type;
use crate::persist::rdb::file::{CLIENT_FLAGS, Head, Writer};
use crate::persist::rdb::{Encoder, Form};
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

fn write(store: &Store, facts: &Facts, databases: Vec<Sizes>) -> io::Result<()> {
    let draft = Draft::create(&facts.path, &draft_name())?;
    let mut out = Output { draft, writer: Writer::new(facts.checksum, facts.packs), databases };
    out.begin(facts);
    let mut of = None;
    let mut encoder = None;
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
                    encoder = out.begin_collection(&record);
                    of = Some(worker);
                }
            }
            Next::Message(_, Message::Run(run, last)) => {
                if let Some(encoder) = &mut encoder {
                    out.writer.elements(encoder, &run);
                    out.write_if(WRITE_BYTES)?;
                }
                if last {
                    (encoder, of) = (None, None);
                }
            }
        }
    }
    out.writer.end();
    out.write_if(0)?;
    out.draft.commit()
}

/// The file, and what was encoded of it and not written yet.
struct Output {
    draft: Draft,
    writer: Writer,
    /// Their sizes, until they are written.
    databases: Vec<Sizes>,
}

impl Output {
    fn begin(&mut self, facts: &Facts) {
        let (used, now) = (facts.used_bytes.to_string(), facts.now_s.to_string());
        let bits = usize::BITS.to_string();
        let mut aux = |name: &str, value: &str| self.writer.aux(name.as_bytes(), value.as_bytes());
        aux("redis-ver", facts.version);
        aux("redis-bits", &bits);
        aux("ctime", &now);
        aux("used-mem", &used);
        aux("dolmen-ver", env!("CARGO_PKG_VERSION"));
    }

    fn head<'a>(&mut self, record: &Record<'a>) -> Head<'a> {
        self.writer.database(record.database.into());
        if let Some(sizes) = self.databases.get_mut(record.database as usize)
            && sizes.0 > 0
        {
            // Once for each, in front of its first key.
            let (keys, deadlines) = std::mem::take(sizes);
            self.writer.sizes(keys, deadlines);
        }
        if record.client_flags != 0 {
            self.writer.aux(CLIENT_FLAGS, record.client_flags.to_string().as_bytes());
        }
        Head { key: record.key, deadline_ms: record.deadline_ms, idle_seconds: record.idle_seconds }
    }

    fn record(&mut self, record: &Record<'_>) {
        match record.value {
            Value::Raw(bytes) => {
                let head = self.head(record);
                self.writer.string(head, bytes);
            }
            Value::Int(number) => {
                let head = self.head(record);
                self.writer.number(head, number);
            }
            Value::Run { run, .. } => {
                if let Some(mut encoder) = self.begin_collection(record) {
                    self.writer.elements(&mut encoder, run);
                }
            }
        }
    }

    fn begin_collection(&mut self, record: &Record<'_>) -> Option<Encoder> {
        let Value::Run { kind, timed, count, .. } = record.value else { return None };
        let form = match kind {
            Type::String => return None,
            Type::List => Form::List,
            Type::Set => Form::Set,
            Type::Zset => Form::Zset,
            Type::Hash if timed => Form::HashWithDeadlines { first_ms: 1 },
            Type::Hash => Form::Hash,
        };
        let head = self.head(record);
        Some(self.writer.collection(head, form, count.into()))
    }

    fn blob(&mut self, record: &Record<'_>, blob: &BlobRef, packs: bool) -> io::Result<()> {
        let head = self.head(record);
        let segments = (0..blob.segments()).map(|index| blob.segment(index));
        if packs && blob.len() <= PACKED_BLOB_BYTES {
            let whole = segments.fold(Vec::with_capacity(blob.len()), |mut whole, segment| {
                whole.extend_from_slice(segment);
                whole
            });
            self.writer.string(head, &whole);
            return self.write_if(WRITE_BYTES);
        }
        self.writer.long_string(head, blob.len() as u64);
        for segment in segments {
            self.writer.piece(segment);
            self.write_if(WRITE_BYTES)?;
        }
        Ok(())
    }

    /// Writes what was encoded, if it is so much.
    fn write_if(&mut self, bytes: usize) -> io::Result<()> {
        if self.writer.len() < bytes {
            return Ok(());
        }
        let Output { draft, writer, .. } = self;
        writer.take(|bytes| draft.write_all(bytes))
    }
}
