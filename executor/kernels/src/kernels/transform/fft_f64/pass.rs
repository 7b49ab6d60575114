//! A step of a transform, from one buffer to another.

use super::{Complex, Factors, LANES};
use crate::kernels::plain::Loop;
use crate::simd::Isa;
use crate::tensor::poll;

/// What a step does with points that lie a part of all of them apart.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pass<'a> {
    /// Four, with factors for the others than the first: an element for each such four.
    Four(&'a [Factors]),
    /// The last two.
    Two,
}

impl Pass<'_> {
    /// `stride` numbers lie side by side for each point; both buffers have all real parts and then
    /// all imaginary ones.
    pub(super) fn run(
        self,
        isa: Isa,
        stride: usize,
        from: &[f64],
        to: &mut [f64],
    ) -> Result<(), poll::Halted> {
        /// Nanoseconds that a number takes at most, about.
        const NUMBER_NS: usize = 2;
        /// Numbers between two reports of work.
        const MOST: usize = 1 << 13;
        let (factors, count, points) = match self {
            Self::Four(factors) => (Some(factors), factors.len(), 4),
            Self::Two => (None, 1, 2),
        };
        let (together, part) = ((MOST / (points * stride)).max(1), (MOST / points).max(LANES));
        for first in (0..count).step_by(together) {
            let last = count.min(first + together);
            for start in (0..stride).step_by(part) {
                let end = stride.min(start + part);
                poll::work((last - first) * (end - start) * points * NUMBER_NS)?;
                let (fours, numbers) = ((first, last), (start, end));
                isa.run(Part { factors, from, to, stride, fours, numbers });
            }
        }
        Ok(())
    }
}

/// Some fours, and of each of their points some of the numbers.
struct Part<'a> {
    /// `None` for the last two points.
    factors: Option<&'a [Factors]>,
    from: &'a [f64],
    to: &'a mut [f64],
    stride: usize,
    fours: (usize, usize),
    numbers: (usize, usize),
}

impl Loop for Part<'_> {
    #[inline(always)]
    fn run(self) {
        match self.stride {
            1 => self.by::<1>(),
            4 => self.by::<4>(),
            _ => self.by::<LANES>(),
        }
    }
}

impl Part<'_> {
    /// `N` numbers at a time; there are a multiple of them.
    #[inline(always)]
    fn by<const N: usize>(self) {
        let Self { factors, from, to, stride, fours, numbers } = self;
        let (real, imaginary) = from.split_at(from.len() / 2);
        let (real, imaginary) = (real.as_chunks::<N>().0, imaginary.as_chunks::<N>().0);
        let half = to.len() / 2;
        let (to_real, to_imaginary) = to.split_at_mut(half);
        let to_real = to_real.as_chunks_mut::<N>().0;
        let to_imaginary = to_imaginary.as_chunks_mut::<N>().0;
        let (stride, numbers) = (stride / N, numbers.0 / N..numbers.1 / N);
        let Some(factors) = factors else {
            for at in numbers {
                let (a, b) =
                    ([&real[at], &imaginary[at]], [&real[at + stride], &imaginary[at + stride]]);
                let mut sums = [[0.0; N]; 4];
                for lane in 0..N {
                    sums[0][lane] = a[0][lane] + b[0][lane];
                    sums[1][lane] = a[1][lane] + b[1][lane];
                    sums[2][lane] = a[0][lane] - b[0][lane];
                    sums[3][lane] = a[1][lane] - b[1][lane];
                }
                (to_real[at], to_imaginary[at]) = (sums[0], sums[1]);
                (to_real[at + stride], to_imaginary[at + stride]) = (sums[2], sums[3]);
            }
            return;
        };
        let quarter = factors.len() * stride;
        for four in fours.0..fours.1 {
            let factors = &factors[four];
            for at in numbers.clone() {
                let place = four * stride + at;
                let [a, b, c, d] = [0, 1, 2, 3].map(|point| {
                    let place = place + point * quarter;
                    [&real[place], &imaginary[place]]
                });
                let mut sums = [[[0.0; N]; 2]; 4];
                for lane in 0..N {
                    let [a, b, c, d] = [a, b, c, d].map(|of| [of[0][lane], of[1][lane]]);
                    let (even, odd) = (plus(a, c), plus(b, d));
                    let (less, turned) = (minus(a, c), minus(b, d));
                    // A quarter turn, clockwise.
                    let turned = [turned[1], -turned[0]];
                    let results = [
                        plus(even, odd),
                        times(plus(less, turned), factors[0]),
                        times(minus(even, odd), factors[1]),
                        times(minus(less, turned), factors[2]),
                    ];
                    for (sum, result) in sums.iter_mut().zip(&results) {
                        (sum[0][lane], sum[1][lane]) = (result[0], result[1]);
                    }
                }
                for (point, sum) in sums.iter().enumerate() {
                    let place = (4 * four + point) * stride + at;
                    (to_real[place], to_imaginary[place]) = (sum[0], sum[1]);
                }
            }
        }
    }
}

#[inline(always)]
fn plus(a: Complex, b: Complex) -> Complex {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline(always)]
fn minus(a: Complex, b: Complex) -> Complex {
    [a[0] - b[0], a[1] - b[1]]
}

#[inline(always)]
pub(super) fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}
