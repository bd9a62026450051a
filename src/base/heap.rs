//! The heap of the C library, which holds what belongs to requests and connections (data has an allocator of its own).
#![allow(unsafe_code)]

use std::cell::RefCell;

/// Buffers at least this long are mappings of their own.
const LARGE_BYTES: i32 = 256 << 10;
/// Free memory at the heap's end beyond this goes back to the system.
const TRIM_BYTES: i32 = 1 << 20;

/// What is given back at once: its pages take some ten microseconds.
const SLICE_BYTES: usize = 256 << 10;

thread_local! {
    /// Buffers of this thread that wait to be freed.
    static LATER: RefCell<Vec<Box<dyn Buffer>>> = const { RefCell::new(Vec::new()) };
}

/// What is freed in slices.
trait Buffer {
    /// Gives a part back. True: that was all but one slice.
    fn shrink(&mut self) -> bool;
}

impl<T: Copy> Buffer for Vec<T> {
    fn shrink(&mut self) -> bool {
        if self.capacity() * size_of::<T>() < 2 * SLICE_BYTES {
            return true;
        }
        // A mapping of its own, so this cuts off its end in place.
        self.shrink_to(self.capacity() - SLICE_BYTES / size_of::<T>());
        false
    }
}

/// Frees a buffer by and by (`free_some`), if it is large: to give 20 MB back to the system takes milliseconds.
pub fn free_later<T: Copy + 'static>(mut buffer: Vec<T>) {
    if buffer.capacity() * size_of::<T>() >= SLICE_BYTES {
        buffer.clear();
        LATER.with_borrow_mut(|later| later.push(Box::new(buffer)));
    }
}

/// Frees a part of what waits. False: nothing does.
pub fn free_some() -> bool {
    LATER.with_borrow_mut(|later| {
        let Some(buffer) = later.last_mut() else { return false };
        if buffer.shrink() {
            later.pop();
        }
        true
    })
}

/// Sees to it that a large buffer (a request of megabytes, its arguments, its replies) goes back to the system when it is freed. By
/// itself glibc learns from the first such buffer to keep the next ones, up to 32 MiB each.
pub fn return_large_buffers() {
    // SAFETY: sets two numbers of the allocator; called before other threads exist.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_BYTES);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = (LARGE_BYTES, TRIM_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_freed_in_slices() {
        free_later(vec![1_u8; SLICE_BYTES / 2]);
        assert!(!free_some(), "freed at once");
        free_later(vec![1_u8; SLICE_BYTES]);
        free_later(vec![1_u32; SLICE_BYTES]);
        let mut slices = 0;
        while free_some() {
            slices += 1;
        }
        assert_eq!(slices, 1 + 4);
    }
}
