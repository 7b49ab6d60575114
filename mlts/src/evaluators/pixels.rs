//! Segmentation: classes of pixels.

use crate::num::real;

/// The share of pixels that have the same class; 0 where the pictures differ in size.
pub(crate) fn agreement(actual: &[usize], expected: &[usize]) -> f64 {
    if actual.len() != expected.len() || expected.is_empty() {
        return 0.0;
    }
    let equal = actual.iter().zip(expected).filter(|(got, want)| got == want).count();
    real(equal) / real(expected.len())
}

/// The intersection over union of a class; 1 where neither has it.
pub(crate) fn iou(actual: &[usize], expected: &[usize], class: usize) -> f64 {
    let (mut both, mut either) = (0_usize, 0_usize);
    for (got, want) in actual.iter().zip(expected) {
        let (got, want) = (*got == class, *want == class);
        both += usize::from(got && want);
        either += usize::from(got || want);
    }
    if either == 0 { 1.0 } else { real(both) / real(either) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_pixels() {
        let (a, b) = ([0, 1, 1, 2], [0, 1, 2, 2]);
        assert_eq!(agreement(&a, &b), 0.75);
        assert_eq!(agreement(&a, &b[1..]), 0.0);
        assert_eq!((iou(&a, &b, 1), iou(&a, &b, 0), iou(&a, &b, 9)), (0.5, 1.0, 1.0));
    }
}
