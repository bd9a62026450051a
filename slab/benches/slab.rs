//! Instruction counts of the slab's paths. Run with `cargo bench -p dolmen-slab` (needs valgrind and iai-callgrind-runner).
#![allow(unsafe_code)]

use std::hint::black_box;

use dolmen_slab::{BlobId, Config, Handle, Kind, Slab};
use iai_callgrind::{library_benchmark, library_benchmark_group, main};

/// Operations a run, so that the set-up of the call disappears: divide the counts by this.
const OPS: usize = 1000;

/// Sizes as items of a cache have them.
const MIX: [usize; 8] = [24, 32, 40, 64, 120, 200, 500, 1100];

struct Warm {
    slab: Slab,
    live: Vec<(Handle, usize)>,
    blob: BlobId,
    value: Vec<u8>,
}

/// A slab with `chunks` live chunks of the mix, hence with active spans, and a hot extent of 64 KiB.
fn warm(chunks: usize) -> Warm {
    let mut slab = Slab::new(Config::default()).expect("address space");
    let live = (0..chunks)
        .map(|index| {
            let bytes = MIX[index % MIX.len()];
            (slab.alloc(bytes, Kind::Item).expect("memory"), bytes)
        })
        .collect();
    let value = vec![7; 64 << 10];
    let [blob, spare] = [(); 2].map(|()| {
        let id = slab.blob_new(value.len()).expect("memory");
        slab.blob_append(id, &value).expect("memory");
        id
    });
    slab.blob_release(spare);
    Warm { slab, live, blob, value }
}

#[library_benchmark]
#[bench::hot(args = (800), setup = warm)]
fn alloc_free_32(mut warm: Warm) -> Warm {
    for _ in 0..OPS {
        let handle = black_box(warm.slab.alloc(black_box(32), Kind::Item)).expect("memory");
        // SAFETY: just allocated.
        unsafe { warm.slab.free(handle, 32) };
    }
    warm
}

// New pages and spans included.
#[library_benchmark]
#[bench::hot(args = (800), setup = warm)]
fn alloc_32(mut warm: Warm) -> Warm {
    for _ in 0..OPS {
        let handle = warm.slab.alloc(black_box(32), Kind::Item).expect("memory");
        black_box(handle);
    }
    warm
}

// Replaces chunks in an order that visits every span: frees land in full spans, allocations follow the holes.
#[library_benchmark]
#[bench::hot(args = (200_000), setup = warm)]
fn replace_mixed(mut warm: Warm) -> Warm {
    let mut at = 0;
    for _ in 0..OPS {
        at = (at + 7919 * 8 + 1) % warm.live.len();
        let (handle, bytes) = warm.live[at];
        // SAFETY: live; forgotten in the next line.
        unsafe { warm.slab.free(handle, bytes) };
        warm.live[at].0 = warm.slab.alloc(black_box(bytes), Kind::Item).expect("memory");
    }
    warm
}

// Frees everything in the order of allocation.
#[library_benchmark]
#[bench::hot(args = (OPS), setup = warm)]
fn free_all_mixed(mut warm: Warm) -> Warm {
    for (handle, bytes) in warm.live.drain(..) {
        // SAFETY: live; forgotten.
        unsafe { warm.slab.free(handle, black_box(bytes)) };
    }
    warm
}

// A value of 64 KiB replaced while a reply refers to the old one, without the copying of its bytes.
#[library_benchmark]
#[bench::hot(args = (0), setup = warm)]
fn overwrite_blob_64k(mut warm: Warm) -> Warm {
    for _ in 0..OPS {
        let reply = warm.slab.blob_ref(warm.blob);
        let new = warm.slab.blob_new(warm.value.len()).expect("memory");
        black_box(warm.slab.blob_spare(new).expect("memory"));
        warm.slab.blob_advance(new, warm.value.len());
        warm.slab.blob_release(warm.blob);
        warm.blob = new;
        drop(black_box(reply));
    }
    warm
}

library_benchmark_group!(
    name = slab;
    benchmarks = alloc_free_32, alloc_32, replace_mixed, free_all_mixed, overwrite_blob_64k
);
main!(library_benchmark_groups = slab);
