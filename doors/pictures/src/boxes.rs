//! Detection: boxes that the model itself has sorted out (TFLite_Detection_PostProcess).

use nnburst_tflite::TensorInfo;

use crate::decoder::PictureSize;
use crate::tensor::{Limits, OutputTensor, element_count};

/// An object in a picture. Coordinates are fractions of the picture's sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// The number of its class.
    pub class: usize,
    /// Its score, as the model gives it.
    pub score: f64,
    /// Its left edge.
    pub left: f32,
    /// Its upper edge.
    pub top: f32,
    /// Its right edge.
    pub right: f32,
    /// Its lower edge.
    pub bottom: f32,
}

impl Detection {
    /// A box of corners as models give them: clamped to the picture.
    pub(crate) fn new(class: usize, score: f64, corners: [f32; 4]) -> Option<Self> {
        if corners.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let [top, left, bottom, right] = corners.map(|value| value.clamp(0.0, 1.0));
        Some(Self { class, score, left, top, right: right.max(left), bottom: bottom.max(top) })
    }

    /// The left and upper edge, width and height in pixels of a picture.
    pub fn pixels(&self, size: PictureSize) -> (u32, u32, u32, u32) {
        let (left, right) = (pixel(self.left, size.width), pixel(self.right, size.width));
        let (top, bottom) = (pixel(self.top, size.height), pixel(self.bottom, size.height));
        (left, top, right.saturating_sub(left), bottom.saturating_sub(top))
    }
}

/// The pixel at a fraction of a side.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the side")]
pub fn pixel(fraction: f32, side: u32) -> u32 {
    (f64::from(fraction.clamp(0.0, 1.0)) * f64::from(side)).round() as u32
}

/// The positions of the four outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    boxes: usize,
    classes: usize,
    scores: usize,
    count: usize,
}

impl Order {
    /// The order of the operator, or that of models that TensorFlow 2 exports, whose outputs are
    /// sorted by other names.
    pub(crate) fn of(outputs: &[TensorInfo]) -> Option<Self> {
        const OPERATOR: Order = Order { boxes: 0, classes: 1, scores: 2, count: 3 };
        const EXPORTED: Order = Order { boxes: 1, classes: 3, scores: 0, count: 2 };
        let fits = |order: &Self| {
            let [boxes, classes, scores, count] =
                [order.boxes, order.classes, order.scores, order.count]
                    .map(|at| outputs.get(at).map(|it| (element_count(it), it.dims.as_slice())));
            let (Some((_, &[1, number, 4])), Some((_, &[1, classes])), Some((_, &[1, scores]))) =
                (boxes, classes, scores)
            else {
                return false;
            };
            classes == number && scores == number && count.is_some_and(|(count, _)| count == 1)
        };
        [OPERATOR, EXPORTED].into_iter().find(|order| outputs.len() == 4 && fits(order))
    }

    pub(crate) fn decode(self, tensors: &[OutputTensor<'_>], limits: Limits) -> Vec<Detection> {
        let values = |at: usize| tensors.get(at).map(|tensor| tensor.values()).unwrap_or_default();
        let (boxes, classes) = (values(self.boxes), values(self.classes));
        let (scores, count) = (values(self.scores), values(self.count));
        let count = count.first().copied().map_or(0, whole);
        let found = boxes.as_chunks::<4>().0.iter().zip(classes).zip(scores).take(count);
        let mut found: Vec<_> = found
            .filter(|(_, score)| f64::from(*score) >= limits.threshold)
            .filter_map(|((corners, class), score)| {
                Detection::new(whole(class), f64::from(score), *corners)
            })
            .collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found
    }
}

/// A count or class number out of a float; 0 for what is neither.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
fn whole(value: f32) -> usize {
    value.round().clamp(0.0, 1e6) as usize
}

#[cfg(test)]
mod tests {
    use nnburst::hal::OperandType;

    use super::*;
    use crate::tensor::tests::output;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn counts_and_corners_from_a_model_are_not_trusted() {
        let float = |dims: &[u32]| output(OperandType::TensorFloat32, dims);
        let infos = [float(&[1, 2, 4]), float(&[1, 2]), float(&[1, 2]), float(&[1])];
        let order = Order::of(&infos).unwrap();
        let limits = Limits { top_k: 5, threshold: 0.25 };
        let decode = |boxes: [f32; 8], classes: [f32; 2], scores: [f32; 2], count: f32| {
            let data = [bytes(&boxes), bytes(&classes), bytes(&scores), bytes(&[count])];
            let tensors: Vec<_> =
                infos.iter().zip(&data).map(|(info, data)| OutputTensor::new(info, data)).collect();
            order.decode(&tensors, limits)
        };
        let boxes = [-0.5, 0.25, 0.5, 7.0, 0.1, 0.2, 0.3, 0.4];
        let found = decode(boxes, [16.0, -3.0], [0.5, 0.75], 1e9);
        assert_eq!(found.len(), 2, "as many as there are");
        assert_eq!((found[0].class, found[0].score), (0, 0.75), "best first");
        assert_eq!(found[1].pixels(PictureSize { width: 100, height: 200 }), (25, 0, 75, 100));
        assert_eq!(decode(boxes, [1.0; 2], [0.5, 0.2], 2.0).len(), 1, "threshold");
        assert_eq!(decode(boxes, [1.0; 2], [0.5; 2], f32::NAN).len(), 0);
        assert_eq!(decode([f32::NAN; 8], [1.0; 2], [0.5; 2], 2.0).len(), 0);
    }

    #[test]
    fn exports_of_tensorflow_2_have_another_order() {
        let float = |dims: &[u32]| output(OperandType::TensorFloat32, dims);
        let infos = [float(&[1, 25]), float(&[1, 25, 4]), float(&[1]), float(&[1, 25])];
        assert_eq!(Order::of(&infos).unwrap().classes, 3);
        let infos = [float(&[1, 25]), float(&[1, 24, 4]), float(&[1]), float(&[1, 25])];
        assert_eq!(Order::of(&infos), None);
    }
}
