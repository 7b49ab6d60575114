//! c18: deadlines that have passed, that are too near, and generous ones.

use std::time::{Duration, Instant};

use nnburst::CallOptions;
use serde_json::Value;

use super::part::{CrashPart, events};
use super::subjects::{largest, smallest};
use crate::worker::client::{CallError, Prepared};
use crate::worker::outcome::{Outcome, Stopped};

/// The most by which an answer may be late.
const LATE: Duration = Duration::from_millis(50);
const GENEROUS: Duration = Duration::from_secs(10);

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let subject = largest(part)?;
    let prepared = part.client.prepare(&subject.loaded.model, part.pulse)?;
    let Prepared::Runtime(compilation) = &prepared else {
        return Err(Stopped::Skipped("not offered: deadlines".to_owned()));
    };
    let mut frame = compilation.frame().map_err(CallError::from)?;
    for (at, bytes) in subject
        .loaded
        .inputs()
        .into_iter()
        .zip(&subject.feeds.first().cloned().unwrap_or_default().inputs)
    {
        frame.write_bytes(at, bytes).map_err(CallError::from)?;
    }
    let mut burst =
        compilation.burst(&nnburst::BurstOptions::default()).map_err(CallError::from)?;
    // The time of an execution that nothing disturbs.
    let mut typical = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        part.pulse.during("execute", || burst.compute(&mut frame)).map_err(CallError::from)?;
        typical = typical.min(start.elapsed());
    }
    let begun = Instant::now();
    let mut done = 0;
    while begun.elapsed() < Duration::from_millis(part.work.ms) {
        for (what, timeout) in
            [("past", Duration::ZERO), ("too near", typical / 2), ("generous", GENEROUS)]
        {
            let execution = compilation.execution().timeout(timeout);
            let start = Instant::now();
            let result = part.pulse.during("execute", || execution.compute(&mut frame));
            judge(what, "sync", timeout, start.elapsed(), result.err().map(CallError::from))?;
            let call = CallOptions { timeout: Some(timeout), ..CallOptions::default() };
            let start = Instant::now();
            let result = part.pulse.during("burst", || burst.compute_with(&mut frame, &call));
            judge(what, "burst", timeout, start.elapsed(), result.err().map(CallError::from))?;
            done += 2;
        }
    }
    smallest(part)?;
    Ok(events(done))
}

fn judge(
    what: &str,
    mode: &str,
    timeout: Duration,
    took: Duration,
    error: Option<CallError>,
) -> Outcome<()> {
    let failed = |why: String| Err(Stopped::failed(format!("a deadline {what}, {mode}: {why}")));
    let is_missed = error.as_ref().is_some_and(|error| error.status.starts_with("MissedDeadline"));
    if let Some(error) = error.filter(|_| !is_missed) {
        return failed(format!("{}, expected MISSED_DEADLINE: {error}", error.status));
    }
    if !is_missed && what == "past" {
        return failed("success, expected MISSED_DEADLINE".to_owned());
    }
    if is_missed && what == "generous" {
        return failed(format!("missed after {took:?} of {timeout:?}"));
    }
    if took > timeout + LATE {
        let late = took.saturating_sub(timeout);
        return failed(format!("the answer came {late:?} after the deadline, at most {LATE:?}"));
    }
    Ok(())
}
