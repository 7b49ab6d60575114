//! `cargo xtask miri` and `cargo xtask tsan`: checks that need the nightly toolchain. Where a part
//! of it is missing they say so and pass: whoever installs it gets them.

use crate::cargo::{Cargo, Outcome};

/// The tests of the queue in private memory, which need no file.
const TESTS: [&str; 5] = ["test", "--package", "nnburst-fmq", "--test", "private_memory"];

/// The tests under Miri, with both models of borrowing.
pub(crate) fn miri() -> Outcome {
    if !Cargo::nightly("Miri").args(["miri", "--version"]).ask().is_ok_and(|(found, _)| found) {
        println!("left out: Miri is not installed (rustup component add miri --toolchain nightly)");
        return Ok(());
    }
    for model in ["", "-Zmiri-tree-borrows"] {
        let flags = format!("-Zmiri-disable-isolation {model}");
        let cargo = Cargo::nightly("Miri").args(["miri"]).args(TESTS);
        cargo.env("MIRIFLAGS", flags).run()?;
    }
    Ok(())
}

/// The tests under ThreadSanitizer, with a standard library built for it.
pub(crate) fn tsan() -> Outcome {
    let target = "x86_64-unknown-linux-gnu";
    let cargo = || {
        let build = ["-Zbuild-std", "--target", target];
        Cargo::nightly("ThreadSanitizer")
            .args(TESTS)
            .args(build)
            .env("RUSTFLAGS", "-Zsanitizer=thread")
    };
    let (built, said) = cargo().args(["--no-run"]).ask().unwrap_or_else(|error| (false, error));
    if !built {
        let reason = said.lines().find(|line| line.contains("error")).unwrap_or(&said);
        println!(
            "left out: no standard library for ThreadSanitizer could be built here ({reason})"
        );
        return Ok(());
    }
    cargo().run()
}
