//! Memory of a list's nodes: the three layouts, and every access to them. Owns what is unsafe about them; decides nothing.
//!
//! ```text
//!  block: 16 bytes, and its room                                    inner: 512 bytes
//!  0       4      5   6      8       10    12      14      16       0       4      5       6      8             344
//!  ┌───────┬──────┬───┬──────┬───────┬─────┬───────┬───────┬──────┐ ┌───────┬──────┬───────┬──────┬─────────────┬─────────────┐
//!  │ stamp │ form │ - │ room │ start │ end │ count │ cells │ room │ │ stamp │ form │ level │ kids │ 42 x u64    │ 42 x u32    │
//!  │ u32   │ u8   │   │ u16  │ u16   │ u16 │ u16   │ u16   │ ...  │ │ u32   │ u8   │ u8    │ u16  │ elements of │ node of kid │
//!  └───────┴──────┴───┴──────┴───────┴─────┴───────┴───────┴──────┘ └───────┴──────┴───────┴──────┴─────────────┴─────────────┘
//!
//!  cell: 16 bytes, an element that is a blob
//!  ┌───────────┬─────────┬───┬──────────┬───┐
//!  │ stamp u32 │ form u8 │ - │ blob u32 │ - │
//!  └───────────┴─────────┴───┴──────────┴───┘
//! ```
//! All begin with stamp (`base::epochs`) and form. A block's entries lie in its room from `start` to `end` (`super::block`); `cells` of its
//! `count` entries name cells. Kids of an inner node of level 1 are blocks.
//!
//! # Invariants (why the functions here are safe to call from the rest of the list)
//! - A `Node` is made by `new_block`, `new_inner`, `new_cell`, or from the bits of one that a block names; it is a live chunk of the slab that the
//!   list passes with every call, until `free`. The list has no copy left then. (That it is the list's slab is checked once an operation.)
//! - A node's form is looked at before its memory is taken for it, so a node of another form panics.
//! - All of a node's memory is initialised, and `room` never changes. Nobody else reads or writes it; references do not outlive the borrow of the
//!   slab under which they were taken.
#![allow(unsafe_code)]

use dolmen_slab::{AllocError, BlobId, CHUNK_BYTES_MAX, Handle, Kind, Slab, Slice};
use static_assertions::const_assert;

/// Kids of an inner node at most.
pub(super) const FAN: usize = 42;
pub(super) const BLOCK_HEAD_BYTES: usize = 16;
/// Room of a block at most: the largest chunk.
pub(super) const ROOM_MAX: usize = CHUNK_BYTES_MAX - BLOCK_HEAD_BYTES;
const INNER_BYTES: usize = 512;
const CELL_BYTES: usize = 16;

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Form {
    Block = 1,
    Inner = 2,
    Cell = 3,
}

/// The beginning of every node.
#[repr(C)]
struct Head {
    stamp: u32,
    form: u8,
}

#[repr(C)]
pub(super) struct BlockHead {
    stamp: u32,
    form: u8,
    unused: u8,
    room: u16,
    pub(super) start: u16,
    pub(super) end: u16,
    pub(super) count: u16,
    pub(super) cells: u16,
}
const_assert!(size_of::<BlockHead>() == BLOCK_HEAD_BYTES && align_of::<BlockHead>() == 4);
const_assert!(ROOM_MAX <= u16::MAX as usize);

#[repr(C)]
pub(super) struct Inner {
    stamp: u32,
    form: u8,
    pub(super) level: u8,
    pub(super) kids: u16,
    pub(super) counts: [usize; FAN],
    pub(super) nodes: [Node; FAN],
}
const_assert!(size_of::<Inner>() == INNER_BYTES && align_of::<Inner>() == 8);

#[repr(C)]
struct Cell {
    stamp: u32,
    form: u8,
    unused: [u8; 3],
    blob: u32,
    unused_too: u32,
}
const_assert!(size_of::<Cell>() == CELL_BYTES);

/// A block to be read.
#[derive(Clone, Copy)]
pub(super) struct Block<'s> {
    pub(super) head: &'s BlockHead,
    pub(super) room: &'s [u8],
}

/// A block to be changed.
pub(super) struct BlockMut<'s> {
    pub(super) head: &'s mut BlockHead,
    pub(super) room: &'s mut [u8],
}

/// Names a node, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct Node(Handle);

impl Node {
    pub(super) const NONE: Node = Node(Handle::NULL);

    /// The node whose bits were stored in a block.
    pub(super) fn from_bits(bits: u32) -> Node {
        Node(Handle::from_bits(bits))
    }

    pub(super) fn bits(self) -> u32 {
        self.0.bits()
    }

    /// The node that was deferred (`base::epochs`).
    pub(super) fn of(handle: Handle) -> Node {
        Node(handle)
    }

    pub(super) fn handle(self) -> Handle {
        self.0
    }

    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.0.is_null()
    }

    #[inline(always)]
    fn head(self, slab: &Slab) -> &Head {
        assert!(!self.is_none());
        // SAFETY: a live chunk of this slab that begins with an initialised `Head`, which nobody writes under the borrow (module's invariants).
        unsafe { slab.ptr(self.0).cast::<Head>().as_ref() }
    }

    #[inline(always)]
    pub(super) fn stamp(self, slab: &Slab) -> u32 {
        self.head(slab).stamp
    }

    #[inline(always)]
    pub(super) fn form(self, slab: &Slab) -> Form {
        match self.head(slab).form {
            1 => Form::Block,
            2 => Form::Inner,
            form => {
                assert!(form == 3, "no node of a list");
                Form::Cell
            }
        }
    }

    #[inline(always)]
    fn is(self, slab: &Slab, form: Form) {
        assert!(self.head(slab).form == form as u8, "a node of another form");
    }

    #[inline(always)]
    pub(super) fn block(self, slab: &Slab) -> Block<'_> {
        self.is(slab, Form::Block);
        let ptr = slab.ptr(self.0);
        // SAFETY: a live block (checked): an initialised head and then `room` initialised bytes, written by nobody under the borrow.
        unsafe {
            let head = ptr.cast::<BlockHead>().as_ref();
            let room = std::slice::from_raw_parts(ptr.as_ptr().add(BLOCK_HEAD_BYTES), usize::from(head.room));
            Block { head, room }
        }
    }

    #[inline(always)]
    pub(super) fn block_mut(self, slab: &mut Slab) -> BlockMut<'_> {
        self.is(slab, Form::Block);
        let ptr = slab.ptr(self.0);
        // SAFETY: as in `block`; head and room do not overlap, and the borrow of the slab is exclusive.
        unsafe {
            let head = ptr.cast::<BlockHead>().as_mut();
            let room = std::slice::from_raw_parts_mut(ptr.as_ptr().add(BLOCK_HEAD_BYTES), usize::from(head.room));
            BlockMut { head, room }
        }
    }

    #[inline(always)]
    pub(super) fn inner(self, slab: &Slab) -> &Inner {
        self.is(slab, Form::Inner);
        // SAFETY: a live inner node (checked), initialised as a whole, written by nobody under the borrow.
        unsafe { slab.ptr(self.0).cast::<Inner>().as_ref() }
    }

    #[inline(always)]
    pub(super) fn inner_mut(self, slab: &mut Slab) -> &mut Inner {
        self.is(slab, Form::Inner);
        // SAFETY: as in `inner`; the borrow of the slab is exclusive.
        unsafe { slab.ptr(self.0).cast::<Inner>().as_mut() }
    }

    /// The blob of a cell.
    pub(super) fn blob(self, slab: &Slab) -> BlobId {
        self.is(slab, Form::Cell);
        // SAFETY: a live cell (checked), initialised as a whole, written by nobody.
        BlobId::from_bits(unsafe { slab.ptr(self.0).cast::<Cell>().as_ref() }.blob)
    }

    /// The same node where a sweep has moved it, if it has; the list forgets this one then.
    pub(super) fn offer(self, slab: &mut Slab, slice: &mut Slice) -> Option<Node> {
        if self.is_none() {
            return None;
        }
        // SAFETY: a live chunk (module's invariants), of which the caller has the only reference, as no view is open.
        unsafe { slab.offer(slice, self.0) }.map(Node)
    }

    /// Bytes of the chunk.
    pub(super) fn bytes(self, slab: &Slab) -> usize {
        Slab::class_bytes(match self.form(slab) {
            Form::Block => BLOCK_HEAD_BYTES + self.block(slab).room.len(),
            Form::Inner => INNER_BYTES,
            Form::Cell => CELL_BYTES,
        })
    }
}

/// Bytes of room that a block really gets when it is asked for so many (at most [`ROOM_MAX`]).
pub(super) const fn room_for(bytes: usize) -> usize {
    Slab::class_bytes(bytes + BLOCK_HEAD_BYTES) - BLOCK_HEAD_BYTES
}

/// An empty block; its entries will begin at `start`.
///
/// # Panics
/// When there is more to be than [`ROOM_MAX`].
pub(super) fn new_block(slab: &mut Slab, stamp: u32, room: usize, start: usize) -> Result<Node, AllocError> {
    assert!(start <= room && room <= ROOM_MAX);
    let node = Node(slab.alloc(BLOCK_HEAD_BYTES + room, Kind::Interior)?);
    #[expect(clippy::cast_possible_truncation, reason = "both at most ROOM_MAX, which fits")]
    let (room16, start) = (room as u16, start as u16);
    let form = Form::Block as u8;
    let ptr = slab.ptr(node.0);
    // SAFETY: a new chunk of that many bytes, aligned to 8, which nobody else knows of.
    unsafe {
        ptr.cast().write(BlockHead { stamp, form, unused: 0, room: room16, start, end: start, count: 0, cells: 0 });
        ptr.as_ptr().add(BLOCK_HEAD_BYTES).write_bytes(0, room);
    }
    Ok(node)
}

/// An inner node without kids.
pub(super) fn new_inner(slab: &mut Slab, stamp: u32, level: u8) -> Result<Node, AllocError> {
    let node = Node(slab.alloc(INNER_BYTES, Kind::Interior)?);
    let inner = Inner { stamp, form: Form::Inner as u8, level, kids: 0, counts: [0; FAN], nodes: [Node::NONE; FAN] };
    // SAFETY: a new chunk of that size, aligned to 8, which nobody else knows of.
    unsafe { slab.ptr(node.0).cast().write(inner) }
    Ok(node)
}

/// An element that is a blob. Who frees the cell releases the blob.
pub(super) fn new_cell(slab: &mut Slab, stamp: u32, blob: BlobId) -> Result<Node, AllocError> {
    let node = Node(slab.alloc(CELL_BYTES, Kind::Interior)?);
    let cell = Cell { stamp, form: Form::Cell as u8, unused: [0; 3], blob: blob.bits(), unused_too: 0 };
    // SAFETY: as in `new_inner`.
    unsafe { slab.ptr(node.0).cast().write(cell) }
    Ok(node)
}

/// Frees the chunk of a node, and nothing that it names.
pub(super) fn free(slab: &mut Slab, node: Node) {
    let bytes = node.bytes(slab);
    // SAFETY: it came from one of the three functions above with a size of this class, and the list forgets it (module's invariants).
    unsafe { slab.free(node.0, bytes) }
}

/// Which slab it is: the address of its region.
pub(super) fn region(slab: &Slab) -> usize {
    slab.ptr(Handle::NULL).as_ptr() as usize
}
