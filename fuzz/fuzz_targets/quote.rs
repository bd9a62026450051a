//! Splitting never fails on what quoting wrote, and what it split can be quoted and split again.
#![no_main]
use dolmen::base::quote::{quote, split_args};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    assert_eq!(split_args(&quote(line)).unwrap(), [line]);
    if let Ok(args) = split_args(line) {
        let again = args.iter().map(|arg| quote(arg)).collect::<Vec<_>>().join(&b' ');
        assert_eq!(split_args(&again).unwrap(), args);
    }
});
