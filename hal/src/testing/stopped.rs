//! A driver's process that is stopped: it neither answers nor dies.

use std::fs;
use std::io;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Stops the process `pid` (`SIGSTOP`), and returns when each of its threads has stopped: until
/// then some may still answer.
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn stop_process(pid: u32) -> io::Result<()> {
    signal(pid, Signal::SIGSTOP)?;
    while !is_stopped(pid)? {
        thread::yield_now();
    }
    Ok(())
}

/// Lets a stopped process go on (`SIGCONT`).
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn continue_process(pid: u32) -> io::Result<()> {
    signal(pid, Signal::SIGCONT)
}

fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    // 0 and what is no PID would be the caller's own group, or another one.
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill(Pid::from_raw(pid), signal)?)
}

/// Whether every thread is in the state `T` of `/proc`; a thread that has just ended counts as
/// stopped.
fn is_stopped(pid: u32) -> io::Result<bool> {
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = fs::read_to_string(task?.path().join("stat")).unwrap_or_default();
        if stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('T')) {
            return Ok(false);
        }
    }
    Ok(true)
}
