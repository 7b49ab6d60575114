//! SVDF of integers and on the fly: a dense layer over features, then one over time.
//!
//! The memory of each filter is a line of its last sums; each run drops the first and adds one.

use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::{In, OpError, Out, poll};

use super::arg::{Activation, ElementKind, OperatorCall, refused};
use super::math::f32_of;
use super::on_the_fly::OnTheFly;
use crate::lowering::Lowered;
use crate::ops::support::plain;

/// Extents of the layer.
#[derive(Clone, Copy, Debug)]
struct Layer {
    batches: usize,
    depth: usize,
    filters: usize,
    memory: usize,
    /// Filters of a unit.
    rank: usize,
    has_bias: bool,
}

impl Layer {
    fn read(call: &OperatorCall<'_, '_>) -> Lowered<Self> {
        let shape = |index: usize| -> Result<[usize; 2], OpError> {
            let shape = call.arg(index)?.shape;
            let extents = shape[..].try_into();
            extents.map_err(|_| OpError::input(index, format!("is of {shape:?}, not of rank 2")))
        };
        let [batches, depth] = shape(0)?;
        let [filters, own] = shape(1)?;
        let [times, memory] = shape(2)?;
        let state = shape(4)?;
        let rank = call.count(0, 1)?;
        let fits = own == depth
            && times == filters
            && memory > 0
            && filters > 0
            && filters.is_multiple_of(rank)
            && state == [batches, memory * filters];
        if !fits {
            let what = format!("filters {filters} by {own} and {times} by {memory}, rank {rank}");
            return Err(OpError::rule(format!("{what}: {depth} features, {state:?}")).into());
        }
        let has_bias = call.has(3);
        if has_bias && call.arg(3)?.shape.elements() != filters / rank {
            return Err(OpError::input(3, "is not as long as there are units").into());
        }
        Ok(Self { batches, depth, filters, memory, rank, has_bias })
    }

    fn units(&self) -> usize {
        self.filters / self.rank
    }

    /// Work for one batch, in products.
    fn work(&self) -> usize {
        self.filters * (self.depth + self.memory)
    }

    /// Moves the memory of a filter, counted over all batches, by one, and adds the newest sum.
    fn remember<T: nnburst_kernels::tensor::Element>(
        &self,
        filter: usize,
        before: In<'_, T>,
        next: Out<'_, T>,
        newest: T,
    ) {
        let start = filter * self.memory;
        let kept = before.slice(start + 1..start + self.memory);
        next.slice(start..start + self.memory - 1).copy_from(kept);
        next.set(start + self.memory - 1, newest);
    }
}

/// Results and the next state, of an input, weights over features and over time, a bias, which may
/// be left out, and the state.
pub(super) fn svdf(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let layer = Layer::read(call)?;
    let state = call.arg(4)?.shape.to_vec();
    call.set(0, &[layer.batches, layer.units()])?;
    call.set(1, &state)?;
    match call.arg(0)?.kind {
        ElementKind::F32 => on_the_fly(call, layer),
        ElementKind::I8 => integers(call, layer),
        kind => Err(refused(0, kind).into()),
    }
}

/// Checks the types of the weights over features and time, of the bias, and of the state.
fn check_kinds(call: &OperatorCall<'_, '_>, kinds: [ElementKind; 4]) -> Lowered {
    for (index, kind) in (1..).zip(kinds) {
        let found = call.has(index).then(|| call.arg(index)).transpose()?;
        if let Some(found) = found.filter(|found| found.kind != kind) {
            return Err(refused(index, found.kind).into());
        }
    }
    call.result_is(1, &[kinds[3]])?;
    if call.arg(1)?.channels.is_some() || call.arg(2)?.channels.is_some() {
        return Err(OpError::rule("weights have a scale per channel").into());
    }
    Ok(())
}

fn integers(call: &mut OperatorCall<'_, '_>, layer: Layer) -> Lowered {
    use ElementKind::{I8, I16, I32};
    check_kinds(call, [I8, I16, I32, I16])?;
    call.result_is(0, &[I8])?;
    if call.activation(1)? != Activation::Relu {
        return Err(OpError::rule("SVDF of integers has RELU as its only activation").into());
    }
    let (input, result) = (call.arg(0)?, call.result(0)?);
    let [input_scale, features_scale, time_scale, state_scale] =
        [call.arg(0)?, call.arg(1)?, call.arg(2)?, call.arg(4)?].map(|arg| f64::from(arg.scale));
    let to_state = Multiplier::new(input_scale * features_scale / state_scale);
    let to_result = Multiplier::new(state_scale * time_scale / f64::from(result.scale));
    let (from_zero, to_zero) = (input.zero_point, result.zero_point);
    let shape = call.result(0)?.shape;
    let label = plain("tflite_svdf_i8", &shape, 0);
    call.emit_with_scratch(label, 4 * layer.filters, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (input, features) = (fixed.input::<i8>(0), fixed.input::<i8>(1));
        let (time, bias) = (fixed.input::<i16>(2), fixed.input::<i32>(3));
        let (before, next) = (fixed.input::<i16>(4), fixed.output::<i16>(1));
        let (Layer { depth, filters, memory, rank, .. }, units) = (layer, layer.units());
        let sums = &mut io.scratch_slice::<i32>()[..filters];
        for batch in 0..layer.batches {
            poll::work(layer.work())?;
            let row = input.slice(batch * depth..(batch + 1) * depth);
            for (filter, sum) in sums.iter_mut().enumerate() {
                let own = features.slice(filter * depth..(filter + 1) * depth).iter();
                let products = own.zip(row.iter()).map(|(weight, value)| {
                    i32::from(weight).wrapping_mul(i32::from(value) - from_zero)
                });
                let dot = to_state.apply(products.fold(0, i32::wrapping_add));
                let newest = i16::try_from(dot.clamp(-32_768, 32_767)).unwrap_or(0);
                layer.remember(batch * filters + filter, before, next, newest);
                let first = (batch * filters + filter) * memory;
                let line = next.as_in().slice(first..first + memory);
                let own = time.slice(filter * memory..(filter + 1) * memory).iter();
                let products = own.zip(line.iter()).map(|(a, b)| i32::from(a) * i32::from(b));
                *sum = products.fold(0, i32::wrapping_add);
            }
            let output = fixed.output::<i8>(0);
            for (unit, sums) in sums.chunks_exact(rank).enumerate() {
                let sum = sums.iter().copied().fold(0, i32::wrapping_add);
                let bias = if layer.has_bias { bias.get(unit) } else { 0 };
                let scaled = to_result.apply(sum.wrapping_add(bias)).wrapping_add(to_zero);
                let stored = i8::try_from(scaled.clamp(-128, 127)).unwrap_or(0);
                output.set(batch * units + unit, stored);
            }
        }
        Ok(())
    });
    Ok(())
}

/// Rows are quantised as they come; weights over time and the state are floats.
fn on_the_fly(call: &mut OperatorCall<'_, '_>, layer: Layer) -> Lowered {
    use ElementKind::{F32, I8};
    check_kinds(call, [I8, I8, F32, F32])?;
    call.result_is(0, &[F32])?;
    let activation = call.activation(1)?;
    let way = OnTheFly::new(call.flag(2)?);
    let (features_scale, time_scale) = (call.arg(1)?.scale, call.arg(2)?.scale);
    let shape = call.result(0)?.shape;
    let (label, isa) = (plain("tflite_svdf_on_the_fly", &shape, 0), call.isa());
    let room = 4 * layer.filters + layer.depth;
    call.emit_with_scratch(label, room, move |mut io| {
        let fixed = io.inputs_and_outputs();
        let (input, features) = (fixed.input::<f32>(0), fixed.input::<i8>(1));
        let (time, bias) = (fixed.input::<i8>(2), fixed.input::<f32>(3));
        let (before, next) = (fixed.input::<f32>(4), fixed.output::<f32>(1));
        let (Layer { depth, filters, memory, rank, .. }, units) = (layer, layer.units());
        let (sums, row) = io.scratch_slice::<u8>().split_at_mut(4 * filters);
        let (sums, row) = (bytemuck::cast_slice_mut::<u8, f32>(sums), &mut row[..depth]);
        for batch in 0..layer.batches {
            poll::work(layer.work())?;
            let values = input.slice(batch * depth..(batch + 1) * depth);
            let of = way.quantise(isa, values, 0, row);
            let scale = of.scale * features_scale;
            for (filter, sum) in sums.iter_mut().enumerate() {
                let own = features.slice(filter * depth..(filter + 1) * depth).iter();
                let products = own.zip(&*row).map(|(weight, byte)| {
                    i32::from(weight) * (i32::from(byte.cast_signed()) - of.zero_point)
                });
                let newest = f32_of(products.fold(0, i32::wrapping_add)) * scale;
                layer.remember(batch * filters + filter, before, next, newest);
                let first = (batch * filters + filter) * memory;
                let line = next.as_in().slice(first..first + memory);
                let own = time.slice(filter * memory..(filter + 1) * memory).iter();
                let products =
                    own.zip(line.iter()).map(|(a, b)| f32_of(i32::from(a)) * time_scale * b);
                *sum = products.fold(0.0, |sum, product| sum + product);
            }
            let output = fixed.output::<f32>(0);
            for (unit, sums) in sums.chunks_exact(rank).enumerate() {
                let sum = sums.iter().fold(0.0, |sum, one| sum + one);
                let sum = if layer.has_bias { sum + bias.get(unit) } else { sum };
                output.set(batch * units + unit, activation.apply(sum));
            }
        }
        Ok(())
    });
    Ok(())
}
