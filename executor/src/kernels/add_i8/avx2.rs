//! Eight elements at a time.

use core::arch::x86_64::{_mm256_add_epi32, _mm256_slli_epi32};

use super::{EXTRA_BITS, Rows, scalar};
use crate::kernels::requantise::avx2::{Lanes, differences, store};

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) unsafe fn add(rows: &Rows) {
    // SAFETY: scalings are as wide as a vector.
    let (a, b, sum) = unsafe {
        (
            Lanes::load(&rows.scalings[0], 0),
            Lanes::load(&rows.scalings[1], 0),
            Lanes::load(&rows.sum, 0),
        )
    };
    let whole = rows.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: eight elements are there.
        unsafe {
            let x = differences(rows.a.add(at), rows.flip, rows.zero_points[0]);
            let y = differences(rows.b.add(at), rows.flip, rows.zero_points[1]);
            let x = a.scaled(_mm256_slli_epi32::<EXTRA_BITS>(x));
            let y = b.scaled(_mm256_slli_epi32::<EXTRA_BITS>(y));
            store(rows.output.add(at), LANES, sum.stored(_mm256_add_epi32(x, y)));
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}
