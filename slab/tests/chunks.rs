//! Chunks against models.
#![allow(unsafe_code)]

use dolmen_slab::{Config, Handle, Kind, Slab};

#[test]
fn fill_and_free_in_order() {
    let mut slab = Slab::new(Config::default()).unwrap();
    for size in [1, 16, 24, 32, 200, 1000, 5000, 16384] {
        let mut handles: Vec<Handle> = (0..5000).map(|_| slab.alloc(size, Kind::Item).unwrap()).collect();
        assert_eq!(slab.used_bytes(), 5000 * Slab::class_bytes(size) as u64);
        handles.sort();
        handles.dedup();
        assert_eq!(handles.len(), 5000);
        assert!(
            handles.windows(2).all(|pair| (pair[1].bits() - pair[0].bits()) as usize * 8 >= Slab::class_bytes(size))
        );
        for handle in handles {
            // SAFETY: live, freed once.
            unsafe { slab.free(handle, size) };
        }
        assert_eq!(slab.used_bytes(), 0);
    }
}
