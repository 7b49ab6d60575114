//! The roofline of one core: the figures that profiles are held against.
//!
//! Each variant multiplies and adds registers that depend on nothing but themselves, and sums
//! memory that fits one level of the caches. The best of many short samples counts: what disturbs a
//! sample makes it slower, never faster.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;

use std::hint::black_box;

use crate::simd::{Isa, Variant, Variants, variants};

/// The measurements of an instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Probes {
    /// Does `rounds` rounds of independent float multiply-adds; gives how many operations that
    /// were, a multiply-add being two.
    ///
    /// # Safety
    /// The machine has the instruction set; so for all three.
    pub f32: unsafe fn(rounds: usize) -> u64,
    /// The same with products of 8-bit numbers, exactly summed.
    pub i8: unsafe fn(rounds: usize) -> u64,
    /// Reads all of the memory.
    pub read: unsafe fn(&[u8]),
}

/// Best first.
const VARIANTS: Variants<Probes> = variants! {
    Avx512: avx512::PROBES,
    AvxVnni: avx_vnni::PROBES,
    Avx2: avx2::PROBES,
    Scalar: SCALAR,
};

/// The probes of the instruction sets that the machine has, up to `most`; best first, at least one.
pub fn probes(most: Isa) -> impl Iterator<Item = Variant<Probes>> {
    VARIANTS.all().filter(move |variant| variant.isa <= most)
}

/// Plain Rust, as far as the compiler makes something of it.
const SCALAR: Probes = Probes { f32: multiply_add, i8: dot, read };

/// Accumulators that don't wait for each other.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_counts_its_operations() {
        for variant in VARIANTS.all() {
            for (what, run) in [("f32", variant.run.f32), ("i8", variant.run.i8)] {
                // SAFETY: `all` yields what this machine has.
                let (one, ten) = unsafe { (run(1), run(10)) };
                assert!(one > 0 && ten == 10 * one, "{:?} {what}", variant.isa);
            }
            // SAFETY: as above.
            unsafe { (variant.run.read)(&[1; 1027]) };
        }
    }
}
