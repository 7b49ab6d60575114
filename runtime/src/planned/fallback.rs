//! The reference device in place of what failed.
//!
//! ```text
//!   request ─► Stand-in: pools as they are, but a device's own memory by a mappable copy
//!           ─► the reference device ─► outputs go back into the device's own memory
//! ```

use std::sync::{Arc, OnceLock};

use nnburst_hal::{
    Buffer, CacheHandles, DataLocation, Direction, ErrorStatus, ExecutionFailure, ExecutionOptions,
    ExecutionResult, HalError, Memory, Model, Operand, OutputShape, PrepareOptions, PreparedModel,
    Request, RequestArgument, RequestPool, Result, wait_for_prepared_model,
};

use super::Planned;
use super::plan::ExecutionStep;
use crate::device::Device;
use crate::memory::{combine, copy::move_shared};

/// The whole model on the reference device, once it was needed.
#[derive(Default)]
pub(super) struct Whole(OnceLock<Result<Arc<dyn PreparedModel>>>);

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "Whole(made)" } else { "Whole" })
    }
}

/// The reference device gets no deadline: it is what is left.
fn undated(options: &ExecutionOptions) -> ExecutionOptions {
    ExecutionOptions { deadline: None, ..*options }
}

fn prepare(model: &Model) -> Result<Arc<dyn PreparedModel>> {
    wait_for_prepared_model(|callback| {
        let (options, cache) = (PrepareOptions::default(), CacheHandles::default());
        Device::reference().hal().prepare_model(model.clone(), options, cache, callback)
    })
}

impl ExecutionStep {
    /// Runs the step on the reference device.
    pub(super) fn run_on_reference(
        &self,
        request: &Request,
        options: &ExecutionOptions,
    ) -> ExecutionResult {
        let prepared = self.on_reference.get_or_init(|| prepare(&self.model)).clone()?;
        run(prepared.as_ref(), &self.model, request, options, |_, _| Some(&self.device))
    }
}

impl Planned {
    /// Runs the whole model on the reference device.
    pub(super) fn on_reference(
        &self,
        request: &Request,
        options: &ExecutionOptions,
    ) -> ExecutionResult {
        let model = &self.plan.model;
        let prepared = self.whole.0.get_or_init(|| prepare(model)).clone()?;
        run(prepared.as_ref(), model, request, options, |direction, at| {
            self.device_of(direction, at)
        })
    }

    /// The device whose memory a token of an argument stands for: the one that uses the argument.
    /// Devices number their memories each for itself.
    fn device_of(&self, direction: Direction, at: usize) -> Option<&Device> {
        let inputs = self.plan.model.main.input_indexes.len();
        self.executions().find_map(|(_, step)| {
            let uses = match direction {
                Direction::Input => step.inputs.contains(&at),
                Direction::Output => step.outputs.contains(&(inputs + at)),
            };
            uses.then_some(&step.device)
        })
    }
}

/// Runs a request on the reference device; `device` says whose memory a token of an argument stands
/// for.
fn run<'d>(
    prepared: &dyn PreparedModel,
    model: &Model,
    request: &Request,
    options: &ExecutionOptions,
    device: impl Fn(Direction, usize) -> Option<&'d Device>,
) -> ExecutionResult {
    let options = undated(options);
    let has_tokens = request.pools.iter().any(|pool| matches!(pool, RequestPool::Token(_)));
    if !has_tokens {
        return prepared.execute_synchronously(request, options);
    }
    let mut stand_in = StandIn::of(request, model, device)?;
    let mut result = prepared.execute_synchronously(&stand_in.request, options);
    if let Err(failure) = &mut result
        && failure.error.status == ErrorStatus::OutputInsufficientSize
        && stand_in.enlarge(model, &mut failure.output_shapes)?
    {
        result = prepared.execute_synchronously(&stand_in.request, options);
    }
    let outcome = result?;
    stand_in.give_back(model, &outcome.output_shapes)?;
    Ok(outcome)
}

/// A request with the memory of devices replaced by memory that everybody can map.
struct StandIn {
    request: Request,
    outputs: Vec<Output>,
}

/// An output that belongs into a device's own memory.
struct Output {
    at: usize,
    buffer: Arc<dyn Buffer>,
    /// The memory that the reference device writes it to.
    memory: Memory,
    /// As far as it is known before the execution.
    operand: Operand,
}

impl StandIn {
    fn of<'d>(
        request: &Request,
        model: &Model,
        device: impl Fn(Direction, usize) -> Option<&'d Device>,
    ) -> std::result::Result<Self, ExecutionFailure> {
        let (inputs, outputs) = (request.inputs.clone(), request.outputs.clone());
        let pools = Vec::with_capacity(request.pools.len());
        let mut stand_in =
            Self { request: Request { inputs, outputs, pools }, outputs: Vec::new() };
        for (at, &index) in model.main.input_indexes.iter().enumerate() {
            let Some(argument) = request.inputs.get(at) else { continue };
            let (pool, replaced) = match pool_of(argument, request) {
                None => continue,
                Some(RequestPool::Memory(memory)) => (memory.clone(), None),
                Some(&RequestPool::Token(token)) => {
                    let own = own_memory(device(Direction::Input, at), token)?;
                    let held = own.memory.held_dimensions();
                    let operand = shaped(model, index, argument, &held)?;
                    let bytes = size(&operand, model).ok_or_else(|| unknown(token, &operand))?;
                    let memory = Memory::ashmem(bytes).map_err(HalError::from)?;
                    own.buffer.copy_to(&memory)?;
                    (memory, Some(operand))
                }
            };
            let location = stand_in.place(&pool, argument, replaced.is_some());
            if let Some(argument) = stand_in.request.inputs.get_mut(at) {
                argument.location = location;
                if let Some(operand) = replaced {
                    settle(argument, model, index, operand.dimensions);
                }
            }
        }
        for (at, &index) in model.main.output_indexes.iter().enumerate() {
            let Some(argument) = request.outputs.get(at) else { continue };
            let (pool, is_own) = match pool_of(argument, request) {
                None => continue,
                Some(RequestPool::Memory(memory)) => (memory.clone(), false),
                Some(&RequestPool::Token(token)) => {
                    let own = own_memory(device(Direction::Output, at), token)?;
                    let operand = shaped(model, index, argument, own.memory.made_dimensions())?;
                    // Where the size is open, the first try finds it.
                    let bytes = size(&operand, model).unwrap_or(LEAST);
                    let memory = Memory::ashmem(bytes).map_err(HalError::from)?;
                    let buffer = own.buffer;
                    let output = Output { at, buffer, memory: memory.clone(), operand };
                    stand_in.outputs.push(output);
                    (memory, true)
                }
            };
            let location = stand_in.place(&pool, argument, is_own);
            if let Some(argument) = stand_in.request.outputs.get_mut(at) {
                argument.location = location;
            }
        }
        Ok(stand_in)
    }

    /// Returns the place of an argument in a memory, which becomes a pool.
    fn place(&mut self, memory: &Memory, argument: &RequestArgument, whole: bool) -> DataLocation {
        let pools = &mut self.request.pools;
        let is_it =
            |pool: &RequestPool| matches!(pool, RequestPool::Memory(known) if known == memory);
        let at = pools.iter().position(is_it).unwrap_or_else(|| {
            pools.push(RequestPool::Memory(memory.clone()));
            pools.len() - 1
        });
        let pool_index = u32::try_from(at).unwrap_or(u32::MAX);
        if whole {
            let length = u32::try_from(memory.size()).unwrap_or(u32::MAX);
            return DataLocation { pool_index, offset: 0, length };
        }
        DataLocation { pool_index, ..argument.location }
    }

    /// Gives the outputs that were too small the room that they need; false if others were too
    /// small as well, which are the caller's.
    fn enlarge(&mut self, model: &Model, shapes: &mut [OutputShape]) -> Result<bool> {
        for output in &mut self.outputs {
            let Some(shape) = shapes.get_mut(output.at).filter(|shape| !shape.is_sufficient) else {
                continue;
            };
            let operand =
                Operand { dimensions: shape.dimensions.clone(), ..output.operand.clone() };
            let Some(bytes) = size(&operand, model) else { continue };
            output.memory = Memory::ashmem(bytes)?;
            // The caller can do nothing about it.
            shape.is_sufficient = true;
            let Some(argument) = self.request.outputs.get_mut(output.at) else { continue };
            argument.location.length = u32::try_from(bytes).unwrap_or(u32::MAX);
            let pool = usize::try_from(argument.location.pool_index).unwrap_or(usize::MAX);
            if let Some(pool) = self.request.pools.get_mut(pool) {
                *pool = RequestPool::Memory(output.memory.clone());
            }
        }
        Ok(shapes.iter().all(|shape| shape.is_sufficient))
    }

    /// Copies the outputs into the devices' own memory.
    fn give_back(self, model: &Model, shapes: &[OutputShape]) -> Result<()> {
        for Output { at, buffer, memory, operand } in self.outputs {
            let computed = shapes.get(at).map(|shape| shape.dimensions.clone());
            let dimensions = computed.unwrap_or_else(|| operand.dimensions.clone());
            let operand = Operand { dimensions, ..operand };
            let bytes = size(&operand, model).ok_or_else(|| unknown(buffer.token(), &operand))?;
            let exact = if memory.size() == bytes {
                memory
            } else {
                let exact = Memory::ashmem(bytes)?;
                move_shared(&memory, &exact)
                    .map_err(|error| HalError::failure(error.to_string()))?;
                exact
            };
            buffer.copy_from(&exact, &operand.dimensions)?;
        }
        Ok(())
    }
}

/// Bytes for an output whose size is not known before the execution.
const LEAST: u64 = 64;

/// The pool that an argument is in, if it has a value.
fn pool_of<'r>(argument: &RequestArgument, request: &'r Request) -> Option<&'r RequestPool> {
    if argument.has_no_value {
        return None;
    }
    request.pools.get(usize::try_from(argument.location.pool_index).ok()?)
}

/// A device's own memory.
struct Own {
    memory: crate::memory::Memory,
    buffer: Arc<dyn Buffer>,
}

fn own_memory(device: Option<&Device>, token: u32) -> Result<Own> {
    let memory = device.and_then(|device| device.memory(token));
    memory
        .and_then(|memory| Some(Own { buffer: Arc::clone(memory.buffer()?), memory }))
        .ok_or_else(|| HalError::invalid(format!("token {token} stands for no memory")))
}

/// The operand of an argument in the shape that model, request and memory settle together.
fn shaped(model: &Model, index: u32, argument: &RequestArgument, known: &[u32]) -> Result<Operand> {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let operand = model
        .main
        .operands
        .get(index)
        .ok_or_else(|| HalError::invalid(format!("argument operand {index} does not exist")))?;
    let dimensions = combine(&operand.dimensions, &argument.dimensions)
        .and_then(|given| combine(&given, known))
        .ok_or_else(|| {
            let (model, given) = (&operand.dimensions, &argument.dimensions);
            HalError::failure(format!(
                "shape {given:?} of an argument of {model:?} in a memory of {known:?}"
            ))
        })?;
    Ok(Operand { dimensions, ..operand.clone() })
}

/// States the shape of an input that the model leaves open.
fn settle(argument: &mut RequestArgument, model: &Model, index: u32, dimensions: Vec<u32>) {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    if model.main.operands.get(index).is_some_and(Operand::has_unspecified_dimensions) {
        argument.dimensions = dimensions;
    }
}

fn size(operand: &Operand, model: &Model) -> Option<u64> {
    u64::try_from(crate::extensions::data_size(operand, model)?).ok()
}

fn unknown(token: u32, operand: &Operand) -> HalError {
    let shape = &operand.dimensions;
    HalError::failure(format!("memory {token} can't be copied: its shape is not known: {shape:?}"))
}
