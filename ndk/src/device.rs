//! `ANeuralNetworksDevice`: the devices of this process, found at the first question about them.

use std::ffi::{CString, c_char, c_int};
use std::sync::{OnceLock, PoisonError};

use nnburst::hal;
use nnburst::hal::process::PerProcess;

use crate::c::{Out, Text};
use crate::error::{Code, Error, Result, call, start_logging};
use crate::handle::{Handle, object};

/// `ANEURALNETWORKS_DEVICE_UNKNOWN`.
const UNKNOWN: i32 = 0;

/// A device as C holds it: its place in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device(&'static Listed);

object!(Device, "device", 2);

/// A device and what is asked of it without asking its driver. Lives as long as the process.
#[derive(Debug)]
struct Listed {
    device: nnburst::Device,
    name: CString,
    version: CString,
    kind: i32,
    feature_level: i64,
    extensions: Vec<hal::Extension>,
    handle: OnceLock<usize>,
}

/// All devices of this process, `nnapi-reference` last.
fn all() -> &'static [Listed] {
    static DEVICES: PerProcess<Option<&[Listed]>> = PerProcess::new();
    let mut devices = DEVICES.get().lock().unwrap_or_else(PoisonError::into_inner);
    devices.get_or_insert_with(|| {
        nnburst::devices().iter().map(Listed::new).collect::<Vec<_>>().leak()
    })
}

impl Listed {
    fn new(device: &nnburst::Device) -> Self {
        let feature_level = device.feature_level();
        let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
        Self {
            name: text(device.name()),
            version: text(&device.version().unwrap_or_else(|_| "UNKNOWN".into())),
            kind: match device.device_type() {
                // Drivers of 27 and 28 can't tell.
                Ok(kind) if feature_level >= 29 => kind.code(),
                _ => UNKNOWN,
            },
            feature_level,
            extensions: device.extensions().unwrap_or_default(),
            handle: OnceLock::new(),
            device: device.clone(),
        }
    }
}

/// The devices behind handles, none of them twice.
///
/// # Errors
/// `UNEXPECTED_NULL` for a null, `BAD_DATA` for a device named twice or none of ours.
pub(crate) fn list(handles: &[Handle<Device>]) -> Result<Vec<nnburst::Device>> {
    let mut devices = Vec::with_capacity(handles.len());
    for (at, handle) in handles.iter().enumerate() {
        if handle.is_null() {
            return Err(Error::null("a device"));
        }
        if handles.get(..at).is_some_and(|before| before.contains(handle)) {
            return Err(Error::data("a device is named twice"));
        }
        let device = handle.with(|device| Ok(device.0.device.clone()));
        devices.push(device.map_err(|error| match error.code {
            // Of the process that this one was forked from.
            Code::OpFailed => error,
            _ => Error::data(error.reason),
        })?);
    }
    Ok(devices)
}

/// The names and versions of devices, or of all of them, as `NAME=VERSION`.
pub(crate) fn identifiers(devices: Option<&[nnburst::Device]>) -> Vec<String> {
    let is_meant =
        |listed: &&Listed| devices.is_none_or(|devices| devices.contains(&listed.device));
    let text = |text: &CString| text.to_string_lossy().into_owned();
    let identifier = |listed: &Listed| format!("{}={}", text(&listed.name), text(&listed.version));
    all().iter().filter(is_meant).map(identifier).collect()
}

fn get(device: Handle<Device>) -> Result<&'static Listed> {
    device.with(|device| Ok(device.0))
}

pub(crate) extern "C" fn get_device_count(count: Out<'_, u32>) -> c_int {
    call(|| {
        let count = count.ok_or_else(|| Error::null("numDevices"))?;
        start_logging();
        count.write(u32::try_from(all().len()).unwrap_or(u32::MAX));
        Ok(())
    })
}

pub(crate) extern "C" fn get_device(index: u32, device: Out<'_, Handle<Device>>) -> c_int {
    call(|| {
        let device = device.ok_or_else(|| Error::null("device"))?;
        let devices = all();
        let listed =
            usize::try_from(index).ok().and_then(|at| devices.get(at)).ok_or_else(|| {
                Error::data(format!("device {index} asked for, there are {}", devices.len()))
            })?;
        let known = match listed.handle.get() {
            Some(&known) => known,
            None => {
                let made = Handle::new(Device(listed))?.address();
                *listed.handle.get_or_init(|| made)
            }
        };
        device.write(Handle::at(known));
        Ok(())
    })
}

pub(crate) extern "C" fn get_name(device: Handle<Device>, name: Out<'_, *const c_char>) -> c_int {
    call(|| {
        let name = name.ok_or_else(|| Error::null("name"))?;
        name.write(get(device)?.name.as_ptr());
        Ok(())
    })
}

pub(crate) extern "C" fn get_version(
    device: Handle<Device>,
    version: Out<'_, *const c_char>,
) -> c_int {
    call(|| {
        let version = version.ok_or_else(|| Error::null("version"))?;
        version.write(get(device)?.version.as_ptr());
        Ok(())
    })
}

pub(crate) extern "C" fn get_type(device: Handle<Device>, kind: Out<'_, i32>) -> c_int {
    call(|| {
        let kind = kind.ok_or_else(|| Error::null("type"))?;
        kind.write(get(device)?.kind);
        Ok(())
    })
}

pub(crate) extern "C" fn get_feature_level(device: Handle<Device>, level: Out<'_, i64>) -> c_int {
    call(|| {
        let level = level.ok_or_else(|| Error::null("featureLevel"))?;
        level.write(get(device)?.feature_level);
        Ok(())
    })
}

pub(crate) extern "C" fn wait(device: Handle<Device>) -> c_int {
    call(|| Ok(get(device)?.device.wait(None)?))
}

pub(crate) extern "C" fn get_extension_support(
    device: Handle<Device>,
    name: Text,
    supported: Out<'_, bool>,
) -> c_int {
    call(|| {
        let name = name.get("extensionName")?;
        let supported = supported.ok_or_else(|| Error::null("isExtensionSupported"))?;
        let known = &get(device)?.extensions;
        supported.write(known.iter().any(|extension| extension.name.as_bytes() == name.to_bytes()));
        Ok(())
    })
}

pub(crate) extern "C" fn default_loop_timeout() -> u64 {
    nanoseconds(hal::DEFAULT_LOOP_TIMEOUT)
}

pub(crate) extern "C" fn maximum_loop_timeout() -> u64 {
    nanoseconds(hal::MAX_LOOP_TIMEOUT)
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
