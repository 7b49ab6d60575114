//! Weights that are whole steps of one scale per column: what a converter had compressed to bytes.
//!
//! Nobody says so, since a model widens them by an operation like any other (or did before it was
//! written), but the numbers show it: each is *exactly* the product of an integer up to 255 and its
//! row's scale. Of a float that is such an integer the lower half is zeros.
//!
//! Sums of steps are scaled in the end, which rounds each product twice, except where the number of
//! steps is a power of two. Weights that round no product (1, 0.5, ...) are therefore kept as steps
//! only where their scale is a power of two as well, and a scale has as few steps as it can.

use crate::tensor::poll;

/// As far as a byte counts on either side of a zero point.
const MOST: u8 = 255;

/// Fewer weights than this aren't worth a look: they stay in L1 as floats.
pub(super) const WORTH: usize = 4096;

/// The scale of each row of `depth` weights; `None` where one of the rows has none.
pub(super) fn scales(weights: &[f32], depth: usize) -> Option<Vec<f32>> {
    if weights.len() < WORTH {
        return None;
    }
    weights.chunks_exact(depth).map(scale).collect()
}

/// The number of steps that make up a weight of a row of that scale, as the upper half of a float.
/// A quotient that is off by a rounding is nearest to the integer that it should be.
pub(super) fn upper_half(weight: f32, scale: f32) -> u16 {
    half::bf16::from_f32(weight / scale).to_bits()
}

fn count(weight: f32, scale: f32) -> f32 {
    (weight / scale).round()
}

/// Returns whether a normal number is a power of two, or the negative of one.
fn is_power_of_two(x: f32) -> bool {
    x != 0.0 && x.to_bits().trailing_zeros() >= f32::MANTISSA_DIGITS - 1
}

/// Converters make the largest weight of a row, or of some of its rows, the last step. Rows that
/// are not made of steps differ from all candidates within a few weights.
fn scale(row: &[f32]) -> Option<f32> {
    let most = row.iter().fold(0.0f32, |most, weight| most.max(weight.abs()));
    if most == 0.0 {
        return Some(1.0);
    }
    let near = |steps: u8| {
        let scale = most / f32::from(steps);
        // The quotient of a rounded product may be off by one rounding.
        [scale, scale.next_down(), scale.next_up()]
    };
    let is_kept = |w: f32, scale: f32| {
        count(w, scale) * scale == w && (!is_power_of_two(w) || is_power_of_two(scale))
    };
    let fits = |scale: &f32| poll::each(row.iter(), 4).all(|&w| is_kept(w, *scale));
    (1..=MOST).flat_map(near).filter(|scale| scale.is_normal()).find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        (0..64).flat_map(|row| (0..70).map(move |at| (row, at))).map(|(r, a)| of(r, a)).collect()
    }

    #[test]
    fn widened_bytes_are_found_and_come_back() {
        let steps = |row: usize, at: usize| ((row * 31 + at * 17) % 255) as f32 - 127.0;
        for (what, scale) in [
            ("a scale per row", (|row| 0.001 + row as f32 * 0.000_37) as fn(usize) -> f32),
            ("a scale of all", |_| 0.0123),
            ("a power of two", |_| 0.0625),
        ] {
            let weights = rows(|row, at| steps(row, at) * scale(row));
            for (row, scale) in weights.chunks(70).zip(scales(&weights, 70).expect(what)) {
                for &weight in row {
                    let steps = f32::from_bits(u32::from(upper_half(weight, scale)) << 16);
                    assert_eq!(steps * scale, weight, "{what}");
                }
            }
        }
        // Rows whose largest step is not the last one, as where a scale serves several rows.
        let weights = rows(|row, at| ((row + at) % 41) as f32 * 0.37);
        assert!(scales(&weights, 70).is_some());
    }

    #[test]
    fn weights_that_round_no_product_stay_exact() {
        let identity = rows(|row, at| if at == row { 1.0 } else { 0.0 });
        assert_eq!(scales(&identity, 70), Some(vec![1.0; 64]));
        let halves = rows(|row, at| ((row + at) % 7) as f32 * 0.5);
        assert!(scales(&halves, 70).unwrap().into_iter().all(is_power_of_two));
        let thirds = |row: usize, at: usize| ((row + at) % 41) as f32 * (1.0 / 3.0);
        assert_eq!(scales(&rows(thirds), 70), None, "1 is 3 steps of a third");
    }

    #[test]
    fn other_weights_stay_floats() {
        let float = |row: usize, at: usize| ((row * 70 + at) as f32 * 0.7).sin();
        assert_eq!(scales(&rows(float), 70), None);
        let one_is_off = |row, at| if (row, at) == (63, 69) { 0.511 } else { at as f32 * 0.5 };
        assert_eq!(scales(&rows(one_is_off), 70), None);
        for bad in [f32::NAN, f32::INFINITY, f32::MIN_POSITIVE / 4.0] {
            let with = |_, at| if at == 3 { bad } else { at as f32 };
            assert_eq!(scales(&rows(with), 70), None, "{bad}");
        }
        assert_eq!(scales(&[0.5; 64], 8), None, "not worth it");
    }
}
