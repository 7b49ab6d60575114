//! The sample drivers of the Neural Networks HAL: five that differ in figures and in what they
//! support, all computing on the CPU.
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
//! assert_eq!(driver.device().version_string()?, "JUST_AN_EXAMPLE");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod buffer;
mod burst;
mod device;
mod execution;
mod fence;
mod figures;
mod idle;
mod prepared_model;
mod priority;
pub mod service;

pub use device::{Options, SampleDriver, UnknownDriver};
pub use figures::names;
