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

/// A system call that stands out in a trace, for [`calls_between_marks`].
pub fn mark() {
    let _ = nix::unistd::getpgid(None);
}

/// For each pair of [`mark`]s of a thread in a log of [`traced_test`], the calls it made in
/// between. Threads share their lines in time alone.
pub fn calls_between_marks(log: &str) -> Vec<Vec<&str>> {
    let mut open: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut runs = Vec::new();
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let at = open.iter().position(|(known, _)| *known == thread);
        match (at, call.starts_with("getpgid(")) {
            (None, true) => open.push((thread, Vec::new())),
            (Some(at), true) => runs.push(open.remove(at).1),
            // A signal is no call, and "<... NAME resumed>" is the second half of one that has a
            // line: another thread's line came in between, a mark's halves included.
            (Some(at), false) if !call.starts_with("---") && !call.starts_with("<...") => {
                open.get_mut(at).into_iter().for_each(|(_, calls)| calls.push(call));
            }
            _ => {}
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_once_where_another_thread_s_lines_split_them() {
        let log = "\
            7 getpgid(0 <unfinished ...>\n\
            8 futex(0x7f00, FUTEX_WAIT, 1, NULL <unfinished ...>\n\
            7 <... getpgid resumed>)            = 5\n\
            7 read(3 <unfinished ...>\n\
            8 <... futex resumed>)              = 0\n\
            7 <... read resumed>, \"\", 1)       = 0\n\
            7 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
            7 getpgid(0)                        = 5\n\
            7 close(3)                          = 0\n\
            8 getpgid(0)                        = 5\n\
            8 getpgid(0 <unfinished ...>\n\
            7 exit_group(0)                     = ?\n\
            8 <... getpgid resumed>)            = 5\n";
        let runs = calls_between_marks(log);
        assert_eq!(runs, [vec!["read(3 <unfinished ...>"], vec![]]);
    }
}
