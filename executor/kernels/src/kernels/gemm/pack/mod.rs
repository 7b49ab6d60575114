//! Rows of 32-bit words into a panel: word `k` of row `r` goes to `panel[k * width + r]`.
//!
//! A product's tile broadcasts one word per row and step; with the rows interleaved these lie side
//! by side, and one address register serves all of them. (Rows read in place through run-time
//! strides keep a dozen registers busy and reach little more than half the speed.)

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::simd::{Variants, variants};

/// Interleaves `rows` (at most `width`) of `words` words each.
///
/// # Safety
/// Each row is readable for `words` words, the panel writable for `words * width`; the machine has
/// the instruction set.
pub type Run = unsafe fn(rows: &[*const u32], words: usize, width: usize, panel: *mut u32);

/// Best first.
pub const VARIANTS: Variants<Run> = variants! {
    Avx2: x86::interleave,
    Neon: neon::interleave,
    Scalar: scalar,
};

unsafe fn scalar(rows: &[*const u32], words: usize, width: usize, panel: *mut u32) {
    for (at, &row) in rows.iter().enumerate().take(width) {
        for k in 0..words {
            // SAFETY: within the row and the panel, as the caller promises.
            unsafe { panel.add(k * width + at).write_unaligned(row.add(k).read_unaligned()) };
        }
    }
}

/// Words of a row that lie in a cache line.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const LINE_WORDS: usize = 16;

/// Calls `block(four rows, word, where to)` for every four words of four rows, and moves the rest
/// itself.
///
/// # Safety
/// As for [`Run`]; `block` writes four words of four lines.
#[inline(always)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe fn by_blocks(
    rows: &[*const u32],
    words: usize,
    width: usize,
    panel: *mut u32,
    block: impl Fn(&[*const u32], usize, *mut u32),
) {
    let (whole, whole_words) = (rows.len().min(width) / 4 * 4, words / 4 * 4);
    // Lines of the panel are written whole before the next ones: large ones leave the caches else.
    for start in (0..whole_words).step_by(LINE_WORDS) {
        let end = whole_words.min(start + LINE_WORDS);
        for (group, four) in rows[..whole].chunks_exact(4).enumerate() {
            for k in (start..end).step_by(4) {
                block(four, k, panel.wrapping_add(k * width + group * 4));
            }
        }
    }
    for (at, &row) in rows.iter().enumerate().take(width) {
        let first = if at < whole { whole_words } else { 0 };
        for k in first..words {
            // SAFETY: within the row and the panel.
            unsafe { panel.add(k * width + at).write_unaligned(row.add(k).read_unaligned()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_interleaves() {
        for variant in VARIANTS.all() {
            for (rows, words, width) in
                [(1, 1, 4), (4, 4, 12), (12, 37, 12), (7, 16, 12), (6, 9, 6), (5, 33, 6)]
            {
                let matrix: Vec<Vec<u32>> =
                    (0..rows).map(|r| (0..words).map(|k| r * 1000 + k).collect()).collect();
                let pointers: Vec<_> = matrix.iter().map(|row| row.as_ptr()).collect();
                let (words, width) = (words as usize, width);
                let mut panel = vec![u32::MAX; words * width];
                // SAFETY: sizes as stated; `all` yields what this machine has.
                unsafe { (variant.run)(&pointers, words, width, panel.as_mut_ptr()) };
                for (r, row) in matrix.iter().enumerate() {
                    for (k, &word) in row.iter().enumerate() {
                        assert_eq!(panel[k * width + r], word, "{:?} {rows} {words}", variant.isa);
                    }
                }
            }
        }
    }
}
