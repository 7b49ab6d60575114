//! Pooling of floats: the largest element of each window, or their mean.
//!
//! Sums are those of a plain loop over the lines of a window, in every variant.

mod vectors;

use self::vectors::PoolVectors;
use super::pool_windows::{PoolWindows, WindowPart};
use crate::simd::vector_f32::F32Lanes;
use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::quant::clamp_real;
use crate::tensor::{In, Out};

/// A part of the windows, and what becomes of what was folded.
#[derive(Clone, Copy, Debug)]
struct Pooled {
    part: WindowPart<f32>,
    /// What a sum is multiplied by.
    factor: f32,
    low: f32,
    high: f32,
}

/// # Safety
/// The elements of the windows are readable, their results writable; the machine has the
/// instruction set.
type Run = unsafe fn(&Pooled);

/// What is made of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The largest element: what is no number is never larger.
    Max,
    /// The sum of all over their number.
    Mean,
}

/// How the elements of a window are folded.
trait Fold {
    /// What an empty window has.
    const FIRST: f32;
    fn number(folded: f32, x: f32) -> f32;
    fn vector<V: F32Lanes>(folded: V, x: V) -> V;
    /// The result of all.
    fn result(folded: f32, factor: f32) -> f32;
    fn results<V: F32Lanes>(folded: V, factor: V) -> V;
}

struct Largest;

impl Fold for Largest {
    const FIRST: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    fn number(folded: f32, x: f32) -> f32 {
        if x > folded { x } else { folded }
    }

    #[inline(always)]
    fn vector<V: F32Lanes>(folded: V, x: V) -> V {
        x.larger(folded)
    }

    #[inline(always)]
    fn result(folded: f32, _: f32) -> f32 {
        folded
    }

    #[inline(always)]
    fn results<V: F32Lanes>(folded: V, _: V) -> V {
        folded
    }
}

struct Sum;

impl Fold for Sum {
    const FIRST: f32 = 0.0;

    #[inline(always)]
    fn number(folded: f32, x: f32) -> f32 {
        folded + x
    }

    #[inline(always)]
    fn vector<V: F32Lanes>(folded: V, x: V) -> V {
        folded.add(x)
    }

    #[inline(always)]
    fn result(folded: f32, factor: f32) -> f32 {
        folded * factor
    }

    #[inline(always)]
    fn results<V: F32Lanes>(folded: V, factor: V) -> V {
        folded.mul(factor)
    }
}

/// Best first.
const fn variants_of(pooling: Pooling) -> Variants<Run> {
    match pooling {
        Pooling::Max => variants!(PoolVectors<Largest>, scalar::<Largest>),
        Pooling::Mean => variants!(PoolVectors<Sum>, scalar::<Sum>),
    }
}

/// Pooling of floats in its best variant.
#[derive(Clone, Copy, Debug)]
pub struct PoolF32 {
    variant: Variant<Run>,
    range: (f32, f32),
}

impl PoolF32 {
    /// Takes the best variant up to `isa`; results are within `range`.
    pub fn new(isa: Isa, pooling: Pooling, range: (f32, f32)) -> Self {
        Self { variant: variants_of(pooling).best(isa), range }
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Computes the results of windows; `input` and `output` begin with the first window's first
    /// element and result.
    ///
    /// # Errors
    /// The windows are over other elements than there are, or the run is to end.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a window has fewer than 2^24 elements or is near enough"
    )]
    pub fn compute(
        &self,
        windows: PoolWindows,
        input: In<'_, f32>,
        output: Out<'_, f32>,
    ) -> Result<(), String> {
        let factor = 1.0 / windows.rows.saturating_mul(windows.columns).max(1) as f32;
        let (low, high) = self.range;
        windows.each_part(input, output, |&part| {
            // SAFETY: the parts are of elements that are there; `best` chose what the machine has.
            unsafe { (self.variant.run)(&Pooled { part, factor, low, high }) };
        })
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar<F: Fold>(&Pooled { part, factor, low, high }: &Pooled) {
    let windows = part.windows;
    for (window, lane) in
        (0..windows.count).flat_map(|window| (0..windows.lanes).map(move |lane| (window, lane)))
    {
        let first = part.input.wrapping_add(window * windows.distance + lane);
        // SAFETY: within the results, and within the windows.
        unsafe {
            let to = part.output.add(window * windows.pitch + lane);
            let mut folded = if part.begins { F::FIRST } else { to.read_unaligned() };
            for row in 0..windows.rows {
                for column in 0..windows.columns {
                    let at = row * windows.line + column * windows.column;
                    folded = F::number(folded, first.wrapping_add(at).read_unaligned());
                }
            }
            if part.ends {
                folded = clamp_real(F::result(folded, factor), low, high);
            }
            to.write_unaligned(folded);
        }
    }
}

#[cfg(test)]
mod tests;
