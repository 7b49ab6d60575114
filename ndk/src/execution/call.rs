//! The buffers of one execution: its arguments, and memory to carry those that are pointers.

use std::time::Duration;

use nnburst::InPlace;

use nnburst::hal::{
    self, DataLocation, Direction, ExecutionOptions, ExecutionOutcome, MeasureTiming, Operand,
    OutputShape, Request, TimePoint, Timing, bound,
};

use super::kept::{Again, Framed, Here, Staging};
use crate::c::{Bytes, BytesMut, OperandType};
use crate::compiled::{Compiled, Parameter};
use crate::error::{Code, Error, Result};
use crate::extension;
use crate::model::operand_of;

/// The arguments and options of one execution. Executions of a compilation hand their calls on, so
/// that from the second on nothing is allocated.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) inputs: Vec<Argument<Bytes>>,
    pub(crate) outputs: Vec<Argument<BytesMut>>,
    pub(crate) measure: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) loop_timeout: Option<Duration>,
    pub(super) staging: Staging,
    pub(super) framed: Option<Framed>,
    pub(super) here: Option<Here>,
    pub(super) in_place: Option<InPlace>,
    pub(super) again: Option<Again>,
    pub(super) request: Request,
    /// As they came out: one per output, or none where they are those asked for.
    pub(crate) shapes: Vec<OutputShape>,
    pub(crate) timing: Timing,
    /// When the driver is to be done, once it was launched.
    pub(super) deadline: Option<TimePoint>,
    /// True if it is over and one of those that keep their memory.
    pub(crate) keeps_memory: bool,
}

/// An input or output, and where it is.
#[derive(Debug)]
pub(crate) struct Argument<P> {
    pub(crate) source: ArgumentPlace<P>,
    /// As given by the caller; empty where the model's hold.
    pub(crate) dimensions: Vec<u32>,
}

/// The place of an argument.
#[derive(Debug)]
pub(crate) enum ArgumentPlace<P> {
    Unset,
    Omitted,
    Pointer { bytes: P, length: u32 },
    Memory { memory: nnburst::Memory, place: DataLocation },
}

impl<P> ArgumentPlace<P> {
    pub(super) fn memory(&self) -> Option<&nnburst::Memory> {
        match self {
            Self::Memory { memory, .. } => Some(memory),
            Self::Unset | Self::Omitted | Self::Pointer { .. } => None,
        }
    }
}

impl<P> Argument<P> {
    const fn new() -> Self {
        Self { source: ArgumentPlace::Unset, dimensions: Vec::new() }
    }

    fn clear(&mut self) {
        self.source = ArgumentPlace::Unset;
        self.dimensions.clear();
    }

    /// The shape, as far as it is known before the execution.
    pub(crate) fn shape<'a>(&'a self, operand: &'a Operand) -> &'a [u32] {
        if self.dimensions.is_empty() { &operand.dimensions } else { &self.dimensions }
    }

    /// # Errors
    /// `BAD_STATE` for an argument that was given before.
    #[inline]
    fn check_unset(&self) -> Result<()> {
        if matches!(self.source, ArgumentPlace::Unset) {
            return Ok(());
        }
        Err(Error::state("the argument is given already"))
    }

    /// Settles where the argument is.
    #[inline]
    fn set(&mut self, source: ArgumentPlace<P>, kind: Option<&OperandType>) -> Result<()> {
        self.check_unset()?;
        self.source = source;
        if kind.is_some() {
            self.dimensions.extend_from_slice(given(kind)?);
        }
        Ok(())
    }

    fn set_memory(
        &mut self,
        parameter: &Parameter,
        kind: Option<&OperandType>,
        memory: nnburst::Memory,
        place: DataLocation,
    ) -> Result<()> {
        self.check_unset()?;
        // What is used whole may have a size that its format settles.
        if (place.offset, place.length) != (0, 0) {
            check_length(parameter, kind, place.length)?;
        }
        self.set(ArgumentPlace::Memory { memory, place }, kind)
    }

    #[inline]
    fn set_pointer(
        &mut self,
        parameter: &Parameter,
        kind: Option<&OperandType>,
        bytes: P,
        length: usize,
    ) -> Result<()> {
        let length = u32::try_from(length)
            .map_err(|_| Error::data(format!("{length} bytes are beyond 4 GiB")))?;
        self.check_unset()?;
        if length == 0 {
            return Err(Error::data("a buffer of no bytes"));
        }
        check_length(parameter, kind, length)?;
        self.set(ArgumentPlace::Pointer { bytes, length }, kind)
    }
}

impl Call {
    pub(crate) fn new(ready: &Compiled) -> Self {
        let inputs = ready.compilation.inputs().iter().map(|_| Argument::new()).collect();
        let outputs = ready.compilation.outputs().iter().map(|_| Argument::new()).collect();
        Self {
            inputs,
            outputs,
            measure: false,
            timeout: None,
            loop_timeout: None,
            staging: Staging::default(),
            framed: None,
            here: None,
            in_place: None,
            again: None,
            request: Request::default(),
            shapes: Vec::new(),
            timing: Timing::NONE,
            deadline: None,
            keeps_memory: false,
        }
    }

    /// As new, but for memory that can be used again.
    pub(crate) fn clear(&mut self) {
        self.inputs.iter_mut().for_each(Argument::clear);
        self.outputs.iter_mut().for_each(Argument::clear);
        (self.measure, self.timeout, self.loop_timeout) = (false, None, None);
        // The memories are their owner's: a handle kept here would keep them from going.
        self.request.pools.clear();
        self.shapes.clear();
        (self.timing, self.deadline) = (Timing::NONE, None);
    }

    /// Takes what another call, which is over, carried its arguments in.
    pub(crate) fn take_memory_of(&mut self, other: &mut Self) {
        self.staging = std::mem::take(&mut other.staging);
        (self.framed, self.here, self.again) =
            (other.framed.take(), other.here.take(), other.again.take());
        self.in_place = other.in_place.take();
        self.request = std::mem::take(&mut other.request);
    }

    /// Lets go of what it carried its arguments in: a driver that has not answered may be at work
    /// on it.
    pub(super) fn abandon_memory(&mut self) {
        self.staging = Staging::default();
        (self.framed, self.here, self.again) = (None, None, None);
        self.request.pools.clear();
    }

    #[inline]
    pub(crate) fn set_input(
        &mut self,
        ready: &Compiled,
        index: u32,
        kind: Option<&OperandType>,
        bytes: Bytes,
        length: usize,
    ) -> Result<()> {
        let parameter = ready.input(index)?;
        check_type(parameter, kind, bytes.is_null())?;
        let input = at(&mut self.inputs, index)?;
        if bytes.is_null() {
            return input.set(ArgumentPlace::Omitted, None);
        }
        input.set_pointer(parameter, kind, bytes, length)
    }

    #[inline]
    pub(crate) fn set_output(
        &mut self,
        ready: &Compiled,
        index: u32,
        kind: Option<&OperandType>,
        bytes: BytesMut,
        length: usize,
    ) -> Result<()> {
        let parameter = ready.output(index)?;
        check_type(parameter, kind, true)?;
        let output = at(&mut self.outputs, index)?;
        if bytes.is_null() {
            return output.set(ArgumentPlace::Omitted, None);
        }
        output.set_pointer(parameter, kind, bytes, length)
    }

    pub(crate) fn set_input_memory(
        &mut self,
        ready: &Compiled,
        index: u32,
        kind: Option<&OperandType>,
        memory: nnburst::Memory,
        range: (usize, usize),
    ) -> Result<()> {
        let parameter = ready.input(index)?;
        check_type(parameter, kind, false)?;
        let place = place(ready, Direction::Input, index, &memory, given(kind)?, range.0, range.1)?;
        at(&mut self.inputs, index)?.set_memory(parameter, kind, memory, place)
    }

    pub(crate) fn set_output_memory(
        &mut self,
        ready: &Compiled,
        index: u32,
        kind: Option<&OperandType>,
        memory: nnburst::Memory,
        range: (usize, usize),
    ) -> Result<()> {
        let parameter = ready.output(index)?;
        check_type(parameter, kind, true)?;
        let place =
            place(ready, Direction::Output, index, &memory, given(kind)?, range.0, range.1)?;
        at(&mut self.outputs, index)?.set_memory(parameter, kind, memory, place)
    }

    /// Returns whether everything is there that an execution takes.
    ///
    /// # Errors
    /// `BAD_DATA` for an argument that was not given, `OP_FAILED` for an input in a memory that
    /// holds no value, or one of another shape.
    pub(crate) fn check(&self, ready: &Compiled) -> Result<()> {
        for (input, operand) in self.inputs.iter().zip(ready.compilation.inputs()) {
            match &input.source {
                ArgumentPlace::Unset => return Err(Error::data("an input is not given")),
                ArgumentPlace::Memory { memory, .. } if memory.has_roles() => {
                    memory.check_input(input.shape(operand))?;
                }
                ArgumentPlace::Omitted
                | ArgumentPlace::Pointer { .. }
                | ArgumentPlace::Memory { .. } => {}
            }
        }
        if self.outputs.iter().any(|output| matches!(output.source, ArgumentPlace::Unset)) {
            return Err(Error::data("an output is not given"));
        }
        Ok(())
    }

    /// Returns whether the model says the shapes of all outputs, as fenced executions need it.
    ///
    /// # Errors
    /// `BAD_DATA` naming the output that it leaves open.
    pub(crate) fn check_outputs_are_known(&self, ready: &Compiled) -> Result<()> {
        for (at, (output, operand)) in
            self.outputs.iter().zip(ready.compilation.outputs()).enumerate()
        {
            let is_omitted = matches!(output.source, ArgumentPlace::Omitted);
            if !is_omitted && extension::is_open(operand) {
                let shape = &operand.dimensions;
                return Err(Error::data(format!("the model leaves output {at} open: {shape:?}")));
            }
        }
        Ok(())
    }

    /// Returns whether it asks for more than results.
    pub(super) fn has_options(&self) -> bool {
        self.measure || self.timeout.is_some() || self.loop_timeout.is_some()
    }

    /// The options of an execution that starts now.
    pub(crate) fn options(&self) -> ExecutionOptions {
        ExecutionOptions {
            measure: if self.measure { MeasureTiming::Yes } else { MeasureTiming::No },
            deadline: bound::earlier(self.timeout.map(TimePoint::after), bound::bound()),
            loop_timeout: self.loop_timeout,
        }
    }

    /// Notes how the execution ended: shapes, times, and what memories hold now.
    pub(crate) fn settle(
        &mut self,
        ready: &Compiled,
        outcome: std::result::Result<ExecutionOutcome, nnburst::RuntimeError>,
    ) -> Result<()> {
        let result = match outcome {
            Ok(outcome) => {
                self.timing = outcome.timing;
                self.shapes = outcome.output_shapes;
                self.check_shapes(ready)
            }
            Err(nnburst::RuntimeError::OutputTooSmall { error, shapes }) => {
                self.shapes = shapes;
                self.check_shapes(ready).and_then(|()| Err(error.into()))
            }
            Err(error) => {
                if error.is_deadline_missed() {
                    self.abandon_memory();
                }
                Err(Error::from(error).of_execution())
            }
        };
        let noted = self.note_contents(ready, result.is_ok());
        result.and(noted)
    }

    /// A driver may fill in what was unknown about a shape, to the model or to the caller, and
    /// nothing else.
    fn check_shapes(&self, ready: &Compiled) -> Result<()> {
        ready.compilation.check_shapes(&self.shapes)?;
        let outputs = self.outputs.iter().zip(ready.compilation.outputs());
        let fits = outputs.zip(&self.shapes).all(|((output, operand), told)| {
            hal::extends_shape(&output.dimensions, &told.dimensions)
                && extension::data_size_of(operand.kind, &told.dimensions).is_ok()
        });
        if fits {
            return Ok(());
        }
        Err(Error::new(Code::OpFailed, "the driver reports invalid output shapes"))
    }

    /// Memory from a descriptor remembers what was written to it.
    pub(crate) fn note_contents(&self, ready: &Compiled, good: bool) -> Result<()> {
        let mut noted: std::result::Result<(), nnburst::RuntimeError> = Ok(());
        for (at, (output, operand)) in
            self.outputs.iter().zip(ready.compilation.outputs()).enumerate()
        {
            let ArgumentPlace::Memory { memory, .. } = &output.source else { continue };
            if !memory.has_roles() {
                continue;
            }
            let computed = self.shapes.get(at).map(|shape| shape.dimensions.as_slice());
            let shape = computed.unwrap_or_else(|| output.shape(operand));
            let fits = if good { memory.check_output(shape) } else { Ok(()) };
            memory.written((good && fits.is_ok()).then_some(shape));
            noted = noted.and(fits);
        }
        Ok(noted?)
    }
}

#[inline]
fn at<P>(arguments: &mut [Argument<P>], index: u32) -> Result<&mut Argument<P>> {
    let argument = usize::try_from(index).ok().and_then(|at| arguments.get_mut(at));
    argument.ok_or_else(|| Error::data(format!("there is no argument {index}")))
}

/// Returns the place of an argument in a memory, which takes it.
fn place(
    ready: &Compiled,
    direction: Direction,
    index: u32,
    memory: &nnburst::Memory,
    shape: &[u32],
    offset: usize,
    length: usize,
) -> Result<DataLocation> {
    let narrow = |size: usize| {
        u32::try_from(size).map_err(|_| Error::data(format!("{size} is beyond 32 bits")))
    };
    let (offset, length) = (narrow(offset)?, narrow(length)?);
    let argument = usize::try_from(index).unwrap_or(usize::MAX);
    let mut place = memory.place(&ready.compilation, direction, argument, offset, length)?;
    if memory.has_roles() {
        memory.check_output(shape).map_err(|error| Error::data(error.to_string()))?;
        if let Some(shared) = memory.shared() {
            // Drivers are told the length of what is shared with them.
            place.length = u32::try_from(shared.size()).unwrap_or(u32::MAX);
        }
    }
    Ok(place)
}

/// The dimensions that a caller gives.
fn given(kind: Option<&OperandType>) -> Result<&[u32]> {
    match kind {
        Some(kind) if kind.dimension_count > 0 => {
            kind.dimensions.elements(kind.dimension_count, "dimensions")
        }
        _ => Ok(&[]),
    }
}

/// Returns whether an argument may be of the type and shape that the caller gives for it, or where
/// none is given, of the model's.
#[inline]
fn check_type(parameter: &Parameter, kind: Option<&OperandType>, may_be_open: bool) -> Result<()> {
    match kind {
        None if may_be_open || !parameter.is_open => Ok(()),
        None => {
            let shape = &parameter.operand.dimensions;
            Err(Error::data(format!("the model leaves the shape open: {shape:?}")))
        }
        Some(kind) => check_given_type(&parameter.operand, kind, may_be_open),
    }
}

fn check_given_type(operand: &Operand, kind: &OperandType, may_be_open: bool) -> Result<()> {
    let given = operand_of(kind)?;
    if !may_be_open && extension::is_open(&given) {
        return Err(Error::data(format!("the shape is not complete: {:?}", given.dimensions)));
    }
    let known = &operand.dimensions;
    if hal::extends_shape(known, &given.dimensions) {
        return Ok(());
    }
    Err(Error::data(format!("shape {:?} given, the model has {known:?}", given.dimensions)))
}

/// Returns whether an argument of this length holds a value of the shape that is given for it, else
/// of the model's, whose size is known; as far as the shape is.
#[inline]
fn check_length(parameter: &Parameter, kind: Option<&OperandType>, length: u32) -> Result<()> {
    let type_code = parameter.operand.kind;
    let needed = match kind {
        None => parameter.size,
        Some(_) if type_code == hal::OperandType::Oem => 0,
        Some(_) => extension::data_size_of(type_code, given(kind)?)?,
    };
    if needed == 0 || needed == u64::from(length) {
        return Ok(());
    }
    Err(Error::data(format!("{length} bytes given, {needed} needed")))
}
