//! c19: a high-priority model beside a flood of low-priority executions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nnburst::PrepareOptions;
use nnburst::hal::Priority;
use serde_json::{Value, json};

use super::part::CrashPart;
use super::subjects::{Subject, largest};
use crate::num::{micros, quantile};
use crate::protocol::CallMode;
use crate::worker::client::{CallError, Prepared};
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::Sequence;

/// The p99 beside the flood over the p99 alone.
const LIMIT: f64 = 3.0;
/// What the system's scheduler adds on a machine of few processors, which is not the driver's
/// doing.
const SLICE_US: f64 = 4000.0;
/// Callers of low priority for each processor.
const FLOOD: usize = 2;

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let subject = largest(part)?;
    let high = prepare(part, &subject, Priority::High)?;
    let low = prepare(part, &subject, Priority::Low)?;
    let time = Duration::from_millis(part.work.ms / 2);
    let alone = measure(part, &subject, &high, time)?;
    let done = AtomicU64::new(0);
    let beside = beside(part, &subject, &high, &low, &done, time)?;
    let (before, after) = (quantile(&alone, 0.99), quantile(&beside, 0.99));
    let moved = done.into_inner();
    let value = json!({
        "events": alone.len() + beside.len(),
        "figures": {
            "p50_alone_us": quantile(&alone, 0.5), "p99_alone_us": before,
            "p50_beside_us": quantile(&beside, 0.5), "p99_beside_us": after,
            "low_executions": moved,
        },
    });
    if moved == 0 {
        let reason = "executions of low priority did not move at all";
        return Err(Stopped::Failed(reason.to_owned(), value));
    }
    if after > (before * LIMIT).max(before + SLICE_US) {
        let reason = format!(
            "{}: p99 of high priority {before:.0} us alone, {after:.0} us beside low priority; at most {LIMIT} times as much, or {SLICE_US:.0} us more",
            subject.name
        );
        return Err(Stopped::Failed(reason, value));
    }
    Ok(value)
}

fn prepare(part: &CrashPart<'_>, subject: &Subject, priority: Priority) -> Outcome<Prepared> {
    let Some(device) = part.client.device() else {
        return Err(Stopped::Skipped("not offered: priorities".to_owned()));
    };
    let options = PrepareOptions { priority, ..PrepareOptions::default() };
    let compiled = part.pulse.during("prepare", || device.compile(&subject.loaded.model, options));
    Ok(Prepared::Runtime(compiled.map_err(CallError::from)?))
}

/// Latencies in microseconds.
fn measure(
    part: &CrashPart<'_>,
    subject: &Subject,
    prepared: &Prepared,
    time: Duration,
) -> Outcome<Vec<f64>> {
    let mut sequence = Sequence::new(&subject.loaded, prepared.session(CallMode::Sync)?);
    let feed = subject.feeds.first().cloned().unwrap_or_default();
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < 100 || begun.elapsed() < time {
        sequence.reset()?;
        sequence.write(&feed, 0)?;
        times.push(micros(sequence.call(part.pulse)?.latency));
    }
    let got = sequence.run(&feed, part.pulse)?;
    subject.check(0, &got, CallMode::Sync)?;
    Ok(times)
}

fn beside(
    part: &CrashPart<'_>,
    subject: &Subject,
    high: &Prepared,
    low: &Prepared,
    done: &AtomicU64,
    time: Duration,
) -> Outcome<Vec<f64>> {
    let is_over = AtomicBool::new(false);
    let Prepared::Runtime(low) = low else { return measure(part, subject, high, time) };
    let callers = std::thread::available_parallelism().map_or(2, usize::from) * FLOOD;
    std::thread::scope(|scope| {
        let flood = || -> Outcome<()> {
            let prepared = Prepared::Runtime(low.clone());
            let mut sequence = Sequence::new(&subject.loaded, prepared.session(CallMode::Sync)?);
            let feed = subject.feeds.first().cloned().unwrap_or_default();
            // Relaxed: a switch and a count, nothing is handed over.
            while !is_over.load(Ordering::Relaxed) {
                sequence.run(&feed, part.pulse)?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..callers).map(|_| scope.spawn(flood)).collect();
        let times = measure(part, subject, high, time);
        is_over.store(true, Ordering::Relaxed);
        let mut result = times;
        for thread in threads {
            let ended = match thread.join() {
                Ok(ended) => ended,
                Err(_) => Err(Stopped::failed("a thread of the client panicked")),
            };
            result = ended.map_err(|stopped| stopped.during("low priority")).and(result);
        }
        result
    })
}
