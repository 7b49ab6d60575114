//! SVDF: a low-rank filter over the recent activations of features.
//!
//! Source: NNAPI SVDF, since HAL 1.0, FLOAT16 since 1.2. The state is `[batch, memory * features]`
//! wide: the documentation says one memory slot less, the implementation and every test say this.

use half::f16;
use nnburst_kernels::kernels::gemv_f32::{Gemv, Start};
use nnburst_kernels::kernels::svdf_f32::Filter;
use nnburst_kernels::kernels::{NO_CLAMP, Precision};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, OpError, Out, Shape, poll};

use super::lstm_cell::extents_2d;
use super::math::{Activation, Functions, dot};
use super::operands::{Id, Operands, is_half};
use crate::lowering::{Io, Label, Lowered, OpBuilder, Words};
use crate::ops::Op;

pub(in crate::ops) static SVDF: Op = Op { lower };

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let half = is_half(0, op.input(0)?.kind)?;
    let [batch, width] = extents_2d(op, 0)?;
    let features = extents_2d(op, 1)?[0];
    let memory = extents_2d(op, 2)?[1];
    let rank = op.extent(5, 1)?;
    if features == 0 || memory == 0 || features % rank != 0 {
        let what = format!("{features} features of rank {rank} with a memory of {memory}");
        return Err(OpError::input(1, what).into());
    }
    let units = features / rank;
    let functions = Functions::new(op.isa(), Activation::from_code(6, op.i32(6)?)?);
    let extents = Extents { batch, width, units, rank, memory };
    let mut operands = Operands::default();
    let ids = Ids {
        x: operands.required(op, 0, &[batch, width])?,
        feature_weights: operands.required(op, 1, &[features, width])?,
        time_weights: operands.required(op, 2, &[features, memory])?,
        bias: operands.optional(op, 3, &[units])?,
        state: operands.required(op, 4, &[batch, memory * features])?,
    };
    op.set_output(0, Shape::new([batch, memory * features])?)?;
    op.set_output(1, Shape::new([batch, units])?)?;
    let packed = if half { None } else { Packed::new(op.isa(), extents, &operands, &ids) };
    match packed {
        Some(packed) => {
            op.absorb(1);
            packed.emit(op, functions);
        }
        None => emit_plain(op, extents, operands, ids, functions, half),
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
struct Extents {
    batch: usize,
    width: usize,
    units: usize,
    rank: usize,
    memory: usize,
}

impl Extents {
    fn features(&self) -> usize {
        self.units * self.rank
    }

    fn label(&self, kernel: &'static str) -> Label {
        let Self { batch, width, rank, memory, .. } = *self;
        let features = self.features();
        let operations = u64::try_from(2 * batch * features * (width + memory)).unwrap_or(u64::MAX);
        let shape = Words::new(move |f| {
            write!(f, "{batch}x{width} features {features} memory {memory} rank {rank}")
        });
        Label { kernel, form: Isa::Scalar, shape, operations }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ids {
    x: Id,
    feature_weights: Id,
    time_weights: Id,
    bias: Id,
    state: Id,
}

/// The operation on `f32` with constant weights: states are read and written where they lie.
#[derive(Debug)]
struct Packed {
    extents: Extents,
    features: Gemv,
    filter: Filter,
    time_weights: Vec<f32>,
    bias: Vec<f32>,
    /// What the features' sums start with.
    zeros: Vec<f32>,
}

impl Packed {
    fn new(isa: Isa, extents: Extents, operands: &Operands, ids: &Ids) -> Option<Self> {
        let Extents { width, units, rank, memory, .. } = extents;
        let bias = if operands.has(ids.bias) {
            operands.constant(ids.bias)?.to_vec()
        } else {
            vec![0.0; units]
        };
        Some(Self {
            extents,
            features: Gemv::new(
                isa,
                Precision::Single,
                operands.constant(ids.feature_weights)?,
                width,
            )?,
            filter: Filter::new(isa, units, rank, memory),
            time_weights: operands.constant(ids.time_weights)?.to_vec(),
            bias,
            zeros: vec![0.0; extents.features()],
        })
    }

    fn emit(self, op: &mut OpBuilder<'_>, functions: Functions) {
        let Extents { batch, width, units, memory, .. } = self.extents;
        let features = self.extents.features();
        let label = Label { form: self.filter.isa(), ..self.extents.label("svdf_f32") };
        let bytes = (features + units) * size_of::<f32>();
        op.emit_with_scratch(label, bytes, move |mut io: Io<'_>| {
            let (xs, states) = (io.input::<f32>(0), io.input::<f32>(4));
            let (next, outputs) = (io.output::<f32>(0), io.output::<f32>(1));
            let (newest, sums) = io.scratch_slice::<f32>().split_at_mut(features);
            for row in poll::each(0..batch, 64) {
                let slots = row * features * memory..(row + 1) * features * memory;
                let (x, start) =
                    (xs.slice(row * width..(row + 1) * width), Start::Bias(&self.zeros));
                self.features.compute(x, 1, start, Out::of(newest), features, NO_CLAMP)?;
                sums.copy_from_slice(&self.bias);
                let (state, next) = (states.slice(slots.clone()), next.slice(slots));
                self.filter.compute(state, newest, &self.time_weights, next, sums)?;
                functions.activate(sums);
                outputs.slice(row * units..(row + 1) * units).copy_from(In::of(sums));
            }
            Ok(())
        });
    }
}

/// Any type, weights from anywhere.
fn emit_plain(
    op: &mut OpBuilder<'_>,
    extents: Extents,
    operands: Operands,
    ids: Ids,
    functions: Functions,
    half: bool,
) {
    let Extents { width, units, rank, memory, .. } = extents;
    let features = extents.features();
    let label = extents.label("svdf");
    let bytes = (operands.scratch + features * memory + units) * size_of::<f32>();
    op.emit_with_scratch(label, bytes, move |mut io: Io<'_>| {
        let outer = io.inputs_and_outputs();
        let (copies, work) = operands.load(&mut io);
        let (state, output) = work.split_at_mut(features * memory);
        let xs = operands.there(copies, ids.x).chunks_exact(width.max(1));
        let states = operands.there(copies, ids.state).chunks_exact(features * memory);
        for (row, (x, previous)) in poll::each(xs.zip(states).enumerate(), 64) {
            poll::work(features * memory / 8)?;
            state.copy_from_slice(previous);
            let weights = operands.there(copies, ids.feature_weights).chunks_exact(width.max(1));
            for (slots, weights) in poll::each(state.chunks_exact_mut(memory).zip(weights), 8) {
                slots[memory - 1] = dot(weights, x);
            }
            output.fill(0.0);
            if let Some(bias) = operands.get(copies, ids.bias) {
                output.copy_from_slice(bias);
            }
            let times = operands.there(copies, ids.time_weights).chunks_exact(memory);
            let features = state.chunks_exact(memory).zip(times).enumerate();
            for (feature, (slots, times)) in poll::each(features, 8) {
                output[feature / rank] += dot(slots, times);
            }
            functions.activate(output);
            // The newest value makes room: shifted left, a zero at the end.
            for slots in poll::each(state.chunks_exact_mut(memory), 8 + memory / 8) {
                slots.copy_within(1.., 0);
                slots[memory - 1] = 0.0;
            }
            store_row(&outer, 0, half, row, state);
            store_row(&outer, 1, half, row, output);
        }
        Ok(())
    });
}

fn store_row(io: &Io<'_>, output: usize, half: bool, row: usize, values: &[f32]) {
    let range = row * values.len()..(row + 1) * values.len();
    if half {
        let out = io.output::<f16>(output).slice(range);
        out.fill(values.iter().map(|&value| f16::from_f32(value)));
    } else {
        io.output::<f32>(output).slice(range).fill(values.iter().copied());
    }
}
