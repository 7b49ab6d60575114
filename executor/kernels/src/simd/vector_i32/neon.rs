//! Eight numbers in two registers, as eight bytes widen to.

use core::arch::aarch64::{
    int32x4_t, uint32x4_t, vabsq_f32, vaddq_s32, vandq_s32, vbicq_s32, vcgeq_u32, vcltq_s32,
    vcombine_s16, vcreate_s8, vcvtq_f32_s32, vcvtq_s32_f32, vdup_n_u8, vdupq_n_f32, vdupq_n_s32,
    veor_u8, vget_high_s16, vget_high_u16, vget_lane_u64, vget_low_s16, vget_low_u16, vld1_s8,
    vld1_u8, vld1q_f32, vld1q_s32, vld1q_u8, vmaxq_f32, vmaxq_s32, vmaxq_u32, vmaxvq_u32,
    vminq_f32, vminq_s32, vmlal_s16, vmovl_high_s16, vmovl_s8, vmovl_s16, vmovl_u8, vmovl_u16,
    vmovn_s16, vmovn_s32, vmulq_f32, vmulq_s32, vnegq_s32, vorrq_u32, vreinterpret_u8_s8,
    vreinterpret_u64_u8, vreinterpretq_s16_u8, vreinterpretq_s32_f32, vreinterpretq_s32_u32,
    vreinterpretq_u8_s16, vreinterpretq_u32_s32, vrndnq_f32, vshlq_s32, vst1_u8, vst1q_s32,
    vst1q_u8, vsubq_f32, vsubq_s32,
};

use super::{I32Simd, first_of, load_few, store_few};
use crate::simd::Neon;
use crate::simd::vector_f32::F32x4;

#[derive(Clone, Copy)]
pub(crate) struct I32x4x2(pub(crate) [int32x4_t; 2]);

impl I32x4x2 {
    /// The same of both registers.
    #[inline(always)]
    fn both(self, other: Self, each: impl Fn(int32x4_t, int32x4_t) -> int32x4_t) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        Self([each(a, c), each(b, d)])
    }

    #[inline(always)]
    fn unsigned(self) -> [uint32x4_t; 2] {
        let [a, b] = self.0;
        // SAFETY: a vector is proof of the instruction set.
        unsafe { [vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b)] }
    }
}

/// [`I32Simd::nearest_products`] of one register.
///
/// # Safety
/// Four floats are readable; the machine has the instruction set.
#[inline(always)]
unsafe fn nearest(x: int32x4_t, factors: *const f32, range: (f32, f32)) -> [int32x4_t; 2] {
    let (low, high) = range;
    // SAFETY: as the caller promises.
    unsafe {
        let real = vmulq_f32(vcvtq_f32_s32(x), vld1q_f32(factors));
        let nearest = vrndnq_f32(real);
        let apart = vabsq_f32(vsubq_f32(real, nearest));
        let within = vminq_f32(vmaxq_f32(nearest, vdupq_n_f32(low)), vdupq_n_f32(high));
        [vcvtq_s32_f32(within), vreinterpretq_s32_f32(apart)]
    }
}

impl I32Simd for I32x4x2 {
    type Isa = Neon;

    const LANES: usize = 8;

    #[inline(always)]
    fn isa(self) -> Neon {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { Neon::new_unchecked() }
    }

    #[inline(always)]
    fn splat(_: Neon, x: i32) -> Self {
        // SAFETY: `Neon` proves the instruction set.
        Self([unsafe { vdupq_n_s32(x) }; 2])
    }

    #[inline(always)]
    unsafe fn load(_: Neon, from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { [vld1q_s32(from), vld1q_s32(from.add(4))] })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: as the caller promises.
        unsafe {
            vst1q_s32(to, self.0[0]);
            vst1q_s32(to.add(4), self.0[1]);
        }
    }

    #[inline(always)]
    unsafe fn bytes(_: Neon, from: *const u8, flip: u8) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let wide = vmovl_u8(veor_u8(vld1_u8(from), vdup_n_u8(flip)));
            let (low, high) = (vmovl_u16(vget_low_u16(wide)), vmovl_u16(vget_high_u16(wide)));
            Self([vreinterpretq_s32_u32(low), vreinterpretq_s32_u32(high)])
        }
    }

    #[inline(always)]
    unsafe fn first_bytes(isa: Neon, from: *const u8, count: usize, flip: u8) -> Self {
        // SAFETY: as many as the caller promises, or our own eight.
        unsafe {
            if count >= Self::LANES {
                return Self::bytes(isa, from, flip);
            }
            Self::bytes(isa, load_few(from, count).to_le_bytes().as_ptr(), flip)
        }
    }

    #[inline(always)]
    unsafe fn first_signed_bytes(_: Neon, from: *const u8, count: usize) -> Self {
        // SAFETY: as many as the caller promises, or our own eight; a vector is proof of the
        // instruction set.
        unsafe {
            let bytes = match count {
                8.. => vld1_s8(from.cast()),
                _ => vcreate_s8(load_few(from, count)),
            };
            let wide = vmovl_s8(bytes);
            Self([vmovl_s16(vget_low_s16(wide)), vmovl_s16(vget_high_s16(wide))])
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, count: usize) {
        let [low, high] = self.0;
        // SAFETY: as many as the caller promises, or our own eight; a vector is proof of the
        // instruction set.
        unsafe {
            let bytes = vmovn_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high)));
            let bytes = vreinterpret_u8_s8(bytes);
            if count >= Self::LANES {
                return vst1_u8(to, bytes);
            }
            store_few(vget_lane_u64::<0>(vreinterpret_u64_u8(bytes)), to, count);
        }
    }

    #[inline(always)]
    unsafe fn first_words(_: Neon, from: *const i16, count: usize) -> Self {
        let mut few = [0; Self::LANES];
        // SAFETY: as many as the caller promises, or our own eight.
        unsafe {
            let from = match count >= Self::LANES {
                true => from,
                false => first_of(from, count, &mut few),
            };
            let words = vreinterpretq_s16_u8(vld1q_u8(from.cast()));
            Self([vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)])
        }
    }

    #[inline(always)]
    unsafe fn store_words(self, to: *mut i16, count: usize) {
        let [low, high] = self.0;
        // SAFETY: as many as the caller promises, or our own eight; a vector is proof of the
        // instruction set.
        unsafe {
            let words = vreinterpretq_u8_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high)));
            if count >= Self::LANES {
                return vst1q_u8(to.cast(), words);
            }
            let mut few = [0i16; Self::LANES];
            vst1q_u8(few.as_mut_ptr().cast(), words);
            (0..count).for_each(|at| to.add(at).write_unaligned(few[at]));
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        self.both(other, |a, b| unsafe { vaddq_s32(a, b) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        self.both(other, |a, b| unsafe { vsubq_s32(a, b) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        self.both(other, |a, b| unsafe { vmulq_s32(a, b) })
    }

    #[inline(always)]
    fn mul_add_16(self, numbers: Self, factors: Self) -> Self {
        let ([a, b], [x, y], [v, w]) = (self.0, numbers.0, factors.0);
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            Self([
                vmlal_s16(a, vmovn_s32(x), vmovn_s32(v)),
                vmlal_s16(b, vmovn_s32(y), vmovn_s32(w)),
            ])
        }
    }

    #[inline(always)]
    fn missing(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        self.both(other, |a, b| unsafe { vbicq_s32(b, a) })
    }

    #[inline(always)]
    fn first(self, count: usize) -> Self {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let [low, high] = self.0;
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            let at = vld1q_s32([0, 1, 2, 3].as_ptr());
            let within = |count| vreinterpretq_s32_u32(vcltq_s32(at, vdupq_n_s32(count)));
            Self([vandq_s32(low, within(count)), vandq_s32(high, within(count.saturating_sub(4)))])
        }
    }

    #[inline(always)]
    fn shift_left<const BITS: i32>(self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        self.both(self, |a, _| unsafe { vshlq_s32(a, vdupq_n_s32(BITS)) })
    }

    #[inline(always)]
    fn shift_right(self, bits: Self) -> Self {
        // The instruction shifts to the left.
        // SAFETY: a vector is proof of the instruction set.
        self.both(bits, |a, bits| unsafe { vshlq_s32(a, vnegq_s32(bits)) })
    }

    #[inline(always)]
    fn clamp(self, low: Self, high: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        let above = self.both(low, |a, low| unsafe { vmaxq_s32(a, low) });
        // SAFETY: as above.
        above.both(high, |a, high| unsafe { vminq_s32(a, high) })
    }

    #[inline(always)]
    unsafe fn nearest_products(self, factors: *const f32, range: (f32, f32)) -> [Self; 2] {
        let [a, b] = self.0;
        // SAFETY: as the caller promises; a vector is proof of the instruction set.
        unsafe {
            let ([a, a_apart], [b, b_apart]) =
                (nearest(a, factors, range), nearest(b, factors.add(4), range));
            [Self([a, b]), Self([a_apart, b_apart])]
        }
    }

    #[inline(always)]
    fn floats(self, at: usize) -> F32x4 {
        let [low, high] = self.0;
        // SAFETY: a vector is proof of the instruction set.
        F32x4(unsafe { vcvtq_f32_s32(if at == 0 { low } else { high }) })
    }

    #[inline(always)]
    fn whole_parts([low, high]: [F32x4; 2]) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe { [vcvtq_s32_f32(low.0), vcvtq_s32_f32(high.0)] })
    }

    #[inline(always)]
    fn max_unsigned(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.unsigned(), other.unsigned());
        // SAFETY: a vector is proof of the instruction set.
        unsafe {
            Self([vreinterpretq_s32_u32(vmaxq_u32(a, c)), vreinterpretq_s32_u32(vmaxq_u32(b, d))])
        }
    }

    #[inline(always)]
    fn any_reaches_unsigned(self, limit: Self) -> bool {
        let ([a, b], [c, d]) = (self.unsigned(), limit.unsigned());
        // SAFETY: a vector is proof of the instruction set.
        unsafe { vmaxvq_u32(vorrq_u32(vcgeq_u32(a, c), vcgeq_u32(b, d))) != 0 }
    }
}
