//! A driver's resources: what grows (c21, c22), what runs out (c16, c17), what comes back.

use std::process::Child;
use std::time::{Duration, Instant};

use super::TestRun;
use crate::error::MltsError;
use crate::report::{CrashReport, Rest};
use crate::run::{Outcome, TestedDriver, Usage, wanted_share};
use crate::worker::leak_terms;

/// The time that resources have to come back.
const SETTLING: Duration = Duration::from_secs(2);
/// Growth of memory that is no leak: at rest, and for each load of a model.
const GROWTH_MIB: f64 = 8.0;
const GROWTH_SHARE: f64 = 0.1;
const LEAK_MIB: f64 = 32.0 / 1024.0;

/// The share of the time for which a driver without work may use a processor, or wait for one.
const BUSY: f64 = 0.5;

/// Memory beyond what the driver has once it serves, and descriptors, in the tests of pressure.
const MORE_MEMORY: u64 = 512 << 20;
const DESCRIPTORS: u64 = 256;
/// The growth of memory in an hour of endurance that is none; in shorter runs the same amount.
const GROWTH_PER_HOUR_MIB: f64 = 1.0;

/// The resource that a driver is short of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pressure {
    Memory,
    Descriptors,
}

impl TestRun<'_> {
    /// c16, c17: a client takes what there is until the driver refuses, and gives it back.
    pub(super) fn pressure(&self, pressure: Pressure) -> Result<Vec<CrashReport>, MltsError> {
        if !self.target.is_ours_to_kill() {
            return Ok(vec![
                self.skipped("not offered: a driver's process that the suite may put under limits"),
            ]);
        }
        match pressure {
            Pressure::Memory => {
                let driver = TestedDriver::start(self.target)?;
                let limited = driver.limit_memory(MORE_MEMORY);
                limited.map_err(MltsError::system("limiting the driver's memory"))?;
                self.simple_with(driver, "pressure", &[("what", "memory")])
            }
            Pressure::Descriptors => {
                let driver = TestedDriver::start_with_descriptors(self.target, DESCRIPTORS)?;
                self.simple_with(driver, "pressure", &[("what", "descriptors")])
            }
        }
    }

    /// c22: one model for as long as the user says.
    pub(super) fn endurance(&self) -> Result<Vec<CrashReport>, MltsError> {
        let mut driver = TestedDriver::start(self.target)?;
        let work = self.work("endurance", &[]);
        let mut seen: Vec<(f64, Usage)> = Vec::new();
        let begun = Instant::now();
        let mut on_ready = |_: &str, driver: &mut TestedDriver, worker: &mut Child| {
            let usage = driver.usage().or_else(|| Usage::of(worker.id()));
            seen.extend(usage.map(|usage| (begun.elapsed().as_secs_f64() / 3600.0, usage)));
        };
        let ended = self.supervised(work.clone(), &mut driver, Some(&mut on_ready))?;
        let mut row = self.report("", &work, &ended);
        // The first quarter warms up.
        let settled = seen.get(seen.len() / 4..).unwrap_or_default();
        if row.outcome == "SUCCESS"
            && let [first, .., last] = settled
        {
            row.rest = Some(Rest {
                rss_mib: [first.1.rss_mib, last.1.rss_mib],
                fds: [first.1.fds, last.1.fds],
                threads: [first.1.threads, last.1.threads],
            });
            let points: Vec<_> = settled.iter().map(|(at, usage)| (*at, usage.rss_mib)).collect();
            let rate = slope(&points);
            row.figures.insert("rss_mib_per_hour".to_owned(), rate);
            let hours = last.0 - first.0;
            // In a short run less than a page or two an hour can't be told from noise.
            if rate > GROWTH_PER_HOUR_MIB && rate * hours > GROWTH_PER_HOUR_MIB {
                Outcome::Failure.name().clone_into(&mut row.outcome);
                row.process = Some("driver".to_owned());
                row.reason = format!(
                    "resident memory grew by {rate:.1} MiB an hour, at most {GROWTH_PER_HOUR_MIB}"
                );
            }
        }
        Ok(vec![row])
    }

    /// c21: the driver's resources in the pauses between rounds of loads.
    pub(super) fn leak(&self) -> Result<Vec<CrashReport>, MltsError> {
        let mut driver = TestedDriver::start(self.target)?;
        let work = self.work("leak", &[]);
        let (_, pause) = leak_terms();
        let mut seen: Vec<Usage> = Vec::new();
        let mut at_rest: Vec<f64> = Vec::new();
        let mut on_ready = |_: &str, driver: &mut TestedDriver, worker: &mut Child| {
            std::thread::sleep(pause / 4);
            match driver.pid() {
                Some(pid) => at_rest.push(wanted_share(pid, pause / 4)),
                None => std::thread::sleep(pause / 4),
            }
            seen.extend(driver.usage().or_else(|| Usage::of(worker.id())));
        };
        let ended = self.supervised(work.clone(), &mut driver, Some(&mut on_ready))?;
        let mut row = self.report("", &work, &ended);
        let least_wanted = at_rest.iter().copied().reduce(f64::min).unwrap_or(0.0);
        if row.outcome == "SUCCESS" && least_wanted > BUSY {
            Outcome::Failure.name().clone_into(&mut row.outcome);
            row.process = Some("driver".to_owned());
            row.reason = format!(
                "at work {:.0} % of the time while no client has a model, at most {:.0} %",
                least_wanted * 100.0,
                BUSY * 100.0
            );
        }
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

/// The slope of the line of least squares through points; 0 where there are too few.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = crate::num::real(points.len().max(1));
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let common: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    if spread > 0.0 { common / spread } else { 0.0 }
}

/// Resources before and after; those that don't come back are a failure.
pub(super) fn rest(
    row: &mut CrashReport,
    before: Option<Usage>,
    driver: &TestedDriver,
) -> Option<Rest> {
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

    #[test]
    fn a_line_has_its_slope() {
        let line: Vec<_> = (0..10).map(|at| (f64::from(at), 3.0 + 2.0 * f64::from(at))).collect();
        assert!((slope(&line) - 2.0).abs() < 1e-9);
        assert_eq!(slope(&line[..1]), 0.0);
        assert_eq!(slope(&[]), 0.0);
    }
}
