//! Options of bursts and of single calls.

use std::time::Duration;

use nnburst_hal::{ExecutionPreference, RealTimeProfile};

use crate::settings::Settings;
use crate::wait::Wait;

impl Wait {
    /// Returns the longest time to poll.
    pub(super) fn window(self, preference: ExecutionPreference) -> Duration {
        let settings = Settings::of_process();
        let chosen = if self == Self::Auto { settings.burst_wait } else { self };
        match (chosen, preference) {
            (Self::Spin, _) => Duration::MAX,
            (Self::Block, _) | (Self::Auto, ExecutionPreference::LowPower) => Duration::ZERO,
            (Self::Adaptive | Self::Auto, _) => settings.burst_window,
        }
    }
}

/// The options of a burst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BurstOptions {
    /// The wait strategy of both ends.
    pub wait: Wait,
    /// The processors that the calling thread is to run on; empty for all.
    pub cpus: Vec<u32>,
    /// The processors that the driver's thread is to run on; empty for all.
    pub driver_cpus: Vec<u32>,
    /// True if both threads ask for real-time scheduling, their processes for locked memory. What
    /// is refused is in [`Burst::warnings`](super::Burst::warnings).
    pub realtime: bool,
    /// The user's execution preference; `None` as in the compilation.
    pub preference: Option<ExecutionPreference>,
    /// The time that each call may take, whatever the driver does; `None` for as long as it takes.
    pub timeout: Option<Duration>,
    /// The time that a WHILE may run; `None` for two seconds.
    pub loop_timeout: Option<Duration>,
    /// Frames that may be in flight ([`Burst::try_submit`](super::Burst::try_submit)); 0 is 1.
    /// Drivers may agree to fewer; see [`Burst::depth`](super::Burst::depth).
    pub depth: u32,
}

/// Limits of one call in a burst. What is `None` is as in the burst's [`BurstOptions`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// The time that the call may take, whatever the driver does. Zero: it fails at once.
    pub timeout: Option<Duration>,
    /// Limits the time that a WHILE may run.
    pub loop_timeout: Option<Duration>,
    /// With `LOW_POWER`, both ends sleep when they wait for the answer of this call and for the
    /// call after it, whatever the burst's wait strategy; a driver of nnburst at least does. Any
    /// other preference is that of the burst.
    pub preference: Option<ExecutionPreference>,
}

/// Above ordinary threads and below what keeps a machine alive.
pub(crate) const FIFO_PRIORITY: u8 = 50;

impl CallOptions {
    pub(super) fn is_low_power(&self) -> bool {
        self.preference == Some(ExecutionPreference::LowPower)
    }
}

impl BurstOptions {
    pub(super) fn profile(&self, cpus: &[u32]) -> RealTimeProfile {
        RealTimeProfile {
            cpus: cpus.to_vec(),
            fifo_priority: self.realtime.then_some(FIFO_PRIORITY),
            lock_memory: self.realtime,
            timer_slack: self.realtime.then_some(Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_power_blocks_unless_something_else_is_said() {
        use ExecutionPreference::{FastSingleAnswer, LowPower, SustainedSpeed};
        assert_eq!(Wait::Auto.window(LowPower), Duration::ZERO);
        for preference in [FastSingleAnswer, SustainedSpeed] {
            assert_eq!(Wait::Auto.window(preference), Settings::of_process().burst_window);
        }
        for preference in [LowPower, FastSingleAnswer] {
            assert_eq!(Wait::Spin.window(preference), Duration::MAX);
            assert_eq!(Wait::Adaptive.window(preference), Settings::of_process().burst_window);
            assert_eq!(Wait::Block.window(preference), Duration::ZERO);
        }
    }
}
