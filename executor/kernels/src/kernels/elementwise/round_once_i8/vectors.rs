//! Four vectors at a time in single precision; in double where that is not sure of all of them.

use super::{PADDING, Row, Sums, UNSURE, exact};
use crate::simd::requantise::{RequantiseSimd, offset};
use crate::simd::vector_i32::{I32Simd, lanes_of};
use crate::simd::{Kernel, Simd};

pub(super) struct Near;

impl Kernel for Near {
    type Work = Sums;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, &Sums { ref row, sums }: &Sums) {
        let block = 4 * S::I32::LANES;
        // SAFETY: channels of the row; vectors that begin within it end within its padding.
        unsafe {
            let rounding = Rounding::<S::I32>::new(isa, row);
            for first in (0..row.len).step_by(MOST_CHANNELS) {
                let (end, mut unsure) = (row.len.min(first + MOST_CHANNELS), 0);
                for at in (first..end).step_by(block) {
                    let load = |v: usize| S::I32::load(isa, sums.add(at + v * S::I32::LANES));
                    // The length of all but the last is known to the compiler.
                    let marks = match end - at {
                        left if left >= block => rounding.block(row, at, block, load),
                        left => rounding.block(row, at, left, load),
                    };
                    unsure |= marks << ((at - first) / PADDING);
                }
                if unsure != 0 {
                    again(row, sums, first, unsure);
                }
            }
        }
    }
}

/// The channels that one mask of unsure ones has bits for, one for as many as [`PADDING`].
pub(crate) const MOST_CHANNELS: usize = 64 * PADDING;

/// What all vectors of a row have in common.
pub(crate) struct Rounding<V: RequantiseSimd> {
    /// What is added to rounded products.
    zero_point: V,
    /// Rounded products within the range.
    reals: (f32, f32),
    range: V::Narrow,
    unsure: V,
}

impl<V: RequantiseSimd> Rounding<V> {
    #[inline(always)]
    pub(crate) fn new(isa: V::Isa, row: &Row) -> Self {
        const { assert!(PADDING.is_multiple_of(V::LANES), "vectors would read behind rows") };
        let (low, high) = row.range;
        #[expect(clippy::cast_precision_loss, reason = "differences of bytes")]
        let real = |bound: i32| (bound - row.zero_point) as f32;
        Self {
            // Bytes are unsigned until they are stored.
            zero_point: V::splat(isa, row.zero_point + offset(low)),
            reals: (real(low), real(high)),
            range: V::narrow(isa, row.range),
            unsure: V::splat(isa, UNSURE.to_bits().cast_signed()),
        }
    }

    /// Up to four vectors from channel `at` on, of the accumulators that `sums` gives. Returns
    /// bits, one for as many as [`PADDING`], of those that are to be computed [`again`].
    ///
    /// # Safety
    /// As for the row, which has `count` channels there.
    #[inline(always)]
    pub(crate) unsafe fn block(
        &self,
        row: &Row,
        at: usize,
        count: usize,
        sums: impl Fn(usize) -> V,
    ) -> u64 {
        // SAFETY: as the caller promises; vectors that begin within the row end within its padding.
        unsafe {
            let mut values = [self.zero_point; 4];
            let mut apart = [self.zero_point.filled(0); 4];
            for (v, (value, apart)) in values.iter_mut().zip(&mut apart).enumerate() {
                if lanes_of(v, count, V::LANES) > 0 {
                    let near = row.near.add(at + v * V::LANES);
                    let nearest;
                    [nearest, *apart] = sums(v).nearest_products(near, self.reals);
                    *value = nearest.add(self.zero_point);
                }
            }
            V::store_narrow(values, &self.range, row.output.add(at), count);
            let [a, b, c, d] = apart;
            let furthest = a.max_unsigned(b).max_unsigned(c.max_unsigned(d));
            if !furthest.any_reaches_unsigned(self.unsure) {
                return 0;
            }
            let mut marks = 0;
            unrolled!(4: v < 4, {
                let is_unsure = apart[v].any_reaches_unsigned(self.unsure);
                marks |= u64::from(is_unsure) << (v * V::LANES / PADDING);
            });
            marks
        }
    }
}

/// Computes channels from `first` on whose bits are set in double precision. A function of its own
/// behind the loop, which nearly always goes without: a call within would cost it its registers.
///
/// # Safety
/// As for [`exact`]; there is a sum for each of them.
#[cold]
#[inline(never)]
pub(crate) unsafe fn again(row: &Row, sums: *const i32, first: usize, unsure: u64) {
    for mark in (0..64).filter(|mark| unsure >> mark & 1 != 0) {
        let first = first + mark * PADDING;
        let count = row.len.saturating_sub(first).min(PADDING);
        // SAFETY: channels of the row.
        unsafe { exact(row, first, std::slice::from_raw_parts(sums.wrapping_add(first), count)) };
    }
}
