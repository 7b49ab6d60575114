//! AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D: windows over height and width.

use nnburst_hal::FusedActivation;

use super::Op;
use super::mean::divide_round;
use super::support::{Axis, Image, Window, by_real, dispatch, plain, same_quantisation};
use crate::element::{Quantised, Real};
use crate::error::OpError;
use crate::plan::{Lowered, OpBuilder};
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
    let activation = op.activation(next + 2)?;
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
    /// Calls `each(output position, input positions)` for every window.
    fn each(&self, mut each: impl FnMut(usize, &mut dyn Iterator<Item = usize>)) {
        let Self { input, output, vertical, horizontal, .. } = self;
        for batch in 0..output.batches {
            for y in 0..output.height {
                for x in 0..output.width {
                    for c in 0..output.channels {
                        let rows = vertical.taps(y);
                        let mut taps = rows.flat_map(|(_, row)| {
                            let columns = horizontal.taps(x);
                            columns.map(move |(_, column)| input.at(batch, row, column, c))
                        });
                        each(output.at(batch, y, x, c), &mut taps);
                    }
                }
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
    op.emit(plain("pool_real", &pool.output.shape()?, 0), move |io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        pool.each(|at, taps| {
            let values = taps.map(|from| input.get(from).to_f32());
            let y = match pool.kind {
                Kind::Max => values.fold(f32::NEG_INFINITY, f32::max),
                Kind::Average => {
                    let (sum, count) = values.fold((0.0, 0usize), |(s, n), x| (s + x, n + 1));
                    sum / count.max(1) as f32
                }
                Kind::L2 => {
                    let (sum, count) = values.fold((0.0, 0usize), |(s, n), x| (s + x * x, n + 1));
                    (sum / count.max(1) as f32).sqrt()
                }
            };
            output.set(at, T::from_f32(clamp_real(y, low, high)));
        });
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
    op.emit(plain("pool_byte", &pool.output.shape()?, 0), move |io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        pool.each(|at, taps| {
            let values = taps.map(|from| input.get(from).to_i32());
            let y = match pool.kind {
                Kind::Max => values.fold(T::MIN, i32::max),
                Kind::Average | Kind::L2 => {
                    let (sum, count) = values.fold((0, 0), |(s, n), q| (s + q, n + 1));
                    divide_round(sum, count.max(1))
                }
            };
            output.set(at, T::from_i32(y.max(low).min(high)));
        });
        Ok(())
    });
    Ok(())
}
