//! Sixteen lanes.

use core::arch::x86_64::{
    __m512i, _mm_storeu_si128, _mm256_storeu_si256, _mm512_add_epi32, _mm512_add_epi64,
    _mm512_and_si512, _mm512_castsi512_si128, _mm512_castsi512_si256, _mm512_cmpgt_epi32_mask,
    _mm512_loadu_si512, _mm512_mask_add_epi32, _mm512_mask_blend_epi32, _mm512_mask_srav_epi32,
    _mm512_mask_storeu_epi8, _mm512_mask_sub_epi32, _mm512_max_epi32, _mm512_max_epu8,
    _mm512_min_epi32, _mm512_min_epu8, _mm512_movepi32_mask, _mm512_mul_epi32, _mm512_packs_epi32,
    _mm512_packus_epi16, _mm512_permutexvar_epi32, _mm512_set1_epi8, _mm512_set1_epi32,
    _mm512_set1_epi64, _mm512_setr_epi32, _mm512_slli_epi64, _mm512_sllv_epi32, _mm512_srai_epi32,
    _mm512_srav_epi32, _mm512_srav_epi64, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
    _mm512_xor_si512,
};

use super::{Channels, Quick, RequantiseSimd};
use crate::simd::Avx512;
use crate::simd::vector_i32::I32x16;

/// Multipliers of sixteen channels, loaded once for many rows.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Lanes {
    fraction: __m512i,
    left: __m512i,
    right: __m512i,
    /// The bound that a remainder must exceed to round away.
    half: __m512i,
    mask: __m512i,
    zero_point: __m512i,
    low: __m512i,
    high: __m512i,
}

impl Avx512Lanes {
    /// # Safety
    /// Sixteen channels are there from `channel` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) unsafe fn load(channels: &Channels, channel: usize) -> Self {
        // SAFETY: as the caller promises.
        let (fraction, left, right) = unsafe {
            (
                _mm512_loadu_si512(channels.fraction.add(channel).cast()),
                _mm512_loadu_si512(channels.left.add(channel).cast()),
                _mm512_loadu_si512(channels.right.add(channel).cast()),
            )
        };
        let mask =
            _mm512_add_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(1), right), _mm512_set1_epi32(-1));
        Self {
            fraction,
            left,
            right,
            half: _mm512_srai_epi32::<1>(mask),
            mask,
            zero_point: _mm512_set1_epi32(channels.zero_point),
            low: _mm512_set1_epi32(channels.low),
            high: _mm512_set1_epi32(channels.high),
        }
    }

    /// The stored values of sixteen accumulators.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn stored(&self, accumulators: __m512i) -> __m512i {
        self.clamped(self.scaled(accumulators))
    }

    /// Sixteen numbers times their multipliers, rounded twice.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn scaled(&self, accumulators: __m512i) -> __m512i {
        let x = _mm512_sllv_epi32(accumulators, self.left);
        // The rounding doubled high product, even lanes and odd lanes by themselves. Fractions are
        // never the one value that overflows, and the bits wanted lie below the sign: a logical
        // shift will do.
        let nudge = _mm512_set1_epi64(1 << 30);
        let odd = |v: __m512i| _mm512_srli_epi64::<32>(v);
        let even_product = _mm512_add_epi64(_mm512_mul_epi32(x, self.fraction), nudge);
        let odd_product = _mm512_add_epi64(_mm512_mul_epi32(odd(x), odd(self.fraction)), nudge);
        let high = _mm512_mask_blend_epi32(
            0xAAAA,
            _mm512_srli_epi64::<31>(even_product),
            _mm512_slli_epi64::<1>(odd_product),
        );
        // The rounding shift, halves away from zero: up if the remainder exceeds half, for negative
        // numbers half and one.
        let remainder = _mm512_and_si512(high, self.mask);
        let shifted = _mm512_srav_epi32(high, self.right);
        let minus_one = _mm512_set1_epi32(-1);
        let negative = _mm512_movepi32_mask(high);
        let threshold = _mm512_mask_sub_epi32(self.half, negative, self.half, minus_one);
        let up = _mm512_cmpgt_epi32_mask(remainder, threshold);
        _mm512_mask_add_epi32(shifted, up, shifted, _mm512_set1_epi32(1))
    }

    /// With the zero point, saturated, and within the activation's range.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn clamped(&self, y: __m512i) -> __m512i {
        // A sum beyond 32 bits is far beyond any stored value; 2^30 either way keeps it within.
        let limit = _mm512_set1_epi32(1 << 30);
        let y = _mm512_min_epi32(y, limit);
        let y = _mm512_max_epi32(y, _mm512_set1_epi32(-(1 << 30)));
        let y = _mm512_add_epi32(y, self.zero_point);
        _mm512_min_epi32(_mm512_max_epi32(y, self.low), self.high)
    }
}

/// Multipliers of sixteen channels for [`super::Quick`].
#[derive(Clone, Copy)]
pub(crate) struct Avx512QuickLanes {
    even: __m512i,
    odd: __m512i,
    even_addend: __m512i,
    odd_addend: __m512i,
    /// Shifts of the even channels, to the upper half and further.
    even_right: __m512i,
    right: __m512i,
}

impl Avx512QuickLanes {
    /// Means something only where all channels are quick.
    ///
    /// # Safety
    /// Sixteen channels are there from `channel` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) unsafe fn load(channels: &Channels, channel: usize) -> Self {
        // SAFETY: as the caller promises; addends have two numbers each.
        unsafe {
            let even = _mm512_loadu_si512(channels.fraction.add(channel).cast());
            Self {
                even,
                odd: _mm512_srli_epi64::<32>(even),
                even_addend: _mm512_loadu_si512(channels.addends.add(2 * channel).cast()),
                odd_addend: _mm512_loadu_si512(channels.addends.add(2 * channel + 16).cast()),
                even_right: _mm512_loadu_si512(channels.even_right.add(channel).cast()),
                right: _mm512_loadu_si512(channels.quick_right.add(channel).cast()),
            }
        }
    }

    /// Sixteen results with the zero point, not yet within a byte.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn rounded<const NEGATIVE: bool>(&self, even: __m512i) -> __m512i {
        let odd = _mm512_srli_epi64::<32>(even);
        let mut even_sum = _mm512_add_epi64(_mm512_mul_epi32(even, self.even), self.even_addend);
        let mut odd_sum = _mm512_add_epi64(_mm512_mul_epi32(odd, self.odd), self.odd_addend);
        if NEGATIVE {
            // The sign of 32 bits has just the value that is to be subtracted.
            let sign = _mm512_set1_epi64(1 << 31);
            even_sum = _mm512_sub_epi64(even_sum, _mm512_and_si512(even, sign));
            odd_sum = _mm512_sub_epi64(odd_sum, _mm512_and_si512(odd, sign));
        }
        // Shifts alone: a shuffle that brings both together first is the one unit's that packing
        // needs too.
        let even_result = _mm512_srav_epi64(even_sum, self.even_right);
        _mm512_mask_srav_epi32(even_result, 0xAAAA, odd_sum, self.right)
    }
}

/// Brings sums to stored values: `ROWS` pixels of `VECTORS` times sixteen channels.
///
/// Always a part of the tile that calls it, whose sums would go through memory otherwise; for that
/// it must not state the instruction set itself.
///
/// # Safety
/// The channels are there, and the machine has AVX-512.
#[inline(always)]
pub(crate) unsafe fn rounded<const ROWS: usize, const VECTORS: usize>(
    channels: &Channels,
    sums: [[I32x16; VECTORS]; ROWS],
) -> [[__m512i; VECTORS]; ROWS] {
    let sums = sums.map(|row| row.map(|sums| sums.0));
    let Some(Quick { negative }) = channels.quick else {
        let mut values = sums;
        // SAFETY: as the caller promises.
        unsafe { general(channels, values.as_flattened_mut(), VECTORS) };
        return values;
    };
    let mut values = sums;
    if negative {
        // SAFETY: as the caller promises.
        unsafe { quick::<true, ROWS, VECTORS>(channels, &mut values) };
    } else {
        // SAFETY: as the caller promises.
        unsafe { quick::<false, ROWS, VECTORS>(channels, &mut values) };
    }
    values
}

/// # Safety
/// The channels are there, and all are quick; the machine has AVX-512.
#[inline(always)]
unsafe fn quick<const NEGATIVE: bool, const ROWS: usize, const VECTORS: usize>(
    channels: &Channels,
    values: &mut [[__m512i; VECTORS]; ROWS],
) {
    unrolled!(4: v < VECTORS, {
        // SAFETY: as the caller promises.
        let lanes = unsafe { Avx512QuickLanes::load(channels, v * 16) };
        unrolled!(16: r < ROWS, {
            // SAFETY: as the caller promises.
            values[r][v] = unsafe { lanes.rounded::<NEGATIVE>(values[r][v]) };
        });
    });
}

/// As [`rounded`] for multipliers of any kind, `vectors` in a pixel. Rare, so it is kept out of the
/// way of the code around.
///
/// # Safety
/// The channels are there.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) unsafe fn general(channels: &Channels, values: &mut [__m512i], vectors: usize) {
    let unsigned = _mm512_set1_epi32(super::offset(channels.low));
    for (at, value) in values.iter_mut().enumerate() {
        // SAFETY: as the caller promises.
        let lanes = unsafe { Avx512Lanes::load(channels, at % vectors * 16) };
        *value = _mm512_add_epi32(lanes.stored(*value), unsigned);
    }
}

/// From numbers to bytes within a range.
#[derive(Clone, Copy)]
pub(crate) struct Narrow {
    low: __m512i,
    high: __m512i,
    flip: __m512i,
    order: __m512i,
}

impl Narrow {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn new((low, high): (i32, i32)) -> Self {
        let offset = super::offset(low);
        let byte = |value: i32| _mm512_set1_epi8(value.to_le_bytes()[0].cast_signed());
        Self {
            low: byte(low + offset),
            high: byte(high + offset),
            flip: byte(offset),
            order: _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
        }
    }

    /// Four times sixteen results of [`rounded`] as bytes, in order.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn bytes(&self, [a, b, c, d]: [__m512i; 4]) -> __m512i {
        // Packing keeps to lanes of 128 bits: each ends up with four bytes of every vector.
        let bytes = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
        let bytes = _mm512_min_epu8(_mm512_max_epu8(bytes, self.low), self.high);
        _mm512_permutexvar_epi32(self.order, _mm512_xor_si512(bytes, self.flip))
    }
}

impl RequantiseSimd for I32x16 {
    type Multipliers = Avx512Lanes;
    type Quick = Avx512QuickLanes;
    type Narrow = Narrow;

    #[inline(always)]
    unsafe fn multipliers(_: Avx512, channels: &Channels, channel: usize) -> Avx512Lanes {
        // SAFETY: as the caller promises.
        unsafe { Avx512Lanes::load(channels, channel) }
    }

    #[inline(always)]
    fn scaled(self, by: &Avx512Lanes) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { by.scaled(self.0) })
    }

    #[inline(always)]
    fn stored(self, by: &Avx512Lanes) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { by.stored(self.0) })
    }

    #[inline(always)]
    unsafe fn quick(_: Avx512, channels: &Channels, channel: usize) -> Avx512QuickLanes {
        // SAFETY: as the caller promises.
        unsafe { Avx512QuickLanes::load(channels, channel) }
    }

    #[inline(always)]
    fn rounded<const NEGATIVE: bool>(self, by: &Avx512QuickLanes) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { by.rounded::<NEGATIVE>(self.0) })
    }

    #[inline(always)]
    fn narrow(_: Avx512, range: (i32, i32)) -> Narrow {
        // SAFETY: the value proves the instruction set.
        unsafe { Narrow::new(range) }
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
