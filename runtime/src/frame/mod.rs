//! Frames: the inputs and outputs of executions, in memory that the driver maps as well.
//!
//! The arguments of a frame lie in one shared memory, each at a cache line of its own, so that a
//! burst has one slot to look up; or in memory that somebody else allocated ([`Plane`]). The bytes
//! belong to nobody: a driver that means ill may write them at any time, hence they are reached by
//! copies and by [`View`]s, never by references.
//!
//! A frame that went through a burst keeps its packet, so that the next time nothing is serialised:
//! the packet is sent as it is. For a device in this process it keeps what that device made of it.

mod here;
mod packets;
mod plane;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nnburst_burst::packet::BurstAnswer;
use nnburst_hal::{
    Access, DataLocation, Direction, ExecutionOutcome, Mapping, Memory, Operand, OperandType,
    OutputShape, Request, RequestArgument, RequestPool, Timing, View, ViewMut, vlog,
};

use crate::element::Element;
use crate::error::{Result, RuntimeError};
use crate::timing::{driver_time, time_in_driver};
use here::Here;
use packets::Packets;
use plane::Padded;
pub use plane::{PaddedRows, Plane};

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
pub struct Frame(
    // Boxed, so that moving a frame into a burst and out of it moves a pointer.
    Box<Body>,
);

#[derive(Debug)]
struct Body {
    /// The pools of the request, by their place in it; the frame's own comes first.
    places: Vec<Place>,
    request: Request,
    /// Another number whenever the request has other pools.
    version: u64,
    /// Arguments whose rows are padded where they come from or go to.
    padded: Vec<Padded>,
    inputs: Vec<OperandType>,
    outputs: Vec<OperandType>,
    /// Bytes of an output's element, where that is known.
    output_elements: Vec<Option<usize>>,
    last: Last,
    latency: Duration,
    packets: Packets,
    here: Vec<Here>,
    /// The one of `here` that says what `request` says; unknown after an exchange.
    current_here: Option<usize>,
}

/// A memory of the request, mapped here once somebody looks at it.
#[derive(Debug)]
struct Place {
    memory: Memory,
    mapping: OnceLock<Arc<Mapping>>,
}

impl Place {
    fn of(memory: Memory) -> Self {
        Self { memory, mapping: OnceLock::new() }
    }

    #[inline]
    fn mapping(&self) -> Result<&Mapping> {
        if let Some(mapping) = self.mapping.get() {
            return Ok(mapping);
        }
        let mapping = self.memory.mapped()?;
        Ok(self.mapping.get_or_init(|| mapping))
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
        Self::over(inputs, outputs, [input_arguments, output_arguments], [&[], &[]])
    }

    /// A frame whose arguments lie over planes; none given is none for all.
    pub(crate) fn over(
        inputs: &[Operand],
        outputs: &[Operand],
        [input_arguments, output_arguments]: [&[Argument]; 2],
        [input_planes, output_planes]: [&[Option<Plane>]; 2],
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
        let mut place = |(argument, plane): (&Argument, Option<&Option<Plane>>)| {
            let offset = size;
            // What lies elsewhere as it is needs no room here.
            if !matches!(plane, Some(Some(Plane { rows: None, .. }))) {
                size = offset + argument.length.next_multiple_of(ALIGNMENT);
            }
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
        let mut all = |arguments: &[Argument], planes: &[Option<Plane>]| {
            let planes = planes.iter().map(Some).chain(std::iter::repeat(None));
            arguments.iter().zip(planes).map(&mut place).collect::<Result<_>>()
        };
        let request_inputs = all(input_arguments, input_planes)?;
        let request_outputs = all(output_arguments, output_planes)?;
        let memory = Memory::ashmem(u64::try_from(size.max(ALIGNMENT)).unwrap_or(u64::MAX))?;
        let own = Place::of(memory.clone());
        own.mapping()?;
        vlog!(Memory, "frame of {size} bytes");
        let frame = Self(Box::new(Body {
            places: vec![own],
            version: 0,
            padded: Vec::new(),
            request: Request {
                inputs: request_inputs,
                outputs: request_outputs,
                pools: vec![RequestPool::Memory(memory)],
            },
            inputs: inputs.iter().map(|operand| operand.kind).collect(),
            outputs: outputs.iter().map(|operand| operand.kind).collect(),
            output_elements: outputs.iter().map(|operand| operand.kind.element_bytes()).collect(),
            last: Last::Nothing,
            latency: Duration::ZERO,
            packets: Packets::default(),
            here: Vec::new(),
            current_here: None,
        }));
        frame.laid_over(Direction::Input, input_planes)?.laid_over(Direction::Output, output_planes)
    }

    /// Says how many bytes the outputs' elements have, those of extension types included.
    pub(crate) fn set_output_elements(&mut self, elements: Vec<Option<usize>>) {
        self.0.output_elements = elements;
    }

    /// Copies values into an input.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such input, or its type or size are others.
    pub fn write<T: Element>(&mut self, input: usize, values: &[T]) -> Result<()> {
        self.check::<T>(Direction::Input, input)?;
        self.write_bytes(input, bytemuck::cast_slice(values))
    }

    /// Copies the little-endian bytes of an input.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such input, or its size is another.
    pub fn write_bytes(&mut self, input: usize, bytes: &[u8]) -> Result<()> {
        let argument = argument_of(Direction::Input, input, &self.0.request.inputs)?;
        let (range, place) = (range_of(argument), self.place(Direction::Input, input, argument)?);
        if range.len() != bytes.len() {
            return Err(RuntimeError::Argument(format!(
                "input {input} takes {} bytes, {} given",
                range.len(),
                bytes.len()
            )));
        }
        let mapping = place.mapping()?;
        let _access = mapping.begin_access(Access::ReadWrite)?;
        let view = mapping.view_mut(range).ok_or_else(|| outside(Direction::Input, input))?;
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
        self.check::<T>(Direction::Output, output)?;
        let _access = self.mapping_of(Direction::Output, output)?.begin_access(Access::Read)?;
        self.output(output)?.copy_to_slice(bytemuck::cast_slice_mut(values));
        Ok(())
    }

    /// Copies the little-endian bytes of an output out.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such output.
    pub fn read_bytes(&self, output: usize) -> Result<Vec<u8>> {
        let _access = self.mapping_of(Direction::Output, output)?.begin_access(Access::Read)?;
        Ok(self.output(output)?.to_vec())
    }

    /// An input's bytes in place; empty where the argument is left out. Of an input whose rows are
    /// padded elsewhere these are the rows without padding, which the next execution reads from
    /// there. Whoever writes to a dma-buf through this says so to the kernel; see
    /// [`Mapping::begin_access`].
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such input, or it lies in memory that is read-only
    /// here; [`RuntimeError::Memory`] if that can't be mapped.
    #[inline]
    pub fn input(&mut self, input: usize) -> Result<ViewMut<'_>> {
        let argument = argument_of(Direction::Input, input, &self.0.request.inputs)?;
        let mapping = self.place(Direction::Input, input, argument)?.mapping()?;
        mapping.view_mut(range_of(argument)).ok_or_else(|| outside(Direction::Input, input))
    }

    /// An output's bytes in place, as many as the shape that came out takes. See [`Frame::input`]
    /// for dma-bufs.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there is no such output; [`RuntimeError::Memory`] if its
    /// memory can't be mapped.
    #[inline]
    pub fn output(&self, output: usize) -> Result<View<'_>> {
        let argument = argument_of(Direction::Output, output, &self.0.request.outputs)?;
        let mut range = range_of(argument);
        if let Some(bytes) = self.computed_bytes(output) {
            range.end = range.end.min(range.start + bytes);
        }
        let mapping = self.place(Direction::Output, output, argument)?.mapping()?;
        mapping.view(range).ok_or_else(|| outside(Direction::Output, output))
    }

    /// Checks that an argument is of the type of `T`; one that is not there is said by whoever
    /// looks for its bytes.
    pub(crate) fn check<T: Element>(&self, direction: Direction, index: usize) -> Result<()> {
        let kinds = match direction {
            Direction::Input => &self.0.inputs,
            Direction::Output => &self.0.outputs,
        };
        match kinds.get(index) {
            Some(kind) if !T::KINDS.contains(kind) => Err(RuntimeError::Argument(format!(
                "{direction} {index} is a {kind}, not one of {}",
                std::any::type_name::<T>()
            ))),
            _ => Ok(()),
        }
    }

    /// The mapping that an argument lies in.
    fn mapping_of(&self, direction: Direction, index: usize) -> Result<&Mapping> {
        self.place(direction, index, self.argument(direction, index)?)?.mapping()
    }

    fn argument(&self, direction: Direction, index: usize) -> Result<&RequestArgument> {
        let arguments = match direction {
            Direction::Input => &self.0.request.inputs,
            Direction::Output => &self.0.request.outputs,
        };
        argument_of(direction, index, arguments)
    }

    #[inline]
    fn place(
        &self,
        direction: Direction,
        index: usize,
        argument: &RequestArgument,
    ) -> Result<&Place> {
        let pool = usize::try_from(argument.location.pool_index).ok();
        pool.and_then(|pool| self.0.places.get(pool)).ok_or_else(|| outside(direction, index))
    }

    /// The shapes that came out of the last execution, one per output; empty before the first.
    #[inline]
    pub fn output_shapes(&self) -> &[OutputShape] {
        match &self.0.last {
            Last::Nothing => &[],
            Last::Outcome(outcome) => &outcome.output_shapes,
            Last::Packet => self.answer().map_or(&[], |answer| answer.output_shapes.as_slice()),
            Last::Here => self.here().map_or(&[], |here| here.reusable.output_shapes()),
        }
    }

    /// Returns the driver's timing of the last execution, if it was asked to measure.
    pub fn timing(&self) -> Timing {
        match &self.0.last {
            Last::Nothing => Timing::NONE,
            Last::Outcome(outcome) => outcome.timing,
            Last::Packet => self.answer().map_or(Timing::NONE, |answer| answer.timing),
            Last::Here => self.here().map_or(Timing::NONE, |here| here.timing),
        }
    }

    /// The driver's share of the last execution, as finely as it was told: to the nanosecond in a
    /// burst, to the microsecond elsewhere. `None` where it was not measured.
    pub fn time_in_driver(&self) -> Option<Duration> {
        let told = match &self.0.last {
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
        self.0.latency
    }

    /// Hands an output's bytes on as an input of the next execution, by exchanging their places and
    /// without copying: how state is carried from step to step.
    ///
    /// # Errors
    /// [`RuntimeError::Argument`] if there are no such arguments, their sizes differ, or the rows
    /// of one are padded.
    pub fn exchange(&mut self, output: usize, input: usize) -> Result<()> {
        let from = range_of(argument_of(Direction::Output, output, &self.0.request.outputs)?);
        let to = range_of(argument_of(Direction::Input, input, &self.0.request.inputs)?);
        let ends = [(Direction::Output, output), (Direction::Input, input)];
        if self.0.padded.iter().any(|padded| ends.iter().any(|&(which, at)| padded.is(which, at))) {
            let why = format!("output {output} or input {input} has padded rows");
            return Err(RuntimeError::Argument(why));
        }
        if from.len() != to.len() {
            return Err(RuntimeError::Argument(format!(
                "output {output} has {} bytes, input {input} {}",
                from.len(),
                to.len()
            )));
        }
        if let (Some(output), Some(input)) =
            (self.0.request.outputs.get_mut(output), self.0.request.inputs.get_mut(input))
        {
            std::mem::swap(&mut output.location, &mut input.location);
        }
        self.keep_outcome();
        self.0.packets.unset();
        self.0.current_here = None;
        Ok(())
    }

    /// The request that stands for the frame.
    pub fn request(&self) -> &Request {
        &self.0.request
    }

    pub(crate) fn finish(&mut self, outcome: ExecutionOutcome, latency: Duration) -> Result<()> {
        (self.0.last, self.0.latency) = (Last::Outcome(outcome), latency);
        self.check_pages()?;
        self.scatter()
    }

    fn answer(&self) -> Option<&BurstAnswer> {
        self.0.packets.answer()
    }

    /// Lets the outcome outlive the current packet's turn. Shapes of exchanged arguments are fully
    /// known, so nothing but the timing is worth keeping.
    fn keep_outcome(&mut self) {
        if matches!(self.0.last, Last::Packet | Last::Here) {
            let timing = self.timing();
            self.0.last = Last::Outcome(ExecutionOutcome { output_shapes: Vec::new(), timing });
        }
    }

    fn check_pages(&self) -> Result<()> {
        let lost = |place: &Place| place.mapping.get().is_some_and(|mapping| mapping.lost_pages());
        if self.0.places.iter().any(lost) {
            return Err(RuntimeError::Argument(
                "the frame's memory was truncated by somebody".into(),
            ));
        }
        Ok(())
    }

    #[inline]
    fn computed_bytes(&self, output: usize) -> Option<usize> {
        let shape = self.output_shapes().get(output)?;
        let element = (*self.0.output_elements.get(output)?)?;
        shape
            .dimensions
            .iter()
            .try_fold(element, |bytes, &extent| bytes.checked_mul(usize::try_from(extent).ok()?))
    }
}

#[inline]
fn argument_of(
    direction: Direction,
    index: usize,
    arguments: &[RequestArgument],
) -> Result<&RequestArgument> {
    arguments.get(index).ok_or_else(|| {
        RuntimeError::Argument(format!(
            "{direction} {index} asked for, the model has {}",
            arguments.len()
        ))
    })
}

/// The bytes of an argument within its pool.
#[inline]
fn range_of(argument: &RequestArgument) -> std::ops::Range<usize> {
    let start = usize::try_from(argument.location.offset).unwrap_or(usize::MAX);
    let length = usize::try_from(argument.location.length).unwrap_or(usize::MAX);
    start..start.saturating_add(length)
}

fn outside(direction: Direction, index: usize) -> RuntimeError {
    RuntimeError::Argument(format!(
        "{direction} {index} is not within its memory, or that is read-only"
    ))
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
