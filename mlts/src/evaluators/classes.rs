//! The best classes of scores; ties go to the lower index.

use super::difference::{ElementType, values};

/// The class with the largest score; `None` of nothing.
pub(crate) fn best_class(kind: ElementType, bytes: &[u8]) -> Option<usize> {
    top_classes(kind, bytes, 1).first().copied()
}

/// The `count` classes with the largest scores, best first.
pub(crate) fn top_classes(kind: ElementType, bytes: &[u8], count: usize) -> Vec<usize> {
    let scores = values(kind, bytes);
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let score = |at: usize| scores.get(at).copied().unwrap_or(f64::NEG_INFINITY);
    order.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
    order.truncate(count);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_comes_first_and_ties_go_to_the_lower_index() {
        assert_eq!(top_classes(ElementType::Int8, &[1, 0xff, 7, 7], 3), [2, 3, 0]);
        assert_eq!(best_class(ElementType::Uint8, &[1, 0xff, 7]), Some(1));
        assert_eq!(best_class(ElementType::Uint8, &[]), None);
    }
}
