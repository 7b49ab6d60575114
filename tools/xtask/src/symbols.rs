//! `cargo xtask symbols`: the C library for each target of CI, and whether it exports what its map
//! lists. Where a part of what that takes is missing it says so and passes, or fails where
//! `NNBURST_REQUIRE` names the part.

use std::process::Command;

use crate::arm;
use crate::cargo::Outcome;
use crate::workspace::Tests;

/// Runs the tests of the library's symbols on that of this machine, and on one for aarch64.
pub(crate) fn run() -> Outcome {
    let (packages, targets, args) = (&["nnburst-ndk"], &["ndk"], &["symbols::"]);
    Tests { packages, targets, args, ..Tests::default() }.run("symbols")?;
    if !arm::can_link()? {
        return Ok(());
    }
    let library = arm::library()?;
    let variables = &[("NNBURST_TEST_LIBRARY", library.as_os_str())];
    Tests { packages, targets, args, variables }.run(arm::TARGET)
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
