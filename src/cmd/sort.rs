//! What SORT and SORT_RO are made of, but for the collections that they sort: options, patterns, weights, and an order found in slices. The
//! commands come with the first type that can be sorted; until then no row names them.
//!
//! A sort of a million elements is a matter of hundreds of milliseconds, so [`Sorter`] is a merge sort from the bottom up that can stop after
//! any few elements.

use super::ctx::{Args, Failure};
use super::options::parse_int;
use crate::proto::errors;
use std::cmp::Ordering;
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
    /// Which argument names the destination.
    pub store: Option<usize>,
}

impl Options {
    /// Reads the arguments behind the key; `read_only`: of SORT_RO, which knows no STORE.
    ///
    /// # Errors
    /// The texts that Redis answers.
    pub fn parse(args: Args<'_>, read_only: bool) -> Result<Options, Failure> {
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
                    options.store = Some(at + 1);
                    at += 1;
                }
                b"by" if left >= 1 => {
                    options.unsorted |= !args[at + 1].contains(&b'*');
                    options.by = Some(Pattern::new(args[at + 1]));
                    at += 1;
                }
                b"get" if left >= 1 => {
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

    /// The name of the key that it means for an element, if it means one.
    #[must_use]
    pub fn key_of(&self, element: &[u8]) -> Option<Vec<u8>> {
        match self {
            Pattern::Key { before, behind, .. } => Some([before, element, behind].concat()),
            Pattern::Element | Pattern::Nothing => None,
        }
    }
}

/// By what an element is sorted.
#[derive(Clone, PartialEq, Debug)]
pub enum Weight {
    Number(f64),
    /// The element itself.
    Own,
    /// Another text; one that is missing comes first.
    Text(Option<Vec<u8>>),
}

impl Weight {
    /// The weight that a text has in a numeric sort.
    ///
    /// # Errors
    /// If it is no number.
    pub fn number(text: &[u8]) -> Result<Weight, Failure> {
        // As C's strtod reads it: blanks before, a NUL ends it, nothing is 0, what is too large an error.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii_start();
        if text.is_empty() {
            return Ok(Weight::Number(0.0));
        }
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        let said_so = |_: &f64| text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'i'));
        number
            .filter(|number| !number.is_nan() && (number.is_finite() || said_so(number)))
            .map(Weight::Number)
            .ok_or(Failure::Text(errors::SCORES))
    }
}

/// An element to be sorted.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    pub element: Vec<u8>,
    pub weight: Weight,
}

impl Entry {
    /// Elements of one weight are told apart by their bytes, so that the order is the same every time.
    fn order(&self, other: &Entry) -> Ordering {
        let by_weight = match (&self.weight, &other.weight) {
            (Weight::Number(a), Weight::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
            _ => Ordering::Equal,
        };
        by_weight.then_with(|| self.element.cmp(&other.element))
    }
}

/// Elements sorted at once where a run begins.
const RUN: usize = 16;

/// Entries on their way to be in order: runs of one length, merged in pairs until there is one.
pub struct Sorter {
    entries: Vec<Entry>,
    descending: bool,
    /// Numbers of entries; runs of `width` are in order, in `order` up to those that were merged into `merged` already.
    order: Vec<u32>,
    merged: Vec<u32>,
    width: usize,
    /// Of the pair being merged: what comes next of the left and of the right run.
    left: usize,
    right: usize,
}

impl Sorter {
    /// # Panics
    /// With 2^32 entries or more.
    #[must_use]
    pub fn new(entries: Vec<Entry>, descending: bool) -> Sorter {
        assert!(u32::try_from(entries.len()).is_ok(), "more entries than there are numbers");
        Sorter { entries, descending, order: Vec::new(), merged: Vec::new(), width: 0, left: 0, right: 0 }
    }

    fn before(&self, a: u32, b: u32) -> bool {
        let order = self.entries[a as usize].order(&self.entries[b as usize]);
        if self.descending { order == Ordering::Greater } else { order == Ordering::Less }
    }

    /// Works until all is in order (true), or `time_left`, which is asked for every [`RUN`] of elements, says no.
    pub fn step(&mut self, mut time_left: impl FnMut() -> bool) -> bool {
        let len = self.entries.len();
        while self.order.len() < len && self.width == 0 {
            let from = self.order.len();
            #[expect(clippy::cast_possible_truncation, reason = "`new` has seen to it")]
            self.order.extend((from..len.min(from + RUN)).map(|i| i as u32));
            let mut run = self.order.split_off(from);
            run.sort_unstable_by(|&a, &b| {
                let order = self.entries[a as usize].order(&self.entries[b as usize]);
                if self.descending { order.reverse() } else { order }
            });
            self.order.append(&mut run);
            if !time_left() {
                return false;
            }
        }
        if self.width == 0 {
            self.width = RUN;
            (self.left, self.right) = (0, RUN.min(len));
        }
        while self.width < len {
            for _ in 0..RUN {
                if self.merged.len() == len {
                    std::mem::swap(&mut self.order, &mut self.merged);
                    self.merged.clear();
                    self.width *= 2;
                    (self.left, self.right) = (0, self.width.min(len));
                    break;
                }
                self.merge_one();
            }
            if !time_left() {
                return false;
            }
        }
        true
    }

    /// Moves the next entry of the pair of runs that `merged` has come to.
    fn merge_one(&mut self) {
        let len = self.order.len();
        let start = self.merged.len() / (2 * self.width) * 2 * self.width;
        let (middle, end) = ((start + self.width).min(len), (start + 2 * self.width).min(len));
        if self.merged.len() == start {
            (self.left, self.right) = (start, middle);
        }
        let take_right =
            self.left == middle || (self.right < end && self.before(self.order[self.right], self.order[self.left]));
        let from = if take_right { &mut self.right } else { &mut self.left };
        self.merged.push(self.order[*from]);
        *from += 1;
    }

    /// The entry that is the `nth` in order, when `step` has said that all is.
    #[must_use]
    pub fn get(&self, nth: usize) -> &Entry {
        &self.entries[self.order[nth] as usize]
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts: usize = self.entries.iter().map(|e| e.element.capacity()).sum();
        texts + self.entries.capacity() * size_of::<Entry>() + (self.order.capacity() + self.merged.capacity()) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str, read_only: bool) -> Result<Options, String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        Options::parse(&args, read_only).map_err(|failure| String::from_utf8(failure.text().to_vec()).unwrap())
    }

    #[test]
    fn options() {
        let all = parse("SORT k BY w_* LIMIT 1 -2 get # GET h_*->f desc ALPHA STORE d", false).unwrap();
        assert_eq!(all.by, Some(Pattern::Key { before: b"w_".to_vec(), behind: vec![], field: None }));
        assert_eq!((all.get.len(), all.limit, all.store), (2, Some((1, -2)), Some(14)));
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
            let Pattern::Key { field: found, .. } = &pattern else { panic!("{text} names a key") };
            assert_eq!(found.as_deref(), field.map(str::as_bytes), "{text}");
            String::from_utf8(pattern.key_of(b"<e>").unwrap()).unwrap()
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

    #[test]
    fn numbers() {
        let number = |text: &str| match Weight::number(text.as_bytes()) {
            Ok(Weight::Number(number)) => Some(number),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => {
                assert_eq!(failure.text(), errors::SCORES.as_bytes());
                None
            }
        };
        for (text, want) in
            [("", 0.0), ("1", 1.0), (" 1e3", 1000.0), ("-inf", f64::NEG_INFINITY), ("5\0x", 5.0), ("+.5", 0.5)]
        {
            assert_eq!(number(text), Some(want), "{text:?}");
        }
        for text in ["x", "1 ", "nan", "1e999", "1x", "\u{e9}"] {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    fn entry() -> impl Strategy<Value = Entry> {
        (0u8..4, proptest::collection::vec(0u8..4, 0..3), -3i8..3).prop_map(|(kind, element, n)| {
            let weight = match kind {
                0 => Weight::Text(None),
                _ => Weight::Text(Some(vec![n.to_le_bytes()[0]; 1 + kind as usize % 2])),
            };
            Entry { element, weight }
        })
    }

    proptest! {
        #[test]
        fn like_a_sort_in_one_go_wherever_it_stops(
            entries in proptest::collection::vec(entry(), 0..300), kind in 0u8..3, descending: bool, stops in 1usize..9,
        ) {
            let entries: Vec<Entry> = entries.into_iter().map(|mut e| {
                match kind {
                    0 => e.weight = Weight::Own,
                    1 => e.weight = Weight::Number(f64::from(u8::try_from(e.element.len()).unwrap())),
                    _ => {}
                }
                e
            }).collect();
            let mut want = entries.clone();
            want.sort_by(|a, b| if descending { b.order(a) } else { a.order(b) });
            let mut sorter = Sorter::new(entries, descending);
            let mut steps = 0;
            loop {
                let mut left = stops;
                if sorter.step(|| { left -= 1; left > 0 }) {
                    break;
                }
                steps += 1;
                prop_assert!(steps < 10_000, "it comes to an end");
            }
            for (nth, want) in want.iter().enumerate() {
                prop_assert_eq!(sorter.get(nth), want);
            }
        }
    }
}
