//! Any packets in any order to a stack that serves: nothing panics, and the bounds of its connections hold. Each packet has its length in front; half of
//! them get right sums, or none would come far.
#![no_main]
use dolmen::net::stack::fuzzed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| fuzzed::packets(input));
