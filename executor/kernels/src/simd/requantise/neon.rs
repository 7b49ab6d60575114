//! Four lanes.

use core::arch::aarch64::{
    int32x4_t, vandq_s32, vdupq_n_s32, vld1q_s32, vmaxq_s32, vminq_s32, vnegq_s32, vqaddq_s32,
    vqrdmulhq_s32, vrshlq_s32, vshlq_s32, vshrq_n_s32,
};

use super::Channels;

/// Multipliers of four channels, loaded once for many rows.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    fraction: int32x4_t,
    left: int32x4_t,
    /// Negative: the instruction shifts to the left.
    right: int32x4_t,
    zero_point: int32x4_t,
    low: int32x4_t,
    high: int32x4_t,
}

impl Lanes {
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
