//! Plain Rust.

use super::{Kernel, Tile};

pub(super) const KERNEL: Kernel =
    Kernel { rows: ROWS, columns: 8, full: tile::<8>, half: tile::<4> };

const ROWS: usize = 4;

unsafe fn tile<const COLUMNS: usize>(tile: &Tile) {
    for row in 0..tile.rows {
        for column in 0..tile.columns {
            // SAFETY: a line of bias and `depth` lines of weights, COLUMNS wide.
            let weight = |line: usize| unsafe { *tile.weights_panel.add(line * COLUMNS + column) };
            let mut sum = weight(0);
            for k in 0..tile.depth {
                // SAFETY: `depth` lines, ROWS wide.
                let x = unsafe { *tile.rows_panel.add(k * ROWS + row) };
                sum += x * weight(k + 1);
            }
            let y = crate::quant::clamp_real(sum, tile.low, tile.high);
            // SAFETY: within the tile's part of the output.
            unsafe { tile.output.add(row * tile.stride + column).write_unaligned(y) };
        }
    }
}
