//! Services that say nothing, and a driver that may write no files: neither costs anybody else
//! anything.
#![expect(clippy::unwrap_used, reason = "a test")]

mod common;
#[path = "../../runtime/tests/common/silent.rs"]
mod silent;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{command, ended, is_alive, signal, text};
use silent::{SILENT, Silent};

const DIR: &str = "NNBURST_SERVICE_DIR";
const MINIMAL: &str = "nnapi-sample_minimal";

/// Ended when dropped.
struct Served(Child);

impl Served {
    /// Waits until a command serves.
    fn start(mut command: Command, dir: &Path) -> Self {
        let mut child = command.env(DIR, dir).stdout(Stdio::piped()).spawn().unwrap();
        let mut announced = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut announced).unwrap();
        assert!(announced.contains(".sock"), "{announced}");
        Self(child)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        ended(&mut self.0);
    }
}

#[test]
fn services_that_say_nothing_are_left_out_with_a_warning() {
    let silent = Silent::start();
    // And a real one that is stopped.
    let stopped = Served::start(command(&["serve", "--driver", MINIMAL]), silent.dir());
    signal("-STOP", stopped.0.id());
    let run = |args: &[&str]| {
        let mut command = command(args);
        command.env(DIR, silent.dir()).env("NNBURST_SERVICE_TIMEOUT", "300").output().unwrap()
    };
    let listed = run(&["devices"]);
    let (out, error) = (text(&listed.stdout), text(&listed.stderr));
    assert!(listed.status.success() && out.contains("embedded:"), "{out}{error}");
    for service in [SILENT, MINIMAL] {
        assert!(error.contains(&format!("connecting to {service}")), "{error}");
        // Whoever wants it has lost it.
        let lost = run(&["bench", "--builtin", "add1", "--device", service]);
        assert_eq!(lost.status.code(), Some(3), "{}", text(&lost.stderr));
    }
}

#[test]
fn a_driver_outlives_a_limit_of_file_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    let serve =
        format!("ulimit -f 0; exec {} serve --driver {MINIMAL}", env!("CARGO_BIN_EXE_nnburst"));
    shell.args(["-c", &serve]);
    let served = Served::start(shell, dir.path());
    // Whatever comes of that: the driver can write no cache.
    let _ = command(&["bench", "--builtin", "add1", "--runs", "1", "--cache", "--device", MINIMAL])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let listed = command(&["devices"]).env(DIR, dir.path()).output().unwrap();
    assert!(text(&listed.stdout).contains(&format!("\n{MINIMAL} ")), "{listed:?}");
    assert!(is_alive(served.0.id()));
}

#[test]
fn a_driver_of_few_descriptors_serves_and_one_of_fewer_says_why_not() {
    let limited = |most: u32| {
        let run =
            format!("ulimit -n {most}; exec {} run --builtin add1", env!("CARGO_BIN_EXE_nnburst"));
        Command::new("sh").args(["-c", &run]).output().unwrap()
    };
    for most in [256, 128, 64] {
        let output = limited(most);
        assert!(output.status.success(), "{most}: {}", text(&output.stderr));
    }
    let output = limited(16);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no room for another connection"), "{error}");
}
