//! Plain Rust.

use super::panels::{Microkernel, Width};
use super::tile::TileStack;

pub(super) const KERNEL: Microkernel =
    Microkernel { widths: &[Width { columns: COLUMNS, rows: 4, run: tiles::<false> }] };

/// The same tiles with the bias added last.
pub(super) const ORDERED: Microkernel =
    Microkernel { widths: &[Width { columns: COLUMNS, rows: 4, run: tiles::<true> }] };

const COLUMNS: usize = 8;

unsafe fn tiles<const ORDERED: bool>(all: &TileStack) {
    for row in 0..all.heights.rows() {
        for column in 0..all.columns {
            // SAFETY: a line of bias.
            let bias = unsafe { *all.bias.add(column) };
            let mut sum = if ORDERED { 0.0 } else { bias };
            for segment in all.segments(all.input) {
                for k in 0..all.len {
                    // SAFETY: `len` lines of weights, and as many elements of each row.
                    sum += unsafe {
                        let x = segment.rows.add(row * all.row_stride + k).read_unaligned();
                        x * *segment.weights.add(k * COLUMNS + column)
                    };
                }
            }
            let sum = if ORDERED { sum + bias } else { sum };
            let y = crate::tensor::quant::clamp_real(sum, all.low, all.high);
            // SAFETY: within the tiles' part of the output.
            unsafe { all.output.add(row * all.stride + column).write_unaligned(y) };
        }
    }
}
