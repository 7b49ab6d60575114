//! A section for each model, and the table of operations over all of them.

use std::collections::BTreeMap;

use super::super::schema::{
    Accuracy, Bisection, Latency, ModelResult, PeerLatency, Support, WrongAnswer,
};
use super::svg::{self, HistogramRow};
use super::text::{anchor, change, escape, maybe_micros, micros, millis, outcome};
use super::{Column, Page};
use crate::evaluators::shown;

/// A section for each model, open where something is wrong.
pub(super) fn sections(page: &Page<'_>) -> String {
    let mut out = String::new();
    for model in page.models() {
        let columns = page.columns();
        let results: Vec<_> =
            columns.iter().filter_map(|column| Some((*column, column.result(model)?))).collect();
        let is_bad = results.iter().any(|(_, result)| outcome(&result.outcome).1 == "bad");
        let what = page.runs.iter().flat_map(|run| &run.models).find(|row| row.id == model);
        let what = what.map(|row| escape(&row.what)).unwrap_or_default();
        out.push_str(&format!(
            "<details id=\"{}\"{}><summary>{}</summary><p class=sub>{what}</p>",
            anchor("model", model),
            if is_bad { " open" } else { "" },
            escape(model)
        ));
        for (column, result) in results {
            out.push_str(&section(page, model, column, result));
        }
        let rows = page.runs.iter().flat_map(|run| &run.models).filter(|row| row.id == model);
        out.push_str(&peers(rows.flat_map(|row| &row.peers)));
        out.push_str("</details>");
    }
    out
}

fn section(page: &Page<'_>, model: &str, column: Column<'_>, result: &ModelResult) -> String {
    let (letter, class) = outcome(&result.outcome);
    let mut out = format!(
        "<h3>{}: <span class={class}>{letter} {}{}</span></h3>",
        escape(&column.target.name),
        escape(&result.outcome),
        result.process.as_ref().map_or_else(String::new, |one| format!(" {}", escape(one)))
    );
    if !result.reason.is_empty() {
        out.push_str(&format!("<p>{}</p>", escape(&result.reason)));
    }
    if !result.skipped.is_empty() && result.skipped != result.reason {
        out.push_str(&format!("<p class=sub>{}</p>", escape(&result.skipped)));
    }
    let mut rows = Vec::new();
    for (mode, latency) in &result.latency {
        let colour = if mode == "burst" { "--a" } else { "--b" };
        rows.push(HistogramRow { name: mode.clone(), latency, colour });
    }
    if let Some(latency) = &result.reference_latency {
        rows.push(HistogramRow { name: column.run.reference.clone(), latency, colour: "--c" });
    }
    // The mode of the overview; more would hide the others.
    for mode in result.latency.keys().take(1) {
        if let Some(latency) = page.baseline_latency(model, mode) {
            rows.push(HistogramRow { name: format!("baseline {mode}"), latency, colour: "--d" });
        }
    }
    if !rows.is_empty() {
        out.push_str(&svg::histograms(&rows));
        out.push_str(&percentiles(&rows, result.reference_latency.as_ref()));
        for row in rows.iter().filter(|row| !row.latency.steady) {
            out.push_str(&format!(
                "<p>{}: not steady, the median over time:</p>{}",
                escape(&row.name),
                svg::over_time(row.latency)
            ));
        }
    }
    for refused in &result.refused_settings {
        out.push_str(&format!("<p class=warn>{}</p>", escape(refused)));
    }
    if !result.throughput.is_empty() {
        let all = result.throughput.iter();
        let all: Vec<_> = all.map(|(clients, rate)| format!("{clients}: {rate:.0}")).collect();
        out.push_str(&format!("<p>Calls a second by clients at a time: {}</p>", all.join(", ")));
    }
    if let Some(accuracy) = &result.accuracy {
        out.push_str(&accuracy_of(accuracy));
    }
    if let Some(compile) = &result.compile_ms {
        out.push_str("<table><tr><th>compilation<th class=n>n<th class=n>first<th class=n>p50<th class=n>max</tr>");
        let kinds = [
            ("no cache", Some(compile.none)),
            ("into an empty cache", compile.to_cache),
            ("from the cache", compile.from_cache),
        ];
        for (name, times) in kinds {
            if let Some(times) = times {
                out.push_str(&format!(
                    "<tr><td>{name}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}</tr>",
                    times.n,
                    millis(times.first),
                    millis(times.p50),
                    millis(times.max)
                ));
            }
        }
        out.push_str(&format!(
            "</table><p class=sub>{} bytes in the cache</p>",
            compile.cache_bytes
        ));
    }
    if let Some(bisection) = &result.bisection {
        out.push_str(&bisection_of(bisection));
    }
    if let Some(support) = &result.support {
        out.push_str(&support_of(support));
    }
    if !result.stderr_tail.is_empty() {
        out.push_str(&format!(
            "<h3>Standard error and threads</h3><pre>{}</pre>",
            escape(&result.stderr_tail)
        ));
    }
    out
}

/// Other engines' latencies, measured elsewhere.
fn peers<'a>(all: impl Iterator<Item = &'a PeerLatency>) -> String {
    let rows: String = all
        .map(|peer| {
            format!(
                "<tr><td>{}<td class=n>{}<td class=n>{}<td class=n>{}</tr>",
                escape(&peer.engine),
                peer.threads,
                micros(peer.p50_us),
                maybe_micros(peer.p99_us)
            )
        })
        .collect();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<table><tr><th>other engines, measured elsewhere, without copies<th class=n>threads<th class=n>p50<th class=n>p99</tr>{rows}</table>"
    )
}

/// The first operation that differs, in a sentence.
fn bisection_of(bisection: &Bisection) -> String {
    let Some(operation) = bisection.operation else {
        return format!(
            "<p>First wrong operation: none of {} values ({})</p>",
            bisection.compared,
            escape(&bisection.note)
        );
    };
    let first = bisection.first.unwrap_or_default();
    format!(
        "<p class=bad>First wrong operation: {operation} {} (of the file: {}): output {} element {} is {}, expected {}; {} of {} values differ</p>",
        escape(&bisection.op),
        escape(&bisection.source),
        first.output,
        first.index,
        shown(first.actual),
        shown(first.expected),
        bisection.differ,
        bisection.of
    )
}

fn percentiles(rows: &[HistogramRow<'_>], reference: Option<&Latency>) -> String {
    let mut out = String::from(
        "<div class=scroll><table class=wide><tr><th>calls<th class=n>n<th class=n>first<th class=n>min<th class=n>p50<th class=n>p90<th class=n>p95<th class=n>p99<th class=n>p99.9<th class=n>max<th class=n>with copies p50<th class=n>driver p50<th class=n title=\"processor milliseconds of a call, driver and client\">CPU ms<th class=n>against reference</tr>",
    );
    for row in rows {
        let (latency, us) = (row.latency, &row.latency.us);
        let against =
            reference.map_or_else(String::new, |reference| change(us.p50, reference.us.p50));
        let mut note = String::new();
        for word in [latency.note.as_str(), if latency.disturbed { "disturbed" } else { "" }] {
            if !word.is_empty() {
                note.push_str(&format!(" ({})", escape(word)));
            }
        }
        // Seconds of 1000 calls are milliseconds of one.
        let cpu = latency.cpu_s_per_1000;
        out.push_str(&format!(
            "<tr><td>{}{note}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{:.3} + {:.3}<td class=n>{against}</tr>",
            escape(&row.name), latency.n, micros(latency.first_us), micros(us.min), micros(us.p50),
            maybe_micros(us.p90), maybe_micros(us.p95), maybe_micros(us.p99), maybe_micros(us.p999),
            micros(us.max), micros(latency.end_to_end_us.p50),
            latency.driver_us.as_ref().map_or_else(|| "–".to_owned(), |one| micros(one.p50)),
            cpu.driver, cpu.client
        ));
    }
    out.push_str("</table></div>");
    out
}

fn accuracy_of(accuracy: &Accuracy) -> String {
    let class = if accuracy.ok { "good" } else { "bad" };
    let mut out = format!(
        "<p class={class}>{} accuracy: tier {}{}{}{}</p>",
        if accuracy.ok { "✓" } else { "✗" },
        escape(&accuracy.tier),
        if accuracy.deterministic { "" } else { ", not deterministic" },
        if accuracy.modes_agree { "" } else { ", modes differ" },
        if accuracy.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", escape(&accuracy.reason))
        }
    );
    if !accuracy.cases.is_empty() {
        out.push_str("<div class=scroll><table class=wide><tr><th>golden<th>tier<th class=n>differ<th class=n>of<th class=n>largest<th class=n>mean square<th class=n>mean<th>first wrong value</tr>");
        for case in &accuracy.cases {
            let mut first = case.first.map_or_else(String::new, |one| {
                format!(
                    "output {} element {}: {}, expected {}",
                    one.output,
                    one.index,
                    shown(one.actual),
                    shown(one.expected)
                )
            });
            if !case.hint.is_empty() {
                first.push_str(&format!("; {}", escape(&case.hint)));
            }
            out.push_str(&format!(
                "<tr><td>{}<td>{}<td class=n>{}<td class=n>{}<td class=n>{:.3e}<td class=n>{:.3e}<td class=n>{:.3e}<td>{first}</tr>",
                escape(&case.name), escape(&case.tier), case.differ, case.of, case.max_abs, case.mse, case.mae
            ));
        }
        out.push_str("</table></div>");
    }
    for evaluator in &accuracy.evaluators {
        let class = if evaluator.ok { "good" } else { "bad" };
        out.push_str(&format!(
            "<table><tr><th>{} ({})<th class=n>value<th class=n>limit<th class=n>expected<th></tr>",
            escape(&evaluator.name),
            evaluator.n
        ));
        for (name, value) in &evaluator.values {
            let of = |map: &BTreeMap<String, f64>| {
                map.get(name).map_or_else(String::new, |value| format!("{value:.4}"))
            };
            let known = |map: &BTreeMap<String, f64>| map.get(name).copied();
            let bar = svg::bar(*value, known(&evaluator.limits), known(&evaluator.expected));
            out.push_str(&format!(
                "<tr><td class={class}>{}<td class=n>{value:.4}<td class=n>{}<td class=n>{}<td>{bar}</tr>",
                escape(name),
                of(&evaluator.limits),
                of(&evaluator.expected)
            ));
        }
        out.push_str("</table>");
        for warning in &evaluator.warnings {
            out.push_str(&format!("<p class=warn>{}</p>", escape(warning)));
        }
        out.push_str(&wrong_answers(&evaluator.wrong));
    }
    out
}

/// What was answered otherwise: pictures with both answers and their credits, or a list.
fn wrong_answers(wrong: &[WrongAnswer]) -> String {
    if wrong.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=wrong>");
    for one in wrong {
        let picture = if one.thumbnail.starts_with("data:image/") {
            format!("<img alt=\"{}\" src=\"{}\">", escape(&one.name), escape(&one.thumbnail))
        } else {
            String::new()
        };
        out.push_str(&format!(
            "<figure>{picture}<figcaption>{}: {} instead of {}<br><span class=sub>{}</span></figcaption></figure>",
            escape(&one.name),
            escape(&one.actual),
            escape(&one.expected),
            escape(&one.credit)
        ));
    }
    out.push_str("</div>");
    out
}

fn support_of(support: &Support) -> String {
    let mut groups: BTreeMap<(String, String, &str), usize> = BTreeMap::new();
    for op in &support.ops {
        let state = if op.taken { "taken".to_owned() } else { op.why.clone() };
        *groups.entry((op.op.clone(), state, op.device.as_str())).or_default() += 1;
    }
    let mut devices: Vec<_> = support.ops.iter().map(|op| op.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    // A driver that takes the whole model computes all of it.
    let is_split = !support.is_whole();
    let mut out = format!(
        "<details><summary>{} of {} operations taken, {} partitions</summary><table><tr><th>operation<th class=n>count<th>taken or why not{}</tr>",
        support.taken,
        support.of,
        support.partitions,
        if is_split { "<th>computed by" } else { "" }
    );
    for ((op, state, device), count) in groups {
        let at = devices.iter().position(|known| *known == device).unwrap_or(0);
        let colour = ["--a", "--b", "--c", "--d"].get(at % 4).copied().unwrap_or("--a");
        let by = if is_split && !device.is_empty() {
            format!("<td><b style=\"color:var({colour})\">■</b> {}", escape(device))
        } else {
            String::new()
        };
        out.push_str(&format!(
            "<tr><td>{}<td class=n>{count}<td>{}{by}</tr>",
            escape(&op),
            escape(&state)
        ));
    }
    out.push_str("</table></details>");
    out
}

/// Operations over all models: name and types, taken or refused, and how many models need it.
pub(super) fn operations(page: &Page<'_>) -> String {
    let mut out = String::from("<section id=\"operations\"><h2>Operations</h2>");
    for column in page.columns() {
        let mut rows: BTreeMap<(bool, String, String, String), Vec<&str>> = BTreeMap::new();
        for model in page.models() {
            let support = column.result(model).and_then(|result| result.support.as_ref());
            for op in support.into_iter().flat_map(|support| &support.ops) {
                let key = (op.taken, op.op.clone(), op.types.join(" "), op.why.clone());
                let models = rows.entry(key).or_default();
                if models.last() != Some(&model) {
                    models.push(model);
                }
            }
        }
        out.push_str(&format!("<details><summary>{}: refused first</summary><div class=scroll><table><tr><th>operation<th>types<th>taken<th>why not<th class=n>models</tr>", escape(&column.target.name)));
        for ((taken, op, types, why), models) in rows {
            let (letter, class) = if taken { ("✓", "good") } else { ("✗", "bad") };
            out.push_str(&format!(
                "<tr><td>{}<td>{}<td class={class}>{letter}<td>{}<td class=n title=\"{}\">{}</tr>",
                escape(&op),
                escape(&types),
                escape(&why),
                escape(&models.join(" ")),
                models.len()
            ));
        }
        out.push_str("</table></div></details>");
    }
    out.push_str("</section>");
    out
}
