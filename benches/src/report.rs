//! The outcome as a table for people, or as one JSON object per line.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::burst;
use crate::figures::{Placement, Series, Spread};
use crate::lab::Outcome;
use crate::transport::Row;

/// Peers that a throughput row is compared with, block by block.
const COMPARED: [&str; 2] = ["libfmq-model", "rtrb"];

/// One JSON object per row and placement.
///
/// # Errors
/// If `out` fails.
pub fn json(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    for (series, placement) in lines(outcome) {
        writeln!(out, "{}", object(outcome, series, placement))?;
    }
    Ok(())
}

/// Rows by placement, without those that have no blocks there.
fn lines(outcome: &Outcome) -> impl Iterator<Item = (&Series, Placement)> {
    Placement::ALL.into_iter().flat_map(move |placement| {
        let measured = move |series: &&Series| series.blocks(placement).next().is_some();
        outcome.series.iter().filter(measured).map(move |series| (series, placement))
    })
}

fn object(outcome: &Outcome, series: &Series, placement: Placement) -> Value {
    let row = &series.row;
    let mut object = json!({
        "bench": row.bench,
        "transport": row.transport,
        "wait": row.wait,
        "processes": row.processes(),
        "bytes": row.bytes,
        "items": row.items,
        "placement": placement.name(),
        "real_time": outcome.real_time,
        "blocks": series.blocks(placement).count(),
        "dropped": series.dropped,
    });
    let figures = if row.is_throughput() {
        throughput(outcome, series, placement)
    } else {
        round_trip(series, placement)
    };
    if let (Some(object), Value::Object(figures)) = (object.as_object_mut(), figures) {
        object.extend(figures);
    }
    object
}

fn round_trip(series: &Series, placement: Placement) -> Value {
    let histogram = series.histogram(placement);
    json!({
        "samples": histogram.len(),
        "min_ns": histogram.min(),
        "p50_ns": histogram.value_at_quantile(0.5),
        "p90_ns": histogram.value_at_quantile(0.9),
        "p99_ns": histogram.value_at_quantile(0.99),
        "p999_ns": histogram.value_at_quantile(0.999),
        "max_ns": histogram.max(),
        "typical_ns": series.typical(placement).map(rounded),
        "probe": series.row.probe.name(),
        "ratio": series.ratio(placement).map(rounded),
    })
}

fn throughput(outcome: &Outcome, series: &Series, placement: Placement) -> Value {
    let items = f64::from(u32::try_from(series.row.items).unwrap_or(1));
    let per_s = |ns: f64| items * 1e9 / ns;
    let typical = series.typical(placement);
    let mut figures = json!({
        "samples": series.blocks(placement).count(),
        "items_per_s": typical.map(|ns| per_s(ns.p50).round()),
        "items_per_s_p10": typical.map(|ns| per_s(ns.p90).round()),
        "items_per_s_p90": typical.map(|ns| per_s(ns.p10).round()),
        "ns_per_operation": typical.map(rounded),
    });
    for peer in COMPARED {
        if let Some(spread) = compared(outcome, series, peer, placement) {
            figures[format!("times_{peer}")] = rounded(spread);
        }
    }
    figures
}

/// The speed as a multiple of that of `peer` with the same messages, by blocks of the same rounds.
fn compared(outcome: &Outcome, ours: &Series, peer: &str, placement: Placement) -> Option<Spread> {
    let blocking = |series: &Series| series.row.wait != "spin";
    let same = |series: &&Series| {
        let (theirs, ours) = (&series.row, &ours.row);
        theirs.transport == peer && theirs.bench == ours.bench && theirs.bytes == ours.bytes
    };
    let comparable = |theirs: &&Series| peer == "rtrb" || blocking(theirs) == blocking(ours);
    let peer = outcome.series.iter().filter(same).find(comparable)?;
    ours.times_as_fast_as(peer, placement)
}

fn rounded(spread: Spread) -> Value {
    let digits = |value: f64| (value * 1000.0).round() / 1000.0;
    let Spread { min, p10, p50, p90, max } = spread;
    json!({"p50": digits(p50), "p10": digits(p10), "p90": digits(p90), "min": digits(min), "max": digits(max)})
}

/// A table per placement and bench.
///
/// # Errors
/// If `out` fails.
pub fn table(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let priority = if outcome.real_time { "real-time" } else { "ordinary (real-time was refused)" };
    writeln!(out, "priority: {priority}; the clock counts in steps of {:.1} ns", outcome.step_ns)?;
    for placement in Placement::ALL {
        let dropped: u32 = outcome.series.iter().map(|series| series.dropped).sum();
        let rows: Vec<_> =
            lines(outcome).filter(|(_, at)| *at == placement).map(|(series, _)| series).collect();
        if rows.is_empty() {
            continue;
        }
        writeln!(out, "\ncores {} ({dropped} blocks dropped in all)", placement.name())?;
        round_trips(&rows, placement, out)?;
        throughputs(outcome, &rows, placement, out)?;
    }
    Ok(())
}

/// The transport, and whether it is between threads where that is not its nature.
fn label(row: &Row) -> String {
    match (row.transport, row.processes()) {
        ("fmq", 1) => "fmq threads".into(),
        (transport, _) => transport.into(),
    }
}

fn round_trips(rows: &[&Series], placement: Placement, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:<13} {:<9} {:>5} {:>9} {:>9} {:>9} {:>10}   ratio to probe, p50 [p10 .. p90]",
        "round trip", "wait", "bytes", "p50 ns", "p99 ns", "p99.9 ns", "max ns"
    )?;
    for series in rows.iter().filter(|series| !series.row.is_throughput()) {
        let (row, histogram) = (&series.row, series.histogram(placement));
        let quantile = |q| histogram.value_at_quantile(q);
        write!(
            out,
            "{:<13} {:<9} {:>5} {:>9} {:>9} {:>9} {:>10}   ",
            label(row),
            row.wait,
            row.bytes,
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            histogram.max()
        )?;
        match series.ratio(placement) {
            Some(Spread { p10, p50, p90, .. }) => {
                writeln!(out, "{p50:.2} [{p10:.2} .. {p90:.2}] x {}", row.probe.name())?;
            }
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn throughputs(
    outcome: &Outcome,
    rows: &[&Series],
    placement: Placement,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(
        out,
        "{:<13} {:<9} {:>5} {:>12} {:>18}   times as fast as, p50 [p10 .. p90]",
        "throughput", "wait", "bytes", "M items/s", "[p10 .. p90]"
    )?;
    for series in rows.iter().filter(|series| series.row.is_throughput()) {
        let row = &series.row;
        let Some(ns) = series.typical(placement) else { continue };
        let items = f64::from(u32::try_from(row.items).unwrap_or(1));
        let [p10, p50, p90] = [ns.p90, ns.p50, ns.p10].map(|ns| items * 1e3 / ns);
        let range = format!("[{p10:.1} .. {p90:.1}]");
        write!(
            out,
            "{:<13} {:<9} {:>5} {p50:>12.1} {range:>18}  ",
            row.transport, row.wait, row.bytes
        )?;
        for peer in COMPARED.iter().filter(|peer| **peer != row.transport) {
            if let Some(Spread { p10, p50, p90, .. }) = compared(outcome, series, peer, placement) {
                write!(out, " {peer} {p50:.2} [{p10:.2} .. {p90:.2}]")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// One JSON object per row of the burst part.
///
/// # Errors
/// If `out` fails.
pub fn burst_json(rows: &[burst::CallRow], out: &mut impl Write) -> io::Result<()> {
    for row in rows {
        let (transport, wait) = row.route.names();
        let (latency, overhead) = (&row.latency, &row.overhead);
        let [near, far] = row.placements;
        let object = json!({
            "bench": "call",
            "model": row.model,
            "transport": transport,
            "wait": wait,
            "processes": if row.route == burst::Route::InProcess { 1 } else { 2 },
            "period_ms": row.period_ms,
            "neighbour": if row.busy { "busy" } else { "idle" },
            "one_cpu": row.one_cpu,
            "idle_bursts": row.idle_bursts,
            "idle_burst_share_of_a_core": row.idle_share,
            "samples": latency.len(),
            "late": row.late,
            "p50_ns": latency.value_at_quantile(0.5),
            "p90_ns": latency.value_at_quantile(0.9),
            "p99_ns": latency.value_at_quantile(0.99),
            "p999_ns": latency.value_at_quantile(0.999),
            "max_ns": latency.max(),
            "overhead_ns": {
                "p50": overhead.value_at_quantile(0.5),
                "p99": overhead.value_at_quantile(0.99),
                "p999": overhead.value_at_quantile(0.999),
                "max": overhead.max(),
            },
            "probe": "raw-copy",
            "probe_ns": row.probe().map(rounded),
            "ratio": row.ratio().map(rounded),
            "tail_ratio": row.tail().map(rounded),
            "tail_ratio_of_all": row.tail_of_all(),
            "slowdown_beside_idle_bursts": row.slowdown().map(rounded),
            "probe_p999_ns": row.probed.value_at_quantile(0.999),
            "probe_as_seldom_ns": row.probe_as_seldom(),
            "windows": {"near": near, "far": far, "dropped": row.dropped},
            "warnings": row.warnings,
        });
        writeln!(out, "{object}")?;
    }
    Ok(())
}

/// The burst part as a table, in microseconds.
///
/// # Errors
/// If `out` fails.
pub fn burst_table(rows: &[burst::CallRow], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{:<22} {:<11} {:<9} {:>7} {:<5} {:>9} {:>9} {:>9} {:>9}   overhead p50, and as a multiple of raw-copy, p50 [p10 .. p90]; tail as one of raw-copy's",
        "call (us)", "transport", "wait", "period", "beside", "p50", "p99", "p99.9", "max"
    )?;
    for row in rows {
        let (transport, wait) = row.route.names();
        let us = |ns: u64| Duration::from_nanos(ns).as_secs_f64() * 1e6;
        let [p50, p99, p999] =
            [0.5, 0.99, 0.999].map(|quantile| us(row.latency.value_at_quantile(quantile)));
        let (max, overhead) = (us(row.latency.max()), us(row.overhead.value_at_quantile(0.5)));
        let neighbour = match (row.busy, row.idle_bursts) {
            _ if row.one_cpu => "1 CPU".to_owned(),
            (true, _) => "busy".to_owned(),
            (false, 0) => "idle".to_owned(),
            (false, bursts) => format!("{bursts}"),
        };
        let (model, period) = (row.model, row.period_ms);
        write!(
            out,
            "{model:<22} {transport:<11} {wait:<9} {period:>4} ms {neighbour:<6} {p50:>9.1} {p99:>9.1} {p999:>9.1} {max:>9.1}   {overhead:>8.2}"
        )?;
        if let Some(Spread { p10, p50, p90, .. }) = row.ratio() {
            write!(out, "  {p50:.1} [{p10:.1} .. {p90:.1}]")?;
        }
        if let Some(Spread { p10, p50, p90, .. }) = row.tail() {
            let tail_us = us(row.overhead.value_at_quantile(0.999));
            let all = row.tail_of_all().unwrap_or_default();
            write!(
                out,
                "  tail {p50:.1} [{p10:.1} .. {p90:.1}], of all {all:.1} ({tail_us:.1} us"
            )?;
            let seldom = row.probe_as_seldom();
            seldom.map_or(Ok(()), |ns| write!(out, ", the probe as seldom {:.1}", us(ns)))?;
            write!(out, ")")?;
        }
        if let Some(Spread { p10, p50, p90, .. }) = row.slowdown() {
            write!(out, "  {p50:.2} [{p10:.2} .. {p90:.2}] of the latency without idle bursts")?;
        }
        if let Some(share) = row.idle_share {
            write!(out, "  an idle burst takes {:.3} % of a core", share * 100.0)?;
        }
        writeln!(out)?;
    }
    Ok(())
}
