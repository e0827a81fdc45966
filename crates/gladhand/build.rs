//! How the program is linked: what every start needs stands together, and relocations are packed.
//!
//! Of the program's code a session touches a twentieth, strewn all over it; the system maps what is around each place that
//! is touched, and counts it. Put together (`order.txt`, made by `cargo xtask order`) it is half the memory and fewer
//! faults at start. Names that a compiler does not know are passed over, so that an old list costs nothing but its effect.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=order.txt");
    if !links_with_lld() {
        return;
    }
    let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let order = Path::new(&folder).join("order.txt");
    if order.is_file() {
        println!("cargo::rustc-link-arg-bins=-Wl,--symbol-ordering-file={}", order.display());
        println!("cargo::rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
}

/// Whether this is an optimised build for which the compiler's own linker is used: others may not know these words.
fn links_with_lld() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|said| said == value);
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    is("PROFILE", "release")
        && is("TARGET", "x86_64-unknown-linux-gnu")
        && is("HOST", "x86_64-unknown-linux-gnu")
        && env::var_os("RUSTC_LINKER").is_none()
        && !flags.split('\u{1f}').any(|flag| flag.trim_start_matches("-C").starts_with("link"))
}
