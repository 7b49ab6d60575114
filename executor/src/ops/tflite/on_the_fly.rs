//! Floats that are quantised on the fly: rows become bytes as products take them, and sums of
//! products become floats.

use std::ops::Range;

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{Element, In, Out, poll};

use super::arg::Activation;
use super::math::{f32_of, narrow, round_f64};

/// The elements between two polls: a row may be a whole image.
const PIECE: usize = 4096;

/// The way in which rows of floats become signed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnTheFly {
    /// 127 steps to the greatest size; the zero point is 0.
    Symmetric,
    /// All of -128 to 127 between the least, or 0, and the greatest, or 0.
    Asymmetric,
}

/// The quantisation of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RowScale {
    pub(super) scale: f32,
    pub(super) zero_point: i32,
}

impl OnTheFly {
    /// The way of a tensor: with a zero point where that is asked for.
    pub(super) fn new(is_asymmetric: bool) -> Self {
        if is_asymmetric { Self::Asymmetric } else { Self::Symmetric }
    }

    /// Quantises a row to bytes, in each of which the bits `flip` are then flipped.
    pub(super) fn quantise(self, isa: Isa, row: In<'_, f32>, flip: u8, to: &mut [u8]) -> RowScale {
        self.quantise_to(isa, row, to, move |stored, _| {
            let [byte, ..] = (stored + INTEGER).to_bits().to_le_bytes();
            byte ^ flip
        })
    }

    /// Quantises a row to the same integers, less their zero point, as floats.
    pub(super) fn quantise_to_floats(self, isa: Isa, row: In<'_, f32>, to: &mut [f32]) -> RowScale {
        self.quantise_to(isa, row, to, |stored, zero_point| stored - zero_point)
    }

    /// `made` gives the element of an integer and of the zero point, both as floats.
    fn quantise_to<T: Element>(
        self,
        isa: Isa,
        row: In<'_, f32>,
        to: &mut [T],
        made: impl Fn(f32, f32) -> T + Copy,
    ) -> RowScale {
        let mut of = RowScale { scale: 1.0, zero_point: 0 };
        // A short row is one piece, and reports nothing.
        if row.len() <= PIECE {
            isa.run(Short { way: self, row, made, to, of: &mut of });
            return of;
        }
        let (mut low, mut high) = (0.0, 0.0);
        for start in poll::each((0..row.len()).step_by(PIECE), PIECE) {
            let row = row.slice(start..row.len().min(start + PIECE));
            isa.run(Extremes { row, low: &mut low, high: &mut high });
        }
        let Some((found, inverse)) = self.scale(low, high) else {
            to.fill(made(0.0, 0.0));
            return of;
        };
        of = found;
        let (zero_point, range) = (of.zero_point, self.range());
        for (at, to) in poll::each(to.chunks_mut(PIECE).enumerate(), PIECE) {
            let from = row.slice(at * PIECE..at * PIECE + to.len());
            isa.run(Quantise { from, inverse, zero_point, range, made, to });
        }
        of
    }

    /// The scale of a row and its inverse; `None` where all are 0.
    #[inline(always)]
    fn scale(self, low: f32, high: f32) -> Option<(RowScale, f32)> {
        match self {
            Self::Symmetric => symmetric(low, high),
            Self::Asymmetric => asymmetric(low, high),
        }
    }

    fn range(self) -> (i32, i32) {
        match self {
            Self::Symmetric => (-127, 127),
            Self::Asymmetric => (-128, 127),
        }
    }
}

/// A row of one piece.
struct Short<'a, T, F> {
    way: OnTheFly,
    row: In<'a, f32>,
    made: F,
    to: &'a mut [T],
    of: &'a mut RowScale,
}

impl<T: Element, F: Fn(f32, f32) -> T> Loop for Short<'_, T, F> {
    #[inline(always)]
    fn run(self) {
        let Self { way, row, made, to, of } = self;
        let (mut low, mut high) = (0.0, 0.0);
        Extremes { row, low: &mut low, high: &mut high }.run();
        let Some((found, inverse)) = way.scale(low, high) else {
            to.fill(made(0.0, 0.0));
            return;
        };
        *of = found;
        let (zero_point, range) = (found.zero_point, way.range());
        Quantise { from: row, inverse, zero_point, range, made, to }.run();
    }
}

#[inline(always)]
fn symmetric(low: f32, high: f32) -> Option<(RowScale, f32)> {
    let size = high.max(-low);
    (size != 0.0).then(|| (RowScale { scale: size / 127.0, zero_point: 0 }, 127.0 / size))
}

fn asymmetric(low: f32, high: f32) -> Option<(RowScale, f32)> {
    if low == high {
        return None;
    }
    // TFLite takes the difference in single precision, and all that follows from it in double.
    let scale = f64::from(high - low) / 255.0;
    let (low, high) = (f64::from(low), f64::from(high));
    let (from_min, from_max) = (-128.0 - low / scale, 127.0 - high / scale);
    let error_min = 128.0 + (low / scale).abs();
    let error_max = 127.0 + (high / scale).abs();
    let zero = if error_min < error_max { from_min } else { from_max };
    let zero_point = if zero <= -128.0 {
        -128
    } else if zero >= 127.0 {
        127
    } else {
        round_f64(zero)
    };
    let scale = narrow(scale);
    Some((RowScale { scale, zero_point }, 1.0 / scale))
}

/// The least and the greatest of a row and of what is known already.
struct Extremes<'a> {
    row: In<'a, f32>,
    low: &'a mut f32,
    high: &'a mut f32,
}

impl Loop for Extremes<'_> {
    #[inline(always)]
    fn run(mut self) {
        match self.row.len() {
            32.. => self.blocks::<32>(),
            16.. => self.blocks::<16>(),
            8.. => self.blocks::<8>(),
            len => {
                for at in 0..len {
                    let x = self.row.get(at);
                    *self.low = if x < *self.low { x } else { *self.low };
                    *self.high = if x > *self.high { x } else { *self.high };
                }
            }
        }
    }
}

impl Extremes<'_> {
    /// The last block of a row, which has one at least, overlaps the one before.
    #[inline(always)]
    fn blocks<const N: usize>(&mut self) {
        let (mut lows, mut highs) = ([*self.low; N], [*self.high; N]);
        let (mut at, last) = (0, self.row.len() - N);
        loop {
            let block = self.row.block::<N>(at);
            // By reference: to be iterated over by value, a block would go through memory.
            for ((low, high), &x) in lows.iter_mut().zip(&mut highs).zip(&block) {
                *low = if x < *low { x } else { *low };
                *high = if x > *high { x } else { *high };
            }
            if at == last {
                break;
            }
            at = last.min(at + N);
        }
        // Half by half: one after the other would take longer than the row.
        halve(&mut lows, |low, x| if x < low { x } else { low });
        halve(&mut highs, |high, x| if x > high { x } else { high });
        (*self.low, *self.high) = (lows[0], highs[0]);
    }
}

/// Brings lanes, a power of two and 32 at most, together in the first.
#[inline(always)]
fn halve(lanes: &mut [f32], each: impl Fn(f32, f32) -> f32 + Copy) {
    for half in [16, 8, 4, 2, 1] {
        if half < lanes.len() {
            let (to, from) = lanes.split_at_mut(half);
            for (to, from) in to.iter_mut().zip(from) {
                *to = each(*to, *from);
            }
        }
    }
}

/// Floats become integers: `x * inverse`, rounded with halves away from zero, then `zero_point`
/// added, within the range.
struct Quantise<'a, T, F> {
    from: In<'a, f32>,
    inverse: f32,
    zero_point: i32,
    range: (i32, i32),
    made: F,
    to: &'a mut [T],
}

impl<T: Element, F: Fn(f32, f32) -> T> Loop for Quantise<'_, T, F> {
    #[inline(always)]
    fn run(mut self) {
        match self.to.len() {
            32.. => self.blocks::<32>(),
            16.. => self.blocks::<16>(),
            8.. => self.blocks::<8>(),
            _ => self.blocks::<1>(),
        }
    }
}

impl<T: Element, F: Fn(f32, f32) -> T> Quantise<'_, T, F> {
    /// The last block of a row overlaps the one before.
    #[inline(always)]
    fn blocks<const N: usize>(&mut self) {
        let (zero_point, inverse) = (f32_of(self.zero_point), self.inverse);
        let range = (f32_of(self.range.0), f32_of(self.range.1));
        let Some(last) = self.to.len().checked_sub(N) else { return };
        let mut at = 0;
        loop {
            let floats = self.from.block::<N>(at);
            for (element, &x) in self.to[at..at + N].iter_mut().zip(&floats) {
                *element = (self.made)(stored(x, inverse, zero_point, range), zero_point);
            }
            if at == last {
                return;
            }
            at = last.min(at + N);
        }
    }
}

/// Added to a small integer it leaves that in the low bits, without the saturation of a cast.
const INTEGER: f32 = 12_582_912.0;

/// The integer of a float, as one; what is no number becomes the least.
#[inline(always)]
fn stored(x: f32, inverse: f32, zero_point: f32, range: (f32, f32)) -> f32 {
    let (least, greatest) = range;
    let rounded = zero_point + (x * inverse).round();
    let low = if rounded > least { rounded } else { least };
    if low < greatest { low } else { greatest }
}

/// What makes floats of the sums of products, but for the quantisation of their row.
#[derive(Clone, Debug)]
pub(super) struct Dequantiser {
    /// Of each unit's weights.
    pub(super) scales: Vec<f32>,
    /// Of each unit the sum of its weights, which a row's zero point is multiplied with.
    pub(super) sums_of_weights: Vec<i32>,
    pub(super) activation: Activation,
    /// True where both scales are multiplied first, as dense layers do; else the sum is multiplied
    /// with the weights' first.
    pub(super) joins_scales: bool,
}

impl Activation {
    /// Applies to results that are within [`Activation::real_range`] what else it does.
    pub(super) fn finish(self, results: Out<'_, f32>) {
        if !self.is_range() {
            for at in poll::each(0..results.len(), 8) {
                results.set(at, self.apply(results.as_in().get(at)));
            }
        }
    }
}

impl Dequantiser {
    /// Makes floats of a row's sums of some units, those that come first; a bias is of all.
    pub(super) fn run(
        &self,
        isa: Isa,
        units: Range<usize>,
        sums: &[i32],
        row: RowScale,
        bias: Option<In<'_, f32>>,
        output: Out<'_, f32>,
    ) {
        let (scales, range) = (&self.scales[units.clone()], self.activation.real_range());
        let sums_of_weights = &self.sums_of_weights[units.clone()];
        let bias = bias.map(|bias| bias.slice(units));
        let joins_scales = self.joins_scales;
        isa.run(Dequantise {
            scales,
            sums_of_weights,
            joins_scales,
            sums,
            row,
            bias,
            range,
            output,
        });
        self.activation.finish(output);
    }
}

/// Real numbers of sums that are floats themselves, in their place: times the scale of each
/// channel and that of their row, with the bias, within the range. Rows are of all channels.
pub(super) struct DequantiseFloats<'a> {
    pub(super) sums: Out<'a, f32>,
    pub(super) scales: &'a [f32],
    pub(super) row_scale: f32,
    pub(super) bias: Option<In<'a, f32>>,
    pub(super) range: (f32, f32),
}

impl Loop for DequantiseFloats<'_> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 16;
        let units = self.scales.len();
        let whole = units / BLOCK * BLOCK;
        for row in (0..self.sums.len()).step_by(units.max(1)) {
            (0..whole).step_by(BLOCK).for_each(|unit| self.block::<BLOCK>(row, unit));
            (whole..units).for_each(|unit| self.block::<1>(row, unit));
        }
    }
}

impl DequantiseFloats<'_> {
    #[inline(always)]
    fn block<const N: usize>(&self, row: usize, unit: usize) {
        let (low, high) = self.range;
        let bias = self.bias.map_or([0.0; N], |bias| bias.block::<N>(unit));
        let mut reals = self.sums.as_in().block::<N>(row + unit);
        for ((real, scale), bias) in reals.iter_mut().zip(&self.scales[unit..unit + N]).zip(bias) {
            let x = *real * (scale * self.row_scale) + bias;
            let x = if x < low { low } else { x };
            *real = if x > high { high } else { x };
        }
        self.sums.set_block(row + unit, reals);
    }
}

/// [`Dequantiser`] with the sums of some units.
struct Dequantise<'a> {
    scales: &'a [f32],
    sums_of_weights: &'a [i32],
    joins_scales: bool,
    sums: &'a [i32],
    row: RowScale,
    bias: Option<In<'a, f32>>,
    range: (f32, f32),
    output: Out<'a, f32>,
}

impl Loop for Dequantise<'_> {
    #[inline(always)]
    fn run(self) {
        if self.joins_scales { self.all::<true>() } else { self.all::<false>() }
    }
}

impl Dequantise<'_> {
    #[inline(always)]
    fn all<const JOINS: bool>(&self) {
        const BLOCK: usize = 32;
        // A vector of floats on most machines: layers of few units have blocks as well.
        const SMALL: usize = 8;
        let units = self.scales.len();
        let (whole, small) = (units / BLOCK * BLOCK, units / SMALL * SMALL);
        // No closures: the compiler would make functions of them, without vectors.
        for unit in (0..whole).step_by(BLOCK) {
            self.block::<BLOCK, JOINS>(unit);
        }
        for unit in (whole..small).step_by(SMALL) {
            self.block::<SMALL, JOINS>(unit);
        }
        for unit in small..units {
            self.block::<1, JOINS>(unit);
        }
    }

    #[inline(always)]
    fn block<const N: usize, const JOINS: bool>(&self, unit: usize) {
        let (scale, zero_point) = (self.row.scale, self.row.zero_point);
        let (low, high) = self.range;
        let units = unit..unit + N;
        let bias = self.bias.map_or([0.0; N], |bias| bias.block::<N>(unit));
        let mut reals = [0.0; N];
        let sums = self.sums[units.clone()].iter().zip(&self.sums_of_weights[units.clone()]);
        let scales = self.scales[units].iter().zip(bias);
        for ((real, (sum, weights)), (own, bias)) in reals.iter_mut().zip(sums).zip(scales) {
            let sum = f32_of(sum.wrapping_sub(zero_point.wrapping_mul(*weights)));
            let x = if JOINS { sum * (scale * own) } else { sum * own * scale } + bias;
            let x = if x < low { low } else { x };
            *real = if x > high { high } else { x };
        }
        self.output.set_block(unit, reals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows shorter and longer than a vector and than a piece.
    fn rows() -> impl Iterator<Item = Vec<f32>> {
        let value = |at: usize| f32_of(i32::try_from(at * 37 % 101).unwrap() - 40) / 8.0;
        [1, 5, 31, 32, 33, 200, PIECE + 3].into_iter().map(move |len| (0..len).map(value).collect())
    }

    #[test]
    fn bytes_stand_for_their_floats_on_every_machine() {
        for row in rows() {
            for way in [OnTheFly::Symmetric, OnTheFly::Asymmetric] {
                let mut first = None;
                for isa in Isa::all() {
                    let mut bytes = vec![0; row.len()];
                    let of = way.quantise(isa, In::of(&row), 0x80, &mut bytes);
                    for (&x, &byte) in row.iter().zip(&bytes) {
                        let stored = i32::from((byte ^ 0x80).cast_signed()) - of.zero_point;
                        assert!((f32_of(stored) * of.scale - x).abs() <= of.scale * 0.51);
                    }
                    let made = (bytes, of);
                    assert_eq!(first.get_or_insert_with(|| made.clone()), &made, "{isa:?}");
                }
            }
        }
    }

    #[test]
    fn zeros_and_what_is_no_number_are_zeros() {
        for way in [OnTheFly::Symmetric, OnTheFly::Asymmetric] {
            let mut bytes = [7; 3];
            let of = way.quantise(Isa::Scalar, In::of(&[0.0, -0.0, 0.0]), 0, &mut bytes);
            assert_eq!((bytes, of), ([0; 3], RowScale { scale: 1.0, zero_point: 0 }));
            way.quantise(Isa::Scalar, In::of(&[f32::NAN, f32::NAN, f32::NAN]), 0, &mut bytes);
            assert_eq!(bytes, [0; 3]);
        }
    }

    #[test]
    fn rows_as_long_as_images_are_polled() {
        struct Stop;
        impl poll::Poll for Stop {
            fn poll(&self) -> Result<(), poll::Halt> {
                Err(poll::Halt::Stopped)
            }
        }
        let row = vec![1.0; 1 << 20];
        let mut bytes = vec![0; row.len()];
        poll::under(&Stop, || {
            OnTheFly::Symmetric.quantise(Isa::Scalar, In::of(&row), 0, &mut bytes);
            assert_eq!(poll::halted(), Err(poll::Halt::Stopped));
        });
        assert!(bytes.ends_with(&[0]), "the row was quantised to its end all the same");
    }

    #[test]
    fn sums_become_floats_with_bias_and_activation() {
        let units = 19;
        let of = Dequantiser {
            scales: vec![0.5; units],
            sums_of_weights: vec![3; units],
            activation: Activation::Relu6,
            joins_scales: false,
        };
        let bias: Vec<f32> = (0..19u8).map(f32::from).collect();
        let mut sums = [0; 40];
        (sums[18], sums[20]) = (-20, 30);
        for isa in Isa::all() {
            let mut reals = vec![0.0; 2 * units];
            let row = RowScale { scale: 0.25, zero_point: 2 };
            let (first, second) = reals.split_at_mut(units);
            of.run(isa, 0..units, &sums[..20], row, Some(In::of(&bias)), Out::of(first));
            of.run(isa, 0..units, &sums[20..], row, Some(In::of(&bias)), Out::of(second));
            let mut some = [0.0; 3];
            of.run(isa, 16..19, &sums[16..], row, Some(In::of(&bias)), Out::of(&mut some));
            assert_eq!(some, first[16..], "{isa:?}");
            // (sum - 2 * 3) / 8 + bias, within 0 to 6.
            assert_eq!((reals[0], reals[1], reals[7]), (0.0, 0.25, 6.0), "{isa:?}");
            assert_eq!((reals[18], reals[19]), (6.0, 3.0), "{isa:?}");
        }
    }
}
