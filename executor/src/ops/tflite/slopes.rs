//! RELUs with a slope below zero.

use nnburst_kernels::tensor::quant::Multiplier;

use super::arg::{ElementKind, OperatorCall, refused};
use super::convert::each_integer;
use super::math::Stored as _;
use super::unary;
use crate::lowering::Lowered;
use crate::ops::broadcast::Broadcast;

pub(super) fn leaky_relu(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let alpha = call.real(0)?;
    let (input, result) = unary::pair(call)?;
    input.same_kind(&result)?;
    if input.kind == ElementKind::F32 {
        let leaky = move |x: f32| if x > 0.0 { x } else { x * alpha };
        return unary::each_in_vectors(call, &input, leaky);
    }
    let (min, max) = result.kind.range();
    let plain = Multiplier::new(f64::from(input.scale / result.scale));
    // The multiplier of negative values may be negative itself.
    let slope = f64::from(input.scale * alpha / result.scale);
    let steep = Multiplier::new(slope.abs());
    let is_falling = slope < 0.0;
    let points = (input.zero_point, result.zero_point);
    each_integer(call, &input, input.kind, move |x| {
        let value = x - points.0;
        let scaled = match value {
            0.. => plain.apply(value),
            _ if is_falling => steep.apply(-value),
            _ => steep.apply(value),
        };
        points.1.wrapping_add(scaled).clamp(min, max)
    })
}

/// PRELU: slopes of negative values that broadcast; those of 16-bit values have 8 bits, as weights
/// have.
pub(super) fn prelu(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, alpha) = (call.arg(0)?, call.arg(1)?);
    if (input.kind, alpha.kind) != (ElementKind::I16, ElementKind::I8) {
        input.same_kind(&alpha)?;
    }
    let mut result = call.result(0)?;
    input.same_kind(&result)?;
    let shape = input.shape.broadcast(&alpha.shape)?;
    result.shape = call.set(0, &shape)?;
    if shape.elements() == 0 {
        call.step(&shape, |_| Ok(()));
        return Ok(());
    }
    let walk = Broadcast::new(&shape, &input.shape, &alpha.shape);
    let (min, max) = result.kind.range();
    let plain = Multiplier::new(f64::from(input.scale / result.scale));
    let steep = Multiplier::new(f64::from(input.scale * alpha.scale / result.scale));
    let points = [input.zero_point, alpha.zero_point, result.zero_point];
    match input.kind {
        ElementKind::F32 => call.step(&shape, move |io| {
            let (x, a, to) = (io.input::<f32>(0), io.input::<f32>(1), io.output::<f32>(0));
            walk.each_line(|line| {
                for at in 0..line.len {
                    let x = x.get(line.from[0] + at * line.steps[0]);
                    let a = a.get(line.from[1] + at * line.steps[1]);
                    to.set(line.at + at, if x >= 0.0 { x } else { x * a });
                }
                Ok(())
            })
        }),
        ElementKind::I8 | ElementKind::U8 | ElementKind::I16 => {
            let each = move |x: i32, a: i32| {
                let (x, a) = (x - points[0], a - points[1]);
                let scaled = if x >= 0 { plain.apply(x) } else { steep.apply(x.wrapping_mul(a)) };
                scaled.wrapping_add(points[2]).clamp(min, max)
            };
            macro_rules! of {
                ($T:ty, $A:ty) => {
                    call.step(&shape, move |io| {
                        let (x, a, to) = (io.input::<$T>(0), io.input::<$A>(1), io.output(0));
                        walk.each_line(|line| {
                            for at in 0..line.len {
                                let x = x.get(line.from[0] + at * line.steps[0]).wide();
                                let a = a.get(line.from[1] + at * line.steps[1]).wide();
                                to.set(line.at + at, <$T>::stored(each(x, a)));
                            }
                            Ok(())
                        })
                    })
                };
            }
            match (input.kind, alpha.kind) {
                (ElementKind::I8, _) => of!(i8, i8),
                (ElementKind::U8, _) => of!(u8, u8),
                (_, ElementKind::I8) => of!(i16, i8),
                _ => of!(i16, i16),
            }
        }
        kind => return Err(refused(0, kind).into()),
    }
    Ok(())
}
