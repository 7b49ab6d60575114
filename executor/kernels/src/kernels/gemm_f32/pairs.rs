//! Elements that are two numbers of 16 bits each.

use super::panels::Microkernel;
use crate::simd::{Form, Isa};

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
    /// Those of the best instruction set up to `isa`. There is no form in plain code: it would take
    /// several times as long as floats, for less exact results.
    pub(super) fn of(isa: Isa) -> Option<Form<Self>> {
        #[cfg(target_arch = "x86_64")]
        if isa >= Isa::Avx512 && is_x86_feature_detected!("avx512bf16") {
            return Some(Form { isa: Isa::Avx512, run: super::avx512_bf16::PAIRS });
        }
        let _ = isa;
        None
    }
}
