//! The coordinator's part of the crash tests: who is started, killed, restarted and looked at when.

mod clients;
mod kills;
mod probe;
mod resources;

use std::collections::BTreeMap;
use std::time::Duration;

use super::catalogue::CrashTest;
use super::context::RunContext;
use super::replay;
use crate::data::ModelEntry;
use crate::error::MltsError;
use crate::num::{median, real_u64};
use crate::protocol::{CrashWork, Task};
use crate::report::{CrashReport, Recovery};
use crate::run::{Ended, OnReady, Outcome, TestedDriver};
use crate::target::Target;
use probe::{Prober, judge_probe};
use resources::{Pressure, rest};

/// A crash test on a target.
struct TestRun<'a> {
    context: &'a RunContext,
    target: &'a Target,
    id: &'a str,
    test: &'a CrashTest,
    models: &'a [ModelEntry],
}

/// Runs a crash test; c14 has a row for each kind of call, and those of c15.
pub(super) fn run(
    context: &RunContext,
    target: &Target,
    id: &str,
    test: &CrashTest,
    models: &[ModelEntry],
) -> Vec<CrashReport> {
    let run = TestRun { context, target, id, test, models };
    let rows = match test.id {
        "c01" => run.simple("stress", &[]),
        "c02" if target.is_in_worker() => run.simple("stress", &[]),
        "c02" => Ok(vec![run.skipped("not offered: the driver in the client's process")]),
        "c03" => run.client_killed(),
        "c04" => run.processes("stress"),
        "c05" => run.processes("load"),
        "c06" => run.simple("mapped", &[]),
        "c07" => run.simple("graphs", &[("what", "load")]),
        "c08" => run.simple("graphs", &[]),
        "c09" => run.simple("degradation", &[]),
        "c10" => run.simple("mutations", &[]),
        "c11" => run.simple("requests", &[]),
        "c12" => run.simple("memory-lies", &[]),
        "c13" => run.simple("burst-lies", &[]),
        "c14" => run.driver_killed(),
        "c16" => run.pressure(Pressure::Memory),
        "c17" => run.pressure(Pressure::Descriptors),
        "c18" => run.simple("deadlines", &[]),
        "c19" => run.simple("priorities", &[]),
        "c20" => run.simple("cache-lies", &[]),
        "c21" => run.leak(),
        "c22" => run.endurance(),
        _ => Ok(vec![run.skipped("unknown")]),
    };
    let mut rows = rows.unwrap_or_else(|error| {
        vec![CrashReport {
            outcome: Outcome::Failure.name().to_owned(),
            reason: error.to_string(),
            ..run.row("")
        }]
    });
    for row in &mut rows {
        let is_bad = matches!(row.outcome.as_str(), "FAILURE" | "HANG" | "CRASH");
        if is_bad && row.kept.is_empty() {
            // What the coordinator found: the whole test is run again.
            let job = context.job(target, Task::Crash(run.work("", &[])));
            row.kept = replay::keep(context, row, &job, None).unwrap_or_default();
        }
    }
    rows
}

impl TestRun<'_> {
    fn row(&self, variant: &str) -> CrashReport {
        CrashReport {
            id: self.test.id.to_owned(),
            name: self.test.name.to_owned(),
            variant: variant.to_owned(),
            target: self.id.to_owned(),
            ..CrashReport::default()
        }
    }

    fn skipped(&self, why: &str) -> CrashReport {
        let outcome = Outcome::Skipped.name().to_owned();
        CrashReport { outcome, reason: why.to_owned(), ..self.row("") }
    }

    fn work(&self, part: &str, extra: &[(&str, &str)]) -> CrashWork {
        let extra = extra.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        CrashWork {
            part: part.to_owned(),
            ms: self.ms(),
            count: self.test.count(self.context.budget),
            models: self.models.to_vec(),
            extra: extra.collect::<BTreeMap<_, _>>(),
        }
    }

    /// The test's time: the budget's, or the user's for the endurance test.
    fn ms(&self) -> u64 {
        match self.context.soak.filter(|_| self.test.id == "c22") {
            Some(soak) => u64::try_from(soak.as_millis()).unwrap_or(u64::MAX),
            None => self.test.ms(self.context.budget),
        }
    }

    fn supervised<'a>(
        &'a self,
        work: CrashWork,
        driver: &mut TestedDriver,
        on_ready: Option<OnReady<'a>>,
    ) -> Result<Ended, MltsError> {
        let planned = self.test.seconds(self.context.budget) * 2.0;
        let planned = Duration::from_secs_f64(planned) + Duration::from_millis(self.ms());
        self.context.work(self.target, Task::Crash(work), driver, planned, on_ready)
    }

    /// The row of a piece of work; a failure is kept for `replay`.
    fn report(&self, variant: &str, work: &CrashWork, ended: &Ended) -> CrashReport {
        let mut row = CrashReport {
            outcome: ended.outcome.name().to_owned(),
            process: ended.process.clone(),
            reason: ended.reason.clone(),
            seconds: ended.seconds,
            events: ended.value["events"].as_u64().unwrap_or(ended.steps),
            figures: serde_json::from_value(ended.value["figures"].clone()).unwrap_or_default(),
            ..self.row(variant)
        };
        if !matches!(ended.outcome, Outcome::Success | Outcome::Skipped | Outcome::Aborted) {
            row.threads.clone_from(&ended.threads);
            row.stderr_tail.clone_from(&ended.stderr);
            if let Some(case) = ended.parts.get("case") {
                row.reason = format!("{}; in {case}", row.reason);
            }
            let job = self.context.job(self.target, Task::Crash(work.clone()));
            row.kept = replay::keep(self.context, &row, &job, Some(ended)).unwrap_or_default();
        }
        row
    }

    /// One worker does it all, with a probe beside it where the driver serves several.
    fn simple(&self, part: &str, extra: &[(&str, &str)]) -> Result<Vec<CrashReport>, MltsError> {
        self.simple_with(TestedDriver::start(self.target)?, part, extra)
    }

    /// The same with a driver that was started already.
    fn simple_with(
        &self,
        mut driver: TestedDriver,
        part: &str,
        extra: &[(&str, &str)],
    ) -> Result<Vec<CrashReport>, MltsError> {
        let work = self.work(part, extra);
        let before = driver.usage();
        let probe = Prober::start(self, &driver);
        let ended = self.supervised(work.clone(), &mut driver, None)?;
        let mut row = self.report("", &work, &ended);
        row.probe = probe.map(Prober::finish);
        if row.outcome == "SUCCESS" {
            judge_probe(&mut row);
            if self.target.is_shared() {
                row.rest = rest(&mut row, before, &driver);
            }
        }
        Ok(vec![row])
    }
}

fn since_ms(from_ns: u64, to_ns: u64) -> f64 {
    real_u64(to_ns.saturating_sub(from_ns)) / 1e6
}

fn recovery(all: &[f64], limit: f64, start: f64) -> Option<Recovery> {
    let max = all.iter().copied().fold(0.0, f64::max);
    (!all.is_empty()).then(|| Recovery { n: all.len(), p50: median(all), max, limit, start })
}
