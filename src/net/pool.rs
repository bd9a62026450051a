//! Output buffers that wait for their next use. Knows nothing of connections.
//!
//! Invariants: pooled buffers are empty; their capacities together stay below [`POOL_BYTES_MAX`]; one that a large reply blew up
//! beyond [`BUFFER_BYTES_MAX`] is given back to the allocator. Last in, first out, so that the next reply is written into warm lines.

/// Capacity of a fresh buffer: the replies of most wake-ups fit.
pub(super) const BUFFER_BYTES: usize = 16 * 1024;
/// Above this capacity a buffer is not kept. A pipeline of middling values goes to 64 KiB without paying for growth each time.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Bound of the pool.
const POOL_BYTES_MAX: usize = 1 << 20;

pub(super) struct Pool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool { buffers: Vec::with_capacity(POOL_BYTES_MAX / BUFFER_BYTES), bytes: 0 }
    }

    #[inline]
    pub(super) fn take(&mut self) -> Vec<u8> {
        match self.buffers.pop() {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            None => fresh(),
        }
    }

    #[inline]
    pub(super) fn give(&mut self, buffer: Vec<u8>) {
        debug_assert!(buffer.is_empty());
        let capacity = buffer.capacity();
        // Smaller ones would make the next user grow at once.
        if (BUFFER_BYTES..=BUFFER_BYTES_MAX).contains(&capacity) && self.bytes + capacity <= POOL_BYTES_MAX {
            self.bytes += capacity;
            self.buffers.push(buffer);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.buffers.capacity() * size_of::<Vec<u8>>()
    }
}

#[cold]
#[inline(never)]
fn fresh() -> Vec<u8> {
    Vec::with_capacity(BUFFER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_buffer_comes_back_first() {
        let mut pool = Pool::new();
        let (a, b) = (pool.take(), pool.take());
        let warm = b.as_ptr();
        pool.give(a);
        pool.give(b);
        let again = pool.take();
        assert_eq!(again.as_ptr(), warm);
    }

    #[test]
    fn oversized_and_undersized_buffers_are_dropped_and_the_pool_is_bounded() {
        let mut pool = Pool::new();
        pool.give(Vec::with_capacity(BUFFER_BYTES_MAX + 1));
        pool.give(Vec::with_capacity(10));
        assert_eq!(pool.bytes, 0);
        for _ in 0..1000 {
            pool.give(Vec::with_capacity(BUFFER_BYTES_MAX));
        }
        assert_eq!(pool.bytes, POOL_BYTES_MAX);
        assert_eq!(pool.buffers.len(), POOL_BYTES_MAX / BUFFER_BYTES_MAX);
    }
}
