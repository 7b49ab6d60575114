//! PAD and PAD_V2: a border around a tensor.

use std::ops::Range;

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::pieces::copy_pieces;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Shape, Tensor, poll};

use super::Op;
use super::support::{bad_kind, by_width, compiled, same_quantisation};
use crate::lowering::{Lowered, OpBuilder};

pub(super) static PAD: Op = Op { lower: |op| lower(op, false) };
pub(super) static PAD_V2: Op = Op { lower: |op| lower(op, true) };

/// PAD fills with what stands for 0; PAD_V2 with a scalar, which for quantised tensors is an INT32
/// that holds the stored value itself.
///
/// Source: NNAPI `PAD`, since HAL 1.1; `PAD_V2` since 1.2.
fn lower(op: &mut OpBuilder<'_>, with_value: bool) -> Lowered {
    let input = op.input(0)?;
    let rank = input.shape.rank();
    if rank > 4 {
        return Err(
            OpError::input(0, format!("{:?} is of more than 4 extents", input.shape)).into()
        );
    }
    same_quantisation(&input, &op.output(0)?)?;
    let paddings = op.i32s(1)?;
    if paddings.len() != 2 * rank {
        let what = format!("{} paddings for {:?}", paddings.len(), input.shape);
        return Err(OpError::input(1, what).into());
    }
    let fill = if with_value { value(op, &input)? } else { zero(&input)? };
    let mut extents = Vec::new();
    let mut sides = Vec::new();
    for (axis, pair) in paddings.chunks_exact(2).enumerate() {
        let side = |at: usize| {
            usize::try_from(pair[at])
                .map_err(|_| OpError::input(1, format!("padding {} is negative", pair[at])))
        };
        sides.push((side(0)?, side(1)?));
        extents.push(side(0)? + input.shape[axis] + side(1)?);
    }
    let shape = Shape::new(extents)?;
    op.set_output(0, shape.clone())?;
    let heads: Vec<usize> = sides.iter().map(|&(head, _)| head).collect();
    let emitted: Lowered = by_width!(input.kind, emit(op, &input.shape, &shape, &heads, &fill));
    emitted?;
    if fill == zero(&input)? {
        op.set_border(&sides);
    }
    Ok(())
}

fn zero(input: &Tensor) -> Result<Vec<u8>, OpError> {
    Ok(match input.kind {
        OperandType::TensorFloat32 => vec![0; 4],
        OperandType::TensorFloat16 => vec![0; 2],
        OperandType::TensorQuant8Asymm | OperandType::TensorQuant8AsymmSigned => {
            vec![input.zero_point.to_le_bytes()[0]]
        }
        kind => return Err(bad_kind(0, kind)),
    })
}

fn value(op: &OpBuilder<'_>, input: &Tensor) -> Lowered<Vec<u8>> {
    Ok(match (input.kind, op.input_kind(2)?) {
        (OperandType::TensorFloat32, OperandType::Float32)
        | (OperandType::TensorFloat16, OperandType::Float16) => op.value(2)?.as_slice().to_vec(),
        (
            OperandType::TensorQuant8Asymm | OperandType::TensorQuant8AsymmSigned,
            OperandType::Int32,
        ) => vec![op.i32(2)?.to_le_bytes()[0]],
        (kind, _) => return Err(bad_kind(0, kind).into()),
    })
}

/// Elements of a border that are filled from one poll to the next.
const PIECE: usize = 1 << 16;

/// Bytes of the output that are written at a time: rows and the gaps between them share lines.
const NEAR_BYTES: usize = 16 << 10;

/// Elements of a border that are written at once. Gaps of no more between rows are copied together.
const BLOCK: usize = 64;

/// Adds the step, for elements of the width of `fill`.
pub(super) fn emit<T: Element>(
    op: &mut OpBuilder<'_>,
    from: &Shape,
    to: &Shape,
    heads: &[usize],
    fill: &[u8],
) -> Lowered {
    let fills = [bytemuck::pod_read_unaligned::<T>(fill); BLOCK];
    let (from, extents, heads) = merged(from, to, heads);
    // Elements of the output from one place of an axis to the next.
    let strides: Vec<usize> =
        (1..=extents.len()).map(|at| extents.iter().skip(at).product()).collect();
    let isa = op.isa();
    op.emit(compiled(isa, "pad", to, 0), move |io| {
        let (input, output) = (io.input::<T>(0), io.output::<T>(0));
        let border = |within: Range<usize>| {
            for start in within.clone().step_by(PIECE) {
                let count = PIECE.min(within.end - start);
                if poll::work(count).is_err() {
                    break;
                }
                let whole = output.slice(start..start + count);
                for at in (0..count).step_by(BLOCK) {
                    let len = BLOCK.min(count - at);
                    whole.slice(at..at + len).copy_from(In::of(&fills[..len]));
                }
            }
        };
        let mut end = 0;
        if let &[ref outer @ .., rows, row] = &from[..]
            && rows * row > 0
        {
            let bytes = size_of::<T>();
            let pitch = strides[outer.len()];
            let gap = pitch - row;
            let near = (NEAR_BYTES / (pitch * bytes)).max(1);
            for index in poll::each(0..outer.iter().product(), 16) {
                let (mut rest, mut first) = (index, heads[outer.len() + 1]);
                first += heads[outer.len()] * pitch;
                for axis in (0..outer.len()).rev() {
                    first += (rest % outer[axis] + heads[axis]) * strides[axis];
                    rest /= outer[axis];
                }
                border(end..first);
                for start in (0..rows).step_by(near) {
                    let count = near.min(rows - start);
                    let source = (index * rows + start) * row;
                    let target = first + start * pitch;
                    let from = input.slice(source..source + count * row).bytes();
                    let to = output.slice(target..target + (count - 1) * pitch + row).bytes();
                    copy_rows(isa, from, to, row * bytes, [row * bytes, pitch * bytes], count);
                    // The last row of all has no gap behind it.
                    let gaps = near.min(rows - 1 - start);
                    let to = output.slice(target + row..target + row + gaps * pitch);
                    if gap > BLOCK {
                        let ends = (0..gaps).map(|at| target + row + at * pitch);
                        ends.for_each(|end| border(end..end + gap));
                    } else {
                        let fills = In::of(&fills).bytes();
                        copy_rows(isa, fills, to.bytes(), gap * bytes, [0, pitch * bytes], gaps);
                    }
                }
                end = first + (rows - 1) * pitch + row;
            }
        }
        border(end..output.len());
        Ok(())
    });
    Ok(())
}

/// Copies so many rows of `len` bytes, which start `steps` bytes apart in the input and the output.
fn copy_rows(
    isa: Isa,
    input: In<'_, u8>,
    output: Out<'_, u8>,
    len: usize,
    steps: [usize; 2],
    count: usize,
) {
    let pieces = (0..count).map(|at| (at * steps[0], at * steps[1]));
    copy_pieces(isa, input, output, len, pieces);
}

/// The extents of input and output and the elements ahead, with axes that have no border made one
/// with the axis before them: rows of the copy are as long as can be then, and as many lie behind
/// one another. There are two axes at least.
fn merged(from: &Shape, to: &Shape, heads: &[usize]) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let (mut all, mut all_out, mut all_heads) = (Vec::new(), Vec::new(), Vec::new());
    for ((&from, &to), &head) in from.iter().zip(to.iter()).zip(heads) {
        match (all.last_mut(), all_out.last_mut(), all_heads.last_mut()) {
            (Some(outer), Some(outer_out), Some(outer_head)) if from == to => {
                *outer *= from;
                *outer_out *= to;
                *outer_head *= to;
            }
            _ => {
                all.push(from);
                all_out.push(to);
                all_heads.push(head);
            }
        }
    }
    while all.len() < 2 {
        all.insert(0, 1);
        all_out.insert(0, 1);
        all_heads.insert(0, 0);
    }
    (all, all_out, all_heads)
}
