//! Eight elements at a time.

use core::arch::x86_64::{_mm256_mullo_epi32, _mm256_set1_epi32};

use super::{Rows, scalar};
use crate::kernels::requantise::avx2::{Lanes, differences, store};

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) unsafe fn mul(rows: &Rows) {
    // SAFETY: there are eight channels.
    let lanes = unsafe { Lanes::load(&rows.product, 0) };
    let [a, b] = rows.zero_points;
    let whole = rows.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: eight elements are there, or one of `b`.
        unsafe {
            let x = differences(rows.a.add(at), rows.flip, a);
            let y = match rows.step {
                0 => _mm256_set1_epi32(i32::from(*rows.b ^ rows.flip) - b),
                _ => differences(rows.b.add(at), rows.flip, b),
            };
            store(rows.output.add(at), LANES, lanes.stored(_mm256_mullo_epi32(x, y)));
        }
    }
    // SAFETY: the rest of the rows.
    unsafe { scalar::from(rows, whole) };
}
