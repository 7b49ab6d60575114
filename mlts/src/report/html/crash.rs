//! The crash matrix: tests by drivers, and below it what failed.

use super::super::schema::CrashReport;
use super::Page;
use super::text::{escape, micros, millis, outcome, seconds};

pub(super) fn matrix(page: &Page<'_>) -> String {
    let columns = page.columns();
    let mut tests: Vec<(&str, &str)> = Vec::new();
    for row in page.runs.iter().flat_map(|run| &run.crash) {
        let key = (row.id.as_str(), row.variant.as_str());
        if !tests.contains(&key) {
            tests.push(key);
        }
    }
    if tests.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<section id=\"crash\"><h2>Crash tests</h2><div class=scroll><table><tr><th>test",
    );
    for column in &columns {
        out.push_str(&format!("<th>{}", escape(&column.target.name)));
    }
    out.push_str("</tr>");
    let mut failures = String::new();
    for (id, variant) in tests {
        let rows = page.runs.iter().flat_map(|run| &run.crash);
        let name = rows.filter(|row| row.id == id).map(|row| row.name.as_str()).next();
        let name = escape(name.unwrap_or_default());
        out.push_str(&format!("<tr><td>{} {name} {}", escape(id), escape(variant)));
        for column in &columns {
            let row = column.run.crash.iter().find(|row| {
                row.target == column.target.id && row.id == id && row.variant == variant
            });
            let Some(row) = row else {
                out.push_str("<td>");
                continue;
            };
            out.push_str(&cell(row));
            if outcome(&row.outcome).1 == "bad" {
                failures.push_str(&failure(row));
            }
        }
        out.push_str("</tr>");
    }
    out.push_str(&format!("</table></div>{failures}</section>"));
    out
}

fn cell(row: &CrashReport) -> String {
    let (letter, class) = outcome(&row.outcome);
    let mut notes = vec![seconds(row.seconds)];
    if row.outcome == "SKIPPED" {
        notes = vec![row.reason.clone()];
    }
    if row.events > 0 && row.outcome == "SUCCESS" {
        notes.push(format!("{} events", row.events));
    }
    for (name, value) in &row.figures {
        notes.push(format!("{} {value:.1}", name.replace('_', " ")));
    }
    if let Some(recovery) = row.recovery_ms {
        notes.push(format!("recovery {} (limit {})", millis(recovery.max), millis(recovery.limit)));
    }
    if let Some(probe) = row.probe {
        notes.push(format!(
            "probe: {} calls, {} failed, gap {}, p99 {} before and {} during",
            probe.calls,
            probe.failed,
            millis(probe.longest_gap_ms),
            micros(probe.p99_before_us),
            micros(probe.p99_during_us)
        ));
    }
    if let Some(rest) = row.rest {
        notes.push(format!(
            "rest: {:.1} to {:.1} MiB, {} to {} descriptors, {} to {} threads",
            rest.rss_mib[0],
            rest.rss_mib[1],
            rest.fds[0],
            rest.fds[1],
            rest.threads[0],
            rest.threads[1]
        ));
    }
    format!(
        "<td><b class={class}>{letter} {}</b> <span class=sub>{}</span>",
        escape(&row.outcome),
        escape(&notes.join(" · "))
    )
}

fn failure(row: &CrashReport) -> String {
    let process = row.process.as_ref().map_or_else(String::new, |one| format!(" {}", escape(one)));
    let mut out = format!(
        "<details open><summary class=bad>{} {}: {}{process}</summary><p>{}</p>",
        escape(&row.id),
        escape(&row.variant),
        escape(&row.outcome),
        escape(&row.reason)
    );
    if !row.kept.is_empty() {
        out.push_str(&format!(
            "<p>Again: <code>nnburst mlts replay {}</code></p>",
            escape(&row.kept)
        ));
    }
    for (name, text) in [("Threads", &row.threads), ("Standard error", &row.stderr_tail)] {
        if !text.is_empty() {
            out.push_str(&format!("<h3>{name}</h3><pre>{}</pre>", escape(text)));
        }
    }
    out.push_str("</details>");
    out
}
