//! Panels of whole vectors; one broadcast per line.

use std::marker::PhantomData;

use super::{Panel, Weight};
use crate::simd::vector_f32::{F32Kernel, F32Simd};

/// A panel of `VECTORS` vectors, `LINES` lines at a time: so many sums side by side that the
/// latency of a multiply-add is hidden.
pub(super) struct Lines<W, const VECTORS: usize, const LINES: usize>(PhantomData<W>);

impl<W: Load, const VECTORS: usize, const LINES: usize> F32Kernel for Lines<W, VECTORS, LINES> {
    type Work = Panel<W>;

    #[inline(always)]
    unsafe fn run<V: F32Simd>(panel: &Panel<W>) {
        // SAFETY: the machine has the instruction set.
        let mut sums = unsafe { [[V::splat(0.0); VECTORS]; LINES] };
        let (mut x, mut w) = (panel.x, panel.weights);
        for _ in 0..panel.depth / LINES {
            for sums in &mut sums {
                // SAFETY: this line and its element are there.
                unsafe { line(sums, x, w) };
                (x, w) = (x.wrapping_add(1), w.wrapping_add(VECTORS * V::LANES));
            }
        }
        for sums in sums.iter_mut().take(panel.depth % LINES) {
            // SAFETY: as above.
            unsafe { line(sums, x, w) };
            (x, w) = (x.wrapping_add(1), w.wrapping_add(VECTORS * V::LANES));
        }
        for vector in 0..VECTORS {
            let mut sum = sums[0][vector];
            for sums in &sums[1..] {
                sum = sum.add(sums[vector]);
            }
            // SAFETY: as the caller promises.
            unsafe { store(panel, vector * V::LANES, sum) };
        }
    }
}

/// The weights of a line.
pub(super) trait Load: Weight {
    /// # Safety
    /// They are there; the machine has the instruction set.
    unsafe fn load<V: F32Simd, const VECTORS: usize>(from: *const Self) -> [V; VECTORS];
}

impl Load for f32 {
    #[inline(always)]
    unsafe fn load<V: F32Simd, const VECTORS: usize>(from: *const Self) -> [V; VECTORS] {
        // SAFETY: as the caller promises.
        unsafe {
            let mut line = [V::splat(0.0); VECTORS];
            for (vector, weights) in line.iter_mut().enumerate() {
                *weights = V::load(from.add(vector * V::LANES));
            }
            line
        }
    }
}

impl Load for u16 {
    #[inline(always)]
    unsafe fn load<V: F32Simd, const VECTORS: usize>(from: *const Self) -> [V; VECTORS] {
        // Vectors until the columns that are the second of their pairs.
        let apart = 16 / V::LANES;
        // SAFETY: as the caller promises.
        unsafe {
            let mut line = [V::splat(0.0); VECTORS];
            for pair in 0..VECTORS / 2 {
                let at = pair / apart * 2 * apart + pair % apart;
                let pairs = V::load_halves(from.add(pair * 2 * V::LANES));
                [line[at], line[at + apart]] = pairs;
            }
            line
        }
    }
}

/// # Safety
/// The element and the line are there; the machine has the instruction set.
#[inline(always)]
unsafe fn line<V: F32Simd, W: Load, const VECTORS: usize>(
    sums: &mut [V; VECTORS],
    x: *const f32,
    w: *const W,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let x = V::splat(x.read_unaligned());
        let weights = W::load::<V, VECTORS>(w);
        for (sum, &weights) in sums.iter_mut().zip(&weights) {
            *sum = x.mul_add(weights, *sum);
        }
    }
}

/// # Safety
/// As for the panel.
#[inline(always)]
unsafe fn store<V: F32Simd, W: Weight>(panel: &Panel<W>, column: usize, mut sum: V) {
    let count = panel.columns.saturating_sub(column).min(V::LANES);
    let (start, output) = (panel.start.wrapping_add(column), panel.output.wrapping_add(column));
    // SAFETY: a scale for every column of the panel, and of the others as many as there are.
    unsafe {
        if W::ARE_STEPS {
            // Once per sum rather than per weight, which took a third longer.
            sum = sum.mul(V::load(panel.scales.wrapping_add(column)));
        }
        let (low, high) = (V::splat(panel.low), V::splat(panel.high));
        if count == V::LANES {
            sum.add(V::load(start)).clamp(low, high).store(output);
        } else {
            let sum = sum.add(V::load_first(start, count));
            sum.clamp(low, high).store_first(output, count);
        }
    }
}
