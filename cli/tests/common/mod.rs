//! Running the command as a user does, in processes of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests panic")]
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// No test takes this long; who does hangs.
pub(crate) const GUARD: Duration = Duration::from_secs(60);

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nnburst"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn run(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// Standard output of a command that succeeds.
pub(crate) fn succeed(args: &[&str]) -> String {
    let output = run(args);
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}{out}");
    out
}

/// The only line on standard error of a command that fails with this code.
pub(crate) fn fail(code: i32, args: &[&str]) -> String {
    let output = run(args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    error
}

pub(crate) fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until `done` or the guard.
pub(crate) fn until(what: &str, done: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < GUARD, "{what} took longer than {GUARD:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    start.elapsed()
}

/// The end of a process that has to end by itself.
pub(crate) fn ended(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > GUARD {
            child.kill().unwrap();
            panic!("the process did not end within {GUARD:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Processes whose parent is `pid`.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    tasks
        .into_iter()
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// Whether a process is there and more than a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

pub(crate) fn signal(signal: &str, pid: u32) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill {signal} {pid}");
}

/// A folder of data that is shared between checkouts; see there.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    nnburst_conformance::shared_dir(name)
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
