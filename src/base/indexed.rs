//! Values by an index that somebody else gives out and uses again (connections): pages of slots, so that growing never moves one.

const PAGE: usize = 256;

/// A sparse vector of `T` with stable places.
pub struct Indexed<T> {
    pages: Vec<Option<Page<T>>>,
    len: usize,
    /// Pages that exist. One that becomes empty is given back.
    live_pages: usize,
}

struct Page<T> {
    slots: Box<[Option<T>]>,
    len: usize,
}

impl<T> Default for Indexed<T> {
    fn default() -> Indexed<T> {
        Indexed { pages: Vec::new(), len: 0, live_pages: 0 }
    }
}

impl<T> Indexed<T> {
    /// Values held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a value at a free index.
    ///
    /// # Panics
    /// If the index is taken: whoever gives it out must have taken it back first.
    pub fn insert(&mut self, index: u32, value: T) {
        let (page, slot) = (index as usize / PAGE, index as usize % PAGE);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let live_pages = &mut self.live_pages;
        let page = self.pages[page].get_or_insert_with(|| {
            *live_pages += 1;
            Page { slots: (0..PAGE).map(|_| None).collect(), len: 0 }
        });
        assert!(page.slots[slot].is_none(), "index {index} is in use");
        page.slots[slot] = Some(value);
        page.len += 1;
        self.len += 1;
    }

    pub fn remove(&mut self, index: u32) -> Option<T> {
        let place = self.pages.get_mut(index as usize / PAGE)?;
        let page = place.as_mut()?;
        let removed = page.slots[index as usize % PAGE].take()?;
        page.len -= 1;
        self.len -= 1;
        // The first page stays: a lone client that comes and goes costs no allocation.
        if page.len == 0 && index as usize >= PAGE {
            *place = None;
            self.live_pages -= 1;
        }
        Some(removed)
    }

    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.pages.get_mut(index as usize / PAGE)?.as_mut()?.slots[index as usize % PAGE].as_mut()
    }

    #[inline]
    #[must_use]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.pages.get(index as usize / PAGE)?.as_ref()?.slots[index as usize % PAGE].as_ref()
    }

    /// All values with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.pages.iter().enumerate().filter_map(|(at, page)| Some((at, page.as_ref()?))).flat_map(|(at, page)| {
            page.slots.iter().enumerate().filter_map(move |(slot, value)| {
                Some((u32::try_from(at * PAGE + slot).unwrap_or(u32::MAX), value.as_ref()?))
            })
        })
    }

    /// The first index from `from` on that holds a value.
    #[must_use]
    pub fn next_occupied(&self, from: u32) -> Option<u32> {
        let first = from as usize / PAGE;
        for (at, page) in self.pages.iter().enumerate().skip(first) {
            let skip = if at == first { from as usize % PAGE } else { 0 };
            let Some(page) = page else { continue };
            if let Some(slot) = page.slots.iter().skip(skip).position(Option::is_some) {
                return u32::try_from(at * PAGE + skip + slot).ok();
            }
        }
        None
    }

    /// Memory held for slots, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Option<Page<T>>>() + self.live_pages * PAGE * size_of::<Option<T>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_and_stable() {
        let mut all = Indexed::default();
        all.insert(700, 7);
        let at: *const i32 = all.get(700).unwrap();
        for i in 0..700 {
            all.insert(i, 1);
        }
        assert!(std::ptr::eq(at, all.get(700).unwrap()));
        assert_eq!((all.len(), all.remove(700), all.remove(700), all.len()), (701, Some(7), None, 700));
        assert_eq!(all.get(100_000), None);
        all.insert(700, 8);
        assert_eq!(all.live_pages, 3);
        (256..512).for_each(|i| assert_eq!(all.remove(i), Some(1)));
        assert_eq!(all.live_pages, 2);
        assert_eq!(all.iter().last(), Some((700, &8)));
        all.remove(3);
        assert_eq!((all.next_occupied(3), all.next_occupied(700), all.next_occupied(701)), (Some(4), Some(700), None));
    }
}
