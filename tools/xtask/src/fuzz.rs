//! `cargo xtask fuzz`: every fuzz target, or those that are named, for a while. libFuzzer is linked
//! in by its crate, so that no tool beside cargo and a C++ compiler is needed; AddressSanitizer
//! comes with the nightly toolchain, where that is installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::cargo::{Cargo, Outcome, root, target_folder};

/// Seconds per target, where nobody says otherwise.
const SECONDS: u64 = 10;

/// Seconds per target below which kernels are built without optimisation: that takes a third of the
/// time, and what they compute is slow for a while.
const SHORT: u64 = 60;

/// Memory that one target may take, in MiB: the limits of what is fuzzed are below it.
const MEMORY: &str = "-rss_limit_mb=4096";

/// Coverage as libFuzzer reads it: by which inputs it finds out what leads further.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

pub(crate) fn run(args: &[String]) -> Outcome {
    let (seconds, chosen) = match args {
        [option, seconds, chosen @ ..] if option == "--seconds" => {
            let seconds = seconds.parse();
            (seconds.map_err(|_| "`--seconds` wants a number of seconds".to_string())?, chosen)
        }
        chosen => (SECONDS, chosen),
    };
    let folder = root().join("tools/fuzz");
    let all = targets(&folder)?;
    if let Some(unknown) = chosen.iter().find(|name| !all.contains(name)) {
        return Err(format!("there is no fuzz target `{unknown}`, but {}", all.join(", ")));
    }
    let chosen = if chosen.is_empty() { all } else { chosen.to_vec() };
    build(&folder, &chosen, seconds)?;
    let waiting = Mutex::new(chosen.into_iter());
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(name) = unpoisoned(waiting.lock()).next() {
                    if let Err(error) = fuzz(&folder, &name, seconds) {
                        unpoisoned(failures.lock()).push(error);
                    }
                }
            });
        }
    });
    let failures = unpoisoned(failures.into_inner());
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn unpoisoned<T>(locked: Result<T, PoisonError<T>>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// The names of all targets.
fn targets(folder: &Path) -> Result<Vec<String>, String> {
    let sources = folder.join("fuzz_targets");
    let found = std::fs::read_dir(&sources).map_err(|error| in_path(&sources, &error))?;
    let name = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<_> = found.filter_map(|it| name(it.ok()?.path())).collect();
    names.sort_unstable();
    Ok(names)
}

/// The target that cargo builds for: flags are then for the programs alone, not for build scripts.
fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// Builds the programs of these targets.
fn build(folder: &Path, names: &[String], seconds: u64) -> Outcome {
    let nightly = Cargo::nightly("fuzzing").arg("--version").ask();
    let (cargo, sanitizer) = if nightly.is_ok_and(|(found, _)| found) {
        (Cargo::nightly("fuzzing"), " -Zsanitizer=address")
    } else {
        println!("without AddressSanitizer: the nightly toolchain is not installed");
        (Cargo::new("fuzzing"), "")
    };
    let cargo = cargo.in_folder(folder).args(["build", "--target", &triple()]);
    let cargo = if seconds < SHORT { cargo.with_kernels_at(0) } else { cargo };
    cargo
        .args(names.iter().flat_map(|name| ["--bin", name]))
        .env("RUSTFLAGS", format!("{COVERAGE}{sanitizer}"))
        .env("CARGO_TARGET_DIR", target_folder().join("fuzz"))
        .run()
}

/// Runs a target on what it found out earlier, and says how many inputs it tried.
fn fuzz(folder: &Path, name: &str, seconds: u64) -> Outcome {
    let program = target_folder().join("fuzz").join(triple()).join("debug").join(name);
    // Inputs that lead further, and those that fail: where cargo-fuzz keeps them, too.
    let [corpus, artifacts] = ["corpus", "artifacts"].map(|kind| folder.join(kind).join(name));
    for kept in [&corpus, &artifacts] {
        std::fs::create_dir_all(kept).map_err(|error| in_path(kept, &error))?;
    }
    let ended = Command::new(&program)
        .args([format!("-max_total_time={seconds}"), MEMORY.to_owned()])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(corpus)
        .output()
        .map_err(|error| in_path(&program, &error))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if !ended.status.success() {
        return Err(format!("the fuzz target {name}: {}\n{said}", ended.status));
    }
    let done = said.lines().rfind(|line| line.starts_with("Done ")).unwrap_or("Done");
    println!("== fuzzing: {name}: {done}");
    Ok(())
}

fn in_path(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
