//! RESIZE_BILINEAR: of signed integers between four pixels, with weights of ten bits each way; of
//! FLOAT32 and UINT8 as NNAPI's.

use nnburst_kernels::kernels::bilinear;
use nnburst_kernels::kernels::bilinear::Tap;

use super::arg::{ElementKind, OperatorCall, refused};
use super::image::resized;
use super::math::{Stored, low};
use crate::lowering::Lowered;
use crate::ops::bilinear::{Taps, emit, lines, one_by_one};
use crate::ops::resize::Grid;

/// Stored values between four pixels: the result has its own scale for them.
pub(super) fn resize_bilinear(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (kind, from, to) = resized(call)?;
    let (is_aligned, is_half) = (call.flag(0)?, call.flag(1)?);
    if matches!(kind, ElementKind::F32 | ElementKind::U8) {
        let grid = Grid { align_corners: is_aligned, half_pixel_centers: is_half };
        return emit(call, grid.taps(from, to));
    }
    // Weights in steps of 1/1024.
    let places = move |input: usize, output: usize| -> Vec<Tap<i32>> {
        let [wide_in, wide_out] =
            [input, output].map(|it| i64::try_from(it).unwrap_or(i64::MAX >> 16));
        let scale = if is_aligned && wide_out > 1 {
            ((wide_in - 1) * 1024 + (wide_out - 1) / 2) / (wide_out - 1)
        } else {
            (wide_in * 1024 + wide_out / 2) / wide_out.max(1)
        };
        let place = |at: i64| {
            let scaled = if is_half { at * scale + scale / 2 - 512 } else { at * scale };
            let first = (scaled / 1024).max(0);
            let second = ((scaled + 1023) / 1024).min(wide_in - 1);
            let index = |it: i64| usize::try_from(it).unwrap_or(0).min(input - 1);
            let weight = low(scaled - first * 1024);
            Tap { first: index(first), second: index(second), weight }
        };
        (0..wide_out).map(place).collect()
    };
    let (rows, columns) = (places(from.height, to.height), places(from.width, to.width));
    let taps = Taps { from, to, rows, columns };
    match kind {
        ElementKind::I8 => lines::<bilinear::SignedBytes>(call, "bilinear_i8", taps, 0),
        ElementKind::I16 => one_by_one(call, "tflite_resize_bilinear", taps, word),
        kind => Err(refused(0, kind).into()),
    }
}

/// Halves away from zero. Weights are from -512 to 1536.
#[inline(always)]
fn word(around: [i16; 4], weights: [i32; 2]) -> i16 {
    let ([a, b, c, d], [v, u]) = (around.map(i64::from), weights.map(i64::from));
    let (left, right) = ((a << 10) + (b - a) * v, (c << 10) + (d - c) * v);
    let sum = (left << 10) + (right - left) * u;
    i16::stored(low((sum + (1 << 19) + (sum >> 63)) >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_rounded_once_and_halves_away_from_zero() {
        assert_eq!(word([32_767; 4], [700, 1023]), 32_767);
        assert_eq!(word([-32_768, -32_768, 0, 0], [3, 512]), -16_384);
        assert_eq!(word([1, 0, 0, 0], [512, 0]), 1);
        assert_eq!(word([-1, 0, 0, 0], [512, 0]), -1);
        assert_eq!(word([1, 0, 0, 0], [513, 0]), 0);
    }
}
