//! Eight numbers.

use core::arch::x86_64::{
    __m256i, _mm_cvtsi128_si64, _mm_loadl_epi64, _mm_set1_epi8, _mm_storel_epi64,
    _mm_unpacklo_epi32, _mm_xor_si128, _mm256_add_epi32, _mm256_and_si256, _mm256_castsi256_si128,
    _mm256_cmpeq_epi32, _mm256_cmpgt_epi32, _mm256_cvtepu8_epi32, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_max_epi32, _mm256_max_epu32, _mm256_min_epi32,
    _mm256_movemask_epi8, _mm256_mullo_epi32, _mm256_permutevar8x32_epi32, _mm256_set1_epi32,
    _mm256_setr_epi32, _mm256_shuffle_epi8, _mm256_slli_epi32, _mm256_srav_epi32,
    _mm256_storeu_si256, _mm256_sub_epi32,
};

use super::{Channels, I32Kernel, I32Simd, lanes_of, load_few, store_few};
use crate::simd::requantise::avx2::{Lanes, Narrow, QuickLanes};

#[derive(Clone, Copy)]
pub(crate) struct I32x8(pub(crate) __m256i);

impl I32Simd for I32x8 {
    const LANES: usize = 8;

    type Multipliers = Lanes;
    type Quick = QuickLanes;
    type Narrow = Narrow;

    #[target_feature(enable = "avx2")]
    unsafe fn run<K: I32Kernel>(work: &K::Work) {
        // SAFETY: as the caller promises.
        unsafe { K::run::<Self>(work) };
    }

    #[inline(always)]
    unsafe fn splat(x: i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm256_set1_epi32(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: as the caller promises.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8, flip: u8) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let bytes = _mm_loadl_epi64(from.cast());
            let flip = _mm_set1_epi8(flip.cast_signed());
            Self(_mm256_cvtepu8_epi32(_mm_xor_si128(bytes, flip)))
        }
    }

    #[inline(always)]
    unsafe fn first_bytes(from: *const u8, count: usize, flip: u8) -> Self {
        // SAFETY: as many as the caller promises, or our own eight.
        unsafe {
            if count >= Self::LANES {
                return Self::bytes(from, flip);
            }
            Self::bytes(load_few(from, count).to_le_bytes().as_ptr(), flip)
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, count: usize) {
        // SAFETY: as many as the caller promises; a vector is proof of the instruction set.
        unsafe {
            let bytes = _mm256_shuffle_epi8(self.0, _mm256_set1_epi32(0x0C08_0400));
            let (low, high) = (_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
            let eight = _mm_unpacklo_epi32(low, high);
            if count >= Self::LANES {
                return _mm_storel_epi64(to.cast(), eight);
            }
            store_few(_mm_cvtsi128_si64(eight).cast_unsigned(), to, count);
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_sub_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_mullo_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add_16(self, numbers: Self, factors: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_add_epi32(self.0, _mm256_madd_epi16(numbers.0, factors.0)) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn first(self, count: usize) -> Self {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let at = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            Self(_mm256_and_si256(self.0, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), at)))
        }
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_slli_epi32::<BITS>(self.0) })
    }

    #[inline(always)]
    fn shift_right(self, bits: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_srav_epi32(self.0, bits.0) })
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_min_epi32(_mm256_max_epi32(self.0, low.0), high.0) })
    }

    #[inline(always)]
    fn max_unsigned(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { _mm256_max_epu32(self.0, other.0) })
    }

    #[inline(always)]
    fn any_reaches_unsigned(self, limit: Self) -> bool {
        // Where a number is the greater one it reaches.
        let greater = self.max_unsigned(limit);
        // SAFETY: a vector is proof of the instruction set.
        unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi32(greater.0, self.0)) != 0 }
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
        // SAFETY: as many as the caller promises; a vector is proof of the instruction set.
        unsafe {
            // Packing keeps to halves: each ends up with four bytes of every vector.
            let bytes = range.packed([[a.0, b.0], [c.0, d.0]]);
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            let bytes = _mm256_permutevar8x32_epi32(bytes, order);
            if count >= 4 * Self::LANES {
                return _mm256_storeu_si256(to.cast(), bytes);
            }
            let eights: [u64; 4] = core::mem::transmute(bytes);
            for (v, eight) in eights.into_iter().enumerate() {
                let to = to.wrapping_add(v * Self::LANES);
                match lanes_of(v, count, Self::LANES) {
                    Self::LANES => to.cast::<u64>().write_unaligned(eight),
                    few => store_few(eight, to, few),
                }
            }
        }
    }
}
