//! CAST: between number types, without regard to quantisation.

use half::f16;
use nnburst_hal::OperandType;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::tensor::{Element, In, OpError, Out, poll};

use super::Op;
use super::support::{compiled, emit_each, plain};
use crate::lowering::{Io, Lowered, OpBuilder};

pub(super) static CAST: Op = Op { lower };

/// Any pair of FLOAT16, FLOAT32, INT32 and QUANT8_ASYMM (as plain unsigned bytes); other types to
/// themselves alone. To bytes values are clamped, then cut; to INT32 they are cut and saturate.
///
/// Source: NNAPI `CAST`, since HAL 1.2; types to themselves since 1.3.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "float casts cut and saturate, integers go to the nearest float: the rule"
)]
fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (from, to) = (op.input(0)?, op.output(0)?);
    op.set_output(0, from.shape.clone())?;
    if from.kind == to.kind {
        op.emit(plain("cast", &from.shape, 0), |io: Io<'_>| {
            io.output::<u8>(0).copy_from(io.input(0));
            Ok(())
        });
        return Ok(());
    }
    match (from.kind, to.kind) {
        (OperandType::TensorQuant8Asymm, OperandType::TensorFloat32) => {
            return directly(op, |x: u8| f32::from(x));
        }
        (OperandType::TensorFloat32, OperandType::TensorQuant8Asymm) => {
            return directly(op, |x: f32| x as u8);
        }
        (OperandType::TensorInt32, OperandType::TensorFloat32) => {
            return directly(op, |x: i32| x as f32);
        }
        (OperandType::TensorFloat32, OperandType::TensorInt32) => {
            return directly(op, |x: f32| saturated(x).unwrap_or(0));
        }
        _ => {}
    }
    let (Some(read), Some(write)) = (reader(from.kind), writer(to.kind)) else {
        let (from, to) = (from.kind, to.kind);
        return Err(OpError::rule(format!("no cast from {from} to {to}")).into());
    };
    let bytes = [from.kind, to.kind].map(|kind| kind.element_bytes().unwrap_or(1));
    op.emit(plain("cast", &from.shape, 0), move |io: Io<'_>| {
        let (from, to) = (io.input::<u8>(0), io.output::<u8>(0));
        let count = (from.len() / bytes[0]).min(to.len() / bytes[1]);
        let mut numbers = [0.0; SPAN];
        for first in poll::each((0..count).step_by(SPAN), 2 * SPAN) {
            let end = count.min(first + SPAN);
            let numbers = &mut numbers[..end - first];
            read(from.slice(first * bytes[0]..end * bytes[0]), numbers);
            write(numbers, to.slice(first * bytes[1]..end * bytes[1]));
        }
        Ok(())
    });
    Ok(())
}

/// A float cut towards zero, or the nearest integer that there is; none for what is no number. By
/// way of doubles, as a saturating cast becomes no vectors.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half is the integer")]
pub(super) fn saturated(x: f32) -> Option<i32> {
    /// Leaves integers in the low bits.
    const INTEGER: f64 = 1.5 * (1u64 << 52) as f64;
    let whole = f64::from(x).trunc().clamp(f64::from(i32::MIN), f64::from(i32::MAX));
    (!x.is_nan()).then_some(((whole + INTEGER).to_bits() as u32).cast_signed())
}

/// The casts that networks have, pictures that become floats first of all: in one loop.
fn directly<T: Element, U: Element>(
    op: &mut OpBuilder<'_>,
    cast: impl Fn(T) -> U + Send + Sync + Copy + 'static,
) -> Lowered {
    let (isa, shape) = (op.isa(), op.input(0)?.shape);
    emit_each(op, compiled(isa, "cast", &shape, 0), move |from, to| {
        map(isa, from, to, cast);
        Ok(())
    });
    Ok(())
}

/// Numbers at a time: every one of the four types is exact as `f64`, so that there are four loops
/// that read and four that write, not one for each pair.
const SPAN: usize = 128;

/// Reads numbers of a type.
type Reader = fn(In<'_, u8>, &mut [f64]);

/// Writes numbers of a type.
type Writer = fn(&[f64], Out<'_, u8>);

fn reader(kind: OperandType) -> Option<Reader> {
    fn read<T: Element>(from: In<'_, u8>, to: &mut [f64], wide: impl Fn(T) -> f64) {
        to.iter_mut().zip(from.cast().iter()).for_each(|(to, x)| *to = wide(x));
    }
    Some(match kind {
        OperandType::TensorFloat16 => |from, to| read(from, to, |x: f16| f64::from(x.to_f32())),
        OperandType::TensorFloat32 => |from, to| read::<f32>(from, to, f64::from),
        OperandType::TensorInt32 => |from, to| read::<i32>(from, to, f64::from),
        OperandType::TensorQuant8Asymm => |from, to| read::<u8>(from, to, f64::from),
        _ => return None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts cut and saturate, which is the rule"
)]
fn writer(kind: OperandType) -> Option<Writer> {
    fn write<T: Element>(from: &[f64], to: Out<'_, u8>, narrow: impl Fn(f64) -> T) {
        to.cast().fill(from.iter().map(|&x| narrow(x)));
    }
    Some(match kind {
        OperandType::TensorFloat16 => |from, to| write(from, to, f16::from_f64),
        OperandType::TensorFloat32 => |from, to| write(from, to, |x| x as f32),
        OperandType::TensorInt32 => |from, to| write(from, to, |x| x as i32),
        OperandType::TensorQuant8Asymm => |from, to| write(from, to, |x| x as u8),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "what is expected")]
    fn floats_are_cut_and_saturate() {
        let edges = [0.0, -0.0, 0.99, -0.99, 1.5, -1.5, 8_388_607.5, 16_777_217.0, 1e-40];
        let far = [2_147_483_520.0, 2_147_483_648.0, 3e9, f32::MAX, f32::INFINITY];
        let all = edges.iter().chain(&far).flat_map(|&x| [x, -x]);
        for x in all.chain((0..2000).map(|at| f32::from_bits(at * 2_147_461).abs())) {
            let want = if x.is_nan() { None } else { Some(x as i32) };
            assert_eq!(saturated(x), want, "{x}");
        }
        assert_eq!(saturated(f32::NAN), None);
    }
}
