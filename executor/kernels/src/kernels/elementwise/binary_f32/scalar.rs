//! Plain Rust.

use super::{Each, Rows};
use crate::tensor::quant::clamp_real;

pub(super) unsafe fn rows<E: Each>(rows: &Rows) {
    let (a, b) = rows.steps;
    for at in 0..rows.len {
        // SAFETY: within the rows.
        unsafe {
            let a = rows.a.add(at * a).read_unaligned();
            let b = rows.b.add(at * b).read_unaligned();
            rows.output.add(at).write_unaligned(clamp_real(E::number(a, b), rows.low, rows.high));
        }
    }
}
