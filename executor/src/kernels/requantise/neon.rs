//! Four lanes.

use core::arch::aarch64::{
    int32x4_t, vandq_s32, vcombine_s16, vdup_n_u8, vdupq_n_s32, veor_u8, vget_high_u16,
    vget_low_u16, vld1_u8, vld1q_s32, vmaxq_s32, vminq_s32, vmovl_u8, vmovl_u16, vmovn_s16,
    vmovn_s32, vnegq_s32, vqaddq_s32, vqrdmulhq_s32, vreinterpret_u8_s8, vreinterpretq_s32_u32,
    vrshlq_s32, vshlq_s32, vshrq_n_s32, vst1_u8, vsubq_s32,
};

use super::Channels;

/// Multipliers of four channels, loaded once for many rows.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Lanes {
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
    pub(in crate::kernels) unsafe fn load(channels: &Channels, channel: usize) -> Self {
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

    /// Four numbers times their multipliers, rounded twice. The doubling multiplication rounds as the reference
    /// does, which was made for it; the shift rounds halves up, so negative numbers lose one ahead of it.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(in crate::kernels) fn scaled(&self, accumulators: int32x4_t) -> int32x4_t {
        let high = vqrdmulhq_s32(vshlq_s32(accumulators, self.left), self.fraction);
        // -1 where the number is negative and is shifted at all.
        let nudge = vshrq_n_s32::<31>(vandq_s32(high, self.right));
        vrshlq_s32(vqaddq_s32(high, nudge), self.right)
    }

    /// The stored values of four accumulators.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(in crate::kernels) fn stored(&self, accumulators: int32x4_t) -> int32x4_t {
        let y = vqaddq_s32(self.scaled(accumulators), self.zero_point);
        vminq_s32(vmaxq_s32(y, self.low), self.high)
    }
}

/// Eight bytes as numbers above their zero point; `flip` makes unsigned ones of them.
///
/// # Safety
/// They are readable.
#[inline]
#[target_feature(enable = "neon")]
pub(in crate::kernels) unsafe fn differences(
    from: *const u8,
    flip: u8,
    zero_point: i32,
) -> [int32x4_t; 2] {
    // SAFETY: as the caller promises.
    let wide = vmovl_u8(veor_u8(unsafe { vld1_u8(from) }, vdup_n_u8(flip)));
    [vget_low_u16(wide), vget_high_u16(wide)]
        .map(|half| vsubq_s32(vreinterpretq_s32_u32(vmovl_u16(half)), vdupq_n_s32(zero_point)))
}

/// Stores the lowest byte of the first `count` of eight values.
///
/// # Safety
/// `count` bytes are writable, at most eight.
#[inline]
#[target_feature(enable = "neon")]
pub(in crate::kernels) unsafe fn store(to: *mut u8, count: usize, [first, second]: [int32x4_t; 2]) {
    let bytes = vmovn_s16(vcombine_s16(vmovn_s32(first), vmovn_s32(second)));
    let mut eight = [0u8; 8];
    // SAFETY: eight bytes, or as many as the caller promises of our own eight.
    unsafe {
        if count == 8 {
            return vst1_u8(to, vreinterpret_u8_s8(bytes));
        }
        vst1_u8(eight.as_mut_ptr(), vreinterpret_u8_s8(bytes));
        std::ptr::copy_nonoverlapping(eight.as_ptr(), to, count.min(8));
    }
}
