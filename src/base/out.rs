//! Output of one connection: bytes written in place, and large values by reference.
//!
//! Owns what waits to be sent, in order. Knows nothing of protocols (but for the frame of a RESP bulk string, which is written here in
//! one go because it is the hottest reply) and nothing of sockets.
//!
//! ```text
//! buf    | sent | bytes ............ | bytes ...... |
//!               ^ front              ^ parts[0].at  ^ parts[1].at, or the end
//! parts                              | blob of 64 KB, from its start on |
//! ```
#![allow(unsafe_code)]

use crate::base::bytes::copy_short;
use dolmen_slab::{BlobRef, SEGMENT_BYTES};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

/// A large value between two runs of bytes.
#[derive(Debug)]
struct Part {
    /// The value stands before the byte `at` of `buf`.
    at: usize,
    /// Of these bytes that are still to be sent.
    start: usize,
    end: usize,
    blob: BlobRef,
}

/// What few outputs have, boxed: large values, and bytes that must not be sent yet.
#[derive(Debug, Default)]
struct Parts {
    queue: VecDeque<Part>,
    /// Bytes of all parts that are still to be sent.
    queued: usize,
    hold: Option<Hold>,
}

/// What of an output may leave, and what waits until something has happened that is told by its number (a release mark).
///
/// ```text
/// | free ...... | bytes of marks[0] ... | bytes of marks[1] ... | written since, not marked yet |
/// ```
#[derive(Debug, Default)]
struct Hold {
    /// Bytes at the front that may be sent.
    free: usize,
    /// What waits, in order: until which number, and how many bytes.
    marks: VecDeque<(u64, usize)>,
    /// Bytes of all marks.
    marked: usize,
}

/// Marks of one output. What comes on top waits with the last: one that is there already is never put off by that.
const MARKS_MAX: usize = 4;

/// Bytes that wait to be sent to one connection, in order.
#[derive(Default, Debug)]
pub struct Out {
    buf: Vec<u8>,
    /// Bytes at the front of `buf` that the kernel has taken already.
    sent: usize,
    parts: Option<Box<Parts>>,
}

/// Compact `buf` when more than this much of its front was sent.
const COMPACT_BYTES: usize = 64 * 1024;

impl Out {
    #[must_use]
    pub fn new() -> Out {
        Out::default()
    }

    /// Bytes not yet taken by the kernel.
    #[inline]
    #[must_use]
    pub fn queued(&self) -> usize {
        self.buf.len() - self.sent + self.parts.as_ref().map_or(0, |p| p.queued)
    }

    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queued() == 0
    }

    /// Bytes of memory that this output itself holds (values by reference belong to the keyspace until it drops them).
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buf.capacity() + self.parts.as_ref().map_or(0, |p| p.queue.capacity() * size_of::<Part>())
    }

    /// Bytes queued by reference: they stay alive until they are sent, also when their key is gone.
    #[must_use]
    pub fn shared_bytes(&self) -> usize {
        self.parts.as_ref().map_or(0, |p| p.queued)
    }

    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len() + SLACK);
        // SAFETY: `reserve` made room for `bytes` and SLACK more; the source is a live slice of another allocation.
        unsafe {
            let end = self.buf.as_mut_ptr().add(self.buf.len());
            copy_short(bytes, end);
            self.buf.set_len(self.buf.len() + bytes.len());
        }
    }

    /// Some pieces, one behind the other.
    #[inline(always)]
    pub fn extend_all<const N: usize>(&mut self, pieces: [&[u8]; N]) {
        let bytes = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        self.reserve(bytes + SLACK);
        // SAFETY: `reserve` made room for all of them and SLACK more; the sources are live slices of other allocations.
        unsafe {
            let at = self.buf.len();
            let mut end = self.buf.as_mut_ptr().add(at);
            for piece in pieces {
                copy_short(piece, end);
                end = end.add(piece.len());
            }
            self.buf.set_len(at + bytes);
        }
    }

    /// `+OK\r\n`, the commonest reply.
    #[inline(always)]
    pub fn ok(&mut self) {
        self.reserve(8);
        // SAFETY: room for 8 bytes was made; 5 of them count.
        unsafe {
            self.buf.as_mut_ptr().add(self.buf.len()).cast::<[u8; 8]>().write_unaligned(*b"+OK\r\n\0\0\0");
            self.buf.set_len(self.buf.len() + 5);
        }
    }

    /// A RESP bulk string: `$<length>\r\n<bytes>\r\n`.
    #[inline(always)]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if bytes.len() >= 100 {
            return self.bulk_long(bytes);
        }
        self.reserve(bytes.len() + 8 + SLACK);
        // SAFETY: room for the header (at most 5 bytes, stored as 8), the body, the trailing CRLF and SLACK was made above.
        unsafe {
            let at = self.buf.len();
            let start = self.buf.as_mut_ptr().add(at);
            let header = BULK_HEADERS[bytes.len()].to_le_bytes();
            start.cast::<[u8; 8]>().write_unaligned(header);
            let header_bytes = usize::from(header[7]);
            let body = start.add(header_bytes);
            copy_short(bytes, body);
            body.add(bytes.len()).cast::<[u8; 2]>().write_unaligned(*b"\r\n");
            self.buf.set_len(at + header_bytes + bytes.len() + 2);
        }
    }

    #[inline(never)]
    fn bulk_long(&mut self, bytes: &[u8]) {
        // Not left to the vector: it would grow without ever using what is sent again.
        self.reserve(bytes.len() + FRAME_BYTES);
        self.bulk_header(bytes.len());
        self.buf.extend_from_slice(bytes);
        self.buf.extend_from_slice(b"\r\n");
    }

    fn bulk_header(&mut self, len: usize) {
        let mut digits = [0u8; 20];
        self.buf.push(b'$');
        self.buf.extend_from_slice(crate::base::int::write_u64(&mut digits, len as u64));
        self.buf.extend_from_slice(b"\r\n");
    }

    /// A RESP bulk string whose body is sent from where it lies.
    pub fn bulk_shared(&mut self, blob: BlobRef) {
        let bytes = 0..blob.len();
        self.bulk_shared_range(blob, bytes);
    }

    /// A RESP bulk string whose body is a part of a large value, sent from where it lies.
    pub fn bulk_shared_range(&mut self, blob: BlobRef, bytes: Range<usize>) {
        self.reserve(FRAME_BYTES);
        self.bulk_header(bytes.len());
        self.shared_range(blob, bytes);
        self.buf.extend_from_slice(b"\r\n");
    }

    /// The bytes of a large value, sent from where they lie.
    pub fn shared(&mut self, blob: BlobRef) {
        let bytes = 0..blob.len();
        self.shared_range(blob, bytes);
    }

    /// Some bytes of a large value, sent from where they lie.
    ///
    /// # Panics
    /// If the value has fewer bytes.
    pub fn shared_range(&mut self, blob: BlobRef, bytes: Range<usize>) {
        assert!(bytes.end <= blob.len(), "a part of the value");
        if bytes.is_empty() {
            return;
        }
        let parts = self.parts.get_or_insert_default();
        parts.queued += bytes.len();
        parts.queue.push_back(Part { at: self.buf.len(), start: bytes.start, end: bytes.end, blob });
    }

    /// Takes over all that waits in another output.
    pub fn append(&mut self, mut other: Out) {
        if self.is_empty() && (self.buf.capacity() < other.buf.capacity() || other.is_held()) {
            *self = other;
            return;
        }
        debug_assert!(!other.is_held(), "what is held is in front");
        let start = self.buf.len();
        self.reserve(other.buf.len() - other.sent);
        self.buf.extend_from_slice(&other.buf[other.sent..]);
        if let Some(theirs) = other.parts.take() {
            let parts = self.parts.get_or_insert_default();
            parts.queued += theirs.queued;
            let moved = theirs.queue.into_iter().map(|part| Part { at: part.at - other.sent + start, ..part });
            parts.queue.extend(moved);
        }
    }

    #[inline(always)]
    fn reserve(&mut self, bytes: usize) {
        if self.buf.capacity() - self.buf.len() < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, bytes: usize) {
        if self.sent >= COMPACT_BYTES && self.sent >= self.buf.len() / 2 {
            self.compact();
        }
        self.buf.reserve(bytes);
    }

    fn compact(&mut self) {
        self.buf.drain(..self.sent);
        if let Some(parts) = &mut self.parts {
            for part in &mut parts.queue {
                part.at -= self.sent;
            }
        }
        self.sent = 0;
    }

    /// Has all that was written since the last mark wait until `number` is released.
    pub fn hold(&mut self, number: u64) {
        let queued = self.queued();
        let parts = self.parts.get_or_insert_default();
        let hold = parts.hold.get_or_insert_default();
        let new = queued - hold.free - hold.marked;
        hold.marked += new;
        let full = hold.marks.len() == MARKS_MAX;
        match hold.marks.back_mut() {
            _ if new == 0 => {}
            Some(last) if full => *last = (number, last.1 + new),
            _ => hold.marks.push_back((number, new)),
        }
        self.settle_hold();
    }

    /// What waits for `number`, or one before it, may be sent.
    pub fn free(&mut self, number: u64) {
        let Some(hold) = self.parts.as_mut().and_then(|parts| parts.hold.as_mut()) else { return };
        while let Some((_, bytes)) = hold.marks.pop_front_if(|(until, _)| *until <= number) {
            hold.marked -= bytes;
            hold.free += bytes;
        }
        self.settle_hold();
    }

    /// Forgets a hold that holds nothing.
    fn settle_hold(&mut self) {
        let Some(parts) = &mut self.parts else { return };
        if parts.hold.as_ref().is_some_and(|hold| hold.marks.is_empty()) {
            parts.hold = None;
            if parts.queue.is_empty() {
                self.parts = None;
            }
        }
    }

    /// Does some of it wait for a release?
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.hold.is_some())
    }

    /// Bytes that may be sent now.
    #[inline]
    #[must_use]
    pub fn sendable(&self) -> usize {
        match &self.parts {
            Some(parts) => parts.hold.as_ref().map_or_else(|| self.queued(), |hold| hold.free),
            None => self.queued(),
        }
    }

    /// What to send next, at most `max` slices. Empty only if nothing may be sent.
    pub fn slices<'a>(&'a self, into: &mut Vec<IoSlice<'a>>, max: usize) {
        let (mut at, mut left) = (self.sent, self.sendable());
        let mut push = |bytes: &'a [u8], into: &mut Vec<IoSlice<'a>>| {
            let bytes = &bytes[..bytes.len().min(left)];
            left -= bytes.len();
            let takes = !bytes.is_empty() && into.len() < max;
            if takes {
                into.push(IoSlice::new(bytes));
            }
            takes
        };
        if let Some(parts) = &self.parts {
            for part in &parts.queue {
                if part.at > at {
                    if !push(&self.buf[at..part.at], into) {
                        return;
                    }
                    at = part.at;
                }
                // All segments but the last are of one length: what is sent of a huge value need not be counted through.
                let mut from = part.start;
                while from < part.end {
                    let segment = &part.blob.segment(from / SEGMENT_BYTES)[from % SEGMENT_BYTES..];
                    let segment = &segment[..segment.len().min(part.end - from)];
                    if !push(segment, into) {
                        return;
                    }
                    from += segment.len();
                }
            }
        }
        if at < self.buf.len() {
            push(&self.buf[at..], into);
        }
    }

    /// The whole output as one slice, if no value by reference is in it, and nothing is held.
    #[inline]
    #[must_use]
    pub fn plain(&self) -> Option<&[u8]> {
        self.parts.is_none().then(|| &self.buf[self.sent..])
    }

    /// `bytes` of the front were taken.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        if self.parts.is_some() {
            return self.advance_parts(bytes);
        }
        self.sent += bytes;
        debug_assert!(self.sent <= self.buf.len(), "the kernel took more than there was");
        if self.sent == self.buf.len() {
            self.buf.clear();
            self.sent = 0;
        }
    }

    #[cold]
    fn advance_parts(&mut self, mut bytes: usize) {
        let Some(parts) = &mut self.parts else { return };
        if let Some(hold) = &mut parts.hold {
            hold.free -= bytes;
        }
        while let Some(front) = parts.queue.front_mut() {
            let plain = (front.at - self.sent).min(bytes);
            self.sent += plain;
            bytes -= plain;
            if self.sent < front.at {
                debug_assert_eq!(bytes, 0);
                return;
            }
            let left = front.end - front.start;
            let taken = left.min(bytes);
            front.start += taken;
            parts.queued -= taken;
            bytes -= taken;
            if taken < left {
                return;
            }
            parts.queue.pop_front();
        }
        let held = self.parts.take().filter(|parts| parts.hold.is_some());
        self.advance(bytes);
        self.parts = held;
    }

    /// Gives an empty output a recycled buffer.
    #[inline]
    pub fn adopt(&mut self, buf: Vec<u8>) {
        debug_assert!(self.buf.is_empty() && buf.is_empty());
        self.buf = buf;
    }

    /// Takes the buffer of an empty output back for recycling.
    #[inline]
    pub fn release(&mut self) -> Vec<u8> {
        debug_assert!(self.is_empty());
        self.sent = 0;
        let mut buf = std::mem::take(&mut self.buf);
        buf.clear();
        buf
    }

    /// Drops everything that is queued.
    pub fn discard(&mut self) {
        self.buf.clear();
        self.sent = 0;
        self.parts = None;
    }
}

/// Most bytes of a bulk string beside its body: `$`, the digits, twice CRLF.
const FRAME_BYTES: usize = 1 + crate::base::int::MAX_DIGITS + 4;

/// Room behind every write, so that short copies may store whole words.
const SLACK: usize = 16;

/// `$0\r\n` to `$99\r\n`, each one store, whose last byte is the length: what comes behind is written over it.
static BULK_HEADERS: [u64; 100] = {
    let mut table = [0; 100];
    let mut n = 0u8;
    while n < 100 {
        table[n as usize] = u64::from_le_bytes(if n < 10 {
            [b'$', b'0' + n, b'\r', b'\n', 0, 0, 0, 4]
        } else {
            [b'$', b'0' + n / 10, b'0' + n % 10, b'\r', b'\n', 0, 0, 5]
        });
        n += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_slab::{Config, Slab};
    use proptest::prelude::*;

    fn all(out: &Out) -> Vec<u8> {
        let mut slices = Vec::new();
        out.slices(&mut slices, usize::MAX);
        slices.iter().fold(Vec::new(), |mut all, slice| {
            all.extend_from_slice(slice);
            all
        })
    }

    #[test]
    fn bulk_of_every_short_length() {
        for n in 0..300 {
            let value: Vec<u8> = (0..n).map(|i| b'a' + u8::try_from(i % 26).unwrap()).collect();
            let mut out = Out::new();
            out.bulk(&value);
            out.ok();
            assert_eq!(all(&out), [format!("${n}\r\n").as_bytes(), &value, b"\r\n+OK\r\n"].concat());
        }
    }

    #[test]
    fn values_by_reference_keep_their_place_whatever_the_kernel_takes() {
        let mut slab = Slab::new(Config::default()).unwrap();
        let big: Vec<u8> = (0..700_000u32).map(|i| (i % 251) as u8).collect();
        let id = slab.blob_new(big.len()).unwrap();
        slab.blob_append(id, &big).unwrap();
        for step in [1usize, 7, 4096, 65_537, 300_000, usize::MAX] {
            let mut out = Out::new();
            let mut want = Vec::new();
            for i in 0..3 {
                out.extend(format!("before {i}").as_bytes());
                want.extend_from_slice(format!("before {i}").as_bytes());
                if i != 1 {
                    out.bulk_shared(slab.blob_ref(id));
                    want.extend_from_slice(format!("${}\r\n", big.len()).as_bytes());
                    want.extend_from_slice(&big);
                    want.extend_from_slice(b"\r\n");
                }
            }
            assert_eq!(out.queued(), want.len());
            let mut got = Vec::new();
            while !out.is_empty() {
                let mut slices = Vec::new();
                out.slices(&mut slices, 2);
                assert!(!slices.is_empty() && slices.len() <= 2);
                let take =
                    slices.iter().map(|s| s.len()).sum::<usize>().min(step.max(if got.len() < 100 { 1 } else { 9973 }));
                let flat: Vec<u8> = slices.iter().flat_map(|s| s.to_vec()).collect();
                got.extend_from_slice(&flat[..take]);
                out.advance(take);
                assert_eq!(out.queued(), want.len() - got.len());
            }
            assert!(got == want, "step {step}");
        }
    }

    /// What the kernel has taken makes room again, though the output never runs empty.
    #[test]
    fn a_client_that_is_always_behind_costs_no_more_than_what_is_queued() {
        let mut slab = Slab::new(Config::default()).unwrap();
        let id = slab.blob_new(20_000).unwrap();
        slab.blob_append(id, &[7; 20_000]).unwrap();
        for kind in 0..4 {
            let mut out = Out::new();
            for _ in 0..40_000 {
                match kind {
                    0 => out.bulk(&[b'x'; 40]),
                    1 => out.bulk(&[b'x'; 1000]),
                    2 => out.extend(&[b'x'; 1000]),
                    _ => out.bulk_shared(slab.blob_ref(id)),
                }
                while out.queued() > 50_000 {
                    out.advance(10_000);
                }
            }
            assert!(out.queued() > 30_000 && out.capacity() < 300_000, "kind {kind}: {} bytes", out.capacity());
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Extend(usize),
        Ok,
        Bulk(usize),
        Shared(usize),
        BulkShared(usize),
        /// A blob, and thousandths of it where the range begins and ends.
        BulkRange(usize, usize, usize),
        /// So many thousandths of what is queued are sent.
        Advance(usize),
        Discard,
    }

    fn step() -> impl Strategy<Value = Step> {
        let len = || prop_oneof![4 => 0usize..40, 2 => 90usize..110, 1 => 110usize..5000, 1 => 50_000usize..90_000];
        prop_oneof![
            4 => len().prop_map(Step::Extend),
            4 => Just(Step::Ok),
            6 => len().prop_map(Step::Bulk),
            1 => (0..BLOBS.len()).prop_map(Step::Shared),
            2 => (0..BLOBS.len()).prop_map(Step::BulkShared),
            2 => (0..BLOBS.len(), 0..=1000usize, 0..=1000usize).prop_map(|(i, a, b)| Step::BulkRange(i, a.min(b), a.max(b))),
            3 => prop_oneof![0..1000usize, Just(1000)].prop_map(Step::Advance),
            1 => Just(Step::Discard),
        ]
    }

    const BLOBS: [usize; 5] = [0, 1, 20_000, SEGMENT_BYTES, 2 * SEGMENT_BYTES + 5];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a plain vector, whatever is written, taken and dropped. The blobs are gone from the slab meanwhile.
        #[test]
        fn programs(steps in proptest::collection::vec(step(), 1..60), max in 1usize..5) {
            let mut slab = Slab::new(Config { reserve_bytes: 1 << 20, blob_reserve_bytes: 16 << 20, ..Config::default() }).unwrap();
            let pattern: Vec<u8> = (0..600_000u32).map(|i| (i % 251) as u8).collect();
            let text = |seed: usize, len: usize| pattern[seed..][..len].to_vec();
            let blobs: Vec<_> = BLOBS.iter().enumerate().map(|(i, &len)| {
                let id = slab.blob_new(len).unwrap();
                slab.blob_append(id, &text(i, len)).unwrap();
                let blob = slab.blob_ref(id);
                slab.blob_release(id);
                blob
            }).collect();
            let mut out = Out::new();
            let mut want = Vec::new();
            for (seed, step) in steps.iter().enumerate() {
                match *step {
                    Step::Extend(len) => {
                        out.extend(&text(seed, len));
                        want.extend(text(seed, len));
                    }
                    Step::Ok => {
                        out.ok();
                        want.extend_from_slice(b"+OK\r\n");
                    }
                    Step::Bulk(len) => {
                        out.bulk(&text(seed, len));
                        want.extend([format!("${len}\r\n").as_bytes(), &text(seed, len), b"\r\n"].concat());
                    }
                    Step::Shared(i) => {
                        out.shared(blobs[i].clone());
                        want.extend(text(i, BLOBS[i]));
                    }
                    Step::BulkShared(i) => {
                        out.bulk_shared(blobs[i].clone());
                        want.extend([format!("${}\r\n", BLOBS[i]).as_bytes(), &text(i, BLOBS[i]), b"\r\n"].concat());
                    }
                    Step::BulkRange(i, start, end) => {
                        let range = BLOBS[i] * start / 1000..BLOBS[i] * end / 1000;
                        out.bulk_shared_range(blobs[i].clone(), range.clone());
                        let body = &text(i, BLOBS[i])[range];
                        want.extend([format!("${}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat());
                    }
                    Step::Advance(thousandths) => {
                        let bytes = want.len() * thousandths / 1000;
                        out.advance(bytes);
                        want.drain(..bytes);
                    }
                    Step::Discard => {
                        out.discard();
                        want.clear();
                    }
                }
                prop_assert_eq!(out.queued(), want.len());
                prop_assert_eq!(out.is_empty(), want.is_empty());
                prop_assert!(out.shared_bytes() <= want.len());
                if let Some(plain) = out.plain() {
                    prop_assert!(plain == want && out.shared_bytes() == 0);
                }
                let mut slices = Vec::new();
                out.slices(&mut slices, max);
                prop_assert!(slices.len() <= max && slices.iter().all(|s| !s.is_empty()));
                prop_assert_eq!(slices.is_empty(), want.is_empty());
                let mut rest = &want[..];
                for slice in &slices {
                    rest = rest.strip_prefix(&slice[..]).expect("other bytes than were written");
                }
                prop_assert!(all(&out) == want);
                if out.is_empty() {
                    let buf = out.release();
                    out.adopt(buf);
                }
            }
        }
    }
}
