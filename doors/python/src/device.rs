//! Devices as Python objects.

use nnburst::RuntimeError;
use nnburst::hal::{DeviceStatus, tflite_extension};
use nnburst_doors_common::{Death, DeviceChoice, DoorOptions, Home, bundled_program};
use pyo3::prelude::*;

use crate::error::{Error, OrRaise};
use crate::wait::in_background;

/// Something that makes models ready and runs them: a driver in a process of its own, in this
/// process, or a service that somebody else started.
#[pyclass(name = "Device", frozen, module = "nnburst")]
#[derive(Clone, Debug)]
pub(crate) struct PyDevice {
    pub(crate) device: nnburst::Device,
    /// What it was opened by, or can be.
    choice: DeviceChoice,
}

impl PyDevice {
    /// Opens the device that a text names; takes some milliseconds for a driver to start.
    pub(crate) fn open_here(choice: DeviceChoice, threads: usize) -> Result<Self, Error> {
        let device = choice.clone();
        let options = DoorOptions { device, threads: Some(threads), ..DoorOptions::default() };
        // The wheel brings the program of its own version along.
        let device = options.open_device_with(|| bundled_program("bin"))?;
        Ok(Self { device, choice })
    }

    /// The error of a call on what this device made, with the driver's death named.
    pub(crate) fn error(&self, error: RuntimeError) -> Error {
        // A burst may notice the death before the connection does.
        let is_death = matches!(error, RuntimeError::DeviceDied(_))
            || (error.is_device_lost() && self.device.lost().is_some());
        let death = is_death.then(|| Death::of(&self.device, &self.choice.name));
        Error::Runtime(error, death)
    }

    pub(crate) fn has_extension(&self) -> Result<bool, Error> {
        Ok(self.device.extensions()?.iter().any(|one| one.name == tflite_extension::NAME))
    }

    fn open_choice(py: Python<'_>, choice: DeviceChoice, threads: usize) -> PyResult<Self> {
        in_background(py, move || Self::open_here(choice, threads), || Ok(()))
    }

    fn open_home(py: Python<'_>, home: &str, driver: &str, threads: usize) -> PyResult<Self> {
        let choice = format!("{home}/{driver}").parse().or_raise(py)?;
        Self::open_choice(py, choice, threads)
    }
}

#[pymethods]
impl PyDevice {
    /// Opens the device that a text names: `spawn/NAME`, `embedded/NAME` or `connect/NAME`.
    #[staticmethod]
    #[pyo3(signature = (device="spawn/nnburst-cpu", *, threads=1))]
    pub(crate) fn open(py: Python<'_>, device: &str, threads: usize) -> PyResult<Self> {
        Self::open_choice(py, device.parse().or_raise(py)?, threads)
    }

    /// Starts a driver in a process of its own, which ends with the last object that it made.
    #[staticmethod]
    #[pyo3(signature = (driver="nnburst-cpu", *, threads=1))]
    fn spawn(py: Python<'_>, driver: &str, threads: usize) -> PyResult<Self> {
        Self::open_home(py, "spawn", driver, threads)
    }

    /// A driver in this process.
    #[staticmethod]
    #[pyo3(signature = (driver="nnburst-cpu", *, threads=1))]
    fn embedded(py: Python<'_>, driver: &str, threads: usize) -> PyResult<Self> {
        Self::open_home(py, "embedded", driver, threads)
    }

    /// A service that runs already, found by its name.
    #[staticmethod]
    fn connect(py: Python<'_>, service: &str) -> PyResult<Self> {
        Self::open_home(py, "connect", service, 1)
    }

    /// The text that `open` takes for this device.
    #[getter]
    fn name(&self) -> String {
        self.choice.to_string()
    }

    /// The driver's version.
    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<String> {
        self.device.version().or_raise(py)
    }

    /// The kind of processor: `CPU`, `GPU`, `ACCELERATOR` or `OTHER`.
    #[getter]
    #[pyo3(name = "type")]
    fn kind(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("{:?}", self.device.device_type().or_raise(py)?).to_uppercase())
    }

    /// The API level of the driver's interface: 27 to 30.
    #[getter]
    fn feature_level(&self) -> i64 {
        self.device.feature_level()
    }

    /// The names of the extensions that the driver has.
    #[getter]
    fn extensions(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let extensions = self.device.extensions().or_raise(py)?;
        Ok(extensions.into_iter().map(|extension| extension.name).collect())
    }

    /// True if the driver runs in this process.
    #[getter]
    fn is_embedded(&self) -> bool {
        self.device.is_embedded()
    }

    /// The process of a driver that was started for this device; `None` for any other.
    #[getter]
    fn driver_pid(&self) -> Option<u32> {
        self.device.driver_process()
    }

    /// True if the device can be used now.
    #[getter]
    fn is_available(&self) -> bool {
        self.device.lost().is_none()
            && self.device.status().is_ok_and(|status| status == DeviceStatus::Available)
    }

    fn __repr__(&self) -> String {
        format!("<nnburst.Device {}>", self.choice)
    }
}

/// The devices that can be opened by name: those in this process, and the services that answer.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<PyDevice>> {
    let list = || Ok(nnburst::Device::list());
    let found = in_background(py, list, || Ok(()))?;
    let device = |device: nnburst::Device| {
        let home = if device.is_embedded() { Home::Embedded } else { Home::Connect };
        let name = device.name();
        let name = name.strip_prefix("embedded:").unwrap_or(name).to_owned();
        PyDevice { device, choice: DeviceChoice { home, name } }
    };
    Ok(found.into_iter().map(device).collect())
}
