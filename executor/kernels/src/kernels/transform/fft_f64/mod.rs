//! Discrete Fourier transforms of powers of two of points, in double precision: of several rows at
//! a time, whose points lie side by side, or of one.
//!
//! Steps of four points each, from one buffer to another, leave their results in order: no point
//! changes its place beforehand, and what is computed together is read and written together.

mod pass;
mod real;

use std::f64::consts::TAU;

use self::pass::Pass;
use crate::simd::Isa;
use crate::tensor::poll;

pub use real::RealFft;

/// Rows at a time, where there are several.
pub const LANES: usize = 8;

/// A complex number: real and imaginary part.
pub type Complex = [f64; 2];

/// The factors of the second, third and fourth of four points.
type Factors = [Complex; 3];

/// Transforms of so many points.
#[derive(Clone, Debug)]
pub struct Fft {
    isa: Isa,
    points: usize,
    /// Of each step, those of the first quarter of its points.
    steps: Vec<Vec<Factors>>,
}

impl Fft {
    /// Of `points` points. `None` where these are no power of two.
    pub fn new(isa: Isa, points: usize) -> Option<Self> {
        if !points.is_power_of_two() {
            return None;
        }
        let mut steps = Vec::new();
        let mut left = points;
        while left >= 4 {
            let factors = |at: usize| [turn(at, left), turn(2 * at, left), turn(3 * at, left)];
            steps.push((0..left / 4).map(factors).collect());
            left /= 4;
        }
        Some(Self { isa: isa.of_loops(), points, steps })
    }

    /// The instruction set that the loops are compiled for.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// How many rows of the given ones are transformed at a time: one, or [`LANES`].
    pub fn lanes(points: usize, rows: usize) -> usize {
        /// Points of a row, so that all buffers stay in L2.
        const MOST: usize = 1 << 12;
        if rows > 1 && points <= MOST { LANES } else { 1 }
    }

    /// Transforms `lanes` rows, the points of which lie side by side: `from` has all real parts and
    /// then all imaginary ones, and is written over. Returns whichever of the buffers, which are
    /// as long, has the results.
    ///
    /// # Errors
    /// The run is to end.
    ///
    /// # Panics
    /// The buffers are of another length, or `lanes` is neither one nor [`LANES`].
    pub fn compute<'a>(
        &self,
        lanes: usize,
        from: &'a mut [f64],
        to: &'a mut [f64],
    ) -> Result<&'a mut [f64], poll::Halted> {
        assert!(lanes == 1 || lanes == LANES, "{lanes} lanes");
        assert!([from.len(), to.len()] == [2 * lanes * self.points; 2], "lengths of buffers");
        let (mut from, mut to) = (from, to);
        let mut stride = lanes;
        for factors in &self.steps {
            Pass::Four(factors).run(self.isa, stride, from, to)?;
            (from, to, stride) = (to, from, 4 * stride);
        }
        if self.points.trailing_zeros() % 2 == 1 {
            Pass::Two.run(self.isa, stride, from, to)?;
            return Ok(to);
        }
        Ok(from)
    }
}

/// So many of `points` steps of a turn, clockwise. Quarters of a turn are exact, so that what
/// cancels out is 0.
fn turn(at: usize, points: usize) -> Complex {
    let quarters = 4 * (at % points);
    let within = quarters % points;
    #[expect(clippy::cast_precision_loss, reason = "points are below 2^53")]
    let (sin, cos) = (TAU / 4.0 * within as f64 / points as f64).sin_cos();
    match quarters / points {
        0 => [cos, -sin],
        1 => [-sin, -cos],
        2 => [-cos, sin],
        _ => [sin, cos],
    }
}

#[cfg(test)]
mod tests;
