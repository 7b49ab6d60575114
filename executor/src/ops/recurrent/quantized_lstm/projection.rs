//! From the hidden values of a cell to its output.

use nnburst_hal::OperandType;
use nnburst_kernels::tensor::poll;
use nnburst_kernels::tensor::quant::Multiplier;

use super::operands::{
    HIDDEN_SCALE, OUTPUT_STATE, PROJECTION, PROJECTION_BIAS, PROJECTION_CLIP, check, clip,
};
use crate::lowering::{Io, Lowered, OpBuilder};

#[derive(Clone, Copy, Debug)]
pub(super) struct Projection {
    multiplier: Multiplier,
    has_bias: bool,
    /// The zero point of the output.
    zero_point: i32,
    /// In stored steps; `None` without a limit.
    clip: Option<i32>,
}

impl Projection {
    /// `None` where the cell has none.
    pub(super) fn new(op: &OpBuilder<'_>, units: usize, outputs: usize) -> Lowered<Option<Self>> {
        let Some(weights) = op.optional_input(PROJECTION)? else { return Ok(None) };
        check(op, PROJECTION, OperandType::TensorQuant8Symm, &[outputs, units])?;
        let has_bias = op.has_input(PROJECTION_BIAS);
        if has_bias {
            check(op, PROJECTION_BIAS, OperandType::TensorInt32, &[outputs])?;
        }
        let h = op.input(OUTPUT_STATE)?;
        let real = weights.scale * op.f32(HIDDEN_SCALE)? / h.scale;
        // By the scale of the weights, odd as that is: the reference's rule.
        let clip = clip(op, PROJECTION_CLIP, weights.scale, i32::from(i8::MAX))?;
        let multiplier = Multiplier::new(f64::from(real));
        Ok(Some(Self { multiplier, has_bias, zero_point: h.zero_point, clip }))
    }

    /// Output `at` from all hidden values.
    pub(super) fn output(
        &self,
        io: &Io<'_>,
        at: usize,
        hidden: &[i8],
        hidden_zero_point: i32,
    ) -> i8 {
        let units = hidden.len();
        let weights = io.input::<i8>(PROJECTION).slice(at * units..(at + 1) * units);
        let (zero_point, bias) = if self.has_bias {
            (hidden_zero_point, io.input::<i32>(PROJECTION_BIAS).get(at))
        } else {
            (0, 0)
        };
        let products = poll::each(hidden.iter().zip(weights.iter()), 2);
        let sum = products.fold(bias, |sum, (&m, w)| {
            sum.wrapping_add((i32::from(m) + zero_point).wrapping_mul(i32::from(w)))
        });
        let y = self.multiplier.apply(sum).saturating_add(self.zero_point).clamp(-128, 127);
        let y = self.clip.map_or(y, |clip| y.clamp(-clip, clip));
        i8::try_from(y).unwrap_or(0)
    }
}
