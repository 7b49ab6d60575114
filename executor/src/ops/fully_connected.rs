//! FULLY_CONNECTED.

use std::sync::Arc;

use nnburst_hal::{FusedActivation, OperandType};
use nnburst_kernels::kernels::gemm_f32::{Layout, MatrixProduct};
use nnburst_kernels::kernels::lines::Convolution;
use nnburst_kernels::kernels::patches::Patches;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::kernels::spans::in_chunks;
use nnburst_kernels::kernels::{gemm_i8, product_f32};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::quant::{clamp_real, real_activation_range};
use nnburst_kernels::tensor::rows::Port;
use nnburst_kernels::tensor::{OpError, Real, Shape, Tensor, poll};

use super::Op;
use super::conv::{Requantise, Types, bytes, check_bias, constants, types};
use super::staged::{Staged, in_single_precision};
use super::support::Image;
use crate::lowering::part::{Matrices, StepPart};
use crate::lowering::{Label, Lowered, OpBuilder, Words};

pub(super) static FULLY_CONNECTED: Op = Op { lower };

/// A matrix product: `rows` of `depth` inputs by `units` rows of weights.
#[derive(Clone, Copy, Debug)]
struct Product {
    rows: usize,
    depth: usize,
    units: usize,
    activation: FusedActivation,
}

impl Product {
    fn patches(&self) -> Patches {
        Patches::matrix(self.rows, self.depth)
    }

    fn label(&self, kernel: &'static str) -> Label {
        let Self { rows, depth, units, .. } = *self;
        let shape = Words::new(move |f| write!(f, "[{rows}, {depth}] by [{units}, {depth}]"));
        let sizes = [rows, depth, units].map(|n| n as u64);
        let operations = sizes.into_iter().fold(2, u64::saturating_mul);
        Label { kernel, form: Isa::Scalar, shape, operations }
    }
}

/// An input of a higher rank is cut anew into rows as long as those of the weights; the output is
/// of rank 2 always. Only the rows may be none.
///
/// Source: NNAPI `FULLY_CONNECTED`, since HAL 1.0; float16 since 1.2; signed since 1.3.
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, weights, bias) = (op.input(0)?, op.input(1)?, op.input(2)?);
    let activation = op.fused_activation(3)?;
    let &[units, depth] = &weights.shape[..] else {
        return Err(OpError::input(1, format!("weights of {:?}", weights.shape)).into());
    };
    let elements = input.shape.elements();
    if input.shape.rank() < 2 || units == 0 || depth == 0 || elements % depth != 0 {
        let what = format!("{:?} by weights of {:?}", input.shape, weights.shape);
        return Err(OpError::rule(what).into());
    }
    check_bias(&bias, units)?;
    let product = Product { rows: elements / depth, depth, units, activation };
    op.set_output(0, Shape::new([product.rows, units])?)?;
    let is_unsigned = |of: &Tensor| of.kind == OperandType::TensorQuant8Asymm;
    match types(&input, &weights, &bias, &op.output(0)?)? {
        Types::Float32 => real::<f32>(op, product),
        Types::Float16 => real::<half::f16>(op, product),
        Types::Bytes if is_unsigned(&input) && !is_unsigned(&weights) => {
            Err(OpError::input(1, "weights per channel are not for this operation").into())
        }
        Types::Bytes => byte(op, product),
    }
}

fn real<T: Real>(op: &mut OpBuilder<'_>, product: Product) -> Lowered {
    let packed = constants(op).and_then(|(weights, bias)| {
        let (weights, bias) = (T::widened(weights.typed()), T::widened(bias.typed()));
        let range = real_activation_range(product.activation);
        let (rows, depth) = (product.rows, product.depth);
        product_f32::Product::new(op.isa(), op.precision(), rows, depth, &weights, &bias, range)
    });
    let Some(packed) = packed else {
        return match MatrixProduct::new(
            op.isa(),
            [product.rows, product.depth, product.units],
            Layout::RowMajor,
            Layout::ColumnMajor,
        ) {
            Some(tiles) if size_of::<T>() == size_of::<f32>() => computed(op, product, tiles),
            _ => plain_real::<T>(op, product),
        };
    };
    op.absorb(1);
    let label = Label { form: packed.isa(), ..product.label(packed.kernel()) };
    let scratch_bytes = packed.scratch_bytes();
    if size_of::<T>() < size_of::<f32>() {
        let rows = |channels: usize| Image::new([product.rows, 1, 1, channels], false);
        let staged = Staged::new(rows(product.depth), rows(product.units));
        let convert = in_single_precision::<T>();
        staged.emit(op, label, scratch_bytes, convert, move |xs, output, scratch| {
            packed.compute(xs, output, scratch)
        });
        return Ok(());
    }
    emit(op, label, packed);
    Ok(())
}

/// Adds the step of a product of floats, whose rows may lie apart.
pub(super) fn emit(op: &mut OpBuilder<'_>, label: Label, packed: product_f32::Product) {
    let (rows, scratch_bytes) = (packed.rows(), packed.scratch_bytes());
    if op.threads() > 1 && packed.gains_by_sharing() {
        op.emit_bands(label, scratch_bytes, packed.bands(), move |mut io, bands| {
            let (input, output) = (io.input_rows(0), io.output_rows(0));
            packed.compute_some(input, output, bands, io.scratch_slice())
        });
    } else {
        op.emit_with_scratch(label, scratch_bytes, move |mut io| {
            packed.compute(io.input_rows(0), io.output_rows(0), io.scratch_slice())
        });
    }
    op.rows(&rows);
}

/// By weights that are known at run time alone: they are packed anew in each run.
fn computed(op: &mut OpBuilder<'_>, product: Product, tiles: MatrixProduct) -> Lowered {
    let (isa, (low, high)) = (op.isa(), real_activation_range(product.activation));
    let label = Label { form: tiles.isa(), ..product.label("matmul_f32") };
    let Product { rows, depth, units, .. } = product;
    let is_plain = product.activation == FusedActivation::None
        && op.constant(2).is_some_and(|bias| bias.as_slice().iter().all(|&byte| byte == 0));
    op.emit_with_scratch(label, 4 * tiles.scratch_len(), move |mut io| {
        let (input, weights, bias) = (io.input(0), io.input(1), io.input::<f32>(2));
        let output = io.output::<f32>(0);
        tiles.compute_biased(input, weights, bias, output, io.scratch_slice())?;
        if product.activation != FusedActivation::None {
            in_chunks(output.len(), |part| {
                let sums = output.slice(part);
                map(isa, sums.as_in(), sums, |sum: f32| clamp_real(sum, low, high));
                Ok(())
            })?;
        }
        Ok(())
    });
    if is_plain {
        let (pairs, strides) = (vec![[0; 2]], [[depth, 1]; 2]);
        let of = Matrices { rows, columns: units, depth, pairs, strides };
        op.part(StepPart::Products(Arc::new(of)));
    }
    Ok(())
}

fn plain_real<T: Real>(op: &mut OpBuilder<'_>, product: Product) -> Lowered {
    let (low, high) = real_activation_range(product.activation);
    let Product { rows, depth, units, .. } = product;
    op.emit_bands(product.label("fully_connected_real"), 0, rows * units, move |io, outputs| {
        let (input, weights, bias) = (io.input::<T>(0), io.input::<T>(1), io.input::<T>(2));
        let output = io.output::<T>(0);
        for at in poll::each(outputs, 16) {
            let (row, unit) = (at / units, at % units);
            let products = poll::each(0..depth, 4).map(|k| {
                input.get(row * depth + k).to_f32() * weights.get(unit * depth + k).to_f32()
            });
            let sum = products.fold(bias.get(unit).to_f32(), |sum, product| sum + product);
            output.set(at, T::from_f32(clamp_real(sum, low, high)));
        }
        Ok(())
    });
    Ok(())
}

fn byte(op: &mut OpBuilder<'_>, product: Product) -> Lowered {
    let requantise = Requantise::new(op, 0, product.activation)?;
    let (of_input, of_weights) = (bytes(&op.input(0)?), bytes(&op.input(1)?));
    let gemm = constants(op).and_then(|(packed, bias)| {
        let (input, weights) = (op.input(0).ok()?, op.input(1).ok()?);
        let weights = gemm_i8::Weights { values: packed.as_slice(), bytes: bytes(&weights) };
        let (scaling, patches) = (requantise.scaling(product.units), product.patches());
        let bias = bias.typed();
        gemm_i8::Gemm::new(op.isa(), patches, bytes(&input), weights, bias, scaling)
    });
    if let Some(gemm) = gemm {
        op.absorb(1);
        let label = Label { form: gemm.isa(), ..product.label("gemm_i8") };
        let lines = gemm.patches().lines();
        op.emit_bands(label, gemm.scratch_bytes(), lines, move |mut io, lines| {
            gemm.compute(io.input_rows(0), io.output_rows(0), lines, io.scratch_slice())
        });
        op.rows(&[(Port::Input(0), Some(product.depth)), (Port::Output, Some(product.units))]);
        return Ok(());
    }
    let Product { rows, depth, units, .. } = product;
    op.emit_bands(product.label("fully_connected_byte"), 0, rows * units, move |io, outputs| {
        let (input, weights, bias) = (io.input::<u8>(0), io.input::<u8>(1), io.input::<i32>(2));
        let output = io.output::<u8>(0);
        for at in poll::each(outputs, 16) {
            let (row, unit) = (at / units, at % units);
            let products = poll::each(0..depth, 4).map(|k| {
                of_input.from_zero(input.get(row * depth + k))
                    * of_weights.from_zero(weights.get(unit * depth + k))
            });
            output
                .set(at, requantise.apply(products.fold(bias.get(unit), i32::wrapping_add), unit));
        }
        Ok(())
    });
    Ok(())
}
