//! Figures that the system has of a process.

/// A figure of `/proc/PROCESS/status` that is given in kilobytes, such as `VmHWM:`.
pub(crate) fn memory_bytes(process: &str, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}
