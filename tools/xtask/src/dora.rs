//! The door dora: a package of its own, as dora and Zenoh are five hundred crates, and its
//! dataflows, run by dora's command of PyPI.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use crate::cargo::{Cargo, Outcome, root, target_folder};
use crate::wheels::Wheels;

/// dora's command, without the Python package that it asks for and doesn't use.
const COMMAND: Wheels = Wheels {
    name: "dora",
    packages: &["--no-deps", "dora-rs-cli==1.1.0"],
    module: "dora_cli",
    pythons: &["python3", "python3.13", "python3.12", "python3.11", "python3.10"],
};

/// The linter as the package's compiler, which then builds as well: by `cargo clippy` all crates
/// would be built twice.
const LINTER: [(&str, &str); 2] = [
    ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"),
    ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"),
];

/// Formats, lints, builds and tests the package, and runs its dataflows.
pub(crate) fn run() -> Outcome {
    cargo().args(["fmt", "--check"]).run()?;
    linted().arg("test").run()?;
    let Some(python) = COMMAND.python()? else { return Ok(()) };
    let dora = python.with_file_name("dora");
    let dataflows = linted().env("NNBURST_DORA", dora);
    let dataflows = dataflows.args(["test", "--test", "dataflows", "--", "--ignored"]);
    // Dataflows would take each other's time, and daemons each other's ports.
    let dataflows = dataflows.args(["--test-threads", "1"]);
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if is_root && has_namespaces() {
        return dataflows.run();
    }
    println!(
        "left out: the dataflows on two machines, which take network namespaces (root, and ip)"
    );
    dataflows.args(["--skip", "machines::"]).run()
}

/// Returns whether there is the command that makes network namespaces (Debian's iproute2).
fn has_namespaces() -> bool {
    Command::new("ip").arg("-V").output().is_ok_and(|output| output.status.success())
}

fn linted() -> Cargo {
    LINTER.iter().fold(cargo(), |cargo, (name, value)| cargo.env(name, value))
}

/// cargo in the package, with a target folder of its own.
fn cargo() -> Cargo {
    let target: PathBuf = target_folder().join("dora");
    Cargo::new("dora").in_folder(&root().join("doors/dora")).env("CARGO_TARGET_DIR", target)
}
