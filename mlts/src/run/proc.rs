//! Figures of a process from `/proc`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Ticks of processor time in a second.
const TICKS: f64 = 100.0;
const KIB_IN_MIB: f64 = 1024.0;

/// Resources of a process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) rss_mib: f64,
    pub(crate) threads: usize,
    pub(crate) fds: usize,
    /// Processor seconds so far.
    pub(crate) cpu_s: f64,
}

impl Usage {
    /// Reads the resources of a process; `None` where there is none, or it has ended.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| -> Option<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, after) = stat.rsplit_once(") ")?;
        let words: Vec<&str> = after.split(' ').collect();
        if matches!(words.first(), Some(&"Z" | &"X")) {
            return None;
        }
        let ticks = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
        Some(Self {
            rss_mib: field("VmRSS:").unwrap_or(0.0) / KIB_IN_MIB,
            threads: crate::num::count(field("Threads:").unwrap_or(0.0)),
            fds,
            cpu_s: (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / TICKS,
        })
    }
}

/// Processor seconds that the threads of a process have had so far; 0 where there is none. To the
/// nanosecond where the scheduler keeps count, else to its tick.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_thread = |task: fs::DirEntry| -> Option<f64> {
        let counts = fs::read_to_string(task.path().join("schedstat")).ok()?;
        counts.split_whitespace().next()?.parse().ok()
    };
    let counted: f64 = tasks.filter_map(of_thread).sum();
    if counted > 0.0 {
        return counted / 1e9;
    }
    Usage::of(pid).map_or(0.0, |usage| usage.cpu_s)
}

/// The share of the moments of a time in which a thread of a process computes, or would if there
/// were a processor for it, so that other work of the machine makes no difference. 0 where there is
/// no such process.
pub(crate) fn wanted_share(pid: u32, time: Duration) -> f64 {
    const APART: Duration = Duration::from_millis(2);
    let (mut moments, mut wanted) = (0, 0);
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::thread::sleep(APART);
        moments += 1;
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        wanted += usize::from(tasks.map(|task| state(&task.path())).any(|state| state == "R"));
    }
    crate::num::real(wanted) / crate::num::real(moments.max(1))
}

/// The state of the thread that a folder of `/proc` is about: `R` where it runs or would; `?` where
/// there is none.
fn state(task: &Path) -> String {
    let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.get(..1));
    state.unwrap_or("?").to_owned()
}

/// The threads of a process, a line each: name, state, where in the kernel it waits.
pub(crate) fn threads_of(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut lines = Vec::new();
    for task in tasks {
        let path = task.path();
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
        let state = state(&path);
        let name = read("comm");
        let waits = read("wchan");
        // Readable by root alone: where it is not, the other columns have to do.
        let stack = read("stack");
        let inner = stack.lines().next().unwrap_or_default();
        lines.push(format!(
            "{} {} {state} {} {inner}",
            task.file_name().to_string_lossy(),
            name.trim(),
            waits.trim()
        ));
    }
    lines.join("\n")
}

/// The name of a signal.
pub(crate) fn signal_name(number: i32) -> String {
    let known = signal_hook::low_level::signal_name(number);
    known.map_or_else(|| format!("signal {number}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_has_threads_memory_and_descriptors() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.threads >= 1 && usage.fds >= 3 && usage.rss_mib > 0.5, "{usage:?}");
        assert!(!threads_of(std::process::id()).is_empty());
        assert_eq!(Usage::of(u32::MAX), None);
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = cpu_seconds(std::process::id());
        let mut sum = 0_u64;
        while cpu_seconds(std::process::id()) < before + 0.02 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert_eq!(cpu_seconds(u32::MAX), 0.0);
    }

    #[test]
    fn who_computes_wants_a_processor_all_the_time_and_who_waits_none() {
        let time = Duration::from_millis(50);
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        while cpu_seconds(busy.id()) < 0.02 {
            std::thread::yield_now();
        }
        let wanted = wanted_share(busy.id(), time);
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(wanted, 1.0);
        // A process that begins wants one, too.
        let mut idle = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!((0..1000).any(|_| wanted_share(idle.id(), time) == 0.0));
        idle.kill().unwrap();
        idle.wait().unwrap();
        assert_eq!(wanted_share(u32::MAX, time), 0.0);
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(11), "SIGSEGV");
        assert_eq!(signal_name(9), "SIGKILL");
    }
}
