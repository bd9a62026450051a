//! What SORT is asked for: options, and patterns that make names of elements.

use super::super::ctx::{Args, Failure};
use super::super::options::parse_int;
use crate::proto::errors;
use std::ops::Range;

/// `key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE destination]`
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Options {
    pub by: Option<Pattern>,
    /// BY a pattern without `*`: the elements stay in the order of their collection.
    pub unsorted: bool,
    pub get: Vec<Pattern>,
    pub limit: Option<(i64, i64)>,
    pub descending: bool,
    pub alpha: bool,
    /// The destination.
    pub store: Option<Vec<u8>>,
}

impl Options {
    /// Reads the arguments behind the key; `read_only`: of SORT_RO, which knows no STORE; `reads_any`: the client may read keys that the request
    /// does not name.
    ///
    /// # Errors
    /// The texts that Redis answers.
    pub fn parse(args: Args<'_>, read_only: bool, reads_any: bool) -> Result<Options, Failure> {
        let mut options = Options::default();
        let mut at = 2;
        while at < args.len() {
            let left = args.len() - at - 1;
            match &*args[at].to_ascii_lowercase() {
                b"asc" => options.descending = false,
                b"desc" => options.descending = true,
                b"alpha" => options.alpha = true,
                b"limit" if left >= 2 => {
                    options.limit = Some((parse_int(args[at + 1])?, parse_int(args[at + 2])?));
                    at += 2;
                }
                b"store" if left >= 1 && !read_only => {
                    options.store = Some(args[at + 1].to_vec());
                    at += 1;
                }
                b"by" if left >= 1 => {
                    let unsorted = !args[at + 1].contains(&b'*');
                    if !unsorted && !reads_any {
                        return Err(errors::SORT_BY_DENIED.into());
                    }
                    options.unsorted |= unsorted;
                    options.by = Some(Pattern::new(args[at + 1]));
                    at += 1;
                }
                b"get" if left >= 1 => {
                    if !reads_any {
                        return Err(errors::SORT_GET_DENIED.into());
                    }
                    options.get.push(Pattern::new(args[at + 1]));
                    at += 1;
                }
                _ => return Err(errors::SYNTAX.into()),
            }
            at += 1;
        }
        Ok(options)
    }

    /// Which of `len` sorted elements are asked for.
    #[must_use]
    pub fn range(&self, len: usize) -> Range<usize> {
        let Some((offset, count)) = self.limit else { return 0..len };
        let from = usize::try_from(offset.max(0)).unwrap_or(usize::MAX).min(len);
        let count = if count < 0 { len } else { usize::try_from(count).unwrap_or(usize::MAX) };
        from..from.saturating_add(count).min(len)
    }
}

/// A name made of an element: `weight_*`, `user:*->age`, or `#` for the element itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    Element,
    /// What stands before and behind the element in the name of the key; the field of it that is meant, if it is a hash.
    Key {
        before: Vec<u8>,
        behind: Vec<u8>,
        field: Option<Vec<u8>>,
    },
    /// Without a `*` there is no key that it names.
    Nothing,
}

impl Pattern {
    #[must_use]
    pub fn new(text: &[u8]) -> Pattern {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = memchr::memchr(b'*', text) else { return Pattern::Nothing };
        let (before, behind) = (&text[..star], &text[star + 1..]);
        // An arrow without a field behind it belongs to the name.
        let arrow = memchr::memmem::find(behind, b"->").filter(|arrow| arrow + 2 < behind.len());
        let (behind, field) = match arrow {
            Some(arrow) => (&behind[..arrow], Some(behind[arrow + 2..].to_vec())),
            None => (behind, None),
        };
        Pattern::Key { before: before.to_vec(), behind: behind.to_vec(), field }
    }

    /// Makes the name of the key that it means for an element; false: it means none.
    pub fn name(&self, element: &[u8], name: &mut Vec<u8>) -> bool {
        let Pattern::Key { before, behind, .. } = self else { return false };
        name.clear();
        [before, element, behind].into_iter().for_each(|part| name.extend_from_slice(part));
        true
    }

    /// The field of that key that it means, if it is a hash.
    #[must_use]
    pub fn field(&self) -> Option<&[u8]> {
        match self {
            Pattern::Key { field, .. } => field.as_deref(),
            Pattern::Element | Pattern::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str, read_only: bool) -> Result<Options, String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        Options::parse(&args, read_only, true).map_err(|failure| String::from_utf8(failure.text().to_vec()).unwrap())
    }

    #[test]
    fn options() {
        let all = parse("SORT k BY w_* LIMIT 1 -2 get # GET h_*->f desc ALPHA STORE d", false).unwrap();
        assert_eq!(all.by, Some(Pattern::Key { before: b"w_".to_vec(), behind: vec![], field: None }));
        assert_eq!((all.get.len(), all.limit, all.store), (2, Some((1, -2)), Some(b"d".to_vec())));
        assert!(all.descending && all.alpha && !all.unsorted);
        assert!(parse("SORT k BY nosort", false).unwrap().unsorted);
        assert!(!parse("SORT k DESC ASC", false).unwrap().descending);
        for line in ["SORT k LIMIT 1", "SORT k BY", "SORT k GET", "SORT k STORE", "SORT k NOSUCH", "SORT k ALPHA 1"] {
            assert_eq!(parse(line, false), Err(errors::SYNTAX.to_owned()), "{line}");
        }
        assert_eq!(parse("SORT_RO k STORE d", true), Err(errors::SYNTAX.to_owned()));
        assert_eq!(parse("SORT k LIMIT 1 x", false), Err(errors::NOT_AN_INTEGER.to_owned()));
    }

    #[test]
    fn limits() {
        let range = |limit| Options { limit, ..Options::default() }.range(10);
        assert_eq!(range(None), 0..10);
        for (limit, want) in [
            ((0, 3), 0..3),
            ((8, 5), 8..10),
            ((10, 1), 10..10),
            ((99, 1), 10..10),
            ((-5, 2), 0..2),
            ((3, -1), 3..10),
            ((3, 0), 3..3),
            ((i64::MAX, i64::MAX), 10..10),
            ((1, i64::MAX), 1..10),
            ((i64::MIN, i64::MIN), 0..10),
        ] {
            assert_eq!(range(Some(limit)), want, "{limit:?}");
        }
    }

    #[test]
    fn patterns() {
        let key = |text: &str, field: Option<&str>| {
            let pattern = Pattern::new(text.as_bytes());
            let mut name = b"what was there before".to_vec();
            assert!(pattern.name(b"<e>", &mut name), "{text} names a key");
            assert_eq!(pattern.field(), field.map(str::as_bytes), "{text}");
            String::from_utf8(name).unwrap()
        };
        assert_eq!(key("w_*", None), "w_<e>");
        assert_eq!(key("*", None), "<e>");
        assert_eq!(key("a*b*c", None), "a<e>b*c");
        assert_eq!(key("u:*->age", Some("age")), "u:<e>");
        assert_eq!(key("u:*x->a->b", Some("a->b")), "u:<e>x");
        assert_eq!(key("u:*->", None), "u:<e>->");
        assert_eq!(key("a->b*", None), "a->b<e>");
        assert_eq!(Pattern::new(b"#"), Pattern::Element);
        assert_eq!(Pattern::new(b"none->f"), Pattern::Nothing);
    }
}
