//! RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR. Indexes and weights along each axis are tables made when the
//! shapes are known.

use super::Op;
use super::support::{Image, by_width, dispatch, plain, same_quantisation};
use crate::element::{Element, Quantised, Real};
use crate::error::OpError;
use crate::io::{In, Io, Out};
use crate::kernels::plain::Loop;
use crate::plan::{Lowered, OpBuilder};
use crate::quant::round_half_away;
use nnburst_hal::OperandType;

pub(super) static RESIZE_BILINEAR: Op = Op { lower: |op| lower(op, true) };
pub(super) static RESIZE_NEAREST_NEIGHBOR: Op = Op { lower: |op| lower(op, false) };

/// The largest height or width that is computed: single precision tells positions apart up to here, and
/// the tables that are made for each of them stay small.
const MAX_EXTENT: usize = 1 << 22;

/// How positions of the output lie over those of the input.
#[derive(Clone, Copy, Debug)]
struct Grid {
    align_corners: bool,
    half_pixel_centers: bool,
}

/// Width comes before height. Sizes are INT32, or factors in float.
///
/// Source: NNAPI `RESIZE_BILINEAR`, since HAL 1.0 (factors and layout since 1.2, corners and centers since
/// 1.3), `RESIZE_NEAREST_NEIGHBOR`, since 1.2.
fn lower(op: &mut OpBuilder<'_>, bilinear: bool) -> Lowered {
    let input = op.input(0)?;
    same_quantisation(&input, &op.output(0)?)?;
    let flag = |index: usize| if op.has_input(index) { op.bool(index) } else { Ok(false) };
    let from = Image::of(0, &input.shape, flag(3)?)?;
    let grid = Grid { align_corners: flag(4)?, half_pixel_centers: flag(5)? };
    if grid.align_corners && grid.half_pixel_centers {
        return Err(OpError::rule("both aligned corners and half-pixel centers").into());
    }
    let (width, height) = (size(op, 1, from.width)?, size(op, 2, from.height)?);
    if width.max(height) > MAX_EXTENT {
        let what = format!("{width} by {height}, more than {MAX_EXTENT}");
        return Err(OpError::rule(what).into());
    }
    let to = Image::new([from.batches, height, width, from.channels], from.is_nchw());
    op.set_output(0, to.shape()?)?;
    if bilinear {
        let rows = grid.taps(from.height, height);
        let columns = grid.taps(from.width, width);
        let taps = Taps { from, to, rows, columns };
        dispatch!(input.kind, 0, real: bilinear_real(op, taps), byte: bilinear_byte(op, taps))
    } else {
        let rows = grid.nearest(from.height, height);
        let columns = grid.nearest(from.width, width);
        by_width!(input.kind, nearest(op, from, to, rows, columns))
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "extents; float casts saturate, and 0 is refused"
)]
fn size(op: &OpBuilder<'_>, index: usize, extent: usize) -> Lowered<usize> {
    if op.input_kind(index)? == OperandType::Int32 {
        return op.extent(index, 1);
    }
    let factor = op.f32(index)?;
    let size = (extent as f32 * factor).floor() as usize;
    if size == 0 {
        return Err(OpError::input(index, format!("{factor} times {extent} leaves nothing")).into());
    }
    Ok(size)
}

/// Two positions and the weight of the second.
type Tap = (usize, usize, f32);

impl Grid {
    #[expect(clippy::cast_precision_loss, reason = "extents of an image")]
    fn scale(self, input: usize, output: usize) -> f32 {
        if self.align_corners && output > 1 {
            (input - 1) as f32 / (output - 1) as f32
        } else {
            input as f32 / output as f32
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positions of an image; float casts saturate"
    )]
    fn nearest(self, input: usize, output: usize) -> Vec<usize> {
        let scale = self.scale(input, output);
        let half = if self.half_pixel_centers { 0.5 } else { 0.0 };
        let position = |at: usize| {
            let p = (at as f32 + half) * scale;
            if self.align_corners { p.round() } else { p.floor() }
        };
        (0..output).map(|at| (position(at) as usize).min(input - 1)).collect()
    }

    /// The second position is the one above, not the one behind the first: left of the first center both
    /// are 0 and the weights cancel.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positions of an image; float casts saturate"
    )]
    fn taps(self, input: usize, output: usize) -> Vec<Tap> {
        let scale = self.scale(input, output);
        let tap = |at: usize| {
            let p = if self.half_pixel_centers {
                (at as f32 + 0.5) * scale - 0.5
            } else {
                at as f32 * scale
            };
            let low = (p.floor().max(0.0) as usize).min(input - 1);
            let high = (p.ceil().max(0.0) as usize).min(input - 1);
            (low, high, p - low as f32)
        };
        (0..output).map(tap).collect()
    }
}

#[derive(Clone, Debug)]
struct Taps {
    from: Image,
    to: Image,
    rows: Vec<Tap>,
    columns: Vec<Tap>,
}

/// Interpolates pixel by pixel, as many channels side by side as lie side by side in memory.
struct Bilinear<'a, T, R, W> {
    taps: &'a Taps,
    input: In<'a, T>,
    output: Out<'a, T>,
    read: R,
    write: W,
}

impl<T: Element, R: Fn(T) -> f32, W: Fn(f32) -> T> Loop for Bilinear<'_, T, R, W> {
    #[inline(always)]
    fn run(self) {
        let Self { taps: Taps { from, to, rows, columns }, input, output, read, write } = self;
        let lanes = if to.is_nchw() { 1 } else { to.channels };
        for (n, y) in (0..to.batches).flat_map(|n| (0..to.height).map(move |y| (n, y))) {
            let (top, bottom, v) = rows[y];
            for (x, &(left, right, u)) in columns.iter().enumerate() {
                for c in (0..to.channels).step_by(lanes) {
                    let at = to.at(n, y, x, c);
                    let [a, b, c, d] = [(top, left), (bottom, left), (top, right), (bottom, right)]
                        .map(|(row, column)| from.at(n, row, column, c));
                    let sum = |a: T, b: T, c: T, d: T| {
                        write(
                            read(a) * (1.0 - v) * (1.0 - u)
                                + read(b) * v * (1.0 - u)
                                + read(c) * (1.0 - v) * u
                                + read(d) * v * u,
                        )
                    };
                    let whole = lanes / BLOCK * BLOCK;
                    for k in (0..whole).step_by(BLOCK) {
                        let [a, b, c, d] = [a, b, c, d].map(|at| input.block::<BLOCK>(at + k));
                        let mut ys = [T::default(); BLOCK];
                        for (k, y) in ys.iter_mut().enumerate() {
                            *y = sum(a[k], b[k], c[k], d[k]);
                        }
                        output.set_block(at + k, ys);
                    }
                    for k in whole..lanes {
                        let [a, b, c, d] = [a, b, c, d].map(|at| input.get(at + k));
                        output.set(at + k, sum(a, b, c, d));
                    }
                }
            }
        }
    }
}

/// Channels that are interpolated side by side.
const BLOCK: usize = 16;

fn bilinear_real<T: Real>(op: &mut OpBuilder<'_>, taps: Taps) -> Lowered {
    bilinear(op, taps, T::to_f32, T::from_f32)
}

/// The stored values are interpolated and rounded to nearest; the reference truncates, which is off by up
/// to one, and the expected values of its own tests are the rounded ones.
#[expect(clippy::cast_precision_loss, reason = "a byte")]
fn bilinear_byte<T: Quantised>(op: &mut OpBuilder<'_>, taps: Taps) -> Lowered {
    bilinear(op, taps, |q: T| q.to_i32() as f32, |y| T::from_i32(round_half_away(y)))
}

fn bilinear<T: Element>(
    op: &mut OpBuilder<'_>,
    taps: Taps,
    read: impl Fn(T) -> f32 + Send + Sync + 'static,
    write: impl Fn(f32) -> T + Send + Sync + 'static,
) -> Lowered {
    let isa = op.isa();
    op.emit(plain("resize_bilinear", &taps.to.shape()?, 0), move |io: Io<'_>| {
        let (input, output) = (io.input(0), io.output(0));
        isa.run(Bilinear { taps: &taps, input, output, read: &read, write: &write });
        Ok(())
    });
    Ok(())
}

fn nearest<T: Element>(
    op: &mut OpBuilder<'_>,
    from: Image,
    to: Image,
    rows: Vec<usize>,
    columns: Vec<usize>,
) -> Lowered {
    op.emit(plain("resize_nearest", &to.shape()?, 0), move |io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let lanes = if to.is_nchw() { 1 } else { to.channels };
        for (n, y) in (0..to.batches).flat_map(|n| (0..to.height).map(move |y| (n, y))) {
            for (x, &column) in columns.iter().enumerate() {
                for c in (0..to.channels).step_by(lanes) {
                    let (at, source) = (to.at(n, y, x, c), from.at(n, rows[y], column, c));
                    let pixel = input.slice(source..source + lanes);
                    output.slice(at..at + lanes).copy_from(pixel);
                }
            }
        }
        Ok(())
    });
    Ok(())
}
