//! Watching a service: its clients, what they execute, and what was refused.

use nnburst_hal_ipc::{RemoteDevice, service_dir};

use crate::error::{Result, RuntimeError};

pub use nnburst_hal_ipc::{
    ClientStatistics, Counts, ResourceUse, ServiceStatistics, WorkKind, WorkStatistics,
};

/// The names of the services that have a socket here; one that died may have left it.
///
/// # Errors
/// There is no directory of services that is this user's, or it can't be read.
pub fn services() -> Result<Vec<String>> {
    service_dir()
        .and_then(|dir| nnburst_hal_ipc::services(&dir))
        .map_err(|error| RuntimeError::driver("finding services", error))
}

/// A service that is watched.
#[derive(Debug)]
pub struct Watched(RemoteDevice);

impl Watched {
    /// Connects to a service by name.
    ///
    /// # Errors
    /// Nobody serves there, or nobody we can talk with.
    pub fn connect(service: &str) -> Result<Self> {
        RemoteDevice::connect(service)
            .map(Self)
            .map_err(|error| RuntimeError::driver(format!("connecting to {service}"), error))
    }

    /// The service's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Its clients, models and bursts now, as far as this user may see them: those of its own
    /// processes; root and the driver's user see all.
    ///
    /// # Errors
    /// The service is gone, or of another version.
    pub fn statistics(&self) -> Result<ServiceStatistics> {
        self.0
            .statistics()
            .map_err(|error| RuntimeError::driver(format!("asking {}", self.0.name()), error))
    }
}
