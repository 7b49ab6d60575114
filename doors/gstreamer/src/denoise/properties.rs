//! The properties of `nnbdenoise`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use gst::glib;
use gst::prelude::*;
use nnburst::hal::environment;
use nnburst_doors_common::{Grammar, OptionError, Options};

/// The shared options, whose names and values are those of all doors.
static GRAMMAR: Grammar = Grammar { shared: &["device", "wait", "threads", "realtime"], own: &[] };

/// The variable of the environment with the directory of the networks, as for the LADSPA plugin.
const VARIABLE: &str = "NNBURST_DTLN_DIR";
/// The directory that packages put them into.
const SYSTEM: &str = "/usr/share/nnburst/dtln";
/// Their names there, and those that DTLN's authors gave them.
const NAMES: [[&str; 2]; 2] =
    [["dtln_1.tflite", "dtln_2.tflite"], ["model_1.tflite", "model_2.tflite"]];

/// The time of a block where `max-latency` is 0: a driver that is stopped must not stop the host.
const LONGEST: Duration = Duration::from_secs(1);

/// The properties that can be written.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    model_1: Option<String>,
    model_2: Option<String>,
    device: String,
    wait: String,
    threads: u32,
    realtime: bool,
    max_latency: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model_1: None,
            model_2: None,
            device: "embedded/nnburst-cpu".into(),
            wait: "auto".into(),
            threads: 1,
            realtime: false,
            max_latency: 0,
        }
    }
}

impl Settings {
    /// The shared options.
    ///
    /// # Errors
    /// A value that the option doesn't take.
    pub(super) fn options(&self) -> Result<Options, OptionError> {
        GRAMMAR.parse([
            ("device", self.device.as_str()),
            ("wait", &self.wait),
            ("threads", &self.threads.to_string()),
            ("realtime", if self.realtime { "1" } else { "0" }),
        ])
    }

    /// The files of both networks: those of the properties, else those of the directory that
    /// the environment names, or of the system's.
    pub(super) fn models(&self) -> [PathBuf; 2] {
        let named = environment(VARIABLE).map(PathBuf::from);
        let dir = named.unwrap_or_else(|| PathBuf::from(SYSTEM));
        let given = [&self.model_1, &self.model_2];
        let [ours, theirs] = NAMES;
        let names = if dir.join(theirs[0]).exists() { theirs } else { ours };
        std::array::from_fn(|at| match given[at] {
            Some(path) => Path::new(path).to_owned(),
            None => dir.join(names[at]),
        })
    }

    /// The time that a block may take.
    pub(super) fn limit(&self) -> Duration {
        if self.max_latency == 0 { LONGEST } else { Duration::from_nanos(self.max_latency) }
    }

    /// Sets a property of the right type; `None` for others.
    pub(super) fn set(&mut self, name: &str, value: &glib::Value) -> Option<()> {
        let text = || value.get::<Option<String>>().ok();
        match name {
            "model-1" => self.model_1 = text()?,
            "model-2" => self.model_2 = text()?,
            "device" => self.device = text()?.unwrap_or_else(|| Self::default().device),
            "wait" => self.wait = text()?.unwrap_or_else(|| Self::default().wait),
            "threads" => self.threads = value.get().ok()?,
            "realtime" => self.realtime = value.get().ok()?,
            "max-latency" => self.max_latency = value.get().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// A property's value; `None` for those that are not settings.
    pub(super) fn get(&self, name: &str) -> Option<glib::Value> {
        Some(match name {
            "model-1" => self.model_1.to_value(),
            "model-2" => self.model_2.to_value(),
            "device" => self.device.to_value(),
            "wait" => self.wait.to_value(),
            "threads" => self.threads.to_value(),
            "realtime" => self.realtime.to_value(),
            "max-latency" => self.max_latency.to_value(),
            _ => return None,
        })
    }
}

/// The specifications of all properties, those that can only be read last.
pub(super) fn specs() -> &'static [glib::ParamSpec] {
    static SPECS: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
        let text = |name, blurb, default| {
            let spec = glib::ParamSpecString::builder(name).blurb(blurb).default_value(default);
            spec.mutable_ready().build()
        };
        let figure =
            |name, blurb| glib::ParamSpecUInt64::builder(name).blurb(blurb).read_only().build();
        let device = "embedded/nnburst-cpu";
        vec![
            text("model-1", "Path of the first network; else from NNBURST_DTLN_DIR", None),
            text("model-2", "Path of the second network; else from NNBURST_DTLN_DIR", None),
            text(
                "device",
                "Where the networks run: embedded/NAME, spawn/NAME or connect/NAME",
                Some(device),
            ),
            text("wait", "How to wait for results: auto, adaptive, spin or block", Some("auto")),
            glib::ParamSpecUInt::builder("threads")
                .blurb("Threads of the driver that compute a block")
                .default_value(1)
                .minimum(1)
                .maximum(1024)
                .mutable_ready()
                .build(),
            glib::ParamSpecBoolean::builder("realtime")
                .blurb("Ask for real-time scheduling and locked memory")
                .mutable_ready()
                .build(),
            glib::ParamSpecUInt64::builder("max-latency")
                .blurb("Time in ns after which a block goes on as it was heard; 0: a second")
                .mutable_ready()
                .build(),
            figure("blocks", "Blocks of 8 ms so far"),
            figure("misses", "Blocks that went on as they were heard"),
            glib::ParamSpecUInt::builder("driver-pid")
                .blurb("Process of a driver that was started for this element; 0: none")
                .read_only()
                .build(),
        ]
    });
    &SPECS
}
