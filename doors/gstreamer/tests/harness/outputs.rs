//! Results on buffers and on request pads.

use gst::prelude::*;
use gst_check::Harness;

use super::{Running, shared};

/// The regions of a buffer, with whether they are of an earlier frame.
fn regions(buffer: &gst::BufferRef) -> Vec<(String, bool)> {
    let regions = buffer.iter_meta::<gst_video::VideoRegionOfInterestMeta>();
    let stale = |region: &gst_video::VideoRegionOfInterestMeta| {
        region.params().next().unwrap().get::<bool>("stale").unwrap()
    };
    regions.map(|region| (region.roi_type().to_owned(), stale(&region))).collect()
}

#[test]
fn classes_are_attached_and_again_to_frames_between() {
    let labels = shared("models/imagenet_labels_1001.txt");
    let Some(labels) = labels else { return };
    let properties = [("interval", "2"), ("labels", labels.to_str().unwrap()), ("top-k", "3")];
    let Some(mut running) = Running::small(&properties) else { return };
    let mut seen = Vec::new();
    for number in 0..6 {
        let frame = running.frame(number, 30);
        let out = running.harness.push_and_pull(frame).unwrap();
        let found = regions(&out);
        assert_eq!(found.len(), 1);
        let region = out.meta::<gst_video::VideoRegionOfInterestMeta>().unwrap();
        assert_eq!(region.rect(), (0, 0, 128, 128));
        assert_eq!(region.params().count(), 3);
        seen.push(found[0].1);
    }
    assert_eq!(seen, [false, true, true, false, true, true]);
    let results = running.results();
    assert_eq!(results.len(), 2, "one for each inference");
    let label = results[0].get::<gst::Array>("labels").unwrap();
    let text = std::fs::read_to_string(labels).unwrap();
    assert!(text.lines().any(|line| line == label.first().unwrap().get::<&str>().unwrap()));
}

/// What GStreamer's own overlays and trackers read from 1.26 on.
#[cfg(feature = "v1_26")]
#[test]
fn classes_and_objects_are_analytics_metadata() {
    use gst_analytics::prelude::*;

    let labels = shared("models/imagenet_labels_1001.txt");
    let Some(labels) = labels else { return };
    let properties = [("interval", "1"), ("labels", labels.to_str().unwrap()), ("top-k", "3")];
    let Some(mut running) = Running::small(&properties) else { return };
    let frame = running.frame(0, 30);
    let out = running.harness.push_and_pull(frame).unwrap();
    let result = running.results().remove(0);
    {
        let meta = out.meta::<gst_analytics::AnalyticsRelationMeta>().unwrap();
        let classes = meta.iter::<gst_analytics::AnalyticsClassificationMtd>().next().unwrap();
        assert_eq!(classes.len(), 3);
        let named = result.get::<gst::Array>("labels").unwrap();
        for (at, label) in named.iter().enumerate() {
            assert_eq!(classes.quark(at).as_str(), label.get::<&str>().unwrap());
        }
        let scores = result.get::<gst::Array>("scores").unwrap();
        let best = scores.first().unwrap().get::<f64>().unwrap();
        assert!((f64::from(classes.level(0)) - best).abs() < 1e-6);
    }
    let frame = running.frame(1, 30);
    let stale = running.harness.push_and_pull(frame).unwrap();
    assert!(stale.meta::<gst_analytics::AnalyticsRelationMeta>().is_none(), "of another frame");

    // Whatever an SSD sees in a grey picture: as many objects, where the message has them.
    let model = "mlts/ssd_mobilenet_v1_coco_quant/model.tflite";
    let Some(mut running) = Running::new(model, &[]) else { return };
    running.harness.set_src_caps_str(&super::caps(300, 30));
    let out = running.harness.push_and_pull(gst::Buffer::with_size(300 * 300 * 3).unwrap());
    let out = out.unwrap();
    let result = running.results().remove(0);
    let scores = result.get::<gst::Array>("scores").unwrap();
    let meta = out.meta::<gst_analytics::AnalyticsRelationMeta>().unwrap();
    let objects: Vec<_> = meta.iter::<gst_analytics::AnalyticsODMtd>().collect();
    assert_eq!(objects.len(), scores.len());
    for (object, score) in objects.iter().zip(scores.iter()) {
        assert!((f64::from(object.confidence_level()) - score.get::<f64>().unwrap()).abs() < 1e-6);
        let place = object.location().unwrap();
        assert!(place.x >= 0 && place.x + place.w <= 300 && place.y + place.h <= 300, "{place:?}");
    }
}

#[test]
fn a_buffer_that_others_have_is_left_alone() {
    let Some(mut running) = Running::small(&[]) else { return };
    let frame = running.frame(0, 30);
    let theirs = frame.clone();
    let out = running.harness.push_and_pull(frame).unwrap();
    assert_eq!(regions(&out).len(), 1);
    assert_eq!(regions(&theirs).len(), 0);
    assert_eq!(theirs.peek_memory(0).as_ptr(), out.peek_memory(0).as_ptr(), "pixels are shared");
}

#[test]
fn tensors_come_from_a_pad_of_their_own() {
    let Some(mut running) = Running::small(&[]) else { return };
    let pad = running.element.request_pad_simple("tensor_%u").unwrap();
    assert_eq!(pad.name(), "tensor_0");
    let mut tensors = Harness::with_element(&running.element, None, Some("tensor_0"));
    let frame = running.frame(3, 30);
    running.harness.push_and_pull(frame).unwrap();
    let buffer = tensors.pull().unwrap();
    assert_eq!((buffer.size(), buffer.n_memory()), (1001, 1));
    assert_eq!(buffer.pts(), Some(gst::ClockTime::from_mseconds(120)));
    let caps = pad.current_caps().unwrap().to_string();
    for part in ["other/tensors", "num_tensors=(int)1", "uint8", "1001:1", "30/1"] {
        assert!(caps.contains(part), "{part} in {caps}");
    }
    // The best score is that of the message.
    let best = *buffer.map_readable().unwrap().iter().max().unwrap();
    let scores = running.results()[0].get::<gst::Array>("scores").unwrap();
    let best_score = scores.first().unwrap().get::<f64>().unwrap();
    assert!((best_score - f64::from(best) / 256.0).abs() < 1e-9);
    assert!(running.harness.push_event(gst::event::Eos::new()));
    let mut events = std::iter::from_fn(|| tensors.try_pull_event()).map(|event| event.type_());
    assert_eq!(events.next(), Some(gst::EventType::StreamStart));
    assert_eq!(events.last(), Some(gst::EventType::Eos));
    drop(tensors); // which releases the pad
    assert!(running.element.static_pad("tensor_0").is_none());
}

#[test]
fn masks_come_from_a_pad_of_their_own() {
    let model = "mlts/deeplabv3_257_float/model.tflite";
    let Some(mut running) = Running::new(model, &[]) else { return };
    let pad = running.element.request_pad_simple("mask").unwrap();
    let mut masks = Harness::with_element(&running.element, None, Some("mask"));
    running.harness.set_src_caps_str(&super::caps(257, 30));
    // Rows of 771 bytes are padded to 772.
    running.harness.push(gst::Buffer::with_size(772 * 257).unwrap()).unwrap();
    let mask = masks.pull().unwrap();
    assert_eq!(mask.size(), 260 * 257, "rows are padded");
    let info = gst_video::VideoInfo::from_caps(&pad.current_caps().unwrap()).unwrap();
    assert_eq!((info.width(), info.height()), (257, 257));
    assert_eq!(info.format(), gst_video::VideoFormat::Gray8);
    let result = running.results().remove(0);
    let sample = result.get::<gst::Sample>("mask").unwrap();
    assert_eq!(sample.buffer().unwrap().size(), mask.size());
    let shares = result.get::<gst::Array>("shares").unwrap();
    let all: f64 = shares.iter().map(|share| share.get::<f64>().unwrap()).sum();
    assert!((all - 1.0).abs() < 1e-9);
}
