//! The builder that an operation is lowered with.

use std::sync::Arc;

use half::f16;
use nnburst_hal::{
    Charge, ExtraParams, FusedActivation, Operand, OperandType, Operation, OperationType,
};
use nnburst_kernels::kernels::Precision;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::memory::claim;
use nnburst_kernels::tensor::{AlignedBytes, NoMemory, OpError, Shape, Tensor};

use super::draft::{Draft, DraftPlace, DraftStep};
use super::state::{State, Storage, ValueId};
use crate::lowering::context::Context;
use crate::lowering::step::{DynamicTarget, RunDynamic};

/// Why lowering an operation ends before its end.
///
/// Operations pass it on with `?`; only [`OpError`]s are made by them.
#[derive(Debug)]
pub struct Stop(pub(crate) Reason);

pub(crate) enum Reason {
    /// A rule is broken.
    Error(OpError),
    /// There is no memory for its tables.
    NoMemory(NoMemory),
    /// The rest depends on a value that is known at run time alone.
    Value(ValueId),
    /// The outputs' shapes are known once the operation has run.
    Dynamic(Box<DynamicDraft>),
}

/// An operation whose output shapes are known when it has run, before the arena is laid out.
pub(crate) struct DynamicDraft {
    pub(crate) step: DraftStep,
    pub(crate) run: Box<dyn RunDynamic>,
    pub(crate) outputs: Vec<DynamicTarget>,
}

impl std::fmt::Debug for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(error) => f.debug_tuple("Error").field(error).finish(),
            Self::NoMemory(error) => f.debug_tuple("NoMemory").field(error).finish(),
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

impl From<NoMemory> for Stop {
    fn from(error: NoMemory) -> Self {
        Self(Reason::NoMemory(error))
    }
}

/// The result of lowering an operation.
pub type Lowered<T = ()> = Result<T, Stop>;

/// An operation being lowered: looks at operands, states the outputs' shapes, emits steps.
///
/// Inputs and outputs go by their position in the operation, here and later in
/// [`Io`](crate::lowering::Io).
#[derive(Debug)]
pub struct OpBuilder<'a> {
    pub(crate) context: &'a Context,
    pub(crate) graph: usize,
    pub(crate) operation: &'a Operation,
    pub(crate) index: usize,
    /// Values of the graph's operands.
    pub(crate) map: &'a [ValueId],
    pub(crate) state: &'a mut State,
    pub(crate) draft: &'a mut Draft,
    /// Inputs that are wholly in what was packed.
    pub(crate) absorbed: Vec<usize>,
    /// Inputs that steps read other values for.
    pub(crate) instead: Vec<(usize, ValueId)>,
}

/// Returns whether the steps of an operation keep tables as long as operands that need not be
/// constants.
fn is_recurrent(kind: OperationType) -> bool {
    use OperationType as Op;
    matches!(
        kind,
        Op::Lstm
            | Op::Rnn
            | Op::Svdf
            | Op::BidirectionalSequenceLstm
            | Op::BidirectionalSequenceRnn
            | Op::UnidirectionalSequenceLstm
            | Op::UnidirectionalSequenceRnn
    )
}

/// Bytes of tables that a kernel may keep for each row, column or channel of an operand.
const TABLE_BYTES: usize = 16;

/// Copies of constant operands that lowering may hold at a time, packed weights apart.
const COPIES: usize = 4;

impl OpBuilder<'_> {
    /// Charges what lowering the operation may take beside packed weights: tables as long as an
    /// operand's extents for as long as the stage stays, copies of constants as long as the
    /// returned charge.
    pub(crate) fn claim_lowering(&mut self) -> Result<Option<Charge>, NoMemory> {
        let has_tables = is_recurrent(self.kind());
        let (mut tables, mut copies) = (0usize, 0usize);
        for &operand in &self.operation.inputs {
            let Some(value) = self.map.get(operand as usize) else { continue };
            let value = &self.state.values[*value];
            let shape = value.shape.iter().filter(|_| has_tables);
            let extents = shape.flat_map(|shape| shape.iter());
            tables = extents.fold(tables, |sum, &extent| sum.saturating_add(extent));
            if let Storage::Constant(bytes) = &value.storage {
                copies = copies.saturating_add(bytes.len());
            }
        }
        self.claim_tables(tables.saturating_mul(TABLE_BYTES))?;
        claim(copies.saturating_mul(COPIES), self.context.budget.as_ref())
    }

    /// Charges tables of so many bytes that the steps of this operation keep, before they are made.
    fn claim_tables(&mut self, bytes: usize) -> Result<(), NoMemory> {
        /// Less comes with the operation.
        const FEW: usize = 16 << 10;
        if bytes >= FEW {
            self.draft.claims.extend(claim(bytes, self.context.budget.as_ref())?);
        }
        Ok(())
    }

    /// As the operation is about to make tables of so many bytes, or to take as many from the
    /// allocator in a run.
    pub(crate) fn claim(&mut self, bytes: usize) -> Lowered {
        self.claim_tables(bytes).map_err(Stop::from)
    }

    /// The operation.
    pub fn kind(&self) -> OperationType {
        self.operation.kind
    }

    /// Returns the number of inputs of the model, those left out included.
    pub fn input_count(&self) -> usize {
        self.operation.inputs.len()
    }

    /// Returns the number of outputs of the model.
    pub fn output_count(&self) -> usize {
        self.operation.outputs.len()
    }

    /// The best instruction set that kernels may use.
    pub fn isa(&self) -> Isa {
        self.context.isa
    }

    /// The precision of float GEMMs.
    pub(crate) fn precision(&self) -> Precision {
        self.context.precision
    }

    /// Returns the number of threads that may work on one step.
    pub fn threads(&self) -> usize {
        self.context.threads
    }

    /// Returns whether the input is there: neither beyond the list nor left out by the model or the
    /// request.
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

    /// An input's bytes, whatever they come from: for what shapes depend on. Where they are
    /// computed or given with the request, the operation is lowered again once they are known, and
    /// again when they change; so this is for few and small operands, asked for before anything is
    /// emitted.
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
        Ok(self.int32_value(index)?.typed::<i32>().to_vec())
    }

    fn int32_value(&self, index: usize) -> Lowered<Arc<AlignedBytes>> {
        match self.input_kind(index)? {
            OperandType::TensorInt32 | OperandType::Int32 => self.value(index),
            kind => Err(OpError::input(index, format!("is {kind} and not of int32")).into()),
        }
    }

    /// The value of an INT32 scalar; see [`OpBuilder::value`].
    ///
    /// # Errors
    /// As there, or it is of another type.
    pub fn i32(&self, index: usize) -> Lowered<i32> {
        let missing = || OpError::input(index, "has no element").into();
        self.int32_value(index)?.typed::<i32>().first().copied().ok_or_else(missing)
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

    /// The activation of output 0: the declared one or, where that is none and a RELU, RELU1 or
    /// RELU6 is all that reads the output, the one of that operation, which then has nothing left
    /// to do.
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

    /// Returns whether what computed input 0 has done what this operation is for.
    pub(crate) fn is_activated(&self) -> bool {
        let value = self.input_value(0).map(|value| self.state.values[value].activated);
        value == Ok(Some(self.kind()))
    }

    /// Returns the parameters that an extension adds to an input's type.
    ///
    /// # Errors
    /// The list is shorter.
    pub fn input_params(&self, index: usize) -> Result<&ExtraParams, OpError> {
        self.input_operand(index).map(|operand| &operand.extra_params)
    }

    /// Returns the parameters that an extension adds to an output's type.
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

    /// Returns whether the request left an output out; its steps then write into memory nobody
    /// reads.
    pub fn has_output(&self, index: usize) -> bool {
        index < self.output_count()
    }

    pub(crate) fn place_of(&self, value: ValueId, kind: OperandType) -> DraftPlace {
        DraftPlace::of(&self.state.values[value], kind, &self.context.types)
    }

    pub(crate) fn input_operand(&self, index: usize) -> Result<&Operand, OpError> {
        let operand = self.operation.inputs.get(index);
        let operand = operand.ok_or_else(|| OpError::input(index, "is missing"))?;
        Ok(&self.context.graphs[self.graph].operands[*operand as usize])
    }

    pub(crate) fn output_operand(&self, index: usize) -> Result<&Operand, OpError> {
        let operand = self.operation.outputs.get(index);
        let operand = operand.ok_or_else(|| OpError::output(index, "is missing"))?;
        Ok(&self.context.graphs[self.graph].operands[*operand as usize])
    }

    pub(crate) fn input_value(&self, index: usize) -> Result<ValueId, OpError> {
        let operand = self.operation.inputs.get(index);
        let operand = operand.ok_or_else(|| OpError::input(index, "is missing"))?;
        Ok(self.map[*operand as usize])
    }

    pub(crate) fn output_value(&self, index: usize) -> Result<ValueId, OpError> {
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
