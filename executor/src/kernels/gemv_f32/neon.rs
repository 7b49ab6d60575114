//! Panels of four to sixteen vectors; one broadcast per line.

use core::arch::aarch64::{
    float32x4_t, vaddq_f32, vandq_u32, vbslq_f32, vcgtq_f32, vcltq_f32, vdupq_n_f32, vdupq_n_u32,
    vfmaq_f32, vld1q_f32, vld1q_u16, vmulq_f32, vreinterpretq_f32_u32, vreinterpretq_u32_u16,
    vshlq_n_u32, vst1q_f32,
};

use super::{Kernel, Panel, Weight};

/// Vectors times lines at a time is eight or more: what hides the latency. Sixteen sums and their
/// weights fit the registers.
pub(super) const KERNEL: Kernel = Kernel {
    floats: &[panel::<f32, 4, 4>, panel::<f32, 8, 2>, panel::<f32, 12, 1>, panel::<f32, 16, 1>],
    steps: &[panel::<u16, 8, 2>, panel::<u16, 16, 1>],
};

const LANES: usize = 4;

#[target_feature(enable = "neon")]
unsafe fn panel<W: Load, const VECTORS: usize, const LINES: usize>(panel: &Panel<W>) {
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

/// The weights of a line.
trait Load: Weight {
    /// # Safety
    /// They are there; the machine has the instruction set.
    unsafe fn load<const VECTORS: usize>(from: *const Self) -> [float32x4_t; VECTORS];
}

impl Load for f32 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load<const VECTORS: usize>(from: *const Self) -> [float32x4_t; VECTORS] {
        let mut line = [vdupq_n_f32(0.0); VECTORS];
        for (vector, weights) in line.iter_mut().enumerate() {
            // SAFETY: as the caller promises.
            *weights = unsafe { vld1q_f32(from.add(vector * LANES)) };
        }
        line
    }
}

impl Load for u16 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load<const VECTORS: usize>(from: *const Self) -> [float32x4_t; VECTORS] {
        let mut line = [vdupq_n_f32(0.0); VECTORS];
        for (at, eight) in line.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let (first, second) = eight.split_at_mut(4);
            for (quarter, (first, second)) in first.iter_mut().zip(second).enumerate() {
                // SAFETY: as the caller promises.
                let pairs = unsafe { vld1q_u16(from.add((at * 8 + quarter * 2) * LANES)) };
                let pairs = vreinterpretq_u32_u16(pairs);
                *first = vreinterpretq_f32_u32(vshlq_n_u32::<16>(pairs));
                *second = vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(!0xffff)));
            }
        }
        line
    }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn line<W: Load, const VECTORS: usize>(
    sums: &mut [float32x4_t; VECTORS],
    x: *const f32,
    w: *const W,
) {
    // SAFETY: the element, as the caller promises.
    let x = vdupq_n_f32(unsafe { x.read_unaligned() });
    // SAFETY: the line, as the caller promises.
    let weights = unsafe { W::load::<VECTORS>(w) };
    for (sum, weights) in sums.iter_mut().zip(weights) {
        *sum = vfmaq_f32(*sum, x, weights);
    }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn store<W: Weight>(panel: &Panel<W>, column: usize, sum: float32x4_t) {
    let sum = if W::ARE_STEPS {
        // SAFETY: a scale for every column of the panel.
        vmulq_f32(sum, unsafe { vld1q_f32(panel.scales.wrapping_add(column)) })
    } else {
        sum
    };
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
fn finish<W>(panel: &Panel<W>, sum: float32x4_t, start: float32x4_t) -> float32x4_t {
    // NaN stays: it compares false.
    let (low, high) = (vdupq_n_f32(panel.low), vdupq_n_f32(panel.high));
    let y = vaddq_f32(sum, start);
    let y = vbslq_f32(vcltq_f32(y, low), low, y);
    vbslq_f32(vcgtq_f32(y, high), high, y)
}
