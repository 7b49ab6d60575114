//! The devices as NNAPI lists them.

use std::sync::PoisonError;

use nnburst_hal::process::PerProcess;
use nnburst_hal::vlog;

use super::Device;
use crate::driver::{self, DriverOptions};
use crate::error::{Result, RuntimeError};
use crate::services::known;
use crate::settings::Settings;

/// Cache files of either kind that a driver may ask for.
const MOST_CACHE_FILES: u32 = 32;

/// A second name for the embedded executor, listed where no service runs.
const EMBEDDED: &str = "nnburst-embedded";

/// The devices of this process, found once: the services in the directory of services, in the order
/// of their names (those that this user or root configured with a `.service` file are started),
/// then [`Device::reference`].
///
/// A service that doesn't answer what it is asked first (figures, version, type, extensions, number
/// of cache files), or wants more than 32 cache files of a kind, is left out. Where no service is
/// found, the embedded executor is listed under the name `nnburst-embedded` as well: clients such
/// as TFLite's delegate take a list of one device for a machine without NNAPI. With the setting
/// `cpu-only` there is the reference device alone.
pub fn devices() -> &'static [Device] {
    static DEVICES: PerProcess<Option<&[Device]>> = PerProcess::new();
    let mut devices = DEVICES.get().lock().unwrap_or_else(PoisonError::into_inner);
    devices.get_or_insert_with(|| discover(&Settings::load()).leak())
}

fn discover(settings: &Settings) -> Vec<Device> {
    let mut found = Vec::new();
    if !settings.cpu_only {
        let names = super::directory().and_then(|dir| known(&dir)).unwrap_or_else(|error| {
            tracing::warn!(target: "nnburst::manager", %error, "no services");
            Vec::new()
        });
        let connected = names.iter().map(|name| (name, Device::connect(name)));
        found.extend(connected.filter_map(|(name, device)| {
            let registered = device.and_then(|device| register(&device).map(|()| device));
            registered
                .inspect_err(|error| {
                    tracing::warn!(target: "nnburst::manager", %error, "left out: {name}");
                })
                .ok()
        }));
        if found.is_empty() {
            found.push(embedded());
        }
    }
    found.push(Device::reference());
    vlog!(Manager, "devices: {:?}", found.iter().map(Device::name).collect::<Vec<_>>());
    found
}

fn embedded() -> Device {
    Device::from_hal(EMBEDDED, driver::cpu(&DriverOptions::default()).device())
}

/// Asks what a device is asked before it is listed, in the reference's order.
///
/// # Errors
/// The first question that it has no good answer to.
pub(crate) fn register(device: &Device) -> Result<()> {
    device.figures()?;
    device.version()?;
    device.device_type()?;
    device.extensions()?;
    let files = device.hal().number_of_cache_files_needed()?;
    if files.model.max(files.data) > MOST_CACHE_FILES {
        let why = format!(
            "{} model and {} data cache files asked for, at most {MOST_CACHE_FILES} are given",
            files.model, files.data
        );
        return Err(RuntimeError::driver(device.name(), why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nnburst_hal::{CacheFiles, HalError};

    use super::*;
    use crate::test_device::TestDevice;

    #[test]
    fn a_driver_that_asks_for_too_many_cache_files_is_left_out() {
        for (model, data, good) in
            [(0, 0, true), (1, 32, true), (32, 1, true), (33, 0, false), (0, 33, false)]
        {
            let driver = TestDevice::new(Ok(CacheFiles { model, data }), false);
            let device = Device::from_hal("test", Arc::new(driver));
            assert_eq!(register(&device).is_ok(), good, "{model} model, {data} data");
        }
        let driver = TestDevice::new(Err(HalError::failure("no idea")), false);
        assert!(register(&Device::from_hal("test", Arc::new(driver))).is_err());
    }
}
