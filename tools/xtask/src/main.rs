//! Chores of the project, in Rust, so that cargo is all they need: `cargo xtask ci`.
//!
//! | chore                            | does |
//! |----------------------------------|---|
//! | `ci`                             | all that must hold for each commit; needs only cargo |
//! | `build`                          | the workspace's tests, which other chores share |
//! | `loom`                           | the model checks of `loom-tests` |
//! | `loom-mutants`                   | weakens every ordering and expects to be caught |
//! | `soak [--minutes N]`             | the queue: two processes, checksums, random kill -9 |
//! | `soak burst [--minutes N]`       | bursts: random models and kills, every answer checked |
//! | `manual`                         | writes the command's manual pages and completions anew |
//! | `operations`                     | writes `docs/operations.md` anew (conformance cases) |
//! | `peers --venv DIR`               | our models beside TFLite's on one core; see `peers` |
//! | `dist [--target TARGET] ..`      | packages of Debian, an archive, a wheel, an SBOM |
//! | `doors [NAME ..]`                | the plugins for other people's programs |
//! | `fuzz [--seconds N] [TARGET ..]` | fuzz targets under AddressSanitizer (nightly) |
//! | `ignored`                        | tests that take root, strace or all cases |
//! | `install [--prefix DIR] ..`      | what a package installs: command, library, pages |
//! | `layers [--list]`                | which crates, layers and files know which |
//! | `links`                          | relative links and anchors, links of rustdoc |
//! | `mlts`                           | the acceptance suite on sample and on faulty drivers |
//! | `arm`                            | tests of the lower crates on emulated Arm machines |
//! | `cross`                          | compiles for musl, Android, riscv64, 32-bit Arm |
//! | `symbols`                        | the C library's exports and their versions |
//! | `tflite-diff --venv DIR`         | single operators beside TFLite's interpreter |
//! | `asan`                           | TFLite's delegate under AddressSanitizer (nightly) |
//! | `miri`, `tsan`                   | under Miri and ThreadSanitizer (nightly) |
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks")]

mod arm;
mod cargo;
mod dist;
mod doors;
mod dora;
mod estimate;
mod fuzz;
mod install;
mod layers;
mod links;
mod loom;
mod mlts;
mod mutants;
mod peers;
mod sanitizers;
mod steps;
mod symbols;
mod tflite_diff;
mod wheels;
mod workspace;

use std::process::ExitCode;

use cargo::{Cargo, Outcome};
use steps::Steps;
use workspace::Tests;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) = args.split_first().map_or(("", &[][..]), |(chore, rest)| (chore, rest));
    let done = match chore {
        "ci" => ci(),
        "build" => workspace::build_tests(),
        "loom" => loom::run(rest),
        "loom-mutants" => mutants::run(rest),
        "soak" => soak(rest),
        "manual" => manual(),
        "operations" => operations(),
        "peers" => peers::run(rest),
        "dist" => dist::run(rest),
        "estimate" => estimate::run(),
        "doors" => doors::run(rest),
        "fuzz" => fuzz::run(rest),
        "ignored" => ignored(),
        "install" => install::run(rest),
        "layers" => layers::run(rest),
        "links" => links::run(),
        "mlts" => mlts::run(rest),
        "arm" => arm::run(),
        "cross" => arm::cross(),
        "symbols" => symbols::run(),
        "asan" => sanitizers::asan(),
        "miri" => sanitizers::miri(),
        "tflite-diff" => tflite_diff::run(rest),
        "tsan" => sanitizers::tsan(),
        _ => {
            eprintln!(
                "usage: cargo xtask ci | build | loom | loom-mutants | soak [burst] | manual | operations | peers | dist | doors | estimate | fuzz | ignored | install | layers | links | mlts | arm | cross | symbols | tflite-diff | asan | miri | tsan"
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {chore}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the table of operations, which a test of the executor makes from signatures, steps and
/// cases.
fn operations() -> Outcome {
    let test = ["test", "--package", "nnburst-executor", "--test", "operations"];
    Cargo::new("operations").args(test).env("NNBURST_WRITE_DOCS", "1").run()
}

/// Writes the command's manual pages and completions, which tests of the command make from its
/// options.
fn manual() -> Outcome {
    let test = ["test", "--package", "nnburst-cli", "--bin", "nnburst", "manual"];
    Cargo::new("manual").args(test).env("NNBURST_WRITE_DOCS", "1").run()
}

/// Everything that has to hold before a commit lands; the README's test command.
fn ci() -> Outcome {
    let mut steps = Steps::default();
    steps.take("format", || Cargo::new("format").args(["fmt", "--all", "--check"]).run())?;
    steps.take("layers", || layers::run(&[]))?;
    let lints = || workspace::cargo("lints", &["clippy", "--all-targets"]);
    steps.take("lints", || lints()?.args(["--", "-D", "warnings"]).run())?;
    steps.take("build of the tests", workspace::build_tests)?;
    steps.take("tests", workspace::run_tests)?;
    steps.take("links", links::run)?;
    steps.take("loom", || loom::run(&[]))?;
    println!("all checks passed");
    Ok(())
}

/// Tests that plain runs leave out, as they take rights or data: processes of other users (root),
/// strace on processors 0 and 1, all conformance cases. Measurements are left out here as well.
fn ignored() -> Outcome {
    let packages = ["nnburst-hal", "nnburst-driver"];
    let mut args = vec!["--ignored", "--skip", "measured"];
    if !cargo::root().join("../shared/conformance").is_dir() {
        println!("left out: all conformance cases (no ../shared/conformance)");
        args.extend(["--skip", "cases_give"]);
    }
    Tests { packages: &packages, args: &args, ..Tests::default() }.run("ignored tests")
}

/// The soak of the queue, whose arguments are its own; or, after `burst`, that of bursts.
fn soak(args: &[String]) -> Outcome {
    if let Some((first, rest)) = args.split_first()
        && first == "burst"
    {
        return soak_burst(rest);
    }
    let soak = ["run", "--release", "--package", "benches", "--bin", "soak", "--"];
    Cargo::new("soak").args(soak).args(args).run()
}

/// Random bursts between processes that are killed now and then, for as long as asked (a minute if
/// not); with debug assertions, and built already where the tests were.
fn soak_burst(args: &[String]) -> Outcome {
    let minutes: u64 = match args {
        [] => 1,
        [option, minutes] if option == "--minutes" => {
            minutes.parse().map_err(|_| format!("`{minutes}` is no number of minutes"))?
        }
        _ => return Err("usage: cargo xtask soak burst [--minutes N]".into()),
    };
    let seconds = minutes.saturating_mul(60).to_string();
    Tests {
        packages: &["nnburst-burst"],
        targets: &["burst"],
        args: &["soak::random_bursts_and_kills_leave_nothing_behind", "--exact", "--nocapture"],
        variables: &[("NNBURST_SOAK_SECONDS", seconds.as_ref())],
    }
    .run("soak")
}
