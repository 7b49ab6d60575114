//! GELU, by its approximation with a hyperbolic tangent or by the error function.

use std::f32::consts::FRAC_1_SQRT_2;

use half::f16;
use nnburst_kernels::kernels::transcendental_f32::Function;

use super::arg::{ElementKind, OperatorCall};
use super::unary::{each, pair, real};
use crate::lowering::Lowered;
use crate::ops::unary::emit_map;

pub(super) fn gelu(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let is_by_tanh = call.flag(0)?;
    let (input, result) = (call.arg(0)?, call.result(0)?);
    if [input.kind, result.kind] == [ElementKind::F32; 2] {
        return emit_map(call, if is_by_tanh { Function::GeluByTanh } else { Function::Gelu });
    }
    if [input.kind, result.kind] == [ElementKind::F16; 2] {
        let (input, _) = pair(call)?;
        return each(call, &input, if is_by_tanh { half_by_tanh } else { half_by_erfc });
    }
    real(call, if is_by_tanh { by_tanh } else { by_erfc })
}

/// `sqrt(2 / pi)`.
const INNER: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;

fn by_tanh(x: f32) -> f32 {
    0.5 * x * (1.0 + (INNER * (x + CUBIC * x * x * x)).tanh())
}

fn by_erfc(x: f32) -> f32 {
    0.5 * x * erfcf(x * -FRAC_1_SQRT_2)
}

/// As the interpreter has it of FLOAT16: each operation rounds to that.
fn half_by_tanh(x: f16) -> f16 {
    let [half, one, inner, cubic] = [0.5, 1.0, INNER, CUBIC].map(f16::from_f32);
    let inner = inner * (x + cubic * (x * x * x));
    half * x * (one + f16::from_f32(f32::from(inner).tanh()))
}

fn half_by_erfc(x: f16) -> f16 {
    let [half, root] = [0.5, -FRAC_1_SQRT_2].map(f16::from_f32);
    half * x * f16::from_f32(erfcf((x * root).into()))
}

unsafe extern "C" {
    /// The complementary error function of the C library, as the interpreter calls it: its last bit
    /// moves points of the tables of 16-bit values.
    safe fn erfcf(x: f32) -> f32;
}
