//! Sixteen numbers; what is less than a vector under a mask.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm_maskz_loadu_epi8, _mm_set1_epi8, _mm_storeu_si128, _mm_xor_si128,
    _mm256_storeu_si256, _mm512_add_epi32, _mm512_and_si512, _mm512_castsi512_si128,
    _mm512_castsi512_si256, _mm512_cmpge_epu32_mask, _mm512_cvtepu8_epi32, _mm512_dpwssd_epi32,
    _mm512_loadu_si512, _mm512_mask_cvtepi32_storeu_epi8, _mm512_mask_storeu_epi8,
    _mm512_maskz_mov_epi32, _mm512_max_epi32, _mm512_max_epu32, _mm512_min_epi32,
    _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_sllv_epi32, _mm512_srav_epi32,
    _mm512_storeu_si512, _mm512_sub_epi32,
};

use super::{Channels, I32Kernel, I32Simd};
use crate::simd::requantise::avx512::{Lanes, Narrow, QuickLanes};

#[derive(Clone, Copy)]
pub(crate) struct I32x16(__m512i);

/// The lowest `count` bits, at most 16.
#[inline(always)]
fn mask(count: usize) -> u16 {
    u16::try_from((1u32 << count.min(I32x16::LANES)) - 1).unwrap_or(u16::MAX)
}

impl I32Simd for I32x16 {
    const LANES: usize = 16;

    type Multipliers = Lanes;
    type Quick = QuickLanes;
    type Narrow = Narrow;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn run<K: I32Kernel>(work: &K::Work) {
        // SAFETY: as the caller promises.
        unsafe { K::run::<Self>(work) };
    }

    #[inline(always)]
    unsafe fn splat(x: i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm512_set1_epi32(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: as the caller promises.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8, flip: u8) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let bytes = _mm_loadu_si128(from.cast());
            let flip = _mm_set1_epi8(flip.cast_signed());
            Self(_mm512_cvtepu8_epi32(_mm_xor_si128(bytes, flip)))
        }
    }

    #[inline(always)]
    unsafe fn first_bytes(from: *const u8, count: usize, flip: u8) -> Self {
        // SAFETY: as the caller promises; what is behind is masked out.
        unsafe {
            let bytes = _mm_maskz_loadu_epi8(mask(count), from.cast());
            let flip = _mm_set1_epi8(flip.cast_signed());
            Self(_mm512_cvtepu8_epi32(_mm_xor_si128(bytes, flip)))
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, count: usize) {
        // SAFETY: as the caller promises; what is behind is masked out.
        unsafe { _mm512_mask_cvtepi32_storeu_epi8(to.cast(), mask(count), self.0) };
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_sub_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_mullo_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add_16(self, numbers: Self, factors: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_dpwssd_epi32(self.0, numbers.0, factors.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn first(self, count: usize) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_maskz_mov_epi32(mask(count), self.0) })
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self) -> Self {
        // The intrinsic takes an unsigned constant, which can't be made of a signed one here.
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_sllv_epi32(self.0, _mm512_set1_epi32(BITS)) })
    }

    #[inline(always)]
    fn shift_right(self, bits: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_srav_epi32(self.0, bits.0) })
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_min_epi32(_mm512_max_epi32(self.0, low.0), high.0) })
    }

    #[inline(always)]
    fn max_unsigned(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm512_max_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn any_reaches_unsigned(self, limit: Self) -> bool {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { _mm512_cmpge_epu32_mask(self.0, limit.0) != 0 }
    }

    #[inline(always)]
    unsafe fn multipliers(channels: &Channels, channel: usize) -> Lanes {
        // SAFETY: as the caller promises.
        unsafe { Lanes::load(channels, channel) }
    }

    #[inline(always)]
    fn scaled(self, by: &Lanes) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { by.scaled(self.0) })
    }

    #[inline(always)]
    fn stored(self, by: &Lanes) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { by.stored(self.0) })
    }

    #[inline(always)]
    unsafe fn quick(channels: &Channels, channel: usize) -> QuickLanes {
        // SAFETY: as the caller promises.
        unsafe { QuickLanes::load(channels, channel) }
    }

    #[inline(always)]
    fn rounded<const NEGATIVE: bool>(self, by: &QuickLanes) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { by.rounded::<NEGATIVE>(self.0) })
    }

    #[inline(always)]
    unsafe fn narrow(channels: &Channels) -> Narrow {
        // SAFETY: as the caller promises.
        unsafe { Narrow::new(channels) }
    }

    #[inline(always)]
    unsafe fn store_narrow([a, b, c, d]: [Self; 4], range: &Narrow, to: *mut u8, count: usize) {
        // SAFETY: as the caller promises, what is behind is masked out; a vector is proof of the
        // instruction set.
        unsafe {
            let bytes = range.bytes([a.0, b.0, c.0, d.0]);
            match count {
                64.. => _mm512_storeu_si512(to.cast(), bytes),
                32 => _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(bytes)),
                16 => _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(bytes)),
                _ => _mm512_mask_storeu_epi8(to.cast(), (1 << count) - 1, bytes),
            }
        }
    }
}
