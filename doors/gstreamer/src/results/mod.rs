//! Post-processing: from output tensors to classes, boxes, masks and keypoints.
//!
//! | outputs | task | done by |
//! |---|---|---|
//! | one of `[1, N]`, other extents 1 | classification | [`classes`] |
//! | boxes, classes, scores and count (TFLite_Detection_PostProcess) | detection | [`boxes`] |
//! | boxes `[1, A, 4]` and scores `[1, A, C]` of an SSD, still encoded | detection | [`anchors`] |
//! | one of `[1, H, W, C]`, or of integers `[1, H, W]` | segmentation | [`mask`] |
//! | one of `[1, 1, 17, 3]` | pose | [`pose`] |
//!
//! Whatever a model gives is data from outside: counts and class numbers are checked before they
//! are used.

#[cfg(feature = "v1_26")]
mod analytics;
mod anchors;
mod boxes;
mod classes;
mod mask;
mod metadata;
mod pose;
mod tensor;

use nnburst_tflite::TensorInfo;

pub(crate) use boxes::Detection;
pub(crate) use classes::Class;
pub(crate) use mask::Mask;
pub(crate) use metadata::{Report, attach, mask_buffer, mask_caps, structure};
pub(crate) use pose::Keypoint;
pub(crate) use tensor::Limits;
use tensor::OutputTensor;

/// The extents of a picture, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureSize {
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// The results of an inference.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Results {
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
    pub(crate) fn task(&self) -> &'static str {
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
pub(crate) struct Decoder {
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
    pub(crate) fn of(outputs: &[TensorInfo], picture: PictureSize) -> Self {
        let boxes = || boxes::Order::of(outputs).map(Task::Boxes);
        let anchors = || anchors::Ssd::of(outputs, picture).map(Task::Anchors);
        let pose = || pose::is_pose(outputs).then_some(Task::Pose);
        let mask = || mask::MaskShape::of(outputs).map(Task::Mask);
        let classes = || classes::are_classes(outputs).then_some(Task::Classes);
        let known = boxes().or_else(anchors).or_else(pose).or_else(mask).or_else(classes);
        Self { outputs: outputs.to_vec(), task: known.unwrap_or(Task::Unknown) }
    }

    /// Decodes the little-endian bytes of the outputs, in their order.
    pub(crate) fn decode(&self, bytes: &[Vec<u8>], limits: Limits) -> Results {
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
pub(crate) fn label(labels: &[String], class: usize) -> String {
    labels.get(class).cloned().unwrap_or_else(|| class.to_string())
}

#[cfg(test)]
mod tests {
    use nnburst::hal::OperandType;

    use super::tensor::tests::output;
    use super::*;

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
