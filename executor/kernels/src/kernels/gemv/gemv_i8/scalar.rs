//! Plain Rust.

use super::kernel::{COLUMNS, DEPTH, GemvKernel, Panels};

pub(super) const KERNEL: GemvKernel =
    GemvKernel { run: panels, single: panels, rounded: None, floats: None, signed: false, side: 1 };

unsafe fn panels(panels: &Panels) {
    let columns = panels.panels * COLUMNS;
    for at in 0..panels.rows * columns {
        let (row, column) = (at / columns, at % columns);
        let first = column / COLUMNS * panels.words * COLUMNS * DEPTH + column % COLUMNS * DEPTH;
        // SAFETY: a row and a column that are there.
        let (mut sum, bytes) =
            unsafe { (*panels.start.add(column), panels.row.add(row * panels.words)) };
        for word in 0..panels.words {
            // SAFETY: a word of the row.
            let bytes = unsafe { bytes.add(word).read_unaligned() }.to_ne_bytes();
            for (k, byte) in bytes.map(|byte| byte ^ panels.flip).into_iter().enumerate() {
                // SAFETY: within the column's line of the panel.
                let weight = unsafe { *panels.weights.add(first + word * COLUMNS * DEPTH + k) };
                sum = sum.wrapping_add(i32::from(byte) * i32::from(weight));
            }
        }
        // SAFETY: a row and a column that are there.
        unsafe { *panels.sums.add(row * panels.row_sums + column) = sum };
    }
}
