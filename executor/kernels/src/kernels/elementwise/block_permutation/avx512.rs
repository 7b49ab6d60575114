//! As many whole blocks as two registers hold, from which an instruction chooses each byte.

use core::arch::x86_64::{
    __m512i, _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8,
    _mm512_permutex2var_epi8, _mm512_storeu_si512,
};

use super::{Blocks, MOST_BYTES};

const LANES: usize = MOST_BYTES / 2;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(super) unsafe fn permute(blocks: &Blocks<'_>) {
    let &Blocks { input, output, len, bytes, together, .. } = blocks;
    let places = |half: usize| {
        let half = bytes[half * LANES..][..LANES].as_ptr();
        // SAFETY: sixty-four bytes.
        unsafe { _mm512_loadu_si512(half.cast()) }
    };
    let places = [places(0), places(1)];
    let mut at = 0;
    // What is written behind the blocks is written again with those that belong there.
    while len - at >= MOST_BYTES {
        // SAFETY: two registers are readable and writable.
        unsafe {
            let (from, to) = (input.add(at), output.add(at));
            let halves =
                [_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(LANES).cast())];
            let [low, high] = permuted(halves, places);
            _mm512_storeu_si512(to.cast(), low);
            if together > LANES {
                _mm512_storeu_si512(to.add(LANES).cast(), high);
            }
        }
        at += together;
    }
    while at < len {
        let count = together.min(len - at);
        let masks = [mask(count), mask(count.saturating_sub(LANES))];
        // SAFETY: the masks keep to the bytes that are there.
        unsafe {
            let (from, to) = (input.add(at), output.add(at));
            let (from_high, to_high) = (from.wrapping_add(LANES), to.wrapping_add(LANES));
            let halves = [
                _mm512_maskz_loadu_epi8(masks[0], from.cast()),
                _mm512_maskz_loadu_epi8(masks[1], from_high.cast()),
            ];
            let [low, high] = permuted(halves, places);
            _mm512_mask_storeu_epi8(to.cast(), masks[0], low);
            _mm512_mask_storeu_epi8(to_high.cast(), masks[1], high);
        }
        at += together;
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn permuted([low, high]: [__m512i; 2], places: [__m512i; 2]) -> [__m512i; 2] {
    places.map(|places| _mm512_permutex2var_epi8(low, places, high))
}

/// The lowest `count` bits, or all.
fn mask(count: usize) -> u64 {
    if count >= LANES { u64::MAX } else { (1 << count) - 1 }
}
