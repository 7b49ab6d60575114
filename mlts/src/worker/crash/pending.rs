//! c14 and c15: a call that is under way when the driver is killed, and the same client afterwards.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use nnburst::{BurstOptions, Wait};
use serde_json::{Value, json};

use super::part::{CrashPart, ready};
use super::subjects::{Subject, largest, smallest};
use crate::num::nanos;
use crate::protocol::{CallMode, Via, monotonic_ns};
use crate::worker::client::{CallError, CallSession, Client, Prepared};
use crate::worker::outcome::{Outcome, Stopped};

/// The time that the same client tries to connect anew.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time that a launch takes, by far.
const LAUNCH: Duration = Duration::from_millis(50);

/// Calls until one fails, as the coordinator kills the driver; then connects anew.
pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let what = part.work.extra.get("what").map_or("execute", String::as_str);
    let subject = largest(part)?;
    let lateness = Lateness::watch();
    let (calls, error) = until_lost(part, &subject, what)?;
    let ended_ns = monotonic_ns();
    let late_ns = lateness.worst_ns();
    if !error.is_lost {
        let status = &error.status;
        return Err(Stopped::failed(format!(
            "the pending call ended with {status} and not with DEVICE_UNAVAILABLE: {error}"
        )));
    }
    // The coordinator starts the service again, where there is one.
    ready("lost");
    let recovered_ns = recover(part)?;
    Ok(json!({
        "events": calls, "ended_ns": ended_ns, "recovered_ns": recovered_ns, "late_ns": late_ns,
    }))
}

/// How late the machine wakes a thread that sleeps: what no driver and no client can help.
struct Lateness {
    worst_ns: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Lateness {
    /// Starts a thread that sleeps for a millisecond again and again.
    fn watch() -> Self {
        const NAP: Duration = Duration::from_millis(1);
        let watch = Self { worst_ns: Arc::default(), is_over: Arc::default() };
        let (worst, is_over) = (Arc::clone(&watch.worst_ns), Arc::clone(&watch.is_over));
        std::thread::spawn(move || {
            // Relaxed: a switch and a figure, nothing is handed over.
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(NAP);
                let late = nanos(begun.elapsed().saturating_sub(NAP));
                worst.fetch_max(late, Ordering::Relaxed);
            }
        });
        watch
    }

    fn worst_ns(&self) -> u64 {
        self.worst_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Calls of the kind until one fails.
fn until_lost(part: &CrashPart<'_>, subject: &Subject, what: &str) -> Outcome<(u64, CallError)> {
    let prepared = part.client.prepare(&subject.loaded.model, part.pulse)?;
    let mut calls = 0;
    if what == "compile" {
        ready("pending");
        loop {
            if let Err(error) = part.client.prepare(&subject.loaded.model, part.pulse) {
                return Ok((calls, error));
            }
            calls += 1;
        }
    }
    if what == "fence" {
        let (fences, signal) = fence()?;
        let Prepared::Runtime(compilation) = &prepared else { return Err(no_fences()) };
        let frame = compilation.frame().map_err(CallError::from)?;
        // A driver may wait for the fences within the call that launches.
        std::thread::spawn(|| {
            std::thread::sleep(LAUNCH);
            ready("pending");
        });
        let result = part.pulse.during("execute behind a fence", || {
            let event = compilation.execution().start_fenced(frame, fences)?;
            event.wait().1
        });
        // Kept to here: a signal that is dropped is a fence in error.
        drop(signal);
        return match result {
            Ok(()) => Err(Stopped::failed("an execution behind an unsignalled fence succeeded")),
            Err(error) => Ok((1, error.into())),
        };
    }
    let mut session = open(&prepared, what)?;
    let feed = subject.feeds.first().cloned().unwrap_or_default();
    if let CallSession::Runtime(_) = &session {
        for (at, bytes) in subject.loaded.inputs().into_iter().zip(&feed.inputs) {
            session.write(at, bytes)?;
        }
    }
    ready("pending");
    loop {
        if let Err(error) = session.call(part.pulse) {
            return Ok((calls, error));
        }
        calls += 1;
    }
}

/// A fence that has not signalled, for a call, and what keeps it alive.
fn fence() -> Outcome<(Vec<OwnedFd>, OwnedFd)> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let made = EventFd::from_value_and_flags(0, flags).map_err(std::io::Error::from);
    let made = OwnedFd::from(made.map_err(|error| Stopped::failed(error.to_string()))?);
    let copy = made.try_clone().map_err(|error| Stopped::failed(error.to_string()))?;
    Ok((vec![copy], made))
}

fn no_fences() -> Stopped {
    Stopped::Skipped("not offered: fences".to_owned())
}

/// A session whose waits are of the kind.
fn open(prepared: &Prepared, what: &str) -> Outcome<CallSession> {
    let wait = match what {
        "burst-spin" => Wait::Spin,
        "burst-block" => Wait::Block,
        "burst-adaptive" => Wait::Adaptive,
        _ => return Ok(prepared.session(CallMode::Sync)?),
    };
    Ok(prepared.burst_session(&BurstOptions { wait, ..BurstOptions::default() })?)
}

/// Connects anew until an answer is right.
fn recover(part: &CrashPart<'_>) -> Outcome<u64> {
    let begun = Instant::now();
    loop {
        let failure = match again(part) {
            Ok(()) => return Ok(monotonic_ns()),
            Err(failure) => failure,
        };
        if begun.elapsed() > PATIENCE {
            return Err(failure.during("the same client, connecting anew"));
        }
        part.pulse.step();
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn again(part: &CrashPart<'_>) -> Outcome<()> {
    let client = Client::open_target(&part.job.target, &Via::Own)?;
    let part = CrashPart { client: &client, ..*part };
    smallest(&part).map(drop)
}

/// c03: executions behind fences that nobody signals.
pub(super) fn wait_behind_fences(part: &CrashPart<'_>, subjects: &[Subject]) -> Outcome<Value> {
    let Some(subject) = subjects.first() else { return Err(no_fences()) };
    let prepared = part.client.prepare(&subject.loaded.model, part.pulse)?;
    let Prepared::Runtime(compilation) = &prepared else { return Err(no_fences()) };
    let mut pending = Vec::new();
    for _ in 0..part.work.count.max(1) {
        let (fences, signal) = fence()?;
        let frame = compilation.frame().map_err(CallError::from)?;
        // A driver that waits where it was called keeps the thread; that is its good right.
        let compilation = compilation.clone();
        pending.push(std::thread::spawn(move || {
            let event = compilation.execution().start_fenced(frame, fences);
            let result = event.map(|event| event.wait().1);
            drop(signal);
            drop(result);
        }));
    }
    // The executions are launched when the coordinator is told.
    std::thread::sleep(Duration::from_millis(100));
    ready("busy");
    for thread in pending {
        part.pulse.step();
        // Ended by the coordinator.
        let _ = thread.join();
    }
    Ok(super::part::events(0))
}
