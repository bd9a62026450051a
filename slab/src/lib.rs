//! Slab allocator of one shard (first cut: see the crate's issue; the full allocator replaces this file behind the same API).
#![allow(unsafe_code)]
#![allow(clippy::all)]
use std::ptr::NonNull;

/// Where a chunk lies: units of 8 bytes from the region's base. `NULL` (0) is never handed out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Handle(u32);
impl Handle {
    pub const NULL: Handle = Handle(0);
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Handle {
        Handle(bits)
    }
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

/// Who owns a chunk, hence who can move it: item pages and interior pages are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Item,
    Interior,
}

#[derive(Clone, Debug)]
pub struct Config {
    /// Address space for chunks, at most 32 GiB.
    pub reserve_bytes: usize,
    /// Address space for blobs.
    pub blob_reserve_bytes: usize,
}
impl Default for Config {
    fn default() -> Config {
        Config { reserve_bytes: 32 << 30, blob_reserve_bytes: 1 << 40 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocError {
    pub requested_bytes: usize,
}
impl std::fmt::Display for AllocError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no room for {} bytes", self.requested_bytes)
    }
}
impl std::error::Error for AllocError {}

/// Largest chunk; anything above is a blob.
pub const CHUNK_BYTES_MAX: usize = 16 * 1024;

pub struct Slab {
    base: *mut u8,
    next: usize,
    end: usize,
    used: u64,
}

impl Slab {
    pub fn new(config: Config) -> std::io::Result<Slab> {
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                config.reserve_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Slab { base: p.cast(), next: 4096, end: config.reserve_bytes, used: 0 })
    }
    /// Bytes that a request of `bytes` really takes.
    pub const fn class_bytes(bytes: usize) -> usize {
        if bytes <= 16 {
            16
        } else if bytes <= 256 {
            (bytes + 7) & !7
        } else {
            let p = (bytes - 1).ilog2();
            let step = (1usize << p) / 8;
            (bytes + step - 1) / step * step
        }
    }
    /// `bytes` in 1..=CHUNK_BYTES_MAX. Chunks of >= 64 bytes whose class is a multiple of 64 are 64-byte aligned; all are 8-byte aligned.
    pub fn alloc(&mut self, bytes: usize, _kind: Kind) -> Result<Handle, AllocError> {
        let n = Self::class_bytes(bytes);
        if n % 64 == 0 {
            self.next = (self.next + 63) & !63;
        }
        if self.next + n > self.end {
            return Err(AllocError { requested_bytes: bytes });
        }
        let h = Handle((self.next / 8) as u32);
        self.next += n;
        self.used += n as u64;
        Ok(h)
    }
    /// # Safety
    /// `h` came from `alloc` of this slab, was not freed since, and nobody uses its memory afterwards. `bytes` is the size asked for (or any size of the same class).
    pub unsafe fn free(&mut self, _h: Handle, bytes: usize) {
        self.used -= Self::class_bytes(bytes) as u64;
    }
    /// Address of a chunk. Always inside the region; never unmapped while the slab lives.
    #[inline(always)]
    pub fn ptr(&self, h: Handle) -> NonNull<u8> {
        unsafe { NonNull::new_unchecked(self.base.add(h.0 as usize * 8)) }
    }
    /// A hint; any handle, even a stale one, is allowed.
    #[inline(always)]
    pub fn prefetch(&self, h: Handle) {
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                self.base.add(h.0 as usize * 8).cast(),
            );
        }
    }
    /// Bytes of live chunks and blobs (class sizes), exact.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.used
    }
}
