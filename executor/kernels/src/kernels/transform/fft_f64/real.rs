//! Transforms of real rows: those of half as many complex points, the even ones of the row and the
//! odd ones, and then what each has of the row's.

use super::pass::times;
use super::{Complex, Fft, LANES, turn};
use crate::kernels::plain::Loop;
use crate::simd::Isa;
use crate::tensor::poll;

/// Transforms of rows of so many real points.
#[derive(Clone, Debug)]
pub struct RealFft {
    points: usize,
    /// Of half the points, if there are two or more.
    half: Fft,
    /// Of each result, half a clockwise turn of as many steps, less a quarter.
    factors: Vec<Complex>,
}

impl RealFft {
    /// Of `points` points. `None` where these are no power of two.
    pub fn new(isa: Isa, points: usize) -> Option<Self> {
        if !points.is_power_of_two() {
            return None;
        }
        let half = Fft::new(isa, (points / 2).max(1))?;
        let factor = |at: usize| {
            let [cos, sin] = turn(at, points);
            // Divided by two, and a quarter turn further.
            [sin / 2.0, -cos / 2.0]
        };
        let factors = (0..=points / 2).map(factor).collect();
        Some(Self { points, half, factors })
    }

    /// The instruction set that the loops are compiled for.
    pub fn isa(&self) -> Isa {
        self.half.isa()
    }

    /// Results of a row; the others follow from them.
    pub fn results(points: usize) -> usize {
        points / 2 + 1
    }

    /// Numbers of scratch memory for so many rows of so many points.
    pub fn scratch(points: usize, rows: usize) -> usize {
        points + (2 * points + 2 * Self::results(points)) * Fft::lanes(points, rows)
    }

    /// Transforms so many rows, each of which `fill` brings and the results of which `give` gets.
    ///
    /// # Errors
    /// The run is to end.
    ///
    /// # Panics
    /// The scratch memory is shorter than [`RealFft::scratch`] says.
    pub fn compute(
        &self,
        rows: usize,
        scratch: &mut [f64],
        mut fill: impl FnMut(usize, &mut [f64]),
        mut give: impl FnMut(usize, usize, Complex),
    ) -> Result<(), poll::Halted> {
        let (pairs, results) = (self.points / 2, Self::results(self.points));
        let lanes = Fft::lanes(self.points, rows);
        let (row, buffers) = scratch.split_at_mut(self.points);
        let (one, buffers) = buffers.split_at_mut(2 * pairs * lanes);
        let (other, buffers) = buffers.split_at_mut(2 * pairs * lanes);
        let spectrum = &mut buffers[..2 * results * lanes];
        for first in (0..rows).step_by(lanes) {
            let here = lanes.min(rows - first);
            poll::work(4 * here * self.points + 8)?;
            let (real, imaginary) = one.split_at_mut(pairs * lanes);
            for lane in 0..here {
                fill(first + lane, row);
                if pairs == 0 {
                    give(first + lane, 0, [row[0], 0.0]);
                    continue;
                }
                let real = real[lane..].iter_mut().step_by(lanes);
                let imaginary = imaginary[lane..].iter_mut().step_by(lanes);
                for ((real, imaginary), pair) in real.zip(imaginary).zip(row.as_chunks::<2>().0) {
                    [*real, *imaginary] = *pair;
                }
            }
            if pairs == 0 {
                continue;
            }
            let points = self.half.compute(lanes, one, other)?;
            let part = Separate { factors: &self.factors, lanes, points, spectrum };
            self.isa().run(part);
            let (real, imaginary) = spectrum.split_at(results * lanes);
            for lane in 0..here {
                let real = real[lane..].iter().step_by(lanes);
                let numbers = real.zip(imaginary[lane..].iter().step_by(lanes)).enumerate();
                numbers.for_each(|(at, (&x, &y))| give(first + lane, at, [x, y]));
            }
        }
        Ok(())
    }
}

/// What the points of the half transform have of the row's: the sum with the conjugate of the one
/// at the other end, and the difference turned.
struct Separate<'a> {
    factors: &'a [Complex],
    lanes: usize,
    /// All real parts, then all imaginary ones.
    points: &'a [f64],
    spectrum: &'a mut [f64],
}

impl Loop for Separate<'_> {
    #[inline(always)]
    fn run(self) {
        match self.lanes {
            1 => self.by::<1>(),
            _ => self.by::<LANES>(),
        }
    }
}

impl Separate<'_> {
    #[inline(always)]
    fn by<const N: usize>(self) {
        let (real, imaginary) = self.points.split_at(self.points.len() / 2);
        let (real, imaginary) = (real.as_chunks::<N>().0, imaginary.as_chunks::<N>().0);
        let half = self.spectrum.len() / 2;
        let (to_real, to_imaginary) = self.spectrum.split_at_mut(half);
        let to_real = to_real.as_chunks_mut::<N>().0;
        let to_imaginary = to_imaginary.as_chunks_mut::<N>().0;
        let pairs = real.len();
        for (at, &factor) in self.factors.iter().enumerate() {
            let (here, there) = (at % pairs, (pairs - at) % pairs);
            let (a, b) = ([&real[here], &imaginary[here]], [&real[there], &imaginary[there]]);
            let (x, y) = (&mut to_real[at], &mut to_imaginary[at]);
            for lane in 0..N {
                let sum = [a[0][lane] + b[0][lane], a[1][lane] - b[1][lane]];
                let turned = times([a[0][lane] - b[0][lane], a[1][lane] + b[1][lane]], factor);
                (x[lane], y[lane]) = (sum[0] / 2.0 + turned[0], sum[1] / 2.0 + turned[1]);
            }
        }
    }
}
