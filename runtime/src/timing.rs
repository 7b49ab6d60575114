//! The time that drivers report.

use std::time::Duration;

use nnburst_burst::packet::DriverTimes;
use nnburst_hal::Timing;

/// The driver's share of an execution.
pub(crate) fn driver_time(times: DriverTimes) -> Duration {
    Duration::from_nanos(times.ended.saturating_sub(times.began))
}

/// Returns the driver's measurement as a `Duration`; `None` where it didn't.
pub fn time_in_driver(timing: Timing) -> Option<Duration> {
    (timing.time_in_driver != u64::MAX).then(|| Duration::from_micros(timing.time_in_driver))
}
