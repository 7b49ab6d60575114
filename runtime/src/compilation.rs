//! Models made ready by a device.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use nnburst_hal::process::Origin;
use nnburst_hal::{
    Direction, ErrorStatus, ExecutionOptions, ExecutionOutcome, ExecutionPreference,
    ExecutionResult, FencedExecution, HalError, Layer, Model, Operand, OutputShape, Phase,
    PreparedModel, Request, Version, extends_shape, log_dot, trace_span, unsignalled_fences, vlog,
};
use nnburst_hal_ipc::RemotePreparedModel;

use crate::background;
use crate::burst::{Burst, BurstOptions};
use crate::compile_options::CompileOptions;
use crate::device::Device;
use crate::error::{Result, RuntimeError};
use crate::execution::Execution;
use crate::extensions;
use crate::frame::{Argument, Frame, Plane};
use crate::memory::CompilationId;
use crate::partition::{self, Partitioned};
use crate::planned::{Planned, StepRole};
use crate::settings::Partitioning;

/// A model that devices have made ready to run. Clones are the same compilation.
#[derive(Clone)]
pub struct Compilation(Arc<Inner>);

struct Inner {
    // Before the devices: the model goes first, its driver's process after it.
    prepared: Arc<dyn PreparedModel>,
    /// The plan, where there is more to it than a device's own model.
    planned: Option<Arc<Planned>>,
    devices: Vec<Device>,
    /// True if the caller named the devices.
    is_explicit: bool,
    signature: Signature,
    preference: ExecutionPreference,
    /// The process that compiled.
    origin: Origin,
}

/// The model's arguments: all of the model that executions need.
#[derive(Debug)]
struct Signature {
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
    /// Bytes of each input and output, where that is known.
    input_bytes: Vec<Option<usize>>,
    output_bytes: Vec<Option<usize>>,
    /// Bytes of an output's element, where that is known.
    output_elements: Vec<Option<usize>>,
}

impl Signature {
    fn of(model: &Model) -> Result<Self> {
        let operands = |indexes: &[u32]| -> Result<Vec<Operand>> {
            indexes
                .iter()
                .map(|&index| {
                    let at = usize::try_from(index).unwrap_or(usize::MAX);
                    model.main.operands.get(at).cloned().ok_or_else(|| {
                        RuntimeError::Model(format!("argument operand {index} does not exist"))
                    })
                })
                .collect()
        };
        let bytes = |operands: &[Operand]| {
            operands.iter().map(|operand| extensions::data_size(operand, model)).collect()
        };
        let inputs = operands(&model.main.input_indexes)?;
        let outputs = operands(&model.main.output_indexes)?;
        let elements = outputs.iter().map(|operand| extensions::element_bytes(operand.kind, model));
        Ok(Self {
            input_bytes: bytes(&inputs),
            output_bytes: bytes(&outputs),
            output_elements: elements.collect(),
            inputs,
            outputs,
        })
    }
}

impl Compilation {
    /// The whole model on one device.
    pub(crate) fn whole(device: &Device, model: &Model, options: &CompileOptions) -> Result<Self> {
        let _span = trace_span(Layer::Runtime, Phase::Compilation, "whole");
        Self::of(model, Partitioned::whole(device, model, options)?, true, options)
    }

    /// The model on the best of these devices.
    pub(crate) fn new(
        model: &Model,
        devices: &[Device],
        options: &CompileOptions,
        partitioning: Partitioning,
        is_explicit: bool,
    ) -> Result<Self> {
        let _span = trace_span(Layer::Runtime, Phase::Compilation, "compile");
        // Who names devices is taken at the word.
        let prefer_served = !is_explicit && options.prefers_served();
        let partitioned = partition::compile(model, devices, options, partitioning, prefer_served)?;
        Self::of(model, partitioned, is_explicit, options)
    }

    fn of(
        model: &Model,
        partitioned: Partitioned,
        is_explicit: bool,
        options: &CompileOptions,
    ) -> Result<Self> {
        let preference = options.preference;
        let Partitioned { prepared, devices, planned } = partitioned;
        extensions::learn(model, &devices);
        let signature = Signature::of(model)?;
        let names = devices.iter().map(Device::name).collect::<Vec<_>>();
        vlog!(Compilation, "{} operations on {names:?}", model.main.operations.len());
        log_dot(model, "runtime");
        let origin = Origin::here();
        let inner =
            Inner { prepared, planned, devices, is_explicit, signature, preference, origin };
        Ok(Self(Arc::new(inner)))
    }

    /// A model that the device has made ready.
    pub(crate) fn of_prepared(
        device: &Device,
        model: &Model,
        prepared: Arc<dyn PreparedModel>,
        options: &CompileOptions,
    ) -> Result<Self> {
        let partitioned = Partitioned { prepared, devices: vec![device.clone()], planned: None };
        Self::of(model, partitioned, true, options)
    }

    /// The model's inputs: types, shapes, quantisation.
    pub fn inputs(&self) -> &[Operand] {
        &self.0.signature.inputs
    }

    /// The model's outputs: types, shapes, quantisation.
    pub fn outputs(&self) -> &[Operand] {
        &self.0.signature.outputs
    }

    /// A frame for the shapes of the model.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] naming the argument whose size the model leaves open; use
    /// [`Compilation::frame_with`] then.
    pub fn frame(&self) -> Result<Frame> {
        self.frame_over(&[], &[])
    }

    /// A frame for the shapes of the model, whose arguments lie where their planes say: a camera's
    /// or a compositor's buffers. An argument without a plane, or beyond the end of the planes
    /// given, lies in memory of the frame's own.
    ///
    /// ```
    /// use nnburst::{BurstOptions, Device, Plane, PrepareOptions, builtin, hal::Memory};
    ///
    /// let device = Device::embedded("nnburst-cpu")?;
    /// let network = builtin::model("mobilenet_v1_0.25_128")?;
    /// let model = device.compile(&network, PrepareOptions::default())?;
    /// let mut burst = model.burst(&BurstOptions::default())?;
    /// // Buffers of a camera: handles are made once for each and kept.
    /// let ring = [Memory::ashmem(128 * 128 * 3 * 4)?, Memory::ashmem(128 * 128 * 3 * 4)?];
    /// let plane = Plane { memory: ring[0].clone(), offset: 0, rows: None };
    /// let mut frame = model.frame_over(&[Some(plane)], &[])?;
    /// for picture in 0..4 {
    ///     frame.set_input_memory(0, &ring[picture % 2], 0)?;
    ///     burst.compute(&mut frame)?;
    /// }
    /// # Ok::<(), nnburst::RuntimeError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Compilation::frame`]; [`RuntimeError::Argument`] if there are more planes than
    /// arguments, or one is too small for its argument or can't be written.
    pub fn frame_over(&self, inputs: &[Option<Plane>], outputs: &[Option<Plane>]) -> Result<Frame> {
        let arguments = |what: &str, operands: &[Operand], bytes: &[Option<usize>]| {
            operands
                .iter()
                .zip(bytes)
                .enumerate()
                .map(|(index, (operand, &bytes))| match bytes {
                    Some(length) => Ok(Argument { dimensions: Vec::new(), length }),
                    None => Err(RuntimeError::Argument(format!(
                        "the size of {what} {index} is not known: {} {:?}",
                        operand.kind, operand.dimensions
                    ))),
                })
                .collect::<Result<Vec<_>>>()
        };
        let signature = &self.0.signature;
        let (model_inputs, model_outputs) = (&signature.inputs, &signature.outputs);
        let input_arguments = arguments("input", model_inputs, &signature.input_bytes)?;
        let output_arguments = arguments("output", model_outputs, &signature.output_bytes)?;
        let arguments = [input_arguments.as_slice(), output_arguments.as_slice()];
        let mut frame = Frame::over(model_inputs, model_outputs, arguments, [inputs, outputs])?;
        frame.set_output_elements(signature.output_elements.clone());
        Ok(frame)
    }

    /// Bytes of each input, in their order; `None` where the model leaves the size open.
    pub fn input_bytes(&self) -> &[Option<usize>] {
        &self.0.signature.input_bytes
    }

    /// Bytes of each output, in their order; `None` where the model leaves the size open.
    pub fn output_bytes(&self) -> &[Option<usize>] {
        &self.0.signature.output_bytes
    }

    /// A frame whose arguments have shapes and sizes of the caller's choosing.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there are more or fewer than the model has;
    /// [`RuntimeError::Memory`] where there is no room.
    pub fn frame_with(&self, inputs: &[Argument], outputs: &[Argument]) -> Result<Frame> {
        let mut frame = Frame::new(self.inputs(), self.outputs(), inputs, outputs)?;
        frame.set_output_elements(self.0.signature.output_elements.clone());
        Ok(frame)
    }

    /// Executions over the control connection.
    pub fn execution(&self) -> Execution<'_> {
        Execution::new(self)
    }

    /// Opens a burst.
    ///
    /// # Errors
    /// The device is gone, or its time is over; `OP_FAILED` in a process that was forked from the
    /// one that compiled. On a driver without bursts the burst takes the ordinary path.
    pub fn burst(&self, options: &BurstOptions) -> Result<Burst> {
        self.0.origin.check()?;
        Burst::open(self, options)
    }

    /// The devices that made the model ready; the first one where all of it is on one.
    pub fn devices(&self) -> &[Device] {
        &self.0.devices
    }

    /// Returns the preference that the model was compiled with.
    pub fn preference(&self) -> ExecutionPreference {
        self.0.preference
    }

    /// The name of the device that executes, or of the first of several, for messages.
    pub(crate) fn first_device(&self) -> &str {
        self.devices().first().map_or("no device", Device::name)
    }

    /// Returns whether the caller named the devices.
    pub fn is_explicit(&self) -> bool {
        self.0.is_explicit
    }

    /// Returns whether both are the same compilation.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn id(&self) -> CompilationId {
        CompilationId::of(Arc::clone(&self.0))
    }

    /// The model made ready: one object, however many devices work behind it.
    pub fn prepared(&self) -> &Arc<dyn PreparedModel> {
        &self.0.prepared
    }

    pub(crate) fn planned(&self) -> Option<&Arc<Planned>> {
        self.0.planned.as_ref()
    }

    /// Launches a request that is executed once every fence of `wait_for` has signalled, and
    /// returns while they are yet to; `duration` is what it may take from there.
    ///
    /// # Errors
    /// It could not be launched, or a fence is in error. What comes later the callback reports,
    /// `MISSED_DEADLINE_TRANSIENT` among it where the deadline passes before the fences signal.
    pub fn launch_fenced(
        &self,
        request: Request,
        wait_for: Vec<OwnedFd>,
        options: ExecutionOptions,
        duration: Option<Duration>,
    ) -> Result<FencedExecution> {
        let pending = unsignalled_fences(wait_for)?;
        let prepared = &self.0.prepared;
        let launched = if pending.is_empty() || self.waits_in_background() {
            prepared.execute_fenced(request, pending, options, duration)
        } else {
            let prepared = Arc::clone(prepared);
            background::launch(pending, options.deadline, move || {
                prepared.execute_fenced(request, Vec::new(), options, duration)
            })
        };
        launched.map_err(|error| self.failed(error))
    }

    /// Returns whether the call that launches fenced executions returns while their fences are yet
    /// to signal.
    fn waits_in_background(&self) -> bool {
        // A service says so for its driver, whatever that is; older ones have no such call.
        let is_new = |device: &Device| device.version_of_hal() >= Version::V1_3;
        self.0.prepared.waits_in_background()
            && (self.0.planned.is_some() || self.0.devices.iter().all(is_new))
    }

    /// The error of an execution, with the death of a driver told from its refusal.
    pub fn failed(&self, failure: impl Into<RuntimeError>) -> RuntimeError {
        match failure.into() {
            RuntimeError::Device(error) if error.status == ErrorStatus::DeviceUnavailable => {
                let mut models = self.device_models();
                if models.any(|(_, model)| remote(model).is_some_and(RemotePreparedModel::is_lost))
                {
                    RuntimeError::DeviceDied(error)
                } else {
                    RuntimeError::Device(error)
                }
            }
            other => other,
        }
    }

    /// Holds the shapes that a driver tells of its outputs against those of the model: there are as
    /// many, or none at all, and what was known stays.
    ///
    /// # Errors
    /// `GENERAL_FAILURE`: such an execution has failed, whatever the driver says.
    pub fn check_shapes(&self, shapes: &[OutputShape]) -> Result<()> {
        let outputs = self.outputs();
        if shapes.is_empty() {
            return Ok(());
        }
        if shapes.len() != outputs.len() {
            let (told, all) = (shapes.len(), outputs.len());
            return Err(HalError::failure(format!(
                "the driver reports {told} output shapes, expected {all}"
            ))
            .into());
        }
        for (at, (operand, shape)) in outputs.iter().zip(shapes).enumerate() {
            let (known, told) = (&operand.dimensions, &shape.dimensions);
            if !extends_shape(known, told) {
                let why =
                    format!("output {at}: the driver reports shape {told:?}, expected {known:?}");
                return Err(HalError::failure(why).into());
            }
        }
        Ok(())
    }

    /// An execution's answer, checked.
    pub(crate) fn answer(&self, result: ExecutionResult) -> Result<ExecutionOutcome> {
        let outcome = result.map_err(|failure| self.failed(failure))?;
        self.check_shapes(&outcome.output_shapes)?;
        Ok(outcome)
    }

    /// The arguments of devices' models that one of the model's arguments is; `None` where the
    /// interpreter of control flow has a hand in it.
    pub(crate) fn steps_of(
        &self,
        direction: Direction,
        index: usize,
    ) -> Option<Vec<(&Device, StepRole)>> {
        match &self.0.planned {
            Some(planned) => planned.steps_of(direction, index),
            None => {
                let device = self.0.devices.first()?;
                let model = Arc::clone(&self.0.prepared);
                Some(vec![(device, StepRole { model, direction, index })])
            }
        }
    }

    /// The devices' own models, with the places of their steps.
    pub(crate) fn device_models(&self) -> impl Iterator<Item = (usize, &Arc<dyn PreparedModel>)> {
        let single = self.0.planned.is_none().then_some((0, &self.0.prepared));
        let steps = self.0.planned.iter().flat_map(|planned| planned.executions());
        single.into_iter().chain(steps.map(|(at, step)| (at, &step.prepared)))
    }
}

/// Returns the descriptor that disconnects when the driver of a model dies; nothing for one that
/// dies with us.
pub(crate) fn peer_watch_fd(model: &Arc<dyn PreparedModel>) -> Result<Option<OwnedFd>> {
    Ok(remote(model).map(RemotePreparedModel::peer_watch_fd).transpose()?)
}

fn remote(model: &Arc<dyn PreparedModel>) -> Option<&RemotePreparedModel> {
    model.as_any().downcast_ref()
}

impl std::fmt::Debug for Compilation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compilation")
            .field("devices", &self.0.devices)
            .field("signature", &self.0.signature)
            .finish_non_exhaustive()
    }
}
