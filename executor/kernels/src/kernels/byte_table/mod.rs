//! Functions of one byte, by a table of all 256 results.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use self::scalar::LookUp;
use crate::simd::{Form, Isa, best};
use crate::tensor::{In, Out};

/// # Safety
/// The row is as long as stated; the machine has the instruction set.
type Run = unsafe fn(&LookUp<'_>);

/// Best first. AVX-512 without VBMI has no instruction that beats those of AVX2 by more than their
/// width.
const FORMS: &[Form<Run>] = &[
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx512Vbmi, run: avx512::look_up },
    #[cfg(target_arch = "x86_64")]
    Form { isa: Isa::Avx2, run: avx2::look_up },
    #[cfg(target_arch = "aarch64")]
    Form { isa: Isa::Neon, run: neon::look_up },
    Form { isa: Isa::Scalar, run: scalar::look_up },
];

/// A table in its best form.
#[derive(Clone, Debug)]
pub struct ByteTable {
    form: Form<Run>,
    table: Box<[u8; 256]>,
}

impl ByteTable {
    /// `table` has the result for each byte.
    pub fn new(isa: Isa, table: [u8; 256]) -> Self {
        Self { form: best(FORMS, isa), table: Box::new(table) }
    }

    /// The form that was chosen.
    pub fn isa(&self) -> Isa {
        self.form.isa
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
        unsafe { (self.form.run)(&LookUp { table: &self.table, input, output, len }) };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
