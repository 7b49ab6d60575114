//! Sixty-four bytes at a time, the whole table in four registers; the last few under a mask.

use core::arch::x86_64::{
    __m512i, _mm512_loadu_si512, _mm512_mask_mov_epi8, _mm512_mask_storeu_epi8,
    _mm512_maskz_loadu_epi8, _mm512_movepi8_mask, _mm512_permutex2var_epi8, _mm512_storeu_si512,
};

use super::LookUp;

const LANES: usize = 64;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(super) unsafe fn look_up(row: &LookUp<'_>) {
    let quarter = |at: usize| {
        let quarter = row.table[at * LANES..][..LANES].as_ptr();
        // SAFETY: sixty-four bytes.
        unsafe { _mm512_loadu_si512(quarter.cast()) }
    };
    let table = [quarter(0), quarter(1), quarter(2), quarter(3)];
    let whole = row.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: sixty-four bytes are there, and room for them.
        unsafe {
            let y = found(&table, _mm512_loadu_si512(row.input.add(at).cast()));
            _mm512_storeu_si512(row.output.add(at).cast(), y);
        }
    }
    if whole < row.len {
        let mask = u64::MAX >> (LANES - (row.len - whole));
        // SAFETY: the mask keeps to the bytes that are there.
        unsafe {
            let x = _mm512_maskz_loadu_epi8(mask, row.input.add(whole).cast());
            _mm512_mask_storeu_epi8(row.output.add(whole).cast(), mask, found(&table, x));
        }
    }
}

/// An instruction chooses from half of the table by seven bits; the eighth tells which half it was
/// to be.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn found(table: &[__m512i; 4], x: __m512i) -> __m512i {
    let low = _mm512_permutex2var_epi8(table[0], x, table[1]);
    let high = _mm512_permutex2var_epi8(table[2], x, table[3]);
    _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(x), high)
}
