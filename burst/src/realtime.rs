//! Real-time profiles: what a thread asks of the system so that nothing comes between it and its
//! work.

use std::time::Duration;

use nix::libc::{RLIM_INFINITY, c_ulong};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;
use nnburst_hal::RealTimeProfile;

use crate::sys::{set_fifo_priority, set_timer_slack};

/// Applies `profile` to the calling thread, and locking to its whole process. Returns what the
/// system refused, one sentence each; the rest holds.
pub fn apply(profile: &RealTimeProfile) -> Vec<String> {
    let steps = [
        pin(&profile.cpus),
        profile.fifo_priority.map_or(Ok(()), fifo),
        if profile.lock_memory { lock_memory() } else { Ok(()) },
        profile.timer_slack.map_or(Ok(()), slack),
    ];
    steps.into_iter().filter_map(Result::err).collect()
}

fn pin(cpus: &[u32]) -> Result<(), String> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        let known = usize::try_from(cpu).ok().and_then(|number| set.set(number).ok());
        known.ok_or_else(|| format!("there is no processor {cpu}"))?;
    }
    sched_setaffinity(THIS_THREAD, &set)
        .map_err(|errno| format!("the thread can't be bound to processors {cpus:?}: {errno}"))
}

/// The calling thread, in calls of the scheduler.
pub(crate) const THIS_THREAD: Pid = Pid::from_raw(0);

fn fifo(priority: u8) -> Result<(), String> {
    set_fifo_priority(priority)
        .map_err(|errno| format!("SCHED_FIFO priority {priority} was refused: {errno}"))
}

/// Locks what is mapped; what will be mapped only if no limit stands in the way, since under a
/// limit every later allocation beyond it would fail.
fn lock_memory() -> Result<(), String> {
    let unlimited =
        getrlimit(Resource::RLIMIT_MEMLOCK).is_ok_and(|(current, _)| current == RLIM_INFINITY);
    let future = if unlimited { MlockAllFlags::MCL_FUTURE } else { MlockAllFlags::empty() };
    mlockall(MlockAllFlags::MCL_CURRENT | future)
        .map_err(|errno| format!("the memory can't be locked: {errno}"))
}

fn slack(slack: Duration) -> Result<(), String> {
    // Zero would mean the default; the shortest slack there is is what was meant.
    let nanoseconds = c_ulong::try_from(slack.as_nanos()).unwrap_or(c_ulong::MAX).max(1);
    set_timer_slack(nanoseconds)
        .map_err(|errno| format!("a timer slack of {nanoseconds} ns was refused: {errno}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_profile_asks_for_nothing() {
        assert_eq!(apply(&RealTimeProfile::default()), Vec::<String>::new());
    }

    #[test]
    fn what_is_refused_is_a_sentence_and_the_rest_holds() {
        let profile = RealTimeProfile {
            cpus: vec![u32::MAX],
            timer_slack: Some(Duration::from_micros(1)),
            ..RealTimeProfile::default()
        };
        let slack = || nix::sys::prctl::get_timerslack().unwrap();
        let worker = std::thread::spawn(move || (apply(&profile), slack()));
        let (warnings, slack) = worker.join().unwrap();
        assert_eq!(warnings, ["there is no processor 4294967295"]);
        assert_eq!(slack, 1000);
    }
}
