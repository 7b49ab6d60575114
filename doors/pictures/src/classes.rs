//! Classification: the best of a model's classes.

use nnburst_tflite::TensorInfo;

use crate::tensor::{Limits, OutputTensor, element_count};

/// A class and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Its number.
    pub index: usize,
    /// Its score, as the model gives it.
    pub score: f64,
}

/// Returns whether the outputs are the scores of classes: one of `[1, N]`, or with more extents
/// of 1.
pub(crate) fn are_classes(outputs: &[TensorInfo]) -> bool {
    let [scores] = outputs else { return false };
    let last = scores.dims.last().map_or(0, |&last| usize::try_from(last).unwrap_or(0));
    last >= 2 && element_count(scores) == last
}

/// The best classes, best first; of equals the one with the lower number first.
pub(crate) fn best(scores: &OutputTensor<'_>, limits: Limits) -> Vec<Class> {
    let scored = scores.values().into_iter().enumerate();
    let mut classes: Vec<Class> = scored
        .map(|(index, score)| Class { index, score: f64::from(score) })
        .filter(|class| class.score >= limits.threshold)
        .collect();
    let order = |a: &Class, b: &Class| b.score.total_cmp(&a.score).then(a.index.cmp(&b.index));
    let top_k = limits.top_k.min(classes.len());
    if top_k > 0 && top_k < classes.len() {
        classes.select_nth_unstable_by(top_k, order);
    }
    classes.truncate(top_k);
    classes.sort_unstable_by(order);
    classes
}

#[cfg(test)]
mod tests {
    use nnburst::hal::OperandType;

    use super::*;
    use crate::tensor::tests::output;

    #[test]
    fn the_best_come_first_and_equals_in_order() {
        let info = output(OperandType::TensorQuant8Asymm, &[1, 6]);
        let scores = OutputTensor::new(&info, &[3, 9, 1, 9, 4, 0]);
        let best = |top_k, threshold| -> Vec<usize> {
            let classes = best(&scores, Limits { top_k, threshold });
            classes.iter().map(|class| class.index).collect()
        };
        assert_eq!(best(3, 0.0), [1, 3, 4]);
        assert_eq!(best(100, 3.0), [1, 3, 4, 0]);
        assert!(best(0, 0.0).is_empty());
        assert!(best(5, 10.0).is_empty());
    }

    #[test]
    fn scores_that_are_no_numbers_do_no_harm() {
        let info = output(OperandType::TensorFloat32, &[1, 3]);
        let bytes: Vec<u8> =
            [f32::NAN, 0.5, f32::NAN].iter().flat_map(|f| f.to_le_bytes()).collect();
        let classes = best(&OutputTensor::new(&info, &bytes), Limits { top_k: 5, threshold: 0.0 });
        assert_eq!(classes, [Class { index: 1, score: 0.5 }]);
    }
}
