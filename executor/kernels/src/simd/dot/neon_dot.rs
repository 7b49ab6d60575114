//! Four signed 8-bit integers in a word, with the dot product instruction of aarch64.

use core::arch::aarch64::{
    int8x16_t, int32x4_t, uint8x16_t, vdupq_n_u8, vdupq_n_u32, veorq_u8, vld1q_s8,
    vreinterpretq_s8_u8, vreinterpretq_u8_u32,
};
use core::arch::asm;

use super::Dot;
use crate::simd::vector_i32::I32x4x2;
use crate::simd::{Neon, NeonDot};

impl Dot for NeonDot {
    type Sums = I32x4x2;
    type Flip = uint8x16_t;
    type Word = int8x16_t;
    type Words = [int8x16_t; 2];

    #[inline(always)]
    fn vectors(self) -> Neon {
        self.neon()
    }

    #[inline(always)]
    fn flip(self, flip: u8) -> uint8x16_t {
        // SAFETY: `NeonDot` proves the instruction set.
        unsafe { vdupq_n_u8(flip) }
    }

    #[inline(always)]
    unsafe fn word(self, from: *const u8, flip: uint8x16_t) -> int8x16_t {
        // SAFETY: as the caller promises; `NeonDot` proves the instruction set.
        unsafe {
            let word = vdupq_n_u32(from.cast::<u32>().read_unaligned());
            vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(word), flip))
        }
    }

    #[inline(always)]
    unsafe fn words(self, from: *const i32) -> [int8x16_t; 2] {
        // SAFETY: as the caller promises.
        unsafe { [vld1q_s8(from.cast()), vld1q_s8(from.add(4).cast())] }
    }

    #[inline(always)]
    fn dot(self, sums: I32x4x2, word: int8x16_t, [v, w]: [int8x16_t; 2]) -> I32x4x2 {
        let [low, high] = sums.0;
        // SAFETY: `NeonDot` proves the instruction set.
        I32x4x2(unsafe { [dot(low, v, word), dot(high, w, word)] })
    }
}

/// Each lane of `sum` plus the products of four bytes of `a` by four of `b`. In assembly, since the
/// intrinsic is younger than the compilers that this is built with.
#[inline]
#[target_feature(enable = "neon,dotprod")]
pub(crate) fn dot(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: reads and writes the three registers alone.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}
