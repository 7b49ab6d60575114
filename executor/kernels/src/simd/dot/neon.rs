//! Two 16-bit integers in a word, by widening multiply-adds.

use core::arch::aarch64::{
    int16x4_t, int16x8x2_t, vdup_n_u32, vget_low_s16, vld2q_s16, vmlal_high_lane_s16,
    vmlal_lane_s16, vreinterpret_s16_u32,
};

use super::Dot;
use crate::simd::Neon;
use crate::simd::vector_i32::I32x4x2;

impl Dot for Neon {
    type Sums = I32x4x2;
    /// 16-bit integers are signed in memory already.
    type Flip = ();
    type Word = int16x4_t;
    /// The first and the second half of each lane's word.
    type Words = int16x8x2_t;

    #[inline(always)]
    fn vectors(self) -> Self {
        self
    }

    #[inline(always)]
    fn flip(self, _: u8) {}

    #[inline(always)]
    unsafe fn word(self, from: *const u8, (): ()) -> int16x4_t {
        // SAFETY: as the caller promises; `Neon` proves the instruction set.
        unsafe { vreinterpret_s16_u32(vdup_n_u32(from.cast::<u32>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn words(self, from: *const i32) -> int16x8x2_t {
        // SAFETY: as the caller promises.
        unsafe { vld2q_s16(from.cast()) }
    }

    #[inline(always)]
    fn dot(self, sums: I32x4x2, word: int16x4_t, words: int16x8x2_t) -> I32x4x2 {
        let [low, high] = sums.0;
        // SAFETY: `Neon` proves the instruction set.
        unsafe {
            let low = vmlal_lane_s16::<0>(low, vget_low_s16(words.0), word);
            let high = vmlal_high_lane_s16::<0>(high, words.0, word);
            I32x4x2([
                vmlal_lane_s16::<1>(low, vget_low_s16(words.1), word),
                vmlal_high_lane_s16::<1>(high, words.1, word),
            ])
        }
    }
}
