//! From a model to a [`Compilation`]: on devices that the caller names, or on the best there are.

use std::time::Duration;

use nnburst_hal::{Model, PrepareOptions, TimePoint, bound};

use crate::compilation::Compilation;
use crate::compile_options::CompileOptions;
use crate::device::{Device, devices};
use crate::error::{Result, RuntimeError};
use crate::partition::{self, Explanation};
use crate::prepare::Preparation;
use crate::settings::{Partitioning, Settings};

/// Compiles a model for the best of [`devices()`], spread over several where that is better.
///
/// A served driver that takes all of the model is preferred to computing in this process
/// ([`CompileOptions::prefer_served`]). Among the devices that are left, operations go by figures;
/// those that differ by no more than figures scatter by are equal, and a model is spread over
/// several devices only if that takes less time with the ways between them.
///
/// # Errors
/// `INVALID_ARGUMENT` where an operation is supported by no device; what a driver answered, where
/// no fallback is allowed; [`RuntimeError::Argument`] for a timeout, which takes one named device.
pub fn compile(model: &Model, options: &CompileOptions) -> Result<Compilation> {
    compile_among(model, devices(), options)
}

/// As [`compile()`], with the best of these devices instead of [`devices()`]: for drivers that the
/// process brings along, and for tests of fallback.
///
/// # Errors
/// As for [`compile()`].
pub fn compile_among(
    model: &Model,
    among: &[Device],
    options: &CompileOptions,
) -> Result<Compilation> {
    check_list(among)?;
    let partitioning = options.partitioning.unwrap_or_else(|| Settings::load().partitioning);
    if options.timeout.is_some() {
        return Err(RuntimeError::Argument("a timeout takes exactly one named device".into()));
    }
    match partitioning {
        Partitioning::No => {
            let reference = [Device::reference()];
            Compilation::new(model, &reference, options, partitioning, false)
        }
        _ => Compilation::new(model, among, options, partitioning, false),
    }
}

/// Compiles a model for the devices given, spread over them where that is better, and without
/// fallback.
///
/// # Errors
/// As for [`compile()`]; [`RuntimeError::Argument`] for an empty list, or one with a device twice.
pub fn compile_for(
    model: &Model,
    devices: &[Device],
    options: &CompileOptions,
) -> Result<Compilation> {
    check_list(devices)?;
    match devices {
        [one] => within(options.timeout, || {
            check_taken(model, one)?;
            Compilation::whole(one, model, options)
        }),
        [_, _, ..] if options.timeout.is_some() => {
            Err(RuntimeError::Argument("a timeout takes exactly one named device".into()))
        }
        several => Compilation::new(model, several, options, Partitioning::WithoutFallback, true),
    }
}

/// Loads a model from where [`CompileOptions::caching`] says, without preparing it anew where that
/// fails, as [`compile_for`] would; `None` where the device caches nothing, or no place is named.
/// `model` tells the arguments, and has to be the one that was compiled.
///
/// # Errors
/// What is in the cache is of no use to the device, or nothing is there.
pub fn load_cached(
    model: &Model,
    device: &Device,
    options: &CompileOptions,
) -> Result<Option<Compilation>> {
    let prepared = Preparation::new(options).load(device)?;
    prepared.map(|prepared| Compilation::of_prepared(device, model, prepared, options)).transpose()
}

/// For each operation of the main graph, whether one of the devices would take it.
///
/// # Errors
/// [`RuntimeError::Argument`] for an empty list, or one with a device twice;
/// `MISSED_DEADLINE_TRANSIENT` where the bound of [`within`](crate::within) is over. A device that
/// fails otherwise counts as one that takes nothing.
pub fn supported_operations(model: &Model, devices: &[Device]) -> Result<Vec<bool>> {
    check_list(devices)?;
    let mut supported = vec![false; model.main.operations.len()];
    for device in devices {
        match device.supported_operations(model) {
            Ok(answers) => {
                for (supported, answer) in supported.iter_mut().zip(answers) {
                    *supported |= answer;
                }
            }
            // The caller's time is over.
            Err(error) if error.is_deadline_missed() => return Err(error),
            Err(error) => {
                tracing::warn!(target: "nnburst::compilation", %error, "{}", device.name());
            }
        }
    }
    Ok(supported)
}

impl Device {
    /// Makes a model ready to run.
    ///
    /// # Errors
    /// What the device answered.
    pub fn compile(&self, model: &Model, options: PrepareOptions) -> Result<Compilation> {
        let PrepareOptions { preference, priority, deadline } = options;
        let timeout = deadline.map(TimePoint::remaining);
        let options = CompileOptions { preference, priority, timeout, ..CompileOptions::default() };
        match deadline {
            Some(deadline) => bound::until(bound::answered_by(deadline), || {
                Compilation::whole(self, model, &options)
            }),
            None => Compilation::whole(self, model, &options),
        }
    }
}

/// Compiles within the time that there is for it: preparing takes the rest of what asking the
/// device leaves.
fn within<R>(timeout: Option<Duration>, compile: impl FnOnce() -> R) -> R {
    match timeout {
        Some(timeout) => bound::until(bound::answered_by(TimePoint::after(timeout)), compile),
        None => compile(),
    }
}

/// Refuses a model of which the device doesn't take every operation, even if it would prepare it.
fn check_taken(model: &Model, device: &Device) -> Result<()> {
    // A device that can't answer fails to prepare as well, and says why then.
    let Ok(taken) = device.supported_operations(model) else { return Ok(()) };
    let refused = taken.iter().zip(&model.main.operations).position(|(&taken, _)| !taken);
    let Some(at) = refused else { return Ok(()) };
    let kind = model.main.operations.get(at).map_or("", |operation| operation.kind.name());
    Err(RuntimeError::Model(format!("{} doesn't take operation {at}, {kind}", device.name())))
}

fn check_list(devices: &[Device]) -> Result<()> {
    if devices.is_empty() {
        return Err(RuntimeError::Argument("no device is named".into()));
    }
    for (at, device) in devices.iter().enumerate() {
        if devices.iter().take(at).any(|earlier| earlier == device) {
            return Err(RuntimeError::Argument(format!("{} is named twice", device.name())));
        }
    }
    Ok(())
}

/// Explains how a model would be spread over devices, and why: [`compile_for`] does what this says.
/// For [`compile()`], there is [`explain_among`].
///
/// # Errors
/// The model is invalid, or an operation is supported by no device.
pub fn explain(model: &Model, devices: &[Device], options: &CompileOptions) -> Result<Explanation> {
    check_list(devices)?;
    partition::explain(model, devices, options, false)
}

/// Explains how [`compile_among`] would spread a model, and [`compile()`] over [`devices()`], and
/// why.
///
/// # Errors
/// As for [`explain`].
pub fn explain_among(
    model: &Model,
    among: &[Device],
    options: &CompileOptions,
) -> Result<Explanation> {
    check_list(among)?;
    partition::explain(model, among, options, options.prefers_served())
}

/// The device in another process that [`compile()`] would take for all of a model; `None` where it
/// would take several, or one of this process.
pub fn served_device(model: &Model) -> Option<Device> {
    let devices = devices();
    let plan = explain_among(model, devices, &CompileOptions::default()).ok()?;
    let [step] = plan.steps.as_slice() else { return None };
    step.device.and_then(|at| devices.get(at)).filter(|device| !device.is_embedded()).cloned()
}
