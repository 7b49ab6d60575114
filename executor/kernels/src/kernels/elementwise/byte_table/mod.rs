//! Functions of one byte, by a table of all 256 results.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{In, Out};

/// Bytes to look up, and where what is found goes: the same place, or one that doesn't overlap.
#[derive(Clone, Copy, Debug)]
struct LookUp<'a> {
    table: &'a [u8; 256],
    input: *const u8,
    output: *mut u8,
    len: usize,
}

impl LookUp<'_> {
    /// From an element on, which is there or just behind the end.
    #[inline(always)]
    fn from(&self, first: usize) -> Self {
        let (input, output) = (self.input.wrapping_add(first), self.output.wrapping_add(first));
        Self { input, output, len: self.len - first, ..*self }
    }
}

/// # Safety
/// The row is as long as stated; the machine has the instruction set.
type Run = unsafe fn(&LookUp<'_>);

/// Best first. AVX-512 without VBMI has no instruction that beats those of AVX2 by more than their
/// width.
const VARIANTS: Variants<Run> = variants! {
    Avx512Vbmi: avx512::look_up,
    Avx2: avx2::look_up,
    Neon: neon::look_up,
    Scalar: scalar,
};

/// A table in its best variant.
#[derive(Clone, Debug)]
pub struct ByteTable {
    variant: Variant<Run>,
    table: Box<[u8; 256]>,
}

impl ByteTable {
    /// `table` has the result for each byte.
    pub fn new(isa: Isa, table: [u8; 256]) -> Self {
        Self { variant: VARIANTS.best(isa), table: Box::new(table) }
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Looks up each byte of the input, which may be written over.
    ///
    /// # Errors
    /// The input is shorter than the output.
    pub fn compute(&self, input: In<'_, u8>, output: Out<'_, u8>) -> Result<(), String> {
        let len = output.len();
        crate::tensor::check_lengths(input.len(), len)?;
        let (input, output) = (input.as_ptr(), output.as_mut_ptr());
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.variant.run)(&LookUp { table: &self.table, input, output, len }) };
        Ok(())
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar(row: &LookUp<'_>) {
    for at in 0..row.len {
        // SAFETY: within the row.
        unsafe { *row.output.add(at) = row.table[usize::from(*row.input.add(at))] };
    }
}

#[cfg(test)]
mod tests;
