//! Plain Rust.

use super::MulRows;

pub(super) unsafe fn mul(rows: &MulRows) {
    let [a, b] = rows.zero_points;
    let real = |byte: u8, zero_point: i32| i32::from(byte ^ rows.flip) - zero_point;
    for at in 0..rows.len {
        // SAFETY: within the rows; there is a first channel.
        unsafe {
            let product = real(*rows.a.add(at), a) * real(*rows.b.add(at * rows.step), b);
            *rows.output.add(at) = rows.product.stored(product, 0).to_le_bytes()[0];
        }
    }
}
