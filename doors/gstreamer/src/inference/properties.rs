//! The properties of `nnbinference`.

use std::sync::LazyLock;

use gst::glib;
use gst::prelude::*;
use nnburst_doors_common::{DoorOptions, Grammar, OptionError};

use crate::properties::{DriverProperties, driver_pid, figure, flag, flag_text, text};
use nnburst_pictures::Limits;

/// The frames that go on without an inference, beside those that `interval` leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, glib::Enum)]
#[enum_type(name = "NnburstInferenceDrop")]
pub enum Drop {
    /// Every frame is waited for.
    #[enum_value(name = "Infer every frame, however late", nick = "none")]
    None,
    /// Late frames have no inference.
    #[default]
    #[enum_value(name = "Skip the inference of frames that are late at the sink", nick = "late")]
    Late,
    /// No frame is waited for.
    #[enum_value(
        name = "Never wait: infer a frame when the one before is done, attach results to later frames",
        nick = "busy"
    )]
    Busy,
}

/// The shared options, whose names and values are those of all doors.
static GRAMMAR: Grammar = Grammar {
    shared: &["device", "wait", "threads", "realtime", "cache-dir", "relaxed"],
    own: &[],
};

/// The properties that can be written.
#[derive(Clone, Debug)]
pub(super) struct InferenceProperties {
    pub(super) model_file: Option<String>,
    pub(super) labels: Option<String>,
    driver: DriverProperties,
    cache_dir: Option<String>,
    relaxed: bool,
    pub(super) mean: Option<String>,
    pub(super) scale: Option<String>,
    pub(super) ranges: Option<String>,
    /// Those that may change at any time.
    pub(super) live: Live,
}

/// The properties that hold from one frame to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) interval: u32,
    top_k: u32,
    threshold: f64,
    max_latency: u64,
    pub(super) drop: Drop,
    pub(super) post_messages: bool,
}

impl Live {
    pub(super) fn limits(&self) -> Limits {
        let top_k = usize::try_from(self.top_k).unwrap_or(usize::MAX);
        Limits { top_k, threshold: self.threshold }
    }

    /// The time that an inference may take.
    pub(super) fn limit(&self) -> Option<std::time::Duration> {
        (self.max_latency > 0).then(|| std::time::Duration::from_nanos(self.max_latency))
    }
}

impl Default for InferenceProperties {
    fn default() -> Self {
        let (interval, top_k, threshold, max_latency) = (0, 5, 0.0, 0);
        let (drop, post_messages) = (Drop::default(), true);
        Self {
            model_file: None,
            labels: None,
            driver: DriverProperties::default(),
            cache_dir: None,
            relaxed: false,
            mean: None,
            scale: None,
            ranges: None,
            live: Live { interval, top_k, threshold, max_latency, drop, post_messages },
        }
    }
}

impl InferenceProperties {
    /// The shared options.
    ///
    /// # Errors
    /// A value that the option doesn't take.
    pub(super) fn options(&self) -> Result<DoorOptions, OptionError> {
        let own = [
            ("cache-dir", self.cache_dir.clone().unwrap_or_default()),
            ("relaxed", flag_text(self.relaxed)),
        ];
        GRAMMAR.parse(self.driver.options().into_iter().chain(own))
    }

    /// Sets a property of the right type; `None` for others.
    pub(super) fn set(&mut self, name: &str, value: &glib::Value) -> Option<()> {
        let text = || value.get::<Option<String>>().ok();
        match name {
            "model-file" | "model" => self.model_file = text()?,
            "labels" => self.labels = text()?,
            "cache-dir" => self.cache_dir = text()?,
            "relaxed" => self.relaxed = value.get().ok()?,
            "mean" => self.mean = text()?,
            "scale" => self.scale = text()?,
            "ranges" => self.ranges = text()?,
            "interval" => self.live.interval = value.get().ok()?,
            "top-k" => self.live.top_k = value.get().ok()?,
            "threshold" => self.live.threshold = value.get().ok()?,
            "max-latency" => self.live.max_latency = value.get().ok()?,
            "drop" => self.live.drop = value.get().ok()?,
            "post-messages" => self.live.post_messages = value.get().ok()?,
            _ => return self.driver.set(name, value),
        }
        Some(())
    }

    /// A property's value; `None` for those that are not settings.
    pub(super) fn get(&self, name: &str) -> Option<glib::Value> {
        Some(match name {
            "model-file" | "model" => self.model_file.to_value(),
            "labels" => self.labels.to_value(),
            "cache-dir" => self.cache_dir.to_value(),
            "relaxed" => self.relaxed.to_value(),
            "mean" => self.mean.to_value(),
            "scale" => self.scale.to_value(),
            "ranges" => self.ranges.to_value(),
            "interval" => self.live.interval.to_value(),
            "top-k" => self.live.top_k.to_value(),
            "threshold" => self.live.threshold.to_value(),
            "max-latency" => self.live.max_latency.to_value(),
            "drop" => self.live.drop.to_value(),
            "post-messages" => self.live.post_messages.to_value(),
            _ => return self.driver.get(name),
        })
    }
}

/// The specifications of all properties, those that can only be read last.
pub(super) fn specs() -> &'static [glib::ParamSpec] {
    static SPECS: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
        let defaults = InferenceProperties::default();
        let number = |name, blurb, default, least, most| {
            let spec = glib::ParamSpecUInt::builder(name).blurb(blurb).default_value(default);
            spec.minimum(least).maximum(most)
        };
        let model = [
            text("model-file", "Path of the .tflite model", None),
            text("model", "The same as model-file", None),
            text("labels", "Path of a text file with the names of classes, one to a line", None),
        ];
        let own = [
            text("cache-dir", "Directory that compiled models are kept in", None),
            flag("relaxed", "Compute float models with bf16 factors where that is faster", false),
            text("mean", "Subtracted from pixels: a number, or three with commas", None),
            text("scale", "Multiplied with pixels less mean: a number, or three with commas", None),
            text(
                "ranges",
                "What a pixel of 0 and of 255 stands for: LOW,HIGH, or three with semicolons",
                None,
            ),
            number("interval", "Frames without inference after each one with", 0, 0, u32::MAX)
                .mutable_playing()
                .build(),
            number("top-k", "The most classes of a classifier that are reported", 5, 0, u32::MAX)
                .mutable_playing()
                .build(),
            glib::ParamSpecDouble::builder("threshold")
                .blurb("Classes, objects and keypoints with lower scores are left out")
                .minimum(f64::MIN)
                .maximum(f64::MAX)
                .default_value(defaults.live.threshold)
                .mutable_playing()
                .build(),
            glib::ParamSpecUInt64::builder("max-latency")
                .blurb("Time in ns after which a frame goes on without a result; 0: never")
                .default_value(defaults.live.max_latency)
                .mutable_playing()
                .build(),
            glib::ParamSpecEnum::builder_with_default("drop", defaults.live.drop)
                .blurb("Which frames have no inference when there is no time for all")
                .mutable_playing()
                .build(),
            glib::ParamSpecBoolean::builder("post-messages")
                .blurb("Post results on the bus as element messages nnburst-inference")
                .default_value(true)
                .mutable_playing()
                .build(),
            figure("latency-p50", "Median time in ns from a frame's arrival to its results"),
            figure("latency-p99", "99th percentile of that time in ns"),
            figure("frames", "Frames so far"),
            figure("inferred", "Frames with a result of their own"),
            figure("dropped", "Frames whose inference was skipped or given up"),
            driver_pid(),
        ];
        model.into_iter().chain(DriverProperties::specs()).chain(own).collect()
    });
    &SPECS
}
