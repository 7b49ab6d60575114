//! Links the tests with the library in `NNBURST_NDK_DIR`, or else with the one that this
//! repository's release build makes.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=NNBURST_NDK_DIR");
    let own = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/release");
    let dir = std::env::var_os("NNBURST_NDK_DIR").map_or_else(own, PathBuf::from);
    println!("cargo:rustc-link-search=native={}", dir.display());
    println!("cargo:rustc-link-arg-tests=-lneuralnetworks");
    println!("cargo:rustc-link-arg-tests=-Wl,-rpath,{}", dir.display());
}
