//! The one way in which the crate fails.

/// Out of memory or of reserved address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocError {
    /// Size of the request that failed.
    pub requested_bytes: usize,
}

impl std::fmt::Display for AllocError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no room for {} bytes", self.requested_bytes)
    }
}

impl std::error::Error for AllocError {}
