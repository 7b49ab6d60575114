//! Operations on boxes and regions of interest.
//!
//! Coordinates of the quantised forms are QUANT16_ASYMM of scale 1/8 and zero point 0; those forms
//! are dequantised to `f32`, computed as the float forms are, and quantised again, but for the
//! features of ROI_ALIGN and ROI_POOLING. FLOAT16 is computed in `f32` and rounded once.

mod bbox_transform;
mod box_with_nms_limit;
mod boxes;
mod detection_postprocessing;
mod generate_proposals;
mod heatmap_max_keypoint;
mod numbers;
mod roi;
mod roi_align;
mod roi_pooling;

pub(super) use bbox_transform::AXIS_ALIGNED_BBOX_TRANSFORM;
pub(super) use box_with_nms_limit::BOX_WITH_NMS_LIMIT;
pub(super) use detection_postprocessing::DETECTION_POSTPROCESSING;
pub(super) use generate_proposals::GENERATE_PROPOSALS;
pub(super) use heatmap_max_keypoint::HEATMAP_MAX_KEYPOINT;
pub(super) use roi_align::ROI_ALIGN;
pub(super) use roi_pooling::ROI_POOLING;
