//! Spreading a model over devices.
//!
//! ```text
//!   model ─► Chooser: the best device for each operation, by figures and preference
//!         ─► Walk: all operations on one device? simple. Else steps, control flow in between,
//!            if they cost less with all the ways between them than one device for everything
//!         ─► StepModel for each step ─► its device prepares it ─► Plan ─► Planned: a PreparedModel
//! ```
//!
//! What fails on the way (and is not the caller's mistake) sends all of the model to the reference
//! device, if that is allowed.

mod choose;
mod cost;
mod explain;
mod plan;
mod step_model;
mod walk;

use std::sync::Arc;

use nnburst_hal::{HalError, Model, OperationType, PreparedModel, Version, validate_model};

pub use choose::Bid;
pub use explain::{Explained, Explanation, StepKind, StepSummary};

use crate::compile_options::CompileOptions;
use crate::device::Device;
use crate::error::{Result, ResultCode, RuntimeError};
use crate::planned::{Planned, PlannedModel};
use crate::prepare::Preparation;
use crate::settings::{Partitioning, Settings};
use choose::Chooser;
use walk::Walk;

/// A model made ready by however many devices.
pub(crate) struct Partitioned {
    pub(crate) prepared: Arc<dyn PreparedModel>,
    pub(crate) devices: Vec<Device>,
    /// The plan, where more than a single device's own model is behind `prepared`.
    pub(crate) planned: Option<Arc<Planned>>,
}

impl Partitioned {
    /// The whole model on one device.
    pub(crate) fn whole(device: &Device, model: &Model, options: &CompileOptions) -> Result<Self> {
        let prepared = Preparation::new(options).prepare(device, model, None)?;
        Ok(Self { prepared, devices: vec![device.clone()], planned: None })
    }
}

/// Makes a model ready on the devices given.
pub(crate) fn compile(
    model: &Model,
    devices: &[Device],
    options: &CompileOptions,
    partitioning: Partitioning,
    prefer_served: bool,
) -> Result<Partitioned> {
    check(model)?;
    crate::extensions::learn(model, devices);
    let may_fall_back = partitioning == Partitioning::WithFallback;
    match spread(model, devices, options, may_fall_back, prefer_served) {
        Err(error) if may_fall_back && may_run_on_reference(model, &error) => {
            tracing::warn!(
                target: "nnburst::compilation", %error, "all of the model goes to the reference device",
            );
            let plain =
                CompileOptions { partitioning: Some(partitioning), ..CompileOptions::default() };
            Partitioned::whole(&Device::reference(), model, &plain)
        }
        result => result,
    }
}

/// Says what [`compile`] would do and why, without preparing anything.
pub(crate) fn explain(
    model: &Model,
    devices: &[Device],
    options: &CompileOptions,
    prefer_served: bool,
) -> Result<Explanation> {
    check(model)?;
    crate::extensions::learn(model, devices);
    let chooser = chooser(model, devices, options, prefer_served);
    let walk = Walk::of(model, &chooser)?;
    Ok(Explanation::new(model, devices, &walk))
}

fn chooser<'a>(
    model: &'a Model,
    devices: &'a [Device],
    options: &CompileOptions,
    prefer_served: bool,
) -> Chooser<'a> {
    let strict_slicing = Settings::load().strict_slicing;
    Chooser::new(model, devices, options.preference, strict_slicing, prefer_served)
}

fn check(model: &Model) -> Result<()> {
    validate_model(model, Version::V1_3)
        .map_err(|error| HalError::invalid(error.to_string()).into())
}

fn spread(
    model: &Model,
    devices: &[Device],
    options: &CompileOptions,
    may_fall_back: bool,
    prefer_served: bool,
) -> Result<Partitioned> {
    let chooser = chooser(model, devices, options, prefer_served);
    let walk = Walk::of(model, &chooser)?;
    if let Some(device) = walk.single_device().and_then(|at| devices.get(at)) {
        let simple = Partitioned::whole(device, model, options)?;
        if !may_fall_back || device.is_reference() {
            return Ok(simple);
        }
        let planned = Planned::simple(&Arc::new(model.clone()), device, simple.prepared);
        return Ok(of_plan(planned, vec![device.clone()]));
    }
    let plan = plan::finish(&Arc::new(model.clone()), &walk, devices, &Preparation::new(options))?;
    let planned = Planned::new(plan, may_fall_back);
    let mut used: Vec<Device> = Vec::new();
    for (_, step) in planned.executions() {
        if !used.contains(&step.device) {
            used.push(step.device.clone());
        }
    }
    Ok(of_plan(planned, used))
}

fn of_plan(planned: Planned, devices: Vec<Device>) -> Partitioned {
    let planned = Arc::new(planned);
    let prepared = Arc::new(PlannedModel(Arc::clone(&planned)));
    Partitioned { prepared, devices, planned: Some(planned) }
}

/// Neither the caller's mistakes nor what the reference device doesn't know are mended by it.
fn may_run_on_reference(model: &Model, error: &RuntimeError) -> bool {
    let foreign = |kind: OperationType| {
        matches!(kind, OperationType::OemOperation | OperationType::Extension(_))
    };
    let mut graphs = std::iter::once(&model.main).chain(&model.referenced);
    !matches!(error.code(), ResultCode::BadData | ResultCode::UnexpectedNull)
        && !graphs.any(|graph| graph.operations.iter().any(|operation| foreign(operation.kind)))
}
