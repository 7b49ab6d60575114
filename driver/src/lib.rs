//! The CPU driver of the Neural Networks HAL: the device `nnburst-cpu`, in this process or as a
//! service to others.
//!
//! ```text
//!   CpuDriver ── device() ──► dyn Device, in this process
//!        │ prepare_model: validate ► Plan (executor) ► PreparedModel: sync, async, fenced, burst
//!        └ service(): behind a socket, a device for each client (hal-ipc)
//! ```
//!
//! ```
//! use nnburst_driver::{CPU, CpuDriver, CpuDriverOptions};
//!
//! let driver = CpuDriver::new(CpuDriverOptions::default());
//! assert_eq!(driver.name(), CPU);
//! assert_eq!(driver.device().version_string()?, env!("CARGO_PKG_VERSION"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A driver of another name, with other figures, fewer operations or a vendor extension is a
//! [`Personality`] of it.
#![forbid(unsafe_code)]

mod arguments;
mod buffer;
mod burst;
mod cache;
mod calibrate;
mod client;
mod compiled;
mod copied;
mod device;
mod estimate;
mod execution;
mod fenced;
mod figures;
mod idle;
mod in_place;
mod personality;
mod prepared_model;
mod processor;
mod refusal;
mod reusable;
mod sandbox;
pub mod service;
mod shared;
mod support;
#[cfg(feature = "testing")]
pub mod testing;

pub use calibrate::{Measured, Work, calibrate, calibrated, state_dir};
pub use device::CpuDriver;
pub use personality::{CPU, Personality, PersonalityExtension, uniform_capabilities};
pub use sandbox::{Enforcement, LandlockState, Sandbox, SandboxError};
pub use shared::CpuDriverOptions;
