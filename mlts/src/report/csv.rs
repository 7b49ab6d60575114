//! Latencies as CSV (RFC 4180): a line for each model, target and mode.

use std::fmt::Write;

use super::schema::{Latency, Report};

/// The columns.
const HEADER: &str = "model,target,mode,outcome,n,first_us,min_us,p50_us,p90_us,p95_us,p99_us,p999_us,max_us,mean_us,sd_us,steady,note,disturbed,driver_cpu_s_per_1000,client_cpu_s_per_1000";

/// The latencies of a run.
pub fn csv(report: &Report) -> String {
    let mut text = format!("{HEADER}\r\n");
    for model in &report.models {
        for (id, result) in &model.per_target {
            let target = report.targets.iter().find(|target| target.id == *id);
            let target = target.map_or(id.as_str(), |target| target.name.as_str());
            let modes = result.latency.iter().map(|(mode, latency)| (mode.as_str(), latency));
            let reference = result.reference_latency.iter().map(|latency| ("reference", latency));
            for (mode, latency) in modes.chain(reference) {
                let name = if mode == "reference" { report.reference.as_str() } else { target };
                let cells = [&model.id, name, mode, &result.outcome].map(quoted).join(",");
                // A string takes what is written.
                let _ = write!(text, "{cells},{}\r\n", figures(latency));
            }
        }
    }
    text
}

fn figures(latency: &Latency) -> String {
    let us = &latency.us;
    let some = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    let parts = [
        latency.n.to_string(),
        some(Some(latency.first_us)),
        some(Some(us.min)),
        some(Some(us.p50)),
        some(us.p90),
        some(us.p95),
        some(us.p99),
        some(us.p999),
        some(Some(us.max)),
        some(Some(us.mean)),
        some(Some(us.sd)),
        latency.steady.to_string(),
        quoted(&latency.note),
        latency.disturbed.to_string(),
        some(Some(latency.cpu_s_per_1000.driver)),
        some(Some(latency.cpu_s_per_1000.client)),
    ];
    parts.join(",")
}

/// A cell, in quotes where it has to be.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ModelReport, ModelResult, Percentiles};

    #[test]
    fn a_line_for_each_mode_with_quotes_where_they_are_needed() {
        let us = Percentiles { min: 1.0, p50: 2.5, max: 9.0, ..Percentiles::default() };
        let latency = Latency { n: 3, us, steady: true, ..Latency::default() };
        let mut result = ModelResult { outcome: "SUCCESS".into(), ..ModelResult::default() };
        result.latency.insert("burst".into(), latency);
        let mut model = ModelReport { id: "a,\"b\"".into(), ..ModelReport::default() };
        model.per_target.insert("t0".into(), result);
        let text = csv(&Report { models: vec![model], ..Report::default() });
        let lines: Vec<_> = text.split("\r\n").collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[1],
            "\"a,\"\"b\"\"\",t0,burst,SUCCESS,3,0.000,1.000,2.500,,,,,9.000,0.000,0.000,true,,false,0.000,0.000"
        );
        assert_eq!(HEADER.split(',').count(), 20);
    }
}
