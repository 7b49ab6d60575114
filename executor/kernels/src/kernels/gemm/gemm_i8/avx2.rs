//! Tiles of 6 by 16 with `vpmaddwd` on 16-bit differences: exact, where the byte variant would
//! saturate.

use core::arch::x86_64::{
    _mm_loadu_si128, _mm_set1_epi8, _mm_xor_si128, _mm256_cvtepu8_epi16, _mm256_set1_epi16,
    _mm256_storeu_si256, _mm256_sub_epi16,
};

use super::kernel::{Bytes, Encoding, Microkernel, Run};
use super::scalar;
use super::tile::{KeepsMultipliers, one, tiles};
use crate::simd::Avx2;

pub(super) const KERNEL: Microkernel = Microkernel {
    columns: 2 * LANES,
    lanes: LANES,
    encoding: Encoding::Differences,
    signed: false,
    encode,
    sums: scalar::no_sums,
    run,
    single,
};

const LANES: usize = 8;

#[target_feature(enable = "avx2")]
pub(crate) unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let flip = _mm_set1_epi8(bytes.flip.cast_signed());
    // Zero points are at most 255, which fits.
    let zero_point = _mm256_set1_epi16(i16::try_from(bytes.zero_point).unwrap_or(0));
    let whole = count / 16 * 16;
    for at in (0..whole).step_by(16) {
        // SAFETY: sixteen bytes, and as many differences.
        unsafe {
            let x = _mm_xor_si128(_mm_loadu_si128(from.add(at).cast()), flip);
            let x = _mm256_sub_epi16(_mm256_cvtepu8_epi16(x), zero_point);
            _mm256_storeu_si256(to.add(at * 2).cast(), x);
        }
    }
    // SAFETY: the rest.
    unsafe { scalar::encode(from.add(whole), count - whole, bytes, to.add(whole * 2)) };
}

#[target_feature(enable = "avx2")]
unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { tiles::<_, 2>(Avx2::new_unchecked(), run) };
}

#[target_feature(enable = "avx2")]
unsafe fn single(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { one::<_, 2>(Avx2::new_unchecked(), run) };
}

impl KeepsMultipliers for Avx2 {}
