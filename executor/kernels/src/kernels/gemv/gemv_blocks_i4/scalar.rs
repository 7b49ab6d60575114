//! Plain Rust.

use super::SHIFT;
use super::kernel::{BlockPanels, BlocksKernel, COLUMNS, DEPTH, LINE};

pub(super) const KERNEL: BlocksKernel = BlocksKernel { run: panels, side: 1 };

unsafe fn panels(panels: &BlockPanels) {
    for at in 0..panels.panels * COLUMNS {
        let (panel, column) = (at / COLUMNS, at % COLUMNS);
        let mut total = 0.0;
        for block in 0..panels.blocks {
            let first = (panel * panels.blocks + block) * (panels.lines + 1);
            let place = |line: usize| (first + line) * LINE + column * size_of::<f32>();
            // What sums begin with is for weights as they are stored.
            let mut sum = 0i32;
            for line in 0..panels.lines {
                for k in 0..DEPTH / 2 {
                    let at = (block * panels.lines + line) * DEPTH + k;
                    // SAFETY: within the row and within the column's part of the line.
                    let (low, high, byte) = unsafe {
                        let row = panels.row.cast::<i8>();
                        let byte = *panels.weights.add(place(line) + k);
                        (*row.add(at), *row.add(at + DEPTH / 2), byte)
                    };
                    for (x, half) in [(low, byte & 0xF), (high, byte >> 4)] {
                        let weight = i32::from(half) - i32::from(SHIFT);
                        sum = sum.wrapping_add(i32::from(x) * weight);
                    }
                }
            }
            // SAFETY: the column's part of the line of scales.
            let scale =
                unsafe { panels.weights.add(place(panels.lines)).cast::<f32>().read_unaligned() };
            #[expect(clippy::cast_precision_loss, reason = "rounded, as is asked for")]
            let product = sum as f32 * scale;
            total += product;
        }
        // SAFETY: a column that is there.
        unsafe { *panels.totals.add(at) = total };
    }
}
