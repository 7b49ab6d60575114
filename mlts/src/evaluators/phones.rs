//! The phone error rate: the edit distance of the best phones of all frames.

use super::difference::{ElementType, values};
use crate::num::real;

/// The class of frames without a phone.
const BLANK: usize = 0;

/// The edit distance between two sequences of phones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PhoneErrors {
    /// Edits in per cent of the expected frames.
    pub(crate) percent: f64,
    /// The same after repeats and blanks are removed, in per cent of the phones that are left.
    pub(crate) merged_percent: f64,
    /// The share of frames with the same best class.
    pub(crate) equal_frames: f64,
}

/// Compares scores of frames of `classes` floats each.
pub(crate) fn phone_error_rate(actual: &[u8], expected: &[u8], classes: usize) -> PhoneErrors {
    let (got, want) = (best_of_frames(actual, classes), best_of_frames(expected, classes));
    let equal = got.iter().zip(&want).filter(|(got, want)| got == want).count();
    let (got_merged, want_merged) = (merged(&got), merged(&want));
    PhoneErrors {
        percent: percent(edit_distance(&got, &want), want.len()),
        merged_percent: percent(edit_distance(&got_merged, &want_merged), want_merged.len()),
        equal_frames: if want.is_empty() { 1.0 } else { real(equal) / real(want.len()) },
    }
}

fn percent(edits: usize, of: usize) -> f64 {
    if of == 0 { if edits == 0 { 0.0 } else { 100.0 } } else { 100.0 * real(edits) / real(of) }
}

fn best_of_frames(bytes: &[u8], classes: usize) -> Vec<usize> {
    let scores = values(ElementType::Float32, bytes);
    let best = |frame: &[f64]| {
        let mut best = 0;
        for (at, score) in frame.iter().enumerate() {
            if frame.get(best).is_none_or(|most| score > most) {
                best = at;
            }
        }
        best
    };
    scores.chunks_exact(classes.max(1)).map(best).collect()
}

/// Repeats and blanks removed.
fn merged(frames: &[usize]) -> Vec<usize> {
    let mut phones = frames.to_vec();
    phones.dedup();
    phones.retain(|&phone| phone != BLANK);
    phones
}

/// The fewest insertions, deletions and replacements that make one sequence of the other.
fn edit_distance(a: &[usize], b: &[usize]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let replaced = corner + usize::from(x != y);
            corner = *cell;
            left = replaced.min(corner + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_as_few_as_can_be() {
        for (a, b, want) in [
            (&[1, 2, 3][..], &[1, 2, 3][..], 0),
            (&[], &[1, 2], 2),
            (&[1, 2, 3, 4], &[2, 3, 4], 1),
            (&[1, 2, 3, 4], &[2, 3, 4, 5], 2),
            (&[1, 9, 3], &[1, 2, 3], 1),
        ] {
            assert_eq!(edit_distance(a, b), want, "{a:?} {b:?}");
            assert_eq!(edit_distance(b, a), want, "{b:?} {a:?}");
        }
    }

    #[test]
    fn blanks_and_repeats_are_removed_in_the_merged_rate_alone() {
        // Classes of frames: expected 0 1 1 0, actual 0 0 0 0.
        let frame = |class: usize| [0, 1].map(|at| if at == class { 1f32 } else { 0.0 });
        let bytes = |classes: &[usize]| -> Vec<u8> {
            classes.iter().flat_map(|&class| frame(class)).flat_map(f32::to_le_bytes).collect()
        };
        let found = phone_error_rate(&bytes(&[0, 0, 0, 0]), &bytes(&[0, 1, 1, 0]), 2);
        assert_eq!(found, PhoneErrors { percent: 50.0, merged_percent: 100.0, equal_frames: 0.5 });
    }

    /// Real log-probabilities of 42 classes: themselves are right, and a frame more in front is
    /// one edit at the front and one at the end at most.
    #[test]
    fn real_scores_are_right_and_a_shift_is_what_edits_say() {
        let Some(folder) = nnburst_conformance::shared_dir("mlts") else { return };
        let mut files = 0;
        for file in std::fs::read_dir(folder.join("asr_float_data")).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|kind| kind != "golden") {
                continue;
            }
            let golden = std::fs::read(&path).unwrap();
            assert_eq!(phone_error_rate(&golden, &golden, 42).percent, 0.0);
            let (first, rest) = golden.split_at(42 * 4);
            let mut shifted = first.to_vec();
            shifted.extend_from_slice(first);
            shifted.extend_from_slice(&rest[..rest.len() - 42 * 4]);
            let frames = real(golden.len() / (42 * 4));
            let found = phone_error_rate(&shifted, &golden, 42).percent;
            assert!(found <= 200.0 / frames + 1e-9, "{}: {found} %", path.display());
            files += 1;
        }
        assert_eq!(files, 10);
    }
}
