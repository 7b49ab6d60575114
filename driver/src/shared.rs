//! The state that all devices of one driver share, and its options.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use nnburst_executor::CompileOptions;
use nnburst_hal::Result;
use nnburst_hal::process::Origin;

use crate::buffer::Buffers;
use crate::cache::Identity;
use crate::calibrate::Measured;
use crate::estimate::Quickest;
use crate::idle::IdleWatch;
use crate::personality::{Personality, PersonalityExtension};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The options of a driver.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CpuDriverOptions {
    /// Threads that work on one execution; the results don't depend on it.
    pub threads: usize,
    /// Lets models that allow relaxed precision be computed with bf16 numbers: see
    /// [`CompileOptions::bf16`](nnburst_executor::CompileOptions::bf16).
    pub bf16: bool,
    /// Figures that were measured on the machine, instead of the driver's own.
    pub measured: Option<Measured>,
    /// Scratch memory and helping threads that no execution used for this long are given back.
    /// Bursts keep theirs, to be quick at any time, until they are closed.
    pub idle: Duration,
    /// True if bursts that poll touch weights and scratch memory of their model every millisecond
    /// while no request comes, and warm up the last one in memory of their own, so that the next
    /// finds all it needs in near caches.
    pub keep_warm: bool,
}

impl Default for CpuDriverOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            bf16: false,
            measured: None,
            idle: Duration::from_secs(10),
            keep_warm: true,
        }
    }
}

/// The state that all devices of one driver share.
#[derive(Debug)]
pub(crate) struct DriverState {
    pub(crate) personality: Arc<dyn Personality>,
    pub(crate) options: CpuDriverOptions,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) idle: Arc<IdleWatch>,
    pub(crate) preparing: Quickest,
    pub(crate) restoring: Quickest,
    /// Relaxed: only uniqueness matters.
    pub(crate) next_model: AtomicU64,
    /// Threads and locks of a driver are of the process that made it.
    pub(crate) origin: Origin,
}

impl DriverState {
    pub(crate) fn new(personality: Arc<dyn Personality>, options: &CpuDriverOptions) -> Self {
        Self {
            personality,
            options: *options,
            buffers: Arc::default(),
            idle: Arc::new(IdleWatch::new(options.idle)),
            preparing: Quickest::default(),
            restoring: Quickest::default(),
            next_model: AtomicU64::new(1),
            origin: Origin::here(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.personality.name()
    }

    pub(crate) fn keeps_warm(&self) -> bool {
        self.options.keep_warm
    }

    pub(crate) fn compile_options(&self) -> CompileOptions {
        let mut options = CompileOptions {
            threads: self.options.threads,
            bf16: self.options.bf16,
            late_errors: true,
            ..CompileOptions::default()
        };
        for PersonalityExtension { extension, executor } in self.personality.extensions() {
            options.extensions.register(extension.name, executor);
        }
        options
    }

    /// Returns the identity that its cache files are bound to.
    pub(crate) fn identity(&self, compile: &CompileOptions) -> Result<Identity> {
        Identity::new(self.name(), VERSION, compile)
    }
}
