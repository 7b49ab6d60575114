//! Plain Rust, as far as the compiler makes something of it.

use std::hint::black_box;

use super::Probes;

pub(super) const PROBES: Probes = Probes { f32: multiply_add, i8: dot, read };

/// Sums that don't wait for each other.
const SUMS: usize = 8;

unsafe fn multiply_add(rounds: usize) -> u64 {
    let (factor, mut sums) = (black_box(0.5f32), [black_box(1.0f32); SUMS]);
    for _ in 0..rounds {
        sums.iter_mut().for_each(|sum| *sum = *sum * factor + factor);
    }
    black_box(sums);
    2 * (SUMS * rounds) as u64
}

unsafe fn dot(rounds: usize) -> u64 {
    let (factor, mut sums) = (black_box(3i32), [black_box(1i32); SUMS]);
    for _ in 0..rounds {
        sums.iter_mut().for_each(|sum| *sum = sum.wrapping_mul(factor).wrapping_add(factor));
    }
    black_box(sums);
    2 * (SUMS * rounds) as u64
}

unsafe fn read(memory: &[u8]) {
    let words = memory.as_chunks::<8>().0.iter();
    black_box(words.fold(0, |all, &word| all ^ u64::from_ne_bytes(word)));
}
