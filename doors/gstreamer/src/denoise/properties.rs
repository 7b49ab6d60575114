//! The properties of `nnbdenoise`.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use gst::glib;
use gst::prelude::*;
use nnburst_denoise::{ModelsError, find_models};
use nnburst_doors_common::{DoorOptions, Grammar, OptionError, own_file};

use crate::properties::{DriverProperties, driver_pid, figure, text};

/// The shared options, whose names and values are those of all doors.
static GRAMMAR: Grammar = Grammar { shared: &DriverProperties::KEYS, own: &[] };

/// The time of a block where `max-latency` is 0: a driver that is stopped must not stop the host.
const LONGEST: Duration = Duration::from_secs(1);

/// The properties that can be written.
#[derive(Clone, Debug, Default)]
pub(super) struct DenoiseProperties {
    model_1: Option<String>,
    model_2: Option<String>,
    driver: DriverProperties,
    max_latency: u64,
}

impl DenoiseProperties {
    /// The shared options.
    ///
    /// # Errors
    /// A value that the option doesn't take.
    pub(super) fn options(&self) -> Result<DoorOptions, OptionError> {
        GRAMMAR.parse(self.driver.options())
    }

    /// The files of both networks: those of the properties, else those that
    /// [`find_models`] finds.
    ///
    /// # Errors
    /// See [`ModelsError`].
    pub(super) fn models(&self) -> Result<[PathBuf; 2], ModelsError> {
        if let (Some(first), Some(second)) = (&self.model_1, &self.model_2) {
            return Ok([first, second].map(PathBuf::from));
        }
        let [first, second] = find_models(own_file().as_deref())?;
        let given = |path: &Option<String>| path.as_ref().map(PathBuf::from);
        Ok([given(&self.model_1).unwrap_or(first), given(&self.model_2).unwrap_or(second)])
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
            "max-latency" => self.max_latency = value.get().ok()?,
            _ => return self.driver.set(name, value),
        }
        Some(())
    }

    /// A property's value; `None` for those that are not settings.
    pub(super) fn get(&self, name: &str) -> Option<glib::Value> {
        Some(match name {
            "model-1" => self.model_1.to_value(),
            "model-2" => self.model_2.to_value(),
            "max-latency" => self.max_latency.to_value(),
            _ => return self.driver.get(name),
        })
    }
}

/// The specifications of all properties, those that can only be read last.
pub(super) fn specs() -> &'static [glib::ParamSpec] {
    static SPECS: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
        let networks = [
            text(
                "model-1",
                "Path of the first network; else looked for as docs/pipelines.md says",
                None,
            ),
            text(
                "model-2",
                "Path of the second network; else looked for as docs/pipelines.md says",
                None,
            ),
        ];
        let own = [
            glib::ParamSpecUInt64::builder("max-latency")
                .blurb("Time in ns after which a block goes on as it was heard; 0: a second")
                .mutable_ready()
                .build(),
            figure("blocks", "Blocks of 8 ms so far"),
            figure("misses", "Blocks that went on as they were heard"),
            driver_pid(),
        ];
        networks.into_iter().chain(DriverProperties::specs()).chain(own).collect()
    });
    &SPECS
}
