//! Plain Rust.

use super::{AddRows, EXTRA_BITS};

pub(super) unsafe fn add(rows: &AddRows) {
    let operand = |byte: u8, which: usize| {
        let x = (i32::from(byte ^ rows.flip) - rows.zero_points[which]) << EXTRA_BITS;
        // SAFETY: there is a first channel.
        unsafe { rows.scalings[which].stored(x, 0) }
    };
    for at in 0..rows.len {
        // SAFETY: within the rows; there is a first channel.
        unsafe {
            let sum = operand(*rows.a.add(at), 0) + operand(*rows.b.add(at), 1);
            *rows.output.add(at) = rows.sum.stored(sum, 0).to_le_bytes()[0];
        }
    }
}
