//! Boxes by their corners, their overlap, and non-maximum suppression.

use std::collections::BinaryHeap;

use nnburst_kernels::tensor::poll;

use crate::ops::sort::sort_vec_by;

/// Corners `[x1, y1, x2, y2]`.
pub(super) type Corners = [f32; 4];

/// The corners of box `index` of a list of `[x1, y1, x2, y2]`.
pub(super) fn corners(boxes: &[f32], index: usize) -> Corners {
    let at = index * 4;
    boxes.get(at..at + 4).and_then(|four| four.try_into().ok()).unwrap_or_default()
}

/// Returns whether the corners are in order; NaN isn't.
pub(super) fn in_order([x1, y1, x2, y2]: Corners) -> bool {
    x1 <= x2 && y1 <= y2
}

/// Intersection over union. 0/0 gives NaN, every comparison with which is false: boxes without an
/// area suppress nothing.
pub(super) fn overlap(a: Corners, b: Corners) -> f32 {
    let area = |[x1, y1, x2, y2]: Corners| (x2 - x1) * (y2 - y1);
    let width = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let common = width * height;
    common / (area(a) + area(b) - common)
}

/// A box moved and stretched by `[dx, dy, dw, dh]` and clipped to an image of `(height, width)`.
/// There is no legacy "+ 1" to the width.
pub(super) fn transform(
    [x1, y1, x2, y2]: Corners,
    [dx, dy, dw, dh]: [f32; 4],
    height: f32,
    width: f32,
) -> Corners {
    let (w, h) = (x2 - x1, y2 - y1);
    let (x, y) = (f32::midpoint(x1, x2) + dx * w, f32::midpoint(y1, y2) + dy * h);
    let (w, h) = (dw.exp() * w, dh.exp() * h);
    // `max` then `min`, not `clamp`, which panics where the image's size is below 0 or NaN.
    let within = |value: f32, limit: f32| value.max(0.0).min(limit);
    [
        within(x - w / 2.0, width),
        within(y - h / 2.0, height),
        within(x + w / 2.0, width),
        within(y + h / 2.0, height),
    ]
}

/// Positions of the scores, highest first; equal scores keep their order.
pub(super) fn by_score(scores: &[f32], positions: &mut [usize]) -> Result<(), String> {
    sort_vec_by(positions, |&a, &b| scores[b].total_cmp(&scores[a]))
}

/// Candidates by their scores, highest first; equal scores keep their order. As few as are asked
/// for are put in order.
pub(super) enum BestFirst {
    /// Scores above the places from the end, and the candidates.
    Heap(BinaryHeap<u64>, Vec<usize>),
    /// More than fit between two polls.
    Sorted(std::vec::IntoIter<usize>),
}

impl BestFirst {
    /// Of candidates, which are places of `scores`.
    ///
    /// # Errors
    /// The run is to end.
    pub(super) fn new(scores: &[f32], mut candidates: Vec<usize>) -> Result<Self, String> {
        if candidates.len() > poll::CHUNK {
            by_score(scores, &mut candidates)?;
            return Ok(Self::Sorted(candidates.into_iter()));
        }
        poll::work(8 * candidates.len())?;
        // As integers scores have their order, those below 0 turned around.
        let key = |(place, &candidate): (usize, &usize)| {
            let bits = scores[candidate].to_bits();
            let high = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
            u64::from(high) << 32 | u64::from(u32::MAX - u32::try_from(place).unwrap_or(0))
        };
        let keys: Vec<u64> = candidates.iter().enumerate().map(key).collect();
        Ok(Self::Heap(BinaryHeap::from(keys), candidates))
    }
}

impl Iterator for BestFirst {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Self::Heap(keys, candidates) => {
                let [low, _] = halves(keys.pop()?);
                candidates.get(usize::try_from(u32::MAX - low).ok()?).copied()
            }
            Self::Sorted(candidates) => candidates.next(),
        }
    }
}

/// The low and the high 32 bits.
fn halves(x: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = x.to_le_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_le_bytes)
}

/// Hard non-maximum suppression: takes the highest score (the first of equals), drops what overlaps
/// it by `threshold` or more, and so on, at most `limit` times. Returns positions in order of
/// choice.
pub(super) fn hard_nms(
    scores: &[f32],
    candidates: Vec<usize>,
    box_of: impl Fn(usize) -> Corners,
    threshold: f32,
    limit: Option<usize>,
) -> Result<Vec<usize>, String> {
    let mut chosen: Vec<usize> = Vec::new();
    for candidate in BestFirst::new(scores, candidates)? {
        if limit.is_some_and(|limit| chosen.len() >= limit) {
            break;
        }
        let corners = box_of(candidate);
        if !poll::each(chosen.iter(), OVERLAP_NS)
            .any(|&other| overlap(box_of(other), corners) >= threshold)
        {
            chosen.push(candidate);
        }
        poll::work(OVERLAP_NS)?;
    }
    Ok(chosen)
}

/// What it takes to see how far two boxes overlap, about.
pub(super) const OVERLAP_NS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_of_known_boxes() {
        let unit = [0.0, 0.0, 2.0, 2.0];
        for (what, other, want) in [
            ("the same", unit, 1.0),
            ("apart", [3.0, 3.0, 4.0, 4.0], 0.0),
            ("half", [0.0, 0.0, 2.0, 1.0], 0.5),
        ] {
            assert_eq!(overlap(unit, other), want, "{what}");
        }
        let point = [1.0, 1.0, 1.0, 1.0];
        assert!(overlap(point, point).is_nan());
    }

    #[test]
    fn the_best_come_first_and_equals_in_their_order() {
        let few = [0.5, -1.0, 2.0, 0.5, -0.0, 0.0, f32::INFINITY, -3.0, f32::NEG_INFINITY, 0.5];
        let many: Vec<f32> = (0..=poll::CHUNK).map(|at| few[at % few.len()]).collect();
        for scores in [&few[..], &many] {
            let mut want: Vec<usize> = (0..scores.len()).filter(|at| at % 7 != 3).collect();
            let got: Vec<usize> = BestFirst::new(scores, want.clone()).unwrap().collect();
            by_score(scores, &mut want).unwrap();
            assert_eq!(got, want);
        }
    }

    #[test]
    fn suppression_keeps_the_best_of_those_that_overlap() {
        let boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]];
        let scores = [0.5, 0.9, 0.9];
        let nms = |limit| hard_nms(&scores, vec![0, 1, 2], |at| boxes[at], 0.5, limit).unwrap();
        assert_eq!(nms(None), [1, 2]);
        assert_eq!(nms(Some(1)), [1]);
        assert!(nms(Some(0)).is_empty());
    }
}
