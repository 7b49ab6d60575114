//! Figures for people: aligned columns, and a histogram of bars.

use std::fmt::Write as _;
use std::time::Duration;

use crate::stats::{Latencies, Summary};

/// Rows under a heading; the first column to the left, all others to the right.
#[derive(Debug, Default)]
pub(crate) struct TextTable(Vec<Vec<String>>);

impl TextTable {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self(vec![heading.iter().map(|&cell| cell.to_owned()).collect()])
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.push(cells.into_iter().collect());
    }

    /// The columns of a latency: name, percentiles, and the overhead's median where it is known.
    pub(crate) fn latency_row(&mut self, name: &str, latency: Summary, overhead: Option<Summary>) {
        self.row(std::iter::once(name.to_owned()).chain(figures(latency, overhead)));
    }

    /// The same, with the number of samples behind the name.
    pub(crate) fn counted_latency_row(
        &mut self,
        name: &str,
        count: u64,
        latency: Summary,
        overhead: Option<Summary>,
    ) {
        self.row(
            [name.to_owned(), count.to_string()].into_iter().chain(figures(latency, overhead)),
        );
    }
}

impl std::fmt::Display for TextTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row: &Vec<String>| row.get(column));
            cells.map(|cell: &String| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.0 {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(line, "{cell:<width$}")?;
                } else {
                    write!(line, "  {cell:>width$}")?;
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn figures(latency: Summary, overhead: Option<Summary>) -> impl Iterator<Item = String> {
    let overhead = overhead.map_or_else(|| "-".to_owned(), |overhead| figure(overhead.p50));
    [latency.p50, latency.p90, latency.p99, latency.p999, latency.max]
        .into_iter()
        .map(figure)
        .chain([overhead])
}

/// Microseconds with as many digits as say something.
pub(crate) fn figure(microseconds: f64) -> String {
    match microseconds {
        us if us < 10.0 => format!("{us:.2}"),
        us if us < 1000.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

/// A histogram: one line per bucket that holds anything, a bar as long as its share.
///
/// Buckets grow by a fifth each, so that a tail of ten times the median still fits a screen.
pub(crate) fn histogram(latencies: &Latencies) -> String {
    const GROWTH: f64 = 1.2;
    const BAR: f64 = 50.0;
    let Some(summary) = latencies.summary() else { return String::new() };
    let mut buckets = Vec::new();
    let mut low = Duration::from_secs_f64(summary.min / 1e6);
    let end = Duration::from_secs_f64(summary.max / 1e6);
    while low <= end {
        let high = low.mul_f64(GROWTH).max(low + Duration::from_nanos(10));
        let count = latencies.count_between(low, high);
        if count > 0 {
            buckets.push((low, count));
        }
        low = high;
    }
    let most = buckets.iter().map(|&(_, count)| count).max().unwrap_or(1);
    let mut out = String::new();
    for (low, count) in buckets {
        #[expect(clippy::cast_precision_loss, reason = "counts of frames are small")]
        let share = count as f64 / most as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to BAR")]
        let bar = "#".repeat((share * BAR).ceil() as usize);
        let from = figure(low.as_secs_f64() * 1e6);
        // Writing to a string can't fail.
        let _ = writeln!(out, "  from {from:>7} us  {count:>5}  {bar}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let mut table = TextTable::new(&["", "p50", "max"]);
        table.row(["burst (spin)".into(), "1.25".into(), "10.0".into()]);
        assert_eq!(table.to_string(), "               p50   max\nburst (spin)  1.25  10.0\n");
    }

    #[test]
    fn every_sample_is_in_a_bar() {
        let mut latencies = Latencies::new().unwrap();
        for microseconds in [10, 10, 10, 11, 50, 200] {
            latencies.record(Duration::from_micros(microseconds));
        }
        let text = histogram(&latencies);
        let counted: u64 = text
            .lines()
            .map(|line| line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(counted, latencies.len(), "{text}");
    }
}
