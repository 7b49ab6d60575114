//! LOGISTIC, TANH and HARD_SWISH. Quantised, they are functions of one byte: a table of 256 results
//! is made when the model is compiled, by the reference's fixed-point arithmetic.

use nnburst_hal::OperandType;
use nnburst_kernels::kernels::byte_table::ByteTable;
use nnburst_kernels::kernels::plain::map;
use nnburst_kernels::tensor::quant::fixed::{logistic, srdhm16, tanh};
use nnburst_kernels::tensor::quant::{Multiplier, rdbpot, srdhm};
use nnburst_kernels::tensor::{OpError, Quantised, Real, Tensor};

use super::Op;
use super::support::{compiled, dispatch, emit_each, plain};
use crate::lowering::recipe::Recipe;
use crate::lowering::{Label, Lowered, OpBuilder};

pub(super) static LOGISTIC: Op = Op { lower: |op| lower(op, Function::Logistic) };
pub(super) static TANH: Op = Op { lower: |op| lower(op, Function::Tanh) };
pub(super) static HARD_SWISH: Op = Op { lower: |op| lower(op, Function::HardSwish) };

#[derive(Clone, Copy, Debug)]
enum Function {
    Logistic,
    Tanh,
    HardSwish,
}

/// Source: NNAPI `LOGISTIC`, `TANH`, since HAL 1.0, `HARD_SWISH` since 1.3; signed 8-bit since 1.3.
fn lower(op: &mut OpBuilder<'_>, function: Function) -> Lowered {
    let input = op.input(0)?;
    op.set_output(0, input.shape.clone())?;
    dispatch!(input.kind, 0, real: real(op, function), byte: byte(op, function, &input))
}

fn real<T: Real>(op: &mut OpBuilder<'_>, function: Function) -> Lowered {
    use nnburst_kernels::kernels::transcendental_f32 as vector;
    let curve = match function {
        Function::Logistic => Some(vector::Function::Sigmoid),
        Function::Tanh => Some(vector::Function::Tanh),
        Function::HardSwish => None,
    };
    let shape = op.output(0)?.shape;
    let label = compiled(op.isa(), "activation_real", &shape, 0);
    if let (OperandType::TensorFloat32, Some(curve)) = (op.input_kind(0)?, curve) {
        let map = vector::Map::new(op.isa(), curve);
        let label = Label { kernel: "transcendental_f32", form: map.isa(), ..label };
        emit_each(op, label, move |from, to| {
            map.compute(from, to);
            Ok(())
        });
        op.recipe(Recipe::Map(curve));
        return Ok(());
    }
    match function {
        Function::Logistic => each::<T>(op, label, |x| 1.0 / (1.0 + (-x).exp())),
        Function::Tanh => each::<T>(op, label, f32::tanh),
        Function::HardSwish => each::<T>(op, label, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
    }
    Ok(())
}

fn each<T: Real>(
    op: &mut OpBuilder<'_>,
    label: Label,
    of: impl Fn(f32) -> f32 + Send + Sync + 'static,
) {
    let isa = op.isa();
    emit_each(op, label, move |from, to| {
        map(isa, from, to, |x: T| T::from_f32(of(x.to_f32())));
        Ok(())
    });
}

fn byte<T: Quantised>(op: &mut OpBuilder<'_>, function: Function, input: &Tensor) -> Lowered {
    let output = op.output(0)?;
    if output.kind != input.kind {
        return Err(OpError::output(0, format!("{} from {}", output.kind, input.kind)).into());
    }
    let of = table_function::<T>(function, input, &output)?;
    emit_table(op, &output, |q: T| T::from_i32(of(q.to_i32() - input.zero_point)));
    Ok(())
}

/// Adds a step that computes each element of output 0 from the one of input 0 at its place, by a
/// table of all that there are.
pub(super) fn emit_table<T: Quantised>(
    op: &mut OpBuilder<'_>,
    output: &Tensor,
    of: impl Fn(T) -> T,
) {
    let mut table = [0; 256];
    for stored in T::MIN..=T::MAX {
        let low = |x: i32| x.to_le_bytes()[0];
        table[usize::from(low(stored))] = low(of(T::from_i32(stored)).to_i32());
    }
    let lookup = ByteTable::new(op.isa(), table);
    let label = Label { form: lookup.isa(), ..plain("byte_table", &output.shape, 0) };
    emit_each(op, label, move |from, to| lookup.compute(from, to));
    op.join_table(table);
}

/// The stored result as a function of `q - zero_point`.
type Table = Box<dyn Fn(i32) -> i32>;

fn table_function<T: Quantised>(
    function: Function,
    input: &Tensor,
    output: &Tensor,
) -> Result<Table, OpError> {
    let low = -T::TO_UNSIGNED;
    Ok(match function {
        Function::Logistic => {
            check_output(output, 1.0 / 256.0, low)?;
            let curve = Curve::new(input.scale)?;
            Box::new(move |d| low + curve.apply(d, 0, 255, |a| rdbpot(logistic(a, 4), 23).min(255)))
        }
        Function::Tanh => {
            check_output(output, 1.0 / 128.0, low + 128)?;
            let curve = Curve::new(input.scale)?;
            Box::new(move |d| {
                let y = |a| rdbpot(tanh(a, 4), 24).clamp(-128, 127);
                low + 128 + curve.apply(d, -128, 127, y)
            })
        }
        Function::HardSwish => hard_swish(input.scale, output),
    })
}

fn check_output(output: &Tensor, scale: f32, zero_point: i32) -> Result<(), OpError> {
    if output.scale.to_bits() == scale.to_bits() && output.zero_point == zero_point {
        return Ok(());
    }
    let what = format!(
        "has scale {} and zero point {}, not {scale} and {zero_point}",
        output.scale, output.zero_point
    );
    Err(OpError::output(0, what))
}

/// Brings inputs into the fixed-point format with 4 integer bits, and knows beyond what they
/// saturate.
#[derive(Clone, Copy, Debug)]
struct Curve {
    multiplier: Multiplier,
    radius: i64,
}

impl Curve {
    fn new(scale: f32) -> Result<Self, OpError> {
        let multiplier = Multiplier::new(f64::from(scale) * f64::from(1 << 27));
        // The reference needs a multiplier above 1, that is a shift to the left.
        if multiplier.shift < 1 {
            return Err(OpError::input(0, format!("has a scale of {scale}, too small")));
        }
        Ok(Self { multiplier, radius: (15i64 << 27) >> multiplier.shift })
    }

    fn apply(self, d: i32, below: i32, above: i32, inside: impl Fn(i32) -> i32) -> i32 {
        if i64::from(d) <= -self.radius {
            below
        } else if i64::from(d) >= self.radius {
            above
        } else {
            let Multiplier { fraction, shift } = self.multiplier;
            inside(srdhm(d.wrapping_shl(shift.unsigned_abs()), fraction))
        }
    }
}

/// All in 16-bit fixed point, as the reference computes it.
fn hard_swish(input_scale: f32, output: &Tensor) -> Table {
    let high_res = input_scale / 128.0;
    let to_output = Multiplier::new(f64::from(high_res / output.scale));
    let to_relu = Multiplier::new(f64::from(high_res / (3.0 / 32_768.0)));
    let (m_output, m_relu) = (sixteen_bits(to_output.fraction), sixteen_bits(to_relu.fraction));
    let zero_point = output.zero_point;
    Box::new(move |d| {
        let d = saturate(d.saturating_mul(128));
        let v = srdhm16(d, m_output);
        let mut r = d;
        if to_relu.shift > 0 {
            r = saturate(shift_left(r, to_relu.shift - 1));
        }
        r = srdhm16(r, m_relu);
        if to_relu.shift > 0 {
            r = saturate(shift_left(r, 1));
        } else if to_relu.shift < 0 {
            r = rdbpot16(r, -to_relu.shift);
        }
        let r = (i32::from(r) + 32_768) >> 1;
        let p = saturate(r * i32::from(v) / (1 << 15));
        // A positive shift needs an output scale far below the input's; the reference refuses it.
        let y = if to_output.shift > 0 {
            shift_left(p, to_output.shift)
        } else {
            i32::from(rdbpot16(p, -to_output.shift))
        };
        y.saturating_add(zero_point)
    })
}

/// `x / 2^exponent` as the reference has it in 16 bits: the mask of what is cut off is -1 from an
/// exponent of 16 on, so that nothing becomes 0.
fn rdbpot16(x: i16, exponent: i32) -> i16 {
    match exponent {
        ..=0 => x,
        1..16 => saturate(rdbpot(i32::from(x), exponent)),
        _ if x < 0 => -1,
        _ => 1,
    }
}

fn shift_left(x: i16, by: i32) -> i32 {
    i32::from(x).saturating_mul(1 << by.clamp(0, 15))
}

#[expect(clippy::cast_possible_truncation, reason = "clamped")]
fn saturate(x: i32) -> i16 {
    x.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
}

/// The upper half of a 31-bit fraction, rounded.
fn sixteen_bits(fraction: i32) -> i16 {
    if fraction >= i32::MAX - (1 << 15) { i16::MAX } else { saturate((fraction + (1 << 15)) >> 16) }
}
