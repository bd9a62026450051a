//! `PagedVec`: index to element in pages of 256. Growth never moves an element and never copies more than page pointers, so ten thousand
//! new connections cause no pause; pages that empty are given back. Insert, remove and access are O(1) (a fresh page is 256 cheap writes).
//!
//! Owns the elements. Indices are reused: who keeps one beyond the element's life needs a generation of his own.
//!
//! Invariants: a page is in `roomy` exactly if it has a vacant slot (a page without memory has 256); a page with memory has at least one
//! element; `spare` holds only vacant slots, chained 0, 1, 2, ... as a fresh page's.
use std::fmt;

/// Elements a page.
pub const PAGE_LEN: usize = 256;

enum Slot<T> {
    /// Index in the page of the next vacant slot, `PAGE_LEN` at the end.
    Vacant(u16),
    Occupied(T),
}

struct Page<T> {
    /// `None` while the page has no element.
    slots: Option<Box<[Slot<T>; PAGE_LEN]>>,
    /// First vacant slot, `PAGE_LEN` if there is none. 0 while `slots` is `None`.
    free: u16,
    live: u16,
}

pub struct PagedVec<T> {
    pages: Vec<Page<T>>,
    /// Pages that have room, the most recently used last.
    roomy: Vec<u32>,
    /// One emptied page kept back, so that an element coming and going at a page's edge does not allocate each time.
    spare: Option<Box<[Slot<T>; PAGE_LEN]>>,
    len: usize,
}

const END: u16 = 256;
const _: () = assert!(END as usize == PAGE_LEN);

#[expect(clippy::cast_possible_truncation, reason = "called with indices below PAGE_LEN + 1")]
fn vacant_chain<T>(slots: &mut [Slot<T>; PAGE_LEN]) {
    for (i, s) in slots.iter_mut().enumerate() {
        *s = Slot::Vacant(i as u16 + 1);
    }
}

/// Page and place in it.
#[inline]
fn locate(index: u32) -> (usize, usize) {
    (index as usize / PAGE_LEN, index as usize % PAGE_LEN)
}

impl<T> PagedVec<T> {
    pub const fn new() -> PagedVec<T> {
        PagedVec { pages: Vec::new(), roomy: Vec::new(), spare: None, len: 0 }
    }

    /// Elements, not pages.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element's index stays its own until it is removed.
    ///
    /// # Panics
    /// At 2^32 elements.
    pub fn insert(&mut self, value: T) -> u32 {
        let at = self.vacant_page();
        let page = &mut self.pages[at as usize];
        let slots = page.slots.get_or_insert_with(|| {
            page.free = 0;
            self.spare.take().unwrap_or_else(new_slots)
        });
        let place = page.free;
        let slot = &mut slots[usize::from(place)];
        let Slot::Vacant(next) = *slot else { unreachable!("the free list holds vacant slots only") };
        *slot = Slot::Occupied(value);
        page.free = next;
        page.live += 1;
        if next == END {
            // `vacant_page` answers the last of `roomy`.
            self.roomy.pop();
        }
        self.len += 1;
        at << 8 | u32::from(place)
    }

    fn vacant_page(&mut self) -> u32 {
        if let Some(&p) = self.roomy.last() {
            return p;
        }
        let p = u32::try_from(self.pages.len()).ok().filter(|&p| p < 1 << 24).expect("fewer than 2^32 elements");
        self.pages.push(Page { slots: None, free: 0, live: 0 });
        self.roomy.push(p);
        p
    }

    /// Takes the element out, if there is one.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let (p, i) = locate(index);
        let page = self.pages.get_mut(p)?;
        let slot = &mut page.slots.as_mut()?[i];
        if matches!(slot, Slot::Vacant(_)) {
            return None;
        }
        let Slot::Occupied(value) = std::mem::replace(slot, Slot::Vacant(page.free)) else { unreachable!("just seen") };
        if page.free == END {
            self.roomy.push(index >> 8);
        }
        page.free = u16::from(index.to_le_bytes()[0]);
        page.live -= 1;
        self.len -= 1;
        if page.live == 0 {
            page.free = 0;
            let mut slots = page.slots.take();
            if let (None, Some(s)) = (&self.spare, &mut slots) {
                vacant_chain(s);
                self.spare = slots;
            }
        }
        Some(value)
    }

    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (p, i) = locate(index);
        match &self.pages.get(p)?.slots.as_ref()?[i] {
            Slot::Occupied(v) => Some(v),
            Slot::Vacant(_) => None,
        }
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (p, i) = locate(index);
        match &mut self.pages.get_mut(p)?.slots.as_mut()?[i] {
            Slot::Occupied(v) => Some(v),
            Slot::Vacant(_) => None,
        }
    }

    /// Elements in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0u32..).zip(&self.pages).filter_map(|(p, page)| Some((p, page.slots.as_ref()?))).flat_map(|(p, slots)| {
            (0u32..).zip(slots.iter()).filter_map(move |(i, s)| match s {
                Slot::Occupied(v) => Some((p << 8 | i, v)),
                Slot::Vacant(_) => None,
            })
        })
    }

    /// First occupied index at or after `from`: a cursor that survives changes between its steps.
    pub fn next_occupied(&self, from: u32) -> Option<u32> {
        let (first, mut i) = locate(from);
        for p in first..self.pages.len() {
            if let Some(slots) = &self.pages[p].slots
                && let Some(d) = slots[i..].iter().position(|s| matches!(s, Slot::Occupied(_)))
            {
                return u32::try_from(p * PAGE_LEN + i + d).ok();
            }
            i = 0;
        }
        None
    }

    /// Memory held, in bytes, without what the elements own elsewhere.
    pub fn bytes(&self) -> usize {
        let boxes = self.pages.iter().filter(|p| p.slots.is_some()).count() + usize::from(self.spare.is_some());
        boxes * size_of::<[Slot<T>; PAGE_LEN]>()
            + self.pages.capacity() * size_of::<Page<T>>()
            + self.roomy.capacity() * size_of::<u32>()
    }
}

/// Built on the heap: a page of large elements must not pass over the stack.
#[cold]
fn new_slots<T>() -> Box<[Slot<T>; PAGE_LEN]> {
    let slots: Vec<Slot<T>> = (1..=END).map(Slot::Vacant).collect();
    slots.into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("PAGE_LEN slots were made"))
}

impl<T> Default for PagedVec<T> {
    fn default() -> PagedVec<T> {
        PagedVec::new()
    }
}

impl<T> std::ops::Index<u32> for PagedVec<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        self.get(index).expect("an occupied index")
    }
}

impl<T> std::ops::IndexMut<u32> for PagedVec<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.get_mut(index).expect("an occupied index")
    }
}

impl<T: fmt::Debug> fmt::Debug for PagedVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Programs of insertions and removals (in runs, so that pages fill and empty) against a map.
        #[test]
        fn like_a_map(ops in prop::collection::vec((any::<bool>(), 0u32..1500, 1usize..300), 1..60)) {
            let mut v = PagedVec::new();
            let mut model: BTreeMap<u32, String> = BTreeMap::new();
            let mut serial = 0u64;
            for (insert, at, run) in ops {
                for k in 0..u32::try_from(run).unwrap() {
                    if insert {
                        serial += 1;
                        let i = v.insert(serial.to_string());
                        prop_assert!(model.insert(i, serial.to_string()).is_none(), "index {} handed out twice", i);
                    } else {
                        prop_assert_eq!(v.remove(at + k), model.remove(&(at + k)));
                    }
                }
                prop_assert_eq!(v.len(), model.len());
                prop_assert!(v.iter().map(|(i, s)| (i, s.clone())).eq(model.clone()));
                prop_assert_eq!(v.next_occupied(at), model.range(at..).next().map(|(&i, _)| i));
                prop_assert_eq!(v.get(at), model.get(&at));
            }
            let indices: Vec<u32> = model.keys().copied().collect();
            for i in indices {
                prop_assert_eq!(v.remove(i), model.remove(&i));
            }
            prop_assert!(v.pages.iter().all(|p| p.slots.is_none()), "emptied pages are given back");
        }
    }

    #[test]
    fn elements_do_not_move() {
        let mut v = PagedVec::new();
        let first = v.insert(1u64);
        let address = std::ptr::from_ref(&v[first]);
        for i in 0..100_000 {
            v.insert(i);
        }
        assert_eq!(address, std::ptr::from_ref(&v[first]));
        v[first] += 1;
        assert_eq!(v[first], 2);
    }

    #[test]
    fn indices_stay_dense() {
        let mut v = PagedVec::new();
        let all: Vec<u32> = (0..1000).map(|i| v.insert(i)).collect();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        for i in 0..1000 {
            v.remove(i);
        }
        let again = (0..1000).map(|i| v.insert(i)).max();
        assert!(again < Some(1024));
    }
}
