//! Histograms as inline SVG: a logarithmic axis, all of a model's on one scale.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::super::schema::Latency;
use super::text::{escape, micros};
use crate::num::{real, real_u64};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 54.0;
const LEFT: f64 = 110.0;
const BARS: usize = 80;

/// One row of the picture.
pub(super) struct HistogramRow<'a> {
    pub(super) name: String,
    pub(super) latency: &'a Latency,
    /// The variable of the style sheet that it is drawn in.
    pub(super) colour: &'static str,
}

/// The ends of the axis: logarithms of nanoseconds.
#[derive(Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
}

/// The histograms of all rows, with marks at p50 and p99. Nothing where no histogram can be read.
pub(super) fn histograms(rows: &[HistogramRow<'_>]) -> String {
    let read: Vec<_> =
        rows.iter().filter_map(|row| Some((row, decode(&row.latency.hdr)?))).collect();
    let low = read.iter().map(|(_, all)| all.min()).min().unwrap_or(0).max(1);
    let high = read.iter().map(|(_, all)| all.value_at_quantile(0.9999)).max().unwrap_or(0);
    if read.is_empty() || high == 0 {
        return String::new();
    }
    let from = real_u64(low).ln();
    let axis = Axis { from, to: real_u64(high).ln().max(from + 0.1) };
    let to = axis.to;
    let x = |nanos: u64| {
        let at = (real_u64(nanos.max(1)).ln() - from) / (to - from);
        LEFT + at.clamp(0.0, 1.0) * (WIDTH - LEFT - 8.0)
    };
    let mut out = String::new();
    for (line, (row, all)) in read.iter().enumerate() {
        let top = real(line) * HEIGHT;
        out.push_str(&bars(all, axis, top, row.colour));
        out.push_str(&format!(
            "<text x=\"0\" y=\"{:.0}\">{}</text>",
            top + HEIGHT - 18.0,
            escape(&row.name)
        ));
        for (mark, nanos) in
            [("p50", all.value_at_quantile(0.5)), ("p99", all.value_at_quantile(0.99))]
        {
            if mark == "p99" && row.latency.us.p99.is_none() {
                continue;
            }
            let x = x(nanos);
            out.push_str(&format!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{:.0}\" stroke=\"var(--fg)\" stroke-dasharray=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.0}\">{mark}</text>",
                top + 10.0,
                top + HEIGHT - 6.0,
                if mark == "p50" { "none" } else { "3 2" },
                x + 2.0,
                top + 10.0
            ));
        }
    }
    let height = real(read.len()) * HEIGHT + 16.0;
    for share in [0.0, 0.5, 1.0] {
        let nanos = (from + (to - from) * share).exp();
        let (x, anchor) = (
            LEFT + share * (WIDTH - LEFT - 8.0),
            ["start", "middle", "end"][usize::from(share > 0.0) + usize::from(share > 0.5)],
        );
        out.push_str(&format!(
            "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{}</text>",
            height - 3.0,
            micros(nanos / 1000.0)
        ));
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\" aria-label=\"latency histograms\">{out}</svg>"
    )
}

/// A row's bars: equal steps of the logarithm, the tallest as high as the row.
fn bars(all: &Histogram<u64>, axis: Axis, top: f64, colour: &str) -> String {
    let Axis { from, to } = axis;
    let step = (to - from) / real(BARS);
    let mut counts = vec![0_u64; BARS];
    for value in all.iter_recorded() {
        let at = (real_u64(value.value_iterated_to().max(1)).ln() - from) / step;
        let at = crate::num::count((at - 0.5).max(0.0)).min(BARS - 1);
        if let Some(count) = counts.get_mut(at) {
            *count += value.count_at_value();
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let width = (WIDTH - LEFT - 8.0) / real(BARS);
    let mut out = String::new();
    for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let height = (real_u64(count) / real_u64(most) * (HEIGHT - 18.0)).max(1.0);
        out.push_str(&format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"var({colour})\"/>",
            LEFT + real(at) * width,
            top + HEIGHT - 6.0 - height,
            (width - 0.5).max(0.5)
        ));
    }
    out
}

/// A figure as a bar from 0, with marks at its limit (solid) and at what is expected (dashed).
pub(super) fn bar(value: f64, limit: Option<f64>, expected: Option<f64>) -> String {
    const LENGTH: f64 = 120.0;
    let all = [Some(value), limit, expected];
    let most = all.into_iter().flatten().filter(|one| one.is_finite()).fold(0.0, f64::max);
    if limit.is_none() && expected.is_none() || most <= 0.0 {
        return String::new();
    }
    let x = |value: f64| (value / most).clamp(0.0, 1.0) * LENGTH;
    let mark = |at: Option<f64>, dashes: &str| {
        at.map_or_else(String::new, |at| {
            let x = x(at) + 1.0;
            format!("<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"14\" stroke=\"var(--fg)\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>")
        })
    };
    format!(
        "<svg viewBox=\"0 0 {0} 14\" width=\"{0}\" height=\"14\" role=\"img\" aria-label=\"value, limit and expected value\"><rect x=\"1\" y=\"4\" width=\"{1:.1}\" height=\"6\" fill=\"var(--a)\"/>{2}{3}</svg>",
        LENGTH + 2.0,
        x(value),
        mark(limit, "none"),
        mark(expected, "3 2")
    )
}

/// The median over time, for runs that are not steady.
pub(super) fn over_time(latency: &Latency) -> String {
    let last = latency.over_time.last().map_or(0.0, |[at, _]| *at).max(1e-9);
    let most = latency.over_time.iter().map(|[_, p50]| *p50).fold(0.0, f64::max).max(1e-9);
    let points: Vec<_> = latency
        .over_time
        .iter()
        .map(|[at, p50]| {
            format!(
                "{:.1},{:.1}",
                LEFT + at / last * (WIDTH - LEFT - 8.0),
                70.0 - p50 / most * 60.0
            )
        })
        .collect();
    format!(
        "<svg viewBox=\"0 0 {WIDTH} 80\" width=\"{WIDTH}\" role=\"img\" aria-label=\"median over time\"><text x=\"0\" y=\"20\">{}</text><text x=\"0\" y=\"72\">0</text><polyline points=\"{}\" fill=\"none\" stroke=\"var(--a)\" stroke-width=\"2\"/></svg>",
        micros(most),
        points.join(" ")
    )
}

fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    let all: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
    (!all.is_empty()).then_some(all)
}
