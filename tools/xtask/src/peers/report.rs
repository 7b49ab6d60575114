//! Rows as lines: median ratio, spread, and whether the targets are met.

use serde_json::json;

use super::engines::Round;
use super::rows::PeerRow;

/// Names of the columns.
pub(super) const HEADER: &str = "row                                  TFLite us    ours us   ratio  \
     (lowest to highest)    must    aim";

/// The result of a row.
pub(super) struct ReportLine<'a> {
    row: &'a PeerRow<'a>,
    peer: f64,
    ours: f64,
    ratios: Vec<f64>,
}

impl<'a> ReportLine<'a> {
    /// `rounds` are at least one.
    pub(super) fn new(row: &'a PeerRow<'a>, rounds: &[Round]) -> Self {
        let sorted = |of: fn(&Round) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let ratios = sorted(|round| round.ours / round.peer);
        let (peer, ours) = (median(&sorted(|r| r.peer)), median(&sorted(|r| r.ours)));
        Self { row, peer, ours, ratios }
    }

    /// Returns the figure that the targets are about: the ratio, or our microseconds.
    fn figure(&self) -> f64 {
        if self.row.absolute { self.ours } else { self.ratio() }
    }

    /// Returns the median of the rounds' ratios.
    fn ratio(&self) -> f64 {
        median(&self.ratios)
    }

    fn verdict(&self) -> &'static str {
        match self.figure() {
            figure if figure <= self.row.aim => "aim met",
            figure if figure <= self.row.must => "must met",
            _ => "missed",
        }
    }

    pub(super) fn text(&self) -> String {
        let unit = if self.row.absolute { "us" } else { "  " };
        format!(
            "{:36} {:9.2} {:10.2} {:7.3}  ({:7.3} to {:7.3}) {:7.2} {:6.2} {unit} {}",
            self.row.name,
            self.peer,
            self.ours,
            self.ratio(),
            self.ratios.first().unwrap_or(&f64::NAN),
            self.ratios.last().unwrap_or(&f64::NAN),
            self.row.must,
            self.row.aim,
            self.verdict(),
        )
    }

    pub(super) fn json(&self) -> String {
        json!({
            "row": self.row.name,
            "models": self.row.models,
            "period_ms": self.row.what.period_ms(),
            "tflite_us": self.peer,
            "nnburst_us": self.ours,
            "ratio": {
                "median": self.ratio(),
                "lowest": self.ratios.first(),
                "highest": self.ratios.last(),
            },
            "rounds": self.ratios.len(),
            "target": if self.row.absolute { "us" } else { "ratio" },
            "must": self.row.must,
            "aim": self.row.aim,
            "verdict": self.verdict(),
        })
        .to_string()
    }
}

/// Shortest time of TFLite, in microseconds, at which a ratio counts: below it is the call itself.
const COUNTS_FROM_US: f64 = 2.0;

/// A line about all rows that compare times of calls: the geometric mean of their ratios, and how
/// many networks of more than a few microseconds miss what they must reach.
pub(super) fn summary(lines: &[ReportLine<'_>]) -> String {
    let ratios = lines.iter().filter(|line| !line.row.absolute);
    let (counted, small): (Vec<&ReportLine<'_>>, Vec<_>) =
        ratios.partition(|line| line.peer > COUNTS_FROM_US);
    let mean = |of: &[&ReportLine<'_>]| {
        let logarithms: f64 = of.iter().map(|line| line.ratio().ln()).sum();
        (logarithms / f64::from(u32::try_from(of.len()).unwrap_or(u32::MAX))).exp()
    };
    let missed: Vec<_> = counted.iter().filter(|line| line.verdict() == "missed").collect();
    let names: Vec<_> = missed.iter().map(|line| line.row.name).collect();
    format!(
        "geometric mean {:.3} of {} rows above {COUNTS_FROM_US} us, {:.3} of {} below; {} of the \
         former missed: {}",
        mean(&counted),
        counted.len(),
        mean(&small),
        small.len(),
        missed.len(),
        names.join(", "),
    )
}

/// Of values in order.
fn median(sorted: &[f64]) -> f64 {
    let upper = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN);
    f64::midpoint(lower, upper)
}

#[cfg(test)]
mod tests {
    use super::super::rows::{OTHERS, ROWS, TRANSFORMERS};
    use super::*;

    #[test]
    fn a_row_is_judged_by_the_median_of_its_ratios() {
        let rounds = [(10.0, 3.0), (10.0, 50.0), (20.0, 7.0)];
        let rounds = rounds.map(|(peer, ours)| Round { peer, ours });
        let row = ROWS.iter().find(|row| row.name == "mobilenet_v2_1.0_224 uint8");
        let line = ReportLine::new(row.unwrap(), &rounds);
        assert!((line.figure() - 0.35).abs() < 1e-9);
        assert_eq!(line.verdict(), "must met");
        let json: serde_json::Value = serde_json::from_str(&line.json()).unwrap();
        assert_eq!(json["ratio"]["highest"], 5.0);
    }

    #[test]
    fn a_summary_leaves_small_networks_out_of_what_is_missed() {
        let row = ROWS.iter().find(|row| row.name == "mobilenet_v2_1.0_224 uint8").unwrap();
        let line = |peer, ours| ReportLine::new(row, &[Round { peer, ours }]);
        let text = summary(&[line(100.0, 25.0), line(100.0, 400.0), line(1.0, 2.0)]);
        assert!(text.starts_with("geometric mean 1.000 of 2 rows"), "{text}");
        assert!(text.contains("2.000 of 1 below; 1 of the former missed: mobilenet"), "{text}");
    }

    #[test]
    fn names_of_rows_are_unlike() {
        let rows: Vec<_> = ROWS.iter().chain(OTHERS).chain(TRANSFORMERS).collect();
        for (at, row) in rows.iter().enumerate() {
            assert!(!rows[..at].iter().any(|other| other.name == row.name), "{}", row.name);
            assert!(row.aim <= row.must, "{}", row.name);
        }
    }
}
