//! Doubly linked lists of objects over arrays: each object is in one list at most. What a list holds is counted in bytes.

const NONE: u32 = u32::MAX;

/// The links of all objects, shared by the lists of a policy.
pub struct Links {
    next: Vec<u32>,
    prev: Vec<u32>,
}

impl Links {
    pub fn new(objects: usize) -> Links {
        Links { next: vec![NONE; objects], prev: vec![NONE; objects] }
    }
}

/// From the newest (front) to the oldest (back).
#[derive(Clone, Copy)]
pub struct List {
    front: u32,
    back: u32,
    pub bytes: u64,
    pub count: u64,
}

impl Default for List {
    fn default() -> List {
        List { front: NONE, back: NONE, bytes: 0, count: 0 }
    }
}

impl List {
    pub fn push(&mut self, links: &mut Links, object: u32, bytes: u32) {
        links.next[object as usize] = self.front;
        links.prev[object as usize] = NONE;
        match self.front {
            NONE => self.back = object,
            front => links.prev[front as usize] = object,
        }
        self.front = object;
        self.bytes += u64::from(bytes);
        self.count += 1;
    }

    pub fn remove(&mut self, links: &mut Links, object: u32, bytes: u32) {
        let (next, prev) = (links.next[object as usize], links.prev[object as usize]);
        match prev {
            NONE => self.front = next,
            prev => links.next[prev as usize] = next,
        }
        match next {
            NONE => self.back = prev,
            next => links.prev[next as usize] = prev,
        }
        self.bytes -= u64::from(bytes);
        self.count -= 1;
    }

    pub fn oldest(&self) -> Option<u32> {
        (self.back != NONE).then_some(self.back)
    }

    /// The next one that is newer.
    pub fn newer(links: &Links, object: u32) -> Option<u32> {
        let prev = links.prev[object as usize];
        (prev != NONE).then_some(prev)
    }
}
