//! How arithmetic of floats works while kernels compute, whatever the thread's program has set.
//!
//! A program may round downwards, or have infinities and what is no number end it by a signal
//! (`fesetround`, `feenableexcept`); threads inherit that. And a multiplication of a number below
//! 2^-126, or one that results in it, takes a hundred times as long on many processors: such
//! numbers come from signals and states that fade away, and mean nothing.

use std::marker::PhantomData;

/// A mode of arithmetic. On x86-64 and aarch64, but for Miri: other machines keep what they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatMode {
    /// Rust's own: results are rounded to the nearest number, and nothing ends the program.
    Standard,
    /// The same, but operands below the least normal number are 0, and such results are rounded to
    /// it, as XNNPACK's arithmetic has it.
    Flushed,
}

impl FloatMode {
    /// Runs some code on this thread in this mode, and leaves the thread as it was.
    #[inline]
    pub fn within<R>(self, run: impl FnOnce() -> R) -> R {
        let _entered = Entered::new(self);
        run()
    }

    /// The bits of MXCSR: exceptions are masked (7 to 12), subnormal operands are 0 (6), and so are
    /// results (15).
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    const fn word(self) -> Word {
        match self {
            Self::Standard => 0x1f80,
            Self::Flushed => 0x1f80 | 1 << 6 | 1 << 15,
        }
    }

    /// The bits of FPCR: subnormal operands and results of 32 and 64 bits are 0 (24). Those of 16
    /// bits have a bit of their own.
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    const fn word(self) -> Word {
        match self {
            Self::Standard => 0,
            Self::Flushed => 1 << 24,
        }
    }

    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    const fn word(self) -> Word {
        0
    }
}

/// The register that governs arithmetic of floats.
#[cfg(target_arch = "x86_64")]
type Word = u32;

/// The register that governs arithmetic of floats.
#[cfg(not(target_arch = "x86_64"))]
type Word = u64;

/// The bits that are the mode: the lowest of MXCSR tell what has happened.
const MODE: Word = if cfg!(target_arch = "x86_64") { !0x3f } else { !0 };

/// Restores the register when it is dropped, also where a step panics. It belongs to the thread.
struct Entered {
    before: Word,
    word: Word,
    here: PhantomData<*mut ()>,
}

impl Entered {
    #[inline]
    fn new(mode: FloatMode) -> Self {
        let (before, word) = (read(), mode.word());
        if (before ^ word) & MODE != 0 {
            write(word);
        }
        Self { before, word, here: PhantomData }
    }
}

impl Drop for Entered {
    /// With what had happened before: a program that looks sees nothing of this one's.
    #[inline]
    fn drop(&mut self) {
        if (self.before ^ self.word) & MODE != 0 {
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

/// Writes what was read, or the word of a mode.
///
/// The compiler knows nothing of this: what it computes ahead, or moves to the other side of it,
/// keeps subnormal numbers, which is as good a result, and is rounded as the standard has it.
/// Neither decides about memory: whatever floats say is brought into range as integers before it is
/// a place.
#[inline]
fn write(word: Word) {
    // SAFETY: reads the word, which is the thread's own or one that masks exceptions and rounds to
    // nearest.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack));
    }
    // SAFETY: the word is the thread's own, or one without traps that rounds to nearest.
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
        if FloatMode::Flushed.word() == 0 {
            return;
        }
        assert!(FloatMode::Flushed.within(is_flushed));
        let nested = || FloatMode::Flushed.within(is_flushed) && is_flushed();
        assert!(FloatMode::Flushed.within(nested), "nested");
        assert!(!FloatMode::Flushed.within(|| FloatMode::Standard.within(is_flushed)));
        assert!(!is_flushed());
        assert!(catch_unwind(|| FloatMode::Flushed.within(|| panic!("a step"))).is_err());
        assert!(!is_flushed(), "behind a panic");
    }

    /// The mode of a program that rounds downwards; on x86-64 what is no number ends it.
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    const FOREIGN: Word = if cfg!(target_arch = "x86_64") { 0x1f00 | 1 << 13 } else { 2 << 22 };

    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    #[test]
    fn a_program_that_rounds_otherwise_and_traps_changes_nothing_and_stays_so() {
        // Results that the compiler may not compute later.
        let third = || black_box(black_box(1.0_f32) / black_box(3.0));
        let (want, before) = (third(), read());
        write(FOREIGN);
        let foreign = third();
        let within = [FloatMode::Standard, FloatMode::Flushed].map(|mode| {
            mode.within(|| (third(), black_box(black_box(0.0_f32) / black_box(0.0)).is_nan()))
        });
        let behind = read();
        write(before);
        assert!(foreign < want, "the mode is another one");
        assert_eq!(within, [(want, true); 2]);
        // That a third is not exact is told of the division that was there alone.
        assert_eq!(behind & MODE, FOREIGN & MODE);
        assert_eq!(behind & 1, 0, "an invalid operation");
    }

    #[test]
    fn subnormal_halves_stay() {
        FloatMode::Flushed.within(|| {
            for bits in (0..0x400).flat_map(|bits| [bits, bits | 0x8000]) {
                let half = f16::from_bits(bits);
                let wide = Real::to_f32(black_box(half));
                assert_eq!(wide.to_bits(), half.to_f32_const().to_bits(), "{bits:#06x}");
                assert_eq!(<f16 as Real>::from_f32(black_box(wide)).to_bits(), bits);
            }
        });
    }
}
