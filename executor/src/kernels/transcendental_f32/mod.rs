//! The logistic function, the hyperbolic tangent and the exponential of rows of floats.
//!
//! All three come from `q = exp(r) - 1` on half a binary order around 0 and a power of two: the polynomial
//! for `q` keeps its relative precision down to 0, so that `tanh` needs no second branch near 0. Every form
//! computes the same in the same order: the same bits, within 4 units in the last place of the true value.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use super::{Form, Isa, best};
use crate::io::{In, Out};

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    Tanh,
    Exp,
}

/// # Safety
/// `len` floats at `input` and room for as many at `output`, which may be the same place but not overlap
/// otherwise; the machine has the instruction set.
pub(crate) type Run = unsafe fn(input: *const f32, output: *mut f32, len: usize);

/// Best first.
pub(crate) const fn forms(function: Function) -> &'static [Form<Run>] {
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
    match function {
        Function::Sigmoid => forms!(sigmoid),
        Function::Tanh => forms!(tanh),
        Function::Exp => forms!(exp),
    }
}

/// A function in its best form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map(Form<Run>);

impl Map {
    pub(crate) fn new(isa: Isa, function: Function) -> Self {
        Self(best(forms(function), isa))
    }

    /// The form that was chosen.
    pub(crate) fn isa(self) -> Isa {
        self.0.isa
    }

    /// The function of as many elements as both have.
    pub(crate) fn compute(self, input: In<'_, f32>, output: Out<'_, f32>) {
        let len = input.len().min(output.len());
        // SAFETY: lengths as checked; an input that overlaps its output is the whole of it, as tensors
        // are; `best` chose what the machine has.
        unsafe { (self.0.run)(input.as_ptr(), output.as_mut_ptr(), len) };
    }

    /// The function of each element, in place.
    pub(crate) fn apply(self, values: &mut [f32]) {
        let start = values.as_mut_ptr();
        // SAFETY: the slice, in place; `best` chose what the machine has.
        unsafe { (self.0.run)(start, start, values.len()) };
    }
}

/// `log2(e)`.
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// `ln(2)` in two parts; the first has so few bits that its small multiples are exact.
const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// `(exp(r) - 1 - r) / r^2` for |r| up to half of `ln(2)`: fitted for the least relative error of
/// `exp(r) - 1`, which is 1.4e-8.
const EXP_M1: [f32; 5] = [0.499_999_97, 0.166_665_43, 0.041_667_2, 0.008_366_581, 0.001_388_251];
/// Below and above these `exp` is 0 or infinite.
const EXP_RANGE: (f32, f32) = (-104.0, 89.0);

#[cfg(test)]
mod tests;
