//! c13: packets that no honest client sends, clients that don't read or leave, bursts that idle.

use nnburst_burst::packet::{RequestDatum, RequestItem};
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
        let (what, packet) = if number % 2 == 0 {
            damaged(&valid, &mut random)
        } else {
            let Some(lie) = untrue(&valid, &mut random) else { continue };
            lie
        };
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
    drop(bare);
    done += leaving(part, &subject, &open)?;
    done += idle(part, &subject)?;
    still_right(part)?;
    Ok(events(done))
}

/// A packet cut short, or with an element removed or twice. (Exchanged elements may be another
/// packet that is valid.)
fn damaged<T: Clone + PartialEq>(valid: &[T], random: &mut Random) -> (String, Vec<T>) {
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

/// Slots that nobody has, and the most that a count can say.
const UNKNOWN_SLOTS: [i32; 5] = [-1, i32::MIN, 77, 4096, i32::MAX];
const HUGE: [u32; 3] = [1 << 16, i32::MAX.cast_unsigned(), u32::MAX];

/// A packet of the right form with one value that can't be true: a slot that nobody has, or a count
/// or size that is huge. `None` where the element that was drawn has no such value.
fn untrue(valid: &[RequestDatum], random: &mut Random) -> Option<(String, Vec<RequestDatum>)> {
    let at = random.index(valid.len());
    let huge = HUGE.get(random.index(HUGE.len())).copied()?;
    let which = random.below(4);
    let (what, item) = match valid.get(at)?.item()? {
        RequestItem::PacketInformation { packet_size, inputs, outputs, pools } => {
            let mut counts = [packet_size, inputs, outputs, pools];
            *counts.get_mut(usize::try_from(which).ok()?)? = huge;
            let [packet_size, inputs, outputs, pools] = counts;
            let item = RequestItem::PacketInformation { packet_size, inputs, outputs, pools };
            (format!("count {which} of the packet is {huge}"), item)
        }
        RequestItem::InputOperand { has_no_value, location, .. } => {
            let item = RequestItem::InputOperand { has_no_value, location, dimensions: huge };
            (format!("input of {huge} dimensions"), item)
        }
        RequestItem::OutputOperand { has_no_value, location, .. } => {
            let item = RequestItem::OutputOperand { has_no_value, location, dimensions: huge };
            (format!("output of {huge} dimensions"), item)
        }
        RequestItem::PoolIdentifier(_) => {
            let slot = UNKNOWN_SLOTS.get(random.index(UNKNOWN_SLOTS.len())).copied()?;
            (format!("slot {slot}"), RequestItem::PoolIdentifier(slot))
        }
        _ => return None,
    };
    let mut packet = valid.to_vec();
    *packet.get_mut(at)? = RequestDatum::new(item);
    Some((what, packet))
}

/// Clients that send and never read an answer, and clients that leave between request and answer:
/// the others are served as before.
fn leaving(
    part: &CrashPart<'_>,
    subject: &super::subjects::Subject,
    open: &impl Fn() -> BareClient,
) -> Outcome<u64> {
    let failed = |why: String| Stopped::failed(format!("a client that does not read: {why}"));
    let mut silent = part.pulse.during("open a burst", || caught(open)).map_err(failed)?;
    let valid = silent.valid();
    let mut sent = 0;
    // Until the queue of requests is full, as the driver waits for room in that of results; or
    // until it is clear that the driver drops what nobody reads.
    while sent < UNREAD && caught(|| silent.send(&valid)).is_ok() {
        sent += 1;
    }
    subject
        .answer_on(part.client, part.pulse)
        .map_err(|stopped| stopped.during("beside a client that does not read"))?;
    drop(silent);
    for _ in 0..LEAVING {
        let opened = part.pulse.during("open a burst", || caught(open));
        let mut bare = opened.map_err(failed)?;
        caught(|| bare.send(&valid)).map_err(failed)?;
        drop(bare);
    }
    subject
        .answer_on(part.client, part.pulse)
        .map_err(|stopped| stopped.during("after clients that left before the answer"))?;
    Ok(sent + LEAVING)
}

/// Requests of a client that reads no answer, at most; clients that leave before theirs.
const UNREAD: u64 = 2000;
const LEAVING: u64 = 20;

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
    fn values_that_can_not_be_true_leave_the_form_alone() {
        let items = [
            RequestItem::PacketInformation { packet_size: 3, inputs: 1, outputs: 0, pools: 1 },
            RequestItem::PoolIdentifier(0),
            RequestItem::MeasureTiming(true),
        ];
        let valid = items.map(RequestDatum::new);
        let mut random = Random(1);
        let mut kinds = std::collections::BTreeSet::new();
        for (what, packet) in (0..200).filter_map(|_| untrue(&valid, &mut random)) {
            let apart = valid.iter().zip(&packet).filter(|(one, other)| one != other).count();
            assert_eq!((packet.len(), apart), (valid.len(), 1), "{what}");
            kinds.insert(what);
        }
        assert!(kinds.contains("slot -1") && kinds.contains("count 1 of the packet is 4294967295"));
    }

    #[test]
    fn no_lie_is_the_truth() {
        let mut random = Random(1);
        let mut kinds = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let (what, packet) = damaged(&[1, 2, 3, 4], &mut random);
            kinds.insert(what.split(' ').next_back().map(str::to_owned));
            assert_ne!(packet, [1, 2, 3, 4], "{what}");
        }
        assert_eq!(kinds.len(), 3, "{kinds:?}");
    }
}
