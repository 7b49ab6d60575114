//! `nnbdenoise`: latency, time stamps, the end of the stream, interruptions.

use gst::prelude::*;
use gst_check::Harness;

use super::{init, shared};

const CAPS: &str = "audio/x-raw,format=F32LE,rate=16000,channels=1,layout=interleaved";

fn harness() -> Option<(Harness, gst::Element)> {
    init();
    let element = gst::ElementFactory::make("nnbdenoise").build().unwrap();
    for at in [1, 2] {
        let model = shared(&format!("models/dtln_float_{at}/model.tflite"))?;
        element.set_property(&format!("model-{at}"), model.to_str().unwrap());
    }
    let mut harness = Harness::with_element(&element, Some("sink"), Some("src"));
    harness.set_src_caps_str(CAPS);
    Some((harness, element))
}

/// A tone of so many samples, the first of which is heard at `pts` ms.
fn tone(samples: usize, pts: u64) -> gst::Buffer {
    let values = (0..samples).map(|at| (at as f32 * 0.1).sin() * 0.3);
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    let mut buffer = gst::Buffer::from_mut_slice(bytes);
    buffer.get_mut().unwrap().set_pts(gst::ClockTime::from_mseconds(pts));
    buffer
}

/// All buffers that have come out: where each begins in ms, and its samples.
fn out(harness: &mut Harness) -> Vec<(u64, usize)> {
    let buffers = std::iter::from_fn(|| harness.try_pull());
    buffers.map(|buffer| (buffer.pts().unwrap().mseconds(), buffer.size() / 4)).collect()
}

#[test]
fn the_latency_is_constant_and_time_stamps_are_those_of_the_sound() {
    let Some((mut harness, element)) = harness() else { return };
    harness.set_upstream_latency(gst::ClockTime::from_mseconds(5));
    assert_eq!(harness.query_latency(), Some(gst::ClockTime::from_mseconds(37)));
    harness.push(tone(480, 1000)).unwrap();
    assert_eq!(out(&mut harness), [], "3 blocks of 128: nothing is through");
    harness.push(tone(480, 1030)).unwrap();
    harness.push(tone(480, 1060)).unwrap();
    // 960 samples are 7 blocks, 1440 are 11; 3 are held back.
    assert_eq!(out(&mut harness), [(1000, 512), (1032, 512)]);
    assert!(harness.push_event(gst::event::Eos::new()));
    assert_eq!(out(&mut harness), [(1064, 416)], "as much as came in");
    assert_eq!(element.property::<u64>("misses"), 0);
}

#[test]
fn what_comes_after_an_interruption_is_another_stream() {
    let Some((mut harness, _element)) = harness() else { return };
    harness.push(tone(1280, 0)).unwrap();
    assert_eq!(out(&mut harness), [(0, 896)]);
    let mut later = tone(1280, 5000);
    later.get_mut().unwrap().set_flags(gst::BufferFlags::DISCONT);
    harness.push(later).unwrap();
    assert_eq!(out(&mut harness), [(56, 384), (5000, 896)], "the rest of the first one is first");
    assert!(harness.push_event(gst::event::FlushStart::new()));
    assert!(harness.push_event(gst::event::FlushStop::new(true)));
    let segment = gst::FormattedSegment::<gst::ClockTime>::new();
    assert!(harness.push_event(gst::event::Segment::new(&segment)));
    harness.push(tone(1280, 9000)).unwrap();
    assert_eq!(out(&mut harness), [(9000, 896)], "nothing of before the flush");
}

#[test]
fn the_same_sound_is_the_same_after_a_flush() {
    let Some((mut harness, _element)) = harness() else { return };
    let mut once = || {
        harness.push(tone(2560, 0)).unwrap();
        let clean = harness.pull().unwrap().map_readable().unwrap().to_vec();
        assert!(harness.push_event(gst::event::FlushStart::new()));
        assert!(harness.push_event(gst::event::FlushStop::new(true)));
        let segment = gst::FormattedSegment::<gst::ClockTime>::new();
        assert!(harness.push_event(gst::event::Segment::new(&segment)));
        clean
    };
    let first = once();
    assert_eq!(first.len(), (2560 - 384) * 4);
    assert_eq!(once(), first);
}
