//! Measured models as comma-separated values.

use std::io::Write;

use super::Report;
use crate::failure::Failure;
use crate::stats::Summary;

/// Of a summary, behind its name.
const FIGURES: [&str; 7] = ["min", "p50", "p90", "p99", "p999", "max", "mean"];

/// Columns before the summaries.
const HEADING: &str = "model,device,mode,wait,threads,streams,batch,priority,preference,period_ms,\
deadline_ms,runs,duration_s,calls_per_s,periods_missed,deadlines_missed,load_ms,compile_ms,\
peak_rss_mib";

pub(super) fn heading(out: &mut dyn Write) -> Result<(), Failure> {
    write!(out, "{HEADING}")?;
    for summary in ["latency", "corrected", "driver", "overhead"] {
        for figure in FIGURES {
            write!(out, ",{summary}_{figure}_us")?;
        }
    }
    Ok(writeln!(out, ",processor_us,driver_processor_us")?)
}

pub(super) fn row(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    let Report { mode, wait, threads, streams, batch, priority, preference, .. } = report;
    let Report { runs, duration_s, calls_per_s, load_ms, compile_ms, peak_rss_mib, .. } = report;
    let [model, device] = [&report.model, &report.device].map(|text| text.replace('"', "\"\""));
    let period = optional(report.period_ms);
    let deadline = optional(report.deadline_ms);
    let [periods, deadlines] = [report.periods_missed, report.deadlines_missed].map(optional);
    write!(
        out,
        "\"{model}\",\"{device}\",{mode},{wait},{threads},{streams},{batch},{priority},\
         {preference},{period},{deadline},{runs},{duration_s:.3},{calls_per_s:.1},{periods},{deadlines},\
         {load_ms:.3},{compile_ms:.3},{peak_rss_mib}"
    )?;
    let Report { latency_us, corrected_us, driver_us, overhead_us, .. } = *report;
    for summary in [latency_us, corrected_us, driver_us, overhead_us] {
        for figure in figures(summary) {
            write!(out, ",{}", optional(figure))?;
        }
    }
    let Report { processor_us, driver_processor_us, .. } = *report;
    let [both, driver] = [processor_us, driver_processor_us].map(optional);
    Ok(writeln!(out, ",{both},{driver}")?)
}

fn figures(summary: Option<Summary>) -> [Option<f64>; FIGURES.len()] {
    summary.map_or([None; FIGURES.len()], |it| {
        [it.min, it.p50, it.p90, it.p99, it.p999, it.max, it.mean].map(Some)
    })
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
