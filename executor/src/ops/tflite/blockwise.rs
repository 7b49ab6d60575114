//! FULLY_CONNECTED of floats with 8-bit weights that have a scale for each block of a row, as
//! language models have them: rows are quantised on the fly, and the sums of each block are added
//! up as floats.

use nnburst_kernels::kernels::gemv_blocks_i4::GemvBlocks;
use nnburst_kernels::kernels::gemv_i8::GemvBytes;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::tensor::{In, OpError, Out, Shape};

use super::arg::{Arg, ElementKind, OperatorCall};
use super::math::f32_of;
use super::on_the_fly::{OnTheFly, RowScale};
use crate::lowering::{Label, Lowered};
use crate::ops::support::plain;

/// The input that has the scales, `[units, blocks]`.
pub(super) const SCALES: usize = 3;

/// Rows that meet the weights of a block at a time.
const ROWS: usize = 8;

/// Bytes that the machine's dot products take at a time.
const WORD: usize = 4;

/// Weights `[units, depth]` and their scales, packed.
struct BlockWeights {
    packed: Packed,
    /// Elements of a block.
    block: usize,
    /// For each unit the sum of its weights, each times its scale: what a step of a row's zero
    /// point adds.
    sums: Vec<f32>,
}

enum Packed {
    /// For a row of the input, weights of 4 bits.
    Row(GemvBlocks),
    /// Weights block by block, and for each block a row of the units' scales.
    Rows { blocks: Vec<GemvBytes>, scales: Vec<f32> },
}

impl BlockWeights {
    fn new(
        call: &mut OperatorCall<'_, '_>,
        weights: &Arg,
        [rows, units]: [usize; 2],
    ) -> Lowered<Self> {
        let given = call.arg(SCALES)?;
        let depth = weights.shape.last().copied().unwrap_or(0);
        let &[of, count] = &given.shape[..] else {
            return Err(OpError::input(SCALES, format!("is of {:?}", given.shape)).into());
        };
        let block = depth.checked_div(count).unwrap_or(0);
        let fits = of == units && block * count == depth && block.is_multiple_of(WORD);
        if !fits || block == 0 || units == 0 {
            let what = format!("is of {:?} for weights of {:?}", given.shape, weights.shape);
            return Err(OpError::input(SCALES, what).into());
        }
        if weights.kind != ElementKind::I8 || weights.zero_point != 0 {
            return Err(OpError::input(1, "is not of INT8 without a zero point").into());
        }
        if given.kind != ElementKind::F32 {
            return Err(OpError::input(SCALES, "is not of floats").into());
        }
        let constants = call.constant(1).zip(call.constant(SCALES));
        let (values, own) = constants.ok_or_else(|| OpError::rule("weights are no constants"))?;
        let (values, own) = (values.typed::<i8>(), own.typed::<f32>());
        // A block of weights at a time; scales, their sums, and what each block's units start with.
        call.claim(units * block + 4 * units * (2 * count + 1))?;
        let mut sums = vec![0f32; units];
        for (sum, (row, scales)) in
            sums.iter_mut().zip(values.chunks_exact(depth).zip(own.chunks_exact(count)))
        {
            for (block, scale) in row.chunks_exact(block).zip(scales) {
                *sum += f32_of(block.iter().map(|&weight| i32::from(weight)).sum()) * scale;
            }
        }
        let isa = call.isa();
        let row = (rows == 1).then(|| GemvBlocks::new(isa, values, block, count, own)).flatten();
        if let Some(row) = row {
            return Ok(Self { packed: Packed::Row(row), block, sums });
        }
        let bias = vec![0; units];
        let mut blocks = Vec::with_capacity(count);
        let mut scales = Vec::with_capacity(units * count);
        for at in 0..count {
            let mut part = Vec::with_capacity(units * block);
            for (unit, row) in values.chunks_exact(depth).enumerate() {
                scales.push(own[unit * count + at]);
                part.extend_from_slice(&row[at * block..(at + 1) * block]);
            }
            let packed = GemvBytes::new(isa, &part, block, 0, &bias);
            blocks.push(packed.ok_or_else(|| OpError::rule("there is no room for weights"))?);
        }
        Ok(Self { packed: Packed::Rows { blocks, scales }, block, sums })
    }
}

/// Lowers the layer: rows of `depth` floats, as many as the result of `shape` has.
pub(super) fn fully_connected(
    call: &mut OperatorCall<'_, '_>,
    weights: &Arg,
    shape: &Shape,
    [rows, units, depth]: [usize; 3],
) -> Lowered {
    let activation = call.activation(0)?;
    if !activation.is_range() {
        return Err(OpError::rule(format!("{activation:?} behind scales of blocks")).into());
    }
    let has_bias = call.has_float_bias(2, units)?;
    let BlockWeights { packed, block, sums } = BlockWeights::new(call, weights, [rows, units])?;
    let (isa, range) = (call.isa(), activation.real_range());
    let work = 2 * u64::try_from(shape.elements().saturating_mul(depth)).unwrap_or(u64::MAX);
    let label = plain("tflite_blockwise", shape, work);
    let (blocks, scales) = match packed {
        Packed::Row(weights) => {
            let label = Label { form: weights.isa(), ..label };
            // The row as it is quantised, the totals, and what the sums of blocks start with.
            let scratch = depth + 4 * (weights.totals() + weights.blocks());
            call.emit_with_scratch(label, scratch, move |mut io| {
                let (from, output) = (io.input::<f32>(0), io.output::<f32>(0));
                let inputs = io.inputs_and_outputs();
                let bias = has_bias.then(|| inputs.input::<f32>(2));
                let (row, rest) = io.scratch_slice::<u8>().split_at_mut(depth);
                let (totals, starts) = rest.split_at_mut(4 * weights.totals());
                let totals: &mut [f32] = bytemuck::cast_slice_mut(totals);
                let found = OnTheFly::Asymmetric.quantise(isa, from, 0, row);
                let row = bytemuck::cast_slice(row);
                weights.compute(row, bytemuck::cast_slice_mut(starts), totals)?;
                let totals = &totals[..units];
                isa.run(Finish { totals, sums: &sums, row: found, bias, range, output });
                Ok(())
            });
            return Ok(());
        }
        Packed::Rows { blocks, scales } => (blocks, scales),
    };
    let form = blocks.first().map_or(isa, GemvBytes::isa);
    let label = Label { form, ..label };
    // Accumulators of a row, in whole vectors.
    let stride = blocks.first().map_or(0, GemvBytes::sums);
    let most = ROWS.min(rows);
    // A row as it is quantised, the rows block by block, sums of a block and of all of them.
    let scratch = depth + most * depth + 8 * most * stride;
    call.emit_with_scratch(label, scratch, move |mut io| {
        let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
        let inputs = io.inputs_and_outputs();
        let bias = has_bias.then(|| inputs.input::<f32>(2));
        let (row, rest) = io.scratch_slice::<u8>().split_at_mut(depth);
        let (kept, rest) = rest.split_at_mut(most * depth);
        let (block_sums, totals) = rest.split_at_mut(4 * most * stride);
        let block_sums: &mut [i32] = bytemuck::cast_slice_mut(block_sums);
        let totals: &mut [f32] = bytemuck::cast_slice_mut(totals);
        let flip = blocks.first().map_or(0, GemvBytes::flip);
        let mut found = [RowScale { scale: 1.0, zero_point: 0 }; ROWS];
        for first in (0..rows).step_by(most.max(1)) {
            let count = most.min(rows - first);
            for (at, found) in found[..count].iter_mut().enumerate() {
                let values = from.slice((first + at) * depth..(first + at + 1) * depth);
                *found = OnTheFly::Asymmetric.quantise(isa, values, flip, row);
                for (part, bytes) in row.chunks_exact(block).enumerate() {
                    kept[(part * count + at) * block..][..block].copy_from_slice(bytes);
                }
            }
            totals.fill(0.0);
            let parts = kept[..count * depth].chunks_exact(count * block);
            let scales = scales.chunks_exact(units);
            for ((kept, weights), scales) in parts.zip(&blocks).zip(scales) {
                let sums = &mut block_sums[..count * stride];
                weights.compute(bytemuck::cast_slice(kept), count, sums)?;
                let rows = sums.chunks_exact(stride).zip(totals.chunks_exact_mut(stride));
                for (sums, totals) in rows {
                    isa.run(AddBlock { sums, scales, totals });
                }
            }
            for (at, &row) in found[..count].iter().enumerate() {
                let totals = &totals[at * stride..][..units];
                let output = to.slice((first + at) * units..(first + at + 1) * units);
                isa.run(Finish { totals, sums: &sums, row, bias, range, output });
            }
        }
        Ok(())
    });
    Ok(())
}

/// Adds a block's sums, each times its scale.
struct AddBlock<'a> {
    sums: &'a [i32],
    scales: &'a [f32],
    totals: &'a mut [f32],
}

impl Loop for AddBlock<'_> {
    #[inline(always)]
    fn run(self) {
        let pairs = self.sums.iter().zip(self.scales);
        for (total, (&sum, &scale)) in self.totals.iter_mut().zip(pairs) {
            *total += f32_of(sum) * scale;
        }
    }
}

/// The results of a row.
struct Finish<'a> {
    totals: &'a [f32],
    sums: &'a [f32],
    row: RowScale,
    bias: Option<In<'a, f32>>,
    range: (f32, f32),
    output: Out<'a, f32>,
}

impl Loop for Finish<'_> {
    #[inline(always)]
    fn run(self) {
        const BLOCK: usize = 16;
        let whole = self.totals.len() / BLOCK * BLOCK;
        (0..whole).step_by(BLOCK).for_each(|at| self.block::<BLOCK>(at));
        (whole..self.totals.len()).for_each(|at| self.block::<1>(at));
    }
}

impl Finish<'_> {
    #[inline(always)]
    fn block<const N: usize>(&self, at: usize) {
        let (scale, zero_point) = (self.row.scale, f32_of(self.row.zero_point));
        let (low, high) = self.range;
        let bias = self.bias.map_or([0.0; N], |bias| bias.block::<N>(at));
        let mut reals = [0.0; N];
        let sums = self.totals[at..at + N].iter().zip(&self.sums[at..at + N]);
        for ((real, (total, sum)), bias) in reals.iter_mut().zip(sums).zip(bias) {
            let x = (total - zero_point * sum) * scale + bias;
            let x = if x < low { low } else { x };
            *real = if x > high { high } else { x };
        }
        self.output.set_block(at, reals);
    }
}
