//! All databases of a shard as they were at one instant, shown in slices while commands go on: what a snapshot of the keyspace is made of. Owns
//! the order in which it is shown and what is open meanwhile; knows nothing of files.
//!
//! ```text
//!  cut   begin_saving, under the locks of all shards: a snapshot of each database that has keys
//!  then  save_some, again and again:   look at a bucket ─▶ strings and small containers are shown at once
//!                                                       └▶ big containers: views of all of them are opened, then each is shown, a run at a time
//!                                      ─▶ pass the bucket ─▶ the next
//!  end   of itself, or end_saving
//! ```
//! A bucket is passed only when all of it was shown, so what the snapshot keeps of it (pins of containers) stays until then. A database that is
//! flushed or swapped meanwhile keeps the number that it had at the cut.

use super::any::unpack;
use super::containers::Show;
use super::item::{Content, Type, Value};
use super::snapshot::{self, Snapshot};
use super::{Database, Shard, item_at};
use crate::base::entry::{Entries, Entry};
use crate::table::ViewLost;
use dolmen_slab::BlobRef;

/// Bytes of elements of a big container that are shown at once: some microseconds.
const RUN_BYTES: usize = 4 << 10;

/// Something that is shown.
pub enum Shown<'a> {
    /// A key with its value.
    /// `client_flags`: what a client of memcached keeps beside it (`db::marks`).
    Key { database: usize, key: &'a [u8], deadline_ms: Option<u64>, client_flags: u32, value: Whole<'a> },
    /// A key with a big container, whose elements follow.
    Begin { database: usize, key: &'a [u8], deadline_ms: Option<u64>, of: Elements },
    /// Elements of the container that was begun last.
    Run { run: &'a [u8], last: bool },
}

/// A value that is shown in one go.
pub enum Whole<'a> {
    Raw(&'a [u8]),
    Int(i64),
    Blob(BlobRef),
    /// All elements, as `types::Container::view_next` makes them.
    Elements(Elements, &'a [u8]),
}

/// What is known of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elements {
    pub kind: Type,
    pub count: usize,
    /// Some of them have deadlines.
    pub timed: bool,
}

/// A big container of the bucket at hand.
struct Big {
    key: Vec<u8>,
    deadline_ms: Option<u64>,
    kind: Type,
    show: Show,
    begun: bool,
}

/// See the module.
pub(super) struct Saving {
    /// With the numbers that the databases had. The last one is being shown.
    snapshots: Vec<(usize, Snapshot)>,
    /// The bucket at hand was looked at.
    looked: bool,
    /// What is left of it.
    bigs: Vec<Big>,
    key: Vec<u8>,
    run: Vec<u8>,
}

impl Shard {
    /// The cut. Called under the locks of all shards.
    ///
    /// # Panics
    /// If the shard is being saved already.
    pub fn begin_saving(&mut self) {
        assert!(self.saving.is_none(), "one at a time");
        let used: Vec<usize> = (0..self.databases_used).filter(|index| !self.databases[*index].is_empty()).collect();
        let snapshots: Vec<_> = used.into_iter().rev().map(|index| (index, self.open_snapshot(index))).collect();
        let (looked, bigs) = (false, Vec::new());
        if !snapshots.is_empty() {
            self.saving = Some(Box::new(Saving { snapshots, looked, bigs, key: Vec::new(), run: Vec::new() }));
        }
    }

    /// Is there something to show yet?
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// Bytes that are kept for views of whatever kind.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        let tables: usize =
            self.databases[..self.databases_used].iter().chain(&self.viewed).map(|d| d.table.kept_bytes()).sum();
        tables as u64 + self.containers.kept_bytes() + self.slab.blob_stats().kept_bytes
    }

    /// Shows the next few keys, or elements of a big container. False: that was all, and the end.
    ///
    /// # Errors
    /// [`ViewLost`]: there was no memory to keep the rest as it was.
    pub fn save_some(&mut self, mut show: impl FnMut(Shown<'_>)) -> Result<bool, ViewLost> {
        let Some(mut saving) = self.saving.take() else { return Ok(false) };
        let more = self.save_step(&mut saving, &mut show);
        self.saving = Some(saving);
        if matches!(more, Ok(true)) {
            return Ok(true);
        }
        self.end_saving();
        more
    }

    fn save_step(&mut self, saving: &mut Saving, show: &mut impl FnMut(Shown<'_>)) -> Result<bool, ViewLost> {
        let Some((number, snapshot)) = saving.snapshots.last() else { return Ok(false) };
        if !saving.looked {
            saving.looked = true;
            self.look_at_bucket(*number, snapshot, &mut saving.bigs, (&mut saving.key, &mut saving.run), show)?;
        }
        if let Some(big) = saving.bigs.last_mut() {
            let of = Elements { kind: big.kind, count: big.show.size.elements, timed: big.show.size.timed };
            if !std::mem::replace(&mut big.begun, true) {
                show(Shown::Begin { database: *number, key: &big.key, deadline_ms: big.deadline_ms, of });
            }
            saving.run.clear();
            let Shard { slab, containers, .. } = &mut *self;
            let more = containers.show_next(slab, &mut big.show, &mut saving.run, RUN_BYTES)?;
            show(Shown::Run { run: &saving.run, last: !more });
            if !more && let Some(big) = saving.bigs.pop() {
                containers.end_show(slab, big.show);
            }
            return Ok(true);
        }
        saving.looked = false;
        let Shard { slab, databases, viewed, .. } = &mut *self;
        if !snapshot::of(databases, viewed, snapshot).table.view_pass(slab, snapshot.view())
            && let Some((_, snapshot)) = saving.snapshots.pop()
        {
            self.close_snapshot(snapshot);
        }
        Ok(!saving.snapshots.is_empty())
    }

    fn look_at_bucket(
        &mut self,
        number: usize,
        snapshot: &Snapshot,
        bigs: &mut Vec<Big>,
        (key_text, run): (&mut Vec<u8>, &mut Vec<u8>),
        show: &mut impl FnMut(Shown<'_>),
    ) -> Result<(), ViewLost> {
        let Shard { slab, databases, viewed, containers, .. } = &mut *self;
        let Database { table, .. } = snapshot::of(databases, viewed, snapshot);
        table.view_look(slab, snapshot.view(), |handle| {
            let item = item_at(slab, handle);
            let deadline_ms = item.expiry().map(|expiry| expiry.deadline_ms);
            key_text.clear();
            let key = match item.inline_key() {
                Some(key) => key,
                None => {
                    item.append_key(slab, key_text);
                    &key_text[..]
                }
            };
            let kind = item.kind();
            let value = if kind == Type::String {
                match item.value() {
                    Value::Raw(bytes) => Whole::Raw(bytes),
                    Value::Int(number) => Whole::Int(number),
                    Value::Blob(id) => Whole::Blob(slab.blob_ref(id)),
                }
            } else {
                match item.content() {
                    Content::Packed(bytes) => {
                        run.clear();
                        let count = unpack(kind, bytes, run);
                        let timed = kind == Type::Hash && is_timed(run);
                        Whole::Elements(Elements { kind, count, timed }, run)
                    }
                    Content::Big(id) => {
                        let show = containers.show(slab, id);
                        bigs.push(Big { key: key.to_vec(), deadline_ms, kind, show, begun: false });
                        return;
                    }
                }
            };
            let client_flags = item.marks().map_or(0, |marks| marks.flags);
            show(Shown::Key { database: number, key, deadline_ms, client_flags, value });
        })
    }

    /// Gives up what is left to be shown.
    pub fn end_saving(&mut self) {
        let Some(mut saving) = self.saving.take() else { return };
        let Shard { slab, containers, .. } = &mut *self;
        saving.bigs.drain(..).for_each(|big| containers.end_show(slab, big.show));
        saving.snapshots.drain(..).for_each(|(_, snapshot)| self.close_snapshot(snapshot));
    }
}

/// Does a field of this run of a hash have a deadline?
#[must_use]
pub fn is_timed(run: &[u8]) -> bool {
    let mut entries = Entries::new(run);
    std::iter::from_fn(|| entries.nth(2)).any(|deadline| deadline != Entry::Int(0))
}

#[cfg(test)]
pub(crate) mod tests;
