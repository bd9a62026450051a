//! Storage of a wheel's slots: stacks of 32-bit hash prefixes in blocks of one cache line. Owns the layout of a block and the count of
//! blocks; knows nothing of time. The only unsafe file of the wheel.
//!
//! ```text
//!   Block, 64 bytes                                            Chain, 8 bytes (in the slot)
//!  ┌──────────┬──────────┬──────────┬───────┬───────────┐     ┌──────────┬─────────┐
//!  │ next u32 │ hash[0]  │ hash[1]  │  ...  │ hash[14]  │ <── │ head u32 │ len u32 │
//!  └──────────┴──────────┴──────────┴───────┴───────────┘     └──────────┴─────────┘
//! ```
//!
//! Only the head block is partly filled, so the chain's length says how far and a full block carries no count: 64 / 15 = 4.27 bytes an entry.
//!
//! Invariants: a chain of `len` entries has `len.div_ceil(15)` blocks, linked from `head` to `Handle::NULL`; every block belongs to one
//! chain (or is `Blocks::spare`) and came from the slab that `Blocks::region` remembers.
#![allow(unsafe_code)]
use dolmen_slab::{AllocError, Handle, Kind, Slab};
use std::ptr::NonNull;

pub(super) const BLOCK_BYTES: usize = 64;
pub(super) const PER_BLOCK: usize = ENTRIES as usize;
const ENTRIES: u32 = 15;

#[repr(C)]
struct Block {
    next: u32,
    hashes: [u32; PER_BLOCK],
}
const _: () = assert!(size_of::<Block>() == BLOCK_BYTES && align_of::<Block>() == 4);
const _: () = assert!(size_of::<Chain>() == 8);

/// Where blocks come from and how many there are.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Address of the slab's region; 0 before the first block. Chains of this wheel must meet no other slab.
    region: usize,
    /// Blocks taken from the slab, the spare included.
    held: u64,
    /// A block in hand for the next `alloc`, so that a push can be known to succeed beforehand. Or `NULL`.
    spare: Handle,
}

impl Blocks {
    pub(super) const fn new() -> Blocks {
        Blocks { region: 0, held: 0, spare: Handle::NULL }
    }

    /// What all blocks take from the slab.
    pub(super) fn bytes(&self) -> u64 {
        self.held * Slab::class_bytes(BLOCK_BYTES) as u64
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// The next `alloc` cannot fail after this succeeded.
    pub(super) fn reserve(&mut self, slab: &mut Slab) -> Result<(), AllocError> {
        if self.spare.is_null() {
            self.spare = self.alloc(slab)?;
        }
        Ok(())
    }

    /// Gives an unused reserve back.
    pub(super) fn unreserve(&mut self, slab: &mut Slab) {
        if !self.spare.is_null() {
            let spare = std::mem::replace(&mut self.spare, Handle::NULL);
            self.free(slab, spare);
        }
    }

    fn alloc(&mut self, slab: &mut Slab) -> Result<Handle, AllocError> {
        if self.region == 0 {
            self.region = region(slab);
        }
        self.check(slab);
        if !self.spare.is_null() {
            return Ok(std::mem::replace(&mut self.spare, Handle::NULL));
        }
        let block = slab.alloc(BLOCK_BYTES, Kind::Interior)?;
        self.held += 1;
        Ok(block)
    }

    fn free(&mut self, slab: &mut Slab, block: Handle) {
        self.check(slab);
        self.held -= 1;
        // SAFETY: `block` came from `alloc` of this slab (checked) with the same size, and the callers have unlinked it.
        unsafe { slab.free(block, BLOCK_BYTES) }
    }

    /// Two instructions an access, against handles of one region used on another.
    #[inline(always)]
    fn check(&self, slab: &Slab) {
        assert!(region(slab) == self.region, "a wheel lives in one slab");
    }

    /// Address of a live block.
    #[inline(always)]
    fn at(&self, slab: &Slab, block: Handle) -> NonNull<Block> {
        self.check(slab);
        slab.ptr(block).cast()
    }
}

#[inline(always)]
fn region(slab: &Slab) -> usize {
    slab.ptr(Handle::NULL).as_ptr() as usize
}

/// A stack of hash prefixes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    head: Handle,
    len: u32,
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain { head: Handle::NULL, len: 0 };

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where in the head block the next push goes, if it is not 0 (then in a new one).
    #[inline]
    fn place(&self) -> usize {
        self.len as usize % PER_BLOCK
    }

    /// Whether the next push takes a block.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.place() == 0
    }

    #[inline]
    pub(super) fn push(&mut self, slab: &mut Slab, blocks: &mut Blocks, hash32: u32) -> Result<(), AllocError> {
        let place = self.place();
        if place == 0 {
            self.grow(slab, blocks)?;
        }
        // SAFETY: `head` is a live block of this slab by the module's invariant (with `len` > 0, or just made by `grow`), nobody else refers to
        // it while we hold `&mut Slab`, and its memory was initialised by `grow`.
        unsafe { blocks.at(slab, self.head).as_mut() }.hashes[place] = hash32;
        self.len += 1;
        Ok(())
    }

    #[cold]
    fn grow(&mut self, slab: &mut Slab, blocks: &mut Blocks) -> Result<(), AllocError> {
        if self.len > u32::MAX - ENTRIES {
            return Err(AllocError { requested_bytes: BLOCK_BYTES });
        }
        let block = blocks.alloc(slab)?;
        let at = blocks.at(slab, block);
        // SAFETY: a chunk of BLOCK_BYTES, 8-byte aligned, just allocated and not yet linked anywhere.
        unsafe { at.write(Block { next: self.head.bits(), hashes: [0; PER_BLOCK] }) }
        self.head = block;
        Ok(())
    }

    #[inline]
    pub(super) fn pop(&mut self, slab: &mut Slab, blocks: &mut Blocks) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        let place = self.place();
        // SAFETY: the chain had an entry, so `head` is a live, initialised block of this slab (module's invariant).
        let block = unsafe { blocks.at(slab, self.head).as_ref() };
        let (hash32, next) = (block.hashes[place], Handle::from_bits(block.next));
        if place == 0 {
            let emptied = std::mem::replace(&mut self.head, next);
            blocks.free(slab, emptied);
        }
        Some(hash32)
    }

    /// Frees the head block with all its entries; how many they were.
    pub(super) fn pop_block(&mut self, slab: &mut Slab, blocks: &mut Blocks) -> u32 {
        let mut entries = 0;
        if self.len > 0 {
            // SAFETY: as in `pop`.
            let next = Handle::from_bits(unsafe { blocks.at(slab, self.head).as_ref() }.next);
            let emptied = std::mem::replace(&mut self.head, next);
            blocks.free(slab, emptied);
            entries = (self.len - 1) % ENTRIES + 1;
            self.len -= entries;
        }
        entries
    }

    /// The entries that the next pops return, as far as they lie in the head block; the block after it is prefetched.
    #[inline]
    pub(super) fn head_entries<'s>(&self, slab: &'s Slab, blocks: &Blocks) -> &'s [u32] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: as in `pop`; the borrow of the slab keeps the block from being freed or written meanwhile.
        let block = unsafe { blocks.at(slab, self.head).as_ref() };
        slab.prefetch(Handle::from_bits(block.next));
        &block.hashes[..=(self.len as usize - 1) % PER_BLOCK]
    }

    /// Every entry, for tests; the number of blocks is checked on the way.
    #[cfg(test)]
    pub(super) fn to_vec(self, slab: &Slab, blocks: &Blocks) -> Vec<u32> {
        let mut out = Vec::new();
        let mut c = self;
        while c.len > 0 {
            let part = c.head_entries(slab, blocks);
            out.extend(part);
            c.len -= u32::try_from(part.len()).unwrap();
            // SAFETY: as in `pop`.
            c.head = Handle::from_bits(unsafe { blocks.at(slab, c.head).as_ref() }.next);
        }
        assert!(c.head.is_null());
        out
    }
}
