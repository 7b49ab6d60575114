//! `cargo xtask neon`: the executor's kernels on aarch64, under an emulator. Where a part of what
//! that takes is missing it says so and passes.

use std::process::Command;

use crate::cargo::{Cargo, Outcome};
use crate::symbols::is_installed;

/// The target of CI beside its own machine's.
pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";

/// The executor's own tests, every kernel form the emulated machine has.
pub(crate) fn run() -> Outcome {
    if !is_installed("qemu-aarch64", "qemu-user")? || !can_link()? {
        return Ok(());
    }
    // Whole models take minutes there; the kernels' tests and the random graphs reach every form.
    let tests = [
        "test",
        "--package",
        "nnburst-kernels",
        "--package",
        "nnburst-executor",
        "--target",
        TARGET,
    ];
    let chosen = ["--lib", "--test", "graphs", "--test", "references"];
    with_linker(Cargo::new("NEON").args(tests).args(chosen))
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        )
        // With dot products, so that both kinds of kernels run.
        .env("QEMU_CPU", "max")
        .run()
}

/// Returns whether programs for the target can be built here: with a cross compiler and Rust's
/// library.
pub(crate) fn can_link() -> Result<bool, String> {
    if !is_installed(LINKER, "gcc-aarch64-linux-gnu")? {
        return Ok(false);
    }
    // Does nothing where it is there already.
    let added = Command::new("rustup").args(["target", "add", TARGET]).output();
    let added = added.is_ok_and(|said| said.status.success());
    if !added {
        println!("left out: no standard library for aarch64 (rustup target add {TARGET})");
    }
    Ok(added)
}

/// A call that links with the cross compiler where it builds for the target.
pub(crate) fn with_linker(cargo: Cargo) -> Cargo {
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
}
