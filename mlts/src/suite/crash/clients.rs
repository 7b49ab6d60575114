//! Clients that die: c03, c04 and c05.

use std::process::Child;
use std::time::{Duration, Instant};

use super::probe::{Prober, judge_probe};
use super::resources::rest;
use super::{TestRun, recovery, since_ms};
use crate::data::Random;
use crate::error::MltsError;
use crate::protocol::{CrashWork, monotonic_ns};
use crate::report::CrashReport;
use crate::run::{End, Ended, Outcome, TestedDriver};

/// The limit of a living driver's recovery.
const RECOVERY_MS: f64 = 1000.0;

impl TestRun<'_> {
    /// c03: clients are killed while they are busy.
    pub(super) fn client_killed(&self) -> Result<Vec<CrashReport>, MltsError> {
        if self.target.is_in_worker() {
            return Ok(vec![self.skipped("not offered: a driver in a process of its own")]);
        }
        let kinds = ["compile", "pending", "fence"];
        let mut random = Random(self.context.seed);
        let mut row = self.row("");
        let begun = Instant::now();
        let mut recoveries = Vec::new();
        let mut driver = TestedDriver::start(self.target)?;
        let before = driver.usage();
        let probe = Prober::start(self, &driver);
        for kill in 0..self.test.count(self.context.budget) {
            let Some(&what) = kinds.get(kill % kinds.len()) else { break };
            let work = CrashWork { count: 4, ..self.work("busy", &[("what", what)]) };
            let delay = Duration::from_millis(20 + u64::from(random.below(280)));
            let mut killed_ns = 0;
            let mut on_ready = |_: &str, _: &mut TestedDriver, worker: &mut Child| {
                std::thread::sleep(delay);
                killed_ns = monotonic_ns();
                // It is alive: it has just reported.
                let _ = worker.kill();
            };
            let ended = self.supervised(work.clone(), &mut driver, Some(&mut on_ready))?;
            let is_planned =
                ended.outcome == Outcome::Crash && ended.process.as_deref() == Some("client");
            if ended.outcome == Outcome::Skipped && what == "fence" {
                continue;
            }
            if !is_planned || killed_ns == 0 {
                let mut failed = self.report(what, &work, &ended);
                failed.seconds = begun.elapsed().as_secs_f64();
                return Ok(vec![failed]);
            }
            match self.after_client(&mut driver, killed_ns) {
                Ok(ms) => recoveries.push(ms),
                Err((outcome, why)) => {
                    row.variant = what.to_owned();
                    outcome.name().clone_into(&mut row.outcome);
                    row.process = (outcome == Outcome::Crash).then(|| "driver".to_owned());
                    row.reason = format!("a client killed in {what}: {why}");
                    row.stderr_tail = driver.stderr_tail(outcome == Outcome::Crash);
                    row.seconds = begun.elapsed().as_secs_f64();
                    return Ok(vec![row]);
                }
            }
            row.events += 1;
        }
        Outcome::Success.name().clone_into(&mut row.outcome);
        row.recovery_ms = recovery(&recoveries, RECOVERY_MS, 0.0);
        row.probe = probe.map(Prober::finish);
        judge_probe(&mut row);
        if row.outcome == "SUCCESS" && self.target.is_shared() {
            row.rest = rest(&mut row, before, &driver);
        }
        row.seconds = begun.elapsed().as_secs_f64();
        Ok(vec![row])
    }

    /// After a client's death: a driver of one client ends, one of several answers the next.
    fn after_client(
        &self,
        driver: &mut TestedDriver,
        killed_ns: u64,
    ) -> Result<f64, (Outcome, String)> {
        if !self.target.is_shared() {
            let end = driver.wait(Duration::from_secs(1));
            let ms = since_ms(killed_ns, monotonic_ns());
            return match end {
                None => {
                    let why = "its driver still runs a second later".to_owned();
                    driver.stop();
                    Err((Outcome::Failure, why))
                }
                Some(End::Bad(how)) if how.starts_with("SIG") => {
                    Err((Outcome::Crash, format!("its driver ended by {how}")))
                }
                Some(_) => {
                    driver.stop();
                    Ok(ms)
                }
            };
        }
        let failed = |error: MltsError| (Outcome::Failure, error.to_string());
        let ended = self.supervised(self.work("answer", &[]), driver, None).map_err(failed)?;
        match ended.outcome {
            Outcome::Success => {
                let answered = ended.parts.get("answered_ns").and_then(serde_json::Value::as_u64);
                Ok(since_ms(killed_ns, answered.unwrap_or_else(monotonic_ns)))
            }
            outcome => Err((outcome, format!("a new client: {}", ended.reason))),
        }
    }

    /// c04, c05: processes of threads, without suicides and with four in five.
    pub(super) fn processes(&self, part: &str) -> Result<Vec<CrashReport>, MltsError> {
        let mut rows = Vec::new();
        for (variant, share) in [("0%", 0_u32), ("80%", 80)] {
            let driver = TestedDriver::start(self.target)?;
            let before = driver.usage();
            let probe = Prober::start(self, &driver);
            let mut random = Random(self.context.seed.wrapping_add(share.into()));
            let begun = Instant::now();
            let processes = self.test.count(self.context.budget);
            let results: Vec<_> = std::thread::scope(|scope| {
                let handles: Vec<_> = (0..processes)
                    .map(|_| {
                        let dies = random.below(100) < share;
                        let ms =
                            u32::try_from(self.test.ms(self.context.budget)).unwrap_or(u32::MAX);
                        // Not before it has begun, not after it is over.
                        let after = (ms / 8 + random.below(ms / 2)).to_string();
                        let extra = [("suicide_ms", after.as_str())];
                        let extra = if dies { &extra[..] } else { &[] };
                        let work = CrashWork { count: 2, ..self.work(part, extra) };
                        let driver = &driver;
                        scope.spawn(move || (dies, self.child(work, driver)))
                    })
                    .collect();
                handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
            });
            let mut row = self.row(variant);
            Outcome::Success.name().clone_into(&mut row.outcome);
            for (dies, result) in results {
                let (work, ended) = result?;
                row.events += ended.value["events"].as_u64().unwrap_or(0);
                let client_died =
                    ended.outcome == Outcome::Crash && ended.process.as_deref() != Some("driver");
                let is_good = ended.outcome == Outcome::Success || (dies && client_died);
                // What one process can't have, none of them can.
                let is_first = row.outcome == "SUCCESS" || ended.outcome == Outcome::Skipped;
                if !is_good && is_first {
                    row = self.report(variant, &work, &ended);
                }
            }
            row.seconds = begun.elapsed().as_secs_f64();
            row.probe = probe.map(Prober::finish);
            if row.outcome == "SUCCESS" {
                judge_probe(&mut row);
            }
            if row.outcome == "SUCCESS" && self.target.is_shared() {
                row.rest = rest(&mut row, before, &driver);
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// One of several client processes.
    fn child(
        &self,
        work: CrashWork,
        driver: &TestedDriver,
    ) -> Result<(CrashWork, Ended), MltsError> {
        let mut own = if self.target.is_shared() {
            driver.attach()
        } else {
            TestedDriver::start(self.target)?
        };
        let ended = self.supervised(work.clone(), &mut own, None)?;
        Ok((work, ended))
    }
}
