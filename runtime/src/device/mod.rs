//! Devices: whatever makes models ready and runs them, in this process or in another.

mod list;
mod reference;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nnburst_hal::process::Origin;
use nnburst_hal::{
    Capabilities, Device as HalDevice, DeviceStatus, DeviceType, ErrorStatus, Extension, HalError,
    Model, Version, vlog,
};
use nnburst_hal_ipc::{ConnectError, RemoteDevice, RemoteTracing, Spawned, service_dir};

pub use list::devices;
pub use reference::REFERENCE;

use crate::driver::{self, DriverOptions};
use crate::error::{Result, RuntimeError};
use crate::memory::{Memory, WeakMemory};
use crate::services;
use crate::settings::Settings;

/// A device. Clones are the same device, and equal.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    name: String,
    home: Home,
    figures: OnceLock<Capabilities>,
    /// The driver's own memories that are alive, by token.
    memories: Mutex<BTreeMap<u32, WeakMemory>>,
    /// The process that the device was found or made in.
    origin: Origin,
}

/// The process that the driver runs in.
enum Home {
    /// In this process.
    Here(Arc<dyn HalDevice>),
    /// In a process that was started for others as well.
    Service(RemoteDevice),
    /// In a process of its own, which ends with the last clone.
    Child(Spawned),
    /// In the process at the other end of a socket that has no name.
    Socket(RemoteDevice),
    /// In this process, and for tests of choices as if it weren't.
    #[cfg(test)]
    Elsewhere(Arc<dyn HalDevice>),
}

/// The time that [`Device::wait`] sleeps between two tries to reach a service.
const RETRY: Duration = Duration::from_millis(5);

impl Device {
    fn new(name: impl Into<String>, home: Home) -> Self {
        let (name, figures, memories) = (name.into(), OnceLock::new(), Mutex::default());
        vlog!(Manager, "device {name}");
        Self(Arc::new(Inner { name, home, figures, memories, origin: Origin::here() }))
    }

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
        Ok(Self::new(format!("embedded:{driver}"), Home::Here(hal)))
    }

    /// A sample driver in a child process of its own, killed and reaped when the last clone of the
    /// device and of its compilations is dropped, and gone by itself if this process dies.
    ///
    /// The child is this program again, as `PROGRAM serve --driver NAME --fd 0`: call
    /// [`serve_inherited`](crate::serve_inherited) where your `main` sees that, or name another
    /// program in [`DriverOptions::program`].
    ///
    /// # Errors
    /// [`RuntimeError::UnknownDevice`]; [`RuntimeError::Driver`] where the process can't be started
    /// or doesn't serve, and in a process that was itself started so and serves nothing.
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
            .map_err(|error| lost_or_refused(format!("starting {driver}"), error))?;
        Ok(Self::new(format!("spawn:{driver}"), Home::Child(child)))
    }

    /// A driver in a child process of its own, started as the caller says: the socket is the
    /// command's standard input (descriptor 0), on which it has to serve. The process ends as that
    /// of [`Device::spawn`] does.
    ///
    /// # Errors
    /// [`RuntimeError::Driver`] where the command can't be started or doesn't serve.
    pub fn spawn_command(
        name: impl Into<String>,
        command: &mut std::process::Command,
    ) -> Result<Self> {
        let name = name.into();
        let child = Spawned::start(command)
            .map_err(|error| lost_or_refused(format!("starting {name}"), error))?;
        Ok(Self::new(name, Home::Child(child)))
    }

    /// The driver at the other end of a connected socket, such as half of a socket pair. Once it
    /// is lost it stays lost.
    ///
    /// # Errors
    /// [`RuntimeError::Driver`] where nothing that can be used serves there.
    pub fn from_socket(name: impl Into<String>, socket: std::os::fd::OwnedFd) -> Result<Self> {
        let name = name.into();
        let device = RemoteDevice::from_socket(socket)
            .map_err(|error| lost_or_refused(format!("connecting to {name}"), error))?;
        Ok(Self::new(name, Home::Socket(device)))
    }

    /// A service that runs already, found by name in the directory of services.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownDevice`] naming the services there are; [`RuntimeError::Driver`]
    /// where one of the name doesn't answer.
    pub fn connect(instance: &str) -> Result<Self> {
        let dir = directory()?;
        let known = services::known(&dir)?;
        if !known.iter().any(|name| name == instance) {
            let known =
                ["embedded", "spawn:NAME", REFERENCE].into_iter().map(str::to_owned).chain(known);
            return Err(RuntimeError::UnknownDevice {
                name: instance.to_owned(),
                known: known.collect(),
            });
        }
        services::start(&dir, instance)?;
        let device = RemoteDevice::connect(instance)
            .map_err(|error| lost_or_refused(format!("connecting to {instance}"), error))?;
        Ok(Self::new(instance, Home::Service(device)))
    }

    /// A device of the caller's making: any driver object in this process, also one of an older
    /// version behind `hal::v1_0::upgrade` and its kin.
    pub fn from_hal(name: impl Into<String>, hal: Arc<dyn HalDevice>) -> Self {
        Self::new(name, Home::Here(hal))
    }

    /// [`Device::from_hal`] of what counts as a device in another process.
    #[cfg(test)]
    pub(crate) fn elsewhere(name: &str, hal: Arc<dyn HalDevice>) -> Self {
        Self::new(name, Home::Elsewhere(hal))
    }

    /// The embedded executor as NNAPI's CPU device, [`REFERENCE`]: always there, computes
    /// everything but extensions, measures nothing, caches nothing. One per process.
    pub fn reference() -> Self {
        reference::device()
    }

    /// Whatever can be opened by name: the embedded devices, the services that answer, the
    /// reference device. [`devices`](crate::devices) are those that models are spread over.
    /// Services that are left out are told of as warnings; [`Device::list_with`] tells the caller.
    pub fn list() -> Vec<Self> {
        Self::list_with(|error| {
            tracing::warn!(target: "nnburst::manager", %error, "left out");
        })
    }

    /// [`Device::list`]; `left_out` is told of each service that doesn't answer or isn't trusted,
    /// and of a directory of services that isn't.
    pub fn list_with(mut left_out: impl FnMut(RuntimeError)) -> Vec<Self> {
        let mut devices: Vec<_> =
            driver::names().filter_map(|name| Self::embedded(name).ok()).collect();
        let known = directory().and_then(|dir| services::known(&dir));
        for name in known.map_err(&mut left_out).unwrap_or_default() {
            devices.extend(Self::connect(&name).map_err(&mut left_out));
        }
        devices.push(Self::reference());
        devices
    }

    /// Returns the device's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The newest version of the HAL that the driver speaks.
    pub fn version_of_hal(&self) -> Version {
        self.hal().interface_version()
    }

    /// The API level that [`Device::version_of_hal`] came with: 27 to 30.
    pub fn feature_level(&self) -> i64 {
        match self.version_of_hal() {
            Version::V1_0 => 27,
            Version::V1_1 => 28,
            Version::V1_2 => 29,
            Version::V1_3 => 30,
        }
    }

    /// Returns whether this is [`Device::reference`].
    pub fn is_reference(&self) -> bool {
        *self == Self::reference()
    }

    /// Why the driver is gone, if it is. What was made by it stays dead; the device itself comes
    /// back once its service does.
    pub fn lost(&self) -> Option<RuntimeError> {
        match &self.0.home {
            Home::Here(_) => None,
            #[cfg(test)]
            Home::Elsewhere(_) => None,
            Home::Service(device) | Home::Socket(device) => device.lost(),
            Home::Child(child) => child.device().lost(),
        }
        .map(RuntimeError::DeviceDied)
    }

    /// Waits until the device answers: returns at once for one that lives; for a service that died,
    /// when it is back.
    ///
    /// # Errors
    /// [`RuntimeError::DeviceDied`] where that can't be, as the driver's process was this device's
    /// own, or `timeout` passed first. Without a timeout the wait is as long as it takes.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let end = timeout.and_then(|timeout| std::time::Instant::now().checked_add(timeout));
        loop {
            if matches!(self.0.home, Home::Service(_)) {
                // It comes back by itself, or is started here.
                let _ = directory().and_then(|dir| services::start(&dir, &self.0.name));
            }
            // Asking is what reconnects.
            let asked = self.hal().status();
            let Some(lost) = self.lost() else {
                return Ok(asked.map(drop)?);
            };
            let is_over = end.is_some_and(|end| std::time::Instant::now() >= end);
            if is_over || !matches!(self.0.home, Home::Service(_)) {
                return Err(lost);
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Returns whether the driver runs in this process.
    pub fn is_embedded(&self) -> bool {
        matches!(self.0.home, Home::Here(_))
    }

    /// The process of a driver that was started for this device alone.
    pub fn driver_process(&self) -> Option<u32> {
        match &self.0.home {
            Home::Child(child) => Some(child.id()),
            _ => None,
        }
    }

    /// Has a driver in another process write its spans to a file that is open for appending, until
    /// what this returns is dropped. Of one in this process they are this process's:
    /// [`trace_to`](nnburst_hal::trace_to) is for those.
    ///
    /// # Errors
    /// The driver is gone, another user's, or writes spans already.
    pub fn trace(&self, file: BorrowedFd<'_>) -> Result<Option<RemoteTracing>> {
        let device = match &self.0.home {
            Home::Here(_) => return Ok(None),
            #[cfg(test)]
            Home::Elsewhere(_) => return Ok(None),
            Home::Service(device) | Home::Socket(device) => device,
            Home::Child(child) => child.device(),
        };
        device.trace(file).map(Some).map_err(|error| self.died_of(error))
    }

    /// The exit status of a driver that was started for this device alone, as
    /// [`Device::driver_process`] has it; `None` while it runs. Its connection breaks shortly
    /// before it has one.
    pub fn driver_exit_status(&self) -> Option<std::process::ExitStatus> {
        match &self.0.home {
            Home::Child(child) => child.exit_status(),
            _ => None,
        }
    }

    /// For each operation of the main graph, whether the device would take it.
    ///
    /// # Errors
    /// The model is invalid, or the device is gone.
    pub fn supported_operations(&self, model: &Model) -> Result<Vec<bool>> {
        let mut answers =
            self.hal().supported_operations(model).map_err(|error| self.died_of(error))?;
        if Settings::of_process().sample_supported && self.is_sample() {
            // Every third, by name and place: a pattern that can be had again.
            let salt: usize = self.0.name.bytes().map(usize::from).sum();
            for (at, answer) in answers.iter_mut().enumerate() {
                *answer &= !(at.wrapping_mul(7).wrapping_add(salt)).is_multiple_of(3);
            }
        }
        Ok(answers)
    }

    fn is_sample(&self) -> bool {
        let driver = self.0.name.strip_prefix("spawn:").unwrap_or(&self.0.name);
        ["sample", "nnapi-sample"].iter().any(|prefix| driver.starts_with(prefix))
    }

    /// [`Device::capabilities`], asked once.
    pub(crate) fn figures(&self) -> Result<&Capabilities> {
        if let Some(figures) = self.0.figures.get() {
            return Ok(figures);
        }
        self.0.origin.check()?;
        let figures = self.capabilities()?;
        Ok(self.0.figures.get_or_init(|| figures))
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

    /// Returns the kind of device that computes.
    ///
    /// # Errors
    /// The device is gone.
    pub fn device_type(&self) -> Result<DeviceType> {
        Ok(self.hal().device_type()?)
    }

    /// Returns whether the device can be used now.
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

    /// The device's HAL interface: for what this crate has no call of its own for.
    pub fn hal(&self) -> &dyn HalDevice {
        match &self.0.home {
            Home::Here(device) => device.as_ref(),
            #[cfg(test)]
            Home::Elsewhere(device) => device.as_ref(),
            Home::Service(device) | Home::Socket(device) => device,
            Home::Child(child) => child.device(),
        }
    }

    /// Notes a memory of the driver's own, so that its token finds it.
    pub(crate) fn keep_memory(&self, token: u32, memory: &Memory) {
        let mut memories = self.0.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.retain(|_, memory| !memory.is_gone());
        memories.insert(token, memory.downgrade());
    }

    /// The driver's own memory with this token.
    pub(crate) fn memory(&self, token: u32) -> Option<Memory> {
        self.0.origin.check().ok()?;
        self.0.memories.lock().unwrap_or_else(PoisonError::into_inner).get(&token)?.upgrade()
    }

    /// The error of a call, with the death of the driver told from its refusal.
    pub(crate) fn died_of(&self, error: HalError) -> RuntimeError {
        if error.status == ErrorStatus::DeviceUnavailable && self.lost().is_some() {
            RuntimeError::DeviceDied(error)
        } else {
            RuntimeError::Device(error)
        }
    }
}

/// A service that was lost is a device that died, whoever has it or was about to.
fn lost_or_refused(what: String, error: ConnectError) -> RuntimeError {
    match error {
        ConnectError::Lost { .. } | ConnectError::NotServed { .. } => {
            RuntimeError::DeviceDied(HalError::unavailable(format!("{what}: {error}")))
        }
        error => RuntimeError::driver(what, error),
    }
}

/// The directory of services.
fn directory() -> Result<PathBuf> {
    service_dir().map_err(|error| RuntimeError::driver("finding services", error))
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.0.name).finish_non_exhaustive()
    }
}
