//! Sixteen bytes at a time, the whole table in sixteen registers.

use core::arch::aarch64::{
    uint8x16x4_t, vdupq_n_u8, vld1q_u8, vld1q_u8_x4, vqtbl4q_u8, vqtbx4q_u8, vst1q_u8, vsubq_u8,
};

use super::{LookUp, scalar};

const LANES: usize = 16;

#[target_feature(enable = "neon")]
pub(super) unsafe fn look_up(row: &LookUp<'_>) {
    let quarter = |at: usize| -> uint8x16x4_t {
        let quarter = row.table[at * 64..][..64].as_ptr();
        // SAFETY: sixty-four bytes.
        unsafe { vld1q_u8_x4(quarter) }
    };
    let table = [quarter(0), quarter(1), quarter(2), quarter(3)];
    let quarter = vdupq_n_u8(64);
    let whole = row.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: sixteen bytes are there.
        let mut x = unsafe { vld1q_u8(row.input.add(at)) };
        // Numbers that are none of a quarter's find 0 in the first, and keep what they have in the
        // others.
        let mut y = vqtbl4q_u8(table[0], x);
        for &part in &table[1..] {
            x = vsubq_u8(x, quarter);
            y = vqtbx4q_u8(y, part, x);
        }
        // SAFETY: room for sixteen bytes.
        unsafe { vst1q_u8(row.output.add(at), y) };
    }
    // SAFETY: the rest of the row.
    unsafe { scalar(&row.from(whole)) };
}
