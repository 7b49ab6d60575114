//! The figures of a burst, in microseconds.

use hdrhistogram::Histogram;
use nnburst::BurstStats;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::wrong;

type Part = fn(&BurstStats) -> &Histogram<u64>;

/// The parts of a latency, by their names.
const PARTS: [(&str, Part); 4] = [
    ("latency", |stats| &stats.latency),
    ("driver", |stats| &stats.driver),
    ("queueing", |stats| &stats.queueing),
    ("overhead", |stats| &stats.overhead),
];

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

pub(crate) fn summary<'py>(
    py: Python<'py>,
    stats: Option<&BurstStats>,
) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    let Some(stats) = stats else { return Ok(all) };
    all.set_item("executions", stats.executions())?;
    all.set_item("missed_deadlines", stats.missed_deadlines)?;
    for (name, part) in PARTS {
        let (figures, latencies) = (PyDict::new(py), part(stats));
        figures.set_item("min", microseconds(latencies.min()))?;
        for (name, quantile) in QUANTILES {
            figures.set_item(name, microseconds(latencies.value_at_quantile(quantile)))?;
        }
        figures.set_item("max", microseconds(latencies.max()))?;
        figures.set_item("mean", latencies.mean() / 1e3)?;
        all.set_item(format!("{name}_us"), figures)?;
    }
    Ok(all)
}

pub(crate) fn histogram(
    py: Python<'_>,
    stats: Option<&BurstStats>,
    part: &str,
) -> PyResult<Vec<(f64, u64)>> {
    let known = || PARTS.map(|(name, _)| name).join(", ");
    let found = PARTS.iter().find(|(name, _)| *name == part);
    let (_, of) = found
        .ok_or_else(|| wrong(py, format!("no part is called {part:?}; there are {}", known())))?;
    let Some(stats) = stats else { return Ok(Vec::new()) };
    let recorded = of(stats).iter_recorded();
    let bars = recorded.map(|bar| (microseconds(bar.value_iterated_to()), bar.count_at_value()));
    Ok(bars.collect())
}

#[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ns")]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
