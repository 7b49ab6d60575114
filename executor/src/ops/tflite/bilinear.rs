//! RESIZE_BILINEAR: of signed integers between four pixels, with weights of ten bits each way; of
//! FLOAT32 and UINT8 as NNAPI's.

use nnburst_kernels::kernels::bilinear;
use nnburst_kernels::kernels::bilinear::Tap;

use super::arg::{ElementKind, OperatorCall, refused};
use super::image::resized;
use super::math::low;
use crate::lowering::Lowered;
use crate::ops::bilinear::{Taps, emit, lines};
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
        ElementKind::I8 => lines::<bilinear::Signed<i8>>(call, "bilinear_i8", taps, 0),
        ElementKind::I16 => lines::<bilinear::Signed<i16>>(call, "bilinear_i16", taps, 0),
        kind => Err(refused(0, kind).into()),
    }
}
