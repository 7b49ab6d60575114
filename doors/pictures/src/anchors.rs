//! Detection: box encodings of an SSD without post-processing.
//!
//! Boxes are encoded relative to anchors, which such a model doesn't hold. These are the anchors of
//! TensorFlow's SSD over MobileNet: six feature maps, the first of a sixteenth of the input's side,
//! each next of half of that; scales 0.2 to 0.95; aspect ratios 1, 2, 1/2, 3, 1/3 and an
//! interpolated square, of which the first map has three only. Their number has to be that of the
//! model's boxes, or the model is another one.

use nnburst_tflite::TensorInfo;

use crate::boxes::Detection;
use crate::decoder::PictureSize;
use crate::tensor::{Limits, OutputTensor};

/// Factors of the encodings of the centre and of the size.
const CENTRE_FACTOR: f32 = 10.0;
const SIZE_FACTOR: f32 = 5.0;
/// The overlap (intersection over union) from which on two boxes of a class are one object.
const OVERLAP: f32 = 0.6;
/// The most boxes, as in models that do their own post-processing.
const MOST: usize = 10;
/// Only the best candidates are compared with each other.
const CANDIDATES: usize = 200;

/// The outputs of such a model.
#[derive(Debug)]
pub(crate) struct Ssd {
    boxes: usize,
    scores: usize,
    classes: usize,
    /// True if scores are logits.
    are_logits: bool,
    anchors: Vec<Anchor>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Anchor {
    y: f32,
    x: f32,
    height: f32,
    width: f32,
}

impl Ssd {
    /// The outputs in either order; `None` for others, or where the number of anchors is another.
    pub(crate) fn of(outputs: &[TensorInfo], picture: PictureSize) -> Option<Self> {
        let [first, second] = outputs else { return None };
        let count = |info: &TensorInfo| match *info.dims.as_slice() {
            [1, count, 4] | [1, count, 1, 4] => usize::try_from(count).ok(),
            _ => None,
        };
        let (boxes, scores, number) = match (count(first), count(second)) {
            (Some(number), _) => (0, 1, number),
            (None, Some(number)) => (1, 0, number),
            (None, None) => return None,
        };
        let info = outputs.get(scores)?;
        let &[1, all, classes] = info.dims.as_slice() else { return None };
        let anchors = anchors(picture);
        if classes < 2 || usize::try_from(all) != Ok(number) || anchors.len() != number {
            return None;
        }
        // By the names that TensorFlow gives to what has gone through an activation.
        let is_activated =
            ["sigmoid", "softmax", "convert_scores"].iter().any(|it| contains(&info.name, it));
        let classes = usize::try_from(classes).ok()?;
        Some(Self { boxes, scores, classes, are_logits: !is_activated, anchors })
    }

    /// The objects found, best first. Class 0 of the model is the background, so the first object
    /// has number 0, as in models that do their own post-processing.
    pub(crate) fn decode(&self, tensors: &[OutputTensor<'_>], limits: Limits) -> Vec<Detection> {
        let values = |at: usize| tensors.get(at).map(|tensor| tensor.values()).unwrap_or_default();
        let (boxes, scores) = (values(self.boxes), values(self.scores));
        let boxes = boxes.as_chunks::<4>().0.iter().zip(&self.anchors);
        let mut found: Vec<Detection> = boxes
            .zip(scores.chunks_exact(self.classes))
            .filter_map(|((encoding, anchor), scores)| {
                let objects = scores.iter().copied().enumerate().skip(1);
                let (class, score) = objects.max_by(|a, b| a.1.total_cmp(&b.1))?;
                let score = f64::from(if self.are_logits { sigmoid(score) } else { score });
                let is_enough = score >= limits.threshold;
                is_enough.then(|| Detection::new(class - 1, score, anchor.decode(*encoding)))?
            })
            .collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(CANDIDATES);
        let mut kept: Vec<Detection> = Vec::new();
        for candidate in found {
            let is_same = |other: &Detection| {
                other.class == candidate.class && overlap(other, &candidate) > OVERLAP
            };
            if kept.len() < MOST && !kept.iter().any(is_same) {
                kept.push(candidate);
            }
        }
        kept
    }
}

impl Anchor {
    /// Upper, left, lower and right edge of an encoded box.
    fn decode(self, [y, x, height, width]: [f32; 4]) -> [f32; 4] {
        let centre_y = y / CENTRE_FACTOR * self.height + self.y;
        let centre_x = x / CENTRE_FACTOR * self.width + self.x;
        let half_height = (height / SIZE_FACTOR).exp() * self.height / 2.0;
        let half_width = (width / SIZE_FACTOR).exp() * self.width / 2.0;
        [
            centre_y - half_height,
            centre_x - half_width,
            centre_y + half_height,
            centre_x + half_width,
        ]
    }
}

/// The anchors for an input of so many pixels, row by row of each feature map.
fn anchors(input: PictureSize) -> Vec<Anchor> {
    const MAPS: u8 = 6;
    let mut anchors = Vec::new();
    let (mut columns, mut rows) = (input.width.div_ceil(16), input.height.div_ceil(16));
    // An input of more than 2,048 pixels has another network.
    if columns > 128 || rows > 128 {
        return anchors;
    }
    for map in 0..MAPS {
        let scale = scale(map);
        let next = if map + 1 < MAPS { self::scale(map + 1) } else { 1.0 };
        let shapes: Vec<(f32, f32)> = if map == 0 {
            vec![(0.1, 1.0), (scale, 2.0), (scale, 0.5)]
        } else {
            let ratios = [1.0, 2.0, 0.5, 3.0, 1.0 / 3.0].map(|ratio| (scale, ratio));
            ratios.into_iter().chain([((scale * next).sqrt(), 1.0)]).collect()
        };
        for row in 0..rows {
            for column in 0..columns {
                for &(scale, ratio) in &shapes {
                    anchors.push(Anchor {
                        y: middle(row, rows),
                        x: middle(column, columns),
                        height: scale / ratio.sqrt(),
                        width: scale * ratio.sqrt(),
                    });
                }
            }
        }
        (columns, rows) = (columns.div_ceil(2), rows.div_ceil(2));
    }
    anchors
}

/// The scale of a feature map's anchors.
fn scale(map: u8) -> f32 {
    0.2 + (0.95 - 0.2) * f32::from(map) / 5.0
}

/// The middle of one of `all` equal parts.
fn middle(part: u32, all: u32) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "a fraction")]
    let middle = ((f64::from(part) + 0.5) / f64::from(all)) as f32;
    middle
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Intersection over union.
fn overlap(a: &Detection, b: &Detection) -> f32 {
    let area = |it: &Detection| (it.right - it.left) * (it.bottom - it.top);
    let width = (a.right.min(b.right) - a.left.max(b.left)).max(0.0);
    let height = (a.bottom.min(b.bottom) - a.top.max(b.top)).max(0.0);
    let union = area(a) + area(b) - width * height;
    if union > 0.0 { width * height / union } else { 0.0 }
}

fn contains(name: &str, part: &str) -> bool {
    name.to_ascii_lowercase().contains(part)
}

#[cfg(test)]
mod tests {
    use nnburst::hal::OperandType;

    use super::*;
    use crate::tensor::tests::output;

    fn square(side: u32) -> PictureSize {
        PictureSize { width: side, height: side }
    }

    #[test]
    fn anchors_are_as_many_as_the_models_of_tensorflow_have() {
        assert_eq!(anchors(square(300)).len(), 1917);
        assert_eq!(anchors(square(320)).len(), 2034);
        assert_eq!(anchors(square(4000)).len(), 0);
        let first = anchors(square(300));
        let near = |anchor: &Anchor, want: [f32; 4]| {
            let got = [anchor.y, anchor.x, anchor.height, anchor.width];
            assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?} {want:?}");
        };
        // As in the constants of ssd_mobilenet_v1_coco: a small square, then 2:1 and 1:2.
        near(&first[0], [0.5 / 19.0, 0.5 / 19.0, 0.1, 0.1]);
        near(&first[1], [0.5 / 19.0, 0.5 / 19.0, 0.141_421, 0.282_843]);
        near(&first[2], [0.5 / 19.0, 0.5 / 19.0, 0.282_843, 0.141_421]);
        near(&first[3], [0.5 / 19.0, 1.5 / 19.0, 0.1, 0.1]);
        // The last map has one place; its interpolated square ends the list.
        near(&first[1916], [0.5, 0.5, 0.974_679, 0.974_679]);
    }

    #[test]
    fn boxes_are_decoded_and_those_of_one_object_become_one() {
        let float = |dims: &[u32]| output(OperandType::TensorFloat32, dims);
        let infos = [float(&[1, 1917, 4]), float(&[1, 1917, 3])];
        let ssd = Ssd::of(&infos, square(300)).unwrap();
        let (mut boxes, mut scores) = (vec![0.0; 1917 * 4], vec![-10.0; 1917 * 3]);
        // The same object by two anchors at one place, and another elsewhere.
        scores[1916 * 3 + 2] = 2.0;
        scores[1911 * 3 + 2] = 1.0;
        boxes[1916 * 4 + 1] = 1.0; // a tenth of the anchor's width to the right
        scores[1] = 0.0;
        let bytes =
            |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let data = [bytes(&boxes), bytes(&scores)];
        let tensors: Vec<_> =
            infos.iter().zip(&data).map(|(info, data)| OutputTensor::new(info, data)).collect();
        let found = ssd.decode(&tensors, Limits { top_k: 5, threshold: 0.4 });
        assert_eq!(found.iter().map(|it| it.class).collect::<Vec<_>>(), [1, 0]);
        assert!((found[0].score - f64::from(sigmoid(2.0))).abs() < 1e-6);
        assert!((found[0].left - (0.5 + 0.097_468 - 0.487_339)).abs() < 1e-4, "{found:?}");
        assert!((found[1].score - 0.5).abs() < 1e-6);
        assert!((found[1].bottom - (0.5 / 19.0 + 0.05)).abs() < 1e-5);
    }
}
