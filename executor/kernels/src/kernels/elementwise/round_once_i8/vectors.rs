//! Four vectors at a time in single precision; in double where that is not sure of all of them.

use super::{PADDING, Row, UNSURE, exact};
use crate::simd::requantise::{RequantiseSimd, offset};
use crate::simd::vector_i32::{I32Simd, lanes_of};
use crate::simd::{Kernel, Simd};

pub(super) struct Near;

impl Kernel for Near {
    type Work = Row;

    #[inline(always)]
    unsafe fn run<S: Simd>(isa: S, row: &Row) {
        const { assert!(PADDING.is_multiple_of(S::I32::LANES), "vectors would read behind rows") };
        let block = 4 * S::I32::LANES;
        let whole = row.len / block * block;
        // SAFETY: channels of the row.
        unsafe {
            let constants = Constants::<S::I32>::new(isa, row);
            for at in (0..whole).step_by(block) {
                constants.block(row, at, block);
            }
            if whole < row.len {
                constants.block(row, whole, row.len - whole);
            }
        }
    }
}

struct Constants<V: RequantiseSimd> {
    /// What is added to rounded products.
    zero_point: V,
    /// Rounded products within the range.
    reals: (f32, f32),
    range: V::Narrow,
    unsure: V,
}

impl<V: RequantiseSimd> Constants<V> {
    #[inline(always)]
    fn new(isa: V::Isa, row: &Row) -> Self {
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

    /// Up to four vectors from channel `at` on.
    ///
    /// # Safety
    /// As for the row, which has `count` channels there.
    #[inline(always)]
    unsafe fn block(&self, row: &Row, at: usize, count: usize) {
        // SAFETY: as the caller promises; vectors that begin within the row end within its padding.
        unsafe {
            let mut values = [self.zero_point; 4];
            let mut apart = [self.zero_point.filled(0); 4];
            for (v, (value, apart)) in values.iter_mut().zip(&mut apart).enumerate() {
                let first = at + v * V::LANES;
                if lanes_of(v, count, V::LANES) > 0 {
                    let sums = V::load(self.zero_point.isa(), row.sums.add(first));
                    let nearest;
                    [nearest, *apart] = sums.nearest_products(row.near.add(first), self.reals);
                    *value = nearest.add(self.zero_point);
                }
            }
            V::store_narrow(values, &self.range, row.output.add(at), count);
            let [a, b, c, d] = apart;
            let furthest = a.max_unsigned(b).max_unsigned(c.max_unsigned(d));
            if furthest.any_reaches_unsigned(self.unsure) {
                for (v, apart) in apart.into_iter().enumerate() {
                    if apart.any_reaches_unsigned(self.unsure) {
                        let lanes = lanes_of(v, count, V::LANES);
                        V::Isa::run::<Exact>(&(*row, at + v * V::LANES, lanes));
                    }
                }
            }
        }
    }
}

/// A vector with an unsure result: a function of its own, out of the way of the loop that is nearly
/// always gone.
struct Exact;

impl Kernel for Exact {
    /// The row, the first channel and the number of channels.
    type Work = (Row, usize, usize);

    #[inline(always)]
    unsafe fn run<S: Simd>(_: S, &(ref row, first, count): &(Row, usize, usize)) {
        // SAFETY: as the caller promises.
        unsafe { exact(row, first, count) };
    }
}
