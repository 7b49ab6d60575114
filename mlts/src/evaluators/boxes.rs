//! Detections: boxes with classes and scores, and which of the expected ones were found.

use super::difference::{ElementType, values};

/// A box: top, left, bottom, right from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Detection {
    pub(crate) corners: [f64; 4],
    pub(crate) class: f64,
    pub(crate) score: f64,
}

/// The least score of a detection that has to be found.
const SURE: f64 = 0.5;
const LEAST_IOU: f64 = 0.9;
const SCORES_APART: f64 = 0.03;

/// The detections in the four outputs of a detector: boxes, classes, scores, count.
pub(crate) fn detections(outputs: &[Vec<u8>]) -> Vec<Detection> {
    let floats = |at: usize| outputs.get(at).map(|bytes| values(ElementType::Float32, bytes));
    let (Some(corners), Some(classes), Some(scores)) = (floats(0), floats(1), floats(2)) else {
        return Vec::new();
    };
    let corners = corners.as_chunks::<4>().0.iter();
    let all = corners.zip(classes).zip(scores);
    all.map(|((&corners, class), score)| Detection { corners, class, score }).collect()
}

/// The expected detections that were not found: none of the same class overlaps by nine tenths with
/// a score within 0.03.
pub(crate) fn missed(actual: &[Detection], expected: &[Detection]) -> usize {
    let sure = expected.iter().filter(|one| one.score >= SURE);
    let is_found = |want: &Detection| {
        actual.iter().any(|got| {
            got.class == want.class
                && overlap(&got.corners, &want.corners) >= LEAST_IOU
                && (got.score - want.score).abs() <= SCORES_APART
        })
    };
    sure.filter(|want| !is_found(want)).count()
}

/// The intersection over union of two boxes.
fn overlap(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let [top, left, bottom, right] = *a;
    let [b_top, b_left, b_bottom, b_right] = *b;
    let area = |top: f64, left: f64, bottom: f64, right: f64| {
        (bottom - top).max(0.0) * (right - left).max(0.0)
    };
    let both = area(top.max(b_top), left.max(b_left), bottom.min(b_bottom), right.min(b_right));
    let either = area(top, left, bottom, right) + area(b_top, b_left, b_bottom, b_right) - both;
    if either > 0.0 { both / either } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAT: Detection = Detection { corners: [0.0, 0.0, 1.0, 1.0], class: 16.0, score: 0.7 };

    #[test]
    fn a_detection_is_found_by_class_place_and_score() {
        let with = |change: &dyn Fn(&mut Detection)| {
            let mut got = CAT;
            change(&mut got);
            missed(&[got], &[CAT])
        };
        assert_eq!(with(&|_| ()), 0);
        assert_eq!(with(&|got| got.class = 17.0), 1);
        assert_eq!(with(&|got| got.score = 0.66), 1);
        assert_eq!(with(&|got| got.corners[2] = 0.95), 0);
        assert_eq!(with(&|got| got.corners[2] = 0.85), 1);
    }

    #[test]
    fn what_is_unsure_need_not_be_found() {
        assert_eq!(missed(&[], &[Detection { score: 0.4, ..CAT }]), 0);
        assert_eq!(missed(&[], &[CAT]), 1);
    }

    #[test]
    fn raw_outputs_become_detections() {
        let floats = |list: &[f32]| list.iter().flat_map(|value| value.to_le_bytes()).collect();
        let outputs = [floats(&[0.0, 0.0, 1.0, 1.0]), floats(&[16.0]), floats(&[0.5])];
        assert_eq!(detections(&outputs), [Detection { score: 0.5, ..CAT }]);
        assert!(detections(&outputs[..2]).is_empty());
    }
}
