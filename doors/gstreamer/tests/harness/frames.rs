//! Frames: caps, memory, counts.

use gst::prelude::*;

use super::{Running, caps, init};

#[test]
fn caps_are_those_of_the_model() {
    let Some(running) = Running::new(super::SMALL, &[]) else { return };
    let sink = running.element.static_pad("sink").unwrap();
    let caps = sink.query_caps(None);
    let structure = caps.structure(0).unwrap();
    assert_eq!(structure.get::<&str>("format").unwrap(), "RGB");
    assert_eq!(structure.get::<i32>("width").unwrap(), 128);
    assert_eq!(structure.get::<i32>("height").unwrap(), 128);
}

#[test]
fn without_a_model_nothing_starts_and_the_reason_is_on_the_bus() {
    init();
    for (model, reason) in [(None, "model-file is not set"), (Some("/nowhere"), "/nowhere")] {
        let element = gst::ElementFactory::make("nnbinference").build().unwrap();
        element.set_property("model-file", model);
        let bus = gst::Bus::new();
        element.set_bus(Some(&bus));
        assert!(element.set_state(gst::State::Paused).is_err());
        let message = bus.pop_filtered(&[gst::MessageType::Error]).unwrap();
        let gst::MessageView::Error(error) = message.view() else { unreachable!() };
        assert!(error.error().message().contains(reason), "{}", error.error());
        element.set_bus(None);
        element.set_state(gst::State::Null).unwrap();
    }
}

#[test]
fn a_thousand_frames_go_through_a_ring_of_shared_memory() {
    let Some(mut running) = Running::small(&[]) else { return };
    let mut memories = std::collections::BTreeSet::new();
    let caps: gst::Caps = caps(128, 30).parse().unwrap();
    let mut query = gst::query::Allocation::new(Some(&caps), true);
    assert!(running.element.static_pad("sink").unwrap().query(&mut query));
    let (pool, size, least, _) = query.allocation_pools().next().unwrap();
    assert_eq!((size, least), (128 * 128 * 3, 2));
    let pool = pool.unwrap();
    pool.set_active(true).unwrap();
    for number in 0..1000 {
        let mut frame = pool.acquire_buffer(None).unwrap();
        {
            let frame = frame.get_mut().unwrap();
            frame.map_writable().unwrap().fill((number % 251) as u8);
            frame.set_pts(gst::ClockTime::from_mseconds(40 * number));
        }
        let memory = frame.peek_memory(0);
        assert!(memory.is_memory_type::<gst_allocators::FdMemory>(), "not what was offered");
        memories.insert(memory.as_ptr().addr());
        let pts = frame.pts();
        let out = running.harness.push_and_pull(frame).unwrap();
        assert_eq!(out.pts(), pts);
        assert_eq!(out.map_readable().unwrap()[7], (number % 251) as u8, "pixels are untouched");
    }
    pool.set_active(false).unwrap();
    assert!(memories.len() <= 4, "{} memories for a ring", memories.len());
    assert_eq!((running.count("frames"), running.count("inferred")), (1000, 1000));
    assert_eq!(running.count("dropped"), 0);
    let (p50, p99) = (running.count("latency-p50"), running.count("latency-p99"));
    assert!(0 < p50 && p50 <= p99, "{p50} {p99}");
    let results = running.results();
    assert_eq!(results.len(), 1000);
    assert_eq!(results[999].get::<u64>("frame").unwrap(), 999);
}

#[test]
fn results_are_the_same_wherever_pixels_lie() {
    let Some(mut running) = Running::small(&[]) else { return };
    let pixel = |x: usize, y: usize, channel: usize| {
        u8::try_from((x * 2 + y * (channel + 1)) % 256).unwrap()
    };
    let rows = |stride: usize, data: &mut [u8]| {
        for (y, row) in data.chunks_mut(stride).enumerate().take(128) {
            for x in 0..128 {
                for channel in 0..3 {
                    row[x * 3 + channel] = pixel(x, y, channel);
                }
            }
        }
    };
    // In memory that was offered, and in a part of such memory.
    let mut ours = running.frame(0, 0);
    rows(384, &mut ours.get_mut().unwrap().map_writable().unwrap());
    // In memory of others.
    let mut theirs = gst::Buffer::with_size(128 * 384).unwrap();
    rows(384, &mut theirs.get_mut().unwrap().map_writable().unwrap());
    // With rows that are padded.
    let mut padded = gst::Buffer::with_size(128 * 400).unwrap();
    {
        let padded = padded.get_mut().unwrap();
        rows(400, &mut padded.map_writable().unwrap());
        let (flags, format) = (gst_video::VideoFrameFlags::empty(), gst_video::VideoFormat::Rgb);
        gst_video::VideoMeta::add_full(padded, flags, format, 128, 128, &[0], &[400]).unwrap();
    }
    // In several memories.
    let mut parts = gst::Buffer::new();
    {
        let whole = theirs.map_readable().unwrap();
        let parts = parts.get_mut().unwrap();
        for half in whole.chunks(64 * 384) {
            parts.append_memory(gst::Memory::from_slice(half.to_vec()));
        }
    }
    for (what, buffer) in [("ours", ours), ("theirs", theirs), ("padded", padded), ("parts", parts)]
    {
        running.harness.push_and_pull(buffer).unwrap();
        let results = running.results();
        assert_eq!(results.len(), 1, "{what}");
        let scores = results[0].get::<gst::Array>("scores").unwrap();
        let scores: Vec<f64> = scores.iter().map(|it| it.get().unwrap()).collect();
        assert_eq!(
            scores,
            SCORES.with(|kept| kept.get_or_init(|| scores.clone()).clone()),
            "{what}"
        );
    }
}

thread_local! {
    /// The scores of the first frame of the test.
    static SCORES: std::cell::OnceCell<Vec<f64>> = const { std::cell::OnceCell::new() };
}

#[test]
fn a_buffer_that_is_too_short_is_a_warning_and_goes_on() {
    let Some(mut running) = Running::small(&[]) else { return };
    let short = gst::Buffer::with_size(100).unwrap();
    let out = running.harness.push_and_pull(short).unwrap();
    assert_eq!(out.size(), 100);
    assert!(running.bus.pop_filtered(&[gst::MessageType::Warning]).is_some());
    let frame = running.frame(1, 7);
    running.harness.push_and_pull(frame).unwrap();
    assert_eq!((running.count("inferred"), running.count("dropped")), (1, 1));
}

#[test]
fn other_pictures_are_refused_and_framerates_may_change() {
    let Some(mut running) = Running::small(&[]) else { return };
    let frame = running.frame(0, 7);
    running.harness.push_and_pull(frame).unwrap();
    let sink = running.element.static_pad("sink").unwrap();
    for wrong in [caps(127, 30), caps(128, 30).replace("RGB", "I420"), "audio/x-raw".into()] {
        let wrong: gst::Caps = wrong.parse().unwrap();
        assert!(!sink.query_accept_caps(&wrong), "{wrong}");
    }
    running.harness.set_src_caps_str(&caps(128, 15));
    let frame = running.frame(1, 7);
    running.harness.push_and_pull(frame).unwrap();
    let current = running.element.static_pad("src").unwrap().current_caps().unwrap();
    assert!(current.to_string().contains("15/1"), "{current}");
    assert_eq!(running.count("inferred"), 2);
}
