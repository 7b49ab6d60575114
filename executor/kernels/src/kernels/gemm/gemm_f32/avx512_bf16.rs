//! Tiles as in `avx512`, of elements that are two numbers of 16 bits each: one instruction
//! multiplies both pairs and adds the products, so a tile takes half as many steps.

use core::arch::x86_64::{
    __m256, __m256bh, __m256i, __m512, __m512bh, __m512i, _mm256_dpbf16_ps, _mm256_set1_epi32,
    _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_set1_epi32,
};
use core::mem::transmute;

use super::panels::{Bf16Pairs, Microkernel, Width};
use super::rows::{self, Products};
use super::tile::TileStack;
use crate::simd::vector_f32::{F32Simd, F32x8, F32x16};
use crate::simd::{Avx2, Avx512, Avx512Bf16};

const LANES: usize = F32x16::LANES;

/// Panels as wide as those of floats.
pub(super) const PAIRS: Bf16Pairs = Bf16Pairs {
    kernel: Microkernel {
        widths: &[
            Width { columns: 8, rows: 12, run: tiles::<0, true> },
            Width { columns: 16, rows: 12, run: tiles::<1, false> },
            Width { columns: 24, rows: 12, run: tiles::<1, true> },
            Width { columns: 32, rows: 12, run: tiles::<2, false> },
        ],
    },
    round: pairs,
};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]
unsafe fn tiles<const WHOLE: usize, const HALF: bool>(all: &TileStack) {
    // SAFETY: as the caller promises.
    unsafe { rows::tiles::<_, WHOLE, HALF, 4>(Avx512Bf16::new_unchecked(), all) };
}

/// Vectors of floats and of twice as many halves are the same bits.
impl Products for Avx512Bf16 {
    type Whole = F32x16;
    type Half = F32x8;

    #[inline(always)]
    fn whole(self) -> Avx512 {
        self.avx512()
    }

    #[inline(always)]
    fn half(self) -> Avx2 {
        self.avx512().avx2()
    }

    #[inline(always)]
    unsafe fn add(self, x: *const f32, weights: F32x16, sums: F32x16) -> F32x16 {
        // SAFETY: as the caller promises; `Avx512Bf16` proves the instruction set.
        unsafe {
            let x = _mm512_set1_epi32(x.cast::<i32>().read_unaligned());
            let x = transmute::<__m512i, __m512bh>(x);
            F32x16(_mm512_dpbf16_ps(sums.0, x, transmute::<__m512, __m512bh>(weights.0)))
        }
    }

    #[inline(always)]
    unsafe fn add_half(self, x: *const f32, weights: F32x8, sums: F32x8) -> F32x8 {
        // SAFETY: as the caller promises; `Avx512Bf16` proves the instruction set.
        unsafe {
            let x = _mm256_set1_epi32(x.cast::<i32>().read_unaligned());
            let x = transmute::<__m256i, __m256bh>(x);
            F32x8(_mm256_dpbf16_ps(sums.0, x, transmute::<__m256, __m256bh>(weights.0)))
        }
    }
}

/// Rounds `len` floats to the nearest pairs, ties to even; a missing last one is 0.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")]
unsafe fn pairs(from: *const f32, len: usize, to: *mut f32) {
    for at in (0..len).step_by(2 * LANES) {
        let mask = |from: usize| u16::MAX.checked_shr(lanes_missing(len, from)).unwrap_or(0);
        let (low, high) = (mask(at), mask(at + LANES));
        // SAFETY: lanes beyond the floats are masked out, and pairs beyond these.
        unsafe {
            let low = _mm512_maskz_loadu_ps(low, from.wrapping_add(at));
            let high = _mm512_maskz_loadu_ps(high, from.wrapping_add(at + LANES));
            let both = transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low));
            let mask = u16::MAX.checked_shr(lanes_missing(len.div_ceil(2), at / 2)).unwrap_or(0);
            _mm512_mask_storeu_ps(to.wrapping_add(at / 2), mask, both);
        }
    }
}

/// Returns the number of lanes beyond `len` of those that start at element `from`.
fn lanes_missing(len: usize, from: usize) -> u32 {
    let there = len.saturating_sub(from).min(LANES);
    u32::try_from(LANES - there).unwrap_or(0)
}
