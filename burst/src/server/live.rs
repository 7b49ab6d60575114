//! Figures of a burst's thread that others may read while it works: counters that it alone writes.
//!
//! Nothing is handed over through them, so every access is relaxed: a reader sees figures that were
//! true a moment ago, each for itself. Having one writer, the thread adds with a load and a store
//! and pays for no locked instruction.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use nnburst_hal::{BurstFigures, ErrorStatus, Latencies, LatencyRecorder, TimePoint};

/// The counters of one burst.
#[derive(Debug)]
pub(super) struct Live {
    opened: TimePoint,
    failures: AtomicU64,
    missed_deadlines: AtomicU64,
    queue_depth: AtomicU32,
    times: LatencyRecorder,
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            opened: TimePoint::now(),
            failures: AtomicU64::new(0),
            missed_deadlines: AtomicU64::new(0),
            queue_depth: AtomicU32::new(0),
            times: LatencyRecorder::default(),
        }
    }

    /// A request was taken, and so many wait behind it.
    #[inline]
    pub(super) fn begin(&self, behind: usize) {
        let depth = u32::try_from(behind).unwrap_or(u32::MAX).saturating_add(1);
        self.queue_depth.store(depth, Relaxed);
    }

    /// A request was answered after so long.
    #[inline]
    pub(super) fn end(&self, status: ErrorStatus, took_ns: u64) {
        self.times.record_alone(took_ns);
        match status {
            ErrorStatus::None => {}
            ErrorStatus::MissedDeadlineTransient | ErrorStatus::MissedDeadlinePersistent => {
                increment(&self.failures);
                increment(&self.missed_deadlines);
            }
            _ => increment(&self.failures),
        }
        self.queue_depth.store(0, Relaxed);
    }

    pub(super) fn figures(&self) -> BurstFigures {
        let times = self.times.snapshot();
        BurstFigures {
            executions: times.count(),
            failures: self.failures.load(Relaxed),
            missed_deadlines: self.missed_deadlines.load(Relaxed),
            queue_depth: self.queue_depth.load(Relaxed),
            age: Duration::from_nanos(
                TimePoint::now().nanoseconds.saturating_sub(self.opened.nanoseconds),
            ),
            p50: times.quantile(500),
            p99: times.quantile(990),
            p999: times.quantile(999),
            max: times.longest(),
        }
    }

    pub(super) fn times(&self) -> Latencies {
        self.times.snapshot()
    }
}

/// Adds one to a counter that this thread alone writes.
fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_count_what_happened() {
        let live = Live::new();
        assert_eq!((live.figures().executions, live.figures().p50), (0, Duration::ZERO));
        for micros in 1..=1000 {
            live.begin(2);
            assert_eq!(live.figures().queue_depth, 3);
            let status = match micros {
                7 => ErrorStatus::MissedDeadlineTransient,
                8 => ErrorStatus::InvalidArgument,
                _ => ErrorStatus::None,
            };
            live.end(status, micros * 1000);
        }
        let figures = live.figures();
        assert_eq!((figures.executions, figures.failures), (1000, 2));
        assert_eq!((figures.missed_deadlines, figures.queue_depth), (1, 0));
        let near = |got: Duration, micros| {
            let want = Duration::from_micros(micros);
            assert!(got >= want && got <= want + want / 8, "{got:?} for {want:?}");
        };
        near(figures.p50, 500);
        near(figures.p99, 990);
        near(figures.p999, 999);
        assert_eq!(figures.max, Duration::from_millis(1));
    }
}
