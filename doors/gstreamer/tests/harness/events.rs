//! Events and states: end of stream, flush, quality of service, models that are exchanged.

use gst::prelude::*;

use super::{Running, caps, shared};

/// Pushes a frame, and returns whether it was inferred.
fn is_inferred(running: &mut Running, number: u64) -> bool {
    let before = running.count("inferred");
    let frame = running.frame(number, 100);
    let out = running.harness.push_and_pull(frame).unwrap();
    assert_eq!(out.pts(), Some(gst::ClockTime::from_mseconds(40 * number)), "none is held back");
    running.count("inferred") > before
}

#[test]
fn the_end_of_the_stream_comes_after_the_last_frame() {
    let Some(mut running) = Running::small(&[]) else { return };
    assert!(is_inferred(&mut running, 0));
    assert!(running.harness.push_event(gst::event::Eos::new()));
    let events = std::iter::from_fn(|| running.harness.try_pull_event());
    assert_eq!(events.last().unwrap().type_(), gst::EventType::Eos);
    assert_eq!(running.results().len(), 1);
}

#[test]
fn after_a_flush_the_stream_begins_anew() {
    let Some(mut running) = Running::small(&[("interval", "4")]) else { return };
    assert!(is_inferred(&mut running, 0) && !is_inferred(&mut running, 1));
    assert!(running.harness.push_event(gst::event::FlushStart::new()));
    let refused = running.frame(2, 1);
    assert_eq!(running.harness.push(refused), Err(gst::FlowError::Flushing));
    assert!(running.harness.push_event(gst::event::FlushStop::new(true)));
    let segment = gst::FormattedSegment::<gst::ClockTime>::new();
    assert!(running.harness.push_event(gst::event::Segment::new(&segment)));
    assert!(is_inferred(&mut running, 0), "the interval starts anew");
}

#[test]
fn late_frames_go_on_without_inference() {
    let Some(mut running) = Running::small(&[]) else { return };
    assert!(is_inferred(&mut running, 0));
    // The frame of 40 ms was late by 60 ms: those up to 160 ms will be as well.
    let late = |ms: i64| {
        let time = gst::ClockTime::from_mseconds(40);
        gst::event::Qos::new(gst::QOSType::Underflow, 1.5, ms * 1_000_000, time)
    };
    assert!(running.harness.push_upstream_event(late(60)));
    for number in 1..=4 {
        assert!(!is_inferred(&mut running, number), "{number}");
    }
    assert!(is_inferred(&mut running, 5));
    assert_eq!(running.count("dropped"), 4);
    running.element.set_property_from_str("drop", "none");
    assert!(running.harness.push_upstream_event(late(1000)));
    assert!(is_inferred(&mut running, 6), "asked for all");
}

#[test]
fn busy_elements_wait_for_no_frame() {
    let Some(mut running) = Running::small(&[("drop", "busy")]) else { return };
    assert_eq!(running.harness.query_latency(), Some(gst::ClockTime::ZERO));
    for number in 0..50 {
        let frame = running.frame(number, 100);
        running.harness.push_and_pull(frame).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(running.harness.push_event(gst::event::Eos::new()));
    let (inferred, dropped) = (running.count("inferred"), running.count("dropped"));
    assert!(inferred > 10 && inferred + dropped == 50, "{inferred} {dropped}");
    assert_eq!(running.results().len() as u64, inferred, "the last one before the end");
}

#[test]
fn the_latency_is_reported_to_the_pipeline() {
    let Some(mut running) = Running::small(&[]) else { return };
    running.harness.set_upstream_latency(gst::ClockTime::from_mseconds(10));
    let latency = running.harness.query_latency().unwrap();
    assert!(latency > gst::ClockTime::from_mseconds(10), "{latency}");
    assert!(latency < gst::ClockTime::from_seconds(10), "{latency}");
}

#[test]
fn the_model_is_exchanged_in_ready() {
    let Some(mut running) = Running::small(&[]) else { return };
    assert!(is_inferred(&mut running, 0));
    let other = shared("models/mobilenet_v1_0.5_160_quant/model.tflite").unwrap();
    let other = other.to_str().unwrap();
    running.element.set_property("model-file", other);
    let kept: String = running.element.property("model-file");
    assert_ne!(kept, other, "not while the stream runs");
    running.element.set_state(gst::State::Ready).unwrap();
    running.element.set_property("model", other);
    running.element.set_state(gst::State::Playing).unwrap();
    running.harness.push_event(gst::event::StreamStart::new("again"));
    running.harness.set_src_caps_str(&caps(160, 30));
    let segment = gst::FormattedSegment::<gst::ClockTime>::new();
    running.harness.push_event(gst::event::Segment::new(&segment));
    let frame = gst::Buffer::with_size(160 * 160 * 3).unwrap();
    running.harness.push_and_pull(frame).unwrap();
    assert_eq!((running.count("frames"), running.count("inferred")), (1, 1), "counted anew");
}
