//! Neural networks on Linux through the Android Neural Networks HAL: devices, compilations, executions.
//!
//! ```text
//!   Device
//!     │ compile(&Model)
//!     ▼
//!   Compilation ── frame() ──► Frame: inputs and outputs in memory shared with the driver
//!     │                           │
//!     └─ execution()              │
//!          ├ compute ─────────────┤  one call, waited for
//!          ├ start ──► Event      │  the same, waited for later
//!          └ start_fenced         │  the same, behind other fences and with a fence of its own
//! ```
//!
//! A [`Frame`] is made once and used for every picture of a camera or block of sound: the driver maps
//! it at its first use, reads the inputs and writes the outputs in place, and nothing of a tensor is
//! copied on the way.
//!
//! Models are HAL types ([`hal::Model`]): read from a file, built by hand with [`ModelBuilder`], or one
//! of the [`builtin`] networks.
#![forbid(unsafe_code)]

pub mod builtin;
mod compilation;
mod device;
mod element;
mod error;
mod execution;
mod fence;
mod frame;
mod model_builder;

pub use nnburst_hal as hal;

pub use compilation::Compilation;
pub use device::Device;
pub use element::Element;
pub use error::{Result, RuntimeError};
pub use execution::{Event, Execution, Pending, time_in_driver};
pub use frame::{Argument, Frame};
pub use model_builder::{ModelBuilder, OperandId};
