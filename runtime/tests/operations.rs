//! Every operation by its method: it builds, its outputs have the types and shapes that a run then gives.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on panics")]

use nnburst::hal::{Operand, OperandType, OperationType};
use nnburst::operations::{
    GateScales, Gates, LstmState, LstmWeights, NmsKernel, OutputProjection, Padding, Peephole,
    Projection, RnnWeights, TransposePadding,
};
use nnburst::{CompileOptions, Device, ModelBuilder, OperandId, ResultCode, compile_for, f16};

/// Adds an operation over inputs of its own; its outputs.
#[expect(clippy::too_many_lines, reason = "one arm for each operation")]
fn add(graph: &mut ModelBuilder, kind: OperationType) -> Vec<OperandId> {
    use OperationType as Op;
    let b8 = |graph: &mut ModelBuilder| graph.input(Operand::bool8([2, 3]));
    let pair = |graph: &mut ModelBuilder| {
        (graph.input(Operand::float32([2, 3])), graph.input(Operand::float32([3])))
    };
    let x = |graph: &mut ModelBuilder| graph.input(Operand::float32([2, 3]));
    let picture = |graph: &mut ModelBuilder| graph.input(Operand::float32([1, 4, 4, 4]));
    let one = match kind {
        Op::Add => {
            let (a, b) = pair(graph);
            graph.add(a, b).relu6().done()
        }
        Op::Sub => {
            let (a, b) = pair(graph);
            graph.sub(a, b).done()
        }
        Op::Mul => {
            let (a, b) = pair(graph);
            graph.mul(a, b).relu().done()
        }
        Op::Div => {
            let (a, b) = pair(graph);
            graph.div(a, b).relu1().done()
        }
        Op::Maximum => {
            let (a, b) = pair(graph);
            graph.maximum(a, b).done()
        }
        Op::Minimum => {
            let (a, b) = pair(graph);
            graph.minimum(a, b).done()
        }
        Op::Pow => {
            let (a, b) = pair(graph);
            graph.pow(a, b).done()
        }
        Op::Prelu => {
            let (a, b) = pair(graph);
            graph.prelu(a, b).done()
        }
        Op::Equal => {
            let (a, b) = pair(graph);
            graph.equal(a, b).done()
        }
        Op::NotEqual => {
            let (a, b) = pair(graph);
            graph.not_equal(a, b).done()
        }
        Op::Greater => {
            let (a, b) = pair(graph);
            graph.greater(a, b).done()
        }
        Op::GreaterEqual => {
            let (a, b) = pair(graph);
            graph.greater_equal(a, b).done()
        }
        Op::Less => {
            let (a, b) = pair(graph);
            graph.less(a, b).done()
        }
        Op::LessEqual => {
            let (a, b) = pair(graph);
            graph.less_equal(a, b).done()
        }
        Op::LogicalAnd => {
            let (a, b) = (b8(graph), b8(graph));
            graph.logical_and(a, b).done()
        }
        Op::LogicalOr => {
            let (a, b) = (b8(graph), b8(graph));
            graph.logical_or(a, b).done()
        }
        Op::LogicalNot => {
            let a = b8(graph);
            graph.logical_not(a).done()
        }
        Op::Select => {
            let (condition, a, b) = (b8(graph), x(graph), x(graph));
            graph.select(condition, a, b).done()
        }
        Op::Abs => {
            let x = x(graph);
            graph.abs(x).done()
        }
        Op::Exp => {
            let x = x(graph);
            graph.exp(x).done()
        }
        Op::Floor => {
            let x = x(graph);
            graph.floor(x).done()
        }
        Op::Log => {
            let x = x(graph);
            graph.log(x).done()
        }
        Op::Neg => {
            let x = x(graph);
            graph.neg(x).done()
        }
        Op::Rsqrt => {
            let x = x(graph);
            graph.rsqrt(x).done()
        }
        Op::Sin => {
            let x = x(graph);
            graph.sin(x).done()
        }
        Op::Sqrt => {
            let x = x(graph);
            graph.sqrt(x).done()
        }
        Op::Relu => {
            let x = x(graph);
            graph.relu(x).done()
        }
        Op::Relu1 => {
            let x = x(graph);
            graph.relu1(x).done()
        }
        Op::Relu6 => {
            let x = x(graph);
            graph.relu6(x).done()
        }
        Op::Elu => {
            let x = x(graph);
            graph.elu(x).alpha(0.5).done()
        }
        Op::HardSwish => {
            let x = x(graph);
            graph.hard_swish(x).done()
        }
        Op::Logistic => {
            let x = graph.input(Operand::quant8_signed([2, 3], 0.5, 1));
            graph.logistic(x).done()
        }
        Op::Tanh => {
            let x = graph.input(Operand::quant8([2, 3], 0.5, 1));
            graph.tanh(x).done()
        }
        Op::Cast => {
            let x = x(graph);
            graph.cast(x).to(OperandType::TensorInt32).done()
        }
        Op::Quantize => {
            let x = x(graph);
            let unsigned = graph.quantize(x).quantized(0.5, 3).done();
            let signed = OperandType::TensorQuant8AsymmSigned;
            let signed = graph.quantize(x).to(signed).quantized(0.5, 3).done();
            return vec![unsigned, signed];
        }
        Op::Dequantize => {
            let x = graph.input(Operand::quant8([2, 3], 0.5, 1));
            let float = graph.dequantize(x).done();
            let half = graph.dequantize(x).to(OperandType::TensorFloat16).done();
            return vec![float, half];
        }
        Op::Conv2d => {
            let input = graph.input(Operand::quant8([1, 5, 4, 2], 0.5, 1));
            let filter = graph.constant_of(Operand::quant8([3, 2, 2, 2], 0.5, 1), &[2u8; 24]);
            let bias =
                graph.constant_of(Operand::int32([3]).with_quantization(0.25, 0), &[1i32, 2, 3]);
            let plain = graph.conv_2d(input, filter, bias).quantized(2.0, 0).done();
            let wide = graph.conv_2d(input, filter, bias).stride((2, 1)).same().dilation(2);
            let wide = wide.relu6().quantized(2.0, 0).done();
            assert_eq!(
                (graph.shape(plain), graph.shape(wide)),
                (&[1, 4, 3, 3][..], &[1, 5, 2, 3][..])
            );
            return vec![plain, wide];
        }
        Op::DepthwiseConv2d => {
            let input = picture(graph);
            let filter = graph.input(Operand::float32([1, 3, 3, 8]));
            let bias = graph.input(Operand::float32([8]));
            graph.depthwise_conv_2d(input, filter, bias).multiplier(2).same().stride(2).done()
        }
        Op::GroupedConv2d => {
            let input = picture(graph);
            let filter = graph.input(Operand::float32([6, 3, 3, 2]));
            let bias = graph.input(Operand::float32([6]));
            let around = Padding::Explicit { left: 1, right: 1, top: 0, bottom: 0 };
            graph.grouped_conv_2d(input, filter, bias, 2).padding(around).done()
        }
        Op::TransposeConv2d => {
            let input = picture(graph);
            let filter = graph.input(Operand::float32([3, 2, 2, 4]));
            let bias = graph.input(Operand::float32([3]));
            let same = TransposePadding::Same([1, 8, 8, 3].into());
            let same = graph.transpose_conv_2d(input, filter, bias, same).stride(2).done();
            let cut = TransposePadding::Explicit { left: 0, right: 0, top: 1, bottom: 0 };
            let cut = graph.transpose_conv_2d(input, filter, bias, cut).relu().done();
            return vec![same, cut];
        }
        Op::FullyConnected => {
            let input = x(graph);
            let weights = graph.input(Operand::float32([5, 3]));
            let bias = graph.input(Operand::float32([5]));
            graph.fully_connected(input, weights, bias).done()
        }
        Op::AveragePool2d => {
            let input = picture(graph);
            graph.average_pool_2d(input, (2, 3)).stride(2).same().done()
        }
        Op::L2Pool2d => {
            let input = picture(graph);
            graph.l2_pool_2d(input, 2).done()
        }
        Op::MaxPool2d => {
            let input = picture(graph);
            graph.max_pool_2d(input, 2).nchw(true).done()
        }
        Op::ResizeBilinear => {
            let input = picture(graph);
            let to = graph.resize_bilinear(input, (8, 6)).done();
            let by = graph.resize_bilinear(input, 1.5).half_pixel_centers(true).done();
            assert_eq!((graph.shape(to), graph.shape(by)), (&[1, 6, 8, 4][..], &[1, 6, 6, 4][..]));
            return vec![to, by];
        }
        Op::ResizeNearestNeighbor => {
            let input = picture(graph);
            graph.resize_nearest_neighbor(input, 8).done()
        }
        Op::DepthToSpace => {
            let input = picture(graph);
            graph.depth_to_space(input, 2).done()
        }
        Op::SpaceToDepth => {
            let input = picture(graph);
            graph.space_to_depth(input, 2).done()
        }
        Op::BatchToSpaceNd => {
            let input = graph.input(Operand::float32([4, 2, 2, 1]));
            graph.batch_to_space_nd(input, [2, 2]).done()
        }
        Op::SpaceToBatchNd => {
            let input = picture(graph);
            graph.space_to_batch_nd(input, [2, 2], [[1, 1], [0, 0]]).done()
        }
        Op::ChannelShuffle => {
            let input = picture(graph);
            graph.channel_shuffle(input, 2).done()
        }
        Op::InstanceNormalization => {
            let input = picture(graph);
            graph.instance_normalization(input).gamma(2.0).done()
        }
        Op::L2Normalization => {
            let input = graph.input(Operand::quant8([2, 3], 0.5, 1));
            graph.l2_normalization(input).done()
        }
        Op::LocalResponseNormalization => {
            let input = graph.input(Operand::float16([1, 4, 4, 4]));
            graph.local_response_normalization(input, 2).axis(1).done()
        }
        Op::Softmax => {
            let input = graph.input(Operand::quant8_signed([2, 3], 0.5, 1));
            graph.softmax(input).beta(2.0).done()
        }
        Op::LogSoftmax => {
            let input = x(graph);
            graph.log_softmax(input).done()
        }
        Op::Mean => {
            let input = graph.input(Operand::quant8([2, 3, 4], 0.5, 1));
            graph.mean(input, [1, -1]).keep_dims(true).done()
        }
        Op::ReduceAll => {
            let input = b8(graph);
            graph.reduce_all(input, [0]).done()
        }
        Op::ReduceAny => {
            let input = b8(graph);
            graph.reduce_any(input, [0]).keep_dims(true).done()
        }
        Op::ReduceMax => {
            let input = x(graph);
            graph.reduce_max(input, [1]).done()
        }
        Op::ReduceMin => {
            let input = x(graph);
            graph.reduce_min(input, [1]).done()
        }
        Op::ReduceProd => {
            let input = x(graph);
            graph.reduce_prod(input, [1]).done()
        }
        Op::ReduceSum => {
            let input = x(graph);
            graph.reduce_sum(input, [1]).done()
        }
        Op::Argmax => {
            let input = x(graph);
            graph.argmax(input, 1).done()
        }
        Op::Argmin => {
            let input = x(graph);
            graph.argmin(input, 0).done()
        }
        Op::TopkV2 => {
            let input = x(graph);
            let best = graph.topk_v2(input, 2).done();
            return vec![best.values, best.indices];
        }
        Op::Rank => {
            let input = x(graph);
            graph.rank(input).done()
        }
        Op::Reshape => {
            let input = x(graph);
            graph.reshape(input, [-1, 2]).done()
        }
        Op::Squeeze => {
            let input = graph.input(Operand::float32([1, 3, 1]));
            let all = graph.squeeze(input).done();
            let last = graph.squeeze(input).axes([2]).done();
            assert_eq!((graph.shape(all), graph.shape(last)), (&[3][..], &[1, 3][..]));
            return vec![all, last];
        }
        Op::ExpandDims => {
            let input = x(graph);
            graph.expand_dims(input, 1).done()
        }
        Op::Transpose => {
            let input = x(graph);
            let turned = graph.transpose(input).done();
            let same = graph.transpose(input).permutation([0, 1]).done();
            return vec![turned, same];
        }
        Op::Concatenation => {
            let (a, b) = (x(graph), x(graph));
            graph.concatenation([a, b, a], 1).done()
        }
        Op::Split => {
            let input = x(graph);
            return graph.split(input, 1, 3).done();
        }
        Op::Slice => {
            let input = x(graph);
            graph.slice(input, [0, 1], [-1, 2]).done()
        }
        Op::StridedSlice => {
            let input = x(graph);
            graph.strided_slice(input, [0, 2], [2, 0], [1, -1]).end_mask(2).done()
        }
        Op::Tile => {
            let input = x(graph);
            graph.tile(input, [2, 1]).done()
        }
        Op::Pad => {
            let input = x(graph);
            graph.pad(input, [[1, 0], [0, 2]]).done()
        }
        Op::PadV2 => {
            let (float, byte) = (x(graph), graph.input(Operand::quant8([2, 3], 0.5, 1)));
            let float = graph.pad_v2(float, [[1, 0], [0, 2]], 0.5).done();
            return vec![float, graph.pad_v2(byte, [[1, 0], [0, 2]], 7).done()];
        }
        Op::Fill => graph.fill([2, 3], 1.5).done(),
        Op::Gather => {
            let (input, indices) = (x(graph), graph.input(Operand::int32([2])));
            graph.gather(input, 1, indices).done()
        }
        Op::EmbeddingLookup => {
            let (lookups, values) = (graph.input(Operand::int32([4])), x(graph));
            graph.embedding_lookup(lookups, values).done()
        }
        Op::HashtableLookup => {
            let (lookups, values) = (graph.input(Operand::int32([4])), x(graph));
            let keys = graph.vector_i32(&[1, 5]);
            let found = graph.hashtable_lookup(lookups, keys, values).done();
            return vec![found.output, found.hits];
        }
        Op::LshProjection => {
            let (hash, input) = (x(graph), graph.input(Operand::int32([5])));
            let weight = graph.input(Operand::float32([5]));
            let dense = graph.lsh_projection(hash, input, Projection::Dense { weight }).done();
            return vec![dense, graph.lsh_projection(hash, input, Projection::Sparse).done()];
        }
        Op::RandomMultinomial => {
            let input = x(graph);
            graph.random_multinomial(input, 7, [1, 2]).done()
        }
        Op::AxisAlignedBboxTransform => {
            let boxes = graph.input(Operand::float32([2, 4]));
            let deltas = graph.input(Operand::float32([2, 8]));
            let (batch, info) =
                (graph.input(Operand::int32([2])), graph.input(Operand::float32([1, 2])));
            graph.axis_aligned_bbox_transform(boxes, deltas, batch, info).done()
        }
        Op::BoxWithNmsLimit => {
            let scores = graph.input(Operand::quant8([2, 3], 0.1, 0));
            let sixteen = OperandType::TensorQuant16Asymm;
            let boxes =
                graph.input(Operand::tensor(sixteen, vec![2, 12]).with_quantization(0.125, 0));
            let batch = graph.input(Operand::int32([2]));
            let best = graph
                .box_with_nms_limit(scores, boxes, batch, 0.5)
                .kernel(NmsKernel::Linear)
                .done();
            return vec![best.scores, best.boxes, best.classes, best.batch_index];
        }
        Op::DetectionPostprocessing => {
            let scores = graph.input(Operand::float32([1, 6, 3]));
            let boxes = graph.input(Operand::float32([1, 6, 4]));
            let anchors = graph.input(Operand::float32([6, 4]));
            let found = graph.detection_postprocessing(scores, boxes, anchors, 3, 0.0, 0.5).done();
            return vec![found.scores, found.boxes, found.classes, found.counts];
        }
        Op::GenerateProposals => {
            let scores = graph.input(Operand::float32([1, 2, 2, 3]));
            let deltas = graph.input(Operand::float32([1, 2, 2, 12]));
            let anchors = graph.input(Operand::float32([3, 4]));
            let info = graph.input(Operand::float32([1, 2]));
            let best = graph.generate_proposals(scores, deltas, anchors, info, 4.0, 0.5).done();
            return vec![best.scores, best.boxes, best.batch_index];
        }
        Op::HeatmapMaxKeypoint => {
            let heatmap = graph.input(Operand::float32([2, 4, 4, 3]));
            let boxes = graph.input(Operand::float32([2, 4]));
            let best = graph.heatmap_max_keypoint(heatmap, boxes).done();
            return vec![best.scores, best.keypoints];
        }
        Op::RoiAlign | Op::RoiPooling => {
            let (features, boxes) = (picture(graph), graph.input(Operand::float32([2, 4])));
            let batch = graph.input(Operand::int32([2]));
            let (size, stride) = ((3, 2), (2.0, 1.0));
            let part = if kind == Op::RoiAlign {
                graph.roi_align(features, boxes, batch, size, stride).samples(2).done()
            } else {
                graph.roi_pooling(features, boxes, batch, size, stride).done()
            };
            assert_eq!(graph.shape(part), [2, 2, 3, 4], "height 2, width 3");
            part
        }
        Op::Lstm => {
            let (input, weights, state) = lstm(graph, 1);
            let step = graph.lstm(input, weights, state).cell_clip(3.0).done();
            let norm = gates(graph, Operand::float32([5]));
            let normalised = graph.lstm(input, weights, state).layer_normalization(norm);
            let normalised = normalised.done();
            return vec![step.scratch, step.hidden, step.cell, step.output, normalised.output];
        }
        Op::UnidirectionalSequenceLstm => {
            let (_, weights, state) = lstm(graph, 2);
            let input = graph.input(Operand::float32([2, 7, 3]));
            let plain = graph.unidirectional_sequence_lstm(input, weights, state).done();
            let all = graph.unidirectional_sequence_lstm(input, weights, state);
            let all = all.done_with_state();
            return vec![plain, all.output, all.hidden, all.cell];
        }
        Op::BidirectionalSequenceLstm => {
            let (_, forward, first) = lstm(graph, 2);
            let (_, backward, last) = lstm(graph, 2);
            let input = graph.input(Operand::float32([2, 7, 3]));
            let cells = graph.bidirectional_sequence_lstm(input, forward, backward, first, last);
            let merged = cells.merge_outputs(true).done();
            let cells = graph.bidirectional_sequence_lstm(input, forward, backward, first, last);
            assert_eq!(merged.len(), 1);
            return [merged, cells.done_with_state()].concat();
        }
        Op::QuantizedLstm => return quantized_lstm(graph),
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
            return vec![step.cell, step.hidden];
        }
        Op::Rnn => {
            let cell = rnn(graph);
            let input = graph.input(Operand::float32([2, 3]));
            let step = graph.rnn(input, cell.input, cell.recurrent, cell.bias, cell.hidden).done();
            return vec![step.hidden, step.output];
        }
        Op::UnidirectionalSequenceRnn => {
            let cell = rnn(graph);
            let input = graph.input(Operand::float32([7, 2, 3]));
            let RnnWeights { input: weights, recurrent, bias, hidden } = cell;
            let run = graph.unidirectional_sequence_rnn(input, weights, recurrent, bias, hidden);
            let plain = run.time_major(true).done();
            let run = graph.unidirectional_sequence_rnn(input, weights, recurrent, bias, hidden);
            let all = run.time_major(true).done_with_state();
            return vec![plain, all.output, all.hidden];
        }
        Op::BidirectionalSequenceRnn => {
            let (forward, backward) = (rnn(graph), rnn(graph));
            let input = graph.input(Operand::float32([2, 7, 3]));
            let two = graph.bidirectional_sequence_rnn(input, forward, backward).done();
            let merged = graph.bidirectional_sequence_rnn(input, forward, backward);
            return [two, merged.merge_outputs(true).done_with_state()].concat();
        }
        Op::Svdf => {
            let input = x(graph);
            let features = graph.input(Operand::float32([4, 3]));
            let times = graph.input(Operand::float32([4, 5]));
            let (state, bias) =
                (graph.input(Operand::float32([2, 20])), graph.input(Operand::float32([2])));
            let step = graph.svdf(input, features, times, state, 2).bias(bias).done();
            return vec![step.state, step.output];
        }
        Op::If => {
            let (condition, x) = (graph.input(Operand::bool8([1])), x(graph));
            let then = branch(graph, Op::Abs);
            let otherwise = branch(graph, Op::Neg);
            return graph.if_else(condition, then, otherwise, &[x]);
        }
        Op::While => {
            let x = x(graph);
            let condition = graph.subgraph(|graph| {
                let x = graph.input(Operand::float32([2, 3]));
                let least = graph.reduce_min(x, [0, 1]).done();
                let least = graph.reshape(least, [1]).done();
                let ten = graph.tensor_f32(vec![1], &[10.0]);
                let below = graph.less(least, ten).done();
                graph.output(below);
            });
            let body = graph.subgraph(|graph| {
                let x = graph.input(Operand::float32([2, 3]));
                let one = graph.tensor_f32(vec![1], &[1.0]);
                let more = graph.add(x, one).done();
                graph.output(more);
            });
            return graph.while_loop(condition, body, &[x]);
        }
        _ => panic!("{kind} has no case"),
    };
    vec![one]
}

fn branch(graph: &mut ModelBuilder, kind: OperationType) -> nnburst::GraphRef {
    graph.subgraph(|graph| {
        let y = add(graph, kind)[0];
        graph.output(y);
    })
}

fn gates(graph: &mut ModelBuilder, operand: Operand) -> Gates {
    Gates {
        input: Some(graph.input(operand.clone())),
        forget: graph.input(operand.clone()),
        cell: graph.input(operand.clone()),
        output: graph.input(operand),
    }
}

/// Input, weights and states of an LSTM of 5 units with peephole and projection to 4, over 3 values.
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

/// Those of which only a run knows how many boxes there are.
const OPEN: [OperationType; 2] = [OperationType::BoxWithNmsLimit, OperationType::GenerateProposals];

#[test]
fn every_operation_is_built_and_runs_in_the_shape_that_was_foretold() {
    for &kind in OperationType::BASE {
        if kind == OperationType::OemOperation {
            continue;
        }
        let mut graph = ModelBuilder::new();
        let outputs = add(&mut graph, kind);
        let mut shapes = Vec::new();
        for &output in &outputs {
            shapes.push(graph.shape(output).to_vec());
            graph.output(output);
        }
        let model = graph.build().unwrap_or_else(|error| panic!("{kind}: {error}"));
        let devices = [Device::reference()];
        let compilation = compile_for(&model, &devices, &CompileOptions::default())
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        if OPEN.contains(&kind) {
            assert!(shapes.iter().any(Vec::is_empty), "{kind}: {shapes:?}");
            continue;
        }
        for (at, &index) in model.main.output_indexes.iter().enumerate() {
            let operand = &model.main.operands[index as usize];
            assert!(!operand.has_unspecified_dimensions(), "{kind}: output {at} is open");
        }
        let mut frame = compilation.frame().unwrap_or_else(|error| panic!("{kind}: {error}"));
        compilation
            .execution()
            .compute(&mut frame)
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}

/// Scalars take the type that goes with the tensors, and so do values.
#[test]
fn halves_are_computed_with_halves() {
    let mut graph = ModelBuilder::new();
    let x = graph.input(Operand::float16([2]));
    let y = graph.elu(x).alpha(2.0).done();
    graph.output(y);
    let compilation =
        compile_for(&graph.build().unwrap(), &[Device::reference()], &CompileOptions::default())
            .unwrap();
    let mut frame = compilation.frame().unwrap();
    frame.write(0, &[1.5, -100.0].map(f16::from_f32)).unwrap();
    compilation.execution().compute(&mut frame).unwrap();
    assert_eq!(frame.read::<f16>(0).unwrap(), [1.5, -2.0].map(f16::from_f32));
}

/// What `build` says of a graph with one thing wrong.
fn refusal(wrong: impl FnOnce(&mut ModelBuilder)) -> String {
    let mut graph = ModelBuilder::new();
    wrong(&mut graph);
    let error = graph.build().unwrap_err();
    assert_eq!(error.code(), ResultCode::BadData);
    error.to_string()
}

#[test]
fn what_is_wrong_is_told_with_operation_and_operand() {
    let x = || Operand::float32([1, 4, 4, 2]);
    let bytes = || Operand::quant8([1, 4, 4, 2], 0.5, 1);

    let error = refusal(|graph| {
        let (a, b) = (graph.input(x()), graph.input(bytes()));
        graph.add(a, b).done();
    });
    assert_eq!(
        error,
        "operation 0 (ADD): b (input 1) is TENSOR_QUANT8_ASYMM; it has to be TENSOR_FLOAT32"
    );

    let error = refusal(|graph| {
        let (a, b) = (graph.input(bytes()), graph.input(bytes()));
        graph.add(a, b).done();
    });
    assert!(error.contains("ADD") && error.contains("`quantized`"), "{error}");

    let error = refusal(|graph| {
        let input = graph.input(x());
        let filter = graph.tensor_f32(vec![3, 1, 1, 5], &[0.0; 15]);
        let bias = graph.tensor_f32(vec![3], &[0.0; 3]);
        let before = graph.relu(input).done();
        graph.conv_2d(before, filter, bias).done();
    });
    assert!(error.starts_with("operation 1 (CONV_2D): "), "{error}");
    let want = "operation 1 (CONV_2D): filter (input 1): a filter of [3, 1, 1, 5] for 2 channels";
    assert_eq!(error, want);

    let error = refusal(|graph| {
        let input = graph.input(x());
        graph.cast(input).done();
    });
    assert!(error.contains("CAST") && error.contains("`to`"), "{error}");

    let error = refusal(|graph| {
        let input = graph.input(x());
        graph.pad_v2(input, [[0, 0]; 4], 1).done();
    });
    assert!(error.contains("value (input 2) is an integer; it has to be FLOAT32"), "{error}");

    let error = refusal(|graph| {
        let outer = graph.input(x());
        graph.subgraph(|graph| {
            graph.relu(outer).done();
        });
    });
    assert!(error.contains("graph 1, operation 0 (RELU)"), "{error}");
    assert!(error.contains("another graph"), "{error}");

    let mut other = ModelBuilder::new();
    let foreign = other.input(x());
    let error = refusal(|graph| {
        let input = graph.input(x());
        graph.mul(input, foreign).done();
    });
    assert!(error.contains("MUL") && error.contains("another model"), "{error}");
}
