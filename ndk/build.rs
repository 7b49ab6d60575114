//! Names the library and versions its symbols.

use std::env;
use std::path::Path;

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let map = Path::new(&root).join("libneuralnetworks.map");
    println!("cargo:rerun-if-changed={}", map.display());
    println!("cargo:rerun-if-env-changed=PATH");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libneuralnetworks.so");
    // Threads, the SIGBUS handler and thread-local destructors of ours outlive a dlclose.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    // rustc hands the linker an unnamed version script of its own; lld and mold join it with ours, GNU ld
    // refuses to. On x86_64 Linux rustc links with lld unless it is told otherwise.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let chosen = ["lld", "mold"].iter().any(|linker| flags.contains(&format!("fuse-ld={linker}")));
    let target = env::var("TARGET").unwrap_or_default();
    if !chosen && target != "x86_64-unknown-linux-gnu" {
        if !is_installed("ld.lld") {
            println!(
                "cargo:warning=ld.lld is not installed: the symbols of libneuralnetworks.so are exported by nobody else's versions"
            );
            return;
        }
        println!("cargo:rustc-cdylib-link-arg=-fuse-ld=lld");
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", map.display());
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
