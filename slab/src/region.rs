//! Address space: reserved once, committed on use, given back page by page, unmapped when dropped.
//!
//! Owns the crate's system calls. Must not know what lies in the memory.
//!
//! Invariants: a [`Mapping`] never moves and never shrinks while it lives; bytes below [`Commit::bytes`] are readable and writable;
//! a page never written, or discarded, reads as zeros. Reserved memory is `PROT_NONE`, so that strict overcommit does not charge it.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ops::{Index, IndexMut};
use std::os::raw::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

/// Size of a huge page, to which mappings are aligned.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Page size that residency is counted in. Where the system's pages are larger, whole system pages are released.
pub(crate) const PAGE_BYTES: usize = 4096;

fn system_page_bytes() -> usize {
    // SAFETY: sysconf reads no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(PAGE_BYTES).max(PAGE_BYTES)
}

/// A reserved range of addresses. Unmapped on drop.
pub(crate) struct Mapping {
    /// Start of the range, page-aligned; fixed for life.
    base: NonNull<u8>,
    /// Length of the range, a multiple of the system's page size.
    bytes: usize,
}

// SAFETY: a Mapping is an address range; it has no thread affinity, and hands out raw pointers only.
unsafe impl Send for Mapping {}
// SAFETY: as above; its methods change page protection and contents only where the caller vouches for it.
unsafe impl Sync for Mapping {}

/// Where a mapping begins, for whoever owns the mapping too.
#[derive(Clone, Copy)]
pub(crate) struct Base(NonNull<u8>);

// SAFETY: an address without access; who uses it answers for that, as with `Mapping`.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

impl Base {
    #[inline(always)]
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Mapping {
    pub(crate) fn start(&self) -> Base {
        Base(self.base)
    }

    /// Reserves `bytes` of address space, or half as much, and so on, but not less than `min_bytes` (address space may be limited:
    /// `ulimit -v`, valgrind).
    pub(crate) fn reserve(bytes: usize, min_bytes: usize) -> io::Result<Mapping> {
        let page_bytes = system_page_bytes();
        let round = |bytes: usize| bytes.max(1).checked_next_multiple_of(page_bytes);
        let (Some(mut bytes), Some(min_bytes)) = (round(bytes), round(min_bytes)) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        loop {
            match map_aligned(bytes) {
                Ok(base) => {
                    let mapping = Mapping { base: base.cast(), bytes };
                    // The first touch of a huge page zeroes 2 MiB at once, and a sparse span would keep all of it resident. A kernel
                    // without huge pages refuses the advice, which is as good.
                    // SAFETY: the range is the mapping just made; the advice does not change contents.
                    let _ = unsafe { madvise(base, bytes, MmapAdvise::MADV_NOHUGEPAGE) };
                    return Ok(mapping);
                }
                Err(_) if bytes / 2 >= min_bytes => bytes = (bytes / 2).next_multiple_of(page_bytes),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Length in bytes; may be less than asked for.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Start of the range.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Makes `from..to` readable and writable.
    fn commit(&self, from: usize, to: usize) -> io::Result<()> {
        assert!(from <= to && to <= self.bytes);
        // SAFETY: in range by the assertion; granting access invalidates nothing.
        unsafe { mprotect(self.at(from), to - from, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)? };
        Ok(())
    }

    /// Asks for a huge page at `from` when it is first touched.
    pub(crate) fn advise_huge(&self, from: usize) -> io::Result<()> {
        assert!(from.is_multiple_of(HUGE_BYTES) && from + HUGE_BYTES <= self.bytes);
        // SAFETY: in range by the assertion; the advice does not change contents.
        unsafe { madvise(self.at(from), HUGE_BYTES, MmapAdvise::MADV_HUGEPAGE)? };
        Ok(())
    }

    /// Takes the advice of `advise_huge` back: what is there stays, but nothing is added to it.
    pub(crate) fn advise_small(&self, from: usize) {
        assert!(from.is_multiple_of(HUGE_BYTES) && from + HUGE_BYTES <= self.bytes);
        // SAFETY: in range by the assertion; the advice does not change contents. Refused, it costs memory only.
        let _ = unsafe { madvise(self.at(from), HUGE_BYTES, MmapAdvise::MADV_NOHUGEPAGE) };
    }

    /// Faults in the huge page at `from`, or the small ones where the system has no huge page to give. The range is committed; its owner may
    /// be using it already.
    ///
    /// By touching it, not by `MADV_POPULATE_WRITE`, which holds the lock of the whole address space while it zeroes: then every mapping
    /// and `mprotect` of the owner's thread would wait for this one.
    pub(crate) fn touch_huge(&self, from: usize) {
        assert!(from.is_multiple_of(HUGE_BYTES) && from + HUGE_BYTES <= self.bytes);
        for page in (from..from + HUGE_BYTES).step_by(PAGE_BYTES) {
            // Not `fetch_or(0)` or its like: the compiler knows that it changes nothing, and leaves it out.
            // SAFETY: in range, committed (caller); an exchange of 0 for 0 is a write to the kernel and none to the owner.
            let byte = unsafe { &*self.at(page).cast::<AtomicU8>().as_ptr() };
            let _ = byte.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Gives the pages wholly inside `from..to` back to the system; the range reads as zeros afterwards.
    ///
    /// # Safety
    /// Nobody holds a reference into the range or relies on its contents.
    pub(crate) unsafe fn discard(&self, from: usize, to: usize) {
        let page_bytes = system_page_bytes();
        assert!(from <= to && to <= self.bytes);
        let (first, end) = (from.next_multiple_of(page_bytes), to & !(page_bytes - 1));
        if first >= end {
            // SAFETY: in range by the assertion, and committed; the caller vouches that the contents are dead.
            unsafe { self.at(from).cast::<u8>().write_bytes(0, to - from) };
            return;
        }
        // SAFETY: in range by the assertion; the caller vouches that the contents are dead. Where the system's pages are larger than ours
        // the ends are pages that others use too.
        unsafe {
            self.at(from).cast::<u8>().write_bytes(0, first - from);
            self.at(end).cast::<u8>().write_bytes(0, to - end);
            // Fails only for locked pages (mlockall): then the memory stays resident, which is what locking asks for.
            if madvise(self.at(first), end - first, MmapAdvise::MADV_DONTNEED).is_err() {
                self.at(first).cast::<u8>().write_bytes(0, end - first);
            }
        }
    }

    fn at(&self, offset: usize) -> NonNull<c_void> {
        // SAFETY: callers assert offset <= bytes, so the result stays within (or one past) the mapping.
        unsafe { self.base.add(offset).cast() }
    }
}

/// Reserves `bytes` of address space, aligned to huge pages if it is larger than a few of them.
fn map_aligned(bytes: usize) -> nix::Result<NonNull<c_void>> {
    let map = |bytes: usize| {
        let length = NonZeroUsize::new(bytes).ok_or(nix::errno::Errno::EINVAL)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        unsafe { mmap_anonymous(None, length, ProtFlags::PROT_NONE, flags) }
    };
    if bytes < 4 * HUGE_BYTES {
        return map(bytes);
    }
    let all = map(bytes.checked_add(HUGE_BYTES).ok_or(nix::errno::Errno::ENOMEM)?)?;
    let head = all.as_ptr().align_offset(HUGE_BYTES);
    // SAFETY: `head` is below HUGE_BYTES, so `head + bytes` is at most the length of the mapping just made. What is cut off at both ends
    // is ours, whole pages, and nobody uses it.
    unsafe {
        let base = all.byte_add(head);
        if head > 0 {
            munmap(all, head)?;
        }
        munmap(base.byte_add(bytes), HUGE_BYTES - head)?;
        Ok(base)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `reserve` and nothing outlives its owner (slab, or the Arc of the blobs).
        let result = unsafe { munmap(self.base.cast(), self.bytes) };
        debug_assert!(result.is_ok(), "munmap: {result:?}");
    }
}

/// How much of a mapping is committed; grows by an eighth of itself, within bounds, so that large heaps make few system calls.
pub(crate) struct Commit {
    /// Bytes from the start that are readable and writable; a multiple of the system's page size.
    bytes: usize,
    /// Least step in bytes.
    step_bytes_min: usize,
}

/// Largest step in bytes. Committing is independent of the length (nothing is mapped yet); this bounds what strict overcommit charges.
const STEP_BYTES_MAX: usize = 64 << 20;

impl Commit {
    pub(crate) fn new(step_bytes_min: usize) -> Commit {
        Commit { bytes: 0, step_bytes_min }
    }

    /// Makes at least the first `bytes` of `mapping` usable. False: no room, or the system refuses.
    #[inline]
    pub(crate) fn ensure(&mut self, mapping: &Mapping, bytes: usize) -> bool {
        bytes <= self.bytes || self.grow(mapping, bytes)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, mapping: &Mapping, bytes: usize) -> bool {
        if bytes > mapping.bytes() {
            return false;
        }
        let step = (self.bytes / 8).clamp(self.step_bytes_min, STEP_BYTES_MAX.max(self.step_bytes_min));
        let wanted = bytes.max(self.bytes + step).next_multiple_of(system_page_bytes()).min(mapping.bytes());
        // Near the system's limit a large step may be refused where a small one is not.
        let least = bytes.next_multiple_of(system_page_bytes()).min(mapping.bytes());
        for target in [wanted, least] {
            if mapping.commit(self.bytes, target).is_ok() {
                self.bytes = target;
                return true;
            }
        }
        false
    }
}

/// Types for which all-zero bytes are a valid value.
///
/// # Safety
/// The all-zero bit pattern is valid, and the type needs no drop.
pub(crate) unsafe trait Zeroed {}

// SAFETY: integers, and a fieldless enum whose variant 0 exists.
unsafe impl Zeroed for crate::span::SpanMeta {}
// SAFETY: integers.
unsafe impl Zeroed for u64 {}
// SAFETY: integers.
unsafe impl Zeroed for u32 {}

/// An array that grows in place inside a reserved mapping: elements never move, and new ones are zero.
pub(crate) struct Table<T> {
    mapping: Mapping,
    commit: Commit,
    /// Elements in use; all of them lie in the committed part.
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Zeroed> Table<T> {
    /// Room for `capacity` elements, or half as many, and so on while the system refuses, but not less than `capacity_min`.
    pub(crate) fn reserve(capacity: usize, capacity_min: usize) -> io::Result<Table<T>> {
        const { assert!(align_of::<T>() <= PAGE_BYTES && !std::mem::needs_drop::<T>()) };
        let mapping = Mapping::reserve(capacity * size_of::<T>(), capacity_min * size_of::<T>())?;
        Ok(Table { mapping, commit: Commit::new(64 << 10), len: 0, elements: PhantomData })
    }

    /// Elements in use.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes elements below `len` usable. False: no room.
    #[inline]
    pub(crate) fn grow_to(&mut self, len: usize) -> bool {
        if len > self.len {
            let Some(bytes) = len.checked_mul(size_of::<T>()) else { return false };
            if !self.commit.ensure(&self.mapping, bytes) {
                return false;
            }
            self.len = len;
        }
        true
    }

    /// Bytes that elements in use occupy, in whole pages.
    pub(crate) fn used_bytes(&self) -> usize {
        (self.len * size_of::<T>()).next_multiple_of(PAGE_BYTES)
    }

    #[inline(always)]
    fn at(&self, index: usize) -> *mut T {
        self.mapping.base().cast::<T>().as_ptr().wrapping_add(index)
    }

    /// Address of an element, valid as long as the table lives.
    ///
    /// # Panics
    /// When `index` is not below `len`.
    pub(crate) fn pointer(&self, index: usize) -> NonNull<T> {
        assert!(index < self.len);
        // SAFETY: not null, because inside the mapping.
        unsafe { NonNull::new_unchecked(self.at(index)) }
    }

    /// # Safety
    /// `index < len()`.
    #[inline(always)]
    pub(crate) unsafe fn get_unchecked_mut(&mut self, index: usize) -> &mut T {
        debug_assert!(index < self.len);
        // SAFETY: elements below len are committed and valid (zero or written); &mut self makes the reference unique.
        unsafe { &mut *self.at(index) }
    }
}

impl<T: Zeroed> Index<usize> for Table<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        assert!(index < self.len);
        // SAFETY: elements below len are committed and valid (zero or written).
        unsafe { &*self.at(index) }
    }
}

impl<T: Zeroed> IndexMut<usize> for Table<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        assert!(index < self.len);
        // SAFETY: as in `index`; &mut self makes the reference unique.
        unsafe { &mut *self.at(index) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_that_is_refused_is_halved() {
        let mapping = Mapping::reserve(1 << 60, 1 << 20).unwrap();
        assert!(mapping.bytes() >= 1 << 20 && mapping.bytes() < 1 << 60);
        assert!(Mapping::reserve(1 << 60, 1 << 59).is_err());
        assert!(Mapping::reserve(usize::MAX, 1).is_err());
    }

    #[test]
    fn a_table_grows_in_place_with_zeros_up_to_its_room() {
        let mut table = Table::<u64>::reserve(100_000, 1).unwrap();
        assert!(table.grow_to(1));
        table[0] = 7;
        let address = std::ptr::from_ref(&table[0]);
        assert!(table.grow_to(100_000));
        assert_eq!((table[0], table[99_999]), (7, 0));
        assert_eq!(address, std::ptr::from_ref(&table[0]));
        assert!(!table.grow_to(1 << 20));
        assert_eq!(table.len(), 100_000);
    }

    #[test]
    fn a_populated_unit_is_resident_and_keeps_its_contents() {
        let mapping = Mapping::reserve(4 * HUGE_BYTES, 4 * HUGE_BYTES).unwrap();
        let mut commit = Commit::new(1 << 16);
        assert!(commit.ensure(&mapping, 2 * HUGE_BYTES));
        let base = mapping.base().as_ptr();
        // SAFETY: committed, nobody else uses it.
        unsafe { *base.add(HUGE_BYTES) = 7 };
        if mapping.advise_huge(HUGE_BYTES).is_err() {
            return; // A kernel without huge pages.
        }
        mapping.touch_huge(HUGE_BYTES);
        let mut resident = vec![0_u8; HUGE_BYTES / system_page_bytes()];
        // SAFETY: in range, a byte for every page; the byte read is committed.
        unsafe {
            assert_eq!(libc::mincore(mapping.at(HUGE_BYTES).as_ptr(), HUGE_BYTES, resident.as_mut_ptr()), 0);
            assert_eq!(*base.add(HUGE_BYTES), 7);
        }
        assert!(
            resident.iter().all(|page| page & 1 == 1),
            "{} pages",
            resident.iter().filter(|&&p| p & 1 == 1).count()
        );
    }

    #[test]
    fn discarded_pages_read_as_zeros() {
        let mapping = Mapping::reserve(1 << 20, 1 << 20).unwrap();
        let mut commit = Commit::new(1 << 16);
        assert!(commit.ensure(&mapping, 1 << 20));
        assert!(!commit.ensure(&mapping, (1 << 20) + 1));
        let base = mapping.base().as_ptr();
        // SAFETY: both bytes lie in the committed mapping, nobody else uses it.
        unsafe {
            *base = 1;
            *base.add(1 << 16) = 2;
            mapping.discard(0, 1 << 16);
            assert_eq!((*base, *base.add(1 << 16)), (0, 2));
        }
    }
}
