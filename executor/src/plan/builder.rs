//! What an operation sees while it is lowered.

use std::ops::Range;
use std::sync::Arc;

use half::f16;
use nnburst_hal::{
    ChannelQuant, ExtraParams, FusedActivation, Operand, OperandType, Operation, OperationType,
};

use super::Context;
use super::draft::{Draft, DraftPlace, DraftStep};
use super::fuse::Part;
use super::pieces::Pieces;
use super::stage::{DynamicOutput, DynamicTarget, Label, Work};
use super::state::{Border, State, Storage, ValueId};
use crate::error::OpError;
use crate::io::{Io, share_stride};
use crate::kernels::Isa;
use crate::kernels::chain::{Combine, Lines};
use crate::memory::AlignedBytes;
use crate::shape::{Shape, merge};

/// Why lowering an operation ends before its end.
///
/// Operations pass it on with `?`; only [`OpError`]s are made by them.
#[derive(Debug)]
pub struct Stop(pub(super) Reason);

pub(super) enum Reason {
    /// A rule is broken.
    Error(OpError),
    /// What follows depends on a value that is known at run time alone.
    Value(ValueId),
    /// The outputs' shapes are known once the operation has run.
    Dynamic(Box<DynamicDraft>),
}

/// An operation whose output shapes are known when it has run, before the arena is laid out.
pub(super) struct DynamicDraft {
    pub(super) step: DraftStep,
    pub(super) run: Box<super::stage::RunDynamic>,
    pub(super) outputs: Vec<DynamicTarget>,
}

impl std::fmt::Debug for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(error) => f.debug_tuple("Error").field(error).finish(),
            Self::Value(value) => f.debug_tuple("Value").field(value).finish(),
            Self::Dynamic(..) => f.write_str("Dynamic"),
        }
    }
}

impl From<OpError> for Stop {
    fn from(error: OpError) -> Self {
        Self(Reason::Error(error))
    }
}

/// What lowering an operation gives.
pub type Lowered<T = ()> = Result<T, Stop>;

/// An operand with its shape.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Scalar or tensor, and of what elements.
    pub kind: OperandType,
    /// Its extents, all known.
    pub shape: Shape,
    /// Quantisation scale; 0 for types without one.
    pub scale: f32,
    /// The stored value that stands for 0.
    pub zero_point: i32,
    /// Scales per channel, where it has them.
    pub channel_quant: Option<ChannelQuant>,
}

/// An operation being lowered: looks at operands, states the outputs' shapes, emits steps.
///
/// Inputs and outputs go by their position in the operation, here and later in [`Io`].
#[derive(Debug)]
pub struct OpBuilder<'a> {
    pub(super) context: &'a Context,
    pub(super) graph: usize,
    pub(super) operation: &'a Operation,
    pub(super) index: usize,
    /// Values of the graph's operands.
    pub(super) map: &'a [ValueId],
    pub(super) state: &'a mut State,
    pub(super) draft: &'a mut Draft,
    /// Inputs that are wholly in what was packed.
    pub(super) absorbed: Vec<usize>,
    /// Inputs that steps read other values for.
    pub(super) instead: Vec<(usize, ValueId)>,
}

impl OpBuilder<'_> {
    /// The operation.
    pub fn kind(&self) -> OperationType {
        self.operation.kind
    }

    /// How many inputs the model gives, those left out included.
    pub fn input_count(&self) -> usize {
        self.operation.inputs.len()
    }

    /// How many outputs the model takes.
    pub fn output_count(&self) -> usize {
        self.operation.outputs.len()
    }

    /// The best instruction set that kernels may use.
    pub fn isa(&self) -> Isa {
        self.context.isa
    }

    /// How many threads may work on one step.
    pub fn threads(&self) -> usize {
        self.context.threads
    }

    /// Whether the input is there: neither beyond the list nor left out by the model or the request.
    pub fn has_input(&self, index: usize) -> bool {
        let value = self.input_value(index);
        value.is_ok_and(|value| !matches!(self.state.values[value].storage, Storage::Omitted))
    }

    /// Type of an input that is in the list, left out or not.
    ///
    /// # Errors
    /// The list is shorter.
    pub fn input_kind(&self, index: usize) -> Result<OperandType, OpError> {
        self.input_operand(index).map(|operand| operand.kind)
    }

    /// An input that must be there, with its shape.
    ///
    /// # Errors
    /// It is missing, or a constant of another length than its shape says.
    pub fn input(&self, index: usize) -> Result<Tensor, OpError> {
        let operand = self.input_operand(index)?;
        let value = &self.state.values[self.input_value(index)?];
        if let Storage::Omitted = value.storage {
            return Err(OpError::input(index, "is left out but required"));
        }
        let Some(shape) = value.shape.clone() else {
            return Err(OpError::input(index, "is read before anything computes it"));
        };
        if let (Storage::Constant(bytes), Some(element)) =
            (&value.storage, self.context.types.element_bytes(operand.kind))
        {
            let need = shape.elements() * element;
            if bytes.len() != need {
                let what =
                    format!("{:?} takes {need} bytes, the constant has {}", shape, bytes.len());
                return Err(OpError::input(index, what));
            }
        }
        Ok(tensor(operand, shape))
    }

    /// An input that may be left out.
    ///
    /// # Errors
    /// As for [`OpBuilder::input`], but for being left out.
    pub fn optional_input(&self, index: usize) -> Result<Option<Tensor>, OpError> {
        if self.has_input(index) { self.input(index).map(Some) } else { Ok(None) }
    }

    /// An input's bytes if they are constant: for packing weights ahead. See [`OpBuilder::value`].
    pub fn constant(&self, index: usize) -> Option<Arc<AlignedBytes>> {
        match &self.state.values[self.input_value(index).ok()?].storage {
            Storage::Constant(bytes) => Some(Arc::clone(bytes)),
            _ => None,
        }
    }

    /// An input's bytes, whatever they come from: for what shapes depend on. Where they are computed or
    /// given with the request, the operation is lowered again once they are known, and again when
    /// they change; so this is for few and small operands, asked for before anything is emitted.
    ///
    /// # Errors
    /// The input is missing, or [`Stop`]: pass it on.
    pub fn value(&self, index: usize) -> Lowered<Arc<AlignedBytes>> {
        self.input(index)?;
        let value = self.input_value(index)?;
        if let Storage::Constant(bytes) = &self.state.values[value].storage {
            return Ok(Arc::clone(bytes));
        }
        match self.state.known.get(&value) {
            Some(bytes) => Ok(Arc::clone(bytes)),
            None => Err(Stop(Reason::Value(value))),
        }
    }

    /// The value of an INT32 tensor or scalar; see [`OpBuilder::value`].
    ///
    /// # Errors
    /// As there, or it is of another type.
    pub fn i32s(&self, index: usize) -> Lowered<Vec<i32>> {
        match self.input_kind(index)? {
            OperandType::TensorInt32 | OperandType::Int32 => {
                Ok(self.value(index)?.typed::<i32>().to_vec())
            }
            kind => Err(OpError::input(index, format!("is {kind} and not of int32")).into()),
        }
    }

    /// The value of an INT32 scalar; see [`OpBuilder::value`].
    ///
    /// # Errors
    /// As there, or it is of another type.
    pub fn i32(&self, index: usize) -> Lowered<i32> {
        let missing = || OpError::input(index, "has no element").into();
        self.i32s(index)?.first().copied().ok_or_else(missing)
    }

    /// The value of an INT32 scalar that must be at least `least`.
    ///
    /// # Errors
    /// As for [`OpBuilder::i32`], or it is less.
    pub fn extent(&self, index: usize, least: usize) -> Lowered<usize> {
        let value = self.i32(index)?;
        usize::try_from(value)
            .ok()
            .filter(|&value| value >= least)
            .ok_or_else(|| OpError::input(index, format!("is {value}, less than {least}")).into())
    }

    /// The value of a BOOL scalar; any byte but 0 is true.
    ///
    /// # Errors
    /// As for [`OpBuilder::value`], or it is of another type.
    pub fn bool(&self, index: usize) -> Lowered<bool> {
        match self.input_kind(index)? {
            OperandType::Bool => Ok(self.value(index)?.as_slice().first().is_some_and(|&b| b != 0)),
            kind => Err(OpError::input(index, format!("is {kind} and not BOOL")).into()),
        }
    }

    /// The layout flag at the end of an operation's list: true is NCHW; left out is NHWC.
    ///
    /// # Errors
    /// As for [`OpBuilder::bool`].
    pub fn nchw(&self, index: usize) -> Lowered<bool> {
        if self.has_input(index) { self.bool(index) } else { Ok(false) }
    }

    /// The value of a FLOAT32 or FLOAT16 scalar.
    ///
    /// # Errors
    /// As for [`OpBuilder::value`], or it is of another type.
    pub fn f32(&self, index: usize) -> Lowered<f32> {
        let value = match self.input_kind(index)? {
            OperandType::Float32 => self.value(index)?.typed::<f32>().first().copied(),
            OperandType::Float16 => {
                self.value(index)?.typed::<f16>().first().copied().map(f16::to_f32)
            }
            kind => return Err(OpError::input(index, format!("is {kind} and not float")).into()),
        };
        value.ok_or_else(|| OpError::input(index, "has no element").into())
    }

    /// The value of a fused activation.
    ///
    /// # Errors
    /// As for [`OpBuilder::i32`], or it is none of the four.
    pub fn activation(&self, index: usize) -> Lowered<FusedActivation> {
        let code = self.i32(index)?;
        FusedActivation::try_from(code)
            .map_err(|_| OpError::input(index, format!("{code} is no fused activation")).into())
    }

    /// The activation of output 0: the declared one or, where that is none and a RELU, RELU1 or RELU6 is all
    /// that reads the output, the one of that operation, which then has nothing left to do.
    ///
    /// # Errors
    /// As for [`OpBuilder::activation`].
    pub fn fused_activation(&mut self, index: usize) -> Lowered<FusedActivation> {
        let declared = self.activation(index)?;
        if declared != FusedActivation::None || self.context.apart {
            return Ok(declared);
        }
        let Some((kind, activation)) = self.activation_behind() else { return Ok(declared) };
        let value = self.output_value(0)?;
        self.state.values[value].activated = Some(kind);
        Ok(activation)
    }

    /// The activation that alone reads output 0 and gives the same type.
    fn activation_behind(&self) -> Option<(OperationType, FusedActivation)> {
        let graph = &self.context.graphs[self.graph];
        let operand = *self.operation.outputs.first()?;
        let reader = &graph.operations[graph.only_reader(operand)?];
        let activation = match reader.kind {
            OperationType::Relu => FusedActivation::Relu,
            OperationType::Relu1 => FusedActivation::Relu1,
            OperationType::Relu6 => FusedActivation::Relu6,
            _ => return None,
        };
        let [from, to] = [operand, *reader.outputs.first()?].map(|it| &graph.operands[it as usize]);
        let same = from.kind == to.kind
            && from.scale.to_bits() == to.scale.to_bits()
            && from.zero_point == to.zero_point;
        same.then_some((reader.kind, activation))
    }

    /// Whether what computed input 0 has done what this operation is for.
    pub(crate) fn is_activated(&self) -> bool {
        let value = self.input_value(0).map(|value| self.state.values[value].activated);
        value == Ok(Some(self.kind()))
    }

    /// What an extension adds to an input's type.
    ///
    /// # Errors
    /// The list is shorter.
    pub fn input_params(&self, index: usize) -> Result<&ExtraParams, OpError> {
        self.input_operand(index).map(|operand| &operand.extra_params)
    }

    /// What an extension adds to an output's type.
    ///
    /// # Errors
    /// The list is shorter.
    pub fn output_params(&self, index: usize) -> Result<&ExtraParams, OpError> {
        self.output_operand(index).map(|operand| &operand.extra_params)
    }

    /// An output as declared: type and quantisation; its shape is empty until it is set.
    ///
    /// # Errors
    /// The list is shorter.
    pub fn output(&self, index: usize) -> Result<Tensor, OpError> {
        let operand = self.output_operand(index)?;
        let value = &self.state.values[self.output_value(index)?];
        Ok(tensor(operand, value.shape.clone().unwrap_or_default()))
    }

    /// Whether the request left an output out; its steps then write into memory nobody reads.
    pub fn has_output(&self, index: usize) -> bool {
        index < self.output_count()
    }

    /// States the shape of an output. Every output needs one before steps are emitted.
    ///
    /// # Errors
    /// It contradicts the declared extents, or takes more than 2^32 - 1 bytes.
    pub fn set_output(&mut self, index: usize, shape: Shape) -> Result<(), OpError> {
        let kind = self.output_operand(index)?.kind;
        let element = self.context.types.element_bytes(kind);
        let element =
            element.ok_or_else(|| OpError::output(index, format!("{kind} has no known size")))?;
        self.set_output_sized(index, shape, element)
    }

    /// As [`OpBuilder::set_output`], for types whose element size an extension knows.
    ///
    /// # Errors
    /// As there.
    pub fn set_output_sized(
        &mut self,
        index: usize,
        shape: Shape,
        element_bytes: usize,
    ) -> Result<(), OpError> {
        let id = self.output_value(index)?;
        let value = &mut self.state.values[id];
        if let Some(declared) = value.declared.iter().find(|declared| !merge(declared, &shape)) {
            let what = format!("is of {shape:?}, declared as {declared:?}");
            return Err(OpError::output(index, what));
        }
        let bytes = shape.elements().checked_mul(element_bytes);
        let Some(bytes) = bytes.filter(|&bytes| u32::try_from(bytes).is_ok()) else {
            return Err(OpError::output(index, format!("{shape:?} takes more than 4 GiB")));
        };
        if let Some(output) = value.output {
            self.draft.know_output(output, &shape, bytes);
        }
        if let Storage::Unset = value.storage {
            value.storage = Storage::Local(self.draft.add_local(bytes));
        }
        value.shape = Some(shape);
        Ok(())
    }

    /// Makes an output, whose shape is set, the very bytes of an input: for what changes the shape alone.
    ///
    /// # Errors
    /// The two differ in size.
    pub fn alias(&mut self, output: usize, input: usize) -> Result<(), OpError> {
        let (from, to) = (self.input_value(input)?, self.output_value(output)?);
        let source = self.place_of(from, self.input_operand(input)?.kind);
        let target = self.place_of(to, self.output_operand(output)?.kind);
        if source.len() != target.len() {
            let what = format!("is of {} bytes, made of {}", target.len(), source.len());
            return Err(OpError::output(output, what));
        }
        match (&self.state.values[to].storage, &self.state.values[from].storage) {
            // A temporary: from now on another name of the source.
            (Storage::Local(_), storage) => self.state.values[to].storage = storage.clone(),
            _ => self.draft.copy(self.index, self.kind().name(), source, target),
        }
        Ok(())
    }

    /// Makes an output, whose shape is set, the bytes of input 0 from byte `start` on, if nothing speaks against it:
    /// the output is a temporary, and the input no constant. Whether it has.
    ///
    /// # Errors
    /// There is no such input or output.
    pub fn view(&mut self, output: usize, start: usize) -> Result<bool, OpError> {
        let (from, to) = (self.input_value(0)?, self.output_value(output)?);
        let source = self.place_of(from, self.input_operand(0)?.kind);
        let len = self.place_of(to, self.output_operand(output)?.kind).len();
        let fits = start.checked_add(len).is_some_and(|end| len > 0 && end <= source.len());
        let &Storage::Local(local) = &self.state.values[to].storage else { return Ok(false) };
        if !fits || self.context.apart {
            return Ok(false);
        }
        match source {
            DraftPlace::Slot { slot, offset, .. } => {
                self.state.values[to].storage = Storage::Arena { slot, offset: offset + start };
            }
            DraftPlace::Local { local: source, offset, .. } => {
                let home = DraftPlace::Local { local: source, offset: offset + start, len };
                self.draft.settle(local, home);
            }
            DraftPlace::Omitted | DraftPlace::Constant(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Notes that output 0 is input 0 between borders of zeros: so many at each end of each axis.
    pub(crate) fn set_border(&mut self, sides: &[(usize, usize)]) {
        if self.context.apart {
            return;
        }
        if let (Ok(from), Ok(to)) = (self.input_value(0), self.output_value(0)) {
            self.state.values[to].border = Some(Border { from, sides: sides.into() });
        }
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(Part::Border);
        }
    }

    /// The borders that input 0 has around it, none where it isn't known to have some.
    pub(crate) fn border(&self) -> Option<&[(usize, usize)]> {
        let value = &self.state.values[self.input_value(0).ok()?];
        let is_constant = matches!(value.storage, Storage::Constant(_));
        value.border.as_ref().filter(|_| !is_constant).map(|border| &*border.sides)
    }

    /// Has the operation's steps read what is within the borders of input 0 in its stead.
    pub(crate) fn read_within_border(&mut self) {
        let Ok(value) = self.input_value(0) else { return };
        if let Some(border) = &self.state.values[value].border {
            self.instead.push((0, border.from));
        }
    }

    /// Says that a constant input is wholly in what was packed: no step reads it (it looks left out there),
    /// nothing but packing has looked at its bytes, and a compilation cache can do without it.
    pub fn absorb(&mut self, input: usize) {
        if let (Some(_), Ok(_)) = (self.constant(input), self.input_value(input)) {
            self.absorbed.push(input);
        }
    }

    /// Adds a step that sees all of the operation's inputs and outputs, but for what was absorbed.
    pub fn emit(
        &mut self,
        label: Label,
        run: impl Fn(Io<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.emit_with_scratch(label, 0, run);
    }

    /// As [`OpBuilder::emit`], with scratch memory of the step's own.
    pub fn emit_with_scratch(
        &mut self,
        label: Label,
        scratch_bytes: usize,
        run: impl Fn(Io<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let step = self.step(label, scratch_bytes, 1, Work::Whole(Box::new(run)));
        self.draft.steps.push(step);
    }

    /// Adds a step whose work falls into `count` bands that may be computed in any order, also at the
    /// same time: rows of an image, blocks of a product. Between bands a run may be stopped, and
    /// [`OpBuilder::threads`] threads share them where that pays. `run` computes the bands it is given;
    /// each thread has `scratch_bytes` of its own. A result must not depend on how bands are grouped.
    pub fn emit_bands(
        &mut self,
        label: Label,
        scratch_bytes: usize,
        count: usize,
        run: impl Fn(Io<'_>, Range<usize>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let Pieces { pieces, shared } = Pieces::of(&label, count, self.threads());
        let work = Work::Bands { count, pieces, shared, run: Box::new(run) };
        let sharers = if shared { self.threads() } else { 1 };
        let step = self.step(label, scratch_bytes, sharers, work);
        self.draft.steps.push(step);
    }

    /// Says that the step just added is a convolution of input 0: it may be joined with its neighbours.
    pub(crate) fn join_lines(&mut self, lines: Arc<dyn Lines>) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(Part::Lines(lines));
        }
    }

    /// Says that the step just added is the sum of inputs 0 and 1, which are of the output's shape: it may be
    /// joined with a convolution ahead of it. `combine` computes any stretch of it, in place too.
    pub(crate) fn join_sum(&mut self, combine: Combine) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(Part::Sum(combine));
        }
    }

    /// Says that the step just added puts its first inputs one behind the other into output 0, each at an offset
    /// in bytes, and leaves out those that look left out: what computes them may put them there by itself.
    pub(crate) fn join_parts(&mut self, offsets: Vec<usize>) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.part = Some(Part::Join(offsets));
        }
    }

    /// Says that the step just added reads each element of these inputs, if they are of the output's size, before
    /// it writes the one of output 0 that lies at the same place: it may be written over them.
    pub fn in_place(&mut self, inputs: &'static [usize]) {
        if let Some(step) = self.draft.steps.last_mut() {
            step.in_place = inputs;
        }
    }

    /// Ends the operation with a computation that tells the outputs' shapes only when it has run.
    /// It gets the inputs and returns every output.
    ///
    /// # Errors
    /// Always [`Stop`]: return it.
    pub fn dynamic<T>(
        &mut self,
        label: Label,
        run: impl Fn(Io<'_>) -> Result<Vec<DynamicOutput>, String> + Send + Sync + 'static,
    ) -> Lowered<T> {
        let mut step = self.step(label, 0, 1, Work::Whole(Box::new(|_| Ok(()))));
        step.outputs.clear();
        let targets = (0..self.output_count())
            .map(|index| {
                let value = self.output_value(index)?;
                let info = &self.state.values[value];
                Ok(DynamicTarget { value, output: info.output, declared: info.declared.clone() })
            })
            .collect::<Result<Vec<_>, OpError>>()?;
        let draft = DynamicDraft { step, run: Box::new(run), outputs: targets };
        Err(Stop(Reason::Dynamic(Box::new(draft))))
    }

    fn step(
        &mut self,
        label: Label,
        scratch_bytes: usize,
        sharers: usize,
        work: Work,
    ) -> DraftStep {
        let graph = &self.context.graphs[self.graph];
        let places = |operands: &[u32]| {
            let place = |&operand: &u32| {
                let operand = operand as usize;
                self.place_of(self.map[operand], graph.operands[operand].kind)
            };
            operands.iter().map(place).collect::<Vec<_>>()
        };
        let (mut inputs, outputs) =
            (places(&self.operation.inputs), places(&self.operation.outputs));
        for &absorbed in &self.absorbed {
            if let Some(place) = inputs.get_mut(absorbed) {
                *place = DraftPlace::Omitted;
            }
        }
        for &(input, value) in &self.instead {
            if let (Some(place), Ok(operand)) = (inputs.get_mut(input), self.input_operand(input)) {
                *place = self.place_of(value, operand.kind);
            }
        }
        let scratch_share = scratch_bytes;
        let scratch = match share_stride(scratch_share) * (sharers - 1) + scratch_share {
            0 => DraftPlace::Omitted,
            len => DraftPlace::Local { local: self.draft.add_local(len), offset: 0, len },
        };
        let name = self.kind().name();
        DraftStep {
            index: self.index,
            name,
            label,
            inputs,
            outputs,
            scratch,
            scratch_share,
            work,
            part: None,
            in_place: &[],
        }
    }

    fn place_of(&self, value: ValueId, kind: OperandType) -> DraftPlace {
        DraftPlace::of(&self.state.values[value], kind, &self.context.types)
    }

    fn input_operand(&self, index: usize) -> Result<&Operand, OpError> {
        let operand = self.operation.inputs.get(index);
        let operand = operand.ok_or_else(|| OpError::input(index, "is missing"))?;
        Ok(&self.context.graphs[self.graph].operands[*operand as usize])
    }

    fn output_operand(&self, index: usize) -> Result<&Operand, OpError> {
        let operand = self.operation.outputs.get(index);
        let operand = operand.ok_or_else(|| OpError::output(index, "is missing"))?;
        Ok(&self.context.graphs[self.graph].operands[*operand as usize])
    }

    fn input_value(&self, index: usize) -> Result<ValueId, OpError> {
        let operand = self.operation.inputs.get(index);
        let operand = operand.ok_or_else(|| OpError::input(index, "is missing"))?;
        Ok(self.map[*operand as usize])
    }

    fn output_value(&self, index: usize) -> Result<ValueId, OpError> {
        let operand = self.operation.outputs.get(index);
        let operand = operand.ok_or_else(|| OpError::output(index, "is missing"))?;
        Ok(self.map[*operand as usize])
    }
}

fn tensor(operand: &Operand, shape: Shape) -> Tensor {
    Tensor {
        kind: operand.kind,
        shape,
        scale: operand.scale,
        zero_point: operand.zero_point,
        channel_quant: operand.channel_quant().cloned(),
    }
}
