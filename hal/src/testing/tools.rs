//! Tools that a test may lack.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub use nnburst_fmq::testing::is_there;

/// Runs one test of this program again, under strace and with an environment variable set, and
/// returns the lines of its system calls. `None` where strace can't run, as in a sandbox that
/// forbids tracing; see [`is_there`].
///
/// # Panics
/// If it can't run and `NNBURST_REQUIRE` names `strace`.
pub fn traced_test(test: &str, variable: &str, value: &str) -> Option<String> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let log: PathBuf =
        std::env::temp_dir().join(format!("nnburst-strace-{}-{run}", std::process::id()));
    let program = std::env::current_exe().ok()?;
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&log)
        .arg(program)
        .args(["--exact", test])
        .env(variable, value)
        .output();
    let calls = std::fs::read_to_string(&log).unwrap_or_default();
    // Where strace doesn't exist there is no log either.
    let _ = std::fs::remove_file(&log);
    is_there("strace", traced.is_ok_and(|traced| traced.status.success())).then_some(calls)
}
