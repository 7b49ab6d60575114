//! QUANTIZE and DEQUANTIZE.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::kernels::quantize_f32::Quantizer;
use nnburst_kernels::tensor::quant::round_small;
use nnburst_kernels::tensor::{In, OpError, Out, Quantised, Real};

use super::Op;
use super::support::{bad_kind, compiled, emit_each, plain};
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static QUANTIZE: Op = Op { lower: quantize };
pub(super) static DEQUANTIZE: Op = Op { lower: dequantize };

/// `clamp(zp + round(x / scale))` in `f32`, the zero point added after rounding. NaN gives the zero
/// point.
///
/// Source: NNAPI `QUANTIZE`, since HAL 1.2; signed since 1.3.
fn quantize(op: &mut OpBuilder<'_>) -> Lowered {
    let output = op.output(0)?.kind;
    match (op.input_kind(0)?, output) {
        (OperandType::TensorFloat32, OperandType::TensorQuant8Asymm) => quantize_floats::<u8>(op),
        (OperandType::TensorFloat32, OperandType::TensorQuant8AsymmSigned) => {
            quantize_floats::<i8>(op)
        }
        (OperandType::TensorFloat16, OperandType::TensorQuant8Asymm) => {
            quantize_to::<half::f16, u8>(op)
        }
        (OperandType::TensorFloat16, OperandType::TensorQuant8AsymmSigned) => {
            quantize_to::<half::f16, i8>(op)
        }
        (kind, _) => Err(bad_kind(0, kind).into()),
    }
}

fn quantize_floats<Q: Quantised>(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, output) = (op.input(0)?, op.output(0)?);
    op.set_output(0, input.shape.clone())?;
    let range = (Q::MIN, Q::MAX);
    let quantizer = Quantizer::new(op.isa(), output.scale, output.zero_point, range);
    let label = Label { form: quantizer.isa(), ..plain("quantize_f32", &input.shape, 0) };
    emit_each(op, label, move |from: In<'_, f32>, to: Out<'_, Q>| {
        quantizer.compute(from, to.bytes(), 1)
    });
    Ok(())
}

fn quantize_to<T: Real, Q: Quantised>(op: &mut OpBuilder<'_>) -> Lowered {
    let (input, output) = (op.input(0)?, op.output(0)?);
    op.set_output(0, input.shape.clone())?;
    let (scale, zero_point) = (output.scale, output.zero_point);
    let isa = op.isa();
    emit_each(op, compiled(isa, "quantize", &input.shape, 0), move |from, to| {
        let stored = |x: T| {
            let steps = x.to_f32() / scale;
            zero_point + round_small(if steps.is_nan() { 0.0 } else { steps })
        };
        map(isa, from, to, |x: T| Q::from_i32(stored(x)));
        Ok(())
    });
    Ok(())
}

/// `scale * (q - zp)`: an integer difference and one multiplication; per channel where the input
/// is.
///
/// Source: NNAPI `DEQUANTIZE`, since HAL 1.0; symmetric types and float16 since 1.2; signed since
/// 1.3.
fn dequantize(op: &mut OpBuilder<'_>) -> Lowered {
    match op.output(0)?.kind {
        OperandType::TensorFloat32 => dequantize_to::<f32>(op),
        OperandType::TensorFloat16 => dequantize_to::<half::f16>(op),
        kind => Err(OpError::output(0, format!("{kind} is not float")).into()),
    }
}

fn dequantize_to<T: Real>(op: &mut OpBuilder<'_>) -> Lowered {
    match op.input_kind(0)? {
        OperandType::TensorQuant8Asymm => dequantize_from::<u8, T>(op),
        OperandType::TensorQuant8AsymmSigned
        | OperandType::TensorQuant8Symm
        | OperandType::TensorQuant8SymmPerChannel => dequantize_from::<i8, T>(op),
        kind => Err(bad_kind(0, kind).into()),
    }
}

fn dequantize_from<Q: Quantised, T: Real>(op: &mut OpBuilder<'_>) -> Lowered {
    let input = op.input(0)?;
    op.set_output(0, input.shape.clone())?;
    let zero_point = input.zero_point;
    let (inner, scales) = match &input.channel_quant {
        None => (1, vec![input.scale]),
        Some(quant) => {
            let axis = quant.channel_dim as usize;
            if axis >= input.shape.rank() || input.shape[axis] != quant.scales.len() {
                let what =
                    format!("{} scales for extent {axis} of {:?}", quant.scales.len(), input.shape);
                return Err(OpError::input(0, what).into());
            }
            (input.shape.around(axis).2.max(1), quant.scales.clone())
        }
    };
    if let &[scale] = &scales[..] {
        let isa = op.isa();
        emit_each(op, compiled(isa, "dequantize", &input.shape, 0), move |from, to| {
            #[expect(clippy::cast_precision_loss, reason = "the difference has 9 bits")]
            let real = |q: Q| scale * (q.to_i32() - zero_point) as f32;
            map(isa, from, to, |q: Q| T::from_f32(real(q)));
            Ok(())
        });
        return Ok(());
    }
    op.emit(plain("dequantize", &input.shape, 0), move |io| {
        #[expect(clippy::cast_precision_loss, reason = "the difference has 9 bits")]
        let real =
            |at: usize, q: Q| scales[at / inner % scales.len()] * (q.to_i32() - zero_point) as f32;
        let qs = io.input::<Q>(0).iter().enumerate();
        io.output(0).fill(qs.map(|(at, q)| T::from_f32(real(at, q))));
        Ok(())
    });
    Ok(())
}
