//! The reference device in place of what failed.

use std::sync::{Arc, OnceLock};

use nnburst_hal::{
    Buffer, CacheHandles, ExecutionFailure, ExecutionOptions, ExecutionResult, HalError, Memory,
    Model, Operand, PrepareOptions, PreparedModel, Request, RequestArgument, RequestPool, Result,
    wait_for_prepared_model,
};

use super::{ExecutionStep, Planned};
use crate::device::Device;

/// The whole model on the reference device, once it was needed.
#[derive(Default)]
pub(super) struct Whole(OnceLock<Result<Arc<dyn PreparedModel>>>);

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "Whole(made)" } else { "Whole" })
    }
}

/// The reference device is told no deadline: it is what is left.
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
    /// Runs the step on the reference device, which gets values of the device's own memory by copies.
    pub(super) fn run_on_reference(
        &self,
        request: &Request,
        options: &ExecutionOptions,
    ) -> ExecutionResult {
        let prepared = self.on_reference.get_or_init(|| prepare(&self.model)).clone()?;
        let plain = Plain::of(request, &self.model, |_| Some(&self.device))?;
        let outcome = prepared.execute_synchronously(&plain.request, undated(options))?;
        plain.give_back()?;
        Ok(outcome)
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
        let plain = Plain::of(request, model, |argument| self.device_of(argument))?;
        let outcome = prepared.execute_synchronously(&plain.request, undated(options))?;
        plain.give_back()?;
        Ok(outcome)
    }

    /// The device whose memory a token of an argument stands for: the one that uses the argument.
    fn device_of(&self, argument: Argument) -> Option<&Device> {
        let (Argument::Input(at) | Argument::Output(at)) = argument;
        let inputs = self.plan.model.main.input_indexes.len();
        self.executions().find_map(|(_, step)| {
            let uses = match argument {
                Argument::Input(_) => step.inputs.contains(&at),
                Argument::Output(_) => step.outputs.contains(&(inputs + at)),
            };
            uses.then_some(&step.device)
        })
    }
}

/// An argument of the model, by its position.
#[derive(Clone, Copy, Debug)]
enum Argument {
    Input(usize),
    Output(usize),
}

/// A request with the memory of devices replaced by memory that everybody can map.
struct Plain {
    request: Request,
    /// What is to be copied back.
    outputs: Vec<(Arc<dyn Buffer>, Memory, Vec<u32>)>,
}

impl Plain {
    fn of<'d>(
        request: &Request,
        model: &Model,
        device: impl Fn(Argument) -> Option<&'d Device>,
    ) -> std::result::Result<Self, ExecutionFailure> {
        let mut plain = Self { request: request.clone(), outputs: Vec::new() };
        let main = &model.main;
        for (at, &index) in main.input_indexes.iter().enumerate() {
            let argument = request.inputs.get(at);
            if let Some(token) = argument.and_then(|argument| token_of(argument, request)) {
                let buffer = buffer(device(Argument::Input(at)), token)?;
                let (memory, _) = plain.memory(argument, model, index)?;
                buffer.copy_to(&memory)?;
                let location = plain.add(memory);
                if let Some(argument) = plain.request.inputs.get_mut(at) {
                    argument.location.pool_index = location;
                }
            }
        }
        for (at, &index) in main.output_indexes.iter().enumerate() {
            let argument = request.outputs.get(at);
            if let Some(token) = argument.and_then(|argument| token_of(argument, request)) {
                let buffer = buffer(device(Argument::Output(at)), token)?;
                let (memory, dimensions) = plain.memory(argument, model, index)?;
                plain.outputs.push((buffer, memory.clone(), dimensions));
                let location = plain.add(memory);
                if let Some(argument) = plain.request.outputs.get_mut(at) {
                    argument.location.pool_index = location;
                }
            }
        }
        Ok(plain)
    }

    /// Memory for an argument, whose shape has to be known.
    fn memory(
        &self,
        argument: Option<&RequestArgument>,
        model: &Model,
        index: u32,
    ) -> Result<(Memory, Vec<u32>)> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let operand = model.main.operands.get(index);
        let given = argument.map(|argument| argument.dimensions.as_slice()).unwrap_or_default();
        let shaped = operand.map(|operand| match given {
            [] => operand.clone(),
            given => Operand { dimensions: given.to_vec(), ..operand.clone() },
        });
        let bytes =
            shaped.as_ref().and_then(|operand| crate::extensions::data_size(operand, model));
        let (Some(bytes), Some(operand)) = (bytes, shaped) else {
            return Err(HalError::failure(
                "a device's own memory of unknown shape can't be copied",
            ));
        };
        let size = u64::try_from(bytes).unwrap_or(u64::MAX);
        Ok((Memory::ashmem(size)?, operand.dimensions))
    }

    fn add(&mut self, memory: Memory) -> u32 {
        self.request.pools.push(RequestPool::Memory(memory));
        u32::try_from(self.request.pools.len() - 1).unwrap_or(u32::MAX)
    }

    fn give_back(self) -> Result<()> {
        let mut copies = self.outputs.iter();
        copies.try_for_each(|(buffer, memory, dimensions)| buffer.copy_from(memory, dimensions))
    }
}

fn token_of(argument: &RequestArgument, request: &Request) -> Option<u32> {
    let pool = usize::try_from(argument.location.pool_index).ok()?;
    match request.pools.get(pool) {
        Some(RequestPool::Token(token)) if !argument.has_no_value => Some(*token),
        _ => None,
    }
}

fn buffer(device: Option<&Device>, token: u32) -> Result<Arc<dyn Buffer>> {
    device
        .and_then(|device| device.buffer(token))
        .ok_or_else(|| HalError::failure(format!("no buffer with token {token} is left")))
}
