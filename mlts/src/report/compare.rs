//! Two runs beside each other: what failed, what is slower, and whether that is more than noise.

use super::schema::{Latency, Report};
use crate::num::real;

/// The probability that blocks of equal runs look so different (Mann-Whitney).
const SIGNIFICANT: f64 = 0.01;

/// The differences of two runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Latencies that both runs have.
    pub latencies: Vec<Change>,
    /// Tests that passed in the old run and fail in the new one.
    pub broken: Vec<String>,
    /// Tests that failed in the old run and pass in the new one.
    pub mended: Vec<String>,
    /// Models and crash tests that both runs have.
    pub in_common: usize,
}

/// A latency in two runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The model.
    pub model: String,
    /// The mode.
    pub mode: String,
    /// Medians in microseconds, old and new.
    pub p50_us: [f64; 2],
    /// 99th percentiles, where both runs have enough samples.
    pub p99_us: Option<[f64; 2]>,
    /// True if the blocks' medians separate.
    pub is_significant: bool,
    /// True if it is slower by more than the limit.
    pub is_worse: bool,
}

impl Comparison {
    /// Returns whether anything of the new run is worse.
    pub fn is_worse(&self) -> bool {
        !self.broken.is_empty() || self.latencies.iter().any(|change| change.is_worse)
    }
}

/// Compares runs by their models' hashes and modes; `limit` is the growth in per cent that is no
/// regression.
pub fn compare(old: &Report, new: &Report, limit: f64) -> Comparison {
    let mut comparison = Comparison::default();
    for model in &new.models {
        let known =
            old.models.iter().find(|known| known.id == model.id && known.sha256 == model.sha256);
        let Some(known) = known else { continue };
        for (id, result) in &model.per_target {
            let Some(before) = known.per_target.get(id) else { continue };
            comparison.in_common += 1;
            note(&mut comparison, &model.id, &before.outcome, &result.outcome);
            for (mode, latency) in &result.latency {
                if let Some(before) = before.latency.get(mode) {
                    comparison.latencies.push(change(&model.id, mode, before, latency, limit));
                }
            }
        }
    }
    for row in &new.crash {
        let same = |known: &&super::CrashReport| {
            known.id == row.id && known.variant == row.variant && known.target == row.target
        };
        if let Some(before) = old.crash.iter().find(same) {
            let name = format!("{} {}", row.id, row.variant);
            comparison.in_common += 1;
            note(&mut comparison, name.trim(), &before.outcome, &row.outcome);
        }
    }
    comparison
}

fn note(comparison: &mut Comparison, name: &str, before: &str, after: &str) {
    match (before == "SUCCESS", after == "SUCCESS") {
        (true, false) => comparison.broken.push(format!("{name}: {after}")),
        (false, true) => comparison.mended.push(format!("{name}: it was {before}")),
        _ => {}
    }
}

fn change(model: &str, mode: &str, old: &Latency, new: &Latency, limit: f64) -> Change {
    let medians =
        |latency: &Latency| latency.over_time.iter().map(|[_, p50]| *p50).collect::<Vec<_>>();
    let is_significant = chance_of_equals(&medians(old), &medians(new)) < SIGNIFICANT;
    let p99_us = old.us.p99.zip(new.us.p99).map(|(old, new)| [old, new]);
    let factor = 1.0 + limit / 100.0;
    let grows = |[old, new]: [f64; 2]| new > old * factor;
    let p50_us = [old.us.p50, new.us.p50];
    let is_worse = is_significant && (grows(p50_us) || p99_us.is_some_and(grows));
    Change {
        model: model.to_owned(),
        mode: mode.to_owned(),
        p50_us,
        p99_us,
        is_significant,
        is_worse,
    }
}

/// The two-sided p-value of the Mann-Whitney test by the normal approximation; 1 for fewer than
/// four values of either, of which no test can tell anything.
pub(crate) fn chance_of_equals(a: &[f64], b: &[f64]) -> f64 {
    const FEWEST: usize = 4;
    if a.len() < FEWEST || b.len() < FEWEST {
        return 1.0;
    }
    let wins: f64 = a
        .iter()
        .flat_map(|x| {
            b.iter().map(move |y| {
                if x > y {
                    1.0
                } else if x == y {
                    0.5
                } else {
                    0.0
                }
            })
        })
        .sum();
    let (n, m) = (real(a.len()), real(b.len()));
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    let z = ((wins - n * m / 2.0).abs() - 0.5).max(0.0) / deviation;
    2.0 * upper_tail(z)
}

/// The share of the normal distribution above `z`, within 1e-7 (Abramowitz and Stegun 26.2.17).
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for change in &self.latencies {
            let [old, new] = change.p50_us;
            let percent = if old > 0.0 { (new / old - 1.0) * 100.0 } else { 0.0 };
            let word = match (change.is_worse, change.is_significant) {
                (true, _) => "slower",
                (false, true) if new < old => "quicker",
                (false, true) => "slower, within the limit",
                (false, false) => "within noise",
            };
            let (model, mode) = (&change.model, &change.mode);
            writeln!(f, "{model} {mode}: p50 {old:.1} to {new:.1} us ({percent:+.1} %), {word}")?;
        }
        for broken in &self.broken {
            writeln!(f, "broken: {broken}")?;
        }
        for mended in &self.mended {
            writeln!(f, "mended: {mended}")?;
        }
        let (all, latencies) = (self.in_common, self.latencies.len());
        writeln!(f, "{all} models and crash tests in both runs, {latencies} latencies")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_the_normal_distribution() {
        for (z, want) in [(0.0, 0.5), (1.96, 0.024_998), (2.575_829, 0.005)] {
            assert!((upper_tail(z) - want).abs() < 1e-5, "{z}: {}", upper_tail(z));
        }
    }

    #[test]
    fn only_medians_that_separate_count() {
        let (low, high) =
            ([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7], [2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7]);
        assert!(chance_of_equals(&low, &high) < 0.01);
        assert!(chance_of_equals(&low, &low) > 0.9);
        assert_eq!(chance_of_equals(&low[..3], &high), 1.0);
        let latency = |blocks: &[f64]| Latency {
            us: super::super::Percentiles { p50: blocks[4], ..Default::default() },
            over_time: blocks.iter().map(|&p50| [0.0, p50]).collect(),
            ..Latency::default()
        };
        let worse = |old: &[f64], new: &[f64], limit| {
            change("m", "burst", &latency(old), &latency(new), limit).is_worse
        };
        assert!(worse(&low, &high, 10.0));
        assert!(!worse(&low, &high, 100.0), "less than the limit");
        assert!(!worse(&high, &low, 10.0), "quicker");
        // As many blocks as the quick budget has are enough to tell.
        assert!(chance_of_equals(&low[..6], &high[..6]) < 0.01);
        let noisy = [1.0, 3.0, 1.0, 3.0, 2.0, 3.0, 1.0, 3.0];
        assert!(!worse(&low, &noisy, 10.0), "within noise");
    }
}
