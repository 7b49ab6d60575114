//! The time that `run` may wait for a block that is not ready.
//!
//! | host | recognised by | the wait |
//! |---|---|---|
//! | renders a file | sound at twice its speed, no real-time thread | [`PATIENCE`] |
//! | plays, with a buffer | more sound brought than time has passed | the time that it is ahead |
//! | any other | | half the time of the sound that it brings at once |
//!
//! Speed is measured by the host's own time, and threads are those of its process. A file that is
//! rendered gets every block clean. A host whose first call others hold up, and that catches up at
//! once, can't be told from one that renders, and may be kept waiting once.
//!
//! In the last case a wait happens only where the host brings more at once than a block has time:
//! see `stream.rs`. The thread polls while it waits, with neither lock nor system call: the clock
//! is read in the process (vDSO).

use std::time::{Duration, Instant};

/// The longest wait in a host that renders a file: for models to be read and compiled, for a driver
/// to be started again. Once it was in vain there is none until a block is ready in time.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pace of a host.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    rate: u32,
    /// True if a thread of the process has a real-time policy.
    realtime: bool,
    /// The sound that the host has brought in earlier calls, and the time that it took between
    /// them.
    brought: Duration,
    host_time: Duration,
    /// The sound that it has brought and that hasn't sounded yet.
    lead: Duration,
    gave_up: bool,
    call: Option<Call>,
}

/// The call of `run` that goes on, or the last one.
#[derive(Clone, Copy, Debug)]
struct Call {
    begin: Instant,
    end: Instant,
    sound: Duration,
}

impl Pace {
    /// A host that is to bring `rate` samples for a second.
    pub(crate) fn new(rate: u32) -> Self {
        Self {
            rate,
            realtime: false,
            brought: Duration::ZERO,
            host_time: Duration::ZERO,
            lead: Duration::ZERO,
            gave_up: false,
            call: None,
        }
    }

    /// Begins anew.
    pub(crate) fn reset(&mut self, realtime: bool) {
        *self = Self { realtime, ..Self::new(self.rate) };
    }

    /// A call of `run` begins that brings so many samples.
    pub(crate) fn begin(&mut self, samples: usize, now: Instant) {
        if let Some(last) = self.call {
            self.brought += last.sound;
            self.host_time += now.saturating_duration_since(last.end);
            let passed = now.saturating_duration_since(last.begin);
            self.lead = (self.lead + last.sound).saturating_sub(passed);
        }
        let samples = u32::try_from(samples).unwrap_or(u32::MAX);
        let sound = Duration::from_secs(1) * samples / self.rate;
        self.call = Some(Call { begin: now, end: now, sound });
    }

    /// It ends.
    pub(crate) fn end(&mut self, now: Instant) {
        if let Some(call) = &mut self.call {
            call.end = now;
        }
    }

    /// Returns whether the host renders a file.
    fn is_rendering(&self) -> bool {
        !self.realtime && self.brought >= 2 * self.host_time
    }

    /// The end of waits within this call.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let call = self.call?;
        let patience = if self.is_rendering() && !self.gave_up {
            PATIENCE
        } else {
            self.lead.max(call.sound / 2)
        };
        call.begin.checked_add(patience)
    }

    /// A block was ready in time, or was not.
    pub(crate) fn waited(&mut self, in_time: bool) {
        self.gave_up = !in_time;
    }
}

/// Returns whether a thread of this process has a real-time policy, as that of an audio server's
/// client does.
pub(crate) fn has_realtime_threads() -> bool {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return false };
    threads.flatten().any(|thread| {
        std::fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| is_realtime(&stat))
    })
}

/// By a line of `/proc/PID/stat`.
fn is_realtime(stat: &str) -> bool {
    // SCHED_FIFO, SCHED_RR and SCHED_DEADLINE.
    const POLICIES: [&str; 3] = ["1", "2", "6"];
    // The second field is a name in parentheses, with whatever in it; the policy is field 41.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().nth(38).is_some_and(|policy| POLICIES.contains(&policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Calls of so many samples at 48 kHz, `host` after the end of the one before, each taking
    /// `run`; the patience in the last one.
    fn patience(
        pace: &mut Pace,
        calls: u32,
        samples: usize,
        host: Duration,
        run: Duration,
    ) -> Duration {
        let mut now = pace.call.map_or_else(Instant::now, |call| call.end);
        for _ in 0..calls {
            now += host;
            pace.begin(samples, now);
            now += run;
            pace.end(now);
        }
        pace.deadline().unwrap() - pace.call.unwrap().begin
    }

    #[test]
    fn hosts_that_render_are_kept_waiting() {
        for samples in [1, 480, 1024, 8192] {
            let pace = &mut Pace::new(48_000);
            assert_eq!(patience(pace, 1, samples, MS, MS), PATIENCE, "the first call");
            assert_eq!(patience(pace, 9, samples, Duration::ZERO, 100 * MS), PATIENCE);
        }
    }

    #[test]
    fn hosts_that_play_are_not() {
        for realtime in [false, true] {
            let pace = &mut Pace::new(48_000);
            pace.reset(realtime);
            let half = patience(pace, 10, 480, 10 * MS, Duration::ZERO);
            assert_eq!(half, 5 * MS);
            // One that fills 100 ms of a buffer first.
            pace.reset(realtime);
            patience(pace, 11, 480, Duration::ZERO, Duration::ZERO);
            let ahead = patience(pace, 90, 480, 10 * MS, Duration::ZERO);
            assert!((90 * MS..=110 * MS).contains(&ahead), "{ahead:?}");
            // After a pause there is no lead any more.
            assert_eq!(patience(pace, 1, 480, Duration::from_secs(5), Duration::ZERO), 5 * MS);
        }
    }

    #[test]
    fn processes_with_real_time_threads_are_never_rendering() {
        let pace = &mut Pace::new(48_000);
        pace.reset(true);
        assert_eq!(patience(pace, 1, 9600, MS, MS), 100 * MS);
    }

    #[test]
    fn a_wait_in_vain_is_the_last_long_one() {
        let pace = &mut Pace::new(48_000);
        pace.begin(480, Instant::now());
        pace.waited(false);
        assert!(pace.deadline().unwrap() - pace.call.unwrap().begin <= 5 * MS);
        pace.waited(true);
        assert_eq!(pace.deadline().unwrap() - pace.call.unwrap().begin, PATIENCE);
    }

    #[test]
    fn policies_are_read() {
        let stat = |policy: &str| {
            let zeros = "0 ".repeat(37);
            format!("7 (a) b) (c) R {zeros}{policy} 0 0 0")
        };
        for (policy, expected) in
            [("0", false), ("1", true), ("2", true), ("3", false), ("6", true)]
        {
            assert_eq!(is_realtime(&stat(policy)), expected, "{policy}");
        }
        assert!(!is_realtime("") && !is_realtime("7 (a"));
        assert!(!has_realtime_threads());
    }
}
