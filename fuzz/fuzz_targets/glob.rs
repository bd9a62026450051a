//! Short patterns against the definition of a match; the first byte splits the input into pattern and text.
#![no_main]
use dolmen::base::glob::{glob_matches, literal_prefix, naive_matches};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&split, rest)) = input.split_first() else { return };
    let (pattern, text) = rest.split_at(usize::from(split & 15).min(rest.len()));
    for nocase in [false, true] {
        let text = &text[..text.len().min(16)];
        assert_eq!(glob_matches(pattern, text, nocase), naive_matches(pattern, text, nocase));
    }
    let (prefix, whole) = literal_prefix(pattern);
    assert!(!glob_matches(pattern, text, false) || text.starts_with(prefix));
    assert!(!whole || glob_matches(pattern, text, false) == (pattern == text));
});
