//! Latencies: collected in nanoseconds, told in microseconds.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::failure::Failure;

/// Measured durations, three digits exact.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

/// What is told of them, in microseconds.
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
        Ok(Self(histogram))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    pub(crate) fn summary(&self) -> Option<Summary> {
        let at = |share| microseconds(self.0.value_at_quantile(share));
        (!self.0.is_empty()).then(|| Summary {
            min: microseconds(self.0.min()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: microseconds(self.0.max()),
            mean: (self.0.mean()).round() / 1e3,
        })
    }

    /// How many lie from `low` up to, but not including, `high`.
    pub(crate) fn count_between(&self, low: Duration, high: Duration) -> u64 {
        let bound = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.0.count_between(bound(low), bound(high).saturating_sub(1))
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len()
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
