//! Four doubles in two registers.

use core::arch::aarch64::{
    float64x2_t, vcombine_f32, vcvt_f32_f64, vcvt_f64_f32, vcvt_high_f64_f32, vdupq_n_f64,
    vfmaq_f64, vget_low_f32, vgetq_lane_u64, vld1q_f64, vmulq_f64, vreinterpretq_u64_f64,
    vsubq_f64,
};

use crate::simd::vector_f32::{F32x4, F64Simd, PowerTable};

#[derive(Clone, Copy)]
pub(crate) struct F64x4([float64x2_t; 2]);

impl F64Simd for F64x4 {
    type F32 = F32x4;

    #[inline(always)]
    fn widen(F32x4(floats): F32x4) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [vcvt_f64_f32(vget_low_f32(floats)), vcvt_high_f64_f32(floats)] })
    }

    #[inline(always)]
    fn narrow(self) -> F32x4 {
        let [a, b] = self.0;
        // SAFETY: a vector is proof of the instruction set.
        F32x4(unsafe { vcombine_f32(vcvt_f32_f64(a), vcvt_f32_f64(b)) })
    }

    #[inline(always)]
    fn filled(self, x: f64) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self([unsafe { vdupq_n_f64(x) }; 2])
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [vsubq_f64(a, c), vsubq_f64(b, d)] })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [vmulq_f64(a, c), vmulq_f64(b, d)] })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        let ([a, b], [c, d], [e, f]) = (self.0, factor.0, addend.0);
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [vfmaq_f64(e, a, c), vfmaq_f64(f, b, d)] })
    }

    #[inline(always)]
    fn powers(self, table: &PowerTable) -> Self {
        let [a, b] = self.0;
        // SAFETY: a vector is proof of the instruction set; two doubles of our own each.
        unsafe {
            let (a, b) = (vreinterpretq_u64_f64(a), vreinterpretq_u64_f64(b));
            let a = [table.at(vgetq_lane_u64::<0>(a)), table.at(vgetq_lane_u64::<1>(a))];
            let b = [table.at(vgetq_lane_u64::<0>(b)), table.at(vgetq_lane_u64::<1>(b))];
            Self([vld1q_f64(a.as_ptr()), vld1q_f64(b.as_ptr())])
        }
    }
}
