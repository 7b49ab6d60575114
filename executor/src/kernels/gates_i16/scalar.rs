//! Plain Rust.

use super::{RANGE, Rows};

pub(super) unsafe fn add(rows: &Rows) {
    // SAFETY: the whole of the rows.
    unsafe { from(rows, 0) };
}

/// From an element on: the vector forms' last few.
///
/// # Safety
/// As for the rows.
pub(super) unsafe fn from(rows: &Rows, first: usize) {
    for at in first..rows.len {
        // SAFETY: within the rows; there is a first channel.
        unsafe {
            let a = rows.scalings[0].stored(*rows.inputs[0].add(at), 0);
            let b = rows.scalings[1].stored(*rows.inputs[1].add(at), 0);
            *rows.output.add(at) = (a + b).clamp(RANGE.0, RANGE.1);
        }
    }
}
