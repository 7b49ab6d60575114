//! Boxes, regions and key points.

use nnburst::hal::{Operand, OperandType, OperationType};
use nnburst::operations::NmsKernel;
use nnburst::{ModelBuilder, OperandId};

use crate::inputs::picture;

/// Adds an operation over inputs of its own; its outputs.
pub(crate) fn add(graph: &mut ModelBuilder, kind: OperationType) -> Option<Vec<OperandId>> {
    use OperationType as Op;
    let outputs = match kind {
        Op::AxisAlignedBboxTransform => {
            let boxes = graph.input(Operand::float32([2, 4]));
            let deltas = graph.input(Operand::float32([2, 8]));
            let (batch, info) =
                (graph.input(Operand::int32([2])), graph.input(Operand::float32([1, 2])));
            vec![graph.axis_aligned_bbox_transform(boxes, deltas, batch, info).done()]
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
            vec![best.scores, best.boxes, best.classes, best.batch_index]
        }
        Op::DetectionPostprocessing => {
            let scores = graph.input(Operand::float32([1, 6, 3]));
            let boxes = graph.input(Operand::float32([1, 6, 4]));
            let anchors = graph.input(Operand::float32([6, 4]));
            let found = graph.detection_postprocessing(scores, boxes, anchors, 3, 0.0, 0.5).done();
            vec![found.scores, found.boxes, found.classes, found.counts]
        }
        Op::GenerateProposals => {
            let scores = graph.input(Operand::float32([1, 2, 2, 3]));
            let deltas = graph.input(Operand::float32([1, 2, 2, 12]));
            let anchors = graph.input(Operand::float32([3, 4]));
            let info = graph.input(Operand::float32([1, 2]));
            let best = graph.generate_proposals(scores, deltas, anchors, info, 4.0, 0.5).done();
            vec![best.scores, best.boxes, best.batch_index]
        }
        Op::HeatmapMaxKeypoint => {
            let heatmap = graph.input(Operand::float32([2, 4, 4, 3]));
            let boxes = graph.input(Operand::float32([2, 4]));
            let best = graph.heatmap_max_keypoint(heatmap, boxes).done();
            vec![best.scores, best.keypoints]
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
            vec![part]
        }
        _ => return None,
    };
    Some(outputs)
}
