//! The properties that both elements have, and how the others are specified.

use gst::glib;
use gst::prelude::*;

/// The options of all doors that both elements take. Their names and values are those of
/// [`nnburst_doors_common::KEYS`].
#[derive(Clone, Debug)]
pub(crate) struct DriverProperties {
    device: String,
    wait: String,
    threads: u32,
    realtime: bool,
}

impl Default for DriverProperties {
    fn default() -> Self {
        let (device, wait) = ("embedded/nnburst-cpu".into(), "auto".into());
        Self { device, wait, threads: 1, realtime: false }
    }
}

impl DriverProperties {
    /// The keys of [`DriverProperties::options`].
    pub(crate) const KEYS: [&str; 4] = ["device", "wait", "threads", "realtime"];

    /// The values, in the grammar of all doors.
    pub(crate) fn options(&self) -> [(&'static str, String); 4] {
        let Self { device, wait, threads, realtime } = self.clone();
        let [device_key, wait_key, threads_key, realtime_key] = Self::KEYS;
        [
            (device_key, device),
            (wait_key, wait),
            (threads_key, threads.to_string()),
            (realtime_key, flag_text(realtime)),
        ]
    }

    /// Sets a property of the right type; `None` for others.
    pub(crate) fn set(&mut self, name: &str, value: &glib::Value) -> Option<()> {
        let text = || value.get::<Option<String>>().ok();
        match name {
            "device" => self.device = text()?.unwrap_or_else(|| Self::default().device),
            "wait" => self.wait = text()?.unwrap_or_else(|| Self::default().wait),
            "threads" => self.threads = value.get().ok()?,
            "realtime" => self.realtime = value.get().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// A property's value; `None` for others.
    pub(crate) fn get(&self, name: &str) -> Option<glib::Value> {
        Some(match name {
            "device" => self.device.to_value(),
            "wait" => self.wait.to_value(),
            "threads" => self.threads.to_value(),
            "realtime" => self.realtime.to_value(),
            _ => return None,
        })
    }

    /// Their specifications.
    pub(crate) fn specs() -> [glib::ParamSpec; 4] {
        let Self { device, wait, threads, realtime } = Self::default();
        [
            text(
                "device",
                "Where the driver runs: embedded/NAME, spawn/NAME or connect/NAME",
                Some(&device),
            ),
            text("wait", "How to wait for results: auto, adaptive, spin or block", Some(&wait)),
            glib::ParamSpecUInt::builder("threads")
                .blurb("Threads of the driver that compute one execution")
                .default_value(threads)
                .minimum(1)
                .maximum(1024)
                .mutable_ready()
                .build(),
            flag("realtime", "Ask for real-time scheduling and locked memory", realtime),
        ]
    }
}

/// A flag as the grammar of all doors has it.
pub(crate) fn flag_text(is_set: bool) -> String {
    if is_set { "1" } else { "0" }.to_owned()
}

/// A text that holds from READY on.
pub(crate) fn text(name: &str, blurb: &str, default: Option<&str>) -> glib::ParamSpec {
    let spec = glib::ParamSpecString::builder(name).blurb(blurb).default_value(default);
    spec.mutable_ready().build()
}

/// A flag that holds from READY on.
pub(crate) fn flag(name: &str, blurb: &str, default: bool) -> glib::ParamSpec {
    let spec = glib::ParamSpecBoolean::builder(name).blurb(blurb).default_value(default);
    spec.mutable_ready().build()
}

/// A count or a time that can only be read.
pub(crate) fn figure(name: &str, blurb: &str) -> glib::ParamSpec {
    glib::ParamSpecUInt64::builder(name).blurb(blurb).read_only().build()
}

/// The property `driver-pid`.
pub(crate) fn driver_pid() -> glib::ParamSpec {
    glib::ParamSpecUInt::builder("driver-pid")
        .blurb("Process of a driver that was started for this element; 0: none")
        .read_only()
        .build()
}
