//! Layer normalisation of rows of floats, as converters write it in nine to twelve operators: each
//! row less its mean and over its standard deviation, by a factor and with a shift for each column.
//!
//! Every variant gives the bits of those operators one by one: sums in sixteen lanes as of MEAN,
//! each product and sum rounded by itself.

mod vectors;

use self::vectors::{Distance, Expression, LayerNormVectors, Moved};
use super::four_rows::{Itself, Square, sum};
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{In, Out, check_lengths, poll};

/// Rows one behind the other, and where their results go: the same place, or one that doesn't
/// overlap; at any alignment.
#[derive(Clone, Copy, Debug)]
struct Rows {
    input: *const f32,
    output: *mut f32,
    /// A factor for each column.
    factors: *const f32,
    /// What is added to each column.
    shifts: *const f32,
    /// Elements of a row, at least one.
    len: usize,
    /// Rows.
    count: usize,
    /// What is added to the variance.
    little: f32,
}

impl Rows {
    /// What elements are multiplied with, of a row whose squares have this sum.
    #[inline(always)]
    fn inverse(&self, squares: f32) -> f32 {
        1.0 / (self.mean(squares) + self.little).sqrt()
    }

    /// The mean of a row with this sum.
    #[inline(always)]
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts within 24 bits are exact, others near enough"
    )]
    fn mean(&self, sum: f32) -> f32 {
        sum / self.len as f32
    }
}

/// # Safety
/// `count` rows of `len` floats are readable at the input and writable at the output, a row at the
/// factors and at the shifts; the machine has the instruction set.
type Run = unsafe fn(&Rows);

/// The order of operations behind the mean and `r`, 1 over the deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerNormOrder {
    /// `x * f + (shift - mean * f)` with `f = r * factor`: TensorFlow's.
    Moved,
    /// `((x - mean) * r) * factor + shift`: PyTorch's.
    Distance,
}

/// Best first.
fn variants(order: LayerNormOrder) -> Variants<Run> {
    match order {
        LayerNormOrder::Moved => variants!(LayerNormVectors<Moved>, scalar::<Moved>),
        LayerNormOrder::Distance => variants!(LayerNormVectors<Distance>, scalar::<Distance>),
    }
}

/// Layer normalisation of rows of so many columns.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    variant: Variant<Run>,
    columns: usize,
    /// What is added to the variance.
    little: f32,
}

impl LayerNorm {
    /// Takes the best variant up to `isa`, for rows of `columns` columns, with what is added to the
    /// variance. `None` without columns.
    pub fn new(isa: Isa, order: LayerNormOrder, columns: usize, little: f32) -> Option<Self> {
        let variant = variants(order).best(isa);
        (columns > 0).then_some(Self { variant, columns, little })
    }

    /// The variant that was chosen.
    pub fn isa(self) -> Isa {
        self.variant.isa
    }

    /// Normalises whole rows; `factors` and `shifts` have an element for each column. The output
    /// may be the very input.
    ///
    /// # Errors
    /// Lengths differ, or the run is to end.
    pub fn compute(
        self,
        rows: In<'_, f32>,
        factors: In<'_, f32>,
        shifts: In<'_, f32>,
        output: Out<'_, f32>,
    ) -> Result<(), String> {
        let Self { variant, columns: len, little } = self;
        check_lengths(factors.len(), len)?;
        check_lengths(shifts.len(), len)?;
        check_lengths(output.len(), rows.len())?;
        check_lengths(output.len() / len * len, output.len())?;
        let (factors, shifts) = (factors.as_ptr(), shifts.as_ptr());
        // Together as many as are worked on between two reports.
        let together = (poll::CHUNK / len).max(1) * len;
        for start in (0..rows.len()).step_by(together) {
            let part = start..rows.len().min(start + together);
            poll::work(part.len() * ELEMENT_NS)?;
            let count = part.len() / len;
            let (input, output) = (rows.slice(part.clone()), output.slice(part));
            let (input, output) = (input.as_ptr(), output.as_mut_ptr());
            // SAFETY: lengths as checked; an input that overlaps its output is the whole of it, as
            // tensors are; `best` chose what the machine has.
            unsafe {
                (variant.run)(&Rows { input, output, factors, shifts, len, count, little });
            }
        }
        Ok(())
    }
}

/// Nanoseconds that an element takes at most, about.
const ELEMENT_NS: usize = 8;

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar<E: Expression>(rows: &Rows) {
    let &Rows { input, output, factors, shifts, len, count, .. } = rows;
    for start in (0..count).map(|row| row * len) {
        // SAFETY: within the rows.
        unsafe {
            let (from, to) = (input.add(start), output.add(start));
            let mean = rows.mean(sum::<Itself>(from, len, 0.0));
            let inverse = rows.inverse(sum::<Square>(from, len, mean));
            for at in 0..len {
                let x = from.add(at).read_unaligned();
                let factor = factors.add(at).read_unaligned();
                let shift = shifts.add(at).read_unaligned();
                to.add(at).write_unaligned(E::of_one(x, [mean, inverse], factor, shift));
            }
        }
    }
}

#[cfg(test)]
mod tests;
