//! Figures of a burst's thread that others may read while it works: counters that it alone writes.
//!
//! Nothing is handed over through them, so every access is relaxed: a reader sees figures that were
//! true a moment ago, each for itself. Having one writer, the thread adds with a load and a store
//! and pays for no locked instruction.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use nnburst_hal::{BurstFigures, ErrorStatus, TimePoint};

/// Parts of each doubling: times are told apart to an eighth.
const PARTS_LOG2: u32 = 3;
const PARTS: u64 = 1 << PARTS_LOG2;
/// Times below `PARTS` nanoseconds, and the parts of each doubling of 64 bits.
const BUCKETS: usize = 8 * (64 - 3 + 1);

/// The counters of one burst.
#[derive(Debug)]
pub(super) struct Live {
    opened: TimePoint,
    failures: AtomicU64,
    missed_deadlines: AtomicU64,
    queue_depth: AtomicU32,
    longest_ns: AtomicU64,
    times: Box<[AtomicU64]>,
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            opened: TimePoint::now(),
            failures: AtomicU64::new(0),
            missed_deadlines: AtomicU64::new(0),
            queue_depth: AtomicU32::new(0),
            longest_ns: AtomicU64::new(0),
            times: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
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
        if let Some(bucket) = self.times.get(bucket_of(took_ns)) {
            increment(bucket);
        }
        if took_ns > self.longest_ns.load(Relaxed) {
            self.longest_ns.store(took_ns, Relaxed);
        }
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
        let times: Vec<u64> = self.times.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let executions = times.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
        let longest = self.longest_ns.load(Relaxed);
        let quantile = |per_mille: u64| {
            // The smallest time that so many in 1000 did not exceed, rounded up to its bucket's
            // end.
            let enough = executions.saturating_mul(per_mille).div_ceil(1000);
            let mut seen = 0u64;
            let reached = times.iter().position(|&count| {
                seen = seen.saturating_add(count);
                count > 0 && seen >= enough
            });
            Duration::from_nanos(reached.map_or(0, end_of).min(longest))
        };
        BurstFigures {
            executions,
            failures: self.failures.load(Relaxed),
            missed_deadlines: self.missed_deadlines.load(Relaxed),
            queue_depth: self.queue_depth.load(Relaxed),
            age: Duration::from_nanos(
                TimePoint::now().nanoseconds.saturating_sub(self.opened.nanoseconds),
            ),
            p50: quantile(500),
            p99: quantile(990),
            p999: quantile(999),
            max: Duration::from_nanos(longest),
        }
    }
}

/// Adds one to a counter that this thread alone writes.
fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

/// The bucket of a time: exact below `PARTS`, then by the leading bits.
fn bucket_of(ns: u64) -> usize {
    let doubling = ns.checked_ilog2().unwrap_or(0).saturating_sub(PARTS_LOG2);
    let part = ns >> doubling; // less than 2 * PARTS
    let index = u64::from(doubling).saturating_mul(PARTS).saturating_add(part);
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The longest time of a bucket.
fn end_of(bucket: usize) -> u64 {
    let index = u64::try_from(bucket).unwrap_or(u64::MAX);
    let doubling = (index / PARTS).saturating_sub(1);
    let part = index.saturating_sub(doubling.saturating_mul(PARTS));
    let shift = u32::try_from(doubling).unwrap_or(u32::MAX);
    part.saturating_add(1).checked_shl(shift).unwrap_or(0).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_bucket_that_ends_at_most_an_eighth_later() {
        let near = (0..64).flat_map(|bit| {
            let power = 1u64 << bit;
            [power.wrapping_sub(1), power, power + 1, power + power / 3]
        });
        for ns in near.chain([u64::MAX - 1, u64::MAX]) {
            let bucket = bucket_of(ns);
            assert!(bucket < BUCKETS, "{ns}");
            let end = end_of(bucket);
            assert!(end >= ns && end - ns <= ns / 8, "{ns} is in a bucket that ends at {end}");
            if end < u64::MAX {
                assert_eq!(bucket_of(end + 1), bucket + 1, "buckets join at {end}");
            }
        }
    }

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
