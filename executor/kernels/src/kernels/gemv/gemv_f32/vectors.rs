//! Panels of whole vectors; one broadcast per line.

use std::marker::PhantomData;

use half::f16;

use super::{Panel, Weight};
use crate::simd::vector_f32::{F32Lanes, F32Simd};
use crate::simd::{Kernel, Simd};

/// Lines that are added up by themselves where a column has one sum: the larger a sum, the more an
/// addition rounds. The logits of MobileNet v2, of 1280 lines each, were off by 4.8e-5.
const PIECE: usize = 256;

/// A panel of `VECTORS` vectors, `LINES` lines at a time: so many sums side by side that the
/// latency of a multiply-add is hidden.
pub(super) struct Lines<W, const VECTORS: usize, const LINES: usize>(PhantomData<W>);

impl<W: Load, const VECTORS: usize, const LINES: usize> Kernel for Lines<W, VECTORS, LINES> {
    type Work = Panel<W>;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, panel: &Panel<W>) {
        let (mut x, mut w, mut left) = (panel.x, panel.weights, panel.depth);
        // The sums of all pieces but the last.
        let mut before = [S::F32::splat(isa, 0.0); VECTORS];
        // SAFETY: as many lines and elements are there.
        let sums = unsafe {
            while LINES == 1 && left > PIECE {
                before = before.add(sums::<S, W, VECTORS, LINES>(isa, x, w, PIECE)[0]);
                (x, w) = (x.wrapping_add(PIECE), w.wrapping_add(PIECE * VECTORS * S::F32::LANES));
                left -= PIECE;
            }
            let mut sums = sums::<S, W, VECTORS, LINES>(isa, x, w, left);
            if LINES == 1 {
                sums[0] = sums[0].add(before);
            }
            sums
        };
        for vector in 0..VECTORS {
            let mut sum = sums[0][vector];
            for sums in &sums[1..] {
                sum = sum.add(sums[vector]);
            }
            // SAFETY: as the caller promises.
            unsafe { store(isa, panel, vector * S::F32::LANES, sum) };
        }
    }
}

/// The sums of `depth` lines, which take turns.
///
/// # Safety
/// So many lines are there, and elements.
#[inline(always)]
unsafe fn sums<S: Simd, W: Load, const VECTORS: usize, const LINES: usize>(
    isa: S,
    mut x: *const f32,
    mut w: *const W,
    depth: usize,
) -> [[S::F32; VECTORS]; LINES] {
    let mut sums = [[S::F32::splat(isa, 0.0); VECTORS]; LINES];
    for _ in 0..depth / LINES {
        for sums in &mut sums {
            // SAFETY: this line and its element are there.
            unsafe { line(isa, sums, x, w) };
            (x, w) = (x.wrapping_add(1), w.wrapping_add(VECTORS * S::F32::LANES));
        }
    }
    for sums in sums.iter_mut().take(depth % LINES) {
        // SAFETY: as above.
        unsafe { line(isa, sums, x, w) };
        (x, w) = (x.wrapping_add(1), w.wrapping_add(VECTORS * S::F32::LANES));
    }
    sums
}

/// The weights of a line.
pub(super) trait Load: Weight {
    /// # Safety
    /// They are there.
    unsafe fn load<V: F32Simd, const VECTORS: usize>(
        isa: V::Isa,
        from: *const Self,
    ) -> [V; VECTORS];
}

/// Weights of which one column's lies behind the other's.
macro_rules! in_order {
    ($weight:ident, $load:ident) => {
        impl Load for $weight {
            #[inline(always)]
            unsafe fn load<V: F32Simd, const VECTORS: usize>(
                isa: V::Isa,
                from: *const Self,
            ) -> [V; VECTORS] {
                let mut line = [V::splat(isa, 0.0); VECTORS];
                for (vector, weights) in line.iter_mut().enumerate() {
                    // SAFETY: as the caller promises.
                    *weights = unsafe { V::$load(isa, from.add(vector * V::LANES)) };
                }
                line
            }
        }
    };
}

in_order!(f32, load);
in_order!(f16, load_f16);

impl Load for u16 {
    #[inline(always)]
    unsafe fn load<V: F32Simd, const VECTORS: usize>(
        isa: V::Isa,
        from: *const Self,
    ) -> [V; VECTORS] {
        // Vectors until the columns that are the second of their pairs.
        let apart = 16 / V::LANES;
        // SAFETY: as the caller promises.
        unsafe {
            let mut line = [V::splat(isa, 0.0); VECTORS];
            for pair in 0..VECTORS / 2 {
                let at = pair / apart * 2 * apart + pair % apart;
                let pairs = V::load_halves(isa, from.add(pair * 2 * V::LANES));
                [line[at], line[at + apart]] = pairs;
            }
            line
        }
    }
}

/// # Safety
/// The element and the line are there.
#[inline(always)]
unsafe fn line<V: F32Simd, W: Load, const VECTORS: usize>(
    isa: V::Isa,
    sums: &mut [V; VECTORS],
    x: *const f32,
    w: *const W,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let x = V::splat(isa, x.read_unaligned());
        let weights = W::load::<V, VECTORS>(isa, w);
        for (sum, &weights) in sums.iter_mut().zip(&weights) {
            *sum = x.mul_add(weights, *sum);
        }
    }
}

/// # Safety
/// As for the panel.
#[inline(always)]
unsafe fn store<V: F32Simd, W: Weight>(isa: V::Isa, panel: &Panel<W>, column: usize, mut sum: V) {
    let count = panel.columns.saturating_sub(column).min(V::LANES);
    let (start, output) = (panel.start.wrapping_add(column), panel.output.wrapping_add(column));
    // SAFETY: a scale for every column of the panel, and of the others as many as there are.
    unsafe {
        if W::ARE_STEPS {
            // Once per sum rather than per weight, which took a third longer.
            sum = sum.mul(V::load(isa, panel.scales.wrapping_add(column)));
        }
        let (low, high) = (V::splat(isa, panel.low), V::splat(isa, panel.high));
        if count == V::LANES {
            sum.add(V::load(isa, start)).clamp(low, high).store(output);
        } else {
            let sum = sum.add(V::load_first(isa, start, count));
            sum.clamp(low, high).store_first(output, count);
        }
    }
}
