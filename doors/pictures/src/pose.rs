//! Pose: the keypoints of a body, as MoveNet gives them.

use nnburst::hal::OperandType;
use nnburst_tflite::TensorInfo;

use crate::tensor::{Limits, OutputTensor};

/// A point of a body. Coordinates are fractions of the picture's sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keypoint {
    /// Index into [`NAMES`].
    pub part: usize,
    /// Its score, as the model gives it.
    pub score: f64,
    /// Its distance from the left edge.
    pub x: f32,
    /// Its distance from the upper edge.
    pub y: f32,
}

/// The 17 points of the COCO data set.
pub const NAMES: [&str; 17] = [
    "nose",
    "left_eye",
    "right_eye",
    "left_ear",
    "right_ear",
    "left_shoulder",
    "right_shoulder",
    "left_elbow",
    "right_elbow",
    "left_wrist",
    "right_wrist",
    "left_hip",
    "right_hip",
    "left_knee",
    "right_knee",
    "left_ankle",
    "right_ankle",
];

impl Keypoint {
    /// The part of the body, as in [`NAMES`].
    pub fn name(&self) -> &'static str {
        NAMES.get(self.part).copied().unwrap_or_default()
    }
}

/// Returns whether the outputs are y, x and score of 17 keypoints.
pub(crate) fn is_pose(outputs: &[TensorInfo]) -> bool {
    let [points] = outputs else { return false };
    let is_float = points.kind == OperandType::TensorFloat32;
    is_float && matches!(points.dims.as_slice(), [1, 1, 17, 3] | [1, 17, 3])
}

/// The points whose score is high enough.
pub(crate) fn keypoints(points: &OutputTensor<'_>, limits: Limits) -> Vec<Keypoint> {
    let values = points.values();
    let points = values.as_chunks::<3>().0.iter().enumerate();
    points
        .filter(|(_, point)| point.iter().all(|value| value.is_finite()))
        .map(|(part, &[y, x, score])| Keypoint { part, score: f64::from(score), x, y })
        .filter(|point| point.score >= limits.threshold)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::tests::output;

    #[test]
    fn points_have_names_and_scores() {
        let info = output(OperandType::TensorFloat32, &[1, 1, 17, 3]);
        assert!(is_pose(std::slice::from_ref(&info)));
        let values =
            (0..17u8).flat_map(|part| [0.5, f32::from(part) / 16.0, f32::from(part) / 20.0]);
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        let limits = Limits { top_k: 5, threshold: 0.5 };
        let points = keypoints(&OutputTensor::new(&info, &bytes), limits);
        assert_eq!(points.len(), 7);
        assert_eq!((points[6].name(), points[6].x, points[6].y), ("right_ankle", 1.0, 0.5));
    }
}
