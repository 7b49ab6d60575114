//! Links the plugin so that unloading it is sound.

fn main() {
    // Threads, the SIGBUS handler and thread-local destructors of ours outlive a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
