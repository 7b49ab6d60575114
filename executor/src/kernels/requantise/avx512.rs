//! Sixteen lanes.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpgt_epi32_mask,
    _mm512_loadu_si512, _mm512_mask_add_epi32, _mm512_mask_blend_epi32, _mm512_mask_sub_epi32,
    _mm512_max_epi32, _mm512_min_epi32, _mm512_movepi32_mask, _mm512_mul_epi32, _mm512_set1_epi32,
    _mm512_set1_epi64, _mm512_slli_epi64, _mm512_sllv_epi32, _mm512_srai_epi32, _mm512_srav_epi32,
    _mm512_srli_epi64,
};

use super::Channels;

/// Multipliers of sixteen channels, loaded once for many rows.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Lanes {
    fraction: __m512i,
    left: __m512i,
    right: __m512i,
    /// What a remainder must exceed to round away.
    half: __m512i,
    mask: __m512i,
    zero_point: __m512i,
    low: __m512i,
    high: __m512i,
}

impl Lanes {
    /// # Safety
    /// Sixteen channels are there from `channel` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in crate::kernels) unsafe fn load(channels: &Channels, channel: usize) -> Self {
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
    pub(in crate::kernels) fn stored(&self, accumulators: __m512i) -> __m512i {
        self.clamped(self.scaled(accumulators))
    }

    /// Sixteen numbers times their multipliers, rounded twice.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(in crate::kernels) fn scaled(&self, accumulators: __m512i) -> __m512i {
        let x = _mm512_sllv_epi32(accumulators, self.left);
        // The rounding doubled high product, even lanes and odd lanes by themselves. Fractions are never
        // the one value that overflows, and the bits wanted lie below the sign: a logical shift will do.
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
