//! Plain Rust.

use super::Row;

pub(super) unsafe fn look_up(row: &Row<'_>) {
    for at in 0..row.len {
        // SAFETY: within the row.
        unsafe { *row.output.add(at) = row.table[usize::from(*row.input.add(at))] };
    }
}
