//! AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D: windows over height and width.

use std::ops::Range;

use nnburst_hal::FusedActivation;

use super::mean::divide_round;
use super::support::{Axis, Image, Window, by_real, dispatch, same_quantisation};
use super::{Op, conv};
use crate::element::{Element, Quantised, Real};
use crate::error::OpError;
use crate::io::{In, Out};
use crate::plan::{Label, Lowered, OpBuilder};
use crate::quant::{activation_range, clamp_real, real_activation_range};

pub(super) static AVERAGE_POOL_2D: Op = Op { lower: |op| lower(op, Kind::Average) };
pub(super) static MAX_POOL_2D: Op = Op { lower: |op| lower(op, Kind::Max) };
pub(super) static L2_POOL_2D: Op = Op { lower: |op| lower(op, Kind::L2) };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Average,
    Max,
    L2,
}

/// A pooling with its operands read.
#[derive(Clone, Copy, Debug)]
struct Pool {
    kind: Kind,
    input: Image,
    output: Image,
    vertical: Axis,
    horizontal: Axis,
    activation: FusedActivation,
}

/// Padding never takes part: averages divide by the elements that are really there.
///
/// Source: NNAPI `AVERAGE_POOL_2D`, `MAX_POOL_2D`, `L2_POOL_2D` (float alone), since HAL 1.0; NCHW since
/// 1.2; signed since 1.3.
fn lower(op: &mut OpBuilder<'_>, kind: Kind) -> Lowered {
    let input = op.input(0)?;
    let explicit = op.input_count() >= 10;
    let (window, next) = Window::read(op, 1, explicit)?;
    let (filter_w, filter_h) = (op.extent(next, 1)?, op.extent(next + 1, 1)?);
    let activation = op.fused_activation(next + 2)?;
    let nchw = op.nchw(next + 3)?;
    let image = Image::of(0, &input.shape, nchw)?;
    let (vertical, horizontal) = window.axes(&image, filter_h, filter_w)?;
    let output =
        Image::new([image.batches, vertical.output, horizontal.output, image.channels], nchw);
    op.set_output(0, output.shape()?)?;
    let pool = Pool { kind, input: image, output, vertical, horizontal, activation };
    if kind == Kind::L2 {
        return by_real!(input.kind, real(op, pool));
    }
    dispatch!(input.kind, 0, real: real(op, pool), byte: byte(op, pool))
}

impl Pool {
    /// Lines of the output, those of all images.
    fn lines(&self) -> usize {
        self.output.batches * self.output.height
    }

    fn label(&self, kernel: &'static str) -> Result<Label, OpError> {
        let window = self.vertical.filter.saturating_mul(self.horizontal.filter);
        let filter = (self.vertical.filter, self.horizontal.filter);
        conv::label(kernel, (&self.input, &self.output), filter, window)
    }

    /// Folds the elements of every window of some lines, as many channels side by side as lie side by side in memory, and
    /// finishes each fold with the number of elements in it. `sums` has room for a pixel's channels.
    fn fold<T: Element, S: Copy>(
        &self,
        lines: Range<usize>,
        (input, output): (In<'_, T>, Out<'_, T>),
        sums: &mut [S],
        first: S,
        fold: impl Fn(S, T) -> S,
        finish: impl Fn(S, usize) -> T,
    ) {
        let Self { input: from, output: to, vertical, horizontal, .. } = self;
        let lanes = if to.is_nchw() { 1 } else { to.channels };
        let Some(sums) = sums.get_mut(..lanes) else { return };
        for pixel in lines.start * to.width..lines.end * to.width {
            let (x, line) = (pixel % to.width, pixel / to.width);
            let (y, batch) = (line % to.height, line / to.height);
            let (rows, columns) = (vertical.covered(y), horizontal.covered(x));
            let count = rows.len() * columns.len();
            for channel in (0..to.channels).step_by(lanes) {
                sums.fill(first);
                for row in rows.clone() {
                    for column in columns.clone() {
                        let at = from.at(batch, row, column, channel);
                        let elements = input.slice(at..at + lanes).iter();
                        sums.iter_mut().zip(elements).for_each(|(sum, x)| *sum = fold(*sum, x));
                    }
                }
                let at = to.at(batch, y, x, channel);
                let elements = sums.iter().map(|&sum| finish(sum, count));
                output.slice(at..at + lanes).fill(elements);
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a window has fewer than 2^24 elements or is near enough"
)]
fn real<T: Real>(op: &mut OpBuilder<'_>, pool: Pool) -> Lowered {
    let (low, high) = real_activation_range(pool.activation);
    let (label, scratch) = (pool.label("pool_real")?, pool.output.channels * 4);
    op.emit_bands(label, scratch, pool.lines(), move |mut io, lines| {
        let images = (io.input::<T>(0), io.output::<T>(0));
        let sums = io.scratch_slice::<f32>();
        let store = |y: f32| T::from_f32(clamp_real(y, low, high));
        let mean = |sum: f32, count: usize| sum / count.max(1) as f32;
        match pool.kind {
            Kind::Max => {
                let larger = |max: f32, x: T| max.max(x.to_f32());
                pool.fold(lines, images, sums, f32::NEG_INFINITY, larger, |max, _| store(max));
            }
            Kind::Average => {
                let add = |sum, x: T| sum + x.to_f32();
                pool.fold(lines, images, sums, 0.0, add, |sum, n| store(mean(sum, n)));
            }
            Kind::L2 => {
                let add = |sum, x: T| sum + x.to_f32() * x.to_f32();
                pool.fold(lines, images, sums, 0.0, add, |sum, n| store(mean(sum, n).sqrt()));
            }
        }
        Ok(())
    });
    Ok(())
}

fn byte<T: Quantised>(op: &mut OpBuilder<'_>, pool: Pool) -> Lowered {
    let (input, output) = (op.input(0)?, op.output(0)?);
    same_quantisation(&input, &output)?;
    if pool.vertical.filter.saturating_mul(pool.horizontal.filter) > 1 << 23 {
        return Err(OpError::rule("a window of more than 2^23 elements").into());
    }
    let range = (T::MIN, T::MAX);
    let (low, high) = activation_range(pool.activation, input.scale, input.zero_point, range);
    let (label, scratch) = (pool.label("pool_byte")?, pool.output.channels * 4);
    op.emit_bands(label, scratch, pool.lines(), move |mut io, lines| {
        let images = (io.input::<T>(0), io.output::<T>(0));
        let sums = io.scratch_slice::<i32>();
        let store = |y: i32| T::from_i32(y.max(low).min(high));
        if pool.kind == Kind::Max {
            let larger = |max: i32, q: T| max.max(q.to_i32());
            pool.fold(lines, images, sums, T::MIN, larger, |max, _| store(max));
        } else {
            let mean = |sum, n| store(divide_round(sum, i32::try_from(n).unwrap_or(1).max(1)));
            pool.fold(lines, images, sums, 0, |sum, q: T| sum + q.to_i32(), mean);
        }
        Ok(())
    });
    Ok(())
}
