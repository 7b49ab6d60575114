//! Thirty-two bytes at a time, the table in sixteen parts of sixteen bytes, as many as a shuffle
//! chooses from.
//!
//! A shuffle gives 0 where the number is negative and looks at its lowest four bits elsewhere. So a
//! number that is brought down by 16 from part to part and stays negative once it is, meets all
//! parts up to its own, and what they find is brought together by exclusive or: each part is stored
//! as what changes from the one before.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_broadcastsi128_si256, _mm256_loadu_si256, _mm256_set1_epi8,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_storeu_si256, _mm256_subs_epi8,
    _mm256_xor_si256,
};

use super::{LookUp, scalar};

const LANES: usize = 32;

/// Parts of a half of the table: numbers from 128 on are negative and have a half of their own.
const PARTS: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) unsafe fn look_up(row: &LookUp<'_>) {
    let parts = parts(row.table);
    let whole = row.len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        // SAFETY: thirty-two bytes are there.
        let x = unsafe { _mm256_loadu_si256(row.input.add(at).cast()) };
        let mut y = _mm256_setzero_si256();
        for (parts, flip) in parts.iter().zip([0, i8::MIN]) {
            let mut x = _mm256_xor_si256(x, _mm256_set1_epi8(flip));
            for &part in parts {
                y = _mm256_xor_si256(y, _mm256_shuffle_epi8(part, x));
                x = _mm256_subs_epi8(x, _mm256_set1_epi8(16));
            }
        }
        // SAFETY: room for thirty-two bytes.
        unsafe { _mm256_storeu_si256(row.output.add(at).cast(), y) };
    }
    // SAFETY: the rest of the row.
    unsafe { scalar(&row.from(whole)) };
}

/// The parts of each half, from the second on what changes from the one before.
#[target_feature(enable = "avx2")]
fn parts(table: &[u8; 256]) -> [[__m256i; PARTS]; 2] {
    let mut parts = [[_mm256_setzero_si256(); PARTS]; 2];
    let (sixteens, _) = table.as_chunks::<16>();
    for (parts, sixteens) in parts.iter_mut().zip(sixteens.chunks_exact(PARTS)) {
        let mut before = _mm256_setzero_si256();
        for (part, sixteen) in parts.iter_mut().zip(sixteens) {
            // SAFETY: sixteen bytes.
            let all = unsafe { _mm_loadu_si128(sixteen.as_ptr().cast()) };
            let all = _mm256_broadcastsi128_si256(all);
            *part = _mm256_xor_si256(all, before);
            before = all;
        }
    }
    parts
}
