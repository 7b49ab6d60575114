//! Weights into panels: a line of bias, then a line per word of a window, segment by segment.

use super::bands::Bands;
use super::kernel::{Bytes, Encoding, Microkernel, difference};
use crate::tensor::poll;

/// A row of weights and a bias per column.
pub(super) struct Unpacked<'a> {
    pub(super) weights: &'a [u8],
    pub(super) quantised: Bytes,
    pub(super) bias: &'a [i32],
    pub(super) image: Bytes,
    pub(super) depth: usize,
}

/// Fills `packed`, which is zeroed.
pub(super) fn pack(kernel: &Microkernel, bands: &Bands, rows: &Unpacked<'_>, packed: &mut [i32]) {
    let (words, mut packed) = (bands.words(), packed);
    for first in (0..rows.bias.len()).step_by(kernel.columns) {
        let width = kernel.width(kernel.columns.min(rows.bias.len() - first));
        let (panel, rest) = packed.split_at_mut(width * (words + 1));
        packed = rest;
        let columns = rows.weights.chunks_exact(rows.depth).zip(rows.bias).skip(first).take(width);
        for (column, (row, &bias)) in poll::each(columns.enumerate(), rows.depth * 2) {
            panel[column] = match kernel.encoding {
                Encoding::Bytes => bias.wrapping_add(correction(row, rows)),
                Encoding::Differences => bias,
            };
            let segments = row.chunks_exact(rows.depth / bands.segments.len());
            let mut lines = panel[width..].chunks_exact_mut(width);
            for word in segments.flat_map(|segment| segment.chunks(kernel.encoding.per_word())) {
                if let Some(line) = lines.next() {
                    line[column] = encode(kernel.encoding, word, rows.quantised);
                }
            }
        }
    }
}

/// The difference between the products of differences and of bytes as stored, but for the part
/// that depends on windows: `-zp_image * sum(w) + depth * zp_image * zp_weights`.
fn correction(row: &[u8], rows: &Unpacked<'_>) -> i32 {
    let zero_point = rows.quantised.zero_point - 128;
    let sum =
        row.iter().fold(0i32, |sum, &w| sum.wrapping_add(i32::from(signed(w, rows.quantised))));
    let depth = i32::try_from(rows.depth).unwrap_or(i32::MAX);
    rows.image.zero_point.wrapping_mul(depth.wrapping_mul(zero_point).wrapping_sub(sum))
}

/// A weight read as signed, its zero point being 128 less than that of the unsigned reading.
const fn signed(weight: u8, bytes: Bytes) -> i8 {
    (weight ^ bytes.flip ^ 0x80).cast_signed()
}

/// One word of weights; what is missing of it is 0.
fn encode(encoding: Encoding, word: &[u8], bytes: Bytes) -> i32 {
    match encoding {
        Encoding::Bytes => {
            let mut four = [0u8; 4];
            four.iter_mut().zip(word).for_each(|(b, &w)| *b = signed(w, bytes).cast_unsigned());
            i32::from_le_bytes(four)
        }
        Encoding::Differences => {
            let mut two = [0u16; 2];
            two.iter_mut().zip(word).for_each(|(d, &w)| *d = difference(w, bytes).cast_unsigned());
            (u32::from(two[0]) | u32::from(two[1]) << 16).cast_signed()
        }
    }
}
