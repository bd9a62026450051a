//! Reading a hash of either form.

use super::element::{Element, Needle, Text};
use super::{ElementHash, Hash, small};
use crate::types::packed;
use crate::types::{Form, Look};

/// A field with its value. A deadline of 0 is none.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub name: Text<'a>,
    pub value: Text<'a>,
    pub deadline_ms: u64,
}

impl<'a> Field<'a> {
    fn of_small(field: small::Field<'a>) -> Field<'a> {
        Field { name: Text::Entry(field.name), value: Text::Entry(field.value), deadline_ms: field.deadline_ms }
    }

    fn of_element(element: Element<'a>) -> Field<'a> {
        Field { name: element.field(), value: element.value(), deadline_ms: element.deadline_ms() }
    }

    /// Its deadline has not come.
    #[inline]
    #[must_use]
    pub fn is_there(&self, now_ms: u64) -> bool {
        self.deadline_ms == 0 || self.deadline_ms > now_ms
    }
}

impl<'a> Look<'a, Hash> {
    /// Number of fields, those included whose deadlines have come and that were not removed yet.
    #[inline]
    #[must_use]
    pub fn field_count(self) -> usize {
        match self.form {
            Form::Packed(packed) => packed::count(packed),
            Form::Big(big) => big.table.len(),
        }
    }

    /// A field that is there at this instant.
    #[inline]
    #[must_use]
    pub fn field(self, name: &[u8], now_ms: u64) -> Option<Field<'a>> {
        let needle = Needle::new(name);
        let field = match self.form {
            Form::Packed(packed) => Field::of_small(small::find(packed, needle.entry)?),
            Form::Big(big) => {
                let slot = big.find(self.slab, &needle, needle.hash(big.seed))?;
                Field::of_element(Element::at(self.slab, big.table.handle(slot)))
            }
        };
        field.is_there(now_ms).then_some(field)
    }

    /// The first deadline of all; `u64::MAX`: there is none.
    #[inline]
    #[must_use]
    pub fn earliest_ms(self) -> u64 {
        match self.form {
            Form::Packed(packed) => small::earliest_ms(packed),
            Form::Big(big) => big.timed.first(self.slab).map_or(u64::MAX, |node| node.deadline_ms),
        }
    }

    /// Visits the next few fields from a cursor, and returns the next cursor: 0 at the end. Start with 0. A field that is there from the first call to
    /// the last is visited at least once.
    pub fn scan(self, cursor: u64, mut visit: impl FnMut(Field<'a>)) -> u64 {
        match self.form {
            Form::Packed(packed) => {
                small::fields(packed).for_each(|field| visit(Field::of_small(field)));
                0
            }
            Form::Big(big) => {
                let hashes = ElementHash { seed: big.seed };
                big.table.scan(self.slab, &hashes, cursor, |h| visit(Field::of_element(Element::at(self.slab, h))))
            }
        }
    }

    /// A field, each with the same probability.
    pub fn random(self, mut next_u64: impl FnMut() -> u64) -> Option<Field<'a>> {
        match self.form {
            Form::Packed(packed) => {
                let count = packed::count(packed) as u128;
                let nth = usize::try_from((u128::from(next_u64()) * count) >> 64).expect("below the count");
                small::fields(packed).nth(nth).map(Field::of_small)
            }
            Form::Big(big) => {
                let h = big.table.random(self.slab, next_u64)?;
                Some(Field::of_element(Element::at(self.slab, h)))
            }
        }
    }

    /// All fields of a small hash; of a big one none is told (`None`): it is read in slices.
    #[must_use]
    pub fn small_fields(self) -> Option<impl Iterator<Item = Field<'a>>> {
        match self.form {
            Form::Packed(packed) => Some(small::fields(packed).map(Field::of_small)),
            Form::Big(_) => None,
        }
    }
}
