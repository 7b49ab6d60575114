//! c21: compile, run, drop, again and again, with pauses in which the coordinator looks at the
//! driver's resources.

use std::time::Duration;

use serde_json::Value;

use super::part::{CrashPart, events, ready};
use super::subjects::smallest;
use crate::data::Random;
use crate::protocol::CallMode;
use crate::worker::outcome::Outcome;
use crate::worker::sequence::Sequence;

/// Repetitions; the first warms up.
pub(crate) const ROUNDS: usize = 4;
/// The coordinator looks when half of it is over.
pub(crate) const PAUSE: Duration = Duration::from_millis(400);

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let subject = smallest(part)?;
    let mut random = Random(part.job.seed);
    let mut loads = 0;
    for round in 0..ROUNDS {
        for _ in 0..part.work.count {
            let prepared = part.client.prepare(&subject.loaded.model, part.pulse)?;
            let feed = random.index(subject.feeds.len());
            // Modes in turn: each leaves other things behind.
            let mode =
                CallMode::ALL.get(loads % CallMode::ALL.len()).copied().unwrap_or(CallMode::Sync);
            let mut sequence = Sequence::new(&subject.loaded, prepared.session(mode)?);
            if let Some(input) = subject.feeds.get(feed) {
                let got = sequence.run(input, part.pulse)?;
                subject.check(feed, &got, mode)?;
            }
            loads += 1;
        }
        part.pulse.step();
        ready(&format!("rest {round}"));
        std::thread::sleep(PAUSE);
    }
    Ok(events(u64::try_from(loads).unwrap_or(0)))
}
