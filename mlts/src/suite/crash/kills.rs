//! A driver that dies: c14 and c15.

use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{TestRun, recovery, since_ms};
use crate::data::Random;
use crate::error::MltsError;
use crate::num::median;
use crate::protocol::monotonic_ns;
use crate::report::CrashReport;
use crate::run::{Outcome, TestedDriver};

const RESTART_MS: f64 = 5000.0;
/// How soon after the signal a pending call has to end. The kernel needs a part of it to take the
/// process down, so in bursts the time from its end counts as well: half of the calls have to be
/// that quick.
const NOTICE_MS: f64 = 100.0;
const BURST_NOTICE_MS: f64 = 10.0;
/// Threads that the news of a driver's end passes: each may wait for a processor as long as one of
/// the client's that only sleeps did meanwhile. That time is the machine's.
const LATE_TURNS: f64 = 3.0;
/// The kinds of calls that c14 kills under, with the signals.
const PENDING: [(&str, Kill); 8] = [
    ("compile", Kill::Now(Signal::SIGKILL)),
    ("execute", Kill::Now(Signal::SIGKILL)),
    ("execute-segv", Kill::Now(Signal::SIGSEGV)),
    ("execute-stopped", Kill::Stopped),
    ("burst-spin", Kill::Now(Signal::SIGKILL)),
    ("burst-block", Kill::Now(Signal::SIGSEGV)),
    ("burst-adaptive", Kill::Now(Signal::SIGKILL)),
    ("fence", Kill::Now(Signal::SIGKILL)),
];

/// A way to kill a driver.
#[derive(Clone, Copy, Debug)]
enum Kill {
    Now(Signal),
    /// Stopped for a while, let go on, then killed.
    Stopped,
}

impl TestRun<'_> {
    /// c14 and c15: the driver is killed under a call; the same client connects anew.
    pub(super) fn driver_killed(&self) -> Result<Vec<CrashReport>, MltsError> {
        if self.target.is_in_worker() {
            return Ok(vec![self.skipped("not offered: a driver in a process of its own")]);
        }
        if !self.target.is_ours_to_kill() && !self.context.allow_kill {
            return Ok(vec![
                self.skipped("the service was not started by the suite: --allow-kill"),
            ]);
        }
        let mut rows = Vec::new();
        let mut recoveries = Vec::new();
        let mut starts = Vec::new();
        let mut after = CrashReport {
            id: "c15".to_owned(),
            name: "after-crash".to_owned(),
            outcome: Outcome::Success.name().to_owned(),
            ..self.row("")
        };
        for (variant, kill) in PENDING {
            let (row, recovered, start) = self.kill_under(variant, kill)?;
            if let Some(ms) = recovered {
                recoveries.push(ms);
                starts.push(start);
                after.events += 1;
            }
            after.seconds += row.seconds;
            // What went wrong while connecting anew is the other test's.
            if row.reason.starts_with(ANEW) {
                after = CrashReport {
                    id: "c15".to_owned(),
                    name: "after-crash".to_owned(),
                    ..row.clone()
                };
                rows.push(CrashReport {
                    outcome: "SUCCESS".to_owned(),
                    reason: String::new(),
                    process: None,
                    kept: String::new(),
                    ..row
                });
            } else {
                rows.push(row);
            }
        }
        if after.outcome == "SUCCESS" {
            after.recovery_ms = recovery(&recoveries, RESTART_MS, median(&starts));
            if after.events == 0 {
                after = CrashReport {
                    id: "c15".to_owned(),
                    name: "after-crash".to_owned(),
                    ..self.skipped("no driver was killed")
                };
            }
            let longest = recoveries.iter().copied().fold(0.0, f64::max);
            if longest > RESTART_MS {
                Outcome::Failure.name().clone_into(&mut after.outcome);
                after.reason =
                    format!("a right answer took {longest:.0} ms, the limit is {RESTART_MS}");
            }
        }
        rows.push(after);
        Ok(rows)
    }

    /// Kills under one kind of call, as often as the budget says: the row, and the median time
    /// until the same client had a right answer and that of the program's start.
    fn kill_under(
        &self,
        variant: &str,
        kill: Kill,
    ) -> Result<(CrashReport, Option<f64>, f64), MltsError> {
        let what = variant.split("-s").next().unwrap_or(variant);
        let what = if variant.starts_with("burst") { variant } else { what };
        let mut random = Random(self.context.seed);
        let (mut notices, mut recoveries, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut after_end, mut beyond, mut beyond_end) = (Vec::new(), Vec::new(), Vec::new());
        let begun = Instant::now();
        let mut row = self.row(variant);
        for _ in 0..self.test.count(self.context.budget) {
            let mut driver = TestedDriver::start_again(self.target)?;
            starts.push(driver.start_time.as_secs_f64() * 1000.0);
            let delay = Duration::from_millis(30 + u64::from(random.below(70)));
            let (mut killed_ns, mut dead_ns) = (0, 0);
            let mut restarted = Ok(());
            let mut on_ready = |what: &str, driver: &mut TestedDriver, _: &mut Child| {
                if what == "lost" {
                    if self.target.is_shared() {
                        restarted = driver.restart();
                    }
                    return;
                }
                if what != "pending" {
                    return;
                }
                std::thread::sleep(delay);
                if let Kill::Stopped = kill {
                    driver.signal(Signal::SIGSTOP);
                    std::thread::sleep(Duration::from_secs(1));
                    driver.signal(Signal::SIGCONT);
                    std::thread::sleep(delay);
                }
                killed_ns = monotonic_ns();
                driver.kill(if let Kill::Now(signal) = kill { signal } else { Signal::SIGKILL });
                dead_ns = monotonic_ns();
            };
            let work = self.work("pending", &[("what", what)]);
            let ended = self.supervised(work.clone(), &mut driver, Some(&mut on_ready))?;
            restarted.map_err(|error| MltsError::Unreachable {
                target: self.target.name.clone(),
                why: format!("it did not come back within five seconds: {error}"),
            })?;
            if ended.outcome != Outcome::Success {
                let mut failed = self.report(variant, &work, &ended);
                failed.seconds = begun.elapsed().as_secs_f64();
                return Ok((failed, None, 0.0));
            }
            let at = |name: &str| ended.value[name].as_u64().unwrap_or(0);
            if at("ended_ns") < killed_ns {
                Outcome::Failure.name().clone_into(&mut row.outcome);
                row.reason = "the call failed before the driver was killed".to_owned();
                return Ok((row, None, 0.0));
            }
            notices.push(since_ms(killed_ns, at("ended_ns")));
            after_end.push(since_ms(dead_ns, at("ended_ns")));
            let allowed = LATE_TURNS * since_ms(0, at("late_ns"));
            beyond.extend(notices.last().map(|ms| ms - allowed));
            beyond_end.extend(after_end.last().map(|ms| ms - allowed));
            recoveries.push(since_ms(killed_ns, at("recovered_ns")));
            row.events += 1;
        }
        Outcome::Success.name().clone_into(&mut row.outcome);
        let is_burst = variant.starts_with("burst");
        row.recovery_ms = recovery(&notices, NOTICE_MS, 0.0);
        row.figures.insert("ms_after_the_end_p50".to_owned(), median(&after_end));
        let longest = after_end.iter().copied().fold(0.0, f64::max);
        row.figures.insert("ms_after_the_end_max".to_owned(), longest);
        let (worst, typical) = (beyond.iter().copied().fold(0.0, f64::max), median(&beyond_end));
        if worst > NOTICE_MS {
            Outcome::Failure.name().clone_into(&mut row.outcome);
            row.reason = format!(
                "the pending call ended {worst:.1} ms after the signal, limit {NOTICE_MS}, where the machine was on time"
            );
        } else if is_burst && typical > BURST_NOTICE_MS {
            Outcome::Failure.name().clone_into(&mut row.outcome);
            row.reason = format!(
                "the pending call ended {typical:.1} ms after the driver, limit {BURST_NOTICE_MS}"
            );
        }
        row.seconds = begun.elapsed().as_secs_f64();
        Ok((row, Some(median(&recoveries)), median(&starts)))
    }
}

/// The beginning of the reason of what failed after the driver was lost.
const ANEW: &str = "the same client, connecting anew";
