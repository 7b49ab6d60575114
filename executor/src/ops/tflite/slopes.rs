//! RELUs with a slope below zero.

use nnburst_kernels::tensor::quant::{BranchlessMultiplier, Multiplier};

use super::arg::{Arg, ElementKind, OperatorCall, refused};
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
    let slopes = Slopes::new(&input, &result, alpha);
    match input.kind {
        ElementKind::I16 => {
            unary::each_in_vectors(call, &input, move |x: i16| i16::stored(slopes.at(i32::from(x))))
        }
        kind => each_integer(call, &input, kind, move |x| slopes.at(x)),
    }
}

/// The slopes on both sides of zero, of stored values.
#[derive(Clone, Copy, Debug)]
struct Slopes {
    above: BranchlessMultiplier,
    /// Of negative values; of their amounts where they rise as those fall.
    below: BranchlessMultiplier,
    /// All bits where it is of their amounts, else none.
    falling: i32,
    points: (i32, i32),
    range: (i32, i32),
}

impl Slopes {
    fn new(input: &Arg, result: &Arg, alpha: f32) -> Self {
        let slope = f64::from(input.scale * alpha / result.scale);
        Self {
            above: Multiplier::new(f64::from(input.scale / result.scale)).into(),
            below: Multiplier::new(slope.abs()).into(),
            falling: if slope < 0.0 { -1 } else { 0 },
            points: (input.zero_point, result.zero_point),
            range: result.kind.range(),
        }
    }

    /// Both sides are computed and chosen from by bits: with a branch, loops become no vectors.
    #[inline(always)]
    fn at(self, x: i32) -> i32 {
        let value = x - self.points.0;
        let above = self.above.apply(value);
        let below = self.below.apply((value ^ self.falling) - self.falling);
        let is_below = value >> 31;
        let scaled = above & !is_below | below & is_below;
        self.points.1.wrapping_add(scaled).max(self.range.0).min(self.range.1)
    }
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
