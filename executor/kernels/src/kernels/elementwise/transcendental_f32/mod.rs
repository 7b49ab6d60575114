//! The logistic function, the hyperbolic tangent and the exponential of rows of floats.
//!
//! All three come from `q = exp(r) - 1` on half a binary order around 0 and a power of two: the
//! polynomial for `q` keeps its relative precision down to 0, so that `tanh` needs no second branch
//! near 0. Every variant computes the same in the same order: the same bits, within 4 units in the
//! last place of the true value.

mod scalar;
mod vectors;

use self::vectors::{Exp, FunctionRows, Sigmoid, Tanh};
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{In, Out};

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Exponential.
    Exp,
}

/// A row and where its results go: the same place, or one that doesn't overlap; at any alignment.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    input: *const f32,
    output: *mut f32,
    len: usize,
}

/// # Safety
/// `len` floats are readable at the row's input and writable at its output; the machine has the
/// instruction set.
pub type Run = unsafe fn(&Row);

/// Best first.
pub const fn variants(function: Function) -> Variants<Run> {
    match function {
        Function::Sigmoid => variants!(FunctionRows<Sigmoid>, scalar::sigmoid),
        Function::Tanh => variants!(FunctionRows<Tanh>, scalar::tanh),
        Function::Exp => variants!(FunctionRows<Exp>, scalar::exp),
    }
}

/// A function in its best variant.
#[derive(Clone, Copy, Debug)]
pub struct Map(Variant<Run>);

impl Map {
    /// Takes the best variant up to `isa`.
    pub fn new(isa: Isa, function: Function) -> Self {
        Self(variants(function).best(isa))
    }

    /// The variant that was chosen.
    pub fn isa(self) -> Isa {
        self.0.isa
    }

    /// The function of as many elements as both have.
    pub fn compute(self, input: In<'_, f32>, output: Out<'_, f32>) {
        let len = input.len().min(output.len());
        let row = Row { input: input.as_ptr(), output: output.as_mut_ptr(), len };
        // SAFETY: lengths as checked; an input that overlaps its output is the whole of it, as
        // tensors are; `best` chose what the machine has.
        unsafe { (self.0.run)(&row) };
    }

    /// The function of each element, in place.
    pub fn apply(self, values: &mut [f32]) {
        let output = values.as_mut_ptr();
        // SAFETY: the slice, in place; `best` chose what the machine has.
        unsafe { (self.0.run)(&Row { input: output, output, len: values.len() }) };
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
