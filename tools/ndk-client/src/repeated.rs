//! The same inference again and again, as applications make it: each time an execution of its own,
//! its arguments in buffers or in memories.

use std::ffi::c_int;
use std::sync::Arc;

use nnburst::RuntimeError;
use nnburst::hal::{Access, HalError, Mapping, Memory, Operand, View};

use crate::api::{Api, Object};
use crate::model::Compilation;
use crate::object::Owned;

/// Room for a model's arguments, and executions over it. Nothing is allocated here from one to the
/// next.
#[derive(Debug)]
pub struct Repeated<'c> {
    compilation: &'c Compilation,
    inputs: Vec<Room>,
    outputs: Vec<Room>,
}

/// The place of an argument.
#[derive(Debug)]
enum Room {
    Buffer(Vec<u8>),
    /// A memory of the library's, and where we have it.
    Memory {
        object: Owned,
        mapping: Mapping,
        length: usize,
    },
}

impl Room {
    fn memory(api: &Arc<Api>, length: usize) -> Result<Self, RuntimeError> {
        let size = u64::try_from(length).unwrap_or(u64::MAX);
        let memory = Memory::ashmem(size)?;
        let mapping = memory.map(Access::ReadWrite)?;
        Ok(Self::Memory { object: Owned::memory(api, &memory, 0, size)?, mapping, length })
    }
}

impl Compilation {
    /// Buffers for all arguments, zeroed.
    ///
    /// # Errors
    /// The model leaves an argument's size open.
    pub fn repeated(&self) -> Result<Repeated<'_>, RuntimeError> {
        self.repeated_in(|length| Ok(Room::Buffer(vec![0; length])))
    }

    /// A memory for each argument, zeroed, made from a descriptor as other processes' memories are.
    ///
    /// # Errors
    /// The model leaves an argument's size open, or the system or the library refuses a memory.
    pub fn repeated_in_memories(&self) -> Result<Repeated<'_>, RuntimeError> {
        self.repeated_in(|length| Room::memory(&self.object.api, length))
    }

    fn repeated_in(
        &self,
        room: impl Fn(usize) -> Result<Room, RuntimeError>,
    ) -> Result<Repeated<'_>, RuntimeError> {
        let rooms = |operands: &[Operand]| -> Result<Vec<Room>, RuntimeError> {
            let open = || HalError::invalid("an argument's size is open");
            operands.iter().map(|operand| room(operand.data_size().ok_or_else(open)?)).collect()
        };
        let inputs = rooms(&self.arguments.inputs)?;
        let outputs = rooms(&self.arguments.outputs)?;
        Ok(Repeated { compilation: self, inputs, outputs })
    }
}

impl Repeated<'_> {
    /// Puts a value into an input, as far as there is room.
    pub fn write(&mut self, index: usize, value: &[u8]) {
        match self.inputs.get_mut(index) {
            Some(Room::Buffer(bytes)) => {
                bytes.iter_mut().zip(value).for_each(|(byte, value)| *byte = *value);
            }
            Some(Room::Memory { mapping, length, .. }) => {
                let value = value.get(..*length).unwrap_or(value);
                if let Some(view) = mapping.view_mut(0..value.len()) {
                    view.copy_from(View::of(value));
                }
            }
            None => {}
        }
    }

    /// Takes the beginning of an output's value.
    pub fn read(&self, index: usize, value: &mut [u8]) {
        match self.outputs.get(index) {
            Some(Room::Buffer(bytes)) => {
                value.iter_mut().zip(bytes).for_each(|(value, byte)| *value = *byte);
            }
            Some(Room::Memory { mapping, .. }) => {
                if let Some(view) = mapping.view(0..value.len()) {
                    view.copy_to_slice(value);
                }
            }
            None => {}
        }
    }

    /// One inference by `Execution_create`, an argument call each, `burstCompute` and
    /// `Execution_free`.
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
        for (index, room) in (0..).zip(&self.inputs) {
            let set = set_input(api, execution, index, room);
            code = if code == 0 { set } else { code };
        }
        for (index, room) in (0..).zip(&mut self.outputs) {
            let set = set_output(api, execution, index, room);
            code = if code == 0 { set } else { code };
        }
        if code == 0 {
            let compute = api.ANeuralNetworksExecution_burstCompute;
            // SAFETY: execution and burst are ours; buffers and memories outlive the call.
            code = unsafe { compute(execution, compilation.burst.object) };
        }
        let result = api.check(code);
        // SAFETY: ours, and not used any more.
        unsafe { (api.ANeuralNetworksExecution_free)(execution) };
        result
    }
}

fn set_input(api: &Api, execution: Object, index: c_int, room: &Room) -> c_int {
    let none = std::ptr::null();
    match room {
        Room::Buffer(bytes) => {
            let set = api.ANeuralNetworksExecution_setInput;
            // SAFETY: the execution is ours; the buffer outlives it.
            unsafe { set(execution, index, none, bytes.as_ptr().cast(), bytes.len()) }
        }
        Room::Memory { object, length, .. } => {
            let set = api.ANeuralNetworksExecution_setInputFromMemory;
            // SAFETY: execution and memory are ours.
            unsafe { set(execution, index, none, object.object, 0, *length) }
        }
    }
}

fn set_output(api: &Api, execution: Object, index: c_int, room: &mut Room) -> c_int {
    let none = std::ptr::null();
    match room {
        Room::Buffer(bytes) => {
            let set = api.ANeuralNetworksExecution_setOutput;
            // SAFETY: the execution is ours; the buffer outlives it, and nobody else has it.
            unsafe { set(execution, index, none, bytes.as_mut_ptr().cast(), bytes.len()) }
        }
        Room::Memory { object, length, .. } => {
            let set = api.ANeuralNetworksExecution_setOutputFromMemory;
            // SAFETY: execution and memory are ours.
            unsafe { set(execution, index, none, object.object, 0, *length) }
        }
    }
}
