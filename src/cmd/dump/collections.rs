//! DUMP and RESTORE of collections: elements in runs, one way and the other, in slices.

use super::{Terms, store_with};
use crate::cmd::ctx::{Budget, Ctx, FIRST_SLICE, Failure, Outcome, Task};
use crate::cmd::pieces::{Draft, PIECE_BYTES, Reader};
use crate::db::any::{AnyBody, AnyViewed, unpack};
use crate::db::item::Type;
use crate::db::saving::is_timed;
use crate::db::{Db, DbError, Key};
use crate::persist::rdb::payload::{self, Checksum, FOOTER_BYTES};
use crate::persist::rdb::{Decoder, Encoder, Form, Kind, Progress};
use crate::proto::errors;
use dolmen_slab::BlobRef;

/// Bytes of elements between two looks at the clock.
const RUN_BYTES: usize = 4 << 10;

fn kind_of(kind: Kind) -> Type {
    match kind {
        Kind::List => Type::List,
        Kind::Set => Type::Set,
        Kind::Zset => Type::Zset,
        Kind::Hash => Type::Hash,
    }
}

/// How a collection is written; a hash by what its first elements tell: deadlines of fields came with Redis 7.4.
fn form_of(kind: Type, timed: bool) -> Form {
    match kind {
        Type::List => Form::List,
        Type::Set => Form::Set,
        Type::Zset => Form::Zset,
        Type::Hash | Type::String if timed => Form::HashWithDeadlines { first_ms: 1 },
        Type::Hash | Type::String => Form::Hash,
    }
}

/// The payload of a collection that lies in its item.
pub(super) fn packed_payload(kind: Type, packed: &[u8]) -> Vec<u8> {
    let (mut run, mut payload) = (Vec::new(), Vec::new());
    let count = unpack(kind, packed, &mut run);
    let timed = kind == Type::Hash && is_timed(&run);
    Encoder::new(form_of(kind, timed), count as u64, &mut payload).put(&run, &mut payload);
    payload::seal(&mut payload);
    payload
}

/// DUMP of a big collection: from a view into a blob, which is then sent from where it lies.
pub(super) fn dump(ctx: &mut Ctx<'_>, key: Key<'_>, view: AnyViewed, timed: bool) -> Outcome {
    let mut encoded = Vec::new();
    let encoder = Encoder::new(form_of(view.kind(), timed), view.len() as u64, &mut encoded);
    let (draft, checksum) = (Draft::default(), Checksum::default());
    let mut task =
        Dump { key: key.bytes.to_vec(), view: Some(view), encoder, encoded, run: Vec::new(), draft, checksum };
    if task.step(ctx, &mut Budget::new(ctx.clock, FIRST_SLICE)) {
        return Outcome::Done;
    }
    ctx.suspend(Box::new(task))
}

struct Dump {
    key: Vec<u8>,
    view: Option<AnyViewed>,
    encoder: Encoder,
    /// What is to be appended to the draft next.
    encoded: Vec<u8>,
    run: Vec<u8>,
    draft: Draft,
    checksum: Checksum,
}

impl Dump {
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, DbError> {
        let key = ctx.key(&self.key);
        let Some(view) = &mut self.view else { return Ok(true) };
        loop {
            self.run.clear();
            // A view is lost when there is no memory to keep it.
            let more = view.next(&mut ctx.db, &mut self.run, RUN_BYTES).map_err(|_| DbError::OutOfMemory)?;
            self.encoder.put(&self.run, &mut self.encoded);
            self.checksum.update(&self.encoded);
            self.draft.append(&mut ctx.db, key, 0, &self.encoded)?;
            self.encoded.clear();
            if !more {
                break;
            }
            if budget.is_spent(1) {
                return Ok(false);
            }
        }
        let footer = std::mem::take(&mut self.checksum).footer();
        self.draft.append(&mut ctx.db, key, 0, &footer)?;
        if let Some(blob) = self.draft.take() {
            let payload = ctx.db.blob_ref(blob);
            ctx.db.blob_drop(key, blob);
            ctx.reply.bulk_shared(payload);
        }
        Ok(true)
    }
}

impl Task for Dump {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        let done = match self.go_on(ctx, budget) {
            Ok(done) => done,
            Err(error) => {
                ctx.fail(error);
                true
            }
        };
        if done {
            self.abandon(&mut ctx.db);
        }
        done
    }

    fn bytes(&self) -> usize {
        self.key.capacity() + self.encoded.capacity() + self.run.capacity()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        let key = db.key(&self.key);
        self.draft.release(db, key);
        if let Some(view) = self.view.take() {
            view.close(db);
        }
    }
}

/// Where the bytes of a payload are.
pub(super) enum Payload {
    Short { bytes: Vec<u8>, at: usize },
    Long(Reader),
}

impl Payload {
    /// A payload that was checked, without its footer.
    pub(super) fn long(payload: &BlobRef) -> Payload {
        Payload::Long(Reader::new(payload.clone(), 0, payload.len() - FOOTER_BYTES))
    }

    fn next(&mut self) -> &[u8] {
        match self {
            Payload::Long(reader) => reader.next(PIECE_BYTES).unwrap_or_default(),
            Payload::Short { bytes, at } => &bytes[std::mem::replace(at, bytes.len())..],
        }
    }
}

/// RESTORE of a collection whose payload was checked: `first` is its first byte, `value_bytes` what it has without the footer.
pub(super) fn restore(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    terms: Terms,
    payload: Payload,
    (first, value_bytes): (u8, usize),
) -> Result<Restore, Failure> {
    let (max_bytes, seed) = (ctx.config.proto_max_bulk_bytes, ctx.rng.next_u64());
    let decoder = Decoder::new(first, value_bytes as u64, max_bytes, seed).map_err(|_| errors::BAD_DATA)?;
    let body = Some(AnyBody::new(kind_of(decoder.kind())));
    Ok(Restore { key: key.bytes.to_vec(), terms, payload, decoder, body, run: Vec::new(), made: false })
}

pub(super) struct Restore {
    key: Vec<u8>,
    terms: Terms,
    payload: Payload,
    decoder: Decoder,
    /// Until it is the key's.
    body: Option<AnyBody>,
    run: Vec<u8>,
    made: bool,
}

impl Restore {
    /// True: the reply is written.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let key = ctx.key(&self.key);
        while !self.made {
            let Some(body) = &mut self.body else { return Ok(true) };
            let progress = self.decoder.next(&mut self.run, RUN_BYTES).map_err(|_| errors::BAD_DATA)?;
            body.extend(&mut ctx.db, key, &self.run)?;
            self.run.clear();
            match progress {
                Progress::Hungry => self.decoder.feed(self.payload.next()),
                Progress::Full => {}
                Progress::Done => self.made = true,
            }
            if budget.is_spent(1) && !self.made {
                return Ok(false);
            }
        }
        if ctx.db.is_held(key.hash, true) {
            return Ok(false);
        }
        let Some(body) = self.body.take() else { return Ok(true) };
        store_with(
            ctx,
            key,
            self.terms,
            body,
            |db, body| body.discard(db, key),
            |db, body, deadline| body.store(db, key, deadline).map(|_| ()),
        )
        .map(|()| true)
    }
}

impl Task for Restore {
    fn step(&mut self, ctx: &mut Ctx<'_>, budget: &mut Budget) -> bool {
        match self.go_on(ctx, budget) {
            Ok(done) => done,
            Err(failure) => {
                ctx.fail(failure);
                self.abandon(&mut ctx.db);
                true
            }
        }
    }

    fn bytes(&self) -> usize {
        let payload = if let Payload::Short { bytes, .. } = &self.payload { bytes.capacity() } else { 0 };
        self.key.capacity() + payload + self.decoder.bytes() + self.run.capacity()
    }

    fn abandon(&mut self, db: &mut Db<'_>) {
        let key = db.key(&self.key);
        if let Some(body) = self.body.take() {
            body.discard(db, key);
        }
    }
}
