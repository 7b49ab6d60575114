//! Latencies: collected in nanoseconds, told in microseconds.

use std::fmt::Write as _;
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

    pub(crate) fn add(&mut self, others: &Self) {
        // Of the same bounds, whatever one has recorded fits the other.
        let _ = self.histogram.add(&others.histogram);
        self.min = self.min.min(others.min);
        self.max = self.max.max(others.max);
        self.sum += others.sum;
    }

    /// As callers would have seen them who came at every period, whether the call before was over
    /// or not: one of three periods stands also for one of two and one of one, which nobody made.
    pub(crate) fn corrected(&self, period: Duration) -> Self {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
        let mut corrected = self.clone();
        corrected.histogram = self.histogram.clone_correct(period);
        for bucket in self.histogram.iter_recorded() {
            let value = self.within(bucket.value_iterated_to());
            // The callers of the periods in between, of whom the last waited for one at least.
            let missed = u128::from((value / period).saturating_sub(1));
            let (value, period) = (u128::from(value), u128::from(period));
            let sum = missed * value - period * missed * (missed + 1) / 2;
            corrected.sum += sum * u128::from(bucket.count_at_value());
        }
        corrected
    }

    /// The distribution as text in microseconds, as tools for `.hgrm` files draw it.
    pub(crate) fn hgrm(&self) -> String {
        /// Lines for each halving of what is left to 100 per cent.
        const LINES: u32 = 5;
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let mut total = 0;
        for step in self.histogram.iter_quantiles(LINES) {
            total += step.count_since_last_iteration();
            let value = microseconds(self.within(step.value_iterated_to()));
            let share = step.quantile_iterated_to();
            let _ = write!(text, "{value:>12.3} {share:>14.12} {total:>10}");
            // The last line has none.
            let _ = match 1.0 - share {
                left if left > 0.0 => writeln!(text, " {:>14.2}", 1.0 / left),
                _ => writeln!(text),
            };
        }
        let (mean, deviation) = (self.histogram.mean() / 1e3, self.histogram.stdev() / 1e3);
        let (max, count) = (microseconds(self.max), self.len());
        let _ = writeln!(text, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]");
        let _ = writeln!(text, "#[Max     = {max:>12.3}, Total count    = {count:>12}]");
        let (buckets, parts) = (self.histogram.buckets(), 1 << 11);
        let _ = writeln!(text, "#[Buckets = {buckets:>12}, SubBuckets     = {parts:>12}]");
        text
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
    fn what_nobody_could_begin_in_time_counts_when_corrected() {
        let period = Duration::from_millis(10);
        let mut latencies = Latencies::new().unwrap();
        for _ in 0..95 {
            latencies.record(Duration::from_millis(1));
        }
        // A second in which a hundred calls were due.
        latencies.record(Duration::from_secs(1));
        let told = latencies.summary().unwrap();
        let corrected = latencies.corrected(period);
        let seen = corrected.summary().unwrap();
        assert_eq!((latencies.len(), corrected.len()), (96, 195));
        assert!(told.p90 < 1100.0 && (750e3..850e3).contains(&seen.p90), "{told:?} {seen:?}");
        assert!((240e3..280e3).contains(&seen.mean), "{seen:?}");
        assert_eq!(
            (told.min.to_bits(), told.max.to_bits()),
            (seen.min.to_bits(), seen.max.to_bits())
        );
        let mut twice = Latencies::new().unwrap();
        twice.add(&latencies);
        twice.add(&latencies);
        assert_eq!((twice.len(), twice.summary().unwrap()), (192, told));
    }

    #[test]
    fn the_distribution_ends_with_all() {
        let mut latencies = Latencies::new().unwrap();
        for micros in 1..=100 {
            latencies.record(Duration::from_micros(micros));
        }
        let text = latencies.hgrm();
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.contains("Value") && !line.is_empty())
            .map(|line| line.split_whitespace().map(|cell| cell.parse().unwrap()).collect())
            .collect();
        assert!(rows.is_sorted_by(|one, other| one[..3] <= other[..3]), "{text}");
        assert_eq!(rows.last().unwrap()[1..], [1.0, 100.0], "{text}");
        assert!(text.contains("Total count    =          100]"), "{text}");
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
