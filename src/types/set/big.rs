//! The big form of a set: a table of members, each a chunk of its own. Owns the layout of these chunks.
//!
//! ```text
//!  byte 0                                     up to CHUNK_BYTES_MAX; shortest chunk 16 bytes: text of up to 15, any integer
//!      ┌──────────────────────────────────────┐
//!      │ entry, encoded as in base::entry     │
//!      └──────────────────────────────────────┘
//!      ┌───────┬─────────┬──────────┬─────────┐
//!      │ FF    │ 0 0 0   │ blob u32 │ hash    │   a member that fits no chunk; its hash, so that growth need not read it
//!      └───────┴─────────┴──────────┴─────────┘
//!        1        3         4          8
//! ```
//! Invariant on which the unsafe code rests: **a handle in the table, or in what its views keep, is a live chunk that `create` made, of the
//! slab that is passed with every call.** Handles do not leave this file.
#![allow(unsafe_code)]

use super::Encoding;
use super::small::{self, Small};
use crate::base::entry::{self, Entry};
use crate::base::hash::hash_key;
use crate::base::rng::Rng;
use crate::table::{Entries, Slot, Table, View, ViewLost};
use crate::types::{Body, Container, Edit, Limits, Look, Memory, Span, Type};
use dolmen_slab::{AllocError, BlobId, CHUNK_BYTES_MAX, Handle, Kind, Slab, Slice};

/// First byte of a member that lies in a blob; no entry begins so.
const LONG: u8 = 0xFF;
const LONG_BYTES: usize = 16;
const LONG_BLOB: usize = 4;
const LONG_HASH: usize = 8;
/// Longest text that lies in the chunk.
const INLINE_MAX: usize = CHUNK_BYTES_MAX - entry::HEAD_BYTES_MAX;
/// Integers are hashed as numbers, under a seed apart from that of texts.
const INT_SALT: u64 = 0x9e37_79b9_7f4a_7c15;
/// Members that a step of the table's maintenance looks at, about.
const SEGMENT_MEMBERS: usize = 512;

/// A member where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Member<'a> {
    Entry(Entry<'a>),
    /// Too long for a chunk, and never an integer.
    Long(BlobId),
}

impl Member<'_> {
    /// Appends it to a run, as an entry.
    pub fn put(self, slab: &Slab, run: &mut Vec<u8>) {
        match self {
            Member::Entry(entry) => entry.put(run),
            Member::Long(blob) => {
                entry::put_head(run, slab.blob_len(blob));
                (0..slab.blob_segments(blob)).for_each(|index| run.extend_from_slice(slab.blob_segment(blob, index)));
            }
        }
    }

    fn is(self, slab: &Slab, needle: Entry<'_>) -> bool {
        match (self, needle) {
            (Member::Entry(entry), needle) => entry == needle,
            (Member::Long(blob), Entry::Bytes(bytes)) => is_blob(slab, blob, bytes),
            (Member::Long(_), Entry::Int(_)) => false,
        }
    }
}

#[cold]
fn is_blob(slab: &Slab, blob: BlobId, bytes: &[u8]) -> bool {
    let mut rest = bytes;
    slab.blob_len(blob) == bytes.len()
        && (0..slab.blob_segments(blob)).all(|index| {
            let segment = slab.blob_segment(blob, index);
            let (head, tail) = rest.split_at(segment.len());
            rest = tail;
            head == segment
        })
}

#[inline]
fn hash_of(seed: u64, entry: Entry<'_>) -> u64 {
    match entry {
        Entry::Bytes(bytes) => hash_key(seed, bytes),
        Entry::Int(value) => hash_key(seed ^ INT_SALT, &value.to_le_bytes()),
    }
}

/// The bytes of a chunk, as far as they were written.
#[inline]
fn chunk(slab: &Slab, h: Handle) -> &[u8] {
    let start = slab.ptr(h).as_ptr();
    // SAFETY: a live chunk of `create` (module invariant) begins with what was written there: the long form of 16 bytes, or an entry, whose
    // head tells its length (its first byte, how many bytes the head has). It stays as long as the slab is borrowed, as freeing it
    // takes the slab exclusively.
    unsafe {
        let head_bytes = match *start {
            LONG => return std::slice::from_raw_parts(start, LONG_BYTES),
            first => entry::head_bytes_from(first),
        };
        let bytes = entry::span(std::slice::from_raw_parts(start, head_bytes));
        std::slice::from_raw_parts(start, bytes)
    }
}

#[inline]
fn member(slab: &Slab, h: Handle) -> Member<'_> {
    let chunk = chunk(slab, h);
    if chunk[0] == LONG { Member::Long(long_blob(chunk)) } else { Member::Entry(entry_of(chunk)) }
}

#[inline]
fn entry_of(chunk: &[u8]) -> Entry<'_> {
    let Some((entry, _)) = entry::split(chunk) else { unreachable!("a chunk is not empty") };
    entry
}

fn long_blob(chunk: &[u8]) -> BlobId {
    BlobId::from_bits(u32::from_le_bytes(chunk[LONG_BLOB..LONG_HASH].try_into().expect("4 bytes")))
}

fn long_hash(chunk: &[u8]) -> u64 {
    u64::from_le_bytes(chunk[LONG_HASH..LONG_BYTES].try_into().expect("8 bytes"))
}

/// Memory of a member.
fn member_bytes(slab: &Slab, h: Handle) -> u64 {
    let chunk = chunk(slab, h);
    let blob = if chunk[0] == LONG { slab.blob_bytes(long_blob(chunk)) } else { 0 };
    Slab::class_bytes(chunk.len()) as u64 + blob
}

fn create(slab: &mut Slab, hash: u64, entry: Entry<'_>) -> Result<Handle, AllocError> {
    match entry {
        Entry::Bytes(bytes) if bytes.len() > INLINE_MAX => {
            let blob = slab.blob_new(bytes.len())?;
            let mut long = [0; LONG_BYTES];
            long[0] = LONG;
            long[LONG_BLOB..LONG_HASH].copy_from_slice(&blob.bits().to_le_bytes());
            long[LONG_HASH..].copy_from_slice(&hash.to_le_bytes());
            let made = slab.blob_append(blob, bytes).and_then(|()| slab.alloc(LONG_BYTES, Kind::Interior));
            let h = made.inspect_err(|_| slab.blob_release(blob))?;
            // SAFETY: a new chunk of that many bytes.
            unsafe { slab.ptr(h).as_ptr().copy_from_nonoverlapping(long.as_ptr(), LONG_BYTES) };
            Ok(h)
        }
        Entry::Bytes(bytes) => {
            let (head, head_bytes) = entry::head(bytes.len());
            let h = slab.alloc(head_bytes + bytes.len(), Kind::Interior)?;
            // SAFETY: a new chunk of head and text together.
            unsafe {
                let to = slab.ptr(h).as_ptr();
                to.copy_from_nonoverlapping(head.as_ptr(), head_bytes);
                crate::base::bytes::copy_short(bytes, to.add(head_bytes));
            }
            Ok(h)
        }
        Entry::Int(value) => {
            let (encoded, bytes) = entry::encode_int(value);
            let h = slab.alloc(bytes, Kind::Interior)?;
            // SAFETY: a new chunk of that many bytes.
            unsafe { slab.ptr(h).as_ptr().copy_from_nonoverlapping(encoded.as_ptr(), bytes) };
            Ok(h)
        }
    }
}

fn free(slab: &mut Slab, h: Handle) {
    let chunk = chunk(slab, h);
    let bytes = chunk.len();
    if chunk[0] == LONG {
        let blob = long_blob(chunk);
        slab.blob_release(blob);
    }
    // SAFETY: a live chunk of that many bytes (module invariant); the callers have taken its handle out of the table and its views.
    unsafe { slab.free(h, bytes) };
}

/// How the table asks for the hash of a member.
#[derive(Clone, Copy)]
struct MemberHash {
    seed: u64,
}

impl Entries for MemberHash {
    #[inline]
    fn hash(&self, slab: &Slab, h: Handle) -> u64 {
        let chunk = chunk(slab, h);
        if chunk[0] == LONG { long_hash(chunk) } else { hash_of(self.seed, entry_of(chunk)) }
    }
}

/// A set of any size.
pub struct Set {
    table: Table,
    /// Of the members' hashes.
    seed: u64,
    /// Memory of the members in the table.
    member_bytes: u64,
    /// Views ever opened: their names.
    views: u64,
    /// Those that were not closed.
    open_views: usize,
    pub(super) encoding: Encoding,
}

impl Set {
    /// `seed` is that of the shard. Each set has one of its own, made of it: members that come in the order of one set's table would all go to
    /// the same few buckets of another.
    pub(super) fn new(slab: &Slab, seed: u64) -> Set {
        let seed = hash_key(seed, &slab.used_bytes().to_le_bytes());
        Set { table: Table::new(seed), seed, member_bytes: 0, views: 0, open_views: 0, encoding: Encoding::default() }
    }

    fn hashes(&self) -> MemberHash {
        MemberHash { seed: self.seed }
    }

    #[inline]
    fn find(&self, slab: &Slab, hash: u64, needle: Entry<'_>) -> Option<Slot> {
        self.table.find(slab, hash, |h| member(slab, h).is(slab, needle))
    }

    #[inline]
    pub(super) fn contains(&self, slab: &Slab, needle: Entry<'_>) -> bool {
        self.find(slab, hash_of(self.seed, needle), needle).is_some()
    }

    /// Fetches the line that a search for it looks at first.
    #[inline]
    pub(super) fn prefetch(&self, slab: &Slab, needle: Entry<'_>) {
        self.table.prefetch(slab, hash_of(self.seed, needle));
    }

    /// False: it is there already. On error nothing has changed.
    #[inline]
    pub(super) fn insert(&mut self, slab: &mut Slab, entry: Entry<'_>) -> Result<bool, AllocError> {
        let hash = hash_of(self.seed, entry);
        if self.find(slab, hash, entry).is_some() {
            return Ok(false);
        }
        let h = create(slab, hash, entry)?;
        let hashes = self.hashes();
        match self.table.insert(slab, &hashes, hash, h) {
            Ok(_) => {
                self.member_bytes += member_bytes(slab, h);
                Ok(true)
            }
            Err(error) => {
                free(slab, h);
                Err(error)
            }
        }
    }

    pub(super) fn remove(&mut self, slab: &mut Slab, needle: Entry<'_>) -> bool {
        let hash = hash_of(self.seed, needle);
        let Some(slot) = self.find(slab, hash, needle) else { return false };
        self.take(slab, hash, slot);
        true
    }

    fn take(&mut self, slab: &mut Slab, hash: u64, slot: Slot) {
        let h = self.table.remove(slab, hash, slot);
        let bytes = member_bytes(slab, h);
        self.member_bytes -= bytes;
        if !self.table.defer(slab, hash, h, || bytes) {
            free(slab, h);
        }
    }

    /// A member, each with the same probability.
    pub(super) fn random<'s>(&self, slab: &'s Slab, rng: &mut Rng) -> Option<Member<'s>> {
        Some(member(slab, self.table.random(slab, || rng.next_u64())?))
    }

    /// Takes out a random member and appends it to `run`; false if there is none.
    pub(super) fn take_random(&mut self, slab: &mut Slab, rng: &mut Rng, run: &mut Vec<u8>) -> bool {
        let Some(h) = self.table.random(slab, || rng.next_u64()) else { return false };
        member(slab, h).put(slab, run);
        let hash = self.hashes().hash(slab, h);
        let Some(slot) = self.table.find_handle(slab, hash, h) else { unreachable!("it was drawn from the table") };
        self.take(slab, hash, slot);
        true
    }

    /// Visits the members at a cursor; the next one, 0 at the end.
    pub(super) fn scan<'s>(&self, slab: &'s Slab, cursor: u64, mut visit: impl FnMut(Member<'s>)) -> u64 {
        self.table.scan(slab, &self.hashes(), cursor, |h| visit(member(slab, h)))
    }

    #[cfg(test)]
    pub(super) fn verify(&self, slab: &Slab) {
        self.table.verify(slab, &self.hashes());
        let mut sum = 0;
        let mut cursor = 0;
        loop {
            cursor = self.table.scan(slab, &self.hashes(), cursor, |h| sum += member_bytes(slab, h));
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(sum, self.member_bytes);
    }
}

impl Container for Set {
    const TYPE: Type = Type::Set;
    type View = View;

    fn len(&self) -> usize {
        self.table.len()
    }

    fn bytes(&self) -> u64 {
        self.table.table_bytes() as u64 + self.member_bytes
    }

    fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    fn kept_bytes(&self) -> u64 {
        self.table.kept_bytes() as u64
    }

    fn open_view(&mut self, _: &Slab, _: Span) -> View {
        self.views += 1;
        self.open_views += 1;
        self.table.open_view(self.views)
    }

    fn view_next(
        &mut self,
        slab: &Slab,
        view: &mut View,
        run: &mut Vec<u8>,
        budget_bytes: usize,
    ) -> Result<bool, ViewLost> {
        let full = run.len().saturating_add(budget_bytes);
        loop {
            if !self.table.view_next(slab, view, |h| member(slab, h).put(slab, run))? {
                return Ok(false);
            }
            if run.len() >= full {
                return Ok(true);
            }
        }
    }

    fn close_view(&mut self, view: View) {
        self.open_views -= 1;
        self.table.close_view(view);
    }

    fn is_viewed(&self) -> bool {
        // The table counts those that were closed until they have handed on what they kept.
        self.open_views > 0
    }

    fn to_packed(&self, slab: &Slab) -> Option<Vec<u8>> {
        if self.len() > small::SHRUNK_MAX || self.table.has_views() {
            return None;
        }
        let mut members = Vec::with_capacity(self.len());
        let mut cursor = 0;
        loop {
            cursor = self.scan(slab, cursor, |member| members.push(member));
            if cursor == 0 {
                break;
            }
        }
        let entries = members.into_iter().map(|member| match member {
            Member::Entry(entry) => Some(entry),
            Member::Long(_) => None,
        });
        small::of_members(&entries.collect::<Option<Vec<_>>>()?, self.encoding)
    }

    fn has_work(&self) -> bool {
        self.table.has_work()
    }

    fn maintain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        let hashes = self.hashes();
        let grows = self.table.maintain(slab, &hashes, budget.div_ceil(SEGMENT_MEMBERS));
        let frees = self.table.release_views(slab, budget, free);
        grows || frees
    }

    fn relocate(&mut self, slab: &mut Slab, cursor: u64, slice: &mut Slice) -> Option<u64> {
        let hashes = self.hashes();
        self.table.relocate(slab, &hashes, cursor, slice, |slab, slice, h| {
            // SAFETY: a live chunk (module invariant); the table, which has the only handle as it has no views, takes the new one for it.
            unsafe { slab.offer(slice, h) }
        })
    }

    fn drain(&mut self, slab: &mut Slab, budget: usize) -> bool {
        // What views have kept is counted by the table, the rest here.
        if self.table.release_views(slab, budget, free) {
            return true;
        }
        let Set { table, member_bytes: bytes, .. } = self;
        table.drain(slab, budget, |slab, h| {
            *bytes -= member_bytes(slab, h);
            free(slab, h);
        })
    }

    fn unpack(packed: &[u8], _: Span, run: &mut Vec<u8>) {
        Small::of(packed).each(|entry| entry.put(run));
    }

    fn extend(body: &mut Body<Set>, memory: &mut Memory<'_>, run: &[u8]) -> Result<(), AllocError> {
        let Memory { slab, seed, limits } = memory;
        let mut edit = Edit { body, memory: Memory { slab, seed: *seed, limits: *limits } };
        entry::Entries::new(run).try_for_each(|entry| edit.add(entry).map(|_| ()))
    }

    fn encoding(look: Look<'_, Set>, _: &Limits) -> &'static str {
        look.encoding().name()
    }
}
