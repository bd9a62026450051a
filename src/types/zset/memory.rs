//! The unsafe core of the sorted set: elements and nodes in memory of the slab. Owns their layouts, and every access to that memory; decides
//! nothing (what is in which order is `tree`'s, when a node may change is `versions`').
//!
//! # Invariants (why the functions here are safe to call from the rest of this module)
//! - A handle that is given to a function here names a live chunk that [`new_element`], [`with_score`], [`new_leaf`], [`new_inner`] or a copy made
//!   in the same slab, and of the kind that the function is for. Tree, table and the lists of `versions` hold no others, and each chunk is
//!   freed ([`free`]) by whoever took it out of the last of them.
//! - A chunk begins with a byte that tells what it is; its lengths and capacities are what it was allocated with.
//! - Nobody else reads or writes that memory, except for prefetches. References into it are bound to the borrow of the slab: exclusive for
//!   what can be written.
#![allow(unsafe_code)]

use super::score;
use crate::base::bytes::copy_short;
use crate::base::hash::hash_key;
use dolmen_slab::{AllocError, BlobId, CHUNK_BYTES_MAX, Handle, Kind, Slab, Slice};
use static_assertions::const_assert;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Longest member that lies in its element's chunk; longer ones are blobs.
pub const MEMBER_CHUNK_MAX: usize = 8 * 1024;

// ---- Elements ----

/// The score is 0, and takes no room.
const ZERO: u8 = 0;
/// An integer of 16 bits.
const SHORT: u8 = 1;
/// An integer of 32 bits.
const INT: u8 = 2;
/// The double.
const DOUBLE: u8 = 3;
/// Bytes of a score by its form.
const SCORE_BYTES: [u8; 4] = [0, 2, 4, 8];
/// Longest member whose length is in the first byte.
const SHORT_MEMBER_MAX: usize = 60;
/// Places of the length in the first byte: it follows in two bytes; the member is a blob; the chunk is a node.
const LONG: u8 = 61;
const BLOB: u8 = 62;
const NODE: u8 = 63;
/// A blob's number, and the hash of its bytes.
const BLOB_BYTES: usize = 12;
const_assert!(SHORT_MEMBER_MAX < LONG as usize);
const_assert!(MEMBER_CHUNK_MAX <= u16::MAX as usize && MEMBER_CHUNK_MAX + 11 <= CHUNK_BYTES_MAX);

/// The bytes of a member.
#[derive(Clone, Copy, Debug)]
pub enum Member<'a> {
    Bytes(&'a [u8]),
    Blob(BlobId),
}

impl<'a> Member<'a> {
    /// Its bytes, piece by piece.
    pub fn pieces(self, slab: &'a Slab) -> impl Iterator<Item = &'a [u8]> {
        let (first, blob) = match self {
            Member::Bytes(bytes) => (Some(bytes), None),
            Member::Blob(blob) => (None, Some(blob)),
        };
        let segments = blob.map_or(0, |blob| slab.blob_segments(blob));
        let rest = (0..segments).filter_map(move |index| blob.map(|blob| slab.blob_segment(blob, index)));
        first.into_iter().chain(rest)
    }

    /// Appends its bytes.
    pub fn append_to(self, slab: &Slab, out: &mut Vec<u8>) {
        self.pieces(slab).for_each(|piece| out.extend_from_slice(piece));
    }

    /// The order of members: that of their bytes.
    #[inline]
    #[must_use]
    pub fn compare(self, slab: &Slab, other: Member<'_>) -> Ordering {
        match (self, other) {
            (Member::Bytes(a), Member::Bytes(b)) => a.cmp(b),
            _ => self.compare_pieces(slab, other),
        }
    }

    #[cold]
    fn compare_pieces(self, slab: &Slab, other: Member<'_>) -> Ordering {
        let (mut left, mut right) = (self.pieces(slab), other.pieces(slab));
        let (mut a, mut b): (&[u8], &[u8]) = (&[], &[]);
        loop {
            if a.is_empty() {
                a = left.next().unwrap_or_default();
            }
            if b.is_empty() {
                b = right.next().unwrap_or_default();
            }
            let both = a.len().min(b.len());
            if both == 0 {
                return a.len().cmp(&b.len());
            }
            match a[..both].cmp(&b[..both]) {
                Ordering::Equal => (a, b) = (&a[both..], &b[both..]),
                unequal => return unequal,
            }
        }
    }
}

/// An element: a score and a member.
///
/// ```text
///  byte 0                     1               ...
///      ┌─────────────┬───────┬───────────────┬──────────┬──────────────────────────┐
///      │ length 6    │ form 2│ score         │ length   │ member                   │
///      └─────────────┴───────┴───────────────┴──────────┴──────────────────────────┘
///  length  0 ..= 60            0, 2, 4 or 8             as many bytes
///          61                  by form        2 bytes   as many
///          62                                           a blob: number 4, hash 8
/// ```
/// A member of 8 bytes with a score that is an integer of 32 bits takes 16 bytes, with any other 24.
#[derive(Clone, Copy)]
pub struct Element<'a> {
    ptr: NonNull<u8>,
    head: u8,
    slab: PhantomData<&'a Slab>,
}

#[inline(always)]
pub(super) fn element(slab: &Slab, h: Handle) -> Element<'_> {
    let ptr = slab.ptr(h);
    // SAFETY: a live chunk of at least a byte, which is its head (module invariants).
    let head = unsafe { ptr.read() };
    debug_assert!(head >> 2 != NODE, "a node is no element");
    Element { ptr, head, slab: PhantomData }
}

impl<'a> Element<'a> {
    /// Bytes at `at` that the head promises.
    #[inline(always)]
    fn place(self, at: usize, len: usize) -> &'a [u8] {
        // SAFETY: `write` has filled as many bytes as the head tells, and callers take their offsets from it; the chunk lives as long as the
        // borrow of the slab, since freeing it needs that exclusively.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr().add(at), len) }
    }

    #[inline(always)]
    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        self.place(at, N).try_into().unwrap_or([0; N])
    }

    #[inline(always)]
    #[must_use]
    pub fn score(self) -> f64 {
        match self.head & 3 {
            ZERO => 0.0,
            SHORT => f64::from(i16::from_le_bytes(self.array(1))),
            INT => f64::from(i32::from_le_bytes(self.array(1))),
            _ => f64::from_le_bytes(self.array(1)),
        }
    }

    /// The order of its score.
    #[inline(always)]
    pub(super) fn key(self) -> u64 {
        score::key(self.score())
    }

    /// Where the score ends.
    #[inline(always)]
    fn tail(self) -> usize {
        1 + usize::from(SCORE_BYTES[usize::from(self.head & 3)])
    }

    #[inline(always)]
    #[must_use]
    pub fn member(self) -> Member<'a> {
        let at = self.tail();
        match self.head >> 2 {
            BLOB => Member::Blob(BlobId::from_bits(u32::from_le_bytes(self.array(at)))),
            LONG => Member::Bytes(self.place(at + 2, usize::from(u16::from_le_bytes(self.array(at))))),
            len => Member::Bytes(self.place(at, usize::from(len))),
        }
    }

    /// Is this its member, of this hash?
    #[inline]
    pub(super) fn is(self, slab: &Slab, member: &[u8], hash: u64) -> bool {
        match self.member() {
            Member::Bytes(bytes) => bytes == member,
            blob @ Member::Blob(_) => {
                u64::from_le_bytes(self.array(self.tail() + 4)) == hash
                    && blob.compare(slab, Member::Bytes(member)).is_eq()
            }
        }
    }

    #[inline]
    pub(super) fn hash(self, seed: u64) -> u64 {
        match self.member() {
            Member::Bytes(bytes) => hash_key(seed, bytes),
            Member::Blob(_) => u64::from_le_bytes(self.array(self.tail() + 4)),
        }
    }

    /// Bytes of the chunk that are in use.
    fn chunk_bytes(self) -> usize {
        self.tail()
            + match self.member() {
                Member::Bytes(bytes) => bytes.len() + if self.head >> 2 == LONG { 2 } else { 0 },
                Member::Blob(_) => BLOB_BYTES,
            }
    }

    /// Memory of the element; of a blob its length, so that the figure is the same whoever else refers to it.
    fn bytes(self, slab: &Slab) -> u64 {
        let blob = if let Member::Blob(blob) = self.member() { slab.blob_len(blob) as u64 } else { 0 };
        Slab::class_bytes(self.chunk_bytes()) as u64 + blob
    }
}

/// A score in its form: which, and its bytes.
#[inline(always)]
fn form_of(score: f64) -> (u8, [u8; 8]) {
    let mut bytes = [0; 8];
    #[expect(clippy::cast_possible_truncation, reason = "what is changed by it is no integer of 32 bits")]
    let integer = score as i32;
    if f64::from(integer).to_bits() != score.to_bits() {
        return (DOUBLE, score.to_le_bytes());
    }
    match i16::try_from(integer) {
        Ok(0) => (ZERO, bytes),
        Ok(short) => {
            bytes[..2].copy_from_slice(&short.to_le_bytes());
            (SHORT, bytes)
        }
        Err(_) => {
            bytes[..4].copy_from_slice(&integer.to_le_bytes());
            (INT, bytes)
        }
    }
}

/// What follows the score in a chunk.
enum Tail<'a> {
    Bytes(&'a [u8]),
    Blob(BlobId, u64),
}

fn write(slab: &mut Slab, score: f64, tail: &Tail<'_>) -> Result<Handle, AllocError> {
    let (form, score) = form_of(score);
    let score = &score[..usize::from(SCORE_BYTES[usize::from(form)])];
    let mut blob_place = [0; BLOB_BYTES];
    let mut length = [0; 2];
    let (len_code, length, rest): (u8, &[u8], &[u8]) = match *tail {
        #[expect(clippy::cast_possible_truncation, reason = "at most SHORT_MEMBER_MAX, MEMBER_CHUNK_MAX")]
        Tail::Bytes(bytes) if bytes.len() <= SHORT_MEMBER_MAX => (bytes.len() as u8, &[], bytes),
        Tail::Bytes(bytes) => {
            debug_assert!(bytes.len() <= MEMBER_CHUNK_MAX);
            #[expect(clippy::cast_possible_truncation, reason = "at most MEMBER_CHUNK_MAX")]
            length.copy_from_slice(&(bytes.len() as u16).to_le_bytes());
            (LONG, &length, bytes)
        }
        Tail::Blob(blob, hash) => {
            blob_place[..4].copy_from_slice(&blob.bits().to_le_bytes());
            blob_place[4..].copy_from_slice(&hash.to_le_bytes());
            (BLOB, &[], &blob_place)
        }
    };
    let bytes = 1 + score.len() + length.len() + rest.len();
    let h = slab.alloc(bytes, Kind::Interior)?;
    let ptr = slab.ptr(h).as_ptr();
    // SAFETY: the chunk is `bytes` long, the sum of the four parts, and ours alone; they lie elsewhere.
    unsafe {
        ptr.write(len_code << 2 | form);
        let at = ptr.add(1);
        copy_short(score, at);
        let at = at.add(score.len());
        copy_short(length, at);
        copy_short(rest, at.add(length.len()));
    }
    Ok(h)
}

/// A new element.
pub(super) fn new_element(slab: &mut Slab, score: f64, member: &[u8], hash: u64) -> Result<Handle, AllocError> {
    if member.len() <= MEMBER_CHUNK_MAX {
        return write(slab, score, &Tail::Bytes(member));
    }
    let blob = slab.blob_new(member.len())?;
    let made = slab.blob_append(blob, member).and_then(|()| write(slab, score, &Tail::Blob(blob, hash)));
    if made.is_err() {
        slab.blob_release(blob);
    }
    made
}

/// A new element of the same member with another score.
pub(super) fn with_score(slab: &mut Slab, h: Handle, score: f64, member: &[u8]) -> Result<Handle, AllocError> {
    let old = element(slab, h);
    let Member::Blob(blob) = old.member() else { return write(slab, score, &Tail::Bytes(member)) };
    let hash = old.hash(0);
    let blob = slab.blob_pin(blob)?;
    let made = write(slab, score, &Tail::Blob(blob, hash));
    if made.is_err() {
        slab.blob_release(blob);
    }
    made
}

/// Whether [`set_score`] can write this score: its form takes as much room as the present one.
#[inline]
pub(super) fn fits_score(slab: &Slab, h: Handle, score: f64) -> bool {
    element(slab, h).head & 3 == form_of(score).0
}

/// Writes another score that fits.
#[inline]
pub(super) fn set_score(slab: &mut Slab, h: Handle, score: f64) {
    let (form, bytes) = form_of(score);
    assert_eq!(element(slab, h).head & 3, form);
    let len = usize::from(SCORE_BYTES[usize::from(form)]);
    // SAFETY: so many bytes after the head are the score's (checked above); `&mut Slab`, so nobody reads them.
    unsafe { copy_short(&bytes[..len], slab.ptr(h).as_ptr().add(1)) };
}

// ---- Nodes ----

/// Largest node in bytes.
const NODE_BYTES_MAX: usize = 1024;
const LEAF: u8 = NODE << 2;
const INNER: u8 = NODE << 2 | 1;

/// Head of both kinds of node.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Head {
    kind: u8,
    /// Of a leaf's codes, see [`Leaf`].
    pub shift: u8,
    count: u16,
    capacity: u16,
    unused: u16,
    /// When it was made, see `base::epochs`.
    pub stamp: u32,
    unused_too: u32,
    /// Of a leaf's codes.
    pub base: u64,
}
const HEAD_BYTES: usize = size_of::<Head>();
const_assert!(HEAD_BYTES == 24 && align_of::<Head>() == 8);

impl Head {
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    #[inline(always)]
    pub(super) fn capacity(&self) -> usize {
        usize::from(self.capacity)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "nodes hold at most LEAF_MAX entries")]
    fn set_count(&mut self, count: usize) {
        debug_assert!(count <= self.capacity());
        self.count = count as u16;
    }
}

/// Bytes of a place in a leaf, and in an inner node.
const LEAF_PLACE: usize = 8;
const INNER_PLACE: usize = 20;
/// Most elements of a leaf, and children of an inner node.
pub(super) const LEAF_MAX: usize = (NODE_BYTES_MAX - HEAD_BYTES) / LEAF_PLACE;
pub(super) const INNER_MAX: usize = (NODE_BYTES_MAX - HEAD_BYTES) / INNER_PLACE;
const_assert!(LEAF_MAX == 125 && INNER_MAX == 50);

#[inline(always)]
pub(super) fn head(slab: &Slab, node: Handle) -> &Head {
    let ptr = slab.ptr(node).cast::<Head>();
    // SAFETY: a live node begins with its initialised head, and chunks are aligned to 8 (module invariants).
    let head = unsafe { ptr.as_ref() };
    debug_assert!(head.kind >= LEAF, "an element is no node");
    head
}

#[inline(always)]
fn head_mut(slab: &mut Slab, node: Handle) -> &mut Head {
    let mut ptr = slab.ptr(node).cast::<Head>();
    // SAFETY: as in `head`; the slab is borrowed exclusively for as long.
    unsafe { ptr.as_mut() }
}

/// `len` values from `at` bytes after the begin of a node, of which they are a part that was initialised.
///
/// # Safety
/// They lie in the node's chunk, are initialised and aligned, and `'a` is no longer than the borrow of the slab.
#[inline(always)]
unsafe fn part<'a, T>(ptr: NonNull<u8>, at: usize, len: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(ptr.as_ptr().add(at).cast::<T>(), len) }
}

/// # Safety
/// As for [`part`], and the borrow is exclusive; parts that are used at the same time do not overlap.
#[inline(always)]
unsafe fn part_mut<'a, T>(ptr: NonNull<u8>, at: usize, len: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(ptr.as_ptr().add(at).cast::<T>(), len) }
}

/// Elements in their order, each with a code: where its score is among those of this leaf.
///
/// ```text
///  byte 0       24                       24 + 4 capacity
///      ┌───────┬────────────────────────┬──────────────────────────┐
///      │ head  │ capacity x u32 code    │ capacity x u32 element   │
///      └───────┴────────────────────────┴──────────────────────────┘
///  code = (key of the score - base) >> shift, which 32 bits hold for every element of the leaf
/// ```
/// Only where codes are equal a search looks at the elements.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'a> {
    pub head: &'a Head,
    pub codes: &'a [u32],
    pub elements: &'a [Handle],
}

#[inline(always)]
pub(super) fn leaf(slab: &Slab, node: Handle) -> Leaf<'_> {
    let head = head(slab, node);
    assert_eq!(head.kind, LEAF);
    let (ptr, count) = (slab.ptr(node), head.count());
    let elements_at = HEAD_BYTES + 4 * head.capacity();
    // SAFETY: a leaf of this capacity, whose places were all initialised; `count` is at most the capacity (`set_count`). `Handle` is a
    // transparent u32.
    let (codes, elements) = unsafe { (part(ptr, HEAD_BYTES, count), part(ptr, elements_at, count)) };
    Leaf { head, codes, elements }
}

/// A leaf to be changed: all its places.
struct LeafMut<'a> {
    codes: &'a mut [u32],
    elements: &'a mut [Handle],
}

fn leaf_mut(slab: &mut Slab, node: Handle) -> LeafMut<'_> {
    let head = head(slab, node);
    assert_eq!(head.kind, LEAF);
    let (ptr, capacity) = (slab.ptr(node), head.capacity());
    // SAFETY: as in `leaf`, all places of the capacity were initialised; the two parts follow each other, and the slab is borrowed exclusively.
    unsafe {
        LeafMut {
            codes: part_mut(ptr, HEAD_BYTES, capacity),
            elements: part_mut(ptr, HEAD_BYTES + 4 * capacity, capacity),
        }
    }
}

/// Puts an element before the one at `at`. There must be room.
#[inline]
pub(super) fn leaf_insert(slab: &mut Slab, node: Handle, at: usize, code: u32, h: Handle) {
    let count = head(slab, node).count();
    let leaf = leaf_mut(slab, node);
    leaf.codes.copy_within(at..count, at + 1);
    leaf.elements.copy_within(at..count, at + 1);
    (leaf.codes[at], leaf.elements[at]) = (code, h);
    head_mut(slab, node).set_count(count + 1);
}

/// Appends elements of another leaf, with their codes as they are.
pub(super) fn leaf_append(slab: &mut Slab, node: Handle, from: Handle, range: std::ops::Range<usize>) {
    let (mut codes, mut elements) = ([0; LEAF_MAX], [Handle::NULL; LEAF_MAX]);
    let (count, n) = (head(slab, node).count(), range.len());
    let source = leaf(slab, from);
    codes[..n].copy_from_slice(&source.codes[range.clone()]);
    elements[..n].copy_from_slice(&source.elements[range]);
    let leaf = leaf_mut(slab, node);
    leaf.codes[count..count + n].copy_from_slice(&codes[..n]);
    leaf.elements[count..count + n].copy_from_slice(&elements[..n]);
    head_mut(slab, node).set_count(count + n);
}

/// An element has another handle.
pub(super) fn leaf_set_element(slab: &mut Slab, node: Handle, at: usize, h: Handle) {
    leaf_mut(slab, node).elements[at] = h;
}

/// Gives an element another code.
pub(super) fn leaf_set_code(slab: &mut Slab, node: Handle, at: usize, code: u32) {
    leaf_mut(slab, node).codes[at] = code;
}

/// Takes out `n` elements from `at` on.
pub(super) fn leaf_remove(slab: &mut Slab, node: Handle, at: usize, n: usize) {
    let count = head(slab, node).count();
    let leaf = leaf_mut(slab, node);
    leaf.codes.copy_within(at + n..count, at);
    leaf.elements.copy_within(at + n..count, at);
    head_mut(slab, node).set_count(count - n);
}

/// What codes are counted from, and the first of them anew (none: they stay as they are).
pub(super) fn leaf_recode(slab: &mut Slab, node: Handle, base: u64, shift: u8, codes: &[u32]) {
    leaf_mut(slab, node).codes[..codes.len()].copy_from_slice(codes);
    let head = head_mut(slab, node);
    (head.base, head.shift) = (base, shift);
}

/// Of an inner node each child, with its first element, that one's key, and how many elements it has.
///
/// ```text
///  byte 0       24              24 + 8 c       24 + 12 c      24 + 16 c      24 + 20 c       c: capacity
///      ┌───────┬───────────────┬──────────────┬──────────────┬──────────────┐
///      │ head  │ c x u64 key   │ c x u32 first│ c x u32 child│ c x u32 count│
///      └───────┴───────────────┴──────────────┴──────────────┴──────────────┘
/// ```
#[derive(Clone, Copy)]
pub(super) struct Inner<'a> {
    pub keys: &'a [u64],
    pub firsts: &'a [Handle],
    pub children: &'a [Handle],
    pub counts: &'a [u32],
}

/// A place of an inner node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub key: u64,
    pub first: Handle,
    pub node: Handle,
    pub count: u32,
}

impl Inner<'_> {
    pub(super) fn child(&self, at: usize) -> Child {
        Child { key: self.keys[at], first: self.firsts[at], node: self.children[at], count: self.counts[at] }
    }
}

#[inline(always)]
pub(super) fn inner(slab: &Slab, node: Handle) -> Inner<'_> {
    let head = head(slab, node);
    assert_eq!(head.kind, INNER);
    let (ptr, count, at) = (slab.ptr(node), head.count(), HEAD_BYTES);
    let c = head.capacity();
    // SAFETY: as in `leaf`, for the places of an inner node.
    unsafe {
        Inner {
            keys: part(ptr, at, count),
            firsts: part(ptr, at + 8 * c, count),
            children: part(ptr, at + 12 * c, count),
            counts: part(ptr, at + 16 * c, count),
        }
    }
}

/// An inner node to be changed: all its places.
pub(super) struct InnerMut<'a> {
    pub keys: &'a mut [u64],
    pub firsts: &'a mut [Handle],
    pub children: &'a mut [Handle],
    pub counts: &'a mut [u32],
}

impl InnerMut<'_> {
    pub(super) fn set(&mut self, at: usize, child: Child) {
        self.keys[at] = child.key;
        self.firsts[at] = child.first;
        self.children[at] = child.node;
        self.counts[at] = child.count;
    }
}

#[inline(always)]
pub(super) fn inner_mut(slab: &mut Slab, node: Handle) -> InnerMut<'_> {
    let head = head(slab, node);
    assert_eq!(head.kind, INNER);
    let (ptr, c, at) = (slab.ptr(node), head.capacity(), HEAD_BYTES);
    // SAFETY: as in `leaf_mut`, for the places of an inner node.
    unsafe {
        InnerMut {
            keys: part_mut(ptr, at, c),
            firsts: part_mut(ptr, at + 8 * c, c),
            children: part_mut(ptr, at + 12 * c, c),
            counts: part_mut(ptr, at + 16 * c, c),
        }
    }
}

/// Puts a child before the one at `at`. There must be room.
pub(super) fn inner_insert(slab: &mut Slab, node: Handle, at: usize, child: Child) {
    let count = head(slab, node).count();
    let mut inner = inner_mut(slab, node);
    inner.keys.copy_within(at..count, at + 1);
    inner.firsts.copy_within(at..count, at + 1);
    inner.children.copy_within(at..count, at + 1);
    inner.counts.copy_within(at..count, at + 1);
    inner.set(at, child);
    head_mut(slab, node).set_count(count + 1);
}

/// Takes out the child at `at`.
pub(super) fn inner_remove(slab: &mut Slab, node: Handle, at: usize) {
    let count = head(slab, node).count();
    let inner = inner_mut(slab, node);
    inner.keys.copy_within(at + 1..count, at);
    inner.firsts.copy_within(at + 1..count, at);
    inner.children.copy_within(at + 1..count, at);
    inner.counts.copy_within(at + 1..count, at);
    head_mut(slab, node).set_count(count - 1);
}

/// Forgets the children from `count` on.
pub(super) fn inner_truncate(slab: &mut Slab, node: Handle, count: usize) {
    head_mut(slab, node).set_count(count);
}

fn new_node(slab: &mut Slab, kind: u8, place: usize, capacity: usize, stamp: u32) -> Result<Handle, AllocError> {
    let bytes = HEAD_BYTES + place * capacity;
    debug_assert!(bytes <= NODE_BYTES_MAX);
    let node = slab.alloc(bytes, Kind::Interior)?;
    #[expect(clippy::cast_possible_truncation, reason = "at most LEAF_MAX")]
    let capacity = capacity as u16;
    let head = Head { kind, shift: 32, count: 0, capacity, unused: 0, stamp, unused_too: 0, base: 0 };
    let ptr = slab.ptr(node);
    // SAFETY: the chunk is `bytes` long, aligned to 8 and ours alone. All places are initialised, so that there may be references to them.
    unsafe {
        ptr.cast::<Head>().write(head);
        ptr.add(HEAD_BYTES).write_bytes(0, bytes - HEAD_BYTES);
    }
    Ok(node)
}

/// An empty leaf of at least this capacity: as much as its chunk holds.
pub(super) fn new_leaf(slab: &mut Slab, capacity: usize, stamp: u32) -> Result<Handle, AllocError> {
    let bytes = Slab::class_bytes(HEAD_BYTES + LEAF_PLACE * capacity.min(LEAF_MAX));
    new_node(slab, LEAF, LEAF_PLACE, (bytes - HEAD_BYTES) / LEAF_PLACE, stamp)
}

/// An empty inner node of at least this capacity.
pub(super) fn new_inner(slab: &mut Slab, capacity: usize, stamp: u32) -> Result<Handle, AllocError> {
    let bytes = Slab::class_bytes(HEAD_BYTES + INNER_PLACE * capacity.min(INNER_MAX));
    new_node(slab, INNER, INNER_PLACE, (bytes - HEAD_BYTES) / INNER_PLACE, stamp)
}

fn node_bytes(head: &Head) -> usize {
    HEAD_BYTES + head.capacity() * if head.kind == LEAF { LEAF_PLACE } else { INNER_PLACE }
}

/// The same node in a chunk of its own.
pub(super) fn copy_node(slab: &mut Slab, node: Handle, stamp: u32) -> Result<Handle, AllocError> {
    let bytes = node_bytes(head(slab, node));
    let copy = slab.alloc(bytes, Kind::Interior)?;
    // SAFETY: both chunks are at least `bytes` long, and the new one is ours alone.
    unsafe { slab.ptr(node).copy_to_nonoverlapping(slab.ptr(copy), bytes) };
    head_mut(slab, copy).stamp = stamp;
    Ok(copy)
}

// ---- Both ----

/// Memory of a node or an element.
pub(super) fn bytes_of(slab: &Slab, h: Handle) -> u64 {
    // SAFETY: a live chunk, whose first byte tells what it is (module invariants).
    let first = unsafe { slab.ptr(h).read() };
    if first >= LEAF { Slab::class_bytes(node_bytes(head(slab, h))) as u64 } else { element(slab, h).bytes(slab) }
}

/// The handle of a node or an element where a sweep has moved it, if it has: the caller puts it in the place of the old one, everywhere.
#[inline]
pub(super) fn offer(slab: &mut Slab, slice: &mut Slice, h: Handle) -> Option<Handle> {
    // SAFETY: live (module invariants), and given up by the caller.
    unsafe { slab.offer(slice, h) }
}

/// Frees a node or an element, which nobody may use afterwards; the memory that it took.
pub(super) fn free(slab: &mut Slab, h: Handle) -> u64 {
    let total = bytes_of(slab, h);
    // SAFETY: as in `bytes_of`.
    let first = unsafe { slab.ptr(h).read() };
    let bytes = if first >= LEAF {
        node_bytes(head(slab, h))
    } else {
        let element = element(slab, h);
        let bytes = element.chunk_bytes();
        if let Member::Blob(blob) = element.member() {
            slab.blob_release(blob);
        }
        bytes
    };
    // SAFETY: allocated here with this size, and out of use (caller).
    unsafe { slab.free(h, bytes) };
    total
}
