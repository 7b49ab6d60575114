//! The summary for ten seconds, and the table of all models.

use super::super::schema::{ModelResult, Report};
use super::text::{anchor, change, escape, maybe_micros, micros, millis, outcome};
use super::{Column, Page};
use crate::num::real;

/// Name, machine, verdict, first reasons, four tiles.
pub(super) fn header(page: &Page<'_>, run: &Report) -> String {
    let mut out = String::from("<header>");
    for target in &run.targets {
        let about = &target.about;
        out.push_str(&format!(
            "<h1>{}</h1><p class=sub>{} {} · API level {} · {} · {} · {}</p>",
            escape(&target.name),
            escape(&about.device),
            escape(&about.version),
            about.level,
            escape(&target.how),
            escape(&run.host.cpu),
            escape(&run.started)
        ));
        if !target.unreachable.is_empty() {
            out.push_str(&format!("<p class=bad>not reached: {}</p>", escape(&target.unreachable)));
        }
    }
    let class = if run.verdict == "PASS" { "good" } else { "bad" };
    out.push_str(&format!("<p class=\"verdict {class}\">{}</p>", escape(&run.verdict)));
    if !run.reasons.is_empty() {
        out.push_str("<ol>");
        for reason in run.reasons.iter().take(3) {
            out.push_str(&format!("<li>{}</li>", escape(reason)));
        }
        out.push_str("</ol>");
        if run.reasons.len() > 3 {
            out.push_str(&format!("<p class=sub>and {} more below</p>", run.reasons.len() - 3));
        }
    }
    for column in Report::columns(run) {
        out.push_str(&tiles(page, column));
    }
    let mut warnings = run.host.doctor.clone();
    if run.host.load1[0] > real(run.host.cores) {
        warnings.push(format!(
            "load {:.1} on {} cores when the run began",
            run.host.load1[0], run.host.cores
        ));
    }
    if run.host.steal_pct > 1.0 {
        warnings
            .push(format!("{:.1} % of the time was kept by the hypervisor", run.host.steal_pct));
    }
    for warning in warnings {
        out.push_str(&format!("<p class=warn>{}</p>", escape(&warning)));
    }
    out.push_str("</header>");
    out
}

fn tiles(page: &Page<'_>, column: Column<'_>) -> String {
    let results: Vec<_> = column
        .run
        .models
        .iter()
        .filter_map(|model| model.per_target.get(&column.target.id))
        .collect();
    let judged: Vec<_> = results.iter().filter_map(|result| result.accuracy.as_ref()).collect();
    let right = judged.iter().filter(|accuracy| accuracy.ok).count();
    let ratios: Vec<f64> = results.iter().filter_map(|result| ratio(result)).collect();
    let mean =
        |list: &[f64]| (list.iter().map(|one| one.ln()).sum::<f64>() / real(list.len())).exp();
    let speed =
        if ratios.is_empty() { "–".to_owned() } else { format!("{:.2} ×", mean(&ratios)) };
    // Differences from the baseline are those of the first run.
    let is_first = page.runs.first().is_some_and(|first| std::ptr::eq(first, column.run));
    let changes = page.comparison.iter().filter(|_| is_first).flat_map(|all| &all.latencies);
    let changes: Vec<f64> = changes
        .filter(|change| change.p50_us.iter().all(|us| *us > 0.0))
        .map(|change| change.p50_us[1] / change.p50_us[0])
        .collect();
    let baseline = if changes.is_empty() {
        String::new()
    } else {
        format!("; {:.2} × the baseline's", mean(&changes))
    };
    let taken: usize =
        results.iter().filter_map(|result| result.support.as_ref()).map(|one| one.taken).sum();
    let of: usize =
        results.iter().filter_map(|result| result.support.as_ref()).map(|one| one.of).sum();
    let rows: Vec<_> = column
        .run
        .crash
        .iter()
        .filter(|row| row.target == column.target.id && row.outcome != "SKIPPED")
        .collect();
    let passed = rows.iter().filter(|row| row.outcome == "SUCCESS").count();
    let worst =
        rows.iter().filter_map(|row| row.recovery_ms).map(|one| one.max).fold(0.0, f64::max);
    format!(
        "<div class=tiles>\
         <div class=tile><b>{right} / {}</b><span>models right</span></div>\
         <div class=tile><b>{speed}</b><span>{}{baseline}</span></div>\
         <div class=tile><b>{taken} / {of}</b><span>operations taken</span></div>\
         <div class=tile><b>{passed} / {}</b><span>crash tests passed{}</span></div></div>",
        judged.len(),
        if column.run.reference.is_empty() {
            "latency: no reference device".to_owned()
        } else {
            format!("of {}'s time (geometric mean of p50)", escape(&column.run.reference))
        },
        rows.len(),
        if worst > 0.0 { format!(", worst recovery {}", millis(worst)) } else { String::new() }
    )
}

/// The best mode's median as a share of the reference's.
fn ratio(result: &ModelResult) -> Option<f64> {
    let reference = result.reference_latency.as_ref()?.us.p50;
    let own = result
        .latency
        .values()
        .filter(|one| one.note.is_empty())
        .map(|one| one.us.p50)
        .fold(f64::INFINITY, f64::min);
    (reference > 0.0 && own.is_finite()).then_some(own / reference)
}

/// A cell for each model and crash test, with a letter, linking down.
pub(super) fn strip(page: &Page<'_>) -> String {
    let mut out = String::new();
    for column in page.columns() {
        out.push_str(&format!("<p class=sub>{}</p><nav class=strip>", escape(&column.target.name)));
        out.push_str("<span class=sub>models</span>");
        for model in page.models() {
            let Some(result) = column.result(model) else { continue };
            out.push_str(&cell(&anchor("model", model), model, &result.outcome));
        }
        out.push_str("<span class=sub>crash tests</span>");
        for row in column.run.crash.iter().filter(|row| row.target == column.target.id) {
            let name = format!("{} {}", row.id, row.variant);
            out.push_str(&cell("crash", name.trim(), &row.outcome));
        }
        out.push_str("</nav>");
    }
    out
}

fn cell(link: &str, name: &str, result: &str) -> String {
    let (letter, class) = outcome(result);
    let name = escape(name);
    format!(
        "<a class={class} href=\"#{link}\" title=\"{name}: {result}\" aria-label=\"{name}: {result}\">{letter}</a>"
    )
}

/// A row for each model and driver.
pub(super) fn table(page: &Page<'_>) -> String {
    let baseline = if page.comparison.is_some() { "<th class=n>against baseline" } else { "" };
    let driver = if page.columns().len() > 1 { "<th>driver" } else { "" };
    let peers = if page.has_peers() { "<th class=n>best peer" } else { "" };
    let mut out = format!(
        "<section><h2>Models</h2><div class=scroll><table class=wide><tr><th>model{driver}<th>outcome<th class=n>taken<th>accuracy<th class=n>p50 burst<th class=n>p99 burst<th class=n>overhead<th class=n>against reference{baseline}{peers}<th class=n>compile<th class=n>from cache<th class=n>driver MiB</tr>",
    );
    for model in page.models() {
        for column in page.columns() {
            if let Some(result) = column.result(model) {
                out.push_str(&row(page, column, model, result));
            }
        }
    }
    out.push_str("</table></div></section>");
    out
}

fn row(page: &Page<'_>, column: Column<'_>, model: &str, result: &ModelResult) -> String {
    let (letter, class) = outcome(&result.outcome);
    let (mode, latency) = match result.latency.get_key_value("burst") {
        Some((mode, latency)) => (mode.as_str(), Some(latency)),
        None => match result.latency.iter().next() {
            Some((mode, latency)) => (mode.as_str(), Some(latency)),
            None => ("", None),
        },
    };
    let taken = result.support.as_ref().map_or_else(String::new, |one| {
        let partly = if one.is_whole() { "" } else { " partly" };
        format!("{}/{}{partly}", one.taken, one.of)
    });
    let accuracy = result.accuracy.as_ref().map_or_else(String::new, |one| {
        format!("{} {}", if one.ok { "✓" } else { "✗" }, escape(&one.tier))
    });
    let baseline = page.comparison.as_ref().and_then(|all| {
        all.latencies.iter().find(|change| change.model == model && change.mode == mode)
    });
    let baseline = baseline.map_or_else(String::new, |known| {
        let [old, new] = known.p50_us;
        let class = match (known.is_worse, known.is_significant) {
            (true, _) => "bad",
            (false, true) => "good",
            (false, false) => "none",
        };
        format!("<span class={class}>{}</span>", change(new, old))
    });
    let baseline = match &page.comparison {
        Some(_) => format!("<td class=n>{baseline}"),
        None => String::new(),
    };
    let driver = if page.columns().len() > 1 {
        format!("<td>{}", escape(&column.target.name))
    } else {
        String::new()
    };
    let against = latency.zip(result.reference_latency.as_ref());
    let against =
        against.map_or_else(String::new, |(own, reference)| change(own.us.p50, reference.us.p50));
    let peers = match (page.has_peers(), page.best_peer(model)) {
        (false, _) => String::new(),
        (true, None) => "<td class=n>".to_owned(),
        (true, Some(peer)) => format!(
            "<td class=n title=\"{}\">{} {}",
            escape(&peer.engine),
            micros(peer.p50_us),
            latency.map_or_else(String::new, |own| change(own.us.p50, peer.p50_us))
        ),
    };
    let compile = result.compile_ms.as_ref();
    format!(
        "<tr><td class=name><a href=\"#{}\">{}</a>{driver}<td class={class}>{letter} {}<td class=n>{taken}<td>{accuracy}<td class=n>{}{}<td class=n>{}<td class=n>{}<td class=n>{against}{baseline}{peers}<td class=n>{}<td class=n>{}<td class=n>{:.0}</tr>",
        anchor("model", model),
        escape(model),
        escape(&result.outcome),
        latency.map_or_else(String::new, |one| micros(one.us.p50)),
        latency.map_or("", |one| if one.steady { "" } else { " not steady" }),
        latency.map_or_else(String::new, |one| maybe_micros(one.us.p99)),
        latency
            .and_then(|one| one.overhead_us.as_ref())
            .map_or_else(String::new, |one| micros(one.p50)),
        compile.map_or_else(String::new, |one| millis(one.none.p50)),
        compile.and_then(|one| one.from_cache).map_or_else(String::new, |one| millis(one.p50)),
        result.rss_mib.driver
    )
}
