//! How the program is linked: the functions of every start are placed together, equal functions are merged, and
//! relocations are packed.
//!
//! A session runs a twentieth of the code, spread over the whole program. The system maps the surroundings of each place
//! that runs, and counts them as memory. Placed together, these functions need half the memory and cause fewer page faults.
//! `cargo xtask dist` records them, and names the list in a variable.

use std::env;

const ORDER_FILE: &str = "GLADHAND_ORDER_FILE";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={ORDER_FILE}");
    if !links_with_lld() {
        return;
    }
    if let Ok(order) = env::var(ORDER_FILE) {
        println!("cargo::rerun-if-changed={order}");
        println!("cargo::rustc-link-arg-bins=-Wl,--symbol-ordering-file={order}");
        println!("cargo::rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    // Functions with the same code are linked once. Rust promises no distinct addresses of functions.
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
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
