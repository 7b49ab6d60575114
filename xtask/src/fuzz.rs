//! `cargo xtask fuzz`: every fuzz target for a while, under AddressSanitizer. Where cargo-fuzz or the nightly
//! toolchain is missing it says so and passes.

use crate::cargo::{Cargo, Outcome, workspace};

/// Memory that one target may take, in MiB: the limits of what is fuzzed are below it.
const MEMORY: &str = "-rss_limit_mb=4096";

/// Seconds per target, where nobody says otherwise.
const SECONDS: u64 = 10;

pub(crate) fn run(args: &[String]) -> Outcome {
    let seconds = match args {
        [] => SECONDS,
        [option, seconds] if option == "--seconds" => {
            seconds.parse().map_err(|_| format!("`{seconds}` is no number of seconds"))?
        }
        _ => return Err("usage: cargo xtask fuzz [--seconds N]".into()),
    };
    let folder = workspace().join("fuzz");
    let cargo = || Cargo::nightly("fuzzing").in_folder(&folder);
    let (found, said) = cargo().args(["fuzz", "list"]).ask().unwrap_or((false, String::new()));
    if !found {
        println!(
            "skipped: cargo-fuzz is not installed for the nightly toolchain (cargo install cargo-fuzz)"
        );
        return Ok(());
    }
    for target in said.split_whitespace() {
        let time = format!("-max_total_time={seconds}");
        cargo().args(["fuzz", "run", target, "--", &time, MEMORY]).run()?;
    }
    Ok(())
}
