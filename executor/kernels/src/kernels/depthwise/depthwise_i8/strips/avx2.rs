//! Sixteen channels of two lines; two neighbours of two lines of outputs.

use core::arch::x86_64::{
    __m256i, _mm_storeu_si128, _mm256_add_epi32, _mm256_castsi256_si128, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_or_si256, _mm256_slli_epi32, _mm256_srli_epi32,
    _mm256_unpackhi_epi16, _mm256_unpacklo_epi16,
};

use super::line::{GENERAL, Job, NEGATIVE, Word, strip};
use super::{Strip, StripKernel};
use crate::kernels::gemm_i8::Encoding;
use crate::kernels::gemm_i8::avx2::encode;
use crate::simd::Avx2;
use crate::simd::requantise::Channels;
use crate::simd::requantise::avx2::{Avx2QuickLanes, Narrow, general};

pub(in super::super) const KERNEL: StripKernel = StripKernel {
    encoding: Encoding::Differences,
    lines: 2,
    encode,
    // As interleaving within halves of a register leaves them.
    order: [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15],
    three,
    five,
    row: None,
};

/// Numbers of a vector.
const LANES: usize = 8;

#[target_feature(enable = "avx2")]
unsafe fn three(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { strip::<Lines, 3, 2, 2>(Avx2::new_unchecked(), s) };
}

#[target_feature(enable = "avx2")]
unsafe fn five(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { strip::<Lines, 5, 3, 2>(Avx2::new_unchecked(), s) };
}

/// Two lines of 16-bit differences: those of a channel in each lane of two registers.
#[derive(Clone, Copy)]
struct Lines([__m256i; 2]);

impl Word for Lines {
    type Isa = Avx2;
    type Sums = [__m256i; 2];
    type Order = ();
    type Finish = ([Avx2QuickLanes; 2], Narrow);

    const LINES: usize = 2;
    const PARTS: usize = 1;
    const QUICK: bool = true;
    const AHEAD: bool = false;

    #[target_feature(enable = "avx2")]
    unsafe fn apart<J: Job<Isa = Avx2>>(isa: Avx2, s: &Strip) {
        // SAFETY: as the caller promises.
        unsafe { J::run(isa, s) };
    }

    #[inline(always)]
    fn order(_: Avx2) {}

    #[inline(always)]
    unsafe fn finish(_: Avx2, scaling: &Channels) -> ([Avx2QuickLanes; 2], Narrow) {
        // SAFETY: as the caller promises; the first isn't looked at unless all channels are quick.
        unsafe {
            let quick = [Avx2QuickLanes::load(scaling, 0), Avx2QuickLanes::load(scaling, LANES)];
            (quick, Narrow::new(scaling.range()))
        }
    }

    #[inline(always)]
    unsafe fn sums(_: Avx2, from: *const i32) -> [__m256i; 2] {
        // SAFETY: as the caller promises.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(LANES).cast())] }
    }

    #[inline(always)]
    unsafe fn weights(isa: Avx2, from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { Self::sums(isa, from) })
    }

    #[inline(always)]
    unsafe fn lines(_: Avx2, (): &(), from: *const u8, line: usize, count: usize) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let first = _mm256_loadu_si256(from.cast());
            let second = match count {
                1 => first,
                _ => _mm256_loadu_si256(from.add(line).cast()),
            };
            Self([_mm256_unpacklo_epi16(first, second), _mm256_unpackhi_epi16(first, second)])
        }
    }

    #[inline(always)]
    fn lowered(self, before: Option<Self>) -> Self {
        let mut all = self;
        unrolled!(2: half < 2, {
            // SAFETY: a word is proof of the instruction set.
            unsafe {
                all.0[half] = _mm256_slli_epi32::<16>(all.0[half]);
                if let Some(before) = before {
                    let first = _mm256_srli_epi32::<16>(before.0[half]);
                    all.0[half] = _mm256_or_si256(all.0[half], first);
                }
            }
        });
        all
    }

    #[inline(always)]
    fn dot(self, weights: Self, mut sums: [__m256i; 2]) -> [__m256i; 2] {
        unrolled!(2: half < 2, {
            // SAFETY: a word is proof of the instruction set.
            unsafe {
                let products = _mm256_madd_epi16(self.0[half], weights.0[half]);
                sums[half] = _mm256_add_epi32(sums[half], products);
            }
        });
        sums
    }

    #[inline(always)]
    unsafe fn store<const FINISH: u8, const PIXELS: usize>(
        (quick, narrow): &([Avx2QuickLanes; 2], Narrow),
        scaling: &Channels,
        sums: [[__m256i; 2]; PIXELS],
        to: *mut u8,
        step: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut values = [sums[0]; 2];
            unrolled!(2: p < PIXELS, {
                values[p] = sums[p];
                if FINISH == GENERAL {
                    general(scaling, &mut values[p]);
                } else {
                    unrolled!(2: half < 2, {
                        values[p][half] = if FINISH == NEGATIVE {
                            quick[half].rounded::<true>(values[p][half])
                        } else {
                            quick[half].rounded::<false>(values[p][half])
                        };
                    });
                }
            });
            let all = narrow.bytes(values);
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(all));
            if PIXELS == 2 {
                _mm_storeu_si128(to.add(step).cast(), _mm256_extracti128_si256::<1>(all));
            }
        }
    }
}
