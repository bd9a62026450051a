//! Comparing texts by the rules of a language: what C's `LC_COLLATE` tells. Owns locales of the C library, each by its name; knows nothing of what
//! is compared.
//!
//! A text has a key in a locale (`strxfrm`), and texts are ordered as the bytes of their keys are; so sorting asks the C library once for each
//! text. Where a locale orders by bytes anyway (C, POSIX, and those of C with UTF-8) there is none to ask.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::sync::Arc;

unsafe extern "C" {
    fn strxfrm_l(to: *mut c_char, from: *const c_char, room: usize, locale: libc::locale_t) -> usize;
}

/// An order of texts.
#[derive(Clone, Debug, Default)]
pub struct Collation {
    name: String,
    /// `None`: by bytes.
    locale: Option<Arc<Locale>>,
}

impl PartialEq for Collation {
    fn eq(&self, other: &Collation) -> bool {
        self.name == other.name
    }
}

impl Collation {
    /// The order of the locale of that name; of none ("") that which the environment names, if there is such a locale. `None`: there is no such
    /// locale.
    #[must_use]
    pub fn named(name: &str) -> Option<Collation> {
        let resolved = if name.is_empty() { from_environment() } else { name.to_owned() };
        let by_bytes = matches!(&*resolved.to_ascii_lowercase(), "" | "c" | "posix" | "c.utf8" | "c.utf-8");
        let locale = if by_bytes { None } else { Locale::open(&resolved) };
        if locale.is_none() && !by_bytes && !name.is_empty() {
            return None;
        }
        Some(Collation { name: name.to_owned(), locale: locale.map(Arc::new) })
    }

    /// As it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Is the order that of the bytes?
    #[must_use]
    pub fn is_by_bytes(&self) -> bool {
        self.locale.is_none()
    }

    /// What stands for a text in comparisons. A NUL ends the text.
    #[must_use]
    pub fn key(&self, text: &[u8]) -> Vec<u8> {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let Some(locale) = &self.locale else { return text.to_vec() };
        let Ok(text) = CString::new(text) else { unreachable!("it was cut at the first NUL") };
        let mut key: Vec<u8> = Vec::with_capacity(4 * text.as_bytes().len() + 16);
        loop {
            let room = key.capacity();
            // SAFETY: `text` ends with a NUL, `key` has room for as many bytes as are told, the locale lives as long as `self`.
            let bytes = unsafe { strxfrm_l(key.as_mut_ptr().cast(), text.as_ptr(), room, locale.0) };
            if bytes < room {
                // SAFETY: so many bytes were written, and a NUL behind them.
                unsafe { key.set_len(bytes) };
                return key;
            }
            key.reserve(bytes + 1);
        }
    }
}

/// What the environment says of the order of texts, in the order in which POSIX looks.
fn from_environment() -> String {
    let said = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    ["LC_ALL", "LC_COLLATE", "LANG"].into_iter().find_map(said).unwrap_or_default()
}

/// A locale of the C library.
#[derive(Debug)]
struct Locale(libc::locale_t);

// SAFETY: a locale object is never changed after it was made, and the C library reads it from any thread (POSIX: newlocale, strxfrm_l).
unsafe impl Send for Locale {}
// SAFETY: as above.
unsafe impl Sync for Locale {}

impl Locale {
    fn open(name: &str) -> Option<Locale> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name ends with a NUL; without a base a new object is made.
        let locale = unsafe { libc::newlocale(libc::LC_COLLATE_MASK, name.as_ptr(), std::ptr::null_mut()) };
        (!locale.is_null()).then(|| Locale(locale))
    }
}

impl Drop for Locale {
    fn drop(&mut self) {
        // SAFETY: made by `open`, and nobody uses it any more.
        unsafe { libc::freelocale(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_by_bytes_need_no_library() {
        for name in ["C", "POSIX", "C.UTF-8", "c.utf8"] {
            let collation = Collation::named(name).unwrap();
            assert!(collation.is_by_bytes() && collation.name() == name);
            assert_eq!(collation.key(b"a\xff\0b"), b"a\xff");
        }
        assert!(Collation::default().is_by_bytes());
        assert_eq!(Collation::named("no-such_PLACE.nothing"), None);
        assert_eq!(Collation::named("with\0nul"), None);
        assert!(Collation::named("").is_some_and(|collation| collation.name().is_empty()));
    }

    /// With any locale there is: keys are ordered as the C library orders the texts. C's own is one that every system has.
    #[test]
    fn keys_are_ordered_as_texts_are() {
        let collation = Collation {
            name: String::new(),
            locale: Locale::open("C.UTF-8").or_else(|| Locale::open("C")).map(Arc::new),
        };
        assert!(!collation.is_by_bytes());
        let texts = ["", "a", "A", "ab", "b", "\u{e9}", "z", "\u{4e2d}", &"long ".repeat(100)];
        for a in texts {
            for b in texts {
                assert_eq!(collation.key(a.as_bytes()).cmp(&collation.key(b.as_bytes())), a.cmp(b), "{a} {b}");
            }
        }
    }
}
