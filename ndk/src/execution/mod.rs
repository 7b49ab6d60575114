//! `ANeuralNetworksExecution`: arguments and options, then one run.

mod again;
mod call;
mod flight;
mod framed;
mod here;
mod in_place;
mod kept;
mod run;
mod staging;

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use nnburst::hal::{FencedTiming, MAX_LOOP_TIMEOUT};

use crate::burst::Burst;
use crate::c::{Array, ArrayMut, Bytes, BytesMut, OperandType, Out};
use crate::compilation::{Compilation, Ready, ready};
use crate::error::{Code, Error, Result, quietly};
use crate::event::Event;
use crate::handle::{Handle, object};
use crate::memory;

pub(crate) use call::Call;
pub(crate) use flight::Flight;

/// An execution.
#[derive(Debug)]
pub(crate) struct Execution {
    ready: Arc<Ready>,
    phase: Phase,
}

object!(Execution, "execution", 7);

#[derive(Debug)]
enum Phase {
    Building(Box<Call>),
    /// A call of this library is at it.
    Running,
    /// Launched; whether it has landed the flight knows.
    Launched(Arc<Flight>),
    Finished(Box<Call>, Result<()>),
}

impl Drop for Execution {
    fn drop(&mut self) {
        let call = match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Building(call) | Phase::Finished(call, _) => Some(call),
            Phase::Launched(flight) => flight.take_call(),
            Phase::Running => None,
        };
        if let Some(call) = call {
            self.ready.give_back(call);
        }
    }
}

impl Execution {
    fn call(&mut self) -> Result<(&Ready, &mut Call)> {
        match &mut self.phase {
            Phase::Building(call) => Ok((&self.ready, call)),
            _ => Err(Error::state("the execution has started")),
        }
    }

    /// The call, to be run: everything is given.
    fn begin(&mut self, check: impl FnOnce(&Ready, &Call) -> Result<()>) -> Result<Box<Call>> {
        let (ready, call) = self.call()?;
        check(ready, call)?;
        match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Building(call) => Ok(call),
            // `call` found it building.
            other => {
                self.phase = other;
                Err(Error::state("the execution has started"))
            }
        }
    }

    /// As [`Execution::begin`], with what the call is run by.
    fn begin_with_ready(
        &mut self,
        check: impl FnOnce(&Ready, &Call) -> Result<()>,
    ) -> Result<(Arc<Ready>, Box<Call>)> {
        let call = self.begin(check)?;
        Ok((Arc::clone(&self.ready), call))
    }

    /// Works with what came out of a finished execution.
    fn finished<R>(
        &self,
        work: impl FnOnce(&Ready, &Call, FencedTiming, &Result<()>) -> Result<R>,
    ) -> Result<R> {
        let early = || Error::state("the execution has not finished");
        match &self.phase {
            Phase::Building(_) | Phase::Running => Err(early()),
            Phase::Finished(call, result) => {
                let timing = FencedTiming { launched: call.timing, fenced: call.timing };
                work(&self.ready, call, timing, result)
            }
            Phase::Launched(flight) => {
                let result = flight.result().ok_or_else(early)?;
                let worked = flight.with_call(|call, timing| {
                    let timing = if flight.is_fenced() {
                        timing
                    } else {
                        FencedTiming { launched: call.timing, fenced: call.timing }
                    };
                    work(&self.ready, call, timing, &result)
                });
                worked.unwrap_or_else(|| Err(early()))
            }
        }
    }

    /// The shape of an output, and whether its memory was large enough.
    fn output_shape<R>(&self, index: i32, work: impl FnOnce(&[u32]) -> Result<R>) -> Result<R> {
        self.finished(|ready, call, _, result| {
            let too_small = match result {
                Ok(()) => false,
                Err(error) if error.code == Code::OutputInsufficientSize => true,
                Err(error) => {
                    let why = format!("the execution failed: {}", error.reason);
                    return Err(Error::state(why));
                }
            };
            let at = unsigned(index)?;
            let operand = &ready.output(at)?.operand;
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            let computed = call.shapes.get(at);
            let shape = match (computed, call.outputs.get(at)) {
                (Some(computed), _) => &computed.dimensions,
                (None, Some(output)) => output.shape(operand),
                (None, None) => &[],
            };
            let done = work(shape)?;
            if too_small && computed.is_some_and(|shape| !shape.is_sufficient) {
                let why = format!("output {index} was too small for shape {shape:?}");
                return Err(Error::new(Code::OutputInsufficientSize, why));
            }
            Ok(done)
        })
    }
}

fn unsigned(index: i32) -> Result<u32> {
    u32::try_from(index).map_err(|_| Error::data(format!("there is no argument {index}")))
}

use crate::error::call as enter;

pub(crate) extern "C" fn create(
    compilation: Handle<Compilation>,
    execution: Out<'_, Handle<Execution>>,
) -> c_int {
    enter(|| {
        let execution = execution.ok_or_else(|| Error::null("execution"))?;
        if compilation.is_null() {
            return Err(Error::null("compilation"));
        }
        execution.write(Handle::NULL);
        let ready = ready(compilation)?;
        let phase = Phase::Building(ready.take_call());
        execution.write(Handle::new(Execution { ready, phase })?);
        Ok(())
    })
}

pub(crate) extern "C" fn free(execution: Handle<Execution>) {
    quietly(|| drop(execution.free()));
}

/// As [`enter`], with the call of an execution that has not started.
fn set(execution: Handle<Execution>, work: impl FnOnce(&Ready, &mut Call) -> Result<()>) -> c_int {
    enter(|| {
        execution.with(|execution| {
            let (ready, call) = execution.call()?;
            work(ready, call)
        })
    })
}

pub(crate) extern "C" fn set_input(
    execution: Handle<Execution>,
    index: i32,
    kind: Option<&OperandType>,
    buffer: Bytes,
    length: usize,
) -> c_int {
    if buffer.is_null() && length != 0 {
        return enter(|| Err(Error::null("buffer")));
    }
    set(execution, |ready, call| call.set_input(ready, unsigned(index)?, kind, buffer, length))
}

pub(crate) extern "C" fn set_output(
    execution: Handle<Execution>,
    index: i32,
    kind: Option<&OperandType>,
    buffer: BytesMut,
    length: usize,
) -> c_int {
    if buffer.is_null() && length != 0 {
        return enter(|| Err(Error::null("buffer")));
    }
    set(execution, |ready, call| call.set_output(ready, unsigned(index)?, kind, buffer, length))
}

pub(crate) extern "C" fn set_input_from_memory(
    execution: Handle<Execution>,
    index: i32,
    kind: Option<&OperandType>,
    memory: Handle<nnburst::Memory>,
    offset: usize,
    length: usize,
) -> c_int {
    enter(|| {
        let memory = memory::get(memory)?;
        execution.with(|execution| {
            let (ready, call) = execution.call()?;
            call.set_input_memory(ready, unsigned(index)?, kind, memory, (offset, length))
        })
    })
}

pub(crate) extern "C" fn set_output_from_memory(
    execution: Handle<Execution>,
    index: i32,
    kind: Option<&OperandType>,
    memory: Handle<nnburst::Memory>,
    offset: usize,
    length: usize,
) -> c_int {
    enter(|| {
        let memory = memory::get(memory)?;
        execution.with(|execution| {
            let (ready, call) = execution.call()?;
            call.set_output_memory(ready, unsigned(index)?, kind, memory, (offset, length))
        })
    })
}

/// As [`set`], for what takes a compilation for exactly one device, which is looked at first.
fn set_for_one_device(execution: Handle<Execution>, work: impl FnOnce(&mut Call)) -> c_int {
    enter(|| {
        execution.with(|execution| {
            check_one_device(&execution.ready)?;
            work(execution.call()?.1);
            Ok(())
        })
    })
}

fn check_one_device(ready: &Ready) -> Result<()> {
    if ready.one_device {
        return Ok(());
    }
    Err(Error::data("this takes a compilation for exactly one device"))
}

pub(crate) extern "C" fn set_measure_timing(execution: Handle<Execution>, measure: bool) -> c_int {
    set_for_one_device(execution, |call| call.measure = measure)
}

pub(crate) extern "C" fn set_timeout(execution: Handle<Execution>, nanoseconds: u64) -> c_int {
    set_for_one_device(execution, |call| {
        call.timeout = (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds));
    })
}

pub(crate) extern "C" fn set_loop_timeout(execution: Handle<Execution>, nanoseconds: u64) -> c_int {
    set(execution, |_, call| {
        call.loop_timeout = Some(Duration::from_nanos(nanoseconds).min(MAX_LOOP_TIMEOUT));
        Ok(())
    })
}

pub(crate) extern "C" fn compute(execution: Handle<Execution>) -> c_int {
    enter(|| run::compute(execution))
}

pub(crate) extern "C" fn burst_compute(
    execution: Handle<Execution>,
    burst: Handle<Burst>,
) -> c_int {
    enter(|| {
        if execution.is_null() {
            return Err(Error::null("execution"));
        }
        burst.try_with(|burst| run::burst_compute(execution, burst))
    })
}

pub(crate) extern "C" fn start_compute(
    execution: Handle<Execution>,
    event: Out<'_, Handle<Arc<Event>>>,
) -> c_int {
    enter(|| {
        let event = event.ok_or_else(|| Error::null("event"))?;
        if execution.is_null() {
            return Err(Error::null("execution"));
        }
        event.write(Handle::NULL);
        event.write(run::start(execution)?);
        Ok(())
    })
}

pub(crate) extern "C" fn start_compute_with_dependencies(
    execution: Handle<Execution>,
    dependencies: Array<Handle<Arc<Event>>>,
    count: u32,
    duration: u64,
    event: Out<'_, Handle<Arc<Event>>>,
) -> c_int {
    enter(|| {
        let event = event.ok_or_else(|| Error::null("event"))?;
        if execution.is_null() {
            return Err(Error::null("execution"));
        }
        let dependencies =
            if count == 0 { &[] } else { dependencies.elements(count, "dependencies")? };
        event.write(Handle::NULL);
        let duration = (duration > 0).then(|| Duration::from_nanos(duration));
        event.write(run::start_fenced(execution, dependencies, duration)?);
        Ok(())
    })
}

pub(crate) extern "C" fn get_output_operand_rank(
    execution: Handle<Execution>,
    index: i32,
    rank: Out<'_, u32>,
) -> c_int {
    enter(|| {
        let rank = rank.ok_or_else(|| Error::null("rank"))?;
        execution.with(|execution| {
            execution.output_shape(index, |shape| {
                rank.write(u32::try_from(shape.len()).unwrap_or(u32::MAX));
                Ok(())
            })
        })
    })
}

pub(crate) extern "C" fn get_output_operand_dimensions(
    execution: Handle<Execution>,
    index: i32,
    dimensions: ArrayMut<u32>,
) -> c_int {
    enter(|| {
        if dimensions.is_null() {
            return Err(Error::null("dimensions"));
        }
        execution.with(|execution| {
            execution.output_shape(index, |shape| {
                if shape.is_empty() {
                    return Err(Error::data("a scalar has no dimensions"));
                }
                dimensions.write(shape, "dimensions")
            })
        })
    })
}

pub(crate) extern "C" fn get_duration(
    execution: Handle<Execution>,
    code: i32,
    duration: Out<'_, u64>,
) -> c_int {
    enter(|| {
        let duration = duration.ok_or_else(|| Error::null("duration"))?;
        if execution.is_null() {
            return Err(Error::null("execution"));
        }
        if !(0..=3).contains(&code) {
            return Err(Error::data(format!("{code} is no duration")));
        }
        duration.write(u64::MAX);
        execution.with(|execution| {
            execution.finished(|_, call, timing, result| {
                if result.is_err() {
                    return Err(Error::state("the execution failed"));
                }
                if !call.measure {
                    return Err(Error::state("the execution was not measured"));
                }
                let microseconds = match code {
                    0 => timing.launched.time_on_device,
                    1 => timing.launched.time_in_driver,
                    2 => timing.fenced.time_on_device,
                    _ => timing.fenced.time_in_driver,
                };
                // u64::MAX is unknown, and stays.
                duration.write(microseconds.saturating_mul(1000));
                Ok(())
            })
        })
    })
}
