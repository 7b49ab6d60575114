//! Recurrent cells: single steps, whose state goes in and out, and whole sequences.

use nnburst_hal::FusedActivation;

use super::*;

operations! {
    /// A step of an LSTM over `input`, `[batches, inputs]`, from the state that the step before
    /// left.
    Lstm lstm(input: OperandId, weights: LstmWeights, state: LstmState) {
        /// Of the cell's content.
        activation: CellActivation = CellActivation::Tanh,
        /// The bound of the cell's state; 0 is none.
        cell_clip: Float = 0.0,
        /// The bound of the projected output; 0 is none.
        projection_clip: Float = 0.0,
    } [
        /// Weights that normalise the gates, each `[units]`.
        layer_normalization: MaybeGates = MaybeGates::NONE,
    ] => { LstmStep:
        /// Of no use.
        scratch,
        /// The state for the next step: the output.
        hidden,
        /// The state for the next step: the cell's.
        cell,
        /// `[batches, units]`, or as wide as the projection.
        output
    };
    /// An LSTM over whole sequences, `[batches, times, inputs]`.
    UnidirectionalSequenceLstm unidirectional_sequence_lstm(
        input: OperandId, weights: LstmWeights, state: LstmState
    ) {
        /// Of the cell's content.
        activation: CellActivation = CellActivation::Tanh,
        /// The bound of the cell's state; 0 is none.
        cell_clip: Float = 0.0,
        /// The bound of the projected output; 0 is none.
        projection_clip: Float = 0.0,
        /// True if sequences are `[times, batches, inputs]`.
        time_major: Flag = false,
        /// Weights that normalise the gates, each `[units]`.
        layer_normalization: MaybeGates = MaybeGates::NONE,
    } => one;
    /// Two LSTMs over whole sequences, `[batches, times, inputs]`, one of them from the end.
    BidirectionalSequenceLstm bidirectional_sequence_lstm(
        input: OperandId, forward: LstmWeights, backward: LstmWeights,
        forward_state: LstmState, backward_state: LstmState
    ) {
        /// A second input: of the backward cell, or, with weights, of both.
        auxiliary: MaybeTensor = None,
        /// The forward cell's weights of the second input.
        forward_auxiliary: MaybeGates = MaybeGates::NONE,
        /// The backward cell's weights of the second input.
        backward_auxiliary: MaybeGates = MaybeGates::NONE,
        /// Of the cells' content.
        activation: CellActivation = CellActivation::Tanh,
        /// The bound of the cells' states; 0 is none.
        cell_clip: Float = 0.0,
        /// The bound of the projected outputs; 0 is none.
        projection_clip: Float = 0.0,
        /// True if there is one output, with the forward cell's before the backward cell's, rather
        /// than two.
        merge_outputs: bool = false,
        /// True if sequences are `[times, batches, inputs]`.
        time_major: Flag = false,
        /// Weights that normalise the forward cell's gates.
        forward_layer_normalization: MaybeGates = MaybeGates::NONE,
        /// Weights that normalise the backward cell's gates.
        backward_layer_normalization: MaybeGates = MaybeGates::NONE,
    } => many;
    /// A step of an LSTM of 8-bit values, with weights of TENSOR_QUANT8_SYMM.
    QuantizedLstm quantized_lstm(
        input: OperandId, weights: LstmWeights, state: LstmState;
        gate_scales: GateScales, projection_zero_point: Int, projection_scale: Float
    ) {
        /// Weights that normalise the gates, each `[units]`.
        layer_normalization: MaybeGates = MaybeGates::NONE,
        /// The bound of the cell's state; 0 is none.
        cell_clip: Float = 0.0,
        /// The bound of the projected output; 0 is none.
        projection_clip: Float = 0.0,
        gate_scales,
        projection_zero_point,
        projection_scale,
    } => { QuantizedLstmStep:
        /// The state for the next step: the output.
        hidden,
        /// The state for the next step: the cell's.
        cell,
        /// `[batches, units]`, or as wide as the projection.
        output
    };
    /// A step of an LSTM of 8-bit values with a 16-bit state, whose gates have neither peephole nor
    /// projection.
    Quantized16bitLstm quantized_16bit_lstm(
        input: OperandId, input_weights: Gates, recurrent_weights: Gates, bias: Gates,
        cell: OperandId, hidden: OperandId
    ) => { Quantized16bitLstmStep:
        /// The next step's `cell`.
        cell,
        /// The output, and what to hand to the next step as `hidden`.
        hidden
    };
    /// A step of a plain recurrent cell:
    /// `activation(input * weights + hidden * recurrent_weights + bias)`.
    Rnn rnn(
        input: OperandId, weights: OperandId, recurrent_weights: OperandId, bias: OperandId,
        hidden: OperandId
    ) {
        /// Of the sum.
        activation: CellActivation = CellActivation::Tanh,
    } => { RnnStep:
        /// The state for the next step.
        hidden,
        /// `[batches, units]`.
        output
    };
    /// A plain recurrent cell over whole sequences, `[batches, times, inputs]`.
    UnidirectionalSequenceRnn unidirectional_sequence_rnn(
        input: OperandId, weights: OperandId, recurrent_weights: OperandId, bias: OperandId,
        hidden: OperandId
    ) {
        /// Of the sum.
        activation: CellActivation = CellActivation::Tanh,
        /// True if sequences are `[times, batches, inputs]`.
        time_major: Flag = false,
    } => one;
    /// Two plain recurrent cells over whole sequences, `[batches, times, inputs]`, one of them from
    /// the end.
    BidirectionalSequenceRnn bidirectional_sequence_rnn(
        input: OperandId, forward: RnnWeights, backward: RnnWeights
    ) {
        /// A second input: of the backward cell, or, with weights, of both.
        auxiliary: MaybeTensor = None,
        /// The forward cell's weights of the second input.
        forward_auxiliary: MaybeTensor = None,
        /// The backward cell's weights of the second input.
        backward_auxiliary: MaybeTensor = None,
        /// Of the sums.
        activation: CellActivation = CellActivation::Tanh,
        /// True if sequences are `[times, batches, inputs]`.
        time_major: Flag = false,
        /// True if there is one output, with the forward cell's before the backward cell's, rather
        /// than two.
        merge_outputs: bool = false,
    } => many;
    /// A layer in two stages, of features and of their course in time, `rank` features to a unit.
    Svdf svdf(
        input: OperandId, feature_weights: OperandId, time_weights: OperandId;
        state: OperandId, rank: Int
    ) {
        /// Of each unit: `[units]`.
        bias: MaybeTensor = None,
        state,
        rank,
        activation: Activation = FusedActivation::None,
    } => { SvdfStep:
        /// The state for the next step.
        state,
        /// `[batches, units]`.
        output
    };
}

/// The outputs of a sequence together with its last state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LstmSequence {
    /// The whole sequence.
    pub output: OperandId,
    /// The last output.
    pub hidden: OperandId,
    /// The last state of the cell.
    pub cell: OperandId,
}

/// The outputs of a sequence together with its last state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RnnSequence {
    /// The whole sequence.
    pub output: OperandId,
    /// The last output.
    pub hidden: OperandId,
}

impl UnidirectionalSequenceLstm<'_> {
    /// As `done`, with the state behind the last step as outputs too.
    pub fn done_with_state(self) -> LstmSequence {
        let [output, hidden, cell] = self.ready().add();
        LstmSequence { output, hidden, cell }
    }
}

impl UnidirectionalSequenceRnn<'_> {
    /// As `done`, with the state behind the last step as output too.
    pub fn done_with_state(self) -> RnnSequence {
        let [output, hidden] = self.ready().add();
        RnnSequence { output, hidden }
    }
}

impl BidirectionalSequenceLstm<'_> {
    fn outputs(&self) -> usize {
        if self.merge_outputs { 1 } else { 2 }
    }

    /// As `done`, with the states behind the last steps as outputs too: the forward cell's hidden
    /// and cell state, then the backward cell's.
    pub fn done_with_state(self) -> Vec<OperandId> {
        let outputs = self.outputs() + 4;
        self.ready().add_many(outputs)
    }
}

impl BidirectionalSequenceRnn<'_> {
    fn outputs(&self) -> usize {
        if self.merge_outputs { 1 } else { 2 }
    }

    /// As `done`, with the last hidden states as outputs too: the forward cell's, then the backward
    /// cell's.
    pub fn done_with_state(self) -> Vec<OperandId> {
        let outputs = self.outputs() + 2;
        self.ready().add_many(outputs)
    }
}
