//! Sixty-four bytes at a time, then sixteen: those of a long vector under a mask may lie across
//! two lines of the cache.

use core::arch::x86_64::{
    __m512i, _mm512_loadu_si512, _mm512_max_epi8, _mm512_max_epu8, _mm512_min_epi8,
    _mm512_min_epu8, _mm512_set1_epi8, _mm512_storeu_si512,
};

use super::Pooled;
use super::avx2::U8x16;
use super::vectors::{ByteVector, fold};
use crate::simd::Avx512;

/// # Safety
/// As for a part; the machine has the instruction set.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
pub(super) unsafe fn run<const SIGNED: bool>(pooled: &Pooled) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = Avx512::new_unchecked();
        fold::<U8x64, U8x16, SIGNED>(isa, isa.avx2(), pooled);
    };
}

/// Sixty-four bytes; a value proves the instruction set.
#[derive(Clone, Copy)]
struct U8x64(__m512i);

impl ByteVector for U8x64 {
    type Isa = Avx512;

    const LANES: usize = 64;

    #[inline(always)]
    fn splat(_: Avx512, x: u8) -> Self {
        // SAFETY: the proof.
        Self(unsafe { _mm512_set1_epi8(x.cast_signed()) })
    }

    #[inline(always)]
    unsafe fn load(_: Avx512, from: *const u8) -> Self {
        // SAFETY: the proof, and as the caller promises.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: a vector is proof of the instruction set, and as the caller promises.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    fn larger<const SIGNED: bool>(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            match SIGNED {
                true => _mm512_max_epi8(self.0, other.0),
                false => _mm512_max_epu8(self.0, other.0),
            }
        })
    }

    #[inline(always)]
    fn smaller<const SIGNED: bool>(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            match SIGNED {
                true => _mm512_min_epi8(self.0, other.0),
                false => _mm512_min_epu8(self.0, other.0),
            }
        })
    }
}
