//! Eight lanes.

use core::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_and_si256, _mm256_blend_epi32,
    _mm256_cmpgt_epi32, _mm256_loadu_si256, _mm256_max_epi32, _mm256_max_epu8, _mm256_min_epi32,
    _mm256_min_epu8, _mm256_mul_epi32, _mm256_packs_epi32, _mm256_packus_epi16,
    _mm256_permute4x64_epi64, _mm256_permutevar8x32_epi32, _mm256_set1_epi8, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_slli_epi64,
    _mm256_sllv_epi32, _mm256_srai_epi32, _mm256_srav_epi32, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_sub_epi32, _mm256_sub_epi64, _mm256_xor_si256,
};

use super::{Channels, RequantiseSimd};
use crate::simd::Avx2;
use crate::simd::vector_i32::{I32Simd, I32x8, lanes_of, store_few};

/// Multipliers of eight channels, loaded once for many rows.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Lanes {
    fraction: __m256i,
    left: __m256i,
    right: __m256i,
    half: __m256i,
    mask: __m256i,
    zero_point: __m256i,
    low: __m256i,
    high: __m256i,
}

impl Avx2Lanes {
    /// # Safety
    /// Eight channels are there from `channel` on.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn load(channels: &Channels, channel: usize) -> Self {
        // SAFETY: as the caller promises.
        let (fraction, left, right) = unsafe {
            (
                _mm256_loadu_si256(channels.fraction.add(channel).cast()),
                _mm256_loadu_si256(channels.left.add(channel).cast()),
                _mm256_loadu_si256(channels.right.add(channel).cast()),
            )
        };
        let mask =
            _mm256_add_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), right), _mm256_set1_epi32(-1));
        Self {
            fraction,
            left,
            right,
            half: _mm256_srai_epi32::<1>(mask),
            mask,
            zero_point: _mm256_set1_epi32(channels.zero_point),
            low: _mm256_set1_epi32(channels.low),
            high: _mm256_set1_epi32(channels.high),
        }
    }

    /// Eight numbers times their multipliers, rounded twice; see the AVX-512 variant for the steps.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn scaled(&self, accumulators: __m256i) -> __m256i {
        let x = _mm256_sllv_epi32(accumulators, self.left);
        let nudge = _mm256_set1_epi64x(1 << 30);
        let odd = |v: __m256i| _mm256_srli_epi64::<32>(v);
        let even_product = _mm256_add_epi64(_mm256_mul_epi32(x, self.fraction), nudge);
        let odd_product = _mm256_add_epi64(_mm256_mul_epi32(odd(x), odd(self.fraction)), nudge);
        let high = _mm256_blend_epi32::<0xAA>(
            _mm256_srli_epi64::<31>(even_product),
            _mm256_slli_epi64::<1>(odd_product),
        );
        let remainder = _mm256_and_si256(high, self.mask);
        let shifted = _mm256_srav_epi32(high, self.right);
        // Comparisons give -1 where they hold.
        let negative = _mm256_cmpgt_epi32(_mm256_setzero_si256(), high);
        let threshold = _mm256_sub_epi32(self.half, negative);
        let up = _mm256_cmpgt_epi32(remainder, threshold);
        _mm256_sub_epi32(shifted, up)
    }

    /// The stored values of eight accumulators.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn stored(&self, accumulators: __m256i) -> __m256i {
        let rounded = self.scaled(accumulators);
        let limit = _mm256_set1_epi32(1 << 30);
        let y = _mm256_min_epi32(rounded, limit);
        let y = _mm256_max_epi32(y, _mm256_set1_epi32(-(1 << 30)));
        let y = _mm256_add_epi32(y, self.zero_point);
        _mm256_min_epi32(_mm256_max_epi32(y, self.low), self.high)
    }
}

/// Multipliers of eight channels for [`super::Quick`].
#[derive(Clone, Copy)]
pub(crate) struct Avx2QuickLanes {
    even: __m256i,
    odd: __m256i,
    even_addend: __m256i,
    odd_addend: __m256i,
    right: __m256i,
}

impl Avx2QuickLanes {
    /// Means something only where all channels are quick.
    ///
    /// # Safety
    /// Eight channels are there from `channel` on, a multiple of eight.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn load(channels: &Channels, channel: usize) -> Self {
        // SAFETY: as the caller promises; addends have two numbers each, those of sixteen channels
        // together.
        unsafe {
            let addends = channels.addends.add(channel / 16 * 32 + channel % 16);
            let even = _mm256_loadu_si256(channels.fraction.add(channel).cast());
            Self {
                even,
                odd: _mm256_srli_epi64::<32>(even),
                even_addend: _mm256_loadu_si256(addends.cast()),
                odd_addend: _mm256_loadu_si256(addends.add(16).cast()),
                right: _mm256_loadu_si256(channels.quick_right.add(channel).cast()),
            }
        }
    }

    /// Eight results with the zero point, not yet within a byte.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn rounded<const NEGATIVE: bool>(&self, even: __m256i) -> __m256i {
        let odd = _mm256_srli_epi64::<32>(even);
        let mut even_sum = _mm256_add_epi64(_mm256_mul_epi32(even, self.even), self.even_addend);
        let mut odd_sum = _mm256_add_epi64(_mm256_mul_epi32(odd, self.odd), self.odd_addend);
        if NEGATIVE {
            // The sign of 32 bits has just the value that is to be subtracted.
            let sign = _mm256_set1_epi64x(1 << 31);
            even_sum = _mm256_sub_epi64(even_sum, _mm256_and_si256(even, sign));
            odd_sum = _mm256_sub_epi64(odd_sum, _mm256_and_si256(odd, sign));
        }
        let upper = _mm256_blend_epi32::<0xAA>(_mm256_srli_epi64::<32>(even_sum), odd_sum);
        _mm256_srav_epi32(upper, self.right)
    }
}

/// As [`Avx2QuickLanes::rounded`] for multipliers of any kind, of sixteen channels. Rare, so it is
/// kept out of the way of the code around.
///
/// # Safety
/// The channels are there.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn general(channels: &Channels, values: &mut [__m256i; 2]) {
    let unsigned = _mm256_set1_epi32(super::offset(channels.low));
    for (at, value) in values.iter_mut().enumerate() {
        // SAFETY: as the caller promises.
        let lanes = unsafe { Avx2Lanes::load(channels, at * 8) };
        *value = _mm256_add_epi32(lanes.stored(*value), unsigned);
    }
}

/// From numbers to bytes within a range.
#[derive(Clone, Copy)]
pub(crate) struct Narrow {
    low: __m256i,
    high: __m256i,
    flip: __m256i,
}

impl Narrow {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn new((low, high): (i32, i32)) -> Self {
        let offset = super::offset(low);
        let byte = |value: i32| _mm256_set1_epi8(value.to_le_bytes()[0].cast_signed());
        Self { low: byte(low + offset), high: byte(high + offset), flip: byte(offset) }
    }

    /// Twice sixteen results as bytes, of which the first register has four of each eight, and the
    /// second the other four.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn bytes(&self, results: [[__m256i; 2]; 2]) -> __m256i {
        _mm256_permute4x64_epi64::<0xD8>(self.packed(results))
    }

    /// Twice sixteen results as bytes, register by register.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn in_order(&self, results: [[__m256i; 2]; 2]) -> __m256i {
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_permutevar8x32_epi32(self.packed(results), order)
    }

    /// The same as packing leaves it: either half has four bytes of each register.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn packed(&self, [a, b]: [[__m256i; 2]; 2]) -> __m256i {
        let bytes =
            _mm256_packus_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(b[0], b[1]));
        let bytes = _mm256_min_epu8(_mm256_max_epu8(bytes, self.low), self.high);
        _mm256_xor_si256(bytes, self.flip)
    }
}

impl RequantiseSimd for I32x8 {
    type Multipliers = Avx2Lanes;
    type Quick = Avx2QuickLanes;
    type Narrow = Narrow;

    #[inline(always)]
    unsafe fn multipliers(_: Avx2, channels: &Channels, channel: usize) -> Avx2Lanes {
        // SAFETY: as the caller promises.
        unsafe { Avx2Lanes::load(channels, channel) }
    }

    #[inline(always)]
    fn scaled(self, by: &Avx2Lanes) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { by.scaled(self.0) })
    }

    #[inline(always)]
    fn stored(self, by: &Avx2Lanes) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { by.stored(self.0) })
    }

    #[inline(always)]
    unsafe fn quick(_: Avx2, channels: &Channels, channel: usize) -> Avx2QuickLanes {
        // SAFETY: as the caller promises.
        unsafe { Avx2QuickLanes::load(channels, channel) }
    }

    #[inline(always)]
    fn rounded<const NEGATIVE: bool>(self, by: &Avx2QuickLanes) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { by.rounded::<NEGATIVE>(self.0) })
    }

    #[inline(always)]
    fn narrow(_: Avx2, range: (i32, i32)) -> Narrow {
        // SAFETY: the value proves the instruction set.
        unsafe { Narrow::new(range) }
    }

    #[inline(always)]
    unsafe fn store_narrow([a, b, c, d]: [Self; 4], range: &Narrow, to: *mut u8, count: usize) {
        // SAFETY: as many as the caller promises; a vector is proof of the instruction set.
        unsafe {
            let bytes = range.in_order([[a.0, b.0], [c.0, d.0]]);
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
