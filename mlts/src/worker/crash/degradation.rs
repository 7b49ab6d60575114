//! c09: one model alone, and beside a thread that compiles another again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::part::CrashPart;
use super::subjects::{Subject, subjects};
use crate::num::{micros, quantile};
use crate::protocol::CallMode;
use crate::worker::client::Prepared;
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::Sequence;

/// The pause between two compilations.
const PAUSE: Duration = Duration::from_millis(20);
/// The most by which the median may grow.
const LIMIT: f64 = 1.5;

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let subjects = subjects(part)?;
    let Some(subject) = subjects.last() else { return Ok(Value::Null) };
    let prepared = part.client.prepare(&subject.loaded.model, part.pulse)?;
    let time = Duration::from_millis(part.work.ms);
    let mut rows = Vec::new();
    for other in &subjects {
        let alone = measure(part, subject, &prepared, time)?;
        let beside = beside(part, subject, &prepared, other, time)?;
        let (before, after) = (quantile(&alone, 0.5), quantile(&beside, 0.5));
        rows.push(json!({
            "model": subject.name, "beside": other.name, "p50_us": [before, after],
            "p99_us": [quantile(&alone, 0.99), quantile(&beside, 0.99)],
        }));
        if after > before * LIMIT {
            let reason = format!(
                "{}: p50 {before:.1} us alone, {after:.1} us beside compilations of {}; at most {:.0} % more",
                subject.name,
                other.name,
                (LIMIT - 1.0) * 100.0
            );
            return Err(Stopped::Failed(reason, json!({"rows": rows})));
        }
    }
    Ok(json!({"events": rows.len(), "rows": rows}))
}

fn beside(
    part: &CrashPart<'_>,
    subject: &Subject,
    prepared: &Prepared,
    other: &Subject,
    time: Duration,
) -> Outcome<Vec<f64>> {
    let is_over = AtomicBool::new(false);
    let shared = part.client.share();
    std::thread::scope(|scope| {
        let compiler = scope.spawn(|| -> Outcome<()> {
            let client = shared.open()?;
            // Relaxed: a switch, nothing is handed over.
            while !is_over.load(Ordering::Relaxed) {
                drop(client.prepare(&other.loaded.model, part.pulse)?);
                std::thread::sleep(PAUSE);
            }
            Ok(())
        });
        let times = measure(part, subject, prepared, time);
        is_over.store(true, Ordering::Relaxed);
        match compiler.join() {
            Ok(ended) => ended.and(times),
            Err(_) => Err(Stopped::failed("a thread of the client panicked")),
        }
    })
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
    sequence.run(&feed, part.pulse)?;
    let begun = Instant::now();
    let mut times = Vec::new();
    while times.is_empty() || begun.elapsed() < time {
        times.push(micros(sequence.call(part.pulse)?.latency));
    }
    Ok(times)
}
