//! The heap of the C library, which holds what belongs to requests and connections (data has an allocator of its own).
#![allow(unsafe_code)]

/// Buffers at least this long are mappings of their own.
const LARGE_BYTES: i32 = 256 << 10;
/// Free memory at the heap's end beyond this goes back to the system.
const TRIM_BYTES: i32 = 1 << 20;

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
