//! The choice of the post-processing by the shapes of a model's outputs.

use nnburst_tflite::TensorInfo;

use crate::anchors;
use crate::boxes::{self, Detection};
use crate::classes::{self, Class};
use crate::mask::{self, Mask};
use crate::pose::{self, Keypoint};
use crate::tensor::{Limits, OutputTensor};

/// The extents of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureSize {
    /// Its columns.
    pub width: u32,
    /// Its rows.
    pub height: u32,
}

/// The results of an inference.
#[derive(Clone, Debug, PartialEq)]
pub enum Results {
    /// The best classes, best first.
    Classes(Vec<Class>),
    /// The objects found, best first.
    Boxes(Vec<Detection>),
    /// The class of each pixel.
    Mask(Mask),
    /// The points of a body.
    Pose(Vec<Keypoint>),
    /// Tensors that no post-processing is known for.
    Tensors,
}

impl Results {
    /// The name of the task, as in messages.
    pub fn task(&self) -> &'static str {
        match self {
            Self::Classes(_) => "classification",
            Self::Boxes(_) => "detection",
            Self::Mask(_) => "segmentation",
            Self::Pose(_) => "pose",
            Self::Tensors => "tensors",
        }
    }
}

/// Post-processing of a model's outputs.
#[derive(Debug)]
pub struct Decoder {
    outputs: Vec<TensorInfo>,
    task: Task,
}

#[derive(Debug)]
enum Task {
    Classes,
    Boxes(boxes::Order),
    Anchors(anchors::Ssd),
    Mask(mask::MaskShape),
    Pose,
    Unknown,
}

impl Decoder {
    /// Chooses the task by the shapes of the outputs; `picture` is the input.
    pub fn of(outputs: &[TensorInfo], picture: PictureSize) -> Self {
        let boxes = || boxes::Order::of(outputs).map(Task::Boxes);
        let anchors = || anchors::Ssd::of(outputs, picture).map(Task::Anchors);
        let pose = || pose::is_pose(outputs).then_some(Task::Pose);
        let mask = || mask::MaskShape::of(outputs).map(Task::Mask);
        let classes = || classes::are_classes(outputs).then_some(Task::Classes);
        let known = boxes().or_else(anchors).or_else(pose).or_else(mask).or_else(classes);
        Self { outputs: outputs.to_vec(), task: known.unwrap_or(Task::Unknown) }
    }

    /// Decodes the little-endian bytes of the outputs, in their order.
    pub fn decode(&self, bytes: &[Vec<u8>], limits: Limits) -> Results {
        let tensors: Vec<OutputTensor<'_>> = self
            .outputs
            .iter()
            .zip(bytes)
            .map(|(info, bytes)| OutputTensor::new(info, bytes))
            .collect();
        match (&self.task, tensors.as_slice()) {
            (Task::Classes, [scores]) => Results::Classes(classes::best(scores, limits)),
            (Task::Boxes(order), tensors) => Results::Boxes(order.decode(tensors, limits)),
            (Task::Anchors(ssd), tensors) => Results::Boxes(ssd.decode(tensors, limits)),
            (Task::Mask(layout), [scores]) => Results::Mask(layout.decode(scores)),
            (Task::Pose, [points]) => Results::Pose(pose::keypoints(points, limits)),
            _ => Results::Tensors,
        }
    }
}

/// A label for a class; its number where there is none.
pub fn label(labels: &[String], class: usize) -> String {
    labels.get(class).cloned().unwrap_or_else(|| class.to_string())
}

#[cfg(test)]
mod tests {
    use nnburst::hal::OperandType;

    use super::*;
    use crate::tensor::tests::output;

    #[test]
    fn the_task_follows_from_the_outputs() {
        let float = |dims: &[u32]| output(OperandType::TensorFloat32, dims);
        let task = |outputs: &[TensorInfo]| {
            Decoder::of(outputs, PictureSize { width: 300, height: 300 }).task
        };
        assert!(matches!(task(&[float(&[1, 1001])]), Task::Classes));
        assert!(matches!(task(&[float(&[1, 1, 1, 10])]), Task::Classes));
        let ssd = [float(&[1, 10, 4]), float(&[1, 10]), float(&[1, 10]), float(&[1])];
        assert!(matches!(task(&ssd), Task::Boxes(_)));
        assert!(matches!(task(&[float(&[1, 1917, 4]), float(&[1, 1917, 91])]), Task::Anchors(_)));
        assert!(matches!(task(&[float(&[1, 3, 4]), float(&[1, 3, 91])]), Task::Unknown));
        assert!(matches!(task(&[float(&[1, 1, 17, 3])]), Task::Pose));
        assert!(matches!(task(&[float(&[1, 257, 257, 21])]), Task::Mask(_)));
        let words = output(OperandType::TensorInt32, &[1, 513, 513]);
        assert!(matches!(task(&[words]), Task::Mask(_)));
        assert!(matches!(task(&[float(&[1, 513, 513])]), Task::Unknown));
        assert!(matches!(task(&[]), Task::Unknown));
    }
}
