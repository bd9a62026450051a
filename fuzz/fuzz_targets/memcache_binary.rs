//! The same for the binary protocol: what begins with its magic byte, and whatever follows.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../memcache.rs"]
mod memcache;

fuzz_target!(|input: &[u8]| memcache::check(input, &[0x80]));
