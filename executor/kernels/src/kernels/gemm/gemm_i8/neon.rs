//! Tiles of 6 by 8: widening multiply-adds of 16-bit differences, for machines without dot
//! products.

use core::arch::aarch64::{
    vdup_n_u8, vdupq_n_s16, veor_u8, vld1_u8, vmovl_u8, vreinterpretq_s16_u16, vst1q_s16, vsubq_s16,
};

use super::kernel::{Bytes, Encoding, Microkernel, Run};
use super::scalar;
use super::tile::{KeepsMultipliers, one, tiles};
use crate::simd::Neon;

pub(super) const KERNEL: Microkernel = Microkernel {
    columns: COLUMNS,
    lanes: COLUMNS,
    encoding: Encoding::Differences,
    signed: false,
    encode,
    sums: scalar::no_sums,
    run,
    single,
};

const COLUMNS: usize = 8;

#[target_feature(enable = "neon")]
pub(crate) unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let flip = vdup_n_u8(bytes.flip);
    // Zero points are at most 255, which fits.
    let zero_point = vdupq_n_s16(i16::try_from(bytes.zero_point).unwrap_or(0));
    let whole = count / 8 * 8;
    for at in (0..whole).step_by(8) {
        // SAFETY: eight bytes, and as many differences.
        unsafe {
            let x = vreinterpretq_s16_u16(vmovl_u8(veor_u8(vld1_u8(from.add(at)), flip)));
            vst1q_s16(to.add(at * 2).cast(), vsubq_s16(x, zero_point));
        }
    }
    // SAFETY: the rest.
    unsafe { scalar::encode(from.add(whole), count - whole, bytes, to.add(whole * 2)) };
}

#[target_feature(enable = "neon")]
unsafe fn run(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { tiles::<_, 1>(Neon::new_unchecked(), run) };
}

#[target_feature(enable = "neon")]
unsafe fn single(run: &Run) {
    // SAFETY: as the caller promises.
    unsafe { one::<_, 1>(Neon::new_unchecked(), run) };
}

impl KeepsMultipliers for Neon {}
