//! The coordinator's part of the crash tests: who is started, killed, restarted and looked at when.

use std::collections::BTreeMap;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::catalogue::CrashTest;
use super::context::RunContext;
use super::replay;
use crate::data::{ModelEntry, Random};
use crate::error::MltsError;
use crate::num::{median, real_u64};
use crate::protocol::{CrashWork, Task, monotonic_ns};
use crate::report::{CrashReport, Probe, Recovery, Rest};
use crate::run::{Driver, End, Ended, OnReady, Outcome, Supervision, Usage, supervise};
use crate::target::Target;
use crate::worker::leak_terms;

/// The time that resources have to come back.
const SETTLING: Duration = Duration::from_secs(2);
/// Limits of recovery: a living driver, and one that was killed.
const RECOVERY_MS: f64 = 1000.0;
const RESTART_MS: f64 = 5000.0;
/// How soon a pending call has to end once the driver is dead; in bursts half of them sooner.
const NOTICE_MS: f64 = 100.0;
const BURST_NOTICE_MS: f64 = 10.0;
/// Growth of memory that is no leak: at rest, and for each load of a model.
const GROWTH_MIB: f64 = 8.0;
const GROWTH_SHARE: f64 = 0.1;
const LEAK_MIB: f64 = 32.0 / 1024.0;
/// The longest time without a right answer for a client beside a test.
const GAP_MS: f64 = 250.0;
/// The kinds of calls that c14 kills under, with the signals.
const PENDING: [(&str, Kill); 8] = [
    ("compile", Kill::Now(Signal::KILL)),
    ("execute", Kill::Now(Signal::KILL)),
    ("execute-segv", Kill::Now(Signal::SEGV)),
    ("execute-stopped", Kill::Stopped),
    ("burst-spin", Kill::Now(Signal::KILL)),
    ("burst-block", Kill::Now(Signal::SEGV)),
    ("burst-adaptive", Kill::Now(Signal::KILL)),
    ("fence", Kill::Now(Signal::KILL)),
];

/// How a driver is killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    Now(Signal),
    /// Stopped for a while, let go on, then killed.
    Stopped,
}

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
    let bout = TestRun { context, target, id, test, models };
    let rows = match test.id {
        "c01" => bout.simple("stress", &[]),
        "c02" if target.is_in_worker() => bout.simple("stress", &[]),
        "c02" => Ok(vec![bout.skipped("not offered: the driver in the client's process")]),
        "c03" => bout.client_killed(),
        "c04" => bout.processes("stress"),
        "c05" => bout.processes("load"),
        "c07" => bout.simple("graphs", &[("what", "load")]),
        "c08" => bout.simple("graphs", &[]),
        "c09" => bout.simple("degradation", &[]),
        "c10" => bout.simple("mutations", &[]),
        "c11" => bout.simple("requests", &[]),
        "c13" => bout.simple("burst-lies", &[]),
        "c14" => bout.driver_killed(),
        "c18" => bout.simple("deadlines", &[]),
        "c20" => bout.simple("cache-lies", &[]),
        "c21" => bout.leak(),
        _ => Ok(vec![bout.skipped("unknown")]),
    };
    rows.unwrap_or_else(|error| {
        vec![CrashReport {
            outcome: Outcome::Failure.name().to_owned(),
            reason: error.to_string(),
            ..bout.row("")
        }]
    })
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
            ms: self.test.ms(self.context.budget),
            count: self.test.count(self.context.budget),
            models: self.models.to_vec(),
            extra: extra.collect::<BTreeMap<_, _>>(),
        }
    }

    fn supervised<'a>(
        &'a self,
        work: CrashWork,
        driver: &mut Driver,
        on_ready: Option<OnReady<'a>>,
    ) -> Result<Ended, MltsError> {
        let planned = Duration::from_secs_f64(self.test.seconds(self.context.budget) * 2.0);
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
            ..self.row(variant)
        };
        if !matches!(ended.outcome, Outcome::Success | Outcome::Skipped | Outcome::Aborted) {
            row.threads.clone_from(&ended.threads);
            row.stderr_tail.clone_from(&ended.stderr);
            if let Some(case) = ended.parts.get("case") {
                row.reason = format!("{}; in {case}", row.reason);
            }
            let job = self.context.job(self.target, Task::Crash(work.clone()));
            row.kept = replay::keep(self.context, &row, &job, ended).unwrap_or_default();
        }
        row
    }

    /// One worker does it all, with a probe beside it where the driver serves several.
    fn simple(&self, part: &str, extra: &[(&str, &str)]) -> Result<Vec<CrashReport>, MltsError> {
        let mut driver = Driver::start(self.target)?;
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

    /// c03: clients are killed while they are busy.
    fn client_killed(&self) -> Result<Vec<CrashReport>, MltsError> {
        if self.target.is_in_worker() {
            return Ok(vec![self.skipped("not offered: a driver in a process of its own")]);
        }
        let kinds = ["compile", "pending", "fence"];
        let mut random = Random(self.context.seed);
        let mut row = self.row("");
        let begun = Instant::now();
        let mut recoveries = Vec::new();
        let mut driver = Driver::start(self.target)?;
        let before = driver.usage();
        let probe = Prober::start(self, &driver);
        for kill in 0..self.test.count(self.context.budget) {
            let Some(&what) = kinds.get(kill % kinds.len()) else { break };
            let work = CrashWork { count: 4, ..self.work("busy", &[("what", what)]) };
            let delay = Duration::from_millis(20 + u64::from(random.below(280)));
            let mut killed_ns = 0;
            let mut on_ready = |_: &str, _: &mut Driver, worker: &mut Child| {
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
                    row.stderr_tail = driver.stderr_tail();
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
    fn after_client(&self, driver: &mut Driver, killed_ns: u64) -> Result<f64, (Outcome, String)> {
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
    fn processes(&self, part: &str) -> Result<Vec<CrashReport>, MltsError> {
        let mut rows = Vec::new();
        for (variant, share) in [("0%", 0_u32), ("80%", 80)] {
            let driver = Driver::start(self.target)?;
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
    fn child(&self, work: CrashWork, driver: &Driver) -> Result<(CrashWork, Ended), MltsError> {
        let mut own =
            if self.target.is_shared() { driver.attach() } else { Driver::start(self.target)? };
        let ended = self.supervised(work.clone(), &mut own, None)?;
        Ok((work, ended))
    }

    /// c14 and c15: the driver is killed under a call; the same client connects anew.
    fn driver_killed(&self) -> Result<Vec<CrashReport>, MltsError> {
        if self.target.is_in_worker() {
            return Ok(vec![self.skipped("not offered: a driver in a process of its own")]);
        }
        if !self.target.is_ours_to_kill() && !self.context.allow_kill {
            return Ok(vec![
                self.skipped("the service was not started by the suite: --allow-kill"),
            ]);
        }
        if !self.target.is_ours_to_kill() {
            return Ok(vec![self.skipped("a service that nobody starts again can't come back")]);
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
            if recoveries.iter().any(|&ms| ms > RESTART_MS) {
                Outcome::Failure.name().clone_into(&mut after.outcome);
                after.reason = format!("a right answer took longer than {RESTART_MS} ms");
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
        let begun = Instant::now();
        let mut row = self.row(variant);
        for _ in 0..self.test.count(self.context.budget) {
            let mut driver = Driver::start(self.target)?;
            starts.push(driver.start_time.as_secs_f64() * 1000.0);
            let delay = Duration::from_millis(30 + u64::from(random.below(70)));
            let mut killed_ns = 0;
            let mut restarted = Ok(());
            let mut on_ready = |what: &str, driver: &mut Driver, _: &mut Child| {
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
                    driver.signal(Signal::STOP);
                    std::thread::sleep(Duration::from_secs(1));
                    driver.signal(Signal::CONT);
                    std::thread::sleep(delay);
                }
                killed_ns = monotonic_ns();
                driver.kill(if let Kill::Now(signal) = kill { signal } else { Signal::KILL });
            };
            let work = self.work("pending", &[("what", what)]);
            let ended = self.supervised(work.clone(), &mut driver, Some(&mut on_ready))?;
            restarted?;
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
            recoveries.push(since_ms(killed_ns, at("recovered_ns")));
            row.events += 1;
        }
        Outcome::Success.name().clone_into(&mut row.outcome);
        let limit = if variant.starts_with("burst") { BURST_NOTICE_MS } else { NOTICE_MS };
        row.recovery_ms = recovery(&notices, limit, 0.0);
        let worst = notices.iter().copied().fold(0.0, f64::max);
        // One call may be late by the scheduler's doing; the most may not.
        if worst > NOTICE_MS || median(&notices) > limit.max(NOTICE_MS / 2.0) {
            Outcome::Failure.name().clone_into(&mut row.outcome);
            row.reason =
                format!("the pending call ended {worst:.1} ms after the driver, limit {limit}");
        }
        row.seconds = begun.elapsed().as_secs_f64();
        Ok((row, Some(median(&recoveries)), median(&starts)))
    }

    /// c21: the driver's resources in the pauses between rounds of loads.
    fn leak(&self) -> Result<Vec<CrashReport>, MltsError> {
        let mut driver = Driver::start(self.target)?;
        let work = self.work("leak", &[]);
        let (_, pause) = leak_terms();
        let mut seen: Vec<Usage> = Vec::new();
        let mut on_ready = |_: &str, driver: &mut Driver, worker: &mut Child| {
            std::thread::sleep(pause / 2);
            seen.extend(driver.usage().or_else(|| Usage::of(worker.id())));
        };
        let ended = self.supervised(work.clone(), &mut driver, Some(&mut on_ready))?;
        let mut row = self.report("", &work, &ended);
        if row.outcome == "SUCCESS"
            && let [_, first, .., last] = seen.as_slice()
        {
            row.rest = Some(Rest {
                rss_mib: [first.rss_mib, last.rss_mib],
                fds: [first.fds, last.fds],
                threads: [first.threads, last.threads],
            });
            if let Some(why) = leaks(&seen, work.count) {
                Outcome::Failure.name().clone_into(&mut row.outcome);
                row.process = Some("driver".to_owned());
                row.reason = why;
            }
        }
        Ok(vec![row])
    }
}

/// The beginning of the reason of what failed after the driver was lost.
const ANEW: &str = "the same client, connecting anew";

fn since_ms(from_ns: u64, to_ns: u64) -> f64 {
    real_u64(to_ns.saturating_sub(from_ns)) / 1e6
}

fn recovery(all: &[f64], limit: f64, start: f64) -> Option<Recovery> {
    let max = all.iter().copied().fold(0.0, f64::max);
    (!all.is_empty()).then(|| Recovery { n: all.len(), p50: median(all), max, limit, start })
}

/// What grows from round to round of `loads` loads each, in words; the first round warms up.
fn leaks(seen: &[Usage], loads: usize) -> Option<String> {
    let [_, rounds @ ..] = seen else { return None };
    let (first, last) = (rounds.first()?, rounds.last()?);
    let is_rising = |of: &dyn Fn(&Usage) -> f64, least: f64| {
        rounds.windows(2).all(|pair| matches!(pair, [a, b] if of(b) - of(a) > least))
    };
    if is_rising(&|usage| crate::num::real(usage.fds), 0.0) {
        return Some(format!("descriptors grew from {} to {}", first.fds, last.fds));
    }
    if is_rising(&|usage| crate::num::real(usage.threads), 0.0) {
        return Some(format!("threads grew from {} to {}", first.threads, last.threads));
    }
    let each = LEAK_MIB * crate::num::real(loads);
    is_rising(&|usage| usage.rss_mib, each).then(|| {
        let kib =
            (last.rss_mib - first.rss_mib) * 1024.0 / crate::num::real(loads * (rounds.len() - 1));
        format!("resident memory grew by {kib:.0} KiB with each load of a model, at most 32 KiB")
    })
}

/// Resources before and after; those that don't come back are a failure.
fn rest(row: &mut CrashReport, before: Option<Usage>, driver: &Driver) -> Option<Rest> {
    let before = before?;
    let begun = Instant::now();
    let mut after = driver.usage()?;
    let is_back = |after: &Usage| after.fds <= before.fds && after.threads <= before.threads;
    while !is_back(&after) && begun.elapsed() < SETTLING {
        std::thread::sleep(Duration::from_millis(50));
        after = driver.usage()?;
    }
    // A driver's first client makes threads and descriptors that stay for the next: a few are no
    // leak, and c21 looks at growth.
    const WARM: usize = 8;
    let more = after.fds > before.fds + WARM || after.threads > before.threads + WARM;
    let allowed = before.rss_mib + GROWTH_MIB.max(before.rss_mib * GROWTH_SHARE) + WARM_MIB;
    if more || after.rss_mib > allowed {
        Outcome::Failure.name().clone_into(&mut row.outcome);
        row.process = Some("driver".to_owned());
        row.reason = format!(
            "two seconds after the clients: {} descriptors (before {}), {} threads ({}), {:.1} MiB ({:.1})",
            after.fds, before.fds, after.threads, before.threads, after.rss_mib, before.rss_mib
        );
    }
    Some(Rest {
        rss_mib: [before.rss_mib, after.rss_mib],
        fds: [before.fds, after.fds],
        threads: [before.threads, after.threads],
    })
}

/// Resident memory that a driver's first models leave: its code, its allocator's arenas.
const WARM_MIB: f64 = 24.0;

fn judge_probe(row: &mut CrashReport) {
    let Some(probe) = row.probe else { return };
    let failed = if probe.failed > 0 {
        format!("{} of {} calls of another client failed", probe.failed, probe.calls)
    } else if probe.longest_gap_ms > GAP_MS + 50.0 {
        format!("another client had no answer for {:.0} ms, at most {GAP_MS}", probe.longest_gap_ms)
    } else {
        return;
    };
    if row.outcome == "SUCCESS" {
        Outcome::Failure.name().clone_into(&mut row.outcome);
        row.process = Some("driver".to_owned());
        row.reason = failed;
    }
}

/// The other client, in a thread that supervises it.
struct Prober {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Option<Probe>>,
}

impl Prober {
    /// Starts it, where the driver serves several clients.
    fn start(bout: &TestRun<'_>, driver: &Driver) -> Option<Self> {
        if !bout.target.is_shared() {
            return None;
        }
        let mut driver = driver.attach();
        let stop = Arc::new(AtomicBool::new(false));
        let abort = Arc::clone(&stop);
        let program = bout.context.program.clone();
        let job = bout.context.job(bout.target, Task::Crash(bout.work("probe", &[])));
        let patience = bout.context.patience;
        let thread = std::thread::spawn(move || {
            let planned = Duration::from_secs(3600);
            let supervision = Supervision { patience, planned, abort: &abort, on_ready: None };
            let ended = supervise(&program, job, &mut driver, supervision).ok()?;
            let mut probe: Probe = ended
                .parts
                .get("probe")
                .and_then(|value| serde_json::from_value(value.clone()).ok())?;
            // One that didn't last to the end has failed once more.
            probe.failed += u64::from(ended.outcome != Outcome::Aborted);
            Some(probe)
        });
        Some(Self { stop, thread })
    }

    fn finish(self) -> Probe {
        // Relaxed: a switch, nothing is handed over.
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().flatten().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(fds: usize, rss_mib: f64) -> Usage {
        Usage { fds, rss_mib, threads: 3, cpu_s: 0.0 }
    }

    #[test]
    fn what_grows_in_every_round_is_a_leak() {
        let with = |list: &[(usize, f64)]| {
            leaks(&list.iter().map(|&(fds, rss)| usage(fds, rss)).collect::<Vec<_>>(), 100)
        };
        assert_eq!(with(&[(5, 10.0), (6, 12.0), (6, 12.1), (6, 12.0)]), None);
        // The first round warms up.
        assert_eq!(with(&[(5, 10.0), (9, 30.0), (9, 30.0), (9, 31.0)]), None);
        let found = with(&[(5, 10.0), (6, 12.0), (7, 12.0), (8, 12.0)]).unwrap();
        assert!(found.contains("descriptors grew from 6 to 8"), "{found}");
        let found = with(&[(5, 10.0), (5, 17.0), (5, 24.0), (5, 31.0)]).unwrap();
        assert!(found.contains("72 KiB with each load"), "{found}");
    }
}
