//! Output of one connection: bytes written in place, and large values by reference.
//! (first cut: plain bytes; blobs by reference join when the slab has them)

/// Bytes that wait to be sent to one connection, in order.
#[derive(Default, Debug)]
pub struct Out {
    buf: Vec<u8>,
    /// Bytes at the front of `buf` that the kernel has taken already.
    sent: usize,
}

impl Out {
    pub fn new() -> Out {
        Out::default()
    }
    /// Bytes not yet taken by the kernel.
    #[inline]
    pub fn queued(&self) -> usize {
        self.buf.len() - self.sent
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queued() == 0
    }
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }
    /// What to send next, at most `max` slices. Empty only if the whole output is.
    pub fn slices<'a>(&'a self, into: &mut Vec<std::io::IoSlice<'a>>, max: usize) {
        if max > 0 && !self.is_empty() {
            into.push(std::io::IoSlice::new(&self.buf[self.sent..]));
        }
    }
    /// `bytes` of the front were taken.
    pub fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        debug_assert!(self.sent <= self.buf.len());
        if self.sent == self.buf.len() {
            self.buf.clear();
            self.sent = 0;
        }
    }
    /// Memory held, in bytes.
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }
    /// Gives an empty output a recycled buffer.
    pub fn adopt(&mut self, buf: Vec<u8>) {
        debug_assert!(self.buf.is_empty() && buf.is_empty());
        self.buf = buf;
    }
    /// Takes the buffer of an empty output back for recycling.
    pub fn release(&mut self) -> Vec<u8> {
        debug_assert!(self.is_empty());
        self.sent = 0;
        let mut b = std::mem::take(&mut self.buf);
        b.clear();
        b
    }
}
