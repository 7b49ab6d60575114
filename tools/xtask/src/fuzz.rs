//! `cargo xtask fuzz`: every fuzz target, or those that are named, for a while, under
//! AddressSanitizer. Where cargo-fuzz or the nightly toolchain is missing it says so and passes.

use crate::cargo::{Cargo, Outcome, root};

/// Memory that one target may take, in MiB: the limits of what is fuzzed are below it.
const MEMORY: &str = "-rss_limit_mb=4096";

/// Seconds per target, where nobody says otherwise.
const SECONDS: u64 = 10;

pub(crate) fn run(args: &[String]) -> Outcome {
    let (seconds, chosen) = match args {
        [option, seconds, chosen @ ..] if option == "--seconds" => {
            let seconds = seconds.parse();
            (seconds.map_err(|_| "`--seconds` wants a number of seconds".to_string())?, chosen)
        }
        chosen => (SECONDS, chosen),
    };
    let folder = root().join("tools/fuzz");
    let cargo = || Cargo::nightly("fuzzing").in_folder(&folder);
    let (found, said) = cargo().args(["fuzz", "list"]).ask().unwrap_or((false, String::new()));
    if !found {
        println!(
            "left out: cargo-fuzz is not installed for the nightly toolchain (cargo install cargo-fuzz)"
        );
        return Ok(());
    }
    let all: Vec<&str> = said.split_whitespace().collect();
    if let Some(unknown) = chosen.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(format!("there is no fuzz target `{unknown}`, but {}", all.join(", ")));
    }
    let is_chosen = |target: &&str| chosen.is_empty() || chosen.iter().any(|name| name == target);
    for target in all.into_iter().filter(is_chosen) {
        let time = format!("-max_total_time={seconds}");
        cargo().args(["fuzz", "run", target, "--", &time, MEMORY]).run()?;
    }
    Ok(())
}
