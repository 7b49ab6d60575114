//! The weights of recurrent cells, by name: an LSTM has up to twenty of them.

use super::OperandId;
use super::arguments::{BuilderArgument, MaybeTensor, Push};

/// A tensor for each gate of an LSTM.
#[derive(Clone, Copy, Debug)]
pub struct Gates {
    /// Of the input gate; `None` in a cell that couples it with the forget gate (CIFG).
    pub input: Option<OperandId>,
    /// Of the forget gate.
    pub forget: OperandId,
    /// Of the cell gate, which makes the new content.
    pub cell: OperandId,
    /// Of the output gate.
    pub output: OperandId,
}

/// Weights from the cell's state to its gates.
#[derive(Clone, Copy, Debug)]
pub struct Peephole {
    /// To the input gate; `None` in a cell without one.
    pub input: Option<OperandId>,
    /// To the forget gate.
    pub forget: OperandId,
    /// To the output gate.
    pub output: OperandId,
}

/// Weights that make the output of a cell shorter than its state.
#[derive(Clone, Copy, Debug)]
pub struct OutputProjection {
    /// `[output, units]`.
    pub weights: OperandId,
    /// `[output]`.
    pub bias: Option<OperandId>,
}

/// The weights of an LSTM.
#[derive(Clone, Copy, Debug)]
pub struct LstmWeights {
    /// From the input: each `[units, inputs]`.
    pub input: Gates,
    /// From the output before: each `[units, outputs]`.
    pub recurrent: Gates,
    /// Each `[units]`.
    pub bias: Gates,
    /// Each `[units]`, in a cell that has them.
    pub peephole: Option<Peephole>,
    /// In a cell that has one.
    pub projection: Option<OutputProjection>,
}

impl LstmWeights {
    /// A cell without peephole and projection.
    pub fn new(input: Gates, recurrent: Gates, bias: Gates) -> Self {
        Self { input, recurrent, bias, peephole: None, projection: None }
    }
}

/// The state of an LSTM after the step before.
#[derive(Clone, Copy, Debug)]
pub struct LstmState {
    /// The output: `[batches, outputs]`.
    pub hidden: OperandId,
    /// The state of the cell: `[batches, units]`.
    pub cell: OperandId,
}

impl Push for LstmState {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.extend([self.hidden, self.cell].map(BuilderArgument::Operand));
    }
}

/// The weights of a plain recurrent cell, and its first state.
#[derive(Clone, Copy, Debug)]
pub struct RnnWeights {
    /// `[units, inputs]`.
    pub input: OperandId,
    /// `[units, units]`.
    pub recurrent: OperandId,
    /// `[units]`.
    pub bias: OperandId,
    /// The output before the first step: `[batches, units]`.
    pub hidden: OperandId,
}

impl Push for RnnWeights {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.extend(
            [self.input, self.recurrent, self.bias, self.hidden].map(BuilderArgument::Operand),
        );
    }
}

/// The function of a recurrent cell; the codes are not those of fused activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellActivation {
    /// As it is.
    None,
    /// max(x, 0).
    Relu,
    /// min(max(x, 0), 6).
    Relu6,
    /// The hyperbolic tangent.
    Tanh,
    /// The logistic function.
    Sigmoid,
}

impl Push for Gates {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        MaybeTensor::from(self.input).push(to);
        to.extend([self.forget, self.cell, self.output].map(BuilderArgument::Operand));
    }
}

impl Push for LstmWeights {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        self.input.push(to);
        self.recurrent.push(to);
        MaybeTensor::from(self.peephole.and_then(|peephole| peephole.input)).push(to);
        MaybeTensor::from(self.peephole.map(|peephole| peephole.forget)).push(to);
        MaybeTensor::from(self.peephole.map(|peephole| peephole.output)).push(to);
        self.bias.push(to);
        MaybeTensor::from(self.projection.map(|projection| projection.weights)).push(to);
        MaybeTensor::from(self.projection.and_then(|projection| projection.bias)).push(to);
    }
}

impl Push for CellActivation {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.push(BuilderArgument::I32(match self {
            Self::None => 0,
            Self::Relu => 1,
            Self::Relu6 => 3,
            Self::Tanh => 4,
            Self::Sigmoid => 6,
        }));
    }
}

/// Gates that may all be left out: of layer normalisation, or for an auxiliary input.
#[derive(Clone, Copy, Debug)]
pub struct MaybeGates(Option<Gates>);

impl MaybeGates {
    /// None.
    pub(super) const NONE: Self = Self(None);
}

impl From<Gates> for MaybeGates {
    fn from(gates: Gates) -> Self {
        Self(Some(gates))
    }
}

impl Push for MaybeGates {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        match self.0 {
            Some(gates) => gates.push(to),
            None => to.extend([const { BuilderArgument::Omitted }; 4]),
        }
    }
}

/// The scales of what an LSTM of 8-bit numbers computes for its gates before their functions: of
/// the input, forget, cell and output gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateScales {
    /// Of the input gate.
    pub input: f32,
    /// Of the forget gate.
    pub forget: f32,
    /// Of the cell gate.
    pub cell: f32,
    /// Of the output gate.
    pub output: f32,
}

impl Push for GateScales {
    fn push(self, to: &mut Vec<BuilderArgument>) {
        to.extend([self.input, self.forget, self.cell, self.output].map(BuilderArgument::F32));
    }
}
