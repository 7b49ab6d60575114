//! RNN and UNIDIRECTIONAL_SEQUENCE_RNN on the fly: both inputs and the hidden state are quantised
//! row by row.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, OpError, poll};

use super::arg::{Activation, ElementKind, OperatorCall, refused};
use super::math::f32_of;
use super::on_the_fly::{OnTheFly, RowScale};
use crate::lowering::Lowered;
use crate::ops::support::plain;

/// Extents of the layer, and where a row of a step is.
#[derive(Clone, Copy, Debug)]
struct Layer {
    batches: usize,
    steps: usize,
    depth: usize,
    units: usize,
    /// Rows from one step to the next, and from one batch to the next.
    strides: [usize; 2],
}

/// A step of one batch: inputs `[n, depth]`.
pub(super) fn rnn(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?.shape;
    let &[batches, depth] = &input[..] else {
        return Err(OpError::input(0, format!("is of {input:?}, not of rank 2")).into());
    };
    let layer = Layer { batches, steps: 1, depth, units: units(call)?, strides: [0, 1] };
    call.set(0, &[batches, layer.units])?;
    emit(call, layer, 0)
}

/// All steps: inputs `[n, steps, depth]`, or `[steps, n, depth]` where time comes first.
pub(super) fn sequence(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let input = call.arg(0)?.shape;
    let &[first, second, depth] = &input[..] else {
        return Err(OpError::input(0, format!("is of {input:?}, not of rank 3")).into());
    };
    let units = units(call)?;
    let layer = match call.flag(0)? {
        true => Layer { batches: second, steps: first, depth, units, strides: [second, 1] },
        false => Layer { batches: first, steps: second, depth, units, strides: [1, second] },
    };
    call.set(0, &[first, second, units])?;
    emit(call, layer, 1)
}

fn units(call: &OperatorCall<'_, '_>) -> Lowered<usize> {
    let units = call.arg(1)?.shape.first().copied().filter(|&units| units > 0);
    Ok(units.ok_or_else(|| OpError::input(1, "has no units"))?)
}

/// Weights of bytes with one scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteWeights {
    pub(super) input: usize,
    pub(super) scale: f32,
}

impl ByteWeights {
    pub(super) fn new(call: &OperatorCall<'_, '_>, input: usize, shape: &[usize]) -> Lowered<Self> {
        let weights = call.arg(input)?;
        if weights.kind != ElementKind::I8 || weights.channels.is_some() {
            return Err(refused(input, weights.kind).into());
        }
        if weights.shape[..] != *shape {
            let what = format!("is of {:?}, not of {shape:?}", weights.shape);
            return Err(OpError::input(input, what).into());
        }
        Ok(Self { input, scale: weights.scale })
    }
}

/// Adds the step; its options but the first ones begin at `first`.
fn emit(call: &mut OperatorCall<'_, '_>, layer: Layer, first: usize) -> Lowered {
    let Layer { batches, steps, depth, units, strides } = layer;
    let from_input = ByteWeights::new(call, 1, &[units, depth])?;
    let from_state = ByteWeights::new(call, 2, &[units, units])?;
    for (index, shape) in [(3, &[units][..]), (4, &[batches, units])] {
        let arg = call.arg(index)?;
        if arg.kind != ElementKind::F32 || arg.shape[..] != *shape {
            let what = format!("is {:?} of {:?}, not F32 of {shape:?}", arg.kind, arg.shape);
            return Err(OpError::input(index, what).into());
        }
    }
    if call.arg(0)?.kind != ElementKind::F32 {
        return Err(refused(0, call.arg(0)?.kind).into());
    }
    call.result_is(0, &[ElementKind::F32])?;
    call.result_is(1, &[ElementKind::F32])?;
    call.set(1, &[batches, units])?;
    let activation: Activation = call.activation(first)?;
    let way = OnTheFly::new(call.flag(first + 1)?);
    let shape = call.result(0)?.shape;
    let (label, isa) = (plain("tflite_rnn_on_the_fly", &shape, 0), call.isa());
    // The state, the sums of a row, and the row as bytes.
    let room = 4 * units * (batches + 1) + depth.max(units);
    call.emit_with_scratch(label, room, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (input, output) = (fixed.input::<f32>(0), fixed.output::<f32>(0));
        let floats = 4 * units * (batches + 1);
        let (floats, bytes) = io.scratch_slice::<u8>().split_at_mut(floats);
        let floats = bytemuck::cast_slice_mut::<u8, f32>(floats);
        let (state, sums) = floats.split_at_mut(units * batches);
        fixed.input::<f32>(4).copy_to(state);
        for step in 0..steps {
            for (batch, state) in state.chunks_exact_mut(units).enumerate() {
                poll::work(units * (depth + units) + 8)?;
                let row = step * strides[0] + batch * strides[1];
                fixed.input::<f32>(3).copy_to(sums);
                let values = input.slice(row * depth..(row + 1) * depth);
                for (values, weights) in [(values, from_input), (In::of(&*state), from_state)] {
                    let row = ByteRow::new(way, isa, values, bytes);
                    row.add_products(isa, fixed.input::<i8>(weights.input), weights.scale, sums);
                }
                for (state, &sum) in state.iter_mut().zip(&*sums) {
                    *state = activation.apply(sum);
                }
                output.slice(row * units..(row + 1) * units).copy_from(In::of(state));
            }
        }
        fixed.output::<f32>(1).fill(state.iter().copied());
        Ok(())
    });
    Ok(())
}

/// A row of floats as bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteRow<'a> {
    bytes: &'a [u8],
    of: RowScale,
}

impl<'a> ByteRow<'a> {
    /// Quantises the values into the first of `bytes`.
    pub(super) fn new(way: OnTheFly, isa: Isa, values: In<'_, f32>, bytes: &'a mut [u8]) -> Self {
        let bytes = &mut bytes[..values.len()];
        let of = way.quantise(isa, values, 0, bytes);
        Self { bytes, of }
    }

    /// Adds its products with rows of weights to the sums of all units.
    pub(super) fn add_products(self, isa: Isa, weights: In<'_, i8>, scale: f32, sums: &mut [f32]) {
        isa.run(AddProducts { row: self, weights, scale: self.of.scale * scale, sums });
    }
}

struct AddProducts<'a> {
    row: ByteRow<'a>,
    weights: In<'a, i8>,
    scale: f32,
    sums: &'a mut [f32],
}

impl Loop for AddProducts<'_> {
    #[inline(always)]
    fn run(self) {
        const LANES: usize = 16;
        let (row, zero_point) = (self.row.bytes, self.row.of.zero_point);
        let product =
            |weight: i8, byte: u8| i32::from(weight) * (i32::from(byte.cast_signed()) - zero_point);
        let (blocks, rest) = row.as_chunks::<LANES>();
        let whole = row.len() - rest.len();
        for (unit, sum) in self.sums.iter_mut().enumerate() {
            let own = self.weights.slice(unit * row.len()..(unit + 1) * row.len());
            let mut lanes = [0i32; LANES];
            for (at, bytes) in blocks.iter().enumerate() {
                let weights = own.block::<LANES>(at * LANES);
                for ((lane, weight), &byte) in lanes.iter_mut().zip(weights).zip(bytes) {
                    *lane = lane.wrapping_add(product(weight, byte));
                }
            }
            let rest = rest.iter().enumerate();
            let rest = rest.map(|(at, &byte)| product(own.get(whole + at), byte));
            let total = lanes.into_iter().chain(rest).fold(0, i32::wrapping_add);
            *sum += f32_of(total) * self.scale;
        }
    }
}
