//! Latencies: collected in nanoseconds, told in microseconds.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::failure::Failure;

/// Measured durations: percentiles to three digits, the extremes and the mean exact.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
    /// In nanoseconds, as all of these.
    min: u64,
    max: u64,
    sum: u128,
}

/// The summary of samples, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
    pub(crate) mean: f64,
}

/// The longest that can be told apart; what took longer counts as that.
const LONGEST: Duration = Duration::from_secs(600);

impl Latencies {
    pub(crate) fn new() -> Result<Self, Failure> {
        let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
        let histogram = Histogram::new_with_bounds(1, longest, 3)
            .map_err(|error| Failure::check(format!("the histogram: {error}")))?;
        Ok(Self { histogram, min: u64::MAX, max: 0, sum: 0 })
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.histogram.saturating_record(nanoseconds);
        self.min = self.min.min(nanoseconds);
        self.max = self.max.max(nanoseconds);
        self.sum += u128::from(nanoseconds);
    }

    pub(crate) fn summary(&self) -> Option<Summary> {
        // The histogram answers with the end of a bucket, which no sample need have reached.
        let at = |share| microseconds(self.within(self.histogram.value_at_quantile(share)));
        let mean = self.sum.checked_div(self.len().into())?;
        Some(Summary {
            min: microseconds(self.min),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: microseconds(self.max),
            mean: microseconds(u64::try_from(mean).unwrap_or(u64::MAX)),
        })
    }

    fn within(&self, nanoseconds: u64) -> u64 {
        nanoseconds.max(self.min).min(self.max)
    }

    /// Returns the number of samples from `low` up to, but not including, `high`.
    pub(crate) fn count_between(&self, low: Duration, high: Duration) -> u64 {
        let buckets = self.histogram.iter_recorded();
        // By one value each, so that no bucket counts on both sides of a bound.
        let inside = buckets.filter(|bucket| {
            let value = Duration::from_nanos(self.within(bucket.value_iterated_to()));
            low <= value && value < high
        });
        inside.map(|bucket| bucket.count_at_value()).sum()
    }

    pub(crate) fn len(&self) -> u64 {
        self.histogram.len()
    }
}

#[expect(clippy::cast_precision_loss, reason = "ten minutes in nanoseconds fit a double")]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_the_extremes() {
        let mut latencies = Latencies::new().unwrap();
        latencies.record(Duration::from_nanos(752_345));
        let one = latencies.summary().unwrap();
        for figure in [one.min, one.p50, one.p90, one.p99, one.p999, one.max, one.mean] {
            assert_eq!(figure.to_bits(), 752.345f64.to_bits(), "{one:?}");
        }
        latencies.record(Duration::from_nanos(752_346));
        let two = latencies.summary().unwrap();
        for figure in [two.p50, two.p90, two.p99, two.p999, two.mean] {
            assert!((two.min..=two.max).contains(&figure), "{two:?}");
        }
        // Longer than the histogram tells apart.
        latencies.record(LONGEST * 2);
        assert_eq!(latencies.summary().unwrap().max.to_bits(), 1.2e9f64.to_bits());
    }

    #[test]
    fn the_summary_is_that_of_what_was_recorded() {
        let mut latencies = Latencies::new().unwrap();
        assert!(latencies.summary().is_none());
        for microseconds in 1..=1000 {
            latencies.record(Duration::from_micros(microseconds));
        }
        let summary = latencies.summary().unwrap();
        for (what, got, want) in [
            ("min", summary.min, 1.0),
            ("p50", summary.p50, 500.0),
            ("p99", summary.p99, 990.0),
            ("p999", summary.p999, 999.0),
            ("max", summary.max, 1000.0),
            ("mean", summary.mean, 500.5),
        ] {
            assert!((got - want).abs() <= want * 0.002, "{what}: {got}, not {want}");
        }
        assert!(
            latencies.count_between(Duration::ZERO, Duration::from_micros(100)).abs_diff(99) <= 1
        );
    }
}
