//! Names the library, as packages and the loader's cache want it, and keeps it mapped: its threads
//! and the SIGBUS handler outlive a `dlclose`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnnburst_tflite.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
