//! A panel's sums are two vectors: those of the upper halves, which stay where they are in their
//! bytes, are 16 times too large until the block is done.

use core::arch::x86_64::{
    __m512, __m512i, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_cvtepi32_ps,
    _mm512_dpbusd_epi32, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_set1_epi8,
    _mm512_set1_epi32, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_srai_epi32,
    _mm512_storeu_ps,
};

use super::kernel::{BlockPanels, BlocksKernel};
use super::panels::{BlockSums, panels};
use crate::simd::Avx512;

/// Panels that are summed side by side.
const SIDE: usize = 4;

pub(super) const KERNEL: BlocksKernel = BlocksKernel { run, side: SIDE };

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn run(all: &BlockPanels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Halves, SIDE>(Avx512::new_unchecked(), all) };
}

#[derive(Clone, Copy)]
struct Halves {
    lower: __m512i,
    upper: __m512i,
}

impl BlockSums for Halves {
    type Isa = Avx512;
    type Word = __m512i;
    type Totals = __m512;

    #[inline(always)]
    fn start(_: Avx512, start: i32) -> Self {
        // SAFETY: `Avx512` proves the instruction set.
        unsafe { Self { lower: _mm512_set1_epi32(start), upper: _mm512_setzero_si512() } }
    }

    #[inline(always)]
    unsafe fn word(_: Avx512, from: *const u32) -> __m512i {
        // SAFETY: as the caller promises.
        unsafe { _mm512_set1_epi32(from.read_unaligned().cast_signed()) }
    }

    #[inline(always)]
    unsafe fn with_products(self, _: Avx512, [x, y]: [__m512i; 2], line: *const u8) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let weights = _mm512_loadu_si512(line.cast());
            let lower = _mm512_and_si512(weights, _mm512_set1_epi8(0x0F));
            let upper = _mm512_and_si512(weights, _mm512_set1_epi8(!0x0F));
            Self {
                lower: _mm512_dpbusd_epi32(self.lower, lower, x),
                upper: _mm512_dpbusd_epi32(self.upper, upper, y),
            }
        }
    }

    #[inline(always)]
    fn zero(_: Avx512) -> __m512 {
        // SAFETY: `Avx512` proves the instruction set.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn add_to(self, totals: __m512, scales: *const f32) -> __m512 {
        // SAFETY: as the caller promises; sums are proof of the instruction set.
        unsafe {
            let sums = _mm512_add_epi32(self.lower, _mm512_srai_epi32::<4>(self.upper));
            let products = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_loadu_ps(scales));
            _mm512_add_ps(totals, products)
        }
    }

    #[inline(always)]
    unsafe fn store(_: Avx512, totals: __m512, to: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe { _mm512_storeu_ps(to, totals) };
    }
}
