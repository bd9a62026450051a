//! Instruction counts of the table: hit, miss, insert, remove, growth. One operation each, over 100,000 entries, so that the figures are those of a
//! table with a directory.
use dolmen::table::{Entries, Table};
use dolmen_slab::{Config, Handle, Slab};
use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;

const ENTRIES: u64 = 100_000;
/// Operations in a batch, which the counts are to be divided by.
const BATCH: u64 = 1_000;

/// Entry `n` has handle `n + 1`; its hash is computed, as cheaply as it gets, so that the table's own work stands out.
struct Numbers;

fn hash_of(n: u64) -> u64 {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

fn handle_of(n: u64) -> Handle {
    Handle::from_bits(u32::try_from(n + 1).unwrap())
}

impl Entries for Numbers {
    fn hash(&self, _: &Slab, h: Handle) -> u64 {
        hash_of(u64::from(h.bits()) - 1)
    }
}

struct Filled {
    slab: Slab,
    table: Table,
    /// The batch's hashes, and the entries that they are of.
    batch: Vec<(u64, Handle)>,
}

fn filled(entries: u64, batch_from: u64) -> Filled {
    let mut slab = Slab::new(Config::default()).unwrap();
    let mut table = Table::new(1);
    for n in 0..entries {
        table.insert(&mut slab, &Numbers, hash_of(n), handle_of(n)).unwrap();
        table.maintain(&mut slab, &Numbers, 1);
    }
    let batch = (batch_from..batch_from + BATCH).map(|n| (hash_of(n), handle_of(n))).collect();
    Filled { slab, table, batch }
}

#[library_benchmark]
#[bench::batch(filled(ENTRIES, 10_000))]
fn hit(filled: Filled) -> Filled {
    for &(hash, handle) in &filled.batch {
        let slot = filled.table.find(&filled.slab, hash, |other| other == handle).unwrap();
        black_box(filled.table.handle(slot));
    }
    filled
}

#[library_benchmark]
#[bench::batch(filled(ENTRIES, ENTRIES))]
fn miss(filled: Filled) -> Filled {
    for &(hash, handle) in &filled.batch {
        assert!(black_box(filled.table.find(&filled.slab, hash, |other| other == handle)).is_none());
    }
    filled
}

#[library_benchmark]
#[bench::batch(filled(ENTRIES, 10_000))]
fn prefetch(filled: Filled) -> Filled {
    for &(hash, _) in &filled.batch {
        filled.table.prefetch(&filled.slab, hash);
    }
    for &(hash, _) in &filled.batch {
        filled.table.prefetch_entries(&filled.slab, hash);
    }
    filled
}

// Inserts without the maintenance that they call for.
#[library_benchmark]
#[bench::batch(filled(ENTRIES, ENTRIES))]
fn insert(mut filled: Filled) -> Filled {
    for &(hash, handle) in &filled.batch {
        black_box(filled.table.insert(&mut filled.slab, &Numbers, hash, handle)).unwrap();
    }
    filled
}

#[library_benchmark]
#[bench::batch(filled(ENTRIES, 10_000))]
fn remove(mut filled: Filled) -> Filled {
    for &(hash, handle) in &filled.batch {
        let slot = filled.table.find(&filled.slab, hash, |other| other == handle).unwrap();
        black_box(filled.table.remove(&mut filled.slab, hash, slot));
    }
    filled
}

// From nothing to 100,000 entries with all rewrites, per 100,000.
#[library_benchmark]
#[bench::all(filled(0, 0))]
fn grow(mut filled: Filled) -> Filled {
    for n in 0..ENTRIES {
        filled.table.insert(&mut filled.slab, &Numbers, hash_of(n), handle_of(n)).unwrap();
        if n % 64 == 0 {
            filled.table.maintain(&mut filled.slab, &Numbers, 16);
        }
    }
    filled
}

// One walk over 100,000 entries.
#[library_benchmark]
#[bench::all(filled(ENTRIES, 0))]
fn scan(filled: Filled) -> Filled {
    let (mut cursor, mut seen) = (0, 0);
    loop {
        cursor = filled.table.scan(&filled.slab, &Numbers, cursor, |_| seen += 1);
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, ENTRIES);
    filled
}

#[library_benchmark]
#[bench::batch(filled(ENTRIES, 0))]
fn random(filled: Filled) -> Filled {
    let mut n = 0;
    for _ in 0..BATCH {
        black_box(filled.table.random(&filled.slab, || {
            n += 1;
            hash_of(n)
        }));
    }
    filled
}

library_benchmark_group!(name = table; benchmarks = hit, miss, prefetch, insert, remove, grow, scan, random);
main!(library_benchmark_groups = table);
