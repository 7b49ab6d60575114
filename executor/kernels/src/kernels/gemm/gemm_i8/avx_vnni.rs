//! Tiles of 6 by 16 with `vpdpbusd` of 256 bits: twelve sums in registers, words broadcast from the
//! image itself, two lines of weights. Narrow panels have tiles of 12 by 8.

use core::arch::x86_64::{
    __m256i, _mm_add_epi64, _mm_cvtsi128_si64, _mm_extract_epi64, _mm256_add_epi64,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_sad_epu8,
    _mm256_set1_epi8, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256,
};

use super::avx2::{LANES, of_eights};
use super::kernel::{Bytes, Encoding, Microkernel, Run};
use super::tile::{one, tiles};
use crate::simd::AvxVnni;

pub(super) const KERNEL: Microkernel = Microkernel {
    columns: 2 * LANES,
    lanes: LANES,
    encoding: Encoding::Bytes,
    signed: false,
    encode,
    sums,
    run,
    single,
};

/// Bytes of a vector.
const BYTES: usize = 32;

#[target_feature(enable = "avx2")]
unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let flip = _mm256_set1_epi8(bytes.flip.cast_signed());
    let whole = count / BYTES * BYTES;
    for at in (0..whole).step_by(BYTES) {
        // SAFETY: thirty-two bytes on both sides.
        unsafe {
            let x = _mm256_loadu_si256(from.add(at).cast());
            _mm256_storeu_si256(to.add(at).cast(), _mm256_xor_si256(x, flip));
        }
    }
    for at in whole..count {
        // SAFETY: the rest.
        unsafe { *to.add(at) = *from.add(at) ^ bytes.flip };
    }
}

#[target_feature(enable = "avx2")]
unsafe fn sums(run: &Run, bytes: usize, factor: i32, sums: *mut i32) {
    let (flip, none) = (_mm256_set1_epi8(run.flip.cast_signed()), _mm256_setzero_si256());
    let whole = bytes / BYTES * BYTES;
    for row in 0..run.rows {
        let (mut eights, mut rest) = (none, 0);
        for segment in 0..run.segment_count {
            // SAFETY: a segment of a window.
            unsafe {
                let from = run.input.add(row * run.step + *run.segments.add(segment));
                for at in (0..whole).step_by(BYTES) {
                    let x = _mm256_xor_si256(_mm256_loadu_si256(from.add(at).cast()), flip);
                    eights = _mm256_add_epi64(eights, _mm256_sad_epu8(x, none));
                }
                for at in whole..bytes {
                    rest += i32::from(*from.add(at) ^ run.flip);
                }
            }
        }
        // SAFETY: a sum per window.
        unsafe { *sums.add(row) = factor.wrapping_mul(across(eights).wrapping_add(rest)) };
    }
}

/// The sum of the four 64-bit numbers, which fits 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
#[expect(clippy::cast_possible_truncation, reason = "2^21 bytes at most, of 255 each")]
fn across(eights: __m256i) -> i32 {
    let halves = (_mm256_castsi256_si128(eights), _mm256_extracti128_si256::<1>(eights));
    let both = _mm_add_epi64(halves.0, halves.1);
    _mm_cvtsi128_si64(both).wrapping_add(_mm_extract_epi64::<1>(both)) as i32
}

#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { tiles::<_, 2>(AvxVnni::new_unchecked(), run) };
}

#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn single(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { one::<_, 2>(AvxVnni::new_unchecked(), run) };
}

of_eights!(AvxVnni, tallest: 12);
