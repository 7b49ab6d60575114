//! The system call that `nix` lacks, behind a safe function.

#![expect(unsafe_code, reason = "nix has no prlimit")]

use nix::errno::Errno;
use nix::unistd::Pid;

/// Limits what a process may write to and nobody else sees (`RLIMIT_DATA`), in bytes.
pub(crate) fn limit_data(process: Pid, bytes: u64) -> Result<(), Errno> {
    let limit = libc::rlimit64 { rlim_cur: bytes, rlim_max: bytes };
    let (process, none) = (process.as_raw(), std::ptr::null_mut());
    // SAFETY: the limit is read during the call alone, and nothing is written.
    let set = unsafe { libc::prlimit64(process, libc::RLIMIT_DATA, &raw const limit, none) };
    Errno::result(set).map(drop)
}
