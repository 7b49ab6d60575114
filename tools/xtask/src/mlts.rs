//! `cargo xtask mlts`: the acceptance suite on the sample drivers, and its proof on
//! drivers with faults.
//!
//! The CPU driver gets the whole quick run in a process of its own and embedded; the other sample
//! drivers, which compute with the same kernels, what differs between drivers: operations taken,
//! right answers, and how they stand what clients do to them. All of it takes less than three
//! minutes on two cores. Without `../shared` the built-in networks have to do.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::cargo::{Cargo, Outcome, target_folder};
use crate::workspace::Tests;

/// The drivers beside the CPU driver.
const SAMPLES: [&str; 6] = [
    "nnapi-sample_all",
    "nnapi-sample_float_fast",
    "nnapi-sample_float_slow",
    "nnapi-sample_quant",
    "nnapi-sample_minimal",
    "nnapi-sample_fibonacci",
];

/// What the sample drivers are asked for.
const OF_SAMPLES: &str =
    "^(model/(add1|mobilenet_v1_0.25_128_quant|mlperf_tiny_kws_int8)(_float)?|c01|c08|c10)$";

const USAGE: &str = "usage: cargo xtask mlts [--program NNBURST] [--without-faults]
  --program         the command [default: built now]
  --without-faults  leave out the drivers with faults, which are one of the workspace's tests";

/// Runs the suite with the program of `--program`, or with one that is built now.
pub(crate) fn run(args: &[String]) -> Outcome {
    let (mut program, mut has_faults) = (None, true);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.as_slice().first()) {
            ("--without-faults", _) => has_faults = false,
            ("--program", Some(_)) => program = args.next().cloned(),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let begun = Instant::now();
    if has_faults {
        let (packages, targets) = (&["nnburst-mlts"], &["faulty"]);
        Tests { packages, targets, ..Tests::default() }.run("mlts: drivers with faults")?;
    }
    let program = match program {
        Some(program) => program,
        None => {
            let build = ["build", "--release", "--package", "nnburst-cli"];
            Cargo::new("mlts: the command").args(build).run()?;
            target_folder().join("release/nnburst").display().to_string()
        }
    };
    let mut models = Vec::new();
    for folder in ["../shared/models", "../shared/mlts"] {
        if Path::new(folder).is_dir() {
            models.extend(["--models", folder]);
        }
    }
    suite(&program, &["--device", "spawn:nnburst-cpu"], &models)?;
    let own = ["--device", "embedded", "--only", "support,accuracy,crash"];
    suite(&program, &own, &models)?;
    let devices: Vec<_> = SAMPLES.iter().map(|name| format!("spawn:{name}")).collect();
    let mut args = vec!["--only", "support,accuracy,crash", "--filter", OF_SAMPLES];
    args.extend(devices.iter().flat_map(|device| ["--device", device.as_str()]));
    suite(&program, &args, &models)?;
    println!("mlts: all drivers in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// The longest run. Idle, a quick run takes 47 s of its own 70; beside builds it drops items, and
/// what is asked here is whether all of them pass, not how fast the machine is.
const LONGEST: [&str; 2] = ["--budget", "5m"];

/// A quick run of the suite, of all its items.
fn suite(program: &str, args: &[&str], models: &[&str]) -> Outcome {
    println!("== mlts: {program} mlts run --quick {}", args.join(" "));
    let mut command = Command::new(program);
    command.args(["mlts", "run", "--quick"]).args(LONGEST).args(args).args(models);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("mlts {}: {status}", args.join(" "))),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
