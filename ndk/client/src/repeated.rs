//! The same inference again and again, as applications make it: each time an execution of its own, its arguments in
//! buffers.

use std::ffi::c_int;

use nnburst::RuntimeError;
use nnburst::hal::{HalError, Operand};

use crate::model::Compilation;

/// Buffers for a model's arguments, and executions over them. Nothing is allocated here from one to the next.
#[derive(Debug)]
pub struct Repeated<'c> {
    compilation: &'c Compilation,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

impl Compilation {
    /// Buffers for all arguments, zeroed.
    ///
    /// # Errors
    /// The model leaves an argument's size open.
    pub fn repeated(&self) -> Result<Repeated<'_>, RuntimeError> {
        let buffers = |operands: &[Operand]| {
            let buffer = |operand: &Operand| Some(vec![0; operand.data_size()?]);
            let buffers: Option<Vec<_>> = operands.iter().map(buffer).collect();
            buffers.ok_or_else(|| HalError::invalid("an argument's size is open"))
        };
        let inputs = buffers(&self.arguments.inputs)?;
        let outputs = buffers(&self.arguments.outputs)?;
        Ok(Repeated { compilation: self, inputs, outputs })
    }
}

impl Repeated<'_> {
    /// The buffer of an input.
    pub fn input(&mut self, index: usize) -> Option<&mut [u8]> {
        self.inputs.get_mut(index).map(Vec::as_mut_slice)
    }

    /// The buffer of an output.
    #[must_use]
    pub fn output(&self, index: usize) -> Option<&[u8]> {
        self.outputs.get(index).map(Vec::as_slice)
    }

    /// One inference by `Execution_create`, an argument call each, `burstCompute` and `Execution_free`.
    ///
    /// # Errors
    /// What the library answered.
    pub fn burst_compute(&mut self) -> Result<(), RuntimeError> {
        let compilation = self.compilation;
        let api = &compilation.object.api;
        let mut execution = std::ptr::null_mut();
        let create = api.ANeuralNetworksExecution_create;
        // SAFETY: the compilation is ours, the result outlives the call.
        api.check(unsafe { create(compilation.object.object, &raw mut execution) })?;
        let mut code: c_int = 0;
        for (index, buffer) in (0..).zip(&self.inputs) {
            let (set, none) = (api.ANeuralNetworksExecution_setInput, std::ptr::null());
            // SAFETY: the execution is ours; the buffer outlives it.
            let set = unsafe { set(execution, index, none, buffer.as_ptr().cast(), buffer.len()) };
            code = if code == 0 { set } else { code };
        }
        for (index, buffer) in (0..).zip(&mut self.outputs) {
            let (set, none) = (api.ANeuralNetworksExecution_setOutput, std::ptr::null());
            let (bytes, length) = (buffer.as_mut_ptr().cast(), buffer.len());
            // SAFETY: as above, and nobody else has the buffer.
            let set = unsafe { set(execution, index, none, bytes, length) };
            code = if code == 0 { set } else { code };
        }
        if code == 0 {
            let compute = api.ANeuralNetworksExecution_burstCompute;
            // SAFETY: execution and burst are ours; the buffers outlive the call.
            code = unsafe { compute(execution, compilation.burst.object) };
        }
        let result = api.check(code);
        // SAFETY: ours, and not used any more.
        unsafe { (api.ANeuralNetworksExecution_free)(execution) };
        result
    }
}
