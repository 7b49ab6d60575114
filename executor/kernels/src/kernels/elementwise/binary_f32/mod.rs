//! Sums, differences and products of two rows of floats, clamped; either may be one number for all.

mod vectors;

use self::vectors::Vectors;
use crate::simd::vector_f32::F32Simd;
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::quant::clamp_real;
use crate::tensor::{In, Out};

/// The function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
}

/// Two rows and where their results go, at any alignment.
#[derive(Clone, Copy, Debug)]
struct Rows {
    a: *const f32,
    b: *const f32,
    /// From one element to the next: 1, or 0 where one number serves all; not both.
    steps: (usize, usize),
    output: *mut f32,
    len: usize,
    low: f32,
    high: f32,
}

/// An arithmetic, for numbers and for vectors of them.
trait Each {
    fn number(a: f32, b: f32) -> f32;
    fn vector<V: F32Simd>(a: V, b: V) -> V;
}

struct Add;

impl Each for Add {
    #[inline(always)]
    fn number(a: f32, b: f32) -> f32 {
        a + b
    }

    #[inline(always)]
    fn vector<V: F32Simd>(a: V, b: V) -> V {
        a.add(b)
    }
}

struct Sub;

impl Each for Sub {
    #[inline(always)]
    fn number(a: f32, b: f32) -> f32 {
        a - b
    }

    #[inline(always)]
    fn vector<V: F32Simd>(a: V, b: V) -> V {
        a.sub(b)
    }
}

struct Mul;

impl Each for Mul {
    #[inline(always)]
    fn number(a: f32, b: f32) -> f32 {
        a * b
    }

    #[inline(always)]
    fn vector<V: F32Simd>(a: V, b: V) -> V {
        a.mul(b)
    }
}

/// # Safety
/// The rows are as long as stated, or one number where a step is 0; the machine has the instruction
/// set.
type Run = unsafe fn(&Rows);

/// Best first.
const fn variants(arithmetic: Arithmetic) -> Variants<Run> {
    match arithmetic {
        Arithmetic::Add => variants!(Vectors<Add>, scalar::<Add>),
        Arithmetic::Sub => variants!(Vectors<Sub>, scalar::<Sub>),
        Arithmetic::Mul => variants!(Vectors<Mul>, scalar::<Mul>),
    }
}

/// An arithmetic in its best variant, and what its results are clamped to.
#[derive(Clone, Copy, Debug)]
pub struct Binary {
    variant: Variant<Run>,
    range: (f32, f32),
}

impl Binary {
    /// Takes the best variant up to `isa`; results are clamped to `range`.
    pub fn new(isa: Isa, arithmetic: Arithmetic, range: (f32, f32)) -> Self {
        Self { variant: variants(arithmetic).best(isa), range }
    }

    /// The variant that was chosen.
    pub fn isa(self) -> Isa {
        self.variant.isa
    }

    /// Computes the output's elements. An operand of one element is repeated.
    ///
    /// # Errors
    /// An operand is neither that nor as long as the output.
    pub fn compute(
        self,
        a: In<'_, f32>,
        b: In<'_, f32>,
        output: Out<'_, f32>,
    ) -> Result<(), String> {
        let len = output.len();
        let steps = match (a.len() >= len, b.len() >= len) {
            (true, true) => (1, 1),
            (false, true) if a.len() == 1 => (0, 1),
            (true, false) if b.len() == 1 => (1, 0),
            _ => return crate::tensor::check_lengths(a.len().min(b.len()), len),
        };
        let (low, high) = self.range;
        let (a, b, output) = (a.as_ptr(), b.as_ptr(), output.as_mut_ptr());
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.variant.run)(&Rows { a, b, steps, output, len, low, high }) };
        Ok(())
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar<E: Each>(rows: &Rows) {
    let (a, b) = rows.steps;
    for at in 0..rows.len {
        // SAFETY: within the rows.
        unsafe {
            let a = rows.a.add(at * a).read_unaligned();
            let b = rows.b.add(at * b).read_unaligned();
            rows.output.add(at).write_unaligned(clamp_real(E::number(a, b), rows.low, rows.high));
        }
    }
}

#[cfg(test)]
mod tests;
