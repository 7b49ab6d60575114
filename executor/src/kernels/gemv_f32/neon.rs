//! Panels of four to sixteen vectors; one broadcast per line.

use core::arch::aarch64::{
    float32x4_t, vaddq_f32, vbslq_f32, vcgtq_f32, vcltq_f32, vdupq_n_f32, vfmaq_f32, vld1q_f32,
    vst1q_f32,
};

use super::{Panel, Run};

/// Vectors times lines at a time is eight or more: what hides the latency. Sixteen sums and their
/// weights fit the registers.
pub(super) const PANELS: [Run; 4] = [panel::<4, 4>, panel::<8, 2>, panel::<12, 1>, panel::<16, 1>];

const LANES: usize = 4;

#[target_feature(enable = "neon")]
unsafe fn panel<const VECTORS: usize, const LINES: usize>(panel: &Panel) {
    let mut sums = [[vdupq_n_f32(0.0); VECTORS]; LINES];
    let (mut x, mut w) = (panel.x, panel.weights);
    for _ in 0..panel.depth / LINES {
        for sums in &mut sums {
            // SAFETY: this line and its element are there.
            unsafe { line(sums, x, w) };
            (x, w) = (x.wrapping_add(1), w.wrapping_add(VECTORS * LANES));
        }
    }
    for sums in sums.iter_mut().take(panel.depth % LINES) {
        // SAFETY: as above.
        unsafe { line(sums, x, w) };
        (x, w) = (x.wrapping_add(1), w.wrapping_add(VECTORS * LANES));
    }
    for vector in 0..VECTORS {
        let sum = sums.iter().fold(vdupq_n_f32(0.0), |all, sums| vaddq_f32(all, sums[vector]));
        // SAFETY: as the caller promises.
        unsafe { store(panel, vector * LANES, sum) };
    }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn line<const VECTORS: usize>(
    sums: &mut [float32x4_t; VECTORS],
    x: *const f32,
    w: *const f32,
) {
    // SAFETY: the element, as the caller promises.
    let x = vdupq_n_f32(unsafe { x.read_unaligned() });
    for (vector, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the line, as the caller promises.
        *sum = vfmaq_f32(*sum, x, unsafe { vld1q_f32(w.add(vector * LANES)) });
    }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn store(panel: &Panel, column: usize, sum: float32x4_t) {
    let lanes = panel.columns.saturating_sub(column).min(LANES);
    let (from, to) = (panel.start.wrapping_add(column), panel.output.wrapping_add(column));
    if lanes == LANES {
        // SAFETY: four columns are there.
        unsafe { vst1q_f32(to, finish(panel, sum, vld1q_f32(from))) };
        return;
    }
    let mut values = [0.0f32; LANES];
    // SAFETY: fewer than four columns, and four floats of our own.
    unsafe {
        let (last, bytes) = (values.as_mut_ptr(), lanes * size_of::<f32>());
        last.cast::<u8>().copy_from_nonoverlapping(from.cast(), bytes);
        vst1q_f32(last, finish(panel, sum, vld1q_f32(last)));
        last.cast::<u8>().copy_to_nonoverlapping(to.cast(), bytes);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn finish(panel: &Panel, sum: float32x4_t, start: float32x4_t) -> float32x4_t {
    // NaN stays: it compares false.
    let (low, high) = (vdupq_n_f32(panel.low), vdupq_n_f32(panel.high));
    let y = vaddq_f32(sum, start);
    let y = vbslq_f32(vcltq_f32(y, low), low, y);
    vbslq_f32(vcgtq_f32(y, high), high, y)
}
