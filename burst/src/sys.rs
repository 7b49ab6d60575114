//! System calls that `nix` lacks, behind safe functions.

#![expect(unsafe_code, reason = "nix has no sched_setscheduler, and for Android no prctl")]

use nix::errno::Errno;

/// Gives the calling thread real-time priority `priority` of the policy `SCHED_FIFO`.
pub(crate) fn set_fifo_priority(priority: u8) -> Result<(), Errno> {
    // SAFETY: integers, more of them in some C libraries than in others.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = i32::from(priority);
    // SAFETY: 0 is the calling thread; `parameters` is read during the call alone.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    Errno::result(set).map(drop)
}

/// Lets timers of the calling thread be late by so many nanoseconds.
pub(crate) fn set_timer_slack(nanoseconds: libc::c_ulong) -> Result<(), Errno> {
    // SAFETY: integers only.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) }).map(drop)
}
