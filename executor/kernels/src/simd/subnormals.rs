//! Arithmetic that takes subnormal numbers for 0, as XNNPACK's has it.
//!
//! A multiplication of a number below 2^-126, or one that results in it, takes a hundred times as
//! long on many processors. Such numbers come from signals and states that fade away, and mean
//! nothing: without this a network takes thirty times as long in silence as in noise.

use std::marker::PhantomData;

/// Runs some code with arithmetic of floats that takes operands below the least normal number for 0
/// and rounds such results to it, on this thread, and leaves the thread as it was.
///
/// On x86-64 and aarch64, but for Miri. The vectors of 32-bit ARM have no other arithmetic.
#[inline]
pub fn flush_subnormals<R>(run: impl FnOnce() -> R) -> R {
    let _flushed = Flushed::new();
    run()
}

/// The bits of MXCSR: subnormal operands are 0 (6), and so are results (15).
#[cfg(all(target_arch = "x86_64", not(miri)))]
const FLUSH: Word = 1 << 6 | 1 << 15;

/// The bit of FPCR: subnormal operands and results of 32 and 64 bits are 0. Those of 16 bits have
/// one of their own.
#[cfg(all(target_arch = "aarch64", not(miri)))]
const FLUSH: Word = 1 << 24;

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
const FLUSH: Word = 0;

/// The register that governs arithmetic of floats.
#[cfg(target_arch = "x86_64")]
type Word = u32;

/// The register that governs arithmetic of floats.
#[cfg(not(target_arch = "x86_64"))]
type Word = u64;

/// Restores the register when it is dropped, also where a step panics. It belongs to the thread.
struct Flushed {
    before: Word,
    here: PhantomData<*mut ()>,
}

impl Flushed {
    #[inline]
    fn new() -> Self {
        let before = read();
        if before & FLUSH != FLUSH {
            write(before | FLUSH);
        }
        Self { before, here: PhantomData }
    }
}

impl Drop for Flushed {
    #[inline]
    fn drop(&mut self) {
        if self.before & FLUSH != FLUSH {
            write(self.before);
        }
    }
}

#[inline]
fn read() -> Word {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut word = 0;
        // SAFETY: stores the register there; every x86-64 has it.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack)) };
        word
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let word;
        // SAFETY: reads a register that every aarch64 has.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack)) };
        word
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    0
}

/// Writes what was read, with [`FLUSH`] or without.
///
/// The compiler knows nothing of this: what it computes ahead, or moves to the other side of it,
/// keeps subnormal numbers, which is as good a result. That they count as 0 decides about no
/// memory: whatever floats say is brought into range as integers before it is a place.
#[inline]
fn write(word: Word) {
    // SAFETY: reads the word; the modes of rounding and of exceptions stay as they are.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack));
    }
    // SAFETY: the modes of rounding and of exceptions stay as they are.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    unsafe {
        std::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = word;
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::panic::catch_unwind;

    use half::f16;

    use super::*;
    use crate::tensor::Real;

    fn halved(x: f32) -> f32 {
        black_box(x) * black_box(0.5)
    }

    #[test]
    fn subnormal_numbers_are_zero_within_and_there_again_behind() {
        let is_flushed = || {
            // A result, and an operand.
            let below = f32::from_bits(black_box(1 << 22));
            halved(f32::MIN_POSITIVE) == 0.0 && below * black_box(f32::MAX) == 0.0
        };
        assert!(!is_flushed());
        if FLUSH == 0 {
            return;
        }
        assert!(flush_subnormals(is_flushed));
        assert!(flush_subnormals(|| flush_subnormals(is_flushed) && is_flushed()), "nested");
        assert!(!is_flushed());
        assert!(catch_unwind(|| flush_subnormals(|| panic!("a step"))).is_err());
        assert!(!is_flushed(), "behind a panic");
    }

    #[test]
    fn subnormal_halves_stay() {
        flush_subnormals(|| {
            for bits in (0..0x400).flat_map(|bits| [bits, bits | 0x8000]) {
                let half = f16::from_bits(bits);
                let wide = Real::to_f32(black_box(half));
                assert_eq!(wide.to_bits(), half.to_f32_const().to_bits(), "{bits:#06x}");
                assert_eq!(<f16 as Real>::from_f32(black_box(wide)).to_bits(), bits);
            }
        });
    }
}
