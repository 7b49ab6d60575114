//! Four floats.

use core::arch::aarch64::{
    float32x4_t, int32x4_t, vaddq_f32, vaddq_s32, vandq_u32, vbslq_f32, vceqq_u32, vcgeq_f32,
    vcgtq_f32, vcgtq_u32, vcleq_f32, vcltq_f32, vcltzq_s32, vcombine_f32, vcvtnq_s32_f32,
    vcvtq_f32_s32, vdivq_f32, vdupq_n_f32, vdupq_n_s32, vdupq_n_u32, vextq_f32, vfmaq_f32,
    vget_high_f32, vget_low_f32, vld1_u16, vld1q_f32, vld1q_u16, vld1q_u32, vmaxq_f32, vminvq_u32,
    vmulq_f32, vpaddq_f32, vreinterpretq_f32_s32, vreinterpretq_f32_u32, vreinterpretq_s32_f32,
    vreinterpretq_u32_u16, vrndnq_f32, vshlq_n_s32, vshlq_n_u32, vshrq_n_s32, vst1q_f32, vsubq_f32,
    vsubq_s32, vuzp1q_f32, vuzp2q_f32,
};

use half::f16;

use super::{F32Lanes, F32Simd, HALF_ROOT};
use crate::simd::Neon;
use crate::simd::vector_f64::F64x4;

#[derive(Clone, Copy)]
pub(crate) struct F32x4(pub(crate) float32x4_t);

const SIGN: u32 = 1 << 31;

/// `2^n` of numbers whose powers are neither below the normal floats nor above all.
///
/// # Safety
/// The machine has the instruction set.
#[inline(always)]
unsafe fn power_of_two(n: int32x4_t) -> float32x4_t {
    // SAFETY: as the caller promises.
    unsafe { vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127)))) }
}

impl F32Lanes for F32x4 {
    type F64 = F64x4;

    #[inline(always)]
    fn filled(self, x: f32) -> Self {
        Self::splat(self.isa(), x)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vaddq_f32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vsubq_f32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vmulq_f32(self.0, other.0) })
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vdivq_f32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vfmaq_f32(addend.0, self.0, factor.0) })
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vbslq_f32(vcgtq_f32(self.0, other.0), self.0, other.0) })
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vbslq_f32(vcltq_f32(self.0, other.0), self.0, other.0) })
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        // NaN stays: it compares false, where the instructions for minimum and maximum would keep
        // its payload but not tell -0 from 0 as the other variants do. SAFETY: a vector is proof of
        // the instruction set.
        unsafe {
            let y = vbslq_f32(vcltq_f32(self.0, low.0), low.0, self.0);
            Self(vbslq_f32(vcgtq_f32(y, high.0), high.0, y))
        }
    }

    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vrndnq_f32(self.0) })
    }

    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { Self(power_of_two(vcvtnq_s32_f32(vmaxq_f32(vdupq_n_f32(-126.0), self.0)))) }
    }

    #[inline(always)]
    fn scaled(self, n: Self) -> Self {
        // In two factors, since 2^n may be above or below what one float holds.
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let n = vcvtnq_s32_f32(n.0);
            let half = vshrq_n_s32::<1>(n);
            let y = vmulq_f32(self.0, power_of_two(half));
            Self(vmulq_f32(y, power_of_two(vsubq_s32(n, half))))
        }
    }

    #[inline(always)]
    fn split(self) -> [Self; 2] {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let bits = vreinterpretq_s32_f32(self.0);
            let n = vshrq_n_s32::<23>(vsubq_s32(bits, vdupq_n_s32(HALF_ROOT)));
            let rest = vsubq_s32(bits, vshlq_n_s32::<23>(n));
            [Self(vcvtq_f32_s32(n)), Self(vreinterpretq_f32_s32(rest))]
        }
    }

    #[inline(always)]
    fn negative(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vbslq_f32(vdupq_n_u32(SIGN), vdupq_n_f32(-0.0), self.0) })
    }

    #[inline(always)]
    fn with_signs(self, of: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vbslq_f32(vdupq_n_u32(SIGN), of.0, self.0) })
    }

    #[inline(always)]
    fn where_negative(self, of: Self, others: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(of.0)), self.0, others.0) })
    }

    #[inline(always)]
    fn where_less(self, a: Self, b: Self, others: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { vbslq_f32(vcltq_f32(a.0, b.0), self.0, others.0) })
    }

    #[inline(always)]
    fn is_any_outside(self, low: f32, high: f32) -> bool {
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let from_low = vcgeq_f32(self.0, self.filled(low).0);
            let to_high = vcleq_f32(self.0, self.filled(high).0);
            vminvq_u32(vandq_u32(from_low, to_high)) != u32::MAX
        }
    }
}

impl F32Simd for F32x4 {
    type Isa = Neon;

    const LANES: usize = 4;

    #[inline(always)]
    fn isa(self) -> Neon {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { Neon::new_unchecked() }
    }

    #[inline(always)]
    fn splat(_: Neon, x: f32) -> Self {
        // SAFETY: `Neon` proves the instruction set.
        Self(unsafe { vdupq_n_f32(x) })
    }

    #[inline(always)]
    unsafe fn load(_: Neon, from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { vld1q_f32(from) })
    }

    #[inline(always)]
    unsafe fn load_first(isa: Neon, from: *const f32, count: usize) -> Self {
        let mut floats = [0.0; Self::LANES];
        for (lane, float) in floats.iter_mut().enumerate().take(count) {
            // SAFETY: as the caller promises.
            *float = unsafe { from.add(lane).read_unaligned() };
        }
        // SAFETY: four floats of our own.
        unsafe { Self::load(isa, floats.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_halves(_: Neon, from: *const u16) -> [Self; 2] {
        // SAFETY: as the caller promises.
        unsafe {
            let pairs = vreinterpretq_u32_u16(vld1q_u16(from));
            let odd = vandq_u32(pairs, vdupq_n_u32(!0xffff));
            let even = vshlq_n_u32::<16>(pairs);
            [Self(vreinterpretq_f32_u32(even)), Self(vreinterpretq_f32_u32(odd))]
        }
    }

    #[inline(always)]
    unsafe fn load_f16(isa: Neon, from: *const f16) -> Self {
        let mut floats = Self::splat(isa, 0.0).0;
        // SAFETY: as the caller promises. Vectors of halves have no stable type, but every aarch64
        // has the instruction, which takes subnormal ones for what they are.
        unsafe {
            let halves = vld1_u16(from.cast());
            std::arch::asm!(
                "fcvtl {0:v}.4s, {1:v}.4h", out(vreg) floats, in(vreg) halves,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        Self(floats)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe { vst1q_f32(to, self.0) };
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        let mut floats = [0.0; Self::LANES];
        // SAFETY: four floats of our own, and as the caller promises.
        unsafe {
            if count >= Self::LANES {
                return self.store(to);
            }
            self.store(floats.as_mut_ptr());
            for (lane, &float) in floats.iter().enumerate().take(count) {
                to.add(lane).write_unaligned(float);
            }
        }
    }

    #[inline(always)]
    unsafe fn store_from_second(self, to: *mut f32, count: usize) {
        // SAFETY: as the caller promises; a vector is proof of the instruction set.
        unsafe { Self(vextq_f32::<1>(self.0, self.0)).store_first(to, count - 1) };
    }

    #[inline(always)]
    fn first_or(self, count: usize, others: Self) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let mask = vcgtq_u32(vdupq_n_u32(count), vld1q_u32([0, 1, 2, 3].as_ptr()));
            Self(vbslq_f32(mask, self.0, others.0))
        }
    }

    #[inline(always)]
    fn with_lane(self, lane: usize, x: f32) -> Self {
        let lane = u32::try_from(lane).unwrap_or(u32::MAX);
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let mask = vceqq_u32(vdupq_n_u32(lane), vld1q_u32([0, 1, 2, 3].as_ptr()));
            Self(vbslq_f32(mask, vdupq_n_f32(x), self.0))
        }
    }

    #[inline(always)]
    fn sums([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        let mut sums = [0.0; 4];
        // SAFETY: a vector is proof of the instruction set; four floats of our own.
        unsafe {
            let all = vpaddq_f32(vpaddq_f32(a.0, b.0), vpaddq_f32(c.0, d.0));
            vst1q_f32(sums.as_mut_ptr(), all);
        }
        sums
    }

    #[inline(always)]
    fn folded(four: [Self; 4]) -> [f32; 4] {
        folded::<false>(four)
    }

    #[inline(always)]
    fn largest(four: [Self; 4]) -> [f32; 4] {
        folded::<true>(four)
    }
}

/// The sum of the lanes of each, or the largest: the upper half with the lower one until a lane is
/// left.
#[inline(always)]
fn folded<const LARGEST: bool>([a, b, c, d]: [F32x4; 4]) -> [f32; 4] {
    let mut results = [0.0; 4];
    // SAFETY: a vector is proof of the instruction set; four floats of our own.
    unsafe {
        let ab = joined::<LARGEST>(low_halves(a, b), high_halves(a, b));
        let cd = joined::<LARGEST>(low_halves(c, d), high_halves(c, d));
        let (even, odd) = (F32x4(vuzp1q_f32(ab.0, cd.0)), F32x4(vuzp2q_f32(ab.0, cd.0)));
        vst1q_f32(results.as_mut_ptr(), joined::<LARGEST>(even, odd).0);
    }
    results
}

#[inline(always)]
fn joined<const LARGEST: bool>(a: F32x4, b: F32x4) -> F32x4 {
    if LARGEST { a.larger(b) } else { a.add(b) }
}

#[inline(always)]
fn low_halves(a: F32x4, b: F32x4) -> F32x4 {
    // SAFETY: a vector is proof of the instruction set.
    F32x4(unsafe { vcombine_f32(vget_low_f32(a.0), vget_low_f32(b.0)) })
}

#[inline(always)]
fn high_halves(a: F32x4, b: F32x4) -> F32x4 {
    // SAFETY: a vector is proof of the instruction set.
    F32x4(unsafe { vcombine_f32(vget_high_f32(a.0), vget_high_f32(b.0)) })
}
