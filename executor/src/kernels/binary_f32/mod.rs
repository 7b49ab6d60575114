//! Sums, differences and products of two rows of floats, clamped; either may be one number for all.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use super::{Form, Isa, best};
use crate::io::{In, Out};

/// What is made of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
}

/// Two rows and where their results go, at any alignment.
#[derive(Clone, Copy, Debug)]
struct Rows {
    a: *const f32,
    b: *const f32,
    output: *mut f32,
    len: usize,
    low: f32,
    high: f32,
}

/// # Safety
/// The rows are as long as stated, or one number where the kernel repeats it; the machine has the
/// instruction set.
type Run = unsafe fn(&Rows);

/// The kernels for: both are rows; `a` is one number; `b` is one number.
type Kernels = [Run; 3];

/// Best first.
const fn forms(arithmetic: Arithmetic) -> &'static [Form<Kernels>] {
    /// One row per form, so that they can't be told apart by anything else.
    macro_rules! forms {
        ($name:ident) => {
            &[
                #[cfg(target_arch = "x86_64")]
                Form { isa: Isa::Avx512, run: avx512::$name },
                #[cfg(target_arch = "x86_64")]
                Form { isa: Isa::Avx2, run: avx2::$name },
                #[cfg(target_arch = "aarch64")]
                Form { isa: Isa::Neon, run: neon::$name },
                Form { isa: Isa::Scalar, run: scalar::$name },
            ]
        };
    }
    match arithmetic {
        Arithmetic::Add => forms!(ADD),
        Arithmetic::Sub => forms!(SUB),
        Arithmetic::Mul => forms!(MUL),
    }
}

/// An arithmetic in its best form, and what its results are clamped to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binary {
    form: Form<Kernels>,
    range: (f32, f32),
}

impl Binary {
    pub(crate) fn new(isa: Isa, arithmetic: Arithmetic, range: (f32, f32)) -> Self {
        Self { form: best(forms(arithmetic), isa), range }
    }

    /// The form that was chosen.
    pub(crate) fn isa(self) -> Isa {
        self.form.isa
    }

    /// Computes the output's elements. An operand of one element is repeated.
    ///
    /// # Errors
    /// An operand is neither that nor as long as the output.
    pub(crate) fn compute(
        self,
        a: In<'_, f32>,
        b: In<'_, f32>,
        output: Out<'_, f32>,
    ) -> Result<(), String> {
        let len = output.len();
        let [both, one_a, one_b] = self.form.run;
        let run = match (a.len() >= len, b.len() >= len) {
            (true, true) => both,
            (false, true) if a.len() == 1 => one_a,
            (true, false) if b.len() == 1 => one_b,
            _ => return super::check_lengths(a.len().min(b.len()), len),
        };
        let (low, high) = self.range;
        let (a, b, output) = (a.as_ptr(), b.as_ptr(), output.as_mut_ptr());
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { run(&Rows { a, b, output, len, low, high }) };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
