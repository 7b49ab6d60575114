//! Many threads, every answer checked; or busy until killed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use serde_json::Value;

use super::part::{CrashPart, events, ready};
use super::subjects::subjects;
use crate::data::Random;
use crate::protocol::CallMode;
use crate::worker::client::ClientHandle;
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::Sequence;

/// The time that a thread stays with a model.
const STAY: Duration = Duration::from_millis(150);

/// The number that the coordinator put beside the work.
fn extra(part: &CrashPart<'_>, name: &str) -> Option<u64> {
    part.work.extra.get(name)?.parse().ok()
}

/// c01, c02, c04: threads that load, run and unload all models in turn; every answer is checked.
pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let subjects = subjects(part)?;
    suicide(part);
    let answers = AtomicU64::new(0);
    let turn = |shared: &ClientHandle, seed: u64| -> Outcome<()> {
        let client = shared.open()?;
        let mut random = Random(seed);
        let begun = Instant::now();
        let time = Duration::from_millis(part.work.ms);
        while begun.elapsed() < time {
            let Some(subject) = subjects.get(random.index(subjects.len())) else { return Ok(()) };
            let Some(&mode) = CallMode::ALL.get(random.index(CallMode::ALL.len())) else {
                return Ok(());
            };
            let named =
                |error| Stopped::from(error).during(format!("{} in {}", subject.name, mode.name()));
            let prepared = client.prepare(&subject.loaded.model, part.pulse).map_err(named)?;
            let session = prepared.session(mode).map_err(named)?;
            let mut sequence = Sequence::new(&subject.loaded, session);
            let arrived = Instant::now();
            while arrived.elapsed() < STAY && begun.elapsed() < time {
                let feed = random.index(subject.feeds.len());
                let Some(input) = subject.feeds.get(feed) else { continue };
                let got = sequence.run(input, part.pulse).map_err(named)?;
                // Relaxed: a count, nothing is handed over.
                let before = answers.fetch_add(1, Ordering::Relaxed);
                let noted = subject.check(feed, &got, mode);
                noted.map_err(|stopped| stopped.after(format!("{before} answers were right")))?;
            }
        }
        Ok(())
    };
    threads(part, &turn)?;
    Ok(events(answers.into_inner()))
}

/// c05: the same without executions.
pub(super) fn load(part: &CrashPart<'_>) -> Outcome<Value> {
    let subjects = subjects(part)?;
    suicide(part);
    let loads = AtomicU64::new(0);
    let turn = |shared: &ClientHandle, seed: u64| -> Outcome<()> {
        let client = shared.open()?;
        let mut random = Random(seed);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(part.work.ms) {
            let Some(subject) = subjects.get(random.index(subjects.len())) else { return Ok(()) };
            drop(client.prepare(&subject.loaded.model, part.pulse)?);
            // Relaxed: a count, nothing is handed over.
            loads.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    threads(part, &turn)?;
    Ok(events(loads.into_inner()))
}

/// c03: threads that compile, execute or wait behind fences until the process is killed.
pub(super) fn busy(part: &CrashPart<'_>) -> Outcome<Value> {
    let subjects = subjects(part)?;
    let what = part.work.extra.get("what").map_or("compile", String::as_str);
    if what == "fence" {
        return super::pending::wait_behind_fences(part, &subjects);
    }
    let is_first = AtomicBool::new(true);
    let turn = |shared: &ClientHandle, seed: u64| -> Outcome<()> {
        let client = shared.open()?;
        let mut random = Random(seed);
        loop {
            let Some(subject) = subjects.get(random.index(subjects.len())) else { return Ok(()) };
            let prepared = client.prepare(&subject.loaded.model, part.pulse)?;
            // Relaxed: only one thread is to report.
            if is_first.swap(false, Ordering::Relaxed) {
                ready("busy");
            }
            if what == "compile" {
                continue;
            }
            let mut sequence = Sequence::new(&subject.loaded, prepared.session(CallMode::Burst)?);
            let arrived = Instant::now();
            while arrived.elapsed() < STAY {
                if let Some(feed) = subject.feeds.first() {
                    sequence.run(feed, part.pulse)?;
                }
            }
        }
    };
    threads(part, &turn)?;
    Ok(events(0))
}

/// Runs the part's threads; the first failure counts.
fn threads(
    part: &CrashPart<'_>,
    turn: &(dyn Fn(&ClientHandle, u64) -> Outcome<()> + Sync),
) -> Outcome<()> {
    let shared = part.client.share();
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..part.work.count.max(1))
            .map(|thread| {
                let shared = shared.clone();
                let thread = u64::try_from(thread).unwrap_or(0);
                let seed = part.job.seed.wrapping_mul(1000).wrapping_add(thread);
                scope.spawn(move || turn(&shared, seed))
            })
            .collect();
        let mut result = Ok(());
        for handle in handles {
            let ended = match handle.join() {
                Ok(ended) => ended,
                Err(_) => Err(Stopped::failed("a thread of the client panicked")),
            };
            if result.is_ok() {
                result = ended;
            }
        }
        result
    })
}

/// Kills this process at the moment that the coordinator drew, if it drew one.
fn suicide(part: &CrashPart<'_>) {
    let Some(after) = extra(part, "suicide_ms") else { return };
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(after));
        let _ = raise(Signal::SIGKILL);
    });
}
