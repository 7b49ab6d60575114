//! A panel's sums are one vector.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32,
    _mm512_setzero_si512, _mm512_storeu_si512,
};

use super::kernel::{GemvKernel, Panels};
use super::panels::{Sums, panels};

pub(super) const KERNEL: GemvKernel = GemvKernel { run, signed: false };

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn run(all: &Panels) {
    // SAFETY: as the caller promises.
    unsafe { panels::<Whole, 4, 4>(all) };
}

#[derive(Clone, Copy)]
struct Whole(__m512i);

impl Sums for Whole {
    type Word = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn word(x: u32) -> __m512i {
        // SAFETY: as the caller promises.
        unsafe { _mm512_set1_epi32(x.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn with_products(self, word: __m512i, line: *const i8) -> Self {
        // SAFETY: as the caller promises; sums are proof of the instruction set.
        Self(unsafe { _mm512_dpbusd_epi32(self.0, word, _mm512_loadu_si512(line.cast())) })
    }

    #[inline(always)]
    unsafe fn store(self, start: *const i32, to: *mut i32) {
        // SAFETY: as the caller promises; sums are proof of the instruction set.
        unsafe {
            let all = _mm512_add_epi32(self.0, _mm512_loadu_si512(start.cast()));
            _mm512_storeu_si512(to.cast(), all);
        }
    }
}
