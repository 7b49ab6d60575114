//! Elements that are two numbers of 16 bits each.

use super::panels::Microkernel;
use crate::simd::{Avx512Bf16, Isa, Variant};

/// Tiles whose elements are pairs of bf16, in the place of floats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bf16Pairs {
    pub(super) kernel: Microkernel,
    /// Rounds so many floats to pairs, half as many; a missing last one is 0.
    ///
    /// # Safety
    /// The machine has the instruction set; that much is readable and writable.
    pub(super) round: unsafe fn(from: *const f32, len: usize, to: *mut f32),
}

impl Bf16Pairs {
    /// Those of the best instruction set up to `isa`. There is no scalar variant: it would
    /// take several times as long as floats, for less exact results.
    pub(super) fn of(isa: Isa) -> Option<Variant<Self>> {
        match (isa, Avx512Bf16::detect()?) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512(_) | Isa::Avx512Vbmi(_), bf16) => {
                let isa = Isa::Avx512(bf16.avx512());
                Some(Variant { isa, run: super::avx512_bf16::PAIRS })
            }
            _ => None,
        }
    }
}
