//! Convolutions, pooling, dense layers and what changes the size of pictures.

use nnburst::hal::{Operand, OperationType};
use nnburst::operations::{Padding, TransposePadding};
use nnburst::{ModelBuilder, OperandId};

use crate::inputs::{picture, plane};

/// Adds an operation over inputs of its own; its outputs.
pub(crate) fn add(graph: &mut ModelBuilder, kind: OperationType) -> Option<Vec<OperandId>> {
    use OperationType as Op;
    let outputs = match kind {
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
            vec![plain, wide]
        }
        Op::DepthwiseConv2d => {
            let input = picture(graph);
            let filter = graph.input(Operand::float32([1, 3, 3, 8]));
            let bias = graph.input(Operand::float32([8]));
            vec![graph.depthwise_conv_2d(input, filter, bias).multiplier(2).same().stride(2).done()]
        }
        Op::GroupedConv2d => {
            let input = picture(graph);
            let filter = graph.input(Operand::float32([6, 3, 3, 2]));
            let bias = graph.input(Operand::float32([6]));
            let around = Padding::Explicit { left: 1, right: 1, top: 0, bottom: 0 };
            vec![graph.grouped_conv_2d(input, filter, bias, 2).padding(around).done()]
        }
        Op::TransposeConv2d => {
            let input = picture(graph);
            let filter = graph.input(Operand::float32([3, 2, 2, 4]));
            let bias = graph.input(Operand::float32([3]));
            let same = TransposePadding::Same([1, 8, 8, 3].into());
            let same = graph.transpose_conv_2d(input, filter, bias, same).stride(2).done();
            let cut = TransposePadding::Explicit { left: 0, right: 0, top: 1, bottom: 0 };
            let cut = graph.transpose_conv_2d(input, filter, bias, cut).relu().done();
            vec![same, cut]
        }
        Op::FullyConnected => {
            let input = plane(graph);
            let weights = graph.input(Operand::float32([5, 3]));
            let bias = graph.input(Operand::float32([5]));
            vec![graph.fully_connected(input, weights, bias).done()]
        }
        Op::AveragePool2d => {
            let input = picture(graph);
            vec![graph.average_pool_2d(input, (2, 3)).stride(2).same().done()]
        }
        Op::L2Pool2d => {
            let input = picture(graph);
            vec![graph.l2_pool_2d(input, 2).done()]
        }
        Op::MaxPool2d => {
            let input = picture(graph);
            vec![graph.max_pool_2d(input, 2).nchw(true).done()]
        }
        Op::ResizeBilinear => {
            let input = picture(graph);
            let to = graph.resize_bilinear(input, (8, 6)).done();
            let by = graph.resize_bilinear(input, 1.5).half_pixel_centers(true).done();
            assert_eq!((graph.shape(to), graph.shape(by)), (&[1, 6, 8, 4][..], &[1, 6, 6, 4][..]));
            vec![to, by]
        }
        Op::ResizeNearestNeighbor => {
            let input = picture(graph);
            vec![graph.resize_nearest_neighbor(input, 8).done()]
        }
        Op::DepthToSpace => {
            let input = picture(graph);
            vec![graph.depth_to_space(input, 2).done()]
        }
        Op::SpaceToDepth => {
            let input = picture(graph);
            vec![graph.space_to_depth(input, 2).done()]
        }
        Op::BatchToSpaceNd => {
            let input = graph.input(Operand::float32([4, 2, 2, 1]));
            vec![graph.batch_to_space_nd(input, [2, 2]).done()]
        }
        Op::SpaceToBatchNd => {
            let input = picture(graph);
            vec![graph.space_to_batch_nd(input, [2, 2], [[1, 1], [0, 0]]).done()]
        }
        Op::ChannelShuffle => {
            let input = picture(graph);
            vec![graph.channel_shuffle(input, 2).done()]
        }
        Op::InstanceNormalization => {
            let input = picture(graph);
            vec![graph.instance_normalization(input).gamma(2.0).done()]
        }
        Op::L2Normalization => {
            let input = graph.input(Operand::quant8([2, 3], 0.5, 1));
            vec![graph.l2_normalization(input).done()]
        }
        Op::LocalResponseNormalization => {
            let input = graph.input(Operand::float16([1, 4, 4, 4]));
            vec![graph.local_response_normalization(input, 2).axis(1).done()]
        }
        Op::Softmax => {
            let input = graph.input(Operand::quant8_signed([2, 3], 0.5, 1));
            vec![graph.softmax(input).beta(2.0).done()]
        }
        Op::LogSoftmax => {
            let input = plane(graph);
            vec![graph.log_softmax(input).done()]
        }
        _ => return None,
    };
    Some(outputs)
}
