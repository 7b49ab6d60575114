//! CONCATENATION: tensors joined along an axis.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::pieces::copy_pieces;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::quant::round_half_away;
use nnburst_kernels::tensor::rows::Port;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Quantised, Shape, Tensor, poll};

use super::Op;
use super::support::{by_width, compiled, plain};
use crate::lowering::{Lowered, OpBuilder};

pub(super) static CONCATENATION: Op = Op { lower };

/// Negative axes are refused, as is a rank above 4: the reference's tests expect both to fail.
/// Quantised inputs of other parameters are rescaled.
///
/// Source: NNAPI `CONCATENATION`, since HAL 1.0; rescaling and zero-sized inputs since 1.2.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let count = op.input_count().saturating_sub(1);
    let axis = op.extent(count, 0)?;
    let inputs = (0..count).map(|index| op.input(index)).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = inputs.first() else { return Err(OpError::rule("nothing to join").into()) };
    let output = op.output(0)?;
    let shape = shape(&inputs, axis)?;
    op.set_output(0, shape.clone())?;
    for (index, input) in inputs.iter().enumerate() {
        if input.kind != output.kind {
            let what = format!("is {}, the output {}", input.kind, output.kind);
            return Err(OpError::input(index, what).into());
        }
    }
    let (outer, _, inner) = shape.around(axis);
    let parts: Vec<usize> = inputs.iter().map(|input| input.shape[axis] * inner).collect();
    let rescaled = inputs.iter().any(|input| !same(input, &output));
    match first.kind {
        OperandType::TensorQuant8Asymm if rescaled => {
            rescale::<u8>(op, &inputs, &output, outer, parts)
        }
        OperandType::TensorQuant8AsymmSigned if rescaled => {
            rescale::<i8>(op, &inputs, &output, outer, parts)
        }
        kind => by_width!(kind, copy(op, &shape, outer, &parts)),
    }
}

fn shape(inputs: &[Tensor], axis: usize) -> Result<Shape, OpError> {
    let first = &inputs[0].shape;
    if first.rank() > 4 || axis >= first.rank() {
        return Err(OpError::rule(format!("axis {axis} of {first:?}; ranks go up to 4")));
    }
    let mut extents = first.to_vec();
    for (index, input) in inputs.iter().enumerate().skip(1) {
        let mut like = input.shape.to_vec();
        let fits = like.len() == extents.len() && {
            like[axis] = first[axis];
            like == **first
        };
        if !fits {
            return Err(OpError::input(index, format!("{:?} beside {first:?}", input.shape)));
        }
        extents[axis] += input.shape[axis];
    }
    Shape::new(extents)
}

fn same(input: &Tensor, output: &Tensor) -> bool {
    input.scale.to_bits() == output.scale.to_bits() && input.zero_point == output.zero_point
}

/// Calls `part(index, input part, output part)` for each part of each outer row.
fn each_part<T: Element>(
    io: &crate::lowering::Io<'_>,
    outer: usize,
    parts: &[usize],
    part: impl Fn(usize, In<'_, T>, Out<'_, T>),
) {
    let (output, mut at) = (io.output::<T>(0), 0);
    for row in 0..outer {
        for (index, &len) in parts.iter().enumerate().filter(|&(_, &len)| len > 0) {
            if poll::work(16 + 4 * len.min(poll::CHUNK)).is_err() {
                return;
            }
            let source = io.input::<T>(index).slice(row * len..(row + 1) * len);
            part(index, source, output.slice(at..at + len));
            at += len;
        }
    }
}

/// Bytes of the output that are written at a time.
const NEAR_BYTES: usize = 16 << 10;

/// What computes the inputs may put them there by itself.
fn copy<T: Element>(
    op: &mut OpBuilder<'_>,
    shape: &Shape,
    outer: usize,
    parts: &[usize],
) -> Lowered {
    let lens: Vec<usize> = parts.iter().map(|len| len * size_of::<T>()).collect();
    let pitch: usize = lens.iter().sum();
    let start = |at: usize| lens[..at].iter().sum();
    let offsets: Vec<usize> = (0..lens.len()).map(start).collect();
    let inputs = lens.iter().enumerate().map(|(at, &len)| (Port::Input(at), Some(len)));
    let ports: Vec<_> = inputs.chain([(Port::Output, Some(pitch))]).collect();
    let (isa, starts) = (op.isa(), offsets.clone());
    // Some rows of all parts at a time: neighbouring parts share cache lines of the output.
    let near = (NEAR_BYTES / pitch.max(1)).max(1);
    let label = match outer {
        1 => plain("concatenate", shape, 0),
        _ => compiled(isa, "concatenate", shape, 0),
    };
    op.emit(label, move |io| {
        let output = io.output_rows(0);
        let to = output.pitch(outer, pitch)?;
        if lens == [size_of::<T>(); 2] && to == pitch {
            let [a, b] = [0, 1].map(|at| io.input_rows::<u8>(at));
            // What was computed where it belongs is not there.
            let are_dense = !a.is_empty()
                && !b.is_empty()
                && a.pitch(outer, lens[0])? == lens[0]
                && b.pitch(outer, lens[1])? == lens[1];
            if are_dense {
                let (a, b, output) = (a.all().cast::<T>(), b.all().cast(), output.all().cast());
                for first in (0..outer).step_by(poll::CHUNK) {
                    let part = first..outer.min(first + poll::CHUNK);
                    poll::work(part.len())?;
                    let output = output.slice(2 * part.start..2 * part.end);
                    isa.run(Pairs { a: a.slice(part.clone()), b: b.slice(part), output });
                }
                return Ok(());
            }
        }
        for first in (0..outer).step_by(near) {
            poll::work(NEAR_BYTES / 8 + 16 * lens.len())?;
            for (index, (&start, &len)) in starts.iter().zip(&lens).enumerate() {
                let input = io.input_rows(index);
                if input.is_empty() {
                    continue;
                }
                if outer == 1 {
                    output.all().slice(start..start + len).copy_from(input.all());
                    continue;
                }
                let from = input.pitch(outer, len)?;
                let rows = first..outer.min(first + near);
                let pieces = rows.map(|row| (row * from, row * to + start));
                copy_pieces(isa, input.all(), output.all(), len, pieces);
            }
        }
        Ok(())
    });
    op.join_parts(offsets, outer);
    op.rows(&ports);
    Ok(())
}

/// Elements of two inputs in turns.
struct Pairs<'a, T> {
    a: In<'a, T>,
    b: In<'a, T>,
    output: Out<'a, T>,
}

impl<T: Element> Loop for Pairs<'_, T> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 16;
        let Self { a, b, output } = self;
        let whole = a.len() / BLOCK * BLOCK;
        for at in (0..whole).step_by(BLOCK) {
            let both = [a.block::<BLOCK>(at), b.block::<BLOCK>(at)];
            let half = |first: usize| std::array::from_fn(|k| both[k % 2][first + k / 2]);
            output.set_block::<BLOCK>(2 * at, half(0));
            output.set_block::<BLOCK>(2 * at + BLOCK, half(BLOCK / 2));
        }
        for at in whole..a.len() {
            output.set(2 * at, a.get(at));
            output.set(2 * at + 1, b.get(at));
        }
    }
}

/// In `f32`, and for signed types on the unsigned range, which is the reference's order of
/// rounding.
fn rescale<T: Quantised>(
    op: &mut OpBuilder<'_>,
    inputs: &[Tensor],
    output: &Tensor,
    outer: usize,
    parts: Vec<usize>,
) -> Lowered {
    let shift = T::TO_UNSIGNED;
    let table = |input: &Tensor| -> Vec<T> {
        let factor = input.scale * (1.0 / output.scale);
        #[expect(clippy::cast_precision_loss, reason = "stored values have 8 bits")]
        let constant = -((input.zero_point + shift) as f32) * factor;
        let stored = |q: i32| {
            if same(input, output) {
                return T::from_i32(q - shift);
            }
            #[expect(clippy::cast_precision_loss, reason = "stored values have 8 bits")]
            let y = round_half_away(q as f32 * factor + constant);
            T::from_i32(y.saturating_add(output.zero_point + shift).clamp(0, 255) - shift)
        };
        (0..256).map(stored).collect()
    };
    let tables: Vec<Vec<T>> = inputs.iter().map(table).collect();
    op.emit(plain("concatenate_rescale", &output.shape, 0), move |io| {
        each_part::<T>(&io, outer, &parts, |index, from, to| {
            let table = &tables[index];
            to.fill(from.iter().map(|q| table[usize::try_from(q.to_i32() + shift).unwrap_or(0)]));
        });
        Ok(())
    });
    Ok(())
}
