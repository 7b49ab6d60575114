//! Plain Rust.

use super::{Bytes, Encoding, Kernel, Tile, difference};

pub(super) const KERNEL: Kernel = Kernel {
    rows: ROWS,
    columns: 8,
    encoding: Encoding::Differences,
    encode,
    full: tile::<8>,
    half: tile::<4>,
};

const ROWS: usize = 4;

unsafe fn encode(row: *const u8, depth: usize, bytes: Bytes, words: *mut u32) -> i32 {
    // SAFETY: as the caller promises.
    unsafe { encode_from(0, row, depth, bytes, words) };
    0
}

/// From an even element on: the vector form's last few.
///
/// # Safety
/// As for `encode`.
pub(super) unsafe fn encode_from(
    first: usize,
    row: *const u8,
    depth: usize,
    bytes: Bytes,
    words: *mut u32,
) {
    for at in (first..depth).step_by(2) {
        let half = |at: usize| {
            // SAFETY: a byte of the row.
            let byte = (at < depth).then(|| unsafe { *row.add(at) });
            byte.map_or(0, |byte| u32::from(difference(byte, bytes).cast_unsigned()))
        };
        // SAFETY: a word for every two bytes.
        unsafe { *words.add(at / 2) = half(at) | half(at + 1) << 16 };
    }
}

unsafe fn tile<const COLUMNS: usize>(tile: &Tile) {
    for row in 0..tile.rows {
        for column in 0..tile.columns {
            // SAFETY: a line of bias and `words` lines of weights, COLUMNS wide.
            let weight = |line: usize| unsafe { *tile.weights_panel.add(line * COLUMNS + column) };
            let mut sum = weight(0);
            for word in 0..tile.words {
                // SAFETY: `words` lines, ROWS wide.
                let x = unsafe { *tile.rows_panel.add(word * ROWS + row) };
                sum = sum.wrapping_add(dot(x, weight(word + 1).cast_unsigned()));
            }
            // SAFETY: within the tile's columns and rows.
            unsafe {
                let y = tile.scaling.stored(sum.wrapping_sub(*tile.corrections.add(row)), column);
                *tile.output.add(row * tile.stride + column) = y.to_le_bytes()[0];
            }
        }
    }
}

/// The sum of the products of two pairs of 16-bit numbers.
fn dot(x: u32, w: u32) -> i32 {
    let low = |word: u32| (word << 16).cast_signed() >> 16;
    let high = |word: u32| word.cast_signed() >> 16;
    (low(x) * low(w)).wrapping_add(high(x) * high(w))
}
