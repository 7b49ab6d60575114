//! Latencies that are counted while others look: a histogram whose buckets grow by an eighth.
//!
//! Who looks twice subtracts: [`Latencies::since`] has the percentiles of what happened in between,
//! so that whoever counts keeps no windows. Nothing is handed over through the counters, so every
//! access is relaxed: a reader sees figures that were true a moment ago, each for itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Parts of each doubling: times are told apart to an eighth.
const PARTS_LOG2: u32 = 3;
const PARTS: u64 = 1 << PARTS_LOG2;
/// Times below `PARTS` nanoseconds, and the parts of each doubling of 64 bits.
const BUCKETS: usize = 8 * (64 - 3 + 1);

/// The counters of some latencies; about 4 KiB.
#[derive(Debug)]
pub struct LatencyRecorder {
    longest_ns: AtomicU64,
    total_ns: AtomicU64,
    buckets: Box<[AtomicU64]>,
}

impl Default for LatencyRecorder {
    fn default() -> Self {
        Self {
            longest_ns: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl LatencyRecorder {
    /// Counts a latency, on the only thread that counts here: with loads and stores, and no locked
    /// instruction.
    #[inline]
    pub fn record_alone(&self, latency_ns: u64) {
        if let Some(bucket) = self.buckets.get(bucket_of(latency_ns)) {
            add_alone(bucket, 1);
        }
        add_alone(&self.total_ns, latency_ns);
        if latency_ns > self.longest_ns.load(Relaxed) {
            self.longest_ns.store(latency_ns, Relaxed);
        }
    }

    /// Counts a latency, on any thread.
    pub fn record(&self, latency: Duration) {
        let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_of(latency_ns)) {
            bucket.fetch_add(1, Relaxed);
        }
        self.total_ns.fetch_add(latency_ns, Relaxed);
        self.longest_ns.fetch_max(latency_ns, Relaxed);
    }

    /// Returns what has been counted.
    pub fn snapshot(&self) -> Latencies {
        let counted = (0..).zip(&self.buckets).filter_map(|(at, bucket)| {
            let count = bucket.load(Relaxed);
            (count > 0).then_some((at, count))
        });
        Latencies {
            buckets: counted.collect(),
            longest_ns: self.longest_ns.load(Relaxed),
            total_ns: self.total_ns.load(Relaxed),
        }
    }
}

/// Adds to a counter that this thread alone writes.
fn add_alone(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// Latencies as they were counted up to a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// Numbers of buckets that hold anything, ascending, and how much.
    buckets: Vec<(u16, u64)>,
    longest_ns: u64,
    total_ns: u64,
}

impl Latencies {
    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// Returns the sum of all.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total_ns)
    }

    /// Returns the longest.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns)
    }

    /// Returns the smallest time that so many in 1000 did not exceed, at most an eighth too long;
    /// zero where there are none.
    pub fn quantile(&self, per_mille: u64) -> Duration {
        let enough = self.count().saturating_mul(per_mille).div_ceil(1000);
        let mut seen = 0u64;
        let reached = self.buckets.iter().find(|&&(_, count)| {
            seen = seen.saturating_add(count);
            count > 0 && seen >= enough
        });
        let ns = reached.map_or(0, |&(bucket, _)| end_of(bucket.into()));
        Duration::from_nanos(ns.min(self.longest_ns))
    }

    /// Returns how many are certain to have taken at most so long: those in buckets that end by
    /// then.
    pub fn at_most(&self, limit: Duration) -> u64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let within = self.buckets.iter().filter(|&&(bucket, _)| end_of(bucket.into()) <= limit);
        within.fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// Returns those that came after an earlier look at the same counters. The longest of them is
    /// as exact as a bucket.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bucket| {
            let found = earlier.buckets.binary_search_by_key(&bucket, |&(number, _)| number);
            found.ok().and_then(|at| earlier.buckets.get(at)).map_or(0, |&(_, count)| count)
        };
        let new = self.buckets.iter().filter_map(|&(bucket, count)| {
            let count = count.saturating_sub(before(bucket));
            (count > 0).then_some((bucket, count))
        });
        let buckets: Vec<_> = new.collect();
        let last = buckets.last().map_or(0, |&(bucket, _)| end_of(bucket.into()));
        Self {
            buckets,
            longest_ns: last.min(self.longest_ns),
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
        }
    }

    /// Adds others to these.
    pub fn add(&mut self, others: &Self) {
        for &(bucket, count) in &others.buckets {
            match self.buckets.binary_search_by_key(&bucket, |&(number, _)| number) {
                Ok(at) => {
                    if let Some((_, sum)) = self.buckets.get_mut(at) {
                        *sum = sum.saturating_add(count);
                    }
                }
                Err(at) => self.buckets.insert(at, (bucket, count)),
            }
        }
        self.longest_ns = self.longest_ns.max(others.longest_ns);
        self.total_ns = self.total_ns.saturating_add(others.total_ns);
    }
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
    fn two_looks_tell_what_happened_in_between() {
        let recorder = LatencyRecorder::default();
        assert_eq!(recorder.snapshot(), Latencies::default());
        for _ in 0..100 {
            recorder.record(Duration::from_millis(50));
        }
        let earlier = recorder.snapshot();
        for micros in 1..=1000 {
            recorder.record_alone(micros * 1000);
        }
        let both = recorder.snapshot();
        let new = both.since(&earlier);
        assert_eq!((earlier.count(), both.count(), new.count()), (100, 1100, 1000));
        assert_eq!(both.longest(), Duration::from_millis(50));
        assert_eq!(new.total(), Duration::from_micros(500_500));
        let near = |got: Duration, micros| {
            let want = Duration::from_micros(micros);
            assert!(got >= want && got <= want + want / 8, "{got:?} for {want:?}");
        };
        near(new.quantile(500), 500);
        near(new.quantile(990), 990);
        near(new.longest(), 1000);
        assert_eq!(new.at_most(Duration::from_secs(1)), 1000);
        assert!((400..=500).contains(&new.at_most(Duration::from_micros(500))));
        assert_eq!(both.since(&both).quantile(999), Duration::ZERO);
        let mut sum = earlier;
        sum.add(&new);
        assert_eq!(sum, both);
    }
}
