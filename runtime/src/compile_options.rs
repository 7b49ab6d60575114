//! The options of a compilation.

use std::path::PathBuf;
use std::time::Duration;

use nnburst_hal::{
    CACHE_TOKEN_BYTES, ExecutionPreference, PrepareOptions, Priority, TimePoint, bound,
};

use crate::settings::{Partitioning, Settings};

/// The options of a compilation.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The user's execution preference.
    pub preference: ExecutionPreference,
    /// Among the models of this process.
    pub priority: Priority,
    /// The time that the compilation may take, from the call on; only with exactly one named
    /// device.
    pub timeout: Option<Duration>,
    /// The compilation cache, in which drivers may keep what they made of the model.
    pub caching: Option<Caching>,
    /// The partitioning where no device is named; `None` is as the process is set
    /// ([`Settings`](crate::Settings)).
    pub partitioning: Option<Partitioning>,
    /// Whether, where no device is named, a driver in another process that takes all of the model
    /// is preferred to devices in this one, whatever their figures; `None` is as the process is set
    /// (`prefer-served`).
    pub prefer_served: Option<bool>,
}

impl Default for CompileOptions {
    fn default() -> Self {
        let PrepareOptions { preference, priority, .. } = PrepareOptions::default();
        Self {
            preference,
            priority,
            timeout: None,
            caching: None,
            partitioning: None,
            prefer_served: None,
        }
    }
}

/// A place for compiled models, and what tells them apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caching {
    /// A directory of the application's own.
    pub dir: PathBuf,
    /// Different for models that differ in anything: neither their operations nor constants are
    /// looked at.
    pub token: [u8; CACHE_TOKEN_BYTES],
}

impl CompileOptions {
    pub(crate) fn prefers_served(&self) -> bool {
        self.prefer_served.unwrap_or_else(|| Settings::load().prefer_served)
    }

    /// Returns the options that a driver is given; the time that is left counts from here.
    pub(crate) fn prepare(&self) -> PrepareOptions {
        PrepareOptions {
            preference: self.preference,
            priority: self.priority,
            deadline: bound::earlier(self.timeout.map(TimePoint::after), bound::bound()),
        }
    }
}
