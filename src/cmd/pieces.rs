//! Large values in pieces: read from where they lie, made blob by blob outside of the keyspace, for commands that go on in slices.

use crate::db::{Db, DbError, Key};
use dolmen_slab::{BlobId, BlobRef, SEGMENT_BYTES};

/// Bytes that are copied or summed up between two looks at the clock: a few microseconds.
pub const PIECE_BYTES: usize = 32 << 10;
/// A large value of at most so many bytes is copied in one go.
pub const AT_ONCE_BYTES: usize = 64 << 10;

/// Reads a part of a value from its beginning to its end.
pub struct Reader {
    blob: BlobRef,
    at: usize,
    end: usize,
}

impl Reader {
    /// # Panics
    /// If the part does not lie in the value.
    #[must_use]
    pub fn new(blob: BlobRef, from: usize, to: usize) -> Reader {
        assert!(from <= to && to <= blob.len());
        Reader { blob, at: from, end: to }
    }

    /// The next bytes, `max` at most; `None` at the end.
    pub fn next(&mut self, max: usize) -> Option<&[u8]> {
        if self.at == self.end {
            return None;
        }
        let segment = self.blob.segment(self.at / SEGMENT_BYTES);
        let rest = &segment[self.at % SEGMENT_BYTES..];
        let piece = &rest[..rest.len().min(max).min(self.end - self.at)];
        self.at += piece.len();
        Some(piece)
    }
}

/// A value that is being made. Who gives it up calls `release`; it does not clean up by itself, as it lies in a shard.
#[derive(Default)]
pub struct Draft {
    blob: Option<BlobId>,
}

impl Draft {
    /// Appends; the whole will have about `len_bytes`.
    ///
    /// # Errors
    /// [`DbError::OutOfMemory`].
    pub fn append(&mut self, db: &mut Db<'_>, key: Key<'_>, len_bytes: usize, bytes: &[u8]) -> Result<(), DbError> {
        let blob = match self.blob {
            Some(blob) => blob,
            None => *self.blob.insert(db.blob_new(key, len_bytes)?),
        };
        db.blob_append(key, blob, bytes)
    }

    /// What was made; who takes it owns it.
    #[must_use]
    pub fn take(&mut self) -> Option<BlobId> {
        self.blob.take()
    }

    /// Gives up what was made for `key`.
    pub fn release(&mut self, db: &mut Db<'_>, key: Key<'_>) {
        if let Some(blob) = self.blob.take() {
            db.blob_drop(key, blob);
        }
    }
}
