//! Instructions of bitmap algorithms for 64 KiB, beside those of a copy, which the C library does by the widest vectors there are.
use dolmen::types::bitmap::{Fold, Operation, count, find_in};
use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;

const BYTES: usize = 64 << 10;

fn noise() -> Vec<u8> {
    (0..BYTES as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]).collect()
}

#[library_benchmark]
#[bench::mixed(noise())]
fn count_64k(bytes: Vec<u8>) -> (u64, Vec<u8>) {
    (count(black_box(&bytes)), bytes)
}

#[library_benchmark]
#[bench::zeros(vec![0; BYTES])]
fn find_64k(bytes: Vec<u8>) -> (Option<usize>, Vec<u8>) {
    (find_in(black_box(&bytes), true, 1, BYTES * 8 - 1), bytes)
}

// A second source, folded into the first; `one` keeps two results.
#[library_benchmark]
#[bench::and(folded(Operation::And), noise())]
#[bench::one(folded(Operation::One), noise())]
fn fold_64k(mut fold: Fold, source: Vec<u8>) -> (Fold, Vec<u8>) {
    fold.fold(black_box(&source));
    (fold, source)
}

fn folded(operation: Operation) -> Fold {
    let mut fold = Fold::new(operation);
    fold.fold(&noise());
    // What is kept twice has its memory.
    fold.fold(&noise());
    fold
}

#[library_benchmark]
#[bench::mixed(noise(), vec![1; BYTES])]
fn copy_64k(from: Vec<u8>, mut to: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    to.copy_from_slice(black_box(&from));
    (from, to)
}

library_benchmark_group!(name = bits; benchmarks = count_64k, find_64k, fold_64k, copy_64k);
main!(library_benchmark_groups = bits);
