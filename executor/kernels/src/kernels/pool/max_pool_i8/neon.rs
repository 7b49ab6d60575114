//! Sixteen bytes at a time, of the last few as many as two halves overlap for.

use core::arch::aarch64::{
    uint8x16_t, vcombine_u8, vcreate_u8, vdupq_n_u8, vget_high_u8, vget_lane_u64, vget_low_u8,
    vld1_u8, vld1q_u8, vmaxq_s8, vmaxq_u8, vminq_s8, vminq_u8, vreinterpret_u64_u8,
    vreinterpretq_s8_u8, vreinterpretq_u8_s8, vst1_u8, vst1q_u8,
};

use super::Pooled;
use super::vectors::{ByteVector, FewByteVector, fold};
use crate::simd::Neon;
use crate::simd::vector_i32::{load_few, store_few};

/// # Safety
/// As for a part; the machine has the instruction set.
#[target_feature(enable = "neon")]
pub(super) unsafe fn run<const SIGNED: bool>(pooled: &Pooled) {
    // SAFETY: as the caller promises.
    unsafe {
        let isa = Neon::new_unchecked();
        fold::<U8x16, U8x16, SIGNED>(isa, isa, pooled);
    };
}

/// Sixteen bytes; a value proves the instruction set.
#[derive(Clone, Copy)]
struct U8x16(uint8x16_t);

impl ByteVector for U8x16 {
    type Isa = Neon;

    const LANES: usize = 16;

    #[inline(always)]
    fn splat(_: Neon, x: u8) -> Self {
        // SAFETY: the proof.
        Self(unsafe { vdupq_n_u8(x) })
    }

    #[inline(always)]
    unsafe fn load(_: Neon, from: *const u8) -> Self {
        // SAFETY: the proof, and as the caller promises.
        Self(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: a vector is proof of the instruction set, and as the caller promises.
        unsafe { vst1q_u8(to, self.0) };
    }

    #[inline(always)]
    fn larger<const SIGNED: bool>(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            match SIGNED {
                true => vreinterpretq_u8_s8(vmaxq_s8(
                    vreinterpretq_s8_u8(self.0),
                    vreinterpretq_s8_u8(other.0),
                )),
                false => vmaxq_u8(self.0, other.0),
            }
        })
    }

    #[inline(always)]
    fn smaller<const SIGNED: bool>(self, other: Self) -> Self {
        // SAFETY: a vector is proof of the instruction set.
        Self(unsafe {
            match SIGNED {
                true => vreinterpretq_u8_s8(vminq_s8(
                    vreinterpretq_s8_u8(self.0),
                    vreinterpretq_s8_u8(other.0),
                )),
                false => vminq_u8(self.0, other.0),
            }
        })
    }
}

impl FewByteVector for U8x16 {
    #[inline(always)]
    unsafe fn load_few(_: Neon, from: *const u8, count: usize) -> Self {
        // SAFETY: the proof; the first and the last ones are within the bytes.
        Self(unsafe {
            match count {
                8.. => vcombine_u8(vld1_u8(from), vld1_u8(from.add(count - 8))),
                _ => vcombine_u8(vcreate_u8(load_few(from, count)), vcreate_u8(0)),
            }
        })
    }

    #[inline(always)]
    unsafe fn store_few(self, to: *mut u8, count: usize) {
        // SAFETY: the proof; the first and the last ones are within the bytes.
        unsafe {
            let low = vget_low_u8(self.0);
            match count {
                8.. => {
                    vst1_u8(to, low);
                    vst1_u8(to.add(count - 8), vget_high_u8(self.0));
                }
                _ => store_few(vget_lane_u64::<0>(vreinterpret_u64_u8(low)), to, count),
            }
        }
    }
}
