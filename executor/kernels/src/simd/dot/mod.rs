//! Dot products of 32-bit words, added to accumulators: of four 8-bit integers where there is an
//! instruction for it, else of two 16-bit ones.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot;

#[cfg(target_arch = "aarch64")]
pub(crate) use neon_dot::dot;

use super::requantise::RequantiseSimd;
use super::vector_i32::I32Simd;

/// An instruction set's dot products. A value proves that the machine has it.
pub(crate) trait Dot: Copy {
    /// Accumulators.
    type Sums: RequantiseSimd;
    /// The bits in which 8-bit integers differ from those in memory, in all lanes.
    type Flip: Copy;
    /// A word in all lanes.
    type Word: Copy;
    /// A word for each lane.
    type Words: Copy;

    /// The proof that accumulators are made with.
    fn vectors(self) -> <Self::Sums as I32Simd>::Isa;

    fn flip(self, flip: u8) -> Self::Flip;

    /// # Safety
    /// Four bytes are readable.
    unsafe fn word(self, from: *const u8, flip: Self::Flip) -> Self::Word;

    /// # Safety
    /// There is a word for each lane.
    unsafe fn words(self, from: *const i32) -> Self::Words;

    /// The accumulators plus the dot products of the word and each lane's one. Where words are of
    /// 8-bit integers, x86-64 reads `word` as unsigned ones and aarch64 as signed ones.
    fn dot(self, sums: Self::Sums, word: Self::Word, words: Self::Words) -> Self::Sums;
}
