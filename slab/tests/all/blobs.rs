//! Blobs: programs of operations against byte vectors; references across threads; sizes that need every level of the index.

use std::collections::HashMap;

use dolmen_slab::{BlobId, BlobRef, Config, SEGMENT_BYTES, Slab};
use proptest::prelude::*;

use crate::model::{Choices, programs};

#[derive(Clone, Debug)]
enum Op {
    New { hint: usize },
    Append { blob: usize, bytes: usize },
    Receive { blob: usize, bytes: usize },
    WriteAt { blob: usize, offset: usize, bytes: usize },
    ExtendZeros { blob: usize, bytes: usize },
    Release { blob: usize },
    Ref { blob: usize },
    CloneRef { index: usize },
    DropRef { index: usize },
    Pin { blob: usize },
    DropPin { index: usize },
    Drain { budget: usize },
    Decay { after_ms: u64, budget: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let bytes =
        prop_oneof![3 => 0..30_000usize, 2 => 0..700_000usize, 1 => Just(SEGMENT_BYTES), 1 => 0..2_000_000usize];
    let any_index = any::<usize>();
    prop::collection::vec(
        prop_oneof![
            3 => prop_oneof![Just(0), Just(20_000), Just(65_536), 0..2_000_000usize].prop_map(|hint| Op::New { hint }),
            6 => (any_index, bytes.clone()).prop_map(|(blob, bytes)| Op::Append { blob, bytes }),
            3 => (any_index, bytes.clone()).prop_map(|(blob, bytes)| Op::Receive { blob, bytes }),
            5 => (any_index, any_index, bytes.clone()).prop_map(|(blob, offset, bytes)| Op::WriteAt { blob, offset, bytes }),
            4 => (any_index, bytes).prop_map(|(blob, bytes)| Op::ExtendZeros { blob, bytes }),
            2 => any_index.prop_map(|blob| Op::Release { blob }),
            4 => any_index.prop_map(|blob| Op::Ref { blob }),
            1 => any_index.prop_map(|index| Op::CloneRef { index }),
            3 => any_index.prop_map(|index| Op::DropRef { index }),
            2 => any_index.prop_map(|blob| Op::Pin { blob }),
            1 => any_index.prop_map(|index| Op::DropPin { index }),
            1 => (0..20usize).prop_map(|budget| Op::Drain { budget }),
            1 => (0..2000u64, 0..100usize).prop_map(|(after_ms, budget)| Op::Decay { after_ms, budget }),
        ],
        1..50,
    )
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut word = seed | 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

/// References that go in the order of their making free what they say they hold: each version when its last reference goes.
fn drop_from_the_oldest(slab: &mut Slab, refs: Vec<(BlobRef, Vec<u8>)>) {
    let kept = |slab: &Slab| slab.blob_stats().kept_bytes;
    for (reference, expected) in refs {
        let (held, before) = (reference.held_bytes(), kept(slab));
        assert!(held <= before);
        assert_ref(&reference, &expected);
        drop(reference);
        while slab.drain_frees(5) {}
        // Pages that an older version, whose reference comes later here, uses too are not freed yet.
        assert!(before - kept(slab) <= held, "{} bytes freed, {held} held", before - kept(slab));
    }
    assert_eq!(kept(slab), 0);
}

fn assert_blob(slab: &Slab, id: BlobId, expected: &[u8]) {
    assert_blob_bytes(slab, id, expected);
    // Segments of zeros may be holes.
    let solid = expected.chunks(SEGMENT_BYTES).filter(|part| part.iter().any(|&byte| byte != 0));
    assert!(slab.blob_bytes(id) >= solid.map(<[u8]>::len).sum::<usize>() as u64);
}

fn assert_blob_bytes(slab: &Slab, id: BlobId, expected: &[u8]) {
    assert_eq!(slab.blob_len(id), expected.len());
    assert_eq!(slab.blob_segments(id), expected.len().div_ceil(SEGMENT_BYTES));
    for (index, part) in expected.chunks(SEGMENT_BYTES).enumerate() {
        assert!(slab.blob_segment(id, index) == part, "segment {index} of {id:?}");
    }
}

fn assert_ref(reference: &BlobRef, expected: &[u8]) {
    assert_eq!((reference.len(), reference.is_empty()), (expected.len(), expected.is_empty()));
    assert_eq!(reference.segments(), expected.len().div_ceil(SEGMENT_BYTES));
    for (index, part) in expected.chunks(SEGMENT_BYTES).enumerate() {
        assert!(reference.segment(index) == part, "segment {index} of a reference");
    }
}

proptest! {
    #![proptest_config(programs())]

    #[test]
    fn programs_agree_with_vectors(ops in ops()) {
        let mut slab = Slab::new(Config::default()).unwrap();
        let mut blobs = HashMap::<u32, Vec<u8>>::new();
        let mut order = Vec::<BlobId>::new();
        let mut refs = Vec::<(BlobRef, Vec<u8>)>::new();
        let mut pins = Vec::<(BlobId, Vec<u8>)>::new();
        let mut now_ms = 0;
        slab.release(now_ms, 0);
        for (step, op) in ops.into_iter().enumerate() {
            let seed = step as u64 + 1;
            let pick = |index: usize, len: usize| (len > 0).then(|| index % len);
            match op {
                Op::New { hint } => {
                    let id = slab.blob_new(hint).unwrap();
                    prop_assert!(id.bits() != 0);
                    prop_assert!(blobs.insert(id.bits(), Vec::new()).is_none());
                    order.push(id);
                }
                Op::Append { blob, bytes } => if let Some(index) = pick(blob, order.len()) {
                    let bytes = noise(seed, bytes);
                    slab.blob_append(order[index], &bytes).unwrap();
                    blobs.get_mut(&order[index].bits()).unwrap().extend_from_slice(&bytes);
                }
                Op::Receive { blob, bytes } => if let Some(index) = pick(blob, order.len()) {
                    // As a socket would: into whatever room there is.
                    let id = order[index];
                    let bytes = noise(seed, bytes);
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let spare = slab.blob_spare(id).unwrap();
                        prop_assert!(!spare.is_empty());
                        let n = spare.len().min(rest.len());
                        spare[..n].copy_from_slice(&rest[..n]);
                        slab.blob_advance(id, n);
                        rest = &rest[n..];
                    }
                    blobs.get_mut(&id.bits()).unwrap().extend_from_slice(&bytes);
                }
                Op::WriteAt { blob, offset, bytes } => if let Some(index) = pick(blob, order.len()) {
                    let expected = blobs.get_mut(&order[index].bits()).unwrap();
                    let offset = offset % (expected.len() + 1);
                    let bytes = noise(seed, bytes.min(expected.len() - offset));
                    slab.blob_write_at(order[index], offset, &bytes).unwrap();
                    expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                Op::ExtendZeros { blob, bytes } => if let Some(index) = pick(blob, order.len()) {
                    let expected = blobs.get_mut(&order[index].bits()).unwrap();
                    slab.blob_extend_zeros(order[index], expected.len() + bytes).unwrap();
                    expected.resize(expected.len() + bytes, 0);
                }
                Op::Release { blob } => if let Some(index) = pick(blob, order.len()) {
                    let id = order.swap_remove(index);
                    blobs.remove(&id.bits());
                    slab.blob_release(id);
                }
                Op::Ref { blob } => if let Some(index) = pick(blob, order.len()) {
                    refs.push((slab.blob_ref(order[index]), blobs[&order[index].bits()].clone()));
                }
                Op::CloneRef { index } => if let Some(index) = pick(index, refs.len()) {
                    refs.push(refs[index].clone());
                }
                Op::DropRef { index } => if let Some(index) = pick(index, refs.len()) {
                    refs.remove(index);
                }
                Op::Pin { blob } => if let Some(index) = pick(blob, order.len()) {
                    let (before, used) = (slab.blob_bytes(order[index]), slab.used_bytes());
                    let pin = slab.blob_pin(order[index]).unwrap();
                    prop_assert_eq!(slab.used_bytes(), used, "a pin shares everything");
                    prop_assert_eq!((slab.blob_bytes(order[index]), slab.blob_bytes(pin)), (before, 0));
                    pins.push((pin, blobs[&order[index].bits()].clone()));
                }
                Op::DropPin { index } => if let Some(index) = pick(index, pins.len()) {
                    slab.blob_release(pins.remove(index).0);
                }
                Op::Drain { budget } => {
                    slab.drain_frees(budget);
                }
                Op::Decay { after_ms, budget } => {
                    now_ms += after_ms;
                    slab.release(now_ms, budget);
                }
            }
            let held: u64 = order.iter().map(|&id| slab.blob_bytes(id)).sum();
            let stats = slab.blob_stats();
            prop_assert_eq!(stats.used_bytes, held + stats.kept_bytes);
            prop_assert_eq!(stats.blobs, (order.len() + pins.len()) as u64);
        }
        for &id in &order {
            assert_blob(&slab, id, &blobs[&id.bits()]);
        }
        for (reference, expected) in &refs {
            assert_ref(reference, expected);
        }
        for (pin, expected) in &pins {
            assert_blob_bytes(&slab, *pin, expected);
            refs.push((slab.blob_ref(*pin), expected.clone()));
        }
        for (pin, _) in pins {
            slab.blob_release(pin);
        }
        while slab.drain_frees(3) {}
        drop_from_the_oldest(&mut slab, refs);
        let held: u64 = order.iter().map(|&id| slab.blob_bytes(id)).sum();
        prop_assert_eq!(slab.used_bytes(), held, "exact when no reader is left");
        for &id in &order {
            assert_blob(&slab, id, &blobs[&id.bits()]);
            slab.blob_release(id);
        }
        while slab.drain_frees(3) {}
        prop_assert_eq!(slab.used_bytes(), 0);
        slab.release(now_ms + 10_000, usize::MAX);
        prop_assert_eq!(slab.resident_estimate_bytes(), 0);
    }
}

/// Grows a blob to `len` without touching its memory.
fn stretch(slab: &mut Slab, id: BlobId, len: usize) {
    while slab.blob_len(id) < len {
        let rest = len - slab.blob_len(id);
        let n = slab.blob_spare(id).unwrap().len().min(rest);
        slab.blob_advance(id, n);
    }
}

#[test]
fn five_gigabytes_are_addressed_copied_on_write_and_freed_in_slices() {
    const LEN: usize = 5 << 30;
    let mut slab = Slab::new(Config::default()).unwrap();
    let id = slab.blob_new(LEN).unwrap();
    stretch(&mut slab, id, LEN);
    assert_eq!((slab.blob_len(id), slab.blob_segments(id)), (LEN, LEN / SEGMENT_BYTES));
    let places = [0, 5 * SEGMENT_BYTES - 2, (1 << 30) + 77, (5 + 4096) * SEGMENT_BYTES - 1, LEN - 4];
    for (index, &place) in places.iter().enumerate() {
        slab.blob_write_at(id, place, &[u8::try_from(index).unwrap() + 1; 4]).unwrap();
    }
    let reference = slab.blob_ref(id);
    let used = slab.used_bytes();
    for &place in &places {
        slab.blob_write_at(id, place, &[99; 4]).unwrap();
    }
    // Only the extents written to were copied (and the index).
    let copied = slab.used_bytes() - used;
    assert!(copied <= ((places.len() + 2) * SEGMENT_BYTES + 5 * INDEX_BYTES) as u64, "{copied} bytes copied");
    assert_eq!(reference.held_bytes() + slab.blob_bytes(id), slab.used_bytes());
    for (index, &place) in places.iter().enumerate() {
        for byte in place..place + 4 {
            let (segment, at) = (byte / SEGMENT_BYTES, byte % SEGMENT_BYTES);
            assert_eq!(reference.segment(segment)[at], u8::try_from(index).unwrap() + 1);
            assert_eq!(slab.blob_segment(id, segment)[at], 99);
        }
    }
    drop(reference);
    slab.blob_release(id);
    let mut slices = 1;
    while slab.drain_frees(1000) {
        slices += 1;
    }
    assert!(slices >= 20, "{slices} slices");
    assert_eq!(slab.used_bytes(), 0);
}

/// A leaf or directory of the index.
const INDEX_BYTES: usize = 16 << 10;

/// Whatever the size, the first write under a reader copies one extent and one leaf, the next one nothing, and appending next to nothing.
#[test]
fn a_byte_written_under_a_reader_costs_the_same_in_any_blob() {
    let mut slab = Slab::new(Config::default()).unwrap();
    for len in [SEGMENT_BYTES, 5 << 20, 512 << 20, 8 << 30] {
        let id = slab.blob_new(len).unwrap();
        stretch(&mut slab, id, len);
        let reference = slab.blob_ref(id);
        assert_eq!((reference.held_bytes(), slab.blob_stats().kept_bytes), (0, 0));
        let used = slab.used_bytes();
        slab.blob_write_at(id, len / 2, b"x").unwrap();
        // Extent, leaf, and directory if there is one.
        let first = slab.used_bytes() - used;
        assert!(first <= (SEGMENT_BYTES + 2 * INDEX_BYTES) as u64, "{first} bytes for the first write in {len}");
        assert_eq!((reference.held_bytes(), slab.blob_stats().kept_bytes), (first, first));
        let used = slab.used_bytes();
        slab.blob_write_at(id, len / 2, b"y").unwrap();
        assert_eq!(slab.used_bytes(), used);
        slab.blob_append(id, b"z").unwrap();
        let appended = slab.used_bytes() - used;
        assert!(appended <= (SEGMENT_BYTES + INDEX_BYTES) as u64, "{appended} bytes for an append to {len}");
        assert_eq!(reference.segment(len / 2 / SEGMENT_BYTES)[len / 2 % SEGMENT_BYTES], 0);
        assert_eq!(slab.blob_segment(id, len / 2 / SEGMENT_BYTES)[len / 2 % SEGMENT_BYTES], b'y');
        slab.blob_release(id);
        while slab.drain_frees(100) {}
        // The last of it is the reader's alone.
        assert!(reference.held_bytes() >= len as u64);
        assert_eq!(reference.held_bytes(), slab.used_bytes());
        drop(reference);
        while slab.drain_frees(100) {}
        assert_eq!(slab.used_bytes(), 0);
    }
}

#[derive(Clone, Debug)]
enum SparseOp {
    /// One byte of so many extents, chosen by a seed.
    Write(u64, usize),
    Grow(usize),
    /// The same by holes.
    Stretch(usize),
    Ref,
    Pin,
    Drop(usize),
    Drain(usize),
}

/// A reference or pin, the length it has seen, and the bytes by segment.
type Version = (Result<BlobRef, BlobId>, usize, HashMap<usize, u8>);

/// Versions of a blob whose index has several leaves and a directory, of which only a few extents are ever touched.
fn sparse(ops: Vec<SparseOp>) {
    const PLACES: usize = 3000;
    let mut slab = Slab::new(Config::default()).unwrap();
    let id = slab.blob_new(0).unwrap();
    stretch(&mut slab, id, 400 << 20);
    let mut model = HashMap::<usize, u8>::new();
    let mut versions = Vec::<Version>::new();
    let read = |slab: &Slab, version: &Result<BlobRef, BlobId>, segment: usize| match version {
        Ok(reference) => reference.segment(segment)[7],
        Err(pin) => slab.blob_segment(*pin, segment)[7],
    };
    let check = |slab: &Slab, versions: &[Version], model: &HashMap<usize, u8>| {
        for (version, len, expected) in versions {
            for segment in model.keys().filter(|&&segment| segment < len / SEGMENT_BYTES) {
                assert_eq!(
                    read(slab, version, *segment),
                    expected.get(segment).copied().unwrap_or(0),
                    "segment {segment}"
                );
            }
        }
        for (segment, byte) in model {
            assert_eq!(slab.blob_segment(id, *segment)[7], *byte);
        }
    };
    for (step, op) in ops.into_iter().enumerate() {
        match op {
            SparseOp::Write(seed, count) => {
                let segments = slab.blob_len(id) / SEGMENT_BYTES;
                for n in 0..count {
                    let segment = Choices(seed + n as u64).below(PLACES) % segments;
                    let byte = u8::try_from(step % 255).unwrap() + 1;
                    slab.blob_write_at(id, segment * SEGMENT_BYTES + 7, &[byte]).unwrap();
                    model.insert(segment, byte);
                }
            }
            SparseOp::Grow(bytes) => {
                let len = slab.blob_len(id) + bytes;
                stretch(&mut slab, id, len);
            }
            SparseOp::Stretch(bytes) => {
                let len = slab.blob_len(id) + bytes;
                slab.blob_extend_zeros(id, len).unwrap();
            }
            SparseOp::Ref => versions.push((Ok(slab.blob_ref(id)), slab.blob_len(id), model.clone())),
            SparseOp::Pin => versions.push((Err(slab.blob_pin(id).unwrap()), slab.blob_len(id), model.clone())),
            SparseOp::Drop(index) if !versions.is_empty() => {
                let index = index % versions.len();
                if let (Err(pin), ..) = versions.remove(index) {
                    slab.blob_release(pin);
                }
            }
            SparseOp::Drop(_) => {}
            SparseOp::Drain(budget) => {
                slab.drain_frees(budget);
            }
        }
        let stats = slab.blob_stats();
        assert_eq!(stats.used_bytes, slab.blob_bytes(id) + stats.kept_bytes);
    }
    check(&slab, &versions, &model);
    while slab.drain_frees(7) {}
    while !versions.is_empty() {
        let kept = slab.blob_stats().kept_bytes;
        let (version, ..) = versions.remove(0);
        let held = match version {
            Ok(reference) => reference.held_bytes(),
            Err(pin) => {
                let held = slab.blob_bytes(pin);
                slab.blob_release(pin);
                held
            }
        };
        while slab.drain_frees(1000) {}
        // The oldest version frees what it holds, with its last reference.
        let freed = kept - slab.blob_stats().kept_bytes;
        assert!(freed == held || freed == 0, "{freed} freed, {held} held");
        check(&slab, &versions, &model);
    }
    assert_eq!(slab.used_bytes(), slab.blob_bytes(id));
    slab.blob_release(id);
    while slab.drain_frees(1000) {}
    assert_eq!(slab.used_bytes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..programs() })]

    #[test]
    fn versions_of_a_huge_blob(ops in prop::collection::vec(prop_oneof![
        5 => (any::<u32>(), 1..12usize).prop_map(|(seed, count)| SparseOp::Write(seed.into(), count)),
        2 => (0..90usize << 20).prop_map(SparseOp::Grow),
        2 => (0..90usize << 20).prop_map(SparseOp::Stretch),
        3 => Just(SparseOp::Ref),
        2 => Just(SparseOp::Pin),
        3 => any::<usize>().prop_map(SparseOp::Drop),
        2 => (0..3000usize).prop_map(SparseOp::Drain),
    ], 1..40)) {
        sparse(ops);
    }
}

/// A version that is being freed has handed on what only an older one uses, also when that is freed before it has gone.
#[test]
fn versions_are_freed_in_any_order_and_in_slices() {
    const LEN: usize = 700 * SEGMENT_BYTES;
    for (first, second) in [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)] {
        for slice in [1, 2, 100, 650] {
            let mut slab = Slab::new(Config::default()).unwrap();
            let id = slab.blob_new(LEN).unwrap();
            stretch(&mut slab, id, LEN);
            let mut pins = Vec::new();
            for place in [0, 20, 650] {
                pins.push(Some(slab.blob_pin(id).unwrap()));
                slab.blob_write_at(id, place * SEGMENT_BYTES, b"x").unwrap();
            }
            let last = 3 - first - second;
            for index in [first, second, last] {
                slab.blob_release(pins[index].take().unwrap());
                slab.drain_frees(slice);
                let held: u64 = [Some(id)].iter().chain(&pins).flatten().map(|&id| slab.blob_bytes(id)).sum();
                assert!(held <= slab.used_bytes() && slab.blob_bytes(id) >= LEN as u64);
            }
            while slab.drain_frees(slice) {}
            assert_eq!((slab.blob_stats().kept_bytes, slab.used_bytes()), (0, slab.blob_bytes(id)));
        }
    }
}

#[test]
#[should_panic(expected = "pinned")]
fn a_pin_cannot_be_written_to() {
    let mut slab = Slab::new(Config::default()).unwrap();
    let id = slab.blob_new(10).unwrap();
    slab.blob_append(id, b"0123456789").unwrap();
    let pin = slab.blob_pin(id).unwrap();
    slab.blob_append(id, b"on").unwrap();
    let _ = slab.blob_write_at(pin, 0, b"x");
}

#[test]
fn a_hole_takes_memory_where_it_is_written() {
    const LEN: usize = (512 << 20) + 5;
    let mut slab = Slab::new(Config::default()).unwrap();
    // Memory that was used before, so that holes must not show what is left in it.
    let old = slab.blob_new(0).unwrap();
    slab.blob_append(old, &vec![0xaa; 3 << 20]).unwrap();
    slab.blob_release(old);
    while slab.drain_frees(64) {}
    let resident = slab.resident_estimate_bytes();

    let id = slab.blob_new(0).unwrap();
    slab.blob_append(id, b"head").unwrap();
    slab.blob_extend_zeros(id, LEN).unwrap();
    slab.blob_extend_zeros(id, 7).unwrap();
    assert_eq!(slab.blob_len(id), LEN);
    assert!(slab.used_bytes() < 1 << 20, "{} bytes used", slab.used_bytes());
    assert_eq!(slab.used_bytes(), slab.blob_bytes(id));
    let reference = slab.blob_ref(id);
    for place in [300 << 20, (300 << 20) + 1, 5, LEN - 1] {
        slab.blob_write_at(id, place, b"x").unwrap();
    }
    for index in 0..reference.segments() {
        let head: &[u8] = if index == 0 { b"head" } else { b"" };
        let (before, after) = (reference.segment(index), slab.blob_segment(id, index));
        assert!(before.starts_with(head) && before[head.len()..].iter().all(|&byte| byte == 0), "segment {index}");
        let written: Vec<usize> =
            (0..after.len()).filter(|&at| after[at] == b'x').map(|at| index * SEGMENT_BYTES + at).collect();
        let expected = [5, 300 << 20, (300 << 20) + 1, LEN - 1].into_iter().filter(|at| at / SEGMENT_BYTES == index);
        assert_eq!(written, expected.collect::<Vec<_>>());
        assert!(after[head.len()..].iter().all(|&byte| matches!(byte, 0 | b'x')), "segment {index}");
    }
    drop(reference);
    assert!(slab.resident_estimate_bytes() <= resident + (1 << 20));
    slab.blob_release(id);
    while slab.drain_frees(64) {}
    assert_eq!(slab.used_bytes(), 0);
}

#[test]
fn a_hole_that_does_not_fit_leaves_the_blob_as_it_was() {
    let mut slab = Slab::new(Config::default()).unwrap();
    for head in [0, 5, SEGMENT_BYTES, SEGMENT_BYTES + 5] {
        let id = slab.blob_new(0).unwrap();
        let bytes = noise(1, head);
        slab.blob_append(id, &bytes).unwrap();
        assert!(slab.blob_extend_zeros(id, 1 << 40).is_err());
        assert_blob(&slab, id, &bytes);
        slab.blob_append(id, b"tail").unwrap();
        assert_blob(&slab, id, &[&bytes[..], b"tail"].concat());
        let other = slab.blob_new(0).unwrap();
        slab.blob_extend_zeros(other, 2 * SEGMENT_BYTES).unwrap();
        assert_blob(&slab, other, &[0; 2 * SEGMENT_BYTES]);
        slab.blob_release(other);
        slab.blob_release(id);
    }
}

#[test]
fn a_hint_is_met_exactly_and_growth_stays_in_proportion() {
    let mut slab = Slab::new(Config::default()).unwrap();
    for len in [17_000, 20 << 10, 65_536, 100_000, 262_144, 300_000, 1_000_000, 10_000_000] {
        let id = slab.blob_new(len).unwrap();
        slab.blob_append(id, &vec![1; len]).unwrap();
        let held = usize::try_from(slab.blob_bytes(id)).unwrap();
        // A page, an eighth of the last extent, the index.
        assert!(
            held <= len + 4096 + (len % SEGMENT_BYTES) / 8 + if len > 5 * SEGMENT_BYTES { 16384 } else { 0 },
            "{len}: {held}"
        );
        slab.blob_release(id);
    }
    let id = slab.blob_new(0).unwrap();
    for step in 0..10_000u32 {
        slab.blob_append(id, &step.to_le_bytes().repeat(16)).unwrap();
        let (len, held) = (slab.blob_len(id), usize::try_from(slab.blob_bytes(id)).unwrap());
        assert!(held <= len + len * 6 / 10 + 2 * 16384, "{len}: {held}");
    }
    let bytes: Vec<u8> = (0..slab.blob_segments(id)).flat_map(|index| slab.blob_segment(id, index).to_vec()).collect();
    assert!(bytes.chunks(64).zip(0u32..).all(|(chunk, step)| chunk == step.to_le_bytes().repeat(16)));
}

#[test]
fn overwriting_a_blob_again_and_again_faults_no_page() {
    let mut slab = Slab::new(Config::default()).unwrap();
    let value = noise(1, 65_536);
    let mut blob = slab.blob_new(value.len()).unwrap();
    slab.blob_append(blob, &value).unwrap();
    let mut overwrite = |slab: &mut Slab, now_ms: u64| {
        // A reply still refers to the old value while the new one is written.
        let reply = slab.blob_ref(blob);
        let new = slab.blob_new(value.len()).unwrap();
        slab.blob_append(new, &value).unwrap();
        slab.blob_release(blob);
        drop(reply);
        blob = new;
        slab.release(now_ms, 100);
    };
    for round in 0..10 {
        overwrite(&mut slab, round);
    }
    let (faults, resident) = (page_faults(), slab.resident_estimate_bytes());
    for round in 10..1000 {
        overwrite(&mut slab, round);
    }
    // Writing to fresh memory would fault 16 times a round. (Sanitizers and the kernel's own work cause a few.)
    assert!(page_faults() - faults < 990, "{} page faults in 990 rounds", page_faults() - faults);
    assert_eq!(slab.resident_estimate_bytes(), resident);
    assert!(resident <= 4 * 65_536);
}

fn page_faults() -> i64 {
    // SAFETY: zeroes are a valid rusage, which the call fills in.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_minflt
    }
}

#[test]
fn references_outlive_the_slab() {
    let mut slab = Slab::new(Config::default()).unwrap();
    let expected = noise(5, 700_000);
    let id = slab.blob_new(expected.len()).unwrap();
    slab.blob_append(id, &expected).unwrap();
    let reference = slab.blob_ref(id);
    let other = reference.clone();
    drop(slab);
    assert_ref(&reference, &expected);
    drop(reference);
    std::thread::spawn(move || assert_ref(&other, &expected)).join().unwrap();
}

#[test]
fn threads_read_while_the_owner_appends_overwrites_and_frees() {
    let mut slab = Slab::new(Config::default()).unwrap();
    let mut choices = Choices(9);
    let (senders, readers): (Vec<_>, Vec<_>) = (0..3)
        .map(|_| {
            let (sender, receiver) = std::sync::mpsc::sync_channel::<(BlobRef, u8)>(16);
            let reader = std::thread::spawn(move || {
                let mut seen = 0;
                for (reference, byte) in receiver {
                    let copy = reference.clone();
                    drop(reference);
                    let expected = vec![byte; SEGMENT_BYTES];
                    for index in 0..copy.segments() {
                        let found = copy.segment(index);
                        assert!(found == &expected[..found.len()]);
                    }
                    seen += copy.len();
                }
                seen
            });
            (sender, reader)
        })
        .unzip();
    let mut blobs: Vec<(BlobId, u8)> = Vec::new();
    let mut sent = 0;
    for step in 0..1000 {
        let byte = u8::try_from(step % 251).unwrap();
        if blobs.len() < 8 {
            // Some are so large that their index has a leaf.
            let len = 20_000 + choices.below(400_000) + if step % 5 == 0 { 6 * SEGMENT_BYTES } else { 0 };
            let id = slab.blob_new(len).unwrap();
            slab.blob_append(id, &vec![byte; len]).unwrap();
            blobs.push((id, byte));
        }
        let index = choices.below(blobs.len());
        let (id, old) = blobs[index];
        let reference = slab.blob_ref(id);
        sent += reference.len();
        senders[step % 3].send((reference, old)).unwrap();
        match choices.below(4) {
            0 => slab.blob_append(id, &vec![old; choices.below(100_000)]).unwrap(),
            1 => {
                slab.blob_write_at(id, 0, &vec![byte; slab.blob_len(id)]).unwrap();
                blobs[index].1 = byte;
            }
            2 => {
                slab.blob_release(id);
                blobs.swap_remove(index);
            }
            _ => {
                slab.drain_frees(4);
            }
        }
        slab.release(step as u64 * 10, 20);
    }
    drop(senders);
    let seen: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
    assert_eq!(seen, sent);
    blobs.into_iter().for_each(|(id, _)| slab.blob_release(id));
    while slab.drain_frees(100) {}
    assert_eq!(slab.used_bytes(), 0);
}

/// Without channels, so that ThreadSanitizer can judge it with a standard library that is not instrumented.
#[test]
fn the_last_reference_races_with_the_owner() {
    let mut slab = Slab::new(Config::default()).unwrap();
    let mut id = slab.blob_new(40_000).unwrap();
    slab.blob_append(id, &[0; 40_000]).unwrap();
    for round in 1..100u8 {
        let readers = [(); 3].map(|()| {
            let reference = slab.blob_ref(id);
            std::thread::spawn(move || {
                let first = reference.clone().segment(0)[0];
                assert!(reference.segment(0) == &vec![first; reference.len()][..]);
                first
            })
        });
        match round % 3 {
            0 => slab.blob_write_at(id, 0, &[round; 40_000]).unwrap(),
            1 => {
                slab.blob_release(id);
                id = slab.blob_new(40_000).unwrap();
                slab.blob_append(id, &[round; 40_000]).unwrap();
            }
            _ => {
                // Reuses what readers have given back so far.
                while slab.drain_frees(1) {}
                slab.blob_write_at(id, 0, &[round; 40_000]).unwrap();
            }
        }
        for reader in readers {
            assert_eq!(reader.join().unwrap(), round - 1);
        }
    }
    slab.blob_release(id);
    while slab.drain_frees(100) {}
    assert_eq!(slab.used_bytes(), 0);
}

#[test]
fn what_readers_give_back_is_used_again_without_a_drain() {
    let mut slab = Slab::new(Config::default()).unwrap();
    for _ in 0..1000 {
        let id = slab.blob_new(65_536).unwrap();
        slab.blob_append(id, &[3; 65_536]).unwrap();
        let reference = slab.blob_ref(id);
        slab.blob_release(id);
        drop(reference);
    }
    assert!(slab.used_bytes() <= 2 * 65_536);
}

#[test]
fn a_full_region_fails_without_losing_anything_and_recovers() {
    let config = Config { blob_reserve_bytes: 8 << 20, ..Config::default() };
    let mut slab = Slab::new(config).unwrap();
    let small = slab.blob_new(30_000).unwrap();
    let expected = noise(2, 30_000);
    slab.blob_append(small, &expected).unwrap();
    let large = slab.blob_new(0).unwrap();
    let used = slab.used_bytes();
    assert!(slab.blob_append(large, &vec![1; 16 << 20]).is_err());
    assert_eq!((slab.blob_len(large), slab.blob_segments(large)), (0, 0));
    assert!(slab.used_bytes() <= used + SEGMENT_BYTES as u64 + 16384);
    assert_blob(&slab, small, &expected);
    slab.blob_release(large);
    // The slots that 256 KiB extents occupied serve other sizes, though nothing was released.
    let many: Vec<BlobId> = (0..50)
        .map(|index| {
            let id = slab.blob_new(40_000).unwrap();
            slab.blob_append(id, &noise(index, 40_000)).unwrap();
            id
        })
        .collect();
    for (id, index) in many.into_iter().zip(0..) {
        assert_blob(&slab, id, &noise(index, 40_000));
        slab.blob_release(id);
    }
    assert_blob(&slab, small, &expected);
    slab.blob_release(small);
    assert_eq!(slab.used_bytes(), 0);
}

#[test]
#[should_panic(expected = "no blob")]
fn a_released_id_is_refused() {
    let mut slab = Slab::new(Config::default()).unwrap();
    let id = slab.blob_new(0).unwrap();
    slab.blob_release(id);
    slab.blob_release(id);
}

#[test]
#[should_panic(expected = "beyond the end")]
fn writing_beyond_the_end_is_refused() {
    let mut slab = Slab::new(Config::default()).unwrap();
    let id = slab.blob_new(10).unwrap();
    slab.blob_append(id, b"0123456789").unwrap();
    slab.blob_write_at(id, 8, b"abc").unwrap();
}

#[derive(Clone, Debug)]
enum Sharing {
    Append { blob: usize, bytes: usize },
    Zeros { blob: usize, bytes: usize },
    WriteAt { blob: usize, offset: usize, bytes: usize },
    Write { blob: usize, offset: usize, bytes: usize },
    Duplicate { blob: usize },
    Ref { blob: usize },
    DropRef { index: usize },
    Pin { blob: usize },
    DropPin { index: usize },
    Drain { budget: usize },
    Release { blob: usize },
}

fn sharing() -> impl Strategy<Value = Vec<Sharing>> {
    let bytes = prop_oneof![2 => 0..30_000usize, 1 => Just(SEGMENT_BYTES), 2 => 0..1_500_000usize];
    let any_index = any::<usize>();
    prop::collection::vec(
        prop_oneof![
            4 => (any_index, bytes.clone()).prop_map(|(blob, bytes)| Sharing::Append { blob, bytes }),
            4 => (any_index, bytes.clone()).prop_map(|(blob, bytes)| Sharing::Zeros { blob, bytes }),
            4 => (any_index, any_index, bytes).prop_map(|(blob, offset, bytes)| Sharing::WriteAt { blob, offset, bytes }),
            4 => (any_index, 0..2000usize, 0..600_000usize).prop_map(|(blob, offset, bytes)| Sharing::Write { blob, offset, bytes }),
            2 => any_index.prop_map(|blob| Sharing::Duplicate { blob }),
            2 => any_index.prop_map(|blob| Sharing::Ref { blob }),
            1 => any_index.prop_map(|index| Sharing::DropRef { index }),
            2 => any_index.prop_map(|blob| Sharing::Pin { blob }),
            1 => any_index.prop_map(|index| Sharing::DropPin { index }),
            1 => (0..8usize).prop_map(|budget| Sharing::Drain { budget }),
            1 => any_index.prop_map(|blob| Sharing::Release { blob }),
        ],
        1..30,
    )
}

proptest! {
    #![proptest_config(programs())]

    /// Zeros and duplicates share memory, which nobody can tell but by the account of it.
    #[test]
    fn what_is_shared_is_nobodys_to_change(ops in sharing()) {
        let mut slab = Slab::new(Config::default()).unwrap();
        let mut blobs = vec![(slab.blob_new(0).unwrap(), Vec::new())];
        let mut refs = Vec::<(BlobRef, Vec<u8>)>::new();
        let mut pins = Vec::<(BlobId, Vec<u8>)>::new();
        for (step, op) in ops.into_iter().enumerate() {
            if blobs.is_empty() {
                blobs.push((slab.blob_new(0).unwrap(), Vec::new()));
            }
            let count = blobs.len();
            let held = |slab: &Slab, blobs: &[(BlobId, Vec<u8>)]| -> u64 {
                blobs.iter().map(|&(id, _)| slab.blob_bytes(id)).sum()
            };
            match op {
                Sharing::Append { blob, bytes } => {
                    let (id, expected) = &mut blobs[blob % count];
                    let bytes = noise(step as u64 + 1, bytes);
                    slab.blob_append(*id, &bytes).unwrap();
                    expected.extend_from_slice(&bytes);
                }
                Sharing::Zeros { blob, bytes } => {
                    let (id, expected) = &mut blobs[blob % count];
                    slab.blob_extend_zeros(*id, expected.len() + bytes).unwrap();
                    expected.resize(expected.len() + bytes, 0);
                }
                Sharing::WriteAt { blob, offset, bytes } => {
                    let (id, expected) = &mut blobs[blob % count];
                    let offset = offset % (expected.len() + 1);
                    let bytes = noise(step as u64 + 1, bytes.min(expected.len() - offset));
                    slab.blob_write_at(*id, offset, &bytes).unwrap();
                    expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                Sharing::Write { blob, offset, bytes } => {
                    let (id, expected) = &mut blobs[blob % count];
                    // Up to twice the length.
                    let offset = (expected.len() + 1000) * offset / 1000;
                    let bytes = noise(step as u64 + 1, bytes);
                    slab.blob_write(*id, offset, &bytes).unwrap();
                    if !bytes.is_empty() {
                        expected.resize(expected.len().max(offset + bytes.len()), 0);
                        expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                Sharing::Duplicate { blob } => {
                    let (id, expected) = &blobs[blob % count];
                    let used = slab.used_bytes();
                    let copy = (slab.blob_duplicate(*id).unwrap(), expected.clone());
                    prop_assert!(slab.used_bytes() <= used + (4 + 8) * 4096 + SEGMENT_BYTES as u64, "index and one extent at most");
                    blobs.push(copy);
                }
                Sharing::Ref { blob } => {
                    let (id, expected) = &blobs[blob % count];
                    refs.push((slab.blob_ref(*id), expected.clone()));
                }
                Sharing::DropRef { index } => if !refs.is_empty() {
                    refs.swap_remove(index % refs.len());
                }
                Sharing::Pin { blob } => {
                    let (id, expected) = &blobs[blob % count];
                    pins.push((slab.blob_pin(*id).unwrap(), expected.clone()));
                }
                Sharing::DropPin { index } => if !pins.is_empty() {
                    slab.blob_release(pins.swap_remove(index % pins.len()).0);
                }
                Sharing::Drain { budget } => {
                    slab.drain_frees(budget);
                }
                Sharing::Release { blob } => {
                    let (id, _) = blobs.swap_remove(blob % count);
                    slab.blob_release(id);
                }
            }
            let (held, stats) = (held(&slab, &blobs), slab.blob_stats());
            prop_assert!(stats.used_bytes <= held + stats.kept_bytes, "everything counts to somebody");
            prop_assert!(
                !refs.is_empty() || !pins.is_empty() || stats.used_bytes <= held + (8 << 20), "freed in time"
            );
        }
        for (id, expected) in &blobs {
            assert_blob(&slab, *id, expected);
        }
        for (reference, expected) in &refs {
            assert_ref(reference, expected);
        }
        for (pin, expected) in &pins {
            assert_blob_bytes(&slab, *pin, expected);
        }
        // One blob after the other, with its versions, until there is one that shares with nobody.
        refs.clear();
        while let Some((pin, _)) = pins.pop() {
            slab.blob_release(pin);
            slab.drain_frees(2);
        }
        while blobs.len() > 1 {
            slab.blob_release(blobs.pop().expect("more than one").0);
            slab.drain_frees(2);
        }
        while slab.drain_frees(3) {}
        prop_assert_eq!(slab.blob_stats().kept_bytes, 0);
        if let Some((id, expected)) = blobs.pop() {
            assert_blob(&slab, id, &expected);
            prop_assert_eq!(slab.used_bytes(), slab.blob_bytes(id));
            slab.blob_release(id);
        }
        while slab.drain_frees(3) {}
        prop_assert_eq!(slab.used_bytes(), 0);
    }
}

#[test]
fn half_a_gigabyte_of_zeros_costs_next_to_nothing() {
    const LEN: usize = 512 << 20;
    let mut slab = Slab::new(Config::default()).unwrap();
    let id = slab.blob_new(0).unwrap();
    slab.blob_append(id, b"x").unwrap();
    let faults = page_faults();
    slab.blob_extend_zeros(id, LEN - 1).unwrap();
    slab.blob_append(id, b"y").unwrap();
    assert!(page_faults() - faults < 1000, "{} page faults", page_faults() - faults);
    assert!(slab.used_bytes() < 4 << 20, "{} bytes", slab.used_bytes());
    assert_eq!((slab.blob_len(id), slab.blob_segment(id, 0)[0]), (LEN, b'x'));
    let zeros = vec![0; SEGMENT_BYTES];
    assert!((1..slab.blob_segments(id) - 1).all(|index| slab.blob_segment(id, index) == zeros));
    assert_eq!(slab.blob_segment(id, LEN / SEGMENT_BYTES - 1).last(), Some(&b'y'));
    // A write into the middle copies one extent.
    let used = slab.used_bytes();
    slab.blob_write_at(id, LEN / 2, b"z").unwrap();
    assert_eq!(slab.used_bytes() - used, SEGMENT_BYTES as u64);
    assert_eq!(slab.blob_segment(id, LEN / 2 / SEGMENT_BYTES - 1), zeros);
    slab.blob_release(id);
    while slab.drain_frees(100) {}
    assert_eq!(slab.used_bytes(), 0);
}
