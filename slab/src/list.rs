//! Doubly linked lists through records in a table, by number. Owns the links only; 0 means "none", so record 0 is never listed.

/// Records that carry the links of one list.
pub(crate) trait Links {
    /// The fields `prev` and `next` of a record.
    fn links(&mut self, id: u32) -> (&mut u32, &mut u32);
}

/// A list; all-zero is empty.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl List {
    pub(crate) fn is_empty(self) -> bool {
        self.head == 0
    }

    pub(crate) fn push_front(&mut self, records: &mut impl Links, id: u32) {
        let old = self.head;
        let (prev, next) = records.links(id);
        (*prev, *next) = (0, old);
        self.head = id;
        if old == 0 {
            self.tail = id;
        } else {
            *records.links(old).0 = id;
        }
    }

    pub(crate) fn push_back(&mut self, records: &mut impl Links, id: u32) {
        let old = self.tail;
        let (prev, next) = records.links(id);
        (*prev, *next) = (old, 0);
        self.tail = id;
        if old == 0 {
            self.head = id;
        } else {
            *records.links(old).1 = id;
        }
    }

    /// Unlinks a record that is in this list.
    pub(crate) fn remove(&mut self, records: &mut impl Links, id: u32) {
        let (&mut prev, &mut next) = records.links(id);
        if prev == 0 {
            debug_assert_eq!(self.head, id);
            self.head = next;
        } else {
            *records.links(prev).1 = next;
        }
        if next == 0 {
            debug_assert_eq!(self.tail, id);
            self.tail = prev;
        } else {
            *records.links(next).0 = prev;
        }
    }

    pub(crate) fn pop_front(&mut self, records: &mut impl Links) -> Option<u32> {
        let id = self.head;
        (id != 0).then(|| {
            self.remove(records, id);
            id
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Links for [(u32, u32); 8] {
        fn links(&mut self, id: u32) -> (&mut u32, &mut u32) {
            let record = &mut self[id as usize];
            (&mut record.0, &mut record.1)
        }
    }

    #[test]
    fn lists_keep_order_from_both_ends() {
        let mut records = [(0, 0); 8];
        let mut list = List::default();
        for id in [1, 2, 3] {
            list.push_front(&mut records, id);
        }
        list.push_back(&mut records, 4);
        list.remove(&mut records, 2);
        let seen: Vec<u32> = std::iter::from_fn(|| list.pop_front(&mut records)).collect();
        assert_eq!(seen, [3, 1, 4]);
        assert!(list.is_empty());
        list.push_back(&mut records, 5);
        assert_eq!((list.head, list.tail), (5, 5));
    }
}
