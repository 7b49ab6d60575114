//! `nnburst top` and `nnburst dump`: the bursts of the services that run, and how they are doing.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use nnburst::{ServiceBurst, Watched};
use serde::Serialize;

use crate::args::{DumpArgs, TopArgs};
use crate::failure::Failure;
use crate::table::{TextTable, figure};

/// A burst as it is told. Times are those in the driver, over the burst's life.
#[derive(Debug, Serialize)]
struct Report {
    service: String,
    pid: i32,
    uid: u32,
    client: String,
    connection: u64,
    burst: u64,
    model: String,
    /// Requests a second: since the last look, or over the burst's life at the first.
    rate_per_s: f64,
    executions: u64,
    failures: u64,
    missed_deadlines: u64,
    queue_depth: u32,
    age_s: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}

/// Services that are looked at again and again.
#[derive(Debug, Default)]
struct Looker {
    /// Executions of each burst at the last look.
    last: HashMap<(String, u64, u64), (Instant, u64)>,
}

/// Renews a table until it is stopped.
pub(crate) fn top(args: &TopArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut looker = Looker::default();
    let clears = std::io::stdout().is_terminal();
    let mut looks = 0;
    loop {
        let reports = looker.look(args.service.as_deref())?;
        if clears {
            // To the upper left corner, and nothing below it.
            write!(out, "\x1b[H\x1b[2J")?;
        }
        write!(out, "{}", table(&reports))?;
        out.flush()?;
        looks += 1;
        if args.rounds.is_some_and(|rounds| looks >= rounds) {
            return Ok(());
        }
        std::thread::sleep(args.interval);
    }
}

/// Prints what there is now.
pub(crate) fn dump(args: &DumpArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let reports = Looker::default().look(args.service.as_deref())?;
    if !args.json {
        return Ok(write!(out, "{}", table(&reports))?);
    }
    for report in &reports {
        let line = serde_json::to_string(report)
            .map_err(|error| Failure::check(format!("the report: {error}")))?;
        writeln!(out, "{line}")?;
    }
    Ok(())
}

impl Looker {
    /// All bursts of one service, or of all; of these, one that is gone must not hide the others.
    fn look(&mut self, service: Option<&str>) -> Result<Vec<Report>, Failure> {
        let mut reports = Vec::new();
        let mut seen = HashMap::new();
        if let Some(service) = service {
            self.service(service, &mut reports, &mut seen)?;
        } else {
            for service in nnburst::services()? {
                if let Err(failure) = self.service(&service, &mut reports, &mut seen) {
                    crate::failure::warn(&failure.message);
                }
            }
        }
        self.last = seen;
        Ok(reports)
    }

    fn service(
        &self,
        service: &str,
        reports: &mut Vec<Report>,
        seen: &mut HashMap<(String, u64, u64), (Instant, u64)>,
    ) -> Result<(), Failure> {
        // Anew each time: a service may have been started again.
        for burst in Watched::connect(service)?.bursts()? {
            let key = (service.to_owned(), burst.connection, burst.burst);
            let now = (Instant::now(), burst.figures.executions);
            let (done, within) = match self.last.get(&key) {
                Some(&(then, before)) => {
                    (now.1.saturating_sub(before), now.0.saturating_duration_since(then))
                }
                None => (now.1, burst.figures.age),
            };
            reports.push(report(service, burst, rate(done, within)));
            seen.insert(key, now);
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for the eye")]
fn rate(done: u64, within: Duration) -> f64 {
    let seconds = within.as_secs_f64();
    if seconds > 0.0 { (done as f64 / seconds * 10.0).round() / 10.0 } else { 0.0 }
}

fn report(service: &str, burst: ServiceBurst, rate_per_s: f64) -> Report {
    let figures = burst.figures;
    // To the nanosecond that it was recorded in, without what a binary fraction adds.
    let microseconds = |time: Duration| (time.as_secs_f64() * 1e9).round() / 1e3;
    Report {
        service: service.to_owned(),
        pid: burst.pid,
        uid: burst.uid,
        client: burst.client,
        connection: burst.connection,
        burst: burst.burst,
        model: burst.model,
        rate_per_s,
        executions: figures.executions,
        failures: figures.failures,
        missed_deadlines: figures.missed_deadlines,
        queue_depth: figures.queue_depth,
        age_s: figures.age.as_secs_f64(),
        p50_us: microseconds(figures.p50),
        p99_us: microseconds(figures.p99),
        p999_us: microseconds(figures.p999),
        max_us: microseconds(figures.max),
    }
}

fn table(reports: &[Report]) -> TextTable {
    let mut table = TextTable::new(&[
        "service", "pid", "client", "model", "per s", "p50 us", "p99", "p99.9", "max", "missed",
        "failed", "depth",
    ]);
    for report in reports {
        table.row([
            report.service.clone(),
            report.pid.to_string(),
            printable(&report.client),
            printable(&report.model),
            format!("{:.1}", report.rate_per_s),
            figure(report.p50_us),
            figure(report.p99_us),
            figure(report.p999_us),
            figure(report.max_us),
            report.missed_deadlines.to_string(),
            report.failures.to_string(),
            report.queue_depth.to_string(),
        ]);
    }
    table
}

/// A process calls itself what it likes; a terminal must not obey it.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
