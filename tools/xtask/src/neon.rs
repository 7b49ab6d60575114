//! `cargo xtask neon`: the executor's kernels on aarch64, under an emulator. Where a part of what
//! that takes is missing it says so and passes.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::{Cargo, Outcome, target_folder};
use crate::symbols::is_installed;
use crate::workspace::Tests;

/// The target of CI beside its own machine's.
pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: [&str; 3] = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];

/// The executor's own tests, every kernel form the emulated machine has.
pub(crate) fn run() -> Outcome {
    if !is_installed("qemu-aarch64", "qemu-user")? || !can_link()? {
        return Ok(());
    }
    Tests {
        packages: &["nnburst-kernels", "nnburst-executor"],
        // With dot products, so that both kinds of kernels run.
        variables: &[("QEMU_CPU", "max".as_ref())],
        ..Tests::default()
    }
    .run_from("NEON", &EMULATOR, || Ok(cargo("NEON", &["test", "--no-run"])))
}

/// Builds the C library for the target.
pub(crate) fn library() -> Result<PathBuf, String> {
    cargo("library", &["build"]).run()?;
    Ok(target_folder().join(TARGET).join("debug/libneuralnetworks.so"))
}

/// A call for the target: the same packages and tests in each, so that they share their
/// dependencies. Whole models take minutes in the emulator; the kernels' tests and the random
/// graphs reach every form.
fn cargo(what: &str, verb: &[&str]) -> Cargo {
    let packages = ["nnburst-kernels", "nnburst-executor", "nnburst-ndk"];
    Cargo::new(what)
        .args(verb)
        .args(packages.iter().flat_map(|package| ["--package", *package]))
        .args(["--lib", "--test", "graphs", "--test", "references", "--target", TARGET])
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
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
