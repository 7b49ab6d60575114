//! Chores of the project, in Rust, so that cargo is all they need: `cargo xtask ci`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks")]

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("ci") => ci(),
        _ => {
            eprintln!("usage: cargo xtask ci");
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
