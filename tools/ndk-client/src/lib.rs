//! A client of `libneuralnetworks.so` that knows nothing of what is behind it: the library is found
//! with `dlopen`, its functions by name, as TFLite's delegate does it. `nnburst vts --api ndk` runs
//! the conformance cases through it.
//!
//! ```text
//!   hal::Model, hal::Request ──► Library, Model, Compilation ──► ANeuralNetworks*() of the library
//! ```
//!
//! ```no_run
//! use nnburst::builtin;
//! use nnburst_ndk_client::{Library, RunMode, RunOptions};
//!
//! let library = Library::open()?;
//! let device = library.device("nnapi-reference")?;
//! let model = library.model(&builtin::model("add1")?)?;
//! let compilation = model.compile(&device)?;
//! # let request = nnburst::hal::Request::default();
//! compilation.run(&request, &RunOptions { mode: RunMode::Burst, ..RunOptions::default() })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `unsafe` is where the library is called; each call hands over pointers to values that outlive
//! it.

mod api;
mod model;
mod object;
mod repeated;
mod run;

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::Api;
pub use model::{Compilation, Model};
use nnburst::RuntimeError;
use nnburst::hal::{ErrorStatus, HalError};
pub use repeated::Repeated;
pub use run::{RunMode, RunOptions};

/// The library is not there, or lacks a function.
#[derive(Debug, thiserror::Error)]
#[error("libneuralnetworks.so: {0}")]
pub struct OpenError(String);

/// The library, loaded.
#[derive(Clone, Debug)]
pub struct Library(Arc<Api>);

/// A device of the library's.
#[derive(Clone, Copy, Debug)]
pub struct Device(*const std::ffi::c_void);

impl Library {
    /// Loads the library: the one that `NNBURST_NDK` names, else the one beside this program or in
    /// `deps` beside it, as cargo builds it, else whichever the loader finds.
    ///
    /// # Errors
    /// It can't be loaded, or is of a level below 30.
    pub fn open() -> Result<Self, OpenError> {
        let name = "libneuralnetworks.so";
        let path = match std::env::var_os("NNBURST_NDK") {
            Some(path) => PathBuf::from(path),
            None => {
                let program = std::env::current_exe().unwrap_or_default();
                let beside = program.parent().unwrap_or_else(|| Path::new(""));
                let places = [beside.join("deps").join(name), beside.join(name)];
                places.into_iter().find(|path| path.exists()).unwrap_or_else(|| name.into())
            }
        };
        Self::open_at(&path)
    }

    /// Loads the library at a path.
    ///
    /// # Errors
    /// As for [`Library::open`].
    pub fn open_at(path: &Path) -> Result<Self, OpenError> {
        Api::load(path).map(|api| Self(Arc::new(api))).map_err(|error| OpenError(error.to_string()))
    }

    /// The names of all devices, in the library's order.
    ///
    /// # Errors
    /// What the library answered.
    pub fn device_names(&self) -> Result<Vec<String>, RuntimeError> {
        Ok(self.devices()?.into_iter().map(|(name, _)| name).collect())
    }

    /// The device of this name.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownDevice`] naming those there are.
    pub fn device(&self, name: &str) -> Result<Device, RuntimeError> {
        let devices = self.devices()?;
        if let Some((_, device)) = devices.iter().find(|(known, _)| known == name) {
            return Ok(*device);
        }
        let known = devices.into_iter().map(|(known, _)| known).collect();
        Err(RuntimeError::UnknownDevice { name: name.to_owned(), known })
    }

    fn devices(&self) -> Result<Vec<(String, Device)>, RuntimeError> {
        let api = &self.0;
        let mut count = 0;
        // SAFETY: the result outlives the call.
        api.check(unsafe { (api.ANeuralNetworks_getDeviceCount)(&raw mut count) })?;
        let mut devices = Vec::new();
        for index in 0..count {
            let mut device = std::ptr::null_mut();
            // SAFETY: the result outlives the call.
            api.check(unsafe { (api.ANeuralNetworks_getDevice)(index, &raw mut device) })?;
            let mut name = std::ptr::null();
            // SAFETY: a device of the library's; the result outlives the call.
            api.check(unsafe { (api.ANeuralNetworksDevice_getName)(device, &raw mut name) })?;
            // SAFETY: the library keeps the name, with its terminator, for good.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            devices.push((name, Device(device)));
        }
        Ok(devices)
    }
}

impl Api {
    /// The error behind a result code, with the reason that the library tells.
    pub(crate) fn check(&self, code: i32) -> Result<(), RuntimeError> {
        if code == 0 {
            return Ok(());
        }
        let reason = match self.last_error {
            // SAFETY: a string of the library's, good until this thread's next failure.
            Some(last_error) => unsafe { CStr::from_ptr(last_error()) }.to_string_lossy(),
            None => "the library gives no reason".into(),
        };
        let status = match code {
            4 => ErrorStatus::InvalidArgument,
            8 => ErrorStatus::OutputInsufficientSize,
            9 | 14 => ErrorStatus::DeviceUnavailable,
            10 => ErrorStatus::MissedDeadlineTransient,
            11 => ErrorStatus::MissedDeadlinePersistent,
            12 => ErrorStatus::ResourceExhaustedTransient,
            13 => ErrorStatus::ResourceExhaustedPersistent,
            _ => ErrorStatus::GeneralFailure,
        };
        Err(HalError::new(status, format!("code {code}: {reason}")).into())
    }
}
