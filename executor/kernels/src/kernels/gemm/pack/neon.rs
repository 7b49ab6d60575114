//! Four rows by four words at a time.

use core::arch::aarch64::{
    uint32x4_t, vld1q_u32, vreinterpretq_u32_u64, vreinterpretq_u64_u32, vst1q_u32, vzip1q_u32,
    vzip1q_u64, vzip2q_u32, vzip2q_u64,
};

#[target_feature(enable = "neon")]
pub(super) unsafe fn interleave(rows: &[*const u32], words: usize, width: usize, panel: *mut u32) {
    // SAFETY: as the caller promises.
    unsafe { super::by_blocks(rows, words, width, panel, |four, k, to| block(four, k, to, width)) };
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn block(rows: &[*const u32], k: usize, panel: *mut u32, width: usize) {
    // SAFETY: four words from `k` on are within the row.
    let load = |row: *const u32| unsafe { vld1q_u32(row.add(k)) };
    let (a, b, c, d) = (load(rows[0]), load(rows[1]), load(rows[2]), load(rows[3]));
    let low = |ab: uint32x4_t, cd: uint32x4_t| {
        vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(ab), vreinterpretq_u64_u32(cd)))
    };
    let high = |ab: uint32x4_t, cd: uint32x4_t| {
        vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(ab), vreinterpretq_u64_u32(cd)))
    };
    let (ab_low, ab_high) = (vzip1q_u32(a, b), vzip2q_u32(a, b));
    let (cd_low, cd_high) = (vzip1q_u32(c, d), vzip2q_u32(c, d));
    let lines =
        [low(ab_low, cd_low), high(ab_low, cd_low), low(ab_high, cd_high), high(ab_high, cd_high)];
    for (line, value) in lines.into_iter().enumerate() {
        // SAFETY: four words of that line of the panel.
        unsafe { vst1q_u32(panel.add(line * width), value) };
    }
}
