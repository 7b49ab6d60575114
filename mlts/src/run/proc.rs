//! Figures of a process from `/proc`.

use std::fs;

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

/// Seconds that the threads of a process have computed or waited for a processor so far: what they
/// would have had of an idle machine, at most. 0 where the scheduler keeps no count.
pub(crate) fn wanted_seconds(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_thread = |task: fs::DirEntry| -> Option<f64> {
        let counts = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let figures = counts.split_whitespace().take(2).map(str::parse::<f64>);
        figures.sum::<Result<f64, _>>().ok()
    };
    tasks.filter_map(of_thread).sum::<f64>() / 1e9
}

/// The threads of a process, a line each: name, state, where in the kernel it waits.
pub(crate) fn threads_of(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut lines = Vec::new();
    for task in tasks {
        let path = task.path();
        let read = |name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
        let stat = read("stat");
        let state = stat.rsplit_once(") ").map_or("?", |(_, rest)| rest.get(..1).unwrap_or("?"));
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
        assert_eq!((cpu_seconds(u32::MAX), wanted_seconds(u32::MAX)), (0.0, 0.0));
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(11), "SIGSEGV");
        assert_eq!(signal_name(9), "SIGKILL");
    }
}
