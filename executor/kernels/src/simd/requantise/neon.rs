//! Four lanes.

use core::arch::aarch64::{
    int32x4_t, vandq_s32, vdupq_n_s32, vld1q_s32, vmaxq_s32, vminq_s32, vnegq_s32, vqaddq_s32,
    vqrdmulhq_s32, vrshlq_s32, vshlq_s32, vshrq_n_s32,
};

use super::{Channels, RequantiseSimd, offset};
use crate::simd::Neon;
use crate::simd::vector_i32::{I32Simd, I32x4x2, lanes_of};

/// Multipliers of four channels, loaded once for many rows.
#[derive(Clone, Copy)]
pub(crate) struct NeonLanes {
    fraction: int32x4_t,
    left: int32x4_t,
    /// Negative: the instruction shifts to the left.
    right: int32x4_t,
    zero_point: int32x4_t,
    low: int32x4_t,
    high: int32x4_t,
}

impl NeonLanes {
    /// # Safety
    /// Four channels are there from `channel` on.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) unsafe fn load(channels: &Channels, channel: usize) -> Self {
        // SAFETY: as the caller promises.
        let (fraction, left, right) = unsafe {
            (
                vld1q_s32(channels.fraction.add(channel)),
                vld1q_s32(channels.left.add(channel)),
                vld1q_s32(channels.right.add(channel)),
            )
        };
        Self {
            fraction,
            left,
            right: vnegq_s32(right),
            zero_point: vdupq_n_s32(channels.zero_point),
            low: vdupq_n_s32(channels.low),
            high: vdupq_n_s32(channels.high),
        }
    }

    /// Four numbers times their multipliers, rounded twice. The doubling multiplication rounds as
    /// the reference does, which was made for it; the shift rounds halves up, so negative numbers
    /// lose one ahead of it.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn scaled(&self, accumulators: int32x4_t) -> int32x4_t {
        let high = vqrdmulhq_s32(vshlq_s32(accumulators, self.left), self.fraction);
        // -1 where the number is negative and is shifted at all.
        let nudge = vshrq_n_s32::<31>(vandq_s32(high, self.right));
        vrshlq_s32(vqaddq_s32(high, nudge), self.right)
    }

    /// The stored values of four accumulators.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(crate) fn stored(&self, accumulators: int32x4_t) -> int32x4_t {
        let y = vqaddq_s32(self.scaled(accumulators), self.zero_point);
        vminq_s32(vmaxq_s32(y, self.low), self.high)
    }
}

/// Multipliers of eight channels, and what makes stored values unsigned.
#[derive(Clone, Copy)]
pub(crate) struct NeonQuickLanes {
    lanes: [NeonLanes; 2],
    offset: i32,
}

impl RequantiseSimd for I32x4x2 {
    type Multipliers = [NeonLanes; 2];
    /// The multiplication of this instruction set rounds as it should, so there is nothing quicker.
    type Quick = NeonQuickLanes;
    type Narrow = (i32, i32, i32);

    #[inline(always)]
    unsafe fn multipliers(_: Neon, channels: &Channels, channel: usize) -> [NeonLanes; 2] {
        // SAFETY: as the caller promises.
        unsafe { [NeonLanes::load(channels, channel), NeonLanes::load(channels, channel + 4)] }
    }

    #[inline(always)]
    fn scaled(self, [low, high]: &[NeonLanes; 2]) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { Self([low.scaled(self.0[0]), high.scaled(self.0[1])]) }
    }

    #[inline(always)]
    fn stored(self, [low, high]: &[NeonLanes; 2]) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        unsafe { Self([low.stored(self.0[0]), high.stored(self.0[1])]) }
    }

    #[inline(always)]
    unsafe fn quick(isa: Neon, channels: &Channels, channel: usize) -> NeonQuickLanes {
        // SAFETY: as the caller promises.
        let lanes = unsafe { Self::multipliers(isa, channels, channel) };
        NeonQuickLanes { lanes, offset: offset(channels.low) }
    }

    #[inline(always)]
    fn rounded<const NEGATIVE: bool>(self, by: &NeonQuickLanes) -> Self {
        self.stored(&by.lanes).add(self.filled(by.offset))
    }

    #[inline(always)]
    fn narrow(_: Neon, (low, high): (i32, i32)) -> (i32, i32, i32) {
        (low, high, offset(low))
    }

    #[inline(always)]
    unsafe fn store_narrow(
        four: [Self; 4],
        &(low, high, offset): &(i32, i32, i32),
        to: *mut u8,
        count: usize,
    ) {
        unrolled!(4: v < 4, {
            // SAFETY: as the caller promises.
            unsafe {
                let value = four[v].sub(four[v].filled(offset));
                let value = value.clamp(value.filled(low), value.filled(high));
                let to = to.wrapping_add(v * Self::LANES);
                value.store_bytes(to, lanes_of(v, count, Self::LANES));
            }
        });
    }
}
