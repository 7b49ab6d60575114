//! Percentile curves: `.hgrm` files, as HdrHistogram's plotters read them, and one HTML page with
//! curves as inline SVG.

use std::fmt::Write;
use std::path::Path;

use hdrhistogram::Histogram;

use crate::Result;
use crate::burst::CallRow;

/// Writes a file per row into `folder`, which is made if need be. Values are microseconds.
///
/// # Errors
/// If the folder can't be written.
pub fn hgrm(rows: &[CallRow], folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for row in rows {
        for (what, histogram) in [("latency", &row.latency), ("overhead", &row.overhead)] {
            let name = format!("{}-{what}.hgrm", row.title().replace([' ', ','], "_"));
            std::fs::write(folder.join(name), percentiles(histogram)?)?;
        }
    }
    Ok(())
}

/// The text form of HdrHistogram's `outputPercentileDistribution`.
fn percentiles(histogram: &Histogram<u64>) -> Result<String> {
    let mut text = String::new();
    writeln!(
        text,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut total = 0;
    for step in histogram.iter_quantiles(5) {
        total += step.count_since_last_iteration();
        let (value, quantile) = (micros(step.value_iterated_to()), step.quantile_iterated_to());
        let inverse =
            if quantile < 1.0 { format!("{:.2}", 1.0 / (1.0 - quantile)) } else { String::new() };
        writeln!(text, "{value:>12.3} {quantile:>14.12} {total:>10} {inverse:>14}")?;
    }
    let (mean, deviation, max) =
        (histogram.mean() / 1e3, histogram.stdev() / 1e3, micros(histogram.max()));
    writeln!(text, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]")?;
    writeln!(text, "#[Max     = {max:>12.3}, Total count    = {:>12}]", histogram.len())?;
    let (buckets, sub) = (64, histogram.distinct_values());
    writeln!(text, "#[Buckets = {buckets:>12}, SubBuckets     = {sub:>12}]")?;
    Ok(text)
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 ns")]
fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// The page: a chart per model, pace and neighbour, with a curve per route, and the table of
/// figures.
///
/// # Errors
/// If the file can't be written.
pub fn html(rows: &[CallRow], file: &Path) -> Result<()> {
    let mut page = String::from(HEAD);
    let mut rest = rows;
    while let Some(first) = rest.first() {
        let same = |row: &&CallRow| {
            let key =
                |row: &CallRow| (row.model, row.period_ms, row.busy, row.one_cpu, row.idle_bursts);
            key(row) == key(first)
        };
        let (chart, others) = rest.split_at(rest.iter().take_while(same).count());
        let heading = first.title();
        let (_, heading) = heading.split_once(',').unwrap_or_default();
        writeln!(page, "<h2>{},{heading} neighbour</h2>", first.model)?;
        svg(chart, &mut page)?;
        figures(chart, &mut page)?;
        rest = others;
    }
    page.push_str("</body></html>\n");
    Ok(std::fs::write(file, page)?)
}

/// Both axes are logarithmic: latency upwards, 1/(1 - percentile) to the right.
fn svg(rows: &[CallRow], page: &mut String) -> Result<()> {
    const WIDTH: f64 = 760.0;
    const HEIGHT: f64 = 300.0;
    const LEFT: f64 = 60.0;
    let lowest =
        rows.iter().map(|row| row.latency.min()).min().map_or(0.1, micros).max(0.1).log10().floor();
    let highest =
        rows.iter().map(|row| row.latency.max()).max().map_or(10.0, micros).max(1.0).log10().ceil();
    let y =
        |us: f64| HEIGHT - (us.max(0.1).log10() - lowest) / (highest - lowest).max(1.0) * HEIGHT;
    let x = |quantile: f64| LEFT + (1.0 / (1.0 - quantile).max(1e-4)).log10() / 4.0 * WIDTH;
    write!(page, "<svg viewBox=\"0 0 {} {}\" role=\"img\">", WIDTH + LEFT + 10.0, HEIGHT + 30.0)?;
    let mut decade = lowest;
    while decade <= highest {
        let (us, at) = (10f64.powf(decade), y(10f64.powf(decade)));
        write!(
            page,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at}\" y2=\"{at}\"/><text x=\"4\" y=\"{}\">{us} us</text>",
            WIDTH + LEFT,
            at + 4.0
        )?;
        decade += 1.0;
    }
    for (quantile, name) in
        [(0.0, "0"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")]
    {
        let at = x(quantile);
        write!(
            page,
            "<line x1=\"{at}\" x2=\"{at}\" y1=\"0\" y2=\"{HEIGHT}\"/><text x=\"{}\" y=\"{}\">{name}</text>",
            at - 14.0,
            HEIGHT + 20.0
        )?;
    }
    for (row, colour) in rows.iter().zip(COLOURS) {
        let mut points = String::new();
        for step in row.latency.iter_quantiles(10) {
            let at = (x(step.quantile_iterated_to()), y(micros(step.value_iterated_to())));
            write!(points, "{:.1},{:.1} ", at.0, at.1)?;
        }
        write!(page, "<polyline points=\"{points}\" stroke=\"{colour}\"/>")?;
    }
    page.push_str("</svg>\n");
    Ok(())
}

fn figures(rows: &[CallRow], page: &mut String) -> Result<()> {
    page.push_str("<table><tr><th>route<th>p50<th>p90<th>p99<th>p99.9<th>max<th>overhead p50<th>x probe<th>tail x probe<th>late<th>calls</tr>\n");
    for (row, colour) in rows.iter().zip(COLOURS) {
        let (transport, wait) = row.route.names();
        write!(page, "<tr><td style=\"color:{colour}\">{transport} {wait}")?;
        for quantile in [0.5, 0.9, 0.99, 0.999, 1.0] {
            write!(page, "<td>{:.1}", micros(row.latency.value_at_quantile(quantile)))?;
        }
        let ratio = row.ratio().map(|ratio| format!("{:.1}", ratio.p50)).unwrap_or_default();
        let tail = row.tail().map(|tail| format!("{:.2}", tail.p50)).unwrap_or_default();
        let overhead = micros(row.overhead.value_at_quantile(0.5));
        writeln!(
            page,
            "<td>{overhead:.1}<td>{ratio}<td>{tail}<td>{}<td>{}</tr>",
            row.late,
            row.latency.len()
        )?;
    }
    page.push_str("</table>\n");
    Ok(())
}

const COLOURS: [&str; 5] = ["#0b6e4f", "#1f77b4", "#9467bd", "#d62728", "#7f7f7f"];

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>nnburst latency</title><style>
body{font:15px/1.4 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
svg{width:100%;font-size:11px}svg line{stroke:#ddd}svg polyline{fill:none;stroke-width:1.6}
table{border-collapse:collapse}td,th{padding:.1rem .6rem;text-align:right}td:first-child{text-align:left}
</style><body><h1>Latency of calls to a driver in another process</h1>
<p>Each curve is one route to the same driver; latency in microseconds upwards, percentiles to the right, both logarithmic.
Roads took turns in one run. <em>x probe</em> is the median overhead (latency less the driver's own time) as a multiple of
copying 1 KiB to the other core and back right before and after; <em>tail x probe</em> its p99.9 over its p50, as a multiple
of the same of that copy. Both are medians over short windows of calls, each held against its own probe.</p>
<p><strong>Coordinated omission.</strong> Paced calls are due at fixed times. When one overruns, the next is late, and its
latency is counted from when it was due, not from when it could at last be made: otherwise one stall of many periods would
count as a single slow call. <em>late</em> says how often that was so. A timer that fires late is the machine's doing and no
route's: such a call counts from when it was made. Calls back to back have no due times, so nothing is
corrected there.</p>
";
