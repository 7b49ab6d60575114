//! Devices: whatever makes models ready and runs them, in this process or in another.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nnburst_hal::{
    Capabilities, Device as HalDevice, DeviceStatus, DeviceType, Extension, Model, PrepareOptions,
};
use nnburst_hal_ipc::{RemoteDevice, Spawned, service_dir, services};

use crate::compilation::Compilation;
use crate::driver::{self, DriverOptions};
use crate::error::{Result, RuntimeError};

/// A device. Clones are the same device.
#[derive(Clone)]
pub struct Device {
    name: String,
    home: Home,
}

/// Where the driver runs.
#[derive(Clone)]
enum Home {
    /// In this process.
    Here(Arc<dyn HalDevice>),
    /// In a process that was started for others as well.
    Service(Arc<RemoteDevice>),
    /// In a process of its own, which ends with the last clone.
    Child(Arc<Spawned>),
}

impl Device {
    /// A sample driver in this process: no socket, no other process, nothing to set up.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownDevice`] naming the drivers there are.
    pub fn embedded(driver: &str) -> Result<Self> {
        Self::embedded_with(driver, &DriverOptions::default())
    }

    /// [`Device::embedded`] with options.
    ///
    /// # Errors
    /// As for [`Device::embedded`].
    pub fn embedded_with(driver: &str, options: &DriverOptions) -> Result<Self> {
        let hal = driver::find(driver, options)?.device();
        Ok(Self { name: format!("embedded:{driver}"), home: Home::Here(hal) })
    }

    /// A sample driver in a child process of its own, killed and reaped when the last clone of the device
    /// and of its compilations is dropped, and gone by itself if this process dies.
    ///
    /// The child is this program again, as `PROGRAM serve --driver NAME --fd 0`: call
    /// [`serve_inherited`](crate::serve_inherited) where your `main` sees that, or name another program in
    /// [`DriverOptions::program`].
    ///
    /// # Errors
    /// [`RuntimeError::UnknownDevice`]; [`RuntimeError::Driver`] where the process can't be started or
    /// doesn't serve.
    pub fn spawn(driver: &str) -> Result<Self> {
        Self::spawn_with(driver, &DriverOptions::default())
    }

    /// [`Device::spawn`] with options.
    ///
    /// # Errors
    /// As for [`Device::spawn`].
    pub fn spawn_with(driver: &str, options: &DriverOptions) -> Result<Self> {
        let mut command = driver::command(driver, options)?;
        let child = Spawned::start(&mut command)
            .map_err(|error| RuntimeError::driver(format!("starting {driver}"), error))?;
        Ok(Self { name: format!("spawn:{driver}"), home: Home::Child(Arc::new(child)) })
    }

    /// A service that runs already, found by name in the directory of services.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownDevice`] naming the services there are; [`RuntimeError::Driver`] where one of
    /// the name doesn't answer.
    pub fn connect(instance: &str) -> Result<Self> {
        let known = services(&service_dir());
        if !known.iter().any(|name| name == instance) {
            let known = ["embedded", "spawn:NAME"].into_iter().map(str::to_owned).chain(known);
            return Err(RuntimeError::UnknownDevice {
                name: instance.to_owned(),
                known: known.collect::<Vec<_>>().join(", "),
            });
        }
        let device = RemoteDevice::connect(instance)
            .map_err(|error| RuntimeError::driver(format!("connecting to {instance}"), error))?;
        Ok(Self { name: instance.to_owned(), home: Home::Service(Arc::new(device)) })
    }

    /// A device of the caller's making: any driver object in this process.
    pub fn from_hal(name: impl Into<String>, hal: Arc<dyn HalDevice>) -> Self {
        Self { name: name.into(), home: Home::Here(hal) }
    }

    /// The embedded devices, then the services that answer.
    pub fn list() -> Vec<Self> {
        let embedded = driver::names().filter_map(|name| Self::embedded(name).ok());
        let services = services(&service_dir());
        embedded.chain(services.iter().filter_map(|name| Self::connect(name).ok())).collect()
    }

    /// What the device is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the driver runs in this process.
    pub fn is_embedded(&self) -> bool {
        matches!(self.home, Home::Here(_))
    }

    /// The process of a driver that was started for this device alone.
    pub fn driver_process(&self) -> Option<u32> {
        match &self.home {
            Home::Child(child) => Some(child.id()),
            Home::Here(_) | Home::Service(_) => None,
        }
    }

    /// Makes a model ready to run.
    ///
    /// # Errors
    /// What the device answered.
    pub fn compile(&self, model: &Model, options: PrepareOptions) -> Result<Compilation> {
        Compilation::new(self, model, options)
    }

    /// For each operation of the main graph, whether the device would take it.
    ///
    /// # Errors
    /// The model is invalid, or the device is gone.
    pub fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        Ok(self.hal().supported_operations(model)?)
    }

    /// Performance figures relative to the reference CPU.
    ///
    /// # Errors
    /// The device is gone.
    pub fn capabilities(&self) -> Result<Capabilities> {
        Ok(self.hal().capabilities()?)
    }

    /// The driver's version.
    ///
    /// # Errors
    /// The device is gone.
    pub fn version(&self) -> Result<String> {
        Ok(self.hal().version_string()?)
    }

    /// What kind of device computes.
    ///
    /// # Errors
    /// The device is gone.
    pub fn device_type(&self) -> Result<DeviceType> {
        Ok(self.hal().device_type()?)
    }

    /// Whether the device can be used now.
    ///
    /// # Errors
    /// The device is gone.
    pub fn status(&self) -> Result<DeviceStatus> {
        Ok(self.hal().status()?)
    }

    /// The extensions that the device supports.
    ///
    /// # Errors
    /// The device is gone.
    pub fn extensions(&self) -> Result<Vec<Extension>> {
        Ok(self.hal().supported_extensions()?)
    }

    pub(crate) fn hal(&self) -> &dyn HalDevice {
        match &self.home {
            Home::Here(device) => device.as_ref(),
            Home::Service(device) => device.as_ref(),
            Home::Child(child) => child.device(),
        }
    }

    /// What hangs up when the driver dies; nothing for one that dies with us.
    pub(crate) fn peer_watch_fd(&self) -> Result<Option<OwnedFd>> {
        Ok(match &self.home {
            Home::Here(_) => None,
            Home::Service(device) => Some(device.peer_watch_fd()?),
            Home::Child(child) => Some(child.device().peer_watch_fd()?),
        })
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
}
