//! The other client: twenty executions a second beside a test, each answer compared to the bit.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::part::{CrashPart, ready};
use super::subjects::smallest;
use crate::num::{micros, millis, quantile};
use crate::protocol::CallMode;
use crate::worker::outcome::Outcome;
use crate::worker::sequence::Sequence;

/// The time from one execution to the next.
const PERIOD: Duration = Duration::from_millis(50);
/// Executions before the test begins, and the time from one to the next.
const BEFORE: usize = 25;
const PERIOD_BEFORE: Duration = Duration::from_millis(5);

/// Runs until it is killed; what it found so far is sent after every execution.
pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let subject = smallest(part)?;
    let prepared = part.client.prepare(&subject.loaded.model, part.pulse)?;
    let mut sequence = Sequence::new(&subject.loaded, prepared.session(CallMode::Sync)?);
    let feed = subject.feeds.first().cloned().unwrap_or_default();
    let mut alone = Vec::new();
    for _ in 0..BEFORE {
        let start = Instant::now();
        sequence.run(&feed, part.pulse)?;
        alone.push(micros(start.elapsed()));
        std::thread::sleep(PERIOD_BEFORE.saturating_sub(start.elapsed()));
    }
    let before = quantile(&alone, 0.99);
    let (mut calls, mut failed, mut refused, mut gap) = (0_u64, 0_u64, 0_u64, Duration::ZERO);
    let mut times = Vec::new();
    let mut last = Instant::now();
    ready("probing");
    loop {
        let start = Instant::now();
        let answer = sequence.run(&feed, part.pulse);
        calls += 1;
        gap = gap.max(last.elapsed());
        match answer {
            Ok(got) if subject.check(0, &got, CallMode::Sync).is_ok() => {
                last = Instant::now();
                times.push(micros(start.elapsed()));
            }
            Err(error) if error.status.starts_with("ResourceExhausted") => refused += 1,
            _ => failed += 1,
        }
        let value = json!({
            "calls": calls, "failed": failed, "refused": refused, "longest_gap_ms": millis(gap),
            "p99_before_us": before, "p99_during_us": quantile(&times, 0.99),
        });
        super::part::note("probe", value);
        std::thread::sleep(PERIOD.saturating_sub(start.elapsed()));
    }
}
