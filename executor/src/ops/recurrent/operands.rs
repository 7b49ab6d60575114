//! Float operands of a recurrent operation, in `f32` and in memory of our own.
//!
//! The cells read their weights many times over, so operands that are constant are widened once, at
//! compile time; what comes with the request is copied (and widened) into the step's scratch memory
//! before the first cell runs, which also settles what a client's memory holds.

use std::sync::Arc;

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::tensor::{AlignedBytes, In, OpError, poll};

use crate::lowering::{Io, Lowered, OpBuilder};

/// The place of an operand's elements while the step runs.
#[derive(Clone, Debug)]
enum Part {
    Absent,
    Constant {
        input: usize,
        values: Arc<AlignedBytes>,
    },
    /// At `start` of the scratch memory, copied there from the operation's input.
    Scratch {
        input: usize,
        half: bool,
        start: usize,
        len: usize,
    },
}

/// Names one of the operands that were [`Operands::add`]ed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(usize);

/// The float operands of one operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Operands {
    parts: Vec<Part>,
    /// Elements of scratch memory that the copies take.
    pub(super) scratch: usize,
}

impl Operands {
    /// Takes in an input that must be there and have these extents.
    pub(super) fn required(
        &mut self,
        op: &OpBuilder<'_>,
        index: usize,
        extents: &[usize],
    ) -> Lowered<Id> {
        if op.has_input(index) {
            self.optional(op, index, extents)
        } else {
            Err(OpError::input(index, "is left out but required").into())
        }
    }

    /// Takes in an input that may be left out; where it is there it must have these extents.
    pub(super) fn optional(
        &mut self,
        op: &OpBuilder<'_>,
        index: usize,
        extents: &[usize],
    ) -> Lowered<Id> {
        let part = match op.optional_input(index)? {
            None => Part::Absent,
            Some(tensor) => {
                if *tensor.shape != *extents {
                    let what = format!("is of {:?} and must be of {extents:?}", tensor.shape);
                    return Err(OpError::input(index, what).into());
                }
                let half = is_half(index, tensor.kind)?;
                let len = tensor.shape.elements();
                match op.constant(index) {
                    Some(bytes) if half => Part::Constant { input: index, values: widened(&bytes) },
                    Some(values) => Part::Constant { input: index, values },
                    None => {
                        let start = self.scratch;
                        self.scratch += len.next_multiple_of(16);
                        Part::Scratch { input: index, half, start, len }
                    }
                }
            }
        };
        self.parts.push(part);
        Ok(Id(self.parts.len() - 1))
    }

    /// Copies what isn't constant into the scratch memory, and splits that: the copies, to be given
    /// to [`Operands::get`], and what is left for the cells to work in.
    pub(super) fn load<'s>(&self, io: &'s mut Io<'_>) -> (&'s [f32], &'s mut [f32]) {
        let inputs = io.inputs_and_outputs();
        let (copies, work) = io.scratch_slice::<f32>().split_at_mut(self.scratch);
        for part in &self.parts {
            let &Part::Scratch { input, half, start, len } = part else { continue };
            let copy = &mut copies[start..start + len];
            if half {
                let values = inputs.input::<f16>(input).iter();
                poll::each(copy.iter_mut().zip(values), 4)
                    .for_each(|(out, value)| *out = value.to_f32());
            } else {
                inputs.input::<f32>(input).copy_to(copy);
            }
        }
        (copies, work)
    }

    /// An operand's numbers; `None` where it is left out.
    pub(super) fn get<'s>(&'s self, copies: &'s [f32], Id(id): Id) -> Option<&'s [f32]> {
        match &self.parts[id] {
            Part::Absent => None,
            Part::Constant { values, .. } => Some(values.typed()),
            &Part::Scratch { start, len, .. } => copies.get(start..start + len),
        }
    }

    /// The numbers of an operand that is there.
    pub(super) fn there<'s>(&'s self, copies: &'s [f32], id: Id) -> &'s [f32] {
        self.get(copies, id).unwrap_or_default()
    }

    /// The numbers of an operand that is constant.
    pub(super) fn constant(&self, Id(id): Id) -> Option<&[f32]> {
        match &self.parts[id] {
            Part::Constant { values, .. } => Some(values.typed()),
            _ => None,
        }
    }

    /// Lets go of constants that are wholly in what was packed of them; see [`OpBuilder::absorb`].
    pub(super) fn absorb(&mut self, op: &mut OpBuilder<'_>, ids: impl IntoIterator<Item = Id>) {
        for Id(id) in ids {
            if let Part::Constant { input, .. } = self.parts[id] {
                op.absorb(input);
                self.parts[id] = Part::Absent;
            }
        }
    }

    /// Returns whether the operand is there.
    pub(super) fn has(&self, Id(id): Id) -> bool {
        !matches!(self.parts[id], Part::Absent)
    }
}

fn widened(halves: &AlignedBytes) -> Arc<AlignedBytes> {
    let halves = halves.typed::<f16>();
    let mut values = AlignedBytes::zeroed(size_of_val(halves) * 2);
    let pairs = poll::each(values.typed_mut::<f32>().iter_mut().zip(halves), 4);
    pairs.for_each(|(to, from)| *to = from.to_f32());
    Arc::new(values)
}

/// Writes results, rounding once where the output is of half precision.
pub(super) fn store(io: &Io<'_>, output: usize, half: bool, values: &[f32]) {
    if half {
        io.output::<f16>(output).fill(values.iter().map(|&value| f16::from_f32(value)));
    } else {
        io.output::<f32>(output).copy_from(In::of(values));
    }
}

/// FLOAT16 or FLOAT32; recurrent operations know no other types here.
pub(super) fn is_half(index: usize, kind: OperandType) -> Result<bool, OpError> {
    match kind {
        OperandType::TensorFloat32 => Ok(false),
        OperandType::TensorFloat16 => Ok(true),
        other => Err(OpError::input(index, format!("is {other} and not float"))),
    }
}
