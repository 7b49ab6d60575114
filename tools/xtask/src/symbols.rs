//! `cargo xtask symbols`: the C library for each target of CI, and whether it exports what its map
//! lists. Where a part of what that takes is missing it says so and passes, or fails where
//! `NNBURST_REQUIRE` names the part.

use std::process::Command;

use crate::cargo::{Cargo, Outcome, target_folder};
use crate::neon;

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", neon::TARGET];

/// Builds the library for each target and runs the tests of its symbols on it.
pub(crate) fn run() -> Outcome {
    for target in TARGETS {
        if target == neon::TARGET && !neon::can_link()? {
            continue;
        }
        let build = ["build", "--package", "nnburst-ndk", "--target", target];
        neon::with_linker(Cargo::new("library").args(build)).run()?;
        let built = target_folder().join(target).join("debug/libneuralnetworks.so");
        let tests = ["test", "--package", "nnburst-ndk", "--test", "ndk", "symbols::"];
        Cargo::new(target).args(tests).env("NNBURST_TEST_LIBRARY", built).run()?;
    }
    Ok(())
}

/// Returns whether a program can be run; what can't is reported, and is an error where
/// `NNBURST_REQUIRE` names it.
pub(crate) fn is_installed(program: &str, package: &str) -> Result<bool, String> {
    let found = Command::new(program).arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(true);
    }
    let missing = format!("{program} is not installed (Debian's package {package})");
    let required = std::env::var("NNBURST_REQUIRE").unwrap_or_default();
    if required.split(',').any(|name| name == program) {
        return Err(missing);
    }
    println!("left out: {missing}");
    Ok(false)
}
