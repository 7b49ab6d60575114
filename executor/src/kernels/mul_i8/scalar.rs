//! Plain Rust.

use super::Rows;

pub(super) unsafe fn mul(rows: &Rows) {
    // SAFETY: the whole of the rows.
    unsafe { from(rows, 0) };
}

/// From an element on: the vector forms' last few.
///
/// # Safety
/// As for the rows.
pub(super) unsafe fn from(rows: &Rows, first: usize) {
    let [a, b] = rows.zero_points;
    let real = |byte: u8, zero_point: i32| i32::from(byte ^ rows.flip) - zero_point;
    for at in first..rows.len {
        // SAFETY: within the rows; there is a first channel.
        unsafe {
            let product = real(*rows.a.add(at), a) * real(*rows.b.add(at * rows.step), b);
            *rows.output.add(at) = rows.product.stored(product, 0).to_le_bytes()[0];
        }
    }
}
