//! Append-only files: nothing crashes, hangs or takes memory for what is only claimed, and what is found is the same however a file is cut. The
//! first byte cuts. The same bytes are read as a manifest, and what it says is what it says when it is written again.
#![no_main]
use dolmen::persist::aof::command::{Malformed, Scanner};
use dolmen::persist::aof::manifest::Manifest;
use libfuzzer_sys::fuzz_target;

const MAX_BYTES: u64 = 1 << 20;

fn scan(file: &[u8], cut: usize) -> (Vec<u8>, u64, Result<(), Malformed>) {
    let (mut scanner, mut found) = (Scanner::new(MAX_BYTES), Vec::new());
    for piece in file.chunks(cut.max(1)) {
        scanner.feed(piece);
        if let Err(error) = scanner.take(&mut found, |name| name != b"x") {
            return (found, scanner.whole(), Err(error));
        }
    }
    assert!(found.len() <= file.len() && scanner.whole() <= file.len() as u64);
    (found, scanner.whole(), Ok(()))
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, file)) = input.split_first() else { return };
    assert_eq!(scan(file, usize::MAX), scan(file, usize::from(cut) + 1));
    if let Ok(manifest) = Manifest::parse(file) {
        let again = Manifest::parse(&manifest.text()).expect("what was written is read");
        assert_eq!((again.base, again.increments), (manifest.base, manifest.increments));
    }
});
