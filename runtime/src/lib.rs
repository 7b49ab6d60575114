//! Neural networks on Linux through the Android Neural Networks HAL: devices, compilations,
//! executions.
//!
//! ```text
//!   Device::embedded / spawn / connect
//!     │ compile(&Model)
//!     ▼
//!   Compilation ── frame() ──► Frame: inputs and outputs in memory shared with the driver
//!     ├─ execution()              │
//!     │    ├ compute ─────────────┤  one call over the control connection, waited for
//!     │    ├ start ──► Event      │  the same, waited for later
//!     │    └ start_fenced         │  the same, behind other fences and with a fence of its own
//!     └─ burst() ──► Burst ───────┘  one packet through a queue in shared memory: microseconds
//! ```
//!
//! A [`Frame`] is made once and used for every picture of a camera or block of sound: the driver
//! maps it at its first use, reads the inputs and writes the outputs in place, and nothing of a
//! tensor is copied on the way.
//!
//! Models are HAL types ([`hal::Model`]): read from a file, built by hand with [`ModelBuilder`], or
//! one of the [`builtin`] networks.
//!
//! ```no_run
//! use nnburst::{BurstOptions, Device, PrepareOptions, builtin};
//!
//! let device = Device::spawn("nnburst-cpu")?; // a driver in a process of its own
//! let network = builtin::model("mobilenet_v2_1.0_224")?;
//! let model = device.compile(&network, PrepareOptions::default())?;
//! let mut burst = model.burst(&BurstOptions::default())?;
//! let mut frame = burst.frame()?;
//! for picture in [[0.5f32; 224 * 224 * 3], [0.7; 224 * 224 * 3]] {
//!     frame.write(0, &picture)?; // or let the camera write into `frame.input(0)`
//!     burst.compute(&mut frame)?;
//!     println!("{:?} of it in the driver", frame.time_in_driver());
//! }
//! # Ok::<(), nnburst::RuntimeError>(())
//! ```
#![forbid(unsafe_code)]

mod answer;
#[cfg(feature = "futures")]
mod asynchronous;
mod background;
mod batches;
pub mod builtin;
mod burst;
mod cache;
mod compilation;
mod compile;
mod compile_options;
mod device;
pub mod doctor;
mod driver;
mod element;
mod error;
mod execution;
mod extensions;
mod frame;
#[cfg(feature = "futures")]
mod futures;
mod graphs;
mod in_place;
#[cfg(feature = "logging")]
mod journal;
mod log_format;
#[cfg(feature = "logging")]
mod logging;
mod memory;
mod model_builder;
mod partition;
mod planned;
mod prepare;
pub mod profile;
mod services;
mod settings;
#[cfg(test)]
mod test_device;
mod timing;
mod wait;
mod watch;

pub use half::f16;
pub use nnburst_burst::{BurstStats, LastRequest};
pub use nnburst_hal as hal;
pub use nnburst_hal::PrepareOptions;
pub use nnburst_hal_ipc::{
    ConnectionLimits, ServiceLimits, ServiceManager, Serving, Succession, UserLimits,
};

#[cfg(feature = "futures")]
pub use asynchronous::{AsyncBurst, FrameFuture};
pub use batches::{BatchAnswers, BatchPlace, Batches};
pub use burst::{Burst, BurstOptions, CallOptions, Finished, Unsubmitted};
pub use compilation::Compilation;
pub use compile::{
    compile, compile_among, compile_for, explain, explain_among, load_cached, served_device,
    supported_operations,
};
pub use compile_options::{Caching, CompileOptions};
pub use device::{Device, REFERENCE, devices};
pub use driver::{DriverOptions, Measured, calibrate, serve, serve_alone, serve_inherited};
pub use element::Element;
pub use error::{Result, ResultCode, RuntimeError};
pub use execution::{Event, Execution, Pending};
pub use extensions::{
    extension_name, extension_number, extension_prefix, extension_type, extensions_are_allowed,
};
pub use frame::{Argument, Frame, PaddedRows, Plane};
#[cfg(feature = "futures")]
pub use futures::{EventFuture, PendingFuture};
pub use in_place::InPlace;
pub use log_format::LogFormat;
#[cfg(feature = "logging")]
pub use logging::{LogOptions, LoggingError, start_logging, start_logging_with};
pub use memory::{Memory, MemoryDescriptor};
pub use model_builder::{GraphRef, ModelBuilder, OperandId, operations};
pub use partition::{Bid, Explained, Explanation, StepKind, StepSummary};
pub use settings::{Current, Origin, Partitioning, SETTINGS, Setting, Settings};
pub use timing::time_in_driver;
pub use wait::Wait;
pub use watch::{
    ClientStatistics, Counts, ResourceUse, ServiceStatistics, Watched, WorkKind, WorkStatistics,
    services,
};

/// Runs `work`, whose calls to drivers in other processes take `timeout` at most, whatever they
/// are: compiling, executing, copying memory, opening bursts, asking a device. What the driver has
/// not answered by then fails with `MISSED_DEADLINE_TRANSIENT`. It holds for calls of this thread;
/// executions that it launches carry it as their deadline.
///
/// ```
/// use std::time::Duration;
///
/// let device = nnburst::Device::embedded("nnburst-cpu")?;
/// let figures = nnburst::within(Duration::from_millis(100), || device.capabilities())?;
/// # let _ = figures;
/// # Ok::<(), nnburst::RuntimeError>(())
/// ```
pub fn within<R>(timeout: std::time::Duration, work: impl FnOnce() -> R) -> R {
    hal::bound::until(hal::TimePoint::after(timeout), work)
}

/// Disconnects from all services and ends the threads of this library that wait: for work, for
/// answers, for deaths. For whoever is about to end the process, or to unload the library, and
/// wants to leave nothing behind. What was made by services is dead from then on; devices come back
/// with the next call, and threads with their work.
pub fn shut_down() {
    nnburst_hal_ipc::hang_up_on_all();
    nnburst_fmq::PeerWatch::stop_all();
    nnburst_hal_ipc::Pool::end_idle_threads();
    services::stop_reaping();
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The examples of the guide, run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
struct Embedding;
