//! One execution: a request's arguments found in mapped memory, checked, and run through a session.
//!
//! Bursts come through here for every frame, so that nothing on the way of a good request without
//! driver-managed buffers allocates, locks or calls the system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nnburst_executor::{Control, Input, Output, Session};
use nnburst_hal::{
    Access, AllowUnspecifiedOutput, DEFAULT_LOOP_TIMEOUT, DataLocation, ErrorStatus,
    ExecutionFailure, ExecutionOptions, ExecutionOutcome, ExecutionResult, HalError, Layer,
    MAX_LOOP_TIMEOUT, Mapping, MeasureTiming, Memory, OutputShape, Phase, ProcessorAccess, Request,
    RequestArgument, RequestPool, Result, Timing, Version, View, ViewMut, trace_span, try_collect,
    validate_request, vlog,
};

use crate::arguments::{FEW, FEWER, outside, room};
use crate::buffer::DriverBuffer;
use crate::compiled::{Compiled, Scratch};
use crate::copied::Copies;
use crate::refusal::invalid;

/// A pool of a request within this process.
#[derive(Debug)]
pub(crate) enum Pool {
    /// The client's.
    Memory(Arc<Mapping>),
    /// The driver's.
    Buffer(Arc<DriverBuffer>),
}

impl Pool {
    /// Maps a client's memory: for writing too, if that can be.
    pub(crate) fn map(memory: &Memory) -> Result<Self> {
        Ok(Self::Memory(memory.mapped()?))
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.mapping().len()
    }

    fn mapping(&self) -> &Mapping {
        match self {
            Self::Memory(mapping) => mapping,
            Self::Buffer(buffer) => buffer.mapping(),
        }
    }

    fn buffer(&self) -> Option<&Arc<DriverBuffer>> {
        match self {
            Self::Memory(_) => None,
            Self::Buffer(buffer) => Some(buffer),
        }
    }
}

/// The pools of a request, by their place in it.
pub(crate) trait Pools {
    /// `None` from the first index on that has none.
    fn pool(&self, index: usize) -> Option<&Pool>;

    fn any(&self, is_it: impl Fn(&Pool) -> bool) -> bool {
        (0..).map_while(|at| self.pool(at)).any(is_it)
    }
}

impl Pools for Vec<Pool> {
    fn pool(&self, index: usize) -> Option<&Pool> {
        self.get(index)
    }
}

/// Checks a request against the model, as every execution does first.
pub(crate) fn check(
    compiled: &Compiled,
    request: &Request,
    allow: AllowUnspecifiedOutput,
) -> Result<()> {
    compiled.check_origin()?;
    validate_request(request, compiled.model(), Version::V1_3, allow)
        .map_err(|error| invalid(&error))
}

/// Maps a request's pools.
pub(crate) fn map(compiled: &Compiled, request: &Request) -> Result<Vec<Pool>> {
    let pool = |pool: &RequestPool| match pool {
        RequestPool::Memory(memory) => Pool::map(memory),
        RequestPool::Token(token) => {
            compiled.buffers().find(compiled.id(), *token).map(Pool::Buffer)
        }
    };
    try_collect(request.pools.iter().map(pool))
}

/// Runs a checked request, whose own pools are not looked at. The shapes are the session's to tell,
/// if it succeeded or with `OUTPUT_INSUFFICIENT_SIZE`. `began` is when the driver took the call up,
/// by [`Compiled::clock`].
pub(crate) fn run(
    compiled: &Compiled,
    session: &mut Session,
    request: &Request,
    pools: &impl Pools,
    options: &ExecutionOptions,
    began: Option<Instant>,
) -> Result<Timing> {
    let _span = trace_span(Layer::Driver, Phase::Execution, "execute");
    vlog!(Execution, "a request of {} inputs", request.inputs.len());
    let PoolKinds { uses_dma_bufs, uses_buffers } = look_at(pools)?;
    let accesses = if uses_dma_bufs { begin_access(request, pools)? } else { Vec::new() };
    let content = if uses_buffers { claim(compiled, request, pools)? } else { Vec::new() };
    let computed = compute(compiled, session, request, pools, &content, options);
    let settled =
        if uses_buffers { settle(session, request, pools, computed.is_ok()) } else { Ok(()) };
    let alone = match computed {
        // A buffer is as large as its shape; what doesn't fit is no matter of the client's memory.
        Err(error) if uses_buffers && error.status == ErrorStatus::OutputInsufficientSize => {
            let outputs = request.outputs.iter();
            let (mut shapes, mut outputs) = (session.output_shapes().iter(), outputs);
            let to_buffer = outputs.any(|output| {
                let short = shapes.next().is_some_and(|shape| !shape.is_sufficient);
                short && buffer_of(output, pools).is_some()
            });
            return Err(if to_buffer { HalError::failure(error.reason) } else { error });
        }
        other => other?,
    };
    drop(accesses);
    settled?;
    check_pages(pools)?;
    Ok(timing(compiled, options, began, alone))
}

/// Runs a checked request as [`run`] does, by copies of its arguments.
fn run_copied(
    compiled: &Compiled,
    scratch: &mut Scratch,
    request: &Request,
    options: &ExecutionOptions,
    began: Option<Instant>,
) -> Result<Timing> {
    let _span = trace_span(Layer::Driver, Phase::Execution, "execute");
    vlog!(Execution, "a request of {} inputs", request.inputs.len());
    let Scratch { session, copies, .. } = scratch;
    copies.read(request, compiled.client().budget())?;
    let alone = copies.with_arguments(request, |inputs, outputs| {
        run_session(compiled, session, inputs, outputs, options)
    })?;
    copies.write(request, compiled.model(), session.output_shapes())?;
    Ok(timing(compiled, options, began, alone))
}

/// The timing of a run that succeeded; `alone` if nothing held it up.
#[inline]
pub(crate) fn timing(
    compiled: &Compiled,
    options: &ExecutionOptions,
    began: Option<Instant>,
    alone: bool,
) -> Timing {
    let Some(began) = began else { return Timing::NONE };
    let took = began.elapsed();
    if alone {
        compiled.quickest.took(1, took);
    }
    if options.measure == MeasureTiming::No {
        return Timing::NONE;
    }
    // The device is this very processor, and what is around the run is no more than a look at the
    // clock of its own.
    let took = whole_microseconds(took);
    Timing { time_on_device: took, time_in_driver: took }
}

impl Compiled {
    /// Executes a request that was checked. A panic costs this execution its result and its
    /// session.
    pub(crate) fn execute(
        &self,
        request: &Request,
        options: &ExecutionOptions,
        began: Option<Instant>,
    ) -> ExecutionResult {
        catch_unwind(AssertUnwindSafe(|| self.execute_inner(request, options, began)))
            .unwrap_or_else(|_| Err(HalError::failure("the driver panicked").into()))
    }

    fn execute_inner(
        &self,
        request: &Request,
        options: &ExecutionOptions,
        began: Option<Instant>,
    ) -> ExecutionResult {
        let pools =
            if Copies::suit(request, self.model()) { None } else { Some(map(self, request)?) };
        let mut scratch = self.scratch();
        let ran = match &pools {
            Some(pools) => run(self, &mut scratch.session, request, pools, options, began),
            None => run_copied(self, &mut scratch, request, options, began),
        };
        let session = &scratch.session;
        let result = match ran {
            Ok(timing) => {
                Ok(ExecutionOutcome { output_shapes: session.output_shapes().to_vec(), timing })
            }
            Err(error) if error.status == ErrorStatus::OutputInsufficientSize => {
                Err(ExecutionFailure { error, output_shapes: session.output_shapes().to_vec() })
            }
            Err(error) => Err(error.into()),
        };
        self.give_back(scratch);
        result
    }
}

/// The kinds of pools that a request has, which most have none of.
#[derive(Clone, Copy, Default)]
struct PoolKinds {
    uses_dma_bufs: bool,
    uses_buffers: bool,
}

/// Finds out the kinds of a request's pools, and checks them as [`check_pages`] does: in one pass.
#[inline]
fn look_at(pools: &impl Pools) -> Result<PoolKinds> {
    let mut kinds = PoolKinds::default();
    for pool in (0..).map_while(|at| pools.pool(at)) {
        let mapping = pool.mapping();
        if mapping.lost_pages() {
            return Err(lost());
        }
        kinds.uses_dma_bufs |= mapping.is_dma_buf();
        kinds.uses_buffers |= pool.buffer().is_some();
    }
    Ok(kinds)
}

/// Refuses memories whose files were cut short while they were mapped: there are zeros in their
/// place.
fn check_pages(pools: &impl Pools) -> Result<()> {
    if pools.any(|pool| pool.mapping().lost_pages()) { Err(lost()) } else { Ok(()) }
}

#[cold]
fn lost() -> HalError {
    HalError::failure("a memory of the request was cut short while it was in use")
}

/// Says that the processor is about to use the dma-bufs among the pools, until what this returns is
/// dropped.
fn begin_access<'a>(request: &Request, pools: &'a impl Pools) -> Result<Vec<ProcessorAccess<'a>>> {
    let mut underway = Vec::new();
    for (at, pool) in (0..).map_while(|at| Some((at, pools.pool(at)?))) {
        let is_here = |output: &RequestArgument| {
            !output.has_no_value && usize::try_from(output.location.pool_index) == Ok(at)
        };
        let is_written = request.outputs.iter().any(is_here);
        let access = if is_written { Access::ReadWrite } else { Access::Read };
        underway.try_reserve(1)?;
        underway.push(pool.mapping().begin_access(access)?);
    }
    Ok(underway)
}

/// Runs as [`run`] does, for its effect on code and caches alone: see [`Session::warm_up`]. No
/// model waits for it, and nobody's figures count it.
pub(crate) fn warm_up(
    session: &mut Session,
    request: &Request,
    pools: &impl Pools,
    is_over: &mut dyn FnMut() -> bool,
) -> Result<()> {
    with_arguments(request, pools, &[], |inputs, outputs| {
        session.warm_up(inputs, outputs, is_over);
        Ok(())
    })
}

/// The run itself, and whether nothing else held it up.
fn compute(
    compiled: &Compiled,
    session: &mut Session,
    request: &Request,
    pools: &impl Pools,
    content: &[Vec<u32>],
    options: &ExecutionOptions,
) -> Result<bool> {
    with_arguments(request, pools, content, |inputs, outputs| {
        run_session(compiled, session, inputs, outputs, options)
    })
}

/// Runs a session in its turn; returns whether nothing else held it up.
pub(crate) fn run_session(
    compiled: &Compiled,
    session: &mut Session,
    inputs: &[Input<'_>],
    outputs: &[Output<'_>],
    options: &ExecutionOptions,
) -> Result<bool> {
    let running = compiled.begin(options.deadline);
    let control = Control {
        checkpoint: Some(&running),
        stop: Some(compiled.gone()),
        deadline: options.deadline,
        loop_timeout: options.loop_timeout.unwrap_or(DEFAULT_LOOP_TIMEOUT).min(MAX_LOOP_TIMEOUT),
    };
    let _span = trace_span(Layer::Cpu, Phase::Computation, "run");
    session.run(inputs, outputs, &control)?;
    Ok(!running.was_held_up())
}

/// Does something with the arguments of a request, found in its pools.
fn with_arguments<R>(
    request: &Request,
    pools: &impl Pools,
    content: &[Vec<u32>],
    act: impl FnOnce(&[Input<'_>], &[Output<'_>]) -> Result<R>,
) -> Result<R> {
    match request.inputs.len().max(request.outputs.len()) {
        0..=FEWER => with_room::<FEWER, R>(request, pools, content, act),
        _ => with_room::<FEW, R>(request, pools, content, act),
    }
}

/// [`with_arguments`], with room on the stack for `ROOM` inputs and outputs.
fn with_room<const ROOM: usize, R>(
    request: &Request,
    pools: &impl Pools,
    content: &[Vec<u32>],
    act: impl FnOnce(&[Input<'_>], &[Output<'_>]) -> Result<R>,
) -> Result<R> {
    // Made one by one: a value that is written as a tag and read as a whole, in order to be copied,
    // waits for the write to leave the store buffer.
    let mut few_inputs: [_; ROOM] = std::array::from_fn(|_| Input::NoValue);
    let mut many_inputs = Vec::new();
    let inputs = room(&mut few_inputs, &mut many_inputs, request.inputs.len(), Input::NoValue)?;
    for (at, (slot, argument)) in inputs.iter_mut().zip(&request.inputs).enumerate() {
        if !argument.has_no_value {
            let bytes = input_bytes(argument, pools).ok_or_else(|| outside("input", at))?;
            let dimensions = match content.get(at) {
                Some(shape) if buffer_of(argument, pools).is_some() => shape,
                _ => &argument.dimensions,
            };
            *slot = Input::Value { bytes, dimensions };
        }
    }
    let mut few_outputs: [_; ROOM] = std::array::from_fn(|_| Output::NoValue);
    let mut many_outputs = Vec::new();
    let outputs =
        room(&mut few_outputs, &mut many_outputs, request.outputs.len(), Output::NoValue)?;
    for (at, (slot, argument)) in outputs.iter_mut().zip(&request.outputs).enumerate() {
        if !argument.has_no_value {
            let bytes = output_bytes(argument, pools).ok_or_else(|| outside("output", at))?;
            *slot = Output::Buffer { bytes, dimensions: &argument.dimensions };
        }
    }
    act(inputs, outputs)
}

/// Checks the driver-managed buffers of a request; the shapes of those that are inputs, by
/// position.
fn claim(compiled: &Compiled, request: &Request, pools: &impl Pools) -> Result<Vec<Vec<u32>>> {
    let mut outputs: Vec<*const DriverBuffer> = Vec::new();
    outputs.try_reserve_exact(request.outputs.len())?;
    for (index, argument) in (0..).zip(&request.outputs) {
        if let Some(buffer) = buffer_of(argument, pools) {
            buffer.as_output(compiled.id(), index, &argument.dimensions)?;
            if outputs.contains(&Arc::as_ptr(buffer)) {
                return Err(HalError::invalid("one buffer is two outputs of the request"));
            }
            outputs.push(Arc::as_ptr(buffer));
        }
    }
    let mut shapes = Vec::new();
    shapes.try_reserve_exact(request.inputs.len())?;
    for (index, argument) in (0..).zip(&request.inputs) {
        let Some(buffer) = buffer_of(argument, pools) else {
            shapes.push(Vec::new());
            continue;
        };
        if outputs.contains(&Arc::as_ptr(buffer)) {
            return Err(HalError::invalid("one buffer is input and output of the request"));
        }
        shapes.push(buffer.as_input(compiled.id(), index, &argument.dimensions)?);
    }
    Ok(shapes)
}

/// Notes in the buffers that are outputs what they hold now.
fn settle(session: &Session, request: &Request, pools: &impl Pools, good: bool) -> Result<()> {
    let mut result = Ok(());
    for (at, argument) in request.outputs.iter().enumerate() {
        if let Some(buffer) = buffer_of(argument, pools) {
            let shape = session.output_shapes().get(at).filter(|_| good);
            let noted = buffer.written(shape.map(|shape| shape.dimensions.as_slice()));
            result = result.and(noted);
        }
    }
    result
}

fn pool_of<'a>(argument: &RequestArgument, pools: &'a impl Pools) -> Option<&'a Pool> {
    if argument.has_no_value {
        return None;
    }
    pools.pool(usize::try_from(argument.location.pool_index).ok()?)
}

fn buffer_of<'a>(
    argument: &RequestArgument,
    pools: &'a impl Pools,
) -> Option<&'a Arc<DriverBuffer>> {
    pool_of(argument, pools)?.buffer()
}

fn input_bytes<'a>(argument: &RequestArgument, pools: &'a impl Pools) -> Option<View<'a>> {
    let mapping = pool_of(argument, pools)?.mapping();
    mapping.view(range(argument.location, mapping)?)
}

/// `None` also for memory that can't be written.
fn output_bytes<'a>(argument: &RequestArgument, pools: &'a impl Pools) -> Option<ViewMut<'a>> {
    let mapping = pool_of(argument, pools)?.mapping();
    mapping.view_mut(range(argument.location, mapping)?)
}

/// Offset 0 and length 0 stand for all of a pool.
fn range(location: DataLocation, mapping: &Mapping) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(location.offset).ok()?;
    match usize::try_from(location.length).ok()? {
        0 if start == 0 => Some(0..mapping.len()),
        length => Some(start..start.checked_add(length)?),
    }
}

pub(crate) fn microseconds(since: Instant) -> u64 {
    whole_microseconds(since.elapsed())
}

fn whole_microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Copies into what is there: nothing is allocated while number and ranks of the outputs stay.
pub(crate) fn copy_shapes(from: &[OutputShape], to: &mut Vec<OutputShape>) {
    to.truncate(from.len());
    let missing = from.get(to.len()..).unwrap_or_default();
    let room = missing.iter().map(|_| OutputShape { dimensions: Vec::new(), is_sufficient: true });
    to.extend(room);
    for (to, from) in to.iter_mut().zip(from) {
        to.is_sufficient = from.is_sufficient;
        to.dimensions.clear();
        to.dimensions.extend_from_slice(&from.dimensions);
    }
}
