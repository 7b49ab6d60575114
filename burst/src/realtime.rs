//! Real-time profiles: what a thread asks of the system so that nothing comes between it and its
//! work.

use std::num::NonZeroU64;
use std::time::Duration;

use nnburst_hal::RealTimeProfile;
use rustix::mm::MlockAllFlags;
use rustix::process::Resource;
use rustix::thread::CpuSet;

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
        match usize::try_from(cpu) {
            Ok(cpu) if cpu < CpuSet::MAX_CPU => set.set(cpu),
            _ => return Err(format!("there is no processor {cpu}")),
        }
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|errno| format!("the thread can't be bound to processors {cpus:?}: {errno}"))
}

#[expect(unsafe_code, reason = "rustix has no sched_setscheduler")]
fn fifo(priority: u8) -> Result<(), String> {
    let parameters = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: 0 is the calling thread; `parameters` is read during the call alone.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(format!("SCHED_FIFO priority {priority} was refused: {error}"))
}

/// Locks what is mapped; what will be mapped only if no limit stands in the way, since under a
/// limit every later allocation beyond it would fail.
fn lock_memory() -> Result<(), String> {
    let unlimited = rustix::process::getrlimit(Resource::Memlock).current.is_none();
    let future = if unlimited { MlockAllFlags::FUTURE } else { MlockAllFlags::empty() };
    rustix::mm::mlockall(MlockAllFlags::CURRENT | future)
        .map_err(|errno| format!("the memory can't be locked: {errno}"))
}

fn slack(slack: Duration) -> Result<(), String> {
    // Zero would mean the default; the shortest slack there is is what was meant.
    let nanoseconds = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX).max(1);
    rustix::thread::set_current_timer_slack(NonZeroU64::new(nanoseconds))
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
        let slack = || rustix::thread::current_timer_slack().unwrap();
        let worker = std::thread::spawn(move || (apply(&profile), slack()));
        let (warnings, slack) = worker.join().unwrap();
        assert_eq!(warnings, ["there is no processor 4294967295"]);
        assert_eq!(slack, 1000);
    }
}
