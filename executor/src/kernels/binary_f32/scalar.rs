//! Plain Rust.

use super::{Kernels, Rows};
use crate::quant::clamp_real;

/// Rows of an arithmetic, with the steps from element to element.
macro_rules! kernels {
    ($name:ident, $each:expr) => {
        pub(super) const $name: Kernels = {
            unsafe fn run<const A: usize, const B: usize>(rows: &Rows) {
                let each: fn(f32, f32) -> f32 = $each;
                for at in 0..rows.len {
                    // SAFETY: within the rows.
                    unsafe {
                        let a = rows.a.add(at * A).read_unaligned();
                        let b = rows.b.add(at * B).read_unaligned();
                        let y = clamp_real(each(a, b), rows.low, rows.high);
                        rows.output.add(at).write_unaligned(y);
                    }
                }
            }
            [run::<1, 1>, run::<0, 1>, run::<1, 0>]
        };
    };
}

kernels!(ADD, |a, b| a + b);
kernels!(SUB, |a, b| a - b);
kernels!(MUL, |a, b| a * b);
