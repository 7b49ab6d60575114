//! Objects in pictures: proposals, regions, boxes. Boxes are `[left, top, right, bottom]`; 8-bit
//! models have them in eighths of a pixel, as TENSOR_QUANT16_ASYMM.

use super::*;

operations! {
    /// Boxes moved and scaled by what a network says of them, and cut at the picture's edges.
    AxisAlignedBboxTransform axis_aligned_bbox_transform(
        boxes: OperandId, deltas: OperandId, batch_index: OperandId, image_info: OperandId
    ) => one;
    /// The best of boxes that overlap, class by class; class 0 is the background.
    BoxWithNmsLimit box_with_nms_limit(
        scores: OperandId, boxes: OperandId, batch_index: OperandId; iou_threshold: Float
    ) {
        /// Boxes with a lower score are out from the start.
        score_threshold: Float = 0.0,
        /// Most boxes of a picture; negative is no limit.
        max_detections: Int = -1,
        /// The rule for overlapping boxes.
        kernel: NmsKernel = NmsKernel::Hard,
        iou_threshold,
        /// The width of the Gaussian.
        sigma: Float = 0.5,
        /// Boxes whose score falls below are out.
        nms_score_threshold: Float = 0.0,
    } => { BestBoxes:
        /// `[boxes]`.
        scores,
        /// `[boxes, 4]`.
        boxes,
        /// `[boxes]`, of INT32.
        classes,
        /// The picture that each is of: `[boxes]`, of INT32.
        batch_index
    };
    /// Boxes of a single-shot detector, decoded by their anchors, the best of those that overlap.
    DetectionPostprocessing detection_postprocessing(
        scores: OperandId, box_encodings: OperandId, anchors: OperandId;
        max_detections: Int, score_threshold: Float, iou_threshold: Float
    ) {
        /// The divisor of encodings of `y`.
        scale_y: Float = 10.0,
        /// The divisor of encodings of `x`.
        scale_x: Float = 10.0,
        /// The divisor of encodings of the height.
        scale_h: Float = 5.0,
        /// The divisor of encodings of the width.
        scale_w: Float = 5.0,
        /// True if each class is looked at by itself, which is slower, rather than the best class
        /// of each box.
        regular_nms: Flag = false,
        max_detections,
        /// Most classes of one box, unless classes are looked at by themselves.
        max_classes_per_detection: Int = 1,
        /// Most boxes of one class, if classes are looked at by themselves.
        max_detections_per_class: Int = 100,
        score_threshold,
        iou_threshold,
        /// True if class 0, the background, counts in the numbers of classes.
        background_in_labels: Flag = false,
    } => { Detections:
        /// `[batches, detections]`.
        scores,
        /// `[batches, detections, 4]`, top, left, bottom, right.
        boxes,
        /// `[batches, detections]`, of INT32.
        classes,
        /// The number of them: `[batches]`, of INT32.
        counts
    };
    /// Boxes by anchors around each pixel, the best of those that overlap.
    GenerateProposals generate_proposals(
        scores: OperandId, deltas: OperandId, anchors: OperandId, image_info: OperandId,
        stride: Ratio; iou_threshold: Float
    ) {
        /// Most boxes to look at; none or less is no limit.
        pre_nms_max: Int = 0,
        /// Most boxes of a picture; none or less is no limit.
        post_nms_max: Int = -1,
        iou_threshold,
        /// Boxes that are narrower or lower are out.
        min_size: Float = 0.0,
        /// True if channels come before height and width.
        nchw: Flag = false,
    } => { Proposals:
        /// `[boxes]`.
        scores,
        /// `[boxes, 4]`.
        boxes,
        /// The picture that each is of: `[boxes]`, of INT32.
        batch_index
    };
    /// The place where each heatmap of each box is greatest, between pixels.
    HeatmapMaxKeypoint heatmap_max_keypoint(heatmap: OperandId, boxes: OperandId) {
        /// True if channels come before height and width.
        nchw: Flag = false,
    } => { Keypoints:
        /// `[boxes, keypoints]`.
        scores,
        /// `[boxes, keypoints, 2]`: x, y.
        keypoints
    };
    /// The parts of a picture in boxes, brought to `size` by means of samples between the pixels; a
    /// feature is `stride` pixels of the boxes' picture.
    RoiAlign roi_align(
        features: OperandId, boxes: OperandId, batch_index: OperandId, size: HeightFirst, stride: Ratio
    ) {
        /// The number of samples for a pixel in each direction; 0 takes as many as there are
        /// features.
        samples: HeightFirst = 0,
        /// True if channels come before height and width.
        nchw: Flag = false,
    } => one;
    /// The parts of a picture in boxes, brought to `size` by the greatest in each; a feature is
    /// `stride` pixels of the boxes' picture.
    RoiPooling roi_pooling(
        features: OperandId, boxes: OperandId, batch_index: OperandId, size: HeightFirst, stride: Ratio
    ) {
        /// True if channels come before height and width.
        nchw: Flag = false,
    } => one;
}
