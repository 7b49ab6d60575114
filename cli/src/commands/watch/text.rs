//! A service for people: no line is longer than 60 columns.

use std::io::Write;

use super::report::{ClientReport, Doing, ServiceReport, WorkReport};
use crate::failure::Failure;

/// The columns of a small terminal, and of a pane beside another.
const COLUMNS: usize = 60;

pub(super) fn print(report: &ServiceReport, out: &mut dyn Write) -> Result<(), Failure> {
    let ServiceReport { service, pid, age_s, .. } = report;
    let memory = report.resident_bytes.map_or_else(|| "-".to_owned(), bytes);
    line(&format!("{service}: pid {pid}, up {}, {memory}", time(*age_s)), out)?;
    let whose = if report.is_whole { "of all users" } else { "of this user" };
    let clients = match report.clients.len() {
        1 => "1 client".to_owned(),
        several => format!("{several} clients"),
    };
    let mut about = vec![format!("{clients} {whose}")];
    about.extend(counts(&report.doing));
    list("", &about, out)?;
    list("refused: ", &refusals(report), out)?;
    if report.clients.iter().any(|client| !client.works.is_empty()) {
        line(&row(["", "per s", "p50 us", "p99", "max", "late", "q"].map(str::to_owned)), out)?;
    }
    for client in &report.clients {
        print_client(client, out)?;
    }
    if report.left_out > 0 {
        line(&format!("  and {} models and bursts more", report.left_out), out)?;
    }
    Ok(())
}

fn print_client(client: &ClientReport, out: &mut dyn Write) -> Result<(), Failure> {
    let used = |resource: &str| client.resources.get(resource).map_or(0, |it| it.used);
    let refused: u64 = client.refused.values().sum();
    let ClientReport { pid, uid, client: name, waiting_calls, works, .. } = client;
    let (memory, descriptors) = (bytes(used("bytes_of_memory")), used("file_descriptors"));
    let refused =
        if refused > 0 { format!(", {} refused", compact(refused)) } else { String::new() };
    let waiting = match waiting_calls {
        0 => String::new(),
        calls => format!(", {} waiting", compact(*calls)),
    };
    let name = shortened(name, 15);
    line(&format!("{pid} {name} uid {uid}: {memory}, {descriptors} fds{waiting}{refused}"), out)?;
    for WorkReport { kind, model, priority, queue_depth, memory_bytes, doing, .. } in works {
        let priority = priority.unwrap_or("").to_lowercase();
        let cells = [
            format!("{kind} {priority}"),
            rate(doing.rate_per_s),
            figure(doing.p50_us),
            figure(doing.p99_us),
            figure(doing.max_us),
            compact(doing.missed_deadlines),
            queue_depth.to_string(),
        ];
        line(&row(cells), out)?;
        let memory = memory_bytes.map_or_else(String::new, |memory| format!("{}, ", bytes(memory)));
        line(&format!("    {memory}{model}"), out)?;
    }
    Ok(())
}

fn row(cells: [String; 7]) -> String {
    let [what, rate, p50, p99, max, late, queue] = cells;
    format!("  {what:<12} {rate:>8} {p50:>8} {p99:>8} {max:>8} {late:>5} {queue:>3}")
}

fn line(text: &str, out: &mut dyn Write) -> Result<(), Failure> {
    Ok(writeln!(out, "{}", shortened(text, COLUMNS).trim_end())?)
}

/// Parts of a list, in as many lines as they take; nothing where there are none.
fn list(heading: &str, parts: &[String], out: &mut dyn Write) -> Result<(), Failure> {
    let mut text = format!("  {heading}");
    let mut indent = text.len();
    for (number, part) in (1..).zip(parts) {
        let separator = if number < parts.len() { ", " } else { "" };
        let width = text.chars().count() + part.chars().count() + separator.trim_end().len();
        if text.len() > indent && width > COLUMNS {
            line(&text, out)?;
            text = "    ".to_owned();
            indent = text.len();
        }
        text.push_str(part);
        text.push_str(separator);
    }
    if parts.is_empty() { Ok(()) } else { line(&text, out) }
}

/// The beginning of a text that is too long, with a mark.
fn shortened(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['\u{2026}']).collect()
}

fn counts(doing: &Doing) -> [String; 3] {
    let Doing { executions, failures, missed_deadlines, .. } = doing;
    let [all, failed, late] = [*executions, *failures, *missed_deadlines].map(compact);
    [format!("{all} executions"), format!("{failed} failed"), format!("{late} late")]
}

/// The refusals of a service, most frequent first.
fn refusals(report: &ServiceReport) -> Vec<String> {
    let of_budgets = report.resources.iter().map(|(name, it)| (name.replace('_', " "), it.refused));
    let of_calls = report.refused.iter().map(|(&status, &count)| (status.to_owned(), count));
    let mut all: Vec<_> = of_budgets.chain(of_calls).filter(|&(_, count)| count > 0).collect();
    all.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    all.iter().map(|(why, count)| format!("{} {why}", compact(*count))).collect()
}

/// A count in five places at most.
pub(super) fn compact(count: u64) -> String {
    match count {
        0..100_000 => count.to_string(),
        100_000..10_000_000 => format!("{}k", count / 1000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

fn rate(per_s: f64) -> String {
    if per_s < 100_000.0 { format!("{per_s:.1}") } else { format!("{:.0}k", per_s / 1e3) }
}

/// Microseconds in eight places at most.
fn figure(microseconds: f64) -> String {
    if microseconds < 1e8 {
        crate::table::figure(microseconds)
    } else {
        format!("{:.0}s", microseconds / 1e6)
    }
}

#[expect(clippy::cast_precision_loss, reason = "for the eye")]
fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        few if few < 1024.0 * 1024.0 => format!("{:.0} KiB", few / 1024.0),
        some if some < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", some / 1024.0 / 1024.0),
        many => format!("{:.1} GiB", many / 1024.0 / 1024.0 / 1024.0),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time for the eye")]
fn time(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nnburst::hal::Latencies;

    use super::super::report::ResourceReport;
    use super::*;

    #[test]
    fn nothing_is_wider_than_a_small_terminal() {
        let doing = || Doing {
            executions: u64::MAX,
            failures: u64::MAX,
            missed_deadlines: 999_999,
            window_s: 1.0,
            rate_per_s: 9_999_999.9,
            p50_us: 1e12,
            p90_us: 1e12,
            p99_us: 99_999_999.4,
            p999_us: 1e12,
            max_us: 1e13,
        };
        let resources = || {
            let use_ = ResourceReport { used: 1 << 50, limit: None, refused: u64::MAX };
            BTreeMap::from([("bytes_of_memory".to_owned(), use_)])
        };
        let work = WorkReport {
            kind: "burst",
            object: 1,
            model: "m".repeat(100),
            priority: Some("MEDIUM"),
            age_s: 1.0,
            queue_depth: 64,
            memory_bytes: Some(1 << 50),
            doing: doing(),
            times: Latencies::default(),
        };
        let client = ClientReport {
            connection: u64::MAX,
            pid: i32::MAX,
            uid: u32::MAX,
            client: "c".repeat(64),
            age_s: 1e9,
            resources: resources(),
            doing: doing(),
            refused: BTreeMap::from([("INVALID_ARGUMENT", u64::MAX)]),
            waiting_calls: u64::MAX,
            works: vec![work],
        };
        let report = ServiceReport {
            service: "s".repeat(64),
            time_s: 0.0,
            pid: u32::MAX,
            age_s: 1e9,
            resident_bytes: Some(1 << 50),
            is_whole: false,
            resources: resources(),
            doing: doing(),
            refused: [
                "INVALID_ARGUMENT",
                "OUTPUT_INSUFFICIENT_SIZE",
                "RESOURCE_EXHAUSTED_TRANSIENT",
            ]
            .map(|status| (status, u64::MAX))
            .into(),
            clients: vec![client],
            left_out: u64::MAX,
            times: Latencies::default(),
        };
        let mut out = Vec::new();
        print(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
        assert!(text.contains("burst medium"), "{text}");
        // Lists go on in the next line rather than end with a mark.
        for whole in ["999k late\n", "G RESOURCE_EXHAUSTED_TRANSIENT\n", "G bytes of memory,\n"] {
            assert!(text.contains(whole), "{whole}: {text}");
        }
    }

    #[test]
    fn figures_are_short() {
        assert_eq!([1, 99_999, 100_000, 12_345_678].map(compact), ["1", "99999", "100k", "12M"]);
        assert_eq!([59.9, 61.0, 3600.0, 90_000.0].map(time), ["59s", "1m01s", "1h00m", "1d01h"]);
        assert_eq!([2048, 3 << 20, 5 << 30].map(bytes), ["2 KiB", "3.0 MiB", "5.0 GiB"]);
    }
}
