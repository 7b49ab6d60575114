//! `nnbinference` and `nnbdenoise` in GStreamer's test harness: caps, events, queries, metadata.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod denoise;
mod events;
mod frames;
mod outputs;

use std::path::PathBuf;
use std::sync::Once;

use gst::prelude::*;
use gst_check::Harness;
use nnburst_conformance::shared_dir;

/// GStreamer with the plugin of this package.
pub(crate) fn init() {
    static INIT: Once = Once::new();
    INIT.call_once(|| {
        gst::init().unwrap();
        gstnnburst::plugin_register_static().unwrap();
    });
}

/// The model that most tests use: uint8 pictures of 128 x 128.
const SMALL: &str = "models/mobilenet_v1_0.25_128_quant/model.tflite";

/// A file beside the workspace; `None` where that isn't there.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let (folder, rest) = path.split_once('/').unwrap();
    shared_dir(folder).map(|folder| folder.join(rest))
}

/// The element with a model, and its bus.
pub(crate) struct Running {
    pub(crate) harness: Harness,
    pub(crate) element: gst::Element,
    pub(crate) bus: gst::Bus,
}

impl Running {
    /// The element with a model, not yet negotiated.
    pub(crate) fn new(model: &str, properties: &[(&str, &str)]) -> Option<Self> {
        let model = shared(model)?;
        init();
        let mut builder = gst::ElementFactory::make("nnbinference");
        builder = builder.property("model-file", model.to_str().unwrap());
        for (name, value) in properties {
            builder = builder.property_from_str(name, value);
        }
        let element = builder.build().unwrap();
        let bus = gst::Bus::new();
        element.set_bus(Some(&bus));
        let harness = Harness::with_element(&element, Some("sink"), Some("src"));
        Some(Self { harness, element, bus })
    }

    /// The element with [`SMALL`], negotiated.
    pub(crate) fn small(properties: &[(&str, &str)]) -> Option<Self> {
        let mut running = Self::new(SMALL, properties)?;
        running.harness.set_src_caps_str(&caps(128, 30));
        Some(running)
    }

    /// A frame in memory that the element offered, its pixels of one value.
    pub(crate) fn frame(&mut self, number: u64, value: u8) -> gst::Buffer {
        let mut buffer = self.harness.create_buffer(128 * 128 * 3).unwrap();
        let frame = buffer.get_mut().unwrap();
        frame.map_writable().unwrap().fill(value);
        frame.set_pts(gst::ClockTime::from_mseconds(40 * number));
        frame.set_duration(gst::ClockTime::from_mseconds(40));
        buffer
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.element.property(name)
    }

    /// The structures of all results on the bus.
    pub(crate) fn results(&self) -> Vec<gst::Structure> {
        let messages = std::iter::from_fn(|| self.bus.pop_filtered(&[gst::MessageType::Element]));
        messages.map(|message| message.structure().unwrap().to_owned()).collect()
    }
}

/// The caps of square pictures of RGB.
pub(crate) fn caps(side: u32, framerate: u32) -> String {
    format!("video/x-raw,format=RGB,width={side},height={side},framerate={framerate}/1")
}
