//! GStreamer's log as the log of this door.

use std::sync::LazyLock;

use nnburst_doors_common::{Level, Log, Sink, Verbosity};

/// The category of the plugin: `GST_DEBUG=nnburst:5` shows it.
pub(crate) static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    gst::DebugCategory::new("nnburst", gst::DebugColorFlags::empty(), Some("nnburst elements"))
});

struct GstLog;

impl Sink for GstLog {
    fn write(&self, _door: &str, level: Level, text: &str) {
        match level {
            Level::Error => gst::error!(CAT, "{text}"),
            Level::Warning => gst::warning!(CAT, "{text}"),
            Level::Info => gst::info!(CAT, "{text}"),
        }
    }
}

/// The log of this door: everything, as GStreamer chooses what is shown.
pub(crate) fn of_door() -> Log {
    Log::new("gstreamer", Verbosity::All, GstLog)
}
