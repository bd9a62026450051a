//! Sets `cfg(slab_asan)` when the crate is built for AddressSanitizer, so that freed memory is poisoned for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(slab_asan)");
    // Nightly compilers tell which sanitizers are on; stable ones have none.
    if std::env::var("CARGO_CFG_SANITIZE").is_ok_and(|sanitizers| sanitizers.split(',').any(|name| name == "address")) {
        println!("cargo::rustc-cfg=slab_asan");
    }
}
