//! The names by which callers know memory: [`Handle`] of a chunk, [`BlobId`] of a blob, and who owns a chunk ([`Kind`]).
//!
//! Plain numbers without behaviour: they own nothing and must not know where memory lies.

/// Where a chunk lies: units of 8 bytes from the region's base. `NULL` (0) is never handed out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Handle(u32);

impl Handle {
    /// No chunk.
    pub const NULL: Handle = Handle(0);

    /// The handle whose [`bits`](Handle::bits) were stored somewhere.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Handle {
        Handle(bits)
    }

    /// The handle as a number, for storage in packed structures.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether this is [`Handle::NULL`].
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

/// Who owns a chunk, hence who can move it: spans of items and spans of interior nodes are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A key's own chunk: found through the key, so it can be evacuated from outside.
    Item = 0,
    /// A node of a container or of a table: only its container can move it.
    Interior = 1,
}

/// Names a blob towards its owner. 0 is never handed out, so that it can mean "none" in packed structures.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct BlobId(u32);

impl BlobId {
    /// The id whose [`bits`](BlobId::bits) were stored somewhere.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> BlobId {
        BlobId(bits)
    }

    /// The id as a number, for storage in packed structures.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }
}
