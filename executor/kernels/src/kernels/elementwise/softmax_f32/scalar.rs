//! Plain Rust, in the order of the vectors.

use super::super::transcendental_f32::scalar::exp_of;
use super::{LANES, Rows};

/// # Safety
/// As for [`super::Run`].
pub(super) unsafe fn softmax(&Rows { input, output, len, stride, count, beta }: &Rows) {
    for row in 0..count {
        // SAFETY: within the row.
        let x = |at: usize| unsafe { input.add(row * stride + at).read_unaligned() };
        let max = (0..len).map(x).fold(f32::NEG_INFINITY, |max, x| if max > x { max } else { x });
        let mut lanes = [0.0; LANES];
        for at in 0..len {
            let exp = exp_of((x(at) - max) * beta);
            lanes[at % LANES] += exp;
            // SAFETY: within the row, whose element has been read for the last time.
            unsafe { output.add(row * stride + at).write_unaligned(exp) };
        }
        for half in [LANES / 2, LANES / 4, LANES / 8, LANES / 16] {
            (0..half).for_each(|lane| lanes[lane] += lanes[lane + half]);
        }
        let share = 1.0 / lanes[0];
        for at in 0..len {
            // SAFETY: within the row.
            unsafe {
                let exp = output.add(row * stride + at);
                exp.write_unaligned(exp.read_unaligned() * share);
            }
        }
    }
}
