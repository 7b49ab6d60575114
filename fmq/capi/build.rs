//! Gives the shared library a name of its own, and keeps it loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Programs ask the loader for this name, however the library was given to their linker; without
    // one those that were given a path ask for that path.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnnburst_fmq_c.so");
    // The thread that watches peers, and what it has local to it, outlive a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
