//! Plain Rust.

use super::kernel::{Bytes, Encoding, Microkernel, Results, Run, difference};

pub(super) const KERNEL: Microkernel = Microkernel {
    columns: COLUMNS,
    lanes: COLUMNS,
    encoding: Encoding::Differences,
    signed: false,
    encode,
    sums: no_sums,
    run,
    single: line,
};

const COLUMNS: usize = 8;

/// Differences need no corrections.
pub(super) unsafe fn no_sums(_: &Run, _: usize, _: i32, _: *mut i32) {}

/// Differences from the zero point.
pub(super) unsafe fn encode(from: *const u8, count: usize, bytes: Bytes, to: *mut u8) {
    let to = to.cast::<i16>();
    for at in 0..count {
        // SAFETY: as the caller promises.
        unsafe { to.add(at).write_unaligned(difference(*from.add(at), bytes)) };
    }
}

unsafe fn run(all: &Run) {
    let mut run = *all;
    loop {
        // SAFETY: as the caller promises.
        unsafe { line(&run) };
        if run.lines == 1 {
            return;
        }
        run = run.next_line();
    }
}

unsafe fn line(run: &Run) {
    for row in 0..run.rows {
        // SAFETY: the line of bias.
        let mut sums: [i32; COLUMNS] = std::array::from_fn(|at| unsafe { *run.weights.add(at) });
        for word in 0..run.segment_count * run.words {
            let (segment, at) = (word / run.words, word % run.words);
            // SAFETY: a word of the window, and a line of weights behind the bias.
            unsafe {
                let from = row * run.step + *run.segments.add(segment) + at * 4;
                let x = run.input.add(from).cast::<u32>().read_unaligned();
                let line = run.weights.add((word + 1) * COLUMNS);
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.wrapping_add(dot(x, (*line.add(column)).cast_unsigned()));
                }
            }
        }
        for (column, &sum) in sums.iter().enumerate().take(run.columns) {
            let to = run.output.wrapping_add(row * run.stride);
            // SAFETY: within the run's rows and columns.
            unsafe {
                match &run.results {
                    Results::Bytes(scaling) => {
                        *to.add(column) = scaling.stored(sum, column).to_le_bytes()[0];
                    }
                    Results::Floats(channels) => {
                        let to = to.cast::<f32>().add(column);
                        to.write_unaligned(channels.float(sum, column));
                    }
                    Results::Sums => to.cast::<i32>().add(column).write_unaligned(sum),
                }
            }
        }
    }
}

/// The sum of the products of two pairs of 16-bit numbers.
fn dot(x: u32, w: u32) -> i32 {
    let low = |word: u32| (word << 16).cast_signed() >> 16;
    let high = |word: u32| word.cast_signed() >> 16;
    (low(x) * low(w)).wrapping_add(high(x) * high(w))
}
