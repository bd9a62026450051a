//! Tests: sweeps over one container that has a slab of its own, begun and gone on with at any time; and its becoming packed.

use super::{Body, Container};
use dolmen_slab::{Slab, Slice};

/// Makes a big body packed, if it is small enough and no view is open.
pub(super) fn pack<B: Container>(body: &mut Body<B>, slab: &mut Slab) {
    let Body::Big(big) = body else { return };
    let Some(packed) = big.to_packed(slab) else { return };
    assert!(!big.is_viewed());
    while big.drain(slab, 10) {}
    *body = Body::Packed(packed);
}

/// A sweep that may be under way.
#[derive(Default)]
pub(super) struct Sweep {
    cursor: u64,
}

impl Sweep {
    /// Ends the one under way, and begins one that moves everything.
    pub(super) fn seal(&mut self, slab: &mut Slab) {
        while slab.unseal(3) {}
        slab.seal_all();
        self.cursor = 0;
    }

    /// Goes on, from where the last slice has come to, whatever has happened since.
    pub(super) fn go_on(&mut self, container: &mut impl Container, slab: &mut Slab, looks: usize, bytes: usize) {
        let mut slice = Slice::new(looks, bytes);
        let used_bytes = slab.used_bytes();
        self.cursor = container.relocate(slab, self.cursor, &mut slice).unwrap_or(0);
        assert!(slice.moved <= slice.looked);
        assert!(slab.used_bytes() <= used_bytes, "what is moved takes no more there");
    }

    /// A sweep from beginning to end reaches all there is. Nothing of the container is left but what it uses, and there is memory.
    pub(super) fn complete(mut self, container: &mut impl Container, slab: &mut Slab) {
        self.seal(slab);
        let (mut slices, mut moved) = (0, 0);
        while {
            let mut slice = Slice::new(100, 2000);
            let next = container.relocate(slab, self.cursor, &mut slice);
            assert!(next.is_none_or(|next| next > self.cursor || slice.moved > 0), "no slice is in vain");
            (slices, moved) = (slices + 1, moved + slice.moved);
            self.cursor = next.unwrap_or(0);
            next.is_some()
        } {}
        assert!(!slab.unseal(0), "something was not reached in {slices} slices that moved {moved}");
        assert!(moved > 0 || slab.used_bytes() == 0);
    }
}
