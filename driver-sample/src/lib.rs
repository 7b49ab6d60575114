//! The sample drivers of the Neural Networks HAL: five that differ in figures and in what they
//! support, and one with a vendor extension, all computing on the CPU.
//!
//! ```text
//!   SampleDriver ── device() ──► dyn Device, in this process
//!        │ prepare_model: validate ► Plan (executor) ► PreparedModel: sync, async, fenced, burst
//!        └ service(): behind a socket, a device for each client (hal-ipc)
//! ```
//!
//! ```
//! use nnburst_driver_sample::{Options, SampleDriver, names};
//!
//! assert!(names().any(|name| name == "nnapi-sample_all"));
//! let driver = SampleDriver::new("nnapi-sample_all", Options::default())?;
//! assert_eq!(driver.device().version_string()?, env!("CARGO_PKG_VERSION"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod buffer;
mod burst;
mod cache;
mod calibrate;
mod device;
mod estimate;
mod execution;
mod fenced;
mod fibonacci;
mod figures;
mod idle;
mod prepared_model;
mod processor;
mod reusable;
pub mod service;
#[cfg(feature = "testing")]
pub mod testing;

pub use calibrate::{Measured, Work, calibrate, calibrated, state_dir};
pub use device::{Options, SampleDriver, UnknownDriver};
pub use fibonacci::FIBONACCI_EXTENSION;
pub use figures::{FIBONACCI_DRIVER, names};
