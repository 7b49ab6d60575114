//! L2_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION, INSTANCE_NORMALIZATION and LOG_SOFTMAX.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::{Loop, map, zip};
use nnburst_kernels::kernels::softmax_f32::Softmax;
use nnburst_kernels::kernels::transcendental_f32::{Function, Map};
use nnburst_kernels::tensor::quant::fixed::inverse_sqrt;
use nnburst_kernels::tensor::quant::{rdbpot, srdhm};
use nnburst_kernels::tensor::{In, OpError, Out, Quantised, Real, Tensor, poll};

use super::Op;
use super::support::{Image, by_real, compiled, dispatch, plain};
use crate::lowering::{Io, Label, Lowered, OpBuilder};

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
    if lines.inner == 1 {
        let (isa, len) = (op.isa(), lines.extent);
        op.emit(compiled(isa, "l2_normalization", &shape, 0), move |io: Io<'_>| {
            let (input, output) = (io.input::<T>(0), io.output::<T>(0));
            isa.run(L2Rows { input, output, len });
            Ok(())
        });
        return Ok(());
    }
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

/// Rows of `len` elements over their length.
struct L2Rows<'a, T> {
    input: In<'a, T>,
    output: Out<'a, T>,
    len: usize,
}

impl<T: Real> Loop for L2Rows<'_, T> {
    #[inline(always)]
    fn run(self) {
        /// Squares that are added side by side.
        const LANES: usize = 32;
        let Self { input, output, len } = self;
        let squares = |x: T| x.to_f32() * x.to_f32();
        for first in (0..output.len()).step_by(len.max(1)) {
            // Of short rows nothing else is reported.
            if poll::work(2 * LANES).is_err() {
                return;
            }
            let whole = first + len / LANES * LANES;
            let mut lanes = [0.0; LANES];
            for start in (first..whole).step_by(poll::CHUNK) {
                let end = whole.min(start + poll::CHUNK);
                for at in (start..end).step_by(LANES) {
                    let xs = input.block::<LANES>(at);
                    lanes.iter_mut().zip(&xs).for_each(|(lane, &x)| *lane += squares(x));
                }
                if poll::work(end - start).is_err() {
                    return;
                }
            }
            let rest = input.slice(whole..first + len).iter();
            let sum = rest.fold(lanes.iter().sum::<f32>(), |sum, x| sum + squares(x));
            let norm = sum.sqrt().max(1e-6);
            let over = |x: T| T::from_f32(x.to_f32() / norm);
            for start in (first..whole).step_by(poll::CHUNK) {
                let end = whole.min(start + poll::CHUNK);
                for at in (start..end).step_by(LANES) {
                    let (xs, mut ys) = (input.block::<LANES>(at), [T::default(); LANES]);
                    ys.iter_mut().zip(&xs).for_each(|(y, &x)| *y = over(x));
                    output.set_block(at, ys);
                }
                if poll::work(end - start).is_err() {
                    return;
                }
            }
            (whole..first + len).for_each(|at| output.set(at, over(input.get(at))));
        }
    }
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

impl Response {
    /// Returns whether what is raised to a power is not negative, whatever the squares.
    fn has_logarithm(&self) -> bool {
        self.bias >= 0.0 && self.alpha >= 0.0 && self.beta > 0.0
    }
}

/// Some lines at a time: squares with a margin between lines, and the sums of their windows, the
/// powers of which come of logarithms.
fn emit_lrn_of_lines<T: Real>(op: &mut OpBuilder<'_>, len: usize, response: Response) -> Lowered {
    let Response { radius, bias, alpha, beta } = response;
    let (isa, shape, radius) = (op.isa(), op.output(0)?.shape, radius.min(len));
    let [log, exp] = [Function::Log, Function::Exp].map(|function| Map::new(isa, function));
    let label = compiled(isa, "local_response_normalization", &shape, 0);
    let stride = (len + radius).max(1);
    let lines = shape.elements() / len.max(1);
    let most = (poll::CHUNK / stride).clamp(1, lines.max(1));
    let with_margins = most * stride + 2 * radius;
    op.emit_with_scratch(label, (with_margins + most * stride) * 4, move |mut io: Io<'_>| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let scratch = io.scratch_slice::<f32>();
        poll::fill(scratch, 0.0)?;
        let (squares, sums) = scratch.split_at_mut(with_margins);
        for first in (0..lines).step_by(most) {
            let count = most.min(lines - first);
            let places = first * len..(first + count) * len;
            let (input, output) = (input.slice(places.clone()), output.slice(places));
            let each = (0..count).map(|line| (line * len..(line + 1) * len, line * stride));
            for (own, start) in each.clone() {
                let squares = &mut squares[radius + start..radius + start + len];
                map(isa, input.slice(own), Out::of(squares), |x: T| x.to_f32() * x.to_f32());
            }
            // Those of margins are of no use, but in vectors they cost nothing.
            let sums = &mut sums[..count * stride];
            poll::fill(sums, 0.0)?;
            for offset in 0..=2 * radius {
                poll::work(sums.len())?;
                let b = In::of(&squares[offset..offset + sums.len()]);
                let sums = Out::of(sums);
                zip(isa, sums.as_in(), b, sums, std::ops::Add::add);
            }
            poll::work(sums.len() * 10)?;
            let of_all = Out::of(sums);
            map(isa, of_all.as_in(), of_all, |sum: f32| bias + alpha * sum);
            if beta.to_bits() == 0.5f32.to_bits() {
                map(isa, of_all.as_in(), of_all, |x: f32| 1.0 / x.sqrt());
            } else {
                log.compute(of_all.as_in(), of_all);
                map(isa, of_all.as_in(), of_all, |x: f32| x * -beta);
                exp.compute(of_all.as_in(), of_all);
            }
            for (own, start) in each {
                let (input, output) = (input.slice(own.clone()), output.slice(own));
                let factors = of_all.as_in().slice(start..start + len);
                let each = input.iter().zip(factors.iter());
                output.fill(each.map(|(x, factor)| T::from_f32(x.to_f32() * factor)));
            }
        }
        Ok(())
    });
    Ok(())
}

fn emit_lrn<T: Real>(op: &mut OpBuilder<'_>, lines: Lines, response: Response) -> Lowered {
    if lines.inner == 1 && lines.extent <= poll::CHUNK && response.has_logarithm() {
        return emit_lrn_of_lines::<T>(op, lines.extent, response);
    }
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
    if lines.inner == 1
        && op.input_kind(0)? == OperandType::TensorFloat32
        && let Some(softmax) = Softmax::log(op.isa(), lines.extent, beta)
    {
        let label = Label { form: softmax.isa(), ..plain("softmax_f32", &shape, 0) };
        op.emit(label, move |io| softmax.compute(io.input(0), io.output(0)));
        return Ok(());
    }
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
