//! Figures of a running element: latencies and counts.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// Counts are kept up by the streaming thread and read by whoever asks for a property or for the
/// latency. All are `Relaxed`: each is a figure of its own and hands nothing over.
#[derive(Debug)]
pub(super) struct Stats {
    /// Nanoseconds from a frame's arrival to its results; short locks, never held while waiting.
    latencies: Mutex<Option<Histogram<u64>>>,
    frames: AtomicU64,
    inferred: AtomicU64,
    dropped: AtomicU64,
    driver_pid: AtomicU32,
    /// The latency in ns that queries are answered with.
    reported: AtomicU64,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            // Up to a minute, to 1 %: bounds that are valid.
            latencies: Mutex::new(Histogram::new_with_bounds(1, 60_000_000_000, 2).ok()),
            frames: AtomicU64::new(0),
            inferred: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            driver_pid: AtomicU32::new(0),
            reported: AtomicU64::new(0),
        }
    }
}

impl Stats {
    fn latencies(&self) -> MutexGuard<'_, Option<Histogram<u64>>> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts anew, with the longest of the warm-up runs as the latency to report.
    pub(super) fn start(&self, longest: Duration, driver_pid: Option<u32>) {
        if let Some(latencies) = self.latencies().as_mut() {
            latencies.reset();
        }
        for count in [&self.frames, &self.inferred, &self.dropped] {
            count.store(0, Ordering::Relaxed);
        }
        self.reported.store(nanoseconds(longest), Ordering::Relaxed);
        self.set_driver_pid(driver_pid);
    }

    pub(super) fn set_driver_pid(&self, pid: Option<u32>) {
        self.driver_pid.store(pid.unwrap_or(0), Ordering::Relaxed);
    }

    /// Counts a frame, and returns its number.
    pub(super) fn count_frame(&self) -> u64 {
        self.frames.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a frame whose inference was skipped or given up.
    pub(super) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an inference that took so long. Returns true if the worst case, the 99th percentile,
    /// has grown by more than a quarter over what queries were answered with, and is reported from
    /// now on.
    pub(super) fn count_inferred(&self, latency: Duration) -> bool {
        self.inferred.fetch_add(1, Ordering::Relaxed);
        let reported = self.reported.load(Ordering::Relaxed);
        let too_much = reported.saturating_add(reported / 4);
        let nanoseconds = nanoseconds(latency);
        let mut latencies = self.latencies();
        let Some(latencies) = latencies.as_mut() else { return false };
        latencies.saturating_record(nanoseconds);
        // Only a latency that is out of bounds itself can move the percentile there.
        if nanoseconds <= too_much {
            return false;
        }
        let worst = latencies.value_at_quantile(0.99);
        let has_grown = worst > too_much;
        if has_grown {
            self.reported.store(worst, Ordering::Relaxed);
        }
        has_grown
    }

    /// The latency that the element adds to its stream.
    pub(super) fn reported(&self) -> gst::ClockTime {
        gst::ClockTime::from_nseconds(self.reported.load(Ordering::Relaxed))
    }

    /// The latency in ns that a share of inferences kept.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        self.latencies().as_ref().map_or(0, |latencies| latencies.value_at_quantile(share))
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    pub(super) fn inferred(&self) -> u64 {
        self.inferred.load(Ordering::Relaxed)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn driver_pid(&self) -> u32 {
        self.driver_pid.load(Ordering::Relaxed)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_is_reported_anew_when_it_grows_by_a_quarter() {
        let stats = Stats::default();
        let ms = Duration::from_millis;
        stats.start(ms(4), Some(7));
        assert_eq!((stats.reported().mseconds(), stats.driver_pid()), (4, 7));
        assert!(!stats.count_inferred(ms(4)) && !stats.count_inferred(ms(5)), "up to a quarter");
        assert!(stats.count_inferred(ms(6)));
        assert!((6..7).contains(&stats.reported().mseconds()));
        for _ in 0..200 {
            assert!(!stats.count_inferred(ms(5)));
        }
        assert!(!stats.count_inferred(ms(50)), "one outlier in 200 is no worst case");
        assert_eq!(stats.inferred(), 204);
        assert!((4..6).contains(&(stats.quantile(0.5) / 1_000_000)));
        stats.start(ms(1), None);
        assert_eq!((stats.inferred(), stats.quantile(0.5), stats.driver_pid()), (0, 0, 0));
    }
}
