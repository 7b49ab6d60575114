//! The roofline of one core: the figures that profiles are held against.
//!
//! Each form multiplies and adds registers that depend on nothing but themselves, and sums memory
//! that fits one level of the caches. The best of many short samples counts: what disturbs a sample
//! makes it slower, never faster.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use crate::simd::{Form, Isa};

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
const FORMS: &[Form<Probes>] = &[
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx512, run: avx512::PROBES },
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx2, run: avx2::PROBES },
    Form { isa: Isa::Scalar, run: scalar::PROBES },
];

/// The probes of the instruction sets that the machine has, up to `most`; best first, at least one.
pub fn probes(most: Isa) -> impl Iterator<Item = Form<Probes>> {
    FORMS.iter().copied().filter(move |form| form.isa <= most && form.isa.detected())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_counts_its_operations() {
        for form in crate::simd::detected(FORMS) {
            for (what, run) in [("f32", form.run.f32), ("i8", form.run.i8)] {
                // SAFETY: `detected` yields what this machine has.
                let (one, ten) = unsafe { (run(1), run(10)) };
                assert!(one > 0 && ten == 10 * one, "{:?} {what}", form.isa);
            }
            // SAFETY: as above.
            unsafe { (form.run.read)(&[1; 1027]) };
        }
    }
}
