//! Devices: whatever makes models ready and runs them, in this process or in another.

use std::sync::Arc;

use nnburst_hal::{
    Capabilities, Device as HalDevice, DeviceStatus, DeviceType, Extension, Model, PrepareOptions,
};

use crate::compilation::Compilation;
use crate::error::Result;

/// A device. Clones are the same device.
#[derive(Clone)]
pub struct Device {
    name: String,
    hal: Arc<dyn HalDevice>,
}

impl Device {
    /// A device of the caller's making: any driver object in this process.
    pub fn from_hal(name: impl Into<String>, hal: Arc<dyn HalDevice>) -> Self {
        Self { name: name.into(), hal }
    }

    /// What the device is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a model ready to run.
    ///
    /// # Errors
    /// What the device answered.
    pub fn compile(&self, model: &Model, options: PrepareOptions) -> Result<Compilation> {
        Compilation::new(self.hal.as_ref(), model, options)
    }

    /// For each operation of the main graph, whether the device would take it.
    ///
    /// # Errors
    /// The model is invalid, or the device is gone.
    pub fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        Ok(self.hal.supported_operations(model)?)
    }

    /// Performance figures relative to the reference CPU.
    ///
    /// # Errors
    /// The device is gone.
    pub fn capabilities(&self) -> Result<Capabilities> {
        Ok(self.hal.capabilities()?)
    }

    /// The driver's version.
    ///
    /// # Errors
    /// The device is gone.
    pub fn version(&self) -> Result<String> {
        Ok(self.hal.version_string()?)
    }

    /// What kind of device computes.
    ///
    /// # Errors
    /// The device is gone.
    pub fn device_type(&self) -> Result<DeviceType> {
        Ok(self.hal.device_type()?)
    }

    /// Whether the device can be used now.
    ///
    /// # Errors
    /// The device is gone.
    pub fn status(&self) -> Result<DeviceStatus> {
        Ok(self.hal.status()?)
    }

    /// The extensions that the device supports.
    ///
    /// # Errors
    /// The device is gone.
    pub fn extensions(&self) -> Result<Vec<Extension>> {
        Ok(self.hal.supported_extensions()?)
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
}
