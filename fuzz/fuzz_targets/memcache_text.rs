//! Any stream of memcached's text protocol in any pieces, against the naive parser. The first byte chooses the limits, the next four the pieces.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../memcache.rs"]
mod memcache;

fuzz_target!(|input: &[u8]| memcache::check(input, &[]));
