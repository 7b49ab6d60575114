//! c22: one model for as long as the user says, every answer checked; the coordinator looks at the
//! driver's memory again and again.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::part::{CrashPart, ready};
use super::subjects::largest;
use crate::num::{median, micros};
use crate::protocol::CallMode;
use crate::worker::outcome::Outcome;
use crate::worker::sequence::Sequence;

/// Looks at the driver's memory in a run.
const LOOKS: u32 = 60;

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let subject = largest(part)?;
    let prepared = part.client.prepare(&subject.loaded.model, part.pulse)?;
    let mut sequence = Sequence::new(&subject.loaded, prepared.session(CallMode::Burst)?);
    let time = Duration::from_millis(part.work.ms);
    let begun = Instant::now();
    let mut medians = Vec::new();
    let mut answers = 0_u64;
    for look in 1..=LOOKS {
        let mut times = Vec::new();
        while times.is_empty() || begun.elapsed() < time * look / LOOKS {
            let feed = usize::try_from(answers).unwrap_or(0) % subject.feeds.len().max(1);
            let Some(input) = subject.feeds.get(feed) else { break };
            sequence.reset()?;
            sequence.write(input, 0)?;
            times.push(micros(sequence.call(part.pulse)?.latency));
            subject.check(feed, &sequence.read()?, CallMode::Burst)?;
            answers += 1;
        }
        medians.push(median(&times));
        ready("look");
    }
    let quarter = medians.len() / 4;
    let first = median(medians.get(..quarter).unwrap_or_default());
    let last = median(medians.get(medians.len() - quarter..).unwrap_or_default());
    Ok(json!({
        "events": answers,
        "figures": {"p50_first_quarter_us": first, "p50_last_quarter_us": last},
    }))
}
