//! Plain Rust.

use super::{LANES, RANGE, Rows};

pub(super) unsafe fn add(rows: &Rows) {
    for (gate, [a, b]) in rows.scalings.iter().enumerate().take(rows.gates) {
        let first = gate * rows.units;
        for at in first..first + rows.units.next_multiple_of(LANES) {
            // SAFETY: within the rows; there is a first channel.
            unsafe {
                let x = a.stored(*rows.inputs[0].add(at), 0);
                let y = b.stored(*rows.inputs[1].add(at), 0);
                *rows.output.add(at) = (x + y).clamp(RANGE.0, RANGE.1);
            }
        }
    }
}
