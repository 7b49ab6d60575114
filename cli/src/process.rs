//! Figures that the system has of a process.

use std::time::Duration;

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// A figure of `/proc/PROCESS/status` that is given in kilobytes, such as `VmHWM:`.
pub(crate) fn memory_bytes(process: &str, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The processor time that all threads of a process have had.
pub(crate) fn processor_time(process: u32) -> Option<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(process).ok()?)).ok()?;
    clock.now().ok().map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_grows_with_what_is_computed() {
        let own = std::process::id();
        let before = processor_time(own).unwrap();
        let numbers = (0..1_000_000u64).map(std::hint::black_box);
        assert!(numbers.fold(0, u64::wrapping_add) > 0);
        assert!(processor_time(own).unwrap() > before);
        assert_eq!(processor_time(u32::MAX), None);
    }
}
