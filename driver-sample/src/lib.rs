//! The sample drivers of the Neural Networks HAL: five that differ in figures and in what they
//! support, and one with a vendor extension, all of them personalities of the CPU driver.
//!
//! ```
//! use nnburst_driver::CpuDriverOptions;
//! use nnburst_driver_sample::{names, sample_driver};
//!
//! assert!(names().any(|name| name == "nnapi-sample_all"));
//! let driver = sample_driver("nnapi-sample_all", CpuDriverOptions::default())?;
//! assert_eq!(driver.device().version_string()?, env!("CARGO_PKG_VERSION"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod fibonacci;
mod personalities;

use std::sync::Arc;

use nnburst_driver::{CpuDriver, CpuDriverOptions};

pub use fibonacci::FIBONACCI_EXTENSION;
pub use personalities::{FIBONACCI_DRIVER, names};

/// There is no sample driver of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no sample driver {name:?}; there are {}, {FIBONACCI_DRIVER}", names().collect::<Vec<_>>().join(", "))]
pub struct UnknownDriver {
    /// The name that was asked for.
    pub name: String,
}

/// Makes the sample driver of this name.
///
/// # Errors
/// There is none; see [`names`].
pub fn sample_driver(name: &str, options: CpuDriverOptions) -> Result<CpuDriver, UnknownDriver> {
    let sample =
        personalities::find(name).ok_or_else(|| UnknownDriver { name: name.to_owned() })?;
    Ok(CpuDriver::with_personality(Arc::new(sample), options))
}
