//! Chores of the project, in Rust, so that cargo is all they need: `cargo xtask ci`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks")]

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["ci"] => ci(),
        ["soak", "burst", rest @ ..] => soak_burst(rest),
        _ => {
            eprintln!("usage: cargo xtask ci | soak burst [--minutes N]");
            ExitCode::from(2)
        }
    }
}

/// Everything that has to hold before a commit lands; the README's test command.
fn ci() -> ExitCode {
    const STEPS: &[(&str, &[&str])] = &[
        ("format", &["fmt", "--all", "--check"]),
        ("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        ("tests", &["test", "--workspace"]),
        ("docs", &["doc", "--workspace", "--no-deps"]),
    ];
    for (what, args) in STEPS {
        println!("== {what}: cargo {}", args.join(" "));
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(*args);
        if *what == "docs" {
            cargo.env("RUSTDOCFLAGS", "-D warnings");
        }
        match cargo.status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                eprintln!("{what} failed: {status}");
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("{what} could not start: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("all checks passed");
    ExitCode::SUCCESS
}

/// Random bursts between processes that are killed now and then, for as long as asked (a minute if not).
fn soak_burst(args: &[&str]) -> ExitCode {
    let minutes = match args {
        [] => Some(1),
        ["--minutes", minutes] => minutes.parse::<u64>().ok(),
        _ => None,
    };
    let Some(minutes) = minutes else {
        eprintln!("usage: cargo xtask soak burst [--minutes N]");
        return ExitCode::from(2);
    };
    let test = ["test", "--release", "-p", "nnburst-burst", "--test", "burst", "--"];
    let one = ["soak::random_bursts_and_kills_leave_nothing_behind", "--exact", "--nocapture"];
    let soaked = Command::new(env!("CARGO"))
        .args(test.iter().chain(&one))
        .env("NNBURST_SOAK_SECONDS", minutes.saturating_mul(60).to_string())
        .status();
    match soaked {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("the soak failed: {status}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("the soak could not start: {error}");
            ExitCode::FAILURE
        }
    }
}
