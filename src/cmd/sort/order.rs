//! Elements with the weights by which they are sorted, and their order, found in slices. Knows nothing of keys or replies.
//!
//! A sort of a million elements is a matter of hundreds of milliseconds, so [`Sorter`] is a merge sort from the bottom up that can stop after
//! any few elements. And it has neither a million allocations to free at its end, nor one that would have to be moved as it grows: texts lie
//! one behind the other in pieces, the rest in arrays made as long as they will be.

use super::super::ctx::Failure;
use crate::base::float;
use crate::base::heap;
use crate::proto::errors;
use std::cmp::Ordering;

/// Texts are put together in pieces of this size; a longer one has its own. Small enough to free one at a time.
const PIECE_BYTES: usize = 128 << 10;

/// Where a text lies in [`Texts`].
#[derive(Clone, Copy, Debug)]
pub struct Text {
    piece: u32,
    at: u32,
    len: u32,
}

/// Many texts.
#[derive(Default)]
pub struct Texts {
    pieces: Vec<Vec<u8>>,
    bytes: usize,
}

impl Texts {
    /// # Panics
    /// With a text of 4 GiB, or 2^32 pieces: elements are shorter, and there is no memory for that many.
    pub fn put(&mut self, text: &[u8]) -> Text {
        if self.pieces.last().is_none_or(|piece| piece.capacity() - piece.len() < text.len()) {
            let piece = Vec::with_capacity(text.len().max(PIECE_BYTES));
            self.bytes += piece.capacity();
            self.pieces.push(piece);
        }
        let count = self.pieces.len();
        let Some(piece) = self.pieces.last_mut() else { unreachable!("there is one now") };
        let narrow = |n: usize| u32::try_from(n).expect("an element is shorter than 4 GiB");
        let text_at = Text { piece: narrow(count - 1), at: narrow(piece.len()), len: narrow(text.len()) };
        piece.extend_from_slice(text);
        text_at
    }

    #[must_use]
    pub fn get(&self, text: Text) -> &[u8] {
        &self.pieces[text.piece as usize][text.at as usize..][..text.len as usize]
    }

    /// Frees a piece; false: there are no more.
    fn free_piece(&mut self) -> bool {
        let Some(piece) = self.pieces.pop() else { return false };
        self.bytes -= piece.capacity();
        true
    }
}

/// By what elements are sorted.
pub enum Weights {
    /// By themselves.
    Own,
    Numbers(Vec<f64>),
    /// By other texts; what has none comes first.
    Texts(Vec<Option<Text>>),
}

/// Elements, with a weight for each if they have weights.
pub struct Elements {
    pub texts: Texts,
    pub elements: Vec<Text>,
    pub weights: Weights,
}

impl Elements {
    /// Room for `count` elements with weights like those given.
    #[must_use]
    pub fn new(count: usize, weights: Weights) -> Elements {
        let weights = match weights {
            Weights::Own => Weights::Own,
            Weights::Numbers(_) => Weights::Numbers(Vec::with_capacity(count)),
            Weights::Texts(_) => Weights::Texts(Vec::with_capacity(count)),
        };
        Elements { texts: Texts::default(), elements: Vec::with_capacity(count), weights }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    pub fn push(&mut self, element: &[u8]) {
        let text = self.texts.put(element);
        self.elements.push(text);
    }

    #[must_use]
    pub fn get(&self, nth: usize) -> &[u8] {
        self.texts.get(self.elements[nth])
    }

    /// How many of the elements, from the first on, have their weights.
    #[must_use]
    pub fn weighed(&self) -> usize {
        match &self.weights {
            Weights::Own => self.len(),
            Weights::Numbers(numbers) => numbers.len(),
            Weights::Texts(texts) => texts.len(),
        }
    }

    /// The next element's weight, from its text; `None`: there is no such thing.
    ///
    /// # Errors
    /// If it is to be a number and is none.
    pub fn weigh(&mut self, text: Option<&[u8]>) -> Result<(), Failure> {
        match &mut self.weights {
            Weights::Own => {}
            Weights::Numbers(numbers) => numbers.push(text.map_or(Ok(0.0), number)?),
            Weights::Texts(texts) => {
                let text = text.map(|text| self.texts.put(text));
                texts.push(text);
            }
        }
        Ok(())
    }

    /// The next element's weight is what its own text tells.
    ///
    /// # Errors
    /// If it is to be a number and is none.
    pub fn weigh_itself(&mut self) -> Result<(), Failure> {
        let Weights::Numbers(numbers) = &mut self.weights else { return Ok(()) };
        let text = self.texts.get(self.elements[numbers.len()]);
        numbers.push(number(text)?);
        Ok(())
    }

    /// Elements of one weight are told apart by their bytes, so that the order is the same every time.
    fn compare(&self, a: u32, b: u32) -> Ordering {
        let (a, b) = (a as usize, b as usize);
        let by_weight = match &self.weights {
            Weights::Own => Ordering::Equal,
            // Numbers are no NaN.
            Weights::Numbers(numbers) => numbers[a].partial_cmp(&numbers[b]).unwrap_or(Ordering::Equal),
            Weights::Texts(texts) => {
                let text = |nth: usize| texts[nth].map(|text| self.texts.get(text));
                text(a).cmp(&text(b))
            }
        };
        by_weight.then_with(|| self.get(a).cmp(self.get(b)))
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let weights = match &self.weights {
            Weights::Own => 0,
            Weights::Numbers(numbers) => numbers.capacity() * size_of::<f64>(),
            Weights::Texts(texts) => texts.capacity() * size_of::<Option<Text>>(),
        };
        self.texts.bytes + self.elements.capacity() * size_of::<Text>() + weights
    }

    /// Frees some of the memory; false: there is none left. Nothing else is called from the first call on.
    pub fn free_some(&mut self) -> bool {
        if self.texts.free_piece() {
            return true;
        }
        heap::free_later(std::mem::take(&mut self.elements));
        match std::mem::replace(&mut self.weights, Weights::Own) {
            Weights::Own => {}
            Weights::Numbers(numbers) => heap::free_later(numbers),
            Weights::Texts(texts) => heap::free_later(texts),
        }
        false
    }
}

/// The weight that a text has in a numeric sort.
fn number(text: &[u8]) -> Result<f64, Failure> {
    // As C's strtod reads it: blanks before, a NUL ends it, nothing is 0.
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii_start();
    if text.is_empty() {
        return Ok(0.0);
    }
    float::parse(text).ok_or(Failure::Text(errors::SCORES))
}

/// Elements sorted at once where a run begins.
const RUN: usize = 16;

/// Elements on their way to be in order: runs of one length, merged in pairs until there is one.
#[derive(Default)]
pub struct Sorter {
    len: usize,
    descending: bool,
    /// Numbers of elements; runs of `width` are in order, in `order` up to those that were merged into `merged` already.
    order: Vec<u32>,
    merged: Vec<u32>,
    width: usize,
    /// Of the pair being merged: what comes next of the left and of the right run, and where each ends.
    left: usize,
    right: usize,
    middle: usize,
    end: usize,
}

impl Sorter {
    /// # Panics
    /// With 2^32 elements or more.
    #[must_use]
    pub fn new(len: usize, descending: bool) -> Sorter {
        assert!(u32::try_from(len).is_ok(), "more elements than there are numbers");
        let (order, merged) = (Vec::with_capacity(len), Vec::with_capacity(if len > RUN { len } else { 0 }));
        Sorter { len, descending, order, merged, ..Sorter::default() }
    }

    fn compare(&self, elements: &Elements, a: u32, b: u32) -> Ordering {
        let order = elements.compare(a, b);
        if self.descending { order.reverse() } else { order }
    }

    /// Works until all is in order (true), or `time_left`, which is asked for every [`RUN`] of elements, says no.
    pub fn step(&mut self, elements: &Elements, mut time_left: impl FnMut() -> bool) -> bool {
        let len = self.len;
        while self.order.len() < len && self.width == 0 {
            let from = self.order.len();
            #[expect(clippy::cast_possible_truncation, reason = "`new` has seen to it")]
            let mut run: [u32; RUN] = std::array::from_fn(|i| (from + i) as u32);
            let run = &mut run[..RUN.min(len - from)];
            run.sort_unstable_by(|&a, &b| self.compare(elements, a, b));
            self.order.extend_from_slice(run);
            if !time_left() {
                return false;
            }
        }
        if self.width == 0 {
            self.width = RUN;
        }
        while self.width < len {
            for _ in 0..RUN {
                if self.merged.len() == len {
                    std::mem::swap(&mut self.order, &mut self.merged);
                    self.merged.clear();
                    self.width *= 2;
                    self.end = 0;
                    break;
                }
                self.merge_one(elements);
            }
            if !time_left() {
                return false;
            }
        }
        true
    }

    /// Moves the next element of the pair of runs that `merged` has come to.
    fn merge_one(&mut self, elements: &Elements) {
        let start = self.merged.len();
        if start == self.end {
            self.middle = (start + self.width).min(self.len);
            self.end = (start + 2 * self.width).min(self.len);
            (self.left, self.right) = (start, self.middle);
        }
        let take_right = self.left == self.middle
            || (self.right < self.end
                && self.compare(elements, self.order[self.right], self.order[self.left]) == Ordering::Less);
        let from = if take_right { &mut self.right } else { &mut self.left };
        self.merged.push(self.order[*from]);
        *from += 1;
    }

    pub fn free(self) {
        heap::free_later(self.order);
        heap::free_later(self.merged);
    }

    /// Which element is the `nth` in order, when `step` has said that all is.
    #[must_use]
    pub fn nth(&self, nth: usize) -> usize {
        self.order[nth] as usize
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.order.capacity() + self.merged.capacity()) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers() {
        for (text, want) in [
            ("", 0.0),
            ("1", 1.0),
            (" 1e3", 1000.0),
            ("-inf", f64::NEG_INFINITY),
            ("5\0x", 5.0),
            ("+.5", 0.5),
            ("0x10", 16.0),
        ] {
            assert_eq!(number(text.as_bytes()).ok(), Some(want), "{text:?}");
        }
        for text in ["x", "1 ", "nan", "1e999", "1x", "\u{e9}"] {
            let Err(failure) = number(text.as_bytes()) else { panic!("{text:?} is no number") };
            assert_eq!(failure.text(), errors::SCORES.as_bytes());
        }
    }

    #[test]
    fn memory_is_counted_and_freed_piece_by_piece() {
        let mut elements = Elements::new(1000, Weights::Texts(Vec::new()));
        let long = vec![b'x'; 3 * PIECE_BYTES];
        for nth in 0..1000_usize {
            let text = vec![nth.to_le_bytes()[0]; nth];
            elements.push(if nth == 500 { &long } else { &text });
            elements.weigh(Some(&text)).unwrap();
        }
        assert_eq!(elements.get(500), long);
        assert_eq!(elements.get(501).len(), 501);
        let at_least = 2 * (0..1000).sum::<usize>() + long.len();
        assert!((at_least..at_least + 3 * PIECE_BYTES + 40_000).contains(&elements.bytes()), "{}", elements.bytes());
        let mut last = elements.bytes();
        while elements.free_some() {
            assert!(elements.bytes() < last && last - elements.bytes() <= long.len());
            last = elements.bytes();
        }
        assert_eq!(elements.bytes(), 0);
    }

    proptest! {
        #[test]
        fn like_a_sort_in_one_go_wherever_it_stops(
            entries in proptest::collection::vec((proptest::collection::vec(0u8..4, 0..3), 0u8..4, -3i8..3), 0..300),
            kind in 0u8..3, descending: bool, stops in 1usize..9,
        ) {
            let weights = [Weights::Own, Weights::Numbers(Vec::new()), Weights::Texts(Vec::new())];
            let [own, numbers, texts] = weights;
            let mut elements = Elements::new(entries.len(), match kind { 0 => own, 1 => numbers, _ => texts });
            let text_of = |which: u8, n: i8| match (kind, which) {
                (1, _) => Some(n.to_string().into_bytes()),
                (_, 0) => None,
                _ => Some(vec![n.to_le_bytes()[0]; 1 + which as usize % 2]),
            };
            for (element, which, n) in &entries {
                elements.push(element);
                elements.weigh(text_of(*which, *n).as_deref()).unwrap();
            }
            let mut want = entries.clone();
            want.sort_by(|a, b| {
                let order = match kind {
                    0 => a.0.cmp(&b.0),
                    1 => (a.2, &a.0).cmp(&(b.2, &b.0)),
                    _ => (text_of(a.1, a.2), &a.0).cmp(&(text_of(b.1, b.2), &b.0)),
                };
                if descending { order.reverse() } else { order }
            });
            let mut sorter = Sorter::new(entries.len(), descending);
            let mut steps = 0;
            loop {
                let mut left = stops;
                if sorter.step(&elements, || { left -= 1; left > 0 }) {
                    break;
                }
                steps += 1;
                prop_assert!(steps < 10_000, "it comes to an end");
            }
            for (nth, want) in want.iter().enumerate() {
                prop_assert_eq!(elements.get(sorter.nth(nth)), &want.0[..]);
            }
        }
    }
}
