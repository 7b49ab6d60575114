//! Recurrent cells.

use nnburst::hal::{Operand, OperandType, OperationType};
use nnburst::operations::{
    GateScales, Gates, LstmState, LstmWeights, OutputProjection, Peephole, RnnWeights,
};
use nnburst::{ModelBuilder, OperandId};

use crate::inputs::plane;

/// Adds an operation over inputs of its own; its outputs.
pub(crate) fn add(graph: &mut ModelBuilder, kind: OperationType) -> Option<Vec<OperandId>> {
    use OperationType as Op;
    let outputs = match kind {
        Op::Lstm => {
            let (input, weights, state) = lstm(graph, 1);
            let step = graph.lstm(input, weights, state).cell_clip(3.0).done();
            let norm = gates(graph, Operand::float32([5]));
            let normalised = graph.lstm(input, weights, state).layer_normalization(norm);
            let normalised = normalised.done();
            vec![step.scratch, step.hidden, step.cell, step.output, normalised.output]
        }
        Op::UnidirectionalSequenceLstm => {
            let (_, weights, state) = lstm(graph, 2);
            let input = graph.input(Operand::float32([2, 7, 3]));
            let plain = graph.unidirectional_sequence_lstm(input, weights, state).done();
            let all = graph.unidirectional_sequence_lstm(input, weights, state);
            let all = all.done_with_state();
            vec![plain, all.output, all.hidden, all.cell]
        }
        Op::BidirectionalSequenceLstm => {
            let (_, forward, first) = lstm(graph, 2);
            let (_, backward, last) = lstm(graph, 2);
            let input = graph.input(Operand::float32([2, 7, 3]));
            let cells = graph.bidirectional_sequence_lstm(input, forward, backward, first, last);
            let merged = cells.merge_outputs(true).done();
            let cells = graph.bidirectional_sequence_lstm(input, forward, backward, first, last);
            assert_eq!(merged.len(), 1);
            [merged, cells.done_with_state()].concat()
        }
        Op::QuantizedLstm => quantized_lstm(graph),
        Op::Quantized16bitLstm => {
            let input = graph.input(Operand::quant8([1, 2], 1.0 / 128.0, 128));
            let inputs = gates(graph, Operand::quant8([4, 2], 0.01, 100));
            let recurrent = gates(graph, Operand::quant8([4, 4], 0.01, 100));
            let bias = gates(graph, Operand::int32([4]).with_quantization(0.01 * (1.0 / 128.0), 0));
            let cell = Operand::tensor(OperandType::TensorQuant16Symm, vec![1, 4]);
            let cell = graph.input(cell.with_quantization(1.0 / 2048.0, 0));
            let hidden = graph.input(Operand::quant8([1, 4], 1.0 / 128.0, 128));
            let step =
                graph.quantized_16bit_lstm(input, inputs, recurrent, bias, cell, hidden).done();
            vec![step.cell, step.hidden]
        }
        Op::Rnn => {
            let cell = rnn(graph);
            let input = graph.input(Operand::float32([2, 3]));
            let step = graph.rnn(input, cell.input, cell.recurrent, cell.bias, cell.hidden).done();
            vec![step.hidden, step.output]
        }
        Op::UnidirectionalSequenceRnn => {
            let cell = rnn(graph);
            let input = graph.input(Operand::float32([7, 2, 3]));
            let RnnWeights { input: weights, recurrent, bias, hidden } = cell;
            let run = graph.unidirectional_sequence_rnn(input, weights, recurrent, bias, hidden);
            let plain = run.time_major(true).done();
            let run = graph.unidirectional_sequence_rnn(input, weights, recurrent, bias, hidden);
            let all = run.time_major(true).done_with_state();
            vec![plain, all.output, all.hidden]
        }
        Op::BidirectionalSequenceRnn => {
            let (forward, backward) = (rnn(graph), rnn(graph));
            let input = graph.input(Operand::float32([2, 7, 3]));
            let two = graph.bidirectional_sequence_rnn(input, forward, backward).done();
            let merged = graph.bidirectional_sequence_rnn(input, forward, backward);
            [two, merged.merge_outputs(true).done_with_state()].concat()
        }
        Op::Svdf => {
            let input = plane(graph);
            let features = graph.input(Operand::float32([4, 3]));
            let times = graph.input(Operand::float32([4, 5]));
            let (state, bias) =
                (graph.input(Operand::float32([2, 20])), graph.input(Operand::float32([2])));
            let step = graph.svdf(input, features, times, state, 2).bias(bias).done();
            vec![step.state, step.output]
        }
        _ => return None,
    };
    Some(outputs)
}

fn gates(graph: &mut ModelBuilder, operand: Operand) -> Gates {
    Gates {
        input: Some(graph.input(operand.clone())),
        forget: graph.input(operand.clone()),
        cell: graph.input(operand.clone()),
        output: graph.input(operand),
    }
}

/// Input, weights and states of an LSTM of 5 units with peephole and projection to 4, over 3
/// values.
fn lstm(graph: &mut ModelBuilder, batches: u32) -> (OperandId, LstmWeights, LstmState) {
    let input = graph.input(Operand::float32([batches, 3]));
    let hidden = graph.input(Operand::float32([batches, 4]));
    let cell = graph.input(Operand::float32([batches, 5]));
    let inputs = gates(graph, Operand::float32([5, 3]));
    let recurrent = gates(graph, Operand::float32([5, 4]));
    let bias = gates(graph, Operand::float32([5]));
    let peephole = gates(graph, Operand::float32([5]));
    let projection = graph.input(Operand::float32([4, 5]));
    let weights = LstmWeights {
        peephole: Some(Peephole {
            input: peephole.input,
            forget: peephole.forget,
            output: peephole.output,
        }),
        projection: Some(OutputProjection { weights: projection, bias: None }),
        ..LstmWeights::new(inputs, recurrent, bias)
    };
    (input, weights, LstmState { hidden, cell })
}

fn quantized_lstm(graph: &mut ModelBuilder) -> Vec<OperandId> {
    let weights = |extents: [u32; 2]| {
        Operand::tensor(OperandType::TensorQuant8Symm, extents.to_vec()).with_quantization(0.01, 0)
    };
    let input = graph.input(Operand::quant8_signed([2, 3], 0.01, 0));
    let hidden = graph.input(Operand::quant8_signed([2, 4], 0.01, 0));
    let cell = Operand::tensor(OperandType::TensorQuant16Symm, vec![2, 4]);
    let cell = graph.input(cell.with_quantization(1.0 / 2048.0, 0));
    let inputs = gates(graph, weights([4, 3]));
    let recurrent = gates(graph, weights([4, 4]));
    let bias = gates(graph, Operand::int32([4]).with_quantization(0.0001, 0));
    let cell_weights = LstmWeights::new(inputs, recurrent, bias);
    let state = LstmState { hidden, cell };
    let scales = GateScales { input: 0.01, forget: 0.01, cell: 0.01, output: 0.01 };
    let step = graph.quantized_lstm(input, cell_weights, state, scales, 0, 0.01).done();
    vec![step.hidden, step.cell, step.output]
}

fn rnn(graph: &mut ModelBuilder) -> RnnWeights {
    RnnWeights {
        input: graph.input(Operand::float32([5, 3])),
        recurrent: graph.input(Operand::float32([5, 5])),
        bias: graph.input(Operand::float32([5])),
        hidden: graph.input(Operand::float32([2, 5])),
    }
}
