//! L2_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION, INSTANCE_NORMALIZATION and LOG_SOFTMAX.

use nnburst_kernels::tensor::quant::fixed::inverse_sqrt;
use nnburst_kernels::tensor::quant::{rdbpot, srdhm};
use nnburst_kernels::tensor::{OpError, Quantised, Real, Tensor, poll};

use super::Op;
use super::support::{Image, by_real, dispatch, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static L2_NORMALIZATION: Op = Op { lower: lower_l2 };
pub(super) static LOCAL_RESPONSE_NORMALIZATION: Op = Op { lower: lower_lrn };
pub(super) static INSTANCE_NORMALIZATION: Op = Op { lower: lower_instance };
pub(super) static LOG_SOFTMAX: Op = Op { lower: lower_log_softmax };

/// Lines of elements along one axis.
#[derive(Clone, Copy, Debug)]
struct Lines {
    outer: usize,
    extent: usize,
    inner: usize,
}

impl Lines {
    fn of(tensor: &Tensor, axis: i32) -> Result<Self, OpError> {
        let axis = tensor.shape.axis(axis)?;
        let (outer, extent, inner) = tensor.shape.around(axis);
        if tensor.shape.contains(&0) {
            return Err(OpError::input(0, format!("of {:?} is empty", tensor.shape)));
        }
        Ok(Self { outer, extent, inner })
    }

    /// Calls `each` with a function from position in the line to position in the tensor.
    fn each(self, mut each: impl FnMut(&dyn Fn(usize) -> usize)) {
        for line in poll::each(0..self.outer * self.inner, 8) {
            let first = line / self.inner * self.extent * self.inner + line % self.inner;
            each(&|at| first + at * self.inner);
        }
    }
}

/// An axis that may be left out and is then the last.
fn axis_or_last(op: &OpBuilder<'_>, index: usize) -> Lowered<i32> {
    if op.has_input(index) { op.i32(index) } else { Ok(-1) }
}

/// `x / max(sqrt(sum x^2), 1e-6)`, so that zeros stay zeros.
///
/// Source: NNAPI `L2_NORMALIZATION`, since HAL 1.0; axis and 8-bit since 1.2; signed since 1.3.
fn lower_l2(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    if input.shape.rank() > 4 {
        return Err(OpError::input(0, format!("is of {:?}, above rank 4", input.shape)).into());
    }
    let lines = Lines::of(&input, axis_or_last(op, 1)?)?;
    op.set_output(0, input.shape.clone())?;
    dispatch!(input.kind, 0, real: l2_real(op, lines), byte: l2_byte(op, lines, &input))
}

fn l2_real<T: Real>(op: &mut OpBuilder<'_>, lines: Lines) -> Lowered {
    let shape = op.output(0)?.shape;
    op.emit(plain("l2_normalization", &shape, 0), move |io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        lines.each(|at| {
            let squares = poll::each(0..lines.extent, 4).map(|i| input.get(at(i)).to_f32().powi(2));
            let norm = squares.sum::<f32>().sqrt().max(1e-6);
            for i in poll::each(0..lines.extent, 4) {
                output.set(at(i), T::from_f32(input.get(at(i)).to_f32() / norm));
            }
        });
        Ok(())
    });
    Ok(())
}

fn l2_byte<T: Quantised>(op: &mut OpBuilder<'_>, lines: Lines, input: &Tensor) -> Lowered {
    let output = op.output(0)?;
    let middle = 128 - T::TO_UNSIGNED;
    if output.scale.to_bits() != (1.0f32 / 128.0).to_bits() || output.zero_point != middle {
        let what = format!(
            "has scale {} and zero point {}, not 1/128 and {middle}",
            output.scale, output.zero_point
        );
        return Err(OpError::output(0, what).into());
    }
    let zero_point = input.zero_point;
    op.emit(plain("l2_normalization", &output.shape, 0), move |io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        lines.each(|at| {
            let value = |i: usize| input.get(at(i)).to_i32() - zero_point;
            let squares = poll::each(0..lines.extent, 4)
                .fold(0i32, |sum, i| sum.wrapping_add(value(i) * value(i)));
            let (fraction, shift) = inverse_sqrt(squares);
            for i in poll::each(0..lines.extent, 8) {
                let y = rdbpot(srdhm(value(i) * 128, fraction), -shift);
                output.set(at(i), T::from_i32(y.saturating_add(middle)));
            }
        });
        Ok(())
    });
    Ok(())
}

/// `x * (bias + alpha * sum of squares within the radius)^-beta`.
///
/// Source: NNAPI `LOCAL_RESPONSE_NORMALIZATION`, since HAL 1.0; axis and FLOAT16 since 1.2.
fn lower_lrn(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    if input.shape.rank() > 4 {
        return Err(OpError::input(0, format!("is of {:?}, above rank 4", input.shape)).into());
    }
    let lines = Lines::of(&input, axis_or_last(op, 5)?)?;
    let response = Response {
        radius: op.extent(1, 0)?,
        bias: op.f32(2)?,
        alpha: op.f32(3)?,
        beta: op.f32(4)?,
    };
    op.set_output(0, input.shape.clone())?;
    by_real!(input.kind, emit_lrn(op, lines, response))
}

#[derive(Clone, Copy, Debug)]
struct Response {
    radius: usize,
    bias: f32,
    alpha: f32,
    beta: f32,
}

fn emit_lrn<T: Real>(op: &mut OpBuilder<'_>, lines: Lines, response: Response) -> Lowered {
    let Response { radius, bias, alpha, beta } = response;
    let shape = op.output(0)?.shape;
    op.emit(plain("local_response_normalization", &shape, 0), move |io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        lines.each(|at| {
            for i in poll::each(0..lines.extent, 64) {
                let window =
                    i.saturating_sub(radius)..i.saturating_add(radius + 1).min(lines.extent);
                let squares =
                    poll::each(window, 4).map(|j| input.get(at(j)).to_f32().powi(2)).sum::<f32>();
                let factor = (bias + alpha * squares).powf(-beta);
                output.set(at(i), T::from_f32(input.get(at(i)).to_f32() * factor));
            }
        });
        Ok(())
    });
    Ok(())
}

/// `(x - mean) * gamma / sqrt(var + epsilon) + beta` over each image's channel.
///
/// Source: NNAPI `INSTANCE_NORMALIZATION`, since HAL 1.2.
fn lower_instance(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    let image = Image::of(0, &input.shape, op.bool(4)?)?;
    let scalars = [op.f32(1)?, op.f32(2)?, op.f32(3)?];
    op.set_output(0, input.shape.clone())?;
    by_real!(input.kind, emit_instance(op, image, scalars))
}

#[expect(clippy::cast_precision_loss, reason = "pixels of an image")]
fn emit_instance<T: Real>(
    op: &mut OpBuilder<'_>,
    image: Image,
    [gamma, beta, epsilon]: [f32; 3],
) -> Lowered {
    let shape = op.output(0)?.shape;
    let count = (image.height * image.width) as f32;
    op.emit(plain("instance_normalization", &shape, 0), move |io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let channels = image.batches * image.channels;
        for (n, c) in
            poll::each(0..channels, 32).map(|at| (at / image.channels, at % image.channels))
        {
            let pixels = || {
                // Rows of an image lie one behind the other, as if they were one.
                poll::each(0..image.height * image.width, 4)
                    .map(move |pixel| image.at(n, 0, pixel, c))
            };
            let value = |at: usize| input.get(at).to_f32();
            let mean = pixels().map(value).sum::<f32>() / count;
            let variance = pixels().map(|at| (value(at) - mean).powi(2)).sum::<f32>() / count;
            let scale = gamma / (variance + epsilon).sqrt();
            for at in pixels() {
                output.set(at, T::from_f32((value(at) - mean) * scale + beta));
            }
        }
        Ok(())
    });
    Ok(())
}

/// `beta * (x - max) - ln(sum exp(beta * (x - max)))`.
///
/// Source: NNAPI `LOG_SOFTMAX`, since HAL 1.2.
fn lower_log_softmax(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    let lines = Lines::of(&input, op.i32(2)?)?;
    let beta = op.f32(1)?;
    op.set_output(0, input.shape.clone())?;
    by_real!(input.kind, emit_log_softmax(op, lines, beta))
}

fn emit_log_softmax<T: Real>(op: &mut OpBuilder<'_>, lines: Lines, beta: f32) -> Lowered {
    let shape = op.output(0)?.shape;
    op.emit(plain("log_softmax", &shape, 0), move |io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        lines.each(|at| {
            let value = |i: usize| input.get(at(i)).to_f32();
            let max = poll::each(0..lines.extent, 4).map(value).fold(f32::NEG_INFINITY, f32::max);
            let sum = poll::each(0..lines.extent, 16)
                .map(|i| (beta * (value(i) - max)).exp())
                .sum::<f32>();
            for i in poll::each(0..lines.extent, 16) {
                output.set(at(i), T::from_f32(beta * (value(i) - max) - sum.ln()));
            }
        });
        Ok(())
    });
    Ok(())
}
