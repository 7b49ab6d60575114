//! Points in time and measured durations.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sys;

/// A reading of the steady (monotonic) clock in nanoseconds, the same in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimePoint {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub nanoseconds: u64,
}

impl TimePoint {
    /// The clock's reading now.
    #[inline]
    pub fn now() -> Self {
        Self { nanoseconds: sys::monotonic_ns() }
    }

    /// The point `duration` from now; the end of time where that is beyond the clock's range.
    pub fn after(duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self { nanoseconds: Self::now().nanoseconds.saturating_add(nanoseconds) }
    }

    /// Returns the time left until this point; zero once it has passed.
    pub fn remaining(self) -> Duration {
        Duration::from_nanos(self.nanoseconds.saturating_sub(Self::now().nanoseconds))
    }

    /// Returns whether the clock has reached this point.
    pub fn has_passed(self) -> bool {
        Self::now() >= self
    }
}

/// The times of an execution, in microseconds; [`Timing::NONE`] where it was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Computing, alone.
    pub time_on_device: u64,
    /// From the driver seeing the call to its answering; at least `time_on_device`.
    pub time_in_driver: u64,
}

impl Timing {
    /// Nothing was measured.
    pub const NONE: Self = Self { time_on_device: u64::MAX, time_in_driver: u64::MAX };
}

impl Default for Timing {
    fn default() -> Self {
        Self::NONE
    }
}
