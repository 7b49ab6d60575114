//! c13: packets that no honest client sends, clients that don't read, bursts that idle.

use nnburst_burst::testing::BareClient;
use serde_json::{Value, json};

use super::mutations::{prepare, request_of, still_right};
use super::part::{CrashPart, events};
use super::subjects::smallest;
use crate::data::Random;
use crate::protocol::CallMode;
use crate::worker::outcome::{Outcome, Stopped};

/// Elements of the result queue, as Android's controller makes it.
const RESULTS: usize = 1024;
/// Bursts that are opened and left alone.
const IDLE: usize = 64;

pub(super) fn run(part: &CrashPart<'_>) -> Outcome<Value> {
    let subject = smallest(part)?;
    let request = request_of(&subject)?;
    let model = prepare(part, subject.loaded.model.clone());
    let model = model.map_err(|error| Stopped::Skipped(error.to_string()))?;
    // The bare client stops its thread where it is not served as it expects.
    let open = || BareClient::open(model.as_ref(), &request, RESULTS);
    let opened = part.pulse.during("open a burst", || caught(open));
    let Ok(mut bare) = opened else {
        return Err(Stopped::Skipped("not offered: bursts".to_owned()));
    };
    let valid = bare.valid();
    let mut random = Random(part.job.seed);
    let mut done = 0;
    for number in 0..part.work.count {
        let (what, packet) = lie(&valid, &mut random);
        let case = json!({"packet": what, "number": number, "seed": part.job.seed});
        super::part::note_case(case.clone());
        let answer = part.pulse.during("burst", || caught(|| bare.answer(&packet)));
        let failed = |why: String| Stopped::Failed(format!("{what}: {why}"), case.clone());
        let answer = answer.map_err(&failed)?;
        if answer.status == nnburst::hal::ErrorStatus::None {
            return Err(failed("accepted, expected an error".to_owned()));
        }
        done += 1;
        // Its own request works as before.
        let good = part.pulse.during("burst", || caught(|| bare.answer(&valid)));
        let good = good.map_err(&failed)?;
        if good.status != nnburst::hal::ErrorStatus::None {
            return Err(failed(format!("the valid request after it: {:?}", good.status)));
        }
    }
    done += idle(part, &subject)?;
    still_right(part)?;
    Ok(events(done))
}

/// A packet cut short, or with an element removed or twice. (Exchanged elements may be another
/// packet that is valid.)
fn lie<T: Clone + PartialEq>(valid: &[T], random: &mut Random) -> (String, Vec<T>) {
    let mut packet = valid.to_vec();
    let at = random.index(packet.len());
    let what = match random.below(3) {
        0 => {
            packet.truncate(at.max(1));
            format!("cut to {} elements", packet.len())
        }
        1 => {
            packet.remove(at);
            format!("element {at} removed")
        }
        _ => {
            let twice = packet.get(at).cloned();
            packet.splice(at..at, twice);
            format!("element {at} twice")
        }
    };
    (what, packet)
}

/// Bursts that are open and idle keep nobody from being served.
fn idle(part: &CrashPart<'_>, subject: &super::subjects::Subject) -> Outcome<u64> {
    let prepared = part.client.prepare(&subject.loaded.model, part.pulse)?;
    let mut open = Vec::new();
    for number in 0..IDLE {
        let session = part.pulse.during("open a burst", || prepared.session(CallMode::Burst));
        match session {
            Ok(session) => open.push(session),
            // A limit on bursts is a driver's right, if it says so.
            Err(error) if error.status.starts_with("ResourceExhausted") && number > 0 => break,
            Err(error) => return Err(Stopped::from(error).during(format!("idle burst {number}"))),
        }
    }
    subject.answer_on(part.client, part.pulse)?;
    Ok(u64::try_from(open.len()).unwrap_or(0))
}

/// Runs what stops with a panic, and returns its words.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        text.unwrap_or_else(|| "no answer".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lie_is_the_truth() {
        let mut random = Random(1);
        let mut kinds = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let (what, packet) = lie(&[1, 2, 3, 4], &mut random);
            kinds.insert(what.split(' ').next_back().map(str::to_owned));
            assert_ne!(packet, [1, 2, 3, 4], "{what}");
        }
        assert_eq!(kinds.len(), 3, "{kinds:?}");
    }
}
