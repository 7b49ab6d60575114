//! `cargo xtask neon`: the executor's kernels on aarch64, under an emulator. Where a part of what that takes
//! is missing it says so and passes.

use std::process::Command;

use crate::cargo::{Cargo, Outcome};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";

/// The executor's own tests, every kernel form the emulated machine has.
pub(crate) fn run() -> Outcome {
    for (tool, package) in [(LINKER, "gcc-aarch64-linux-gnu"), ("qemu-aarch64", "qemu-user")] {
        if !Command::new(tool).arg("--version").output().is_ok_and(|said| said.status.success()) {
            println!("skipped: {tool} is not installed (Debian's package {package})");
            return Ok(());
        }
    }
    // Does nothing where it is there already.
    let added = Command::new("rustup").args(["target", "add", TARGET]).output();
    if !added.is_ok_and(|said| said.status.success()) {
        println!("skipped: no standard library for aarch64 (rustup target add {TARGET})");
        return Ok(());
    }
    // Whole models take minutes there; the kernels' tests and the random graphs reach every form.
    let tests = ["test", "--package", "nnburst-executor", "--target", TARGET];
    let chosen = ["--lib", "--test", "graphs", "--test", "references"];
    Cargo::new("NEON")
        .args(tests)
        .args(chosen)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        )
        // With dot products, so that both kinds of kernels run.
        .env("QEMU_CPU", "max")
        .run()
}
