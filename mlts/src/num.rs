//! Conversions of figures: what is measured fits a double.

use std::time::Duration;

/// A count as a real number.
#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

/// A count of 64 bits as a real number.
#[expect(clippy::cast_precision_loss, reason = "figures of a run are far below 2^53")]
pub(crate) fn real_u64(count: u64) -> f64 {
    count as f64
}

/// The nearest count; 0 for what is negative or no number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
pub(crate) fn count(value: f64) -> usize {
    value.round() as usize
}

/// Microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Milliseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Nanoseconds, at most as many as 64 bits hold.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The median; 0 of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which `share` of the values lie, by the nearest rank; 0 of nothing.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get(count(share * real(last)).min(last)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_there() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 1.0), 3.0);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.0), 1.0);
        assert_eq!(quantile(&[], 0.9), 0.0);
    }
}
