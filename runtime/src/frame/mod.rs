//! Frames: the inputs and outputs of executions, in memory that the driver maps as well.
//!
//! All arguments of a frame lie in one shared memory, each at a cache line of its own, so that a
//! burst has one slot to look up. The bytes belong to nobody: a driver that means ill may write
//! them at any time, hence they are reached by copies and by [`View`]s, never by references.
//!
//! A frame that went through a burst keeps its packet, so that the next time nothing is serialised:
//! the packet is sent as it is. For a device in this process it keeps what that device made of it.

use std::sync::Arc;
use std::time::Duration;

use nnburst_burst::BurstFrame;
use nnburst_burst::packet::BurstAnswer;
use nnburst_hal::{
    DataLocation, ErrorStatus, ExecutionFailure, ExecutionOptions, ExecutionOutcome, Mapping,
    Memory, Operand, OperandType, OutputShape, PreparedModel, Request, RequestArgument,
    RequestPool, ReusableExecution, Timing, View, ViewMut, vlog,
};

use crate::element::Element;
use crate::error::{Result, RuntimeError};
use crate::timing::{driver_time, time_in_driver};

/// Shape and room of one argument of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argument {
    /// Empty: the model's own. Else these replace the model's unknown extents.
    pub dimensions: Vec<u32>,
    /// Bytes; 0 leaves the argument out.
    pub length: usize,
}

/// The inputs and outputs of executions.
#[derive(Debug)]
pub struct Frame {
    mapping: Arc<Mapping>,
    request: Request,
    inputs: Vec<OperandType>,
    outputs: Vec<OperandType>,
    last: Last,
    latency: Duration,
    packets: Vec<Packet>,
    /// The one of `packets` that says what `request` says; unknown after an exchange.
    current: Option<usize>,
    here: Vec<Here>,
    /// The one of `here` that says what `request` says; unknown after an exchange.
    current_here: Option<usize>,
}

/// The frame as a device in this process executes it again and again.
struct Here {
    model: Arc<dyn PreparedModel>,
    inputs: Vec<RequestArgument>,
    outputs: Vec<RequestArgument>,
    reusable: Box<dyn ReusableExecution>,
    timing: Timing,
}

impl std::fmt::Debug for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Here").field("timing", &self.timing).finish_non_exhaustive()
    }
}

/// The place of the last execution's outputs.
#[derive(Debug)]
enum Last {
    Nothing,
    Outcome(ExecutionOutcome),
    /// In the current packet.
    Packet,
    /// In `here`.
    Here,
}

/// The frame as a burst sends it.
#[derive(Debug)]
struct Packet {
    burst: u64,
    inputs: Vec<RequestArgument>,
    outputs: Vec<RequestArgument>,
    frame: BurstFrame,
}

/// The number of memories that a frame keeps of either kind: with state that is exchanged at every
/// step, two take turns.
const MOST_KEPT: usize = 2;

/// The alignment of arguments: at a cache line.
const ALIGNMENT: usize = 64;

impl Frame {
    pub(crate) fn new(
        inputs: &[Operand],
        outputs: &[Operand],
        input_arguments: &[Argument],
        output_arguments: &[Argument],
    ) -> Result<Self> {
        for (what, model, given) in [
            ("inputs", inputs.len(), input_arguments.len()),
            ("outputs", outputs.len(), output_arguments.len()),
        ] {
            if model != given {
                return Err(RuntimeError::Argument(format!(
                    "{given} {what} given, the model has {model}"
                )));
            }
        }
        let mut size = 0;
        let mut place = |argument: &Argument| {
            let offset = size;
            size = offset + argument.length.next_multiple_of(ALIGNMENT);
            let location = match (u32::try_from(offset), u32::try_from(argument.length)) {
                (Ok(offset), Ok(length)) => DataLocation { pool_index: 0, offset, length },
                _ => {
                    return Err(RuntimeError::Argument(
                        "the arguments of a frame exceed 4 GiB".into(),
                    ));
                }
            };
            Ok(if argument.length == 0 {
                RequestArgument { has_no_value: true, ..RequestArgument::default() }
            } else {
                RequestArgument {
                    has_no_value: false,
                    location,
                    dimensions: argument.dimensions.clone(),
                }
            })
        };
        let request_inputs = input_arguments.iter().map(&mut place).collect::<Result<_>>()?;
        let request_outputs = output_arguments.iter().map(&mut place).collect::<Result<_>>()?;
        let memory = Memory::ashmem(u64::try_from(size.max(ALIGNMENT)).unwrap_or(u64::MAX))?;
        let mapping = memory.mapped()?;
        vlog!(Memory, "frame of {size} bytes");
        Ok(Self {
            mapping,
            request: Request {
                inputs: request_inputs,
                outputs: request_outputs,
                pools: vec![RequestPool::Memory(memory)],
            },
            inputs: inputs.iter().map(|operand| operand.kind).collect(),
            outputs: outputs.iter().map(|operand| operand.kind).collect(),
            last: Last::Nothing,
            latency: Duration::ZERO,
            packets: Vec::new(),
            current: None,
            here: Vec::new(),
            current_here: None,
        })
    }

    /// Copies values into an input.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such input, or its type or size are others.
    pub fn write<T: Element>(&mut self, input: usize, values: &[T]) -> Result<()> {
        check_type::<T>("input", input, self.inputs.get(input))?;
        self.write_bytes(input, bytemuck::cast_slice(values))
    }

    /// Copies the little-endian bytes of an input.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such input, or its size is another.
    pub fn write_bytes(&mut self, input: usize, bytes: &[u8]) -> Result<()> {
        let view = self.input(input)?;
        if view.len() != bytes.len() {
            return Err(RuntimeError::Argument(format!(
                "input {input} takes {} bytes, {} given",
                view.len(),
                bytes.len()
            )));
        }
        view.copy_from_slice(bytes);
        Ok(())
    }

    /// Copies an output out.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such output or its type is another.
    pub fn read<T: Element>(&self, output: usize) -> Result<Vec<T>> {
        let view = self.output(output)?;
        let mut values = vec![T::zeroed(); view.len() / size_of::<T>()];
        self.read_into(output, &mut values)?;
        Ok(values)
    }

    /// Copies as much of an output as `values` takes, without allocating.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such output or its type is another.
    pub fn read_into<T: Element>(&self, output: usize, values: &mut [T]) -> Result<()> {
        check_type::<T>("output", output, self.outputs.get(output))?;
        self.output(output)?.copy_to_slice(bytemuck::cast_slice_mut(values));
        Ok(())
    }

    /// Copies the little-endian bytes of an output out.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such output.
    pub fn read_bytes(&self, output: usize) -> Result<Vec<u8>> {
        Ok(self.output(output)?.to_vec())
    }

    /// An input's bytes in place; empty where the argument is left out.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such input.
    #[inline]
    pub fn input(&mut self, input: usize) -> Result<ViewMut<'_>> {
        let range = range_of("input", input, &self.request.inputs)?;
        self.mapping.view_mut(range).ok_or_else(|| outside("input", input))
    }

    /// An output's bytes in place, as many as the shape that came out takes.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such output.
    #[inline]
    pub fn output(&self, output: usize) -> Result<View<'_>> {
        let mut range = range_of("output", output, &self.request.outputs)?;
        if let Some(bytes) = self.computed_bytes(output) {
            range.end = range.end.min(range.start + bytes);
        }
        self.mapping.view(range).ok_or_else(|| outside("output", output))
    }

    /// The shapes that came out of the last execution, one per output; empty before the first.
    #[inline]
    pub fn output_shapes(&self) -> &[OutputShape] {
        match &self.last {
            Last::Nothing => &[],
            Last::Outcome(outcome) => &outcome.output_shapes,
            Last::Packet => self.answer().map_or(&[], |answer| answer.output_shapes.as_slice()),
            Last::Here => self.here().map_or(&[], |here| here.reusable.output_shapes()),
        }
    }

    /// Returns the driver's timing of the last execution, if it was asked to measure.
    pub fn timing(&self) -> Timing {
        match &self.last {
            Last::Nothing => Timing::NONE,
            Last::Outcome(outcome) => outcome.timing,
            Last::Packet => self.answer().map_or(Timing::NONE, |answer| answer.timing),
            Last::Here => self.here().map_or(Timing::NONE, |here| here.timing),
        }
    }

    /// The driver's share of the last execution, as finely as it was told: to the nanosecond in a
    /// burst, to the microsecond elsewhere. `None` where it was not measured.
    pub fn time_in_driver(&self) -> Option<Duration> {
        let told = match &self.last {
            Last::Packet => self.answer().and_then(|answer| answer.driver_times),
            _ => None,
        };
        match told {
            Some(times) => Some(driver_time(times)),
            None => time_in_driver(self.timing()),
        }
    }

    /// Returns the time that the last execution took, as the caller saw it; in a burst, from
    /// sending it to taking its answer.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Hands an output's bytes on as an input of the next execution, by exchanging their places and
    /// without copying: how state is carried from step to step.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there are no such arguments or their sizes differ.
    pub fn exchange(&mut self, output: usize, input: usize) -> Result<()> {
        let from = range_of("output", output, &self.request.outputs)?;
        let to = range_of("input", input, &self.request.inputs)?;
        if from.len() != to.len() {
            return Err(RuntimeError::Argument(format!(
                "output {output} has {} bytes, input {input} {}",
                from.len(),
                to.len()
            )));
        }
        if let (Some(output), Some(input)) =
            (self.request.outputs.get_mut(output), self.request.inputs.get_mut(input))
        {
            std::mem::swap(&mut output.location, &mut input.location);
        }
        self.keep_outcome();
        (self.current, self.current_here) = (None, None);
        Ok(())
    }

    /// The request that stands for the frame.
    pub fn request(&self) -> &Request {
        &self.request
    }

    pub(crate) fn finish(&mut self, outcome: ExecutionOutcome, latency: Duration) -> Result<()> {
        (self.last, self.latency) = (Last::Outcome(outcome), latency);
        self.check_pages()
    }

    /// The packet that stands for the frame in a burst, made by `make` at its first time there.
    pub(crate) fn packet<E>(
        &mut self,
        burst: u64,
        make: impl FnOnce(&Request) -> std::result::Result<BurstFrame, E>,
    ) -> std::result::Result<&mut BurstFrame, E> {
        let Self { packets, request, current, .. } = self;
        let fits = |packet: &Packet| {
            packet.burst == burst
                && packet.inputs == request.inputs
                && packet.outputs == request.outputs
        };
        let known = current
            .filter(|&at| packets.get(at).is_some_and(|packet| packet.burst == burst))
            .or_else(|| packets.iter().position(fits));
        let at = match known {
            Some(at) => at,
            None => {
                let (inputs, outputs) = (request.inputs.clone(), request.outputs.clone());
                let packet = Packet { burst, inputs, outputs, frame: make(request)? };
                if packets.len() == MOST_KEPT {
                    packets.remove(0);
                }
                packets.push(packet);
                packets.len() - 1
            }
        };
        *current = Some(at);
        self.last = Last::Nothing;
        // `at` was found or made above.
        Ok(&mut packets[at].frame)
    }

    /// Takes note that the current packet was answered.
    pub(crate) fn packet_answered(&mut self) -> Result<()> {
        // The burst has read the clock on both ways already; here that would cost as much as a
        // cache line takes.
        let packet = self.current.and_then(|at| self.packets.get(at));
        self.latency = packet.map_or(Duration::ZERO, |packet| packet.frame.latency());
        self.last = Last::Packet;
        self.check_pages()
    }

    /// Executes by the way that a device in this process has for what comes again and again; `None`
    /// where it has none.
    pub(crate) fn compute_here(
        &mut self,
        model: &Arc<dyn PreparedModel>,
        options: &ExecutionOptions,
    ) -> Option<std::result::Result<(), ExecutionFailure>> {
        let Self { here, request, current_here, .. } = self;
        let fits = |here: &Here| {
            Arc::ptr_eq(&here.model, model)
                && here.inputs == request.inputs
                && here.outputs == request.outputs
        };
        let known = current_here
            .filter(|&at| here.get(at).is_some_and(|here| Arc::ptr_eq(&here.model, model)))
            .or_else(|| here.iter().position(fits));
        let at = match known {
            Some(at) => at,
            None => {
                let reusable = model.reusable_execution(request)?;
                let (inputs, outputs) = (request.inputs.clone(), request.outputs.clone());
                if here.len() == MOST_KEPT {
                    here.remove(0);
                }
                let model = Arc::clone(model);
                here.push(Here { model, inputs, outputs, reusable, timing: Timing::NONE });
                here.len() - 1
            }
        };
        *current_here = Some(at);
        let Here { reusable, timing, .. } = here.get_mut(at)?;
        self.last = Last::Nothing;
        match reusable.compute(&self.request.pools, options) {
            Ok(measured) => {
                *timing = measured;
                self.last = Last::Here;
                Some(Ok(()))
            }
            Err(error) => {
                let has_shapes = error.status == ErrorStatus::OutputInsufficientSize;
                let shapes = if has_shapes { reusable.output_shapes() } else { &[] };
                Some(Err(ExecutionFailure { error, output_shapes: shapes.to_vec() }))
            }
        }
    }

    /// Takes note that [`Frame::compute_here`] succeeded.
    pub(crate) fn computed_here(&mut self, latency: Duration) -> Result<()> {
        self.latency = latency;
        self.check_pages()
    }

    fn here(&self) -> Option<&Here> {
        self.here.get(self.current_here?)
    }

    fn answer(&self) -> Option<&BurstAnswer> {
        self.packets.get(self.current?)?.frame.answer().ok()
    }

    /// Lets the outcome outlive the current packet's turn. Shapes of exchanged arguments are fully
    /// known, so nothing but the timing is worth keeping.
    fn keep_outcome(&mut self) {
        if matches!(self.last, Last::Packet | Last::Here) {
            let timing = self.timing();
            self.last = Last::Outcome(ExecutionOutcome { output_shapes: Vec::new(), timing });
        }
    }

    fn check_pages(&self) -> Result<()> {
        if self.mapping.lost_pages() {
            return Err(RuntimeError::Argument(
                "the frame's memory was truncated by somebody".into(),
            ));
        }
        Ok(())
    }

    #[inline]
    fn computed_bytes(&self, output: usize) -> Option<usize> {
        let shape = self.output_shapes().get(output)?;
        let element = self.outputs.get(output)?.element_bytes()?;
        shape
            .dimensions
            .iter()
            .try_fold(element, |bytes, &extent| bytes.checked_mul(usize::try_from(extent).ok()?))
    }
}

#[inline]
fn range_of(
    what: &str,
    index: usize,
    arguments: &[RequestArgument],
) -> Result<std::ops::Range<usize>> {
    let argument = arguments.get(index).ok_or_else(|| {
        RuntimeError::Argument(format!(
            "{what} {index} asked for, the model has {}",
            arguments.len()
        ))
    })?;
    let start = usize::try_from(argument.location.offset).unwrap_or(usize::MAX);
    let length = usize::try_from(argument.location.length).unwrap_or(usize::MAX);
    Ok(start..start.saturating_add(length))
}

fn outside(what: &str, index: usize) -> RuntimeError {
    RuntimeError::Argument(format!("{what} {index} is not within the frame's memory"))
}

fn check_type<T: Element>(what: &str, index: usize, kind: Option<&OperandType>) -> Result<()> {
    match kind {
        Some(kind) if !T::KINDS.contains(kind) => Err(RuntimeError::Argument(format!(
            "{what} {index} is a {kind}, not one of {}",
            std::any::type_name::<T>()
        ))),
        // A missing argument is said by whoever looks for its bytes.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let operand = Operand::tensor(OperandType::TensorFloat32, vec![2]);
        let argument = Argument { dimensions: Vec::new(), length: 8 };
        Frame::new(
            &[operand.clone(), operand.clone()],
            &[operand],
            &[argument.clone(), Argument::default()],
            &[argument],
        )
        .unwrap()
    }

    #[test]
    fn arguments_lie_at_cache_lines_and_what_is_left_out_takes_no_room() {
        let frame = frame();
        let [first, second] = frame.request().inputs.as_slice() else { panic!("two inputs") };
        assert_eq!((first.location.offset, first.has_no_value), (0, false));
        assert!(second.has_no_value);
        assert_eq!(frame.request().outputs[0].location.offset, 64);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let mut frame = frame();
        frame.write(0, &[1.0f32, 2.0]).unwrap();
        let error = |result: Result<()>| result.unwrap_err().to_string();
        assert!(error(frame.write(0, &[1.0f32])).contains("takes 8 bytes, 4 given"));
        assert!(error(frame.write(0, &[1u8; 8])).contains("TENSOR_FLOAT32"));
        assert!(error(frame.write(7, &[1.0f32])).contains("the model has 2"));
        assert!(frame.read::<i32>(0).is_err());
    }

    #[test]
    fn an_exchanged_output_is_the_next_input() {
        let mut frame = frame();
        frame.write(0, &[1.0f32, 2.0]).unwrap();
        frame.exchange(0, 0).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [1.0, 2.0]);
        frame.write(0, &[3.0f32, 4.0]).unwrap();
        frame.exchange(0, 0).unwrap();
        assert_eq!(frame.read::<f32>(0).unwrap(), [3.0, 4.0]);
        assert!(frame.exchange(0, 1).is_err(), "the second input is left out");
    }
}
