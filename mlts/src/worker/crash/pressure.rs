//! c16 and c17: a client that takes models or bursts until the driver refuses, and gives them back.
//!
//! The coordinator has put the driver's process under a limit of memory or of descriptors.

use std::time::{Duration, Instant};

use nnburst::hal::Operand;
use nnburst::{ModelBuilder, RuntimeError};
use nnburst_burst::{BurstController, ControllerOptions};
use serde_json::{Value, json};

use super::part::CrashPart;
use super::subjects::{Subject, smallest};
use crate::data::{Loaded, Random};
use crate::protocol::CallMode;
use crate::worker::client::{CallError, Prepared};
use crate::worker::outcome::{Outcome, Stopped};
use crate::worker::sequence::Sequence;

/// Floats of each hoarded model's constant: 4 MiB.
const FLOATS: u32 = 1 << 20;
/// The most models or bursts of a round, where nothing is refused.
const MOST: usize = 1000;
/// The time that a driver has to take back what a client drops.
const RETURN: Duration = Duration::from_secs(2);

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let is_memory = part.work.extra.get("what").is_some_and(|what| what == "memory");
    let subject = smallest(part)?;
    let first = part.client.prepare(&subject.loaded.model, part.pulse)?;
    let (mut taken, mut refusal) = (0_usize, String::new());
    for round in 0..part.work.count.max(1) {
        let (held, error) =
            if is_memory { hoard_models(part, round)? } else { hoard_bursts(part, &first)? };
        let count = held.len();
        taken += count;
        if let Some(error) = error {
            judge_refusal(&error, count)?;
            refusal.clone_from(&error.status);
        }
        // At the limit a model that was there before is right, or refused for the same reason.
        check_at_limit(part, &subject, &first)?;
        drop(held);
        recover(part, &subject, round)?;
    }
    Ok(json!({
        "events": taken, "figures": {"taken": taken / part.work.count.max(1)}, "refusal": refusal,
    }))
}

/// Memory that a client holds until it gives it back.
enum Held {
    Models(Vec<Prepared>),
    Bursts(Vec<BurstController>),
}

impl Held {
    fn len(&self) -> usize {
        match self {
            Self::Models(all) => all.len(),
            Self::Bursts(all) => all.len(),
        }
    }
}

/// The status of a refusal says that something ran out; a driver that died has said nothing.
fn judge_refusal(error: &CallError, count: usize) -> Outcome<()> {
    let is_honest = error.status.starts_with("ResourceExhausted");
    if is_honest && count > 0 {
        return Ok(());
    }
    let status = &error.status;
    Err(Stopped::failed(format!(
        "after {count}: {status}, expected RESOURCE_EXHAUSTED_TRANSIENT or _PERSISTENT: {error}"
    )))
}

/// Prepares models of large constants until one is refused.
fn hoard_models(part: &CrashPart<'_>, round: usize) -> Outcome<(Held, Option<CallError>)> {
    let mut held = Vec::new();
    let mut random = Random(part.job.seed.wrapping_add(u64::try_from(round).unwrap_or(0)));
    for number in 0..MOST {
        let Some(loaded) = large(&mut random) else { break };
        if number == 0 {
            let taken = part.client.supported(&loaded.model)?;
            if !taken.iter().all(|&yes| yes) {
                let why = "the driver takes no ADD, of which large models are made";
                return Err(Stopped::Skipped(why.to_owned()));
            }
        }
        match part.client.prepare(&loaded.model, part.pulse) {
            Ok(prepared) => held.push(prepared),
            Err(error) => return Ok((Held::Models(held), Some(error))),
        }
    }
    Ok((Held::Models(held), None))
}

/// An addition with a constant of 4 MiB that no other model has.
fn large(random: &mut Random) -> Option<Loaded> {
    let mut graph = ModelBuilder::new();
    let input = graph.input(Operand::float32([FLOATS]));
    let own = random.unit();
    let constant = vec![own; usize::try_from(FLOATS).ok()?];
    let constant = graph.tensor_f32(vec![FLOATS], &constant);
    let output = graph.add(input, constant).done();
    graph.output(output);
    let model = graph.build().ok()?;
    Some(Loaded { model, states: Vec::new(), origins: Vec::new() })
}

/// Opens bursts until one is refused. (The runtime would call in another way, and say nothing.)
fn hoard_bursts(part: &CrashPart<'_>, first: &Prepared) -> Outcome<(Held, Option<CallError>)> {
    let Prepared::Runtime(compilation) = first else {
        return Err(Stopped::Skipped("not offered: bursts".to_owned()));
    };
    let mut held = Vec::new();
    for _ in 0..MOST {
        let options = ControllerOptions::default();
        let opened = part.pulse.during("open a burst", || {
            BurstController::configure(compilation.prepared().as_ref(), &options, None)
        });
        match opened.map_err(|error| CallError::from(RuntimeError::from(error))) {
            Ok(burst) => held.push(burst),
            Err(error) if held.is_empty() && !error.is_lost => {
                return Err(Stopped::Skipped("not offered: bursts".to_owned()));
            }
            Err(error) => return Ok((Held::Bursts(held), Some(error))),
        }
    }
    Ok((Held::Bursts(held), None))
}

/// Runs a model of the client that has taken all it may have.
fn check_at_limit(part: &CrashPart<'_>, subject: &Subject, prepared: &Prepared) -> Outcome<()> {
    const WHAT: &str = "a model that was there before, at the limit";
    let Some(feed) = subject.feeds.first() else { return Ok(()) };
    let session = prepared.session(CallMode::Sync);
    let got =
        session.and_then(|session| Sequence::new(&subject.loaded, session).run(feed, part.pulse));
    match got {
        Ok(got) => subject.check(0, &got, CallMode::Sync).map_err(|stopped| stopped.during(WHAT)),
        Err(error) if error.status.starts_with("ResourceExhausted") => Ok(()),
        Err(error) => Err(Stopped::from(error).during(WHAT)),
    }
}

/// Memory that was given back can be had again.
fn recover(part: &CrashPart<'_>, subject: &Subject, round: usize) -> Outcome<()> {
    let begun = Instant::now();
    loop {
        match subject.answer_on(part.client, part.pulse) {
            Ok(()) => return Ok(()),
            Err(failed) if begun.elapsed() > RETURN => {
                return Err(failed.during(format!(
                    "{RETURN:?} after everything was given back in round {round}"
                )));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_that_says_what_ran_out_is_honest() {
        let error = |status: &str| CallError {
            status: status.to_owned(),
            reason: "full".to_owned(),
            is_lost: false,
        };
        assert!(judge_refusal(&error("ResourceExhaustedTransient"), 3).is_ok());
        assert!(judge_refusal(&error("ResourceExhaustedPersistent"), 3).is_ok());
        assert!(judge_refusal(&error("ResourceExhaustedTransient"), 0).is_err(), "not even one");
        assert!(judge_refusal(&error("GeneralFailure"), 3).is_err());
    }

    #[test]
    fn no_two_large_models_are_the_same() {
        let mut random = Random(1);
        let (one, other) = (large(&mut random).unwrap(), large(&mut random).unwrap());
        let first = |loaded: &Loaded| {
            let pool = &loaded.model.pools[0];
            assert!(pool.size() >= 4 << 20, "{} bytes", pool.size());
            let mut value = [0; 4];
            pool.read_at(0, &mut value).unwrap();
            value
        };
        assert_ne!(first(&one), first(&other));
    }
}
