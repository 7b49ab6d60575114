//! Plain Rust.

use super::panels::{Microkernel, Width};
use super::tile::Tile;

pub(super) const KERNEL: Microkernel =
    Microkernel { rows: 4, widths: &[Width { columns: COLUMNS, run: tile::<false> }] };

/// The same tiles with the bias added last.
pub(super) const ORDERED: Microkernel =
    Microkernel { rows: 4, widths: &[Width { columns: COLUMNS, run: tile::<true> }] };

const COLUMNS: usize = 8;

unsafe fn tile<const ORDERED: bool>(tile: &Tile) {
    for row in 0..tile.rows {
        for column in 0..tile.columns {
            // SAFETY: a line of bias.
            let bias = unsafe { *tile.bias.add(column) };
            let mut sum = if ORDERED { 0.0 } else { bias };
            for segment in tile.segments() {
                for k in 0..tile.len {
                    // SAFETY: `len` lines of weights, and as many elements of each row.
                    sum += unsafe {
                        let x = segment.rows.add(row * tile.row_stride + k).read_unaligned();
                        x * *segment.weights.add(k * COLUMNS + column)
                    };
                }
            }
            let sum = if ORDERED { sum + bias } else { sum };
            let y = crate::tensor::quant::clamp_real(sum, tile.low, tile.high);
            // SAFETY: within the tile's part of the output.
            unsafe { tile.output.add(row * tile.stride + column).write_unaligned(y) };
        }
    }
}
