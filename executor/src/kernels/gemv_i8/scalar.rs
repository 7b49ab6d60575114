//! Plain Rust.

use super::{COLUMNS, DEPTH, Kernel, Panels};

pub(super) const KERNEL: Kernel = Kernel { run: panels, signed: false };

unsafe fn panels(panels: &Panels) {
    for column in 0..panels.panels * COLUMNS {
        let first = column / COLUMNS * panels.words * COLUMNS * DEPTH + column % COLUMNS * DEPTH;
        // SAFETY: a column that is there.
        let sum = unsafe { &mut *panels.sums.add(column) };
        for word in 0..panels.words {
            // SAFETY: a word of the row.
            let bytes = unsafe { *panels.row.add(word) }.to_le_bytes();
            for (k, byte) in bytes.into_iter().enumerate() {
                // SAFETY: within the column's line of the panel.
                let weight = unsafe { *panels.weights.add(first + word * COLUMNS * DEPTH + k) };
                *sum = sum.wrapping_add(i32::from(byte) * i32::from(weight));
            }
        }
    }
}
