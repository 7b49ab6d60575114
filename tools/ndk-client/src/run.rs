//! Executions, in every form there is.

use std::time::Duration;

use nnburst::RuntimeError;
use nnburst::hal::{
    self, Access, ErrorStatus, ExecutionOutcome, HalError, Operand, OutputShape, Request,
    RequestArgument, RequestPool, Timing,
};

use crate::api::{Api, Object, OperandType};
use crate::model::{Compilation, operand_type};
use crate::object::Owned;

/// The call that runs an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunMode {
    /// `compute`, its arguments in buffers.
    #[default]
    Sync,
    /// `startCompute` and its event, the arguments in memories.
    Async,
    /// `burstCompute`, the arguments in memories.
    Burst,
    /// `startComputeWithDependencies` and its event, the arguments in memories.
    Fenced,
}

/// The options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// The call.
    pub mode: RunMode,
    /// True if arguments of known size lie in memories made from descriptors.
    pub device_memory: bool,
    /// The time that a WHILE may take.
    pub loop_timeout: Option<Duration>,
}

/// The places of a run's arguments.
#[derive(Default)]
struct Places {
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    memories: Vec<Owned>,
    /// Output, the memory it comes out in, and the one it has to go to.
    copies: Vec<(Owned, Owned)>,
}

/// An argument of a request for the library to be told.
struct SetArgument<'a> {
    index: i32,
    operand: &'a Operand,
    kind: *const OperandType,
    request: &'a Request,
    argument: &'a RequestArgument,
}

impl Compilation {
    /// Runs a request, whose outputs are in its own memories afterwards.
    ///
    /// # Errors
    /// What the library answered; [`RuntimeError::OutputTooSmall`] with the shapes it tells.
    pub fn run(
        &self,
        request: &Request,
        run: &RunOptions,
    ) -> Result<ExecutionOutcome, RuntimeError> {
        let api = &self.object.api;
        let create = api.ANeuralNetworksExecution_create;
        let execution = Owned::make(api, api.ANeuralNetworksExecution_free, |made| {
            // SAFETY: the compilation is ours, the result outlives the call.
            unsafe { create(self.object.object, made) }
        })?;
        if let Some(timeout) = run.loop_timeout {
            let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            let set = api.ANeuralNetworksExecution_setLoopTimeout;
            // SAFETY: the execution is ours.
            api.check(unsafe { set(execution.object, nanoseconds) })?;
        }
        let mut places = Places::default();
        self.set_arguments(&execution, request, run, &mut places)?;
        let result = self.start(&execution, run.mode);
        let shapes = self.shapes(&execution, result.is_ok());
        match (result, shapes) {
            (Ok(()), shapes) => {
                bring_back(api, request, &places)?;
                let output_shapes = shapes?;
                Ok(ExecutionOutcome { output_shapes, timing: Timing::NONE })
            }
            (Err(RuntimeError::Device(error)), Ok(shapes))
                if error.status == ErrorStatus::OutputInsufficientSize =>
            {
                Err(RuntimeError::OutputTooSmall { error, shapes })
            }
            (Err(error), _) => Err(error),
        }
    }

    fn start(&self, execution: &Owned, mode: RunMode) -> Result<(), RuntimeError> {
        let api = &self.object.api;
        let object = execution.object;
        let wait = |launch: &dyn Fn(*mut Object) -> i32| -> Result<(), RuntimeError> {
            let event = Owned::make(api, api.ANeuralNetworksEvent_free, launch)?;
            // SAFETY: the event is ours.
            api.check(unsafe { (api.ANeuralNetworksEvent_wait)(event.object) })
        };
        match mode {
            // SAFETY: the execution is ours; its arguments outlive the call.
            RunMode::Sync => api.check(unsafe { (api.ANeuralNetworksExecution_compute)(object) }),
            RunMode::Burst => {
                let compute = api.ANeuralNetworksExecution_burstCompute;
                // SAFETY: as above; the burst is ours.
                api.check(unsafe { compute(object, self.burst.object) })
            }
            RunMode::Async => wait(&|event| {
                // SAFETY: as above; the event is waited for.
                unsafe { (api.ANeuralNetworksExecution_startCompute)(object, event) }
            }),
            RunMode::Fenced => wait(&|event| {
                let start = api.ANeuralNetworksExecution_startComputeWithDependencies;
                // SAFETY: as above; nothing is depended on.
                unsafe { start(object, std::ptr::null(), 0, 0, event) }
            }),
        }
    }

    fn set_arguments(
        &self,
        execution: &Owned,
        request: &Request,
        run: &RunOptions,
        places: &mut Places,
    ) -> Result<(), RuntimeError> {
        let api = &self.object.api;
        for pool in &request.pools {
            let memory = shared(pool)?;
            places.memories.push(Owned::memory(api, memory, 0, memory.size())?);
        }
        let inputs = (0..).zip(request.inputs.iter().zip(&self.arguments.inputs));
        for (index, (argument, operand)) in inputs {
            let kind = operand_type(operand, &argument.dimensions);
            let kind = if argument.dimensions.is_empty() { None } else { Some(&kind) };
            let kind = kind.map_or(std::ptr::null(), std::ptr::from_ref);
            let set = SetArgument { index, operand, kind, request, argument };
            self.set_input(execution, &set, run, places)?;
        }
        let outputs = (0..).zip(request.outputs.iter().zip(&self.arguments.outputs));
        for (index, (argument, operand)) in outputs {
            let kind = operand_type(operand, &argument.dimensions);
            let kind = if argument.dimensions.is_empty() { None } else { Some(&kind) };
            let kind = kind.map_or(std::ptr::null(), std::ptr::from_ref);
            let set = SetArgument { index, operand, kind, request, argument };
            self.set_output(execution, &set, run, places)?;
        }
        Ok(())
    }

    fn set_input(
        &self,
        execution: &Owned,
        set: &SetArgument<'_>,
        run: &RunOptions,
        places: &mut Places,
    ) -> Result<(), RuntimeError> {
        let &SetArgument { index, operand, kind, request, argument } = set;
        let api = &self.object.api;
        let (offset, length) = range(argument);
        if argument.has_no_value {
            let set = api.ANeuralNetworksExecution_setInput;
            // SAFETY: null with no bytes leaves the input out.
            return api.check(unsafe { set(execution.object, index, kind, std::ptr::null(), 0) });
        }
        let at = usize::try_from(argument.location.pool_index).unwrap_or(usize::MAX);
        let pool = pool_of(request, at)?;
        if run.device_memory && operand.data_size() == Some(length) {
            let made = self.device_memory(index, false)?;
            let source = Owned::memory(api, pool, widen(offset), widen(length))?;
            // SAFETY: both memories are ours.
            api.check(unsafe { (api.ANeuralNetworksMemory_copy)(source.object, made.object) })?;
            let set = api.ANeuralNetworksExecution_setInputFromMemory;
            // SAFETY: the memory is ours.
            let result = unsafe { set(execution.object, index, kind, made.object, 0, 0) };
            places.memories.push(made);
            return api.check(result);
        }
        if run.mode == RunMode::Sync {
            let mut bytes = vec![0; length];
            pool.read_at(widen(offset), &mut bytes)?;
            let set = api.ANeuralNetworksExecution_setInput;
            // SAFETY: the bytes stay where they are in `places` until the run is over.
            let result =
                unsafe { set(execution.object, index, kind, bytes.as_ptr().cast(), length) };
            places.inputs.push(bytes);
            return api.check(result);
        }
        let memory = places.memories.get(at).ok_or_else(no_pool)?;
        let set = api.ANeuralNetworksExecution_setInputFromMemory;
        // SAFETY: the memory is ours.
        api.check(unsafe { set(execution.object, index, kind, memory.object, offset, length) })
    }

    fn set_output(
        &self,
        execution: &Owned,
        set: &SetArgument<'_>,
        run: &RunOptions,
        places: &mut Places,
    ) -> Result<(), RuntimeError> {
        let &SetArgument { index, operand, kind, request, argument } = set;
        let api = &self.object.api;
        let (offset, length) = range(argument);
        let at = usize::try_from(argument.location.pool_index).unwrap_or(usize::MAX);
        if argument.has_no_value {
            places.outputs.push(Vec::new());
            let set = api.ANeuralNetworksExecution_setOutput;
            let nothing = std::ptr::null_mut();
            // SAFETY: null with no bytes leaves the output out.
            return api.check(unsafe { set(execution.object, index, kind, nothing, 0) });
        }
        if run.device_memory && operand.data_size() == Some(length) {
            places.outputs.push(Vec::new());
            let made = self.device_memory(index, true)?;
            let pool = pool_of(request, at)?;
            let target = Owned::memory(api, pool, widen(offset), widen(length))?;
            let set = api.ANeuralNetworksExecution_setOutputFromMemory;
            // SAFETY: the memory is ours.
            let result = unsafe { set(execution.object, index, kind, made.object, 0, 0) };
            places.copies.push((made, target));
            return api.check(result);
        }
        if run.mode == RunMode::Sync {
            // The buffer's content as it is now: what isn't written shows.
            let mut bytes = vec![0; length];
            pool_of(request, at)?.read_at(widen(offset), &mut bytes)?;
            let set = api.ANeuralNetworksExecution_setOutput;
            // SAFETY: the bytes stay where they are in `places` until the run is over.
            let result =
                unsafe { set(execution.object, index, kind, bytes.as_mut_ptr().cast(), length) };
            places.outputs.push(bytes);
            return api.check(result);
        }
        places.outputs.push(Vec::new());
        let memory = places.memories.get(at).ok_or_else(no_pool)?;
        let set = api.ANeuralNetworksExecution_setOutputFromMemory;
        // SAFETY: the memory is ours.
        api.check(unsafe { set(execution.object, index, kind, memory.object, offset, length) })
    }

    /// A memory that is made for one argument.
    fn device_memory(&self, index: i32, is_output: bool) -> Result<Owned, RuntimeError> {
        let api = &self.object.api;
        let create = api.ANeuralNetworksMemoryDesc_create;
        let desc = Owned::make(api, api.ANeuralNetworksMemoryDesc_free, |made| {
            // SAFETY: the result outlives the call.
            unsafe { create(made) }
        })?;
        let add = if is_output {
            api.ANeuralNetworksMemoryDesc_addOutputRole
        } else {
            api.ANeuralNetworksMemoryDesc_addInputRole
        };
        let index = index.cast_unsigned();
        // SAFETY: both objects are ours.
        api.check(unsafe { add(desc.object, self.object.object, index, 1.0) })?;
        // SAFETY: the descriptor is ours.
        api.check(unsafe { (api.ANeuralNetworksMemoryDesc_finish)(desc.object) })?;
        let create = api.ANeuralNetworksMemory_createFromDesc;
        Owned::make(api, api.ANeuralNetworksMemory_free, |made| {
            // SAFETY: the descriptor is ours, the result outlives the call.
            unsafe { create(desc.object, made) }
        })
    }

    /// The shapes that the outputs have now.
    fn shapes(&self, execution: &Owned, good: bool) -> Result<Vec<OutputShape>, RuntimeError> {
        let api = &self.object.api;
        let mut shapes = Vec::new();
        for (index, operand) in (0..).zip(&self.arguments.outputs) {
            let shape = shape(api, execution, index)?;
            if good && !operand.kind.is_scalar() && !shape.is_sufficient {
                return Err(HalError::failure("an output is too small, in silence").into());
            }
            shapes.push(shape);
        }
        Ok(shapes)
    }
}

fn shape(api: &Api, execution: &Owned, index: i32) -> Result<OutputShape, RuntimeError> {
    let is_sufficient = |code: i32| -> Result<bool, RuntimeError> {
        const TOO_SMALL: i32 = 8;
        if code == TOO_SMALL { Ok(false) } else { api.check(code).map(|()| true) }
    };
    let mut rank = 0;
    let ask = api.ANeuralNetworksExecution_getOutputOperandRank;
    // SAFETY: the result outlives the call.
    let sufficient = is_sufficient(unsafe { ask(execution.object, index, &raw mut rank) })?;
    let mut dimensions = vec![0; usize::try_from(rank).unwrap_or(0)];
    if rank > 0 {
        let ask = api.ANeuralNetworksExecution_getOutputOperandDimensions;
        // SAFETY: there is room for as many extents as the rank says.
        is_sufficient(unsafe { ask(execution.object, index, dimensions.as_mut_ptr()) })?;
    }
    Ok(OutputShape { dimensions, is_sufficient: sufficient })
}

/// Puts outputs that went elsewhere where the request has them.
fn bring_back(api: &Api, request: &Request, places: &Places) -> Result<(), RuntimeError> {
    for (made, target) in &places.copies {
        // SAFETY: both memories are ours.
        api.check(unsafe { (api.ANeuralNetworksMemory_copy)(made.object, target.object) })?;
    }
    for (argument, bytes) in request.outputs.iter().zip(&places.outputs) {
        if bytes.is_empty() {
            continue;
        }
        let at = usize::try_from(argument.location.pool_index).unwrap_or(usize::MAX);
        let (offset, length) = range(argument);
        let mapping = pool_of(request, at)?.map(Access::ReadWrite)?;
        if let Some(view) = mapping.view_mut(offset..offset.saturating_add(length)) {
            view.copy_from_slice(bytes);
        }
    }
    Ok(())
}

fn range(argument: &RequestArgument) -> (usize, usize) {
    let wide = |size: u32| usize::try_from(size).unwrap_or(usize::MAX);
    (wide(argument.location.offset), wide(argument.location.length))
}

fn widen(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

fn pool_of(request: &Request, at: usize) -> Result<&hal::Memory, RuntimeError> {
    shared(request.pools.get(at).ok_or_else(no_pool)?)
}

fn shared(pool: &RequestPool) -> Result<&hal::Memory, RuntimeError> {
    match pool {
        RequestPool::Memory(memory) => Ok(memory),
        RequestPool::Token(_) => Err(RuntimeError::Argument("a pool is a driver's own".into())),
    }
}

fn no_pool() -> RuntimeError {
    RuntimeError::Argument("an argument is in a pool that is not there".into())
}
