//! `cargo xtask loom`: the model checks.

use crate::cargo::{Cargo, Outcome, root};

/// Runs them; `args` go to the tests (a name, say).
pub(crate) fn run(args: &[String]) -> Outcome {
    let cargo = Cargo::new("loom").args(["test", "--package", "loom-tests"]);
    configure(cargo).args(["--"]).args(args).run()
}

/// The settings of every loom build: its own target folder, since the flag rebuilds everything, and
/// a bound on how often a thread is interrupted: three find every weakening of `loom-mutants`, and
/// keep the run to seconds.
pub(crate) fn configure(cargo: Cargo) -> Cargo {
    let preemptions = std::env::var("LOOM_MAX_PREEMPTIONS").unwrap_or_else(|_| "3".into());
    cargo
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", preemptions)
        .env("CARGO_TARGET_DIR", root().join("target").join("loom"))
}
