//! Arithmetic of two rows of floats, clamped; either may be one number for all. Of a matrix all
//! rows are computed in one call: a call for each takes as long as 32 elements.

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
    /// Quotient.
    Div,
    /// The larger one, the second where they don't compare.
    Maximum,
    /// The lesser one, the second where they don't compare.
    Minimum,
    /// The square of the difference.
    SquaredDifference,
}

impl Arithmetic {
    /// Returns whether the operands can change places.
    pub fn is_commutative(self) -> bool {
        matches!(self, Self::Add | Self::Mul)
    }
}

/// Rows of two operands and where their results go, at any alignment.
#[derive(Clone, Copy, Debug)]
struct Rows {
    a: *const f32,
    b: *const f32,
    /// From one element to the next: 1, or 0 where one number serves all; not both.
    steps: (usize, usize),
    output: *mut f32,
    /// Elements of a row.
    len: usize,
    /// Rows.
    count: usize,
    /// Elements of the operands and of the output from one row to the next.
    strides: (usize, usize, usize),
    low: f32,
    high: f32,
}

/// An operand of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// Its elements, from that of the first result on.
    pub all: In<'a, f32>,
    /// Elements from one column to the next: 1, or 0 where one serves a whole row.
    pub step: usize,
    /// Elements from one row to the next.
    pub stride: usize,
}

impl Operand<'_> {
    /// Returns whether it has an element for each of `count` rows of `len` columns.
    fn covers(&self, count: usize, len: usize) -> bool {
        let row = if self.step == 0 { 1 } else { len };
        let rows = count.saturating_sub(1).checked_mul(self.stride);
        let end = rows.and_then(|rows| rows.checked_add(row));
        self.step <= 1 && end.is_some_and(|end| end <= self.all.len())
    }
}

/// An arithmetic, for numbers and for vectors of them.
trait Each {
    fn number(a: f32, b: f32) -> f32;
    fn vector<V: F32Simd>(a: V, b: V) -> V;
}

/// Expressions, as a closure need not be inlined into the instruction set.
macro_rules! arithmetic {
    ($($name:ident($a:ident, $b:ident): $number:expr, $vector:expr;)*) => {
        $(
            struct $name;

            impl Each for $name {
                #[inline(always)]
                fn number($a: f32, $b: f32) -> f32 {
                    $number
                }

                #[inline(always)]
                fn vector<V: F32Simd>($a: V, $b: V) -> V {
                    $vector
                }
            }
        )*
    };
}

arithmetic! {
    Add(a, b): a + b, a.add(b);
    Sub(a, b): a - b, a.sub(b);
    Mul(a, b): a * b, a.mul(b);
    Div(a, b): a / b, a.div(b);
    Maximum(a, b): if b < a { a } else { b }, a.larger(b);
    Minimum(a, b): if a < b { a } else { b }, a.smaller(b);
    SquaredDifference(a, b): (a - b) * (a - b), a.sub(b).mul(a.sub(b));
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
        Arithmetic::Div => variants!(Vectors<Div>, scalar::<Div>),
        Arithmetic::Maximum => variants!(Vectors<Maximum>, scalar::<Maximum>),
        Arithmetic::Minimum => variants!(Vectors<Minimum>, scalar::<Minimum>),
        Arithmetic::SquaredDifference => {
            variants!(Vectors<SquaredDifference>, scalar::<SquaredDifference>)
        }
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
        let (count, strides) = (1, (0, 0, 0));
        let rows = Rows { a, b, steps, output, len, count, strides, low, high };
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.variant.run)(&rows) };
        Ok(())
    }

    /// Computes `count` rows of `len` elements, of which those of the output begin `pitch` elements
    /// apart. At least one of the operands has an element for each column.
    ///
    /// # Errors
    /// An operand or the output has too few elements.
    pub fn compute_rows(
        self,
        [a, b]: [Operand<'_>; 2],
        output: Out<'_, f32>,
        [count, len, pitch]: [usize; 3],
    ) -> Result<(), String> {
        let to = Operand { all: output.as_in(), step: 1, stride: pitch };
        let covered = [a, b, to].iter().all(|it| it.covers(count, len)) && a.step + b.step > 0;
        if !covered || (pitch < len && count > 1) {
            return Err(format!("{a:?} and {b:?} for {count} rows of {len} in {}", output.len()));
        }
        let (steps, strides) = ((a.step, b.step), (a.stride, b.stride, pitch));
        let (low, high) = self.range;
        let (a, b, output) = (a.all.as_ptr(), b.all.as_ptr(), output.as_mut_ptr());
        let rows = Rows { a, b, steps, output, len, count, strides, low, high };
        // SAFETY: lengths as checked; `best` chose what the machine has.
        unsafe { (self.variant.run)(&rows) };
        Ok(())
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar<E: Each>(rows: &Rows) {
    let (a, b) = rows.steps;
    for row in 0..rows.count {
        let from = (row * rows.strides.0, row * rows.strides.1);
        for at in 0..rows.len {
            // SAFETY: within the rows.
            unsafe {
                let a = rows.a.add(from.0 + at * a).read_unaligned();
                let b = rows.b.add(from.1 + at * b).read_unaligned();
                let y = clamp_real(E::number(a, b), rows.low, rows.high);
                rows.output.add(row * rows.strides.2 + at).write_unaligned(y);
            }
        }
    }
}

#[cfg(test)]
mod tests;
