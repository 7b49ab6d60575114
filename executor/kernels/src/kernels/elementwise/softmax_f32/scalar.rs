//! Plain Rust, in the order of the vectors.

use super::super::four_rows::{LANES, sum_of};
use super::super::transcendental_f32::scalar::{log_of, normal_exp_of};
use super::Rows;

/// # Safety
/// As for [`super::Run`].
pub(super) unsafe fn softmax(rows: &Rows) {
    // SAFETY: as the caller promises.
    unsafe { all::<false>(rows) };
}

/// # Safety
/// As for [`super::Run`].
pub(super) unsafe fn log_softmax(rows: &Rows) {
    // SAFETY: as the caller promises.
    unsafe { all::<true>(rows) };
}

unsafe fn all<const LOG: bool>(&Rows { input, output, len, stride, count, beta }: &Rows) {
    for row in 0..count {
        // SAFETY: within the row.
        let x = |at: usize| unsafe { input.add(row * stride + at).read_unaligned() };
        let max = (0..len).map(x).fold(f32::NEG_INFINITY, |max, x| if max > x { max } else { x });
        let mut lanes = [0.0; LANES];
        for at in 0..len {
            let exp = normal_exp_of((x(at) - max) * beta);
            lanes[at % LANES] += exp;
            if !LOG {
                // SAFETY: within the row, whose element has been read for the last time.
                unsafe { output.add(row * stride + at).write_unaligned(exp) };
            }
        }
        let sum = sum_of(lanes);
        if LOG {
            let log = log_of(sum);
            for at in 0..len {
                let y = (x(at) - max) * beta - log;
                // SAFETY: within the row.
                unsafe { output.add(row * stride + at).write_unaligned(y) };
            }
            continue;
        }
        let share = 1.0 / sum;
        for at in 0..len {
            // SAFETY: within the row.
            unsafe {
                let exp = output.add(row * stride + at);
                exp.write_unaligned(exp.read_unaligned() * share);
            }
        }
    }
}
