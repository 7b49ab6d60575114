//! Matrix products: FULLY_CONNECTED of integers and on the fly, BATCH_MATMUL of any batch.

use std::ops::Range;
use std::sync::Arc;

use nnburst_kernels::kernels::gemm_f32::{Layout, MatrixProduct};
use nnburst_kernels::kernels::gemm_i8::{ByteProduct, Bytes, RowGemm};
use nnburst_kernels::kernels::gemv_i8::{GemvBytes, ToFloats};
use nnburst_kernels::kernels::product_f32::{FAR, Product};
use nnburst_kernels::kernels::round_once_i8::RoundOnce;
use nnburst_kernels::kernels::round_twice_i8::RoundTwice;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::simd::requantise::Scaling;
use nnburst_kernels::tensor::quant::Multiplier;
use nnburst_kernels::tensor::{Element, In, OpError, Out, Shape, poll};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, refused};
use super::blockwise;
use super::byte_matmul::{self, BytePairs};
use super::conv::{BiasKind, Requantise, Weights, bias_at};
use super::dots::{OF_BYTES, dots, exact, wide_dots};
use super::half_bytes::HalfBytes;
use super::math::{Stored, StoredType, f32_of, f64_of, low, round_f64};
use super::on_the_fly::{Dequantiser, OnTheFly, RowScale};
use super::products::{ByteProducts, RowBytes, RowKernel};
use crate::lowering::part::{Matrices, StepPart};
use crate::lowering::{Io, Label, Lowered};
use crate::ops::support::plain;

/// Rows from which on packing them for the GEMM pays.
const GEMM_ROWS: usize = 12;

/// Weights from which on memory counts more: the GEMM's take 16 bits each, and a language model's
/// are no more those that single rows are multiplied with.
const GEMM_WEIGHTS: usize = 1 << 22;

/// Rows of the input times rows of the weights.
#[derive(Clone, Copy, Debug)]
struct Rows {
    rows: usize,
    units: usize,
    depth: usize,
}

impl Rows {
    /// Returns whether threads gain by sharing the units of one row: by fetching weights together.
    fn shares_columns(&self, call: &OperatorCall<'_, '_>) -> bool {
        call.threads() > 1 && self.units.saturating_mul(self.depth) >= FAR
    }

    /// Returns whether the GEMM is faster, rows are many enough for it, and weights few enough.
    fn gains_by_gemm(&self, call: &OperatorCall<'_, '_>) -> bool {
        // Threads share rows here, and units with the kernel of few rows.
        self.rows / call.threads().max(1) >= GEMM_ROWS
            && self.units.saturating_mul(self.depth) < GEMM_WEIGHTS
            && RowGemm::gains(call.isa())
    }

    /// Adds the step of rows of bytes whose sums are rounded to bytes.
    fn emit_rounded<K: RowKernel>(
        self,
        call: &mut OperatorCall<'_, '_>,
        label: Label,
        products: ByteProducts<K>,
        rounding: RoundOnce,
    ) {
        let label = Label { form: products.isa(), ..label };
        let keep = move |products: &ByteProducts<K>, io: &Io<'_>, row, kept: &mut [u8]| {
            products.keep(self.row(io, row), kept);
        };
        products.emit(call, label, self.rows, keep, move |io, (), row, units, sums| {
            rounding.compute_some(units.start, sums, self.results(io, row, units))
        });
    }

    /// Adds the step of rows of floats that are quantised on the fly.
    fn emit_floats<K: RowKernel>(
        self,
        call: &mut OperatorCall<'_, '_>,
        label: Label,
        products: ByteProducts<K>,
        way: OnTheFly,
        to_floats: Dequantiser,
        has_bias: bool,
    ) {
        let (isa, label) = (call.isa(), Label { form: products.isa(), ..label });
        let keep = move |products: &ByteProducts<K>, io: &Io<'_>, row, kept: &mut [u8]| {
            way.quantise(isa, self.row(io, row), products.flip(), &mut kept[..self.depth])
        };
        products.emit(call, label, self.rows, keep, move |io, found, row, units, sums| {
            let bias = has_bias.then(|| io.input::<f32>(2));
            let output = self.results(io, row, units.clone());
            to_floats.run(isa, units, sums, found, bias, output);
            Ok(())
        });
    }

    /// A row of the input.
    fn row<'a, T: Element>(&self, io: &Io<'a>, row: usize) -> In<'a, T> {
        io.input::<T>(0).slice(row * self.depth..(row + 1) * self.depth)
    }

    /// The results of some units for a row.
    fn results<'a, T: Element>(&self, io: &Io<'a>, row: usize, units: Range<usize>) -> Out<'a, T> {
        let first = row * self.units;
        io.output::<T>(0).slice(first + units.start..first + units.end)
    }
}

/// FULLY_CONNECTED. Integers are rounded once, in double precision; FLOAT32 times integers are
/// quantised row by row first.
pub(super) fn fully_connected(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, weights, result) = (call.arg(0)?, call.arg(1)?, call.result(0)?);
    let &[units, depth] = &weights.shape[..] else {
        return Err(OpError::input(1, format!("is of {:?}", weights.shape)).into());
    };
    let keeps = call.flag(1)?;
    let elements = input.shape.elements();
    if depth == 0 || !elements.is_multiple_of(depth) {
        return Err(OpError::input(0, format!("{elements} elements in rows of {depth}")).into());
    }
    let rows = elements / depth;
    let mut extents = vec![rows, units];
    if keeps {
        extents = input.shape.to_vec();
        if extents.pop() != Some(depth) {
            return Err(OpError::input(0, "has rows of another length").into());
        }
        extents.push(units);
    }
    let shape = call.set(0, &extents)?;
    let of = Rows { rows, units, depth };
    if call.has(blockwise::SCALES) {
        if [input.kind, result.kind] != [ElementKind::F32; 2] {
            return Err(OpError::rule("scales of blocks are for floats").into());
        }
        return blockwise::fully_connected(call, &weights, &shape, [rows, units, depth]);
    }
    match input.kind {
        ElementKind::F32 if result.kind != ElementKind::F32 => {
            Err(OpError::output(0, "is not of floats").into())
        }
        ElementKind::F32 if weights.kind == ElementKind::F32 => real(call, &shape, of),
        ElementKind::F32 => hybrid(call, &weights, &shape, of),
        _ => integers(call, &input, &weights, &result, &shape, of),
    }
}

fn integers(
    call: &mut OperatorCall<'_, '_>,
    input: &Arg,
    weights: &Arg,
    result: &Arg,
    shape: &Shape,
    of: Rows,
) -> Lowered {
    let (min, max) = result.activated(call.activation(0)?)?;
    let scales = weights.scales(of.units)?;
    let once: Vec<f64> = scales
        .iter()
        .map(|&scale| f64::from(input.scale) * f64::from(scale) / f64::from(result.scale))
        .collect();
    let (bias, isa) = (bias_at(call, 2, of.units)?, call.isa());
    let (from_zero, to_zero) = (input.zero_point, result.zero_point);
    let work = 2 * u64::try_from(shape.elements().saturating_mul(of.depth)).unwrap_or(u64::MAX);
    let start = match bias {
        BiasKind::None => Some(vec![0; of.units]),
        BiasKind::I32(index) => call.constant(index).map(|bias| bias.typed::<i32>().to_vec()),
        BiasKind::I64(_) => None,
    };
    if let Some(bytes) = RowBytes::of(input)
        && matches!(result.kind, ElementKind::I8 | ElementKind::U8)
        && let Some(start) = start
    {
        let label = plain("tflite_fully_connected_i8", shape, work);
        call.claim(4 * of.units)?;
        if of.gains_by_gemm(call)
            && let Some(products) =
                ByteProducts::<RowGemm>::new(call, 1, weights, of.depth, bytes, Some(&start))?
        {
            let rounding = RoundOnce::new(isa, once, to_zero, (min, max));
            of.emit_rounded(call, label, products, rounding);
            return Ok(());
        }
        if let Some(products) =
            ByteProducts::<GemvBytes>::new(call, 1, weights, of.depth, bytes, Some(&start))?
        {
            let label = Label { form: products.isa(), ..label };
            let rounding = RoundOnce::new(isa, once, to_zero, (min, max));
            if of.rows != 1 || !products.reads_in_place() || of.shares_columns(call) {
                of.emit_rounded(call, label, products, rounding);
                return Ok(());
            }
            // A network of such layers takes a tenth of a microsecond for each: nothing is copied.
            call.emit_with_scratch(label, 4 * products.sum_stride(), move |mut io| {
                let (from, output) = (io.input::<u8>(0), io.output::<u8>(0));
                products.compute_rounded(from, &rounding, io.scratch_slice(), output)
            });
            return Ok(());
        }
    }
    let weights = Weights::new(call, 1, weights)?;
    let label = plain("tflite_fully_connected", shape, work);
    let (values, results) = (StoredType::of(input.kind)?, StoredType::of(result.kind)?);
    call.emit_with_scratch(label, 2 * of.depth, move |mut io| {
        let filters = weights.get(&io);
        let (from, to) = (io.input::<u8>(0), io.output::<u8>(0));
        let inputs = io.inputs_and_outputs();
        let row = io.scratch_slice::<i16>();
        for at in poll::each(0..of.rows, of.units * of.depth / 8) {
            values.widen(from, at * of.depth, 1, from_zero, row);
            dots(isa, exact(values.bytes), row, &filters, of.units, |unit, sum| {
                let sum = sum.wrapping_add(bias.get(&inputs, unit));
                let scaled = round_f64(f64_of(sum) * once[unit]);
                let stored = scaled.saturating_add(to_zero).clamp(min, max);
                results.store(to, at * of.units + unit, stored);
            });
        }
        Ok(())
    });
    Ok(())
}

/// FLOAT32 times FLOAT32: of more dimensions than NNAPI's operation takes.
fn real(call: &mut OperatorCall<'_, '_>, shape: &Shape, of: Rows) -> Lowered {
    let Rows { rows, units, depth } = of;
    let activation = call.activation(0)?;
    let (range, isa) = (activation.real_range(), call.isa());
    let has_bias = call.has_float_bias(2, units)?;
    let work = 2 * u64::try_from(shape.elements().saturating_mul(depth)).unwrap_or(u64::MAX);
    let label = plain("tflite_fully_connected_f32", shape, work);
    call.claim(4 * units)?;
    let bias = match has_bias {
        true => call.constant(2).map(|bias| bias.typed::<f32>().to_vec()),
        false => Some(vec![0.0; units]),
    };
    if let (Some(weights), Some(bias)) = (call.constant(1), &bias) {
        let weights = weights.typed();
        let packed = Product::new(isa, call.precision(), rows, depth, weights, bias, range);
        if let Some(packed) = packed {
            let label = Label { form: packed.isa(), ..label };
            if call.threads() > 1 && packed.gains_by_sharing() && activation.is_range() {
                let (scratch, bands) = (packed.scratch_bytes(), packed.bands());
                call.emit_bands(label, scratch, bands, move |mut io, bands| {
                    let (input, output) = (io.input::<f32>(0), io.output::<f32>(0));
                    packed.compute_some(input, output, bands, io.scratch_slice())
                });
                return Ok(());
            }
            call.emit_with_scratch(label, packed.scratch_bytes(), move |mut io| {
                let output = io.output::<f32>(0);
                packed.compute(io.input::<f32>(0), output, io.scratch_slice())?;
                activation.finish(output);
                Ok(())
            });
            return Ok(());
        }
    }
    call.emit_bands(label, 0, rows * units, move |io, outputs| {
        let (input, weights, output) = (io.input::<f32>(0), io.input::<f32>(1), io.output(0));
        for at in poll::each(outputs, depth / 2 + 8) {
            let (row, unit) = (at / units, at % units);
            let own = input.slice(row * depth..(row + 1) * depth);
            let weights = weights.slice(unit * depth..(unit + 1) * depth);
            let products = own.iter().zip(weights.iter()).map(|(x, weight)| x * weight);
            let start = if has_bias { io.input::<f32>(2).get(unit) } else { 0.0 };
            let sum = products.fold(start, |sum, product| sum + product);
            output.set(at, activation.apply(sum));
        }
        Ok(())
    });
    Ok(())
}

/// FLOAT32 times integers: each row is quantised, multiplied in integers and brought back.
fn hybrid(call: &mut OperatorCall<'_, '_>, weights: &Arg, shape: &Shape, of: Rows) -> Lowered {
    let activation = call.activation(0)?;
    let way = OnTheFly::new(call.flag(2)?);
    let scales = weights.scales(of.units)?;
    let has_bias = call.has_float_bias(2, of.units)?;
    let work = 2 * u64::try_from(shape.elements().saturating_mul(of.depth)).unwrap_or(u64::MAX);
    let (label, isa) = (plain("tflite_hybrid", shape, work), call.isa());
    if of.rows == 1
        && let Some((products, sums_of_weights)) = HalfBytes::new(call, 1, weights, of.depth)?
    {
        let label = Label { kernel: "tflite_hybrid_i4", form: products.isa(), ..label };
        let to_floats = Dequantiser { scales, sums_of_weights, activation, joins_scales: true };
        call.emit_with_scratch(label, products.scratch_bytes(), move |mut io| {
            let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
            let bias = has_bias.then(|| io.input::<f32>(2));
            let (row, rest) = products.split(io.scratch_slice());
            let found = way.quantise(isa, from, 0, row);
            let sums = products.compute(row, rest)?;
            to_floats.run(isa, 0..of.units, sums, found, bias, to);
            Ok(())
        });
        return Ok(());
    }
    let bytes = RowBytes::SIGNED;
    if of.gains_by_gemm(call)
        && let Some(products) =
            ByteProducts::<RowGemm>::new(call, 1, weights, of.depth, bytes, None)?
        && products.weights_zero() == 0
    {
        let label = Label { kernel: "tflite_hybrid_i8", ..label };
        let sums_of_weights = products.sums_of_weights().to_vec();
        let to_floats = Dequantiser { scales, sums_of_weights, activation, joins_scales: true };
        of.emit_floats(call, label, products, way, to_floats, has_bias);
        return Ok(());
    }
    if let Some(products) =
        ByteProducts::<GemvBytes>::new(call, 1, weights, of.depth, RowBytes::SIGNED, None)?
        && products.weights_zero() == 0
    {
        let label = Label { kernel: "tflite_hybrid_i8", form: products.isa(), ..label };
        if of.rows == 1 && !of.shares_columns(call) {
            let no_bias = if has_bias { Vec::new() } else { vec![0.0; of.units] };
            call.claim(8 * products.sum_stride() + 4 * no_bias.len())?;
            let (mut scales, mut sums_of_weights) = (scales, products.sums_of_weights().to_vec());
            scales.resize(products.sum_stride(), 0.0);
            sums_of_weights.resize(products.sum_stride(), 0);
            let range = activation.real_range();
            call.emit_with_scratch(label, products.scratch_bytes(), move |mut io| {
                let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
                let bias = if has_bias { io.input::<f32>(2) } else { In::of(&no_bias) };
                let (kept, sums) = products.split(io.scratch_slice());
                let RowScale { scale, zero_point } =
                    way.quantise(isa, from, products.flip(), &mut kept[..of.depth]);
                let (scales, sums_of_weights) = (&scales, &sums_of_weights);
                let to_floats =
                    ToFloats { scales, sums_of_weights, scale, zero_point, bias, range };
                products.compute_floats(kept, &to_floats, sums, to)?;
                activation.finish(to);
                Ok(())
            });
            return Ok(());
        }
        let sums_of_weights = products.sums_of_weights().to_vec();
        let to_floats = Dequantiser { scales, sums_of_weights, activation, joins_scales: true };
        of.emit_floats(call, label, products, way, to_floats, has_bias);
        return Ok(());
    }
    let weights = Weights::new(call, 1, weights)?;
    // The row with 16 bits, and with 8.
    call.emit_with_scratch(label, 3 * of.depth, move |mut io| {
        let filters = weights.get(&io);
        let (from, to) = (io.input::<f32>(0), io.output::<f32>(0));
        let inputs = io.inputs_and_outputs();
        let (row, bytes) = io.scratch_slice::<u8>().split_at_mut(2 * of.depth);
        let row: &mut [i16] = bytemuck::cast_slice_mut(row);
        for at in poll::each(0..of.rows, of.units * of.depth / 8) {
            let values = from.slice(at * of.depth..(at + 1) * of.depth);
            let scale = quantised(isa, way, values, &mut bytes[..of.depth], row);
            dots(isa, OF_BYTES, row, &filters, of.units, |unit, sum| {
                let bias = if has_bias { inputs.input::<f32>(2).get(unit) } else { 0.0 };
                let real = bias + f32_of(low(sum)) * (scale * scales[unit]);
                to.set(at * of.units + unit, activation.apply(real));
            });
        }
        Ok(())
    });
    Ok(())
}

/// A row of floats as integers less their zero point, by way of bytes; the scale of the row.
fn quantised(isa: Isa, way: OnTheFly, row: In<'_, f32>, bytes: &mut [u8], to: &mut [i16]) -> f32 {
    let of = way.quantise(isa, row, 0, bytes);
    for (to, byte) in to.iter_mut().zip(bytes) {
        *to = i16::stored(i32::from(byte.cast_signed()) - of.zero_point);
    }
    of.scale
}

impl Matrices {
    fn read(call: &mut OperatorCall<'_, '_>, a: &Arg, b: &Arg) -> Lowered<(Self, Shape)> {
        let split = |arg: &Arg, index: usize| {
            let shape = &arg.shape;
            let (batch, last) = shape
                .split_last_chunk::<2>()
                .ok_or_else(|| OpError::input(index, format!("is of {shape:?}, below rank 2")))?;
            Ok::<_, OpError>((Shape::new(batch)?, *last))
        };
        let ((batch_a, [a0, a1]), (batch_b, [b0, b1])) = (split(a, 0)?, split(b, 1)?);
        let (rows, depth, left) = if call.flag(0)? { (a1, a0, [1, a1]) } else { (a0, a1, [a1, 1]) };
        let (columns, depth_b, right) =
            if call.flag(1)? { (b0, b1, [b1, 1]) } else { (b1, b0, [1, b1]) };
        if depth != depth_b {
            return Err(OpError::rule(format!("{:?} times {:?}", a.shape, b.shape)).into());
        }
        let batch = batch_a.broadcast(&batch_b)?;
        let mut extents = batch.to_vec();
        extents.extend([rows, columns]);
        let shape = call.set(0, &extents)?;
        let strides = [batch_a.broadcast_strides(&batch), batch_b.broadcast_strides(&batch)];
        let place = |of: &[usize], mut at: usize| {
            let mut place = 0;
            for (&extent, stride) in batch.iter().zip(of).rev() {
                place += at % extent * stride;
                at /= extent;
            }
            place
        };
        call.claim(batch.elements().saturating_mul(size_of::<[usize; 2]>()))?;
        let pairs = (0..batch.elements())
            .map(|at| [place(&strides[0], at) * a0 * a1, place(&strides[1], at) * b0 * b1])
            .collect();
        Ok((Self { rows, columns, depth, pairs, strides: [left, right] }, shape))
    }
}

impl Matrices {
    /// The order of both matrices' elements.
    fn layouts(&self) -> (Layout, Layout) {
        let [left, right] = self.strides.map(|[_, along]| along == 1);
        (
            if left { Layout::RowMajor } else { Layout::ColumnMajor },
            if right { Layout::ColumnMajor } else { Layout::RowMajor },
        )
    }
}

/// BATCH_MATMUL of floats, of integers of one type, and of floats by 8-bit integers.
pub(super) fn batch_matmul(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (a, b, result) = (call.arg(0)?, call.arg(1)?, call.result(0)?);
    a.same_kind(&result)?;
    let (matrices, shape) = Matrices::read(call, &a, &b)?;
    match (a.kind, b.kind) {
        (ElementKind::F32, ElementKind::F32) => floats(call, matrices, &shape),
        (ElementKind::I8, ElementKind::I8)
        | (ElementKind::U8, ElementKind::U8)
        | (ElementKind::I16, ElementKind::I16 | ElementKind::I8) => {
            products(call, matrices, &a, &b, &result, &shape)
        }
        (ElementKind::F32, ElementKind::I8) => hybrid_products(call, matrices, &b, &shape),
        (_, kind) => Err(refused(1, kind).into()),
    }
}

fn work_of(matrices: &Matrices, shape: &Shape) -> u64 {
    2 * u64::try_from(shape.elements().saturating_mul(matrices.depth)).unwrap_or(u64::MAX)
}

fn floats(call: &mut OperatorCall<'_, '_>, of: Matrices, shape: &Shape) -> Lowered {
    let label = plain("tflite_batch_matmul", shape, work_of(&of, shape));
    let Matrices { rows, depth, columns, .. } = of;
    let (left, right) = of.layouts();
    if let Some(product) = MatrixProduct::new(call.isa(), [rows, depth, columns], left, right) {
        let label = Label { form: product.isa(), ..label };
        let (bands, scratch) = (of.pairs.len(), 4 * product.scratch_len());
        let of = Arc::new(of);
        let part = StepPart::Products(Arc::clone(&of));
        call.emit_bands(label, scratch, bands, move |mut io, band| {
            let (a, b, to) = (io.input::<f32>(0), io.input::<f32>(1), io.output::<f32>(0));
            let scratch = io.scratch_slice::<f32>();
            for pair in band {
                let [left, right] = of.pairs[pair];
                let a = a.slice(left..left + rows * depth);
                let b = b.slice(right..right + depth * columns);
                let to = to.slice(pair * rows * columns..(pair + 1) * rows * columns);
                product.compute(a, b, to, scratch)?;
            }
            Ok(())
        });
        call.part(part);
        return Ok(());
    }
    let scratch = 4 * of.depth * (of.columns + 1);
    let bands = of.pairs.len();
    call.emit_bands(label, scratch, bands, move |mut io, band| {
        let (a, b, to) = (io.input::<f32>(0), io.input::<f32>(1), io.output::<f32>(0));
        let scratch = io.scratch_slice::<f32>();
        let (row, columns) = scratch.split_at_mut(of.depth);
        for pair in band {
            let [left, right] = of.pairs[pair];
            for (column, to) in columns.chunks_exact_mut(of.depth.max(1)).enumerate() {
                let first = right + column * of.strides[1][0];
                gather(b, first, of.strides[1][1], to);
            }
            for at in poll::each(0..of.rows, of.columns * of.depth / 8) {
                gather(a, left + at * of.strides[0][0], of.strides[0][1], row);
                for column in 0..of.columns {
                    let other = &columns[column * of.depth..(column + 1) * of.depth];
                    let place = (pair * of.rows + at) * of.columns + column;
                    to.set(place, float_dot(row, other));
                }
            }
        }
        Ok(())
    });
    Ok(())
}

fn gather(from: In<'_, f32>, first: usize, stride: usize, to: &mut [f32]) {
    for (at, to) in to.iter_mut().enumerate() {
        *to = from.get(first + at * stride);
    }
}

/// Sixteen sums side by side, which compilers keep in vectors.
fn float_dot(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<16>();
    let (b_chunks, b_rest) = b.as_chunks::<16>();
    let mut sums = [0.0f32; 16];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// Products of integers: sums of 64 bits where a factor has 16, else of 32.
fn products(
    call: &mut OperatorCall<'_, '_>,
    of: Matrices,
    a: &Arg,
    b: &Arg,
    result: &Arg,
    shape: &Shape,
) -> Lowered {
    let range = result.kind.range();
    let wide = a.kind == ElementKind::I16;
    // The product in single precision, as there: with 16 bits the last bit of it may count.
    let multiplier = Multiplier::new(f64::from(a.scale * b.scale) / f64::from(result.scale));
    let requantise = Requantise::by(vec![multiplier], result, wide, range);
    let zeros = [a.zero_point, b.zero_point];
    let label = plain("tflite_batch_matmul", shape, work_of(&of, shape));
    if a.kind == b.kind && !wide {
        let Matrices { rows, columns, depth, ref pairs, .. } = of;
        if let (Layout::RowMajor, layout) = of.layouts() {
            let to_unsigned = if a.kind == ElementKind::I8 { 128 } else { 0 };
            let bytes = [a, b].map(|it| Bytes::new(to_unsigned, it.zero_point));
            let (low, high) = range;
            let scaling =
                |columns| Scaling::new(&[multiplier], columns, result.zero_point, low, high);
            let extents = [rows, depth, columns];
            if let Some(product) = ByteProduct::new(call.isa(), extents, bytes, layout, scaling) {
                let label = Label { kernel: "matmul_i8", form: product.isa(), ..label };
                byte_matmul::emit_dots(call, label, extents, pairs.clone(), product);
                return Ok(());
            }
        }
        let pairs = BytePairs { rows, depth, columns, pairs: pairs.clone(), zeros };
        let (left, right) = of.layouts();
        let product = MatrixProduct::new(call.isa(), [rows, depth, columns], left, right);
        if let Some(product) = product.filter(|_| pairs.fits()) {
            let label = Label { form: product.isa(), ..label };
            let rounding = RoundTwice::new(call.isa(), multiplier, result.zero_point, range);
            by_kind!(a.kind, [I8 i8, U8 u8], T => {
                byte_matmul::emit::<T>(call, label, pairs, product, rounding);
            });
            return Ok(());
        }
    }
    let bands = of.pairs.len();
    // The row, and its bytes where both factors have 16 bits; the columns.
    let scratch = 2 * of.depth * (of.columns + 3);
    let (is_exact, isa) = (b.kind == ElementKind::I16, call.isa());
    let types = [StoredType::of(a.kind)?, StoredType::of(b.kind)?];
    call.emit_bands(label, scratch, bands, move |mut io, band| {
        let (a, b, to) = (io.input::<u8>(0), io.input::<u8>(1), io.output::<u8>(0));
        let (row, rest) = io.scratch_slice::<i16>().split_at_mut(of.depth);
        let (high, rest) = rest.split_at_mut(of.depth);
        let (low, columns) = rest.split_at_mut(of.depth);
        for pair in band {
            let [left, right] = of.pairs[pair];
            for (column, to) in columns.chunks_exact_mut(of.depth.max(1)).enumerate() {
                let first = right + column * of.strides[1][0];
                types[1].widen(b, first, of.strides[1][1], zeros[1], to);
            }
            for at in poll::each(0..of.rows, of.columns * of.depth / 4) {
                let first = left + at * of.strides[0][0];
                types[0].widen(a, first, of.strides[0][1], zeros[0], row);
                let store = |column: usize, sum: i64| {
                    let place = (pair * of.rows + at) * of.columns + column;
                    types[0].store(to, place, requantise.apply(0, sum));
                };
                if is_exact {
                    let words = high.iter_mut().zip(low.iter_mut()).zip(&*row);
                    words.for_each(|((high, low), x)| (*high, *low) = (x >> 8, x & 0xFF));
                    wide_dots(isa, [high, low], columns, of.columns, store);
                } else {
                    dots(isa, exact(types[0].bytes), row, columns, of.columns, store);
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// FLOAT32 by 8-bit integers: each row of the left matrix is quantised on the fly.
fn hybrid_products(
    call: &mut OperatorCall<'_, '_>,
    of: Matrices,
    b: &Arg,
    shape: &Shape,
) -> Lowered {
    let way = OnTheFly::new(call.flag(2)?);
    let (scale, zero_point, of_b) = (b.scale, b.zero_point, StoredType::of(b.kind)?);
    let (label, isa) = (plain("tflite_hybrid_matmul", shape, work_of(&of, shape)), call.isa());
    let bands = of.pairs.len();
    // The row as floats, the row and all columns as integers, the row as bytes.
    let scratch = 4 * of.depth + 2 * of.depth * (of.columns + 1) + of.depth.next_multiple_of(2);
    call.emit_bands(label, scratch, bands, move |mut io, band| {
        let (a, b, to) = (io.input::<f32>(0), io.input::<u8>(1), io.output::<f32>(0));
        let scratch = io.scratch_slice::<i16>();
        let (floats, rest) = scratch.split_at_mut(2 * of.depth);
        let (row, rest) = rest.split_at_mut(of.depth);
        let (columns, bytes) = rest.split_at_mut(of.depth * of.columns);
        let bytes = &mut bytemuck::cast_slice_mut::<i16, u8>(bytes)[..of.depth];
        let reals: &mut [f32] = bytemuck::cast_slice_mut(floats);
        for pair in band {
            let [left, right] = of.pairs[pair];
            for (column, to) in columns.chunks_exact_mut(of.depth.max(1)).enumerate() {
                let first = right + column * of.strides[1][0];
                of_b.widen(b, first, of.strides[1][1], zero_point, to);
            }
            for at in poll::each(0..of.rows, of.columns * of.depth / 8) {
                gather(a, left + at * of.strides[0][0], of.strides[0][1], reals);
                let quantised = quantised(isa, way, In::of(reals), bytes, row);
                dots(isa, OF_BYTES, row, columns, of.columns, |column, sum| {
                    let place = (pair * of.rows + at) * of.columns + column;
                    to.set(place, f32_of(low(sum)) * (quantised * scale));
                });
            }
        }
        Ok(())
    });
    Ok(())
}
